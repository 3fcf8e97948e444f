"""What is true of an invented fleet: drawn once from its seed, before any record, and the same whatever is made of it.

A run takes base(submission) x factor(kernel) x step x factor(host class) x factor(host) x drift x noise. Base times are
log-normal, of fixed quantiles, shuffled. Instructions know neither host nor class.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from proofcost.reports.statistics.sample import Floats, Ints
from proofcost.reports.synth_fleet import Fleet

LAST_DAY = datetime.date(2025, 12, 31)
"""In the past: records that are younger than their file have every report doubt the clocks."""
MEDIAN_S, SPREAD = 5.0, 1.0
KERNEL_FACTOR = 1.25
"""Each kernel's cost to the one before it."""
CLASS_FACTOR = 0.4
"""Each class is so much slower than the one before, in parts of the first."""
HOST_SPREAD = 0.03
"""Deviation of hosts of one class, on the log scale."""
DRIFT, DRIFTS_OF = 1.04, 5
"""What the last host of each five, at least one, takes on the last day to what it took on the first."""
STEP = 1.15
"""What one kernel takes from the middle day on to what it took before."""
WALL_NOISE, CPU_NOISE, COUNT_NOISE, MEMORY_NOISE = 0.02, 0.002, 2e-4, 0.005
"""Deviation from run to run, on the log scale."""
MEDIAN_BYTES, MEMORY_EXPONENT, HUNGRY = 4e8, 0.7, 4.0
"""Peaks grow with the time to this power; one kernel takes four times as much."""
MEMORY_LIMIT_BYTES, TIME_LIMIT_NS = 3 << 30, 60 * 10**9
CRASHES = 0.5
"""How often the one kernel crashes on those submissions on which it does."""
DECLINED_COSTS = 0.05
REJECTED, DECLINED, CRASHED = 25, 20, 50
"""One submission of so many (of the smaller half): is to be rejected; is declined; makes crash."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Of a fleet; arrays by number of kernel, host, class or submission."""

    fleet: Fleet
    base_s: Floats
    """Of each submission, under the first kernel on a host with factor 1."""
    base_bytes: Floats
    kernel_factors: Floats
    memory_factors: Floats
    class_of: Ints
    """Of each host."""
    class_factors: Floats
    host_factors: Floats
    """Of each host, on the first day, to what its class says."""
    drifts: Floats
    """Of each host: its last day to its first, growing evenly on the log scale."""
    stepping: int
    """The kernel that takes `STEP` from `step_day` on."""
    step_day: int
    declining: int
    crashing: int
    hungry: int
    to_reject: np.ndarray
    """Of each submission, whether it is to be rejected; and so on."""
    to_decline: np.ndarray
    to_crash: np.ndarray

    @property
    def first_day(self) -> datetime.date:
        return LAST_DAY - datetime.timedelta(days=self.fleet.days - 1)

    def date(self, day: int) -> datetime.date:
        return self.first_day + datetime.timedelta(days=day)

    def host_cost(self, host: int, day: int) -> float:
        """What a host takes on a day to one with factor 1, class and drift included."""
        along = day / (self.fleet.days - 1)
        return float(self.class_factors[self.class_of[host]] * self.host_factors[host] * self.drifts[host] ** along)

    def kernel_costs(self, day: int) -> Floats:
        """What each kernel takes on a day to the first one before any step."""
        costs = self.kernel_factors.copy()
        costs[self.stepping] *= STEP if day >= self.step_day else 1.0
        return costs

    def class_costs(self) -> Floats:
        """What each class takes to the first one: the geometric mean over its hosts and all days."""
        logs = np.log(self.class_factors[self.class_of] * self.host_factors) + np.log(self.drifts) / 2
        means = np.bincount(self.class_of, logs) / np.bincount(self.class_of)
        costs: Floats = np.exp(means - means[0])
        return costs

    def binary(self, kernel: int, day: int) -> str:
        """The digest of a kernel's binary: another one from its step on."""
        stepped = kernel == self.stepping and day >= self.step_day
        return digest(self.fleet.seed, "kernel", kernel, "after" if stepped else "before")


def truth_of(fleet: Fleet) -> Truth:
    """Draw it."""
    random = np.random.default_rng([fleet.seed, 1])
    count = fleet.submissions
    normal = NormalDist()
    sizes = np.array([normal.inv_cdf((at + 0.5) / count) for at in range(count)])
    order = random.permutation(count)
    base = MEDIAN_S * np.exp(SPREAD * sizes[order])
    small = random.permutation(np.flatnonzero(base < np.median(base)))
    chosen, start = [], 0
    for one_of in (REJECTED, DECLINED, CRASHED):
        many = max(1, count // one_of)
        chosen.append(np.isin(np.arange(count), small[start : start + many]))
        start += many
    kernels = np.arange(fleet.kernels)
    class_of = np.arange(fleet.hosts) % fleet.classes
    drifts = np.ones(fleet.hosts)
    drifts[::-1][::DRIFTS_OF] = DRIFT
    hungry = 4 % fleet.kernels
    return Truth(
        fleet=fleet,
        base_s=base,
        base_bytes=MEDIAN_BYTES * (base / MEDIAN_S) ** MEMORY_EXPONENT,
        kernel_factors=KERNEL_FACTOR ** kernels.astype(np.float64),
        memory_factors=np.where(kernels == hungry, HUNGRY, 1.0),
        class_of=class_of,
        class_factors=1 + CLASS_FACTOR * np.arange(fleet.classes, dtype=np.float64),
        host_factors=np.exp(HOST_SPREAD * random.standard_normal(fleet.hosts)),
        drifts=drifts,
        stepping=1 % fleet.kernels,
        step_day=fleet.days // 2,
        declining=2 % fleet.kernels,
        crashing=3 % fleet.kernels,
        hungry=hungry,
        to_reject=chosen[0],
        to_decline=chosen[1],
        to_crash=chosen[2],
    )


def digest(*of: object) -> str:
    """64 hexadecimal digits of what an id is of."""
    return hashlib.sha256("\0".join(["proofcost fleet", *map(str, of)]).encode()).hexdigest()
