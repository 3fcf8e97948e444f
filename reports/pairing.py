"""Two sides' figures by unit -> one comparison: block by block where both ran in the same blocks, else unpaired, on the
highest level that varies."""

from __future__ import annotations

import math
from collections.abc import Mapping

from proofcost.reports.cells import NO_UNIT
from proofcost.reports.statistics.comparison import Comparison
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


def compare_units(base: Units, head: Units) -> Comparison:
    """Head over base; at least one figure a side."""
    blocks = {unit[:_BLOCK] for unit in base if unit[3] != NO_UNIT}
    paired: dict[tuple[str, ...], tuple[list[Values], list[Values]]] = {block: ([], []) for block in blocks}
    for at, side in enumerate((base, head)):
        for unit, values in side.items():
            if unit[:_BLOCK] in paired:
                paired[unit[:_BLOCK]][at].append(values)
    whole = [(one, other) for one, other in paired.values() if one and other]
    if whole:
        return compare_blocks([(pooled(one).floats(), pooled(other).floats()) for one, other in whole])
    return compare_samples(_top_level(base), _top_level(head))


def _top_level(units: Units) -> Floats | list[float]:
    """One value a build where builds vary (its geometric mean), else every run's."""
    builds: dict[tuple[str, str], list[Values]] = {}
    for unit, values in units.items():
        builds.setdefault((unit[0], unit[_BUILD]), []).append(values)
    if len({build for _, build in builds}) > 1:
        return [math.exp(pooled(values).log_mean()) for values in builds.values()]
    return pooled(units.values()).floats()
