"""Hosts that forbid things, one at a time: the command's status and output stay, a figure is right or says why not."""

import fcntl
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wrapped import IN_GUEST, NOBODY, REPO, Call, Recorded, Wrapper, own_cgroups

from proofcost.harness import hierarchy

Hostile = Callable[[str], Path]

AS_NOBODY = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups")
COMMAND = ("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
EPERM, ENOSYS, EOPNOTSUPP, EMFILE = 1, 38, 95, 24
_MACHINE = os.uname().machine
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[_MACHINE]
CLONE3 = 435
FALLOCATE = {"x86_64": 285, "aarch64": 47}[_MACHINE]
FDATASYNC = {"x86_64": 75, "aarch64": 83}[_MACHINE]
MKDIRS = {"x86_64": "83,258", "aarch64": "34"}[_MACHINE]

ALWAYS = ("wall_command", "cpu_waited", "cpu_waited_user", "cpu_waited_system")
COUNTERS = ("instructions:u", "cycles:u", "task_clock", "page_faults", "page_faults_major", "context_switches",
            "cpu_migrations")  # fmt: skip
GROUPED = ("cpu_tree", "cpu_tree_user", "cpu_tree_system")


def held(call: Call, seen: Recorded, stderr: bytes = b"err\n") -> Recorded:
    """What holds on every rung."""
    assert (call.status, call.stdout, call.stderr) == (3, b"out\n", stderr)
    assert (seen.outcome["kind"], seen.outcome["code"], seen.outcome["cause"]) == ("exited", 3, "completed")
    for name in ALWAYS:
        assert seen.status(name) == "measured", (name, seen.figures[name])
    for name, figure in seen.figures.items():
        if figure["value"] is None:
            assert figure["status"] == "unavailable", name
            assert figure["reason"], name
    return seen


def reasons(seen: Recorded, names: tuple[str, ...]) -> set[str]:
    """Why none of these figures has a value."""
    for name in names:
        assert seen.figures[name]["value"] is None, (name, seen.figures[name])
    return {seen.figures[name]["reason"] for name in names}


@pytest.mark.guest
def test_nothing_is_forbidden(wrap: Wrapper) -> None:
    seen = held(wrap(*COMMAND), wrap.last())
    for name in ("task_clock", "page_faults", "wall_program"):
        assert seen.figures[name]["value"] is not None, seen.figures[name]
    assert seen.faults == []


@pytest.mark.guest
def test_another_user_without_a_cgroup(wrap_as_nobody: Wrapper) -> None:
    wrap = wrap_as_nobody
    seen = held(wrap(*COMMAND, via=AS_NOBODY), wrap.last())
    assert seen.started["trust"] == "user"
    (why,) = reasons(seen, GROUPED)
    assert "Permission denied" in why
    assert seen.started["cgroup"]["paths"] == {}
    assert seen.started["cgroup"]["reason"] == why
    assert seen.finished is not None
    assert seen.finished["stragglers"] == {"count": None, "action": "none", "reason": why}
    assert seen.faults == []


def test_cgroups_switched_off(wrap: Wrapper) -> None:
    mine = wrap.with_options(cgroup="off")
    seen = held(mine(*COMMAND), mine.last())
    assert reasons(seen, GROUPED) == {"--cgroup off"}
    assert seen.started["cgroup"] == {"kind": "off", "paths": {}, "reason": "--cgroup off"}
    assert seen.value("task_clock") > 0


@contextmanager
def paranoid(level: int) -> Iterator[None]:
    """kernel.perf_event_paranoid at `level`, one test at a time on this machine, as it was afterwards."""
    file = Path("/proc/sys/kernel/perf_event_paranoid")
    with open("/tmp/proofcost-perf-event-paranoid.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = file.read_text()
        try:
            file.write_text(str(level))
        except OSError as error:
            pytest.skip(f"cannot set {file}: {error}")
        try:
            yield
        finally:
            file.write_text(before)


@pytest.mark.guest
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_perf_event_paranoid(wrap_as_nobody: Wrapper, level: int) -> None:
    wrap = wrap_as_nobody
    with paranoid(level):
        seen = held(wrap(*COMMAND, via=AS_NOBODY), wrap.last())
    if level == 1:
        assert seen.value("context_switches") >= 0
        # An emulated machine's exec may cost so much more than our child before it that a task seems to be lost.
        assert seen.status("context_switches") == "measured" or IN_GUEST
        assert "user-only" not in seen.figures["task_clock"]["method"]
        return
    # A count of 0 would be a lie: nothing of it happens in user mode.
    assert reasons(seen, ("context_switches", "cpu_migrations")) <= {
        "counter_reads_zero_when_user_only",
        "counter_permission_denied",
    }
    if seen.figures["task_clock"]["value"] is None:  # Debian's kernels know levels above 2
        assert level >= 3
        assert reasons(seen, ("task_clock", "page_faults")) == {"counter_permission_denied"}
    else:
        assert seen.value("task_clock") > 0
        assert seen.figures["task_clock"]["method"].endswith("(opened user-only)")
        assert seen.figures["wall_program"]["value"] is not None


@pytest.mark.guest
@pytest.mark.parametrize(("error", "reason"), [(EPERM, "counter_permission_denied"), (ENOSYS, "counter_not_supported")])
def test_perf_event_open_forbidden(wrap: Wrapper, hostile: Hostile, error: int, reason: str) -> None:
    call = wrap(*COMMAND, via=(hostile("forbid"), error, PERF_EVENT_OPEN))
    seen = held(call, wrap.last())
    assert reasons(seen, COUNTERS) <= {reason, "counter_reads_zero_when_user_only"}
    assert reasons(seen, ("task_clock", "page_faults")) == {reason}
    assert seen.finished is not None
    assert seen.finished["exec_stamps"]["reason"] == reason
    if own_cgroups():
        assert seen.value("cpu_tree") > 0
    assert seen.faults == []


@pytest.mark.guest
@pytest.mark.parametrize("error", [ENOSYS, EPERM])
def test_clone3_forbidden(as_root: None, wrap: Wrapper, hostile: Hostile, error: int) -> None:
    """As Docker's default profile does: the child then writes itself in, and nothing is missing."""
    call = wrap(*COMMAND, via=(hostile("forbid"), error, CLONE3))
    seen = held(call, wrap.last())
    assert seen.value("cpu_tree") > 0
    assert seen.status("cpu_tree") == seen.status("cpu_waited") == "measured"
    assert seen.faults == []
    assert wrap.left_cgroups() == []


@pytest.mark.guest
def test_a_cgroup_that_may_be_made_but_not_entered(wrap_as_nobody: Wrapper) -> None:
    """A folder handed to a user without the right to move processes into it: nothing read there would be true."""
    wrap = wrap_as_nobody
    dirs = own_cgroups()
    home = dirs.get(hierarchy.UNIFIED)
    if home is None:
        pytest.skip("no cgroup v2 here")
    handed = home / "handed-over"
    handed.mkdir()
    try:
        os.chown(handed, NOBODY, NOBODY)
        script = f'echo $$ >{handed}/cgroup.procs && exec "$@"'
        call = wrap(*COMMAND, via=("/bin/sh", "-c", script, "sh", *AS_NOBODY))
        seen = held(call, wrap.last())
        (why,) = reasons(seen, GROUPED)
        assert "could not enter" in why
        assert seen.finished is not None
        assert seen.finished["stragglers"]["count"] is None
        assert wrap.left_cgroups() == []
        # And a time limit still ends the command.
        run = [*map(str, AS_NOBODY), *run_of(wrap), "--timeout", "1s", "--", "/bin/sleep", "60"]
        limited = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *run], timeout=50, check=False, capture_output=True, cwd=wrap.folder
        )
        assert limited.returncode == -9, limited
        whole = wrap.last()
        assert whole.outcome["kind"] == "timed_out"
        assert all(
            "could not enter" in why or "not in it" in why for why in reasons(whole, (*GROUPED, "cpu_judge_self"))
        )
        assert wrap.left_cgroups() == []
    finally:
        handed.rmdir()


