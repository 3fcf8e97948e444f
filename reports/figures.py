"""Which figure of a call a column shows, and what the solution cost in all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from proofcost.harness.derive import SOLUTION_PHASES
from proofcost.harness.merged import Measurement, Record
from proofcost.reports.units import human


@dataclass(frozen=True, slots=True)
class Figure:
    """What one table cell shows: a measurement (None: nothing to show), and what must be said of it."""

    shown: Measurement | None
    remark: str | None = None
    """What this figure is, where it is another one than its column's, or what a reader must know of it."""
    reason: str | None = None
    """Why it stands for the column's own figure."""


CUT_OFF = (
    "the meter's monotonic clock at its start, and the session's time limit",
    "lower_bound",
    "from its recorded start (its meter's start-up is in it) to the time limit of `proofcost run`, which cut it off",
)
"""Method, status and reason of such a call's wall."""


def is_known(found: Measurement | None) -> bool:
    return found is not None and found.value is not None


def missing_reason(found: Measurement | None) -> str:
    """Why there is no value."""
    return "not in the record" if found is None or found.reason is None else found.reason


def _first(record: Record, lead: str, second: str, remark: str) -> Figure:
    """The leading figure, else the second one with a remark and the reason."""
    first, other = record.measurement(lead), record.measurement(second)
    if is_known(first) or not is_known(other):
        return Figure(first if first is not None else other)
    return Figure(other, remark, missing_reason(first))


def wall(record: Record) -> Figure:
    """`wall_program`; where it is missing `wall_command`, which has the sandbox's own start in it."""
    if record.phase_understood == "whole":
        return Figure(record.measurement("wall_command"))
    if record.cut_off_ns is not None:
        return Figure(Measurement("wall_command", record.cut_off_ns, "ns", *CUT_OFF))
    return _first(record, "wall_program", "wall_command", "wall of the whole command, the sandbox's start-up included")


def cpu(record: Record) -> Figure:
    """`cpu_tree`; where it is missing `cpu_waited`, which lacks what nobody waited for, else what the counters saw."""
    clock, waited = record.measurement("task_clock"), record.measurement("cpu_waited")
    if waited is None or waited.status != "lower_bound" or clock is None or clock.status != "measured":
        return _first(record, "cpu_tree", "cpu_waited", "CPU of waited-for processes only")
    return _first(record, "cpu_tree", "task_clock", "CPU by perf, exits' teardown not in it")


def memory(record: Record) -> Figure:
    """`memory_peak_tree`; where it is missing `memory_peak_process`. Says when it is mostly page cache."""
    figure = _first(record, "memory_peak_tree", "memory_peak_process", "memory of the largest single process")
    peak, cache = figure.shown, record.measurement("memory_file_tree")
    if figure.remark is not None or peak is None or not peak.value or cache is None or cache.value is None:
        return figure
    if 2 * cache.value < peak.value:
        return figure
    said = f"{human(cache.value, cache.unit, True)} of {human(peak.value, peak.unit, True)}"
    return Figure(peak, f"mostly page cache: {said}")


def instructions(record: Record) -> Figure:
    """`instructions:u`; where it is missing a kernel-inclusive count, named as such: the two never compare."""
    return _first(record, "instructions:u", "instructions", "instructions with the kernel's own (noisier)")


FIGURES: tuple[tuple[str, Callable[[Record], Figure]], ...] = (
    ("wall", wall),
    ("CPU", cpu),
    ("memory", memory),
    ("instructions", instructions),
)


def solution_calls(records: Iterable[Record]) -> tuple[Record, ...]:
    """The calls that make up what the solution cost: its build, export and checkers; never the challenge's."""
    return tuple(one for one in records if one.side == "solution" and one.phase in SOLUTION_PHASES)


def total(records: Sequence[Record], pick: Callable[[Record], Figure], peak: bool = False) -> Measurement | None:
    """The sum (or with `peak` the largest) of a figure over `records`, as sure as its least sure part.

    A part that is missing makes it a lower bound; lower and upper bounds together say nothing and give None, as does
    there being no part at all.
    """
    parts = [found for one in records if (found := pick(one).shown) is not None and found.value is not None]
    if not parts:
        return None
    missing = len(records) - len(parts)
    values = [part.value or 0 for part in parts]
    statuses = {part.status for part in parts} | ({"lower_bound"} if missing else set())
    status, reason = "derived", None
    if "contradicted" in statuses:
        status, reason = "contradicted", "a part of it is contradicted"
    elif {"lower_bound", "upper_bound"} <= statuses:
        return None
    elif "lower_bound" in statuses:
        status = "lower_bound"
        reason = f"missing for {missing} of {len(records)} calls" if missing else "a part of it is a lower bound"
    elif "upper_bound" in statuses:
        status, reason = "upper_bound", "a part of it is an upper bound"
    elif "sampled" in statuses:
        status = "sampled"
    value = max(values) if peak else sum(values)
    return Measurement("total", value, parts[0].unit, "largest" if peak else "sum", status, reason)
