"""A pid namespace whose /proc is still the outer one (`unshare -pf` alone): a number there is a stranger's.

Each test puts a process outside under the very number that one of ours has inside, and looks whether it was taken for
ours.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wrapped import Call, Recorded, Wrapper

from proofcost.harness import procfs

MIB = 1 << 20
INSIDE = ("unshare", "--pid", "--fork", "/bin/sh", "-c")
NEXT = "echo {} > /proc/sys/kernel/ns_last_pid; "
"""Of the shell inside: the number before the one that its next child gets."""

IGNORES_ONE = "import signal as s; s.signal(s.SIGPIPE, s.SIG_IGN); s.signal(s.SIGXFSZ, s.SIG_DFL)"

Stranger = Callable[[str], int]


@pytest.fixture(autouse=True)
def namespaces(as_root: None) -> None:
    done = subprocess.run([*INSIDE, NEXT.format(4000)], capture_output=True, check=False)
    if done.returncode != 0 or done.stderr:
        pytest.skip(f"no pid namespaces here, or their next number cannot be chosen: {done.stderr!r}")


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """Starts a Python outside that runs a text and then sleeps; its number."""
    made: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> int:
        words = [sys.executable, "-ISc", f"{code}\nprint(flush=True)\nimport time; time.sleep(600)"]
        made.append(subprocess.Popen(words, stdout=subprocess.PIPE, restore_signals=False))
        pipe = made[-1].stdout
        assert pipe is not None
        assert pipe.readline() == b"\n"
        return made[-1].pid

    yield start
    for one in made:
        one.kill()
        one.communicate()


def inside(wrap: Wrapper, command: str, before: str = "", after: str = "exit $?") -> Call:
    """A shell that is process 1 inside, and in it the launcher around `command`, a shell's text."""
    return wrap("/bin/sh", "-c", command, via=(*INSIDE, f'{before}"$@"; {after}', "sh"), timeout=20)


def meter_of(seen: Recorded) -> int:
    found: int = seen.started["process"]["meter_pid"]
    return found


