"""C3: how many sandboxes fit into a host's memory, by the peak of their sum instead of the sum of their limits.

Peaks are drawn from the runs that were seen, by Kaplan-Meier's weights, one for each sandbox, and added: as if all
peaked at once, which is the safe side. Of a run that was killed beyond all peaks seen nobody knows the peak: it counts
as the sandbox's whole limit. Where runs have time profiles, `profile_risk` lets them peak when they do. Assumes that
what runs side by side is drawn independently: a batch of like submissions is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.alarm_rate import share_interval
from proofcost.reports.statistics.sample import (
    BadSampleError,
    Floats,
    Numbers,
    above_zero,
    not_negative,
    share,
    whole,
)
from proofcost.reports.statistics.survival import Survival

DRAWS = 100_000
LEAST_RUNS = 20
"""Below, the largest peak has hardly been seen."""


@dataclass(frozen=True, slots=True)
class Overcommit:
    """Sandboxes side by side, and the chance that their memory does not suffice."""

    count: int
    """Most sandboxes whose risk is at most the target; 0 if a single one is too many."""
    risk: float
    """P(sum of `count` peaks > room), an upper bound (95 %) of the simulation's own error; 0 sandboxes have none."""
    guaranteed: int
    """Sandboxes whose limits fit together: no risk of one another at all."""
    beyond: float
    """Share of runs that were killed beyond the largest peak seen, and so count as taking their whole limit."""


def room_for(
    curve: Survival,
    memory_bytes: float,
    limit_bytes: float,
    target: float,
    *,
    reserve_bytes: float = 0.0,
    most: int = 10_000,
    seed: int = 0,
    draws: int = DRAWS,
) -> Overcommit | None:
    """Sandboxes on a host of `memory_bytes`, each peaking like the runs of `curve` (`survival_curve` of peaks), cut at
    `limit_bytes` by its own limit. `target`: P(sum > memory less reserve) at any time that all peak together.

    None with fewer than 20 runs: not enough data. Raises BadSampleError for a reserve that leaves nothing.
    """
    share(target, "target")
    room = above_zero(memory_bytes, "memory_bytes") - float(not_negative([reserve_bytes], "reserve_bytes")[0])
    above_zero(limit_bytes, "limit_bytes")
    if room <= 0:
        raise BadSampleError(f"reserve_bytes is {reserve_bytes:g}: it leaves nothing of {memory_bytes:g}")
    if curve.count < LEAST_RUNS:
        return None
    random = np.random.default_rng(seed)
    guaranteed = int(min(most, room // limit_bytes))
    sums, count, risk = np.zeros(draws), 0, 0.0
    while count < most:
        sums += np.minimum(draw_peaks(curve, limit_bytes, draws, random), limit_bytes)
        above = int((sums > room).sum())
        # Limits that fit together cannot be broken together.
        bound = 0.0 if count + 1 <= guaranteed else share_interval(above, draws, 0.95 if above == 0 else 0.9)[1]
        if bound > target:
            break
        count, risk = count + 1, bound
    return Overcommit(count, risk, guaranteed, float(curve.survival[-1]))


def draw_peaks(curve: Survival, beyond: float, count: int, random: np.random.Generator) -> Floats:
    """`count` amounts as the curve has them; what lies past its end counts as `beyond`."""
    weights = -np.diff(np.concatenate([[1.0], curve.survival, [0.0]]))
    drawn: Floats = random.choice(np.append(curve.values, beyond), count, p=weights / weights.sum())
    return drawn


def sum_quantile(peaks: Numbers, count: int, p: float, seed: int = 0, draws: int = DRAWS) -> float:
    """The `p` quantile of the sum of `count` peaks drawn from `peaks` (at least 0, at least one); unit of them."""
    values = not_negative(peaks, "peaks")
    if values.size == 0:
        raise BadSampleError("peaks: there are none")
    whole(count, "count")
    random = np.random.default_rng(seed)
    sums = np.zeros(draws)
    for _ in range(count):
        sums += random.choice(values, draws)
    return float(np.quantile(sums, share(p, "p")))


def profile_risk(
    profiles: Sequence[Numbers], count: int, room_bytes: float, *, runs: int = 2000, seed: int = 0
) -> tuple[float, float, float] | None:
    """(low, estimated, high) chance that a run sees the sum of `count` sandboxes, its own among them, exceed the room.

    `profiles`: memory of whole runs, bytes above or at 0, at one and the same interval (the largest of each interval).
    The others work without a pause on runs drawn at random and are met at a random moment; the block is a whole run, so
    what a run does over time stays together. None with fewer than 20 profiles.
    """
    above_zero(room_bytes, "room_bytes")
    whole(count, "count")
    kept = [not_negative(profile, f"profiles[{i}]") for i, profile in enumerate(profiles)]
    for i, profile in enumerate(kept):
        if profile.size == 0:
            raise BadSampleError(f"profiles[{i}]: no samples; leave it out")
    if len(kept) < LEAST_RUNS:
        return None
    random = np.random.default_rng(seed)
    lengths = np.array([profile.size for profile in kept])
    hits = 0
    for own in random.integers(len(kept), size=whole(runs, "runs")):
        total = kept[own].copy()
        # A moment falls into a run with a chance proportional to its length.
        for first in random.choice(len(kept), count - 1, p=lengths / lengths.sum()):
            at, which = -int(random.integers(lengths[first])), int(first)
            while at < total.size:
                part = kept[which][max(0, -at) : total.size - at]
                total[max(0, at) : max(0, at) + part.size] += part
                at, which = at + int(lengths[which]), int(random.integers(len(kept)))
        hits += bool((total > room_bytes).any())
    low, high = share_interval(hits, runs)
    return low, hits / runs, high
