"""R7: how often the whole pipeline cries wolf, from comparisons of a thing with itself, and the delta that follows.

Interval by Clopper & Pearson (1934), exact for independent comparisons. Where none or all alarmed the free end is
one-sided, so that 0 of 300 means "at most 1.0 %".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.sample import BadSampleError, Numbers, above_zero, finite, share, whole


@dataclass(frozen=True, slots=True)
class AlarmRate:
    alarms: int
    comparisons: int
    rate: float | None
    low: float | None
    high: float | None
    """Shares, 0 to 1; None without any comparison."""
    confidence: float

    def expected(self, comparisons: float) -> tuple[float, float, float] | None:
        """(low, likely, high) number of false alarms in so many comparisons: a week's, say. None if the rate is."""
        above_zero(comparisons, "comparisons")
        if self.rate is None or self.low is None or self.high is None:
            return None
        return self.low * comparisons, self.rate * comparisons, self.high * comparisons


def alarm_rate(alarms: int, comparisons: int, confidence: float = 0.95) -> AlarmRate:
    """Raises BadSampleError unless 0 <= alarms <= comparisons."""
    share(confidence, "confidence")
    whole(comparisons, "comparisons", 0)
    if whole(alarms, "alarms", 0) > comparisons:
        raise BadSampleError(f"alarms: {alarms} in {comparisons} comparisons; there cannot be more alarms than those")
    if comparisons == 0:
        return AlarmRate(0, 0, None, None, None, confidence)
    low, high = share_interval(alarms, comparisons, confidence)
    return AlarmRate(alarms, comparisons, alarms / comparisons, low, high, confidence)


def share_interval(hits: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson for `hits` of `of` (at least 1); the free end one-sided at 0 and at `of`."""
    from scipy.stats import beta

    alpha = 1 - confidence
    if hits == 0:
        return 0.0, 1 - alpha ** (1 / of)
    if hits == of:
        return alpha ** (1 / of), 1.0
    low = float(beta.ppf(alpha / 2, hits, of - hits + 1))
    return low, float(beta.ppf(1 - alpha / 2, hits + 1, of - hits))


def sample_floor(quantile: float, confidence: float = 0.95) -> int:
    """Least n for "the `quantile` lies at or below the largest of n values" with `confidence` (Wilks 1941)."""
    share(quantile, "quantile")
    return math.ceil(math.log(1 - share(confidence, "confidence")) / math.log(quantile))


def calibrated_delta(log_ratios: Numbers, rate: float = 0.01, confidence: float = 0.95) -> float | None:
    """Smallest delta that effects of nothing exceed at most in `rate` of comparisons, with one-sided `confidence`.

    `log_ratios`: ln of estimated ratios of things with themselves; None with fewer than `sample_floor(1 - rate)`.
    """
    share(rate, "rate")
    sizes = np.sort(np.abs(finite(log_ratios, "log_ratios")))[::-1]
    found = None
    for above, size in enumerate(sizes.tolist()):
        # With delta at this size, as many as stand before it exceed it.
        upper = share_interval(above, sizes.size, confidence if above == 0 else 2 * confidence - 1)[1]
        if upper > rate:
            break
        found = math.expm1(size)
    return found
