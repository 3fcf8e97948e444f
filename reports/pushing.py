"""A store's Parquet files -> a shared place, each sealed there once it is verified.

Of a file: it is written, read back and hashed, and only then its seal (file_seal.py) is written. So whoever is killed
anywhere leaves files without seals, which nobody counts, and the same call again goes on from there: what is sealed
with the same digest stays, what arrived whole is sealed, half of one of ours is written anew. Nothing else is ever
written over. The names are the store's own, `parquet/day=.../host=.../NAME.N.parquet`: NAME is a digest of ids and the
host is one too, so that no two machines, whatever they are called, write the same one.

What was pushed may be removed here (`remove_pushed`) once it has been read back in that very call.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.reports import compaction, parquet
from proofcost.reports.file_seal import SUFFIX, Seal, seal_text
from proofcost.reports.inert import inert_outside
from proofcost.reports.remote import Folder, Place, RemoteError, There, pieces
from proofcost.reports.sealed_files import seals_of
from proofcost.reports.survey import SKEW_S

_IMPORTED = "import="
Progress = Callable[[int, int], None]
"""Called with (files looked at, files in all)."""


class PushError(Exception):
    """This store cannot be pushed there. One line."""


@dataclass(slots=True)
class Pushed:
    """What a push did, or what a check found."""

    sent: list[str] = field(default_factory=list)
    """Names of files that are sealed now and were not before."""
    sent_bytes: int = 0
    known: int = 0
    """Stood there already, sealed with the same digest or replaced by a newer generation."""
    refused: list[str] = field(default_factory=list)
    """Files that were left alone, one line each: what stands there under their names is something else."""
    notes: list[str] = field(default_factory=list)


def push(store: Path, place: Place, progress: Progress = lambda *_: None) -> Pushed:
    """Send what is not sealed there yet. Raises RemoteError (the rest is sent by the same call again), OSError,
    PushError."""
    _refuse_itself(store, place)
    files = parquet.files(store)
    if isinstance(place, Folder) and place.path.is_dir():
        compaction.clean(place.path)
    there = place.find()
    seals = seals_of(place, there)
    newest = _generations(name for name, seal in seals.items() if name in there and there[name].bytes_ == seal.bytes_)
    done = Pushed()
    for number, path in enumerate(files, 1):
        name = name_of(store, path)
        stem, generation = _parts(name)
        if newest.get(stem, -1) > generation:
            done.known += 1
        else:
            _send(place, name, path, there.get(name), seals.get(name), done)
        progress(number, len(files))
    return done


def _refuse_itself(store: Path, place: Place) -> None:
    """Raise PushError where a place lies in the store itself, or holds it."""
    if isinstance(place, Folder):
        one, other = store.resolve(), place.path.resolve()
        if one == other or one in other.parents or one / "parquet" in (other, *other.parents):
            raise PushError(f"{place.shown}: is the store itself, or lies in it; name a place for many stores")


def name_of(store: Path, path: Path) -> str:
    """What one of a store's Parquet files is called in the place."""
    return f"parquet/{path.relative_to(store / 'parquet').as_posix()}"


def _parts(name: str) -> tuple[str, int]:
    """`.../NAME.3.parquet` as its stem and generation."""
    stem, _, generation = name.removesuffix(".parquet").rpartition(".")
    return (stem, int(generation)) if generation.isdecimal() else (name, 0)


