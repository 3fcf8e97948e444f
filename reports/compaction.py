"""A store's invocation files -> Parquet, and their removal once they are verified there.

`compact` reads sessions one by one and writes one file for each day and host,
`parquet/day=.../host=.../NAME.N.parquet`. It never touches an invocation file. Interrupted anywhere, or run twice, it
leaves the same: a file appears whole or not at all, and its name is a digest of the records that it holds. A record
that changed since (it was `settled` later) has its file written anew as the next generation, which replaces the one
before.

`prune` removes invocation files whose every event stands in a Parquet file, byte for byte.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from proofcost.harness import procfs
from proofcost.harness.columns import JOURNAL, Row, rows
from proofcost.harness.decode import Problem
from proofcost.harness.merged import Record, text_at
from proofcost.harness.reading import read_store
from proofcost.harness.running import MeterState
from proofcost.reports import ordinary, parquet
from proofcost.reports.fast_decode import decode
from proofcost.reports.folding import Folding, unfold

BATCH_ROWS = 50_000
"""So many rows, of some 1 kB each, are held in memory before they are written."""
_TABLE_ROWS = 2000
"""So many, of some 10 kB each, before they become a table."""
_ALIKE = 20
"""Rows that have the same columns are taken together where there are so many of a kind: a third of a table's time."""
_ORDER = ("kernel", "phase", "started_ns", "record")
"""Of rows in a file: those beside each other are alike."""
_TELL_EVERY = 100
_DAY_NS = 86_400 * 10**9
_LEFT = re.compile(r"\..+\.parquet\.(\d{1,10})\.tmp")
_LEFT_S = 86_400
"""A temporary file older than a day, whose writer is gone, is nobody's."""
_HOST = re.compile(r"[0-9a-f]{1,64}")

Progress = Callable[[int, int], None]
"""Called with (sessions looked at, sessions in all)."""


@dataclass(slots=True)
class Done:
    """What a run of `compact` or `prune` did."""

    records: int = 0
    """Written, or removed."""
    known: int = 0
    """Stood in a Parquet file already."""
    running: int = 0
    """Left alone: their meter still runs, or may; `prune` also leaves what may still be settled."""
    young: int = 0
    """Sessions left alone: written to a short while ago."""
    unverified: int = 0
    """Files left alone: not (or not all) in a Parquet file."""
    files: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def compact(store: Path, min_age_s: float = 3600.0, progress: Progress = lambda *_: None) -> Done:
    """Copy what is not yet in Parquet. Raises OSError, CopyError."""
    collects = gc.isenabled()
    gc.disable()  # nothing here goes in circles, and looking for that takes a tenth of the time
    try:
        return _compact(store, min_age_s, progress)
    finally:
        if collects:
            gc.enable()


def _compact(store: Path, min_age_s: float, progress: Progress) -> Done:
    done = Done()
    clean(store)
    have = _Known(parquet.files(store))
    batch = _Batch(store, have, done)
    newest = time.time() - min_age_s if min_age_s > 0 else math.inf
    for folder in _folders(store, progress):
        try:
            made = ordinary.rows_of(str(folder), newest)
        except ordinary.YoungError:
            done.young += 1
            continue
        except FileNotFoundError:  # it has just been pruned
            continue
        if made is None and _written_since(folder, newest):
            done.young += 1
            continue
        if made is None:
            running: list[str] = []
            made = any_rows(folder, done.problems, running)
            done.running += len(running)
        for row in made:
            batch.add(row)
    batch.write()
    return done


def any_rows(path: str | os.PathLike[str], problems: list[Problem], running: list[str] | None = None) -> list[Row]:
    """The rows of what stands at a path, of whatever kind, their lines folded where that can be done.

    `running`: where the ids go of records that may still be written; none of the rows are given then, since what a call
    was for is known from all of them only.
    """
    lines: dict[int, bytes] = {}

    def remember(line: bytes) -> dict[str, Any]:
        event = decode(line)
        lines[id(event)] = line.rstrip(b"\n")
        return event

    read = read_store(path, remember)
    problems += read.problems
    if running is not None:
        running += [record.invocation for record in read.records if _may_run(record)]
        if running:
            return []
    made = rows(read.records)
    for row, record in zip(made, read.records, strict=True):
        events = [event for event in (record.started, record.finished, record.settled) if event is not None]
        texts = [lines[id(event)] for event in events]
        if record.finished is None or not Folding(texts, record.invocation, record.session).put(row):
            row["events"] = b"\n".join(texts).decode()
    return made


