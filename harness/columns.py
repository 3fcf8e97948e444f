"""A record as one flat row: what reports, Parquet files and imports from elsewhere have in common.

`COLUMNS` is the data dictionary: name, kind and meaning of each. A figure that was not measured is null there, and
`absent` says why; one that is more or less than its name says stands in `weak` with its status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from proofcost.harness.decode import plain
from proofcost.harness.derive import whole_of
from proofcost.harness.kernels_known import SANDBOX_CODES, meaning_of, name_of
from proofcost.harness.merged import Record, by_session, figure_of, text_at
from proofcost.harness.settings import settings_sha256

_ROOM = 1 << 63
JOURNAL = "journal"
"""`source` of what a meter of ours wrote; imports name their format."""


class Kind(Enum):
    """What a column holds. Text is as the record has it: bytes that are no text are escaped (docs/record.md)."""

    TEXT = "text"
    INT = "integer"
    BOOL = "boolean"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `unit` is `ns`, `bytes` or `count` for a figure, else None."""

    name: str
    kind: Kind
    what: str
    unit: str | None = None


def _texts(**columns: str) -> tuple[Column, ...]:
    return tuple(Column(name, Kind.TEXT, what) for name, what in columns.items())


def _integers(**columns: str) -> tuple[Column, ...]:
    return tuple(Column(name, Kind.INT, what) for name, what in columns.items())


FIGURES: dict[str, tuple[str, str]] = {
    "wall_program": ("ns", "the program in the sandbox: its exec to the exit"),
    "wall_command": ("ns", "the whole command, sandbox included"),
    "sandbox_startup": ("ns", "between the two"),
    "cpu_tree": ("ns", "CPU of the whole tree, by cgroup"),
    "cpu_tree_user": ("ns", "of that, user"),
    "cpu_tree_system": ("ns", "of that, system"),
    "cpu_waited": ("ns", "CPU by wait status: what was waited for"),
    "cpu_waited_user": ("ns", "of that, user"),
    "cpu_waited_system": ("ns", "of that, system"),
    "cpu_judge_self": ("ns", "the judge without its calls"),
    "task_clock": ("ns", "CPU by perf"),
    "instructions:u": ("count", "instructions in user mode"),
    "instructions": ("count", "instructions in user and kernel mode (imports only: never pooled with instructions_u)"),
    "cycles:u": ("count", "cycles in user mode"),
    "instructions_callgrind": ("count", "instructions counted by callgrind: of one process, without the kernel"),
    "page_faults": ("count", "page faults"),
    "page_faults_major": ("count", "page faults that read from storage"),
    "context_switches": ("count", "context switches"),
    "cpu_migrations": ("count", "moves between CPUs"),
    "memory_peak_tree": ("bytes", "peak of the tree"),
    "memory_peak_process": ("bytes", "resident peak of the largest process"),
    "memory_peak_judge_self": ("bytes", "peak of the judge without its calls"),
    "memory_anon_tree": ("bytes", "anonymous memory, largest sample"),
    "memory_file_tree": ("bytes", "page cache, largest sample"),
    "memory_shmem_tree": ("bytes", "shared memory, largest sample"),
    "swap_peak_tree": ("bytes", "peak of swap"),
    "io_read_bytes_tree": ("bytes", "read from storage by the tree"),
    "io_write_bytes_tree": ("bytes", "written to storage by the tree"),
    "io_read_bytes_waited": ("bytes", "read from storage, by wait"),
    "io_write_bytes_waited": ("bytes", "written to storage, by wait"),
    "disk_free_min": ("bytes", "least free space seen"),
    "disk_peak_writable": ("bytes", "largest fall of free space"),
}
"""Figures that have a column of their own, as records name them: unit and meaning. Others stand in `other_figures`."""


