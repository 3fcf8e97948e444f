"""A process that ends the command when its meter is killed, where the host's kernel does not.

PDEATHSIG does it from the first instruction on, but it belongs to a thread: a program that execs from another thread
than its first (landrun, as any Go program, now and then) loses it. A judge that enforces its time limit by SIGKILL on
what it started would leave a kernel running. So a longer run gets this guard: it sleeps on a pipe whose other end only
the meter has, and is gone before the meter is. It holds nothing open but that and the command's pidfd.
"""

import os

from proofcost.harness.signals import SIGKILL, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from proofcost.harness.cgroup import Group


class Guard:
    """The guard of one command. `begin` does what it does once; `end` may come without it."""

    __slots__ = ("_begun", "_pid", "_write_end")

    def __init__(self) -> None:
        self._begun = False
        self._pid = 0
        self._write_end = -1

    def begin(self, command: int, whole: "Group | None") -> None:
        """Guard a command that still runs, as its parent; `whole` is killed with it. Raises OSError."""
        if self._begun:
            return
        self._begun = True
        pidfd = os.pidfd_open(command)
        read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        try:
            self._pid = os.fork() or _guard(read_end, pidfd, whole)
        finally:
            os.close(read_end)
            os.close(pidfd)

    def end(self) -> None:
        """Before the meter leaves: nothing of ours outlives it."""
        if self._pid:
            os.kill(self._pid, SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1


def _guard(read_end: int, pidfd: int, whole: "Group | None") -> "NoReturn":
    try:
        # Whoever waits for the end of a stream, or for a folder to be free, must not wait for us.
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in (read_end, pidfd):
                try:
                    os.close(int(name))
                except OSError:
                    continue  # the one that listed them
        os.chdir("/")
        if not os.read(read_end, 1):  # nobody writes: it ends with the meter
            send(pidfd, SIGKILL)
            if whole is not None:
                whole.kill()
    finally:
        os._exit(0)
