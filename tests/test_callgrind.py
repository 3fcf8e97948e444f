"""Counts by callgrind: right for what it sees, absent with the reason for what it does not."""

import json
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.bench_suites import callgrind
from proofcost.bench_suites.callgrind import Callgrind, CallgrindError
from proofcost.harness import figures
from proofcost.harness.record import Json, measurement, unavailable
from proofcost.reports.counted_change import counted_change

Hostile = Callable[[str], Path]

FAKE = Callgrind("/usr/bin/valgrind", "valgrind-3.19.0")
HEAD = b"# callgrind format\nversion: 1\ncmd:  %s\npart: 1\n\ndesc: Trigger: Program termination\n\npositions: line\n"


def file_of(count: int, end: bytes | None = None, command: bytes = b"/bin/true") -> bytes:
    ending = b"\ntotals: %d\n" % count if end is None else end
    return HEAD % command + b"events: Ir\nsummary: %d\n\n\nfn=(1) main\n0 %d\n" % (count, count) + ending


def left_behind(folder: Path, files: dict[int, bytes], forked: tuple[int, ...] = ()) -> Path:
    """What a run of these processes leaves; a forked one's log lacks the control program's line."""
    folder.mkdir()
    for pid, content in files.items():
        control = b"" if pid in forked else b"==%d== For interactive control, run 'callgrind_control -h'.\n" % pid
        (folder / f"valgrind.log.{pid}").write_bytes(b"==%d== Command: x\n" % pid + control)
        (folder / f"callgrind.out.{pid}").write_bytes(content)
    return folder


def reason(figure: dict[str, Json]) -> str:
    assert (figure["value"], figure["status"], figure["unit"]) == (None, "unavailable", "count")
    return str(figure["reason"])


@pytest.fixture(scope="session")
def tool(valgrind: Path) -> Callgrind:
    return callgrind.find(str(valgrind))


def counted(tool: Callgrind, folder: Path, *command: object, children: bool = True) -> tuple[int, dict[str, Json]]:
    """(exit status, the figure) of a real run."""
    folder.mkdir()
    argv = callgrind.wrapped(tool, [str(word) for word in command], str(folder), children)
    done = subprocess.run(argv, capture_output=True, check=False, timeout=300)
    assert b"Callgrind" not in done.stderr, "valgrind's own words must not reach the command's streams"
    return done.returncode, callgrind.figure(tool, str(folder), children)


def value(figure: dict[str, Json]) -> int:
    assert isinstance(figure["value"], int), figure
    return figure["value"]


@pytest.mark.real
def test_a_known_loop_is_counted_exactly_and_again_the_same(tool: Callgrind, hostile: Hostile, tmp_path: Path) -> None:
    """Between two lengths of one loop start-up falls out: what is left is the loop's own instructions."""
    program = hostile("count")
    short = [value(counted(tool, tmp_path / f"s{at}", program, "loop", 1000000)[1]) for at in range(2)]
    long = value(counted(tool, tmp_path / "l", program, "loop", 3000000)[1])
    assert abs(short[0] - short[1]) < 1000
    per_turn = Fraction(long - short[0], 2000000)
    assert round(per_turn) in (3, 4, 5, 6, 7, 8)
    assert abs(per_turn - round(per_turn)) < Fraction(1, 1000)


@pytest.mark.real
def test_status_and_streams_stay_the_commands_own(tool: Callgrind, tmp_path: Path) -> None:
    status, figure = counted(tool, tmp_path / "a", "/bin/sh", "-c", "exit 7")
    assert status == 7
    assert value(figure) > 10_000
    status, figure = counted(tool, tmp_path / "b", "/bin/sh", "-c", "kill -SEGV $$")
    assert status == -11
    assert value(figure) > 10_000


@pytest.mark.real
def test_children_are_counted_where_they_are_followed(tool: Callgrind, hostile: Hostile, tmp_path: Path) -> None:
    program = hostile("count")
    script = f"{program} loop 2000000; exit 0"
    alone = value(counted(tool, tmp_path / "p", program, "loop", 2000000)[1])
    _, with_children = counted(tool, tmp_path / "c", "/bin/sh", "-c", script)
    _, without = counted(tool, tmp_path / "n", "/bin/sh", "-c", script, children=False)
    assert value(with_children) > alone
    assert value(without) < alone / 4
    assert "2 processes" in str(with_children["method"])
    assert "other processes" in str(without["method"])
    assert "other processes" not in str(with_children["method"])


