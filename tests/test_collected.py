"""`run --as`: root keeps the records, another user judges, and no verdict changes."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from kept import CALL, PYTHON, Judged
from test_record_contract import check
from wrapped import NOBODY, PATIENCE_S

from proofcost.harness import procfs


@pytest.mark.guest
def test_the_judge_is_another_user_and_its_calls_are_kept_by_root(judged: Judged) -> None:
    ended = judged.shell(f"id -un; id -G; echo $HOME $USER $LOGNAME; {CALL} /bin/sh -c 'id -un; exit 3'; exit $?")
    assert ended.status == 3
    assert ended.stdout.decode().split() == ["nobody", "65534", "/nonexistent", "nobody", "nobody", "nobody"]
    assert ended.stderr == b""
    [one] = judged.calls()
    whole = judged.whole()
    check(one)
    check(whole, whole=True)
    assert one.outcome["code"] == whole.outcome["code"] == 3
    assert one.faults == whole.faults == []
    assert one.started["trust"] == whole.started["trust"] == "collected"
    assert (one.started["process"]["uid"], whole.started["process"]["uid"]) == (NOBODY, 0)
    assert whole.started["process"]["judge_user"] == {"name": "nobody", "uid": 65534, "gid": 65534, "groups": [65534]}
    assert one.started["host"] == whole.started["host"]
    assert one.started["session"] == whole.started["session"]
    for path in (judged.store, *judged.store.rglob("*")):
        info = path.stat()
        assert (info.st_uid, info.st_mode & 0o077) == (0, 0), path


@pytest.mark.guest
def test_a_record_says_which_process_the_kernel_saw(judged: Judged) -> None:
    judged.shell(f"bash -c '{CALL} /bin/true; true'; exit 0")
    [one] = judged.calls()
    seen = one.started["process"]["collector"]
    assert seen["pid"] == one.started["process"]["meter_pid"]
    assert seen["start_ticks"] == one.started["process"]["meter_start_ticks"]
    assert (seen["uid"], seen["gid"], seen["from_judge"]) == (NOBODY, NOBODY, True)
    assert [above["name"] for above in seen["ancestry"]] == ["bash", "bash"]
    assert seen["ancestry"][0]["pid"] == one.started["process"]["parent_pid"]


def test_a_call_from_a_daemon_does_not_come_from_the_judge(judged: Judged) -> None:
    """Its parents are gone, so nothing leads to the judge: the record says so."""
    script = f"(setsid bash -c 'sleep 0.3; {CALL} /bin/true; touch done' </dev/null >/dev/null 2>&1 &) ; " \
        "while [ ! -e done ]; do sleep 0.02; done"  # fmt: skip
    assert judged.shell(script).status == 0
    [one] = judged.calls()
    assert one.started["process"]["collector"]["from_judge"] is False


@pytest.mark.guest
def test_the_cost_of_a_call_is_the_cost_of_its_whole_tree(judged: Judged) -> None:
    burn = """import os, sys, time
