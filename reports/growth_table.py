"""Growth for people: the exponent of each kernel on each family, and what stood in the way of one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from proofcost.reports.bench_cells import COMPARED_TO_FLOOR
from proofcost.reports.growth import Growth
from proofcost.reports.inert import inert_outside
from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write, write_note
from proofcost.reports.units import human

COLUMNS = ("family", "kernel", "figure", "sizes", "largest", "exponent", "interval", "bends")
RIGHT = (3, 4, 5, 6, 7)
LEAST = {0: 10, 1: 8}


def render(
    found: Sequence[tuple[str, str, Sequence[Growth]]],
    console: Console,
    floor_ns: int | None,
    left_out: Sequence[str] = (),
) -> None:
    """Print the growths of each figure: (name for people, unit, growths). `left_out`: sizes that have no cost."""
    ascii_only = is_ascii(console)
    by_family: dict[str, list[tuple[str, str, Growth]]] = {}
    for figure, unit, growths in found:
        for growth in growths:
            by_family.setdefault(growth.family, []).append((figure, unit, growth))
    reasons: dict[str, None] = {}
    rows = []
    for family, group in by_family.items():
        group.sort(key=lambda one: one[2].kernel)
        for at, (figure, unit, growth) in enumerate(group):
            if growth.why is not None:
                reasons[f"{growth.kernel} on {family}, {figure}: {growth.why}"] = None
            name = inert_outside(family, 40, ascii_only) if at == 0 else ""
            rows.append(Row([name, *_cells(figure, unit, growth, ascii_only)], section=at == len(group) - 1))
    with full_width(console):
        write(console, table_of(console, COLUMNS, rows, right=RIGHT, least=LEAST))
        write(console, Text(""))
        write_note(
            console,
            "cost = c n^exponent, fitted to all sizes, stopped ones as bounds; interval of 95 %; bends: it is no power "
            "law, and this is the exponent at the largest size",
        )
        if floor_ns is not None:
            floor = human(floor_ns, "ns", ascii_only)
            write_note(console, f"walls below {COMPARED_TO_FLOOR} times the floor of {floor} are left out of the fit")
        else:
            write_note(
                console,
                "the floor of this host is not known (no null program ran along, and there is no calibration): small "
                "walls may be mostly start-up, and their exponents too flat",
            )
        for line in reasons:
            write_note(console, f"no exponent: {line}")
        for line in left_out:
            write_note(console, f"left out: {inert_outside(line, 200, ascii_only)}")


def _cells(figure: str, unit: str, growth: Growth, ascii_only: bool) -> list[str]:
    dash = "-" if ascii_only else "\u2013"
    largest = max(growth.points, key=lambda point: point.n, default=None)
    shown = dash
    if largest is not None:
        shown = human(round(largest.value), unit, ascii_only)
        shown = (">" if largest.censored else "") + shown + f" at {largest.n}"
    fit = growth.fit
    return [
        inert_outside(growth.kernel, 40, ascii_only),
        figure,
        _sizes(growth),
        shown,
        dash if fit.exponent is None else f"{fit.exponent:.2f}",
        dash if fit.exponent is None else interval_text(growth),
        f"{fit.last_exponent:.2f}" if fit.bends and fit.last_exponent is not None else "",
    ]


def _sizes(growth: Growth) -> str:
    """`6`, or `6 of 8` where some are no values or below the floor."""
    used = sum(not point.censored and not point.below_floor for point in growth.points)
    return str(used) if used == len(growth.points) else f"{used} of {len(growth.points)}"


def interval_text(growth: Growth) -> str:
    """`1.02 .. 1.31`; an open end is left blank."""
    fit = growth.fit
    low = "" if fit.low is None else f"{fit.low:.2f} "
    high = "" if fit.high is None else f" {fit.high:.2f}"
    return f"{low}..{high}"
