"""A session's folder as nearly all of them are -> its rows, several times as fast as by `harness.reading`.

Ordinary is: files of calls that bear their ids as names, each with two lines, `started` and `finished`, as our meters
spell them; nothing lived on after a call; one boot. For whatever else there is the answer is None, and
`harness.reading` reads it, which knows what to say of it.

It says what `harness.reading` and `harness.columns` say, because it asks them, once for each *kind* of session. Two
sessions are of one kind when their lines differ in nothing but numbers and such texts as reports/folding.py takes out
of them, and their calls came in the same order from parents that are as equal and unequal to each other. Asked twice,
with other numbers and texts the second time, they show what of a row is constant and what is copied from which place;
where something is neither, sessions of this kind are no ordinary ones.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import orjson

from proofcost.harness.columns import Row, finished_part, started_part, subject_of
from proofcost.harness.decode import LineError
from proofcost.harness.derive import derive, labels_of
from proofcost.harness.lines import FILE_FLAGS
from proofcost.harness.merged import Record
from proofcost.harness.session import SEAL_FILE, SESSION_FILE
from proofcost.reports.fast_decode import decode
from proofcost.reports.folding import Folding

_FILE_BYTES, _MOST_BYTES = 1 << 17, 1 << 15
_JSON = ("other_figures", "weak", "absent", "covariates", "labels")
_KINDS_KEPT = 5000
_LOWEST_BIT = 14
"""The second time, number i of a line is larger by 2^(14 + i): no two sums of numbers grow by as much."""
_REALTIME_GROWS = 1 << 61  # still below 2^63
_PATHS = ("gap_cwd", "gap_input_0", "gap_input_1")
_GROWN = "~"
_MOST_NUMBERS = 64


class YoungError(Exception):
    """Something of the session was written a short while ago."""


@dataclass(slots=True)
class _Call:
    record: str
    folding: Folding
    start_ns: int
    parent: int | None
    labels: dict[str, str]


_Labels = Sequence[dict[str, str]]
_Subject = Callable[[Sequence[_Call], _Labels], str | None]


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the sessions of one kind have in common, by call."""

    constant: tuple[Row, ...]
    copied: tuple[tuple[tuple[str, ...], Callable[[Sequence[int]], tuple[int, ...]]], ...]
    """(columns, what takes their values from the numbers of `finished`): two or more, as nearly all are."""
    summed: tuple[tuple[tuple[str, int, tuple[int, ...]], ...], ...]
    """(column, line, places of the numbers there whose sum it is): the others."""
    subject: _Subject
    has_subject: tuple[bool, ...]
    """Whether the call's column `subject` is the session's."""
    whole: int | None
    """Which call's labels are everybody's."""


_kinds: dict[Any, _Kind | None] = {}


def rows_of(folder: str, newest: float) -> list[Row] | None:
    """The rows of an ordinary session with their lines folded; None for one that is not.

    Raises YoungError where a file was written after `newest` (seconds since 1970), OSError.
    """
    session = os.path.basename(folder)
    calls: list[_Call] = []
    labels: dict[str, str] = {}
    for name in os.listdir(folder):
        if name == SEAL_FILE:
            continue
        content = _content(f"{folder}/{name}", newest)
        if content is None:
            return None
        if name == SESSION_FILE:
            fields = _session_file(content, session)
            if fields is None:
                return None
            labels = labels_of(fields.get("labels"))
        elif (call := _call(content, name, session)) is None:
            return None
        else:
            calls.append(call)
    calls.sort(key=lambda call: (call.start_ns, call.record))
    key = _key(calls, labels)
    if key in _kinds:
        kind = _kinds[key]
    else:
        if len(_kinds) >= _KINDS_KEPT:
            _kinds.clear()
        kind = _kinds[key] = _learnt(calls, labels, session)
    if kind is None:
        return None
    rows = _rows(kind, calls, labels, session)
    return rows if all(call.folding.put(row, trusted=True) for call, row in zip(calls, rows, strict=True)) else None


def _content(path: str, newest: float) -> bytes | None:
    """A regular file's content, where it is small."""
    fd = os.open(path, FILE_FLAGS)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_mtime > newest:
            raise YoungError
        content = os.read(fd, _MOST_BYTES)  # a larger buffer is mapped and unmapped for each file
        if len(content) == _MOST_BYTES:
            content += os.read(fd, _FILE_BYTES)
    finally:
        os.close(fd)
    return content if len(content) < _FILE_BYTES else None


