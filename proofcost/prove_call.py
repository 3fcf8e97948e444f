"""One planted call for `doctor --prove`: made from a caller whose state is chosen byte by byte, and all that was seen.

The program's state is read from /proc by us, from outside, while it waits: so any program will do, and none of our own
has to be compiled. Not `subprocess`: it cannot hand over duplicate or `=`-less environment entries.
"""

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from proofcost.harness import procfs

PATIENCE_S = 30.0
READY = b"ready\n"
_STEP_S = 0.002
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ)  # what our own Python changed; `subprocess` gives both back as well

# From /proc/PID/status, by what it is called in a report.
_STATUS = {
    "signals blocked": b"SigBlk",
    "signals ignored": b"SigIgn",
    "signals caught": b"SigCgt",
    "signals waiting": b"SigPnd",
    "signals waiting for the process": b"ShdPnd",
    "user": b"Uid",
    "group": b"Gid",
    "groups": b"Groups",
    "umask": b"Umask",
    "capabilities inheritable": b"CapInh",
    "capabilities permitted": b"CapPrm",
    "capabilities effective": b"CapEff",
    "capabilities bounding": b"CapBnd",
    "capabilities ambient": b"CapAmb",
    "no new privileges": b"NoNewPrivs",
    "seccomp": b"Seccomp",
    "processors": b"Cpus_allowed_list",
    "memory nodes": b"Mems_allowed_list",
}
# Fields of /proc/PID/stat behind the name, counted from 0 there.
_STAT = {"terminal": 4, "priority": 15, "nice": 16, "real-time priority": 37, "scheduling policy": 38}
_GROUP_AT, _SESSION_AT = 2, 3
_FILES = ("oom_score_adj", "coredump_filter", "personality", "timerslack_ns")
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")

State = dict[str, str]
"""What a waiting program finds, name by name; `variable` and `argument` entries carry their place in the name."""


def nothing() -> None:
    """No change of state."""


@dataclass(frozen=True)
class Caller:
    """How the caller leaves the command: its environment, and what is done in the child before its exec."""

    environment: tuple[bytes, ...]
    prepare: Callable[[], None] = nothing


@dataclass(frozen=True)
class Planted:
    """A command and what is done with it. `stdin` is what it can read.

    `waits`: it prints READY and waits for a line, and meanwhile its state is read; `silent` ones cannot print, they are
    waited for by their name. Then it gets `kill` (sent to the process that the caller started), or the line.
    """

    program: tuple[str, ...]
    stdin: bytes = b""
    waits: bool = False
    silent: bool = False
    kill: int | None = None


@dataclass
class Seen:
    """What a caller saw. `status` is the raw wait status, None for a call that did not end; `state` is empty where it
    was not asked for or could not be read."""

    status: int | None
    stdout: bytes
    stderr: bytes
    state: State = field(default_factory=dict)
    unread: str | None = None
    survivors: tuple[int, ...] = ()

    @property
    def code(self) -> int | None:
        """As a shell shows it."""
        if self.status is None:
            return None
        return 128 + os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else os.WEXITSTATUS(self.status)


_libc = ctypes.CDLL(None, use_errno=True)


def _execute(argv: Sequence[str], environment: Sequence[bytes]) -> None:
    """execve with exactly this environment block. Returns only when it fails."""
    words = [os.fsencode(word) for word in argv]
    vector = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    block = (ctypes.c_char_p * (len(environment) + 1))(*environment, None)
    _libc.execve(words[0], vector, block)


