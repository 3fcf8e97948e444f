"""How a cost is distributed when some runs were stopped before they showed theirs: Kaplan-Meier, with intervals.

A run that ran into a limit is right-censored: its cost is at least what it had reached. Counting it as if it had ended
there, or leaving it out, makes every quantile too small. Assumes that a limit was set without regard to how much the
run would have needed. Intervals: Greenwood's variance on the log-minus-log scale (Kalbfleisch & Prentice), each point
for itself; where that is undefined, the exact binomial one of as many runs as the curve is worth.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.sample import BadSampleError, Floats, Ints, Numbers, above_zero, positive, share


@dataclass(frozen=True, slots=True)
class Bounded:
    """A figure and its interval; an end alone, or all, None where the data do not reach that far."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Survival:
    """Share of runs that need more than a given amount, as a step function."""

    values: Floats
    """Distinct amounts seen, ascending; shape (k,)."""
    survival: Floats
    """P(X > values[i]); shape (k,)."""
    low: Floats
    high: Floats
    """Interval of `survival` at each; shape (k,)."""
    at_risk: Ints
    events: Ints
    """Runs that were still there at values[i], and how many of them ended with it; shape (k,)."""
    count: int
    censored: int
    confidence: float

    @property
    def largest(self) -> float | None:
        """Beyond it nothing is known; None for no runs."""
        return float(self.values[-1]) if self.values.size else None

    def exceedance(self, amount: float) -> Bounded:
        """P(X > amount). Beyond the largest amount seen only an upper bound is known, unless all ended before."""
        at = int(np.searchsorted(self.values, amount, side="right")) - 1
        if at < 0:
            if self.values.size == 0:
                return Bounded(None, None, None)
            return Bounded(1.0, ((1 - self.confidence) / 2) ** (1 / self.count), 1.0)
        value, high = float(self.survival[at]), float(self.high[at])
        if at == self.values.size - 1 and amount > self.values[-1] and value > 0:
            return Bounded(None, 0.0, high)
        return Bounded(value, float(self.low[at]), high)

    def quantile(self, p: float) -> Bounded:
        """Amount that a share `p` of runs gets by with: where the curve and its interval's ends come down to 1 - p."""
        rest = 1 - share(p, "p") + 1e-12  # 1 - 0.95 is 0.05 and a little
        found = [self._first(curve <= rest) for curve in (self.survival, self.low, self.high)]
        return Bounded(found[0], found[1], found[2])

    def restricted_mean(self, limit: float) -> Bounded:
        """E[min(X, limit)], normal interval; None where `limit` lies beyond what was seen and some needed more."""
        above_zero(limit, "limit")
        if self.values.size == 0 or (limit > self.values[-1] and self.survival[-1] > 0):
            return Bounded(None, None, None)
        inside = self.values < limit
        starts = np.concatenate([[0.0], self.values[inside]])
        ends = np.concatenate([self.values[inside], [limit]])
        areas = np.concatenate([[1.0], self.survival[inside]]) * (ends - starts)
        rest = np.cumsum(areas[::-1])[::-1][1:]  # area to the right of each amount seen
        risk, events = self.at_risk[inside], self.events[inside]
        hazard = events / (risk * np.maximum(risk - events, 1))
        half = NormalDist().inv_cdf((1 + self.confidence) / 2) * math.sqrt(float((rest**2 * hazard).sum()))
        mean = float(areas.sum())
        return Bounded(mean, max(0.0, mean - half), min(float(limit), mean + half))

    @cached_property
    def complete(self) -> bool:
        """No run was stopped at the far end: the curve comes down to 0."""
        return bool(self.values.size and self.survival[-1] == 0)

    def surely_at_most(self, confidence: float = 0.95) -> Floats:
        """One-sided upper bounds of `survival`, shape (k,), for promises about the tail: exact binomial, of as many
        uncensored runs as each point is worth. The log-minus-log interval breaks its promise there up to half as often
        again as it says (0.075 for 0.05 with 400 runs)."""
        from scipy.special import betaincinv

        alpha = 1 - share(confidence, "confidence")
        worth = _worth(self.survival, self.at_risk, self.events)
        above = worth * self.survival
        bounds = np.ones(self.values.size)
        some = self.survival < 1
        bounds[some] = betaincinv(above[some] + 1, (worth - above)[some], 1 - alpha)
        return bounds

    def _first(self, reached: np.ndarray) -> float | None:
        at = np.flatnonzero(reached)
        return float(self.values[at[0]]) if at.size else None


