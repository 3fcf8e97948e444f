"""What of a shard is done, read from its records: nothing else is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proofcost.bench_suites import homes
from proofcost.bench_suites.cluster.folder import Campaign
from proofcost.harness.merged import Record, integer_at, text_at

Counted = dict[tuple[int, int], Record]


@dataclass(frozen=True, slots=True)
class Done:
    """`counted`: {(turn, slot): the record that counts}, without those of `torn`, the blocks that stand on several
    hosts. `foreign`: why records do not belong here, and then nothing is done; None where all do."""

    counted: Counted
    torn: frozenset[int]
    turns_count: int
    foreign: str | None

    @property
    def runs_count(self) -> int:
        return len(self.counted)


def of_shard(campaign: Campaign, number: int, records: Sequence[Record]) -> Done:
    """`records`: of the shard's store, by start."""
    mine = f"{number}/{len(campaign.shards)}"
    for record in records:
        foreign = None
        plan, shard = text_at(record.started, "bench", "plan_sha256"), text_at(record.started, "bench", "shard")
        if plan != campaign.plan_sha256:
            foreign = f"holds records of another plan ({(plan or 'none')[:16]}, not {campaign.plan_sha256[:16]})"
        elif shard != mine:
            foreign = f"holds records of shard {shard or '(none)'}, not {mine}"
        if foreign is not None:
            return Done({}, frozenset(), 0, foreign)
    counted = homes.last_done(records)
    of_block: dict[int, set[homes.Home]] = {}
    for record in counted.values():
        block = integer_at(record.started, "ids", "block")
        if block is not None:
            of_block.setdefault(block, set()).add(homes.home_of(record))
    torn = frozenset(block for block, of in of_block.items() if len(of) > 1)
    counted = {at: one for at, one in counted.items() if integer_at(one.started, "ids", "block") not in torn}
    slots: dict[int, int] = {}
    whole: dict[int, int] = {}
    for (turn, _), record in counted.items():
        slots[turn] = slots.get(turn, 0) + 1
        whole[turn] = integer_at(record.started, "bench", "co_running", "count") or 1
    return Done(counted, torn, sum(slots[turn] == whole[turn] for turn in slots), None)
