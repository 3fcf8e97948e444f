"""`export --to radar`: measurements as leanprover's radar takes them, one value a metric.

radar adds up values of one name, so that each metric is written once: the median (the lower of two middle ones) of what
was measured. It keeps 32-bit floats: a value that does not survive that is said; here it stands exact.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from statistics import median_low
from typing import IO

from proofcost.adapters.one_column import CPU, WALL, column_of_most, figure
from proofcost.harness.columns import Row

HELP = "radar measurements, JSON lines: PHASE/KERNEL//METRIC, medians"
MAPS = (
    ("PHASE/KERNEL//wall-clock", "wall_program, wall_command", "the one that most of the calls have; ns to s"),
    ("PHASE/KERNEL//cpu", "cpu_tree, cpu_waited", "the one that most of the calls have; ns to s"),
    ("PHASE/KERNEL//task-clock", "task_clock", "ns to s"),
    ("PHASE/KERNEL//instructions", "instructions_u", "as it is"),
    ("PHASE/KERNEL//cycles", "cycles_u", "as it is"),
    ("PHASE/KERNEL//maxrss", "memory_peak_process", "bytes"),
    ("PHASE/KERNEL//memory-peak", "memory_peak_tree", "of the whole tree, page cache included; bytes"),
)
_METRICS = (
    ("wall-clock", WALL, "s"),
    ("cpu", CPU, "s"),
    ("task-clock", ("task_clock",), "s"),
    ("instructions", ("instructions_u",), None),
    ("cycles", ("cycles_u",), None),
    ("maxrss", ("memory_peak_process",), "B"),
    ("memory-peak", ("memory_peak_tree",), "B"),
)


def write(rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
    """Write one line a metric; what failed or only warmed up is left out, and said."""
    topics: dict[str, list[Row]] = {}
    for row in rows:
        if (
            row.get("warmup")
            or row.get("outcome", "exited") != "exited"
            or row.get("cause", "completed") != "completed"
        ):
            say("calls that failed, were killed or only warmed up are left out")
            continue
        topic = "/".join(_name(row[part]) for part in ("phase", "kernel") if row.get(part)) or "unknown"
        topics.setdefault(topic, []).append(row)
    for topic, found in topics.items():
        for metric, columns, unit in _METRICS:
            column = column_of_most(found, columns)
            if column is None:
                continue
            values = [value for row in found if (value := figure(row, column)) is not None]
            value = median_low(values)
            if _lost(value, unit):
                say("radar keeps 32-bit floats: beyond the seventh digit its copies of large values differ from these")
            text = seconds(value) if unit == "s" else str(value)
            line = f'{{"metric": {json.dumps(f"{topic}//{metric}")}, "value": {text}'
            out.write((line + (f', "unit": "{unit}"}}\n' if unit else "}\n")).encode("ascii"))
            if len(values) > 1:
                say("a metric that was measured several times is given by its median")


def seconds(value_ns: int) -> str:
    """Nanoseconds as exact decimal seconds: `1.25`."""
    whole, rest = divmod(value_ns, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _name(text: str) -> str:
    """A part of a topic: `/` parts them, and the first `//` ends them."""
    return text.replace("/", "_")


def _lost(value: int, unit: str | None) -> bool:
    if unit == "s":
        return False
    (kept,) = struct.unpack("f", struct.pack("f", min(float(value), 3e38)))
    return int(kept) != value
