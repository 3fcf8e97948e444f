"""A timeline's processes: when each began and ended, whose child it was, what it was called.

Two sources are put together. The host's kernel stamped forks, execs and exits, exactly, as long as there was room for
them. Looks, once a second, name those that lived then, with their start to a clock tick. Where only looks know a
process its end is not known: it was last seen then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proofcost.harness.timeline import Named, ProcessSample, Stamp, Timeline

BY_KERNEL, BY_TICKS, BY_LOOK = "stamped by the kernel", "start in clock ticks", "first or last look at it"
_NS = 1_000_000_000
_SLACK_TICKS = 2


@dataclass(slots=True)
class Process:
    """One process. Times are CLOCK_MONOTONIC, ns."""

    pid: int
    parent_pid: int | None
    began_ns: int
    began_known_by: str
    names: list[tuple[int, str]] = field(default_factory=list)
    """(since when, name as a record has it)."""
    ended_ns: int | None = None
    """None: it was not seen to end."""
    last_seen_ns: int = 0
    start_ticks: int | None = None
    samples: list[ProcessSample] = field(default_factory=list)
    parent: Process | None = None
    """Its parent, where that is one of them."""

    @property
    def until_ns(self) -> int:
        """Its end, else the last that is known of it."""
        return self.last_seen_ns if self.ended_ns is None else self.ended_ns


def processes(timeline: Timeline, boot_offset_ns: int | None) -> list[Process]:
    """Every process that the timeline knows, by its beginning.

    `boot_offset_ns`: CLOCK_BOOTTIME less CLOCK_MONOTONIC; clock ticks count since boot. None: not known.
    """
    made = _Builder(timeline.ticks_per_second, boot_offset_ns)
    looked = [sample for look in timeline.looks for sample in look.kept]
    # At one moment: first what the kernel stamped, then who is new, then how they are.
    events: list[tuple[int, int, Stamp | Named | ProcessSample]] = []
    events += [(one.at_ns, 0, one) for one in timeline.stamps]
    events += [(one.at_ns, 1, one) for one in timeline.named]
    events += [(one.at_ns, 2, one) for one in looked]
    events.sort(key=lambda event: event[:2])
    for at, _, event in events:
        if isinstance(event, Stamp):
            made.stamp(at, event)
        elif isinstance(event, Named):
            made.name(at, event)
        else:
            made.sample(at, event)
    return sorted(made.found, key=lambda one: one.began_ns)


class _Builder:
    def __init__(self, ticks_per_second: int, boot_offset_ns: int | None) -> None:
        self.found: list[Process] = []
        self._living: dict[int, Process] = {}
        self._ticks = ticks_per_second
        self._offset = boot_offset_ns

    def stamp(self, at: int, stamp: Stamp) -> None:
        if stamp.kind == "f":
            self._begin(stamp.pid, stamp.parent_pid, at, BY_KERNEL)
        elif stamp.kind == "x":
            one = self._living.get(stamp.pid) or self._begin(stamp.pid, None, at, BY_KERNEL)
            _call(one, at, stamp.name or "")
        elif stamp.pid in self._living:
            one = self._living.pop(stamp.pid)
            one.ended_ns = one.last_seen_ns = at

    def name(self, at: int, named: Named) -> None:
        began = at
        if self._offset is not None:
            began = min(at, named.start_ticks * _NS // self._ticks - self._offset)
        one = self._living.get(named.pid)
        slack = _SLACK_TICKS * _NS // self._ticks
        if one is not None and one.start_ticks is None and self._offset is not None and began > one.began_ns + slack:
            one = None  # a later process with its number: that it ended was not stamped
        if one is not None and one.start_ticks not in (None, named.start_ticks):
            one = None
        if one is None:
            one = self._begin(named.pid, named.parent_pid, began, BY_LOOK if self._offset is None else BY_TICKS)
        one.start_ticks = named.start_ticks
        if one.parent_pid is None:
            one.parent_pid = named.parent_pid
            one.parent = self._parent(one)
        one.last_seen_ns = max(one.last_seen_ns, at)
        _call(one, at if one.names else one.began_ns, named.name)

    def sample(self, at: int, sample: ProcessSample) -> None:
        one = self._living.get(sample.pid)
        if one is not None:
            one.samples.append(sample)
            one.last_seen_ns = max(one.last_seen_ns, at)

    def _begin(self, pid: int, parent_pid: int | None, at: int, known_by: str) -> Process:
        one = Process(pid, parent_pid, at, known_by, last_seen_ns=at)
        one.parent = self._parent(one)
        self.found.append(one)
        self._living[pid] = one
        return one

    def _parent(self, one: Process) -> Process | None:
        parent = self._living.get(one.parent_pid) if one.parent_pid is not None else None
        return parent if parent is not one else None


def _call(one: Process, at: int, name: str) -> None:
    if not one.names or one.names[-1][1] != name:
        one.names.append((at, name))