class Streams:
    """The three streams of two calls that are to be compared: the very same pipe and files for both."""

    def __init__(self, folder: Path, planted: Planted) -> None:
        self.out, self.err = folder / "stdout", folder / "stderr"
        if planted.waits:
            self.stdin, self.feed = os.pipe2(os.O_CLOEXEC)
        else:
            (folder / "stdin").write_bytes(planted.stdin)
            self.stdin, self.feed = os.open(folder / "stdin", os.O_RDONLY | os.O_CLOEXEC), -1
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self.stdout, self.stderr = os.open(self.out, flags, 0o600), os.open(self.err, flags, 0o600)

    def rewind(self) -> None:
        """As for a first call."""
        os.ftruncate(self.stdout, 0)
        os.ftruncate(self.stderr, 0)
        for fd in (self.stdin, self.stdout, self.stderr):
            if fd != self.stdin or self.feed < 0:
                os.lseek(fd, 0, os.SEEK_SET)

    def close(self) -> None:
        for fd in (self.stdin, self.stdout, self.stderr, self.feed):
            if fd >= 0:
                os.close(fd)


@contextmanager
def streams_for(folder: Path, planted: Planted) -> Iterator[Streams]:
    """Streams for as many calls as are to be alike."""
    made = Streams(folder, planted)
    try:
        yield made
    finally:
        made.close()


def call(argv: Sequence[str], planted: Planted, caller: Caller, streams: Streams) -> Seen:
    """Start `argv` (which runs the planted program, with us around it or without) and see it through."""
    streams.rewind()
    pid = os.fork()
    if pid == 0:
        _become(argv, caller, streams)
    try:
        return _see_through(pid, planted, streams)
    except BaseException:  # we are to end: the call, too
        for member in procfs.tree_of(pid):
            _send(member, signal.SIGKILL)
        raise


def _see_through(pid: int, planted: Planted, streams: Streams) -> Seen:
    state: State = {}
    unread = None
    tree = [pid]
    if planted.waits or planted.silent:
        found = _wait_for_program(pid, planted, streams)
        tree = procfs.tree_of(pid)
        if found is None:
            unread = "the program was not seen waiting"
        else:
            state = look_at(found, pid)
        if planted.kill is not None:
            _send(pid, planted.kill)
        elif planted.silent:
            _send(found or pid, signal.SIGKILL)
        else:
            os.write(streams.feed, b"go on\n")
    status = _wait(pid)
    survivors = tuple(member for member in tree[1:] if _lives_on(member))
    for member in survivors:
        _send(member, signal.SIGKILL)
    return Seen(status, streams.out.read_bytes(), streams.err.read_bytes(), state, unread, survivors)


def _become(argv: Sequence[str], caller: Caller, streams: Streams) -> None:
    try:
        for number in _DEFAULTS:
            signal.signal(number, signal.SIG_DFL)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for fd, stream in enumerate((streams.stdin, streams.stdout, streams.stderr)):
            os.dup2(stream, fd)
        caller.prepare()
        _execute(argv, caller.environment)
    finally:
        os._exit(127)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return  # it has ended


