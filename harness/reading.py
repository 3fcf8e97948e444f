"""Reading records back: any folder, any user who may read it, whatever stands in it.

Theory of operation. A store is `sessions/<session>/<invocation>.jsonl`; what people hand over is that, or a part of it,
or a copy in a heap of other files. So reading is three steps that know little of each other: *walk* yields the lines of
every file that may hold records, *decode* turns one line into an event or a named problem, *merge* joins the events of
an invocation and derives what only the whole session can tell (which side a build was for, what a kernel is called).

Nothing here trusts the folder. It may belong to another user, hold lines that no meter wrote, and change while it is
read. Symbolic links below the folder are never followed (directories are opened one by one, relative to their parent,
so a swap in mid-walk gains nothing); only regular files are read; a line has a greatest length; and a problem never
quotes what stood in a line, because the reader may be root and the file somebody else's.

What is wrong is skipped *loudly*: every skipped line, event or file is a `Problem`, and reading goes on.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any

SCHEMA = 1
"""The newest record version this reader knows; a newer one is skipped loudly."""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A line above this is skipped unread: the meter's own room is 64 KiB, argv and config texts included."""

MAX_DEPTH = 64
"""Deepest nesting of a record's JSON; deeper is hostile and would only fail later, while printing."""

MAX_FOLDER_DEPTH = 8
"""A store has two levels; a heap of stores has a few more."""

MAX_PROBLEMS_PER_FILE = 20
"""Further problems of one file are counted, not kept: a foreign file may have millions of lines."""

EVENTS = ("started", "finished", "settled")

SOLUTION_PHASES = frozenset({"build", "export", "check", "checker"})
"""The phases that make up what a submission costs its judge."""

DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # NONBLOCK: a FIFO must not hang the open


# --- text -------------------------------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(?:\\|x[0-9a-fA-F]{2})?")


def unescape(text: str) -> bytes:
    """The bytes that `text`, a string of a record, stands for (docs/record.md, "Encoding").

    Raises ValueError for a backslash that begins neither `\\\\` nor `\\xHH`, and for a lone surrogate: no meter writes
    either.
    """
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8"))
        token = match.group()
        if token == "\\":
            raise ValueError(f"a lone backslash at character {match.start()} of a record's string")
        parts.append(b"\\" if token == "\\\\" else bytes([int(token[2:], 16)]))
        end = match.end()
    parts.append(text[end:].encode("utf-8"))
    return b"".join(parts)


def plain(text: str) -> str:
    """`text`, a string of a record, for comparing with other text: undecodable bytes become surrogate escapes.

    Never raises; a string that is not well escaped is taken as it stands.
    """
    try:
        return unescape(text).decode("utf-8", "surrogateescape")
    except ValueError:
        return text


# --- problems ---------------------------------------------------------------------------------------------------------


class ProblemKind(Enum):
    """What can be wrong with a folder of records. Each says what was seen; the value is a stable name for `--json`."""

    TORN = "torn_last_line"
    EMPTY = "empty_file"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    NOT_A_RECORD = "not_a_record"
    ENCODING = "breaks_the_encoding"
    OVERSIZE = "oversize_line"
    NEWER_SCHEMA = "newer_schema"
    UNKNOWN_EVENT = "unknown_event"
    DUPLICATE_EVENT = "duplicate_event"
    WITHOUT_STARTED = "without_started"
    OTHER_SESSION = "events_of_two_sessions"
    FOREIGN_FILE = "foreign_file"
    UNREADABLE = "unreadable"
    SYMLINK = "symlink_ignored"
    TOO_DEEP = "too_deep"
    SHARED_HOST = "two_machines_share_one_host_id"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was skipped or cannot be right. `line` counts from 1; `count` is how many alike it stands for."""

    kind: ProblemKind
    path: str
    line: int | None
    what: str
    count: int = 1


class _LineError(Exception):
    """One line that is no event of a record we can read."""

    def __init__(self, kind: ProblemKind, what: str) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what


# --- records ----------------------------------------------------------------------------------------------------------


def _at(value: Any, *keys: str) -> Any:
    """`value[k1][k2]…`, or None where anything on the way is missing or not an object."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _text(value: Any, *keys: str) -> str | None:
    found = _at(value, *keys)
    return found if isinstance(found, str) else None


