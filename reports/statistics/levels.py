"""R2: where the noise comes from, and so which level to repeat: iterations, processes, builds.

Kalibera & Jones, Rigorous Benchmarking in Reasonable Time (2013): a variance for each level of a balanced, nested
experiment, and the cheapest number of repetitions below the top. Levels count from the lowest, as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.sample import BadSampleError, above_zero, finite, share


@dataclass(frozen=True, slots=True)
class Level:
    """One level of repetition."""

    count: int
    """Repetitions at this level within one of the next higher."""
    variance_of_means: float
    """S2: variance of this level's means about those of the next level, averaged; unit squared."""
    own_variance: float
    """T2: what this level adds by itself, not below 0; unit squared."""
    negative: float | None
    """The estimate as it came out, where it was below 0 and 0 stands for it: the lower level explains all that was
    seen here. None otherwise."""


@dataclass(frozen=True, slots=True)
class Levels:
    mean: float
    levels: tuple[Level, ...]
    """From the lowest (iterations) to the top (what counts as independent)."""

    def half_width(self, confidence: float = 0.95) -> float:
        """Half of the mean's interval by t, in its unit: the top level's means alone decide it."""
        from scipy.stats import t

        top = self.levels[-1]
        quantile = float(t.ppf((1 + share(confidence, "confidence")) / 2, top.count - 1))
        return quantile * math.sqrt(top.variance_of_means / top.count)


def nested_levels(values: ArrayLike) -> Levels:
    """Variances by level of `values`, of shape (top, ..., lowest), each at least 2, all finite.

    Raises BadSampleError for a ragged or too small experiment: leave out until every group has the same number.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadSampleError("levels: not the same number of numbers in every group; leave some out") from None
    if array.ndim == 0 or min(array.shape) < 2:
        raise BadSampleError(f"levels: shape {array.shape}; a variance needs at least 2 repetitions at every level")
    finite(array.ravel(), "levels")
    levels: list[Level] = []
    means = array
    for count in reversed(array.shape):
        of_means = float(means.var(axis=-1, ddof=1).mean())
        own = of_means - levels[-1].variance_of_means / levels[-1].count if levels else of_means
        levels.append(Level(count, of_means, max(0.0, own), own if own < 0 else None))
        means = means.mean(axis=-1)
    return Levels(float(array.mean()), tuple(levels))


@dataclass(frozen=True, slots=True)
class Repetitions:
    """What to do in the next experiment."""

    counts: tuple[int | None, ...]
    """For each level below the top, from the lowest. None: the level above adds nothing of its own, so repeating here
    is as good as there and cheaper."""
    top: int
    """Of the top level, so that the mean's interval gets no wider than was asked for."""


def repetitions(
    levels: Levels, costs: Sequence[float], half_width_ratio: float, confidence: float = 0.95
) -> Repetitions:
    """Cheapest repetitions for an interval of half `half_width_ratio` of the mean.

    `costs`: of one repetition at each level from the lowest, in any one unit, without what it holds of lower levels (a
    build without its runs). Raises BadSampleError if they do not match, or the mean is not above 0.
    """
    share(half_width_ratio, "half_width_ratio")
    if len(costs) != len(levels.levels):
        raise BadSampleError(f"costs: {len(costs)} for {len(levels.levels)} levels; one each, from the lowest")
    for i, cost in enumerate(costs):
        above_zero(cost, f"costs[{i}]")
    mean = above_zero(levels.mean, "mean")
    counts: list[int | None] = []
    for i, (below, above) in enumerate(zip(levels.levels, levels.levels[1:], strict=False)):
        if below.own_variance == 0:
            counts.append(1)
        elif above.own_variance == 0:
            counts.append(None)
        else:
            counts.append(math.ceil(math.sqrt(costs[i + 1] / costs[i] * below.own_variance / above.own_variance)))
    # What one repetition of the top level varies by, its own lower levels repeated as planned.
    variance, within = 0.0, 1
    for level, count in zip(reversed(levels.levels), [1, *reversed(counts)], strict=True):
        within *= level.count if count is None else count
        variance += level.own_variance / within
    z = NormalDist().inv_cdf((1 + share(confidence, "confidence")) / 2)
    return Repetitions(tuple(counts), max(2, math.ceil((z / (half_width_ratio * mean)) ** 2 * variance)))
