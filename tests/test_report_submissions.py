"""`report submissions`: solved first, ranks only as far as noise tells, never across cohorts; what is frozen stays."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_of_runs import data_of, kept, noisy, run

from proofcost import cli
from proofcost.harness.columns import Row
from proofcost.reports.beside import GradesError, joined, read_grades
from proofcost.reports.document import Bound, Document, Estimate, Missing, Table
from proofcost.reports.submissions import document, places
from proofcost.reports.submissions_data import SubmissionsError, cohorts_found
from proofcost.reports.where import parse

EVERYTHING = parse([])
MS = 10**6


def solved(name: str, walls: list[float], problem: str | None = None, **more: Any) -> list[Row]:
    labels = {"submission": name} | ({"problem": problem} if problem else {})
    return [run(wall, labels=labels, workload=f"{name}-{problem}", **more) for wall in walls]


def failed(name: str, problem: str, **more: Any) -> list[Row]:
    ended = {"outcome": "exited", "verdict": "rejected", "exit_code": 1, **more}
    return solved(name, [5.0] * 3, problem, **ended)


def report(folder: Path, rows: list[Row]) -> Document:
    return document(*cohorts_found(data_of(folder, rows), EVERYTHING))


def table(made: Document, key: str) -> Table:
    return next(one for one in made.tables() if one.key.startswith(key))


def ranks(made: Document) -> dict[object, tuple[object, object]]:
    return {row[2]: (row[0], row[1]) for row in table(made, "ranks").rows}


def test_who_solved_more_is_ahead_however_slow(tmp_path: Path) -> None:
    rows = solved("slow", [900, 905, 910], "p1") + solved("slow", [900, 905, 910], "p2")
    rows += solved("quick", [1, 1.1, 1.2], "p1") + failed("quick", "p2")
    rows += failed("none", "p1") + failed("none", "p2")
    made = report(tmp_path, rows)
    assert ranks(made) == {"slow": (1, 1), "quick": (2, 2), "none": (3, 3)}
    assert made.answer == "slow is first with 2 of 2 solved."
    cost = {row[2]: row[5] for row in table(made, "ranks").rows}
    # First runs of both problems added up, then second ones: 1800, 1810, 1820 ms; geometric mean.
    assert cost["slow"] == pytest.approx((1800 * 1810 * 1820) ** (1 / 3) * MS)
    assert cost["none"] == Missing("solved nothing")


def test_ties_are_intervals_and_overlap_is_not_transitive(tmp_path: Path) -> None:
    """a and b overlap, b and c overlap, a and c do not."""
    rows = solved("a", noisy(100, 0.02, 8, 1), "p") + solved("b", noisy(102, 0.02, 8, 2), "p")
    rows += solved("c", noisy(105, 0.02, 8, 3), "p") + solved("d", noisy(300, 0.02, 8, 4), "p")
    made = report(tmp_path, rows)
    assert ranks(made)["d"] == (4, 4)
    by_name = {row[2]: row for row in table(made, "ranks").rows}
    assert ranks(made)["a"][1] != 1 or ranks(made)["b"][0] != 1
    tied = {name: str(row[6]) for name, row in by_name.items()}
    assert "b" in tied["a"]
    more = by_name["a"][7]
    assert isinstance(more, int)
    assert more > 8
    assert tied["d"] == ""
    # c is told from d, and d is the last: nothing more to tell there.
    assert [by_name[name][7] for name in ("c", "d")] == ["", ""]
    assert "noise does not tell" in made.answer


def test_as_many_but_other_problems_are_not_ranked_by_cost(tmp_path: Path) -> None:
    rows = solved("a", [1] * 3, "p1") + failed("a", "p2") + failed("b", "p1") + solved("b", [900] * 3, "p2")
    made = report(tmp_path, rows)
    assert ranks(made) == {"a": (1, 2), "b": (1, 2)}
    assert table(made, "ranks").rows[0][5] == Missing("solved as many as others, but other problems")


def test_one_run_each_says_that_its_noise_is_not_known(tmp_path: Path) -> None:
    made = report(tmp_path, solved("a", [100], "p") + solved("b", [900], "p"))
    assert ranks(made) == {"a": (1, 2), "b": (1, 2)}
    assert table(made, "ranks").rows[0][7] == Missing("one run: its noise is not known")


def test_cohorts_are_never_mixed(tmp_path: Path) -> None:
    rows = solved("a", [100] * 3, "p") + solved("b", [50] * 3, "p", threads=4)
    made = report(tmp_path, rows)
    assert [one.rows[0][2] for one in made.tables() if one.key.startswith("ranks")] == ["b", "a"]
    assert any(note.startswith("2 cohorts, never ranked against each other") for note in made.notes)
    found, _ = cohorts_found(data_of(tmp_path, rows), EVERYTHING, pool=("threads",))
    assert len(found) == 1


def test_a_build_is_no_check_unless_it_alone_is_chosen(tmp_path: Path) -> None:
    rows = solved("a", [100] * 3, "p") + solved("a", [5] * 3, "p", phase="build", kernel=None)
    data = data_of(tmp_path, rows)
    found, notes = cohorts_found(data, EVERYTHING)
    assert len(found) == 1
    assert "left out: 3 runs of other phases than checks: build" in notes
    found, notes = cohorts_found(data, parse(["phase=build"]))
    assert [slot.costs["wall"] for slot in found[0].slots] == [(5 * MS,) * 3]


def test_controls_are_no_kernel_to_rank_under(tmp_path: Path) -> None:
    rows = solved("a", [100] * 3, "p") + solved("a", [1] * 3, "p", kernel="null")
    found, notes = cohorts_found(data_of(tmp_path, rows), EVERYTHING)
    assert len(found) == 1
    assert any("3 runs of controls" in note for note in notes)


def test_a_stopped_run_is_a_bound_and_a_fake_one_none(tmp_path: Path) -> None:
    stopped = {
        "outcome": "timed_out",
        "cause": "time_limit",
        "verdict": None,
        "exit_code": None,
        "time_limit_ns": 10**9,
    }
    rows = solved("cut", [1000] * 3, "p", wall_command=10**9, **stopped)
    rows += solved("fake", [3] * 3, "p", wall_command=3 * MS, **stopped)
    made = report(tmp_path, rows)
    wall = {row[1]: row[6] for row in table(made, "problems").rows}
    columns = [column.key for column in table(made, "problems").columns]
    assert columns[-1] == "per_megabyte"
    assert not [column for column in columns if column == "wall"] or isinstance(wall["cut"], Bound)
    ends = {row[1]: row[2] for row in table(made, "problems").rows}
    assert ends == {"cut": "time_limit", "fake": "time_limit, far too early"}
    assert made.answer == "Nobody solved anything."


def test_cost_per_problem_and_input_size(tmp_path: Path) -> None:
    rows = solved("a", [100, 110, 120], "p", input_bytes=2_000_000) + solved("b", [300] * 3, "p", input_bytes=3_000_000)
    body = {row[1]: row for row in table(report(tmp_path, rows), "problems").rows}
    assert body["a"][3:] == [3, "1", 2_000_000, 110 * MS, 55 * MS]
    assert body["b"][3:] == [3, "2", 3_000_000, 300 * MS, 100 * MS]


def test_growth_over_n_has_the_exponent(tmp_path: Path) -> None:
    rows = []
    for n in (10, 20, 40, 80, 160):
        for scatter in (0.99, 1, 1.01):
            rows.append(run(n**2 * scatter, workload=f"f:{n}", family="f", n=n))
    (row,) = table(report(tmp_path, rows), "growth").rows
    assert row[:2] == ["f", "n"]
    exponent = row[4]
    assert isinstance(exponent, Estimate)
    assert exponent.value == pytest.approx(2, abs=1e-6)


def test_without_problems_it_is_said(tmp_path: Path) -> None:
    _, notes = cohorts_found(data_of(tmp_path, [run(100)]), EVERYTHING)
    assert any("do not say which problem was solved" in note for note in notes)


def test_submission_and_problem_must_differ(tmp_path: Path) -> None:
    with pytest.raises(SubmissionsError, match="are both kernel"):
        cohorts_found(data_of(tmp_path, [run(100)]), EVERYTHING, "kernel", "kernel")


def test_everybody_has_a_place_even_of_many(tmp_path: Path) -> None:
    rows = [row for at in range(40) for row in solved(f"s{at:02}", noisy(100 * 1.5**at, 0.01, 4, at), "p")]
    found, _ = cohorts_found(data_of(tmp_path, rows), EVERYTHING)
    assert [(place.submission, place.low, place.high) for place in places(found[0])] == [
        (f"s{at:02}", at + 1, at + 1) for at in range(40)
    ]


# Frozen results


def call(*words: object) -> int:
    return cli.main(["report", "submissions", *map(str, words)])


def test_a_frozen_result_is_checked_against_its_digest_and_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = solved("a", noisy(100, 0.01, 6, 1), "p") + solved("b", noisy(150, 0.01, 6, 2), "p")
    data, file = kept(tmp_path, rows), tmp_path / "frozen.json"
    assert call(data, "--freeze", file) == 0
    content = json.loads(file.read_text())
    assert content["records"]["count"] == 12
    assert f"frozen as {content['sha256']}" in capsys.readouterr().out.replace("\n  ", "")
    assert call(data, "--check", file) == 0
    assert "these data give the same result" in capsys.readouterr().out.replace("\n  ", " ")
    # Somebody betters a rank.
    text = file.read_text()
    file.write_text(text.replace('"a is first', '"b is first'))
    assert call(data, "--check", file) == 2
    err = capsys.readouterr().err
    assert "NOT as it was frozen" in err
    assert err.count("\n") == 1
    # The layout of the file is nobody's business.
    file.write_text(json.dumps(json.loads(text)))
    assert call(data, "--check", file) == 0
    # Another run came in.
    more = kept(tmp_path, [*rows, *solved("c", [50.0] * 6, "p")], "y")
    capsys.readouterr()
    assert call(more, "--check", file) == 2
    assert "the digest holds, but these data give another result, from other records (18 now, 12 then)" in (
        capsys.readouterr().err
    )


def test_a_freeze_that_cannot_be_written_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = kept(tmp_path, solved("a", [1.0], "p"))
    file = tmp_path / "none" / "f.json"
    assert call(data, "--freeze", file) == 2
    assert f"--freeze {file}: cannot be written: No such file" in capsys.readouterr().err
    assert call(data, "--freeze", tmp_path) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["x.0.parquet"]
    assert call(data, "--freeze", "a", "--check", "b") == 2


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": "proofcost.document/1"}', "[" * 100_000])
def test_what_is_no_frozen_result_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.json").write_text(text)
    assert call(kept(tmp_path, solved("a", [1.0], "p")), "--check", tmp_path / "f.json") == 2
    assert "no frozen result" in capsys.readouterr().err


# Beside the grades


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([",", ";", "\n", '"', "a1" * 32, "sha256", "x", "\r"])).map("".join)
)
def test_any_text_is_a_list_or_one_line_that_says_why(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "g.csv"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            made = read_grades(path)
        except GradesError as error:
            said = str(error)
        else:
            said = ""
            assert all(len(row) == len(made.head) for row in made.rows)
            assert len(made.digests) == len(made.rows)
        assert "\n" not in said


ONE, TWO, THREE = "a1" * 32, "b2" * 32, "c3" * 32


def graded(tmp_path: Path, text: str) -> Path:
    (tmp_path / "grades.csv").write_bytes(text.encode())
    return tmp_path / "grades.csv"


def measured(runs: int) -> list[Row]:
    return solved("a", noisy(100, 0.01, runs, 1), "p", input_sha256=ONE, memory_peak_tree=5 * 10**8) + solved(
        "b", noisy(200, 0.01, runs, 2), "p", input_sha256=TWO, memory_peak_tree=7 * 10**8
    )


def test_seconds_memory_and_a_limit_stand_beside_each_file(tmp_path: Path) -> None:
    (cohort,), _ = cohorts_found(data_of(tmp_path, measured(40)), EVERYTHING)
    text = f'﻿file;SHA256;grade\n"x;y.lean";{ONE.upper()};A\nz.lean;sha256:{TWO};B\nlost.lean;{THREE};C\nnone;;D\n'
    made, said = joined(read_grades(graded(tmp_path, text)), cohort)
    assert said == "2 of 4 files of the list were measured (joined by SHA256)"
    assert [column.title for column in made.columns] == [
        "file", "SHA256", "grade", "wall", "peak memory", "advised time limit", "runs",
    ]  # fmt: skip
    first, second, lost, none = made.rows
    assert first[:3] == ["x;y.lean", ONE.upper(), "A"]
    assert first[3] == pytest.approx(100 * MS, rel=0.01)
    assert (first[4], first[6]) == (5 * 10**8, 40)
    # 2 % above the median or so: what the runs scatter by, of 80 runs that 95 % surely keep to.
    assert isinstance(first[5], float)
    assert 1.01 < first[5] / (100 * MS) < 1.04
    assert second[5] == pytest.approx(2 * first[5], rel=0.01)
    assert lost[3] == Missing("no run of a file with this digest")
    assert none[3] == Missing("no digest stands there")


def test_few_runs_promise_no_limit(tmp_path: Path) -> None:
    (cohort,), _ = cohorts_found(data_of(tmp_path, measured(5)), EVERYTHING)
    made, _ = joined(read_grades(graded(tmp_path, f"sha256\n{ONE}\n")), cohort)
    limit = made.rows[0][3]
    assert isinstance(limit, Missing)
    assert "10 runs" in limit.reason
    assert "59 are needed" in limit.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds nothing"),
        ("file,sha256\n", "a head line only"),
        ("file,grade\nx,A\n", "no column holds SHA-256 digests"),
        (f"one,two\n{ONE},{TWO}\n", "one and two both hold digests; choose with --beside-column"),
        (f"file,sha256\nx,{ONE},B\n", "row 2 has 3 entries, the head line 2"),
        ("file,sha256\nx,abc\n", "no column holds SHA-256 digests"),
        (f"\x1b[31m,b\n{ONE},{TWO}\n", r"\x1b[31m and b both hold digests"),
    ],
)
def test_a_list_that_cannot_be_joined_says_why(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(GradesError) as error:
        read_grades(graded(tmp_path, text))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_column_can_be_named(tmp_path: Path) -> None:
    path = graded(tmp_path, f"one,two\n{ONE},{TWO}\n")
    assert read_grades(path, "two").digests == (TWO,)
    with pytest.raises(GradesError, match="no such column, but one, two"):
        read_grades(path, "three")


def test_the_list_goes_out_as_csv_with_its_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = kept(tmp_path, measured(4))
    grades, out = graded(tmp_path, f"file,sha256\n=cmd(),{ONE}\nb,{THREE}\n"), tmp_path / "out.csv"
    assert call(data, "--beside", grades, "-o", out) == 0
    capsys.readouterr()
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert int(float(rows[0]["memory_peak"])) == 5 * 10**8
    assert rows[1]["wall"] == ""
    assert rows[1]["wall_missing"] == "no run of a file with this digest"
    assert call(data, "--beside", tmp_path / "none.csv") == 2
    assert call(data, "--beside-column", "x") == 2


@pytest.mark.parametrize(
    ("rows", "said"),
    [([], "there is no record"), ([run(None, outcome="signaled", cause="crashed", verdict=None)], "Nobody solved")],
)
def test_little_or_nothing_says_so(
    rows: list[Row], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = call(kept(tmp_path, rows))
    streams = capsys.readouterr()
    assert status == (0 if rows else 2)
    assert said in streams.out + streams.err


def test_a_judge_s_own_runs_are_named_by_their_phase(tmp_path: Path) -> None:
    rows = [run(5.0, kernel=None, phase="whole", workload="x"), run(5.0, kernel="nanoda", workload="x")]
    cohorts, _ = cohorts_found(data_of(tmp_path, rows), EVERYTHING)
    assert [one.name for one in cohorts] == ["no kernel of its own, phase whole", "kernel nanoda"]
