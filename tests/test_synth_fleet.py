"""Invented fleets: records as a bench's are, the same from the same seed however often it was killed, and the truth
that stands beside them is what reports find."""

import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from planning import data_of

from proofcost.cli import main
from proofcost.harness.columns import COLUMNS, NAMES, Kind
from proofcost.reports import hosts_data
from proofcost.reports import synth_truth as true
from proofcost.reports.asked import Asked
from proofcost.reports.compare import compare
from proofcost.reports.history import judged
from proofcost.reports.history_data import history_found
from proofcost.reports.hosts import groups
from proofcost.reports.kernels import grid_of
from proofcost.reports.parquet import SCHEMA, files, generation_of
from proofcost.reports.sides import Side
from proofcost.reports.synth_fleet import Fleet
from proofcost.reports.synth_folder import make
from proofcost.reports.synth_runs import ENDS
from proofcost.reports.synth_truth_file import NAME
from proofcost.reports.where import parse

RECORDS, FILES = 40_000, 4 * 30


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 4 hosts of one class."""
    folder = tmp_path_factory.mktemp("fleet") / "plain"
    make(folder, Fleet(RECORDS, hosts=4, submissions=40))
    return folder


def truth_in(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / NAME).read_text())
    return content


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows_of(folder: Path, query: str) -> list[tuple[Any, ...]]:
    return data_of(folder).connection.execute(query).fetchall()


def test_there_are_as_many_as_asked_for_and_each_is_one(tmp_path: Path) -> None:
    make(tmp_path / "a", Fleet(20_003, days=7, hosts=3, kernels=5, submissions=11))
    found = rows_of(
        tmp_path / "a",
        """SELECT count(*), count(DISTINCT record), count(DISTINCT host), count(DISTINCT kernel),
        count(DISTINCT workload), count(DISTINCT plan), count(DISTINCT session), count(DISTINCT source) FROM records""",
    )
    assert found == [(20_003, 20_003, 3, 5, 11, 7, 21, 1)]


def test_files_are_named_and_made_as_compaction_makes_them(plain: Path) -> None:
    seen = files(plain)
    assert len(seen) == FILES
    assert {path.parent.parent.parent for path in seen} == {plain / "parquet"}
    for path in seen[::37]:
        stem, generation = generation_of(path.name)
        assert (len(stem), generation) == (16, 0)
        table = pq.read_table(path)
        assert table.schema.equals(SCHEMA)
        assert path.parent.name == f"host={table['host'][0]}"
        day = date.fromisoformat(path.parent.parent.name.removeprefix("day="))
        midnight = (day - date(1970, 1, 1)).days * 86_400 * 10**9
        started = table["started_ns"].to_pylist()
        assert midnight <= min(started)
        assert max(started) < midnight + 86_400 * 10**9
        assert table.equals(table.sort_by([("kernel", "ascending"), ("started_ns", "ascending")]))


def test_what_a_record_says_of_its_end_agrees(plain: Path) -> None:
    """By the way it ended: outcome, exit code, signal, verdict; figures at limits; all that is never null."""
    found = rows_of(
        plain,
        """SELECT DISTINCT cause, outcome, exit_code, signal, verdict, expected,
        wall_command >= time_limit_ns, memory_peak_tree = memory_limit_bytes FROM records ORDER BY ALL""",
    )
    assert found == [
        ("completed", "exited", 0, None, "accepted", "accepted", False, False),
        ("completed", "exited", 1, None, "rejected", "rejected", False, False),
        ("completed", "exited", 2, None, "declined", "accepted", False, False),
        ("crashed", "signaled", None, 11, None, "accepted", False, False),
        ("memory_limit", "signaled", None, 9, None, "accepted", False, True),
        ("time_limit", "timed_out", None, 9, None, "accepted", True, False),
    ]
    wrong = """SELECT count(*) FROM records WHERE wall_program + sandbox_startup <> wall_command OR wall_program <= 0
        OR cpu_tree > wall_program * 1.02 OR memory_peak_tree > memory_limit_bytes OR NOT instructions_u > 0
        OR wall_command > time_limit_ns + 1000000000"""
    assert rows_of(plain, wrong) == [(0,)]
    nothing = ("verdict", "exit_code", "signal")
    some = rows_of(plain, f"SELECT {', '.join(f'count({name})' for name in NAMES)} FROM records")[0]
    partly = {name for name, count in zip(NAMES, some, strict=True) if 0 < count < RECORDS}
    assert partly == set(nothing)
    texts = {column.name for column in COLUMNS if column.kind is Kind.JSON}
    assert not texts & {name for name, count in zip(NAMES, some, strict=True) if count}


def test_both_kernels_of_a_block_run_on_one_host_and_in_order_of_time(plain: Path) -> None:
    blocks = """SELECT count(*), count(DISTINCT host), count(DISTINCT kernel_sha256), count(DISTINCT place)
        FROM records GROUP BY plan, workload, block"""
    found = rows_of(plain, f"SELECT count(*), max(#2), mode(#1), mode(#3) FROM ({blocks}) AS found")
    assert found[0][1:] == (1, 6, 6)
    back = """SELECT count(*) FROM (SELECT started_ns, lag(started_ns) OVER (
        PARTITION BY session ORDER BY block, place) AS before FROM records) WHERE started_ns <= before"""
    assert rows_of(plain, back) == [(0,)]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        make(tmp_path / name, Fleet(2_000, days=2, hosts=2, seed=seed))
    a, b, c = (content_of(tmp_path / name) for name in "abc")
    assert a == b
    assert not a.keys() & c.keys() - {NAME}
    both = rows_of(tmp_path, "SELECT count(*), count(DISTINCT record), count(DISTINCT host) FROM records")
    assert both == [(4_000, 4_000, 4)], "of two seeds nothing is one; what two folders hold again counts once"


CHILD = """
import os, signal, sys
from pathlib import Path
from proofcost.reports.synth_fleet import Fleet
from proofcost.reports.synth_folder import make
left = int(sys.argv[2])
def audited(event, arguments):
    global left
    if event == "os.rename":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(audited)