def _int(value: Any, *keys: str) -> int | None:
    found = _at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of a record.

    `value` is in `unit` (`ns`, `bytes`, `count`), None when unavailable, and then `reason` says why. `settled` tells
    that it was read after all that the command started had ended, and replaces the figure read at the command's exit.
    `enabled_ns` and `running_ns` stand with perf counters only.
    """

    name: str
    value: int | None
    unit: str
    method: str
    status: str
    reason: str | None
    enabled_ns: int | None = None
    running_ns: int | None = None
    settled: bool = False


def _measurement(name: str, raw: Any, settled: bool) -> Measurement | None:
    """`raw` as a Measurement; None when it is no object at all. What it lacks is said in `reason`, never guessed."""
    if not isinstance(raw, dict):
        return None
    value, reason = _int(raw, "value"), _text(raw, "reason")
    status = _text(raw, "status") or "unavailable"
    if value is None:
        reason = reason or ("the record gives no reason" if raw.get("value") is None else "not an integer")
        status = "unavailable"
    elif status == "unavailable":
        value, reason = None, reason or "the record calls it unavailable"
    return Measurement(
        name=name,
        value=value,
        unit=_text(raw, "unit") or "count",
        method=_text(raw, "method") or "unknown",
        status=status,
        reason=reason,
        enabled_ns=_int(raw, "enabled_ns"),
        running_ns=_int(raw, "running_ns"),
        settled=settled,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One invocation: its events merged, and what the rest of its session tells about it.

    `started`, `finished` and `settled` are the events as read, unknown keys included; the last two are None when they
    were never written (or could not be read: see `Store.problems`). The fields below `path` are derived by the reader.
    """

    invocation: str
    session: str
    started: dict[str, Any]
    finished: dict[str, Any] | None
    settled: dict[str, Any] | None
    path: str
    """The file that held `started`."""
    phase: str = "unknown"
    """`phase_understood`, with `challenge-` before it where the session shows that it was for the challenge."""
    side: str | None = None
    """`challenge`, `solution`, or None where nothing tells."""
    side_known_by: str | None = None
    """`phase`, `config`, `hook`, `order` (inferred) or None."""
    kernel: str | None = None
    """A checker's name: its key in the judge's config, else the kernel's or program's own name; None for others."""
    kernel_known_by: str | None = None
    """`config`, `record` or None."""
    labels: dict[str, str] = field(default_factory=dict)
    """The session's labels, then the `whole` record's, then its own: the later wins."""

    @property
    def state(self) -> str:
        """`complete`, or `incomplete`: the meter vanished while the command ran, or still runs."""
        return "complete" if self.finished is not None else "incomplete"

    @property
    def phase_given(self) -> str | None:
        return _text(self.started, "phase", "given")

    @property
    def phase_understood(self) -> str:
        return _text(self.started, "phase", "understood") or "unknown"

    @property
    def phase_known_by(self) -> str | None:
        return _text(self.started, "phase", "known_by")

    @property
    def module(self) -> str | None:
        """The module a build or export was for, as recorded (escaped)."""
        return _text(self.started, "subject", "module")

    @property
    def target_name(self) -> str | None:
        return _text(self.started, "target", "name")

    @property
    def target_path(self) -> str | None:
        return _text(self.started, "target", "path")

    @property
    def started_at_ns(self) -> int | None:
        """Real time (ns since 1970) before the command started; None when the record has no such clock."""
        return _int(self.started, "clocks", "realtime_ns")

    @property
    def ended_at_ns(self) -> int | None:
        """Real time (ns since 1970) when the exit was seen; None when incomplete."""
        return _int(self.finished, "clocks", "realtime_ns")

    @property
    def outcome(self) -> dict[str, Any] | None:
        found = _at(self.finished, "outcome")
        return found if isinstance(found, dict) else None

    def measurement(self, name: str) -> Measurement | None:
        """The figure called `name`, the settled one where there is one; None when the record never mentions it."""
        for event, settled in ((self.settled, True), (self.finished, False)):
            found = _measurement(name, _at(event, "measurements", name), settled)
            if found is not None:
                return found
        return None

    def measurements(self) -> dict[str, Measurement]:
        """Every figure by name, in the record's order, settled ones in place."""
        names: dict[str, None] = {}
        for event in (self.finished, self.settled):
            found = _at(event, "measurements")
            if isinstance(found, dict):
                names.update(dict.fromkeys(found))
        made = ((name, self.measurement(name)) for name in names)
        return {name: one for name, one in made if one is not None}


