"""A Perfetto file parsed back with Perfetto's own protos, and held to what its UI needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

BOOTTIME, MONOTONIC, REALTIME = 6, 3, 1


@dataclass
class Slice:
    name: str
    begin: int
    end: int
    depth: int
    notes: dict[str, Any]


@dataclass
class Parsed:
    """One track, by the path of names that leads to it."""

    path: tuple[str, ...]
    descriptor: Any
    slices: list[Slice] = field(default_factory=list)
    instants: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    points: list[tuple[int, int | float]] = field(default_factory=list)


def notes_of(event: Any) -> dict[str, Any]:
    return {
        note.name: note.int_value if note.HasField("int_value") else note.string_value
        for note in event.debug_annotations
    }


def parse(raw: bytes) -> tuple[dict[tuple[str, ...], list[Parsed]], dict[int, int]]:
    """({path: tracks of that path}, {clock: ns of the snapshot}). Asserts what every file must keep."""
    trace = pb.Trace()
    assert trace.ParseFromString(raw) == len(raw)
    by_uuid: dict[int, Parsed] = {}
    clocks: dict[int, int] = {}
    opened: dict[int, list[tuple[str, int, dict[str, Any]]]] = {}
    last: dict[int, int] = {}
    for at, packet in enumerate(trace.packet):
        if packet.HasField("clock_snapshot"):
            assert at == 0, "in front of everything"
            assert packet.clock_snapshot.primary_trace_clock == BOOTTIME
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            assert packet.timestamp == clocks[BOOTTIME]
            assert packet.sequence_flags == 1
        elif packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid
            assert descriptor.uuid not in by_uuid
            above: tuple[str, ...] = ()
            if descriptor.HasField("parent_uuid"):
                above = by_uuid[descriptor.parent_uuid].path  # a parent stands before its children
            by_uuid[descriptor.uuid] = Parsed((*above, descriptor.name), descriptor)
        else:
            event = packet.track_event
            assert packet.trusted_packet_sequence_id
            assert packet.timestamp_clock_id == 0, "no other clock than the file's own"
            track, stack = by_uuid[event.track_uuid], opened.setdefault(event.track_uuid, [])
            assert packet.timestamp >= last.get(event.track_uuid, 0), (track.path, "goes back in time")
            last[event.track_uuid] = packet.timestamp
            is_counter = event.type == pb.TrackEvent.TYPE_COUNTER
            assert is_counter == track.descriptor.HasField("counter"), track.path
            if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append((event.name, packet.timestamp, notes_of(event)))
            elif event.type == pb.TrackEvent.TYPE_SLICE_END:
                name, begin, notes = stack.pop()  # else: an end without a beginning
                track.slices.append(Slice(name, begin, packet.timestamp, len(stack), notes))
            elif event.type == pb.TrackEvent.TYPE_INSTANT:
                track.instants.append((packet.timestamp, event.name, notes_of(event)))
            else:
                value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
                track.points.append((packet.timestamp, value))
    assert not any(opened.values()), "a beginning without an end"
    tracks: dict[tuple[str, ...], list[Parsed]] = {}
    for track in by_uuid.values():
        track.slices.sort(key=lambda one: (one.begin, one.depth))
        tracks.setdefault(track.path, []).append(track)
    assert set(clocks) == {BOOTTIME, MONOTONIC, REALTIME}
    return tracks, clocks


def below(tracks: dict[tuple[str, ...], list[Parsed]], *names: str) -> Parsed:
    """The one track whose path ends so."""
    found = [one for path, ones in tracks.items() if path[-len(names) :] == names for one in ones]
    assert len(found) == 1, (names, sorted(tracks))
    return found[0]