def prune(
    store: Path,
    min_age_s: float = 3600.0,
    progress: Progress = lambda *_: None,
    among: Collection[Path] | None = None,
) -> Done:
    """Remove the invocation files of sessions that Parquet files hold whole. Raises OSError.

    A session goes as a whole or stays: what is derived of a record needs the others beside it. `among`: of the store's
    Parquet files, those that count for it.
    """
    done = Done()
    have = _Known(parquet.files(store) if among is None else among)
    for records in _sessions(store, min_age_s, done, progress):
        pending = sum(not _is_final(record) for record in records)
        unverified = sum(not _is_verified(record, have) for record in records)
        done.running += pending
        done.unverified += unverified
        if pending or unverified:
            continue
        for record in records:
            path = Path(record.path)
            path.with_name(f"{record.invocation}.settled.jsonl").unlink(missing_ok=True)
            path.unlink()
        done.records += len(records)
    return done


def _is_final(record: Record) -> bool:
    """Whether nothing can be added to a record's files any more: a meter of elsewhere may still hold one open."""
    if record.finished is None:
        return record.meter is MeterState.VANISHED
    return record.settled is not None or text_at(record.finished, "stragglers", "action") != "reported"


def _is_verified(record: Record, have: _Known) -> bool:
    """Whether a Parquet file holds every byte of a record's files: a torn line, or one of a newer version, is only
    there."""
    path = Path(record.path)
    if path.name != f"{record.invocation}.jsonl":
        return False
    content = _bytes(path, path.with_name(f"{record.invocation}.settled.jsonl"))
    return content.endswith(b"\n") and have.holds(record.invocation, content[:-1].decode("utf-8", "surrogateescape"))


def _bytes(*paths: Path) -> bytes:
    return b"".join(path.read_bytes() for path in paths if path.exists())


def _folders(store: Path, progress: Progress) -> Iterator[Path]:
    """Each session's folder."""
    top = store / "sessions"
    if not top.is_dir():
        return
    with os.scandir(top) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for number, name in enumerate(names, 1):
        yield top / name
        if number % _TELL_EVERY == 0 or number == len(names):
            progress(number, len(names))


def _sessions(store: Path, min_age_s: float, done: Done, progress: Progress) -> Iterator[tuple[Record, ...]]:
    """The records of each session that may be touched."""
    newest = time.time() - min_age_s if min_age_s > 0 else math.inf
    for folder in _folders(store, progress):
        if _written_since(folder, newest):
            done.young += 1
            continue
        read = read_store(folder, decode)
        done.problems += read.problems
        running = sum(_may_run(record) for record in read.records)
        done.running += running
        if not running and read.records:
            yield read.records


def _written_since(folder: Path, moment: float) -> bool:
    with os.scandir(folder) as entries:
        return any(one.stat(follow_symlinks=False).st_mtime > moment for one in entries)


def _may_run(record: Record) -> bool:
    return record.finished is None and record.meter is MeterState.RUNNING


class _Known:
    """What a store's Parquet files hold: by record, the digest of its events and its file."""

    def __init__(self, files: Collection[Path]) -> None:
        self._files = files
        self._where: dict[str, tuple[bytes, Path]] | None = None

    @property
    def where(self) -> dict[str, tuple[bytes, Path]]:
        """Read when first asked for: 8 s a million records, and a store that was pruned never asks."""
        if self._where is None:
            self._where = {}
            for path in self._files:
                try:
                    self._where.update(_held_by(path))
                except (pa.ArrowException, FileNotFoundError) as error:
                    why = str(error).split("\n")[0][:100]
                    raise parquet.CopyError(f"{path}: no Parquet file that can be read ({why}); move it away") from None
        return self._where

    def holds(self, record: str, events: str) -> bool:
        return record in self.where and self.where[record][0] == _digest(events)


def _held_by(path: Path) -> Iterator[tuple[str, tuple[bytes, Path]]]:
    for batch in parquet.batches(path, ("record", "source")):
        for record, source, events in zip(batch["record"], batch["source"], batch["events"], strict=True):
            if source == JOURNAL and events is not None:
                yield record, (_digest(events), path)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()