def _generations(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stem, generation in map(_parts, names):
        found[stem] = max(generation, found.get(stem, generation))
    return found


def _send(place: Place, name: str, path: Path, found: There | None, sealed: Seal | None, done: Pushed) -> None:
    """One file. Raises RemoteError, OSError."""
    seal = seal_of(path)
    if sealed == seal and found is not None and found.bytes_ == seal.bytes_:
        done.known += 1
        return
    if sealed is not None and sealed != seal:
        done.refused.append(
            f"{_where(place, name)}: sealed there with other bytes (sha256 {sealed.sha256[:12]}, here "
            f"{seal.sha256[:12]}); nothing was written over: move one of the two away"
        )
        return
    if found is not None and not _is_beginning(place, name, found.bytes_, path, seal):
        done.refused.append(
            f"{_where(place, name)}: a file of that name stands there, not sealed, and it is no part of ours; "
            "nothing was written over: move it away"
        )
        return
    if found is None or found.bytes_ != seal.bytes_:
        place.put(name, path)
        done.sent_bytes += seal.bytes_
        verify(place, name, seal)
    began = time.time()
    place.put(f"{name}{SUFFIX}", seal_text(PurePosixPath(name).name, seal))
    if not done.sent:
        done.notes += _clock(place.written_s(f"{name}{SUFFIX}"), began, time.time())
    done.sent.append(name)


def _where(place: Place, name: str) -> str:
    return f"{place.shown}: {inert_outside(name, 200, True)}"


def seal_of(path: Path) -> Seal:
    """What a file is. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces(path):
        digest.update(piece)
        size += len(piece)
    return Seal(digest.hexdigest(), size)


def verify(place: Place, name: str, seal: Seal) -> None:
    """Read a file back. Raises RemoteError where it is not what the seal says."""
    digest, size = hashlib.sha256(), 0
    for piece in place.read(name):
        digest.update(piece)
        size += len(piece)
    if Seal(digest.hexdigest(), size) != seal:
        raise RemoteError(
            f"{_where(place, name)}: what was read back ({size} bytes) is not what the store has ({seal.bytes_} "
            "bytes); look at that storage, then push again"
        )


def _is_beginning(place: Place, name: str, size: int, path: Path, seal: Seal) -> bool:
    """Whether what stands there is ours, or its beginning, as whoever was killed while writing leaves it."""
    if size > seal.bytes_:
        return False
    theirs, ours, left = hashlib.sha256(), hashlib.sha256(), size
    for piece in place.read(name):
        theirs.update(piece)
    for piece in pieces(path):
        ours.update(piece[:left])
        left -= min(left, len(piece))
    return theirs.digest() == ours.digest()


def _clock(written_s: float | None, began_s: float, ended_s: float) -> list[str]:
    """Whether the storage's clock is another than ours, by the moment at which it wrote a seal."""
    if written_s is None or began_s - SKEW_S <= written_s <= ended_s + SKEW_S:
        return []
    off = began_s - written_s if written_s < began_s else written_s - ended_s
    side = "ahead of" if written_s < began_s else "behind"
    return [
        f"clocks disagree: this host's is {off:.0f} s {side} the storage's; records keep the times that they have, and "
        "days are by this host's clock"
    ]


def verified(store: Path, place: Place, progress: Progress = lambda *_: None) -> tuple[set[Path], Pushed]:
    """The store's Parquet files whose sealed copies were read back just now, digest by digest. Raises RemoteError,
    OSError."""
    _refuse_itself(store, place)
    files, there = parquet.files(store), place.find()
    seals = seals_of(place, there)
    found, done = set(), Pushed()
    for number, path in enumerate(files, 1):
        name = name_of(store, path)
        if name in seals and name in there:
            seal = seal_of(path)
            if seals[name] == seal:
                verify(place, name, seal)
                found.add(path)
                done.known += 1
            else:
                done.refused.append(f"{_where(place, name)}: sealed there with other bytes; it stays here")
        progress(number, len(files))
    return found, done


def remove_pushed(store: Path, files: Collection[Path]) -> int:
    """Remove those of verified Parquet files none of whose records has a file of its own in the store any more.

    A record with one may change yet, and compaction would write one without a copy here a second time. Imported files
    stay: they tell `import` what was taken already. Returns how many went. Raises OSError.
    """
    left, gone = _with_files(store), 0
    older = _older(store)
    for path in sorted(files):
        if name_of(store, path).startswith(f"parquet/{_IMPORTED}"):
            continue
        if left.isdisjoint(_ids(path)):
            for one in (*older.get(_parts(str(path))[0], ()), path):  # an old generation must not count again
                one.unlink()
            for folder in (path.parent, path.parent.parent):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            gone += 1
    return gone


def _ids(path: Path) -> list[str]:
    table: pa.Table = pq.read_table(path, columns=["record"], partitioning=None)
    ids: list[str] = table["record"].to_pylist()
    return ids


def _older(store: Path) -> Mapping[str, list[Path]]:
    """By stem the generations that count no more, the oldest first."""
    current = set(parquet.files(store))
    found: dict[str, list[Path]] = {}
    for path in sorted(path for path in (store / "parquet").rglob("*.parquet") if path not in current):
        found.setdefault(_parts(str(path))[0], []).append(path)
    return found


def _with_files(store: Path) -> set[str]:
    """The ids of records that have a file of their own."""
    found: set[str] = set()
    for folder in _sessions(store):
        found.update(_files_of(folder))
    return found


def _sessions(store: Path) -> list[str]:
    try:
        with os.scandir(store / "sessions") as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _files_of(session: str) -> list[str]:
    """The ids of a session's records that have a file of their own."""
    with os.scandir(session) as entries:
        return [entry.name.split(".")[0] for entry in entries if entry.name.endswith(".jsonl")]


def uncompacted(store: Path) -> int:
    """How many sessions have a record that stands in no Parquet file. Raises OSError."""
    known: set[str] = set()
    for path in parquet.files(store):
        known.update(_ids(path))
    return sum(not known.issuperset(_files_of(folder)) for folder in _sessions(store))