make(Path(sys.argv[1]), Fleet(**eval(sys.argv[3])))
"""


def test_killed_under_way_it_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    """Before a file gets its name, each time from where the last one was killed; the first file is the truth's."""
    asked = {"records": 30_000, "days": 8, "hosts": 5}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    make(whole, Fleet(**asked))
    expected = content_of(whole)
    counts = []
    for point in (1, 2, 8, 20):
        done = subprocess.run([sys.executable, "-c", CHILD, killed, str(point), repr(asked)], check=False)
        assert done.returncode == -signal.SIGKILL
        there = {name: content for name, content in content_of(killed).items() if name.endswith(".parquet")}
        assert there.items() <= expected.items(), "whole or not there"
        counts.append(len(there))
        assert not (killed / NAME).exists() or not truth_in(killed)["complete"]
        assert len([*killed.rglob(".*.tmp"), *killed.rglob(".*.new")]) == 1
    assert counts == [0, 0, 7, 26]
    made = make(killed, Fleet(**asked))
    assert (made.known, made.files) == (counts[-1], 40 - counts[-1])
    assert content_of(killed) == expected


def test_with_other_arguments_it_does_not_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["store", "synth", str(tmp_path / "a"), "--kind", "fleet", "--days", "2", "--records", "200"]
    assert main(call) == 0
    before = content_of(tmp_path / "a")
    capsys.readouterr()
    assert main([*call, "--seed", "2", "--hosts", "3"]) == 2
    said = capsys.readouterr().err
    assert "holds a fleet of --seed 1 --hosts 10; ask for the same" in said
    assert said.count("\n") == 1
    for name in ("kept", ".kept.tmp", ".kept.new"):
        (tmp_path / name / "b").mkdir(parents=True)
        (tmp_path / name / "b" / name).write_text("x")
        assert main([*call[:2], str(tmp_path / name / "b"), *call[3:]]) == 2
        assert "not empty" in capsys.readouterr().err
        assert (tmp_path / name / "b" / name).read_text() == "x"
    assert content_of(tmp_path / "a") == before
    assert main(call) == 0
    assert "20 of them there already" in capsys.readouterr().out
    assert content_of(tmp_path / "a") == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "3"], "--hosts: of a fleet alone"),
        (["--kind", "heavy", "--kernels", "3"], "--kernels: of a fleet alone"),
        (["--submissions", "3"], "--submissions: of a fleet alone"),
        (["--classes", "3"], "--classes 3: out of range; give a number from 1 to 2"),
        (["--kind", "fleet", "--classes", "9"], "--classes 9: out of range; give a number from 1 to 8"),
        (["--kind", "fleet", "--hosts", "3", "--classes", "4"], "--classes 4: each needs a host"),
        (["--kind", "fleet", "--hosts", "101"], "--submissions 100: whole submissions are dealt out"),
        (["--kind", "fleet", "--submissions", "9"], "--submissions 9: out of range; give a number from 10"),
        (["--kind", "fleet", "--records", "299"], "--records 299: --hosts 10 over --days 30 need one each day, 300"),
        (["--kind", "fleet", "--hosts", "1000", "--submissions", "1000", "--days", "365"], "are 365000 files"),
        (["--kind", "fleet", "--days", "1"], "--days 1: out of range; give a number from 2"),
        (["--kind", "fleet", "--kernels", "0"], "--kernels 0: out of range"),
        (["--kind", "fleet", "--seed", "-1"], "--seed -1: out of range"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "synth", str(tmp_path / "new"), *words]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_reports_count_the_failures_that_the_truth_tells(plain: Path) -> None:
    truth = truth_in(plain)
    grid, _ = grid_of(Asked(data_of(plain), parse([]), ("kernel_sha256",)), "wall")
    found: dict[str, Counter[str]] = {}
    for (kernel, _), slot in grid.slots.items():
        found.setdefault(kernel, Counter()).update(slot.cell.ends)
    assert {one["kernel"]: {end: count for end, count in one["ends"].items() if count} for one in truth["kernels"]} == {
        kernel: dict(ends) for kernel, ends in found.items()
    }
    assert sum(truth["ends"].values()) == RECORDS
    assert all(truth["ends"][end] > 0 for end in ENDS)
    declined = {key for key, slot in grid.slots.items() if "declined" in slot.cell.ends}
    assert declined == {(truth["declines"]["kernel"], name) for name in truth["declines"]["submissions"]}
    crashed = {key for key, slot in grid.slots.items() if "crashed" in slot.cell.ends}
    assert crashed == {(truth["crashes"]["kernel"], name) for name in truth["crashes"]["submissions"]}


