"""The same work at 1, 2, 4, ... at the same time: how much slower each gets, and how much more is done in all.

From records alone. The runs of a turn are started together; its span goes from the first one's exec to the last one's
exit. Throughput is runs over span, slowdown the median wall over that of a run alone, efficiency the throughput over as
many times that of one alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from proofcost.harness.merged import Record, integer_at
from proofcost.reports.bench_cells import WALL, Cell, cells
from proofcost.reports.inert import inert_outside
from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write, write_note
from proofcost.reports.units import human
from proofcost.reports.verdicts import FINISHED, verdict

COLUMNS = ("workload", "kernel", "at once", "turns", "wall", "slowdown", "per second", "efficiency", "together")
RIGHT = (2, 3, 4, 5, 6, 7, 8)
LEAST = {0: 12, 1: 8}


@dataclass(frozen=True, slots=True)
class Load:
    """One kernel on one workload, so many at once. A turn counts only when every run of it did the whole work.

    `together_ratio`: share of the span in which all of them ran; where it is small, they hardly met.
    """

    kernel: str
    work: str
    count: int
    turns_count: int
    wall_ns: int | None
    throughput_per_s: float | None
    together_ratio: float | None
    slowdown: float | None = None
    efficiency: float | None = None
    throughputs_per_s: tuple[float, ...] = ()
    """Of each such turn."""


def loads(records: Iterable[Record]) -> list[Load]:
    """Every kernel, workload and number at once."""
    found: list[Load] = []
    alone: dict[tuple[str, str, int | None], Load] = {}
    for cell in sorted(cells(records), key=lambda cell: (cell.place, cell.kernel_number, cell.key.co_running)):
        one = _load(cell)
        key = (one.kernel, one.work, cell.key.threads)
        if one.count == 1:
            alone[key] = one
        base = alone.get(key)
        if base is not None:
            one = _against(one, base)
        found.append(one)
    return found


def _load(cell: Cell) -> Load:
    turns: dict[int, list[Record]] = {}
    for record in cell.records:
        turns.setdefault(integer_at(record.started, "bench", "turn") or 0, []).append(record)
    count = cell.key.co_running
    whole = [
        group for group in turns.values() if len(group) == count and all(verdict(one) in FINISHED for one in group)
    ]
    spans = [span for group in whole if (span := _span(group)) is not None]
    walls = [wall.value for group in whole for one in group if (wall := WALL(one).shown) and wall.value]
    return Load(
        kernel=cell.key.kernel,
        work=cell.key.work,
        count=count,
        turns_count=len(spans),
        wall_ns=round(statistics.median(walls)) if walls else None,
        throughput_per_s=statistics.median(count * 1e9 / span for span, _ in spans) if spans else None,
        together_ratio=statistics.median(together for _, together in spans) if spans else None,
        throughputs_per_s=tuple(count * 1e9 / span for span, _ in spans),
    )


def _span(group: Sequence[Record]) -> tuple[int, float] | None:
    """(ns from the first exec to the last exit, share of it in which all ran)."""
    begins, ends = [], []
    for record in group:
        end = integer_at(record.finished, "clocks", "monotonic_ns")
        wall = record.measurement("wall_command")
        if end is None or wall is None or wall.value is None:
            return None
        begins.append(end - wall.value)
        ends.append(end)
    span = max(ends) - min(begins)
    return (span, max(0, min(ends) - max(begins)) / span) if span > 0 else None


def _against(one: Load, base: Load) -> Load:
    slowdown = one.wall_ns / base.wall_ns if one.wall_ns and base.wall_ns else None
    efficiency = None
    if one.throughput_per_s and base.throughput_per_s:
        efficiency = one.throughput_per_s / (one.count * base.throughput_per_s)
    return replace(one, slowdown=slowdown, efficiency=efficiency)


def render(records: Iterable[Record], console: Console) -> None:
    """Print the table."""
    ascii_only = is_ascii(console)
    dash = "-" if ascii_only else "\u2013"
    rows = []
    before: tuple[str, str] | None = None
    found = loads(records)
    for at, one in enumerate(found):
        here = (one.work, one.kernel)
        last = at + 1 == len(found) or (found[at + 1].work, found[at + 1].kernel) != here
        row = [
            inert_outside(one.work, 48, ascii_only) if here != before else "",
            inert_outside(one.kernel, 48, ascii_only) if here != before else "",
            str(one.count),
            str(one.turns_count),
            dash if one.wall_ns is None else human(one.wall_ns, "ns", ascii_only),
            dash if one.slowdown is None else f"{one.slowdown:.2f}",
            dash if one.throughput_per_s is None else f"{one.throughput_per_s:.3g}",
            dash if one.efficiency is None else f"{100 * one.efficiency:.0f} %",
            dash if one.together_ratio is None else f"{100 * one.together_ratio:.0f} %",
        ]
        rows.append(Row(row, section=last))
        before = here
    with full_width(console):
        write(console, table_of(console, COLUMNS, rows, right=RIGHT, least=LEAST))
        write(console, Text(""))
        for line in (
            "at once: so many of the same, each in a sandbox and cgroup of its own; turns: those in which every one of "
            "them did the whole work",
            "slowdown: of the median wall, to one alone; per second: checks done, median over turns; efficiency: that, "
            "to as many times what one alone does",
            "together: share of a turn's span in which all of them ran",
        ):
            write_note(console, line)
