"""`report history`: between which two points a cost changed; silence where nothing did; no order is made up."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_of_runs import BEGIN, DAY, data_of, kept, noisy, run

from proofcost import cli
from proofcost.harness.columns import Row
from proofcost.reports.document import Document, Estimate, Missing, Table
from proofcost.reports.history import document
from proofcost.reports.history_data import HistoryError, Listed, ancestors, history_found, read_order
from proofcost.reports.where import parse

EVERYTHING = parse([])


def commits(levels: list[float], runs: int = 3, **more: Any) -> list[Row]:
    """A commit a day, some runs of each."""
    rows = []
    for at, level in enumerate(levels):
        for scatter in np.linspace(-0.002, 0.002, runs):
            rows.append(
                run(
                    level * (1 + scatter),
                    labels={"commit": f"c{at:03}"},
                    plan=f"p{at}",
                    started_ns=BEGIN + at * DAY,
                    **more,
                )
            )
    return rows


def counted(counts: dict[str, list[int]], **more: Any) -> list[Row]:
    """Kernels by name, all in one series, with callgrind's counts."""
    return [
        run(kernel=name, kernel_sha256=name, instructions_callgrind=count, counters="callgrind", block=at + 1, **more)
        for name, values in counts.items()
        for at, count in enumerate(values)
    ]


def report(folder: Path, rows: list[Row], along: str | None = None, order: list[Listed] | None = None) -> Document:
    return document(history_found(data_of(folder, rows), EVERYTHING, along, order))


def table(made: Document, key: str) -> Table:
    return next(one for one in made.tables() if one.key == key)


def changes(made: Document, metric: str = "wall") -> list[tuple[object, ...]]:
    """(last before, first after) of each named change."""
    found = [one for one in made.tables() if one.key == f"changes_{metric}"]
    names = [column.key for column in found[0].columns] if found else []
    at = names.index("after_point") if names else 0
    return [tuple(row[at : at + 2]) for one in found for row in one.rows]


def test_the_change_is_named_with_its_two_commits_ratio_and_interval(tmp_path: Path) -> None:
    made = report(tmp_path, commits(noisy(100, 0.01, 20, 1) + noisy(110, 0.01, 20, 2)))
    assert changes(made) == [("c019", "c020")]
    (row,) = table(made, "changes_wall").rows
    ratio = row[3]
    assert isinstance(ratio, Estimate)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 1.1 < ratio.high
    assert ratio.high - ratio.low < 0.03
    segments = table(made, "segments_wall").rows
    assert [(segment[1], segment[2], segment[3]) for segment in segments] == [
        ("c000", "c019", 20),
        ("c020", "c039", 20),
    ]
    # A segment's band is its own: the step between the two has not widened it.
    for low, high in (segment[5:7] for segment in segments):
        assert 0.02 < (float(str(high)) - float(str(low))) / float(str(low)) < 0.08
    assert made.answer == "1 of 1 series changed, at 1 place: c019 -> c020."


def test_nile_changes_in_1899(tmp_path: Path) -> None:
    """Annual flow at Aswan 1871-1970: one change, after 1898 (statistics.md, R5)."""
    flow = [
        1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
        1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
        831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759, 781, 865,
        845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050,
        918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
    ]  # fmt: skip
    rows = [
        run(wall, kernel_version=str(1871 + at), plan=f"p{at}", started_ns=BEGIN + at * DAY)
        for at, wall in enumerate(flow)
    ]
    assert changes(report(tmp_path, rows)) == [("1898", "1899")]


@pytest.mark.parametrize("kind", ["light", "heavy", "equal"])
def test_a_flat_series_is_silent(kind: str, tmp_path: Path) -> None:
    walls = noisy(100, 0.02, 40, 3)
    if kind == "heavy":
        walls = [wall * (1.5 if at % 10 == 7 else 1) for at, wall in enumerate(walls)]
    if kind == "equal":
        walls = [100.0] * 40
    made = report(tmp_path, commits(walls))
    assert changes(made) == []
    assert made.answer == "No change in 1 series."


def test_below_fourteen_points_it_says_so(tmp_path: Path) -> None:
    made = report(tmp_path, commits([100.0] * 6 + [200.0] * 7))
    assert changes(made) == []
    assert table(made, "series_wall").rows[0][3] == "too few points: 13, and 14 are needed"
    assert made.answer.startswith("Too few points to tell")
    assert changes(report(tmp_path, commits([100.0] * 7 + [200.0] * 7))) == [("c006", "c007")]


