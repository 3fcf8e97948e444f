"""What outlives a command: counted, left alone or killed as asked, and its cgroup taken away in the end."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wrapped import IN_GUEST, PATIENCE_S, Wrapper

from proofcost.harness import cgroup, procfs, settle

Hostile = Callable[[str], Path]

pytestmark = pytest.mark.guest

DAEMONS = "for i in 1 2 3; do setsid sleep 300 </dev/null >/dev/null 2>&1 & done; pids={pids}; jobs -p >$pids; exit 3"


def pids_in(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def end(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    until = time.monotonic() + PATIENCE_S
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.02)


def started_three(wrap: Wrapper) -> tuple[int, list[int]]:
    file = wrap.folder / "pids"
    called = wrap("/bin/bash", "-c", DAEMONS.format(pids=file))
    return called.status, pids_in(file)


def test_they_are_counted_and_live_on(wrap: Wrapper) -> None:
    status, pids = started_three(wrap)
    try:
        assert status == 3
        assert len(pids) == 3
        assert all(alive(pid) for pid in pids)
        call = wrap.last()
        assert call.finished is not None
        assert call.finished["stragglers"] == {"count": 3, "action": "reported", "reason": None}
        assert call.status("cpu_tree") == "lower_bound"
        assert wrap.left_cgroups() != []
        wrap("/bin/true")
        assert wrap.records()[0].settled is None  # nothing is final while they live
    finally:
        end(pids)
    wrap("/bin/true")
    settled = wrap.records()[0].settled
    assert settled is not None
    assert settled["settled_by"] == "meter"
    assert wrap.left_cgroups() == []


def test_they_are_killed_when_asked_and_still_counted(wrap: Wrapper) -> None:
    mine = wrap.with_options(kill_stragglers=True)
    status, pids = started_three(mine)
    assert status == 3
    assert not any(alive(pid) for pid in pids)
    call = mine.last()
    assert call.finished is not None
    assert call.finished["stragglers"] == {"count": 3, "action": "killed", "reason": None}
    assert call.status("cpu_tree") == "measured"
    assert mine.left_cgroups() == []


def test_what_is_only_just_ending_is_no_straggler(wrap: Wrapper) -> None:
    """Ten processes that end with their parent take a moment to do so; a longer one on a machine that is busy."""
    seen: list[int] = []
    while len(seen) < 5 and 0 not in seen:
        wrap("/bin/bash", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.002 & done; exit 0")
        call = wrap.last()
        assert call.finished is not None
        seen.append(call.finished["stragglers"]["count"])
    if not IN_GUEST:
        assert seen[-1] == 0, seen
        assert call.status("cpu_tree") == call.status("task_clock") == "measured"


@pytest.mark.parametrize("options", [(), ("--kill-stragglers",)], ids=["reported", "killed"])
def test_a_judges_stragglers_are_its_own(wrap: Wrapper, options: tuple[str, ...]) -> None:
    file = wrap.folder / "pids"
    called = wrap.run(*options, "--", "/bin/bash", "-c", DAEMONS.format(pids=file))
    pids = pids_in(file)
    try:
        assert called.status == 3
        whole = wrap.last()
        assert whole.finished is not None
        assert whole.finished["stragglers"]["count"] == 3
        assert any(alive(pid) for pid in pids) is not bool(options)
        expected = "measured" if options else "lower_bound"
        assert whole.status("cpu_tree") == whole.status("cpu_judge_self") == expected
    finally:
        end(pids)
    wrap.run("--", "/bin/true")
    assert wrap.left_cgroups() == []


def test_a_call_in_a_judge_is_settled_by_the_end_of_the_run(wrap: Wrapper, hostile: Hostile) -> None:
    """The judge waits for what its checker left behind, so at its end the rest is known."""
    call = " ".join(wrap.command([hostile("burn"), "outlive", "0.4"], "checker"))
    assert wrap.run("--", "/bin/sh", "-c", f"{call}; sleep {20 if IN_GUEST else 1.5}").status == 0
    whole, checker = wrap.records()
    assert checker.started["session"] == whole.started["session"]
    assert checker.finished is not None
    assert checker.finished["stragglers"]["count"] == 1
    assert checker.settled is not None
    assert checker.settled["settled_by"] == "run"
    assert checker.settled["measurements"]["cpu_tree"]["value"] >= 390_000_000
    assert whole.value("cpu_tree") >= 390_000_000
    assert wrap.left_cgroups() == []


def test_cgroups_that_a_command_made_in_its_own_do_not_stay(as_root: None, wrap: Wrapper) -> None:
    """As tools do that run containers; an rmdir of the outer one alone would fail for ever."""
    script = (
        "for line in $(grep -E ':memory:|^0::' /proc/self/cgroup); do path=${line##*:}; "
        'for mount in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/memory; do d="$mount$path"; '
        'case "$d" in */proofcost*) [ -d "$d" ] && mkdir -p "$d/inner/most" && echo made;; esac; done; done'
    )
    called = wrap("/bin/bash", "-c", script)
    assert b"made" in called.stdout
    assert wrap.left_cgroups() == []


@pytest.mark.parametrize("cgroup", ["auto", "off"])
def test_a_time_limit_ends_the_whole_tree(wrap: Wrapper, cgroup: str) -> None:
    file = wrap.folder / "pids"
    script = f"sleep 300 & echo $! >{file}; /bin/sh -c 'sleep 301 & echo $! >>{file}; wait'; exit 0"
    if cgroup == "auto":  # one that has left the tree; without a cgroup nobody finds it
        script = f"(setsid sleep 302 </dev/null >/dev/null 2>&1 & echo $! >{file}.left); sleep 0.1; {script}"
    limit_s = 12 if IN_GUEST else 1
    called = wrap.run("--cgroup", cgroup, "--timeout", f"{limit_s}s", "--", "/bin/sh", "-c", script)
    pids = pids_in(file)
    assert len(pids) == 2
    pids += pids_in(Path(f"{file}.left")) if cgroup == "auto" else []
    assert called.status == -9  # never 0, although the shell would have said so had it seen its child end
    assert called.wall_s < 100
    end_of_patience = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < end_of_patience:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)
    whole = wrap.last()
    assert (whole.outcome["kind"], whole.outcome["cause"]) == ("timed_out", "time_limit")
    assert whole.outcome["code"] is None
    assert f"time limit of {limit_s} s " in whole.outcome["evidence"][-1]
    assert whole.value("wall_command") >= limit_s * 10**9
    assert wrap.left_cgroups() == []


def test_a_flood_of_signals_does_not_put_a_time_limit_off(wrap: Wrapper) -> None:
    flood = "while kill -{} $PPID 2>/dev/null; do :; done"
    script = f"({flood.format('WINCH')}) & ({flood.format('URG')}) & {flood.format('IO')}"
    called = wrap.run("--timeout", "1s", "--", "/bin/bash", "-c", script, timeout=100)
    assert called.status == -9
    assert wrap.last().outcome["kind"] == "timed_out"


def test_a_command_that_ended_in_time_is_not_timed_out(wrap: Wrapper) -> None:
    assert wrap.run("--timeout", "60s", "--", "/bin/sh", "-c", "exit 7").status == 7
    assert wrap.last().outcome == {
        "kind": "exited", "code": 7, "signal": None, "core_dumped": None, "errno": None, "cause": "completed",
        "evidence": ["exit code 7"],
    }  # fmt: skip


def test_an_unfinished_call_of_another_pid_namespace_is_left_alone(tmp_path: Path) -> None:
    """Between its start and its fork its cgroup is empty, and its meter cannot be seen from here: it may well run."""
    session, invocation = "0123456789abcdef", "18ecedb1b191eb9b-4000000-8a9f1ee8"
    folder = tmp_path / "sessions" / session
    folder.mkdir(parents=True)
    mine = procfs.pid_namespace()
    for namespace, over in (("1", False), (mine, True)):
        group = tmp_path / f"cgroup-{namespace}"
        group.mkdir()
        event = f'{{"event":"started","process":{{"meter_start_ticks":1,"pid_namespace":"{namespace}"}}}}\n'
        (folder / f"{invocation}.jsonl").write_text(event)
        assert settle.settle(str(tmp_path), session, invocation, {"unified": str(group)}, "meter") is over
        assert (folder / f"{invocation}.settled.jsonl").exists() is over
        assert group.exists() is not over


def test_leftovers_of_other_stores_do_not_keep_ours_from_being_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, invocation = "0123456789abcdef", "f-4000000-8a9f1ee8"
    folder = tmp_path / "store" / "sessions" / session
    folder.mkdir(parents=True)
    (folder / f"{invocation}.jsonl").write_text('{"event":"started"}\n{"event":"finished"}\n')
    base = tmp_path / "cgroup"
    fresh = f"{time.time_ns():x}"
    for number in range(200):
        (base / f"proofcost.{number:016x}.{fresh}-1-{number:08x}").mkdir(parents=True)
    ours = base / f"proofcost.{session}.{invocation}"
    ours.mkdir()
    real = cgroup.left_over
    monkeypatch.setattr(
        cgroup, "left_over", lambda at, prefix: sorted(real(at, prefix), key=lambda name: session in name)
    )
    settle.pass_by(str(tmp_path / "store"), session, {"unified": str(base)}, False, "own")
    assert (folder / f"{invocation}.settled.jsonl").exists()
    assert not ours.exists()
