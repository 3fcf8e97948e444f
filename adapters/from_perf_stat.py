"""`perf stat -x,` (or another separator) and `perf stat -j`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, parse, put, scaled, weaken
from proofcost.harness.columns import Row

HELP = "perf stat -x SEP or -j"
MAPS = (
    ("duration_time", "wall_command", "ns"),
    ("task-clock, cpu-clock", "task_clock", "ms to ns"),
    ("user_time, system_time", "cpu_waited_user, cpu_waited_system", "ns"),
    ("instructions:u", "instructions_u", "as it is"),
    ("instructions", "instructions", "user and kernel mode: another column"),
    ("cycles:u", "cycles_u", "as it is"),
    ("page-faults, major-faults", "page_faults, page_faults_major", "as it is"),
    ("context-switches, cpu-migrations", "context_switches, cpu_migrations", "as it is"),
    ("any other event", "other_figures", "as it is"),
)
UNKNOWN = ("the command", "its exit status", "when and where it ran")
DEFECTS = (
    "A counter that ran part of the time is scaled by perf (percentage under 100): an estimate, kept as derived.",
    "`<not supported>` and `<not counted>` are missing, never 0.",
    "With a changed perf_event_paranoid perf counts user mode only and calls it `instructions:u`: the names decide.",
)
_COLUMNS = {
    "duration_time": "wall_command", "task-clock": "task_clock", "cpu-clock": "task_clock",
    "user_time": "cpu_waited_user", "system_time": "cpu_waited_system", "instructions:u": "instructions_u",
    "instructions": "instructions", "cycles:u": "cycles_u", "page-faults": "page_faults", "faults": "page_faults",
    "major-faults": "page_faults_major", "context-switches": "context_switches", "cs": "context_switches",
    "cpu-migrations": "cpu_migrations", "migrations": "cpu_migrations",
}  # fmt: skip
_SCALES = {"msec": 10**6, "ns": 1, "usec": 10**3, "sec": 10**9, "": 1}
_SEPARATORS = (",", ";", "\t", "|", ":")


def fits(head: Head) -> bool:
    if {"counter-value", "event"} <= head.keys:
        return True
    return any(_csv_line(line, separator) is not None for line in _text_lines(head) for separator in _SEPARATORS)


def _text_lines(head: Head) -> list[str]:
    lines = head.raw.decode("utf-8", "replace").split("\n")[:8]
    return [line for line in lines if line and not line.startswith("#")]


def rows(source: Source) -> Iterator[Row]:
    row: Row = {"phase": "checker"}
    others: dict[str, int] = {}
    separator: str | None = None
    events = 0
    for number, raw in source.lines():
        line = raw.decode("utf-8", "replace")
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("{"):
            value, unit, event, share = _json_line(parse(line), number)
        else:
            separator = separator or next((one for one in _SEPARATORS if _csv_line(line, one) is not None), None)
            made = None if separator is None else _csv_line(line, separator)
            if made is None:
                raise FormatError(f"line {number}: no line of perf stat -x")
            value, unit, event, share = made
        events += 1
        _take(row, others, value, unit, event, share)
    if not events:
        raise FormatError("no event")
    row["other_figures"] = others or None
    yield row


def _json_line(made: Any, number: int) -> tuple[str, str, str, str]:
    if not isinstance(made, dict) or "event" not in made:
        raise FormatError(f"line {number}: no line of perf stat -j")
    fields = [str(made.get(key, "")) for key in ("counter-value", "unit", "event", "pcnt-running")]
    return fields[0], fields[1], fields[2], fields[3]


def _csv_line(line: str, separator: str) -> tuple[str, str, str, str] | None:
    """(value, unit, event, percentage running), or None; a line of repeated runs has the variation before the time."""
    fields = line.split(separator)
    if len(fields) < 5 or not fields[2] or not _is_value(fields[0]) or fields[1] not in (*_SCALES, "Joules", "MHz"):
        return None
    at = 5 if fields[3].endswith("%") else 4
    return fields[0], fields[1], fields[2], fields[at] if len(fields) > at else ""


def _is_value(field: str) -> bool:
    return field.startswith("<not ") or scaled(field, 1) is not None


def _take(row: Row, others: dict[str, int], value: str, unit: str, event: str, share: str) -> None:
    number = None if value.startswith("<") else scaled(value, _SCALES.get(unit, 1))
    column = _COLUMNS.get(event)
    if column is None:
        if number is not None:
            others[event] = number
        return
    put(row, column, number, value.strip("<>") or "not in the source")
    part = scaled(share, 100)
    if part is not None and part < 10_000:
        weaken(row, column, "derived", "counted part of the time and scaled by perf")
