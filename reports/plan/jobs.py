"""Verdicts as a fleet sees them: what one sandbox does from its start to its end.

A judge's run that was measured as a `whole` is one verdict. Where none was, the records of a session add up to one
(times as a sum, memory as the largest) unless the session repeats itself: then each record stands for itself, as a
bench's turns do, or a list that was imported. Kernels that the plan leaves out are taken out of the whole's time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import duckdb
import numpy as np

from proofcost.reports.dataset import Data
from proofcost.reports.plan.evidence import Amounts, floats, largest
from proofcost.reports.statistics.sample import Floats


class Unit(Enum):
    """What stands for one verdict."""

    WHOLE = "a whole run of the judge"
    SESSION = "all records of one session, added up"
    RECORD = "one record"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All that were seen, in the order in which they began, one entry each in the columns of shape (n,)."""

    unit: Unit
    started_ns: np.ndarray
    wall_ns: Floats
    memory_bytes: Floats
    size_bytes: Floats
    """NaN where not known."""
    late: np.ndarray
    """Which a time limit stopped: their wall is what they had taken by then."""
    memory_cut: np.ndarray
    memory: Amounts
    wall: Amounts
    disk: Amounts
    """Of each submission the largest: what limits are made of."""
    startup_ns: float | None
    """Median of what a verdict's sandboxes took to start, all together."""
    threads: int | None
    """Most that any of its kernels used."""

    @property
    def count(self) -> int:
        return int(self.wall_ns.size)


_UNITS = {"whole": Unit.WHOLE, "session": Unit.SESSION, "record": Unit.RECORD}

_JOBS = """
    CREATE OR REPLACE TEMP TABLE plan_jobs AS
    WITH sessions AS (
        SELECT session AS of_session, bool_or(phase = 'whole') AS whole,
            count(*) = count(DISTINCT coalesce(phase, '') || '|' || coalesce(kernel, '')) AS once
        FROM plan_used GROUP BY session
    ), dropped AS (SELECT session AS of_session, sum(wall) AS wall FROM plan_dropped GROUP BY session),
    peaks AS (
        SELECT session AS of_session, max(memory) AS memory, bool_or(memory_cut) AS memory_cut
        FROM plan_used WHERE phase <> 'whole' GROUP BY session
    ), wholes AS (
        SELECT record AS job, submission, started_ns,
            CASE WHEN dropped.wall IS NULL THEN used.wall
                ELSE greatest(used.wall - dropped.wall, 1) END AS wall, wall_cut,
            CASE WHEN dropped.wall IS NULL THEN used.memory ELSE peaks.memory END AS memory,
            CASE WHEN dropped.wall IS NULL THEN used.memory_cut ELSE peaks.memory_cut END AS memory_cut,
            disk, disk_cut, size, fate = 'late' AS late, 'whole' AS unit
        FROM plan_used AS used LEFT JOIN dropped ON used.session = dropped.of_session
            LEFT JOIN peaks ON used.session = peaks.of_session
        WHERE phase = 'whole'
    ), sums AS (
        SELECT session AS job, min(submission) AS submission, min(started_ns) AS started_ns,
            CASE WHEN count(*) = count(wall) THEN sum(wall) END AS wall, bool_or(wall_cut) AS wall_cut,
            max(memory) AS memory, bool_or(memory_cut) AS memory_cut,
            sum(disk) AS disk, bool_or(disk_cut) AS disk_cut, max(size) AS size,
            bool_or(fate = 'late') AS late, 'session' AS unit
        FROM plan_used JOIN sessions ON session = of_session WHERE NOT whole AND once GROUP BY session
        HAVING count(*) > 1
    ), singles AS (
        SELECT record AS job, submission, started_ns, wall, wall_cut, memory, memory_cut, disk, disk_cut, size,
            fate = 'late' AS late, 'record' AS unit
        FROM plan_used LEFT JOIN sessions ON session = of_session
        WHERE NOT coalesce(whole, false) AND record NOT IN (
            SELECT record FROM plan_used JOIN sums ON session = job
        )
    )
    SELECT * FROM wholes UNION ALL SELECT * FROM sums UNION ALL SELECT * FROM singles
"""


def verdicts(data: Data) -> Verdicts:
    """Of the records that `evidence.gather` chose. Where some are wholes, they alone count."""
    connection = data.connection
    connection.execute(_JOBS)
    kinds = {row[0] for row in connection.execute("SELECT DISTINCT unit FROM plan_jobs").fetchall()}
    unit = next((one for one in _UNITS if one in kinds), "record")
    connection.execute("DELETE FROM plan_jobs WHERE unit <> ?", (unit,))
    found = connection.execute(
        """SELECT started_ns, wall, late, memory, memory_cut, size FROM plan_jobs WHERE wall > 0
           ORDER BY started_ns, job"""
    ).fetchnumpy()
    return Verdicts(
        unit=_UNITS[unit],
        started_ns=np.ma.filled(np.ma.asarray(found["started_ns"]), 0).astype(np.int64),
        wall_ns=floats(found["wall"]),
        memory_bytes=floats(found["memory"]),
        size_bytes=floats(found["size"]),
        late=_flags(found["late"]),
        memory_cut=_flags(found["memory_cut"]),
        memory=largest(connection, "memory", "plan_jobs"),
        wall=largest(connection, "wall", "plan_jobs"),
        disk=largest(connection, "disk", "plan_jobs"),
        startup_ns=_startup(connection),
        threads=_threads(connection),
    )


def _flags(column: np.ndarray) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(column, dtype=bool), False)


def _startup(connection: duckdb.DuckDBPyConnection) -> float | None:
    row = connection.execute(
        "SELECT median(total) FROM (SELECT sum(sandbox_startup) AS total FROM plan_used WHERE sandbox_startup > 0 "
        "GROUP BY session)"
    ).fetchone()
    return None if row is None or row[0] is None else float(row[0])


def _threads(connection: duckdb.DuckDBPyConnection) -> int | None:
    row = connection.execute("SELECT max(TRY_CAST(g_threads AS INTEGER)) FROM plan_used").fetchone()
    return None if row is None or row[0] is None else int(row[0])
