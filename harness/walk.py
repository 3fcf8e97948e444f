"""A path -> the events of every file below it that may hold records.

The folder may belong to another user and change while it is read. Symbolic links below it are never followed
(directories are opened one by one, relative to their parent, so a swap in mid-walk gains nothing); only regular files
are read.

A walk may put off the folders whose file names say all that is needed to choose among them: a session of ours holds
`<invocation>.jsonl` files, whose names begin with the time of their start, and nothing else that matters. Whatever is
named otherwise is read at once.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import Any

from proofcost.harness.decode import LineError, Problem, ProblemKind, decode_event
from proofcost.harness.lines import FILE_FLAGS, Decode, Event, open_regular, read_lines, read_object
from proofcost.harness.running import MeterState
from proofcost.harness.session import SEAL_FILE, SESSION_FILE

MAX_FOLDER_DEPTH = 8
"""A store has two levels; a heap of stores has a few more."""

MAX_FOLDERS = 20_000
"""So many folders without records are walked outside a store: more are no heap of stores, but a whole machine."""

MAX_MARKS_READ = 100
"""So many of the newest marks are read by a walk that puts folders off; the others are listed."""

DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_UNFINISHED = re.compile(r".+\.jsonl?(?:\.[0-9]{1,10})?\.tmp")
"""What a writer that was killed has left of a small file (store.write_new): nothing that was ever kept."""

_CALL_FILE = re.compile(r"(([0-9a-f]{1,16})-[0-9]{1,10}-[0-9a-f]{8})(?:\.settled)?\.jsonl")
"""An invocation's files (docs/record.md): its id, and in it the time of its start."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A call that ran without being (fully) measured, or was refused: what the meter left in `marks/`."""

    path: str
    at_ns: int | None
    """Real time (ns since 1970), from the file's name; None where that is no mark's name."""
    fields: dict[str, Any] | None
    """Empty: unreadable. None: not read, being older than the newest `MAX_MARKS_READ`."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A session's folder that was put off: what its names tell."""

    way: tuple[str, ...]
    """Names of the folders that lead there from the walk's top; the last is the session's id."""
    path: str
    calls: tuple[str, ...]
    """Ids of its invocations."""
    start_ns: int
    """Start of the earliest of them."""
    in_store: bool


@dataclass(slots=True)
class Found:
    """What a walk has gathered so far."""

    events: list[Event] = field(default_factory=list)
    meters: dict[str, MeterState] = field(default_factory=dict)
    """By invocation, of those whose file ended without `finished` and whose meter this host can look for."""
    session_files: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    looked_in: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    put_off: list[Folder] = field(default_factory=list)
    decode: Decode = decode_event

    def problem(self, kind: ProblemKind, path: str, what: str, line: int | None = None, count: int = 1) -> None:
        self.problems.append(Problem(kind, path, line, what, count))

    def add_file(self, fd: int, path: str) -> None:
        """Add what the open file `fd` (closed here) holds."""
        lines = read_lines(fd, path, self.decode)
        self.events.extend(lines.events)
        self.problems.extend(lines.problems)
        self.meters.update(lines.meters)

    def unreadable(self, path: str, error: OSError) -> None:
        self.problem(ProblemKind.UNREADABLE, path, f"cannot be read: {error.strerror or error}")