DISTURBANCES: dict[str, tuple[str, str]] = {
    "steal": ("ns", "CPU time the hypervisor took"),
    "throttled": ("ns", "time held back by a CPU quota"),
    "busy": ("ns", "CPU time of all, the command included"),
    "swap_in": ("count", "pages swapped in"),
    "swap_out": ("count", "pages swapped out"),
    "psi_cpu_some": ("ns", "stall: some waited for a CPU"),
    "psi_memory_some": ("ns", "stall: some waited for memory"),
    "psi_memory_full": ("ns", "stall: all waited for memory"),
    "psi_io_some": ("ns", "stall: some waited for storage"),
    "psi_io_full": ("ns", "stall: all waited for storage"),
    "host_oom_kills": ("count", "processes killed for the host's memory"),
}
"""What the whole host did over the run; columns `host_...`."""


def column_of(figure: str) -> str:
    """The column of a figure: `instructions_u` for `instructions:u`."""
    return figure.replace(":", "_")


COLUMNS: tuple[Column, ...] = (
    *_texts(
        record="id of the invocation, or of the imported value",
        session="id of the judge run or series it belongs to",
        source="`journal`, or the format it was imported from",
        source_name="the imported file's name",
        source_sha256="digest of the imported file",
        host="id of the machine",
        host_class="what matters for cost about the machine",
        boot="id of the machine's boot",
        entrance="how the meter was reached: phase, landrun, bwrap, run, bench, ...",
        trust="who could have forged it: root, collected, user",
        meter_version="version of proofcost",
        phase="what it was for; challenge- before it where it was for the challenge",
        side="challenge or solution",
        subject="what was checked: the label `subject`, a workload, else the digest of the solution's source or export",
        module="the module built or exported",
        kernel="a checker's name: as people gave it (the judge's configuration, a suite), else by its program",
        kernel_version="its version, where it tells",
        kernel_sha256="digest of its binary",
        config_sha256="digest of its settings: the configuration without the export's path, the environment named",
        sandbox="landrun, bwrap, none",
        suite="of a bench: the suite's name",
        plan="of a bench: digest of the plan, the same for all of one series",
        workload="of a bench: name of what was checked",
        family="of a bench: the generated family it is of",
        counters="of a bench: how instructions were counted",
        input_sha256="digest of what was checked, where known",
        expected="the verdict that was to be expected: accepted or rejected",
        verdict="accepted, rejected, declined, ambiguous, error; null where no one knows what the exit code means",
        outcome="exited, signaled, timed_out, not_started; incomplete where the meter vanished",
        cause="completed, memory_limit, time_limit, ... (docs/record.md)",
    ),
    Column("sandbox_enforced", Kind.BOOL, "whether the sandbox is known to have confined it"),
    Column("warmup", Kind.BOOL, "it only warmed up; no sample"),
    *_integers(
        started_ns="real time of its start, ns since 1970",
        metric_definitions="changes when a figure's meaning changes",
        threads="threads of the kernel, where known",
        build="which build of the kernel, from 1",
        block="block of the series, from 1",
        place="place in the block, from 1",
        iteration="repetition, from 1",
        n="size of a generated workload",
        exit_code="exit code",
        signal="number of the signal that ended it",
        memory_limit_bytes="least memory limit in force",
        time_limit_ns="time limit in force",
        input_bytes="size of the files that drive its cost",
        stragglers="how many processes outlived it",
        beside="how many earlier calls' leavings it ran beside: its times are no fair sample",
        faults="parts of the meter that failed",
        meter_before_ns="the meter's own time before the command",
        meter_after_ns="and after it",
    ),
    *(Column(column_of(name), Kind.INT, what, unit) for name, (unit, what) in FIGURES.items()),
    *(
        Column(f"host_{name.removeprefix('host_')}", Kind.INT, what, unit)
        for name, (unit, what) in DISTURBANCES.items()
    ),
    Column("other_figures", Kind.JSON, "{figure: integer} of those without a column, in the unit their name tells"),
    Column("weak", Kind.JSON, "{figure: status} of those not plainly measured: sampled, lower_bound, ..."),
    Column("absent", Kind.JSON, "{figure: reason} of those that are null; `all` where the whole record has none"),
    Column("covariates", Kind.JSON, "{name: integer}: what drives the cost of an export: lines, declarations, ..."),
    Column("labels", Kind.JSON, "{key: text} that people gave"),
    Column("defects", Kind.JSON, "[text]: known defects of the source that bear on this row"),
    Column("events", Kind.TEXT, "everything: the record's events, one JSON object a line"),
)
NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)
_FIGURE_COLUMNS = {name: column_of(name) for name in FIGURES}
_DISTURBANCE_COLUMNS = {name: f"host_{name.removeprefix('host_')}" for name in DISTURBANCES}

