"""What all charts share: colours, marks and lines, axes of costs and of ratios, names that can be drawn.

Everything here works on matplotlib axes that somebody else made (`Picture.draw` gets an empty figure, and
`reports/as_pictures.py` renders it). Colours are told apart by people who see no colours well, on white and on dark
paper; each goes with a mark and a line of its own, so that grey print loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from proofcost.reports.entries import figure_text
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import STEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.ticker import Formatter

Which = Literal["x", "y"]

# Okabe and Ito (2008); yellow and sky blue are darker, for 3 : 1 on white (WCAG 1.4.11) and on the pages' dark.
BLUE, VERMILLION, GREEN, PURPLE, OCHRE, SKY, GREY = (
    "#0072b2", "#d55e00", "#009e73", "#bb6a9a", "#a87900", "#3d8fc4", "#7d858d",
)  # fmt: skip
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, OCHRE, SKY)
MARKS = ("o", "s", "D", "^", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

BAD, GOOD, NEUTRAL = VERMILLION, GREEN, GREY

ROW_INCHES, FRAME_INCHES = 0.26, 1.3
"""What a row of a chart with names takes, and what stands around all rows."""

MOST_ROWS = 40
"""So many rows are drawn; more would be a picture that nobody reads. What is left out is said in it."""

LABEL = 40
"""Longest name in a chart, in characters."""

MOST_RATIO = 1e6
"""An axis of ratios ends here; what lies beyond stands in the text beside it."""

_RATIO_TICKS = (
    (1.035, (0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03)),
    (1.15, (0.9, 0.95, 1, 1.05, 1.1)),
    (1.7, (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5)),
    (5.0, (0.2, 0.33, 0.5, 0.7, 1, 1.5, 2, 3, 5)),
    (40.0, (1 / 32, 1 / 16, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32)),
)
"""Up to which ratio each set of marks is used."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one of several things is drawn."""

    colour: str
    mark: str
    line: Any

    def keywords(self) -> dict[str, Any]:
        """For `axes.plot`."""
        return {"color": self.colour, "marker": self.mark, "linestyle": self.line}


def look(at: int) -> Look:
    """Of the thing number `at`. Colour, mark and line repeat after 6, 7 and 5: no two of 210 look alike."""
    return Look(COLOURS[at % len(COLOURS)], MARKS[at % len(MARKS)], LINES[at % len(LINES)])


def label(text: str, limit: int = LABEL) -> str:
    """A name as it can be drawn: one line, no controls, nothing that the font has no letter for."""
    shown = inert_outside(text, limit)
    return "".join(char if ord(char) in _letters() else inert_outside(char, None, ascii_only=True) for char in shown)


@cache
def _letters() -> frozenset[int]:
    """Code points of the font that comes with matplotlib."""
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(findfont("DejaVu Sans")).get_charmap())


def height_of(rows: int, frame: float = FRAME_INCHES) -> float:
    """Inches for a picture of so many named rows."""
    return frame + ROW_INCHES * max(2, min(rows, MOST_ROWS))


def _axis(axes: Axes, which: Which) -> Axis:
    return axes.xaxis if which == "x" else axes.yaxis


def _set_scale(axes: Axes, which: Which, scale: str) -> None:
    (axes.set_xscale if which == "x" else axes.set_yscale)(scale)


