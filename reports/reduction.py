"""Chosen records -> cells: the database groups them in one pass, and what it found of each group is put together here.

A group is all that tells cells, units and endings apart, and whatever differs of what cells say all values of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from proofcost.reports.binned import binned_query, binned_values, lists
from proofcost.reports.cell import TOO_EARLY, Cell
from proofcost.reports.cell_sql import ELAPSED, TIME_LIMIT, Asked, apart, cut
from proofcost.reports.cell_sql import TOO_EARLY as EARLY
from proofcost.reports.cell_survey import Survey, hashes
from proofcost.reports.dataset import DataError
from proofcost.reports.groups import Coded, Groups, encoded
from proofcost.reports.metrics import Metric
from proofcost.reports.statistics.sample import Ints
from proofcost.reports.values import Values, pooled

HASHED_FROM = 1_000_000
"""Runs from which on texts are grouped by their hashes."""
DIGEST = "kernel_sha256"
"""Always among `Asked.sets`, as the first."""
_ENDING = ("verdict", "outcome", "cause")


def reduced(asked: Asked, survey: Survey, metrics: Sequence[Metric], kept: Sequence[Metric], bins: bool) -> list[Cell]:
    """The cells in the order of their keys, with the figures of `kept`, each or in bins, and what limits cut off of
    `metrics`: in one pass over the records. Raises WhereError.
    """
    if not survey.runs:
        return []
    varying = list(dict.fromkeys(name for name in asked.sets if name not in survey.same))
    named = dict(zip(asked.keys, map(asked.expression, asked.by), strict=True))
    named |= dict(zip(asked.units, map(asked.expression, asked.unit), strict=True))
    named |= {f"g{at}": asked.expression(name) for at, name in enumerate(varying)}
    named |= {name: name for name in _ENDING}
    # Another engine hashes in its own way, nulls above all: there texts are grouped as they are.
    hashed = hashes(asked, list(named.values())) if survey.runs >= HASHED_FROM and asked.data.answers is None else {}
    columns = [f"{f'hash({of})' if of in hashed else of} AS {name}" for name, of in named.items()]
    columns += ["exit_code", f"{EARLY if TIME_LIMIT in survey.causes else 'false'} AS early", "started_ns"]
    columns += [f"CASE WHEN {ELAPSED} < 0 THEN 1 END AS backwards"] if survey.backwards else []
    bounded = {metric: of for metric in metrics if (of := cut(metric)) is not None and of[0] in survey.causes}
    listed = [metric for metric in metrics if metric in kept or metric in bounded]
    bins = bins and bool(listed)
    for at, metric in enumerate(listed):
        figure = apart(metric) if metric in kept else "CAST(NULL AS BIGINT)"
        cause, bound = bounded.get(metric, ("", "CAST(NULL AS BIGINT)"))
        cut_off = f"CASE WHEN cause = '{cause}' THEN {bound}"
        if bins:
            columns.append(f"CASE WHEN NOT coalesce(cause = '{cause}', false) THEN {figure} END AS m{at}")
            columns.append(f"{cut_off} END AS c{at}" if metric in bounded else f"CAST(NULL AS BIGINT) AS c{at}")
        else:
            # A run that a limit cut off has no figure: the bound takes its place, and its group tells which it is.
            columns.append(f"{f'{cut_off} ELSE {figure} END' if metric in bounded else figure} AS m{at}")
    groups = [*named, "exit_code", "early"]
    facts = ["count(*) AS n", "min(started_ns) AS first_ns", "max(started_ns) AS last_ns"]
    facts += ["count(backwards) AS backwards" if survey.backwards else "0 AS backwards"]
    if bins:
        query = binned_query(asked.chosen(columns), groups, facts, range(len(listed)))
    else:
        facts += [f"list(m{at}) FILTER (WHERE m{at} > 0) AS m{at}" for at in range(len(listed))]
        chosen, by = asked.chosen(columns), ", ".join(groups)
        query = f"SELECT {by}, {', '.join(facts)} FROM ({chosen}) AS chosen GROUP BY {by}"
    table = asked.fetch(query)
    for place, (name, text) in enumerate(named.items()):
        if text in hashed:
            table = table.set_column(place, name, _texts(table.column(name), hashed[text]))
    causes = [bounded[metric][0] if metric in bounded else None for metric in listed]
    return _gathered(asked, survey, table, varying, listed, causes)


def _texts(column: pa.ChunkedArray, by_hash: Mapping[int, str | None]) -> pa.Array:
    """The texts of hashes. Raises DataError for a hash of none of them."""
    numbers = np.fromiter(by_hash, np.uint64, len(by_hash))
    order = np.argsort(numbers)
    seen = column.to_numpy()
    places = order[np.minimum(np.searchsorted(numbers, seen, sorter=order), numbers.size - 1)]
    # The database hashed twice, the texts alone and those of all records: another text than a record's own would be a
    # lie.
    if not (numbers[places] == seen).all():
        raise DataError("the records changed while they were read; ask again")
    return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(list(by_hash.values()), pa.string()))


def _gathered(
    asked: Asked,
    survey: Survey,
    table: pa.Table,
    varying: Sequence[str],
    listed: Sequence[Metric],
    causes: Sequence[str | None],
) -> list[Cell]:
    """Cells of the groups in `table`, in the order of their keys. `causes`: what cuts each of `listed` off."""
    kinds, kind_of = _endings(table)
    texts = sorted({kind.text for kind in kinds})
    of_kind = np.array([texts.index(kind.text) for kind in kinds], np.int64)
    groups = Groups(asked, table, Coded(texts, of_kind[kind_of]))
    cells = groups.cells()
    # What is the same everywhere, or has the same value, is one set for all cells: nobody may change it.
    same = {name: {survey.same[name]} for name in asked.sets[1:] if name in survey.same}
    digests = {survey.same.get(DIGEST, "")} - {""}
    for cell in cells:
        cell.guarded, cell.kernels = same.copy(), digests
    for at, name in enumerate(varying):
        if name == DIGEST:
            for cell, found in zip(cells, groups.sets(f"g{at}", without=""), strict=True):
                cell.kernels = found
        if name in asked.sets[1:]:
            for cell, found in zip(cells, groups.sets(f"g{at}"), strict=True):
                cell.guarded[name] = found
    numbers, units = groups.places()
    places = [(cells[number], unit) for number, unit in zip(numbers, units, strict=True)]
    endings = [kinds[at] for at in kind_of.tolist()]
    for at, metric in enumerate(listed):
        _put(metric, table, at, places, endings, causes[at])
    return cells


def _put(
    metric: Metric,
    table: pa.Table,
    at: int,
    places: Sequence[tuple[Cell, tuple[str, ...]]],
    endings: Sequence[_Ending],
    cause: str | None,
) -> None:
    """Put a metric's figures, and what it is at least where `cause` cut it off, into the cells of their groups."""
    figures: Iterable[tuple[int, Values]]
    limits: Iterable[tuple[int, Ints]]
    if f"p{at}" in table.column_names:
        figures, limits = binned_values(table, at), lists(table.column(f"c{at}"))
    else:
        limits = list(lists(table.column(f"m{at}")))
        figures = ((row, Values(numbers)) for row, numbers in limits if endings[row].counts)
    for row, values in figures:
        if endings[row].counts:
            cell, unit = places[row]
            of_metric = cell.values.setdefault(metric.name, {})
            known = of_metric.get(unit)
            of_metric[unit] = values if known is None else pooled([known, values])
    if cause is None:
        return
    for row, numbers in limits:
        if endings[row].cut_by == cause:
            bounds = places[row][0].censored
            bounds[metric.name] = sorted([*bounds.get(metric.name, ()), *numbers.tolist()])


