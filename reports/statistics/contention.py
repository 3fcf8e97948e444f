"""C3: what running side by side costs: throughput over the number of sandboxes, and how many are worth it.

Gunther's universal scalability law, X(n) = g n / (1 + a (n - 1) + b n (n - 1)), with a (waiting for one another) and b
(coherency) not below 0: n / X is linear in them, fitted by non-negative least squares relative to what was measured.
Intervals draw trials anew within each n. Assumes the same work at each n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, positive, share, whole

LEAST_LEVELS = 3
"""Different n for three parameters."""

RESAMPLES = 400


class Binding(Enum):
    """What stops one from running more side by side."""

    MEMORY = "memory"
    CORES = "cores"
    EFFICIENCY = "efficiency"
    DISK = "disk"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Contention:
    gain: float
    """g: throughput of one alone, by the fit; unit of the throughputs."""
    waiting: float
    coherency: float
    """a and b, both at least 0."""
    waiting_interval: tuple[float, float] | None
    coherency_interval: tuple[float, float] | None
    """95 %; None where no n has two trials or more: their noise is not known."""
    measured_upto: int

    def throughput(self, n: float) -> float:
        return self.gain * n / (1 + self.waiting * (n - 1) + self.coherency * n * (n - 1))

    def efficiency(self, n: float) -> float:
        """Throughput over n times that of one alone, 0 to 1."""
        return self.throughput(n) / (n * self.gain)

    def most_at(self, floor: float = 0.9) -> int:
        """The largest n, of those up to what was measured, whose efficiency is at least `floor`; at least 1."""
        share(floor, "floor")
        n = 1
        while n < self.measured_upto and self.efficiency(n + 1) >= floor - 1e-12:
            n += 1
        return n

    @property
    def best(self) -> int:
        """n with the largest throughput, of those up to what was measured."""
        return max(range(1, self.measured_upto + 1), key=self.throughput)


def fit_contention(trials: Mapping[int, Numbers], seed: int = 0) -> Contention | None:
    """`trials`: throughputs (above 0, any unit a second) by number of sandboxes. None with fewer than 3 different n.

    Raises BadSampleError for an n below 1, or a throughput that is none.
    """
    values: dict[int, Floats] = {}
    for n in sorted(trials):
        values[whole(n, "number of sandboxes")] = positive(trials[n], f"throughput at {n}")
        if values[n].size == 0:
            raise BadSampleError(f"throughput at {n}: no trial; leave it out")
    if len(values) < LEAST_LEVELS:
        return None
    gain, waiting, coherency = _fit(values)
    spread: list[tuple[float, float, float]] = []
    if any(v.size > 1 for v in values.values()):
        random = np.random.default_rng(seed)
        spread = [_fit({n: random.choice(v, v.size) for n, v in values.items()}) for _ in range(RESAMPLES)]
    ends: list[tuple[float, float] | None] = [None, None]
    if spread:
        low, high = np.quantile(np.array(spread)[:, 1:], [0.025, 0.975], axis=0)
        ends = [(float(low[i]), float(high[i])) for i in (0, 1)]
    return Contention(gain, waiting, coherency, ends[0], ends[1], max(values))


def _fit(values: Mapping[int, Floats]) -> tuple[float, float, float]:
    from scipy.optimize import nnls

    n = np.concatenate([np.full(v.size, k, dtype=float) for k, v in values.items()])
    time = n / np.concatenate(list(values.values()))
    # Relative errors: each row over what was measured.
    design = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1) / time[:, None]
    (one, waiting, coherency), _ = nnls(design, np.ones_like(n))
    if one <= 0:
        raise BadSampleError("throughputs: they grow faster than the number of sandboxes; these are not the same work")
    return 1 / float(one), float(waiting / one), float(coherency / one)


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many sandboxes to run on one host."""

    count: int
    binding: Binding
    caps: tuple[tuple[Binding, int], ...]
    """Every constraint that is known, with the most it allows; the smallest decides, the first of equals names it."""


def concurrency(caps: Mapping[Binding, int]) -> Concurrency:
    """Raises BadSampleError without any constraint, or for one below 0."""
    if not caps:
        raise BadSampleError("caps: no constraint is known, so no number can be recommended")
    for binding, most in caps.items():
        whole(most, binding.value, 0)
    binding = min(caps, key=lambda which: caps[which])
    return Concurrency(caps[binding], binding, tuple(caps.items()))
