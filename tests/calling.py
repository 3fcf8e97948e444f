"""Calling a command bare and through every entrance, from a caller whose state a test chooses byte by byte.

Not `subprocess`: it cannot hand over duplicate or `=`-less environment entries, closes descriptors and resets signals.
Three processes, as with a real judge: pytest forks the *caller*, which forks and executes the command (or the launcher
around it) and passes its wait status back.
"""

import atexit
import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from proofcost.adapters import launchers
from proofcost.harness import procfs
from proofcost.meter_copy import copy_meter

PROOFCOST = str(Path(sys.executable).with_name("proofcost"))
PHASE, LANDRUN, BWRAP, RUN, BARE = "phase", "landrun", "bwrap", "run", "bare"
# Called as `ADAPTER --phase PHASE -- COMMAND`; called in the place of a program that the launcher names. A new entrance
# is one word here, and every test that goes through all entrances has it.
ADAPTERS = (PHASE,)
SHIMS = (LANDRUN, BWRAP)
ENTRANCES = (*ADAPTERS, *SHIMS)
WAYS = (*ENTRANCES, RUN)
PLAIN = (b"PATH=/usr/bin:/bin", b"HOME=/nonexistent")
PATIENCE_S = 120


def nothing() -> None:
    """No change of state."""


def make_tree(folder: Path) -> Path:
    """The meter as `install` copies it, in `folder`; returns the tree that a launcher names."""
    tree = folder / "meter"
    copy_meter(tree, tree, launchers.choose_interpreter())
    return tree


@cache
def shared_tree() -> Path:
    """One for all tests that do not change it, in a folder that any user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-tree-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    return make_tree(folder)


@dataclass
class Wrap:
    """How a command is called through us: launchers of its own around `tree`, and a store."""

    folder: Path
    tree: Path
    strict: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def launcher(self, name: str, real: str = "") -> str:
        """Write a launcher; its path."""
        self.folder.mkdir(mode=0o755, exist_ok=True)
        options = launchers.Options(str(self.options.get("store", self.store)), str(self.tree), self.interpreter)
        options.strict = self.strict
        for name_of, value in self.options.items():
            setattr(options, name_of, value)
        path = str(self.folder / name)
        launchers.write(path, launchers.text_of(name, real, options))
        return path

    @property
    def interpreter(self) -> str:
        return launchers.choose_interpreter()

    def argv(self, way: str, command: Sequence[str | bytes]) -> list[str | bytes]:
        """The command line that calls `command` in this way."""
        if way == BARE:
            return list(command)
        if way in ADAPTERS:
            return [self.launcher(way), "--phase", "build", "--", *command]
        if way in SHIMS:
            return [self.launcher(way, os.fsdecode(command[0])), *command[1:]]
        store = str(self.options.get("store", self.store))
        strict = ["--strict"] if self.strict else []
        return [PROOFCOST, "run", "--shims", "none", "--store", store, *strict, "--", *command]

    def records(self) -> list[dict[str, dict[str, Any]]]:
        """{event name: event} of every invocation, in order of their start."""
        found = []
        for path in self.store.glob("sessions/*/*.jsonl"):
            if not path.name.endswith(".settled.jsonl"):
                events = [json.loads(line) for line in path.read_text().splitlines()]
                if events:  # else its meter has just made it
                    found.append({event["event"]: event for event in events})
        return sorted(found, key=lambda one: one["started"]["clocks"]["realtime_ns"])

    def marks(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.store.glob("marks/*.json"))]


@dataclass(frozen=True)
class Ended:
    """What the caller saw: raw wait status, and the bytes on both streams."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def code(self) -> int:
        """As a shell shows it."""
        return 128 + os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else os.WEXITSTATUS(self.status)


_libc = ctypes.CDLL(None, use_errno=True)


def execute(argv: Sequence[str | bytes], env: Sequence[bytes]) -> None:
    """execve with exactly this environment block, duplicates and all. Returns only when it fails."""
    words = [os.fsencode(word) for word in argv]
    vector = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    block = (ctypes.c_char_p * (len(env) + 1))(*env, None)
    _libc.execve(words[0], vector, block)


def become(
    argv: Sequence[str | bytes],
    env: Sequence[bytes] = PLAIN,
    as_child: Callable[[], None] = nothing,
    streams: tuple[int, int, int] | None = None,
) -> None:
    """In a fresh child: dispositions as a plain program has them, then `as_child`, then exec. Never returns."""
    try:
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            if signal.getsignal(number) is not signal.SIG_IGN or number in _python_ignores:
                signal.signal(number, signal.SIG_DFL)
        for fd, stream in enumerate(streams or ()):
            os.dup2(stream, fd)
        as_child()
        execute(argv, env)
        os.write(2, f"execve: {os.strerror(ctypes.get_errno())}\n".encode())
    finally:
        os._exit(127)


_python_ignores: set[int] = {signal.SIGPIPE, signal.SIGXFSZ}


def ignore(*numbers: int) -> None:
    """Ignore signals for good: `become` leaves them so."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
        _python_ignores.discard(number)


def call(
    argv: Sequence[str | bytes],
    folder: Path,
    env: Sequence[bytes] = PLAIN,
    as_caller: Callable[[], None] = nothing,
    as_child: Callable[[], None] = nothing,
) -> Ended:
    """Call a command from a caller that `as_caller` changed; `as_child` changes the child before its exec."""
    folder.mkdir(parents=True, exist_ok=True)
    streams = (
        os.open("/dev/null", os.O_RDONLY),
        os.open(folder / "out", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644),
        os.open(folder / "err", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644),
    )
    read_end, write_end = os.pipe()
    caller = os.fork()
    if caller == 0:
        try:
            os.close(read_end)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            as_caller()
            pid = os.fork()
            if pid == 0:
                os.close(write_end)
                become(argv, env, as_child, streams)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.write(write_end, os.waitpid(pid, 0)[1].to_bytes(4, "little"))
        finally:
            os._exit(0)
    os.close(write_end)
    ready, _, _ = select.select([read_end], [], [], PATIENCE_S)
    raw = os.read(read_end, 4) if ready else b""
    os.close(read_end)
    if not raw:
        for pid in procfs.tree_of(caller):
            os.kill(pid, signal.SIGKILL)
    os.waitpid(caller, 0)
    for stream in streams:
        os.close(stream)
    assert raw, f"no status from {argv!r} within {PATIENCE_S} s"
    return Ended(int.from_bytes(raw, "little"), (folder / "out").read_bytes(), (folder / "err").read_bytes())


@contextlib.contextmanager
def running(argv: Sequence[str | bytes], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command in the background, ended at the latest when the test leaves."""
    started = subprocess.Popen(argv, **more)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait()
        for stream in (started.stdin, started.stdout, started.stderr):
            if stream is not None:
                stream.close()


def wait_for(condition: Callable[[], Any], what: str = "it", seconds: float = PATIENCE_S) -> Any:
    """The first true value of `condition`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def state(pid: int) -> str:
    """The state letter of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def has_ended(pid: int) -> bool:
    """Whether a process is gone; its new parent may take its time to reap it."""
    try:
        return state(pid) in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def limit(which: int, soft: int, hard: int | None = None) -> Callable[[], None]:
    """Sets a resource limit."""
    return lambda: resource.setrlimit(which, (soft, soft if hard is None else hard))


def compile_c(gcc: Path, source: str, target: Path, *options: str) -> Path:
    """Compile a small C program."""
    subprocess.run([gcc, "-O1", "-x", "c", "-", "-o", target, *options], input=source.encode(), check=True)
    return target
