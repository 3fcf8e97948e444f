"""R1 where the data has no blocks: two independent samples, and the result says so."""

from __future__ import annotations

import math

import numpy as np

from proofcost.reports.statistics.comparison import Comparison, Design, ratio_of_logs, ratio_or_none
from proofcost.reports.statistics.rank_sum import least_p, rank_sum
from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, positive


def compare_samples(base: Numbers, head: Numbers, confidence: float = 0.95) -> Comparison:
    """Head over base from costs above 0 in one unit, one a top-level replicate, at least one a side.

    Assumes that nothing but the side differs between the two groups of runs: with base measured first and head after
    it, a drift of the host is a difference. Raises BadSampleError for anything else.
    """
    sides = (positive(base, "base"), positive(head, "head"))
    for name, side in zip(("base", "head"), sides, strict=True):
        if side.size == 0:
            raise BadSampleError(f"{name}: no values; at least one is needed")
    counts = (sides[0].size, sides[1].size)
    least = least_p(*counts)
    if np.unique(np.concatenate(sides)).size == 1:
        return Comparison(Design.UNPAIRED, *counts, 1.0, 1.0, 1.0, 1.0, least, 0.0, confidence, "all equal", True)
    logs = (np.log(sides[0]), np.log(sides[1]))
    test = rank_sum(*logs, confidence)
    return Comparison(
        design=Design.UNPAIRED,
        base_count=counts[0],
        head_count=counts[1],
        ratio=ratio_of_logs(test.shift),
        low=ratio_or_none(test.low),
        high=ratio_or_none(test.high),
        p=test.p,
        least_p=least,
        spread=_within(*logs),
        confidence=confidence,
        method=f"rank sum ({test.method}), Hodges-Lehmann",
    )


def _within(x: Floats, y: Floats) -> float | None:
    """Standard deviation within a side, both pooled; None with one value on each."""
    freedom = x.size + y.size - 2
    if freedom == 0:
        return None
    return math.sqrt(float(((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum()) / freedom)
