"""Signed-rank test and Hodges-Lehmann estimate with its exact interval, for paired differences.

Wilcoxon's test without dropping zeros and without a normal approximation where it can be helped. Assumes that a
difference and its negative are equally likely when nothing changed (Hollander & Wolfe, Nonparametric Statistical
Methods, chapter 3; zeros as Pratt 1959 ranks them).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofcost.reports.statistics.sample import BadSampleError, Floats, Ints, finite, share

EXACT_UP_TO = 500
"""Differences. The exact distribution takes time with the cube of their number: 0.1 s here."""


@dataclass(frozen=True, slots=True)
class SignedRank:
    """What n paired differences say."""

    n: int
    estimate: float
    """Hodges-Lehmann: median of all pairwise means (Walsh averages), the pseudo-median."""
    low: float | None
    high: float | None
    """Interval of at least the level asked for; None where n is too small for any."""
    p: float
    """Two-sided."""
    statistic: float
    """V: sum of the ranks of the positive differences."""
    method: str
    """`exact`, `sign flips` (ties or zeros: exact given the sizes seen), or `normal` (many differences)."""


def least_p(n: int) -> float:
    """The smallest two-sided p that n differences can give: all of one sign."""
    return min(1.0, 2.0 ** (1 - n))


def signed_rank(differences: ArrayLike, confidence: float = 0.95) -> SignedRank:
    """Test and estimate for `differences` (shape (n,), any unit, finite, at least one).

    With ties the interval keeps at least its level (its ends belong to it). Raises BadSampleError for no differences.
    """
    d = finite(differences, "differences")
    share(confidence, "confidence")
    if d.size == 0:
        raise BadSampleError("differences: there are none; at least one pair is needed")
    doubled, zeros = _doubled_ranks(d)
    positive_sum = int(doubled[d > 0].sum())
    tied = bool(zeros.any()) or np.unique(np.abs(d)).size < d.size
    if d.size > EXACT_UP_TO:
        p, method = _normal_p(doubled[~zeros], positive_sum), "normal"
    elif tied:
        p, method = _two_sided(_flips(doubled[~zeros]), positive_sum), "sign flips"
    else:
        p, method = _two_sided(_untied(d.size), positive_sum // 2), "exact"
    estimate, low, high = _estimate(d, confidence)
    return SignedRank(int(d.size), estimate, low, high, p, positive_sum / 2, method)


def one_sided_p(differences: ArrayLike) -> float:
    """P of a V at least as large as seen, by all sign flips: small when the differences lie above 0."""
    d = finite(differences, "differences")
    if not 0 < d.size <= EXACT_UP_TO:
        raise BadSampleError(f"differences: {d.size} of them; one-sided p is exact, for 1 to {EXACT_UP_TO}")
    doubled, zeros = _doubled_ranks(d)
    return float(_flips(doubled[~zeros])[int(doubled[d > 0].sum()) :].sum())


def _doubled_ranks(d: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """Twice the mid-ranks of |d|, so that they are whole, and which differences are 0 (ranked, never counted)."""
    size = np.abs(d)
    _, place, count = np.unique(size, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (2 * last - count + 1)[place], size == 0


def _flips(ranks: Ints) -> Floats:
    """Distribution of the sum of the positive ones over all sign flips: entry s is the chance that it equals s."""
    total = int(ranks.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in ranks:
        kept = chance * 0.5
        kept[rank:] += chance[: total + 1 - rank] * 0.5
        chance = kept
    return chance


@lru_cache(maxsize=32)
def _untied(n: int) -> Floats:
    """Distribution of V of n differences of which no two are of one size: the same for any, so made once for each n."""
    return _flips(np.arange(1, n + 1))


def _two_sided(chance: Floats, statistic: int) -> float:
    tail = min(chance[: statistic + 1].sum(), chance[statistic:].sum())
    return float(min(1.0, 2 * tail))


def _normal_p(doubled: Ints, positive_sum: int) -> float:
    """With continuity correction; mid-ranks as they are give the variance with ties."""
    spread = math.sqrt(float((doubled / 2) @ (doubled / 2)) / 4)
    if spread == 0:
        return 1.0
    beyond = max(0.0, abs(positive_sum / 2 - float(doubled.sum()) / 4) - 0.5)
    return math.erfc(beyond / spread / math.sqrt(2))


@lru_cache(maxsize=1024)
def _cut(n: int, confidence: float) -> int:
    """c for which the c-th smallest and c-th largest Walsh average are the interval's ends; 0 where there is none.

    The largest c with P(V <= c - 1) <= (1 - confidence) / 2.
    """
    alpha = (1 - confidence) / 2
    if n > EXACT_UP_TO:
        from scipy.stats import norm

        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(0, math.floor(n * (n + 1) / 4 + float(norm.ppf(alpha)) * spread))
    below = np.cumsum(_untied(n))
    # A tail that equals alpha but for rounding counts as alpha.
    return int(np.searchsorted(below, alpha * (1 + 1e-12), side="right"))


def _estimate(d: Floats, confidence: float) -> tuple[float, float | None, float | None]:
    """Hodges-Lehmann and the ends of its interval, None where there is none."""
    count, cut = d.size * (d.size + 1) // 2, _cut(int(d.size), confidence)
    ends = [] if cut == 0 else [cut, count + 1 - cut]
    one, other, *interval = walsh_averages(d, [(count + 1) // 2, count // 2 + 1, *ends])
    low, high = interval or (None, None)
    return (one + other) / 2, low, high


@lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[Ints, Ints]:
    rows, columns = np.triu_indices(n)
    return rows, columns


def walsh_averages(d: Floats, places: Sequence[int]) -> list[float]:
    """Of the means of all pairs i <= j, in ascending order, those at `places` (from 1); without listing them all when
    they are many."""
    ordered = np.sort(d)
    if d.size <= EXACT_UP_TO:
        rows, columns = _pairs(d.size)
        # Halved before they are added: two huge values stay finite.
        means = np.partition(ordered[rows] / 2 + ordered[columns] / 2, sorted({k - 1 for k in places}))
        return [float(means[k - 1]) for k in places]
    return [_walsh_average(ordered, k) for k in places]


def _walsh_average(ordered: Floats, k: int) -> float:
    low, high = float(ordered[0]), float(ordered[-1])
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high if _walsh_at_most(ordered, low) < k else low
        if _walsh_at_most(ordered, middle) >= k:
            high = middle
        else:
            low = middle


def _walsh_at_most(ordered: Floats, bound: float) -> int:
    """How many pairs i <= j have a mean of at most `bound`."""
    upto = np.searchsorted(ordered, 2 * bound - ordered, side="right")
    return int(np.maximum(0, upto - np.arange(ordered.size)).sum())
