"""Amounts that count less the older they are: the Kubernetes autoscaler's rule, for comparison with its advice.

Buckets, each sample's weight doubling with every half-life of its time, so that old ones fade beside new ones; a
percentile is the end of its bucket. An out-of-memory kill is counted as a peak of 1.2 times its limit (at least 100 MiB
more), which this package's own advice never does: see `safe_limit`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.sample import BadSampleError, Numbers, above_zero, not_negative

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Buckets:
    """Ascending ends of buckets; the first starts at 0, the last takes all that is larger."""

    ends: tuple[float, ...]


def linear_buckets(width: float, count: int) -> Buckets:
    above_zero(width, "width")
    return Buckets(tuple(width * (i + 1) for i in range(count)))


def exponential_buckets(first: float, growth: float, largest: float) -> Buckets:
    """Each bucket `growth` times as wide as the one before (1.05 there)."""
    above_zero(first, "first")
    if not growth > 1:
        raise BadSampleError(f"growth is {growth}: each bucket must be wider than the one before")
    ends = [first]
    width = first
    while ends[-1] < largest:
        width *= growth
        ends.append(ends[-1] + width)
    return Buckets(tuple(ends))


def decayed_percentile(
    values: Numbers, weights: Numbers, times_s: Sequence[float], half_life_s: float, buckets: Buckets, p: float
) -> float | None:
    """End of the bucket in which a share `p` (0 to 1) of the decayed weight is reached; None without weight.

    `values`, `weights` at least 0; `times_s`: any origin. Raises BadSampleError for columns of different length.
    """
    x, weight = not_negative(values, "values"), not_negative(weights, "weights")
    above_zero(half_life_s, "half_life_s")
    times = np.asarray(times_s, dtype=float)
    if not x.size == weight.size == times.size:
        raise BadSampleError(f"values, weights, times: {x.size}, {weight.size}, {times.size}; one of each a sample")
    if x.size == 0 or not weight.any():
        return None
    # Relative to the newest, so that nothing overflows.
    decayed = weight * np.exp2((times - times.max()) / half_life_s)
    place = np.minimum(np.searchsorted(buckets.ends, x, side="right"), len(buckets.ends) - 1)
    sums = np.cumsum(np.bincount(place, weights=decayed, minlength=len(buckets.ends)))
    at = int(np.searchsorted(sums, p * sums[-1], side="left"))
    return buckets.ends[min(at, int(place.max()))]


def confidence_scaled(value: float, samples: int, span_s: float, multiplier: float, exponent: float) -> float:
    """`value` x (1 + multiplier / confidence)^exponent, confidence being days of history, at a sample a minute at most.

    Without history the bound is infinite.
    """
    confidence = min(span_s / DAY_S, samples / (24 * 60))
    if confidence <= 0:
        return math.inf
    return float(value * (1 + multiplier / confidence) ** exponent)
