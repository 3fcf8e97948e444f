"""The plan of a series: the same whenever it is made, balanced, whole, and parted as any scheduler may."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost import bench_progress
from proofcost.bench_suites import expected, registry, series
from proofcost.bench_suites.expected import Expected, Left, duration, planned, remaining
from proofcost.bench_suites.kernel import Kernel, Program
from proofcost.bench_suites.series import ABBA, RANDOM, Limits, Series, Settings
from proofcost.bench_suites.work import Work

S = 10**9


def kernel(name: str, builds: int = 1, threads: bool = False) -> Kernel:
    words = ("-j{threads}",) if threads else ()
    programs = tuple(Program((f"/{name}{at}",), f"/{name}{at}", "0" * 64) for at in range(builds))
    commands = tuple(program.words for program in programs)
    return Kernel(name, registry.UNKNOWN, "made", commands, "path", words, builds=programs)


def work(name: str, size: int = 100, family: str | None = None, n: int | None = None) -> Work:
    return Work(name, f"/{name}", None, size, family=family, n=n)


def plan(kernels: int = 2, works: int = 2, **settings: object) -> Series:
    made = Settings("s", **settings)  # type: ignore[arg-type]
    return series.make(made, [kernel("abcdef"[at]) for at in range(kernels)], [work(f"w{at}") for at in range(works)])


SETTINGS = st.fixed_dictionaries(
    {
        "order": st.sampled_from([ABBA, RANDOM]),
        "repetitions": st.sampled_from([2, 4, 6]),
        "warmups": st.integers(0, 2),
        "seed": st.integers(0, 99),
        "threads": st.sampled_from([(1,), (1, 4)]),
        "co_running": st.sampled_from([(1,), (1, 2)]),
    }
)


@given(st.integers(1, 4), st.integers(1, 4), SETTINGS)
def test_every_cell_has_its_repetitions_and_every_block_its_kernels(
    kernels: int, works: int, settings: dict[str, object]
) -> None:
    made = plan(kernels, works, **settings)
    assert [turn.number for turn in made.turns] == list(range(len(made.turns)))
    repetitions = Counter(turn.cell for turn in made.turns if not turn.warmup)
    warmups = Counter(turn.cell for turn in made.turns if turn.warmup)
    assert set(repetitions.values()) == {settings["repetitions"]}
    assert len(repetitions) == kernels * works * len(made.settings.co_running)
    assert set(warmups.values()) <= {settings["warmups"]}
    blocks: dict[int, list[series.Turn]] = {}
    for turn in made.turns:
        if turn.block is not None:
            blocks.setdefault(turn.block, []).append(turn)
    for turns in blocks.values():
        assert len({(turn.work.name, turn.co_running) for turn in turns}) == 1
        assert [turn.order for turn in turns] == list(range(1, len(turns) + 1))
        names = [turn.kernel.name for turn in turns]
        if settings["order"] == ABBA:
            assert names == names[::-1]
        assert set(Counter(names).values()) == {2 if settings["order"] == ABBA else 1}


@given(st.integers(1, 3), SETTINGS)
def test_the_plan_is_the_same_whenever_it_is_made(kernels: int, settings: dict[str, object]) -> None:
    one, two = plan(kernels, 2, **settings), plan(kernels, 2, **settings)
    assert one == two


def test_who_begins_changes_from_block_to_block() -> None:
    made = plan(3, 1, repetitions=6, warmups=0)
    names = "".join(turn.kernel.name for turn in made.turns)
    assert [names[at : at + 6] for at in range(0, 18, 6)] == ["abccba", "bcaacb", "cabbac"]


def test_blocks_of_all_workloads_take_turns() -> None:
    made = plan(1, 3, repetitions=4, warmups=0)
    assert [turn.work.name for turn in made.turns] == ["w0", "w0", "w1", "w1", "w2", "w2"] * 2


def test_another_seed_is_another_order_and_the_same_turns() -> None:
    one, two = (plan(3, 4, order=RANDOM, seed=seed) for seed in (1, 2))
    assert [turn.cell for turn in one.turns] != [turn.cell for turn in two.turns]
    assert Counter(turn.cell for turn in one.turns) == Counter(turn.cell for turn in two.turns)


@given(st.integers(1, 9), st.integers(1, 12), SETTINGS)
def test_shards_are_the_plan_each_turn_once(works: int, count: int, settings: dict[str, object]) -> None:
    made = plan(2, works, **settings)
    shards = [made.shard(number, count) for number in range(1, count + 1)]
    assert sorted(turn.number for shard in shards for turn in shard) == list(range(len(made.turns)))
    for shard in shards:
        assert [turn.number for turn in shard] == sorted(turn.number for turn in shard)
    of_block: dict[int, set[int]] = {}
    for at, shard in enumerate(shards):
        for turn in shard:
            if turn.block is not None:
                of_block.setdefault(turn.block, set()).add(at)
    assert {len(one) for one in of_block.values()} == {1}, "both sides of a block are on one host"
    homes = Counter(name for shard in shards for name in {turn.work.name for turn in shard})
    assert set(homes.values()) == {1}, "a workload is on one machine, whole"


def test_a_familys_sizes_stay_together() -> None:
    works = [work(f"f:{n}", family="f", n=n) for n in (1, 2, 3)] + [work("other")]
    made = series.make(Settings("s", repetitions=2), [kernel("a")], works)
    assert [{turn.work.name for turn in made.shard(number, 2)} for number in (1, 2)] == [
        {"f:1", "f:2", "f:3"},
        {"other"},
    ]


def test_a_kernel_without_threads_takes_part_once() -> None:
    made = series.make(
        Settings("s", repetitions=2, warmups=0, threads=(1, 4)), [kernel("a", threads=True), kernel("b")], [work("w")]
    )
    assert Counter((turn.kernel.name, turn.threads) for turn in made.turns) == {
        ("a", 1): 2,
        ("a", 4): 2,
        ("b", None): 2,
    }


def test_builds_are_a_level_of_their_own() -> None:
    made = series.make(Settings("s", repetitions=4, warmups=0), [kernel("a", builds=3), kernel("b")], [work("w")])
    assert Counter((turn.kernel.name, turn.build) for turn in made.turns) == {
        ("a", 0): 4,
        ("a", 1): 4,
        ("a", 2): 4,
        ("b", 0): 12,
    }
    by_block = {turn.block: turn.build for turn in made.turns if turn.kernel.name == "a"}
    assert list(by_block.values()) == [0, 1, 2, 0, 1, 2], "one build after the other, so that drift falls on all"
    iterations = [turn.iteration for turn in made.turns if turn.kernel.name == "a" and turn.build == 1]
    assert iterations == [1, 2, 3, 4]


BASE = Settings("s", repetitions=2)


@pytest.mark.parametrize(
    "changed",
    [
        replace(BASE, repetitions=4),
        replace(BASE, seed=2),
        replace(BASE, order=RANDOM),
        replace(BASE, warmups=0),
        replace(BASE, threads=(2,)),
        replace(BASE, co_running=(2,)),
        replace(BASE, limits=Limits(wall_ns=S)),
        replace(BASE, counters=("x",)),
        replace(BASE, name="t"),
    ],
)
def test_whatever_changes_the_plan_changes_its_digest(changed: Settings) -> None:
    kernels, works = [kernel("a")], [work("w")]
    digest = series.make(BASE, kernels, works).sha256
    assert series.make(changed, kernels, works).sha256 != digest
    assert series.make(BASE, [kernel("b")], works).sha256 != digest
    assert series.make(BASE, kernels, [work("v")]).sha256 != digest
    rebuilt = replace(kernels[0], builds=(Program(("/a0",), "/a0", "1" * 64),))
    assert series.make(BASE, [rebuilt], works).sha256 != digest
    assert series.make(replace(BASE, report="growth"), kernels, works).sha256 == digest, "how it is shown is no part"


# How long it takes.


def test_of_what_has_not_run_nothing_is_promised() -> None:
    made = plan(2, 2, repetitions=2, warmups=0, limits=Limits(wall_ns=10 * S))
    rest = Expected().rest(Left(made.turns), made.settings.limits)
    assert (rest.turns_count, rest.unknown_count, rest.expected_ns) == (8, 8, 0)
    assert rest.worst_ns == 8 * (10 * S + expected.AROUND_NS)
    assert remaining(rest) == "time left not known yet, at most 1 min 44 s"
    assert planned(rest, made.settings.limits) == [
        "not known: no run of these kernels in the store tells",
        "if every turn ran into its time limit of 10 s: 1 min 44 s",
    ]
    hour = Limits(wall_ns=3600 * S)
    assert "its time limit of 1 h:" in planned(Expected().rest(Left(made.turns), hour), hour)[1]


def test_a_cell_that_ran_is_expected_to_take_its_median() -> None:
    made = plan(1, 1, repetitions=6, warmups=0)
    known, left = Expected(), Left(made.turns)
    for turn, took in zip(made.turns, (3 * S, 1 * S, 2 * S), strict=False):
        known.add(turn, took)
        left.take(turn)
    rest = known.rest(left, made.settings.limits)
    assert (rest.turns_count, rest.expected_ns, rest.unknown_count, rest.guessed_count) == (3, 6 * S, 0, 0)
    assert remaining(rest) == "about 6.0 s left, no bound"
    assert planned(rest, made.settings.limits) == ["about 6.0 s", "no worst case: there is no wall limit"]


def test_a_cell_that_did_not_is_guessed_by_its_size_and_called_a_guess() -> None:
    works = [work("small", 100), work("large", 1000)]
    made = series.make(Settings("s", repetitions=2, warmups=0), [kernel("a"), kernel("b")], works)
    known = Expected()
    known.add(made.turns[0], 2 * S)
    rest = known.rest(Left(made.turns[1:]), made.settings.limits)
    # a on small: once more, 2 s; a on large: twice ten times as long; b: nobody knows
    assert (rest.expected_ns, rest.guessed_count, rest.unknown_count) == (42 * S, 2, 4)
    assert remaining(rest).startswith("42 s left and 4 unknown turns, ")
    assert planned(rest, made.settings.limits)[0] == (
        "42 s and what 4 turns of which nothing is known take (2 of 7 turns guessed by size from other exports)"
    )


def test_what_a_kernel_took_elsewhere_is_scaled_by_size() -> None:
    made = series.make(Settings("s", repetitions=2, warmups=0), [kernel("a")], [work("large", 1000)])
    known = Expected()
    known.add_elsewhere(made.turns[0], "0" * 64, 100, 2 * S)
    rest = known.rest(Left(made.turns), made.settings.limits)
    assert (rest.expected_ns, rest.guessed_count, rest.unknown_count) == (2 * 20 * S, 2, 0)


@pytest.mark.parametrize(
    ("name", "width", "text"),
    [
        ("k on w", 80, "38/700 k on w; about 12 s left, at most 2 h 05 min"),
        ("k on " + "w" * 95, 80, "38/700 k on wwwwwwwwwww...wwwwwwwwwwwwwwww; about 12 s left, at most 2 h 05 min"),
        ("k on " + "w" * 95, 20, "38/700 k on ...wwww; about 12 s left, at most 2 h 05 min"),
        ("k on \x1b[2Jw", 80, "38/700 k on \\x1b[2Jw; about 12 s left, at most 2 h 05 min"),
    ],
)
def test_the_progress_line_shortens_the_name_alone(name: str, width: int, text: str) -> None:
    assert bench_progress.line("38/700 ", name, "; about 12 s left, at most 2 h 05 min", width) == text
    assert len(text) < 80


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.0 s"),
        (9_940_000_000, "9.9 s"),
        (59 * S, "59 s"),
        (60 * S, "1 min 00 s"),
        (200 * S, "3 min 20 s"),
        (7500 * S, "2 h 05 min"),
    ],
)
def test_durations_for_people(ns: int, text: str) -> None:
    assert duration(ns) == text
