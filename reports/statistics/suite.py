"""R4: a whole suite in one figure: the geometric mean of the submissions' ratios, with an interval over submissions.

Ratios multiply, so their mean is geometric: which side is the reference then changes nothing (Fleming & Wallace 1986).
The interval is a studentised bootstrap that draws whole submissions (Davison & Hinkley, Bootstrap Methods, 5.2.1): the
plain percentile bootstrap is too narrow (7.6 % false alarms instead of 5 with ten runs a side). Where Student's
interval reaches further its end is taken: under heavy symmetric tails the bootstrap alone covered 91.5 % instead of 95,
under skew Student's alone covers too little. Assumes that the submissions are a sample of those one speaks about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.comparison import ratio_of_logs
from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, positive, share

LEAST_SUBMISSIONS = 6
"""Below, too many of the draws hold one submission only, and the interval has no end."""

RESAMPLES = 9999

LARGEST_T = 100.0
"""An end so many standard errors away is no end: the draws hold submissions that are alike to the last digits."""


@dataclass(frozen=True, slots=True)
class SuiteRatio:
    submissions: int
    ratio: float | None
    """None without any submission."""
    low: float | None
    high: float | None
    """None with fewer than `LEAST_SUBMISSIONS`, or where they are so much alike but for a few that no end is found."""
    confidence: float


def geometric_mean(ratios: ArrayLike) -> float:
    """Of at least one ratio above 0, else BadSampleError."""
    values = positive(ratios, "ratios")
    if values.size == 0:
        raise BadSampleError("ratios: there are none, and so no mean of them")
    return ratio_of_logs(math.fsum(np.log(values)) / values.size)


def suite_ratio(
    ratios: Mapping[str, Numbers], confidence: float = 0.95, seed: int = 0, resamples: int = RESAMPLES
) -> SuiteRatio:
    """Geometric mean of each submission's geometric mean, `ratios` being head over base per submission (one or several:
    by kernel, say), of submissions that have a verdict on both sides.

    One submission weighs as much as another, however many ratios it has. A submission without ratios, or a ratio that
    is not a finite number above 0, raises BadSampleError. The order of submissions does not matter.
    """
    share(confidence, "confidence")
    means = []
    for name, values in ratios.items():
        logs = np.log(positive(values, f"ratios of {name}"))
        if logs.size == 0:
            raise BadSampleError(f"ratios of {name}: none; leave the submission out and count it apart")
        means.append(math.fsum(logs) / logs.size)
    if not means:
        return SuiteRatio(0, None, None, None, confidence)
    clusters = np.sort(np.array(means))
    mean = math.fsum(clusters) / clusters.size
    low, high = _studentised(clusters, mean, confidence, seed, resamples)
    ends = [None if end is None else ratio_of_logs(end) for end in (low, high)]
    return SuiteRatio(len(means), ratio_of_logs(mean), ends[0], ends[1], confidence)


def _studentised(
    clusters: Floats, mean: float, confidence: float, seed: int, resamples: int
) -> tuple[float | None, float | None]:
    n = clusters.size
    if n < LEAST_SUBMISSIONS:
        return None, None
    if clusters[0] == clusters[-1]:
        return mean, mean
    error = float(clusters.std(ddof=1)) / math.sqrt(n)
    random = np.random.default_rng(seed)
    t = np.empty(resamples)
    step = max(1, 2_000_000 // n)  # draws at a time: 16 MB
    for start in range(0, resamples, step):
        drawn = clusters[random.integers(0, n, (min(step, resamples - start), n))]
        off = drawn.mean(axis=1) - mean
        errors = drawn.std(axis=1, ddof=1) / math.sqrt(n)
        # A draw without any spread is infinitely many of its errors off.
        with np.errstate(divide="ignore", invalid="ignore"):
            t[start : start + len(drawn)] = np.where(errors > 1e-12 * error, off / errors, np.sign(off) * np.inf)
    alpha = (1 - confidence) / 2
    upper, lower = np.quantile(np.nan_to_num(t, nan=0.0, posinf=1e300, neginf=-1e300), [1 - alpha, alpha])
    if max(abs(upper), abs(lower)) > LARGEST_T:
        return None, None
    from scipy.stats import t as student

    least = float(student.ppf(1 - alpha, n - 1))
    return mean - max(float(upper), least) * error, mean - min(float(lower), -least) * error
