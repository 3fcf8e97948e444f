"""Growth as a picture: cost against size, both logarithmic, one panel for each family, one colour for each kernel.

The same records give the same bytes. Needs matplotlib (extra `reports`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proofcost.reports.growth import Growth
from proofcost.reports.growth_table import interval_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".pdf", ".png")
COLUMNS_MOST = 3
PANEL_INCHES = (4.2, 3.2)
# Told apart also by people who see no colours well (Okabe and Ito, 2008), and by their marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKS = ("o", "s", "D", "v", "P", "X", "*")
SALT = "proofcost"
LEAST_SPAN = 1.5
"""A cost axis goes up to so many times its beginning at least."""
FEW_DECADES = 12
"""Below this quotient an axis may show no power of ten at all: the steps between them are told, too."""
LEGEND_ROOM = 0.4
"""Of the height that points take, kept free above them."""


def inches(growths: Sequence[Growth]) -> tuple[float, float]:
    """Width and height of the chart."""
    columns, rows = _grid(growths)
    return PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.4


def _grid(growths: Sequence[Growth]) -> tuple[int, int]:
    families = {growth.family for growth in growths}
    columns = min(COLUMNS_MOST, max(1, len(families)))
    return columns, max(1, math.ceil(len(families) / columns))


def paint(figure: Figure, growths: Sequence[Growth], floor: float | None, unit: str = "ns") -> None:
    """Draw the panels into an empty figure of that size."""
    families = list(dict.fromkeys(growth.family for growth in growths))
    kernels = list(dict.fromkeys(growth.kernel for growth in growths))
    columns, rows = _grid(growths)
    panels: Any = figure.subplots(rows, columns, squeeze=False)
    for at, panel in enumerate(panels.flat):
        if at < len(families):
            _panel(panel, families[at], [one for one in growths if one.family == families[at]], kernels, floor, unit)
        else:
            panel.axis("off")


def draw(growths: Sequence[Growth], file: str, title: str, floor: float | None, unit: str = "ns") -> None:
    """Write the chart; its format is that of the suffix. Raises OSError."""
    import matplotlib
    from matplotlib.figure import Figure

    # Ids and dates in it would make two equal charts differ; letters as outlines hang on no font of the reader's.
    with matplotlib.rc_context({"svg.hashsalt": SALT, "svg.fonttype": "path", "font.size": 8}):
        figure = Figure(figsize=inches(growths), layout="constrained")
        figure.suptitle(title)
        paint(figure, growths, floor, unit)
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
        suffix = next(one for one in SUFFIXES if file.endswith(one))
        figure.savefig(file, metadata=metadata[suffix])


def _panel(
    panel: Axes, family: str, growths: Sequence[Growth], kernels: Sequence[str], floor: float | None, unit: str
) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    scale = 1e9 if unit == "ns" else 1e6
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(family)
    # The sizes themselves: a logarithmic axis of less than a decade has few or crowded marks of its own.
    sizes = sorted({point.n for growth in growths for point in growth.points})
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.xaxis.set_minor_locator(NullLocator())
    # Not as powers of ten, whose markup is drawn as such only where names would be read as markup, too.
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_major_formatter(plain)
    panel.set_xlabel("n")
    panel.set_ylabel("s" if unit == "ns" else "MB")
    panel.grid(visible=True, which="major", linewidth=0.3)
    if floor is not None:
        panel.axhline(floor / scale, color="grey", linestyle=":", linewidth=1)
        panel.text(0.01, floor / scale, "floor", transform=panel.get_yaxis_transform(), va="bottom", color="grey")
    for growth in growths:
        at = kernels.index(growth.kernel)
        colour, mark = COLOURS[at % len(COLOURS)], MARKS[at % len(MARKS)]
        label = growth.kernel
        if growth.fit.exponent is not None:
            label += f": {growth.fit.exponent:.2f} [{interval_text(growth)}]" + (", bends" if growth.fit.bends else "")
            ends = (growth.points[0].n, growth.points[-1].n)
            line = [cost / scale for n in ends if (cost := growth.fit.cost_at(n)) is not None]
            panel.plot(ends, line, color=colour, linewidth=0.8)
        for kind, points in _kinds(growth).items():
            if points:
                panel.plot(
                    [point.n for point in points],
                    [point.value / scale for point in points],
                    linestyle="none",
                    marker="^" if kind == "stopped" else mark,
                    color=colour,
                    markerfacecolor=colour if kind == "value" else "none",
                    markersize=5,
                )
        panel.plot([], [], color=colour, marker=mark, label=label)
    low, high = panel.get_ylim()
    least = LEAST_SPAN / (high / low)
    if least > 1:  # noise of a memory that does not grow is no slope
        low, high = low / least**0.5, high * least**0.5
    high *= (high / low) ** LEGEND_ROOM  # so that no name lies over a point
    panel.set_ylim(low, high)
    panel.yaxis.set_minor_formatter(plain if high < FEW_DECADES * low else NullFormatter())
    panel.legend(fontsize=7, frameon=False, loc="upper left")


def _kinds(growth: Growth) -> dict[str, list[Any]]:
    """Points by how they are drawn: values filled, those below the floor hollow, stopped ones as arrows up."""
    found: dict[str, list[Any]] = {"value": [], "small": [], "stopped": []}
    for point in growth.points:
        found["stopped" if point.censored else "small" if point.below_floor else "value"].append(point)
    return found