def run_of(wrap: Wrapper) -> list[str]:
    """`proofcost run` from a copy of its own: the checkout may be closed to another user."""
    package = wrap.folder / "copy" / "proofcost"
    if not package.exists():
        shutil.copytree(REPO / "proofcost", package, ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        f"import sys; sys.path.insert(0, {str(package.parent)!r}); from proofcost.cli import main; sys.exit(main())"
    )
    return [wrap.interpreter, "-c", program, "run", "--store", str(wrap.store), "--shims", "none"]


@pytest.mark.guest
@pytest.mark.parametrize("limit", [5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 48])
def test_few_descriptors(wrap: Wrapper, limit: int) -> None:
    if IN_GUEST and limit not in (8, 16):
        pytest.skip("the essential ones only: the guest is slow")
    command = ("/bin/sh", "-c", "echo out; exit 3")  # a redirection takes the shell itself to descriptor 10
    wrap(*command)  # so that the host is known and the binaries' digests are kept
    call = wrap(*command, via=("prlimit", f"--nofile={limit}", "--"))
    if len(wrap.records()) == 1:
        # Python itself, or the store, needs more than that: run all the same, and said.
        assert (call.status, call.stdout) == (3, b"out\n"), call
        assert wrap.marks() or call.stderr.startswith(b"proofcost: "), call
        assert limit < 8
        return
    seen = held(call, wrap.last(), b"")
    assert seen.finished is not None
    if limit < 20:
        assert (
            "descriptor" in seen.finished["exec_stamps"]["reason"] or "EMFILE" in seen.finished["exec_stamps"]["reason"]
        )
    if limit >= 24:
        assert seen.value("task_clock") > 0
    for name in COUNTERS:
        figure = seen.figures[name]
        assert figure["value"] is not None or figure["reason"].startswith("counter_")


