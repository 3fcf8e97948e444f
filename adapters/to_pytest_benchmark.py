"""`export --to pytest-benchmark`: kernel runs as saved benchmarks, for `pytest-benchmark compare`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import IO, Any

from proofcost.adapters.one_column import WALL, column_of_most, figure
from proofcost.harness.columns import Row

HELP = "a saved run of pytest-benchmark, for `pytest-benchmark compare`"
MAPS = (
    ("benchmarks[].fullname", "phase, kernel, subject", "joined by ::"),
    ("benchmarks[].group", "subject", "so that kernels stand side by side"),
    ("benchmarks[].stats.data[]", "wall_program, wall_command", "the one that most of the calls have; ns to s"),
    ("benchmarks[].extra_info", "memory_peak_tree, instructions_u", "medians"),
    ("machine_info.node", "host", "as it is"),
    ("datetime", "started_ns", "of the first"),
)


def write(rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
    """Write one benchmark for each phase, kernel and subject; what failed or only warmed up is left out, and said."""
    cells: dict[tuple[str, str, str], list[Row]] = {}
    hosts: set[str] = set()
    first: int | None = None
    for row in rows:
        good = row.get("outcome", "exited") == "exited" and row.get("cause", "completed") == "completed"
        if row.get("warmup") or not good or all(figure(row, column) is None for column in WALL):
            say("calls that failed, were killed, only warmed up or have no wall time are left out")
            continue
        key = (row.get("phase") or "unknown", row.get("kernel") or "", row.get("workload") or row.get("subject") or "")
        cells.setdefault(key, []).append(row)
        hosts.add(row.get("host") or "unknown")
        started = row.get("started_ns")
        first = started if first is None else min(first, started or first)
    if len(hosts) > 1:
        say("runs of several machines stand in one file: pytest-benchmark cannot tell them apart")
    document = {
        "machine_info": {"node": ", ".join(sorted(hosts)), "processor": "", "machine": ""},
        "commit_info": {},
        "benchmarks": [_benchmark(key, found) for key, found in cells.items()],
        "datetime": datetime.fromtimestamp((first or 0) // 10**9, UTC).isoformat(),
        "version": "5.0.0",
    }
    out.write(json.dumps(document, indent=1).encode("ascii") + b"\n")


def _benchmark(key: tuple[str, str, str], rows: list[Row]) -> dict[str, Any]:
    from pytest_benchmark.stats import Stats

    stats = Stats()  # type: ignore[no-untyped-call]
    column = column_of_most(rows, WALL)
    for row in rows:
        value = None if column is None else figure(row, column)
        if value is not None:
            stats.update(value / 1e9)  # type: ignore[no-untyped-call]
    made: dict[str, Any] = {**stats.as_dict(), "data": stats.data}  # type: ignore[no-untyped-call]
    made["iterations"] = 1
    phase, kernel, subject = key
    name = "::".join(part for part in key if part)
    extra = {}
    for column in ("memory_peak_tree", "instructions_u"):
        values = sorted(value for row in rows if (value := figure(row, column)) is not None)
        if values:
            extra[column] = values[(len(values) - 1) // 2]
    return {
        "group": subject or None,
        "name": f"{phase}::{kernel}" if kernel else phase,
        "fullname": name,
        "params": None,
        "param": None,
        "options": {},
        "extra_info": extra,
        "stats": made,
    }
