"""Rows <-> Parquet files: one schema from the data dictionary, written so that nothing is ever half there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pyarrow as pa
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


def write(path: Path, table: pa.Table) -> None:
    """Write a table under a temporary name, read it back, then give it its name. Raises OSError, CopyError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            pq.write_table(
                table,
                file,
                compression="zstd",
                compression_level=_LEVEL,
                row_group_size=_GROUP_ROWS,
                use_dictionary=[name for name in SCHEMA.names if name not in _UNIQUE],
                column_encoding={"record": "DELTA_BYTE_ARRAY"},
                write_statistics=["started_ns", "kernel", "phase", "session"],
                store_schema=False,
            )
            file.flush()
            os.fsync(file.fileno())
        if not read(temporary).equals(table):
            raise CopyError(f"{path}: what was written does not read back the same; nothing was changed")
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    sync_folder(path.parent)


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
        folders.sort()
        yield from (Path(top, name) for name in names if name.endswith(".parquet") and not name.startswith("."))
