"""Growth, contention and calibration from records, and the shipped suites run with kernels that take a known time."""

import io
import itertools
from pathlib import Path

import pytest
from benching import Bench, export, kernel, record, script
from fixtures import made
from rich.console import Console

from proofcost.harness.merged import Record
from proofcost.reports import calibration, contention, growth_table
from proofcost.reports.bench_cells import MEMORY, WALL
from proofcost.reports.growth import Growth, Point, growths, without_cost
from proofcost.reports.growth_chart import draw

S = 10**9


def console() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=200), file


# Growth.


def sizes(walls: dict[int, int], kernel_name: str = "a", **changes: object) -> list[Record]:
    """Three repetitions of each size of a family."""
    number = itertools.count(1000 * ord(kernel_name))
    return [
        record(
            kernel_name,
            f"f:{n}",
            wall,
            turn_number=next(number),
            workload={"family": "f", "n": n},
            **changes,  # type: ignore[arg-type]
        )
        for n, wall in walls.items()
        for _ in range(3)
    ]


def stopped(n: int, cause: str, limits: dict[str, int], turn_number: int) -> Record:
    work = {"family": "f", "n": n}
    return record("a", f"f:{n}", 1, turn_number=turn_number, workload=work, cause=cause, limits=limits)


def test_growth_is_fitted_to_one_point_for_each_size() -> None:
    (found,) = growths(sizes({n: n * n * 1000 for n in (100, 200, 400, 800)}), WALL, "ns", None)
    assert (found.kernel, found.family) == ("a", "f")
    assert [point.n for point in found.points] == [100, 200, 400, 800]
    assert found.fit.exponent == pytest.approx(2)
    assert found.fit.sizes == 4


def test_sizes_below_the_floor_are_left_out_and_counted() -> None:
    walls = {100: 9_000_000, 200: 9_100_000, 400: 16 * S, 800: 64 * S, 1600: 256 * S, 3200: 1024 * S}
    (found,) = growths(sizes(walls), WALL, "ns", 1_000_000)
    assert found.fit.exponent == pytest.approx(2)
    assert [point.below_floor for point in found.points] == [True, True, False, False, False, False]
    (flat,) = growths(sizes(walls), WALL, "ns", None)
    assert flat.fit.exponent is not None
    assert flat.fit.exponent > 3, "the start-up would have been taken for a start"


def test_a_size_that_ran_into_its_time_limit_is_a_bound_at_the_limit() -> None:
    records = sizes({n: n * S for n in (1, 2, 3, 4)})
    records += [stopped(8, "time_limit", {"timeout_ns": 6 * S}, at) for at in range(3)]
    (found,) = growths(records, WALL, "ns", None)
    assert found.points[-1] == Point(8, 6 * S, censored=True)
    assert (found.fit.sizes, found.fit.censored) == (4, 1)
    assert found.fit.exponent == pytest.approx(1, abs=1e-3), "8 would take 8 s: beyond 6 s, as it was seen"


def test_out_of_memory_bounds_memory_and_says_nothing_of_time() -> None:
    peak = {"memory_peak_tree": made.figure(10**6, "bytes")}
    records = sizes({n: n * S for n in (1, 2, 4)}, measurements=peak)
    records += [stopped(8, "memory_limit", {"memory_limit_bytes": 10**9}, at) for at in range(3)]
    (memory,) = growths(records, MEMORY, "bytes", None)
    assert memory.points[-1] == Point(8, 10**9, censored=True)
    (wall,) = growths(records, WALL, "ns", None)
    assert [point.n for point in wall.points] == [1, 2, 4]


def test_a_size_at_which_a_kernel_crashed_is_said() -> None:
    records = sizes({n: n * S for n in (1, 2, 4)})
    records += [stopped(8, "crashed", {}, at) for at in range(2)]
    records += [stopped(16, "time_limit", {"timeout_ns": 9 * S}, 5)]
    assert without_cost(records) == ["a on f:8: 2 crashed of 2"]
    shown, file = console()
    growth_table.render([("wall", "ns", growths(records, WALL, "ns", None))], shown, 1000, without_cost(records))
    assert "left out: a on f:8: 2 crashed of 2" in file.getvalue()


def test_the_null_program_has_a_floor_and_no_growth() -> None:
    records = [*sizes({n: n * S for n in (1, 2, 4)}), *sizes(dict.fromkeys((1, 2, 4), 5), "n", convention="null")]
    assert [one.kernel for one in growths(records, WALL, "ns", None)] == ["a"]


def test_of_a_size_that_was_stopped_now_and_then_the_median_is_known() -> None:
    records = sizes({n: n * S for n in (1, 2, 4)})
    records.append(stopped(4, "time_limit", {"timeout_ns": 9 * S}, 77))
    (found,) = growths(records, WALL, "ns", None)
    assert found.points[-1] == Point(4, 4 * S)


