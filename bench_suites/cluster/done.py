"""What of a shard is done, read from its records: nothing else is believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proofcost.bench_suites import homes
from proofcost.bench_suites.cluster.folder import Campaign
from proofcost.bench_suites.homes import Run

Counted = dict[tuple[int, int], Run]


@dataclass(frozen=True, slots=True)
class Done:
    """`counted`: {(turn, slot): the run that counts}, without those of `torn`, the blocks that stand on several hosts.
    `foreign`: why records do not belong here, and then nothing is done; None where all do."""

    counted: Counted
    torn: frozenset[int]
    turns_count: int
    all_count: int
    """Of records, those that count for nothing included."""
    classes: frozenset[str]
    """Host classes that any of them was made on."""
    foreign: str | None = None

    @property
    def runs_count(self) -> int:
        return len(self.counted)


def of_shard(campaign: Campaign, number: int, runs: Iterable[Run]) -> Done:
    """`runs`: of the shard's store."""
    mine = f"{number}/{len(campaign.shards)}"
    kept = []
    for run in runs:
        foreign = None
        if run.plan_sha256 != campaign.plan_sha256:
            its = (run.plan_sha256 or "none")[:16]
            foreign = f"holds records of another plan ({its}, not {campaign.plan_sha256[:16]})"
        elif run.shard != mine:
            foreign = f"holds records of shard {run.shard or '(none)'}, not {mine}"
        if foreign is not None:
            return Done({}, frozenset(), 0, 0, frozenset(), foreign)
        kept.append(run)
    counted = homes.last_done(kept)
    of_block: dict[int, set[homes.Home]] = {}
    for run in counted.values():
        if run.block is not None:
            of_block.setdefault(run.block, set()).add(run.home)
    torn = frozenset(block for block, of in of_block.items() if len(of) > 1)
    counted = {at: one for at, one in counted.items() if one.block not in torn}
    slots: dict[int, int] = {}
    whole: dict[int, int] = {}
    for run in counted.values():
        slots[run.turn] = slots.get(run.turn, 0) + 1
        whole[run.turn] = run.co_running_count
    classes = frozenset(run.host_class for run in kept if run.host_class is not None)
    return Done(counted, torn, sum(slots[turn] == whole[turn] for turn in slots), len(kept), classes)