@dataclass(frozen=True, slots=True)
class Mark:
    """A call that ran without being (fully) measured: what the meter left in `marks/`. Empty `fields` = unreadable."""

    path: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Store:
    """What a folder held. `records` are sorted by start; `looked_in` are the folders and files that were read."""

    path: str
    records: tuple[Record, ...]
    problems: tuple[Problem, ...]
    looked_in: tuple[str, ...]
    marks: tuple[Mark, ...] = ()

    def sessions(self) -> dict[str, tuple[Record, ...]]:
        """Records by session; sessions in the order of their first record."""
        return by_session(self.records)


def by_session(records: Iterable[Record]) -> dict[str, tuple[Record, ...]]:
    """Records by session; sessions in the order of their first record."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.session, []).append(record)
    return {session: tuple(group) for session, group in groups.items()}


# --- decode: one line -> one event ------------------------------------------------------------------------------------


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _LineError(ProblemKind.ENCODING, "an object names one key twice")
    return made


class _Fraction:
    """Stands where a float or NaN stood, so that a newer version may have them and this one refuses them."""


def _fraction(_text: str) -> _Fraction:
    return _Fraction()


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_fraction, parse_constant=_fraction)


def _json_object(line: bytes) -> dict[str, Any]:
    """The JSON object that `line` spells. Raises _LineError; what it says never quotes the line."""
    try:
        value = _DECODER.decode(line.decode("utf-8").strip())
    except UnicodeDecodeError as error:
        raise _LineError(ProblemKind.ENCODING, f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _LineError(ProblemKind.NOT_JSON, f"not JSON: {error.msg} at column {error.colno}") from None
    except ValueError:  # Python refuses to convert integers of thousands of digits
        raise _LineError(ProblemKind.ENCODING, "an integer of more than 64 bits") from None
    except RecursionError:
        raise _LineError(ProblemKind.ENCODING, f"nested deeper than {MAX_DEPTH}") from None
    if not isinstance(value, dict):
        raise _LineError(ProblemKind.NOT_AN_OBJECT, "JSON, but not an object")
    return value


def _check_encoding(event: dict[str, Any]) -> None:
    """Raise _LineError for what no meter of version 1 writes (docs/record.md, "Encoding").

    Such a line would break a database, a terminal or a sum further on, where nobody could say which file it came from.
    """
    level: list[Any] = [event]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str):
                if not value.isascii() and not _encodable(value):
                    raise _LineError(ProblemKind.ENCODING, "a lone surrogate in a string")
                if "\0" in value:
                    raise _LineError(ProblemKind.ENCODING, "a NUL in a string")
            elif isinstance(value, _Fraction):
                raise _LineError(ProblemKind.ENCODING, "a fraction or NaN: version 1 has integers only")
            elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
                raise _LineError(ProblemKind.ENCODING, "an integer of more than 64 bits")
        if not below:
            return
        level = below
    raise _LineError(ProblemKind.ENCODING, f"nested deeper than {MAX_DEPTH}")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def decode_event(line: bytes) -> dict[str, Any]:
    """The event that one whole line holds. Raises _LineError."""
    event = _json_object(line)
    schema = event.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1 or "event" not in event:
        raise _LineError(
            ProblemKind.NOT_A_RECORD, "a JSON object, but no record: `schema` or `event` is missing or odd"
        )
    if schema > SCHEMA:
        version = str(schema) if schema < 1_000_000 else "unheard of"
        raise _LineError(ProblemKind.NEWER_SCHEMA, f"a record of schema {version}; this reader knows up to {SCHEMA}")
    _check_encoding(event)
    if event["event"] not in EVENTS:
        raise _LineError(ProblemKind.UNKNOWN_EVENT, "an event that is none of started, finished, settled")
    for key in ("invocation", "session"):
        if not isinstance(event.get(key), str) or not event[key]:
            raise _LineError(ProblemKind.NOT_A_RECORD, f"`{key}` is missing or no string")
    return event


# --- walk: a path -> open files ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    """What a walk has gathered so far."""

    events: list[tuple[dict[str, Any], str, int]] = field(default_factory=list)
    session_files: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    looked_in: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def problem(self, kind: ProblemKind, path: str, what: str, line: int | None = None, count: int = 1) -> None:
        self.problems.append(Problem(kind, path, line, what, count))

    def unreadable(self, path: str, error: OSError) -> None:
        self.problem(ProblemKind.UNREADABLE, path, f"cannot be read: {error.strerror or error}")


def _open_regular(name: str, dir_fd: int | None, flags: int = FILE_FLAGS) -> int:
    """A descriptor of the regular file `name`. Raises OSError, also for a FIFO, socket or device."""
    fd = os.open(name, flags, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "not a regular file")
    return fd


def _read_events(fd: int, path: str, found: _Found) -> None:
    """Append the events of the open file `fd` (closed here) to `found`, and a problem for every line that is none."""
    problems: list[Problem] = []
    dropped = events = lines = 0
    with os.fdopen(fd, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            lines += 1
            try:
                if len(line) > MAX_LINE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE_BYTES)
                    raise _LineError(ProblemKind.OVERSIZE, f"a line of more than {MAX_LINE_BYTES} bytes")
                if not line.endswith(b"\n"):
                    raise _LineError(
                        ProblemKind.TORN, f"the last line is torn after {len(line)} bytes, or still being written"
                    )
                if line.strip():
                    found.events.append((decode_event(line), path, lines))
                    events += 1
            except _LineError as bad:
                if len(problems) < MAX_PROBLEMS_PER_FILE:
                    problems.append(Problem(bad.kind, path, lines, bad.what))
                else:
                    dropped += 1
    if not lines:
        found.problem(ProblemKind.EMPTY, path, "an empty file: its meter ended before `started` was written")
    foreign = (ProblemKind.NOT_JSON, ProblemKind.NOT_AN_OBJECT, ProblemKind.NOT_A_RECORD)
    if not events and len(problems) > 1 and all(one.kind in foreign for one in problems):
        found.problem(ProblemKind.FOREIGN_FILE, path, f"none of its {lines} lines is a record", count=lines)
        return
    found.problems.extend(problems)
    if dropped:
        found.problem(ProblemKind.NOT_A_RECORD, path, f"{dropped} more lines that are no records", count=dropped)


def _read_object(name: str, dir_fd: int) -> dict[str, Any]:
    """The JSON object in the small file `name`. Raises OSError or _LineError."""
    with os.fdopen(_open_regular(name, dir_fd), "rb") as file:
        text = file.read(MAX_LINE_BYTES + 1)
    if len(text) > MAX_LINE_BYTES:
        raise _LineError(ProblemKind.OVERSIZE, f"larger than {MAX_LINE_BYTES} bytes")
    made = _json_object(text)
    _check_encoding(made)
    return made


def _entries(dir_fd: int) -> list[os.DirEntry[str]]:
    with os.scandir(dir_fd) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _scan(dir_fd: int, path: str, depth: int, in_store: bool, found: _Found) -> None:
    """Read every record file below the open directory `dir_fd`. `in_store`: whatever is no record is worth a word."""
    for entry in _entries(dir_fd):
        here = os.path.join(path, entry.name)
        try:
            if entry.is_symlink():
                found.problem(ProblemKind.SYMLINK, here, "a symbolic link: not followed")
            elif entry.is_dir(follow_symlinks=False):
                if depth >= MAX_FOLDER_DEPTH:
                    found.problem(ProblemKind.TOO_DEEP, here, f"below {MAX_FOLDER_DEPTH} folders: not read")
                    continue
                below = os.open(entry.name, DIR_FLAGS, dir_fd=dir_fd)
                try:
                    _scan(below, here, depth + 1, in_store, found)
                finally:
                    os.close(below)
            elif entry.name.endswith(".jsonl"):
                _read_events(_open_regular(entry.name, dir_fd), here, found)
            elif entry.name == "session.json":
                found.session_files.append((path, _read_object(entry.name, dir_fd)))
            elif in_store:
                found.problem(ProblemKind.FOREIGN_FILE, here, "not a file of a session: not read")
        except OSError as error:
            found.unreadable(here, error)
        except _LineError as bad:
            found.problem(bad.kind, here, bad.what)


def _scan_marks(dir_fd: int, path: str, found: _Found) -> None:
    for entry in _entries(dir_fd):
        if not entry.name.endswith(".json"):
            continue
        try:
            fields = _read_object(entry.name, dir_fd)
        except (OSError, _LineError):
            fields = {}  # that it is there is what matters
        found.marks.append(Mark(os.path.join(path, entry.name), fields))


def _walk(path: str, found: _Found) -> None:
    """Gather everything below `path`, which itself may be a symbolic link: whoever named it meant it."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISDIR(mode):
            found.looked_in.append(path)
            _read_events(_open_regular(path, None, FILE_FLAGS & ~os.O_NOFOLLOW), path, found)
            return
        top = os.open(path, DIR_FLAGS & ~os.O_NOFOLLOW)
    except OSError as error:
        found.looked_in.append(path)
        found.unreadable(path, error)
        return
    try:
        scans = {"sessions": False, "marks": False}
        for name in scans:
            here = os.path.join(path, name)
            try:
                below = os.open(name, DIR_FLAGS, dir_fd=top)
            except FileNotFoundError:
                continue
            except OSError as error:
                found.unreadable(here, error)
                scans[name] = True
                continue
            try:
                scans[name] = True
                if name == "sessions":
                    found.looked_in.append(here)
                    _scan(below, here, 1, True, found)
                else:
                    _scan_marks(below, here, found)
            finally:
                os.close(below)
        if not any(scans.values()):
            found.looked_in.append(path)
            _scan(top, path, 0, False, found)
    except OSError as error:
        found.unreadable(path, error)
    finally:
        os.close(top)


