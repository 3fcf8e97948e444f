"""`export --to openmetrics`: sums for a monitoring system, as the node exporter's textfile collector reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

from proofcost.adapters.one_column import CPU, WALL, figure
from proofcost.adapters.to_radar import seconds
from proofcost.harness.columns import Row

HELP = "OpenMetrics text, for the node exporter's textfile collector (-o proofcost.prom)"
MAPS = (
    ("proofcost_calls", "phase, kernel, outcome, cause, verdict", "counted"),
    ("proofcost_wall_seconds", "wall_program, wall_command", "sum and count; the one that most of the calls have"),
    ("proofcost_cpu_seconds", "cpu_tree, cpu_waited", "sum and count; the one that most of the calls have"),
    ("proofcost_memory_peak_bytes", "memory_peak_tree", "the largest"),
    ("proofcost_last_start_timestamp_seconds", "started_ns", "the latest"),
)


def write(rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
    """Write counts and sums by phase and kernel; a figure that nobody measured has no line."""
    calls: dict[tuple[str, str, str, str, str], int] = {}
    # By figure, then by column: which of them most calls have is known at the end.
    sums: dict[str, dict[tuple[str, str], dict[str, list[int]]]] = {"wall": {}, "cpu": {}}
    peaks: dict[tuple[str, str], int] = {}
    last = 0
    for row in rows:
        if row.get("warmup"):
            continue
        key = (row.get("phase") or "unknown", row.get("kernel") or "")
        end = (row.get("outcome") or "unknown", row.get("cause") or "", row.get("verdict") or "")
        calls[(*key, *end)] = calls.get((*key, *end), 0) + 1
        for name, columns in (("wall", WALL), ("cpu", CPU)):
            for column in columns:
                value = figure(row, column)
                if value is not None:
                    total = sums[name].setdefault(key, {}).setdefault(column, [0, 0])
                    total[0] += value
                    total[1] += 1
        peak = figure(row, "memory_peak_tree")
        if peak is not None:
            peaks[key] = max(peaks.get(key, 0), peak)
        last = max(last, row.get("started_ns") or 0)
    lines = ["# TYPE proofcost_calls gauge", "# HELP proofcost_calls Calls in the data that was exported."]
    for (phase, kernel, outcome, cause, verdict), number in sorted(calls.items()):
        labels = _labels(phase=phase, kernel=kernel, outcome=outcome, cause=cause, verdict=verdict)
        lines.append(f"proofcost_calls{labels} {number}")
    for name, what in (("wall", "Wall time of calls."), ("cpu", "CPU time of calls.")):
        lines += [f"# TYPE proofcost_{name}_seconds summary", f"# UNIT proofcost_{name}_seconds seconds"]
        lines.append(f"# HELP proofcost_{name}_seconds {what}")
        for pair, by_column in sorted(sums[name].items()):
            order = WALL if name == "wall" else CPU
            added, number = max((by_column[column] for column in order if column in by_column), key=lambda one: one[1])
            labels = _labels(phase=pair[0], kernel=pair[1])
            lines.append(f"proofcost_{name}_seconds_sum{labels} {seconds(added)}")
            lines.append(f"proofcost_{name}_seconds_count{labels} {number}")
    lines += ["# TYPE proofcost_memory_peak_bytes gauge", "# UNIT proofcost_memory_peak_bytes bytes"]
    lines.append("# HELP proofcost_memory_peak_bytes Largest peak of a call's process tree.")
    for pair, largest in sorted(peaks.items()):
        lines.append(f"proofcost_memory_peak_bytes{_labels(phase=pair[0], kernel=pair[1])} {largest}")
    if last:
        lines += [
            "# TYPE proofcost_last_start_timestamp_seconds gauge",
            "# UNIT proofcost_last_start_timestamp_seconds seconds",
            "# HELP proofcost_last_start_timestamp_seconds Start of the latest call.",
            f"proofcost_last_start_timestamp_seconds {seconds(last)}",
        ]
    out.write("\n".join([*lines, "# EOF", ""]).encode("utf-8"))


def _labels(**labels: str) -> str:
    made = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value)
    return "{" + made + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
