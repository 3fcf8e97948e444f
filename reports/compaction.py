"""A store's invocation files -> Parquet, and their removal once they are verified there.

`compact` reads sessions one by one and writes one file for each day and host,
`parquet/day=.../host=.../NAME.N.parquet`. It never touches an invocation file. Interrupted anywhere, or run twice, it
leaves the same: a file appears whole or not at all, and its name is a digest of the records that it holds. A record
that changed since (it was `settled` later) has its file written anew as the next generation, which replaces the one
before.

`prune` removes invocation files whose every event stands in a Parquet file, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from proofcost.harness.columns import JOURNAL, Row, rows
from proofcost.harness.decode import Problem
from proofcost.harness.merged import Record, text_at
from proofcost.harness.reading import read_store
from proofcost.harness.running import MeterState
from proofcost.reports import parquet
from proofcost.reports.fast_decode import decode

BATCH_ROWS = 10_000
"""So many rows, of some 10 kB each, are held in memory before they are written."""
_READ_ROWS = 1000
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


def events_of(record: Record) -> str:
    """The record's events as they stand in its files, one a line."""
    return "\n".join(
        orjson.dumps(event).decode() for event in (record.started, record.finished, record.settled) if event is not None
    )


def compact(store: Path, min_age_s: float = 3600.0, progress: Progress = lambda *_: None) -> Done:
    """Copy what is not yet in Parquet. Raises OSError, CopyError."""
    done = Done()
    have = _Known(store)
    batch: list[Row] = []
    for records in _sessions(store, min_age_s, done, progress):
        made = rows(records)
        for row, record in zip(made, records, strict=True):
            row["events"] = events_of(record)
        fresh = [row for row in made if not have.has(row)]
        done.known += len(made) - len(fresh)
        batch += fresh
        if len(batch) >= BATCH_ROWS:
            _write(store, batch, have, done)
            batch = []
    _write(store, batch, have, done)
    return done


def prune(store: Path, min_age_s: float = 3600.0, progress: Progress = lambda *_: None) -> Done:
    """Remove the invocation files of sessions that Parquet files hold whole. Raises OSError.

    A session goes as a whole or stays: what is derived of a record needs the others beside it.
    """
    done = Done()
    have = _Known(store)
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
    text = events_of(record)
    if path.name != f"{record.invocation}.jsonl" or not have.holds(record.invocation, text):
        return False
    return _bytes(path, path.with_name(f"{record.invocation}.settled.jsonl")) == text.encode() + b"\n"


def _bytes(*paths: Path) -> bytes:
    return b"".join(path.read_bytes() for path in paths if path.exists())


def _sessions(store: Path, min_age_s: float, done: Done, progress: Progress) -> Iterator[tuple[Record, ...]]:
    """The records of each session that may be touched."""
    top = store / "sessions"
    names = sorted(os.listdir(top)) if top.is_dir() else []
    newest = time.time() - min_age_s
    for number, name in enumerate(names, 1):
        folder = top / name
        if folder.is_symlink() or not folder.is_dir():
            continue
        if min_age_s > 0 and _written_since(folder, newest):
            done.young += 1
            continue
        read = read_store(folder, decode)
        done.problems += read.problems
        running = [record for record in read.records if _may_run(record)]
        done.running += len(running)
        # All or none: which side a call was for is known from the whole session only.
        if not running and read.records:
            yield read.records
        progress(number, len(names))


def _written_since(folder: Path, moment: float) -> bool:
    with os.scandir(folder) as entries:
        return any(one.stat(follow_symlinks=False).st_mtime > moment for one in entries)


def _may_run(record: Record) -> bool:
    return record.finished is None and record.meter is MeterState.RUNNING


class _Known:
    """What the store's Parquet files hold: by record, the digest of its events and its file."""

    def __init__(self, store: Path) -> None:
        self.where: dict[str, tuple[bytes, Path]] = {}
        for path in parquet.files(store):
            try:
                self._read(path)
            except pa.ArrowException as error:
                why = str(error).split("\n")[0][:100]
                raise parquet.CopyError(f"{path}: no Parquet file that can be read ({why}); move it away") from None

    def _read(self, path: Path) -> None:
        with pq.ParquetFile(path) as file:
            if not {"record", "source", "events"} <= set(file.schema_arrow.names):
                return  # of an older version or of somebody else: nothing of ours is verified by it
            for part in file.iter_batches(_READ_ROWS, columns=["record", "source", "events"]):
                for record, source, events in zip(*(part[name].to_pylist() for name in part.schema.names), strict=True):
                    if source == JOURNAL and events is not None:
                        self.where[record] = (_digest(events), path)

    def holds(self, record: str, events: str) -> bool:
        return record in self.where and self.where[record][0] == _digest(events)

    def has(self, row: Row) -> bool:
        return self.holds(row["record"], row["events"])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _write(store: Path, batch: list[Row], have: _Known, done: Done) -> None:
    """Write rows, one file for each day and host; those that replace older ones go into the next generation of their
    files."""
    new: dict[Path, list[Row]] = {}
    for row in batch:
        _, old = have.where.get(row["record"], (b"", None))
        if old is None:
            new.setdefault(_folder(store, row), []).append(row)
        else:
            _replace(old, row, have, done)
    for folder, group in new.items():
        group.sort(key=lambda row: (row.get("kernel") or "", row["phase"], row["record"]))
        name = hashlib.sha256("\n".join(sorted(row["record"] for row in group)).encode()).hexdigest()[:16]
        path = folder / f"{name}.0.parquet"
        parquet.write(path, parquet.table_of(group))
        done.files.append(path)
        done.records += len(group)
        for row in group:
            have.where[row["record"]] = (_digest(row["events"]), path)


def _replace(old: Path, row: Row, have: _Known, done: Done) -> None:
    table = parquet.read(old)
    others = table.filter(pc.not_equal(table["record"], row["record"]))
    stem, _, generation = old.name.removesuffix(".parquet").rpartition(".")
    path = old.with_name(f"{stem}.{int(generation) + 1}.parquet")
    parquet.write(path, pa.concat_tables([others, parquet.table_of([row])]))
    for record, (digest, where) in list(have.where.items()):
        if where == old:
            have.where[record] = (digest, path)
    have.where[row["record"]] = (_digest(row["events"]), path)
    old.unlink()
    done.files.append(path)
    done.records += 1


def _folder(store: Path, row: Row) -> Path:
    """Where a row goes. A record is whoever's word: a host that is no id, or a time that is none, names no folder."""
    host = row.get("host") or ""
    try:
        day = datetime.fromtimestamp(row["started_ns"] // 10**9, UTC).strftime("%Y-%m-%d")
    except (KeyError, OverflowError, ValueError, OSError):
        day = "unknown"
    return store / "parquet" / f"day={day}" / f"host={host if _HOST.fullmatch(host) else 'unknown'}"
