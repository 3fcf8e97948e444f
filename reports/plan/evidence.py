"""What the records say: for each phase, kernel and class of submission the amounts seen, and which were cut short.

A run that a limit, its caller or an unknown hand stopped shows a bound of what it would have needed; so does a peak at
its cap, killed or not, since what is at its limit has its page cache taken away first. A time-out long before its limit
is none: what ended there is not known, and it is left out and said. Runs of the same submission are no news about
others, so of each submission the largest amount counts, once. What is unlike is not pooled: it is refused, and named.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np

from proofcost.harness.columns import COLUMNS, Kind
from proofcost.harness.described import shown
from proofcost.reports.dataset import Data
from proofcost.reports.inert import inert
from proofcost.reports.plan.asked import Asked
from proofcost.reports.statistics.sample import Floats
from proofcost.reports.units import plural
from proofcost.reports.where import CACHE_STATE, Where, reach

FAKE_BELOW = 0.5
"""A "time-out" that took less of its limit than this is none: the least that timers, loaded hosts and limits of another
scope can explain is far above it."""
AT_CAP = 0.99
"""A peak of so much of its limit was capped by it."""
GUARDED = ("host_class", "threads", "sandbox", "config_sha256", "metric_definitions", "source")
"""Must be one and the same in a group: amounts of runs that differ in one of these are not alike."""
METHODS = {
    "memory": ("memory_peak_tree", "memory_peak_process", "peaks of the tree", "peaks of a process"),
    "wall": ("wall_command", "wall_program", "times of the command", "times of the program alone"),
}
"""Two figures that stand for one another, but not beside one another in a group: their columns, and in words."""
FIGURES = ("wall_command", "wall_program", "memory_peak_tree", "memory_peak_process", "disk_peak_writable")
_TEXTS = {column.name for column in COLUMNS if column.kind is Kind.TEXT and column.name != "events"}
_LISTED = 5
_LOOKED_AT = 10_000
"""Different labels that are looked through for what a misspelt name may mean."""
MOST_CLASSES = 50
"""Each is a row of every table, and takes as long to work out as a plan of its own."""


class PlanError(Exception):
    """A plan that cannot be made of these records. One line: what, where, which value, and how to mend it."""


class ImpossibleError(PlanError):
    """What was asked for cannot be, whatever is measured: too little host, or too much load."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """One figure of runs; shape (n,) each."""

    values: Floats
    """Above 0, in ns or bytes."""
    stopped: np.ndarray
    """Which were cut short: a bound."""
    sizes: Floats
    """Bytes of what was checked; NaN where not known."""
    started_ns: np.ndarray

    @property
    def count(self) -> int:
        return int(self.values.size)

    def part(self, chosen: np.ndarray) -> Amounts:
        return Amounts(self.values[chosen], self.stopped[chosen], self.sizes[chosen], self.started_ns[chosen])


def no_amounts() -> Amounts:
    none = np.zeros(0)
    return Amounts(none, none.astype(bool), none, none.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one phase, kernel and class of submission."""

    phase: str
    kernel: str | None
    of: str
    """The class; empty where none was asked for."""
    runs: int
    submissions: int
    kills: int
    """For their memory limit."""
    timeouts: int
    memory: Amounts
    wall: Amounts
    disk: Amounts
    memory_limit_bytes: int | None
    time_limit_ns: int | None
    """Largest in force; None where no run had one."""
    startup: Floats = field(default_factory=lambda: np.zeros(0))
    """ns that the sandbox took to start."""

    @property
    def name(self) -> str:
        """`checker nanoda, tier=hard`."""
        named = f"{self.phase} {self.kernel}" if self.kernel else self.phase
        return f"{named}, {self.of}" if self.of else named


@dataclass(frozen=True, slots=True)
class Evidence:
    groups: tuple[Group, ...]
    records: int
    used: int
    first_ns: int | None
    last_ns: int | None
    left_out: tuple[str, ...]
    """What was not looked at, and why."""
    weaknesses: tuple[str, ...]
    """What bears on the figures: of sources, methods, known defects."""
    kernels: tuple[str, ...]
    host_classes: tuple[str, ...]
    """All that records name, those that are not planned for as well."""

    def memory_unknown(self) -> bool:
        return not any(group.memory.count for group in self.groups)