@pytest.mark.parametrize("limit_bytes", [1 << 20, 4 << 20, 12 << 20])
def test_a_small_data_segment_fails_before_the_command_or_measures_it(wrap: Wrapper, limit_bytes: int) -> None:
    """Where Python itself cannot start nothing of ours runs (docs/security.md): the caller sees that, never a 0."""
    limit = (limit_bytes, limit_bytes)
    call = wrap(*COMMAND, preexec=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit))
    if limit_bytes == 1 << 20:
        assert (call.status, call.stdout, wrap.records()) == (-signal.SIGSEGV, b"", [])
    elif limit_bytes == 4 << 20:
        assert call.status in (1, 3, 126)
        assert call.stdout == (b"out\n" if call.status == 3 else b"")
    else:
        held(call, wrap.last())


def changed(wrap: Wrapper, after_path: str = "", before_main: str = "") -> Wrapper:
    """A launcher with a line of Python more: once the meter can be found, or once it is loaded."""
    launcher = wrap.launcher()
    # Its own text counts, not what was compiled from it ahead.
    ahead = "        rest, entries = bundled()\n"
    text = launcher.read_text()
    assert text.count(ahead) == 1
    text = text.replace(ahead, "        rest, entries = REST, bundled()[1]\n")
    first, last = "    sys.path.append(TREE)\n", "    main(Config("
    assert text.count(first) == text.count(last) == 1
    text = text.replace(first, f"{first}    {after_path}\n" if after_path else first)
    text = text.replace(last, f"    {before_main}\n{last}" if before_main else last)
    launcher.write_text(text)
    return wrap


def test_a_python_without_ctypes(wrap: Wrapper) -> None:
    """No counters, no stamps, no room reserved; CPU and memory of the tree all the same."""
    seen = held(changed(wrap, "sys.modules['_ctypes'] = None")(*COMMAND), wrap.last())
    assert reasons(seen, ("task_clock", "page_faults")) == {"counter_not_supported"}
    if own_cgroups() and os.geteuid() == 0:
        assert seen.value("cpu_tree") > 0
        assert seen.status("cpu_tree") == "measured"
    assert [fault["step"] for fault in seen.faults] == ["reserve"]


def test_input_and_output_that_cannot_be_read(wrap: Wrapper) -> None:
    hide = "import proofcost.harness.procfs as p; p.own_io = lambda: None"
    seen = held(changed(wrap, before_main=hide)(*COMMAND), wrap.last())
    assert reasons(seen, ("io_read_bytes_waited", "io_write_bytes_waited")) == {"/proc/self/io does not tell"}


def test_a_host_without_proc(as_root: None, wrap: Wrapper) -> None:
    script = 'mount -t tmpfs tmpfs /proc && exec "$@"'
    call = wrap(*COMMAND, via=("unshare", "--mount", "/bin/sh", "-c", script, "sh"))
    if b"unshare" in call.stderr or b"mount" in call.stderr:
        pytest.skip(f"cannot hide /proc: {call.stderr!r}")
    seen = held(call, wrap.last())
    reasons(seen, ("io_read_bytes_waited", *GROUPED))
    assert seen.started["host"]["boot_id"] is None


@pytest.mark.parametrize(
    "what", [("--pid", "--fork", "--mount-proc"), ("--user", "--map-root-user"), ("--cgroup",)], ids=str
)
def test_namespaces(as_root: None, wrap: Wrapper, what: tuple[str, ...]) -> None:
    call = wrap(*COMMAND, via=("unshare", *what))
    if call.stderr.startswith(b"unshare"):
        pytest.skip(call.stderr.decode())
    seen = held(call, wrap.last())
    assert wrap.left_cgroups() == []
    if what[0] != "--user":
        assert seen.status("cpu_waited") == "measured"


