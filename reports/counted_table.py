"""What a bench counted under callgrind, for people: instructions of each kernel on each workload, and what changed.

The rule is counted_change.py's: an effect beyond a thousandth and beyond five times the spread that was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from rich.console import Console
from rich.text import Text

from proofcost.harness.merged import Record, value_at
from proofcost.reports.bench_cells import Cell, by_stratum, cells
from proofcost.reports.counted_change import LEAST_EFFECT, MIN_RUNS, SPREADS, counted_change
from proofcost.reports.figures import Figure, missing_reason
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write, write_note
from proofcost.reports.units import human

NAME = "instructions_callgrind"
COUNTER = "callgrind"
COLUMNS = ("workload", "kernel", "n", "instructions", "spread", "effect", "finding")
RIGHT = (2, 3, 4, 5)
LEAST = {0: 12, 1: 8, 6: 10}
NAME_SHOWN = 48


def instructions(record: Record) -> Figure:
    """`instructions_callgrind`."""
    return Figure(record.measurement(NAME))


def is_counted(records: Sequence[Record]) -> bool:
    """Whether these are runs under callgrind."""
    used = value_at(records[0].started, "bench", "counters") if records else None
    return isinstance(used, list) and COUNTER in used


def render(records: Sequence[Record], console: Console) -> None:
    """Print the table of one bench."""
    ascii_only = is_ascii(console)
    missing: dict[str, None] = {}
    rows: list[Row] = []
    for stratum, group in by_stratum(cells(records)).items():
        base = next((cell for cell in group if not cell.control), None)
        for at, cell in enumerate(group):
            work = inert_outside(stratum.work, NAME_SHOWN, ascii_only) if at == 0 else ""
            rows.append(Row([work, *_cells(cell, base, ascii_only)], section=at == len(group) - 1))
            for record in cell.records:
                figure = instructions(record).shown
                if figure is None or figure.value is None:
                    missing[f"{cell.key.kernel}: no count: {missing_reason(figure)}"] = None
    with full_width(console):
        write(console, table_of(console, COLUMNS, rows, right=RIGHT, least=LEAST))
        write(console, Text(""))
        for line in (*_notes(records), *missing):
            write_note(console, inert_outside(line, 400, ascii_only))


def _cells(cell: Cell, base: Cell | None, ascii_only: bool) -> list[str]:
    dash = "-" if ascii_only else "\u2013"
    name, values = inert_outside(cell.key.kernel, NAME_SHOWN, ascii_only), cell.values(instructions)
    if not values:
        return [name, "0", dash, dash, dash, ""]
    own = counted_change(values, values)
    shown = [name, str(len(values)), human(cell.median(instructions) or 0, "count", ascii_only)]
    shown.append(dash if own is None else percent(own.spread))
    if base is None or cell.control:
        return [*shown, dash, ""]
    if cell is base:
        return [*shown, "", "base"]
    change = counted_change(base.values(instructions), values)
    if change is None:
        return [*shown, dash, f"fewer than {MIN_RUNS} runs of each"]
    if not (cell.whole and base.whole and cell.verdict == base.verdict):
        return [*shown, dash, "not the same whole work"]
    said = "a change" if change.is_change else f"no change beyond {percent(change.threshold)}"
    return [*shown, effect_text(change.effect), said]


def effect_text(effect: Fraction) -> str:
    """`+2.1 %`, `-12.3 %`; `12.3x` the base from twice on, where per cent say nothing to anybody."""
    if effect >= 1:
        return f"{_plain(float(1 + effect))}x"
    return f"{'+' if effect >= 0 else ''}{percent(effect)}"


def _plain(value: float) -> str:
    """Three significant digits, never as a power of ten."""
    return f"{Decimal(f'{value:.3g}'):,f}"


def percent(ratio: Fraction) -> str:
    """A ratio in per cent, with as many digits as it takes to see it: `0.1 %`, `-12.3 %`, `0.00003 %`."""
    return f"{_plain(float(100 * ratio))} %"


def _notes(records: Sequence[Record]) -> list[str]:
    methods: dict[str, None] = {}
    for record in records:
        figure = instructions(record).shown
        if figure is not None and figure.value is not None:
            methods[inert(figure.method, 300)] = None
    rule = (
        f"a change: an effect beyond {percent(LEAST_EFFECT)} and beyond {SPREADS} times the larger spread (largest "
        "less smallest count, by the median), against the first kernel (base); counts repeat, so there is no p-value"
    )
    return [
        *(f"instructions: medians of counts by {method}" for method in methods),
        rule,
        "wall, CPU and memory of these runs are valgrind's, and no values; never pool these counts with a processor's",
    ]