Row = dict[str, Any]
"""By column; one that is not there is null. What a JSON column holds is not yet text."""


def rows(records: Sequence[Record]) -> list[Row]:
    """A row for each record (of any sessions), in their order, without `events`."""
    subjects = {session: subject_of(group) for session, group in by_session(records).items()}
    return [{**started_part(record, subjects[record.session]), **finished_part(record)} for record in records]


def subject_of(records: Sequence[Record]) -> str | None:
    """What one judge run checked."""
    for record in records:
        if record.labels.get("subject"):
            return record.labels["subject"]
    for record in records:
        digest = text_at(record.started, "subject", "source_sha256")
        if record.side == "solution" and digest:
            return digest
    whole = whole_of(records)
    return text_at(whole.started, "judge_config", "sha256") if whole is not None else None


def _verdict(record: Record) -> str | None:
    """What the exit code says, where the kernel that exited by itself is one whose codes are known."""
    outcome, bench = record.outcome or {}, record.started.get("bench")
    if outcome.get("kind") != "exited" or outcome.get("cause") != "completed":
        return None
    code = outcome.get("code")
    if type(bench) is dict:
        return _text(_object(bench, "exit_codes"), str(code))
    if record.phase != "checker" or type(code) is not int:
        return None
    # Exec stamps tell whether a sandbox that failed before its program could have given this code instead.
    ran = record.measurement("wall_program")
    sandboxed = text_at(record.started, "sandbox", "kind") not in (None, "none")
    if sandboxed and code in SANDBOX_CODES and (ran is None or ran.value is None):
        return None
    return meaning_of(_program(record), code)


def _kernel(record: Record) -> str | None:
    """A checker's name: as the judge or bench calls it, else as its program is known, else that program's own."""
    if record.kernel_known_by != "record" or type(record.started.get("bench")) is dict:
        return record.kernel
    return name_of(_program(record)) or record.kernel


def _program(record: Record) -> str | None:
    return plain(record.target_name) if record.target_name is not None else None


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _object(holder: Any, name: str) -> dict[str, Any]:
    """The object of this name, an empty one where there is none."""
    found = holder.get(name) if type(holder) is dict else None
    return found if type(found) is dict else {}


def _text(holder: dict[str, Any], name: str) -> str | None:
    found = holder.get(name)
    return found if type(found) is str and found else None


def _integer(holder: Any, name: str) -> int | None:
    """Null as well for what no table has room for: more than 64 bits."""
    found = holder.get(name) if type(holder) is dict else None
    return found if type(found) is int and -_ROOM <= found < _ROOM else None


