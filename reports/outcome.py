"""How a command ended, in words. What an exit status means is the judge's to decide: none is called good or bad."""

from __future__ import annotations

import errno
import signal
from typing import Any

from proofcost.harness.merged import Record
from proofcost.harness.running import MeterState

INCOMPLETE = {
    None: "incomplete",
    MeterState.RUNNING: "running",
    MeterState.VANISHED: "incomplete (meter vanished)",
}
"""Shown of a call whose end was not recorded, by what this host can tell of its meter."""

WHY_INCOMPLETE = {
    None: "only its start was recorded: the command still runs, or its meter was killed or lost its power",
    MeterState.VANISHED: "its meter was killed, or could not write: how the command ended is not known",
}

CUT_OFF = "killed by run's time limit"
WHY_CUT_OFF = "the judge, this call and its meter were killed together"

CAUSES = {"killed_cause_unknown": "cause unknown", "terminated_by_caller": "by its caller"}
"""What is said of a cause where its name alone would read badly."""


def signal_name(number: Any) -> str:
    """`SIGKILL`; `signal 77` where it has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def errno_name(number: Any) -> str:
    """`ENOENT`; `errno 777` where it has no name here."""
    return errno.errorcode.get(number, f"errno {number}") if isinstance(number, int) else f"errno {number}"


def outcome_text(record: Record) -> str:
    """How the command ended, in a few words."""
    outcome = record.outcome
    if outcome is None and record.cut_off_ns is not None:
        return CUT_OFF
    if outcome is None:
        return INCOMPLETE[record.meter] if record.state == "incomplete" else "not recorded"
    kind, cause = outcome.get("kind"), outcome.get("cause")
    match kind:
        case "exited":
            text = f"exit {outcome.get('code')}"
        case "signaled":
            text = signal_name(outcome.get("signal"))
        case "timed_out":
            text = "timed out"
        case "not_started":
            text = f"not started ({errno_name(outcome.get('errno'))})"
        case _:
            text = str(kind)
    said = ("completed", kind, "time_limit" if kind == "timed_out" else None)
    if cause in said or not isinstance(cause, str):
        return text
    return f"{text}, {CAUSES.get(cause, cause.replace('_', ' '))}"


def evidence(record: Record) -> list[str]:
    """What the cause was concluded from, as recorded; the wait status alone, which `outcome_text` tells, is none."""
    outcome = record.outcome or {}
    found = outcome.get("evidence")
    said = [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
    return said if outcome.get("kind") == "not_started" else said[1:]
