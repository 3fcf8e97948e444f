"""Whether the meter of an unfinished record still runs: only the host, boot and pid namespace it ran in can tell."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

from proofcost.harness import procfs

PID_MAX = 1 << 22
"""Linux's own greatest pid (PID_MAX_LIMIT); a record that names another was written by no meter."""


class MeterState(Enum):
    """What became of a meter that has written `started` and not `finished`."""

    RUNNING = "running"
    VANISHED = "vanished"


@cache
def here() -> tuple[str | None, str | None]:
    """Boot id and pid namespace of this very process."""
    return procfs.boot_id(), procfs.pid_namespace()


def meter_state(started: Mapping[str, Any]) -> MeterState | None:
    """What became of the meter that wrote `started`; None where this process cannot know.

    It cannot on another host or boot, in another pid namespace, and where /proc hides other users' processes.
    """
    host, process = started.get("host"), started.get("process")
    if not isinstance(host, dict) or not isinstance(process, dict):
        return None
    there = (host.get("boot_id"), process.get("pid_namespace"))
    pid, ticks = process.get("meter_pid"), process.get("meter_start_ticks")
    if None in there or there != here() or not isinstance(pid, int) or not isinstance(ticks, int):
        return None
    if not 0 < pid <= PID_MAX:
        return None
    if procfs.is_running(pid, ticks):
        return MeterState.RUNNING
    if procfs.start_ticks(pid) is None and procfs.exists(pid):  # hidden from us (hidepid), or born this very moment
        return None
    return MeterState.VANISHED
