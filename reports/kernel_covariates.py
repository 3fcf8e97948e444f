"""What a kernel's cost goes with: the size of what it checks, its declarations, lines and so on.

A rank correlation for each, and the exponent of a power law (statistics/growth.py). They say what goes together, not
what causes what: exports that are longer have more of everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from proofcost.reports.asked import Asked
from proofcost.reports.cells import UNKNOWN
from proofcost.reports.chart_style import cost_axis, label, look
from proofcost.reports.dataset import VIEW
from proofcost.reports.document import Column, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.kernel_pictures import SHOWN_MOST
from proofcost.reports.statistics.growth import LEAST_SIZES, fit_growth

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from proofcost.reports.kernels import Grid

INPUT = "input_bytes"
LEADING = (INPUT, "export_lines_count", "export_declarations_count", "export_expressions_count",
           "export_expression_depth_count", "export_expression_tree_count")  # fmt: skip
"""Shown first, where they are there; after them those that go best with the cost."""
SHOWN = 8
LEAST_SUBMISSIONS = LEAST_SIZES

_Known = Mapping[str, Mapping[str, int]]
"""{submission: {covariate: value}}"""


def covariates_section(asked: Asked, grid: Grid) -> list[Section]:
    """The section; none where no submission tells anything about itself."""
    known = _known(asked)
    costs = {kernel: grid.costs[kernel] for kernel in grid.kernels[:SHOWN_MOST]}
    found: dict[str, dict[str, tuple[int, float]]] = {}
    for name in sorted({name for of in known.values() for name in of}):
        for kernel, of in costs.items():
            points = _points(known, of, name)
            if len(points) >= LEAST_SUBMISSIONS and len({size for size, _ in points}) >= LEAST_SIZES:
                found.setdefault(name, {})[kernel] = (len(points), _rank_correlation(points))
    if not found:
        return []
    order = [name for name in LEADING if name in found]
    others = (name for name in found if name not in LEADING)
    order += sorted(others, key=lambda name: (-max(abs(one) for _, one in found[name].values()), name))
    rows: list[list[Entry]] = []
    for name in order[:SHOWN]:
        for kernel, (count, correlation) in found[name].items():
            rows.append([name, kernel, count, correlation, _exponent(_points(known, costs[kernel], name))])
    columns = (
        Column("covariate", "covariate"),
        Column("kernel", "kernel"),
        Column("submissions", "submissions", "count"),
        Column("rank_correlation", "rank correlation", "", "rank_correlation"),
        Column("exponent", "exponent", "", "growth_exponent"),
    )
    table = Table("covariates", f"What {grid.metric.name} goes with", columns, rows, lead=SHOWN * 3)
    text = "What goes together, not what causes what: longer exports have more of everything."
    return [Section("Cost against what is checked", (table, _picture(grid, known, costs, order[0])), (text,))]


def _known(asked: Asked) -> _Known:
    """{submission: {covariate: value}} of whole numbers above 0."""
    query = (
        f"SELECT coalesce(workload, subject, module, '{UNKNOWN}'), min(covariates), min({INPUT}) "
        f"FROM {VIEW} WHERE ({asked.where.sql}) AND kernel IS NOT NULL GROUP BY 1"
    )
    known: dict[str, dict[str, int]] = {}
    for subject, text, size in asked.data.rows(query, asked.where.parameters):
        values = _object(text)
        if size is not None:
            values[INPUT] = size
        known[subject] = {name: value for name, value in values.items() if isinstance(value, int) and value > 0}
    return known


def _object(text: str | None) -> dict[str, object]:
    """What a JSON column holds; nothing where that is no object."""
    try:
        made = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}


def _points(known: _Known, costs: Mapping[str, int], name: str) -> list[tuple[int, int]]:
    return [(known[one][name], cost) for one, cost in costs.items() if name in known.get(one, {})]


def _rank_correlation(points: Sequence[tuple[int, int]]) -> float:
    """Spearman's. There are at least two sizes; of costs all equal it is 0."""
    from scipy.stats import spearmanr

    sizes, costs = zip(*points, strict=True)
    return float(spearmanr(sizes, costs).statistic) if len(set(costs)) > 1 else 0.0


def _exponent(points: Sequence[tuple[int, int]]) -> Entry:
    sizes, costs = zip(*points, strict=True)
    fit = fit_growth(sizes, costs)
    if fit.exponent is None:
        return Missing(f"fewer than {LEAST_SIZES} sizes")
    return Estimate(fit.exponent, fit.low, fit.high, fit.confidence)


def _picture(grid: Grid, known: _Known, costs: Mapping[str, Mapping[str, int]], name: str) -> Picture:
    points = {kernel: sorted(_points(known, of, name)) for kernel, of in costs.items()}
    metric = grid.metric

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for at, (kernel, of) in enumerate(points.items()):
            if of:
                style = look(at).keywords() | {"linestyle": "none"}
                axes.plot(*zip(*of, strict=True), markersize=3.5, label=label(kernel), **style)
        every = [point for of in points.values() for point in of]
        cost_axis(axes, "x", "bytes" if name.endswith("bytes") else "count", name, [size for size, _ in every])
        cost_axis(axes, "y", metric.unit, metric.name, [cost for _, cost in every])
        axes.legend(loc="upper left")

    text = f"{metric.name} against {label(name)}, a point for each kernel and submission it solved."
    return Picture("covariate", f"Does {metric.name} grow with {label(name)}?", text, draw)
