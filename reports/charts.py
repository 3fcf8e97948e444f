"""The charts of the reports: functions of (axes, data) that draw and return nothing. The question decides which:

| question | chart | data |
|---|---|---|
| slower? | `forest` | `Effect` each: ratios with intervals, the band that counts as no change |
| which kernel? | `cactus`, `profile`, `scatter` | `Solved`, `Factors`, pairs of costs |
| who wins? | `ranks` | `Rank` each: an interval of ranks |
| since when? | `segments` | points in the order of commits, `Segment` each |
| which limit? | `exceedance` | `Curve`: how often a need is above each amount |
| can I trust it? | `rates` | `Rate` each: false alarms with their interval |

Names may be anybody's; they are made drawable here. Use: `Picture(key, question, text, lambda canvas:
charts.forest(canvas.add_subplot(), effects, delta), height=chart_style.height_of(len(effects)))`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from proofcost.reports.chart_style import (
    BAD,
    BLUE,
    GOOD,
    GREY,
    MOST_ROWS,
    NEUTRAL,
    VERMILLION,
    cost_axis,
    cost_formatter,
    delta_band,
    label,
    look,
    name_rows,
    ratio_axis,
    say_empty,
)
from proofcost.reports.document import Estimate
from proofcost.reports.entries import entry_text, figure_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = {"bad": (BAD, "s", BAD), "good": (GOOD, "o", GOOD), "": (NEUTRAL, "D", "none")}
"""Of a marked effect: colour, mark, filling. What is neither is hollow, so grey print shows it too."""

LEAST_SPAN = 0.04
"""A history's axis is never less of its level than this."""

MARKS_SHOWN = 12
"""About so many marks stand on a curve; its line goes through all points."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of a forest plot. `mark`: `bad`, `good`, or empty for what is neither."""

    name: str
    ratio: Estimate
    mark: str = ""


def forest(axes: Axes, effects: Sequence[Effect], delta: float | None = None, what: str = "ratio of costs") -> None:
    """Ratios with their intervals on a logarithmic axis, in the order given; the band of +-`delta` is no change.

    An end that the data leave open goes to the edge as an arrow. Put what matters first: only `MOST_ROWS` are drawn.
    """
    known = [one for one in effects if one.ratio.value > 0]
    if not known:
        say_empty(axes, "nothing could be compared")
        return
    shown = known[:MOST_ROWS]
    values = [end for one in shown for end in (one.ratio.value, one.ratio.low, one.ratio.high) if end is not None]
    ratio_axis(axes, "x", [*values, *((1 / (1 + delta), 1 + delta) if delta else ())], what)
    if delta:
        delta_band(axes, "x", delta)
    left, right = axes.get_xlim()
    for row, one in enumerate(shown):
        colour, mark, filling = _MARKS.get(one.mark, _MARKS[""])
        low, high = (end if end is not None and end > 0 else None for end in (one.ratio.low, one.ratio.high))
        if low is not None or high is not None:
            axes.plot([low or left, high or right], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
            for end, edge, arrow in ((low, left, "<"), (high, right, ">")):
                if end is None:
                    axes.plot([edge], [row], marker=arrow, color=colour, markersize=6, clip_on=False)
        axes.plot([one.ratio.value], [row], marker=mark, color=colour, markerfacecolor=filling, markersize=6)
        axes.text(
            1.03, row, entry_text(one.ratio, "ratio"), transform=axes.get_yaxis_transform(), va="center", fontsize=8
        )
    name_rows(axes, [one.name for one in shown], len(known) - len(shown))


@dataclass(frozen=True, slots=True)
class Solved:
    """Costs of what one kernel brought to an end, and how many it was given."""

    name: str
    costs: Sequence[float]
    given: int


def cactus(
    axes: Axes, kernels: Sequence[Solved], unit: str = "ns", what: str = "wall", limit: float | None = None
) -> None:
    """Quantile plot: how many problems each kernel solves within a cost each. Further right and lower is better.

    Brain and Davenport; the quantile plot of BenchExec. `limit`: the time limit of all runs.
    """
    drawn: list[float] = [] if limit is None else [limit]
    most = max((one.given for one in kernels), default=0)
    for at, one in enumerate(kernels):
        costs = sorted(cost for cost in one.costs if cost > 0)
        name = f"{label(one.name)}: {len(one.costs)} of {one.given}"
        every = max(1, len(costs) // MARKS_SHOWN)
        axes.plot(range(1, len(costs) + 1), costs, label=name, markersize=4, markevery=every, **look(at).keywords())
        drawn += costs
    if not any(one.costs for one in kernels):
        axes.clear()
        say_empty(axes, "no problem was solved")
        return
    if limit:
        _limit_line(axes, limit, f"limit {figure_text(limit, unit)}")
    cost_axis(axes, "y", unit, what, drawn)
    axes.set_xlim(0, max(most, 1) * 1.02)
    _whole_numbers(axes)
    axes.set_xlabel("problems solved, cheapest first")
    axes.legend(loc="lower right")


def _limit_line(axes: Axes, limit: float, text: str) -> None:
    axes.axhline(limit, color=VERMILLION, linestyle=(0, (4, 3)), linewidth=1)
    axes.text(1, limit, text, transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=8)


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))


