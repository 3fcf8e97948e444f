"""What a report is asked: of which data, which records, and what may be put together though it is unlike."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from proofcost.reports.dataset import VIEW, Data, open_data
from proofcost.reports.engine import Opening
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.reports.where import Where, WhereError, parse

_SUGGESTED = ("kernel", "workload", "subject", "suite", "phase", "host_class", "verdict", "outcome", "cause")
"""Columns whose values may be misspelt."""


class ReportError(Exception):
    """There is no such report of this data. One line: why, and what would do."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question."""

    data: Data
    where: Where
    pool: tuple[str, ...] = ()
    """Guarded columns (reports/metrics.py) that may differ within what is put together."""
    said: tuple[str, ...] = ()
    """The same for people: what `Document.data` says."""


def ask(
    paths: Sequence[str],
    conditions: list[str],
    since: str | None,
    pool: Sequence[str],
    opening: Opening = open_data,
) -> Asked:
    """Open the data. `opening`: for which engine. Raises DataError, WhereError, EngineError."""
    where = parse(conditions, since)
    data = opening(paths)
    if conditions or since is not None:
        refuse_none(data, where, conditions)
    said = [inert_outside(path, 200) for path in data.paths]
    said += data.notes
    said += [f"records with {inert_outside(condition, 200)} only" for condition in conditions]
    said += [f"records since {since} only"] if since is not None else []
    said += [f"records put together though they differ in {', '.join(pool)}"] if pool else []
    if data.problems:
        lines = plural(len(data.problems), "line or file", "lines and files")
        said.append(f"all but {lines} that hold no record; `proofcost log` tells which")
    return Asked(data, where, tuple(pool), tuple(said))


def refuse_none(data: Data, where: Where, conditions: Sequence[str]) -> None:
    """Raise WhereError where the conditions leave none of the records there are."""
    if data.rows(f"SELECT 1 FROM {VIEW} WHERE {where.sql} LIMIT 1", where.parameters):
        return
    ((count,),) = data.rows(f"SELECT count(*) FROM {VIEW}")
    if not count:
        return
    hint = ""
    for condition in conditions:
        name, sign, value = condition.partition("=")
        if not sign or name.strip() not in _SUGGESTED:
            continue
        query = f'SELECT DISTINCT "{name.strip()}" FROM {VIEW} WHERE "{name.strip()}" IS NOT NULL LIMIT 1000'
        there = sorted(str(row[0]) for row in data.rows(query))
        if value.strip() not in there and (near := difflib.get_close_matches(value.strip(), there, 1)):
            hint = f"; did you mean {name.strip()}={inert_outside(near[0], 80)}?"
    raise WhereError(f"--where and --since leave none of {plural(count, 'record')}{hint}")


def nothing(data: Data, where: Where) -> str:
    """Why nothing can be reported of these records: there is none, or none came to an end, or none tells its host."""
    query = f"""
        SELECT count(*), count(host_class), count(*) FILTER (WHERE outcome = 'exited') FROM {VIEW}
        WHERE ({where.sql}) AND NOT coalesce(warmup, false)"""
    records, told, exited = data.rows(query, where.parameters)[0]
    if not records:
        return "there is no record to report on; look at --where and --since, or name other data"
    if not exited:
        return f"no run came to an end of its own, of {plural(records, 'run')}: there is no cost"
    if not told:
        return f"no run tells its host class, of {plural(records, 'run')}: imported ones often do not"
    return f"no run of {plural(records, 'run')} has a figure to report on"
