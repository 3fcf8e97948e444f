"""What a report is asked: of which data, which records, and what may be put together though it is unlike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proofcost.reports.dataset import VIEW, Data, open_data
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.reports.where import Where, parse


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


def ask(paths: Sequence[str], conditions: list[str], since: str | None, pool: Sequence[str]) -> Asked:
    """Open the data. Raises DataError, WhereError."""
    where = parse(conditions, since)
    data = open_data(paths)
    said = [inert_outside(path, 200) for path in paths]
    said += [f"records with {inert_outside(condition, 200)} only" for condition in conditions]
    said += [f"records since {since} only"] if since is not None else []
    said += [f"records put together though they differ in {', '.join(pool)}"] if pool else []
    if data.problems:
        lines = plural(len(data.problems), "line or file", "lines and files")
        said.append(f"all but {lines} that hold no record; `proofcost log` tells which")
    return Asked(data, where, tuple(pool), tuple(said))


def nothing(data: Data, where: Where) -> str:
    """Why nothing can be reported of these records: there is none, or none came to an end, or none tells its host."""
    query = f"""
        SELECT count(*), count(host_class), count(*) FILTER (WHERE outcome = 'exited') FROM {VIEW}
        WHERE ({where.sql}) AND NOT coalesce(warmup, false)"""
    records, told, exited = data.connection.execute(query, where.parameters).fetchall()[0]
    if not records:
        return "there is no record to report on; look at --where and --since, or name other data"
    if not exited:
        return f"no run came to an end of its own, of {plural(records, 'run')}: there is no cost"
    if not told:
        return f"no run tells its host class, of {plural(records, 'run')}: imported ones often do not"
    return f"no run of {plural(records, 'run')} has a figure to report on"