def survival_curve(amounts: Numbers, censored: ArrayLike, confidence: float = 0.95) -> Survival:
    """Kaplan-Meier of `amounts` (above 0, one unit, one a run), `censored` saying which runs were stopped there.

    No runs give an empty curve. Raises BadSampleError for amounts that are none, or columns of different length.
    """
    x, cut = positive(amounts, "amounts"), np.asarray(censored, dtype=bool)
    share(confidence, "confidence")
    if cut.shape != x.shape:
        raise BadSampleError(f"censored: {cut.size} entries for {x.size} amounts; one each")
    if x.size == 0:
        none, nothing = np.zeros(0), np.zeros(0, dtype=np.int64)
        return Survival(none, none, none, none, nothing, nothing, 0, 0, confidence)
    from scipy.stats import CensoredData, ecdf

    curve = ecdf(CensoredData.right_censored(x, cut)).sf
    values, survival = np.asarray(curve.quantiles, dtype=float), np.asarray(curve.probabilities, dtype=float)
    with warnings.catch_warnings():
        # Undefined where the curve is 1 or 0; filled in below.
        warnings.simplefilter("ignore", RuntimeWarning)
        ends = curve.confidence_interval(confidence, method="log-log")
        low, high = np.array(ends.low.probabilities, dtype=float), np.array(ends.high.probabilities, dtype=float)
    events = np.bincount(np.searchsorted(values, x[~cut]), minlength=values.size)
    at_risk: Ints = x.size - np.searchsorted(np.sort(x), values, side="left")
    survival[np.abs(survival) < 1e-12] = 0.0
    one_sided = (1 + confidence) / 2
    before = survival == 1
    low[before] = (1 - one_sided) ** (1 / np.maximum(1, at_risk[before]))
    high[before] = 1.0
    if survival[-1] == 0:
        low[-1] = 0.0
        high[-1] = 1 - (1 - one_sided) ** (1 / _worth(survival, at_risk, events)[-1])
    return Survival(values, survival, low, high, at_risk, events, int(x.size), int(cut.sum()), confidence)


def _worth(survival: Floats, at_risk: Ints, events: Ints) -> Floats:
    """How many uncensored runs would know each point as well: Cutler & Ederer's effective number. At 0, where it is
    undefined, as many as those still there would be the rest of: one that stands for half of all is worth two."""
    left = at_risk - events
    with np.errstate(divide="ignore", invalid="ignore"):
        greenwood = np.cumsum(np.where(events > 0, events / (at_risk * left), 0.0))
        worth: Floats = np.where(survival < 1, (1 - survival) / survival / greenwood, at_risk)
    if survival.size and survival[-1] == 0:
        worth[-1] = at_risk[-1] / (survival[-2] if survival.size > 1 else 1.0)
    return worth


def log_rank(one: tuple[Numbers, ArrayLike], other: tuple[Numbers, ArrayLike]) -> tuple[float, float] | None:
    """(chi-square with 1 degree of freedom, p) of "no difference" between two (amounts, censored); None where nothing
    ended by itself on either side. Raises BadSampleError for bad or no amounts."""
    from scipy.stats import CensoredData, logrank

    sides = []
    for name, (amounts, censored) in (("one", one), ("other", other)):
        x, cut = positive(amounts, name), np.asarray(censored, dtype=bool)
        if x.size == 0 or cut.shape != x.shape:
            raise BadSampleError(f"{name}: {x.size} amounts, {cut.size} marks; at least one of each, as many of both")
        sides.append(CensoredData.right_censored(x, cut))
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = logrank(*sides)
    statistic = float(found.statistic)
    return (statistic**2, float(found.pvalue)) if math.isfinite(statistic) else None
