"""`report noise`: false alarms of a thing with itself, the floor, steal and drift, from figures computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from rows_of_runs import BEGIN, DAY, data_of, kept, noisy, run

from proofcost import cli
from proofcost.harness.columns import Row
from proofcost.reports.document import Document, Entry, Estimate, Missing, Table
from proofcost.reports.metrics import METRICS
from proofcost.reports.noise import Same, Way, document, drift, rates
from proofcost.reports.noise_data import noise_found
from proofcost.reports.where import parse

WALL = next(metric for metric in METRICS if metric.name == "wall")
HOUR = 3600 * 10**9


def report(folder: Path, rows: list[Row]) -> Document:
    return document(noise_found(data_of(folder, rows), parse([])))


def table(made: Document, key: str) -> Table:
    return next(one for one in made.tables() if one.key == key)


def rate_of(made: Document, way: str) -> tuple[Entry, ...]:
    return tuple(next(row for row in table(made, "false_alarms").rows if row[2] == way))


def series(walls: list[float], plan: str = "p", day: int = 0, **more: object) -> list[Row]:
    return [
        run(wall, plan=plan, block=at + 1, place=1, started_ns=BEGIN + day * DAY + at * 10**9, **more)
        for at, wall in enumerate(walls)
    ]


def test_none_of_300_is_at_most_one_per_cent() -> None:
    """statistics.md, R7: 0 of 300 -> upper 95 % 1.0 %."""
    same = [Same(f"w{at}", "c", WALL, ((100, 101) * 12,)) for at in range(300)]
    (one,) = rates(same)
    assert (one.way, one.rate.alarms, one.rate.comparisons) == (Way.HALVES, 0, 300)
    assert one.rate.low == 0
    assert one.rate.high == pytest.approx(0.00994, abs=1e-5)
    # Alike in every comparison: nothing would ever be taken for a change.
    assert one.delta is not None
    assert one.delta < 0.011


def test_reruns_that_differ_are_alarms_and_pairs_share_no_run() -> None:
    """Ten things, of which two cost 10 % more in their second series; a third series has no partner."""
    same = []
    for at in range(10):
        first, second, third = (
            tuple(int(1e6 * wall) for wall in noisy(level, 0.002, 8, seed))
            for level, seed in ((100, at), (110 if at < 2 else 100, 50 + at), (100, 90 + at))
        )
        same.append(Same(f"w{at}", "c", WALL, (first, second, third)))
    reruns = next(one for one in rates(same) if one.way is Way.RERUNS)
    assert (reruns.rate.alarms, reruns.rate.comparisons, reruns.too_few) == (2, 10, 0)
    assert reruns.rate.rate == 0.2
    # Clopper and Pearson for 2 of 10.
    assert reruns.rate.low == pytest.approx(0.02521, abs=1e-5)
    assert reruns.rate.high == pytest.approx(0.55610, abs=1e-5)


def test_twins_are_one_binary_under_two_names_in_the_same_blocks(tmp_path: Path) -> None:
    rows = []
    for work in range(4):
        for block in range(1, 9):
            for place, (name, wall) in enumerate((("a", 100), ("a twin", 100.1))):
                when = BEGIN + block * 10**9 + place
                rows.append(
                    run(wall + block, kernel=name, workload=f"w{work}", block=block, place=place, started_ns=when)
                )
    made = report(tmp_path, rows)
    row = rate_of(made, Way.TWINS.value)
    assert row[3:5] == (4, 0)
    assert "0 false alarms in 4 comparisons of a thing with itself (wall, twins in the same blocks)" in made.answer
    # Another binary of the second name is no twin.
    for one in rows:
        one["kernel_sha256"] = one["kernel"]
    assert not [row for row in table(report(tmp_path, rows), "false_alarms").rows if row[2] == Way.TWINS.value]


def test_reruns_of_an_unknown_binary_are_not_compared(tmp_path: Path) -> None:
    rows = series([100] * 8, "p1") + series([200] * 8, "p2", 1)
    assert rate_of(report(tmp_path, rows), Way.RERUNS.value)[3:5] == (1, 1)
    for one in rows:
        del one["kernel_sha256"]
    assert not [row for row in table(report(tmp_path, rows), "false_alarms").rows if row[2] == Way.RERUNS.value]


def test_too_few_runs_are_counted_and_give_no_rate(tmp_path: Path) -> None:
    row = rate_of(report(tmp_path, series([100, 101, 102])), Way.HALVES.value)
    assert row[3] == 0
    assert isinstance(row[5], Missing)
    assert row[8] == 1


def test_who_is_under_ten_times_the_floor(tmp_path: Path) -> None:
    rows = series([1.0, 1.1, 1.2, 1.3, 1.4], kernel="null", kernel_sha256="n", verdict=None)
    rows += series([11.9] * 3, workload="small") + series([12.1] * 3, workload="large")
    rows += series([2.0] * 3, workload="elsewhere", host_class="another-class")
    made = report(tmp_path, rows)
    (floor,) = table(made, "floors").rows
    assert floor[2:] == [1_200_000, 12_000_000, 5]
    (small,) = table(made, "under_floor").rows
    assert small[0] == "k on small"
    assert small[4] == pytest.approx(11.9 / 1.2)
    assert "1 work under 10 times the floor" in made.answer
    (section,) = [one for one in made.sections if one.title == "Floor"]
    assert any("No floor is known for another-class" in text for text in section.text)


def test_four_null_runs_are_no_floor(tmp_path: Path) -> None:
    made = report(tmp_path, series([1.0] * 4, kernel="null", verdict=None) + series([2.0] * 3))
    assert "floors" not in [one.key for one in made.tables()]


def test_steal_is_a_share_of_what_was_wanted(tmp_path: Path) -> None:
    rows = [run(100, host_steal=1, host_busy=3), run(100, host_steal=0, host_busy=4), run(100, host_class="silent")]
    made = report(tmp_path, rows)
    steal = {row[0]: row for row in table(made, "steal").rows}
    assert steal["0123456789abcdef-11111111"][1:] == [1 / 8, 2]
    assert isinstance(steal["silent"][1], Missing)


def test_drift_is_found_at_its_size_and_each_work_stands_by_itself() -> None:
    """10 % over the series, whatever a work's own level."""
    runs = []
    for at in range(40):
        for work, level in (("a", 10**9), ("b", 7 * 10**9)):
            runs.append((work, at * HOUR, round(level * 1.1 ** (at / 39))))
    found = drift("s", "c", WALL, runs)
    assert found is not None
    assert found.ratio == pytest.approx(1.1, abs=1e-6)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 1.1 <= found.high + 1e-6
    assert found.span_ns == 39 * HOUR


