"""R7: comparing runs of one and the same thing with themselves, through the methods that judge changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.alarm_rate import AlarmRate, alarm_rate
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.statistics.sample import Floats, Numbers, positive, whole
from proofcost.reports.statistics.verdict import Finding, judge


@dataclass(frozen=True, slots=True)
class SplitHalf:
    rate: AlarmRate
    log_ratios: tuple[float, ...]
    """ln of the ratio that each comparison estimated; 0 would be right. In the order of the cells."""
    too_few: tuple[str, ...]
    """Cells with too few runs for any alarm: left out, since they would make the rate look better than it is."""


def split_blocks(costs: Numbers, runs_per_side: int, random: np.random.Generator) -> list[tuple[Floats, Floats]]:
    """Runs of one thing, in order of time, dealt into blocks as if of two: ABBA or BAAB (AB or BA with one run a side).

    What fills no block at the end is left out.
    """
    values = positive(costs, "costs")
    size = 2 * whole(runs_per_side, "runs_per_side")
    # A in the outer places, B in the inner: linear drift within a block cancels if the number a side is even.
    outer = np.arange(size) % 4 % 3 == 0
    blocks = []
    for block in values[: values.size // size * size].reshape(-1, size):
        side = outer if random.random() < 0.5 else ~outer
        blocks.append((block[side], block[~side]))
    return blocks


def split_half(
    cells: Mapping[str, Numbers],
    delta: float,
    *,
    runs_per_side: int = 2,
    q: float = 0.05,
    seed: int = 0,
    confidence: float = 0.95,
) -> SplitHalf:
    """One comparison a cell, each a family by itself; a cell has one work, build and host, its costs in order of time.

    One only: further splits of the same runs are not independent, and the interval would be too narrow.
    """
    alarms, log_ratios, too_few = 0, [], []
    for name, costs in cells.items():
        random = np.random.default_rng([seed, *name.encode()])
        blocks = split_blocks(costs, runs_per_side, random)
        comparison = compare_blocks(blocks) if blocks else None
        if comparison is None or comparison.least_p > q:
            too_few.append(name)
            continue
        (verdict,) = judge([comparison], delta, q=q)
        alarms += verdict.finding in (Finding.REGRESSED, Finding.IMPROVED)
        log_ratios.append(math.log(comparison.ratio))
    return SplitHalf(alarm_rate(alarms, len(log_ratios), confidence), tuple(log_ratios), tuple(too_few))
