"""`KERNEL_TIMING=` lines in a timer's output."""

from __future__ import annotations

from collections.abc import Iterator

from proofcost.adapters.foreign import FormatError, Head, Source, count, parse, put, scaled, text
from proofcost.harness.columns import Row

HELP = "KERNEL_TIMING= lines in a program's output"
MAPS = (
    ("wall_ns", "wall_command", "of the region that the program timed itself, not of a process"),
    ("instructions", "instructions", "user and kernel mode, of one thread"),
    ("peak_rss_kb", "memory_peak_process", "KiB to bytes"),
    ("target", "subject", "as it is"),
    ("measurement_contract, boundary", "labels", "as they are"),
    ("position of the line", "iteration", "from 1"),
)
UNKNOWN = ("what was checked, but for a target", "the program, its exit status, when and where it ran")
DEFECTS = (
    "Figures are the program's own word of a region of itself; nothing around it contradicts or bears them out.",
)
_MARK = b"KERNEL_TIMING="


def fits(head: Head) -> bool:
    return b"\n" + _MARK in b"\n" + head.raw


def rows(source: Source) -> Iterator[Row]:
    seen = 0
    for number, line in source.lines():
        if not line.startswith(_MARK):
            continue
        seen += 1
        try:
            made = parse(line.removeprefix(_MARK))
        except FormatError as error:
            raise FormatError(f"line {number}: {error}") from None
        if not isinstance(made, dict) or made.get("phase") != "complete":
            source.say("a line of a region that was not completed was left out")
            continue
        labels = {name: str(made[name]) for name in ("measurement_contract", "boundary") if made.get(name)}
        row: Row = {
            "subject": text(made.get("target")),
            "phase": "checker",
            "iteration": seen,
            "labels": labels or None,
        }
        put(row, "wall_command", count(made.get("wall_ns")) or None, "not in the line")
        put(row, "instructions", count(made.get("instructions")) or None, "not in the line")
        put(row, "memory_peak_process", scaled(made.get("peak_rss_kb"), 1024) or None, "not in the line")
        yield row
