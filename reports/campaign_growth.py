"""The growth part of a campaign: exponents with intervals, and the two charts they come from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from proofcost.harness.merged import Record
from proofcost.reports import growth_chart
from proofcost.reports.bench_cells import MEMORY, WALL
from proofcost.reports.document import Column, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.growth import Growth, growths, without_cost

FIGURES = (("wall", "ns", WALL), ("memory", "bytes", MEMORY))


def growth_section(records: Sequence[Record], floor: int | None) -> Section:
    """Needs scipy; the pictures are drawn when somebody wants them."""
    found = {name: growths(records, pick, unit, floor if unit == "ns" else None) for name, unit, pick in FIGURES}
    blocks: list[Table | Picture] = [_table(found, without_cost(records))]
    for name, unit, _ in FIGURES:
        width, height = growth_chart.inches(found[name])
        blocks.append(
            Picture(
                key=f"growth-{name}",
                question=f"How does {name} grow with size?",
                text="Both axes are logarithmic; a line is the fit, a hollow mark lies below ten times the floor and "
                "is left out of it, an arrow was stopped by a limit. The table has the same exponents.",
                draw=partial(growth_chart.paint, growths=found[name], floor=floor if unit == "ns" else None, unit=unit),
                width=width,
                height=height,
            )
        )
    return Section("Growth", blocks)


def _table(found: dict[str, list[Growth]], left_out: Sequence[str]) -> Table:
    order = {growth.family: at for at, growth in reversed(list(enumerate(found["wall"])))}
    rows: list[tuple[int, str, int, list[Entry]]] = []
    for at, (name, unit, _) in enumerate(FIGURES):
        for growth in found[name]:
            rows.append((order.get(growth.family, len(order)), growth.kernel, at, _row(growth, name, unit)))
    return Table(
        key="growth",
        title="cost = c n^exponent, fitted to all sizes, stopped ones as bounds",
        columns=[
            Column("family", "family"),
            Column("kernel", "kernel"),
            Column("figure", "figure"),
            Column("sizes", "sizes", "count"),
            Column("largest", "largest n", "count"),
            Column("cost", "cost there"),
            Column("exponent", "exponent", ""),
            Column("bends", "where it bends: exponent at the largest n"),
        ],
        rows=[row for _, _, _, row in sorted(rows, key=lambda one: one[:3])],
        notes=[f"left out: {line}" for line in left_out],
    )


def _row(growth: Growth, name: str, unit: str) -> list[Entry]:
    from proofcost.reports.units import human

    fit = growth.fit
    largest = max(growth.points, key=lambda point: point.n, default=None)
    cost: Entry = Missing("no run ended by itself")
    if largest is not None:
        cost = ("more than " if largest.censored else "") + human(round(largest.value), unit)
    exponent: Entry = Missing(growth.why or "not known")
    if fit.exponent is not None:
        exponent = Estimate(fit.exponent, fit.low, fit.high, fit.confidence)
    bends = f"{fit.last_exponent:.2f}" if fit.bends and fit.last_exponent is not None else ""
    used = sum(not point.censored and not point.below_floor for point in growth.points)
    return [growth.family, growth.kernel, name, used, largest.n if largest else 0, cost, exponent, bends]