@dataclass(frozen=True, slots=True)
class _Ending:
    """How the runs of a group ended."""

    text: str
    counts: bool
    """Whether they did so by themselves, so that their figures count."""
    cut_by: str | None
    """Else by which limit, if those are bounds."""


def _endings(table: pa.Table) -> tuple[list[_Ending], Ints]:
    """Each combination of what tells an ending, and of each group the place of its own."""
    columns = [encoded(table.column(name)) for name in (*_ENDING, "exit_code", "early")]
    combined = np.ravel_multi_index([places for _, places in columns], [len(values) for values, _ in columns])
    _, first, place = np.unique(combined, return_index=True, return_inverse=True)
    rows = zip(*([values[at] for at in places[first]] for values, places in columns), strict=True)
    return [_ending(*row) for row in rows], place


def _ending(verdict: str | None, outcome: str | None, cause: str | None, code: int | None, early: bool) -> _Ending:
    ended = outcome == "exited" and cause in (None, "completed")
    cut_by = cause if verdict is None and not early and not ended else None
    if verdict is not None and verdict != "read":
        return _Ending(verdict, ended, cut_by)
    if ended:
        return _Ending(f"exit {'?' if code is None else code}", True, None)
    if early:
        return _Ending(TOO_EARLY, False, cut_by)
    return _Ending(cause if cause is not None else outcome if outcome is not None else "unknown", False, cut_by)
