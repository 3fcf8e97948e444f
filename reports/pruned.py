"""Sessions whose files were pruned -> their records, out of the Parquet files that hold them.

A record's lines are unfolded (folding.py) and read as if they stood in its file; the session's own file, its seal and
the timelines stand where they stood. Records that still have a file are taken from there, and not from here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from proofcost.harness.columns import JOURNAL
from proofcost.harness.decode import LineError
from proofcost.harness.derive import derive, labels_of
from proofcost.harness.lines import read_object
from proofcost.harness.merged import by_session, merge, start_order
from proofcost.harness.reading import MAX_NAMED, Store
from proofcost.harness.session import SESSION_FILE
from proofcost.harness.walk import Found
from proofcost.reports import parquet
from proofcost.reports.dataset import connect, open_files
from proofcost.reports.fast_decode import decode


class Copies:
    """A store's Parquet files as sessions. Raises DataError for files that cannot be read."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._connection: duckdb.DuckDBPyConnection | None = None
        files = parquet.files(Path(store))
        if files:
            self._connection = connect()
            open_files(self._connection, files)

    def newest(self, known: Store, count: int) -> Store:
        """`known`, with those of the `count` newest sessions that stand here alone; others in `unread_sessions`."""
        here = self._ask("SELECT session, min(started_ns) FROM compacted WHERE source = ? GROUP BY 1 ORDER BY 2 DESC")
        there = _sessions(known)
        alone = [(session, start or 0) for session, start in here if session not in there]
        starts = sorted((group[0].started_at_ns or 0 for group in known.sessions().values()), reverse=True)
        oldest = starts[count - 1] if len(starts) >= count else 0
        wanted = [session for session, start in alone if start >= oldest][:count]
        rest = [session for session, _ in alone if session not in wanted]
        return self._with(known, wanted, rest)

    def named(self, known: Store, wanted: str) -> Store:
        """`known`, with what stands here alone of the sessions and calls whose id is `wanted`, or begins so."""
        query = (
            "SELECT session, bool_or(session = $2 OR record = $2) FROM compacted WHERE source = $1 "
            "AND (starts_with(session, $2) OR starts_with(record, $2)) GROUP BY 1 ORDER BY 1"
        )
        found = self._ask(query, wanted)
        there = _sessions(known)
        fits = [session for session, exact in found if exact] or [session for session, _ in found]
        alone = [session for session in fits if session not in there]
        return self._with(known, *((alone, []) if len(alone) <= MAX_NAMED else ([], alone)))

    def contents(self, session: str) -> dict[str, bytes]:
        """What the files of a session's calls held, by name."""
        made = {}
        for record, events in self._lines(session):
            lines = events.encode().split(b"\n")
            later = [line for line in lines if b'"event":"settled"' in line[:100]]
            made[f"{record}.jsonl"] = b"".join(line + b"\n" for line in lines if line not in later)
            if later:
                made[f"{record}.settled.jsonl"] = b"".join(line + b"\n" for line in later)
        return made

    def _ask(self, query: str, *more: str) -> list[tuple[str, int | None]]:
        if self._connection is None:
            return []
        return self._connection.execute(query, [JOURNAL, *more]).fetchall()

    def _with(self, known: Store, sessions: Sequence[str], rest: Sequence[str]) -> Store:
        found = Found(decode=decode)
        labels: dict[str, dict[str, str]] = {}
        for session in sessions:
            folder = os.path.join(self._store, "sessions", session)
            for record, events in self._lines(session):
                _take(found, os.path.join(folder, f"{record}.jsonl"), events)
            labels[session] = _labels(folder)
        groups = by_session(merge(found))
        records = [one for session, group in groups.items() for one in derive(group, labels.get(session))]
        return replace(
            known,
            records=tuple(sorted((*known.records, *records), key=start_order)),
            problems=(*known.problems, *found.problems),
            unread_sessions=(*known.unread_sessions, *rest),
        )

    def _lines(self, session: str) -> list[tuple[str, str]]:
        assert self._connection is not None
        query = "SELECT record, events FROM compacted WHERE source = ? AND session = ? AND events IS NOT NULL"
        return self._connection.execute(query, [JOURNAL, session]).fetchall()


def _sessions(store: Store) -> set[str]:
    return {*store.sessions(), *store.unread_sessions}


def _take(found: Found, path: str, events: str) -> None:
    for number, line in enumerate(events.encode().split(b"\n"), 1):
        try:
            found.events.append((decode(line), path, number))
        except LineError as error:
            found.problem(error.kind, path, error.what, number)


def _labels(folder: str) -> dict[str, str]:
    """The labels in the session's own file, which is never pruned; none where there is no such file."""
    try:
        above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        return labels_of(read_object(SESSION_FILE, above).get("labels"))
    except (OSError, LineError):
        return {}
    finally:
        os.close(above)
