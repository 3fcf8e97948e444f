"""Perfetto's trace format: tracks with slices, instants and counters, written by the `perfetto` package's own builder.

Nothing here knows what is shown; https://perfetto.dev/docs/reference/synthetic-track-event describes the format, and
ui.perfetto.dev opens the file. Times are nanoseconds of CLOCK_BOOTTIME, Perfetto's own clock; one snapshot of all
three clocks stands in front, so that a reader has the others too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

Notes = Mapping[str, str | int]
"""What is said of a slice when it is selected."""

EXTRA = "bench"
"""The extra that brings `perfetto`."""

# perfetto/trace/track_event/track_descriptor.proto, common/builtin_clock.proto, trace_packet.proto
_EXPLICIT = 3
_REALTIME, _MONOTONIC, _BOOTTIME = 1, 3, 6
_STATE_CLEARED = 1
_SEQUENCE = 1
_UNITS = {"ns": 1, "count": 2, "bytes": 3}


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took from `begin_ns` to `end_ns`."""

    name: str
    begin_ns: int
    end_ns: int
    notes: Notes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instant:
    """Something that was at one moment."""

    name: str
    at_ns: int
    notes: Notes = field(default_factory=dict)


@dataclass(slots=True)
class Track:
    """One line of the picture, with more lines below it. Slices must nest; a track with a `unit` is a counter.

    `unit`: `bytes`, `ns`, `count`, or any other word, shown as it is.
    """

    name: str
    description: str = ""
    unit: str | None = None
    slices: list[Slice] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    points: list[tuple[int, int | float]] = field(default_factory=list)
    """Of a counter: (since when, value)."""
    tracks: list[Track] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment on all three clocks, ns."""

    boottime_ns: int
    monotonic_ns: int
    realtime_ns: int


def encode(tracks: Sequence[Track], clocks: Clocks) -> bytes:
    """The file. Raises ImportError without the `perfetto` package, ValueError for slices that cross or end early."""
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    builder = TraceProtoBuilder()
    packet = builder.add_packet()
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.sequence_flags = _STATE_CLEARED
    packet.timestamp = clocks.boottime_ns
    packet.clock_snapshot.primary_trace_clock = _BOOTTIME
    for number, at in (
        (_BOOTTIME, clocks.boottime_ns),
        (_MONOTONIC, clocks.monotonic_ns),
        (_REALTIME, clocks.realtime_ns),
    ):
        packet.clock_snapshot.clocks.add(clock_id=number, timestamp=at)
    numbers = count(1)
    _write(builder, tracks, None, numbers)
    made: bytes = builder.serialize()
    return made


def _write(builder: object, tracks: Sequence[Track], parent: int | None, numbers: Iterator[int]) -> None:
    for rank, track in enumerate(tracks):
        uuid = next(numbers)
        descriptor = builder.add_packet().track_descriptor  # type: ignore[attr-defined]
        descriptor.uuid = uuid
        descriptor.name = track.name
        descriptor.sibling_order_rank = rank
        descriptor.child_ordering = _EXPLICIT
        if parent is not None:
            descriptor.parent_uuid = parent
        if track.description:
            descriptor.description = track.description
        if track.unit is not None:
            descriptor.counter.unit = _UNITS.get(track.unit, 0)
            if track.unit not in _UNITS:
                descriptor.counter.unit_name = track.unit
        for at, kind, name, notes in _events(track):
            _event(builder, uuid, at, kind, name, notes)
        for at, value in track.points:
            _point(builder, uuid, at, value)
        _write(builder, track.tracks, uuid, numbers)


# perfetto/trace/track_event/track_event.proto
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4


def _events(track: Track) -> Iterator[tuple[int, int, str, Notes]]:
    """Begins, ends and instants in the order in which they must stand: an outer slice begins first and ends last."""
    instants = sorted(track.instants, key=lambda one: one.at_ns)
    at = 0
    for when, kind, name, notes in _nested(track.slices):
        while at < len(instants) and instants[at].at_ns < when:
            yield instants[at].at_ns, _INSTANT, instants[at].name, instants[at].notes
            at += 1
        yield when, kind, name, notes
    for one in instants[at:]:
        yield one.at_ns, _INSTANT, one.name, one.notes


def _nested(slices: Iterable[Slice]) -> Iterator[tuple[int, int, str, Notes]]:
    open_ones: list[Slice] = []
    for one in sorted(slices, key=lambda one: (one.begin_ns, -one.end_ns)):
        if one.end_ns < one.begin_ns:
            raise ValueError(f"slice {one.name!r} ends before it begins")
        while open_ones and open_ones[-1].end_ns <= one.begin_ns and open_ones[-1].end_ns < one.end_ns:
            yield open_ones.pop().end_ns, _END, "", {}
        if open_ones and one.end_ns > open_ones[-1].end_ns:
            raise ValueError(f"slices {open_ones[-1].name!r} and {one.name!r} cross")
        yield one.begin_ns, _BEGIN, one.name, one.notes
        open_ones.append(one)
    while open_ones:
        yield open_ones.pop().end_ns, _END, "", {}


def _event(builder: object, uuid: int, at: int, kind: int, name: str, notes: Notes) -> None:
    packet = builder.add_packet()  # type: ignore[attr-defined]
    packet.timestamp = at
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_event.type = kind
    packet.track_event.track_uuid = uuid
    if name:
        packet.track_event.name = name
    for key, value in notes.items():
        note = packet.track_event.debug_annotations.add(name=key)
        if isinstance(value, int):
            note.int_value = value
        else:
            note.string_value = value


def _point(builder: object, uuid: int, at: int, value: float) -> None:
    packet = builder.add_packet()  # type: ignore[attr-defined]
    packet.timestamp = at
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_event.type = _COUNTER
    packet.track_event.track_uuid = uuid
    if isinstance(value, int):
        packet.track_event.counter_value = value
    else:
        packet.track_event.double_counter_value = value