def test_a_number_is_found_and_given_back_through_the_outer_proc() -> None:
    code = (
        "import os; from proofcost.harness import procfs as p; me = os.getpid(); one = os.fork()\n"
        "if not one: os.execvp('sleep', ['sleep', '60'])\n"
        "while p.name_of(one) != b'sleep': pass\n"
        "print(me, p.counts_as_we_do(), p.parent_and_start(one)[0], p.children_of(me) == [one],"
        " p.tree_of(me) == [me, one], p.start_ticks(me) == p.start_ticks('self'),"
        " p.parent_and_start(me)[0], p.parent_and_start(1)[0],"
        " p.folder_of(2_000_000), p.is_stopped(one))\n"
        "os.kill(one, 19)\n"
        "while not p.is_stopped(one): pass\n"
        "os.kill(one, 9); os.wait(); print(p.is_stopped(one), p.children_of(me))"
    )
    text = NEXT.format(5000) + '"$@"; exit $?'
    done = subprocess.run(
        [*INSIDE, text, "sh", sys.executable, "-c", code], capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode().split("\n") == ["5001 False 5001 True True True 1 0 None False", "None []", ""]
    assert procfs.counts_as_we_do()


@pytest.mark.parametrize("stop", ["STOP", "TSTP"])
def test_a_command_that_stops_and_is_woken_by_another_keeps_no_caller_waiting(wrap: Wrapper, stop: str) -> None:
    call = inside(wrap, f"(sleep .5; kill -CONT $$) & kill -{stop} $$; echo awake; exit 3")
    assert (call.status, call.stdout, call.stderr) == (3, b"awake\n", b"")
    assert call.wall_s < 20


def test_without_any_proc_a_stop_keeps_no_caller_waiting_either(wrap: Wrapper) -> None:
    script = 'mount -t tmpfs tmpfs /proc && "$@"; exit $?'
    command = "(sleep .5; kill -CONT $$) & kill -STOP $$; echo awake; exit 3"
    call = wrap("/bin/sh", "-c", command, via=("unshare", "--mount", "/bin/sh", "-c", script, "sh"), timeout=20)
    assert (call.status, call.stdout, call.stderr) == (3, b"awake\n", b"")


@pytest.mark.parametrize("cgroup", ["auto", "off"])
def test_memory_is_the_command_s_and_no_stranger_s(wrap: Wrapper, stranger: Stranger, cgroup: str) -> None:
    wrapper = wrap.with_options(cgroup=cgroup)
    number = stranger("much = b'x' * (400 << 20)")
    use = "import time; much = b'x' * (60 << 20); time.sleep(1.5)"
    # The launcher's is the one before, the command's its own.
    launcher = wrapper.command([sys.executable, "-ISc", use])
    done = subprocess.run(
        [*INSIDE, NEXT.format(number - 2) + '"$@"; exit $?', "sh", *launcher], check=False, timeout=60
    )
    assert done.returncode == 0
    seen = wrapper.last()
    assert meter_of(seen) == number - 1
    for name in ("memory_peak_process", "memory_peak_tree"):
        assert 60 * MIB < seen.value(name) < 200 * MIB, seen.figures[name]
    assert seen.finished is not None
    assert seen.finished["meter_cost"]["memory_peak_bytes"] < 60 * MIB


def test_signals_are_as_the_caller_inside_had_them(wrap: Wrapper, stranger: Stranger) -> None:
    number = stranger(IGNORES_ONE)
    ask = "grep SigIgn /proc/self/status"
    bare = subprocess.run([*INSIDE, ask], capture_output=True, check=True)
    words = wrap.command(["/bin/sh", "-c", ask])
    as_parent = f"""{NEXT.format(number - 1)} /bin/sh -c '"$@"; exit $?' sh "$@"; exit $?"""
    done = subprocess.run([*INSIDE, as_parent, "sh", *words], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, bare.stdout)
    assert wrap.last().started["process"]["parent_pid"] == number


def test_a_caller_with_the_number_of_a_meter_outside_is_no_meter(wrap: Wrapper) -> None:
    outer = subprocess.Popen(wrap.command(["/bin/sh", "-c", "read line"]), stdin=subprocess.PIPE)
    try:
        while not procfs.children_of(outer.pid):
            time.sleep(0.01)
        as_parent = f"""{NEXT.format(outer.pid - 1)} /bin/sh -c '"$@"; exit $?' sh "$@"; exit $?"""
        words = wrap.command(["/bin/sh", "-c", "exit 3"], phase="export")
        done = subprocess.run([*INSIDE, as_parent, "sh", *words], check=False, timeout=60)
    finally:
        outer.communicate(b"\n", timeout=60)
    assert done.returncode == 3
    seen = [one for one in wrap.records() if one.started["phase"]["given"] == "export"]
    assert [one.outcome["code"] for one in seen] == [3]
    assert seen[0].started["process"]["parent_pid"] == outer.pid


def test_each_namespace_is_a_session_and_the_calls_of_one_judge_are_one(wrap: Wrapper) -> None:
    for _ in range(2):
        judge = shlex.join(wrap.command(["/bin/true"]))
        subprocess.run([*INSIDE, f"{judge}; {judge}; exit"], check=True, timeout=60)
    sessions = [one.started["session"] for one in wrap.records()]
    assert len(sessions) == 4
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]


def test_calls_without_proc_are_no_session_by_their_number_alone(wrap: Wrapper) -> None:
    for _ in range(2):
        script = NEXT.format(6000) + 'mount -t tmpfs tmpfs /proc && "$@"; exit $?'
        assert wrap("/bin/true", via=("unshare", "--mount", *INSIDE[1:], script, "sh")).status == 0
    one, other = (seen.started for seen in wrap.records())
    assert one["process"]["meter_pid"] == other["process"]["meter_pid"]
    assert one["session"] != other["session"]