EXPORT_SIZES = """
    UPDATE plan_used SET size = found.size FROM (
        SELECT session AS of_session, max(size) FILTER (phase = 'checker') AS size FROM plan_used GROUP BY session
    ) AS found
    WHERE session = of_session AND coalesce(phase, '') <> 'checker'
"""
"""What drives the cost of all of a judge's run is the export that its checkers read, not its configuration's size."""

OF_CLASSES = """
    CREATE OR REPLACE TEMP TABLE plan_classes AS
    SELECT submission, coalesce(phase, '') || ' ' || coalesce(kernel, '') AS work, host_class, wall FROM plan_runs
    WHERE fate = 'ended' AND wall > 0 AND host_class IS NOT NULL AND subject IS NOT NULL
"""
"""Of all host classes, for the model that carries times from one to another."""

LEFT_OUT = {
    "warm-up": "{} that only warmed up",
    "counted": "{} under callgrind, whose times and memory are not those of the program",
    "side by side": "{} that a bench ran side by side: the host section takes those",
    "nothing": "{} of which only the start is known, or that never started",
    "fake": "{} called a time-out that ended before half of its limit: no time-out, and nobody knows what it was",
}


def _runs(where: str, of: str) -> str:
    """SQL of the runs that are looked at, one a row: `fate` says how each ended."""
    statuses = ", ".join(
        f"CASE WHEN {name} > 0 AND weak LIKE '%\"{name}\":%' THEN json_extract_string(weak, '$.{name}') END AS s_{name}"
        for name in FIGURES
    )
    return f"""
    WITH here AS (
        SELECT *, coalesce(nullif(wall_command, 0), nullif(wall_program, 0)) AS took,
            coalesce(nullif(memory_peak_tree, 0), nullif(memory_peak_process, 0)) AS peak,
            coalesce(memory_peak_tree, 0) > 0 AS first_memory, coalesce(wall_command, 0) > 0 AS first_wall,
            coalesce(CASE WHEN nullif(memory_peak_tree, 0) IS NOT NULL
                THEN json_extract_string(weak, '$.memory_peak_tree')
                ELSE json_extract_string(weak, '$.memory_peak_process') END, 'measured') AS peak_status,
            coalesce(CASE WHEN nullif(wall_command, 0) IS NOT NULL
                THEN json_extract_string(weak, '$.wall_command')
                ELSE json_extract_string(weak, '$.wall_program') END, 'measured') AS took_status,
            coalesce(outcome = 'timed_out', false) OR coalesce(cause = 'time_limit', false) AS late,
            CASE WHEN suite IS NULL THEN 1
                ELSE coalesce(TRY_CAST(regexp_extract(events, '"co_running":."count":([0-9]+)', 1) AS INTEGER), 1)
            END AS side_by_side
        FROM records WHERE ({where})
    ), fated AS (
        SELECT *, CASE
            WHEN coalesce(warmup, false) THEN 'warm-up'
            WHEN coalesce(counters, '') = 'callgrind' THEN 'counted'
            WHEN side_by_side > 1 THEN 'side by side'
            WHEN outcome IN ('incomplete', 'not_started') OR cause IN ('sandbox_setup_failed', 'not_started')
                THEN 'nothing'
            WHEN late AND took IS NOT NULL AND time_limit_ns IS NOT NULL AND took < {FAKE_BELOW} * time_limit_ns
                THEN 'fake'
            WHEN outcome IS NULL AND verdict IS NULL AND took IS NULL AND peak IS NULL THEN 'nothing'
            WHEN late THEN 'late'
            WHEN cause = 'memory_limit' THEN 'killed'
            WHEN cause IN ('cpu_limit', 'disk_full', 'file_size_limit', 'host_memory', 'killed_cause_unknown',
                'terminated_by_caller') THEN 'stopped'
            ELSE 'ended' END AS fate
        FROM here
    )
    SELECT record, session, phase, kernel, started_ns, subject, host_class, fate, sandbox_startup,
        CASE WHEN peak IS NOT NULL THEN first_memory END AS first_memory,
        CASE WHEN took IS NOT NULL THEN first_wall END AS first_wall,
        {", ".join(f"coalesce(CAST({name} AS VARCHAR), '') AS g_{name}" for name in GUARDED)},
        coalesce(subject, input_sha256, record) AS submission, CAST(input_bytes AS DOUBLE) AS size,
        memory_limit_bytes, time_limit_ns, {of} AS of,
        CASE WHEN took_status = 'contradicted' OR coalesce(beside, 0) > 0 THEN NULL
            WHEN fate = 'late' THEN greatest(coalesce(took, 0), CASE WHEN took IS NULL THEN coalesce(time_limit_ns, 0)
                ELSE 0 END) ELSE took END AS wall,
        fate <> 'ended' OR took_status = 'lower_bound' AS wall_cut,
        CASE WHEN peak_status = 'contradicted' THEN NULL
            WHEN fate = 'killed' THEN greatest(coalesce(peak, 0), coalesce(memory_limit_bytes, 0)) ELSE peak
        END AS memory,
        fate <> 'ended' OR peak_status = 'lower_bound' OR coalesce(peak >= {AT_CAP} * memory_limit_bytes, false)
            AS memory_cut,
        CASE WHEN disk_peak_writable IS NOT NULL THEN greatest(disk_peak_writable, 1) END AS disk,
        fate <> 'ended' AS disk_cut,
        plan, {statuses}, defects, memory_peak_tree IS NULL AS no_tree, memory_peak_process > 0 AS of_process,
        CASE WHEN memory_peak_tree IS NULL THEN json_extract_string(absent, '$.memory_peak_tree') END AS why_no_tree,
        {CACHE_STATE} AS cache_state
    FROM fated
    """


