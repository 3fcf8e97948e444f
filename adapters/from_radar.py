"""Measurements as leanprover's radar takes them: JSON lines, or `radar::measurement=` lines in any output."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from proofcost.adapters.foreign import MAX_NS, FormatError, Head, Source, parse, put, scaled, text, weaken
from proofcost.harness.columns import Row

HELP = "radar measurements (JSON lines with metric, value, unit)"
MAPS = (
    ("metric, before //", "subject, phase, kernel", "checker/NAME and build/... as we export them; else the subject"),
    ("metric build//wall-clock", "wall_command", "s to ns"),
    ("metric ...//task-clock", "task_clock", "s to ns"),
    ("metric ...//instructions", "instructions_u", "as it is: the scripts that write it count user mode"),
    ("metric ...//cycles", "cycles_u", "as it is"),
    ("metric ...//maxrss", "memory_peak_process", "bytes"),
    ("any other metric", "other_figures", "rounded to whole units; s to ns"),
)
UNKNOWN = ("the machine and the time", "what a command's exit was: radar keeps values whatever it was")
DEFECTS = (
    "radar stores values as 32-bit floats: a value that is one is marked as derived, its digits beyond the seventh are "
    "not known.",
    "mathlib's and clean's measure.py multiply ru_maxrss, which is in KiB, by 1000: 2.3 % low. A peak that is a "
    "multiple of 1000 and not of 1024 is a lower bound.",
    "Values of one metric that stands several times are added, as radar does.",
)
_MARK = b"radar::measurement="
_COLUMNS = {
    "wall-clock": "wall_command",
    "task-clock": "task_clock",
    "instructions": "instructions_u",
    "cycles": "cycles_u",
    "maxrss": "memory_peak_process",
}
_PHASES = ("build", "export", "checker", "resolve", "check", "whole", "challenge-build", "challenge-export")
_EXACT_IN_FLOAT32 = 1 << 24


def fits(head: Head) -> bool:
    first = head.first
    return (first is not None and {"metric", "value"} <= set(first)) or b"\n" + _MARK in b"\n" + head.raw


def rows(source: Source) -> Iterator[Row]:
    topics: dict[str, dict[str, tuple[Decimal, str | None]]] = {}
    is_output: bool | None = None  # of a program, with marked lines in it
    for number, line in source.lines():
        if not line.strip():
            continue
        if is_output is None:
            is_output = not line.lstrip().startswith(b"{")
        if is_output and not line.startswith(_MARK):
            continue
        raw = line.removeprefix(_MARK)
        try:
            metric, value, unit = _measurement(parse(raw))
        except FormatError as error:
            if is_output:  # as radar: in a program's output a wrong line is no error
                source.say("a radar::measurement= line that is no measurement was left out")
                continue
            raise FormatError(f"line {number}: {error}") from None
        topic, _, category = metric.partition("//")
        before, _ = topics.setdefault(topic, {}).get(category, (Decimal(0), None))
        if category in topics[topic]:
            source.say("a metric that stands several times was added up")
        topics[topic][category] = (before + value, unit)
    for topic, values in topics.items():
        yield _row(topic, values)


def _measurement(made: Any) -> tuple[str, Decimal, str | None]:
    if not isinstance(made, dict) or not isinstance(made.get("metric"), str):
        raise FormatError("no `metric`")
    value = made.get("value")
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise FormatError("`value` is no number")
    return made["metric"], Decimal(value), text(made.get("unit"))


def _row(topic: str, values: dict[str, tuple[Decimal, str | None]]) -> Row:
    row: Row = {"subject": text(topic)}
    parts = topic.split("/")
    if parts[0] in _PHASES:
        row["phase"] = parts[0]
        if parts[0] == "checker" and len(parts) > 1:
            row["kernel"] = text(parts[1])
    others: dict[str, int] = {}
    for category, (value, unit) in values.items():
        column = _COLUMNS.get(category)
        number = scaled(value, 10**9 if unit == "s" or category.endswith("-clock") else 1)
        if column is None:
            if number is not None and number <= MAX_NS:
                others[category] = number
            continue
        put(row, column, number, "not a value that can be kept")
        if number is not None and value >= _EXACT_IN_FLOAT32 and _is_float32(value):
            weaken(row, column, "derived", "a 32-bit float: no more than seven digits are known")
        if column == "memory_peak_process" and number and number % 1000 == 0 and number % 1024:
            weaken(row, column, "lower_bound", "KiB taken for kB: 2.3 % low")
    row["other_figures"] = others or None
    return row


def _is_float32(value: Decimal) -> bool:
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", float(value)))
    except OverflowError:
        return False
    return Decimal(rounded) == value
