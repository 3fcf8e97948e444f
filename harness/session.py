"""Which session an invocation belongs to.

A session is named by the process it hangs from: a digest of boot id, pid namespace, pid and start time. For a judge
started with `proofcost run` that is the `run` process; `run` leaves `session.json` in the session's folder, which is
how a launcher that was installed for good finds out that it runs inside one: it looks at its ancestors one by one.
"""

import os
import time

from proofcost.harness import procfs
from proofcost.harness.digest import sha256_hex

SESSION_FILE = "session.json"
SEAL_FILE = "sealed.json"
_ANCESTORS_MAX = 64


def session_id(pid: int, ticks: int, boot: str | None, namespace: str | None) -> str:
    """16 hex digits that name the session hanging from one process of one boot."""
    return sha256_hex(f"{boot}\n{namespace}\n{pid}\n{ticks}".encode())[:16]


class Found:
    """A session, and how it was found: `run`, `baked` or `ancestor`."""

    __slots__ = ("known_by", "session")

    def __init__(self, session: str, known_by: str) -> None:
        self.session = session
        self.known_by = known_by


def find(store: str, own_argv: list[bytes], inner: list[bytes] | None = None) -> Found:
    """The session of this call.

    `own_argv` are the arguments of this very call (without the program), `inner` those that a wrapper which changes the
    sandbox's options passes on all the same: the command in it.
    """
    boot, namespace = procfs.boot_id(), procfs.pid_namespace()
    judge: str | None = None
    pid = os.getppid()
    for _ in range(_ANCESTORS_MAX):
        if pid <= 0:
            break
        seen = procfs.parent_and_start(pid)
        if seen is None:
            break
        parent, ticks = seen
        candidate = session_id(pid, ticks, boot, namespace)
        if os.path.exists(f"{store}/sessions/{candidate}/{SESSION_FILE}"):
            return Found(candidate, "run")
        if judge is None and not _is_wrapper(pid, own_argv, inner or own_argv):
            judge = candidate
        pid = parent
    if judge is None:
        # Without /proc a pid alone would name many judges: then each call is a session of its own.
        ticks = procfs.start_ticks(os.getpid()) or time.monotonic_ns()
        judge = session_id(os.getpid(), ticks, boot, namespace)
    return Found(judge, "ancestor")


def _is_wrapper(pid: int, *own: list[bytes]) -> bool:
    """Whether a process merely passes this call on: its command line ends in this call's own arguments."""
    line = procfs.command_line(pid)
    return line is not None and any(words and len(line) > len(words) and line[-len(words) :] == words for words in own)


def is_launcher(pid: int) -> bool:
    """Whether a process is another entrance's meter: a Python that runs one of our launchers.

    It shows the command line of a `#!` with our flags. A program that merely has a launcher among its arguments
    (`timeout 60 LAUNCHER ...`, a judge that is told of one) measures nothing.
    """
    line = procfs.command_line(pid)
    if not line or len(line) < 3 or not line[1].startswith(INTERPRETER_FLAGS):
        return False
    return is_launcher_file(os.fsdecode(line[2]))


def is_launcher_file(path: str) -> bool:
    """Whether a file is one of our launchers, measuring or switched off."""
    head = procfs.read_file(path, 256)
    return head is not None and head.startswith(b"#!") and LAUNCHER_MAGIC in head


LAUNCHER_MAGIC = b"# proofcost launcher"
# How every launcher's interpreter is called (adapters/launchers.py adds to it).
INTERPRETER_FLAGS = b"-IS"
