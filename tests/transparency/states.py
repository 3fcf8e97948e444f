"""States that a caller may leave a command in: each a function to be called in the caller, or in its child before exec.

What is left out here is not passed on by fork itself and stands in docs/transparency.md.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calling import PLAIN, ignore, limit, nothing

_libc = ctypes.CDLL(None, use_errno=True)
# include/uapi/linux/prctl.h, ioprio.h, personality.h, sched.h
_PR_SET_TIMERSLACK, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 29, 38, 24, 28
_PR_SET_THP_DISABLE = 41
_CAP_SYS_TIME = 25
_NO_RANDOM_ADDRESSES = 0x0040000
_BEST_EFFORT_LOWEST = 2 << 13 | 7
_SET_IOPRIO = {"x86_64": 251, "aarch64": 30}
_CANNOT_BE_CHANGED = {signal.SIGKILL, signal.SIGSTOP}
CHANGEABLE = tuple(int(number) for number in signal.valid_signals() if number not in _CANNOT_BE_CHANGED)
MACHINE = os.uname().machine


@dataclass(frozen=True)
class Context:
    """A state of the caller (`as_caller`) and what it does to the child before its exec."""

    env: tuple[bytes, ...] = PLAIN
    as_caller: Callable[[], None] = nothing
    as_child: Callable[[], None] = nothing
    arguments: tuple[bytes, ...] = ()


def closed(*fds: int) -> Callable[[], None]:
    def close() -> None:
        for fd in fds:
            os.close(fd)

    return close


def ignoring(*numbers: int) -> Callable[[], None]:
    return lambda: ignore(*numbers)


def blocking(*numbers: int) -> Callable[[], None]:
    return lambda: void(signal.pthread_sigmask(signal.SIG_BLOCK, numbers))


def void(_: object) -> None:
    """A value that nobody needs."""


def prctl(*words: int) -> None:
    if _libc.prctl(*[ctypes.c_ulong(word) for word in (*words, 0, 0, 0, 0)[:5]]):
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {words}: {os.strerror(code)}")


def extra_descriptors() -> None:
    one = os.open("/etc/passwd", os.O_RDONLY)
    os.read(one, 5)
    for fd in (3, 9, 41):
        os.dup2(one, fd)  # inheritable
    os.set_blocking(9, False)


def descriptor_nine() -> None:
    os.dup2(os.open("/dev/zero", os.O_RDWR), 9)


def in_a_deleted_folder() -> None:
    folder = f"/tmp/proofcost-deleted-{os.getpid()}"
    os.mkdir(folder)
    os.chdir(folder)
    os.rmdir(folder)


def in_own_session() -> None:
    os.setsid()


def with_a_pending_signal() -> None:
    """Sent while it was held back: exec keeps it, fork does not."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM, 44})
    for number in (signal.SIGUSR2, signal.SIGTERM, 44):
        os.kill(os.getpid(), number)


def with_timers() -> None:
    """As `alarm` before an exec: exec keeps them, fork does not."""
    signal.setitimer(signal.ITIMER_REAL, 1000)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000, 7.25)
    signal.setitimer(signal.ITIMER_PROF, 1000, 9)


def odd_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 4096))
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 24))
    resource.setrlimit(resource.RLIMIT_CPU, (100, 200))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 31))


def other_limits() -> None:
    """Those that an ordinary judge never sets."""
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 30))
    resource.setrlimit(resource.RLIMIT_RSS, (1 << 29, 1 << 30))
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 8192))
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (100, 200))
    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (1000, 2000))
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
    resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 20, 1 << 21))
    resource.setrlimit(10, (50, 60))  # RLIMIT_LOCKS


def odd_scheduling() -> None:
    os.nice(5)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.umask(0o027)


def as_a_batch() -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    if MACHINE in _SET_IOPRIO and _libc.syscall(_SET_IOPRIO[MACHINE], 1, 0, _BEST_EFFORT_LOWEST):
        raise OSError(ctypes.get_errno(), "ioprio_set")


def first_for_the_oom_killer() -> None:
    Path("/proc/self/oom_score_adj").write_text("500")
    Path("/proc/self/coredump_filter").write_text("0x1")


def with_odd_attributes() -> None:
    prctl(_PR_SET_TIMERSLACK, 123456)
    prctl(_PR_SET_THP_DISABLE, 1)
    if _libc.personality(_NO_RANDOM_ADDRESSES) < 0:
        raise OSError(ctypes.get_errno(), "personality")


def without_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def with_fewer_capabilities() -> None:
    """Root's only: others have none to drop."""
    if os.geteuid() == 0:
        prctl(_PR_CAPBSET_DROP, _CAP_SYS_TIME)
        prctl(_PR_SET_SECUREBITS, 1 << 2)  # SECBIT_NO_SETUID_FIXUP


def as_nobody() -> None:
    os.setgroups([1234])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


LONGEST = 131071  # bytes of one argument or environment entry: MAX_ARG_STRLEN less its NUL, with pages of 4 KiB
ODD_ARGUMENTS = (b"", b"\xff\xfe", b"a\nb", b"--", b"-x", b"--phase", b" ", "é€😀".encode(), b"\\x41", b"'\"$`")
DUPLICATES = (b"A=1", b"A=2", b"no-equals", b"", b"=empty-name", b"B=\xff\xfe", b"A=3", b"BASH_FUNC_x%%=() { :; }",
              b"LINES=one\ntwo\n", b"\xff\xfe=name", b"TAB\t=x", b"EMPTY=")  # fmt: skip
