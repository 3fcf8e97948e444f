"""A session in few words: when it ended, how long its calls took together, how they ended."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from proofcost.harness.decode import plain
from proofcost.harness.derive import calls_of, whole_of
from proofcost.harness.merged import Record, text_at, value_at
from proofcost.harness.running import MeterState
from proofcost.reports.inert import inert_outside
from proofcost.reports.outcome import outcome_text
from proofcost.reports.table import judge_text
from proofcost.reports.units import plural

LAST_LEAST = 12
"""So much of the last argument is shown in any case, in characters."""
_INTERPRETER = re.compile(r"(python|perl|ruby|node|(ba|da|z)?sh)[0-9.]*")


def ended_at_ns(records: Sequence[Record]) -> int | None:
    """Real time of the session's end: the judge's own, else the last of its calls; None where one did not end."""
    whole = whole_of(records)
    if whole is not None and whole.ended_at_ns is not None:
        return whole.ended_at_ns
    ends = [record.ended_at_ns for record in records]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def judge_short(records: Sequence[Record], ascii_only: bool = False, limit: int = 40) -> str:
    """The judge for a table: its program's name and its arguments; of too many the last alone, shortened where it must.

    Of what an interpreter runs, the script's name stands for it.
    """
    whole = whole_of(records)
    head = value_at(whole.started, "argv", "head") if whole is not None else None
    words = [plain(word) for word in head if isinstance(word, str)] if isinstance(head, list) else []
    if not words or text_at(records[0].started, "bench", "suite") is not None:
        return judge_text(records, ascii_only, limit)
    program, rest = os.path.basename(words[0]) or words[0], words[1:]
    if _INTERPRETER.fullmatch(program) and rest and not rest[0].startswith("-"):
        program = os.path.basename(rest.pop(0)) or program
    everything = inert_outside(" ".join((program, *rest)), None, ascii_only)
    if len(everything) <= limit or not rest:
        return inert_outside(everything, limit, ascii_only)
    name = inert_outside(program, limit // 2, ascii_only)
    gap = (" ... " if ascii_only else " \u2026 ") if len(rest) > 1 else " "
    return name + gap + inert_outside(rest[-1], max(LAST_LEAST, limit - len(name) - len(gap)), ascii_only)


def labels_of(records: Sequence[Record]) -> Mapping[str, str]:
    """A session's labels: the judge's own, else those of its first call."""
    whole = whole_of(records)
    return whole.labels if whole is not None else records[0].labels


def failed(records: Sequence[Record]) -> bool:
    """Whether the judge ended otherwise than with exit 0; where nothing tells of it, whether one of its calls did.

    What still runs has not; what nobody saw the end of has.
    """
    whole = whole_of(records)
    return any(
        one.meter is not MeterState.RUNNING if one.outcome is None else _rank(one) > 0
        for one in ([whole] if whole is not None else calls_of(records))
    )


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
