"""`cgroup-status.json` of a cgroup runner (state, limits, memory_peak, memory_events, cpu_stat)."""

from __future__ import annotations

from collections.abc import Iterator

from proofcost.adapters.foreign import FormatError, Head, Source, count, ns, put, scaled, text
from proofcost.harness.columns import Row

HELP = "cgroup-status.json (memory_peak, memory_events, cpu_stat of one run in a cgroup)"
MAPS = (
    ("exit_status, term_signal", "exit_code, signal, outcome", "as they are"),
    ("elapsed", "wall_command", "s to ns"),
    ("deadline_fired", "cause, outcome", "true: time_limit, timed_out"),
    ("memory_events.oom_kill", "cause", "above 0 with SIGKILL: memory_limit"),
    ("pressure_fired, launch_error", "cause", "terminated_by_caller; not_started"),
    ("limits_applied", "memory_limit_bytes", "memory_max, where it is a number"),
    ("memory_peak", "memory_peak_tree", "bytes"),
    ("cpu_stat", "cpu_tree, cpu_tree_user, cpu_tree_system", "us to ns"),
    ("populated_after_kill", "stragglers", "true: a defect is noted"),
)
UNKNOWN = ("the command, when and where it ran",)
DEFECTS = ("memory_peak may be 0 where the kernel offers none: taken as missing.",)


def fits(head: Head) -> bool:
    return head.opening == "{" and {"memory_events", "cpu_stat", "exit_status"} <= head.keys


def rows(source: Source) -> Iterator[Row]:
    made = source.document()
    if not isinstance(made, dict) or "exit_status" not in made:
        raise FormatError("no object with `exit_status`")
    events, cpu, limits = (made.get(name) for name in ("memory_events", "cpu_stat", "limits_applied"))
    row: Row = {"phase": "whole", "labels": {"state": text(made.get("state")) or "unknown"}}
    row["exit_code"], row["signal"] = count(made.get("exit_status")), count(made.get("term_signal")) or None
    killed = count(events.get("oom_kill")) if isinstance(events, dict) else None
    row["outcome"] = "signaled" if row["signal"] else "exited"
    row["cause"] = "completed" if row["outcome"] == "exited" else "killed_cause_unknown"
    if made.get("launch_error"):
        row["outcome"] = row["cause"] = "not_started"
    elif made.get("deadline_fired") is True:
        row["outcome"], row["cause"] = "timed_out", "time_limit"
    elif killed and row["signal"] == 9:
        row["cause"] = "memory_limit"
    elif made.get("pressure_fired") is True:
        row["cause"] = "terminated_by_caller"
    if made.get("populated_after_kill") is True:
        row["defects"] = ["processes lived on after the kill"]
    row["memory_limit_bytes"] = count(limits.get("memory_max")) if isinstance(limits, dict) else None
    put(row, "wall_command", ns(made.get("elapsed")) or None, "not in the source")
    put(row, "memory_peak_tree", count(made.get("memory_peak")) or None, "0 or not in the source")
    for field, column in (
        ("usage_usec", "cpu_tree"), ("user_usec", "cpu_tree_user"), ("system_usec", "cpu_tree_system"),
    ):  # fmt: skip
        put(row, column, scaled(cpu.get(field), 1000) if isinstance(cpu, dict) else None, "not in the source")
    yield row
