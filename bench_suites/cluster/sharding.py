"""How a plan is parted for a scheduler, and how long a part takes at most."""

from __future__ import annotations

from proofcost.bench_suites.cluster.folder import CampaignError, Shard
from proofcost.bench_suites.expected import Expected, Left
from proofcost.bench_suites.series import Series

READ_BYTES_PER_S = 10_000_000
"""Every shard unpacks and looks through all exports first, at 19 MB/s and more with depth, 200 MB/s without; half."""
START_NS = 120 * 10**9
"""Before that: an interpreter and its libraries from a shared file system."""


def parts_count(made: Series) -> int:
    """Into so many parts a plan can be shared out: whole workloads, a family's sizes together."""
    return len({work.group for work in made.works})


def shards(made: Series, count: int) -> tuple[Shard, ...]:
    """Raises CampaignError for more shards than the plan has parts."""
    most = parts_count(made)
    if not 1 <= count <= most:
        raise CampaignError(
            f"--shards {count}: this plan has {most} part{'s'[: most != 1]} (a workload, or all sizes of a family, "
            f"stays on one host with all of its blocks); give a number from 1 to {most}"
        )
    found = []
    for number in range(1, count + 1):
        turns = made.shard(number, count)
        blocks = {turn.block for turn in turns} - {None}
        found.append(Shard(len(turns), sum(turn.co_running for turn in turns), len(blocks)))
    return tuple(found)


def longest_ns(made: Series, count: int) -> int | None:
    """What the longest of the shards takes at most, ns; None where no limit bounds it."""
    worst = [
        Expected().rest(Left(made.shard(number, count)), made.settings.limits).worst_ns
        for number in range(1, count + 1)
    ]
    if None in worst:
        return None
    reading_ns = sum(work.size_bytes for work in made.works) * 10**9 // READ_BYTES_PER_S
    return max(one for one in worst if one is not None) + reading_ns + START_NS
