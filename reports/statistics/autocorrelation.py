"""How long neighbours in a series depend on one another, so that a change test can keep them together.

A level that changes must not look like dependence, so nothing is compared with one mean. For an AR(1) series the mean
square of x[t + 2] - x[t] over that of x[t + 1] - x[t] is 1 + phi, and a few small steps add little to either; those
that nobody could miss are known before, and no difference is taken across them. On ranks, so that outliers weigh no
more than others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.sample import finite

LEAST_POINTS = 14

INDEPENDENT_ERROR = 1.4
DEPENDENT_ERROR = 1.9
"""Standard error of phi, times sqrt(n), at phi 0 and 0.7 (simulated; light, heavy and bimodal noise)."""

NOTICED = 1.28
"""Standard errors from which dependence is believed (one independent series in ten gets a block that it did not need),
and by which it is then taken to be larger than estimated."""

LARGEST_PHI = 0.95


@dataclass(frozen=True, slots=True)
class Dependence:
    phi: float
    """Correlation of neighbours, 0 to 0.95; as estimated."""
    time: float
    """Integrated autocorrelation time, points: so many neighbours tell as much as one independent point (1)."""
    block: int
    """Points to keep together: `time` at phi's upper end (80 %); 1 where no dependence was noticed."""


def dependence(values: ArrayLike, cuts: Sequence[int] = ()) -> Dependence:
    """Of `values` (shape (n,), in order of time, finite); `cuts`: first points after clear steps, ascending.

    Fewer than 14 points, or nothing but steps, count as independent.
    """
    array = finite(values, "values")
    n = array.size
    parts = [array[a:b] for a, b in itertools.pairwise([0, *cuts, n])]
    if n < LEAST_POINTS:
        return Dependence(0.0, 1.0, 1)
    residuals = np.concatenate([part - np.median(part) for part in parts])
    _, place, count = np.unique(residuals, return_inverse=True, return_counts=True)
    ranks = np.split((np.cumsum(count) - (count - 1) / 2)[place], list(cuts))
    squares = [np.concatenate([(part[lag:] - part[:-lag]) ** 2 for part in ranks]) for lag in (1, 2)]
    if squares[1].size == 0 or not squares[0].any():
        return Dependence(0.0, 1.0, 1)
    phi = min(LARGEST_PHI, max(0.0, float(squares[1].mean() / squares[0].mean()) - 1))
    if phi < NOTICED * INDEPENDENT_ERROR / math.sqrt(n):
        return Dependence(phi, _time(phi), 1)
    upper = min(LARGEST_PHI, phi + NOTICED * DEPENDENT_ERROR / math.sqrt(n))
    return Dependence(phi, _time(phi), math.ceil(_time(upper)))


def _time(phi: float) -> float:
    return (1 + phi) / (1 - phi)
