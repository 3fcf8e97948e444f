"""Who runs what, and when: each day the submissions are dealt out to the hosts anew, each as a whole.

A host runs its submissions one after the other, each under every kernel, from one of them on, and again from there when
it is through: such a round is a block. Turns stand evenly over the day, in their order.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.sample import Ints
from proofcost.reports.synth_truth import Truth

DAY_NS = 86_400 * 10**9
_JITTER = 0.9
"""Of the time between two turns; below 1, so that no two start at the same moment."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns of one host on one day, shape (n,) each, ordered by kernel and then by time, as compaction orders rows."""

    shard: Ints
    """Numbers of the host's submissions; what `place_in_shard` counts."""
    place_in_shard: Ints
    kernel: Ints
    block: Ints
    place: Ints
    started_ns: Ints

    @property
    def submission(self) -> Ints:
        found: Ints = self.shard[self.place_in_shard]
        return found

    @property
    def count(self) -> int:
        return int(self.kernel.size)


def turns_of(truth: Truth, day: int, host: int, first: int, count: int, random: np.random.Generator) -> Turns:
    """`count` turns of a host's day, from number `first` on."""
    fleet = truth.fleet
    dealt = np.random.default_rng([fleet.seed, 2, day])
    shard = np.sort(dealt.permutation(fleet.submissions)[host :: fleet.hosts])
    begin = int(dealt.integers(0, fleet.submissions)) % shard.size
    number = np.arange(first, first + count)
    block, place = np.divmod(number, shard.size * fleet.kernels)
    after, kernel = np.divmod(place, fleet.kernels)
    midnight = int(datetime.datetime.combine(truth.date(day), datetime.time(), datetime.UTC).timestamp()) * 10**9
    apart = DAY_NS / fleet.records_of(day, host)
    started = midnight + ((number + _JITTER * random.random(count)) * apart).astype(np.int64)
    order = np.argsort(kernel, kind="stable")
    return Turns(
        shard, (begin + after[order]) % shard.size, kernel[order], block[order] + 1, place[order] + 1, started[order]
    )  # fmt: skip
