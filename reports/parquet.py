"""Rows <-> Parquet files: one schema from the data dictionary, written so that nothing is ever half there."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from proofcost.harness.columns import COLUMNS, Kind, Row

_TYPES = {Kind.TEXT: pa.string(), Kind.JSON: pa.string(), Kind.INT: pa.int64(), Kind.BOOL: pa.bool_()}
SCHEMA = pa.schema([(column.name, _TYPES[column.kind]) for column in COLUMNS])
_JSON = {column.name for column in COLUMNS if column.kind is Kind.JSON}
_LEVEL = 9
_GROUP_ROWS = 100_000
_UNIQUE = ("record", "events")
"""Every row has its own: a dictionary would only double them."""


def table_of(rows: Sequence[Row]) -> pa.Table:
    """An Arrow table of rows. Raises ArrowException (an integer above 64 bits, a value of another kind)."""
    columns = []
    known = set().union(*rows)
    for field in SCHEMA:
        if field.name not in known:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        values = [row.get(field.name) for row in rows]
        if field.name in _JSON:
            values = [None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in values]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


_SETTINGS = {
    "compression": "zstd",
    "compression_level": _LEVEL,
    "use_dictionary": [name for name in SCHEMA.names if name not in _UNIQUE],
    "column_encoding": {"record": "DELTA_BYTE_ARRAY"},
    "write_statistics": ["started_ns", "kernel", "phase", "session"],
    "store_schema": False,
}


def write(path: Path, table: pa.Table) -> None:
    """Write a table, so that it is there whole or not at all. Raises OSError, CopyError."""
    write_parts(path, iter([table]))


def write_parts(path: Path, parts: Iterator[pa.Table]) -> int:
    """Write tables one after the other under a temporary name, read each back, then give the file its name.

    Returns the number of rows. Raises OSError, CopyError, and whatever `parts` raises: there is then no file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    digests = []
    try:
        with temporary.open("wb") as file:
            with pq.ParquetWriter(file, SCHEMA, **_SETTINGS) as writer:
                for part in parts:
                    writer.write_table(part, row_group_size=max(1, part.num_rows))
                    digests.append((part.num_rows, _digest(part)))
            file.flush()
            os.fsync(file.fileno())
        if not _reads_back(temporary, digests):
            raise CopyError(f"{path}: what was written does not read back the same; nothing was changed")
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    sync_folder(path.parent)
    return sum(count for count, _ in digests)


def _reads_back(path: Path, digests: list[tuple[int, bytes]]) -> bool:
    with pq.ParquetFile(path) as file:
        wanted = [one for one in digests if one[0]]
        groups = [number for number in range(file.num_row_groups) if file.metadata.row_group(number).num_rows]
        if len(groups) != len(wanted):
            return False
        for number, (count, digest) in zip(groups, wanted, strict=True):
            part = file.read_row_group(number).cast(SCHEMA)
            if part.num_rows != count or _digest(part) != digest:
                return False
    return True


def _digest(table: pa.Table) -> bytes:
    """Of all values in their order, however they lie in memory."""
    made = hashlib.blake2b(digest_size=16)
    for column in table.columns:
        for part in column.chunks if column.num_chunks == 1 else [column.combine_chunks()]:
            made.update(_plain(pc.is_null(part)))
            if pa.types.is_string(part.type):
                filled = pc.fill_null(part, "")
                made.update(_plain(pc.binary_length(filled)))
                offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled) + 1]
                if len(filled) and offsets[-1] > offsets[0]:
                    made.update(filled.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])))
            else:
                made.update(_plain(pc.fill_null(part, False if pa.types.is_boolean(part.type) else 0)))
    return made.digest()


def _plain(values: pa.Array) -> Any:
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False)).data


def read(path: Path) -> pa.Table:
    """The whole of one file. Raises OSError, ArrowException."""
    return pq.read_table(path, partitioning=None, schema=None).cast(SCHEMA)


def sync_folder(folder: Path) -> None:
    """Have a folder's entries survive a loss of power."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class CopyError(Exception):
    """What was written is not what was to be written. One line."""


def files(store: Path) -> list[Path]:
    """The Parquet files that count of a store, or of a folder of such files: of each name the newest generation
    (`NAME.1.parquet` replaces `NAME.0.parquet`)."""
    newest: dict[tuple[Path, str], tuple[int, Path]] = {}
    for path in _all(store / "parquet" if (store / "parquet").is_dir() else store):
        stem, _, generation = path.name.removesuffix(".parquet").rpartition(".")
        if not generation.isdecimal():
            stem, generation = path.name, "0"
        key = (path.parent, stem)
        newest[key] = max(newest.get(key, (-1, path)), (int(generation), path))
    return sorted(path for _, path in newest.values())


def _all(folder: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        # `declared/` holds copies of records, as evidence (declarations.py): they are no further runs.
        folders[:] = sorted(name for name in folders if name != "declared")
        yield from (Path(top, name) for name in names if name.endswith(".parquet") and not name.startswith("."))