def test_exact_counts_are_judged_between_neighbours_without_a_least_number(tmp_path: Path) -> None:
    rows = counted({"a": [10**6] * 3, "b": [10**6] * 3, "c": [1_002_000] * 3, "d": [1_002_500] * 3, "e": [900_000] * 3})
    made = report(tmp_path, rows, "kernel", [Listed(name) for name in "abcde"])
    # d is 0.05 % above c: below the rule's floor of 0.1 %.
    assert changes(made, "instructions_callgrind") == [("b", "c"), ("d", "e")]
    assert [row[3] for row in table(made, "changes_instructions_callgrind").rows] == [1.002, 900_000 / 1_002_500]


def test_a_count_must_leave_five_times_the_spread_behind(tmp_path: Path) -> None:
    """Spread 0.2 %: 0.9 % is no change, 1.1 % is."""
    rows = counted(
        {"a": [1000_000, 1001_000, 1002_000], "b": [1010_000, 1010_000, 1010_000], "c": [1022_000, 1022_000, 1022_000]}
    )
    made = report(tmp_path, rows, "kernel", [Listed(name) for name in "abc"])
    assert changes(made, "instructions_callgrind") == [("b", "c")]


def test_two_runs_a_point_are_too_few_for_counts(tmp_path: Path) -> None:
    made = report(tmp_path, counted({"a": [10] * 2, "b": [20] * 2}), "kernel", [Listed("a"), Listed("b")])
    assert changes(made, "instructions_callgrind") == []
    assert "too few runs: 3 a point are needed" in table(made, "series_instructions_callgrind").rows[0]


def test_a_creep_is_told_though_no_neighbours_differ(tmp_path: Path) -> None:
    rows = counted({name: [1_000_000 + 900 * at] * 3 for at, name in enumerate("abcde")})
    made = report(tmp_path, rows, "kernel", [Listed(name) for name in "abcde"])
    assert changes(made, "instructions_callgrind") == []
    assert any("crept by +0.36% from a to e" in note for note in made.notes)


def test_branches_are_followed_by_ancestry_not_by_their_place_in_the_list(tmp_path: Path) -> None:
    """base -> fast (branch), base -> docs (branch), merge of both: only `fast` changed the cost."""
    rows = counted({"base": [1000] * 3, "fast": [900] * 3, "docs": [1000] * 3, "merge": [900] * 3, "next": [900] * 3})
    names = ["base", "fast", "docs", "merge", "next"]
    line = report(tmp_path, rows, "kernel", [Listed(name) for name in names])
    assert len(changes(line, "instructions_callgrind")) == 3
    graph = read_order("base\nfast base\ndocs base\nmerge fast docs\nnext merge\n")
    made = report(tmp_path, rows, "kernel", graph)
    assert changes(made, "instructions_callgrind") == [("base", "fast")]
    # Segments and picture are of the line that leads up to the last: `docs` is on the other branch.
    segments = table(made, "segments_instructions_callgrind").rows
    assert [(row[1], row[2], row[3]) for row in segments] == [("base", "base", 1), ("fast", "next", 3)]
    assert "1 point of other branches not" in made.pictures()[0].text
    assert any("nearest measured ancestors" in note for note in made.notes)


def test_ancestors_reach_over_commits_that_were_not_measured(tmp_path: Path) -> None:
    rows = counted({"aaaa": [1000] * 3, "dddd": [1000] * 3, "ffff": [1100] * 3})
    graph = read_order("aaaa1\nbbbb aaaa1\ncccc aaaa1\ndddd2 bbbb\neeee cccc\nffff3 eeee dddd2\n")
    made = report(tmp_path, rows, "kernel", graph)
    # aaaa is an ancestor of dddd, so dddd alone is ffff's nearest.
    assert changes(made, "instructions_callgrind") == [("dddd", "ffff")]