# --- merge: events -> records -----------------------------------------------------------------------------------------


def _merge(found: _Found) -> list[Record]:
    """One Record per invocation that has a `started`; every event that finds no place is a problem."""
    merged: dict[str, dict[str, tuple[dict[str, Any], str, int]]] = {}
    for event, path, line in found.events:
        kinds = merged.setdefault(event["invocation"], {})
        first = kinds.get(event["event"])
        if first is None:
            kinds[event["event"]] = (event, path, line)
            continue
        alike = "the same" if first[0] == event else "a different"
        what = f"{alike} `{event['event']}` of this invocation was read before, from {first[1]}: the first stands"
        found.problem(ProblemKind.DUPLICATE_EVENT, path, what, line)
    records: list[Record] = []
    for invocation, kinds in merged.items():
        if "started" not in kinds:
            for name, (_, path, line) in kinds.items():
                what = f"`{name}` without a readable `started`: what it belongs to is unknown"
                found.problem(ProblemKind.WITHOUT_STARTED, path, what, line)
            continue
        started, started_path, _ = kinds["started"]
        later: dict[str, dict[str, Any]] = {}
        for name in ("finished", "settled"):
            if name not in kinds:
                continue
            event, path, line = kinds[name]
            if event["session"] != started["session"]:
                what = f"`{name}` names another session than `started` does: not merged"
                found.problem(ProblemKind.OTHER_SESSION, path, what, line)
            else:
                later[name] = event
        records.append(
            Record(
                invocation=invocation,
                session=started["session"],
                started=started,
                finished=later.get("finished"),
                settled=later.get("settled"),
                path=started_path,
            )
        )
    records.sort(key=_start_order)
    return records