def test_no_drift_is_made_of_runs_at_one_moment_or_of_too_few() -> None:
    assert drift("s", "c", WALL, []) is None
    assert drift("s", "c", WALL, [("a", 5, 100)] * 9) is None
    assert drift("s", "c", WALL, [("a", 1, 100), ("a", 2, 100), ("b", 3, 100), ("b", 4, 100)]) is None
    flat = drift("s", "c", WALL, [("a", at, 100) for at in range(9)])
    assert flat is not None
    assert (flat.ratio, flat.low, flat.high) == pytest.approx((1, 1, 1))


def test_a_clock_set_back_gives_no_drift(tmp_path: Path) -> None:
    rows = [run(100, block=at + 1, place=1, started_ns=BEGIN - at * DAY) for at in range(9)]
    made = report(tmp_path, rows)
    assert "drift" not in [one.key for one in made.tables()]
    assert any("no drift of 1 series" in note for note in made.notes)


def test_the_promise_is_kept_on_twenty_flat_things(tmp_path: Path) -> None:
    rows = []
    for work in range(60):
        rows += series(noisy(100, 0.02, 24, work), workload=f"w{work}")
    row = rate_of(report(tmp_path, rows), Way.HALVES.value)
    assert row[3] == 60
    rate = row[5]
    assert isinstance(rate, Estimate)
    assert rate.value < 0.09
    # 60 comparisons are just enough for a delta that 95 % of such effects stay below.
    assert isinstance(row[7], float)
    assert math.log1p(row[7]) < 0.05


@pytest.mark.parametrize(
    ("rows", "status", "said"),
    [
        ([], 2, "there is no record"),
        ([run(100)], 0, "Not known"),
        ([run(None, outcome="signaled", cause="crashed", verdict=None)] * 2, 0, "Not known"),
        ([run(-5, wall_command=-5)], 0, "Not known"),
    ],
)
def test_little_or_nothing_says_so(
    rows: list[Row], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "noise", str(kept(tmp_path, rows))]) == status
    streams = capsys.readouterr()
    assert said in streams.out + streams.err


def test_twelve_runs_as_a_bench_makes_them_are_enough_for_a_split(tmp_path: Path) -> None:
    rows = [row for work in range(5) for row in series(noisy(100, 0.01, 12, work), workload=f"w{work}")]
    assert rate_of(report(tmp_path, rows), Way.HALVES.value)[3] == 5
    rows = [row for work in range(5) for row in series(noisy(100, 0.01, 11, work), workload=f"w{work}")]
    assert rate_of(report(tmp_path, rows), Way.HALVES.value)[3] == 0


def test_builds_of_one_commit_are_told_apart_from_reruns_of_one_binary(tmp_path: Path) -> None:
    """Three builds of one commit, one of another: one pair, and it differs by 10 %."""
    rows = []
    for at, (commit, digest, wall) in enumerate((("c", "x", 100), ("c", "y", 110), ("c", "z", 100), ("d", "w", 100))):
        more = {"labels": {"commit": commit}, "kernel_sha256": digest}
        rows += series(noisy(wall, 0.002, 8, at), f"p{at}", at, **more)
    row = rate_of(report(tmp_path, rows), Way.REBUILDS.value)
    assert row[3:5] == (1, 1)
    for one in rows:
        one["kernel_sha256"] = "x"
    assert not [row for row in table(report(tmp_path, rows), "false_alarms").rows if row[2] == Way.REBUILDS.value]


def test_of_very_many_things_some_are_taken_whatever_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofcost.reports.noise.MOST_THINGS", 30)
    same = [Same(f"w{at}", "c", WALL, ((100, 101) * 12,)) for at in range(100)]
    assert rates(same)[0].rate.comparisons == 30
    assert rates(same) == rates(list(reversed(same)))
