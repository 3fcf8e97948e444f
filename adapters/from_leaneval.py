"""LeanEval: a replay's `metrics.json`, its verdict, and a kernel corpus' observations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, put, scaled, text, weaken
from proofcost.harness.columns import Row

HELP = "LeanEval: metrics.json, replay-verdict-v1, kernel-corpus-observations-v1"
MAPS = (
    ("phases.build, phases.checker", "phase", "one row each: a sum of all their invocations"),
    ("wall_time_ms, *_wall_time_ms", "wall_command", "ms to ns; floored to ms"),
    ("retired_instructions", "instructions_u", "measured: as it is; unavailable: its reason"),
    ("terminations[]", "outcome, exit_code, signal", "where there is one invocation"),
    ("replay_task_id, result_id", "subject", "as they are"),
    ("checker_outcome, outcome", "verdict", "accepted, rejected, declined"),
    ("execution_outcome", "outcome, cause", "timed_out: time_limit; crashed: no verdict; failed: no rows"),
    ("statistics.peak_memory_bytes", "memory_peak_process", "as it is"),
    ("configuration_id", "kernel", "of a corpus"),
)
UNKNOWN = ("single invocations (their sums only)", "CPU", "memory, but in a corpus", "the machine: its profile has it")
DEFECTS = (
    "Wall times are sums over invocations, floored to ms: 0 ms is missing, and others are low by up to 1 ms an "
    "invocation.",
    "Build and export of a solution are added up under build.",
    "After a time-out a wall time is imputed from the limit: it is no measurement and is left out.",
    "The counter also counts the adapter's own start.",
)
_OUTCOMES = {"accepted": "accepted", "rejected": "rejected", "declined": "declined"}


def fits(head: Head) -> bool:
    if head.opening != "{" or ("schema_version" not in head.keys and "observations" not in head.keys):
        return False
    return (
        {"phases", "terminations"} <= head.keys
        or {"phases", "retired_instructions"} <= head.keys
        or {"replay_task_id", "execution_outcome"} <= head.keys
        or {"observations", "configuration_id"} <= head.keys
    )


def rows(source: Source) -> Iterator[Row]:
    document = source.document()
    if not isinstance(document, dict):
        raise FormatError("no object")
    if "observations" in document:
        yield from _corpus(source, document)
    elif "replay_task_id" in document:
        yield from _verdict(source, document)
    else:
        yield from _metrics(source, document)


def _metrics(source: Source, document: dict[str, Any]) -> Iterator[Row]:
    phases = document.get("phases")
    if document.get("schema_version") != 1 or not isinstance(phases, dict):
        raise FormatError("no metrics of schema_version 1")
    for name, phase in phases.items():
        if not isinstance(phase, dict):
            raise FormatError(f"phases.{str(name)[:20]}: no object")
        invocations = count(phase.get("invocations"))
        if not invocations:
            continue
        row = _phase(source, str(name), phase.get("wall_time_ms"), phase.get("retired_instructions"), invocations)
        ends = phase.get("terminations")
        if isinstance(ends, list) and len(ends) == 1 and isinstance(ends[0], dict):
            row["outcome"] = text(ends[0].get("kind"))
            row["exit_code"], row["signal"] = count(ends[0].get("code")), count(ends[0].get("signal"))
        yield row


def _phase(source: Source, phase: str, wall_ms: Any, counter: Any, invocations: int | None) -> Row:
    row: Row = {"phase": phase, "labels": None if invocations is None else {"invocations": str(invocations)}}
    put(row, "wall_command", scaled(wall_ms, 10**6) or None, "0 ms: under 1 ms, floored")
    weaken(row, "wall_command", "lower_bound", "floored to ms")
    if invocations != 1:
        row.setdefault("defects", []).append("a sum of several invocations: no sample of one")
        source.say("sums of several invocations: no samples of one")
    if isinstance(counter, dict):
        measured = count(counter.get("value")) if counter.get("status") == "measured" else None
        put(row, "instructions_u", measured or None, text(counter.get("reason")) or "0 in the source")
        weaken(row, "instructions_u", "upper_bound", "the adapter's own start is counted as well")
    return row


def _verdict(source: Source, document: dict[str, Any]) -> Iterator[Row]:
    outcome = text(document.get("execution_outcome"))
    statistics = document.get("statistics")
    if not isinstance(statistics, dict):
        raise FormatError(
            f"no statistics: the replay {outcome or 'ended otherwise'} ({document.get('failure_reason')})"
        )
    for phase in ("build", "checker"):
        row = _phase(
            source,
            phase,
            statistics.get(f"{phase}_wall_time_ms"),
            statistics.get(f"{phase}_retired_instructions"),
            1 if phase == "checker" else None,
        )
        row["subject"] = text(document.get("replay_task_id"))
        if phase == "checker":
            row["verdict"] = _OUTCOMES.get(text(document.get("checker_outcome")) or "")
        if outcome == "timed_out":
            row["outcome"], row["cause"] = "timed_out", "time_limit"
            if row.pop("wall_command", None) is not None:
                put(row, "wall_command", None, "imputed from the time limit, not measured")
                row.pop("weak", None)
        yield row


def _corpus(source: Source, document: dict[str, Any]) -> Iterator[Row]:
    observations = document.get("observations")
    if not isinstance(observations, list):
        raise FormatError("no list `observations`")
    for number, one in enumerate(observations):
        if not isinstance(one, dict):
            raise FormatError(f"observations[{number}]: no object")
        statistics = one.get("statistics")
        if not isinstance(statistics, dict):
            source.say("no cost: not completed")
            continue
        row = _phase(
            source, "checker", statistics.get("wall_time_ms"), None, count(statistics.get("checker_invocations"))
        )
        row["subject"], row["kernel"] = text(one.get("result_id")), text(document.get("configuration_id"))
        row["config_sha256"] = text(document.get("configuration_sha256"))
        outcome = text(one.get("outcome"))
        row["verdict"] = _OUTCOMES.get(outcome or "")
        if outcome == "timed_out":
            row["outcome"], row["cause"] = "timed_out", "time_limit"
        elif outcome == "crashed":
            row["cause"] = "crashed"
        put(row, "memory_peak_process", count(statistics.get("peak_memory_bytes")) or None, "0 or not in the source")
        yield row