@given(st.data())
def test_nearest_ancestors_are_those_that_no_other_measured_commit_stands_between(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    parents = [data.draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set() for at in range(count)]
    measured = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    order = [Listed(f"c{at}", tuple(f"c{one}" for one in sorted(mine))) for at, mine in enumerate(parents)]

    def reached(at: int) -> set[int]:
        """Measured commits on some way back, none other before them."""
        found = set()
        for one in parents[at]:
            found |= {one} if one in measured else reached(one)
        return found

    def above(at: int) -> set[int]:
        return set().union(*({one} | above(one) for one in parents[at]))

    for at, mine in zip(measured, ancestors(order, measured), strict=True):
        near = reached(at)
        assert {measured[one] for one in mine} == {one for one in near if not any(one in above(o) for o in near)}


def test_another_verdict_is_told_and_its_cost_not_followed(tmp_path: Path) -> None:
    rows = commits([100.0] * 20)
    for row in rows[:15]:
        row.update(verdict="rejected", exit_code=1, wall_program=5)
    made = report(tmp_path, rows)
    assert changes(made) == []
    assert table(made, "ends").rows[0][1:] == ["c004", "c005", "rejected", "accepted"]
    assert "1 work ended otherwise than before." in made.answer
    assert table(made, "series_wall").rows[0][1] == 15


def test_unlike_runs_make_series_of_their_own(tmp_path: Path) -> None:
    rows = commits([100.0] * 15, host_class="one") + commits([200.0] * 15, host_class="two", host="g")
    made = report(tmp_path, rows)
    assert changes(made) == []
    assert [row[1] for row in table(made, "series_wall").rows] == ["one", "two"]
    pooled = history_found(data_of(tmp_path, rows), EVERYTHING, pool=("host_class",))
    assert len(pooled.series) == 1


def test_points_of_one_series_have_no_order_in_time(tmp_path: Path) -> None:
    rows = [run(100, labels={"commit": name}, started_ns=BEGIN) for name in "ab"]
    with pytest.raises(
        HistoryError, match="measured in one series, so time tells no order of them: give it with --order"
    ):
        report(tmp_path, rows)


def test_the_order_that_is_given_holds_against_the_clock(tmp_path: Path) -> None:
    """A clock that was set back would put the commits the other way round."""
    rows = commits([200.0] * 10 + [100.0] * 10)
    order = [Listed(f"c{at:03}") for at in reversed(range(20))]
    made = report(tmp_path, rows, order=order)
    assert changes(made) == [("c010", "c009")]


def test_abbreviated_commits_are_found_in_a_list_of_whole_ones(tmp_path: Path) -> None:
    rows = counted({"9c3a447": [1000] * 3, "eb3b2cc": [1100] * 3})
    made = report(tmp_path, rows, "kernel", read_order("# two\n9c3a447bb3fd3056\n\neb3b2cc459fb627c\n"))
    assert changes(made, "instructions_callgrind") == [("9c3a447", "eb3b2cc")]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("a\na\nb", "a stands there 2 times"),
        ("x\ny", r"names none of the points there are \(aaaa, b\)"),
        ("aaaab\naaaac", "aaaa may be aaaab or aaaac"),
    ],
)
def test_a_wrong_order_is_refused(order: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        report(tmp_path, counted({"aaaa": [1] * 3, "b": [1] * 3}), "kernel", read_order(order))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "there is no record"),
        (
            [run(None, outcome="timed_out", cause="time_limit", verdict=None)],
            "no run came to an end of its own, of 1 run",
        ),
        ([run(100)], "one point"),
        ([run(100) for _ in range(20)], "one point"),
    ],
)
def test_little_or_nothing_says_so(
    rows: list[Row], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(["report", "history", str(kept(tmp_path, rows))])
    streams = capsys.readouterr()
    assert status == (2 if not rows or rows[0].get("cause") == "time_limit" else 0)
    assert said in streams.out + streams.err
    assert streams.err.count("\n") == (status == 2)


def test_hostile_names_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[31m<script>alert(1)</script>|../../$x$"
    rows = commits([100.0] * 8 + [200.0] * 8, workload=evil)
    for row in rows:
        row["labels"]["commit"] += evil
    data = str(kept(tmp_path, rows))
    assert cli.main(["report", "history", data]) == 0
    assert "\x1b" not in capsys.readouterr().out
    for suffix in ("html", "md", "svg"):
        assert cli.main(["report", "history", data, "-o", str(tmp_path / f"x.{suffix}")]) == 0
        assert "<script>alert" not in (tmp_path / f"x.{suffix}").read_text()


def test_missing_order_and_label_are_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(kept(tmp_path, [run(100)]))
    for words, said in (
        (["--order", str(tmp_path / "none")], "No such file"),
        (["--along", "label.commit"], "no record tells it"),
        (["--along", "nonsense"], "no column"),
    ):
        assert cli.main(["report", "history", data, *words]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def test_by_time_each_series_is_a_point(tmp_path: Path) -> None:
    rows = [
        run(wall, plan=f"p{at}", started_ns=BEGIN + at * DAY)
        for at, wall in enumerate(itertools.chain([100.0] * 10, [150.0] * 10))
    ]
    (only,) = changes(report(tmp_path, rows))
    assert str(only[0]).endswith("p9")
    assert str(only[1]).endswith("p10")


def test_missing_is_never_zero(tmp_path: Path) -> None:
    made = report(tmp_path, commits([100.0] * 2))
    noise = table(made, "series_wall").rows[0][-1]
    assert isinstance(noise, Missing)
