"""A session in few words: when it ended, how long its calls took together, how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proofcost.harness.derive import calls_of, whole_of
from proofcost.harness.merged import Record
from proofcost.reports.outcome import outcome_text
from proofcost.reports.units import plural


def ended_at_ns(records: Sequence[Record]) -> int | None:
    """Real time of the session's end: the judge's own, else the last of its calls; None where one did not end."""
    whole = whole_of(records)
    if whole is not None and whole.ended_at_ns is not None:
        return whole.ended_at_ns
    ends = [record.ended_at_ns for record in records]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def calls_span_ns(records: Sequence[Record]) -> int | None:
    """From the first call's start to the last known end of one; None without either, or where a clock was set back."""
    calls = calls_of(records)
    starts = [start for call in calls if (start := call.started_at_ns) is not None]
    ends = [end for call in calls if (end := call.ended_at_ns) is not None]
    span = max(ends) - min(starts) if starts and ends else -1
    return span if span >= 0 else None


def _rank(record: Record) -> int:
    """How far from usual an end is: a signal most, then a time limit, then no start, then a status that is not 0."""
    outcome = record.outcome or {}
    kind = outcome.get("kind")
    if kind == "exited":
        return 0 if outcome.get("code") == 0 else 1
    return {"not_started": 2, "timed_out": 3}.get(str(kind), 4)


def calls_outcome(records: Sequence[Record]) -> str | None:
    """The least usual end of the session's calls, and of how many: `2 of 6 calls: exit 1`. None where none ended."""
    calls = calls_of(records)
    ended = [call for call in calls if call.outcome is not None]
    if not ended:
        return None
    counted = Counter(outcome_text(call) for call in ended)
    worst = max(ended, key=lambda call: (_rank(call), counted[outcome_text(call)]))
    text = outcome_text(worst)
    if len(calls) == 1:
        return text
    if counted[text] == len(calls):
        return f"all {len(calls)} {text}"
    return f"{counted[text]} of {plural(len(calls), 'call')}: {text}"
