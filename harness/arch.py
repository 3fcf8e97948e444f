"""What differs between machine kinds, in one table: system call numbers by `uname -m`.

Source: the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
A machine that is not in the table is measured without what needs these calls, and the record says so.
"""

import os

PERF_EVENT_OPEN = 0
CLONE3 = 1
LANDLOCK_CREATE_RULESET = 2
IOPRIO_GET = 3

_SYSCALLS = {
    #           perf_event_open, clone3, landlock_create_ruleset, ioprio_get
    "x86_64": (298, 435, 444, 252),
    "aarch64": (241, 435, 444, 31),
}


def syscall_number(which: int) -> int | None:
    """Number of one of the calls above on this machine; None when the machine is not in the table."""
    row = _SYSCALLS.get(os.uname().machine)
    return None if row is None else row[which]
