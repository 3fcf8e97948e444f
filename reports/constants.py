"""Columns that hold one and the same value in all rows of some Parquet files, as their statistics tell: read for free.

A writer may note of each row group a column's least and largest value, and how many are null. Where all groups of all
files agree on one value and none is null, or all are null, whoever asks for the column needs not read it. Nothing is
taken for constant that is not told so: no statistics, a value that was shortened, another type in one file, a column
that one file lacks while another has values in it. It is a fast path only: answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

PHYSICAL = {"VARCHAR": "BYTE_ARRAY", "BIGINT": "INT64", "BOOLEAN": "BOOLEAN"}
LONGEST = 4096
"""Characters of a text that is put into queries."""

_ASK = """
WITH told AS (SELECT * FROM parquet_metadata([{files}]) WHERE num_values > 0)
SELECT path_in_schema,
    bool_and(coalesce(stats_null_count = num_values, false)) AS nothing,
    bool_and(coalesce(stats_null_count = 0 AND stats_min_value = stats_max_value
        AND coalesce(min_is_exact, true) AND coalesce(max_is_exact, true), false))
        AND min(stats_min_value) = max(stats_min_value)
        AND count(DISTINCT file_name) = (SELECT count(DISTINCT file_name) FROM told) AS one,
    min(type) AS type, max(type) AS other
FROM told GROUP BY path_in_schema"""
"""A file that lacks a column stands in for nulls; writers that shorten a largest value make it larger, so that it is
never the least one. `num_values` counts nulls."""


def constants(connection: duckdb.DuckDBPyConnection, files: str, scan: str, types: Mapping[str, str]) -> dict[str, str]:
    """SQL literals of the columns that are the same in every row, by name.

    `files`: SQL texts with commas between, what `scan`, a query, reads. `types`: the columns to look at, each with its
    type in `scan`.
    """
    try:
        told = connection.execute(_ASK.format(files=files)).fetchall()
        nothing = {name for name, null, *_ in told if null and types.get(name) in PHYSICAL}
        single = [
            str(name)
            for name, null, one, kind, other in told
            if one and not null and name in types and kind == other == PHYSICAL.get(types[name])
        ]
        quoted = ", ".join(f'"{name}"' for name in single) or "1"
        row = connection.execute(f"SELECT {quoted} FROM ({scan}) LIMIT 1").fetchone() if told else None
    except duckdb.Error:  # what cannot be read at all is told of by whoever reads it
        return {}
    made = {name: f"NULL::{types[name]}" for name in nothing}
    for name, value in zip(single, row or (), strict=False):
        literal = _literal(value)
        if literal is not None:
            made[name] = literal
    return made


def _literal(value: object) -> str | None:
    """None of what is better read than written into a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})::BIGINT"
    if isinstance(value, str) and len(value) <= LONGEST and "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    return None
