"""Rows <-> Parquet files: one schema from the data dictionary, written so that nothing is ever half there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from proofcost.harness.columns import COLUMNS, Kind, Row
from proofcost.reports.folding import FOLDED_FROM, FORMS, NUMBER_GAPS, TEXT_GAPS, unfolded

FORM = pa.dictionary(pa.int32(), pa.string())
_TYPES = {Kind.TEXT: pa.string(), Kind.JSON: pa.string(), Kind.INT: pa.int64(), Kind.BOOL: pa.bool_()}
SCHEMA = pa.schema([(column.name, _TYPES[column.kind]) for column in COLUMNS])
FOLDED = pa.schema(
    [
        *SCHEMA,
        *((name, FORM) for name in FORMS),
        *((name, pa.int64()) for name in NUMBER_GAPS),
        *((name, pa.string()) for name in TEXT_GAPS),
    ]
)
"""Of files that compaction writes: `events` is null where the record's lines are folded (folding.py)."""
_JSON = {column.name for column in COLUMNS if column.kind is Kind.JSON}
_LEVEL = 3
_READ_ROWS = 1000
_GROUP_ROWS = 100_000
_FORMS_BYTES = 256 << 20
"""Forms stand once for all rows that have them, however long they are together."""
_UNIQUE = ("record", "events")
"""Every row has its own: a dictionary would only double them."""