def test_too_few_sizes_say_why_there_is_no_exponent() -> None:
    records = sizes({1: 5, 2: 5, 4: S})
    records += [stopped(8, "time_limit", {"timeout_ns": 6 * S}, at) for at in range(3)]
    (found,) = growths(records, WALL, "ns", 1000)
    assert found.fit.exponent is None
    assert found.why == (
        "1 of 4 sizes have a value to fit, 2 are below 10 times the floor, 1 were stopped by a limit: 4 are needed"
    )
    shown, file = console()
    growth_table.render([("wall", "ns", [found])], shown, 1000)
    assert "no exponent: a on f, wall: 1 of 4 sizes" in file.getvalue()
    assert ">6.00 s at 8" in file.getvalue()


def test_the_table_has_exponent_and_interval() -> None:
    found = growths(sizes({n: n * n * 1000 for n in (100, 200, 400, 800)}), WALL, "ns", None)
    shown, file = console()
    growth_table.render([("wall", "ns", found)], shown, None)
    (row,) = [line for line in file.getvalue().splitlines() if line.startswith("f ")]
    assert row.split() == ["f", "a", "wall", "4", "640", "ms", "at", "800", "2.00", "2.00", "..", "2.00"]


def chart_of(file: Path) -> list[Growth]:
    records = [*sizes({n: n * 10**7 for n in (1, 2, 4, 8)}), *sizes({n: n * n * 10**7 for n in (1, 2, 3, 4)}, "b")]
    records += [stopped(16, "time_limit", {"timeout_ns": 6 * S}, 9)]
    found = growths(records, WALL, "ns", None)
    draw(found, str(file), "title", 10**6)
    return found


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_a_chart_of_the_same_records_is_the_same_to_the_byte(tmp_path: Path, suffix: str) -> None:
    chart_of(tmp_path / f"one{suffix}")
    chart_of(tmp_path / f"two{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert first == second
    assert len(first) > 5000


def test_a_chart_shows_stopped_sizes_apart(tmp_path: Path) -> None:
    from matplotlib import pyplot

    found = chart_of(tmp_path / "x.svg")
    assert {point.n for growth in found for point in growth.points if point.censored} == {16}
    text = (tmp_path / "x.svg").read_text()
    assert "<svg" in text
    assert "date" not in text.lower().partition("<defs>")[0].replace("<dc:date>", "")
    assert pyplot.get_fignums() == [], "no figure of a window's is made"


# Contention.


def together(count: int, wall: int, gap: int, turn_number: int) -> list[Record]:
    """One turn: `count` runs of `wall` ns, each starting `gap` after the one before."""
    return [
        record(
            "a",
            wall_ns=wall,
            turn_number=turn_number,
            co_running={"count": count, "slot": slot},
            exit_seen_ns=10**12 + wall + slot * gap,
        )
        for slot in range(count)
    ]


def test_throughput_slowdown_and_efficiency_are_those_of_whole_turns() -> None:
    records = [*together(1, S, 0, 1), *together(1, S, 0, 2), *together(4, 2 * S, 0, 3)]
    alone, four = contention.loads(records)
    assert (alone.count, alone.turns_count, alone.throughput_per_s, alone.slowdown) == (1, 2, 1.0, 1.0)
    assert (four.count, four.turns_count, four.wall_ns) == (4, 1, 2 * S)
    assert four.throughput_per_s == pytest.approx(2.0)
    assert four.slowdown == pytest.approx(2.0)
    assert four.efficiency == pytest.approx(0.5)
    assert four.together_ratio == pytest.approx(1.0)


def test_runs_that_hardly_met_say_so() -> None:
    (found,) = contention.loads(together(2, S, S // 2, 1))
    assert found.together_ratio == pytest.approx(1 / 3)
    assert found.throughput_per_s == pytest.approx(2 / 1.5)
    assert found.slowdown is None, "nothing ran alone"


def test_a_turn_in_which_one_was_killed_counts_for_nothing() -> None:
    broken = together(2, S, 0, 1)
    broken[1] = record(
        "a", wall_ns=S, turn_number=1, co_running={"count": 2, "slot": 1}, cause="memory_limit", exit_seen_ns=10**12
    )
    (found,) = contention.loads(broken)
    assert (found.turns_count, found.throughput_per_s, found.wall_ns) == (0, None, None)


# Calibration.


def null(wall: int, turn_number: int) -> Record:
    return record("n", wall_ns=wall, turn_number=turn_number, convention="null", control=True, exit_codes={"0": "ran"})


def test_the_floor_is_the_median_of_enough_null_runs() -> None:
    walls = [9, 1, 5, 3, 7]
    assert calibration.floor_ns([null(wall, at) for at, wall in enumerate(walls)]) == 5
    assert calibration.floor_ns([null(wall, at) for at, wall in enumerate(walls[:4])]) is None
    failed = [record("n", code=1, turn_number=at, convention="null", exit_codes={"0": "ran"}) for at in range(9)]
    assert calibration.floor_ns(failed) is None


def test_the_table_shows_the_whole_distribution() -> None:
    shown, file = console()
    calibration.render([null(wall * 1_000_000, wall) for wall in range(1, 102)], shown)
    (row,) = [line for line in file.getvalue().splitlines() if "the floor)" in line]
    values = [word for value in ("1.00", "26.0", "51.0", "76.0", "96.0", "101") for word in (value, "ms")]
    assert row.split()[-13:] == ["101", *values]


# The shipped suites, run.


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    export(tmp_path / "exports" / "one.ndjson")
    return Bench(tmp_path)


def test_a_calibration_marks_later_benches_on_this_host(bench: Bench) -> None:
    done = bench("calibration", "-r", 6, "--on", "exports")
    assert done.status == 0, done.stderr
    assert "wall of a null program (the floor)" in done.stdout
    assert "parse-only on one: wall" in done.stdout
    assert {kernel(one) for one in bench.records()} == {"null", "parse-only"}
    session = bench.records()[0].started["session"]
    quick = script(bench.folder / "quick", "#!/bin/sh\nexit 0\n")
    marked = bench(f"a={quick}", f"b={quick}", "--on", "exports", "-r", 2)
    assert "times the floor of" in marked.stdout
    assert f"(calibration {session})" in marked.stdout
    boxed = bench(f"a={quick}", "--on", "exports", "-r", 1, "--store", bench.folder / "other")
    assert "the floor of this host is not known" in boxed.stdout


def test_growth_of_a_kernel_whose_time_is_known(bench: Bench) -> None:
    """It sleeps a millisecond for each 100 bytes: linear in the export's size."""
    script(
        bench.folder / "linear",
        "#!/bin/sh\nsize=$(wc -c < $1)\nexec sleep $(printf '%d.%03d' $((size / 100000)) $((size / 100 % 1000)))\n",
    )
    (bench.folder / "suite.toml").write_text(
        'report = "growth"\nrepetitions = 1\nwarmups = 0\n[[kernel]]\nname = "linear"\ncommand = "./linear"\n'
        '[[workload]]\nfamily = "church"\nn = [100, 150, 200, 400]\n'
    )
    done = bench("suite.toml", "-o", "growth.svg")
    assert done.status == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("church")]
    assert row.split()[1:4] == ["linear", "wall", "4"]
    exponent = float(row.split()[8])
    assert 0.2 < exponent < 1.8, "one, but for what else this host does"
    assert (bench.folder / "growth.svg").stat().st_size > 5000
    first = (bench.folder / "growth.svg").read_bytes()
    again = bench("suite.toml", "-o", "growth.svg", "--resume")
    assert again.stdout == done.stdout
    assert (bench.folder / "growth.svg").read_bytes() == first, "from the same records the same chart"


def test_contention_runs_the_same_work_side_by_side(bench: Bench) -> None:
    script(bench.folder / "nap", "#!/bin/sh\nexec sleep 1.5\n")
    done = bench("contention", "nap=./nap", "--on", "exports", "-r", 1, "--warmups", 0, "--timeout", "60s")
    assert done.status == 0, done.stderr
    records = bench.records()
    counts = [one.started["bench"]["co_running"]["count"] for one in records]
    assert sorted(counts) == sorted([1] + [2] * 2 + [4] * 4 + [8] * 8)
    for count in (2, 4, 8):
        group = [one for one in records if one.started["bench"]["co_running"]["count"] == count]
        assert [one.started["bench"]["co_running"]["slot"] for one in group] == list(range(count))
        assert len({one.started["bench"]["turn"] for one in group}) == 1
        assert len({tuple(one.started["cgroup"]["paths"].values()) for one in group}) in (1, count)
    pair = [one for one in records if one.started["bench"]["co_running"]["count"] == 2]
    begins = [one.started["clocks"]["monotonic_ns"] for one in pair]
    ends = [one.finished["clocks"]["monotonic_ns"] for one in pair if one.finished is not None]
    assert max(begins) < min(ends), "both ran at the same time"
    assert "at once" in done.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["growth", "-o", "x.html"], "-o x.html: a chart's name ends in .svg, .pdf, .png"),
        (["calibration", "-o", "x.svg"], "-o x.svg: only growth has a chart"),
        (["growth", "-o", "gone/x.svg"], "no folder gone"),
    ],
)
def test_a_chart_that_cannot_be_is_refused_before_anything_runs(bench: Bench, words: list[str], complaint: str) -> None:
    done = bench(*words)
    assert done.status == 2
    assert complaint in done.stderr
    assert not (bench.store / "sessions").exists()
