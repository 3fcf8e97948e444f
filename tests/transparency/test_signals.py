"""Signals that reach the meter are the command's; what they do to the command is its caller's to see."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import BARE, PHASE, RUN, WAYS, Wrap, call, has_ended, running, state, wait_for

from proofcost.harness import procfs, spawn
from transparency.states import CHANGEABLE, prctl
from transparency.test_statuses import STOPPING

# What a process does to itself by a fault of its own: sent by another one, these end the meter (docs/transparency.md).
FAULTS = (signal.SIGILL, signal.SIGTRAP, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS)
FORWARDED = tuple(sorted({*CHANGEABLE} - {signal.SIGCHLD, *FAULTS, *STOPPING}))
_PR_SET_PDEATHSIG = 1


def the_command_of(meter: int, *names: str) -> int:
    """The pid of the command once it has been executed (its comm is not the interpreter's any more)."""

    def look() -> int:
        children = Path(f"/proc/{meter}/task/{meter}/children").read_text().split()
        if not children:
            return 0
        name = Path(f"/proc/{children[0]}/comm").read_text().strip()
        return int(children[0]) if name in (names or ("sleep", "sh", "cat", "act")) else 0

    return int(wait_for(look, "the command's start"))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def processes_in(folder: Path) -> list[int]:
    """Whatever still runs from a test's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def noting(act: Path, notes: Path, count: int, *numbers: int) -> list[str | bytes]:
    """A command that notes these signals and ends after `count` of them."""
    return [str(act), "note", str(notes), str(count), *[str(int(number)) for number in numbers]]


def noted(notes: Path) -> list[int]:
    return [int(line) for line in notes.read_text().split()[1:]]


def until_ready(notes: Path) -> None:
    wait_for(lambda: notes.exists() and notes.read_text().startswith("ready\n"), "the command's start")


@pytest.mark.parametrize("way", [pytest.param(PHASE, marks=pytest.mark.guest_all), *[w for w in WAYS if w != PHASE]])
def test_signals_sent_to_the_meter_alone_reach_the_command(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """Each once, in order; all 64 but those that stop, and those below."""
    notes = tmp_path / "notes"
    argv = wrap.argv(way, noting(act, notes, len(FORWARDED), *FORWARDED))
    with running(argv, stdin=subprocess.DEVNULL) as started:
        until_ready(notes)
        for at, number in enumerate(FORWARDED, 1):
            started.send_signal(number)
            wait_for(lambda at=at: len(noted(notes)) == at, f"signal {number}")  # type: ignore[misc]
        assert started.wait() == 5
    assert noted(notes) == [int(number) for number in FORWARDED]
    [one] = wrap.records()
    assert one["finished"]["outcome"]["code"] == 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", FAULTS)
def test_another_s_fault_signal_ends_meter_and_command(wrap: Wrap, act: Path, way: str, number: int) -> None:
    """A difference only where the command would have survived it; never a success."""
    with running(wrap.argv(way, [str(act), "ring"])) as started:
        command = the_command_of(started.pid)
        started.send_signal(number)
        assert started.wait() == -number
        wait_for(lambda: has_ended(command), "the command's end", 2)
    [one] = wrap.records()
    assert set(one) == {"started"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_caller_that_ends_the_meter_ends_the_command(wrap: Wrap, way: str, number: signal.Signals) -> None:
    with running(wrap.argv(way, ["/bin/sleep", "30"]), stdout=subprocess.DEVNULL) as started:
        command = the_command_of(started.pid)
        started.send_signal(number)
        assert started.wait(timeout=10) == (-number if way == RUN else 128 + number)
    assert has_ended(command)
    outcome = wrap.records()[0]["finished"]["outcome"]
    assert (outcome["kind"], outcome["signal"], outcome["cause"]) == ("signaled", number, "terminated_by_caller")


@pytest.mark.parametrize("way", [pytest.param(PHASE, marks=pytest.mark.guest), *[w for w in WAYS if w != PHASE]])
def test_a_killed_meter_takes_the_command_with_it(tmp_path: Path, wrap: Wrap, way: str) -> None:
    """Whoever kills its child means the command. `started` stays alone: incomplete, not missing."""
    with running(wrap.argv(way, ["/bin/sleep", "30"])) as started:
        command = the_command_of(started.pid)
        started.kill()
        assert started.wait() == -9
        wait_for(lambda: has_ended(command), "the command's end", 2)
    [one] = wrap.records()
    assert set(one) == {"started"}
    assert call(wrap.argv(way, ["/bin/true"]), tmp_path / "s").code == 0
    left = [path for path in one["started"]["cgroup"]["paths"].values() if Path(path).exists()]
    assert left == [], "the next call took away what the killed one had made"


@pytest.mark.parametrize("way", [pytest.param(PHASE, marks=pytest.mark.guest_all), *[w for w in WAYS if w != PHASE]])
def test_a_killed_meter_takes_along_a_command_that_another_thread_executed(
    tmp_path: Path, wrap: Wrap, hostile: Callable[[str], Path], way: str
) -> None:
    """As programs in Go do, landrun among them: the host's kernel then forgets that it was to die with its parent."""
    argv = wrap.argv(way, [str(hostile("execs")), "thread", "-", "/bin/sleep", "60"])
    with running(argv) as started:
        command = the_command_of(started.pid)
        wait_for(lambda: len(children(started.pid)) == 2, "the guard")
        started.kill()
        assert started.wait() == -9
        wait_for(lambda: has_ended(command), "the command's end", 5)
        wait_for(lambda: not processes_in(tmp_path), "the guard's end", 5)


@pytest.mark.parametrize("way", WAYS)
def test_the_guard_holds_nothing_and_is_gone_with_the_meter(tmp_path: Path, wrap: Wrap, way: str) -> None:
    with running(wrap.argv(way, ["/bin/sleep", "0.6"]), cwd=tmp_path, stdout=subprocess.PIPE) as started:
        command = the_command_of(started.pid)
        wait_for(lambda: len(children(started.pid)) == 2, "the guard")
        [other] = [pid for pid in children(started.pid) if pid != command]
        wait_for(lambda: os.readlink(f"/proc/{other}/cwd") == "/", "its leaving the folder")
        links = {os.readlink(f"/proc/{other}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{other}/fd")}
        assert links == {"pipe", "anon_inode"}
        assert started.stdout is not None
        assert started.stdout.read() == b""
        assert started.wait() == 0
    assert procfs.start_ticks(other) is None
    [one] = wrap.records()
    assert one["finished"]["faults"] == []
    assert one["finished"]["stragglers"]["count"] in (0, None)


# Stops.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", STOPPING)
def test_a_stopped_command_stops_its_meter_and_goes_on_with_it(wrap: Wrap, act: Path, way: str, number: int) -> None:
    # A group of its own below us: an orphaned one, as a service's may be, is stopped by SIGSTOP alone.
    with running(wrap.argv(way, [str(act), "die", str(int(number))]), process_group=0) as started:
        _, status = os.waitpid(started.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGSTOP, "whichever it was: docs/transparency.md"
        started.send_signal(signal.SIGCONT)
        assert started.wait(timeout=10) == 3


@pytest.mark.parametrize("way", [pytest.param(PHASE, marks=pytest.mark.guest_all), *[w for w in WAYS if w != PHASE]])
def test_a_command_that_others_stop_and_continue_ends_as_it_would(wrap: Wrap, way: str) -> None:
    """As `cpulimit` does: only the command gets SIGCONT. A meter left stopped would hold its caller up for ever."""
    with running(wrap.argv(way, ["/bin/sleep", "0.5"])) as started:
        command = the_command_of(started.pid)
        for _ in range(3):
            os.kill(command, signal.SIGSTOP)
            wait_for(lambda: state(command) == "T", "the command's stop")
            time.sleep(0.03)
            os.kill(command, signal.SIGCONT)
            time.sleep(0.03)
        assert started.wait(timeout=10) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_sent_to_the_meter_alone_stops_the_meter_alone(wrap: Wrap, act: Path, way: str) -> None:
    """Nobody is told of a SIGSTOP. The command works on; its end is seen once the meter goes on."""
    with running(wrap.argv(way, [str(act), "ring"])) as started:
        command = the_command_of(started.pid)
        started.send_signal(signal.SIGSTOP)
        wait_for(lambda: state(started.pid) == "T", "the meter's stop")
        assert state(command) != "T"
        os.kill(command, signal.SIGUSR1)
        wait_for(lambda: has_ended(command), "the command's end")
        started.send_signal(signal.SIGCONT)
        assert started.wait(timeout=10) == (-signal.SIGUSR1 if way == RUN else 128 + signal.SIGUSR1)


# Groups.


@pytest.mark.parametrize("way", [BARE, *WAYS])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_ends_all(wrap: Wrap, act: Path, way: str, number: int) -> None:
    with running(wrap.argv(way, [str(act), "ring"]), start_new_session=True) as started:
        command = started.pid if way == BARE else the_command_of(started.pid)
        if way == BARE:
            wait_for(lambda: Path(f"/proc/{command}/comm").read_text() == "act\n", "the command's start")
        os.killpg(started.pid, number)
        # Of SIGKILL the meter dies as its command does, before it could say so.
        expected = -number if way in (BARE, RUN) or number == signal.SIGKILL else 128 + number
        assert started.wait(timeout=10) == expected
        wait_for(lambda: has_ended(command), "the command's end")


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_a_handler_hears_a_signal_to_the_whole_group_twice(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """The meter is in the group and cannot know that the command got it too: docs/transparency.md. (A real-time signal:
    of others a second one that comes before the first was handled is dropped by Linux, so that it is once or twice.)
    """
    notes = tmp_path / "notes"
    times = 1 if way == BARE else 2
    argv = wrap.argv(way, noting(act, notes, times, signal.SIGRTMIN))
    with running(argv, start_new_session=True) as started:
        until_ready(notes)
        os.killpg(started.pid, signal.SIGRTMIN)
        assert started.wait(timeout=40) == 5
    assert noted(notes) == [signal.SIGRTMIN] * times


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_the_group_is_the_caller_s_own_or_the_one_it_was_put_into(tmp_path: Path, wrap: Wrap, way: str) -> None:
    for put, expected in ((False, os.getpgid(0)), (True, None)):
        argv = wrap.argv(way, ["/bin/sh", "-c", "ps -o pgid= -p $$ || awk '{print $5}' /proc/$$/stat"])
        with running(argv, stdout=subprocess.PIPE, process_group=0 if put else None) as started:
            assert started.stdout is not None
            assert int(started.stdout.read()) == (started.pid if expected is None else expected)


# What exec keeps and fork does not.


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_an_alarm_set_before_the_call_ends_the_command(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """`alarm 1; exec ...` is how scripts set a time limit."""

    def alarm() -> None:
        signal.setitimer(signal.ITIMER_REAL, 1)

    ended = call(wrap.argv(way, [str(act), "ring"]), tmp_path / "s", as_child=alarm)
    assert ended.code == 128 + signal.SIGALRM
    if way != BARE:
        [one] = wrap.records()
        assert one["finished"]["outcome"]["signal"] == signal.SIGALRM


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_an_alarm_that_rings_while_the_meter_gets_ready(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """Whenever it rings, the caller sees an end by it: of the meter as long as there is nothing else."""
    for delay_ms in range(1, 60, 6):

        def alarm(after_s: float = delay_ms / 1000) -> None:
            signal.setitimer(signal.ITIMER_REAL, after_s)

        ended = call(wrap.argv(way, [str(act), "ring"]), tmp_path / "s", as_child=alarm)
        assert ended.code == 128 + signal.SIGALRM, delay_ms


@pytest.mark.parametrize("way", [BARE, *WAYS])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_command_that_was_to_die_with_its_caller_does(
    tmp_path: Path, wrap: Wrap, act: Path, way: str, number: int
) -> None:
    """bwrap's --die-with-parent, systemd's and Rust's callers do this before the exec."""
    pid_file = tmp_path / "pid"
    argv = wrap.argv(way, [str(act), "ring"])
    caller = os.fork()
    if caller == 0:
        try:
            child = os.fork()
            if child == 0:
                prctl(_PR_SET_PDEATHSIG, number)
                os.execv(argv[0], argv)
            pid_file.write_text(f"{child}\n")
            time.sleep(60)
        finally:
            os._exit(0)
    called = int(wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), "the call"))
    command = called if way == BARE else the_command_of(called)
    wait_for(lambda: Path(f"/proc/{command}/comm").read_text() == "act\n", "the command's start")
    os.kill(caller, signal.SIGKILL)
    os.waitpid(caller, 0)
    wait_for(lambda: has_ended(command) and has_ended(called), "the end of both", 10)


@pytest.mark.parametrize("way", WAYS)
def test_children_that_the_caller_left_do_not_disturb(wrap: Wrap, way: str) -> None:
    """A shell that execs the launcher hands its background jobs over; they end whenever they like."""
    line = " ".join("'" + os.fsdecode(word) + "'" for word in wrap.argv(way, ["/bin/sh", "-c", "sleep 0.3; exit 9"]))
    done = subprocess.run(["/bin/sh", "-c", f"(exit 3) & sleep 0.1 & sleep 0.5 & exec {line}"], check=False)
    assert done.returncode == 9


# Python's subprocess as a caller.

SHOW_IGNORED = """
import signal, subprocess, sys
subprocess.run(sys.argv[2:], restore_signals=sys.argv[1] == "restore", check=True)
"""


def ignored_by(argv: list[str | bytes], how: str) -> bytes:
    """SigIgn of a command that a Python started through its subprocess module."""
    caller = [sys.executable, "-c", SHOW_IGNORED, how, *argv]
    return subprocess.run(caller, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("way", WAYS)
def test_a_python_caller_that_restores_signals(wrap: Wrap, way: str) -> None:
    """As its subprocess module does unless told otherwise: the parent ignores what the command must not."""
    command: list[str | bytes] = ["/bin/grep", "SigIgn", "/proc/self/status"]
    assert ignored_by(command, "restore") == b"SigIgn:\t0000000000000000\n"
    assert ignored_by(wrap.argv(way, command), "restore") == ignored_by(command, "restore")


@pytest.mark.xfail(strict=True, reason="Python's parent ignores SIGPIPE in both cases, and the usual one is assumed")
@pytest.mark.parametrize("way", WAYS)
def test_a_python_caller_that_does_not_restore_signals(wrap: Wrap, way: str) -> None:
    """docs/transparency.md names it."""
    command: list[str | bytes] = ["/bin/grep", "SigIgn", "/proc/self/status"]
    assert ignored_by(wrap.argv(way, command), "keep") == ignored_by(command, "keep")


def test_no_file_of_ours_takes_the_number_of_a_closed_stream() -> None:
    """A line that we write to stderr would land in it."""
    pid = os.fork()
    if pid == 0:
        try:
            os.closerange(0, 3)
            spawn.keep_standard_descriptors_closed()
            right = os.open("/dev/null", os.O_RDONLY) > 2 and not any(os.get_inheritable(fd) for fd in (0, 1, 2))
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_as_process_1_the_meter_is_what_a_container_signals(as_root: None, wrap: Wrap, act: Path, way: str) -> None:
    """Process 1 without a handler is not ended by SIGTERM; the command is not process 1 any more and is."""
    unshare = ["/usr/bin/unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    with running([*unshare, *wrap.argv(way, [str(act), "ring"])]) as started:
        [first] = wait_for(lambda: children(started.pid), "process 1")
        wait_for(lambda: way == BARE or children(first), "the command")
        time.sleep(0.5)
        os.kill(first, signal.SIGTERM)
        if way == BARE:
            time.sleep(0.3)
            assert not has_ended(first)
            started.kill()
        else:
            assert started.wait(timeout=10) == 128 + signal.SIGTERM