def table_of(rows: Sequence[Row], schema: pa.Schema = SCHEMA, keys: Sequence[str] = ()) -> pa.Table:
    """An Arrow table of rows. `keys`: those of each of them, in this order, if they are all alike.

    Raises ArrowException (an integer above 64 bits, a value of another kind).
    """
    columns = []
    known = set(keys) or set().union(*rows)
    whole = dict(zip(keys, zip(*[row.values() for row in rows], strict=True), strict=True)) if keys else {}
    for field in schema:
        if field.name not in known:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        values = whole[field.name] if whole else [row.get(field.name) for row in rows]
        if whole and field.type != FORM and type(values[0]) in _REPEATED and values.count(values[0]) == len(values):
            columns.append(pa.repeat(pa.scalar(values[0], field.type), len(values)))
            continue
        if field.name in _JSON:
            values = [_as_json(value) for value in values]
        columns.append(_forms(values) if field.type == FORM else pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


_REPEATED = (str, int, bytes)
"""Values of these kinds that are all the same, as in most columns of alike rows, become a column far faster."""


def _as_json(value: Any) -> bytes | None:
    """A JSON column's text. Bytes are JSON already."""
    return value if value is None or type(value) is bytes else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _forms(values: Sequence[str | None]) -> pa.DictionaryArray:
    """Texts of which most are the same."""
    places: dict[str | None, int | None] = dict(zip(values, range(len(values)), strict=True))
    places.pop(None, None)
    places = {text: number for number, text in enumerate(places)}
    indices = pa.array([places.get(value) for value in values], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(places, pa.string()))


_TOLD = (
    *("started_ns", "kernel", "phase", "session", "source", "host", "boot", "host_class", "kernel_sha256"),
    *("config_sha256", "threads", "sandbox", "counters", "metric_definitions", "input_sha256", "expected", "workload"),
    *("subject", "module", "plan", "outcome", "cause", "verdict", "warmup", "beside", "build", "labels", "weak"),
    *("io_read_bytes_tree", "io_read_bytes_waited"),
)
"""Of these a file tells the least and the largest value: what is one and the same needs not be read (constants.py).
Of all it would be 4 kB a file."""

_INTEGERS = [field.name for field in FOLDED if field.type == pa.int64()]
_SETTINGS = {
    "compression": "zstd",
    "compression_level": _LEVEL,
    "use_dictionary": [name for name in FOLDED.names if name not in {*_UNIQUE, *_INTEGERS}],
    "dictionary_pagesize_limit": _FORMS_BYTES,
    # Measured beside plain, dictionary and split bytes: 19 % smaller than a dictionary, and no higher level helps.
    "column_encoding": {**dict.fromkeys(_INTEGERS, "DELTA_BINARY_PACKED"), "record": "DELTA_BYTE_ARRAY"},
    "write_statistics": list(_TOLD),
    "store_schema": False,
}


def write(path: Path, table: pa.Table) -> None:
    """Write a table, so that it is there whole or not at all. Raises OSError, CopyError."""
    write_parts(path, iter([table]))


def write_parts(path: Path, parts: Iterator[pa.Table], read_back: bool = True) -> int:
    """Write tables one after the other under a temporary name, read each back, then give the file its name.

    `read_back`: False of what can be made again at any time. Returns the number of rows. Raises OSError, CopyError, and
    whatever `parts` raises: there is then no file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    digests = []
    try:
        with temporary.open("wb") as file:
            first = next(parts)
            with pq.ParquetWriter(file, first.schema, **_SETTINGS) as writer:
                for part in chain([first], parts):
                    writer.write_table(part, row_group_size=max(1, part.num_rows))
                    digests.append((part.num_rows, _digest(part) if read_back else b""))
            file.flush()
            os.fsync(file.fileno())
        if read_back and not _reads_back(temporary, first.schema, digests):
            raise CopyError(f"{path}: what was written does not read back the same; nothing was changed")
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    sync_folder(path.parent)
    return sum(count for count, _ in digests)


def _reads_back(path: Path, schema: pa.Schema, digests: list[tuple[int, bytes]]) -> bool:
    with pq.ParquetFile(path, read_dictionary=[name for name in FORMS if name in schema.names]) as file:
        wanted = [one for one in digests if one[0]]
        groups = [number for number in range(file.num_row_groups) if file.metadata.row_group(number).num_rows]
        if len(groups) != len(wanted):
            return False
        for number, one in zip(groups, wanted, strict=True):
            if _told(file, number, schema) != one:
                return False
            pa.default_memory_pool().release_unused()  # else a file of many groups is held nearly whole
    return True


def _told(file: pq.ParquetFile, number: int, schema: pa.Schema) -> tuple[int, bytes]:
    """How many rows a group has, and their digest. One thread: it is no faster in two, and dearer."""
    part = file.read_row_group(number, use_threads=False).cast(schema)
    return part.num_rows, _digest(part)


def _digest(table: pa.Table) -> bytes:
    """Of all values in their order, however they lie in memory."""
    made = hashlib.blake2b(digest_size=16)
    for column in table.columns:
        for part in column.chunks if column.num_chunks == 1 else [column.combine_chunks()]:
            made.update(_plain(pc.is_null(part)))
            if pa.types.is_dictionary(part.type):
                texts = [
                    hashlib.blake2b(text.encode(), digest_size=16).digest() for text in part.dictionary.to_pylist()
                ]
                made.update(b"".join([texts[place] for place in pc.drop_null(part.indices).to_pylist()]))
            elif pa.types.is_string(part.type):
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
    """The whole of one file, with all columns of today, those that it lacks null. Raises OSError, ArrowException."""
    with pq.ParquetFile(path) as file:
        folded = FORMS[0] in file.schema_arrow.names
    with pq.ParquetFile(path, read_dictionary=FORMS if folded else None) as file:
        table = file.read()
    schema = FOLDED if folded else SCHEMA
    columns = [
        table[field.name].cast(field.type) if field.name in table.schema.names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def batches(path: Path, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
    """The rows of one file by the thousand: the named columns, and `events`, unfolded. Raises OSError, ArrowException.

    Nothing of a file that has no such columns: it is somebody else's.
    """
    with pq.ParquetFile(path) as file:
        there = set(file.schema_arrow.names)
        if not {*columns, "events"} <= there:
            return
        needed = [*dict.fromkeys((*columns, "events", *(name for name in FOLDED_FROM if name in there)))]
        for part in file.iter_batches(_READ_ROWS, columns=needed):
            held = {name: part[name].to_pylist() for name in part.schema.names}
            held["events"] = unfolded(held)
            yield held


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
    is_store = (store / "parquet").is_dir() or (store / "sessions").is_dir()
    return newest(_all(store / "parquet" if is_store else store))


AnyPath = TypeVar("AnyPath", bound=PurePath)
_NAMED_BY_US = re.compile(r"((?:.*/)?(?:batch-)?[0-9a-f]{16,64})\.(\d{1,9})\.parquet")


def generation_of(name: str) -> tuple[str, int]:
    """What all generations of a file have in common, and which one this is.

    Compaction and imports name files by a digest and a generation. Anybody else's file is one of its own, whatever
    numbers are in its name.
    """
    match = _NAMED_BY_US.fullmatch(name)
    return (match[1], int(match[2])) if match else (name.removesuffix(".parquet"), 0)


def newest(paths: Iterable[AnyPath]) -> list[AnyPath]:
    """Of each name the newest generation, sorted."""
    found: dict[tuple[PurePath, str], tuple[int, AnyPath]] = {}
    for path in paths:
        stem, generation = generation_of(path.name)
        key = (path.parent, stem)
        found[key] = max(found.get(key, (-1, path)), (generation, path))
    return sorted(path for _, path in found.values())


def _all(folder: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        # `declared/` holds copies of records, as evidence (declarations.py): they are no further runs.
        folders[:] = sorted(name for name in folders if name != "declared")
        yield from (Path(top, name) for name in names if name.endswith(".parquet") and not name.startswith("."))
