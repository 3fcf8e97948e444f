"""R5: one cost over time (or commits): between which two points it changed, by how much, and what its noise is now.

Rank-CUSUM splits (`change_points`), the block from the series' own dependence (`autocorrelation`); changes smaller than
delta are joined again. Noise is each segment's own, so that a true step does not blunt the next one (rustc-perf#1339).
Assumes points in order of time, one key throughout: same work, kernel, host class and definition of the metric. A slow
drift is not a step and comes out as several.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.autocorrelation import Dependence, dependence
from proofcost.reports.statistics.change_points import LEAST_BLOCKS, Change, best_place, change_points
from proofcost.reports.statistics.comparison import ratio_of_logs, ratio_or_none
from proofcost.reports.statistics.rank_sum import rank_sum, shift
from proofcost.reports.statistics.sample import Floats, Numbers, above_zero, positive, whole

MAD_TO_DEVIATION = 1.4826
"""Under normal noise."""

CLEAR = 3.0
"""A step of so many deviations is taken out before dependence is looked for."""


@dataclass(frozen=True, slots=True)
class Segment:
    start: int
    end: int
    """Points start to end - 1."""
    median: float
    """Unit of the cost."""
    spread: float
    """Deviation on the log scale, by the median of absolute deviations: single outliers do not widen it."""


@dataclass(frozen=True, slots=True)
class Step:
    index: int
    """The cost changed after point index - 1 and by point index."""
    ratio: float
    """Later segment over the one before: Hodges-Lehmann."""
    low: float | None
    high: float | None
    """95 % interval of the ratio, a block being one unit; None where the segments hold too few. Given the place: the
    ends do not cover its uncertainty."""
    p: float


@dataclass(frozen=True, slots=True)
class History:
    steps: tuple[Step, ...]
    segments: tuple[Segment, ...]
    """One more than steps; none for an empty series."""
    dependence: Dependence
    """Its `block` is what was used, if none was given."""
    block: int
    least_points: int
    """Series shorter than this are never split: "too few points"."""

    @property
    def too_few(self) -> bool:
        return (self.segments[-1].end if self.segments else 0) < self.least_points


def history(costs: Numbers, delta: float, block: int | None = None, seed: int = 0) -> History:
    """Steps of at least a ratio of 1 + `delta`, either way, in `costs` (above 0, else BadSampleError; may be empty)."""
    logs = np.log(positive(costs, "costs"))
    least = math.log1p(above_zero(delta, "delta"))
    seen = dependence(logs, _clear_steps(logs, seed))
    width = seen.block if block is None else whole(block, "block")
    changes = _placed_again(logs, change_points(logs, width, seed=seed))
    while True:
        steps = _steps(logs, changes, width)
        small = [at for at, step in enumerate(steps) if abs(math.log(step.ratio)) < least - 1e-12]
        if not small:
            break
        # The smallest first: what is left of it moves its neighbours' medians.
        del changes[min(small, key=lambda at: abs(math.log(steps[at].ratio)))]
    bounds = [0, *(change.index for change in changes), logs.size]
    segments = [_segment(logs, a, b) for a, b in itertools.pairwise(bounds) if b > a]
    return History(tuple(steps), tuple(segments), seen, width, LEAST_BLOCKS * width)


def _placed_again(logs: Floats, changes: Sequence[Change]) -> list[Change]:
    """Each change where it is best between its neighbours: when it was found they were not known, and pulled at it."""
    bounds = [0, *(change.index for change in changes), logs.size]
    for at in range(1, len(bounds) - 1):
        start, end = bounds[at - 1], bounds[at + 1]
        bounds[at] = start + best_place(logs[start:end])
    return [Change(index, change.p) for index, change in zip(bounds[1:-1], changes, strict=True)]


def _clear_steps(logs: Floats, seed: int) -> list[int]:
    """Steps that dependence between neighbours could hardly feign: several times the noise on both of their sides."""
    changes = change_points(logs, seed=seed)
    if not changes:
        return []
    segments = [_segment(logs, a, b) for a, b in itertools.pairwise([0, *(c.index for c in changes), logs.size])]
    return [
        change.index
        for change, (before, after) in zip(changes, itertools.pairwise(segments), strict=True)
        if abs(math.log(after.median / before.median)) > CLEAR * max(before.spread, after.spread)
    ]


def _segment(logs: Floats, start: int, end: int) -> Segment:
    part = logs[start:end]
    middle = float(np.median(part))
    return Segment(start, end, ratio_of_logs(middle), MAD_TO_DEVIATION * float(np.median(np.abs(part - middle))))


def _steps(logs: Floats, changes: list[Change], block: int) -> list[Step]:
    bounds = [0, *(change.index for change in changes), logs.size]
    steps = []
    for at, change in enumerate(changes):
        before, after = logs[bounds[at] : change.index], logs[change.index : bounds[at + 2]]
        # Blocks are counted from the step, and a rest that fills none is left out.
        test = rank_sum(_block_means(before[::-1], block), _block_means(after, block))
        moved = shift(before, after)
        steps.append(
            Step(change.index, ratio_of_logs(moved), ratio_or_none(test.low), ratio_or_none(test.high), change.p)
        )
    return steps


def _block_means(values: Floats, block: int) -> Floats:
    full = values.size // block
    if full == 0:
        return np.array([values.mean()])
    means: Floats = values[: full * block].reshape(full, block).mean(axis=1)
    return means
