"""`export --to arena`: checker calls as the Lean Kernel Arena's `results.json` has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import IO, Any

from proofcost.adapters.one_column import figure
from proofcost.adapters.to_radar import seconds
from proofcost.harness.columns import Row

HELP = "the results part of the Lean Kernel Arena's results.json"
MAPS = (
    ("checker", "kernel", "as it is"),
    ("test", "workload, subject", "the first that is known"),
    (
        "status",
        "verdict, cause, exit_code",
        "timeout for a time limit; 0 of an unknown kernel: accepted; else error",
    ),
    ("correctness", "expected", "correct, incorrect, declined or error"),
    ("exit_code", "exit_code, signal", "128 + n for a signal"),
    ("wall_time, cpu_time", "wall_program, wall_command, cpu_tree, cpu_waited", "ns to s"),
    ("max_rss", "memory_peak_process", "bytes"),
    ("instructions", "instructions_u", "as it is"),
)


def write(rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
    """Write the median run (by wall) of each checker and test; what was not measured is left out, never 0."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.get("phase") != "checker" or row.get("warmup"):
            continue
        test = row.get("workload") or row.get("subject") or "unknown"
        cells.setdefault((row.get("kernel") or "unknown", test), []).append(row)
    out.write(b'{"results": [')
    for number, ((checker, test), found) in enumerate(cells.items()):
        found.sort(key=lambda row: _first(row, "wall_program", "wall_command") or 0)
        if len(found) > 1:
            say("of several runs of one checker on one test the median by wall is given")
        out.write((",\n" if number else "\n").encode() + _result(checker, test, found[(len(found) - 1) // 2]).encode())
    out.write(b"\n]}\n")
    if not cells:
        say("no checker call")


def _first(row: Row, *columns: str) -> Any:
    return next((value for column in columns if (value := figure(row, column)) is not None), None)


def _result(checker: str, test: str, row: Row) -> str:
    status = _status(row)
    code = 128 + row["signal"] if row.get("signal") else row.get("exit_code")
    fields: list[tuple[str, str]] = [
        ("checker", json.dumps(checker)),
        ("test", json.dumps(test)),
        ("status", json.dumps(status)),
        ("correctness", json.dumps(_correctness(status, row.get("expected")))),
    ]
    if code is not None:
        fields.append(("exit_code", str(code)))
    for name, columns in (("wall_time", ("wall_program", "wall_command")), ("cpu_time", ("cpu_tree", "cpu_waited"))):
        value = _first(row, *columns)
        if value is not None:
            fields.append((name, seconds(value)))
    peak, instructions = figure(row, "memory_peak_process"), figure(row, "instructions_u")
    fields += [
        (name, str(value)) for name, value in (("max_rss", peak), ("instructions", instructions)) if value is not None
    ]
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"


def _status(row: Row) -> str:
    """As the arena's own protocol has it (0 accepts), where our registry does not know the kernel's codes."""
    if row.get("cause") == "time_limit":
        return "timeout"
    verdict = row.get("verdict")
    if verdict in ("accepted", "rejected", "declined"):
        return str(verdict)
    completed = row.get("outcome") == "exited" and row.get("cause", "completed") == "completed"
    return "accepted" if verdict is None and completed and row.get("exit_code") == 0 else "error"


def _correctness(status: str, expected: str | None) -> str:
    if status not in ("accepted", "rejected"):
        return "declined" if status == "declined" else "error"
    return "correct" if expected in (None, status) else "incorrect"