CONTEXTS = {
    "plain": Context(),
    "odd arguments": Context(arguments=ODD_ARGUMENTS),
    "many arguments": Context(arguments=tuple(b"%d" % n for n in range(3000))),
    "the longest argument": Context(arguments=(b"\xe9" * LONGEST,)),
    "duplicates and entries without =": Context(env=(*PLAIN, *DUPLICATES)),
    "many entries": Context(env=tuple(b"N%d=%d" % (n, n) for n in range(3000))),
    "the longest entry": Context(env=(*PLAIN, b"LONG=" + b"\xe9" * (LONGEST - 5))),
    "empty environment": Context(env=()),
    "LANG=C": Context(env=(b"LANG=C", b"Z=1")),
    "LC_CTYPE=C": Context(env=(b"LC_CTYPE=C", b"Z=1")),
    "LC_CTYPE twice": Context(env=(b"X=1", b"LC_CTYPE=POSIX", b"Z=1", b"LC_CTYPE=C")),
    "LC_ALL=C": Context(env=(b"LC_ALL=C",)),
    "LC_ALL of no locale": Context(env=(b"LC_ALL=xx_YY.UTF-8",)),
    "Python's own variables": Context(
        env=(*PLAIN, b"PYTHONVERBOSE=1", b"PYTHONINSPECT=1", b"PYTHONHOME=/nonexistent", b"PYTHONDEVMODE=1",
             b"PYTHONWARNINGS=error", b"PYTHONPATH=/nonexistent", b"PYTHONSTARTUP=/x", b"PYTHONUTF8=0",
             b"PYTHONMALLOC=debug", b"PYTHONCOERCECLOCALE=warn", b"LC_CTYPE=C")
    ),
    "closed stdin": Context(as_child=closed(0)),
    "closed stdout": Context(as_child=closed(1)),
    "closed stderr": Context(as_child=closed(2)),
    "closed stdin and stdout": Context(as_child=closed(0, 1)),
    "closed stdin and stderr": Context(as_child=closed(0, 2)),
    "closed stdout and stderr": Context(as_child=closed(1, 2)),
    "all closed": Context(as_child=closed(0, 1, 2)),
    "descriptor 9": Context(as_child=descriptor_nine),
    "extra descriptors": Context(as_child=extra_descriptors),
    "deleted folder": Context(as_child=in_a_deleted_folder),
    "ignored signals": Context(as_child=ignoring(signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, 50)),
    "all others ignored": Context(as_child=ignoring(*sorted({*CHANGEABLE} - {signal.SIGPIPE, signal.SIGXFSZ}))),
    "caller ignores SIGPIPE as Lean does": Context(as_caller=ignoring(signal.SIGPIPE)),
    "caller ignores SIGXFSZ": Context(as_caller=ignoring(signal.SIGXFSZ)),
    "caller ignores SIGCHLD": Context(as_child=ignoring(signal.SIGCHLD)),
    "blocked signals": Context(as_child=blocking(signal.SIGUSR1, signal.SIGTERM, 40)),
    "all signals blocked": Context(as_child=blocking(*CHANGEABLE)),
    "pending signals": Context(as_child=with_a_pending_signal),
    "timers": Context(as_child=with_timers),
    "odd limits": Context(as_child=odd_limits),
    "other limits": Context(as_child=other_limits),
    "few descriptors": Context(as_child=limit(resource.RLIMIT_NOFILE, 20)),
    "small address space": Context(as_child=limit(resource.RLIMIT_AS, 60_000_000)),
    "scheduling and umask": Context(as_child=odd_scheduling),
    "batch scheduling": Context(as_child=as_a_batch),
    "umask 0": Context(as_child=lambda: void(os.umask(0))),
    "umask 0777": Context(as_child=lambda: void(os.umask(0o777))),
    "first for the OOM killer": Context(as_child=first_for_the_oom_killer),
    "odd attributes": Context(as_child=with_odd_attributes),
    "no new privileges": Context(as_child=without_new_privileges),
    "fewer capabilities": Context(as_child=with_fewer_capabilities),
    "own process group": Context(as_child=lambda: os.setpgid(0, 0)),
    "own session": Context(as_child=in_own_session),
}  # fmt: skip
# `proofcost` itself is an ordinary Python program; these are about a Python that must not read its environment.
NOT_FOR_RUN = {"Python's own variables"}
# Chosen for the slow guest: one of each kind.
IN_GUEST = {"odd arguments", "duplicates and entries without =", "LC_CTYPE=C", "all closed", "extra descriptors",
            "caller ignores SIGCHLD", "blocked signals", "pending signals", "timers", "odd limits"}  # fmt: skip
# What names the process itself and so differs from one call to the next; a deleted folder has its child's pid in it.
OWN_NUMBERS = {"own process group": ("pgid",), "own session": ("pgid", "sid"), "deleted folder": ("cwd",)}
