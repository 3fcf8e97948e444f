"""hyperfine's `--export-json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, ns, text
from proofcost.harness.columns import Row

HELP = "hyperfine --export-json"
MAPS = (
    ("results[].command", "kernel", "the command line"),
    ("results[].parameters", "labels", "as they are"),
    (
        "results[].parameters.kernel, workload",
        "kernel, workload",
        "where there are such (-L kernel a,b); else --kernel, --subject",
    ),
    ("results[].times[]", "wall_command", "each value a row; s to ns"),
    ("results[].exit_codes[]", "exit_code, outcome", "null: ended by a signal"),
    ("results[].memory_usage_byte[]", "memory_peak_process", "as RUSAGE_CHILDREN has it: never falls within a run"),
    ("position in times[]", "iteration", "from 1"),
)
UNKNOWN = ("when and where it ran", "CPU of a single run (only the mean is kept)", "which signal ended a run")
DEFECTS = (
    "memory_usage_byte is ru_maxrss of all children so far: a later, smaller run shows the earlier peak. Kept as an "
    "upper bound.",
    "A command that is killed or fails is ranked like the others (with --ignore-failure). Here it is no sample: the "
    "verdict is null and the outcome says so.",
)


def fits(head: Head) -> bool:
    return head.opening == "{" and {"results", "command", "times"} <= head.keys and "benchmarks" not in head.keys


def rows(source: Source) -> Iterator[Row]:
    for number, result in enumerate(source.items("results.item"), 1):
        if not isinstance(result, dict) or not isinstance(result.get("times"), list):
            raise FormatError(f"results[{number - 1}]: no list `times`")
        yield from _rows(source, result)


_LARGEST_CODE = 2**31 - 1
"""What is beyond, or no whole number, is no exit code: how that run ended is not known."""


def _rows(source: Source, result: dict[str, Any]) -> Iterator[Row]:
    codes, memories = result.get("exit_codes"), result.get("memory_usage_byte")
    parameters = result.get("parameters")
    labels = {str(key): str(value) for key, value in parameters.items()} if isinstance(parameters, dict) else None
    named = parameters if isinstance(parameters, dict) else {}
    kernel = text(named.get("kernel")) or text(result.get("command"))
    for at, seconds in enumerate(result["times"]):
        row: Row = {"kernel": kernel, "iteration": at + 1, "labels": labels, "phase": "checker"}
        if text(named.get("workload")):
            row["workload"] = text(named["workload"])
        row["wall_command"] = ns(seconds)
        if row["wall_command"] is None:
            row["absent"] = {"wall_command": "not a time in the source"}
        row["outcome"], row["exit_code"] = _outcome(codes, at)
        peak = count(memories[at]) if isinstance(memories, list) and at < len(memories) else None
        if peak:
            row["memory_peak_process"], row["weak"] = peak, {"memory_peak_process": "upper_bound"}
            source.say("peaks of memory are upper bounds: hyperfine's never fall within a run")
        yield row


def _outcome(codes: Any, at: int) -> tuple[str | None, int | None]:
    if not isinstance(codes, list) or at >= len(codes):
        return None, None
    if codes[at] is None:
        return "signaled", None
    code = count(codes[at])
    return (None, None) if code is None or code > _LARGEST_CODE else ("exited", code)
