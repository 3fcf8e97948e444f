"""Reading timelines back: one file beside a record -> its samples, and a reason for all that is missing.

Nothing here trusts the file: it is bounded before it is unpacked, and what is wrong in it is skipped and told.
docs/record.md ("The timeline") says what stands there; trace.py writes it. All times are CLOCK_MONOTONIC, ns.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proofcost.harness.decode import SCHEMA
from proofcost.harness.lines import open_regular

MAX_FILE_BYTES = 16 << 20
"""The meter stops at about 2 MiB."""
MAX_TEXT_BYTES = 256 << 20
MAX_LINE_BYTES = 1 << 20
MAX_ROWS = 2_000_000
_CHUNK_BYTES = 1 << 16
_GZIP = 31
_INT64 = 1 << 63

_SAMPLE = ("cpu_ns", "memory_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "free_bytes")
_PROCESS = ("pid", "threads_count", "cpu_ns", "resident_bytes", "peak_bytes", "read_bytes", "write_bytes")


class TimelineError(Exception):
    """There is no timeline to be read here; one line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The tree at one moment; None where it was not known. `cpu_ns` is the total so far."""

    at_ns: int
    cpu_ns: int | None
    memory_bytes: int | None
    anon_bytes: int | None
    file_bytes: int | None
    shmem_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process at one moment; None where /proc did not tell. CPU and bytes are totals so far."""

    at_ns: int
    pid: int
    threads_count: int | None
    cpu_ns: int | None
    resident_bytes: int | None
    peak_bytes: int | None
    read_bytes: int | None
    write_bytes: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """All processes at one moment: how many there were, and those that were kept."""

    at_ns: int
    processes_count: int
    kept: tuple[ProcessSample, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Who a process in the next look is. `name` is escaped as a record's text is."""

    at_ns: int
    pid: int
    parent_pid: int
    start_ticks: int
    name: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """A fork (`f`), exec (`x`) or exit (`e`) as the host's kernel stamped it: `name` for an exec, else `parent_pid`."""

    at_ns: int
    kind: str
    pid: int
    name: str | None
    parent_pid: int | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Running totals at one moment, by name (`busy`, `psi_io_some`, ...; `read_bytes`, `write_bytes`)."""

    at_ns: int
    values: dict[str, int | None]


@dataclass(slots=True)
class Timeline:
    """What one file holds, each list in order of time."""

    origin_ns: int
    session: str
    invocation: str
    ticks_per_second: int
    methods: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)
    stamps: list[Stamp] = field(default_factory=list)
    host: list[Totals] = field(default_factory=list)
    io: list[Totals] = field(default_factory=list)
    gaps: list[tuple[int, str]] = field(default_factory=list)
    """(since when, what is missing from there on)."""
    ended_ns: int | None = None
    """When the command's exit was seen; None: the file ends before that."""
    problems: dict[str, int] = field(default_factory=dict)
    """What was skipped, and how often."""


def path_beside(record_path: str) -> str | None:
    """Where the timeline of the record in this file is, in the same store; None where the record is in none."""
    folder, name = os.path.split(os.path.abspath(record_path))
    sessions, session = os.path.split(folder)
    store, last = os.path.split(sessions)
    if last != "sessions" or not name.endswith(".jsonl"):
        return None
    return os.path.join(store, "traces", session, name.removesuffix(".jsonl") + ".ndjson.gz")


def read_timeline(path: str) -> Timeline:
    """The timeline in a file. Raises TimelineError when there is none that can be read."""
    try:
        fd = open_regular(path, None)
    except OSError as error:
        raise TimelineError(f"{path}: {error.strerror or error}") from None
    with os.fdopen(fd, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise TimelineError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    problems: dict[str, int] = {}
    made: _Reader | None = None
    for at, line in enumerate(_lines(data, problems)):
        row = _decoded(line)
        if made is None:
            made = _Reader(row, path, problems)
        elif at > MAX_ROWS:
            _count(problems, f"more than {MAX_ROWS} rows")
            break
        elif not made.add(row):
            _count(problems, "a row that cannot be read")
    if made is None:
        raise TimelineError(f"{path}: " + (", ".join(problems) or "empty"))
    return made.timeline


def _lines(data: bytes, problems: dict[str, int]) -> Iterator[bytes]:
    """Whole lines of one gzip member after the other; what is torn or damaged ends it."""
    rest, room = b"", MAX_TEXT_BYTES
    while data:
        machine = zlib.decompressobj(wbits=_GZIP)
        whole = False
        while data and not whole:
            try:
                text = machine.decompress(data, _CHUNK_BYTES)
            except zlib.error:
                _count(problems, "damaged: what comes after is lost")
                return
            whole = machine.eof
            data = machine.unused_data if whole else machine.unconsumed_tail
            room -= len(text)
            if room < 0:
                _count(problems, f"more than {MAX_TEXT_BYTES} bytes of text")
                return
            *lines, rest = (rest + text).split(b"\n")
            yield from lines
            if len(rest) > MAX_LINE_BYTES:
                _count(problems, f"a line of more than {MAX_LINE_BYTES} bytes")
                return
        if not whole:
            _count(problems, "torn: the last rows are lost")
            return
    if rest:
        _count(problems, "torn: the last row is lost")


def _count(problems: dict[str, int], what: str) -> None:
    problems[what] = problems.get(what, 0) + 1


def _decoded(line: bytes) -> Any:
    """The JSON in a line; None for what is none, or holds a number that no record holds."""
    try:
        return json.loads(line, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(text: str) -> None:
    raise ValueError(text)


def _integer(value: Any) -> int | None:
    return value if type(value) is int and -_INT64 <= value < _INT64 else None


class _Reader:
    """Rows into a Timeline, by the columns that its header names."""

    def __init__(self, header: Any, path: str, problems: dict[str, int]) -> None:
        """Raises TimelineError for what is no header of ours, or a newer one."""
        if not isinstance(header, dict) or header.get("event") != "trace":
            raise TimelineError(f"{path}: not a timeline")
        schema, origin, ticks = (
            _integer(header.get(name)) for name in ("schema", "origin_monotonic_ns", "ticks_per_second")
        )
        if schema is None or schema > SCHEMA:
            raise TimelineError(f"{path}: of schema {schema}, newer than this reader's {SCHEMA}; use a newer proofcost")
        columns, methods = header.get("columns"), header.get("methods")
        session, invocation = header.get("session"), header.get("invocation")
        if origin is None or not ticks or ticks < 0 or not isinstance(columns, dict) or not isinstance(methods, dict):
            raise TimelineError(f"{path}: its header lacks an origin, clock ticks, columns or methods")
        if not isinstance(session, str) or not isinstance(invocation, str):
            raise TimelineError(f"{path}: its header names no session or no invocation")
        said = {name: text for name, text in methods.items() if isinstance(text, str)}
        self.timeline = Timeline(origin, session, invocation, ticks, said, problems=problems)
        self._columns = {kind: names for kind, names in columns.items() if isinstance(names, list)}
        self._last: dict[str, int] = {}

    def add(self, row: Any) -> bool:
        """Take in one row. Whether it could be read; one of a kind that we do not know is passed over."""
        if not isinstance(row, list) or len(row) < 2 or not isinstance(row[0], str):
            return False
        kind, at = row[0], _integer(row[1])
        if at is None:
            return False
        if at < self._last.get(kind, at):
            return False
        self._last[kind] = at
        do = {
            "s": self._sample, "p": self._look, "n": self._named, "h": self._host, "i": self._io, "x": self._stamp,
            "f": self._stamp, "e": self._stamp, "g": self._gap, "z": self._end,
        }.get(kind)  # fmt: skip
        return do is None or do(self.timeline.origin_ns + at, kind, row)

    def _values(self, kind: str, row: list[Any]) -> dict[str, Any]:
        names = self._columns.get(kind, ())
        return {name: value for name, value in zip(names, row[1:], strict=False) if isinstance(name, str)}

    def _sample(self, at: int, kind: str, row: list[Any]) -> bool:
        values = self._values(kind, row)
        self.timeline.samples.append(Sample(at, *(_integer(values.get(name)) for name in _SAMPLE)))
        return True

    def _look(self, at: int, kind: str, row: list[Any]) -> bool:
        names = self._columns.get(kind, [])
        inner = next((one for one in names if isinstance(one, list)), None)
        count = _integer(row[2]) if len(row) > 2 else None
        if inner is None or count is None:
            return False
        kept = []
        for one in row[3:]:
            values = dict(zip(map(str, inner), one, strict=False)) if isinstance(one, list) else {}
            pid, *others = (_integer(values.get(name)) for name in _PROCESS)
            if pid is None:
                return False
            kept.append(ProcessSample(at, pid, *others))
        self.timeline.looks.append(Look(at, count, tuple(kept)))
        return True

    def _named(self, at: int, kind: str, row: list[Any]) -> bool:
        values = self._values(kind, row)
        pid, parent, ticks = (_integer(values.get(name)) for name in ("pid", "parent_pid", "start_ticks"))
        name = values.get("name")
        if pid is None or parent is None or ticks is None or not isinstance(name, str):
            return False
        self.timeline.named.append(Named(at, pid, parent, ticks, name))
        return True

    def _totals(self, at: int, kind: str, row: list[Any]) -> Totals:
        return Totals(at, {name: _integer(value) for name, value in self._values(kind, row).items() if name != "at_ns"})

    def _host(self, at: int, kind: str, row: list[Any]) -> bool:
        self.timeline.host.append(self._totals(at, kind, row))
        return True

    def _io(self, at: int, kind: str, row: list[Any]) -> bool:
        self.timeline.io.append(self._totals(at, kind, row))
        return True

    def _stamp(self, at: int, kind: str, row: list[Any]) -> bool:
        values = self._values(kind, row)
        pid, name, parent = _integer(values.get("pid")), values.get("name"), _integer(values.get("parent_pid"))
        if pid is None or (not isinstance(name, str) if kind == "x" else parent is None):
            return False
        self.timeline.stamps.append(Stamp(at, kind, pid, name, parent))
        return True

    def _gap(self, at: int, kind: str, row: list[Any]) -> bool:
        reason = self._values(kind, row).get("reason")
        if not isinstance(reason, str):
            return False
        self.timeline.gaps.append((at, reason))
        return True

    def _end(self, at: int, kind: str, row: list[Any]) -> bool:
        self.timeline.ended_ns = at
        return True
