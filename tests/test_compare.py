"""`proofcost compare`: what is called changed, what is not, and what is refused."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calling import PROOFCOST
from matplotlib.figure import Figure

from proofcost.compare import gate
from proofcost.harness.columns import Row
from proofcost.reports import as_markdown, compare_text, parquet
from proofcost.reports.cells import METRICS, UnlikeError
from proofcost.reports.compare import Report, as_json, compare
from proofcost.reports.compare_document import document
from proofcost.reports.compare_noise import false_alarms
from proofcost.reports.dataset import open_data
from proofcost.reports.sides import SideError, resolve
from proofcost.reports.statistics.verdict import Finding
from proofcost.reports.where import parse

MS = 10**6


def run(kernel: str, subject: str, block: int | None, wall: float, **more: Any) -> Row:
    return {
        "record": f"{kernel}-{subject}-{block}-{wall}", "session": "s", "plan": "p1", "host": "h", "boot": "b",
        "host_class": "c", "phase": "checker", "kernel": kernel, "kernel_sha256": f"sha-{kernel}", "workload": subject,
        "outcome": "exited", "cause": "completed", "exit_code": 0, "verdict": "accepted", "block": block,
        "started_ns": 10**18, "wall_program": int(wall * MS), **more,
    }  # fmt: skip


def series(kernel: str, subject: str, walls: Any, **more: Any) -> list[Row]:
    return [run(kernel, subject, at, wall, **more) for at, wall in enumerate(walls, 1)]


def noisy(seed: int, n: int, mean: float, cv: float = 0.01) -> Any:
    return mean * np.exp(np.random.default_rng(seed).normal(0, cv, n))


def kept(folder: Path, rows: list[Row], name: str = "x") -> str:
    parquet.write(folder / f"{name}.0.parquet", parquet.table_of(rows))
    return str(folder / f"{name}.0.parquet")


def report_of(folder: Path, rows: list[Row], **options: Any) -> Report:
    base, head = resolve("old", "new", [kept(folder, rows)], parse([]))
    return compare(base, head, **options)


def findings(report: Report, metric: str = "wall") -> dict[str, Finding]:
    return {one.case[1]: one.finding for one in report.compared if one.metric.name == metric}


def test_a_change_an_equivalence_and_what_needs_more(tmp_path: Path) -> None:
    rows: list[Row] = []
    for kernel, factors in (("old", (1, 1, 1)), ("new", (1.1, 1.0, 1.0))):
        seed = 1 if kernel == "old" else 2
        rows += series(kernel, "slower", noisy(seed, 12, 100 * factors[0]))
        rows += series(kernel, "same", noisy(seed + 10, 12, 100, 0.002))
        rows += series(kernel, "noisy", noisy(seed + 20, 12, 100, 0.2))
    report = report_of(tmp_path, rows)
    assert findings(report) == {
        "slower": Finding.REGRESSED, "same": Finding.EQUIVALENT, "noisy": Finding.INCONCLUSIVE,
    }  # fmt: skip
    slower = next(one for one in report.compared if one.case[1] == "slower")
    assert slower.verdict is not None
    assert slower.verdict.comparison.design.name == "PAIRED"
    assert slower.verdict.comparison.low is not None
    assert slower.verdict.comparison.low < 1.1 < (slower.verdict.comparison.high or 0)
    assert report.suite["wall"].submissions == 3
    assert compare_text.conclusion(report) == "3 cases compared: 1 regressed, 1 equivalent, 1 inconclusive"


def test_drift_over_the_series_is_no_difference(tmp_path: Path) -> None:
    drift = [100 * (1 + 0.01 * block) for block in range(12)]
    report = report_of(tmp_path, series("old", "x", drift) + series("new", "x", [wall * 1.0001 for wall in drift]))
    assert findings(report) == {"x": Finding.EQUIVALENT}


def test_five_blocks_all_one_way_are_too_few(tmp_path: Path) -> None:
    report = report_of(tmp_path, series("old", "x", [100] * 5) + series("new", "x", [150, 151, 152, 153, 154]))
    assert findings(report) == {"x": Finding.INCONCLUSIVE}
    assert "more" in compare_text.finding_text(report.compared[0])


def test_the_same_binary_never_regresses(tmp_path: Path) -> None:
    rows = series("old", "x", noisy(1, 12, 100)) + series("new", "x", noisy(2, 12, 120))
    for row in rows:
        row["kernel_sha256"] = "one and the same"
    report = report_of(tmp_path, rows)
    assert findings(report) == {"x": Finding.INCONCLUSIVE}
    assert compare_text.finding_text(report.compared[0]) == "the same binary on both sides"


def test_without_blocks_it_is_unpaired_and_says_so(tmp_path: Path) -> None:
    rows = [run("old", "x", None, wall) for wall in noisy(1, 15, 100)] + [
        run("new", "x", None, wall) for wall in noisy(2, 15, 130)
    ]
    report = report_of(tmp_path, rows)
    assert findings(report) == {"x": Finding.REGRESSED}
    assert any("what drifted between the sides counts as a difference" in note for note in compare_text.notes(report))


def test_builds_are_the_unit_where_they_vary(tmp_path: Path) -> None:
    """Ten iterations of each of three builds are three values, not thirty."""
    rows: list[Row] = []
    for kernel, level in (("old", 100.0), ("new", 101.5)):
        for build in (1, 2, 3):
            walls = noisy(build + (10 if kernel == "new" else 0), 10, level * (1 + 0.015 * (build - 2)), 0.0005)
            rows += [run(kernel, "x", None, wall, build=build, iteration=at) for at, wall in enumerate(walls)]
    (one,) = [one for one in report_of(tmp_path, rows).compared if one.metric.name == "wall"]
    assert one.verdict is not None
    assert (one.verdict.comparison.base_count, one.verdict.comparison.head_count) == (3, 3)
    assert one.finding is Finding.INCONCLUSIVE


def test_the_level_to_repeat_is_named(tmp_path: Path) -> None:
    """Builds that differ by 3 %, runs of each by 0.05 %: nearly all of the noise is between builds."""
    rows: list[Row] = []
    for kernel, level in (("old", 100.0), ("new", 101.5)):
        for build in (1, 2, 3):
            walls = noisy(build, 10, level * (1 + 0.03 * (build - 2)), 0.0005)
            rows += [run(kernel, "x", None, wall, build=build, iteration=at) for at, wall in enumerate(walls)]
    report = report_of(tmp_path, rows)
    (one,) = report.compared
    assert one.level.of == "build"
    assert one.level.between is not None
    assert one.level.between > 0.99
    assert compare_text.finding_text(one) == "inconclusive: at least 1 build a side more"
    said = [note for note in compare_text.notes(report) if "of the noise" in note]
    assert said == ["1 case: 100% of the noise is between builds: more runs of each would tell nothing"]


def test_where_builds_are_alike_more_runs_of_each_tell_as_well(tmp_path: Path) -> None:
    rows: list[Row] = []
    for at, (kernel, level) in enumerate((("old", 100.0), ("new", 101.5))):
        for build in (1, 2, 3, 4):
            walls = noisy(10 * at + build, 4, level, 0.05)
            rows += [run(kernel, "x", None, wall, build=build) for wall in walls]
    (one,) = report_of(tmp_path, rows).compared
    assert one.level.between is not None
    assert one.level.between < 0.6
    assert compare_text.level_text(one).endswith("more runs of each tell as well")


def test_blocks_hold_runs_of_both_sides_and_are_what_is_repeated(tmp_path: Path) -> None:
    (one,) = report_of(tmp_path, series("old", "x", [100] * 3) + series("new", "x", [101, 130, 99])).compared
    assert (one.level.of, one.level.between) == ("block", None)


@pytest.mark.parametrize(
    ("old", "new", "apart", "medians"),
    [
        ({"warm": 100, "cold": 900}, {"warm": 100, "cold": 500}, 12, (100, 100)),
        ({"warm": 100, "cold": 900}, {"warm": 100}, 6, (100, 100)),
        ({"warm": 100, "cold": 900}, {"cold": 900}, 6, (900, 900)),
        ({"warm": 100, None: 100}, {None: 100}, 0, (100, 100)),
        ({"cold": 900}, {None: 900}, 0, (900, 900)),
    ],
)
def test_cold_and_warm_are_never_put_together(
    tmp_path: Path, old: dict[str | None, int], new: dict[str | None, int], apart: int, medians: tuple[int, int]
) -> None:
    rows: list[Row] = []
    for kernel, sides in (("old", old), ("new", new)):
        for state, wall in sides.items():
            labels: dict[str, Any] = {} if state is None else {"labels": {"cache": state}}
            rows += [{**row, "record": f"{row['record']}{state}"} for row in series(kernel, "x", [wall] * 6, **labels)]
    report = report_of(tmp_path, rows)
    (one,) = report.compared
    assert (one.base, one.head) == (medians[0] * MS, medians[1] * MS)
    assert report.cold == apart
    assert any(note.startswith("left apart: ") for note in compare_text.notes(report)) == bool(apart)
    assert sum(sum(ends.values()) for ends in report.ends["checker", "x"]) == len(rows) - apart


def test_cold_against_warm_is_no_comparison(tmp_path: Path) -> None:
    rows = series("old", "x", [900] * 6, labels={"cache": "cold"})
    rows += series("new", "x", [100] * 6, labels={"cache": "warm"})
    report = report_of(tmp_path / "a", rows)
    assert report.compared == []
    assert report.without_ratio == {("checker", "x"): "base ran cold, head warm"}
    assert len(report_of(tmp_path / "b", rows, pool=["cache"]).compared) == 1


@pytest.mark.parametrize(
    ("more", "identical"),
    [({}, True), ({"threads": 2}, False), ({"config_sha256": "z"}, False), ({"input_sha256": "z"}, False)],
)
def test_a_binary_is_identical_only_with_what_it_was_given(
    tmp_path: Path, more: dict[str, Any], identical: bool
) -> None:
    shared: dict[str, Any] = {"kernel_sha256": "one", "threads": 1, "config_sha256": "c", "input_sha256": "i"}
    rows = series("old", "x", noisy(1, 12, 100), **shared)
    rows += series("new", "x", noisy(2, 12, 120), **(shared | more))
    (one,) = report_of(tmp_path, rows, pool=list(more)).compared
    assert one.identical == identical
    assert one.finding is (Finding.INCONCLUSIVE if identical else Finding.REGRESSED)


def test_what_was_put_together_on_request_is_said(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6, metric_definitions=1) + series("new", "x", [100] * 6, metric_definitions=2)
    with pytest.raises(UnlikeError, match=r"differ in metric_definitions \(1, 2\)"):
        report_of(tmp_path / "a", rows)
    said = compare_text.notes(report_of(tmp_path / "b", rows, pool=["metric_definitions"]))
    assert "put together though they differ in metric_definitions: 1, 2" in said


def test_a_clock_that_was_set_back_is_said_and_gives_no_figure(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6) + series("new", "x", [100] * 6)
    rows += [run("new", "x", 7, -100)]
    report = report_of(tmp_path, rows)
    assert report.compared[0].head == 100 * MS
    assert "1 run with a negative wall: a clock was set back; no figure" in compare_text.notes(report)


def test_huge_figures(tmp_path: Path) -> None:
    rows = series("old", "x", [1] * 6) + [{**row, "wall_program": 2**63 - 1} for row in series("new", "x", range(6))]
    (one,) = report_of(tmp_path, rows).compared
    assert one.head == 2**63 - 1
    assert one.ratio == pytest.approx((2**63 - 1) / MS)
    for picture in document(report_of(tmp_path, rows)).pictures():
        picture.draw(Figure())


def test_a_fake_time_out_is_told_apart(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6)
    rows += series("new", "x", [1] * 6, outcome="timed_out", cause="time_limit", verdict=None, time_limit_ns=10**9)
    assert report_of(tmp_path, rows).without_ratio[("checker", "x")] == "accepted against time_limit, far too early"


def test_failures_are_counted_on_both_sides(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6) + series("new", "x", [100] * 6)
    rows += series("old", "y", [100] * 6)
    rows += series("new", "y", [1] * 6, outcome="signaled", cause="memory_limit", verdict=None)
    said = compare_text.notes(report_of(tmp_path, rows))
    assert "runs of base, in cases of both sides: 12 accepted" in said
    assert "runs of head, in cases of both sides: 6 accepted, 6 memory_limit" in said


def test_a_gate_tells_its_false_alarms_from_the_runs_themselves(tmp_path: Path) -> None:
    rows: list[Row] = []
    for kernel in ("old", "new"):
        for at, wall in enumerate(noisy(3, 24, 100, 0.002)):
            rows.append(run(kernel, "x", at // 2 + 1, wall, started_ns=10**18 + at, iteration=at))
    (line,) = false_alarms(report_of(tmp_path, rows))
    assert line == (
        "false alarms of wall on host class c: 0 of 2 comparisons of a thing with itself, too few to tell how often "
        "(never calibrated: split halves of these very runs)"
    )


def test_a_gate_prefers_what_calibrated_the_host_class(tmp_path: Path) -> None:
    rows: list[Row] = []
    for at, wall in enumerate(noisy(4, 24, 100, 0.002)):
        for kernel, plan, sha in (("old", "p1", "a"), ("new", "p1", "b"), ("k", "aa", "c"), ("k (2)", "aa", "c")):
            row = run(kernel, "x", at // 2 + 1, wall, plan=plan, kernel_sha256=sha, started_ns=10**18 + at)
            rows.append({**row, "record": f"{kernel}{at}", "iteration": at})
    (line,) = false_alarms(report_of(tmp_path, rows))
    assert line == (
        "false alarms of wall on host class c: 0 of 1 comparison of a thing with itself, too few to tell how often "
        "(A/A runs kept here)"
    )


def test_too_few_runs_to_know_false_alarms_are_said(tmp_path: Path) -> None:
    report = report_of(tmp_path, series("old", "x", [100] * 3) + series("new", "x", [100] * 3))
    (line,) = false_alarms(report)
    assert "not known: never calibrated, and too few runs here" in line


def test_counts_have_no_false_alarms(tmp_path: Path) -> None:
    rows = [
        {**row, "instructions_callgrind": 1000} for kernel in ("old", "new") for row in series(kernel, "x", [1] * 3)
    ]
    for row in rows:
        del row["wall_program"]
    assert false_alarms(report_of(tmp_path, rows)) == []


def test_the_document_shows_each_case_once_where_it_is_decided(tmp_path: Path) -> None:
    rows = series("old", "x", noisy(1, 12, 100), cpu_tree=5) + series("new", "x", noisy(2, 12, 120), cpu_tree=5)
    made = document(report_of(tmp_path, rows))
    assert (made.title, made.answer) == ("old → new", "1 case compared: 1 regressed.")
    tables = {table.key: table for table in made.tables()}
    assert [row[2] for row in tables["cases"].rows] == ["wall"]
    assert tables["cases"].marked == {0: "bad"}
    assert [row[2] for row in tables["others"].rows] == ["CPU"]
    (forest,) = made.pictures()
    assert forest.key == "forest-wall_program"
    assert forest.question == "In which cases did wall change?"
    assert forest.text == "Changed: checker x 1.198."
    assert tables["cases"].notes == [
        "base, head: medians; ratio: Hodges-Lehmann's, of blocks or runs, not head over base"
    ]
    forest.draw(Figure())


def test_instructions_lead(tmp_path: Path) -> None:
    rows = series("old", "x", noisy(1, 12, 100), instructions_u=1_000_000)
    rows += series("new", "x", noisy(2, 12, 110), instructions_u=1_000_000)
    report = report_of(tmp_path, rows)
    assert [one.metric.name for one in report.leading()] == ["instructions"]
    assert report.leading()[0].finding is Finding.EQUIVALENT
    assert report.leading()[0].ratio == 1.0
    assert findings(report) == {"x": Finding.REGRESSED}


@pytest.mark.parametrize(("head", "finding"), [(1_002_000, Finding.REGRESSED), (1_000_900, Finding.EQUIVALENT)])
def test_callgrind_counts_have_a_rule_of_their_own(tmp_path: Path, head: int, finding: Finding) -> None:
    rows: list[Row] = []
    for kernel, count in (("old", 1_000_000), ("new", head)):
        for at in range(3):
            row = run(kernel, "x", at + 1, 1)
            del row["wall_program"]
            rows.append({**row, "instructions_callgrind": count, "counters": "callgrind"})
    report = report_of(tmp_path, rows)
    assert [(one.metric.name, one.finding) for one in report.compared] == [("instructions (callgrind)", finding)]


def test_failures_are_counted_apart_and_give_no_ratio(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6) + series(
        "new", "x", [1] * 6, outcome="timed_out", cause="time_limit", verdict=None
    )
    rows += series("old", "y", [100] * 6) + series("new", "y", [1] * 6, verdict="rejected")
    rows += series("old", "z", [100] * 6)
    report = report_of(tmp_path, rows)
    assert report.compared == []
    assert report.without_ratio[("checker", "x")] == "accepted against time_limit"
    assert report.disagreements == [("checker", "y")]
    assert report.one_sided == {("checker", "z"): "old"}
    assert report.ends[("checker", "x")][1] == {"time_limit": 6}
    assert any(note.startswith("VERDICTS DISAGREE in 1 case: checker y") for note in compare_text.notes(report))


@pytest.mark.parametrize("column", ["threads", "host_class", "sandbox", "input_sha256", "config_sha256"])
def test_what_is_unlike_is_refused_by_name(tmp_path: Path, column: str) -> None:
    one, other = (1, 4) if column == "threads" else ("one", "other")
    rows = series("old", "x", [100] * 6, **{column: one}) + series("new", "x", [100] * 6, **{column: other})
    with pytest.raises(UnlikeError, match=f"differ in {column} .*--pool {column}"):
        report_of(tmp_path, rows)
    assert findings(report_of(tmp_path / "again", rows, pool=[column]))


def test_bounds_and_warm_ups_are_no_samples(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6) + series("new", "x", [100] * 6)
    rows += series("new", "x", [999] * 6, warmup=True) + series("new", "x", [999] * 6, beside=1)
    rows += series("new", "x", [999] * 6, weak={"wall_program": "lower_bound"})
    report = report_of(tmp_path, rows)
    (wall,) = report.compared
    assert (wall.base, wall.head, wall.ratio) == (100 * MS, 100 * MS, 1.0)


def test_a_program_is_not_compared_with_a_whole_command(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6, wall_command=300 * MS) + series("new", "x", [100] * 6, wall_command=150 * MS)
    for row in rows[6:]:
        del row["wall_program"]
    report = report_of(tmp_path, rows)
    assert [(one.metric.name, one.base, one.head) for one in report.compared] == [
        ("wall of the command", 300 * MS, 150 * MS)
    ]


def test_a_sampled_peak_is_not_compared_with_a_counted_one(tmp_path: Path) -> None:
    sampled = {"weak": {"memory_peak_tree": "sampled"}, "memory_peak_tree": 50}
    rows = series("old", "x", [100] * 6, **sampled) + series("new", "x", [100] * 6, memory_peak_tree=100)
    assert [one.metric.name for one in report_of(tmp_path / "a", rows).compared] == ["wall"]
    rows = series("old", "x", [100] * 6, **sampled) + series("new", "x", [100] * 6, **sampled)
    assert [one.metric.name for one in report_of(tmp_path / "b", rows).compared] == ["wall", "memory (sampled)"]


def test_runs_that_do_not_say_what_they_checked_are_told(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6) + series("new", "x", [100] * 6)
    for row in rows:
        del row["workload"]
    assert any("label them" in note for note in compare_text.notes(report_of(tmp_path, rows)))


@pytest.mark.parametrize("value", [0, -5])
def test_a_cost_that_is_none_gives_no_ratio(tmp_path: Path, value: int) -> None:
    rows = series("old", "x", [100] * 6) + [{**row, "wall_program": value} for row in series("new", "x", range(6))]
    report = report_of(tmp_path, rows)
    assert report.compared == []
    assert report.without_ratio == {("checker", "x"): "no figure that both sides have"}


def test_sides(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6, labels={"saved": "monday", "commit": "a"})
    rows += series("new", "x", [100] * 6, labels={"saved": "tuesday", "commit": "b"})
    path = kept(tmp_path, rows)
    for base, head in (("old", "new"), ("monday", "tuesday"), ("label.commit=a", "label.commit=b"), (path, path)):
        assert compare(*resolve(base, head, [path], parse([]))).compared, (base, head)
    with pytest.raises(SideError, match="did you mean tuesday"):
        resolve("monday", "tuesdya", [path], parse([]))


def test_a_kernel_that_bears_a_programs_path_is_a_kernel(tmp_path: Path) -> None:
    """As of a hyperfine file, whose names are commands."""
    rows = series("/bin/true", "x", [100] * 6) + series("cat /dev/null > x", "x", [100] * 6)
    path = kept(tmp_path, rows)
    base, head = resolve("/bin/true", path, [path], parse([]))
    assert (base.said, head.said) == ("kernel /bin/true", f"all of {path}")
    with pytest.raises(SideError, match=r"^'/bin/ls': a file, but of no records .* no saved name or kernel$") as caught:
        resolve("/bin/ls", "/bin/true", [path], parse([]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["cat /dev/null > x", "k=v", "a < b"])
def test_a_kernels_name_comes_before_a_condition(tmp_path: Path, name: str) -> None:
    path = kept(tmp_path, series("old", "x", [100] * 6) + series(name, "x", [100] * 6))
    base, head = resolve("old", name, [path], parse([]))
    assert head.said.startswith(f"kernel {name}")
    assert compare(base, head).compared


def test_two_kernels_are_compared_within_the_newest_series_of_both(tmp_path: Path) -> None:
    rows = series("old", "x", [100] * 6) + series("new", "x", [100] * 6)
    for row in series("old", "x", [500] * 6) + series("new", "x", [100] * 6):
        rows.append({**row, "plan": "p0", "started_ns": 1, "record": row["record"] + "0"})
    report = report_of(tmp_path, rows)
    (one,) = report.compared
    assert one.base == 100 * MS
    assert "plan p1" in report.base.said


def test_an_a_a_comparison_seldom_alarms(tmp_path: Path) -> None:
    """Forty equal cases, ten times: at most a few of the ten families raise any alarm."""
    alarms = 0
    for trial in range(10):
        rows: list[Row] = []
        for case in range(40):
            for at, kernel in enumerate(("old", "new")):
                rows += series(kernel, f"c{case}", noisy(trial * 1000 + case * 2 + at, 12, 100, 0.05))
        report = report_of(tmp_path / str(trial), rows)
        alarms += bool(report.of(Finding.REGRESSED, Finding.IMPROVED))
    assert alarms <= 2


ENDED: dict[str, dict[str, Any]] = {
    "accepted": {},
    "rejected": {"verdict": "rejected", "exit_code": 1},
    "declined": {"verdict": "declined", "exit_code": 2},
    "crashed": {"outcome": "signaled", "cause": "crashed", "verdict": None, "exit_code": None},
    "memory_limit": {"outcome": "signaled", "cause": "memory_limit", "verdict": None, "exit_code": None},
    "time_limit": {"outcome": "timed_out", "cause": "time_limit", "verdict": None, "exit_code": None},
    "terminated_by_caller": {"outcome": "signaled", "cause": "terminated_by_caller", "verdict": None},
    "unknown": {"outcome": None, "cause": None, "verdict": None, "exit_code": None},
    "exit 0": {"verdict": None},
    "exit 1": {"verdict": None, "exit_code": 1},
}


def ended(kernel: str, subject: str, *ends: tuple[str, int]) -> list[Row]:
    """So many runs that ended so, one a block."""
    said = [end for end, count in ends for _ in range(count)]
    return [run(kernel, subject, at, 100 + at / 100, **ENDED[end]) for at, end in enumerate(said, 1)]


@pytest.mark.parametrize(
    ("base", "head", "came"),
    [
        ([("accepted", 6)], [("crashed", 6)], "lost"),
        ([("accepted", 6)], [("time_limit", 6)], "lost"),
        ([("accepted", 6)], [("memory_limit", 6)], "lost"),
        ([("rejected", 6)], [("crashed", 6)], "lost"),
        ([("exit 0", 6)], [("exit 1", 6)], "lost"),
        ([("accepted", 6)], [("accepted", 5), ("crashed", 1)], "lost"),
        ([("accepted", 5), ("crashed", 1)], [("time_limit", 6)], "lost"),
        ([("crashed", 6)], [("accepted", 6)], "gained"),
        ([("accepted", 5), ("time_limit", 1)], [("accepted", 6)], "gained"),
        ([("time_limit", 6)], [("time_limit", 6)], ""),
        ([("crashed", 6)], [("crashed", 6)], ""),
        ([("crashed", 6)], [("time_limit", 6)], ""),
        ([("accepted", 3), ("crashed", 3)], [("accepted", 1), ("crashed", 5)], ""),
        ([("accepted", 1), ("crashed", 5)], [("crashed", 6)], ""),
        ([("declined", 6)], [("crashed", 6)], ""),
        ([("accepted", 6)], [("terminated_by_caller", 6)], ""),
        ([("accepted", 6)], [("unknown", 6)], ""),
        ([("accepted", 6)], [("rejected", 6)], "disagree"),
        ([("accepted", 6)], [("accepted", 5), ("rejected", 1)], "disagree"),
        ([("accepted", 5), ("crashed", 1)], [("rejected", 6)], "disagree"),
    ],
)
def test_a_lost_verdict_is_a_regression_and_one_gained_is_none(
    tmp_path: Path, base: list[tuple[str, int]], head: list[tuple[str, int]], came: str
) -> None:
    report = report_of(tmp_path, [*ended("old", "x", *base), *ended("new", "x", *head)])
    case = ("checker", "x")
    found = [
        name
        for name, cases in (
            ("lost", report.lost), ("gained", report.gained), ("disagree", report.disagreements),
        )
        if case in cases
    ]  # fmt: skip
    assert found == ([came] if came else [])
    assert case in report.without_ratio
    # Lost and disagreeing: 1. Nothing judged: 3. Gained is judged.
    assert gate(report, conclusive=False) == {"lost": 1, "disagree": 1, "gained": 0, "": 3}[came]


def test_a_lost_verdict_stands_first_and_outweighs_what_improved(tmp_path: Path) -> None:
    rows = [*ended("old", "a", ("accepted", 12)), *ended("new", "a", ("accepted", 10), ("crashed", 2))]
    rows += series("old", "b", noisy(1, 12, 200)) + series("new", "b", noisy(2, 12, 100))
    report = report_of(tmp_path, rows)
    assert compare_text.conclusion(report) == "1 case where head lost the verdict; 1 case compared: 1 improved"
    made = document(report)
    assert made.sections[0].title == "Verdicts lost, or gained"
    assert made.tables()[0].rows == [["checker", "a", "lost", "12 accepted", "10 accepted, 2 crashed"]]
    assert made.notes[0] == "VERDICTS LOST in 1 case: checker a: base 12 accepted; head 10 accepted, 2 crashed"
    assert json.loads(as_json(report))["lost"][0]["subject"] == "a"
    assert gate(report, conclusive=False) == 1


def test_the_page_names_every_key_of_the_json(tmp_path: Path, repo: Path) -> None:
    rows = series("old", "b", noisy(1, 12, 200)) + series("new", "b", noisy(2, 12, 100))
    made = json.loads(as_json(report_of(tmp_path, rows)))
    told = (repo / "docs/reports.md").read_text().split("has keys of its own, for programs")[1]
    named = set(re.findall(r"`(\w+)`", told))
    assert {*made, *made["suite"]["wall"], *made["cases"][0]} - named == set()


def test_a_verdict_lost_on_cold_runs_alone_is_lost_too(tmp_path: Path) -> None:
    """They are left apart from the costs, not from the verdicts."""
    rows = [run(kernel, "x", at, 100, labels={"cache": "warm"}) for kernel in ("old", "new") for at in range(1, 7)]
    rows += [run("old", "x", 7, 300, labels={"cache": "cold"})]
    rows += [run("new", "x", 7, 300, labels={"cache": "cold"}, **ENDED["crashed"])]
    report = report_of(tmp_path, rows)
    assert list(report.lost) == [("checker", "x")]
    assert [one.finding for one in report.compared] == [Finding.EQUIVALENT]


def test_a_gate_says_what_it_could_not_see(tmp_path: Path) -> None:
    rows = series("old", "a", noisy(1, 12, 100, 0.2)) + series("new", "a", noisy(2, 12, 100, 0.2))
    report = report_of(tmp_path / "1", rows)
    report.gated = True
    seen = report.compared[0].verdict
    assert seen is not None
    assert seen.detectable_ratio is not None
    assert 1.1 < seen.detectable_ratio < 1.5
    said = compare_text.conclusion(report)
    assert said.endswith(f"; the gate could not see a regression below a ratio of {seen.detectable_ratio:.3g}")
    few = report_of(tmp_path / "2", [*rows, *series("old", "b", [100, 101]), *series("new", "b", [101, 150])])
    few.gated = True
    assert compare_text.conclusion(few).endswith(" in 1 case, nor any in 1 case: too few runs")
    assert gate(few, conclusive=False) == 0
    assert gate(few, conclusive=True) == 3


def test_two_blocks_do_not_tell_how_many_more(tmp_path: Path) -> None:
    (one,) = report_of(tmp_path, series("old", "x", [100, 300]) + series("new", "x", [400, 110])).compared
    assert compare_text.finding_text(one) == "inconclusive: at least 4 blocks more"


def test_nobody_is_told_to_repeat_a_thing_ten_thousand_times(tmp_path: Path) -> None:
    """Six blocks in which head costs up to a third more, six in which it costs as much less: 2 % are beyond reach."""
    walls = [100 * factor**side for factor in (1.3, 1.32, 1.34, 1.36, 1.38, 1.4) for side in (-1, 1)]
    rows = series("old", "x", [100] * 12) + series("new", "x", walls)
    (one,) = report_of(tmp_path, rows).compared
    assert one.verdict is not None
    assert one.verdict.more is not None
    assert one.verdict.more > 1000
    assert compare_text.finding_text(one) == "inconclusive: more than 1,000 blocks more: not by repeating"


def test_too_few_counts_are_called_so(tmp_path: Path) -> None:
    rows = [
        {**row, "wall_program": 0, "instructions_callgrind": 1000}
        for kernel, runs in (("old", 3), ("new", 2))
        for row in series(kernel, "x", [1] * runs)
    ]
    assert report_of(tmp_path, rows).without_ratio == {
        ("checker", "x"): "instructions (callgrind): fewer than 3 runs of each (base 3, head 2)"
    }


def test_counts_alone_have_notes_and_columns_of_counts_alone(tmp_path: Path) -> None:
    rows = [
        {**row, "wall_program": 0, "instructions_callgrind": count}
        for kernel, count in (("old", 1000), ("new", 1100))
        for row in series(kernel, "x", [1] * 3)
    ]
    report = report_of(tmp_path, rows)
    assert not any("Benjamini" in note or "Hodges" in note for note in compare_text.notes(report))
    assert any("there is no p" in note for note in compare_text.notes(report))
    table = document(report).tables()[0]
    assert [column.title for column in table.columns] == ["phase", "case", "metric", "base", "head", "ratio", "finding"]


def test_the_same_binary_is_counted_as_such(tmp_path: Path) -> None:
    rows = series("old", "x", noisy(1, 12, 100)) + series("new", "x", noisy(2, 12, 120))
    report = report_of(tmp_path, [{**row, "kernel_sha256": "one"} for row in rows])
    assert compare_text.conclusion(report) == (
        "1 case compared: 1 with the same binary on both sides; nothing significant"
    )
    assert gate(report, conclusive=True) == 0


def test_a_reader_who_goes_away_takes_neither_the_status_nor_the_files(tmp_path: Path) -> None:
    rows = [row for case in range(300) for at, kernel in enumerate(("old", "new"))
            for row in series(kernel, f"c{case}", noisy(2 * case + at, 6, 100 * (1 + at), 0.01))]  # fmt: skip
    words = [PROOFCOST, "compare", "old", "new", "--data", kept(tmp_path, rows), "--gate", "-o", str(tmp_path / "g.md")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        said = started.stderr.read()
    assert (started.returncode, said) == (1, "")
    assert "300 cases compared: 300 regressed" in (tmp_path / "g.md").read_text()


def proofcost_compare(*words: object) -> subprocess.CompletedProcess[str]:
    command = [PROOFCOST, "compare", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_and_its_gate(tmp_path: Path) -> None:
    hostile = "x|<b>\x1b[31m`y`"
    rows = series("old", hostile, noisy(1, 12, 100)) + series("new", hostile, noisy(2, 12, 120))
    path = kept(tmp_path, rows)
    done = proofcost_compare(
        "old", "new", "--data", path, "-o", tmp_path / "c.json", "-o", tmp_path / "c.md", "-o", tmp_path / "c.csv"
    )
    assert done.returncode == 0
    assert done.stderr.endswith("c.csv holds the first of 3 tables, “What decides each case”; all of them: -o FOLDER\n")
    assert "\x1b" not in done.stdout
    assert "1 case compared: 1 regressed" in done.stdout
    said = json.loads((tmp_path / "c.json").read_text())
    assert said["cases"][0]["finding"] == "regressed"
    assert 1.15 < said["cases"][0]["ratio"] < 1.25
    text = (tmp_path / "c.md").read_text()
    assert "<b>" not in text
    assert text.count("| regressed |") == 1
    done = proofcost_compare("old", "new", "--data", path, "--gate", "-o", tmp_path / "c.html")
    assert done.returncode == 1
    assert "false alarms of wall on host class c: " in done.stdout
    assert "\x1b" not in (tmp_path / "c.html").read_text()
    assert proofcost_compare("new", "old", "--data", path, "--gate").returncode == 0
    few = kept(tmp_path, series("old", "x", [100] * 3) + series("new", "x", [150] * 3), "few")
    assert proofcost_compare("old", "new", "--data", few, "--gate").returncode == 0
    assert proofcost_compare("old", "new", "--data", few, "--gate", "--conclusive").returncode == 3
    none = kept(tmp_path, series("old", "x", [100] * 3) + series("new", "y", [150] * 3), "none")
    assert proofcost_compare("old", "new", "--data", none).returncode == 0
    assert proofcost_compare("old", "new", "--data", none, "--gate").returncode == 3


def test_a_summary_has_a_limit(tmp_path: Path) -> None:
    rows: list[Row] = []
    for case in range(600):
        for kernel in ("old", "new"):
            rows += series(kernel, f"{case}-" + "long" * 30, [100, 101, 102, 100, 99, 100])
    text = as_markdown.render(document(report_of(tmp_path, rows)))
    assert len(text) <= as_markdown.MAX_BYTES
    assert b"560 more rows of this table" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "b", "--data", "/no/such"], "/no/such: no such file"),
        (["a", "b", "--pool", "wall"], "--pool 'wall': not one of host_class"),
        (["a", "b", "-o", "x.doc"], "-o x.doc: give a folder, or a name that ends in"),
        (["a", "b", "--conclusive"], "goes with --gate"),
        (["a"], "HEAD"),
    ],
)
def test_wrong_calls(words: list[object], said: str) -> None:
    done = proofcost_compare(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_nothing_to_compare(tmp_path: Path) -> None:
    data = open_data([kept(tmp_path, series("old", "x", [1]))])
    assert data.journal_records == 0
    done = proofcost_compare("old", "new", "--data", tmp_path)
    assert done.returncode == 2
    assert "'new': no path, no saved name" in done.stderr


def test_every_metric_names_columns_that_are_there() -> None:
    from proofcost.harness.columns import NAMES

    assert {metric.column for metric in METRICS} <= set(NAMES)


def test_a_side_that_conditions_left_nothing_of_is_not_called_unknown(tmp_path: Path) -> None:
    path = kept(tmp_path, series("ka", "x", [1, 2]) + series("kb", "x", [1, 2]))
    with pytest.raises(SideError, match=r"'ka': a kernel, but --where and --since leave none of its 2 records"):
        resolve("ka", "kb", [path], parse(["kernel=kb"]))


def test_a_side_that_is_no_text_or_nowhere_is_named_itself(tmp_path: Path) -> None:
    path = kept(tmp_path, series("ka", "x", [1, 2]))
    with pytest.raises(SideError, match="not UTF-8"):
        resolve("ka", "x\udcff", [path], parse([]))
    with pytest.raises(SideError, match=r"^'nosuch': no path, and there is no data"):
        resolve(path, "nosuch", [str(tmp_path / "default")], parse([]))
