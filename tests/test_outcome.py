"""How a command ended is said from evidence, and nothing that was killed ever reads as completed."""

import itertools
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from proofcost.harness import outcome
from proofcost.harness.outcome import Evidence, judge

GIB = 1 << 30
S = 1_000_000_000


def evidence(**seen: Any) -> Evidence:
    found = Evidence()
    for name, value in seen.items():
        setattr(found, name, value)
    return found


def killed(number: int, core: bool = False) -> int:
    return number | (128 if core else 0)


def exited(code: int) -> int:
    return code << 8


CASES: list[tuple[str, int, dict[str, Any], str, str]] = [
    ("ends by itself", exited(0), {}, "exited", "completed"),
    ("a rejection", exited(1), {}, "exited", "completed"),
    ("a panic of Rust", exited(101), {}, "exited", "completed"),
    ("says 137 itself", exited(137), {}, "exited", "completed"),
    ("killed, nobody knows why", killed(9), {}, "signaled", "killed_cause_unknown"),
    ("terminated, not by our caller", killed(15), {}, "signaled", "killed_cause_unknown"),
    ("memory limit", killed(9), {"oom_kill_count": 1, "memory_limit_scope": "/a"}, "signaled", "memory_limit"),
    ("host out of memory", killed(9), {"oom_kill_count": 2}, "signaled", "host_memory"),
    ("a child out of memory, parent fails", exited(1), {"oom_kill_count": 1, "memory_limit_scope": "/a"}, "exited",
     "memory_limit"),
    ("a child out of memory, parent survives", exited(0), {"oom_kill_count": 1, "memory_limit_scope": "/a"}, "exited",
     "completed"),
    ("no OOM kill was counted", killed(9), {"oom_kill_count": 0, "memory_limit_scope": "/a"}, "signaled",
     "killed_cause_unknown"),
    ("OOM beats the caller", killed(9), {"oom_kill_count": 1, "caller_signal": 15}, "signaled", "host_memory"),
    ("the caller's TERM", killed(15), {"caller_signal": 15}, "signaled", "terminated_by_caller"),
    ("the caller's INT, answered by an exit", exited(130), {"caller_signal": 2}, "exited", "terminated_by_caller"),
    ("the caller's TERM, ignored to the end", exited(0), {"caller_signal": 15}, "exited", "completed"),
    ("soft CPU limit", killed(24), {"cpu_limit_s": 2, "cpu_ns": 1}, "signaled", "cpu_limit"),
    ("SIGXCPU without a limit of ours", killed(24), {}, "signaled", "killed_cause_unknown"),
    ("hard CPU limit", killed(9), {"cpu_limit_s": 5, "cpu_ns": 5 * S}, "signaled", "cpu_limit"),
    ("hard CPU limit, a second short", killed(9), {"cpu_limit_s": 5, "cpu_ns": 4 * S}, "signaled", "cpu_limit"),
    ("more than a second short of it", killed(9), {"cpu_limit_s": 5, "cpu_ns": 4 * S - 1}, "signaled",
     "killed_cause_unknown"),
    ("a tree that used more than one process could", killed(9), {"cpu_limit_s": 5, "cpu_ns": 6 * S + 1}, "signaled",
     "killed_cause_unknown"),
    ("a CPU limit and no CPU time known", killed(9), {"cpu_limit_s": 5}, "signaled", "killed_cause_unknown"),
    ("a file beyond its limit", killed(25), {"file_size_limit_bytes": 1 << 20}, "signaled", "file_size_limit"),
    ("SIGXFSZ without a limit of ours", killed(25), {}, "signaled", "killed_cause_unknown"),
    ("a limit on files and another signal", killed(9), {"file_size_limit_bytes": 1 << 20}, "signaled",
     "killed_cause_unknown"),
    ("a CPU limit and another signal", killed(15), {"cpu_limit_s": 5, "cpu_ns": 5 * S}, "signaled",
     "killed_cause_unknown"),
    ("sandbox failed", exited(1), {"sandboxed": True, "program_reached": False}, "exited", "sandbox_setup_failed"),
    ("sandbox failed with landrun's own code", exited(125), {"sandboxed": True, "program_reached": False}, "exited",
     "sandbox_setup_failed"),
    ("the program failed", exited(1), {"sandboxed": True, "program_reached": True}, "exited", "completed"),
    ("not known whether it was reached", exited(1), {"sandboxed": True, "program_reached": None}, "exited",
     "completed"),
    ("no sandbox", exited(1), {"sandboxed": False, "program_reached": False}, "exited", "completed"),
    ("sandbox says 0 without the program", exited(0), {"sandboxed": True, "program_reached": False}, "exited",
     "completed"),
    ("sandbox killed before the program", killed(9), {"sandboxed": True, "program_reached": False}, "signaled",
     "killed_cause_unknown"),
    ("disk full", exited(1), {"disk_free_min_bytes": (1 << 20) - 1}, "exited", "disk_full"),
    ("disk nearly full", exited(1), {"disk_free_min_bytes": 1 << 20}, "exited", "completed"),
    ("disk full and no harm done", exited(0), {"disk_free_min_bytes": 0}, "exited", "completed"),
    ("killed on a full disk", killed(25), {"disk_free_min_bytes": 0}, "signaled", "disk_full"),
    ("a fault of its own", killed(11, core=True), {}, "signaled", "crashed"),
    ("abort", killed(6), {}, "signaled", "crashed"),
    ("our time limit", killed(9), {"time_limit_ns": S}, "timed_out", "time_limit"),
    ("our time limit, and it had just ended", exited(0), {"time_limit_ns": S}, "timed_out", "time_limit"),
    ("our time limit beats the OOM kills it left", killed(9), {"time_limit_ns": S, "oom_kill_count": 1}, "timed_out",
     "time_limit"),
    ("exec failed", exited(127), {"exec_errno": 2}, "not_started", "not_started"),
    ("exec failed, time limit passed", exited(127), {"exec_errno": 2, "time_limit_ns": S}, "not_started",
     "not_started"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "seen", "kind", "cause"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_cause_is_what_the_evidence_says(status: int, seen: dict[str, Any], kind: str, cause: str) -> None:
    found = judge(status, evidence(**seen))
    assert (found["kind"], found["cause"]) == (kind, cause), found
    assert isinstance(found["evidence"], list)
    assert found["evidence"]


def every_combination() -> Iterator[tuple[int, Evidence]]:
    """Every kind of ending with every kind of evidence."""
    statuses = [exited(code) for code in (0, 1, 101, 125, 126, 127, 137, 255)]
    statuses += [killed(number) for number in (1, 2, 6, 9, 11, 13, 15, 24, 25, 31, 34, 64)] + [killed(11, core=True)]
    choices: list[tuple[str, tuple[Any, ...]]] = [
        ("caller_signal", (None, 15)),
        ("time_limit_ns", (None, S)),
        ("exec_errno", (None, 2)),
        ("oom_kill_count", (None, 0, 3)),
        ("memory_limit_scope", (None, "/a")),
        ("cpu_limit_s", (None, 5)),
        ("cpu_ns", (None, 5 * S, 50 * S)),
        ("disk_free_min_bytes", (None, 0, GIB)),
        ("sandboxed", (False, True)),
        ("program_reached", (None, False, True)),
    ]
    names = [name for name, _ in choices]
    for values in itertools.product(*(values for _, values in choices)):
        seen = evidence(**dict(zip(names, values, strict=True)))
        for status in statuses:
            yield status, seen


def test_no_combination_reads_as_success_for_a_killed_command() -> None:
    combinations = 0
    for status, seen in every_combination():
        combinations += 1
        found = judge(status, seen)
        was_killed = status & 127 != 0
        if was_killed:
            assert found["kind"] != "exited", (status, found)
            assert found["cause"] != "completed", (status, found)
            assert found["code"] is None, (status, found)
        if seen.time_limit_ns is not None or seen.exec_errno is not None:
            assert found["cause"] != "completed", found
        if found["kind"] == "exited":
            assert found["code"] == status >> 8
            assert found["signal"] is None
        if found["kind"] == "signaled":
            assert found["signal"] == status & 127
            assert found["core_dumped"] is bool(status & 128)
        if found["kind"] == "not_started":
            assert (found["code"], found["signal"], found["core_dumped"]) == (None, None, None)
            assert found["errno"] == seen.exec_errno
        if seen.oom_kill_count and found["kind"] in ("exited", "signaled"):
            said = found["evidence"]
            assert isinstance(said, list)
            assert any("killed for memory" in str(line) for line in said)
        assert found["evidence"]
    assert combinations > 60_000


@pytest.mark.parametrize("number", range(1, 65))
def test_a_signal_is_never_exit_code_0(number: int) -> None:
    assert outcome.exit_code(killed(number)) == 128 + number


@pytest.mark.parametrize("code", range(256))
def test_an_exit_code_is_passed_on(code: int) -> None:
    assert outcome.exit_code(exited(code)) == code


def test_signals_have_their_names() -> None:
    from proofcost.harness import signals

    for number in signal.Signals:
        if signals.name(number) != f"signal {int(number)}":
            assert signals.name(number) == number.name
    assert signals.name(42) == "signal 42"