def cost_axis(
    axes: Axes, which: Which, unit: str | None, what: str = "", log_of: Iterable[float] | None = None
) -> None:
    """Make an axis one of costs in `unit` (as `Column.unit`), its marks written `200 ms`, `1.5 GB`.

    `log_of`: all that must be in a logarithmic axis; without it the axis is an even one. Call it after drawing.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axis = _axis(axes, which)
    if log_of is not None:
        known = [value for value in log_of if value > 0 and math.isfinite(value)] or [1.0]
        low, high = min(known), max(known)
        pad = max((high / low) ** 0.05, 1.05)
        low, high = low / pad, high * pad
        _set_scale(axes, which, "log")
        (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
        decades = math.log10(high / low)
        subs = (1.0,) if decades > 3 else (1.0, 3.0) if decades > 1.5 else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=subs) if decades > 0.7 else MaxNLocator(5))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(cost_formatter(unit))
    if what:
        axis.set_label_text(label(what, 80))
    axes.grid(visible=True, axis=which, linewidth=0.4, color=GREY, alpha=0.4)


def tick_text(value: float, unit: str | None, digits: int = 3) -> str:
    """`1 s`, where a table says `1.00 s`; `digits` significant ones at most."""
    if unit == "share":
        return f"{100 * value:.{digits}g} %"
    steps = STEPS.get(unit or "")
    if steps is None:
        return figure_text(float(value), unit)
    if value == 0:
        return "0 s" if unit == "ns" else f"0 {steps[0]}".rstrip()
    power = 0
    while power + 1 < len(steps) and abs(value) >= 1000 ** (power + 1) * (1 - 0.5 * 10.0**-digits):
        power += 1
    shown = value / 1000**power
    # Of the last step there may be any number: never as a power of ten.
    number = f"{shown:,.0f}" if abs(shown) >= 10**digits else f"{shown:.{digits}g}"
    return f"{number} {steps[power]}".rstrip()


def tick_texts(values: Sequence[float], unit: str | None) -> list[str]:
    """Of marks on one axis: with as many digits as tell them apart."""
    for digits in range(3, 10):
        made = [tick_text(value, unit, digits) for value in values]
        if len(set(made)) == len(set(values)):
            break
    return made


def cost_formatter(unit: str | None) -> Formatter:
    """matplotlib's way to ask for `tick_texts`."""
    from matplotlib.ticker import Formatter

    class Costs(Formatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return tick_text(x, unit)

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return tick_texts([float(value) for value in values], unit)

    return Costs()


def ratio_axis(axes: Axes, which: Which, values: Iterable[float], what: str = "") -> None:
    """Make an axis a logarithmic one of ratios, 1 marked by a line: twice and half stand equally far from it.

    `values`: all that must be in it; those that are not above 0 are passed over.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis = _axis(axes, which)
    known = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = max(min([0.98, *known]), 1 / MOST_RATIO), min(max([1.02, *known]), MOST_RATIO)
    pad = (high / low) ** 0.05
    _set_scale(axes, which, "log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low / pad, high * pad)
    ticks = [tick for tick in _ratio_ticks(max(high, 1 / low)) if low / pad <= tick <= high * pad]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([f"{tick:.3g}" for tick in ticks]))
    axis.set_minor_locator(NullLocator())
    (axes.axvline if which == "x" else axes.axhline)(1, color=GREY, linewidth=1, zorder=0)
    if what:
        axis.set_label_text(label(what, 80))


def _ratio_ticks(span: float) -> Sequence[float]:
    for most, ticks in _RATIO_TICKS:
        if span <= most:
            return ticks
    power = math.ceil(math.log10(span))
    return [10.0**at for at in range(-power, power + 1, max(1, power // 4))]


def delta_band(axes: Axes, which: Which, delta: float) -> None:
    """Shade the ratios that count as no change: 1/(1+delta) to 1+delta."""
    shade = axes.axvspan if which == "x" else axes.axhspan
    shade(1 / (1 + delta), 1 + delta, color=GREY, alpha=0.18, linewidth=0, zorder=0)


def name_rows(axes: Axes, names: Sequence[str], left: int = 0) -> None:
    """Names down the y axis, the first on top; `left`: how many more the table has."""
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if left > 0:
        axes.text(0, -0.02, f"and {left} more in the table", transform=axes.transAxes, ha="right", va="top", fontsize=8)


def say_empty(axes: Axes, why: str) -> None:
    """Instead of a chart of nothing."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, label(why, 120), transform=axes.transAxes, ha="center", va="center")
