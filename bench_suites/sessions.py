"""The store's side of a series: its session, and which of its turns are done.

What is done is read from the records themselves. `session.json` only tells which sessions are whose: a series, its
shard, the name it was saved under. While a runner works on a session it holds a lock on that file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

from proofcost.harness import procfs, store
from proofcost.harness.clock import clocks
from proofcost.harness.merged import Record, integer_at, text_at, value_at
from proofcost.harness.outcome import TERMINATED_BY_CALLER
from proofcost.harness.reading import read_store
from proofcost.harness.record import Json, escape_text
from proofcost.harness.session import SESSION_FILE
from proofcost.harness.version import SCHEMA

SAVED_LABEL = "saved"
"""The label by which records of a series that was saved under a name are found."""
LOOKED_AT_MAX = 10_000
"""Newest sessions that are looked at for one to resume, or for a name."""
FILE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Known:
    """A bench's session as its file describes it."""

    session: str
    suite: str | None
    plan_sha256: str | None
    shard: str | None
    saved: str | None
    turns_count: int | None


class BusyError(Exception):
    """Another runner works on that session."""


class Lock:
    """Held while a runner works on a session; let go by `close`, or when the runner ends."""

    def __init__(self, place: str, session: str) -> None:
        """Raises BusyError, or StoreError where the session's file cannot be opened."""
        path = f"{place}/sessions/{session}/{SESSION_FILE}"
        try:
            # For writing, which nothing does: NFS gives an exclusive lock to nobody else.
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise store.StoreError(f"store {path}: cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise BusyError(f"session {session} is being worked on by another bench; wait for it") from None
        except OSError as error:
            os.close(self._fd)
            raise store.StoreError(
                f"store {path}: cannot be locked: {error.strerror}; choose a file system with locks"
            ) from None

    def close(self) -> None:
        os.close(self._fd)


def new(place: str, known: Known, labels: dict[str, Json]) -> str:
    """Make the session's folder and file. Returns its id. Raises StoreError."""
    session = os.urandom(8).hex()
    folder = f"{place}/sessions/{session}"
    store.make_folder(folder)
    content: dict[str, Json] = {
        "schema": SCHEMA,
        "event": "session",
        "session": session,
        "pid": os.getpid(),
        "start_ticks": procfs.start_ticks(os.getpid()),
        "boot_id": procfs.boot_id(),
        "labels": labels,
        "clocks": clocks(),
        "bench": {
            "suite": None if known.suite is None else escape_text(known.suite),
            "plan_sha256": known.plan_sha256,
            "shard": known.shard,
            "saved": None if known.saved is None else escape_text(known.saved),
            "turns_count": known.turns_count,
        },
    }
    try:
        store.write_new(f"{folder}/{SESSION_FILE}", content)
    except OSError as error:
        raise store.StoreError(f"store {folder}: cannot be written: {error.strerror}; free some space there") from None
    return session


def benches(place: str) -> Iterator[Known]:
    """The sessions that benches made, newest first."""
    try:
        with os.scandir(f"{place}/sessions") as entries:
            names = [(entry.stat().st_mtime_ns, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for _, name in sorted(names, reverse=True)[:LOOKED_AT_MAX]:
        raw = procfs.read_file(f"{place}/sessions/{name}/{SESSION_FILE}", FILE_BYTES_MAX)
        if raw is None or b'"bench"' not in raw:
            continue
        try:
            said = json.loads(raw)
        except ValueError:
            continue
        if isinstance(value_at(said, "bench"), dict):
            yield Known(
                session=name,
                suite=text_at(said, "bench", "suite"),
                plan_sha256=text_at(said, "bench", "plan_sha256"),
                shard=text_at(said, "bench", "shard"),
                saved=text_at(said, "bench", "saved"),
                turns_count=integer_at(said, "bench", "turns_count"),
            )


def records_of(place: str, session: str) -> tuple[Record, ...]:
    """Every record of a session that a bench made."""
    found = read_store(f"{place}/sessions/{session}").records
    return tuple(record for record in found if isinstance(value_at(record.started, "bench"), dict))


def is_done(record: Record) -> bool:
    """Whether a record is of a turn that need not be run again: it has an end, and not one that a runner asked for."""
    return record.finished is not None and value_at(record.outcome, "cause") != TERMINATED_BY_CALLER


def place_of(record: Record) -> tuple[int, int] | None:
    """(turn, slot) of a record; None where it does not say."""
    turn = integer_at(record.started, "bench", "turn")
    slot = integer_at(record.started, "bench", "co_running", "slot")
    return None if turn is None or slot is None else (turn, slot)


def done(records: tuple[Record, ...]) -> dict[int, set[int]]:
    """{turn: its slots that are done}."""
    found: dict[int, set[int]] = {}
    for record in records:
        at = place_of(record)
        if at is not None and is_done(record):
            found.setdefault(at[0], set()).add(at[1])
    return found


def last_part(records: tuple[Record, ...]) -> int:
    """How many goes a session has seen; 0 for one without records."""
    return max((integer_at(record.started, "bench", "part") or 0 for record in records), default=0)


def invocation_file(place: str, session: str, invocation: str) -> str:
    return f"{place}/sessions/{session}/{invocation}.jsonl"


def read_invocation(place: str, session: str, invocation: str) -> Record | None:
    """One record of a session, read alone; None when it cannot be."""
    found = read_store(invocation_file(place, session, invocation)).records
    return found[0] if len(found) == 1 else None