while time.process_time() < 0.3: pass
x = bytearray(80 << 20)
open("up" + sys.argv[1], "w").close()
while not (os.path.exists("up1") and os.path.exists("up2")): time.sleep(0.01)
time.sleep(0.15)
"""
    (judged.work / "burn.py").write_text(burn)
    judged.shell(f"{CALL} /bin/sh -c '{PYTHON} burn.py 1 & {PYTHON} burn.py 2 & wait'; true")
    [one] = judged.calls()
    whole = judged.whole()
    if not one.started["cgroup"]["paths"]:
        pytest.skip("no cgroup here")
    assert one.value("cpu_tree") > 0.6e9
    assert one.status("cpu_tree") == "measured"
    assert whole.value("cpu_tree") >= one.value("cpu_tree") + whole.value("cpu_judge_self")
    if one.figures["memory_peak_tree"]["status"] == "measured":
        assert 160 << 20 < one.value("memory_peak_tree") < 230 << 20
        assert whole.value("memory_peak_tree") >= one.value("memory_peak_tree")


def test_what_the_users_meter_cannot_count_is_null_with_its_reason(judged: Judged) -> None:
    judged.shell(f"{CALL} /bin/true")
    [one] = judged.calls()
    paranoid = procfs.read_int("/proc/sys/kernel/perf_event_paranoid")
    if paranoid is not None and paranoid >= 2:
        for name in ("context_switches", "cpu_migrations"):
            assert one.figures[name]["value"] is None
            assert one.figures[name]["reason"] in (
                "counter_reads_zero_when_user_only", "counter_permission_denied", "counter_not_supported"
            )  # fmt: skip


@pytest.mark.parametrize(
    "end", ["exit 0", "exit 1", "exit 125", "exit 255", "kill -9 $$", "kill -TERM $$", "kill -SEGV $$"]
)
def test_run_ends_as_the_judge_ends(judged: Judged, end: str) -> None:
    bare = subprocess.run(["/bin/bash", "-c", end], check=False).returncode
    ended = judged.shell(end)
    assert (ended.status, ended.stdout, ended.stderr) == (bare, b"", b"")
    assert judged.seal()["complete"] is True


def test_a_judge_that_cannot_be_found_or_started_is_not_started(judged: Judged) -> None:
    assert judged(["/nonexistent/judge"]).status == 127
    secret = judged.folder / "roots-own"
    secret.write_text("#!/bin/sh\n")
    secret.chmod(0o700)
    assert judged([secret]).status == 126, "root may execute it, the judge's user may not"
    assert [one.outcome["kind"] for one in judged.records()] == ["not_started"] * 2


def test_signals_reach_the_judge(judged: Judged) -> None:
    with judged.started(["/bin/bash", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 9
    assert judged.whole().outcome["cause"] == "terminated_by_caller"


def test_a_time_limit_ends_everything(judged: Judged) -> None:
    ended = judged.shell("setsid sleep 50 & sleep 50", "--timeout", "300ms")
    assert ended.status == -signal.SIGKILL
    assert judged.whole().outcome["kind"] == "timed_out"


def test_a_memory_limit_holds_for_judge_and_calls_together(judged: Judged) -> None:
    ended = judged.shell(f"{CALL} {PYTHON} -c 'x = bytearray(300 << 20)'; exit $?", "--memory", "100M")
    if ended.status == 2:
        pytest.skip("no memory controller here")
    assert ended.status == 137
    [one] = judged.calls()
    assert (one.outcome["signal"], one.outcome["cause"]) == (signal.SIGKILL, "memory_limit")
    assert judged.whole().started["limits"]["memory_limit_bytes"] == 100_000_000


@pytest.mark.guest
def test_what_outlives_the_judge_is_killed(judged: Judged) -> None:
    script = "for n in 1 2 3; do setsid sleep 60 </dev/null >/dev/null 2>&1 & done; exit 4"
    assert judged.shell(script).status == 4
    whole = judged.whole()
    if not whole.started["cgroup"]["paths"]:
        pytest.skip("no cgroup here")
    assert whole.finished is not None
    assert whole.finished["stragglers"] == {"count": 3, "action": "killed", "reason": None}
    assert judged.left() == []


@pytest.mark.guest
def test_a_straggler_that_holds_the_door_holds_nothing_up(judged: Judged) -> None:
    """Without a cgroup nobody can find it; it has the door, and `run` and the collector end all the same."""
    script = "setsid sleep 300 </dev/null >/dev/null 2>&1 & exit 4"
    assert judged.shell(script, "--cgroup", "off").status == 4
    [straggler] = judged.processes()
    assert procfs.name_of(straggler) == b"sleep"
    assert Path(f"/proc/{straggler}/fd/198").is_symlink()
    os.kill(straggler, signal.SIGKILL)
    assert judged.seal()["complete"] is True
    assert judged.whole().finished["stragglers"]["count"] is None  # type: ignore[index]
    judged.wait_for(lambda: not judged.processes(), "the straggler is gone")


def test_many_calls_at_once(judged: Judged) -> None:
    script = f'for n in $(seq 40); do {CALL} /bin/sh -c "exit $n" & done; wait'
    assert judged.shell(script).status == 0
    assert sorted(one.outcome["code"] for one in judged.calls()) == list(range(1, 41))
    seal = judged.seal()
    assert seal["complete"] is True
    assert (seal["collector"]["started_count"], seal["collector"]["finished_count"]) == (40, 40)
    assert seal["collector"]["refused"] == {}


def test_calls_one_after_the_other_share_nothing(judged: Judged) -> None:
    judged.shell(f"for n in 1 2 3; do {CALL} /bin/sh -c 'exit 0'; done")
    ids = [one.started["invocation"] for one in judged.calls()]
    assert len(set(ids)) == 3
    assert [one.started["session_known_by"] for one in judged.calls()] == ["baked"] * 3


def test_the_command_inherits_nothing_of_ours(judged: Judged) -> None:
    listing = f"{PYTHON} -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'"
    bare = judged.shell(f"exec {listing}", "--shims", "none", "--cgroup", "off")
    wrapped = judged.shell(f"{CALL} {listing}")
    assert wrapped.status == 0
    assert json.loads(bare.stdout)[-1] == 198, "the judge has the door"
    assert json.loads(wrapped.stdout) == json.loads(bare.stdout)[:-1]
