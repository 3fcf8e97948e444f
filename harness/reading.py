"""Reading records back: any folder, any user who may read it, whatever stands in it.

Theory of operation. A store is `sessions/<session>/<invocation>.jsonl`; what people hand over is that, or a part of it,
or a copy in a heap of other files. So reading is steps that know little of each other: *walk* yields the lines of every
file that may hold records, *decode* turns one line into an event or a named problem, *merge* joins the events of an
invocation, *derive* adds what only the whole session can tell (which side a build was for, what a kernel is called).

Nothing here trusts the folder, and what is wrong is skipped *loudly*: every skipped line, event or file is a `Problem`,
and reading goes on.

A store grows, and whoever asks for the newest session must not wait for all the others. `read_newest` and `read_named`
choose by the names of folders and files, and read only what they chose. Where what they read does not bear the names
out (a session's folder renamed, files put together by hand), they read everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proofcost.harness.decode import Problem, decode_event
from proofcost.harness.derive import derive, labels_of, shared_hosts
from proofcost.harness.lines import Decode
from proofcost.harness.merged import Record, by_session, merge, start_order, text_at
from proofcost.harness.walk import Folder, Found, Mark, Walk

MAX_NAMED = 32
"""So many sessions at most are read for one beginning of an id; if more have it, it names none of them."""


@dataclass(frozen=True, slots=True)
class Store:
    """What a folder held. `records` are sorted by start; `looked_in` are the folders and files that were read."""

    path: str
    records: tuple[Record, ...]
    problems: tuple[Problem, ...]
    """Of what was read. That two machines share one host id shows only where records of both were read."""
    looked_in: tuple[str, ...]
    marks: tuple[Mark, ...] = ()
    """Oldest first."""
    unread_sessions: tuple[str, ...] = ()
    """Sessions that were not read, by their folders' names, newest first."""
    unread_calls: tuple[str, ...] = ()
    """Invocations of those, by their files' names."""

    def sessions(self) -> dict[str, tuple[Record, ...]]:
        """Records that were read, by session; sessions in the order of their first record."""
        return by_session(self.records)


def read_store(path: str | os.PathLike[str], decode: Decode = decode_event) -> Store:
    """Everything that `path` holds: a store, one session's folder, a heap of `.jsonl` files, or one file.

    Never raises for what stands there or is missing: `Store.problems` says what was skipped and why.
    """
    path = os.fspath(path)
    with Walk(path, decode=decode) as walk:
        return _store(path, walk.found)


def read_newest(path: str | os.PathLike[str], count: int) -> Store:
    """What `path` holds of (at least) its `count` newest sessions; further ones are named in `unread_sessions`."""
    path = os.fspath(path)
    with Walk(path, put_off=True) as walk:
        sessions = _choices(walk)
        read = have = 0
        while have < count and read < len(sessions):
            before = len(walk.found.events)
            _read(walk, sessions[read])
            read += 1
            have += any(event["event"] == "started" for event, _, _ in walk.found.events[before:])
        if _borne_out(walk.found):
            return _store(path, walk.found, sessions[read:])
    return read_store(path)


def read_named(path: str | os.PathLike[str], wanted: str) -> Store:
    """What `path` holds of the sessions and calls whose id is `wanted`, or else begins so.

    Where more than `MAX_NAMED` sessions have such ids, none of them is read: the ids stand in `unread_sessions` and
    `unread_calls`, with all others that were not read.
    """
    path = os.fspath(path)
    with Walk(path, put_off=True) as walk:
        sessions = _choices(walk)
        fits = [one for one in sessions if _session(one) == wanted] or [
            one for one in sessions if any(wanted in folder.calls for folder in one)
        ]
        if not fits:
            fits = [
                one
                for one in sessions
                if _session(one).startswith(wanted)
                or any(call.startswith(wanted) for folder in one for call in folder.calls)
            ]
        if len(fits) > MAX_NAMED:
            fits = []
        for one in fits:
            _read(walk, one)
        if _borne_out(walk.found):
            chosen = {_session(one) for one in fits}
            return _store(path, walk.found, [one for one in sessions if _session(one) not in chosen])
    return read_store(path)


def _choices(walk: Walk) -> list[list[Folder]]:
    """The folders that were put off, those of one session together; newest session first.

    A session of which something was read already, from elsewhere, is read whole and is no choice any more.
    """
    sessions: dict[str, list[Folder]] = {}
    for folder in walk.found.put_off:
        sessions.setdefault(folder.way[-1], []).append(folder)
    for session in {event["session"] for event, _, _ in walk.found.events}:
        _read(walk, sessions.pop(session, ()))
    return sorted(sessions.values(), key=lambda one: min(folder.start_ns for folder in one), reverse=True)


def _session(folders: Sequence[Folder]) -> str:
    return folders[0].way[-1]


def _read(walk: Walk, folders: Iterable[Folder]) -> None:
    for folder in folders:
        walk.read(folder)


def _borne_out(found: Found) -> bool:
    """Whether every event read from a folder that was put off is of the session and invocation its names tell."""
    places = {folder.path: folder.way[-1] for folder in found.put_off}
    for event, path, _ in found.events:
        folder, name = os.path.split(path)
        if folder not in places:
            continue
        call = name.removesuffix(".jsonl").removesuffix(".settled")
        if event["session"] != places[folder] or event["invocation"] != call:
            return False
    return True


def _store(path: str, found: Found, unread: Sequence[Sequence[Folder]] = ()) -> Store:
    labels: dict[str, dict[str, str]] = {}
    for folder, fields in found.session_files:
        session = text_at(fields, "session") or os.path.basename(folder)
        labels.setdefault(session, {}).update(labels_of(fields.get("labels")))
    merged = merge(found)
    records = [one for session, group in by_session(merged).items() for one in derive(group, labels.get(session))]
    records.sort(key=start_order)
    found.problems.extend(shared_hosts(records))
    return Store(
        path,
        tuple(records),
        tuple(found.problems),
        tuple(found.looked_in),
        tuple(found.marks),
        tuple(_session(one) for one in unread),
        tuple(call for one in unread for folder in one for call in folder.calls),
    )