def _session_file(content: bytes, session: str) -> dict[str, Any] | None:
    """What `session.json` says, where it is spelt as we spell it."""
    try:
        fields = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if type(fields) is not dict or fields.get("session") != session or orjson.dumps(fields) != content.rstrip(b"\n"):
        return None
    return fields if b"\\u0000" not in content else None


def _call(content: bytes, name: str, session: str) -> _Call | None:
    lines = content.split(b"\n")
    if len(lines) != 3 or lines.pop() or not name.endswith(".jsonl") or b"\x01" in content:
        return None
    record = name.removesuffix(".jsonl")
    folding = Folding(lines, record, session)
    (shape, numbers), _ = folding.parts
    if shape.start is None:
        return None
    labels = folding.more.get("gap_labels")
    parent = None if shape.parent is None else numbers[shape.parent]
    return _Call(record, folding, numbers[shape.start], parent, {} if labels is None else orjson.loads(labels))


def _key(calls: Sequence[_Call], labels: dict[str, str]) -> Any:
    """What is equal for two sessions of one kind."""
    first: dict[Any, int] = {}
    seen = first.setdefault
    parts: list[Any] = [tuple(labels), all(labels.values())]
    for call in calls:
        folding = call.folding
        text = folding.more.get
        (started, _), (finished, _) = folding.parts
        parts += (started.number, finished.number, seen(call.parent, len(first)), tuple(call.labels))
        parts += [seen(text(name), len(first)) for name in _PATHS]
    return tuple(parts)


def _rows(kind: _Kind, calls: Sequence[_Call], labels: dict[str, str], session: str) -> list[Row]:
    common = {**labels, **(calls[kind.whole].labels if kind.whole is not None else {})}
    merged = [{**common, **call.labels} for call in calls]
    subject = kind.subject(calls, merged)
    rows = []
    for at, call in enumerate(calls):
        row: Row = {"record": call.record, "session": session, **kind.constant[at]}
        parts = call.folding.parts
        columns, take = kind.copied[at]
        row.update(zip(columns, take(parts[1][1]), strict=True))
        for column, line, places in kind.summed[at]:
            row[column] = sum([parts[line][1][place] for place in places])
        if kind.has_subject[at] and subject is not None:
            row["subject"] = subject
        if merged[at]:
            row["labels"] = merged[at]
        rows.append(row)
    return rows


def _learnt(calls: Sequence[_Call], labels: dict[str, str], session: str) -> _Kind | None:
    """Ask what rows these calls give, and what rows with other numbers and texts."""
    if not calls or not all(labels.values()):
        return None
    try:
        records, rows = _asked(calls, labels, session, grown=False)
        others, grown = _asked(calls, labels, session, grown=True)
    except (LineError, KeyError, TypeError, ValueError):
        return None
    constant, copied, summed, has_subject = [], [], [], []
    subjects = subject_of(records), subject_of(others)
    for call, one, other in zip(calls, rows, grown, strict=True):
        if one.keys() != other.keys():
            return None
        fixed: Row = {}
        moved: list[tuple[str, int, tuple[int, ...]]] = []
        has_subject.append((one.get("subject"), other.get("subject")) == subjects)
        for column, value in one.items():
            if column in ("record", "session", "labels") or (column == "subject" and has_subject[-1]):
                continue
            if value == other[column]:
                fixed[column] = _dumped(value) if column in _JSON else value
                continue
            place = _place(call, value, other[column])
            if place is None:
                return None
            moved.append((column, *place))
        constant.append(fixed)
        plain = [(column, places[0]) for column, line, places in moved if line == 1]
        if len(plain) < 2:
            return None
        copied.append((tuple(column for column, _ in plain), itemgetter(*(place for _, place in plain))))
        summed.append(tuple(one for one in moved if one[1] == 0))
    subject = _subject(calls, records, others, subjects)
    if subject is None:
        return None
    whole = next((at for at, record in enumerate(records) if record.phase_understood == "whole"), None)
    kind = _Kind(tuple(constant), tuple(copied), tuple(summed), subject, tuple(has_subject), whole)
    return kind if _as_text(_rows(kind, calls, labels, session)) == _as_text(rows) else None