def _wait(pid: int) -> int | None:
    """The raw wait status; None when it had to be ended by us."""
    end = time.monotonic() + PATIENCE_S
    try:
        watch = os.pidfd_open(pid)
    except OSError:  # before Linux 5.3, or forbidden
        watch = -1
    try:
        while time.monotonic() < end:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status
            if watch < 0:
                time.sleep(_STEP_S)
            else:
                select.select([watch], [], [], max(0.0, end - time.monotonic()))
    finally:
        if watch >= 0:
            os.close(watch)
    for member in procfs.tree_of(pid):
        _send(member, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _lives_on(pid: int) -> bool:
    """Whether a process is still there after what its parent's end may take."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        ticks = procfs.start_ticks(pid)
        if ticks is None or not procfs.is_running(pid, ticks):
            return False
        time.sleep(_STEP_S)
    return True


def _wait_for_program(pid: int, planted: Planted, streams: Streams) -> int | None:
    """The planted program's pid, once it waits; None when it ended before, or did not come."""
    wanted = [os.fsencode(word) for word in planted.program]
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return None
        if planted.silent or READY in streams.out.read_bytes():
            # By its arguments; where somebody changed those, the innermost of its file is the one that said READY. A
            # silent one has come when it sleeps: before, it may be at work on its own start.
            tree = [member for member in procfs.tree_of(pid) if not planted.silent or _sleeps(member)]
            exact = [member for member in tree if procfs.command_line(member) == wanted]
            alike = [
                member for member in tree if _link(f"{_folder(member)}/exe") == os.path.realpath(planted.program[0])
            ]
            if exact or alike:
                return exact[0] if exact else alike[-1]
        time.sleep(_STEP_S)
    return None


def _sleeps(pid: int) -> bool:
    raw = procfs.read_file(f"{_folder(pid)}/stat") or b""
    return raw.rpartition(b")")[2].split()[:1] == [b"S"]


def look_at(pid: int, called: int) -> State:
    """What a process finds, from /proc; `called` is the process that the caller started (its numbers are no
    difference)."""
    state: State = {}
    status = procfs.read_file(f"{_folder(pid)}/status", 1 << 14) or b""
    for name, key in _STATUS.items():
        lines = [line for line in status.splitlines() if line.startswith(key + b":")]
        state[name] = _text(b" ".join(lines[0].split()[1:])) if lines else "unreadable"
    fields = (procfs.read_file(f"{_folder(pid)}/stat") or b"").rpartition(b")")[2].split()
    for name, at in _STAT.items():
        state[name] = _text(fields[at]) if len(fields) > at else "unreadable"
    for name, at in (("process group", _GROUP_AT), ("session", _SESSION_AT)):
        number = procfs.our_number(int(fields[at])) if len(fields) > at else 0
        ours = {os.getpgid(0): "the caller's", os.getsid(0): "the caller's"}
        state[name] = "the call's own" if number == called else ours.get(number, "another one")
    for name in _FILES:
        raw = procfs.read_file(f"{_folder(pid)}/{name}")
        state[name] = "unreadable" if raw is None else _text(raw.strip())
    for name in _NAMESPACES:
        theirs, ours_is = _link(f"{_folder(pid)}/ns/{name}"), _link(f"/proc/self/ns/{name}")
        state[f"{name} namespace"] = "the caller's" if theirs == ours_is else "another one"
    for name in ("cwd", "root"):
        state[name] = _link(f"{_folder(pid)}/{name}")
    for line in (procfs.read_file(f"{_folder(pid)}/limits", 1 << 14) or b"").splitlines()[1:]:
        state[f"limit {_text(line[:25].strip()).removeprefix('Max ')}"] = " ".join(_text(line[25:]).split())
    for kind, file in (("argument", "cmdline"), ("variable", "environ")):
        raw = procfs.read_file(f"{_folder(pid)}/{file}", 1 << 22)
        for at, entry in enumerate(raw.split(b"\0")[:-1] if raw else []):
            state[f"{kind} {at}"] = _text(entry)
    state.update(_descriptors(pid))
    return state


def _descriptors(pid: int) -> State:
    found: State = {}
    try:
        numbers = sorted(map(int, os.listdir(f"{_folder(pid)}/fd")))
    except OSError:
        return {"descriptors": "unreadable"}
    for number in numbers:
        info = procfs.read_file(f"{_folder(pid)}/fdinfo/{number}") or b""
        flags = [line.split()[1] for line in info.splitlines() if line.startswith(b"flags:")]
        found[f"descriptor {number}"] = f"{_link(f'{_folder(pid)}/fd/{number}')} flags {_text(b''.join(flags))}"
    return found


def _folder(pid: int) -> str:
    """Where /proc tells of a process; for one that it does not show, a path where nothing is."""
    return procfs.folder_of(pid) or "/proc/0"


def _link(path: str) -> str:
    try:
        return _text(os.readlink(os.fsencode(path)))
    except OSError:
        return "unreadable"


def _text(raw: bytes) -> str:
    return repr(raw)[2:-1]
