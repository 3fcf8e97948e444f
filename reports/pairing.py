"""Two sides' figures by unit -> one comparison: block by block where both ran in the same blocks, else unpaired, on the
highest level that varies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.cells import NO_UNIT
from proofcost.reports.statistics.comparison import Comparison
from proofcost.reports.statistics.levels import nested_levels
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.statistics.sample import Floats
from proofcost.reports.statistics.unpaired import compare_samples
from proofcost.reports.values import Values, pooled

UNIT = ("series", "host", "boot", "block", "build")
"""What a figure belongs to: the series, the machine and its boot, the block in it, the build of the kernel."""
_BLOCK, _BUILD = 4, 4
"""Of a unit, the first four name a block; the fifth is the build."""

Units = Mapping[tuple[str, ...], Values]
"""By `UNIT`."""


@dataclass(frozen=True, slots=True)
class Level:
    """What is repeated, and where its noise comes from (R2)."""

    of: str
    """`block`, `build` or `run`: what a comparison's counts are counts of."""
    between: float | None = None
    """Share of the noise of such a unit's mean that lies between units: more runs within each do nothing about it.
    None where each has one run, or there are too few."""


def level_of(base: Units, head: Units) -> Level:
    """The level that `compare_units` counts."""
    if _share_a_block(base, head):
        return Level("block")  # a block holds runs of both sides: one more of each is a block
    sides = [_by_build(side) for side in (base, head)]
    if not any(len({build for _, build in builds}) > 1 for builds in sides):
        return Level("run")
    shares = [
        share for builds in sides if (share := _between([pooled(values) for values in builds.values()])) is not None
    ]
    return Level("build", sum(shares) / len(shares) if shares else None)


def _between(groups: Sequence[Values]) -> float | None:
    """Share of the variance of a group's mean that is the groups' own. Groups are cut to the same number of runs."""
    least = min(group.n for group in groups)
    if len(groups) < 2 or least < 2:
        return None
    # Evenly spread over each group's order, so that what is cut away is neither the cheapest nor the dearest.
    rows = [np.log(group.floats()[np.linspace(0, group.n - 1, least).round().astype(int)]) for group in groups]
    lowest, top = nested_levels(np.array(rows)).levels
    whole = top.own_variance + lowest.own_variance / least
    return top.own_variance / whole if whole > 0 else None


def compare_units(base: Units, head: Units) -> Comparison:
    """Head over base; at least one figure a side."""
    whole = _whole_blocks(base, head)
    if whole:
        return compare_blocks([(pooled(one).floats(), pooled(other).floats()) for one, other in whole])
    return compare_samples(_top_level(base), _top_level(head))


def _whole_blocks(base: Units, head: Units) -> list[tuple[list[Values], list[Values]]]:
    """Of each block that both sides ran in, in the order of base: the figures of base and of head."""
    paired: dict[tuple[str, ...], tuple[list[Values], list[Values]]] = {}
    for unit, values in base.items():
        if unit[3] != NO_UNIT:
            paired.setdefault(unit[:_BLOCK], ([], []))[0].append(values)
    for unit, values in head.items():
        if (found := paired.get(unit[:_BLOCK])) is not None:
            found[1].append(values)
    return [block for block in paired.values() if block[1]]


def _share_a_block(base: Units, head: Units) -> bool:
    """Whether `_whole_blocks` has any."""
    blocks = {unit[:_BLOCK] for unit in base if unit[3] != NO_UNIT}
    return any(unit[:_BLOCK] in blocks for unit in head)


def _by_build(units: Units) -> dict[tuple[str, str], list[Values]]:
    """By series and build."""
    builds: dict[tuple[str, str], list[Values]] = {}
    for unit, values in units.items():
        builds.setdefault((unit[0], unit[_BUILD]), []).append(values)
    return builds


def _top_level(units: Units) -> Floats | list[float]:
    """One value a build where builds vary (its geometric mean), else every run's."""
    builds = _by_build(units)
    if len({build for _, build in builds}) > 1:
        return [math.exp(pooled(values).log_mean()) for values in builds.values()]
    return pooled(units.values()).floats()