def test_large_submissions_under_slow_kernels_run_into_the_limit(plain: Path) -> None:
    """And are bounds, no costs: at least the limit less the sandbox's start."""
    grid, _ = grid_of(Asked(data_of(plain), parse([]), ("kernel_sha256",)), "wall")
    late = Counter(kernel for (kernel, _), slot in grid.slots.items() if "time_limit" in slot.cell.ends)
    assert late["kernel-05"] > late["kernel-00"]
    bounds = [bound for slot in grid.slots.values() for bound in slot.cell.censored.get("wall", ())]
    assert len(bounds) == truth_in(plain)["ends"]["time_limit"]
    assert 0.99 * true.TIME_LIMIT_NS < min(bounds) <= max(bounds) < 1.01 * true.TIME_LIMIT_NS


@pytest.mark.parametrize(("base", "head"), [(0, 2), (3, 5)])
def test_kernels_cost_what_the_truth_says(base: int, head: int, plain: Path) -> None:
    truth = truth_in(plain)
    data = data_of(plain)
    names = [truth["kernels"][at]["kernel"] for at in (base, head)]
    one, other = (Side(name, data, parse([f"kernel={name}"]), name) for name in names)
    report = compare(one, other)
    expected = truth["kernels"][head]["factor"] / truth["kernels"][base]["factor"]
    assert report.suite["instructions"].ratio == pytest.approx(expected, rel=0.001)
    assert report.suite["wall"].ratio == pytest.approx(expected, rel=0.01)
    assert report.suite["wall"].submissions > 30
    assert {one.level.of for one in report.compared} == {"block"}


@pytest.mark.parametrize("classes", [2, 4])
def test_hosts_cost_what_the_truth_says(classes: int, tmp_path: Path) -> None:
    """With as many classes as hosts each is one host; else a class is what its hosts are together, drift included."""
    make(tmp_path, Fleet(40_000, days=20, hosts=4, classes=classes, submissions=60, seed=5))
    truth = truth_in(tmp_path)
    found = hosts_data.hosts_found(data_of(tmp_path), parse([]))
    measured = {costs.figure.name: costs for costs in found.measured}
    (wall,), (counted,) = groups(measured["wall"]), groups(measured["instructions"])
    assert wall.model is not None
    assert counted.model is not None
    assert wall.model.base == truth["classes"][0]["host_class"]
    assert wall.interaction is not None
    assert "one factor a host does for all kernels" in wall.interaction.finding.value
    for one in truth["classes"][1:]:
        factor = wall.model.factor(one["host_class"])
        assert factor.low is not None
        assert factor.high is not None
        assert factor.low <= one["cost_to_first"] <= factor.high
        assert factor.high / factor.low < 1.02
        assert counted.model.factor(one["host_class"]).ratio == pytest.approx(1, abs=1e-4)
    assert len({one["factor"] for one in truth["hosts"]}) == 4
    by_hand = [
        math.log(one["factor"]) + math.log(one["last_day_to_first"]) / 2
        for one in truth["hosts"]
        if one["host_class"] == truth["classes"][1]["host_class"]
    ]
    first = [
        math.log(one["factor"]) + math.log(one["last_day_to_first"]) / 2
        for one in truth["hosts"]
        if one["host_class"] == truth["classes"][0]["host_class"]
    ]
    apart = math.exp(sum(by_hand) / len(by_hand) - sum(first) / len(first)) * truth["classes"][1]["factor"]
    assert truth["classes"][1]["cost_to_first"] == pytest.approx(apart)


