"""What a run costs at least on this host, and what small fixed work takes: figures to put beside others.

Never subtracted from anything: a floor is published, and cells below ten times it are marked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from proofcost.harness.merged import Record, integer_at, text_at
from proofcost.reports.bench_cells import COMPARED_TO_FLOOR, CPU, MEMORY, WALL, cells, counted
from proofcost.reports.inert import inert_outside
from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write, write_note
from proofcost.reports.units import human
from proofcost.reports.verdicts import Verdict, verdict

NULL = "null"
COLUMNS = ("what", "n", "least", "25 %", "median", "75 %", "95 %", "most")
RIGHT = (1, 2, 3, 4, 5, 6, 7)
LEAST_RUNS = 5
"""Of a null kernel, for a floor."""

Value = Callable[[Record], int | None]


def is_null(record: Record) -> bool:
    return text_at(record.started, "bench", "convention") == NULL


def floor_ns(records: Iterable[Record]) -> int | None:
    """The median wall of the null kernel's runs; None for too few of them."""
    walls = [
        shown.value
        for record in counted(records)
        if is_null(record) and verdict(record) is Verdict.RAN
        if (shown := WALL(record).shown) is not None and shown.value is not None
    ]
    return round(statistics.median(walls)) if len(walls) >= LEAST_RUNS else None


def figure(name: str) -> Value:
    def of(record: Record) -> int | None:
        found = record.measurement(name)
        return None if found is None else found.value

    return of


def cost(name: str) -> Value:
    return lambda record: integer_at(record.finished, "meter_cost", name)


NULL_FIGURES: tuple[tuple[str, str, Value], ...] = (
    ("wall of a null program (the floor)", "ns", figure("wall_program")),
    ("start of its sandbox", "ns", figure("sandbox_startup")),
    ("CPU of the tree", "ns", figure("cpu_tree")),
    ("memory of the tree", "bytes", figure("memory_peak_tree")),
    ("meter, before the exec", "ns", cost("before_ns")),
    ("meter, after the exit", "ns", cost("after_ns")),
    ("meter, CPU", "ns", cost("cpu_ns")),
    ("meter, memory", "bytes", cost("memory_peak_bytes")),
)


def render(records: Sequence[Record], console: Console) -> None:
    """Print the distribution of a null run's costs, then each reference workload."""
    ascii_only = is_ascii(console)
    null = [record for record in counted(records) if is_null(record) and verdict(record) is Verdict.RAN]
    rows = [_row(name, unit, [of(record) for record in null], ascii_only) for name, unit, of in NULL_FIGURES]
    if rows:
        rows[-1] = Row(rows[-1].cells, section=True)
    for cell in cells(records):
        if is_null(cell.records[0]):
            continue
        name = f"{inert_outside(cell.key.kernel, 30, ascii_only)} on {inert_outside(cell.key.work, 40, ascii_only)}"
        for what, unit, pick in (("wall", "ns", WALL), ("CPU", "ns", CPU), ("memory", "bytes", MEMORY)):
            rows.append(_row(f"{name}: {what}", unit, list(cell.values(pick)), ascii_only))
    with full_width(console):
        write(console, table_of(console, COLUMNS, rows, right=RIGHT, least={0: 20}))
        write(console, Text(""))
        floor = floor_ns(records)
        if floor is not None:
            write_note(
                console,
                f"floor of this host: {human(floor, 'ns', ascii_only)}; other benches in this store mark what is below "
                f"{COMPARED_TO_FLOOR} times it; nothing is ever subtracted",
            )


def _row(name: str, unit: str, values: Sequence[int | None], ascii_only: bool) -> Row:
    known = sorted(value for value in values if value is not None)
    if len(known) < 2:
        dash = "-" if ascii_only else "\u2013"
        shown = [human(known[0], unit, ascii_only)] * 6 if known else [dash] * 6
        return Row([name, str(len(known)), *shown])
    cut = statistics.quantiles(known, n=20, method="inclusive")
    chosen = (known[0], cut[4], cut[9], cut[14], cut[18], known[-1])
    return Row([name, str(len(known)), *(human(round(value), unit, ascii_only) for value in chosen)])