@dataclass(frozen=True, slots=True)
class Factors:
    """Of one kernel: for each problem that it solved its cost over that of the best kernel there (1 or more)."""

    name: str
    factors: Sequence[float]
    given: int


def profile(axes: Axes, kernels: Sequence[Factors]) -> None:
    """Performance profile (Dolan and More 2002): the share of problems solved within a factor of the best cost.

    At 1 it is how often a kernel is the best one; far right, the share that it solves at all.
    """
    from matplotlib.ticker import PercentFormatter

    last = max((factor for one in kernels for factor in one.factors if math.isfinite(factor)), default=1.0)
    end = max(last * 1.1, 2.0)
    for at, one in enumerate(kernels):
        factors = sorted(one.factors)
        shares = [(place + 1) / one.given for place in range(len(factors))] if one.given else []
        every = max(1, len(factors) // MARKS_SHOWN)
        axes.plot(
            [1, *factors, end], [0, *shares, shares[-1] if shares else 0], drawstyle="steps-post", markersize=4,
            markevery=every, label=label(one.name), **look(at).keywords(),
        )  # fmt: skip
    ratio_axis(axes, "x", [1, end], "cost over that of the best kernel")
    axes.set_xlim(1, end)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylabel("share of problems solved")
    axes.grid(visible=True, axis="y", linewidth=0.4, color=GREY, alpha=0.4)
    axes.legend(loc="best")


def scatter(
    axes: Axes,
    points: Sequence[tuple[float | None, float | None]],
    names: tuple[str, str],
    unit: str = "ns",
    limit: float | None = None,
) -> None:
    """Two kernels on the same problems, both axes logarithmic and alike. None: not solved; it stands on the rail.

    Below the diagonal the second kernel is cheaper. Factors of 2 and 10 are thin lines.
    """
    known = [value for point in points for value in point if value is not None and value > 0]
    if not known:
        say_empty(axes, "neither kernel solved any problem")
        return
    low, high = min(known) / 1.3, max(known) * 1.3
    rail = max(high, limit or 0) * (high / low) ** 0.06
    for factor, width in ((1, 1.0), (2, 0.5), (10, 0.5)):
        for times in {factor, 1 / factor}:
            axes.plot([low, high], [low * times, high * times], color=GREY, linewidth=width, zorder=0, scalex=False)
    both = [(x, y) for x, y in points if x is not None and y is not None]
    first = [x for x, y in points if x is not None and y is None]
    second = [y for x, y in points if x is None and y is not None]
    neither = sum(x is None and y is None for x, y in points)
    style = {"linestyle": "none", "markersize": 5, "markerfacecolor": "none"}
    axes.plot([x for x, _ in both], [y for _, y in both], marker="o", color=BLUE, **style)  # type: ignore[arg-type]
    axes.plot(first, [rail] * len(first), marker="^", color=VERMILLION, clip_on=False, **style)  # type: ignore[arg-type]
    axes.plot([rail] * len(second), second, marker=">", color=VERMILLION, clip_on=False, **style)  # type: ignore[arg-type]
    if neither:
        axes.plot([rail], [rail], marker="X", color=VERMILLION, linestyle="none", markersize=6, clip_on=False)
        axes.annotate(f"{neither} solved by neither", (rail, rail), (-6, 6), textcoords="offset points", ha="right",
                      fontsize=8)  # fmt: skip
    cost_axis(axes, "x", unit, names[0], [low, rail])
    cost_axis(axes, "y", unit, names[1], [low, rail])
    axes.set_xlim(low, rail)
    axes.set_ylim(low, rail)
    axes.axhline(rail, color=VERMILLION, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.axvline(rail, color=VERMILLION, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.text(low, rail, " not solved", va="bottom", fontsize=8)
    axes.set_aspect("equal")


@dataclass(frozen=True, slots=True)
class Rank:
    """`low` to `high`: the ranks (1 is best) that noise leaves possible."""

    name: str
    low: int
    high: int
    text: str = ""
    """Beside the row: the cost itself, say."""


def ranks(axes: Axes, rows: Sequence[Rank]) -> None:
    """Intervals of ranks, in the order given. Rows whose bars overlap are not told apart by these runs."""
    if not rows:
        say_empty(axes, "nobody to rank")
        return
    shown = rows[:MOST_ROWS]
    for row, one in enumerate(shown):
        alone = one.low == one.high
        axes.barh(
            row, one.high - one.low + 0.6, left=one.low - 0.3, height=0.55, color=BLUE if alone else "none",
            edgecolor=BLUE, linewidth=1.2,
        )  # fmt: skip
        if one.text:
            axes.text(1.01, row, label(one.text, 60), transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    axes.set_xlim(0.5, max(one.high for one in shown) + 0.5)
    _whole_numbers(axes)
    axes.set_xlabel("rank; filled: nobody else can have it")
    name_rows(axes, [one.name for one in shown], len(rows) - len(shown))


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch without a change: points `first` to `last` (both in it), their level and its noise band."""

    first: int
    last: int
    level: float
    low: float | None = None
    high: float | None = None


def segments(
    axes: Axes,
    points: Sequence[float | None],
    found: Sequence[Segment],
    names: Sequence[str],
    unit: str = "ns",
    what: str = "",
) -> None:
    """A cost over commits: points, the level and noise of each segment, a line and the ratio at each change.

    `points` and `names` go together; None: not measured there.
    """
    places = [(at, value) for at, value in enumerate(points) if value is not None]
    if not places:
        say_empty(axes, "no commit was measured")
        return
    axes.plot(
        [at for at, _ in places], [value for _, value in places], linestyle="none", marker="o", markersize=3.5,
        color=GREY,
    )  # fmt: skip
    for one in found:
        ends = [one.first - 0.4, one.last + 0.4]
        if one.low is not None and one.high is not None:
            axes.fill_between(ends, one.low, one.high, color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(ends, [one.level, one.level], color=BLUE, linewidth=2)
    for one, after in pairwise(found):
        at = (one.last + after.first) / 2
        colour = BAD if after.level > one.level else GOOD
        axes.axvline(at, color=colour, linestyle=(0, (4, 3)), linewidth=1)
        ratio = figure_text(after.level / one.level, "ratio") if one.level else "new"
        axes.text(at, 1.01, ratio, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)
    # A hair's breadth of noise is not to look like a mountain.
    low, high = axes.get_ylim()
    middle = (low + high) / 2
    least = LEAST_SPAN * abs(middle) / 2 or 1.0
    axes.set_ylim(min(low, middle - least), max(high, middle + least))
    cost_axis(axes, "y", unit, what)
    step = max(1, math.ceil(len(names) / 12))
    marked = range(0, len(names), step)
    axes.set_xticks(list(marked), [label(names[at], 12) for at in marked], rotation=45, ha="right", fontsize=7)
    axes.set_xlim(-0.8, len(points) - 0.2)


@dataclass(frozen=True, slots=True)
class Curve:
    """How often a need is above `amounts` (ascending): `shares`, with the ends of their intervals if known."""

    name: str
    amounts: Sequence[float]
    shares: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    is_extrapolated: bool = False
    """Beyond the data: drawn dashed."""


def exceedance(
    axes: Axes,
    curves: Sequence[Curve],
    unit: str = "bytes",
    what: str = "limit",
    target: float | None = None,
    limits: Sequence[tuple[float, str]] = (),
) -> None:
    """The share of runs that need more than a limit, over the limit. `target`: the share one is ready to lose.

    `limits`: amounts to be marked, each with its name (the limit in force, the advice).
    """
    drawn = [share for one in curves for share in one.shares if share > 0] + ([target] if target else [])
    if not any(one.amounts for one in curves):
        say_empty(axes, "no run was measured")
        return
    for at, one in enumerate(curves):
        style = look(at)
        line = (0, (2, 2)) if one.is_extrapolated else "-"
        name = label(one.name) + (" (beyond the data)" if one.is_extrapolated else "")
        axes.plot(one.amounts, one.shares, drawstyle="default" if one.is_extrapolated else "steps-post",
                  color=style.colour, linestyle=line, label=name)  # fmt: skip
        if one.lows and one.highs:
            axes.fill_between(
                one.amounts, one.lows, one.highs, step="post", color=style.colour, alpha=0.15, linewidth=0
            )
    if target:
        axes.axhline(target, color=VERMILLION, linestyle=(0, (4, 3)), linewidth=1)
        text = f"at most {figure_text(target, 'share')}"
        axes.text(1, target, text, transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=8)
    for at, (amount, name) in enumerate(limits):
        axes.axvline(amount, color=GREY, linewidth=1.2, linestyle=look(at).line)
        axes.text(amount, 1.01, label(f"{name} {figure_text(amount, unit)}", 60), rotation=20, fontsize=8,
                  transform=axes.get_xaxis_transform(), va="bottom")  # fmt: skip
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(min([0.5, *drawn]) / 2, 1.2)
    axes.yaxis.set_major_formatter(cost_formatter("share"))
    axes.set_ylabel("runs that need more")
    cost_axis(axes, "x", unit, what)
    axes.legend(loc="lower left")


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of alarms where nothing changed, with its interval."""

    name: str
    alarms: int
    trials: int
    low: float
    high: float


def rates(axes: Axes, rows: Sequence[Rate], nominal: float | None = None, what: str = "false alarms") -> None:
    """False-alarm rates with their intervals, beside the `nominal` rate that the method promises."""
    if not rows:
        say_empty(axes, "no A/A run was made")
        return
    shown = rows[:MOST_ROWS]
    for row, one in enumerate(shown):
        too_many = nominal is not None and one.low > nominal
        colour, mark, filling = _MARKS["bad" if too_many else ""]
        axes.plot([one.low, one.high], [row, row], color=colour, linewidth=1.6)
        if one.trials:
            axes.plot([one.alarms / one.trials], [row], marker=mark, color=colour, markerfacecolor=filling)
        axes.text(1.01, row, f"{one.alarms} of {one.trials}", transform=axes.get_yaxis_transform(), va="center",
                  fontsize=8)  # fmt: skip
    if nominal is not None:
        axes.axvline(nominal, color=VERMILLION, linestyle=(0, (4, 3)), linewidth=1)
        text = f"promised: {figure_text(nominal, 'share')}"
        axes.text(nominal, 1.01, text, transform=axes.get_xaxis_transform(), fontsize=8, ha="center", va="bottom")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(cost_formatter("share"))
    axes.set_xlabel(label(what, 80))
    name_rows(axes, [one.name for one in shown], len(rows) - len(shown))
