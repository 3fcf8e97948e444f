"""One line of a record file -> one event, or a named problem that says what is wrong with it.

Nothing here trusts the line: it may be torn, foreign or hostile. What is wrong is named and never quoted, because the
reader may be root and the file somebody else's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

SCHEMA = 1
"""The newest record version this reader knows; a newer one is skipped loudly."""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A line above this is skipped unread: the meter's own room is 64 KiB, argv and config texts included."""

MAX_DEPTH = 64
"""Deepest nesting of a record's JSON; deeper is hostile and would only fail later, while printing."""

EVENTS = ("started", "finished", "settled")

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
    TOO_MANY = "too_many_folders"
    SHARED_HOST = "two_machines_share_one_host_id"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was skipped or cannot be right. `line` counts from 1; `count` is how many alike it stands for."""

    kind: ProblemKind
    path: str
    line: int | None
    what: str
    count: int = 1


class LineError(Exception):
    """One line that is no event of a record we can read."""

    def __init__(self, kind: ProblemKind, what: str) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise LineError(ProblemKind.ENCODING, "an object names one key twice")
    return made


class _Fraction:
    """Stands where a float or NaN stood, so that a newer version may have them and this one refuses them."""


def _fraction(_text: str) -> _Fraction:
    return _Fraction()


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_fraction, parse_constant=_fraction)


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object that `line` spells. Raises LineError; what it says never quotes the line."""
    try:
        value = _DECODER.decode(line.decode("utf-8").strip())
    except UnicodeDecodeError as error:
        raise LineError(ProblemKind.ENCODING, f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise LineError(ProblemKind.NOT_JSON, f"not JSON: {error.msg} at column {error.colno}") from None
    except ValueError:  # Python refuses to convert integers of thousands of digits
        raise LineError(ProblemKind.ENCODING, "an integer of more than 64 bits") from None
    except RecursionError:
        raise LineError(ProblemKind.ENCODING, f"nested deeper than {MAX_DEPTH}") from None
    if not isinstance(value, dict):
        raise LineError(ProblemKind.NOT_AN_OBJECT, "JSON, but not an object")
    return value


def check_encoding(event: dict[str, Any]) -> None:
    """Raise LineError for what no meter of version 1 writes (docs/record.md, "Encoding").

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
                    raise LineError(ProblemKind.ENCODING, "a lone surrogate in a string")
                if "\0" in value:
                    raise LineError(ProblemKind.ENCODING, "a NUL in a string")
            elif isinstance(value, _Fraction):
                raise LineError(ProblemKind.ENCODING, "a fraction or NaN: version 1 has integers only")
            elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
                raise LineError(ProblemKind.ENCODING, "an integer of more than 64 bits")
        if not below:
            return
        level = below
    raise LineError(ProblemKind.ENCODING, f"nested deeper than {MAX_DEPTH}")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def decode_event(line: bytes) -> dict[str, Any]:
    """The event that one whole line holds. Raises LineError."""
    event = json_object(line)
    check_version(event)
    check_encoding(event)
    check_event(event)
    return event


def check_version(event: dict[str, Any]) -> None:
    """Raise LineError for what is no record, or one of a version that we do not know."""
    schema = event.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1 or "event" not in event:
        raise LineError(ProblemKind.NOT_A_RECORD, "a JSON object, but no record: `schema` or `event` is missing or odd")
    if schema > SCHEMA:
        version = str(schema) if schema < 1_000_000 else "unheard of"
        raise LineError(ProblemKind.NEWER_SCHEMA, f"a record of schema {version}; this reader knows up to {SCHEMA}")


def check_event(event: dict[str, Any]) -> None:
    """Raise LineError for what names no event of ours, or not whose it is."""
    if event["event"] not in EVENTS:
        raise LineError(ProblemKind.UNKNOWN_EVENT, "an event that is none of started, finished, settled")
    for key in ("invocation", "session"):
        if not isinstance(event.get(key), str) or not event[key]:
            raise LineError(ProblemKind.NOT_A_RECORD, f"`{key}` is missing or no string")
