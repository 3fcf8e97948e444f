"""What a kernel leaves running where there is no cgroup to find it in: adopted instead of lost to init, and killed.

Standard library and harness only, and little of it: cell.py uses it.
"""

import os
import time

from proofcost.harness import cgroup, libc, procfs
from proofcost.harness.signals import SIGKILL

PATIENCE_NS = 1_000_000_000
STEP_S = 0.002


def adopt() -> bool:
    """From now on orphans among our descendants become our children. False where that cannot be had."""
    try:
        libc.adopt_orphans()
    except OSError:
        return False
    return True


def living(keep: frozenset[int] = frozenset()) -> list[int]:
    """Our descendants, but for the children in `keep` and what hangs from them; the dead ones are reaped."""
    found = []
    for child in procfs.children_of(os.getpid()):
        if child in keep:
            continue
        try:
            if os.waitpid(child, os.WNOHANG)[0] == child:
                continue
        except ChildProcessError:
            continue
        found += procfs.tree_of(child)
    return found


def kill(keep: frozenset[int] = frozenset()) -> tuple[int, int]:
    """Kill them. (How many outlived the kernel, how many still live after a second.)"""
    first = _left_after(cgroup.GRACE_NS, keep, False)
    left = _left_after(PATIENCE_NS, keep, True) if first else []
    return len(first), len(left)


def _left_after(patience_ns: int, keep: frozenset[int], killing: bool) -> list[int]:
    """Those that are left when so long was waited for them to end, or with `killing` were killed meanwhile."""
    end = time.monotonic_ns() + patience_ns
    while (left := living(keep)) and time.monotonic_ns() < end:
        for pid in left if killing else ():
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                continue
        time.sleep(STEP_S)
    return left
