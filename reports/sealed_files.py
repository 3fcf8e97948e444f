"""Which Parquet files of a shared place count: those that are sealed, and of each name the newest generation.

A folder without any seal is read as it lies there: a store's own, or what somebody put together by hand. One seal in it
makes it a shared place. What is elsewhere than on this machine is read from copies (copies.py), checked by their
digests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from proofcost.reports import copies, parquet
from proofcost.reports.file_seal import SUFFIX, Seal, SealError, read_seal
from proofcost.reports.inert import inert_outside
from proofcost.reports.place import Place, RemoteError, There, check_name, local_path
from proofcost.reports.place_folder import Folder
from proofcost.reports.remote import Remote, open_place
from proofcost.reports.units import plural

_NAMED = 3
"""So many left-out files are named; of more, the rest is counted."""


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file that counts."""

    name: str
    """Relative to the place."""
    seal: Seal
    written_s: float | None
    """By the storage's clock, s since 1970."""


@dataclass(frozen=True, slots=True)
class SealedFiles:
    """What of a place is to be read."""

    place: Place
    files: tuple[SealedFile, ...]
    notes: tuple[str, ...]
    """What is to be told of it, one line each: what was left out, and why."""

    def urls(self) -> list[str]:
        """The files as whoever reads the place by himself names them (paths, or URLs of the place's scheme)."""
        if isinstance(self.place, Folder):
            return [str(self.place.path.absolute() / file.name) for file in self.files]
        assert isinstance(self.place, Remote)
        return [self.place.url_of(file.name) for file in self.files]

    def paths(self) -> list[Path]:
        """The files on this machine: where they lie, or checked copies of them. Raises RemoteError."""
        if isinstance(self.place, Folder):
            return [Path(url) for url in self.urls()]
        return copies.of(self.place, [(file.name, file.seal) for file in self.files])


def sealed_files(given: str | os.PathLike[str]) -> SealedFiles | None:
    """The files of a URL or folder; None for a folder of this machine without a seal. Raises RemoteError.

    For engines that read the place themselves: `urls()`, and `place.filesystem` where it is a `Remote`.
    """
    check_name(given)
    path = local_path(given)
    if path is not None and not has_seal(path):
        return None
    return counted(open_place(given))


def has_seal(path: Path) -> bool:
    """Whether there is a seal of a Parquet file below a store or folder of this machine."""
    return any(
        name.endswith(f".parquet{SUFFIX}") for _, _, names in os.walk(path / "parquet" if _is_store(path) else path)
        for name in names
    )  # fmt: skip


def _is_store(path: Path) -> bool:
    return (path / "parquet").is_dir() or (path / "sessions").is_dir()


def counted(place: Place) -> SealedFiles:
    """The files of a place that count. Raises RemoteError."""
    there = place.find()
    if any(name.startswith("parquet/") for name in there):
        there = {name: told for name, told in there.items() if name.startswith("parquet/")}
    seals = seals_of(place, there)
    whole = {name: seal for name, seal in seals.items() if name in there and there[name].bytes_ == seal.bytes_}
    newest = [str(path) for path in parquet.newest(map(PurePosixPath, whole))]
    files = tuple(SealedFile(name, whole[name], there[name].written_s) for name in newest)
    return SealedFiles(place, files, tuple(_left_out(there, whole, newest)))


def seals_of(place: Place, there: Mapping[str, There]) -> dict[str, Seal]:
    """The sound seals among what stands there, by the name of the file that each is of. Raises RemoteError."""
    found = {}
    for name, content in place.small(name for name in there if name.endswith(SUFFIX)).items():
        sealed = name.removesuffix(SUFFIX)
        try:
            found[sealed] = read_seal(sealed.rpartition("/")[2], content)
        except SealError:
            continue  # its file does not count, which is told
    return found


def _left_out(there: Mapping[str, There], whole: Mapping[str, Seal], newest: list[str]) -> list[str]:
    """What is said of files that are not sealed, unless a newer generation of them is."""
    files = {name for name in there if name.endswith(".parquet")} | {
        name.removesuffix(SUFFIX) for name in there if name.endswith(SUFFIX)
    }
    open_ = [name for name in files if name not in whole]
    replaced = {str(path) for path in parquet.newest(map(PurePosixPath, [*newest, *open_]))}
    left = sorted(name for name in open_ if name in replaced)
    if not left:
        return []
    some = ", ".join(inert_outside(name, 120, True) for name in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    what = plural(len(left), "Parquet file that is", "Parquet files that are")
    return [f"left out: {what} not sealed, or not as sealed (half written, or another's): {some}{more}"]


def nothing_sealed(found: SealedFiles) -> RemoteError:
    """Why there is nothing to read."""
    told = f"; {found.notes[0]}" if found.notes else ""
    return RemoteError(f"{found.place.shown}: no sealed Parquet file there; `proofcost store push` puts some{told}")
