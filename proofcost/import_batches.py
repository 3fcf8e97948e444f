"""The small files of a folder, imported together: a result each, thousands of them, are a few Parquet files.

A file's rows join a batch when all of them could be read, so a file is taken whole or not at all; a batch is
`parquet/import=FORMAT/batch-DIGEST.0.parquet`, whole or not at all as well. The column `source_sha256` of the batches
says which files stand there already.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.adapters.foreign import FormatError, Source, digest
from proofcost.harness.columns import Row
from proofcost.importing import BATCH_ROWS, Given, Taken, made_rows, recognised, unchanged
from proofcost.reports import parquet

SMALL_BYTES = 1 << 20
"""Larger files make a Parquet file each, without being held in memory."""


@dataclass
class _Folder:
    """What a folder gave of one format."""

    taken: Taken
    files: int = 0
    known: int = 0


@dataclass
class _Batch:
    """Files of one format that wait to be written."""

    rows: list[Row] = field(default_factory=list)
    files: list[tuple[bytes, _Folder, int, dict[str, int]]] = field(default_factory=list)
    """(digest, the folder it is from, how many rows, what is to be said of them)."""


class Batches:
    """Small files on their way into Parquet."""

    def __init__(self, store: Path, named: str | None, given: Given) -> None:
        self._store, self._named, self._given = store, named, given
        self._known: set[bytes] | None = None
        self._batches: dict[str, _Batch] = {}
        self._folders: dict[tuple[str, str], _Folder] = {}

    @property
    def taken(self) -> list[tuple[str, Taken, int, int]]:
        """(folder, what it gave of a format, of how many files, how many more stood there already)."""
        return [(folder, one.taken, one.files, one.known) for (folder, _), one in self._folders.items()]

    def add(self, path: Path, folder: str) -> bool:
        """Take in a file; False where it is none for a batch: too large, or of no format that is known.

        Raises FormatError, OSError, CopyError: nothing of it is taken then.
        """
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            if before.st_size > SMALL_BYTES:
                return False
            name = self._named or recognised(path, file)
            if name is None:
                return False
            sha256 = digest(file)
            source = Source(path, file)
            told = self._folders.setdefault((folder, name), _Folder(Taken(name, 0)))
            if self.stands(name, sha256):
                told.known += 1
                return True
            rows = list(made_rows(name, source, sha256, self._given))
            if not rows:
                raise FormatError("holds no figure")
            unchanged(file, before)
        batch = self._batches.setdefault(name, _Batch())
        if len(batch.rows) + len(rows) > BATCH_ROWS and batch.rows:
            self._batches[name] = _Batch()
            self._write(name, batch)
            batch = self._batches[name]
        batch.rows += rows
        batch.files.append((bytes.fromhex(sha256), told, len(rows), source.said))
        self._all_known().add(bytes.fromhex(sha256))
        return True

    def end(self) -> list[parquet.CopyError]:
        """Write what waits; what could not be written."""
        failed = []
        for name, batch in list(self._batches.items()):
            try:
                if batch.rows:
                    self._write(name, batch)
            except parquet.CopyError as error:
                failed.append(error)
        self._batches = {}
        return failed

    def _write(self, name: str, batch: _Batch) -> None:
        """Raises CopyError: nothing of the batch was taken."""
        digests = [sha256 for sha256, *_ in batch.files]
        whole = hashlib.sha256(b"".join(sorted(digests))).hexdigest()
        path = self._store / "parquet" / f"import={name}" / f"batch-{whole}.0.parquet"
        try:
            parquet.write(path, parquet.table_of(batch.rows))
        except (OSError, parquet.CopyError, pa.ArrowException) as error:
            self._all_known().difference_update(digests)
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error).splitlines()[0][:200]
            raise parquet.CopyError(f"{len(digests)} files that go into {path} were not taken: {why}") from None
        for _, told, rows, said in batch.files:
            told.files += 1
            told.taken.rows += rows
            for note, count in said.items():
                told.taken.said[note] = told.taken.said.get(note, 0) + count

    def stands(self, name: str, sha256: str) -> bool:
        """Whether a file of this format and digest is in the store. Raises CopyError."""
        return (
            bytes.fromhex(sha256) in self._all_known()
            or (self._store / "parquet" / f"import={name}" / f"{sha256}.0.parquet").exists()
        )

    def _all_known(self) -> set[bytes]:
        """The digests of the files in the store's batches: 100 bytes a file, asked for once."""
        if self._known is None:
            self._known = set()
            for path in (self._store / "parquet").glob("import=*/batch-*.parquet"):
                try:
                    table = pq.read_table(path, columns=["source_sha256"], partitioning=None)
                except pa.ArrowException as error:
                    why = str(error).splitlines()[0][:100]
                    raise parquet.CopyError(f"{path}: no Parquet file that can be read ({why}); move it away") from None
                found = table["source_sha256"].unique().to_pylist()
                self._known.update(bytes.fromhex(one) for one in found if one is not None)
        return self._known
