"""What outlived a command goes on using CPU and memory; when it has ended, the exact figures are added to its record.

Whoever passes next does it: the next meter, `run` at its end. The leftover cgroup holds the figures and names the
invocation. The settled file is made with O_EXCL: who loses that race does nothing.
"""

import os
import time

from proofcost.harness import cgroup, figures, hierarchy, procfs, store
from proofcost.harness.clock import clocks
from proofcost.harness.record import Json
from proofcost.harness.usage import read_usage
from proofcost.harness.version import SCHEMA

_PASSED_BY_MAX = 64
ABANDONED_NS = 3_600_000_000_000
FINISHED = b'"event":"finished"'
_TICKS = b'"meter_start_ticks":'


def pass_by(place: str, session: str, base: dict[str, str], inside: bool, own: str) -> None:
    """Settle what earlier meters left beside the cgroup we are about to use.

    `inside` tells that `base` is a session's cgroup, whose children bear an invocation's name and nothing else.
    """
    prefix = "" if inside else hierarchy.PREFIX + "."
    found = []
    # A meter killed as it removed its cgroup may have left one hierarchy's alone.
    for name in {name for directory in base.values() for name in cgroup.left_over(directory, prefix)}:
        if inside:
            owner, invocation = session, name
        else:
            _, owner, invocation = (*name.split(".", 2), "", "")[:3]
        if invocation == own or name == hierarchy.WHOLE or not invocation:
            continue
        foreign = not os.path.exists(f"{place}/sessions/{owner}/{invocation}.jsonl")
        found.append((foreign, invocation, owner, name))
    # Ours first: many leftovers of other stores must not keep our own from being settled.
    for _, invocation, owner, name in sorted(found)[:_PASSED_BY_MAX]:
        dirs = {kind: f"{path}/{name}" for kind, path in base.items() if os.path.isdir(f"{path}/{name}")}
        settle(place, owner, invocation, dirs, "meter")


def settle(place: str, session: str, invocation: str, dirs: dict[str, str], by: str) -> bool:
    """Write `settled` for one invocation whose tree has ended, and remove its cgroup. False when it is not yet time."""
    path = f"{place}/sessions/{session}/{invocation}"
    events = procfs.read_file(path + ".jsonl", 1 << 22)
    if events is None:
        return _remove_abandoned(invocation, dirs)
    finished = FINISHED in events
    if not finished and _meter_runs(events, invocation):
        return False
    if finished and by == "meter" and _is_leaving(events, invocation):
        return False
    group = cgroup.Group("")
    group.dirs = dirs
    if group.pids():
        return False
    table: figures.Figures = {}
    usage = read_usage(dirs)
    why = "the cgroup no longer tells"
    for name, value in (
        ("cpu_tree", usage.cpu_ns),
        ("cpu_tree_user", usage.cpu_user_ns),
        ("cpu_tree_system", usage.cpu_system_ns),
    ):
        figures.put(table, name, value, "ns", usage.cpu_method, why)
    figures.put(table, "memory_peak_tree", usage.peak_bytes, "bytes", usage.peak_method, why)
    known: dict[str, Json] = {name: figure for name, figure in table.items() if figure["value"] is not None}
    # A v1 cgroup does not list whom our pid namespace cannot see: there its removal tells that it was empty.
    if not _is_of_our_namespace(events):
        was_there = any(map(os.path.isdir, dirs.values()))  # else somebody else is just settling it
        if not was_there or not group.remove(whole=True):
            return False
    event: dict[str, Json] = {
        "schema": SCHEMA,
        "event": "settled",
        "invocation": invocation,
        "session": session,
        "clocks": clocks(),
        "settled_by": by,
        "stragglers": {"count": 0, "action": "none", "reason": None},
        "measurements": known,
    }
    store.write_new(path + ".settled.jsonl", event)
    return group.remove(whole=True)


def _remove_abandoned(invocation: str, dirs: dict[str, str]) -> bool:
    """A leftover of a store that is not this one, perhaps gone: else every later call would look at it again.

    Only when it is old, its meter's pid is free and nothing lives in it.
    """
    made, _, rest = invocation.partition("-")
    pid = rest.partition("-")[0]
    try:
        age_ns = time.time_ns() - int(made, 16)
    except ValueError:
        return False
    group = cgroup.Group("")
    group.dirs = dirs
    if age_ns < ABANDONED_NS or not pid.isdecimal() or procfs.exists(int(pid)) or group.pids():
        return False
    return group.remove(whole=True)


def _meter_runs(events: bytes, invocation: str) -> bool:
    """Whether the meter of an unfinished record still runs; one of another pid namespace may, for all we can see."""
    return not _is_of_our_namespace(events) or _is_leaving(events, invocation)


def _is_of_our_namespace(events: bytes) -> bool:
    """Whether these were written in our own pid namespace, as far as /proc tells which that is."""
    namespace = procfs.pid_namespace()
    return namespace is None or f'"pid_namespace":"{namespace}"'.encode() in events


def _is_leaving(events: bytes, invocation: str) -> bool:
    """Whether the meter that wrote these is still there, in our pid namespace: it looks after its own cgroup."""
    pid = invocation.split("-")[1] if invocation.count("-") == 2 else ""
    at = events.find(_TICKS)
    digits = events[at + len(_TICKS) : at + len(_TICKS) + 24].split(b",")[0]
    if not pid.isdecimal() or not digits.isdigit():
        return False
    hidden = procfs.start_ticks(int(pid)) is None and procfs.exists(int(pid))
    return hidden or procfs.is_running(int(pid), int(digits))
