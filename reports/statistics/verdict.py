"""From comparisons of one family to verdicts: changed, equivalent, or not known yet and what would tell.

A change needs both: a p that survives the family (R3), and an estimate beyond the smallest effect of interest, delta.
Equivalence needs the whole interval inside delta: two one-sided tests (Schuirmann 1987), here at half of the interval's
complement each (2.5 % with 95 %), stricter than the customary 5 %. Delta is a ratio: 2 % means 1/1.02 to 1.02, so that
exchanging base and head mirrors every verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import NormalDist

from proofcost.reports.statistics import run_count
from proofcost.reports.statistics.comparison import Comparison, Design
from proofcost.reports.statistics.multiplicity import Dependence, judge_family
from proofcost.reports.statistics.sample import above_zero

DELTA_WALL = 0.02
DELTA_INSTRUCTIONS = 0.005
"""Smallest effects of interest (statistics.md, R1)."""

LEAST_ALL_EQUAL = 3
"""Units a side from which exact counts that are all equal are equivalent: as many as the rule for counts asks for."""

MOST_RUNS = 100_000
"""A need beyond this is told as "no number of runs"."""

_ROUNDING = 1e-12
"""On the log scale: an effect of delta to the last bit is not beyond delta."""


class Finding(Enum):
    REGRESSED = "regressed"
    IMPROVED = "improved"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


class Why(Enum):
    """Why a comparison is inconclusive."""

    TOO_FEW = "n too small: no result of so few runs could be significant"
    WIDE = "the interval is too wide"
    FAMILY = "significant by itself, not among so many comparisons"
    AT_THE_THRESHOLD = "the cost stands at the threshold itself: no number of runs will settle it"


@dataclass(frozen=True, slots=True)
class Verdict:
    comparison: Comparison
    finding: Finding
    delta: float
    adjusted_p: float | None
    """In its family; None where the counts could not have given a significant one and it was left out of the family."""
    family_size: int
    why: Why | None
    """Set if and only if inconclusive."""
    more: int | None
    """Blocks (or runs a side) to add for an 80 % chance of a verdict, if things are as they look now. Set when
    inconclusive, but for `AT_THE_THRESHOLD`."""
    at_least: bool
    """`more` is only what a significant result takes at all: so few runs do not tell the noise, of which one could
    compute how many."""
    detectable_ratio: float | None
    """Least ratio above 1 that these runs would have found significant by itself with chance 80 %; None where there is
    none, or the noise is not known (one unit)."""


def judge(
    comparisons: Sequence[Comparison],
    delta: float,
    *,
    q: float = 0.05,
    strict: bool = False,
    dependence: Dependence = Dependence.POSITIVE,
) -> tuple[Verdict, ...]:
    """A verdict for each, in the order given. `strict`: a change needs its whole interval beyond delta.

    The family is every comparison whose counts could reach `q` at all: what cannot be significant whatever it says is
    no test (Tarone 1990), and its number of runs was known before.
    """
    above_zero(delta, "delta")
    tested = [i for i, comparison in enumerate(comparisons) if comparison.least_p <= q]
    family = judge_family([comparisons[i].p for i in tested], q, dependence)
    place = {index: at for at, index in enumerate(tested)}
    verdicts = []
    for i, comparison in enumerate(comparisons):
        at = place.get(i)
        survives = at is not None and family.rejected[at]
        adjusted = None if at is None else family.adjusted[at]
        finding = _finding(comparison, delta, survives, strict)
        why, more, at_least = None, None, False
        if finding is Finding.INCONCLUSIVE:
            why, more, at_least = _need(
                comparison, delta, q, family.m if at is not None else family.m + 1, survives, strict
            )
        seen = detectable(comparison, q)
        verdicts.append(Verdict(comparison, finding, delta, adjusted, family.m, why, more, at_least, seen))
    return tuple(verdicts)


def _finding(comparison: Comparison, delta: float, survives: bool, strict: bool) -> Finding:
    bound = math.log1p(delta) + _ROUNDING
    estimate = math.log(comparison.ratio)
    if comparison.low is None or comparison.high is None:
        return Finding.INCONCLUSIVE
    low, high = math.log(comparison.low), math.log(comparison.high)
    if survives and estimate > bound and (low > bound or not strict):
        return Finding.REGRESSED
    if survives and estimate < -bound and (high < -bound or not strict):
        return Finding.IMPROVED
    enough = not comparison.all_equal or comparison.base_count >= LEAST_ALL_EQUAL <= comparison.head_count
    return Finding.EQUIVALENT if enough and low >= -bound and high <= bound else Finding.INCONCLUSIVE


def _need(
    comparison: Comparison, delta: float, q: float, family_size: int, survives: bool, strict: bool
) -> tuple[Why, int | None, bool]:
    n = min(comparison.base_count, comparison.head_count)
    if comparison.all_equal:
        return Why.TOO_FEW, LEAST_ALL_EQUAL - n, False
    paired = comparison.design is Design.PAIRED
    least = (run_count.least_blocks if paired else run_count.least_runs_per_side)(q, max(1, family_size))
    if comparison.low is None or comparison.high is None or comparison.least_p > q:
        return Why.TOO_FEW, max(1, least - n), True
    half = math.log(comparison.high / comparison.low) / 2
    away, bound = abs(math.log(comparison.ratio)), math.log1p(delta)
    points_at_change = away > bound
    gap = (away - bound if strict else away) if points_at_change else bound - away
    level = (1 + comparison.confidence) / 2
    wanted = _shrunk(n, half, gap, level, 1 - q / max(1, family_size) / 2 if points_at_change else level)
    if wanted is None:
        return Why.AT_THE_THRESHOLD, None, False
    alone = points_at_change and comparison.p <= q and not survives
    more = max(1, wanted - n, least - n if points_at_change else 0)
    return (Why.FAMILY if alone else Why.WIDE), more, False


def _shrunk(n: int, half: float, gap: float, level: float, wanted_level: float) -> int | None:
    """Runs after which an interval of `wanted_level` leaves the gap free four times in five; None if beyond all bounds.

    `half`: half of the interval of `level` after n runs; both levels one-sided.
    """
    normal = NormalDist()
    z = normal.inv_cdf(wanted_level) + normal.inv_cdf(run_count.POWER)
    if gap <= 0 or n * (z / normal.inv_cdf(level) * half / gap) ** 2 > MOST_RUNS:
        return None
    return math.ceil(n * (z / normal.inv_cdf(level) * half / gap) ** 2)


def detectable(comparison: Comparison, q: float = 0.05) -> float | None:
    """`Verdict.detectable_ratio` of a comparison."""
    if comparison.spread is None or comparison.least_p > q:
        return None
    if comparison.design is Design.PAIRED:
        return run_count.detectable_ratio_paired(comparison.spread, comparison.base_count, q)
    return run_count.detectable_ratio_unpaired(comparison.spread, comparison.base_count, comparison.head_count, q)
