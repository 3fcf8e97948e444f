"""What a kernel said of an export: its verdict, from how it ended and from what its exit codes mean.

Only a kernel that ended by itself has a verdict. One that was killed, crashed, or hit a limit has none: it is never a
rejection. Where a code may mean several things it is ambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

from proofcost.harness.merged import Record, text_at, value_at


class Verdict(Enum):
    """What one run came to. The first two are verdicts on the proof; the others are none."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DECLINED = "declined"
    AMBIGUOUS = "ambiguous"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "out of memory"
    LIMIT = "limit"
    CRASHED = "crashed"
    KILLED = "killed"
    NOT_STARTED = "not started"
    INTERRUPTED = "interrupted"
    INCOMPLETE = "incomplete"
    RAN = "ran"


_OF_MEANING = {
    "accepted": Verdict.ACCEPTED,
    "rejected": Verdict.REJECTED,
    "declined": Verdict.DECLINED,
    "ambiguous": Verdict.AMBIGUOUS,
    "error": Verdict.ERROR,
    "memory": Verdict.MEMORY,
    "ran": Verdict.RAN,
}
_OF_CAUSE = {
    "time_limit": Verdict.TIMEOUT,
    "memory_limit": Verdict.MEMORY,
    "host_memory": Verdict.MEMORY,
    "cpu_limit": Verdict.TIMEOUT,
    "file_size_limit": Verdict.LIMIT,
    "disk_full": Verdict.LIMIT,
    "terminated_by_caller": Verdict.INTERRUPTED,
    "sandbox_setup_failed": Verdict.NOT_STARTED,
    "not_started": Verdict.NOT_STARTED,
    "crashed": Verdict.CRASHED,
    "killed_cause_unknown": Verdict.KILLED,
}
FINISHED = frozenset((Verdict.ACCEPTED, Verdict.REJECTED, Verdict.RAN))
"""Only what ended so did the whole work: its cost can be compared."""


def verdict(record: Record) -> Verdict:
    """What one bench record came to."""
    outcome = record.outcome
    if outcome is None:
        return Verdict.INCOMPLETE
    cause = outcome.get("cause")
    if cause != "completed":
        return _OF_CAUSE.get(str(cause), Verdict.KILLED)
    meaning = value_at(record.started, "bench", "exit_codes", str(outcome.get("code")))
    return _OF_MEANING.get(str(meaning), Verdict.AMBIGUOUS)


class Trouble(Enum):
    """How bad a disagreement is. All of them are findings."""

    DISAGREE = "kernels disagree"
    MAY_DISAGREE = "kernels may disagree"
    CHANGES = "a kernel's verdict changes from run to run"
    UNEXPECTED = "not the expected verdict"


def troubles(said: Mapping[str, Iterable[Verdict]], expected: str | None) -> list[tuple[Trouble, str]]:
    """What is wrong with the verdicts of all runs on one workload, by kernel; controls must be left out.

    Each with a line that says who said what. Declining, and ending in any other way than by itself, contradicts nobody.
    """
    counts = {kernel: Counter(all_of) for kernel, all_of in said.items()}
    by_verdict: dict[Verdict, list[str]] = {}
    found: list[tuple[Trouble, str]] = []
    for kernel, counter in counts.items():
        for one in counter:
            by_verdict.setdefault(one, []).append(kernel)
        spoken = [one for one in (Verdict.ACCEPTED, Verdict.REJECTED) if counter[one]]
        if len(spoken) == 2:
            times = ", ".join(f"{one.value} {counter[one]} times" for one in spoken)
            found.append((Trouble.CHANGES, f"{kernel} {times}"))
    yes, no = by_verdict.get(Verdict.ACCEPTED, []), by_verdict.get(Verdict.REJECTED, [])
    unclear = by_verdict.get(Verdict.AMBIGUOUS, [])
    others = [kernel for kernel in unclear if kernel not in yes]
    if yes and no and (len(set(yes) | set(no)) > 1):
        found.insert(0, (Trouble.DISAGREE, f"{_list(yes)} accepted, {_list(no)} rejected"))
    elif yes and others:
        line = f"{_list(yes)} accepted; what {_list(others)} said may be a rejection (an exit code that is ambiguous)"
        found.append((Trouble.MAY_DISAGREE, line))
    wrong = {"accepted": (no, "rejected"), "rejected": (yes, "accepted")}.get(expected or "")
    if wrong is not None and wrong[0]:
        found.append((Trouble.UNEXPECTED, f"{_list(wrong[0])} {wrong[1]} what should be {expected}"))
    return found


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def is_control(record: Record) -> bool:
    return value_at(record.started, "bench", "control") is True


def expected_of(record: Record) -> str | None:
    return text_at(record.started, "bench", "workload", "expected")
