"""Chosen records -> cells: the database groups them in one pass, and what it found of each group is put together here.

A group is all that tells cells, units and endings apart, and whatever differs of what cells say all values of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from proofcost.reports.binned import binned_query, binned_values, lists
from proofcost.reports.cell import NO_UNIT, TOO_EARLY, UNKNOWN, Cell
from proofcost.reports.cell_sql import ELAPSED, Asked, apart, cut, texts_of
from proofcost.reports.cell_sql import TOO_EARLY as EARLY
from proofcost.reports.cell_survey import Survey, hashes
from proofcost.reports.dataset import DataError
from proofcost.reports.metrics import Metric
from proofcost.reports.values import Values, pooled

HASHED_FROM = 1_000_000
"""Runs from which on texts are grouped by their hashes."""
DIGEST = "kernel_sha256"
"""Always among `Asked.sets`, as the first."""
_ENDING = ("verdict", "outcome", "cause")
_FACTS = ("n", "first_ns", "last_ns", "backwards")

Key = tuple[str, ...]


def reduced(
    asked: Asked, survey: Survey, metrics: Sequence[Metric], kept: Sequence[Metric], bins: bool
) -> dict[Key, Cell]:
    """The cells, with the figures of `kept`, each or in bins, and what limits cut off of `metrics`: in one pass over
    the records. Raises WhereError.
    """
    if not survey.runs:
        return {}
    varying = list(dict.fromkeys(name for name in asked.sets if name not in survey.same))
    named = dict(zip(asked.keys, map(asked.expression, asked.by), strict=True))
    named |= dict(zip(asked.units, map(asked.expression, asked.unit), strict=True))
    named |= {f"g{at}": asked.expression(name) for at, name in enumerate(varying)}
    named |= {name: name for name in _ENDING}
    # Another engine hashes in its own way, nulls above all: there texts are grouped as they are.
    hashed = hashes(asked, list(named.values())) if survey.runs >= HASHED_FROM and asked.data.answers is None else {}
    columns = [f"{f'hash({of})' if of in hashed else of} AS {name}" for name, of in named.items()]
    columns += ["exit_code", f"{EARLY if survey.early else 'false'} AS early", "started_ns"]
    columns += [f"CASE WHEN {ELAPSED} < 0 THEN 1 END AS backwards"] if survey.backwards else []
    bounded = {metric: of for metric in metrics if (of := cut(metric)) is not None} if survey.cut else {}
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
    return pa.array(list(by_hash.values()), pa.string()).take(pa.array(places))


def _gathered(
    asked: Asked,
    survey: Survey,
    table: pa.Table,
    varying: Sequence[str],
    listed: Sequence[Metric],
    causes: Sequence[str | None],
) -> dict[Key, Cell]:
    """Cells of the groups in `table`. `causes`: what cuts each of `listed` off."""
    endings = _endings(table)
    cells: dict[Key, Cell] = {}
    # What is the same everywhere, or has the same value, is one set for all cells: nobody may change it.
    same = {name: {survey.same[name]} for name in asked.sets[1:] if name in survey.same}
    digests = {survey.same.get(DIGEST, "")} - {""}
    places: list[tuple[Cell, Key]] = []
    facts = zip(*(table.column(name).to_pylist() for name in _FACTS), strict=True)
    told = zip(keys_and_units(asked, table), endings, facts, strict=True)
    for (key, unit), (ending, _, _), (count, first, last, backwards) in told:
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell(key, guarded=same.copy(), kernels=digests)
        cell.runs += count
        cell.ends[ending] += count
        cell.backwards += backwards
        if first is not None:
            cell.first_ns = first if cell.first_ns is None else min(first, cell.first_ns)
            cell.last_ns = last if cell.last_ns is None else max(last, cell.last_ns)
        places.append((cell, unit))
    for at, name in enumerate(varying):
        texts = texts_of(table.column(f"g{at}"), "")
        single = {text: {text} for text in texts}
        if name == DIGEST:
            for (cell, _), text in zip(places, texts, strict=True):
                if text and text not in cell.kernels:
                    cell.kernels = cell.kernels | {text} if cell.kernels else single[text]
        if name in asked.sets[1:]:
            for (cell, _), text in zip(places, texts, strict=True):
                known = cell.guarded.get(name)
                if known is None:
                    cell.guarded[name] = single[text]
                elif text not in known:
                    cell.guarded[name] = known | {text}
    for at, metric in enumerate(listed):
        _put(metric, table, at, places, endings, causes[at])
    for cell in cells.values():
        if len(cell.ends) > 1:  # else in the order of the groups, which is any
            cell.ends = Counter(dict(sorted(cell.ends.items())))
    return cells


def _put(
    metric: Metric,
    table: pa.Table,
    at: int,
    places: Sequence[tuple[Cell, Key]],
    endings: Sequence[tuple[str, bool, str | None]],
    cause: str | None,
) -> None:
    """Put a metric's figures, and what it is at least where `cause` cut it off, into the cells of their groups."""
    binned = f"p{at}" in table.column_names
    figures = binned_values(table, at) if binned else ((row, Values(one)) for row, one in lists(table.column(f"m{at}")))
    for row, values in figures:
        if endings[row][1]:
            cell, unit = places[row]
            of_metric = cell.values.setdefault(metric.name, {})
            known = of_metric.get(unit)
            of_metric[unit] = values if known is None else pooled([known, values])
    if cause is None:
        return
    for row, numbers in lists(table.column(f"{'c' if binned else 'm'}{at}")):
        if endings[row][2] == cause:
            bounds = places[row][0].censored
            bounds[metric.name] = sorted([*bounds.get(metric.name, ()), *numbers.tolist()])


def _endings(table: pa.Table) -> list[tuple[str, bool, str | None]]:
    """`_ending` of each group."""
    names = (*_ENDING, "exit_code", "early")
    return [_ending(*one) for one in zip(*(table.column(name).to_pylist() for name in names), strict=True)]


@lru_cache(10_000)
def _ending(
    verdict: str | None, outcome: str | None, cause: str | None, code: int | None, early: bool
) -> tuple[str, bool, str | None]:
    """How runs ended; whether they did so by themselves, so that their figures count; else by which limit, if those are
    bounds."""
    ended = outcome == "exited" and cause in (None, "completed")
    cut_by = cause if verdict is None and not early and not ended else None
    if verdict is not None and verdict != "read":
        return verdict, ended, cut_by
    if ended:
        return f"exit {'?' if code is None else code}", True, None
    if early:
        return TOO_EARLY, False, cut_by
    return cause if cause is not None else outcome if outcome is not None else "unknown", False, cut_by


def keys_and_units(asked: Asked, table: pa.Table) -> Iterator[tuple[Key, Key]]:
    """Of each row."""
    count = len(asked.keys)
    named = [texts_of(table.column(name), UNKNOWN) for name in asked.keys]
    named += [texts_of(table.column(name), NO_UNIT) for name in asked.units]
    if not asked.units and named:  # by far the most often
        for key in zip(*named, strict=True):
            yield key, ()
        return
    for row in zip(*named, strict=True) if named else [()] * table.num_rows:
        yield row[:count], row[count:]