def test_a_neighbour_in_another_pid_namespace_is_not_settled_while_it_runs(as_root: None, wrap: Wrapper) -> None:
    """Its meter cannot be seen from here; that it is gone must not be concluded from that."""
    slow = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", *wrap.command(["/bin/sh", "-c", "read line; exit 3"])],
        stdin=subprocess.PIPE, cwd=wrap.folder,
    )  # fmt: skip
    assert slow.stdin is not None
    try:
        while not list(wrap.store.glob("sessions/*/*.jsonl")):
            if slow.poll() is not None:
                pytest.skip("no pid namespaces here")
        for _ in range(3):
            wrap("/bin/true")
    finally:
        slow.communicate(b"\n", timeout=50)
    assert slow.returncode == 3
    assert all(one.settled is None for one in wrap.records())
    assert wrap.left_cgroups() == []


@pytest.mark.parametrize("error", [EOPNOTSUPP, ENOSYS, EPERM])
def test_a_file_system_without_fallocate(wrap: Wrapper, hostile: Hostile, error: int) -> None:
    seen = held(wrap(*COMMAND, via=(hostile("forbid"), error, FALLOCATE)), wrap.last())
    assert [fault["step"] for fault in seen.faults] == ["reserve"]


def test_a_store_in_memory(as_root: None, wrap: Wrapper) -> None:
    wrap.store.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", wrap.store], check=True)
    try:
        seen = held(wrap(*COMMAND), wrap.last())
        assert seen.faults == []
    finally:
        subprocess.run(["umount", wrap.store], check=True)


def test_a_store_without_room_is_found_out_before_the_command_starts(as_root: None, wrap: Wrapper) -> None:
    """Room is taken first, so that `finished` cannot be what does not fit: then nothing is recorded, and it is said."""
    wrap.store.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700,size=1m", "tmpfs", wrap.store], check=True)
    try:
        wrap("/bin/true")
        room = os.statvfs(wrap.store).f_bavail * os.statvfs(wrap.store).f_frsize
        (wrap.store / "sessions" / "fill").write_bytes(bytes(room - 20_000))
        call = wrap(*COMMAND)
        assert (call.status, call.stdout) == (3, b"out\n")
        assert len(wrap.records()) == 1
        assert len(list(wrap.store.glob("sessions/*/*.jsonl"))) == 1
        assert any("no room" in mark for mark in wrap.marks())
    finally:
        subprocess.run(["umount", wrap.store], check=True)


def test_cgroup_directories_that_cannot_be_made(wrap: Wrapper, hostile: Hostile) -> None:
    """mkdir forbidden after the store was made: as on a read-only cgroup mount."""
    wrap("/bin/true")
    call = wrap(*COMMAND, via=(hostile("forbid"), EPERM, MKDIRS))
    seen = held(call, wrap.last())
    (why,) = reasons(seen, GROUPED)
    assert "Operation not permitted" in why


def test_everything_at_once(wrap_as_nobody: Wrapper, hostile: Hostile) -> None:
    """The lowest rung: no right, no counter, no clone3, no room, few descriptors, a busy neighbour's signals."""
    wrap = wrap_as_nobody
    wrap("/bin/true", via=AS_NOBODY)
    numbers = f"{PERF_EVENT_OPEN},{CLONE3},{FALLOCATE}"
    call = wrap(*COMMAND, via=(*AS_NOBODY, "prlimit", "--nofile=24", "--", hostile("forbid"), EPERM, numbers))
    seen = held(call, wrap.last())
    assert seen.value("wall_command") > 0
    assert [fault["step"] for fault in seen.faults] == ["reserve"]
    left = {name for name, figure in seen.figures.items() if figure["value"] is not None}
    assert left == {*ALWAYS, "io_read_bytes_waited", "io_write_bytes_waited"}


@pytest.mark.parametrize("part", ["walls", "cpu", "counters", "memory", "input_output", "disk", "find_program"])
def test_a_fault_of_ours_in_one_figure_costs_that_figure_and_no_other(wrap: Wrapper, part: str) -> None:
    broken = f"import proofcost.harness.figures as f; f.{part} = None"
    call = changed(wrap, before_main=broken)(*COMMAND)
    seen = wrap.last()
    assert (call.status, call.stdout, call.stderr) == (3, b"out\n", b"err\n")
    assert (seen.outcome["kind"], seen.outcome["code"]) == ("exited", 3)
    assert seen.faults[0]["step"] == "figures"
    assert len(seen.figures) >= 15
