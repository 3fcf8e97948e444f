"""History of counts that repeat nearly exactly (callgrind): steps between neighbours by the rule for counts, without p.

The rule is `proofcost.reports.counted_change`'s: an effect beyond both a floor and five times the spread that was seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from proofcost.reports.counted_change import CountedChange, counted_change


@dataclass(frozen=True, slots=True)
class CountedStep:
    index: int
    """Point at which the count is another than at the point before."""
    change: CountedChange


@dataclass(frozen=True, slots=True)
class CountedHistory:
    steps: tuple[CountedStep, ...]
    creeps: tuple[tuple[int, int, CountedChange], ...]
    """(first, last, change) of stretches without a step whose ends differ all the same: no single point is to blame."""
    unknown: tuple[int, ...]
    """Points that had too few runs for a comparison with the one before (or whose predecessor had)."""


def counted_history(points: Sequence[Sequence[int]]) -> CountedHistory:
    """Of `points` in order of time, each the counts of its runs (at least 1 each, else ValueError)."""
    steps, unknown = [], []
    for index in range(1, len(points)):
        change = counted_change(points[index - 1], points[index])
        if change is None:
            unknown.append(index)
        elif change.is_change:
            steps.append(CountedStep(index, change))
    creeps = []
    bounds = sorted({0, len(points), *unknown, *(step.index for step in steps)})
    for first, end in itertools.pairwise(bounds):
        whole = counted_change(points[first], points[end - 1]) if end - first > 2 else None
        if whole is not None and whole.is_change:
            creeps.append((first, end - 1, whole))
    return CountedHistory(tuple(steps), tuple(creeps), tuple(unknown))
