"""Results of the Lean Kernel Arena: one `_results/CHECKER_TEST.json`, or the site's `results.json`."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, ns, put, text, weaken
from proofcost.harness.columns import Row

HELP = "Lean Kernel Arena: _results/*.json and the site's results.json"
MAPS = (
    ("checker", "kernel", "as it is"),
    ("test", "subject, workload", "as it is"),
    ("status", "verdict, outcome", "accepted, rejected, declined, error; timeout: timed_out, no verdict"),
    ("exit_code", "exit_code", "as it is"),
    ("wall_time", "wall_command", "s to ns; 0 is missing"),
    ("cpu_time", "cpu_waited", "s to ns; 0 is missing"),
    ("max_rss", "memory_peak_process", "bytes; 0 is missing"),
    ("instructions", "instructions", "0 is missing"),
)
UNKNOWN = ("the machine and the time of each run", "whether instructions are of user mode alone", "threads")
DEFECTS = (
    "Missing counters, CPU times and memory are written as 0: taken as missing.",
    "The checkers of some kernels end in `|| exit 1`, which folds a crash, a lack of memory and a parse error into the "
    "code of a rejection: for these a rejection is taken as ambiguous.",
    "A time-out's wall time is where it was stopped, or 0: never a cost. The row says timed_out.",
)
_FOLDING = ("nanoda", "sokonanoda", "mathgraph", "nanobruijn", "nanoclo", "rpylean")
_VERDICTS = {"accepted": "accepted", "rejected": "rejected", "declined": "declined", "error": "error"}


def fits(head: Head) -> bool:
    if head.opening != "{":
        return False
    is_site = head.keys >= {"meta", "tests"} or head.keys >= {"checkers", "results"}
    return is_site or (head.keys >= {"checker", "test", "status"} and "correctness" in head.keys)


def rows(source: Source) -> Iterator[Row]:
    seen = False
    for result in source.items("results.item"):
        seen = True
        yield _row(source, result)
    if not seen:
        document = source.document()
        if not isinstance(document, dict) or "checker" not in document:
            raise FormatError("neither a result (`checker`, `test`, `status`) nor a site's `results`")
        yield _row(source, document)


def _row(source: Source, result: Any) -> Row:
    if not isinstance(result, dict):
        raise FormatError("a result that is no object")
    kernel, status = text(result.get("checker")), text(result.get("status"))
    row: Row = {"kernel": kernel, "subject": text(result.get("test")), "workload": text(result.get("test"))}
    row["phase"], row["exit_code"] = "checker", count(result.get("exit_code"))
    row["verdict"] = _VERDICTS.get(status or "")
    row["outcome"] = "timed_out" if status == "timeout" else "exited" if row["exit_code"] is not None else None
    if status == "timeout":
        row["cause"] = "time_limit"
    if row["verdict"] == "rejected" and (kernel or "").startswith(_FOLDING):
        row["verdict"] = "ambiguous"
        row["defects"] = ["exit code 1 may be a crash or a lack of memory (`|| exit 1`)"]
        source.say("rejections taken as ambiguous: the checker's script folds every failure into 1")
    for field, column, read in (
        ("wall_time", "wall_command", ns),
        ("cpu_time", "cpu_waited", ns),
        ("max_rss", "memory_peak_process", count),
        ("instructions", "instructions", count),
    ):
        value = result.get(field)
        if value in (0, Decimal(0)) and value is not None:
            put(row, column, None, "0 in the source, which writes that for missing")
            source.say(f"{field} of 0 taken as missing")
        else:
            put(row, column, read(value), "not in the source")
    if status == "timeout":
        weaken(row, "wall_command", "lower_bound", "stopped at a time limit")
    return row
