"""R6: does one factor a host do for all kernels? Each kernel's own factors, and how far they are from the common ones.

The difference between a kernel's factor and the common one gets a variance that is robust by submission, like the
factors themselves; the intervals hold for all kernels and hosts together (Bonferroni). "Absent" is never concluded from
a test that found nothing, only from intervals that lie inside delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from proofcost.reports.statistics.comparison import ratio_of_logs
from proofcost.reports.statistics.connected import connected_hosts
from proofcost.reports.statistics.hardware import (
    LEAST_CLUSTERS,
    HardwareModel,
    Rows,
    in_shared_cells,
    within_cells,
)
from proofcost.reports.statistics.sample import Floats, above_zero


class InteractionFinding(Enum):
    PRESENT = "kernels differ in what a host costs them: use each kernel's own factors"
    ABSENT = "one factor a host does for all kernels"
    UNDECIDED = "too little data to tell whether one factor a host does for all kernels"


@dataclass(frozen=True, slots=True)
class KernelFactor:
    kernel: str
    host: str
    ratio: float
    """Cost on this host over cost on the base host, for this kernel alone."""
    deviation: float
    """That ratio over the common factor."""
    low: float | None
    high: float | None
    """Interval of the deviation, for all of them together; None with fewer than `LEAST_CLUSTERS` submissions."""
    p: float | None
    """Of no deviation, times the number of deviations looked at, at most 1."""


@dataclass(frozen=True, slots=True)
class Interaction:
    finding: InteractionFinding
    factors: tuple[KernelFactor, ...]
    """By kernel, then host; without the base host, and hosts that a kernel's own cells do not connect to the base."""
    p: float | None
    """The smallest of `factors`'; None where there is none."""
    spread: float
    """Deviation of the kernels' factors about the common ones, on the log scale, noise included; 0 with one kernel."""


def find_interaction(data: Rows, model: HardwareModel, delta: float) -> Interaction:
    """Of the rows that `model` was fitted to. `delta`: a deviation of a ratio of 1 + delta, either way, matters."""
    above_zero(delta, "delta")
    names = data.host_names
    others = [h for h, name in enumerate(names) if name != model.base]
    _, pooled = _influence(data, in_shared_cells(data), others)
    found: list[tuple[int, int, float, Floats]] = []
    for k in range(len(data.kernel_names)):
        mine = data.kernels == k
        shared = in_shared_cells(data) & mine
        pairs = np.unique(np.stack([data.cells[mine], data.hosts[mine]]), axis=1).T
        groups = connected_hosts((int(cell), int(host)) for cell, host in pairs)
        group = next((group for group in groups if names.index(model.base) in group), ())
        mine_others = [h for h in others if h in group]
        if not mine_others:
            continue
        shared &= np.isin(data.hosts, group)
        effects, own = _influence(data, shared, mine_others)
        for h in mine_others:
            found.append((k, h, float(effects[h]), own[:, h] - pooled[:, h]))
    factors = [
        _factor(model, data.kernel_names[k], names[h], effect, influence, len(found))
        for k, h, effect, influence in found
    ]
    apart = [math.log(factor.deviation) for factor in factors]
    spread = math.sqrt(float(np.mean(np.square(apart)))) if len(data.kernel_names) > 1 and apart else 0.0
    ps = [factor.p for factor in factors if factor.p is not None]
    if len({factor.kernel for factor in factors}) < 2:
        factors = [replace(factor, low=None, high=None, p=None) for factor in factors]
        ps = []
    return Interaction(_finding(factors, delta), tuple(factors), min(ps, default=None), spread)


def _influence(data: Rows, chosen: np.ndarray, others: Sequence[int]) -> tuple[Floats, Floats]:
    """Log factors (hosts,) from the chosen rows, and each submission's influence on them, (submissions, hosts)."""
    part = within_cells(data, chosen)
    at = np.array(others)
    bread = np.linalg.inv(part.normal[np.ix_(at, at)])
    effects = np.zeros(len(data.host_names))
    effects[others] = bread @ part.moments[others]
    residuals = part.demeaned - effects[part.hosts] + part.expected(effects)
    influence = np.zeros((len(data.submission_names), len(data.host_names)))
    present = np.unique(part.submissions)
    influence[np.ix_(present, at)] = part.scores(residuals)[:, others] @ bread
    return effects, influence


def _factor(
    model: HardwareModel, kernel: str, host: str, effect: float, influence: Floats, looked_at: int
) -> KernelFactor:
    apart = effect - math.log(model.factor(host).ratio)
    low = high = p = None
    if model.clusters >= LEAST_CLUSTERS:
        from scipy.stats import t

        freedom = model.clusters - 1
        error = math.sqrt(float(influence @ influence) * model.clusters / freedom)
        half = float(t.ppf(1 - (1 - model.confidence) / 2 / looked_at, freedom)) * error
        low, high = ratio_of_logs(apart - half), ratio_of_logs(apart + half)
        if abs(apart) < 1e-9:
            p = 1.0  # equal but for rounding
        elif error == 0:
            p = 0.0
        else:
            p = min(1.0, looked_at * 2 * float(t.sf(abs(apart) / error, freedom)))
    return KernelFactor(kernel, host, ratio_of_logs(effect), ratio_of_logs(apart), low, high, p)


def _finding(factors: list[KernelFactor], delta: float) -> InteractionFinding:
    bound = math.log1p(delta)
    known = [
        factor for factor in factors if factor.p is not None and factor.low is not None and factor.high is not None
    ]
    if any(f.p is not None and f.p <= 0.05 and abs(math.log(f.deviation)) > bound for f in known):
        return InteractionFinding.PRESENT
    inside = [
        f.low is not None and f.high is not None and math.log(f.low) >= -bound and math.log(f.high) <= bound
        for f in known
    ]
    if known and len(known) == len(factors) and all(inside):
        return InteractionFinding.ABSENT
    return InteractionFinding.UNDECIDED
