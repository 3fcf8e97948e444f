"""Which host a turn was run on, and which turns are left to run here: a block is never shared out between hosts.

What is compared stands in one block, and two hosts are two prices. A series that goes on elsewhere (its node broke, its
store lies on a file system that hosts share) runs a torn block again, whole; the records of its first half stay, and
count for nothing, since of each turn the last record that has an end of its own counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Run:
    """What of a record tells how far a series is: a ten-thousandth of it, so that all of a campaign's can be held."""

    invocation: str
    turn: int
    slot: int
    part: int
    block: int | None
    home: Home
    host_class: str | None
    at_ns: int
    """When it began, by its host's clock."""
    co_running_count: int
    done: bool
    """Whether it has an end of its own."""
    plan_sha256: str | None
    shard: str | None


def run_of(record: Record) -> Run | None:
    """None for a record that does not tell its place in a plan."""
    started, at = record.started, sessions.place_of(record)
    if at is None:
        return None
    return Run(
        invocation=record.invocation,
        turn=at[0],
        slot=at[1],
        part=integer_at(started, "bench", "part") or 0,
        block=integer_at(started, "ids", "block"),
        home=home_of(record),
        host_class=text_at(started, "host", "class"),
        at_ns=record.started_at_ns or 0,
        co_running_count=integer_at(started, "bench", "co_running", "count") or 1,
        done=sessions.is_done(record),
        plan_sha256=text_at(started, "bench", "plan_sha256"),
        shard=text_at(started, "bench", "shard"),
    )


def last_done(runs: Iterable[Run]) -> dict[tuple[int, int], Run]:
    """{(turn, slot): the run that counts}."""
    found: dict[tuple[int, int], Run] = {}
    for run in runs:
        before = found.get((run.turn, run.slot))
        if run.done and (before is None or (run.part, run.at_ns) >= (before.part, before.at_ns)):
            found[run.turn, run.slot] = run
    return found


def left(turns: Sequence[Turn], records: Iterable[Record], at_home: Home) -> list[Turn]:
    """The turns that have no record of their own end yet, or one that counts for nothing on the host `at_home`."""
    done = last_done(run for record in records if (run := run_of(record)) is not None)
    homes: dict[int, set[Home]] = {}
    for turn in turns:
        slots = [done.get((turn.number, slot)) for slot in range(turn.co_running)]
        if all(one is not None for one in slots):
            homes[turn.number] = {one.home for one in slots if one is not None}
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