def choose(data: Data, where: Where, asked: Asked) -> None:
    """Make `plan_runs`. Raises PlanError for a class column that there is not."""
    of = " || ', ' || ".join(_class(name) for name in asked.limits.by) or "''"
    try:
        data.keep("plan_runs", _runs(where.sql, of), where.parameters)
    except duckdb.Error as error:
        raise PlanError(f"the records cannot be asked: {str(error).splitlines()[0][:200]}") from None


def _class(name: str) -> str:
    """SQL of one part of the class."""
    head, dot, key = name.partition(".")
    path = key.replace("\\", "\\\\").replace('"', '\\"').replace("'", "''")
    quoted = name.replace("'", "''")
    if dot and head == "label":
        return f"'{quoted}=' || coalesce(json_extract_string(labels, '$.\"{path}\"'), 'none')"
    if (dot and head == "covariate") or name == "input_bytes":
        amount = "input_bytes" if not dot else f"TRY_CAST(json_extract_string(covariates, '$.\"{path}\"') AS BIGINT)"
        low = f"CAST(10 ** floor(log10(nullif({amount}, 0))) AS BIGINT)"
        return f"'{quoted} ' || coalesce('from ' || {low} || ' to ' || 10 * {low}, 'unknown')"
    if name in _TEXTS:
        return f"'{quoted}=' || coalesce(\"{name}\", 'none')"
    near = difflib.get_close_matches(name, [*_TEXTS, "input_bytes"], 1)
    hint = f"did you mean {near[0]}?" if near else "a text column, input_bytes, label.KEY or covariate.NAME"
    raise PlanError(f"limits.by: no class can be made of {name!r}; {hint}")


def _classes_there_are(data: Data, where: Where, asked: Asked) -> None:
    """Raise PlanError for a class by a label or covariate that no record has, or for too many classes."""
    how = asked.said.get("limits.by", "limits.by")
    for name in asked.limits.by:
        head, dot, key = name.partition(".")
        if not dot or head not in ("label", "covariate"):
            continue
        _, _, path = reach(name, how)
        query = f"SELECT 1 FROM records WHERE json_extract_string({head}s, ?) IS NOT NULL AND ({where.sql}) LIMIT 1"
        if data.rows(query, (*path, *where.parameters)):
            continue
        known = _names(data, f"{head}s", where)
        if key not in known:
            raise PlanError(f"{how}: no record has a {head} {shown(key)}{_suggested(key, known)}")
    count = _one(data.connection, "SELECT count(DISTINCT of) FROM plan_runs")
    if count > MOST_CLASSES:
        by = ", ".join(inert(name, 40, True) for name in asked.limits.by)
        raise PlanError(
            f"{how}: {by}: {count} classes of submission, and {MOST_CLASSES} at most are planned for; take what has "
            "few values, a size (input_bytes: a class is a decade), or fewer records (--where)"
        )


