"""An interval of ratios as a small mark on a logarithmic axis, beside its numbers in a page's table."""

from __future__ import annotations

import math
from collections.abc import Iterable

from proofcost.reports.document import Entry, Estimate

WIDTH, HEIGHT = 120, 12
SPACER = '<span class="whisker"></span>'
"""Stands where a row has no interval, so that the numbers stay in line."""

LEAST_SPAN, MOST_SPAN = 1.05, 16.0
"""The axis goes from 1/span to span."""


def span_of(entries: Iterable[Entry]) -> float:
    """How far from 1 the column's axis goes: as far as its intervals, within reason."""
    ends = [
        max(value, 1 / value)
        for entry in entries
        if isinstance(entry, Estimate)
        for value in (entry.value, entry.low, entry.high)
        if value is not None and value > 0
    ]
    return min(MOST_SPAN, max([LEAST_SPAN, *ends]))


def whisker(estimate: Estimate, span: float) -> str:
    """An `<svg>` element, its numbers all computed here; empty for a ratio that is not above 0.

    An end beyond the axis, or one that the data leave open, is drawn as an arrow.
    """
    if estimate.value <= 0 or (estimate.low is None and estimate.high is None):
        return ""
    middle, half = WIDTH / 2, WIDTH / 2 - 6

    def place(value: float) -> float:
        return middle + half * max(-1.0, min(1.0, math.log(value) / math.log(span)))

    ends = [
        end if end is not None and end > 0 else missing
        for end, missing in ((estimate.low, 0.0), (estimate.high, math.inf))
    ]
    left = place(ends[0]) if ends[0] > 0 else middle - half
    right = place(ends[1]) if ends[1] < math.inf else middle + half
    y = HEIGHT / 2
    parts = [
        f'<line x1="{middle:g}" y1="0" x2="{middle:g}" y2="{HEIGHT}" stroke="currentColor" stroke-opacity=".45"/>',
        f'<line x1="{left:.1f}" y1="{y:g}" x2="{right:.1f}" y2="{y:g}" stroke="currentColor" stroke-width="2"/>',
    ]
    if ends[0] < 1 / span * (1 - 1e-9):
        parts.append(f'<path d="M{left:.1f} {y - 4:g}l-5 4l5 4z" fill="currentColor"/>')
    if ends[1] > span * (1 + 1e-9):
        parts.append(f'<path d="M{right:.1f} {y - 4:g}l5 4l-5 4z" fill="currentColor"/>')
    parts.append(f'<circle cx="{place(estimate.value):.1f}" cy="{y:g}" r="3.5" fill="currentColor"/>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg class="whisker" aria-hidden="true" {size}>{"".join(parts)}</svg>'
