"""Which host a turn was run on, and which turns are left to run here: a block is never shared out between hosts.

What is compared stands in one block, and two hosts are two prices. A series that goes on elsewhere (its node broke, its
store lies on a file system that hosts share) runs a torn block again, whole; the records of its first half stay, and
count for nothing, since of each turn the last record that has an end of its own counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proofcost.bench_suites import sessions
from proofcost.bench_suites.series import Turn
from proofcost.harness import host
from proofcost.harness.merged import Record, integer_at, text_at

NODE_LABEL = "node"
"""What a scheduler calls the host: it tells hosts apart that share a machine id, or have none (containers)."""

Home = str | None


def here(place: str, node: str | None) -> Home:
    """This host: as the scheduler calls it, else by its instance in the store. None where the store tells none."""
    if node is not None:
        return node
    instance = host.identity(place)["instance"]
    return instance if isinstance(instance, str) else None


def home_of(record: Record) -> Home:
    """The host that a record was made on."""
    return text_at(record.started, "labels", NODE_LABEL) or text_at(record.started, "host", "instance")


def last_done(records: Iterable[Record]) -> dict[tuple[int, int], Record]:
    """{(turn, slot): the record that counts}; `records` by start."""
    found: dict[tuple[int, int], Record] = {}
    for record in records:
        at = sessions.place_of(record)
        if at is not None and sessions.is_done(record) and _part(record) >= _part(found.get(at)):
            found[at] = record
    return found


def _part(record: Record | None) -> int:
    return 0 if record is None else integer_at(record.started, "bench", "part") or 0


def left(turns: Sequence[Turn], records: Iterable[Record], at_home: Home) -> list[Turn]:
    """The turns that have no record of their own end yet, or one that counts for nothing on the host `at_home`."""
    done = last_done(records)
    homes: dict[int, set[Home]] = {}
    for turn in turns:
        slots = [done.get((turn.number, slot)) for slot in range(turn.co_running)]
        if all(one is not None for one in slots):
            homes[turn.number] = {home_of(one) for one in slots if one is not None}
    blocks: dict[int, list[Turn]] = {}
    for turn in turns:
        if turn.block is not None:
            blocks.setdefault(turn.block, []).append(turn)
    missing: set[int] = set()
    works: set[str] = set()
    for block in blocks.values():
        of_block = [homes.get(turn.number) for turn in block]
        if None not in of_block and len(set().union(*(one for one in of_block if one is not None))) <= 1:
            continue
        missing.update(turn.number for turn, its in zip(block, of_block, strict=True) if its != {at_home})
        works.add(block[0].work.name)
    for turn in turns:
        # What warmed up another host has not warmed up this one.
        if turn.warmup and (turn.number not in homes or (turn.work.name in works and homes[turn.number] != {at_home})):
            missing.add(turn.number)
    return [turn for turn in turns if turn.number in missing]
