"""C1: the limit that keeps kills below a target rate, from amounts (peaks) of which some were cut at a limit.

The limit is the smallest amount seen that a further run surely (with the stated confidence) exceeds no oftener than the
target. It is never beyond what was seen: there is no promise there (`tail` draws a dashed line). A kill counts as
"needed more than its limit", never as a peak of that size, so that limits do not feed on the kills that they caused
(kubernetes/autoscaler#9521).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.alarm_rate import sample_floor
from proofcost.reports.statistics.sample import Numbers, above_zero, share, whole
from proofcost.reports.statistics.survival import Bounded, Survival, survival_curve


class Evidence(Enum):
    """Whether there is enough for a limit, and if not, what is missing."""

    ENOUGH = "enough"
    NONE = "no runs"
    TOO_FEW = "too few runs for this target, whatever they show"
    CENSORED = "too many runs were stopped by their limit: some must run with a higher one"
    NOT_SURE = "the runs show it, but not surely yet: more runs"


@dataclass(frozen=True, slots=True)
class Limit:
    """An amount (memory, time, disk) that all but a target share of runs gets by with."""

    amount: float | None
    """Unit of the runs; None unless `evidence` is ENOUGH."""
    evidence: Evidence
    target: float
    """Share of runs that may exceed it."""
    estimated: float | None
    """Share that exceeds `amount`, as estimated."""
    at_most: float | None
    """Share that exceeds `amount`, surely (one-sided, with `confidence`)."""
    confidence: float
    runs: int
    stopped: int
    """Runs that a limit stopped."""
    floor: int
    """Least number of runs, none of them stopped, for this target."""
    curve: Survival
    quantile: Bounded
    """The amount that 1 - target of runs gets by with, estimated, with its two-sided interval: not a promise."""


def limit_for(
    amounts: Numbers, stopped: ArrayLike, target: float, confidence: float = 0.95, least: float = 0.0
) -> Limit:
    """Of `amounts` above 0 (one a run; what was reached where `stopped`). `least`: never recommend less (unit of them).

    Raises BadSampleError for amounts that are none, or a target outside 0 to 1.
    """
    share(target, "target")
    # Two-sided intervals for the curve that is shown; the choice has its one-sided bound.
    curve = survival_curve(amounts, stopped, confidence)
    floor = sample_floor(1 - target, confidence)
    quantile = curve.quantile(1 - target)

    def told(evidence: Evidence) -> Limit:
        return Limit(
            None, evidence, target, None, None, confidence, curve.count, curve.censored, floor, curve, quantile
        )

    if curve.count == 0:
        return told(Evidence.NONE)
    if curve.count < floor:
        return told(Evidence.TOO_FEW)
    bounds = curve.surely_at_most(confidence)
    # Above the last amount that is not sure: from there on all are.
    too_often = np.flatnonzero(bounds > target * (1 + 1e-9))
    at = int(too_often[-1]) + 1 if too_often.size else 0
    if at == bounds.size:
        return told(Evidence.NOT_SURE if quantile.value is not None else Evidence.CENSORED)
    amount = float(curve.values[at])
    if least > amount:
        amount = above_zero(least, "least")
        at = int(np.searchsorted(curve.values, amount, side="right")) - 1
    return Limit(
        amount,
        Evidence.ENOUGH,
        target,
        float(curve.survival[at]),
        float(bounds[at]),
        confidence,
        curve.count,
        curve.censored,
        floor,
        curve,
        quantile,
    )


def runs_wanted(limit: Limit, allowed_exceedances: int = 0) -> int:
    """Runs, none of them stopped, that promise the target even if so many of them exceed the limit: 0 is `floor`."""
    from scipy.stats import binom

    whole(allowed_exceedances, "allowed_exceedances", 0)
    n = limit.floor
    while float(binom.cdf(allowed_exceedances, n, limit.target)) > 1 - limit.confidence:
        n = n + max(1, n // 100)
    return n