def _start_order(record: Record) -> tuple[int, str]:
    return (record.started_at_ns or 0, record.invocation)


# --- derive: what the rest of a session tells -------------------------------------------------------------------------


def whole_of(records: Iterable[Record]) -> Record | None:
    """The record of the judge itself among the records of one session."""
    return next((record for record in records if record.phase_understood == "whole"), None)


def judge_config(whole: Record | None) -> dict[str, Any] | None:
    """The judge's config file as an object, when the `whole` record holds its text whole and it is one."""
    text = _text(whole.started, "judge_config", "text") if whole is not None else None
    if text is None:
        return None
    try:
        made = json.loads(unescape(text))
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) else None


def _command(raw: Any) -> list[str] | None:
    """The command of one entry of `external_kernels`: a string, a list of strings, or an object that has one."""
    if isinstance(raw, str):
        return [raw]
    if isinstance(raw, list) and raw and all(isinstance(word, str) for word in raw):
        return raw
    if isinstance(raw, dict):
        return next((made for key in ("command", "cmd", "path") if (made := _command(raw.get(key)))), None)
    return None


def _kernel_key(record: Record, config: Mapping[str, Any] | None) -> str | None:
    """The key in the config's `external_kernels` whose command this checker call ran; None unless exactly one fits."""
    kernels = config.get("external_kernels") if config is not None else None
    if not isinstance(kernels, dict):
        return None
    paths = {plain(text) for text in (record.target_path, record.target_name) if text}
    bases = {os.path.basename(path) for path in paths}
    commands = {key: made for key, raw in kernels.items() if (made := _command(raw)) is not None}
    fits = [key for key, made in commands.items() if made[0] in paths]
    fits = fits or [key for key, made in commands.items() if os.path.basename(made[0]) in bases]
    if len(fits) > 1:  # one program under several names: its arguments tell them apart
        head = _at(record.started, "argv", "head")
        words = [plain(word) for word in head if isinstance(word, str)] if isinstance(head, list) else []
        fits = [key for key in fits if len(commands[key]) > 1 and _contains(words, commands[key][1:])]
    return fits[0] if len(fits) == 1 else None


