"""How the host's kernel treats the meter: what a process of the same user may change from outside, confined or not.

Landlock forbids neither prlimit nor the scheduler's calls on another process of one's own user. None of that changes a
status, but a meter that runs last sees an exit late, and one without descriptors or file size loses its record: so what
was changed while the command ran is said in the record.
"""

import os
import resource

from proofcost.harness import libc

_LIMITS = (
    "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_DATA", "RLIMIT_STACK", "RLIMIT_CORE", "RLIMIT_RSS", "RLIMIT_NPROC",
    "RLIMIT_NOFILE", "RLIMIT_MEMLOCK", "RLIMIT_AS", "RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE", "RLIMIT_NICE",
    "RLIMIT_RTPRIO", "RLIMIT_RTTIME",
)  # fmt: skip


def look() -> dict[str, str]:
    """Our own priority, processors and limits, as text."""
    seen = {
        "nice": str(os.getpriority(os.PRIO_PROCESS, 0)),
        "scheduling policy": str(os.sched_getscheduler(0)),
        "processors": " ".join(map(str, sorted(os.sched_getaffinity(0)))),
    }
    try:
        seen["I/O priority"] = str(libc.io_priority())
    except OSError:
        pass  # an unknown machine, or forbidden: one thing less to be seen
    for name in _LIMITS:
        seen[name] = " ".join(map(str, resource.getrlimit(getattr(resource, name))))
    return seen


def changed_since(before: dict[str, str]) -> list[str]:
    """What is not as it was, a line each."""
    now = look()
    return [
        f"somebody changed this meter's {name} while the command ran: from {was} to {now[name]}"
        for name, was in before.items()
        if name in now and now[name] != was
    ]
