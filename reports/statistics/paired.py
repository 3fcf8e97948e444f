"""R1: two sides measured in blocks on one host, compared block by block.

The unit is the block (ABBA: two runs a side), its figure the mean log cost of head less that of base; drift that
is linear over a block cancels, and what varies between blocks never enters. Assumes that the order within a block is as
good as random, and that a block's difference is symmetric when nothing changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.comparison import Comparison, Design, ratio_of_logs, ratio_or_none
from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, positive
from proofcost.reports.statistics.signed_rank import least_p, signed_rank


def compare_blocks(blocks: Sequence[tuple[Numbers, Numbers]], confidence: float = 0.95) -> Comparison:
    """Head over base from (base costs, head costs) per block: costs above 0 in one unit, at least one a side.

    Give top-level replicates (a fresh process, or a fresh build where that varies), not iterations of one.
    Raises BadSampleError for no block, an empty side, or a cost that is not a finite number above 0.
    """
    if len(blocks) == 0:
        raise BadSampleError("blocks: there are none; compare the two sides unpaired, or run them in blocks")
    base, head = (_side(blocks, at) for at in (0, 1))
    differences = head.log_means - base.log_means
    n = len(blocks)
    if base.least == base.most == head.least == head.most:
        return Comparison(Design.PAIRED, n, n, 1.0, 1.0, 1.0, 1.0, least_p(n), 0.0, confidence, "all equal", True)
    test = signed_rank(_without_rounding(differences), confidence)
    return Comparison(
        design=Design.PAIRED,
        base_count=n,
        head_count=n,
        ratio=ratio_of_logs(test.estimate),
        low=ratio_or_none(test.low),
        high=ratio_or_none(test.high),
        p=test.p,
        least_p=least_p(n),
        spread=float(differences.std(ddof=1)) if n > 1 else None,
        confidence=confidence,
        method=f"signed rank ({test.method}), Hodges-Lehmann",
    )


@dataclass(frozen=True, slots=True)
class _Side:
    log_means: Floats
    """By block; shape (n,)."""
    least: float
    most: float


def _side(blocks: Sequence[tuple[Numbers, Numbers]], at: int) -> _Side:
    """One side of all blocks, looked at together: there may be thousands of blocks of one value."""
    name = ("base", "head")[at]
    try:
        parts = [np.asarray(block[at], dtype=np.float64) for block in blocks]
        sizes = np.array([part.size for part in parts])
        values = positive(np.concatenate(parts), name)
    except (ValueError, TypeError, OverflowError):
        for i, block in enumerate(blocks):  # to name the block
            positive(block[at], f"blocks[{i}] {name}")
        raise
    if not sizes.all():
        raise BadSampleError(f"blocks[{int(np.argmin(sizes))}] {name}: no values; leave the block out")
    logs = np.log(values)
    sums = np.add.reduceat(logs, np.cumsum(sizes) - sizes)
    return _Side(sums / sizes, float(values.min()), float(values.max()))


def _without_rounding(differences: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray:
    """Differences to 12 decimals: two that are equal but for the logarithm's last bit are tied, and 1e-17 is 0."""
    return np.round(differences, 12)
