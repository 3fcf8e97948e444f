"""The judge itself: what it used beside the calls it made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from proofcost.harness.derive import whole_of
from proofcost.harness.merged import Measurement, Record, integer_at, value_at


@dataclass(frozen=True, slots=True)
class JudgeSelf:
    """What the judge used beside the calls it made: an upper bound for a kernel that runs inside its process.

    `meters_ns` and `meters_cpu_ns` are our own meters' wall and CPU inside these figures (ns); they are not subtracted.
    None: not known, since the record of a call does not tell its meter's cost.
    """

    wall: Measurement
    cpu: Measurement
    memory: Measurement
    meters_ns: int | None
    meters_cpu_ns: int | None


def _unavailable(name: str, unit: str, reason: str) -> Measurement:
    return Measurement(name, None, unit, "none", "unavailable", reason)


def _difference(name: str, whole: Record, calls: Sequence[Record], figure: str) -> Measurement:
    """`figure` of the whole minus its sum over `calls`; an upper bound where a call's part is unknown or too low."""
    total = whole.measurement(figure)
    if total is None or total.value is None:
        reason = total.reason if total is not None else "not recorded"
        return _unavailable(name, "ns", f"{figure} of the whole: {reason}")
    parts = [call.measurement(figure) for call in calls]
    known = [part for part in parts if part is not None and part.value is not None]
    value = total.value - sum(part.value or 0 for part in known)
    if value < 0:
        return _unavailable(name, "ns", f"{figure} of the calls adds up to more than the whole")
    method = f"{figure} of the whole minus the sum over its {len(parts)} calls"
    unknown = len(parts) - len(known)
    low = sum(part.status == "lower_bound" for part in known)
    doubtful = next((part.status for part in (total, *known) if part.status == "contradicted"), None)
    if doubtful is not None:
        return Measurement(name, value, "ns", method, "contradicted", f"{figure} of a part is contradicted")
    if (unknown or low) and total.status == "lower_bound":
        return _unavailable(name, "ns", f"{figure} of the whole and of its calls are lower bounds: no bound is left")
    if unknown or low:
        reason = f"{figure} is missing for {unknown} and a lower bound for {low} of {len(parts)} calls"
        return Measurement(name, value, "ns", method, "upper_bound", reason)
    if total.status == "lower_bound":
        return Measurement(name, value, "ns", method, "lower_bound", f"{figure} of the whole is a lower bound")
    return Measurement(name, value, "ns", method, "derived", None)


_CPU_WAYS = ("cpu_tree", "cpu_waited", "task_clock")
_BEST_FIRST = ("derived", "lower_bound", "upper_bound", "contradicted", "unavailable")


def _overlapping(calls: Iterable[Record]) -> bool:
    """Whether two calls ran at the same time, by the monotonic clock: then their walls do not add up."""
    spans: list[tuple[int, int]] = []
    for call in calls:
        start = integer_at(call.started, "clocks", "monotonic_ns")
        end = integer_at(call.finished, "clocks", "monotonic_ns")
        if start is not None and end is not None:
            spans.append((start, end))
    spans.sort()
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def judge_self(records: Sequence[Record]) -> JudgeSelf | None:
    """What the judge of this session used by itself; None without a finished `whole` record.

    Measured where the `whole` record has `cpu_judge_self` or `memory_peak_judge_self`, else derived: wall and CPU by
    subtraction, memory never (peaks do not subtract).
    """
    whole = whole_of(records)
    if whole is None or whole.finished is None:
        return None
    calls = [record for record in records if record is not whole]
    if _overlapping(calls):
        wall = _unavailable("wall_judge_self", "ns", "calls ran at the same time: their walls do not add up")
    else:
        wall = _difference("wall_judge_self", whole, calls, "wall_command")
    cpu = whole.measurement("cpu_judge_self")
    if cpu is None or cpu.value is None:
        ways = [_difference("cpu_judge_self", whole, calls, figure) for figure in _CPU_WAYS]
        cpu = min(ways, key=lambda way: _BEST_FIRST.index(way.status))
    no_memory = "needs cgroups: a peak cannot be found by subtraction"
    memory = whole.measurement("memory_peak_judge_self") or _unavailable("memory_peak_judge_self", "bytes", no_memory)
    costs = [value_at(call.finished, "meter_cost") for call in calls]
    meters = _sum([integer_at(cost, name) for cost in costs for name in ("before_ns", "after_ns")])
    return JudgeSelf(wall, cpu, memory, meters, _sum([integer_at(cost, "cpu_ns") for cost in costs]))


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
