"""A store's Parquet files -> a shared place, each sealed there once it is verified.

Of a file: it is written, read back and hashed, and only then its seal (file_seal.py) is written. So whoever is killed
anywhere leaves files without seals, which nobody counts, and the same call again goes on from there: what is sealed
with the same digest stays, what arrived whole is sealed, half of one of ours is written anew. Nothing else is ever
written over. The names are the store's own, `parquet/day=.../host=.../NAME.N.parquet`: NAME is a digest of ids and the
host is one too, so that no two machines, whatever they are called, write the same one.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from proofcost.reports import compaction, parquet
from proofcost.reports.file_seal import SUFFIX, Seal, seal_text
from proofcost.reports.inert import inert_outside
from proofcost.reports.place import Place, RemoteError, There, pieces
from proofcost.reports.place_folder import Folder
from proofcost.reports.removal import files_of, ids, sessions
from proofcost.reports.sealed_files import seals_of
from proofcost.reports.soundness import flaw
from proofcost.reports.survey import SKEW_S
from proofcost.reports.units import plural

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
    """Files that were left alone, one line each: damaged here, or something else stands there under their names."""
    absent: int = 0
    """Files of the store that a check did not find there, sealed."""
    notes: list[str] = field(default_factory=list)


def push(store: Path, place: Place, progress: Progress = lambda *_: None) -> Pushed:
    """Send what is not sealed there yet. Raises RemoteError (the rest is sent by the same call again), OSError,
    PushError."""
    check(store, place)
    files = parquet.files(store / "parquet")
    if isinstance(place, Folder) and place.path.is_dir():
        compaction.clean(place.path)
    there = place.find()
    seals = seals_of(place, there)
    newest = _generations(name for name, seal in seals.items() if name in there and there[name].bytes_ == seal.bytes_)
    done = Pushed()
    for number, path in enumerate(files, 1):
        name = name_of(store, path)
        stem, generation = parquet.generation_of(name)
        if (why := flaw(path)) is not None:  # sealed there it would stop every report on the place
            done.refused.append(why)
        elif newest.get(stem, -1) > generation:
            done.known += 1
        else:
            _send(place, name, path, there.get(name), seals.get(name), done)
        progress(number, len(files))
    return done


def check(store: Path, place: Place) -> None:
    """Raise PushError where a place is the store itself or lies in it, and for a folder that is no store."""
    if not (store / "sessions").is_dir() and not (store / "parquet").is_dir():
        shown = inert_outside(str(store), 200, True)
        raise PushError(f"{shown}: no store (it has neither sessions/ nor parquet/); name one")
    if isinstance(place, Folder):
        one, other = store.resolve(), place.path.resolve()
        if one == other or one in other.parents or (one / "parquet").resolve() in (other, *other.parents):
            raise PushError(f"{place.shown}: is the store itself, or lies in it; name a place for many stores")


def name_of(store: Path, path: Path) -> str:
    """What one of a store's Parquet files is called in the place."""
    return f"parquet/{path.relative_to(store / 'parquet').as_posix()}"


def _generations(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stem, generation in map(parquet.generation_of, names):
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
            f"{where(place, name)}: sealed there with other bytes (sha256 {sealed.sha256[:12]}, here "
            f"{seal.sha256[:12]}); nothing was written over: move one of the two away"
        )
        return
    if found is not None and not _is_beginning(place, name, found.bytes_, path, seal):
        done.refused.append(
            f"{where(place, name)}: a file of that name stands there, not sealed, and it is no part of ours; "
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


def where(place: Place, name: str) -> str:
    """A file of a place, for people."""
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
            f"{where(place, name)}: what was read back ({size} bytes) is not what the store has ({seal.bytes_} "
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
    OSError, CopyError of a damaged one, PushError where the place has none of them."""
    check(store, place)
    files, there = parquet.files(store / "parquet"), place.find()
    for why in filter(None, map(flaw, files)):
        raise parquet.CopyError(f"{why}; nothing was removed")
    seals = seals_of(place, there)
    if not seals:
        raise PushError(f"{place.shown}: no sealed file there; `proofcost store push` puts some; nothing was removed")
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
                done.refused.append(f"{where(place, name)}: sealed there with other bytes; it stays here")
        else:
            done.absent += 1
        progress(number, len(files))
    if files and done.absent == len(files):
        raise PushError(
            f"{place.shown}: none of the store's {plural(len(files), 'Parquet file')} is there; `proofcost store push` "
            "first; nothing was removed"
        )
    return found, done


def uncompacted(store: Path) -> int:
    """How many sessions have a record that stands in no Parquet file. Raises OSError."""
    known: set[str] = set()
    for path in parquet.files(store / "parquet"):
        with contextlib.suppress(parquet.CopyError):  # told by name when it is to be sent
            known.update(ids(path))
    return sum(not known.issuperset(files_of(folder)) for folder in sessions(store))
