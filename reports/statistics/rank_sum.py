"""Rank-sum test and shift between two independent samples, with its exact interval.

Mann-Whitney with the exact distribution given the sizes seen, ties included; the shift is Hodges & Lehmann's median of
all pairwise differences, its interval by inverting the test (Hollander & Wolfe, chapter 4). Assumes that both sides are
drawn independently from distributions that differ in place only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.sample import BadSampleError, Floats, Ints, finite, share

EXACT_UP_TO = 100
"""Values on both sides together; beyond, the normal approximation with its correction for ties."""

LISTED_UP_TO = 1_000_000
"""Pairs; beyond, the k-th smallest difference is searched without listing them."""


@dataclass(frozen=True, slots=True)
class RankSum:
    """What two samples say: head less base."""

    base_count: int
    head_count: int
    shift: float
    low: float | None
    high: float | None
    """Interval of at least the level asked for; None where the samples are too small for any."""
    p: float
    """Two-sided."""
    statistic: float
    """U of head: pairs in which head is larger, ties counting half."""
    method: str
    """`exact` or `normal`."""


def least_p(base_count: int, head_count: int) -> float:
    """The smallest two-sided p that two samples of these sizes can give: no overlap at all."""
    return min(1.0, 2 / math.comb(base_count + head_count, base_count))


def rank_sum(base: ArrayLike, head: ArrayLike, confidence: float = 0.95) -> RankSum:
    """Test and shift for two samples (any unit, finite, at least one value each; else BadSampleError)."""
    x, y = finite(base, "base"), finite(head, "head")
    share(confidence, "confidence")
    if x.size == 0 or y.size == 0:
        raise BadSampleError(f"{'base' if x.size == 0 else 'head'}: no values; at least one on each side is needed")
    both = np.concatenate([x, y])
    _, place, count = np.unique(both, return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(count) - count + 1)[place]
    statistic = doubled[x.size :].sum() / 2 - y.size * (y.size + 1) / 2
    if both.size <= EXACT_UP_TO:
        p, method = _subset_p(doubled, x.size, count.size < both.size), "exact"
    else:
        from scipy.stats import mannwhitneyu

        p, method = (1.0 if count.size == 1 else float(mannwhitneyu(y, x, method="asymptotic").pvalue)), "normal"
    pairs = x.size * y.size
    cut = _cut(x.size, y.size, confidence)
    low = pair_difference(x, y, cut) if cut else None
    high = pair_difference(x, y, pairs + 1 - cut) if cut else None
    return RankSum(x.size, y.size, shift(x, y), low, high, p, float(statistic), method)


def _subset_sums(doubled: Ints, size: int) -> Floats:
    """Distribution of the sum of `size` of these whole numbers drawn without replacement; entry s is its chance."""
    chance = np.zeros((size + 1, int(doubled.sum()) + 1))
    chance[0, 0] = 1.0
    for value in doubled:
        # From the right-hand side as it was: one value is drawn once at most.
        chance[1:, value:] += chance[:-1, : chance.shape[1] - value].copy()
    total: Floats = chance[size] / math.comb(doubled.size, size)
    return total


@lru_cache(maxsize=256)
def _untied(size: int, total: int) -> Floats:
    """The same of `size` ranks among `total` values of which no two are alike: made once for each such pair."""
    return _subset_sums(np.arange(1, total + 1), size)


def _subset_p(doubled: Ints, base_count: int, tied: bool) -> float:
    seen = int(doubled[:base_count].sum())
    if tied:
        chance = _subset_sums(doubled, base_count)
    else:
        chance, seen = _untied(base_count, doubled.size), seen // 2
    tail = min(chance[: seen + 1].sum(), chance[seen:].sum())
    return float(min(1.0, 2 * tail))


@lru_cache(maxsize=1024)
def _cut(base_count: int, head_count: int, confidence: float) -> int:
    """c for which the c-th smallest and c-th largest pair difference are the interval's ends; 0 where there is none."""
    alpha = (1 - confidence) / 2
    total = base_count + head_count
    if total > EXACT_UP_TO:
        from scipy.stats import norm

        spread = math.sqrt(base_count * head_count * (total + 1) / 12)
        return max(0, math.floor(base_count * head_count / 2 + float(norm.ppf(alpha)) * spread))
    least_sum = base_count * (base_count + 1) // 2
    below = np.cumsum(_untied(base_count, total)[least_sum:])
    return int(np.searchsorted(below, alpha * (1 + 1e-12), side="right"))


def shift(x: Floats, y: Floats) -> float:
    """Hodges-Lehmann: median of all y[j] - x[i]; at least one value each."""
    pairs = x.size * y.size
    return (pair_difference(x, y, (pairs + 1) // 2) + pair_difference(x, y, pairs // 2 + 1)) / 2


def pair_difference(x: Floats, y: Floats, k: int) -> float:
    """The k-th smallest (from 1) of all y[j] - x[i]."""
    if x.size * y.size <= LISTED_UP_TO:
        return float(np.partition(np.subtract.outer(y, x).ravel(), k - 1)[k - 1])
    xs, ys = np.sort(x), np.sort(y)

    def at_most(bound: float) -> int:
        return int(np.searchsorted(ys, xs + bound, side="right").sum())

    low, high = float(ys[0] - xs[-1]), float(ys[-1] - xs[0])
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high if at_most(low) < k else low
        if at_most(middle) >= k:
            high = middle
        else:
            low = middle