def _asked(
    calls: Sequence[_Call], labels: dict[str, str], session: str, *, grown: bool
) -> tuple[tuple[Record, ...], list[Row]]:
    """The session as `harness` understands it. Raises LineError, KeyError, TypeError, ValueError for an odd one."""
    records = []
    for call in calls:
        started, finished = (decode(_line(call.folding, number, grown)) for number in (0, 1))
        for event, name in ((started, "started"), (finished, "finished")):
            if (event["event"], event["invocation"], event["session"]) != (name, call.record, session):
                raise ValueError(name)
        if finished["stragglers"]["count"] != 0:
            raise ValueError("stragglers")
        records.append(Record(call.record, session, started, finished, None, ""))
    if len({record.started["host"]["boot_id"] for record in records}) > 1:
        raise ValueError("boots")
    if grown:
        labels = {key: value + _GROWN for key, value in labels.items()}
    derived = derive(records, labels)
    subject = subject_of(derived)
    return derived, [{**started_part(record, subject), **finished_part(record)} for record in derived]


def _line(folding: Folding, number: int, grown: bool) -> bytes:
    """A line of a call, as it is or with everything that may differ within a kind of session made to differ."""
    shape, numbers = folding.parts[number]
    if not grown:
        return folding.lines[number]
    if len(numbers) > _MOST_NUMBERS:
        raise ValueError("numbers")
    more = [one + _growth(number, place, key) for place, (one, key) in enumerate(zip(numbers, shape.keys, strict=True))]
    return folding.line(number, more, _grown)


def _grown(gap: str, text: str) -> str:
    if gap != "gap_labels":
        return text + _GROWN
    return orjson.dumps({key: value + _GROWN for key, value in orjson.loads(text).items()}).decode()


def _growth(line: int, place: int, key: bytes) -> int:
    if line == 1:
        return (place + 1 << _LOWEST_BIT) + 1
    if key == b"parent_pid":
        return 0
    return _REALTIME_GROWS if key == b"realtime_ns" else 1 << (_LOWEST_BIT + place)


def _place(call: _Call, value: Any, other: Any) -> tuple[int, tuple[int, ...]] | None:
    """Which number of which line, or the sum of which, it is that grew from `value` to `other`."""
    if type(value) is not int or type(other) is not int:
        return None
    grew = other - value
    line = grew & 1
    shape, numbers = call.folding.parts[line]
    if line:
        places = [(grew >> _LOWEST_BIT) - 1]
    elif grew == _REALTIME_GROWS:
        places = [shape.keys.index(b"realtime_ns")]
    else:
        places = [place for place in range(len(numbers)) if grew >> (_LOWEST_BIT + place) & 1]
    if not all(0 <= place < len(numbers) for place in places):
        return None
    expected = sum(_growth(line, place, shape.keys[place]) for place in places)
    return (line, tuple(places)) if (value, grew) == (sum(numbers[place] for place in places), expected) else None


def _subject(
    calls: Sequence[_Call], records: Sequence[Record], others: Sequence[Record], subjects: tuple[str | None, str | None]
) -> _Subject | None:
    """Where a session of this kind has its subject: nowhere, in a label, or in the digest of a call's source."""
    if subjects[0] == subjects[1]:
        return partial(_constant, subjects[0])
    for at, (record, grown) in enumerate(zip(records, others, strict=True)):
        if (record.labels.get("subject"), grown.labels.get("subject")) == subjects:
            return partial(_of_label, at)
    for at, call in enumerate(calls):
        digest = call.folding.more.get("gap_source_sha256")
        if digest is not None and (digest, digest + _GROWN) == subjects:
            return partial(_of_source, at)
    return None


def _constant(subject: str | None, _calls: Sequence[_Call], _labels: _Labels) -> str | None:
    return subject


def _of_label(at: int, _calls: Sequence[_Call], labels: _Labels) -> str | None:
    return labels[at]["subject"]


def _of_source(at: int, calls: Sequence[_Call], _labels: _Labels) -> str | None:
    return str(calls[at].folding.more["gap_source_sha256"])


def _as_text(rows: list[Row]) -> list[Row]:
    """With the JSON columns as text, to compare them."""
    return [{name: _dumped(value) if name in _JSON else value for name, value in row.items()} for row in rows]


def _dumped(value: Any) -> bytes:
    return value if type(value) is bytes else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