def test_hosts_that_drift_do_and_others_do_not(plain: Path) -> None:
    days = """SELECT host, exp(avg(ln(wall_program::DOUBLE / instructions_u)) FILTER (started_ns >= last - 5 * day)
        - avg(ln(wall_program::DOUBLE / instructions_u)) FILTER (started_ns < first + 5 * day))
        FROM records, (SELECT min(started_ns) AS first, max(started_ns) AS last, 86400000000000 AS day FROM records)
        WHERE cause = 'completed' GROUP BY host"""
    found = dict(rows_of(plain, days))
    drifts = {one["host"]: one["last_day_to_first"] for one in truth_in(plain)["hosts"]}
    assert sorted(drifts.values()) == [1, 1, 1, true.DRIFT]
    for host, drift in drifts.items():
        # The first and the last five days of thirty: their middles are 25 of 29 days apart.
        assert found[host] == pytest.approx(drift ** (25 / 29), rel=0.003)


def test_history_finds_the_step_at_its_day_and_nowhere_else(plain: Path) -> None:
    truth = truth_in(plain)
    first = date.fromisoformat(truth["step"]["first_day"])
    found = history_found(data_of(plain), parse(["kernel=kernel-00,kernel-01", "workload~submission-0000"]))
    assert found.along == "time"
    done = [judged(series) for series in found.series if series.figure.group in ("instructions", "wall")]
    # Days differ by their hosts, so of some walls it says that thirty of them are too few.
    done = [one for one in done if not one.too_few and len(one.series.points) == 30]
    stepped = [one for one in done if one.series.key[1] == truth["step"]["kernel"]]
    still = [one for one in done if one.series.key[1] != truth["step"]["kernel"]]
    assert min(len(stepped), len(still)) >= 8
    for one in stepped:
        (change,) = one.changes
        names = [one.series.points[at].name[:10] for at in (change.before, change.after)]
        assert names == [(first - timedelta(days=1)).isoformat(), first.isoformat()]
        near = 0.001 if one.series.figure.group == "instructions" else 0.04
        assert change.value == pytest.approx(truth["step"]["ratio"], rel=near)
    assert [one.changes for one in still] == [()] * len(still)


def test_the_stepping_kernel_has_another_binary_from_that_day_on(plain: Path) -> None:
    truth = truth_in(plain)
    found = rows_of(
        plain,
        """SELECT kernel, kernel_sha256, strftime(make_timestamp_ns(min(started_ns)), '%Y-%m-%d'),
        strftime(make_timestamp_ns(max(started_ns)), '%Y-%m-%d') FROM records GROUP BY ALL ORDER BY kernel, 3""",
    )
    last = (date.fromisoformat(truth["step"]["first_day"]) - timedelta(days=1)).isoformat()
    spans = {digest: (kernel, begin, end) for kernel, digest, begin, end in found}
    for one in truth["kernels"]:
        told = [spans[digest] for digest in one["kernel_sha256"]]
        whole = truth["days"]
        if one["kernel"] == truth["step"]["kernel"]:
            assert told == [
                (one["kernel"], whole[0], last),
                (one["kernel"], truth["step"]["first_day"], whole[1]),
            ]
        else:
            assert told == [(one["kernel"], *whole)]


def test_it_is_pushed_as_a_store_is_and_the_truth_stays(plain: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    for _ in range(2):
        assert main(["store", "push", str(place), str(plain)]) == 0
    ask = "SELECT count(*), count(DISTINCT record), sum(wall_command), sum(instructions_u) FROM records"
    assert rows_of(place, ask) == rows_of(plain, ask)
    assert data_of(place).notes == ()
    assert not list(place.rglob(f"*{NAME}*"))
    assert data_of(plain).parquet_files == FILES
    assert data_of(plain).journal_records == 0
    assert data_of(plain).problems == []


def test_a_full_disk_is_one_line_and_leaves_nothing_half(tmp_path: Path) -> None:
    """By a limit of the process: a file cannot grow beyond it."""
    code = (
        "import resource, signal, sys; from proofcost.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); sys.exit(main(sys.argv[1:]))"
    )
    words = ["store", "synth", str(tmp_path / "a"), "--kind", "fleet", "--records", "50000", "--days", "2"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 1, done.stderr
    assert "the same call goes on from there" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path for path in (tmp_path / "a").rglob("*") if path.is_file()] == [tmp_path / "a" / NAME]
    assert main(words) == 0
    assert rows_of(tmp_path / "a", "SELECT count(*) FROM records") == [(50_000,)]
