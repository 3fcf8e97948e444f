"""A session's course as one picture: the waterfall of its phases, below it the memory line under its limit.

SVG by matplotlib, the same bytes for the same records: no date, no random ids, text as text (it can be searched, and
no font is embedded).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from proofcost.reports.course import Course, Passage
from proofcost.reports.units import human

EXTRA = "reports"
"""The extra that brings `matplotlib`."""

MAX_ROWS = 60
"""So many calls are drawn; more would be a picture that nobody reads."""
MAX_REASONS = 12

_SETTINGS: Any = {
    "svg.hashsalt": "proofcost",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,  # names come from whoever was measured
    "path.simplify": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_SANDBOX, _CALL, _METER, _BAD = "#9aa5b1", "#4c78a8", "#d9d9d9", "#c44e52"
_LINES = ("#4c78a8", "#54a24b", "#e45756", "#b279a2", "#f58518", "#439894", "#9d755d", "#72706f")
_WIDTH_IN, _ROW_IN, _MEMORY_IN, _MARGINS_IN = 11.0, 0.26, 2.4, 1.3
# What a character takes, about: of a call's name beside its bar, and in the legend.
_LABEL_IN, _LEGEND_IN = 0.066, 0.052
# A limit so many times above everything drawn would press it flat: it is named instead.
_FAR_ABOVE = 4


def picture(course: Course) -> bytes:
    """The course as SVG. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user has set would make another picture of the same records
        matplotlib.rcParams.update(_SETTINGS)
        shown = course.passages[:MAX_ROWS]
        reasons = _reasons(course, shown)
        height = _MARGINS_IN + _ROW_IN * len(shown) + _MEMORY_IN + 0.18 * len(reasons)
        figure = Figure(figsize=(_WIDTH_IN, height))
        FigureCanvasSVG(figure)
        bars, memory = figure.subplots(
            2, 1, sharex=True, height_ratios=[_ROW_IN * len(shown) + 0.3, _MEMORY_IN], gridspec_kw={"hspace": 0.12}
        )
        _draw_bars(bars, course, shown)
        _draw_memory(memory, course, shown)
        figure.suptitle(f"session {course.session[:40]}  {course.name}", x=0.01, ha="left", fontsize=10)
        bottom = (0.55 + 0.18 * len(reasons)) / height
        left = (0.5 + _LABEL_IN * max(len(one.name) for one in shown)) / _WIDTH_IN
        right = 1 - (0.6 + _LEGEND_IN * max(len(one.name) for one in shown)) / _WIDTH_IN
        figure.subplots_adjust(left=left, right=max(right, left + 0.3), top=1 - 0.4 / height, bottom=bottom)
        for at, text in enumerate(reasons):
            figure.text(0.01, (0.18 * (len(reasons) - at) - 0.08) / height, text, fontsize=7.5, color="#444444")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "proofcost"})
    return out.getvalue()


def _seconds(course: Course, at_ns: int) -> float:
    return (at_ns - course.begin_ns) / 1e9


def _draw_bars(axes: Any, course: Course, shown: Sequence[Passage]) -> None:
    for row, one in enumerate(shown):
        begin, end = _seconds(course, one.begin_ns), _seconds(course, one.end_ns)
        for span in one.meter:
            left = _seconds(course, span.begin_ns)
            axes.barh(row, _seconds(course, span.end_ns) - left, left=left, height=0.3, color=_METER)
        fine = one.ended and one.outcome == "exit 0"
        axes.barh(row, end - begin, left=begin, height=0.62, color=_CALL if fine else _BAD)
        if one.parts:
            axes.barh(row, _seconds(course, one.parts[0].end_ns) - begin, left=begin, height=0.62, color=_SANDBOX)
        wall = human(one.end_ns - one.begin_ns, "ns") if one.ended else "end not known"
        said = f" {wall}" + ("" if fine else f", {one.outcome}")
        axes.text(end, row, said, va="center", ha="left", fontsize=8)
    axes.set_yticks(range(len(shown)), [one.name for one in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=False)
    axes.spines["left"].set_visible(False)


def _draw_memory(axes: Any, course: Course, shown: Sequence[Passage]) -> None:
    """Each call's memory over its own time, and each limit over the time in which it was in force."""
    drawn = False
    limits: dict[int, list[Passage]] = {}
    for at, one in enumerate(shown):
        points = [
            (sample.at_ns, sample.memory_bytes)
            for sample in (one.timeline.samples if one.timeline is not None else ())
            if sample.memory_bytes is not None
        ]
        if points:
            drawn = True
            times, values = [_seconds(course, when) for when, _ in points], [value / 1e6 for _, value in points]
            whole = one is course.whole
            color = "#222222" if whole else _LINES[at % len(_LINES)]
            axes.plot(times, values, color=color, linewidth=1.0 if whole else 1.4, label=one.name,
                      drawstyle="steps-post", marker="." if len(points) == 1 else None)  # fmt: skip
        if one.limit_bytes is not None:
            limits.setdefault(one.limit_bytes, []).append(one)
    top = max((line.get_ydata().max() for line in axes.lines), default=0)
    far = []
    for limit, ones in sorted(limits.items()):
        begin, end = min(one.begin_ns for one in ones), max(one.end_ns for one in ones)
        if drawn and limit / 1e6 > _FAR_ABOVE * top:
            far.append(human(limit, "bytes"))
            continue
        times = [_seconds(course, begin), _seconds(course, end)]
        axes.plot(times, [limit / 1e6] * 2, color=_BAD, linewidth=1.0, linestyle="--",
                  label=f"limit {human(limit, 'bytes')}")  # fmt: skip
    if far:
        said = f"limit {', '.join(far)}: above the picture"
        axes.text(1, 1, said, transform=axes.transAxes, ha="right", va="bottom", fontsize=8, color=_BAD)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("memory, MB")
    axes.set_xlabel(
        "seconds since the first call's start" if course.whole is None else "seconds since the judge's start"
    )
    if drawn or limits:
        axes.legend(loc="upper left", bbox_to_anchor=(1.005, 1.0), fontsize=7, frameon=False, borderaxespad=0)
    if not drawn:
        axes.text(
            0.5, 0.5, "no memory was sampled", transform=axes.transAxes, ha="center", va="center", color="#666666"
        )


def _reasons(course: Course, shown: Sequence[Passage]) -> list[str]:
    """What the picture lacks and why, one line each; the same reason once for all calls that have it."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in shown:
        for what, why in one.absent.items():
            said.setdefault((what, why), []).append(one.name)
    lines = [f"not in the picture: {name} ({why})" for name, why in course.left_out.items()]
    hidden = len(course.passages) - len(shown)
    if hidden > 0:
        lines.append(f"not in the picture: {hidden} more calls")
    for (what, why), names in said.items():
        of = WHOLE_SESSION if len(names) == len(shown) > 1 else ", ".join(names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 and of != WHOLE_SESSION else ""
        lines.append(f"missing: {what}: {why} ({of}{more})")
    if len(lines) > MAX_REASONS:
        lines = [*lines[: MAX_REASONS - 1], f"and {len(lines) - MAX_REASONS + 1} more that are missing"]
    return [line if len(line) <= 170 else line[:169] + "…" for line in lines]


WHOLE_SESSION = "all"