@pytest.mark.real
def test_a_fork_without_an_exec_has_no_count(tool: Callgrind, hostile: Hostile, tmp_path: Path) -> None:
    """Its file begins with all that its parent did before the fork: a sum would count that twice."""
    program = hostile("count")
    status, figure = counted(tool, tmp_path / "f", program, "fork", 1000000)
    assert status == 0
    assert "before the fork twice" in reason(figure)
    _, alone = counted(tool, tmp_path / "g", program, "fork", 1000000, children=False)
    plain = value(counted(tool, tmp_path / "h", program, "loop", 1000000)[1])
    assert plain <= value(alone) < plain * Fraction(11, 10)


@pytest.mark.real
def test_a_missing_program_has_no_count(tool: Callgrind, tmp_path: Path) -> None:
    status, figure = counted(tool, tmp_path / "m", "/nonexistent/kernel")
    assert status == 127
    assert reason(figure) == "valgrind executed no program"


@pytest.mark.real
def test_a_percent_sign_in_the_folder_is_itself(tool: Callgrind, tmp_path: Path) -> None:
    _, figure = counted(tool, tmp_path / "50%p %q{HOME}", "/bin/true")
    assert value(figure) > 10_000


@pytest.mark.real
def test_nanoda_three_times(tool: Callgrind, nanoda: Path, shared_exports: Path, tmp_path: Path) -> None:
    """One thread: the spread is nothing, so a change of a thousandth would be seen."""
    config = tmp_path / "config.json"
    export = sorted((shared_exports / "accept").glob("*.ndjson"))[0]
    settings = {"use_stdin": False, "unsafe_permit_all_axioms": True, "num_threads": callgrind.THREADS}
    settings |= {"unpermitted_axiom_hard_error": False, "nat_extension": True, "string_extension": True}
    config.write_text(json.dumps({"export_file_path": str(export), **settings}))
    counts = []
    for at in range(callgrind.RUNS):
        status, figure = counted(tool, tmp_path / f"r{at}", nanoda, config)
        assert status == 0
        counts.append(value(figure))
    change = counted_change(counts, counts)
    assert change is not None
    assert change.spread < Fraction(1, 10_000)
    assert not change.is_change
    assert change.threshold == Fraction(1, 1000)


def test_figures_are_added_up_and_say_what_is_not_seen(tmp_path: Path) -> None:
    folder = left_behind(tmp_path / "f", {10: file_of(1000), 11: file_of(234)})
    assert callgrind.figure(FAKE, str(folder)) == {
        "value": 1234,
        "unit": "count",
        "method": "valgrind-3.19.0 --tool=callgrind, 1 thread, 2 processes; not seen: system calls' work in the host's "
        "kernel, programs that replaced themselves by another",
        "status": "measured",
        "reason": None,
    }


@pytest.mark.parametrize(
    ("files", "forked", "why"),
    [
        ({}, (), "valgrind executed no program"),
        ({1: file_of(9), 2: file_of(9)}, (2,), "before the fork twice"),
        ({1: b""}, (), "not a callgrind file"),
        ({1: file_of(9, end=b"")}, (), "has no end"),
        ({1: file_of(99, end=b"totals: 9")}, (), "has no end"),
        ({1: file_of(99, end=b"totals: 99\n0 5\n")}, (), "has no end"),
        ({1: file_of(9, end=b"totals: 9e9\n")}, (), "no numbers"),
        ({1: file_of(9, end=b"totals:\n")}, (), "no numbers"),
        ({1: file_of(9).replace(b"Ir", b"Dr")}, (), "counts no instructions"),
    ],
)
def test_what_is_no_count_says_why(tmp_path: Path, files: dict[int, bytes], forked: tuple[int, ...], why: str) -> None:
    folder = left_behind(tmp_path / "f", files, forked)
    assert why in reason(callgrind.figure(FAKE, str(folder)))


