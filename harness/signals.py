"""Signals, through the C module: `signal` itself imports enum (4 ms).

Python ignores SIGPIPE and SIGXFSZ before user code runs, and the caller's choice for them is lost to us; it is taken
from what our parent ignores, because an ignored signal is inherited (Lean's programs hand it on so). A parent that is a
Python gives both back to its children, unless they were started in an unusual way. SIGINT's original disposition Python
keeps.
"""

import _signal  # type: ignore[import-not-found]
import os

from proofcost.harness import procfs

SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGPIPE, SIGTERM, SIGCHLD, SIGCONT = 1, 2, 3, 9, 13, 15, 17, 18
SIGSTOP, SIGTSTP, SIGXCPU, SIGXFSZ = 19, 20, 24, 25
SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS = 4, 5, 6, 7, 8, 11, 31
# What a process's own timers send it, in the order of their numbers.
_TIMERS = {_signal.ITIMER_REAL: _signal.SIGALRM, _signal.ITIMER_VIRTUAL: _signal.SIGVTALRM,
           _signal.ITIMER_PROF: _signal.SIGPROF}  # fmt: skip
# A program that dies of one of these did it itself.
FAULTS = (SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS)
# A caller that sends one of these wants the command to end.
ENDING = (SIGHUP, SIGINT, SIGQUIT, SIGTERM)

_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9:
    "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 17: "SIGCHLD",
    18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 24: "SIGXCPU", 25: "SIGXFSZ", 28: "SIGWINCH", 31: "SIGSYS",
}  # fmt: skip

# From the kernel's side of a terminal, or a fault of our own: never ours to pass on or to hold back.
_NEVER_BLOCKED = {SIGKILL, SIGSTOP, SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS}


def name(number: int) -> str:
    """SIGTERM for 15; `signal 42` for a number without a name here."""
    return _NAMES.get(number, f"signal {number}")


class Inherited:
    """The dispositions and the mask that the command must start with: the ones we were started with."""

    __slots__ = ("_defaults", "_ignored", "_mask", "_timers", "_waiting")

    def __init__(self, parent: int | None = None) -> None:
        parent = os.getppid() if parent is None else parent
        mask = procfs.ignored_signals(parent)
        ignored = 0 if mask is None or _gives_them_back(parent, mask) else mask
        self._defaults = [n for n in (SIGPIPE, SIGXFSZ) if not ignored >> (n - 1) & 1]
        self._ignored: list[int] = []
        if _signal.getsignal(SIGCHLD) == _signal.SIG_IGN:
            # Our own wait would lose the status; the command gets it back ignored.
            _signal.signal(SIGCHLD, _signal.SIG_DFL)
            self._ignored.append(SIGCHLD)
        self._mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, [])
        self._timers: list[tuple[int, float, float]] = []
        self._waiting: list[int] = []

    def take_over(self) -> None:
        """What exec keeps and fork does not goes to whoever calls `restore` next: timers (`alarm 60; exec ...` is a
        time limit), and signals that wait because our caller held them back.
        """
        for which in _TIMERS:
            left, every = _signal.getitimer(which)
            if left:
                _signal.setitimer(which, 0)
                self._timers.append((which, left, every))
        # A timer may have rung since we hold signals back.
        waiting = _signal.sigpending() & (self._mask | set(_TIMERS.values()))
        while waiting and (info := _signal.sigtimedwait(waiting, 0)) is not None:
            self._waiting.append(info.si_signo)

    def handed_over(self) -> None:
        """The command has what `take_over` took."""
        self._timers = []
        self._waiting = []

    def restore(self) -> None:
        """In the child, or before an exec in place."""
        for number in self._defaults:
            # Blocked, a signal waits even where it is ignored: one that a write of ours caused (to a file at its size
            # limit, to a pipe without a reader) would kill the command. Ignoring it once more drops it.
            _signal.signal(number, _signal.SIG_IGN)
            _signal.signal(number, _signal.SIG_DFL)
        for number in self._ignored:
            _signal.signal(number, _signal.SIG_IGN)
        if _signal.getsignal(SIGINT) not in (_signal.SIG_IGN, _signal.SIG_DFL):
            _signal.signal(SIGINT, _signal.SIG_DFL)
        for number in self._waiting:
            os.kill(os.getpid(), number)
        for which, left, every in self._timers:
            _signal.setitimer(which, left, every)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)


def _gives_them_back(parent: int, ignored: int) -> bool:
    """Whether the parent is a Python that ignores SIGPIPE and SIGXFSZ for itself: `subprocess` restores both."""
    if not ignored >> (SIGPIPE - 1) & ignored >> (SIGXFSZ - 1) & 1:
        return False
    program = procfs.link_of(parent, "exe")
    return program is not None and os.path.basename(program).startswith(("python", "pypy"))


def block_all() -> None:
    """Hold every signal back that can be: from here on they are taken one by one with `take`."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [n for n in _signal.valid_signals() if n not in _NEVER_BLOCKED])


_TAKEN: list[int] = [n for n in _signal.valid_signals() if n not in _NEVER_BLOCKED]


class Taken:
    """One signal that arrived: number, who sent it, and whether a process did (not the kernel or the terminal)."""

    __slots__ = ("by_process", "number", "sender")

    def __init__(self, number: int, sender: int, by_process: bool) -> None:
        self.number = number
        self.sender = sender
        self.by_process = by_process


def take(timeout_s: float | None) -> Taken | None:
    """The next pending signal; None after `timeout_s` seconds without one."""
    info = _signal.sigwaitinfo(_TAKEN) if timeout_s is None else _signal.sigtimedwait(_TAKEN, max(0.0, timeout_s))
    if info is None:
        return None
    return Taken(info.si_signo, info.si_pid, info.si_code <= 0)


def send(pidfd: int, number: int) -> None:
    """Send a signal to the process behind a pidfd: never to a later one with its number. Raises OSError."""
    _signal.pidfd_send_signal(pidfd, number)


def die_by(number: int) -> None:
    """End this process by the same signal, without a core of our own. Returns only if the signal does not kill."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number in _signal.valid_signals():  # not the two that the C library keeps to itself; nobody blocks those
        if number not in (SIGKILL, SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
