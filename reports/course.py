"""A session in time: when each call, its sandbox and its program ran, and what was sampled meanwhile.

The record leads: exec and exit are its stamps, the timeline lies between them. What is not known has its reason, for
whoever draws it. All times are CLOCK_MONOTONIC, ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from proofcost.harness.derive import calls_of, whole_of
from proofcost.harness.merged import Record, integer_at, text_at, value_at
from proofcost.harness.process_tree import Process, processes
from proofcost.harness.timeline import Timeline, TimelineError, path_beside, read_timeline
from proofcost.reports.inert import inert
from proofcost.reports.outcome import outcome_text
from proofcost.reports.table import judge_text
from proofcost.reports.units import plural

UNLIMITED = "no memory limit was in force"


@dataclass(frozen=True, slots=True)
class Span:
    """A named piece of time."""

    name: str
    begin_ns: int
    end_ns: int


@dataclass(slots=True)
class Passage:
    """One call in time, or the whole."""

    record: Record
    name: str
    """`3 build Solution`, as the table names it; harmless to look at."""
    begin_ns: int
    end_ns: int
    outcome: str
    ended: bool
    """False: its meter vanished; `end_ns` is the last that is known of it."""
    parts: list[Span] = field(default_factory=list)
    """The sandbox's start-up and the program in it, where they are known."""
    meter: list[Span] = field(default_factory=list)
    """What measuring added before and after."""
    stragglers: Span | None = None
    timeline: Timeline | None = None
    processes: list[Process] = field(default_factory=list)
    limit_bytes: int | None = None
    absent: dict[str, str] = field(default_factory=dict)
    """What is missing -> why."""


@dataclass(slots=True)
class Course:
    """One session in time; `calls` by start, each with its number in its name."""

    session: str
    name: str
    whole: Passage | None
    calls: list[Passage]
    realtime_offset_ns: int
    """CLOCK_REALTIME less CLOCK_MONOTONIC."""
    boottime_offset_ns: int
    left_out: dict[str, str] = field(default_factory=dict)
    """Calls that cannot be placed in time -> why."""

    @property
    def passages(self) -> list[Passage]:
        """The whole first."""
        return ([] if self.whole is None else [self.whole]) + self.calls

    @property
    def begin_ns(self) -> int:
        return min(one.begin_ns for one in self.passages)

    @property
    def end_ns(self) -> int:
        return max(one.end_ns for one in self.passages)


class NoTimeError(Exception):
    """Nothing of a session can be placed in time; one line."""


def course_of(session: Sequence[Record], wanted: Sequence[Record]) -> Course:
    """The `wanted` records of one session in time, with their timelines. Raises NoTimeError when none can be placed."""
    whole, numbers = whole_of(session), {one.invocation: at for at, one in enumerate(calls_of(session), 1)}
    boots = {text_at(one.started, "host", "boot_id") for one in wanted}
    made: list[Passage] = []
    left_out: dict[str, str] = {}
    offsets: tuple[int, int] | None = None
    for record in wanted:
        name = _name(record, numbers.get(record.invocation))
        clocks = [
            integer_at(record.started, "clocks", f"{clock}_ns") for clock in ("monotonic", "realtime", "boottime")
        ]
        monotonic, realtime, boottime = clocks
        if monotonic is None or realtime is None or boottime is None:
            left_out[name] = "its record lacks a clock"
        elif len(boots) > 1 and text_at(record.started, "host", "boot_id") != text_at(
            wanted[0].started, "host", "boot_id"
        ):
            left_out[name] = "of another boot than the first: its clock is another"
        else:
            offsets = offsets or (realtime - monotonic, boottime - monotonic)
            made.append(_passage(record, name, monotonic, boottime - monotonic))
    if offsets is None:
        raise NoTimeError("; ".join(f"{name}: {why}" for name, why in left_out.items()) or "no call")
    calls = sorted((one for one in made if one.record is not whole), key=lambda one: one.begin_ns)
    of_whole = next((one for one in made if one.record is whole), None)
    return Course(session[0].session, judge_text(session), of_whole, calls, *offsets, left_out)


def _name(record: Record, number: int | None) -> str:
    of = record.kernel or record.module or record.target_name or record.side
    words = [str(number) if number is not None else "", inert(record.phase, 40), inert(of, 40) if of else ""]
    return " ".join(word for word in words if word)


def _passage(record: Record, name: str, started_ns: int, boot_offset_ns: int) -> Passage:
    absent: dict[str, str] = {}
    timeline = _timeline(record, absent)
    end = _exit_ns(record, timeline)
    wall = record.measurement("wall_command")
    begin = started_ns
    if end is not None and wall is not None and wall.value is not None:
        begin = end - wall.value
    else:
        absent["start"] = "the exec was not stamped: from when the meter had started"
    passage = Passage(record, name, begin, begin if end is None else end, outcome_text(record), end is not None)
    passage.timeline, passage.absent = timeline, absent
    if timeline is not None:
        passage.processes = processes(timeline, boot_offset_ns)
        if end is None:
            passage.end_ns = max(
                [begin, *(one.at_ns for one in timeline.samples), *(one.at_ns for one in timeline.looks)]
            )
    if end is None:
        absent["end"] = "its exit is not recorded: shown up to the last that is known of it"
    else:
        _parts(passage, end)
        _meter(passage, end)
        _stragglers(passage, end)
    _limit(passage)
    return passage