def test_a_process_that_left_no_file_is_no_count(tmp_path: Path) -> None:
    folder = left_behind(tmp_path / "f", {1: file_of(5), 2: file_of(6)})
    (folder / "callgrind.out.2").unlink()
    assert "process 2 ended before" in reason(callgrind.figure(FAKE, str(folder)))
    assert "No such file" in reason(callgrind.figure(FAKE, str(tmp_path / "gone")))


def test_a_command_line_cannot_name_the_sum(tmp_path: Path) -> None:
    folder = left_behind(tmp_path / "f", {1: file_of(77, command=b"k totals: 1")})
    assert callgrind.figure(FAKE, str(folder))["value"] == 77


def test_events_beside_instructions_are_passed_over() -> None:
    head = HEAD % b"k" + b"events: Dr Ir Dw\nsummary: 5 60 7\n"
    assert callgrind.read_total(head, b"totals: 5 60 7\n") == 60


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_a_count_or_a_reason(head: bytes, tail: bytes) -> None:
    try:
        made = callgrind.read_total(head, tail)
    except CallgrindError:
        return
    assert str(made).encode() in tail
    assert made >= 0


@given(st.integers(0, 10**18 - 1), st.text("abc /:-=", max_size=40))
def test_any_count_is_read_back(count: int, command: str) -> None:
    text = file_of(count, command=command.encode())
    assert callgrind.read_total(text, text[-4096:]) == count


def test_nothing_but_the_count_is_a_value() -> None:
    table: figures.Figures = {
        "wall_command": measurement(5, "ns", "clock"),
        "memory_peak_tree": measurement(6, "bytes", "cgroup"),
        "instructions:u": measurement(7, "count", "perf"),
        "cycles:u": unavailable("count", "perf", "counter_not_supported"),
    }
    callgrind.only_the_count(table, measurement(123, "count", "callgrind"))
    assert {name: one["value"] for name, one in table.items()} == {
        "wall_command": None,
        "memory_peak_tree": None,
        "instructions:u": None,
        "cycles:u": None,
        "instructions_callgrind": 123,
    }
    assert table.pop("cycles:u")["reason"] == "counter_not_supported"
    assert {one["reason"] for name, one in table.items() if name != callgrind.NAME} == {callgrind.NOT_A_VALUE}


def test_a_missing_valgrind_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CallgrindError, match=r"no valgrind on PATH; install it \(Debian: apt-get install valgrind\)"):
        callgrind.find()
    fake = tmp_path / "valgrind"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    with pytest.raises(CallgrindError, match="said 'hello', which is no valgrind's version"):
        callgrind.find()


def test_the_rule_of_change() -> None:
    """Beyond a thousandth and beyond five times the spread: only then."""
    base = (1_000_000, 1_000_000, 1_000_000)
    for head, is_change in ((1_001_000, False), (1_001_001, True), (998_999, True), (999_000, False)):
        change = counted_change(base, (head, head, head))
        assert change is not None
        assert change.is_change is is_change, head
        assert change.effect == Fraction(head - 1_000_000, 1_000_000)
    spread = counted_change((999_000, 1_000_000, 1_001_000), (1_010_000, 1_010_000, 1_010_000))
    assert spread is not None
    assert spread.threshold == 5 * Fraction(2000, 1_000_000)
    assert not spread.is_change, "an effect of exactly five spreads is none"
    beyond = counted_change((999_000, 1_000_000, 1_001_000), (1_010_001, 1_010_001, 1_010_001))
    assert beyond is not None
    assert beyond.is_change


def test_too_few_runs_are_no_verdict_and_nothing_is_no_count() -> None:
    assert counted_change((5, 5), (5, 5, 5)) is None
    assert counted_change((), ()) is None
    with pytest.raises(ValueError, match="a count of 0"):
        counted_change((5, 5, 0), (5, 5, 5))


def test_the_name_is_not_the_counters() -> None:
    assert callgrind.NAME == "instructions_callgrind"
    assert callgrind.NAME != "instructions:u"
