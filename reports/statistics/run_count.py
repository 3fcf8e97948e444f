"""How many runs a comparison needs, and what the runs at hand could have seen.

Normal approximation on the log scale; the counts below which an exact test cannot reach a level are exact.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from proofcost.reports.statistics.sample import BadSampleError, above_zero, share, whole

POWER = 0.8
"""Chance of seeing the effect when it is there."""

SIGNED_RANK_COST = math.pi / 3
"""Runs that rank tests need for one that a t-test needs, under normal noise (Pitman efficiency 3/pi)."""


def _z(alpha: float, power: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - share(alpha, "alpha") / 2) + normal.inv_cdf(share(power, "power"))


def runs_per_side(spread: float, delta: float, alpha: float = 0.05, power: float = POWER) -> int:
    """Independent runs a side that see a ratio of 1 + `delta`, with log-scale deviation `spread` within a side."""
    z = _z(alpha, power)
    return max(1, math.ceil(2 * (z * _at_least_zero(spread) / math.log1p(above_zero(delta, "delta"))) ** 2))


def blocks_needed(spread: float, delta: float, alpha: float = 0.05, power: float = POWER) -> int:
    """Blocks that see a ratio of 1 + `delta`, with log-scale deviation `spread` of the blocks' differences."""
    z = _z(alpha, power)
    needed = SIGNED_RANK_COST * (z * _at_least_zero(spread) / math.log1p(above_zero(delta, "delta"))) ** 2
    return max(1, math.ceil(needed))


def least_blocks(q: float = 0.05, family_size: int = 1) -> int:
    """Blocks below which the exact signed-rank test cannot reach `q` / `family_size`: the least p is 2 / 2^n."""
    level = share(q, "q") / whole(family_size, "family_size")
    n = 1
    while 2.0 ** (1 - n) > level:
        n += 1
    return n


def least_runs_per_side(q: float = 0.05, family_size: int = 1) -> int:
    """Runs a side below which the exact rank-sum test cannot reach `q` / `family_size`."""
    level = share(q, "q") / whole(family_size, "family_size")
    n = 1
    while 2 / math.comb(2 * n, n) > level:
        n += 1
    return n


def detectable_ratio_paired(spread: float, blocks: int, alpha: float = 0.05, power: float = POWER) -> float:
    """The least ratio above 1 that `blocks` blocks see with chance `power`; its inverse is the one below 1."""
    scale = math.sqrt(SIGNED_RANK_COST / whole(blocks, "blocks"))
    return _ratio(_z(alpha, power) * _at_least_zero(spread) * scale)


def detectable_ratio_unpaired(
    spread: float, base_count: int, head_count: int, alpha: float = 0.05, power: float = POWER
) -> float:
    """The least ratio above 1 that so many runs see with chance `power`."""
    scale = math.sqrt(1 / whole(base_count, "base_count") + 1 / whole(head_count, "head_count"))
    return _ratio(_z(alpha, power) * _at_least_zero(spread) * scale)


def _ratio(log_ratio: float) -> float:
    if log_ratio > 700:
        raise BadSampleError(f"spread: noise of a factor e^{log_ratio:.0f} hides any change")
    return math.exp(log_ratio)


def _at_least_zero(spread: float) -> float:
    if not 0 <= spread < math.inf:
        raise BadSampleError(f"spread is {spread}: a deviation is a finite number of at least 0")
    return spread
