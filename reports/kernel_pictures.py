"""Pictures of `report kernels`: who solves most, who is near the best, and two kernels against each other."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from proofcost.reports import charts
from proofcost.reports.chart_style import label
from proofcost.reports.document import Picture
from proofcost.reports.entries import figure_text
from proofcost.reports.units import plural

if TYPE_CHECKING:
    from proofcost.reports.kernels import Grid

SHOWN_MOST = 12
"""Kernels in one picture: those that solve most."""
FACTORS = (1.25, 2.0)
"""Shares within these factors of the best are told in words."""


def cactus(grid: Grid) -> Picture:
    """How many submissions each kernel solves when each may cost so much."""
    given = [charts.Solved(kernel, list(grid.costs[kernel].values()), len(grid.run_on(kernel)))
             for kernel in grid.kernels[:SHOWN_MOST]]  # fmt: skip
    metric = grid.metric
    text = "Solved, with a known cost: " + ", ".join(
        f"{label(one.name)} {len(one.costs)} of {one.given}" for one in given
    )
    return Picture(
        "cactus",
        "Which kernel solves most, and at what cost of each?",
        f"{text}.",
        lambda canvas: charts.cactus(canvas.add_subplot(), given, metric.unit, metric.name),
    )


def profile(grid: Grid) -> Picture:
    """Share of submissions that each kernel solves within a factor of the best.

    Over submissions that every kernel was run on and at least one solved.
    """
    costs = {kernel: grid.costs[kernel] for kernel in grid.kernels[:SHOWN_MOST]}
    used = [one for one in grid.shared if any(one in of for of in costs.values())]
    best = {one: min(of[one] for of in costs.values() if one in of) for one in used}
    factors = {kernel: sorted(of[one] / best[one] for one in used if one in of) for kernel, of in costs.items()}
    given = [charts.Factors(kernel, of, len(used)) for kernel, of in factors.items()]
    said = []
    for kernel, of in factors.items() if used else ():
        shares = [f"{figure_text(bisect_right(of, most) / len(used), 'share')} within {most:g}x" for most in FACTORS]
        said.append(f"{label(kernel)} {', '.join(shares)}")
    text = f"Of {plural(len(used), 'submission')} that every kernel ran on and one solved"
    return Picture(
        "profile",
        "How often is a kernel near the best?",
        f"{text}: {'; '.join(said)}." if said else f"{text}.",
        lambda canvas: charts.profile(canvas.add_subplot(), given),
    )


def scatter(grid: Grid, one: str, other: str) -> Picture:
    """Two kernels, a point for each submission that both were run on; who has no cost there stands on a rail."""
    given = set(grid.run_on(other))
    both = [subject for subject in grid.run_on(one) if subject in given]
    costs = (grid.costs[one], grid.costs[other])
    points = [(costs[0].get(subject), costs[1].get(subject)) for subject in both]
    solved = [(x, y) for x, y in points if x is not None and y is not None]
    names, metric = (label(one), label(other)), grid.metric
    dearer = (sum(x > y for x, y in solved), sum(x < y for x, y in solved))
    rails = [sum(point[at] is None for point in points) for at in (0, 1)]
    text = (
        f"Both solved {plural(len(solved), 'submission')}: {names[0]} costs more on {dearer[0]}, {names[1]} on "
        f"{dearer[1]}. On the rails, without a cost: {rails[0]} of {names[0]}, {rails[1]} of {names[1]}."
    )
    titles = (f"{names[0]}: {metric.name}", f"{names[1]}: {metric.name}")
    return Picture(
        "scatter",
        f"Is {names[0]} or {names[1]} cheaper, and where?",
        text,
        lambda canvas: charts.scatter(canvas.add_subplot(), points, titles, metric.unit),
        width=6.0,
        height=5.6,
    )