def test_a_time_limit_ends_the_tree_inside_and_no_stranger(wrap: Wrapper, stranger: Stranger, tmp_path: Path) -> None:
    """Outside, the number of the judge inside has children; their numbers are those of others inside."""
    number = stranger("import os\nfor _ in range(4): os.fork() or os.execvp('sleep', ['sleep', '600'])")
    theirs = procfs.children_of(number)
    assert len(theirs) == 4
    try:
        mark = tmp_path / "lived"
        bystanders = "".join(f"{NEXT.format(one - 1)} (sleep 4; echo >> {mark}) & " for one in theirs)
        run = f"{sys.executable} -m proofcost run --store {wrap.store} --cgroup off --timeout 1s -- "
        judge = f"/bin/sh -c 'sleep 60 & echo $! > {tmp_path / 'child'}; wait'"
        look = f"kill -0 $(cat {tmp_path / 'child'}) && echo left; wait"
        text = f"{bystanders} {NEXT.format(number - 2)} {run} {judge}; {look}"
        done = subprocess.run([*INSIDE, text], capture_output=True, check=False, timeout=60)
    finally:
        for one in theirs:
            os.kill(one, signal.SIGKILL)
    seen = wrap.last()
    assert (seen.outcome["kind"], seen.started["process"]["meter_pid"]) == ("timed_out", number - 1), done.stderr
    assert b"left" not in done.stdout
    assert mark.read_text() == "\n" * 4


def test_a_fault_before_the_start_takes_no_stranger_for_the_caller(wrap: Wrapper, stranger: Stranger) -> None:
    number = stranger(IGNORES_ONE)
    words = wrap.command(["/bin/sh", "-c", "grep SigIgn /proc/self/status"])
    launcher = Path(words[0])
    launcher.write_text(launcher.read_text().replace(str(wrap.tree), "/nowhere"))
    bare = subprocess.run([*INSIDE, "grep SigIgn /proc/self/status"], capture_output=True, check=True)
    as_parent = f"""{NEXT.format(number - 1)} /bin/sh -c '"$@"; exit $?' sh "$@"; exit $?"""
    done = subprocess.run([*INSIDE, as_parent, "sh", *words], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, bare.stdout)
    assert len(wrap.marks()) == 1


@pytest.mark.parametrize("named", ["unified", "memory"])
def test_what_is_left_outside_is_not_settled_from_inside(wrap: Wrapper, named: str) -> None:
    """A v1 cgroup does not list whom a namespace cannot see: it looks empty from there."""
    outside = wrap("/bin/sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!")
    straggler = int(outside.stdout)
    seen = wrap.last()
    where = seen.started["cgroup"]["paths"].get(named)
    settle = (
        "from proofcost.harness import settle; import sys; place, owner, one, kind, where = sys.argv[1:]\n"
        "print(settle.settle(place, owner, one, {kind: where}, 'meter'))"
    )
    ids = (seen.started["session"], seen.started["invocation"])
    try:
        if where is None:
            pytest.skip(f"no {named} hierarchy here")
        words = [sys.executable, "-c", settle, str(wrap.store), *ids, named, where]
        done = subprocess.run([*INSIDE, '"$@"; exit $?', "sh", *words], capture_output=True, check=True, timeout=60)
        assert done.stdout == b"False\n"
        assert inside(wrap, "exit 3").status == 3
        assert wrap.records()[0].settled is None
    finally:
        os.kill(straggler, signal.SIGKILL)
    while procfs.exists(straggler) and procfs.is_running(straggler, procfs.start_ticks(straggler) or 0):
        time.sleep(0.01)
    assert inside(wrap, "exit 3").status == 3
    settled = wrap.records()[0].settled
    assert settled is not None
    assert settled["measurements"]["cpu_tree"]["value"] > 0
    assert wrap.left_cgroups() == []
