"""`proofcost report kernels`: what it counts, what it shows where there is no cost, what it refuses."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from calling import PROOFCOST
from matplotlib.figure import Figure

from proofcost.harness.columns import Row
from proofcost.reports import parquet
from proofcost.reports.asked import ReportError, ask
from proofcost.reports.cells import UnlikeError, told_apart
from proofcost.reports.document import Bound, Document, Entry, Estimate, Missing, Table
from proofcost.reports.kernels import make
from proofcost.reports.where import WhereError

MS = 10**6


def run(kernel: str, subject: str, wall_ms: float = 100, **more: Any) -> Row:
    row: Row = {
        "session": "s", "plan": "p", "host": "h", "boot": "b", "host_class": "c", "phase": "checker", "threads": 1,
        "kernel": kernel, "kernel_sha256": f"sha-{kernel}", "workload": subject, "outcome": "exited",
        "cause": "completed", "exit_code": 0, "verdict": "accepted", "started_ns": 10**18,
        "wall_program": int(wall_ms * MS), **more,
    }  # fmt: skip
    return {name: value for name, value in row.items() if value is not None}


def stopped(kernel: str, subject: str, wall_ms: float, cause: str, **more: Any) -> Row:
    return run(kernel, subject, wall_ms, outcome="signaled", cause=cause, verdict=None, exit_code=None, **more)


def kept(folder: Path, rows: list[Row]) -> str:
    for at, row in enumerate(rows):
        row["record"] = str(at)
    parquet.write(folder / "x.0.parquet", parquet.table_of(rows))
    return str(folder)


def report(folder: Path, rows: list[Row], *, pool: tuple[str, ...] = (), **options: Any) -> Document:
    return make(ask([kept(folder, rows)], [], None, pool), **options)


def table(document: Document, key: str) -> Table:
    return next(one for one in document.tables() if one.key == key)


def by_name(found: Table) -> dict[str, dict[str, Entry]]:
    """{first entry: {column's title: entry}}."""
    titles = [column.title for column in found.columns]
    return {str(row[0]): dict(zip(titles, row, strict=True)) for row in found.rows}


ENDS: list[Row] = [
    run("a", "fine", 10), run("a", "fine", 30), run("a", "fine", 20), run("b", "fine", 40),
    run("a", "slow", 90), stopped("b", "slow", 1000, "time_limit", time_limit_ns=1000 * MS),
    run("a", "big", 50), stopped("b", "big", 5, "memory_limit", memory_limit_bytes=100),
    run("a", "odd", 60), run("b", "odd", 5, verdict="declined", exit_code=2),
    stopped("a", "crash", 7, "crashed"), run("b", "crash", 70),
    run("a", "twin", 3, verdict="rejected", exit_code=1, expected="rejected"),
    run("b", "twin", 4, expected="rejected"),
    run("a", "flaky", 3), stopped("a", "flaky", 2, "crashed"),
]  # fmt: skip


def test_every_ending_is_counted_apart(tmp_path: Path) -> None:
    kernels = by_name(table(report(tmp_path, ENDS), "kernels"))
    assert {title: value for title, value in kernels["a"].items() if value and title != "threads"} == {
        "kernel": "a", "submissions": 7, "solved": 5, "crashed": 1, "changes from run to run": 1,
        "least wall": 3 * MS, "median": 50 * MS, "most": 90 * MS,
    }  # fmt: skip
    assert {title: value for title, value in kernels["b"].items() if value and title != "threads"} == {
        "kernel": "b", "submissions": 6, "solved": 2, "wrongly accepted": 1, "declined": 1, "timeout": 1,
        "out of memory": 1, "not run": 1, "least wall": 40 * MS, "median": 40 * MS, "most": 70 * MS,
    }  # fmt: skip


def test_what_has_no_cost_says_why_and_is_never_a_number(tmp_path: Path) -> None:
    matrix = by_name(table(report(tmp_path, ENDS), "matrix"))
    assert {subject: entries["a"] for subject, entries in matrix.items()} == {
        "fine": 20 * MS, "slow": 90 * MS, "big": 50 * MS, "odd": 60 * MS, "crash": Missing("crashed"), "twin": 3 * MS,
        "flaky": Missing("1 solved, 1 crashed"),
    }  # fmt: skip
    assert {subject: entries["b"] for subject, entries in matrix.items()} == {
        "fine": 40 * MS, "slow": Bound(1000 * MS), "big": Missing("out of memory"), "odd": Missing("declined"),
        "crash": 70 * MS, "twin": Missing("wrongly accepted"), "flaky": Missing("not run"),
    }  # fmt: skip


def test_memory_at_its_cap_is_a_bound_of_memory(tmp_path: Path) -> None:
    rows = [run("a", "x", memory_peak_tree=70), stopped("b", "x", 5, "memory_limit", memory_limit_bytes=100),
            stopped("c", "x", 5, "time_limit", time_limit_ns=5 * MS, memory_peak_tree=80)]  # fmt: skip
    matrix = by_name(table(report(tmp_path, rows, metric="memory"), "matrix"))["x"]
    assert (matrix["a"], matrix["b"], matrix["c"]) == (70, Bound(100), Missing("timeout"))


def test_a_time_out_far_below_its_limit_is_none(tmp_path: Path) -> None:
    rows = [run("a", "x", 100), stopped("b", "x", 2, "time_limit", time_limit_ns=1000 * MS)]
    document = report(tmp_path, rows)
    assert by_name(table(document, "matrix"))["x"]["b"] == Missing("time_limit, far too early")
    assert by_name(table(document, "kernels"))["b"]["timeout"] == 0
    assert by_name(table(document, "kernels"))["b"]["other"] == 1


def test_every_cell_has_its_spread(tmp_path: Path) -> None:
    cells = table(report(tmp_path, ENDS), "cells")
    assert cells.rows[[row[:2] for row in cells.rows].index(["fine", "a"])] == [
        "fine", "a", "3 accepted", 3, 3, 10 * MS, 20 * MS, 30 * MS,
    ]  # fmt: skip


def test_kernels_that_disagree_are_told_first(tmp_path: Path) -> None:
    rows = [run("a", "x"), run("b", "x", verdict="rejected", exit_code=1), run("a", "y"), run("b", "y")]
    document = report(tmp_path, rows)
    assert document.answer.startswith("KERNELS DISAGREE on 1 submission; a solves most: 2 of 2 submissions")
    assert document.notes[0] == "KERNELS DISAGREE: some accepted and some rejected x"
    assert table(document, "matrix").marked == {0: "bad"}


@pytest.mark.parametrize("column", ["host_class", "sandbox", "input_sha256", "source"])
def test_unlike_kernels_are_refused_by_name(tmp_path: Path, column: str) -> None:
    one: dict[str, Any] = {column: "one"}
    other: dict[str, Any] = {column: "two"}
    rows = [run("a", "x", **one), run("b", "x", **other)]
    with pytest.raises(UnlikeError, match=rf"differ in {column} \(one, two\); choose with --where {column}=VALUE"):
        report(tmp_path, rows)
    assert len(table(report(tmp_path / "again", rows, pool=(column,)), "kernels").rows) == 2


@pytest.mark.parametrize("column", ["threads", "config_sha256", "kernel_sha256"])
def test_a_kernel_s_own_may_differ_between_kernels_but_not_within_one(tmp_path: Path, column: str) -> None:
    one: dict[str, Any] = {column: 1 if column == "threads" else "one"}
    other: dict[str, Any] = {column: 4 if column == "threads" else "two"}
    assert len(table(report(tmp_path, [run("a", "x", **one), run("b", "x", **other)]), "kernels").rows) == 2
    with pytest.raises(UnlikeError, match=f"differ in {column}"):
        report(tmp_path / "again", [run("a", "x", **one), run("a", "x", **other)])


def test_wall_of_unlike_threads_is_said(tmp_path: Path) -> None:
    rows = [run("a", "x", threads=1), run("b", "x", threads=4)]
    assert any("not the same number of threads" in note for note in report(tmp_path, rows).notes)
    assert not any("threads" in note for note in report(tmp_path / "again", [run("a", "x"), run("b", "x")]).notes)


def test_what_happened_is_shown_itself(tmp_path: Path) -> None:
    from proofcost.reports.entries import entry_text

    matrix = by_name(table(report(tmp_path, ENDS), "matrix"))
    shown = {name: entry_text(matrix[name]["b"], "ns") for name in ("big", "odd", "twin", "flaky")}
    assert shown["odd"] == "declined"
    assert shown["twin"] == "wrongly accepted"
    assert shown["flaky"] == "not run"
    assert entry_text(matrix["flaky"]["a"], "ns") == "1 solved, 1 crashed"


def cache(state: str) -> dict[str, Any]:
    return {"labels": {"cache": state}}


def test_costs_are_those_of_warm_runs_where_there_are_any_and_it_is_said(tmp_path: Path) -> None:
    rows = [run("a", "x", 900, **cache("cold")), run("a", "x", 100, **cache("warm")), run("b", "x", 120)]
    rows += [run("b", "x", 700, **cache("cold"))]
    document = report(tmp_path, rows)
    found = by_name(table(document, "matrix"))["x"]
    assert (found["a"], found["b"]) == (100 * MS, 120 * MS)
    assert sorted((row[1], row[3], row[4]) for row in table(document, "cells").rows) == [("a", 2, 1), ("b", 2, 1)]
    assert any(note.startswith("2 runs that read the input from storage (cold)") for note in document.notes)
    together = by_name(table(report(tmp_path / "pool", rows, pool=("cache",)), "cells"))
    assert together["x"]["n"] == 2


def test_where_a_kernel_ran_cold_only_the_costs_are_of_all_runs_and_it_is_said(tmp_path: Path) -> None:
    rows = [
        run("a", "x", 900, **cache("cold")),
        run("a", "x", 100, **cache("warm")),
        run("b", "x", 800, **cache("cold")),
    ]
    document = report(tmp_path, rows)
    assert sorted((row[1], row[4]) for row in table(document, "cells").rows) == [("a", 2), ("b", 1)]
    assert any(
        "2 runs read the input from storage (cold) on submissions that some kernel" in one for one in document.notes
    )


def test_a_cold_run_s_end_counts(tmp_path: Path) -> None:
    rows = [run("a", "x", verdict="rejected", exit_code=1, **cache("cold")), run("a", "x", **cache("warm"))]
    assert table(report(tmp_path, rows), "cells").rows[0][2] == "1 rejected, 1 accepted"


def test_controls_are_no_kernels(tmp_path: Path) -> None:
    document = report(tmp_path, [run("a", "x"), run("null", "x", 1, verdict="ran")])
    assert [row[0] for row in table(document, "kernels").rows] == ["a"]
    assert any(note.startswith("left out: null") for note in document.notes)


def test_a_program_s_wall_is_not_shown_beside_a_command_s(tmp_path: Path) -> None:
    rows = [run("a", "x"), run("a", "y"), run("b", "x", wall_program=None, wall_command=7)]
    document = report(tmp_path, rows)
    assert by_name(table(document, "matrix"))["x"]["b"] == Missing("no wall: not measured, or only a bound")
    said = "cells without wall may have wall of the command: another figure, not shown beside it"
    assert said in document.notes


def test_cost_against_what_is_checked(tmp_path: Path) -> None:
    rows = [run("a", f"s{at}", 0.001 * at * at, covariates={"export_lines_count": at}) for at in (10, 20, 40, 80, 160)]
    document = report(tmp_path, rows)
    (row,) = table(document, "covariates").rows
    assert row[:4] == ["export_lines_count", "a", 5, pytest.approx(1)]
    assert isinstance(row[4], Estimate)
    assert row[4].value == pytest.approx(2, abs=1e-4)
    assert "covariate" in [picture.key for picture in document.pictures()]


def test_pictures_say_the_same_in_words(tmp_path: Path) -> None:
    rows = [run("a", f"s{at}", 10) for at in range(4)]
    rows += [run("b", f"s{at}", 15 if at else 5) for at in range(3)] + [stopped("b", "s3", 9, "time_limit")]
    document = report(tmp_path, rows)
    said = {picture.key: picture.text for picture in document.pictures()}
    assert said["cactus"] == "Solved, with a known cost: a 4 of 4, b 3 of 4."
    assert said["profile"] == (
        "Of 4 submissions that every kernel ran on and one solved: a 75 % within 1.25x, 100 % within 2x; "
        "b 25 % within 1.25x, 75 % within 2x."
    )
    assert said["scatter"].startswith("Both solved 3 submissions: a costs more on 1, b on 2. On the rails, without a ")
    for picture in document.pictures():
        picture.draw(Figure())


@pytest.mark.parametrize("rows", [[stopped("a", "x", 5, "crashed"), stopped("b", "x", 5, "crashed")], [run("a", "x")]])
def test_all_failed_and_one_alone_are_reports_too(tmp_path: Path, rows: list[Row]) -> None:
    document = report(tmp_path, rows)
    for picture in document.pictures():
        picture.draw(Figure())
    assert len(table(document, "cells").rows) == len(rows)


def test_no_kernels_is_said(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no runs of kernels among these records"):
        report(tmp_path, [{**run("a", "x"), "kernel": None}])


def proofcost_report(*words: object) -> subprocess.CompletedProcess[str]:
    command = [PROOFCOST, "report", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command(tmp_path: Path) -> None:
    path = kept(tmp_path / "data", ENDS)
    done = proofcost_report("kernels", path, "--where", "kernel=a", "-o", tmp_path / "r.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "a solves 5 of 7 submissions.\n"
    said = json.loads((tmp_path / "r.json").read_text())
    assert said["kind"] == "kernels"
    done = proofcost_report("kernels", path)
    assert "not measured" in done.stdout
    assert done.returncode == 0


def test_all_reports_go_into_a_folder(tmp_path: Path) -> None:
    path = kept(tmp_path / "data", ENDS)
    done = proofcost_report("--data", path, "-o", tmp_path / "site")
    assert done.returncode == 0
    assert (tmp_path / "site" / "index.html").is_file()
    again = proofcost_report(path, "-o", tmp_path / "again", "--where", "kernel=a")
    assert again.returncode == 0
    pages = {file.name for file in (tmp_path / "again").glob("*.html")}
    assert pages == {"index.html", "kernels.html", "submissions.html", "history.html", "hosts.html", "noise.html"}
    home = (tmp_path / "again" / "index.html").read_text()
    for name in sorted(pages - {"index.html"}):
        assert name in home


def test_a_report_that_cannot_be_made_is_a_page_that_says_why(tmp_path: Path) -> None:
    path = kept(tmp_path / "data", [{**row, "host_class": None} for row in ENDS])
    done = proofcost_report(path, "-o", tmp_path / "site")
    assert done.returncode == 0
    assert "no report hosts: no run tells its host class" in done.stderr
    assert "Not made: no run tells its host class" in (tmp_path / "site" / "hosts.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kernels", "/no/such"], "/no/such: no such file"),
        (["kernels", "DATA", "--pool", "wall"], "--pool 'wall': not one of host_class"),
        (["kernels", "DATA", "-o", "x.doc"], "-o x.doc: give a folder, or a name that ends in"),
        (["kernels", "DATA", "--metric", "walls"], "--metric walls: no such cost; there are instructions"),
        (["kernels", "DATA", "--against", "a", "z"], "--against z: no such kernel here; there are a, b"),
        (["kernels", "DATA", "--where", "kernel=z"], "leave none of 16 records"),
        (["--data", "DATA"], "name a kind (kernels"),
        (["--data", "DATA", "-o", "x.html"], "a file holds one report"),
        (["kernel"], "did you mean kernels?"),
    ],
)
def test_wrong_calls(tmp_path: Path, words: list[str], said: str) -> None:
    path = kept(tmp_path, ENDS)
    done = proofcost_report(*(path if word == "DATA" else word for word in words))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_kernels_that_solve_the_same_at_the_same_cost_are_not_ranked_by_the_alphabet(tmp_path: Path) -> None:
    rows = [run(kernel, f"w{at}", 100 + at) for kernel in "ab" for at in range(10)]
    assert report(tmp_path, rows).answer == (
        "a and b solve the same 10 of 10 submissions; "
        "on the 10 submissions that all of them solve noise does not tell which costs least."
    )


def test_which_kernel_costs_least_is_said_where_a_paired_test_tells(tmp_path: Path) -> None:
    rows = [run(kernel, f"w{at}", (100 if kernel == "b" else 110) + at) for kernel in "ab" for at in range(6)]
    assert report(tmp_path, rows).answer.endswith("all of them solve b costs least.")
    # Six of one sign have p 1/32, five 1/16.
    assert "noise does not tell" in report(tmp_path / "few", rows[:5] + rows[6:11]).answer
    # Least in sum through one submission only.
    rows = [run("a", f"w{at}", 100) for at in range(6)] + [run("b", f"w{at}", 101 if at else 10) for at in range(6)]
    assert "noise does not tell" in report(tmp_path / "one", rows).answer


def test_nobody_solves_most_where_nothing_was_solved(tmp_path: Path) -> None:
    rows = [stopped(k, f"w{n}", 1000, "time_limit", time_limit_ns=1000 * MS) for k in "ab" for n in range(3)]
    assert report(tmp_path, rows).answer == "no kernel solved any of 3 submissions."


def test_as_many_is_not_the_same(tmp_path: Path) -> None:
    rows = [run("a", "x"), stopped("b", "x", 1, "crashed"), stopped("a", "y", 1, "crashed"), run("b", "y")]
    assert report(tmp_path, rows).answer == "a and b solve as many, not the same: 1 of 2 submissions."


def test_values_that_a_cut_would_make_alike_are_shown_whole(tmp_path: Path) -> None:
    one, other = "abcd" * 4 + "-01111111", "abcd" * 4 + "-11111111"
    with pytest.raises(UnlikeError, match=rf"\({one}, {other}\)"):
        report(tmp_path, [run("a", "x", host_class=one), run("b", "x", host_class=other)])


def test_long_values_are_cut_unless_that_makes_them_alike() -> None:
    assert told_apart({"a" * 64, "b" * 64, ""}) == ["a" * 16 + "...", "b" * 16 + "...", "unknown"]
    assert told_apart({"a" * 64, "a" * 63 + "b"}) == ["a" * 64, "a" * 63 + "b"]


def test_conditions_that_leave_nothing_are_told_with_what_was_meant(tmp_path: Path) -> None:
    data = kept(tmp_path, [run("nanoda", "x"), run("nanoda", "y")])
    with pytest.raises(WhereError, match=r"leave none of 2 records; did you mean kernel=nanoda\?"):
        ask([data], ["kernel=nanod"], None, ())


@pytest.mark.parametrize("odd", ['"text"', "7", "[1]", "null", "true", "{", ""])
def test_covariates_that_are_no_object_are_none(tmp_path: Path, odd: str) -> None:
    made = parquet.table_of([{**run("a", "x"), "record": "1", "covariates": {"lines": 1}}])
    at = made.column_names.index("covariates")
    made = made.set_column(at, made.schema.field(at), pa.array([odd], pa.string()))
    parquet.write(tmp_path / "x.0.parquet", made)
    assert make(ask([str(tmp_path)], [], None, ())).answer == "a solves 1 of 1 submission."