def _names(data: Data, column: str, where: Where) -> list[str]:
    """Of labels or covariates, as far as a look at some of them tells."""
    query = f"SELECT DISTINCT {column} FROM records WHERE {column} IS NOT NULL AND ({where.sql}) LIMIT {_LOOKED_AT}"
    known: set[str] = set()
    for (text,) in data.rows(query, where.parameters):
        with contextlib.suppress(ValueError, RecursionError):
            made = json.loads(text)
            known.update(made if isinstance(made, dict) else ())
    return sorted(known)


def gather(data: Data, where: Where, asked: Asked) -> Evidence:
    """Reduce the records that `where` chooses to groups. Raises PlanError."""
    choose(data, where, asked)
    connection = data.connection
    total = _one(connection, "SELECT count(*) FROM plan_runs")
    if not total:
        raise PlanError(
            "no record to plan from; measure some (proofcost run -- JUDGE...), import some, or name where they are "
            "with --data"
        )
    _classes_there_are(data, where, asked)
    classes = _texts(connection, "SELECT DISTINCT host_class FROM plan_runs WHERE host_class IS NOT NULL")
    kernels = _texts(connection, "SELECT DISTINCT kernel FROM plan_runs WHERE kernel IS NOT NULL")
    connection.execute(OF_CLASSES)
    _narrow(connection, asked, kernels, classes)
    fates = dict(connection.execute("SELECT fate, count(*) FROM plan_runs GROUP BY fate").fetchall())
    if not any(count for fate, count in fates.items() if fate not in LEFT_OUT):
        told = "; ".join(LEFT_OUT[fate].format(plural(count, "run")) for fate, count in sorted(fates.items()))
        raise PlanError(f"nothing to plan from: {told or 'no record is left by the conditions'}")
    names = ", ".join(f"'{fate}'" for fate in LEFT_OUT)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE plan_used AS SELECT * FROM plan_runs WHERE fate NOT IN ({names})")
    connection.execute(EXPORT_SIZES)
    _guard(connection, asked)
    _guard_methods(connection, asked)
    groups = tuple(
        _group(connection, phase, kernel, of)
        for phase, kernel, of in connection.execute(
            "SELECT DISTINCT coalesce(phase, 'unknown'), kernel, of FROM plan_used ORDER BY ALL"
        ).fetchall()
    )
    first, last = connection.execute("SELECT min(started_ns), max(started_ns) FROM plan_used").fetchone() or (
        None,
        None,
    )
    return Evidence(
        groups=groups,
        records=total,
        used=sum(group.runs for group in groups),
        first_ns=first,
        last_ns=last,
        left_out=tuple(LEFT_OUT[fate].format(plural(fates[fate], "run")) for fate in LEFT_OUT if fates.get(fate)),
        weaknesses=tuple(_weaknesses(connection)),
        kernels=tuple(kernels),
        host_classes=tuple(classes),
    )


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    found = connection.execute(query).fetchone()
    return int(found[0]) if found else 0