class Walk:
    """A path opened for reading; a context manager. Afterwards `found` has everything, or all but what was put off."""

    def __init__(self, path: str, put_off: bool = False, decode: Decode = decode_event) -> None:
        """`put_off`: leave alone the folders whose names tell enough; `read` reads them one by one."""
        self.path = path
        self.found = Found(decode=decode)
        self._put_off = put_off
        self._top: int | None = None
        self._barren = 0
        """Folders without records, outside a store, so far."""

    def __enter__(self) -> Walk:
        """Walk. What `path` holds or lacks is told in `found.problems`; nothing is raised."""
        found, path = self.found, self.path
        try:
            if not stat.S_ISDIR(os.stat(path).st_mode):
                found.looked_in.append(path)
                # The path itself may be a symbolic link: whoever named it meant it.
                found.add_file(open_regular(path, None, FILE_FLAGS & ~os.O_NOFOLLOW), path)
                return self
            self._top = os.open(path, DIR_FLAGS & ~os.O_NOFOLLOW)
        except OSError as error:
            found.looked_in.append(path)
            found.unreadable(path, error)
            return self
        try:
            self._walk(self._top)
        except OSError as error:
            found.unreadable(path, error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._top is not None:
            os.close(self._top)
            self._top = None

    def read(self, folder: Folder) -> None:
        """Read a folder that was put off."""
        assert self._top is not None
        at = os.dup(self._top)
        try:
            for name in folder.way:
                above, at = at, os.open(name, DIR_FLAGS, dir_fd=at)
                os.close(above)
            self._scan(at, folder.path, folder.way, folder.in_store, put_off=False)
        except OSError as error:
            self.found.unreadable(folder.path, error)
        finally:
            os.close(at)

    def _walk(self, top: int) -> None:
        is_store = False
        for name in ("sessions", "marks"):
            here = os.path.join(self.path, name)
            try:
                below = os.open(name, DIR_FLAGS, dir_fd=top)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.found.unreadable(here, error)
                is_store = True
                continue
            is_store = True
            try:
                if name == "sessions":
                    self.found.looked_in.append(here)
                    self._scan(below, here, (name,), True, self._put_off)
                else:
                    self._scan_marks(below, here)
            finally:
                os.close(below)
        if not is_store:
            self.found.looked_in.append(self.path)
            self._scan(top, self.path, (), False, self._put_off)

    def _scan(self, dir_fd: int, path: str, way: tuple[str, ...], in_store: bool, put_off: bool) -> None:
        """Read every record file below the open directory `dir_fd`.

        `in_store`: whatever is no record is worth a word. `put_off`: a session's folder is noted, not read.
        """
        found = self.found
        if put_off:
            folder = _by_names(os.listdir(dir_fd), path, way, in_store)
            if folder is not None:
                found.put_off.append(folder)
                return
        self._barren += not in_store
        fruitful = False
        for entry in _entries(dir_fd):
            here = os.path.join(path, entry.name)
            try:
                if entry.is_symlink():
                    found.problem(ProblemKind.SYMLINK, here, "a symbolic link: not followed")
                elif entry.is_dir(follow_symlinks=False):
                    if len(way) >= MAX_FOLDER_DEPTH:
                        found.problem(ProblemKind.TOO_DEEP, here, f"below {MAX_FOLDER_DEPTH} folders: not read")
                        continue
                    if self._barren >= MAX_FOLDERS:
                        self._too_many()
                        continue
                    below = os.open(entry.name, DIR_FLAGS, dir_fd=dir_fd)
                    try:
                        self._scan(below, here, (*way, entry.name), in_store, put_off)
                    finally:
                        os.close(below)
                elif entry.name.endswith(".jsonl"):
                    before = len(found.events)
                    found.add_file(open_regular(entry.name, dir_fd), here)
                    fruitful = fruitful or len(found.events) > before
                elif entry.name == SESSION_FILE:
                    found.session_files.append((path, read_object(entry.name, dir_fd)))
                elif in_store and entry.name != SEAL_FILE and not _UNFINISHED.fullmatch(entry.name):
                    found.problem(ProblemKind.FOREIGN_FILE, here, "not a file of a session: not read")
            except OSError as error:
                found.unreadable(here, error)
            except LineError as bad:
                found.problem(bad.kind, here, bad.what)
        self._barren -= fruitful and not in_store

    def _too_many(self) -> None:
        if not any(problem.kind is ProblemKind.TOO_MANY for problem in reversed(self.found.problems)):
            what = f"{MAX_FOLDERS} folders without records: the others were not looked into; name the store itself"
            self.found.problem(ProblemKind.TOO_MANY, self.path, what)

    def _scan_marks(self, dir_fd: int, path: str) -> None:
        """List the marks, oldest first, and read them; only the newest where folders are put off."""
        names = sorted((at_ns or 0, name, at_ns) for name, at_ns in _mark_names(dir_fd))
        unread = max(0, len(names) - MAX_MARKS_READ) if self._put_off else 0
        for at, (_, name, at_ns) in enumerate(names):
            fields: dict[str, Any] | None = None
            if at >= unread:
                try:
                    fields = read_object(name, dir_fd)
                except (OSError, LineError):
                    fields = {}  # that it is there is what matters
            self.found.marks.append(Mark(os.path.join(path, name), at_ns, fields))


def _entries(dir_fd: int) -> list[os.DirEntry[str]]:
    """By name, but `sessions` first: records come before whatever else there is to walk."""
    with os.scandir(dir_fd) as entries:
        return sorted(entries, key=lambda entry: (entry.name != "sessions", entry.name))


def _mark_names(dir_fd: int) -> list[tuple[str, int | None]]:
    """Names of the marks in the open folder, each with the time in it (ns since 1970)."""
    names = [name for name in os.listdir(dir_fd) if name.endswith(".json")]
    heads = [name.partition("-")[0] for name in names]
    return [
        (name, int(head) if head.isascii() and head.isdecimal() and len(head) <= 19 else None)
        for name, head in zip(names, heads, strict=True)
    ]


def _by_names(names: list[str], path: str, way: tuple[str, ...], in_store: bool) -> Folder | None:
    """The session whose folder holds exactly files of these `names`; None unless all of them are a session's."""
    calls: dict[str, int] = {}
    for name in names:
        match = _CALL_FILE.fullmatch(name)
        if match is not None:
            calls[match[1]] = int(match[2], 16)
        elif name not in (SESSION_FILE, SEAL_FILE):
            return None
    if not calls or not way:
        return None
    return Folder(way, path, tuple(calls), min(calls.values()), in_store)
