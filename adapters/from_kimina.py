"""kimina-lean-server's answers: one object, a list of them, or `{"results": [...]}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, ns, put, text, weaken
from proofcost.harness.columns import Row

HELP = "kimina-lean-server answers (id, time, diagnostics)"
MAPS = (
    ("id, custom_id", "subject", "as it is"),
    ("time", "wall_command", "s to ns"),
    ("diagnostics.cpu_max", "other_figures", "as cpu_max: whole per cent"),
    ("diagnostics.memory_max", "memory_peak_tree", "bytes; 0 is missing"),
    ("error", "outcome, cause", "a time-out: timed_out, time_limit"),
)
UNKNOWN = ("exit status: a REPL is shared by many", "CPU time", "when and where it ran")
DEFECTS = (
    "memory_max is a sum of resident sizes polled each second: a lower bound, and 0 for what takes less than a second.",
    "An answer that timed out leaves its REPL running: what follows may be slower.",
)


def fits(head: Head) -> bool:
    if head.opening not in ("{", "["):
        return False
    return {"id", "time"} <= head.keys and ("diagnostics" in head.keys or "repl_uuid" in head.keys)


def rows(source: Source) -> Iterator[Row]:
    document = source.document()
    found = document.get("results", [document]) if isinstance(document, dict) else document
    if not isinstance(found, list):
        raise FormatError("no answer and no list of answers")
    for number, one in enumerate(found):
        if not isinstance(one, dict):
            raise FormatError(f"answer {number}: no object")
        yield _row(one)


def _row(one: dict[str, Any]) -> Row:
    row: Row = {"subject": text(one.get("custom_id") or one.get("id")), "phase": "check"}
    about = one.get("diagnostics")
    about = about if isinstance(about, dict) else {}
    error = text(one.get("error"))
    if error is not None and "time" in error.lower():
        row["outcome"], row["cause"] = "timed_out", "time_limit"
    put(row, "wall_command", ns(one.get("time")) or None, "not in the answer")
    if row.get("cause") == "time_limit":
        weaken(row, "wall_command", "lower_bound", "stopped at a time limit")
    put(row, "memory_peak_tree", count(about.get("memory_max")) or None, "0: polled each second, and it took less")
    weaken(row, "memory_peak_tree", "lower_bound", "polled each second")
    busiest = count(about.get("cpu_max"))
    row["other_figures"] = None if busiest is None else {"cpu_max": busiest}
    return row