def _texts(connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return sorted(str(row[0]) for row in connection.execute(query).fetchall())


def _narrow(
    connection: duckdb.DuckDBPyConnection, asked: Asked, kernels: Sequence[str], classes: Sequence[str]
) -> None:
    """Keep the kernels, phases and host class that the plan is for."""
    for what, wanted, known in (
        ("kernel", asked.kernels, kernels),
        ("phase", asked.phases, _texts(connection, "SELECT DISTINCT phase FROM plan_runs WHERE phase IS NOT NULL")),
        ("host class", (asked.host.host_class,) if asked.host and asked.host.host_class else (), classes),
    ):
        for name in wanted:
            if name not in known:
                raise PlanError(f"no record of {what} {name!r}{_suggested(name, known)}")
    connection.execute("CREATE OR REPLACE TEMP TABLE plan_dropped AS SELECT session, wall FROM plan_runs WHERE false")
    if asked.kernels:
        marks = ", ".join("?" * len(asked.kernels))
        connection.execute(
            "INSERT INTO plan_dropped SELECT session, wall FROM plan_runs WHERE kernel IS NOT NULL AND "
            f"kernel NOT IN ({marks})",
            asked.kernels,
        )
        connection.execute(f"DELETE FROM plan_runs WHERE kernel IS NOT NULL AND kernel NOT IN ({marks})", asked.kernels)
    if asked.phases:
        marks = ", ".join("?" * len(asked.phases))
        connection.execute(f"DELETE FROM plan_runs WHERE coalesce(phase, '') NOT IN ({marks})", asked.phases)
    if asked.host is not None and asked.host.host_class is not None:
        connection.execute("DELETE FROM plan_runs WHERE coalesce(host_class, '') <> ?", (asked.host.host_class,))


def _suggested(name: str, known: Sequence[str]) -> str:
    names = [inert(one, 40, True) for one in known]
    near = difflib.get_close_matches(name, known, 1, 0.5)
    if near:
        return f"; did you mean {inert(near[0], 40, True)}?"
    return f"; there are {', '.join(names[:_LISTED])}" if known else "; no record names one"


def _guard(connection: duckdb.DuckDBPyConnection, asked: Asked) -> None:
    """Raise PlanError where a group holds runs that are unlike, and nobody said to pool them."""
    for name in asked.pool:
        if name not in (*GUARDED, *METHODS):
            raise PlanError(f"pool: {name!r} is none of {', '.join((*GUARDED, *METHODS))}")
    for name in GUARDED:
        if name in asked.pool:
            continue
        found = connection.execute(
            f"""SELECT coalesce(phase, 'unknown') || coalesce(' ' || kernel, ''),
                    list(DISTINCT g_{name} ORDER BY g_{name}) AS seen
                FROM plan_used GROUP BY ALL HAVING count(DISTINCT g_{name}) > 1 ORDER BY 1 LIMIT 1"""
        ).fetchone()
        if found is not None:
            values = ", ".join(inert(value, 24, True) or "unknown" for value in found[1][:_LISTED])
            how = f"choose with --where {name}=VALUE"
            if name == "host_class":
                how += " (or class = in [host]: the other classes then serve what-if questions)"
            raise PlanError(
                f"{inert(str(found[0]), 60, True)}: the runs differ in {name} ({values}); {how}, or take them all the "
                f"same with --pool {name}"
            )


def _guard_methods(connection: duckdb.DuckDBPyConnection, asked: Asked) -> None:
    """Raise PlanError where a group mixes figures that are not the same, and nobody said to pool them.

    A run that shows neither counts at its limit, which is a figure of neither kind.
    """
    for name, (column, _, one, other) in METHODS.items():
        if name in asked.pool:
            continue
        found = connection.execute(
            f"""SELECT coalesce(phase, 'unknown') || coalesce(' ' || kernel, '') FROM plan_used WHERE {name} > 0
                GROUP BY ALL HAVING bool_or(first_{name}) AND NOT bool_and(first_{name}) ORDER BY 1 LIMIT 1"""
        ).fetchone()
        if found is not None:
            raise PlanError(
                f"{inert(str(found[0]), 60, True)}: of some runs {one} are known, of others only {other}; choose with "
                f"--where '{column}>0', or take them all the same with --pool {name}"
            )


def _group(connection: duckdb.DuckDBPyConnection, phase: str, kernel: str | None, of: str) -> Group:
    condition = "coalesce(phase, 'unknown') = ? AND kernel IS NOT DISTINCT FROM ? AND of IS NOT DISTINCT FROM ?"
    key = (phase, kernel, of)
    row = connection.execute(
        f"""SELECT count(*), count(DISTINCT submission), count(*) FILTER (fate = 'killed'),
                count(*) FILTER (fate = 'late'), max(memory_limit_bytes), max(time_limit_ns)
            FROM plan_used WHERE {condition}""",
        key,
    ).fetchone()
    assert row is not None

    startup = connection.execute(
        f"SELECT sandbox_startup FROM plan_used WHERE {condition} AND sandbox_startup > 0 ORDER BY record", key
    ).fetchnumpy()["sandbox_startup"]
    return Group(
        phase=phase,
        kernel=kernel,
        of=of or "",
        runs=row[0],
        submissions=row[1],
        kills=row[2],
        timeouts=row[3],
        memory=largest(connection, "memory", "plan_used", condition, key),
        wall=largest(connection, "wall", "plan_used", condition, key),
        disk=largest(connection, "disk", "plan_used", condition, key),
        memory_limit_bytes=row[4],
        time_limit_ns=row[5],
        startup=np.asarray(startup, dtype=float),
    )


def largest(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    table: str,
    condition: str = "true",
    parameters: Sequence[str | None] = (),
) -> Amounts:
    """Of each submission the largest amount, and what is known of that one; in the order of their first starts."""
    found = connection.execute(
        f"""SELECT max({name}) AS value, arg_max({name}_cut, {name}) AS cut, arg_max(size, {name}) AS size,
                min(started_ns) AS started
            FROM {table} WHERE {condition} AND {name} > 0 GROUP BY submission ORDER BY started, submission""",
        parameters,
    ).fetchnumpy()
    return Amounts(
        np.asarray(found["value"], dtype=float),
        np.asarray(found["cut"], dtype=bool),
        floats(found["size"]),
        np.ma.filled(np.ma.asarray(found["started"]), 0).astype(np.int64),
    )


def floats(column: np.ndarray) -> Floats:
    """A column of numbers, NaN for null."""
    made: Floats = np.ma.filled(np.ma.asarray(column, dtype=float), np.nan)
    return made


STATUSES = {
    "sampled": "by sampling: a peak between two samples is not seen, so these are lower bounds",
    "lower_bound": "that are lower bounds: taken as such",
    "upper_bound": "that are upper bounds: taken as if measured, on the safe side",
    "contradicted": "that another way of measuring contradicts: left out",
}
NAMES = {
    "wall_command": "times",
    "wall_program": "times of the program alone",
    "memory_peak_tree": "peaks",
    "memory_peak_process": "peaks of a process",
    "disk_peak_writable": "amounts of disk",
}


def _weaknesses(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """What the sources cannot tell, or tell badly, with how many runs it is so."""
    inside = "SELECT *, nullif(g_source, '') AS source FROM plan_used"
    lines: list[str] = []
    for figure in FIGURES:
        for source, status, count in connection.execute(
            f"""SELECT source, s_{figure} AS status, count(*) FROM ({inside})
                WHERE status IS NOT NULL GROUP BY ALL ORDER BY ALL"""
        ).fetchall():
            if status in STATUSES:
                lines.append(f"{inert(source or 'unknown', 30)}: {count} {NAMES[figure]} {STATUSES[status]}")
    for source, missing, count, process, reason in connection.execute(
        f"""SELECT source, count(*) FILTER (no_tree) AS missing, count(*), count(*) FILTER (no_tree AND of_process),
                mode(why_no_tree ORDER BY why_no_tree) FROM ({inside})
            GROUP BY source HAVING missing > 0 ORDER BY source"""
    ).fetchall():
        name = inert(source or "unknown", 30)
        if process:
            lines.append(
                f"{name}: {process} peaks are of the largest process alone: lower bounds of what the tree needs"
            )
        if missing > process:
            why = f" ({inert(reason, 120)})" if reason else ""
            lines.append(f"{name}: no memory in {missing - process} of {count} runs{why}")
    for source, defect, count in connection.execute(
        f"""SELECT source, defect, count(*) FROM (
                SELECT source, unnest(from_json(defects, '["VARCHAR"]')) AS defect FROM ({inside})
                WHERE defects IS NOT NULL
            ) GROUP BY ALL ORDER BY 3 DESC, 1, 2 LIMIT {_LISTED}"""
    ).fetchall():
        lines.append(f"{inert(source or 'unknown', 30)}: {inert(str(defect), 160)} ({plural(count, 'run')})")
    states = dict(
        connection.execute(
            "SELECT cache_state, count(*) FROM plan_used WHERE cache_state IS NOT NULL GROUP BY ALL"
        ).fetchall()
    )
    if states.get("cold") and states.get("warm"):
        lines.append(
            f"{plural(states['cold'], 'run')} read the input from storage (cold), {states['warm']} found it in memory "
            "(warm): limits cover both, since of each submission the largest counts"
        )
    repeated = connection.execute(
        """SELECT sum(n), count(*) FROM (SELECT count(*) AS n FROM plan_used GROUP BY phase, kernel, submission)
           WHERE n > 1"""
    ).fetchone()
    if repeated and repeated[1]:
        lines.append(
            f"{repeated[0]} runs repeat one of {plural(repeated[1], 'submission')}: for limits the largest of each "
            "counts, once, since repetitions say nothing of other submissions"
        )
    return lines
