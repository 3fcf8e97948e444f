"""One open file -> its events, and a problem for every line that is none.

Only regular files are opened, a line has a greatest length, and a foreign file is one problem, not one a line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

from proofcost.harness.decode import (
    MAX_LINE_BYTES,
    LineError,
    Problem,
    ProblemKind,
    check_encoding,
    decode_event,
    json_object,
)
from proofcost.harness.running import MeterState, meter_state

MAX_PROBLEMS_PER_FILE = 20
"""Further problems of one file are counted, not kept: a foreign file may have millions of lines."""

_SMALL_BYTES = 1 << 17

FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # NONBLOCK: a FIFO must not hang the open

Decode = Callable[[bytes], dict[str, Any]]
"""One whole line -> its event; raises LineError. `decode.decode_event`, or a faster one that says the same."""

Event = tuple[dict[str, Any], str, int]
"""An event, the file it stood in, and its line there (from 1)."""


@dataclass(slots=True)
class Lines:
    """What one file gave."""

    events: list[Event] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    meters: dict[str, MeterState] = field(default_factory=dict)
    """By invocation, of those without `finished` in this file whose meter this host can look for."""
    count: int = 0
    """Lines in all."""

    def unfinished(self) -> dict[str, dict[str, Any]]:
        """`started` by invocation, of those without `finished`."""
        started = {event["invocation"]: event for event, _, _ in self.events if event["event"] == "started"}
        for event, _, _ in self.events:
            if event["event"] == "finished":
                started.pop(event["invocation"], None)
        return started


def open_regular(name: str, dir_fd: int | None, flags: int = FILE_FLAGS) -> int:
    """A descriptor of the regular file `name`. Raises OSError, also for a FIFO, socket or device."""
    fd = os.open(name, flags, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "not a regular file")
    return fd


def read_lines(fd: int, path: str, decode: Decode = decode_event) -> Lines:
    """What the open file `fd` holds; closes it. Raises OSError."""
    with os.fdopen(fd, "rb") as file:
        lines = _one_pass(file, path, decode)
        states = {invocation: meter_state(event) for invocation, event in lines.unfinished().items()}
        if MeterState.VANISHED in states.values():
            # Gone by now, but perhaps it wrote its last line after we had read: what stands there now is final.
            file.seek(0)
            lines = _one_pass(file, path, decode)
    pending = lines.unfinished()
    lines.meters = {one: state for one, state in states.items() if state is not None and one in pending}
    return lines


def read_object(name: str, dir_fd: int) -> dict[str, Any]:
    """The JSON object in the small file `name`. Raises OSError or LineError."""
    with os.fdopen(open_regular(name, dir_fd), "rb") as file:
        text = file.read(MAX_LINE_BYTES + 1)
    if len(text) > MAX_LINE_BYTES:
        raise LineError(ProblemKind.OVERSIZE, f"larger than {MAX_LINE_BYTES} bytes")
    made = json_object(text)
    check_encoding(made)
    return made


def _lines(file: BufferedReader) -> Iterator[tuple[bytes, bool]]:
    """(line, whether it is too long; then only its beginning)."""
    small = file.read(_SMALL_BYTES)
    if len(small) < _SMALL_BYTES:  # nearly every file: a third of the time
        for line in small.split(b"\n")[:-1]:
            yield line + b"\n", False
        rest = small[small.rfind(b"\n") + 1 :]
        if rest:
            yield rest, False
        return
    file.seek(0)
    while line := file.readline(MAX_LINE_BYTES + 1):
        too_long = len(line) > MAX_LINE_BYTES
        yield line, too_long
        while too_long and line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)


def _one_pass(file: BufferedReader, path: str, decode: Decode) -> Lines:
    made, dropped = Lines(), 0
    for line, too_long in _lines(file):
        made.count += 1
        try:
            if too_long:
                raise LineError(ProblemKind.OVERSIZE, f"a line of more than {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n"):
                torn = f"the last line is torn after {len(line)} bytes, or still being written"
                raise LineError(ProblemKind.TORN, torn)
            if line.strip():
                made.events.append((decode(line), path, made.count))
        except LineError as bad:
            if len(made.problems) < MAX_PROBLEMS_PER_FILE:
                made.problems.append(Problem(bad.kind, path, made.count, bad.what))
            else:
                dropped += 1
    foreign = (ProblemKind.NOT_JSON, ProblemKind.NOT_AN_OBJECT, ProblemKind.NOT_A_RECORD)
    if not made.count:
        what = "an empty file: its meter ended before `started` was written"
        made.problems = [Problem(ProblemKind.EMPTY, path, None, what)]
    elif not made.events and len(made.problems) > 1 and all(one.kind in foreign for one in made.problems):
        what = f"none of its {made.count} lines is a record"
        made.problems = [Problem(ProblemKind.FOREIGN_FILE, path, None, what, made.count)]
    elif dropped:
        what = f"{dropped} more lines that are no records"
        made.problems.append(Problem(ProblemKind.NOT_A_RECORD, path, None, what, dropped))
    return made