def _contains(words: Sequence[str], run: Sequence[str]) -> bool:
    """Whether `run` stands in `words` in one piece."""
    return any(list(words[at : at + len(run)]) == list(run) for at in range(len(words) - len(run) + 1))


def _side(record: Record, config: Mapping[str, Any] | None, order: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Which side a call was for, and how that is known. `order`: side by module, inferred from the session."""
    phase = record.phase_understood
    if phase.startswith("challenge-"):
        return "challenge", "phase"
    if phase == "checker":
        return "solution", "phase"  # kernels check the solution's export, never the challenge's
    if phase not in SOLUTION_PHASES:
        return None, None
    module = plain(record.module) if record.module is not None else None
    if module is not None and config is not None:
        for side in ("challenge", "solution"):
            if config.get(f"{side}_module") == module:
                return side, "config"
    if record.phase_known_by == "hook":
        return "solution", "hook"  # the hook never wraps the challenge's calls
    if phase == "check":
        return "solution", "phase"
    if module is not None and module in order:
        return order[module], "order"
    return None, None


def _sides_by_order(records: Iterable[Record]) -> dict[str, str]:
    """Side by module where only the order of the calls tells it: comparators build the challenge first.

    Two modules are needed, no more; one alone may be either side, three or more are not a comparator's doing.
    """
    hooked: dict[str, None] = {}
    seen: dict[str, None] = {}
    for record in records:
        if record.phase_understood in ("build", "export") and record.module is not None:
            (hooked if record.phase_known_by == "hook" else seen)[plain(record.module)] = None
    others = [module for module in seen if module not in hooked]
    if hooked:  # what the hook did not wrap, the shim saw: the challenge
        return {others[0]: "challenge"} if len(hooked) == 1 and len(others) == 1 else {}
    return {others[0]: "challenge", others[1]: "solution"} if len(others) == 2 else {}


def _labels(raw: Any) -> dict[str, str]:
    return {key: value for key, value in raw.items() if isinstance(value, str)} if isinstance(raw, dict) else {}


def derive(records: Sequence[Record], session_labels: Mapping[str, str] | None = None) -> tuple[Record, ...]:
    """The records of one session with their derived fields filled in."""
    whole = whole_of(records)
    config, order = judge_config(whole), _sides_by_order(records)
    common = {**(session_labels or {}), **(_labels(whole.started.get("labels")) if whole is not None else {})}
    made: list[Record] = []
    for record in records:
        side, side_known_by = _side(record, config, order)
        phase = record.phase_understood
        if side == "challenge" and phase in SOLUTION_PHASES:
            phase = f"challenge-{phase}"
        kernel = known_by = None
        if phase == "checker":
            kernel, known_by = _kernel_key(record, config), "config"
            if kernel is None:
                kernel, known_by = _text(record.started, "kernel", "name") or record.target_name, "record"
        made.append(
            replace(
                record,
                phase=phase,
                side=side,
                side_known_by=side_known_by,
                kernel=kernel,
                kernel_known_by=known_by if kernel is not None else None,
                labels={**common, **_labels(record.started.get("labels"))},
            )
        )
    return tuple(made)


def _shared_hosts(records: Iterable[Record]) -> Iterator[Problem]:
    """A problem for every host id that two boots used in turns: a machine runs one boot at a time, so it is two.

    A boot's time goes from its first start to its last end; an incomplete record is a moment, since its end is unknown.
    """
    boots: dict[str, dict[str, tuple[int, int, str]]] = {}
    for record in records:
        instance, boot = _text(record.started, "host", "instance"), _text(record.started, "host", "boot_id")
        start = record.started_at_ns
        if instance is None or boot is None or start is None:
            continue
        end = max(start, record.ended_at_ns or start)
        spans = boots.setdefault(instance, {})
        first, last, path = spans.get(boot, (start, end, record.path))
        spans[boot] = (min(first, start), max(last, end), path)
    for instance, spans in boots.items():
        ordered = sorted(spans.values())
        for (_, last, _), (first, _, path) in pairwise(ordered):
            if first < last:
                what = (
                    f"two machines share one host id ({instance}): two boot ids used it at the same time. "
                    "Was its `hosts/` folder copied, or a clock set back? Their figures must not be pooled"
                )
                yield Problem(ProblemKind.SHARED_HOST, path, None, what)
                break


def read_store(path: str | os.PathLike[str]) -> Store:
    """Everything that `path` holds: a store, one session's folder, a heap of `.jsonl` files, or one file.

    Never raises for what stands there or is missing: `Store.problems` says what was skipped and why.
    """
    path = os.fspath(path)
    found = _Found()
    _walk(path, found)
    labels: dict[str, dict[str, str]] = {}
    for folder, fields in found.session_files:
        session = _text(fields, "session") or os.path.basename(folder)
        labels.setdefault(session, {}).update(_labels(fields.get("labels")))
    merged = _merge(found)
    records = [one for session, group in by_session(merged).items() for one in derive(group, labels.get(session))]
    records.sort(key=_start_order)
    found.problems.extend(_shared_hosts(records))
    return Store(path, tuple(records), tuple(found.problems), tuple(found.looked_in), tuple(found.marks))


# --- the judge itself -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgeSelf:
    """What the judge used beside the calls it made: an upper bound for a kernel that runs inside its process.

    `meters_ns` and `meters_cpu_ns` are our own meters' wall and CPU inside these figures (ns); they are not subtracted.
    """

    wall: Measurement
    cpu: Measurement
    memory: Measurement
    meters_ns: int
    meters_cpu_ns: int


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
    if unknown or low:
        reason = f"{figure} is missing for {unknown} and a lower bound for {low} of {len(parts)} calls"
        return Measurement(name, value, "ns", method, "upper_bound", reason)
    if total.status == "lower_bound":
        return Measurement(name, value, "ns", method, "lower_bound", f"{figure} of the whole is a lower bound")
    return Measurement(name, value, "ns", method, "derived", None)


_BEST_FIRST = ("derived", "lower_bound", "upper_bound", "contradicted", "unavailable")


def _overlapping(calls: Iterable[Record]) -> bool:
    """Whether two calls ran at the same time, by the monotonic clock: then their walls do not add up."""
    spans: list[tuple[int, int]] = []
    for call in calls:
        start = _int(call.started, "clocks", "monotonic_ns")
        end = _int(call.finished, "clocks", "monotonic_ns")
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
        ways = [_difference("cpu_judge_self", whole, calls, figure) for figure in ("cpu_tree", "cpu_waited")]
        cpu = min(ways, key=lambda way: _BEST_FIRST.index(way.status))
    no_memory = "needs cgroups: a peak cannot be found by subtraction"
    memory = whole.measurement("memory_peak_judge_self") or _unavailable("memory_peak_judge_self", "bytes", no_memory)
    costs = [_at(call.finished, "meter_cost") for call in calls]
    meters = sum((_int(cost, "before_ns") or 0) + (_int(cost, "after_ns") or 0) for cost in costs)
    return JudgeSelf(wall, cpu, memory, meters, sum(_int(cost, "cpu_ns") or 0 for cost in costs))


# --- which store ------------------------------------------------------------------------------------------------------


def default_store(env: Mapping[str, str], uid: int, home: str) -> tuple[str, str]:
    """The store that a command without `--store` reads, and how it was chosen, for people.

    `$PROOFCOST_STORE` if set and not empty; else root's `/var/lib/proofcost`; else the user's state directory
    ($XDG_STATE_HOME where absolute, as its specification says, else `home`/.local/state).
    """
    named = env.get("PROOFCOST_STORE")
    if named:
        return named, "$PROOFCOST_STORE"
    if uid == 0:
        return "/var/lib/proofcost", "root's store, as $PROOFCOST_STORE is not set"
    state = env.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, "proofcost"), "$XDG_STATE_HOME, as $PROOFCOST_STORE is not set"
    return os.path.join(home, ".local", "state", "proofcost"), "the user's store, as $PROOFCOST_STORE is not set"
