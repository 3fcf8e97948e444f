"""One comparison of two sides, head against base: what the paired and the unpaired method both give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from proofcost.reports.statistics.sample import BadSampleError


class Design(Enum):
    PAIRED = "paired blocks"
    UNPAIRED = "two independent samples"
    """Weaker: whatever drifted between the two sides counts as a difference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ratio of costs, head over base, with its interval and test. No verdict yet: that needs the family."""

    design: Design
    base_count: int
    head_count: int
    """Independent units (blocks, or top-level replicates), the same on both sides if paired."""
    ratio: float
    low: float | None
    high: float | None
    """Interval of `confidence` for the ratio; None where there are too few units for any."""
    p: float
    """Two-sided, of "nothing changed"; 1 where there is nothing to test."""
    least_p: float
    """The smallest p that these counts could have given."""
    spread: float | None
    """Standard deviation on the log scale: of the blocks' differences if paired, else within a side. About a
    coefficient of variation where small. None with one unit."""
    confidence: float
    method: str
    all_equal: bool = False
    """Every value on both sides is the same number, as exact counts often are."""


def ratio_of_logs(log_ratio: float) -> float:
    """exp, refusing what no float can hold."""
    try:
        ratio = math.exp(log_ratio)
    except OverflowError:
        ratio = math.inf
    if not 0 < ratio < math.inf:
        raise BadSampleError(
            f"costs that differ by a factor of 10^{log_ratio / math.log(10):.0f}: no two runs of one work"
        )
    return ratio


def ratio_or_none(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else ratio_of_logs(log_ratio)