def _exit_ns(record: Record, timeline: Timeline | None) -> int | None:
    if timeline is not None and timeline.ended_ns is not None:
        return timeline.ended_ns
    seen = integer_at(record.finished, "clocks", "monotonic_ns")
    if seen is None or record.finished is None or "trace" in record.finished:
        return seen
    # Until there were timelines these clocks were read when the record was written.
    return seen - (integer_at(record.finished, "meter_cost", "after_ns") or 0)


def _timeline(record: Record, absent: dict[str, str]) -> Timeline | None:
    told = text_at(record.finished, "trace", "reason")
    if record.finished is not None and integer_at(record.finished, "trace", "samples_count") is None:
        absent["timeline"] = inert(told, 200) if told else "records of that time had none"
        return None
    path = path_beside(record.path)
    try:
        if path is None:
            raise TimelineError("the record does not stand in a store, so nothing is beside it")
        found = read_timeline(path)
        if (found.session, found.invocation) != (record.session, record.invocation):
            raise TimelineError(f"{path}: of another call")
    except TimelineError as error:
        absent["timeline"] = inert(str(error), 200)
        return None
    reasons = [told, *(reason for _, reason in found.gaps)]
    reasons += [f"{what} ({count} times)" if count > 1 else what for what, count in found.problems.items()]
    lacks = list(dict.fromkeys(reason for reason in reasons if reason))
    if found.ended_ns is None:
        lacks.append("it ends before the command's exit")
    if lacks:
        absent["a part of the timeline"] = inert("; ".join(lacks), 300)
    if all(sample.cpu_ns is None for sample in found.samples):
        absent["CPU"] = inert(found.methods.get("cpu_ns", "not sampled"), 100)
    if all(sample.memory_bytes is None for sample in found.samples):
        absent["memory"] = inert(found.methods.get("memory_bytes", "not sampled"), 100)
    lost, why = integer_at(record.finished, "exec_stamps", "lost"), text_at(record.finished, "exec_stamps", "reason")
    if why:
        absent["exact starts and ends of processes"] = inert(why, 100)
    elif lost:
        absent["some starts and ends of processes"] = f"the kernel had no room for {plural(lost, 'stamp')}"
    return found


def _parts(passage: Passage, end: int) -> None:
    sandbox = text_at(passage.record.started, "sandbox", "kind")
    startup, program = (passage.record.measurement(name) for name in ("sandbox_startup", "wall_program"))
    if sandbox in (None, "none"):
        return
    if startup is None or startup.value is None or program is None or program.value is None:
        why = startup.reason if startup is not None and startup.reason else "not in the record"
        passage.absent["sandbox start-up"] = inert(why, 200)
        return
    reached = end - program.value
    passage.parts = [
        Span(f"{sandbox} starts up", passage.begin_ns, reached),
        Span(inert(passage.record.target_name or "the program", 40), reached, end),
    ]


def _meter(passage: Passage, end: int) -> None:
    before, after = (integer_at(passage.record.finished, "meter_cost", name) for name in ("before_ns", "after_ns"))
    if before is not None:
        passage.meter.append(Span("meter: before", passage.begin_ns - before, passage.begin_ns))
    if after is not None:
        passage.meter.append(Span("meter: after", end, end + after))


def _stragglers(passage: Passage, end: int) -> None:
    record = passage.record
    count = integer_at(record.finished, "stragglers", "count")
    if not count:
        return
    action = text_at(record.finished, "stragglers", "action") or "none"
    said = f"{plural(count, 'process', 'processes')} outlived it"
    settled = integer_at(record.settled, "clocks", "monotonic_ns")
    if action == "killed":
        passage.stragglers = Span(f"{said}: killed", end, end)
    elif settled is not None and settled >= end:
        passage.stragglers = Span(f"{said}: ended by then", end, settled)
    else:
        passage.stragglers = Span(f"{said}: when they ended is not known", end, end)


def _limit(passage: Passage) -> None:
    """The memory limit in force: the tightest cgroup's, else the one that was asked for."""
    limits = value_at(passage.record.started, "limits")
    found = integer_at(limits, "cgroup_memory_bytes", "value")
    asked = integer_at(limits, "memory_limit_bytes")
    known = [one for one in (found, asked) if one is not None]
    if known:
        passage.limit_bytes = min(known)
    else:
        reason = text_at(limits, "cgroup_memory_bytes", "reason")
        passage.absent["memory limit"] = UNLIMITED if reason in (None, "unlimited") else inert(reason, 100)
