"""How the command ended, and why: kind and code from the wait status, a cause only from evidence.

A killed command is never called anything but killed: without evidence of who did it the cause is
`killed_cause_unknown`.
"""

import os

from proofcost.harness import signals
from proofcost.harness.record import Json

EXITED, SIGNALED, TIMED_OUT, NOT_STARTED = "exited", "signaled", "timed_out", "not_started"

COMPLETED = "completed"
SANDBOX_SETUP_FAILED = "sandbox_setup_failed"
MEMORY_LIMIT = "memory_limit"
HOST_MEMORY = "host_memory"
CPU_LIMIT = "cpu_limit"
FILE_SIZE_LIMIT = "file_size_limit"
DISK_FULL = "disk_full"
TIME_LIMIT = "time_limit"
TERMINATED_BY_CALLER = "terminated_by_caller"
CRASHED = "crashed"
KILLED_CAUSE_UNKNOWN = "killed_cause_unknown"
CAUSE_NOT_STARTED = "not_started"

# Less than this free at the lowest sample, and a failed command, is a full disk: an ordinary write would not have
# fitted.
DISK_FULL_BELOW_BYTES = 1 << 20
CPU_LIMIT_SLACK_NS = 1_000_000_000


class Evidence:
    """What was seen besides the wait status. None means not known, which is not the same as none."""

    __slots__ = (
        "caller_signal",
        "cpu_limit_s",
        "cpu_ns",
        "disk_free_min_bytes",
        "exec_errno",
        "file_size_limit_bytes",
        "memory_limit_scope",
        "oom_kill_count",
        "program",
        "program_reached",
        "sandboxed",
        "time_limit_ns",
        "time_limit_of",
    )

    def __init__(self) -> None:
        self.caller_signal: int | None = None
        self.time_limit_ns: int | None = None
        self.time_limit_of = "the whole"
        self.exec_errno: int | None = None
        self.program = "the command"
        self.oom_kill_count: int | None = None
        # The cgroup whose own limit was hit; None while OOM kills happened: the host itself ran out (or a limit above
        # all that a container can see was hit).
        self.memory_limit_scope: str | None = None
        self.cpu_limit_s: int | None = None
        self.cpu_ns: int | None = None
        self.file_size_limit_bytes: int | None = None
        self.disk_free_min_bytes: int | None = None
        self.sandboxed = False
        self.program_reached: bool | None = None


def seconds(ns: int) -> str:
    """Nanoseconds as seconds, exact, for a person: `1.5`."""
    return f"{ns // 10**9}.{ns % 10**9:09d}".rstrip("0").rstrip(".")


def judge(status: int, evidence: Evidence) -> dict[str, Json]:
    """The record's `outcome`. `status` is what wait(2) gave."""
    signaled = os.WIFSIGNALED(status)
    number = os.WTERMSIG(status) if signaled else None
    code = None if signaled else os.WEXITSTATUS(status)
    said: list[Json] = [f"killed by {signals.name(number)}" if number is not None else f"exit code {code}"]
    kind = SIGNALED if signaled else EXITED
    if evidence.exec_errno is not None:
        kind, cause = NOT_STARTED, CAUSE_NOT_STARTED
        code = number = None
        signaled = False
        said = [f"exec of {evidence.program} failed: {os.strerror(evidence.exec_errno)}"]
    elif evidence.time_limit_ns is not None:
        kind, cause = TIMED_OUT, TIME_LIMIT
        how = "we killed it" if number is not None else "it ended by itself after that"
        said.append(
            f"our time limit of {seconds(evidence.time_limit_ns)} s for {evidence.time_limit_of} had passed, and {how}"
        )
    else:
        cause = _cause(number, code, evidence, said)
    return {
        "kind": kind,
        "code": code,
        "signal": number,
        "core_dumped": os.WCOREDUMP(status) if signaled else None,
        "errno": evidence.exec_errno,
        "cause": cause,
        "evidence": said,
    }


def _cause(number: int | None, code: int | None, evidence: Evidence, said: list[Json]) -> str:
    failed = number is not None or code != 0
    oom_kills = evidence.oom_kill_count
    if oom_kills:
        where = evidence.memory_limit_scope
        said.append(
            f"{oom_kills} process(es) of the tree killed for memory; "
            + (f"limit of {where}" if where else "no limit that can be seen from here was hit: the host ran out")
        )
    unreached = evidence.sandboxed and evidence.program_reached is False
    if unreached:
        said.append("the program in the sandbox was never reached (exec stamps)")
    if not failed:
        return COMPLETED
    if oom_kills:
        return MEMORY_LIMIT if evidence.memory_limit_scope else HOST_MEMORY
    if unreached and number is None:
        return SANDBOX_SETUP_FAILED
    if number is not None and evidence.caller_signal is not None:
        said.append(f"the caller had sent {signals.name(evidence.caller_signal)}")
        return TERMINATED_BY_CALLER
    if _cpu_limit_hit(number, evidence):
        said.append(f"RLIMIT_CPU is {evidence.cpu_limit_s} s, used {evidence.cpu_ns} ns")
        return CPU_LIMIT
    if number == signals.SIGXFSZ and evidence.file_size_limit_bytes is not None:
        said.append(f"RLIMIT_FSIZE is {evidence.file_size_limit_bytes} bytes")
        return FILE_SIZE_LIMIT
    free = evidence.disk_free_min_bytes
    if free is not None and free < DISK_FULL_BELOW_BYTES:
        said.append(f"only {free} bytes were free on a filesystem it may write to")
        return DISK_FULL
    if number is None:
        if evidence.caller_signal is not None:
            said.append(f"the caller had sent {signals.name(evidence.caller_signal)}")
            return TERMINATED_BY_CALLER
        return COMPLETED
    if number in signals.FAULTS:
        return CRASHED
    return KILLED_CAUSE_UNKNOWN


def _cpu_limit_hit(number: int | None, evidence: Evidence) -> bool:
    """SIGXCPU under a limit says it itself; SIGKILL (the hard limit) needs a CPU time that fits.

    The limit is per process and the time is the tree's: much more than the limit proves nothing.
    """
    if evidence.cpu_limit_s is None:
        return False
    if number == signals.SIGXCPU:
        return True
    if number != signals.SIGKILL or evidence.cpu_ns is None:
        return False
    return abs(evidence.cpu_ns - evidence.cpu_limit_s * 1_000_000_000) <= CPU_LIMIT_SLACK_NS


def exit_code(status: int) -> int:
    """What an entrance leaves with: the command's own code, 128+n for a signal (never 0)."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)
