"""C2: what each time limit buys: share solved, cost a verdict, mean time spent; and where the knee is.

On Kaplan-Meier with time-outs censored; wall and CPU each have a curve. Means over finished runs only would be wrong:
they leave out the time spent on those that did not finish. A limit for a target rate is `safe_limit.limit_for`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.sample import above_zero, share
from proofcost.reports.statistics.survival import Bounded, Survival


@dataclass(frozen=True, slots=True)
class Bought:
    """By a time limit."""

    limit: float
    solved: Bounded
    """Share of runs that end within it."""
    mean_spent: Bounded
    """E[min(X, limit)], unit of the times."""
    cost_per_verdict: float | None
    """Mean spent over share solved; None where nothing is solved, or the limit lies beyond what was seen."""


def bought_by(curve: Survival, limit: float) -> Bought:
    """Raises BadSampleError for a limit that is not above 0."""
    above_zero(limit, "limit")
    beyond = curve.exceedance(limit)
    solved = Bounded(*(None if s is None else 1 - s for s in (beyond.value, beyond.high, beyond.low)))
    spent = curve.restricted_mean(limit)
    cost = None
    if spent.value is not None and solved.value:
        cost = spent.value / solved.value
    return Bought(limit, solved, spent, cost)


def limit_for_share(curve: Survival, solved: float) -> Bounded:
    """The time within which a share `solved` of runs ends, with its interval; None where the curve stays below."""
    return curve.quantile(share(solved, "solved"))


def cheapest_limit(curve: Survival) -> Bought | None:
    """The limit (a time at which some run ended) with the least mean time a verdict, if whoever fails may be asked for
    another. None where nothing ended. It favours giving up early: hard ones are then never solved."""
    ended = curve.values[curve.events > 0]
    if ended.size == 0:
        return None
    # Area up to each time: the curve's steps, added up once.
    starts = np.concatenate([[0.0], curve.values[:-1]])
    areas = np.cumsum(np.concatenate([[1.0], curve.survival[:-1]]) * (curve.values - starts))
    with np.errstate(divide="ignore"):
        cost = np.where(curve.events > 0, areas / (1 - curve.survival), np.inf)
    return bought_by(curve, float(curve.values[int(np.argmin(cost))]))


def knee(curve: Survival) -> float | None:
    """The time past which more time buys little: where the solved share is furthest above the straight line, over the
    logarithm of time, from the first end to the last (Satopaa et al. 2011). None with fewer than three such times."""
    ended = curve.events > 0
    times, solved = np.log(curve.values[ended]), 1 - curve.survival[ended]
    if times.size < 3:
        return None
    line = solved[0] + (times - times[0]) / (times[-1] - times[0]) * (solved[-1] - solved[0])
    return float(curve.values[ended][int(np.argmax(solved - line))])
