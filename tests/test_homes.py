"""A block is never shared out between hosts: what is left of a series depends on where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benching import record
from hypothesis import given
from hypothesis import strategies as st
from test_series import plan

from proofcost.bench_suites import homes
from proofcost.bench_suites.series import Turn
from proofcost.harness.merged import Record


def done(turn: Turn, node: str | None, part: int = 1, instance: str = "m", **changes: Any) -> Record:
    """A record of a turn that was run to its end on a host."""
    made = record(turn.kernel.name, turn.work.name, turn_number=turn.number, block=turn.block, part=part, **changes)
    labels = {} if node is None else {"node": node}
    started = {**made.started, "labels": labels, "host": {**made.started["host"], "instance": instance}}
    return replace(made, started=started, invocation=f"{made.invocation}-{part}-{node}")


def runs(records: Sequence[Record]) -> list[homes.Run]:
    return [run for record in records if (run := homes.run_of(record)) is not None]


def numbers(turns: Sequence[Turn]) -> list[int]:
    return [turn.number for turn in turns]


TURNS = plan(2, 2, repetitions=4, warmups=1).turns
BLOCK = [turn for turn in TURNS if turn.block == 2]


def test_what_was_done_here_is_not_run_again() -> None:
    records = [done(turn, "x") for turn in TURNS[:6]]
    assert numbers(homes.left(TURNS, records, "x")) == numbers(TURNS[6:])


def test_a_block_torn_between_hosts_is_run_again_whole() -> None:
    before = [turn for turn in TURNS if turn.number < BLOCK[2].number]
    records = [done(turn, "x") for turn in before]
    left = homes.left(TURNS, records, "y")
    assert numbers([turn for turn in left if turn.block == 2]) == numbers(BLOCK)
    assert not any(turn.block == 1 for turn in left), "a block that is whole stays where it was run"


def test_what_warmed_up_another_host_warms_up_this_one_too() -> None:
    before = [turn for turn in TURNS if turn.number < BLOCK[2].number]
    warm = [turn for turn in homes.left(TURNS, [done(turn, "x") for turn in before], "y") if turn.warmup]
    assert {turn.work.name for turn in warm} == {"w0", "w1"}
    all_done = [done(turn, "x") for turn in TURNS]
    assert homes.left(TURNS, all_done, "y") == [], "nothing is left, so nothing is warmed up"


def test_without_a_schedulers_name_hosts_are_told_apart_by_their_instance() -> None:
    records = [done(turn, None, instance="m") for turn in TURNS if turn.number < BLOCK[2].number]
    assert len(homes.left(TURNS, records, "other")) > len(homes.left(TURNS, records, "m"))


def test_a_turn_that_was_run_again_counts_where_it_was_run_last() -> None:
    records = [done(turn, "x") for turn in TURNS] + [done(turn, "y", part=2) for turn in BLOCK]
    assert homes.left(TURNS, records, "z") == []
    torn = records[:-1]
    warm = numbers([turn for turn in TURNS if turn.warmup and turn.work == BLOCK[0].work])
    assert numbers(homes.left(TURNS, torn, "y")) == [*warm, BLOCK[-1].number], "it goes on where the newer half is"
    assert numbers(homes.left(TURNS, torn, "z")) == [*warm, *numbers(BLOCK)]


@given(st.data())
def test_however_often_a_series_moves_its_blocks_end_up_on_one_host_each(data: st.DataObject) -> None:
    """Interrupted anywhere, any number of times, and gone on with on any host."""
    records: list[Record] = []
    for part in range(1, data.draw(st.integers(2, 6)) + 1):
        node = data.draw(st.sampled_from("xyz"))
        left = homes.left(TURNS, records, node)
        assert numbers(left) == sorted(numbers(left)), "in the order of the plan"
        records += [done(turn, node, part) for turn in left[: data.draw(st.integers(0, len(left)))]]
    last = homes.left(TURNS, records, "x")
    records += [done(turn, "x", 99) for turn in last]
    assert homes.left(TURNS, records, "x") == []
    counted = homes.last_done(runs(records))
    assert sorted(turn for turn, _ in counted) == numbers(TURNS)
    for block in {turn.block for turn in TURNS} - {None}:
        of = {counted[turn.number, 0].home for turn in TURNS if turn.block == block}
        assert len(of) == 1
