"""Columns that hold one and the same value in all rows of some Parquet files, as their statistics tell: read for free.

A writer may note of each row group a column's least and largest value, and how many are null. Where all groups of all
files agree on one value and none is null, or all are null, whoever asks for the column needs not read it. Nothing is
taken for constant that is not told so: no statistics, a value that was shortened, another type in one file, a column
that one file lacks while another has values in it. It is a fast path only: answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

PHYSICAL = {"VARCHAR": "BYTE_ARRAY", "BIGINT": "INT64", "BOOLEAN": "BOOLEAN"}
LONGEST = 4096
"""Characters of a text that is put into queries."""
_UNTOLD = object()


def constants(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], scan: str, types: Mapping[str, str]
) -> dict[str, str]:
    """SQL literals of the columns that are the same in every row, by name.

    `files`: what `scan`, a query, reads. `types`: the columns to look at, each with its type in `scan`.
    """
    try:
        told = _told(files, {name: PHYSICAL[kind] for name, kind in types.items() if kind in PHYSICAL})
        single = [name for name, value in told.items() if value is not None]
        quoted = ", ".join(f'"{name}"' for name in single) or "1"
        row = connection.execute(f"SELECT {quoted} FROM ({scan}) LIMIT 1").fetchone() if told else None
    except (duckdb.Error, OSError, pa.ArrowException):  # what cannot be read at all is told of by whoever reads it
        return {}
    made = {name: f"NULL::{types[name]}" for name, value in told.items() if value is None}
    for name, value in zip(single, row or (), strict=False):
        literal = _literal(value)
        if literal is not None:
            made[name] = literal
    return made


def _told(files: Sequence[Path], physical: Mapping[str, str]) -> dict[str, object]:
    """Of the columns that are the same in every row: the value, as it is stored; None for null.

    `physical`: the columns to look at, with the type that each must have.
    """
    left = dict(physical)
    found: dict[str, object] = {}
    for file in files:
        told = pq.read_metadata(file)
        groups = [group for group in map(told.row_group, range(told.num_row_groups)) if group.num_rows]
        places = {groups[0].column(at).path_in_schema: at for at in range(told.num_columns)} if groups else {}
        for group in groups:
            for name, kind in list(left.items()):
                # A file that lacks a column stands in for nulls.
                value = _only(group.column(places[name]), kind) if name in places else None
                if value is _UNTOLD or found.setdefault(name, value) != value:
                    del left[name]
    return {name: found[name] for name in left if name in found}


def _only(chunk: pq.ColumnChunkMetaData, kind: str) -> object:
    """What all rows of a group have in a column, as it is stored; None for null.

    Writers may shorten a least value to a smaller one and a largest to a larger one: then the two differ.
    """
    told = chunk.statistics
    if chunk.physical_type != kind or told is None or not told.has_null_count:
        return _UNTOLD
    if told.null_count == chunk.num_values:
        return None
    one = told.null_count == 0 and told.has_min_max and told.min_raw == told.max_raw
    return told.min_raw if one else _UNTOLD


def _literal(value: object) -> str | None:
    """None of what is better read than written into a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})::BIGINT"
    if isinstance(value, str) and len(value) <= LONGEST and "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    return None