def started_part(record: Record, subject: str | None) -> Row:
    """The columns that tell what a call was and, of its end, only how that is to be read. `subject`: its session's."""
    started = record.started
    bench, ids = _object(started, "bench"), _object(started, "ids")
    workload, limits, kernel = _object(bench, "workload"), _object(started, "limits"), _object(started, "kernel")
    host, meter, sandbox = _object(started, "host"), _object(started, "meter"), _object(started, "sandbox")
    inputs = started.get("inputs")
    sizes = [_integer(one, "size_bytes") for one in inputs] if type(inputs) is list else []
    row: Row = {
        "record": record.invocation,
        "session": record.session,
        "source": JOURNAL,
        "host": _text(host, "instance"),
        "host_class": _text(host, "class"),
        "boot": _text(host, "boot_id"),
        "entrance": _text(meter, "entrance"),
        "trust": _text(started, "trust"),
        "meter_version": _text(meter, "version"),
        "metric_definitions": _integer(meter, "metric_definitions"),
        "started_ns": record.started_at_ns,
        "phase": record.phase,
        "side": record.side,
        "subject": _text(workload, "name") or subject,
        "module": record.module,
        "kernel": _kernel(record),
        "kernel_version": _text(bench, "version"),
        "kernel_sha256": _text(_object(started, "target"), "sha256") if record.phase == "checker" else None,
        "config_sha256": _text(bench, "settings_sha256") or settings_sha256(started),
        "threads": _integer(kernel, "threads_count"),
        "sandbox": _text(sandbox, "kind"),
        "sandbox_enforced": _boolean(sandbox.get("enforced")),
        "suite": _text(bench, "suite"),
        "plan": _text(bench, "plan_sha256"),
        "workload": _text(workload, "name"),
        "family": _text(workload, "family"),
        "input_sha256": _text(workload, "sha256"),
        "n": _integer(workload, "n"),
        "expected": _text(workload, "expected"),
        "counters": _text(bench, "counters"),
        "build": _integer(ids, "build"),
        "block": _integer(ids, "block"),
        "place": _integer(ids, "order"),
        "iteration": _integer(ids, "iteration"),
        "warmup": _boolean(ids.get("warmup")),
        "verdict": _verdict(record),
        "memory_limit_bytes": _least(
            _integer(limits, "memory_limit_bytes"), _integer(_object(limits, "cgroup_memory_bytes"), "value")
        ),
        "time_limit_ns": _integer(limits, "timeout_ns"),
        "input_bytes": _integer(workload, "size_bytes") or _sum(sizes),
        "beside": len(record.beside),
        "covariates": _integers_of(bench.get("covariates")),
        "labels": record.labels or None,
    }
    return {name: value for name, value in row.items() if value is not None}


def finished_part(record: Record) -> Row:
    """The columns that `finished` and `settled` fill, whatever was started."""
    finished, outcome = record.finished or {}, record.outcome or {}
    cost, faults = _object(finished, "meter_cost"), finished.get("faults")
    row: Row = {
        "outcome": _text(outcome, "kind") or "incomplete",
        "exit_code": _integer(outcome, "code"),
        "signal": _integer(outcome, "signal"),
        "cause": _text(outcome, "cause"),
        "stragglers": _integer(_object(finished, "stragglers"), "count"),
        "faults": len(faults) if type(faults) is list else 0,
        "meter_before_ns": _integer(cost, "before_ns"),
        "meter_after_ns": _integer(cost, "after_ns"),
    }
    disturbance = _object(finished, "host_disturbance")
    for name, column in _DISTURBANCE_COLUMNS.items():
        row[column] = _integer(_object(disturbance, name), "value")
    _put_figures(row, record)
    return {name: value for name, value in row.items() if value is not None}


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _integers_of(raw: Any) -> dict[str, int] | None:
    if not isinstance(raw, dict):
        return None
    return {name: value for name, value in raw.items() if type(value) is int and -_ROOM <= value < _ROOM} or None


def _put_figures(row: Row, record: Record) -> None:
    others: dict[str, int] = {}
    weak: dict[str, str] = {}
    absent: dict[str, str] = {}
    figures = _object(record.finished or {}, "measurements")
    if record.settled is not None:
        figures = {**figures, **_object(record.settled, "measurements")}
    for name, raw in figures.items():
        if type(raw) is not dict:
            continue
        value, status, reason = figure_of(raw)
        if value is None:
            absent[name] = reason or "no reason given"
            continue
        if status != "measured":
            weak[name] = status
        column = _FIGURE_COLUMNS.get(name)
        if column is None:
            others[name] = value
        else:
            row[column] = value
    if record.finished is None:
        absent["all"] = "the meter vanished while the command ran"
    row["other_figures"], row["weak"], row["absent"] = others or None, weak or None, absent or None
