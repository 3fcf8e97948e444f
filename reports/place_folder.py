"""A place that is a folder of this machine, or mounted here: the standard library alone.

A file is written through a temporary name and made to last (fsync), its folder's entry too.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from proofcost.reports.file_seal import MOST_BYTES
from proofcost.reports.inert import inert_outside
from proofcost.reports.parquet import sync_folder
from proofcost.reports.place import CHUNK_BYTES, RemoteError, There, counts, pieces, shown


class Folder:
    """A folder of this machine, or mounted here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = shown(path)

    def find(self) -> dict[str, There]:
        found: dict[str, There] = {}
        for top, folders, names in os.walk(self.path, onerror=self._refuse):
            folders[:] = sorted(name for name in folders if name != "declared")
            for name in names:
                if counts(name):
                    path = os.path.join(top, name)
                    with contextlib.suppress(FileNotFoundError):  # another tidies up
                        told = os.stat(path)
                        if stat.S_ISREG(told.st_mode):
                            found[os.path.relpath(path, self.path)] = There(told.st_size, told.st_mtime)
        return found

    def _refuse(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise RemoteError(f"{self.shown}: {error.strerror or error}") from None

    def read(self, name: str) -> Iterator[bytes]:
        with self._told(name), (self.path / name).open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # what is on disk, not what was meant to be
            while piece := file.read(CHUNK_BYTES):
                yield piece

    def small(self, names: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            with self._told(name), contextlib.suppress(FileNotFoundError), (self.path / name).open("rb") as file:
                found[name] = file.read(MOST_BYTES + 1)
        return {name: content for name, content in found.items() if len(content) <= MOST_BYTES}

    def put(self, name: str, source: Path | bytes) -> None:
        path = self.path / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with self._told(name):
            made = _missing(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    for piece in [source] if isinstance(source, bytes) else pieces(source):
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            for folder in (path.parent, *made):
                sync_folder(folder)

    def written_s(self, name: str) -> float | None:
        with self._told(name):
            return (self.path / name).stat().st_mtime

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RemoteError(f"{self.shown}: {inert_outside(name, 200, True)}: {error.strerror or error}") from None


def _missing(folder: Path) -> list[Path]:
    """The folders that hold those which are still to be made."""
    return [one.parent for one in (folder, *folder.parents) if not one.exists()]
