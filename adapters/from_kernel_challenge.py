"""A verdict of the Lean Kernel Challenge (`results/PROBLEM/SUBMISSION.json`): each sample a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, put, scaled, text
from proofcost.harness.columns import Row

HELP = "Lean Kernel Challenge: results/PROBLEM/SUBMISSION.json"
MAPS = (
    ("problem, submission", "subject, labels", "problem; both as labels"),
    ("correctness_timing.samples[], timing.scaling[].samples[]", "iteration", "each a row"),
    ("samples[].wall_ns", "wall_command", "of the region that the timer timed, not of a process"),
    ("samples[].instructions", "instructions", "user and kernel mode, of one thread"),
    ("samples[].peak_rss_kb", "memory_peak_process", "KiB to bytes"),
    ("timing.scaling[].slot, group, case, n", "workload, family, n", "as they are; the group as a label"),
    ("timing_protocol, measurement_contract, boundary, evaluation_cohort.id", "labels", "never pooled across these"),
    ("result", "outcome, cause", "ok; timeout: time_limit; resource-limit: memory_limit"),
    ("stages.comparator.seconds", "wall_command", "phase whole; tenths of a second"),
    ("status", "verdict", "accepted, rejected; error and retry: none"),
)
UNKNOWN = ("the build, export and audit of each case", "the machine: the cohort names it", "CPU")
DEFECTS = (
    "Instructions are of user and kernel mode and of the calling thread: never instructions_u, and never of the tree.",
    "The counter has no enabled and running times: whether it was multiplexed cannot be seen.",
    "A time-out has no samples; its limit is the slot's.",
)
_ENDS = {"timeout": "time_limit", "build-timeout": "time_limit", "resource-limit": "memory_limit"}


def fits(head: Head) -> bool:
    return head.opening == "{" and {"problem", "submission", "evaluation_mode"} <= head.keys


def rows(source: Source) -> Iterator[Row]:
    document = source.document()
    if not isinstance(document, dict) or not isinstance(document.get("problem"), str):
        raise FormatError("no verdict: `problem` is missing")
    labels = _labels(document)
    verdict = {"accepted": "accepted", "rejected": "rejected"}.get(text(document.get("status")) or "")
    base: Row = {"subject": text(document["problem"]), "phase": "checker", "kernel": "lean", "verdict": verdict}
    stages = document.get("stages")
    comparator = stages.get("comparator") if isinstance(stages, dict) else None
    if isinstance(comparator, dict):
        row: Row = {**base, "phase": "whole", "kernel": None, "labels": labels}
        timed_out = comparator.get("exit") == "timeout"
        row["outcome"] = "timed_out" if timed_out else "exited"
        row["exit_code"], row["cause"] = count(comparator.get("exit")), "time_limit" if timed_out else None
        put(row, "wall_command", scaled(comparator.get("seconds"), 10**9) or None, "not in the source, or under 0.05 s")
        yield row
    correctness = document.get("correctness_timing")
    if isinstance(correctness, dict):
        yield from _samples(source, base, labels, correctness, {"boundary": correctness.get("boundary")})
    timing = document.get("timing")
    for slot in timing.get("scaling") or () if isinstance(timing, dict) else ():
        if isinstance(slot, dict):
            own: Row = {**base, "workload": text(slot.get("case")), "family": text(document["problem"])}
            own["n"] = count(slot.get("n"))
            more = {name: slot.get(name) for name in ("slot", "group", "boundary")}
            yield from _samples(source, own, labels, slot, more)


def _labels(document: dict[str, Any]) -> dict[str, str]:
    cohort, contract = document.get("evaluation_cohort"), document.get("measurement_contract")
    said = {
        "problem": document.get("problem"),
        "submission": document.get("submission"),
        "mode": document.get("evaluation_mode"),
        "timing_protocol": document.get("timing_protocol"),
        "measurement_contract": contract.get("id") or contract.get("name") if isinstance(contract, dict) else contract,
        "cohort": cohort.get("id") if isinstance(cohort, dict) else None,
    }
    return {name: str(value) for name, value in said.items() if value}


def _samples(
    source: Source, base: Row, labels: dict[str, str], one: dict[str, Any], more: dict[str, Any]
) -> Iterator[Row]:
    result = text(one.get("result")) or ""
    own = {**labels, **{name: str(value) for name, value in more.items() if value is not None}}
    samples = one.get("samples")
    for at, sample in enumerate(samples if isinstance(samples, list) else (), 1):
        if not isinstance(sample, dict):
            raise FormatError("a sample that is no object")
        row: Row = {**base, "labels": own, "iteration": at, "outcome": "exited"}
        put(row, "wall_command", count(sample.get("wall_ns")) or None, "not in the sample")
        put(row, "instructions", count(sample.get("instructions")) or None, "not in the sample")
        put(row, "memory_peak_process", scaled(sample.get("peak_rss_kb"), 1024) or None, "not in the sample")
        yield row
    if result in _ENDS:
        row = {**base, "labels": own, "outcome": "timed_out" if "timeout" in result else "signaled", "verdict": None}
        row["cause"] = _ENDS[result]
        put(row, "wall_command", None, f"{result}: no sample")
        yield row
    elif result and result != "ok":
        source.say(f"{result}: nothing was measured")