class _Batch:
    """Rows that are to be written, one file for each day and host, as Arrow tables since those are small."""

    def __init__(self, store: Path, have: _Known, done: Done) -> None:
        self._store, self._have, self._done = store, have, done
        self._rows: list[Row] = []
        self._tables: list[pa.Table] = []
        self._count = 0
        self._seen: set[str] = set()
        self._replacing: dict[Path, list[Row]] = {}
        self._days: dict[tuple[str | None, int], Path] = {}

    def add(self, row: Row) -> None:
        record = row["record"]
        if record in self._seen:  # in two sessions' folders: the first stands
            self._done.known += 1
            return
        if record in self._have.where:
            events = unfold(row)
            assert events is not None
            if self._have.holds(record, events):
                self._done.known += 1
                return
            self._replacing.setdefault(self._have.where[record][1], []).append(row)
        else:
            self._rows.append(row)
        self._seen.add(record)
        if len(self._rows) >= _TABLE_ROWS:
            self._gather()
        if self._count >= BATCH_ROWS:
            self.write()

    def _gather(self) -> None:
        alike: dict[tuple[str, ...], list[Row]] = {}
        for row in self._rows:
            alike.setdefault(tuple(row), []).append(row)
        if len(alike) * _ALIKE > len(self._rows):
            alike = {(): self._rows} if self._rows else {}
        self._tables += [parquet.table_of(group, parquet.FOLDED, keys) for keys, group in alike.items()]
        self._count += len(self._rows)
        self._rows = []

    def write(self) -> None:
        """Write what was gathered; what replaces older rows goes into the next generation of their files."""
        self._gather()
        if self._tables:
            self._write_new(pa.concat_tables(self._tables).unify_dictionaries().combine_chunks())
        for old, made in self._replacing.items():
            self._replace(old, made)
        self._tables, self._count, self._replacing = [], 0, {}

    def _write_new(self, table: pa.Table) -> None:
        order = pc.sort_indices(table.select(_ORDER), sort_keys=[(name, "ascending") for name in _ORDER]).to_pylist()
        hosts, times = table["host"].to_pylist(), table["started_ns"].to_pylist()
        groups: dict[Path, list[int]] = {}
        for place in order:
            groups.setdefault(self._folder(hosts[place], times[place]), []).append(place)
        for folder, places in groups.items():
            part = table.take(pa.array(places))
            ids = part["record"].to_pylist()
            path = folder / f"{hashlib.sha256(chr(10).join(sorted(ids)).encode()).hexdigest()[:16]}.0.parquet"
            parquet.write(path, part)
            self._done.files.append(path)
            self._done.records += len(ids)

    def _replace(self, old: Path, made: list[Row]) -> None:
        table = parquet.read(old)
        others = table.filter(pc.invert(pc.is_in(table["record"], pa.array([row["record"] for row in made]))))
        stem, generation = parquet.generation_of(old.name)
        path = old.with_name(f"{stem}.{generation + 1}.parquet")
        parts = [others, parquet.table_of(made, parquet.FOLDED)]
        parquet.write(path, pa.concat_tables(parts, promote_options="default").unify_dictionaries())
        for record, (digest, where) in list(self._have.where.items()):
            if where == old:
                self._have.where[record] = (digest, path)
        old.unlink()
        self._done.files.append(path)
        self._done.records += len(made)

    def _folder(self, host: str | None, at: int | None) -> Path:
        key = (host, (at or 0) // _DAY_NS if at is not None else -1)
        found = self._days.get(key)
        if found is None:
            found = self._days[key] = _folder(self._store, host or "", at)
        return found


def _folder(store: Path, host: str, started_ns: int | None) -> Path:
    """Where a row goes. A record is whoever's word: a host that is no id, or a time that is none, names no folder."""
    try:
        day = datetime.fromtimestamp((started_ns or -1) // 10**9, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        day = "unknown"
    if started_ns is None:
        day = "unknown"
    return store / "parquet" / f"day={day}" / f"host={host if _HOST.fullmatch(host) else 'unknown'}"


def clean(store: Path) -> None:
    """Remove what writers that died long ago have left below `parquet/`."""
    for path in (store / "parquet").rglob(".*.tmp"):
        match = _LEFT.fullmatch(path.name)
        try:
            if (
                match
                and not path.is_symlink()
                and path.stat().st_mtime < time.time() - _LEFT_S
                and not _runs(int(match[1]))
            ):
                path.unlink()
        except OSError:
            continue  # another has, or it is not ours to remove


def _runs(pid: int) -> bool:
    """Whether there is such a process here. On a file system that hosts share, a day without a write says the rest."""
    return procfs.exists(pid)
