"""C2: a time limit that grows with the input's size, instead of a rule of thumb.

Sizes are cut into classes of equal width on the log scale; each class gets the limit of its own runs (`safe_limit`,
with its own floor), no smaller than those below it. Above the last class with a limit there is none: no run of that
size was seen. A class mixes its sizes: the finer the classes, the fewer runs each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.safe_limit import Limit, limit_for
from proofcost.reports.statistics.sample import BadSampleError, Numbers, above_zero, positive


@dataclass(frozen=True, slots=True)
class SizeClass:
    above: float
    upto: float
    """Sizes above the one, up to and with the other."""
    limit: Limit
    line: float | None
    """What this class is given: the largest limit of it and those below. None where it has none of its own."""
    smoothed_quantile: float | None
    """Monotone line through the classes' estimated quantiles, weighted by runs: what is likely, not promised."""


@dataclass(frozen=True, slots=True)
class SizeLimit:
    classes: tuple[SizeClass, ...]
    """From the smallest sizes; classes without any run are left out."""
    target: float
    confidence: float

    def limit_at(self, size: float) -> float | None:
        """For this size; None above the largest class that has a limit."""
        above_zero(size, "size")
        for c in self.classes:
            if size <= c.upto * (1 + 1e-12) and c.line is not None:
                return c.line
        return None


def limit_by_size(
    sizes: Numbers,
    times: Numbers,
    timed_out: ArrayLike,
    target: float,
    confidence: float = 0.95,
    classes_per_decade: float = 2.0,
) -> SizeLimit:
    """Of runs in three columns of one length; sizes and times above 0, a time being what was reached where timed out.

    Raises BadSampleError for anything else. No runs give no classes.
    """
    x, y, cut = positive(sizes, "sizes"), positive(times, "times"), np.asarray(timed_out, dtype=bool)
    if not x.size == y.size == cut.size:
        raise BadSampleError(f"sizes, times, timed_out: {x.size}, {y.size}, {cut.size} entries; one of each a run")
    above_zero(classes_per_decade, "classes_per_decade")
    # An edge belongs to the class below it.
    place = np.ceil(np.round(np.log10(x) * classes_per_decade, 9)).astype(int)
    limits = [(int(k), limit_for(y[place == k], cut[place == k], target, confidence)) for k in np.unique(place)]
    smoothed = _isotonic(limits)
    classes, highest = [], 0.0
    for at, (k, limit) in enumerate(limits):
        line = None
        if limit.amount is not None:
            line = highest = max(highest, limit.amount)
        edges = (10 ** ((k - 1) / classes_per_decade), 10 ** (k / classes_per_decade))
        classes.append(SizeClass(edges[0], edges[1], limit, line, smoothed[at]))
    return SizeLimit(tuple(classes), target, confidence)


def _isotonic(limits: list[tuple[int, Limit]]) -> list[float | None]:
    known = [
        (at, limit.quantile.value, limit.runs)
        for at, (_, limit) in enumerate(limits)
        if limit.quantile.value is not None
    ]
    found: list[float | None] = [None] * len(limits)
    if known:
        from scipy.optimize import isotonic_regression

        fitted = isotonic_regression([math.log(value) for _, value, _ in known], weights=[runs for *_, runs in known])
        for (at, _, _), value in zip(known, fitted.x, strict=True):
            found[at] = math.exp(value)
    return found


@dataclass(frozen=True, slots=True)
class BackTest:
    """A limit by size against runs that it was not made from."""

    runs: int
    """With a limit to hold them against."""
    over: int
    """That would have timed out, or were stopped at the limit or beyond."""
    unknown: int
    """Stopped before they reached the limit: nobody knows."""
    without_limit: int
    """Of sizes for which there is none."""


def back_test(advice: SizeLimit, sizes: Numbers, times: Numbers, timed_out: ArrayLike) -> BackTest:
    """Of `advice.limit_at`. Columns as for `limit_by_size`."""
    x, y, cut = positive(sizes, "sizes"), positive(times, "times"), np.asarray(timed_out, dtype=bool)
    if not x.size == y.size == cut.size:
        raise BadSampleError(f"sizes, times, timed_out: {x.size}, {y.size}, {cut.size} entries; one of each a run")
    over = unknown = without = 0
    for size, time, stopped in zip(x.tolist(), y.tolist(), cut.tolist(), strict=True):
        limit = advice.limit_at(size)
        if limit is None:
            without += 1
        elif time > limit or (stopped and time == limit):
            over += 1
        elif stopped:
            unknown += 1
    return BackTest(x.size - without, over, unknown, without)
