"""What a report is asked: of which data, which records, and what may be put together though it is unlike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proofcost.reports.dataset import Data, open_data
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
