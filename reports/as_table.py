"""One table as CSV or Parquet: the numbers themselves, one kind of figure in each column.

A column `wall` with estimates has `wall_low`, `wall_high` and `wall_confidence` beside it; one with bounds has
`wall_at_least` or `wall_at_most`, and `wall` itself is empty there, so that nobody takes a bound for a value; one with
missing figures has `wall_missing`, the reason.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from proofcost.reports.document import Bound, Column, Entry, Estimate, Missing, Table
from proofcost.reports.entries import digits, is_figures, rounded, rows_of
from proofcost.reports.inert import inert_outside

INT64 = 2**63
_FORMULA = ("=", "+", "-", "@")
"""A spreadsheet takes a cell that begins so for a formula and runs it."""

Plain = str | int | float | bool | None


@dataclass(slots=True)
class Flat:
    """One column of a file."""

    key: str
    is_text: bool
    values: list[Plain] = field(default_factory=list)


def flat_columns(table: Table) -> list[Flat]:
    """The table's columns as a file has them, each of one kind."""
    rows = list(rows_of(table))
    taken = {column.key for column in table.columns}
    made: list[Flat] = []
    for at, column in enumerate(table.columns):
        entries = [row[at] for row in rows]
        for suffix, part in _parts(column, entries):
            key = column.key + suffix
            while suffix and key in taken:
                key += "_"
            taken.add(key)
            values = [part(entry) for entry in entries]
            is_text = suffix == "_missing" or (not suffix and not is_figures(column) and _any_text(values))
            if is_text:
                values = [None if value is None else _word(value) for value in values]
            made.append(Flat(key, is_text, values))
    return made


def _any_text(values: list[Plain]) -> bool:
    return all(value is None for value in values) or any(isinstance(value, str) for value in values)


def _word(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else digits(value or 0)


def _parts(column: Column, entries: list[Entry]) -> Iterator[tuple[str, Callable[[Entry], Plain]]]:
    """Suffix of each of the file's columns, and what of an entry stands there."""
    figures = is_figures(column)

    def value(entry: Entry) -> Plain:
        if isinstance(entry, Estimate):
            return entry.value
        if isinstance(entry, Missing | Bound) or (figures and isinstance(entry, str)):
            return None
        return entry

    def absent(entry: Entry) -> Plain:
        if isinstance(entry, Missing):
            return entry.reason
        return entry if figures and isinstance(entry, str) and entry else None

    yield "", value
    if any(isinstance(entry, Estimate) for entry in entries):
        yield "_low", lambda entry: entry.low if isinstance(entry, Estimate) else None
        yield "_high", lambda entry: entry.high if isinstance(entry, Estimate) else None
        yield "_confidence", lambda entry: entry.confidence if isinstance(entry, Estimate) else None
    for suffix, least in (("_at_least", True), ("_at_most", False)):
        if any(isinstance(entry, Bound) and entry.at_least is least for entry in entries):
            yield (
                suffix,
                lambda entry, least=least: (  # type: ignore[misc]
                    entry.value if isinstance(entry, Bound) and entry.at_least is least else None
                ),
            )
    if any(absent(entry) is not None for entry in entries):
        yield "_missing", absent


def csv_file(table: Table) -> bytes:
    """The table as CSV (RFC 4180, UTF-8). Texts are inert: nothing in them is a control character or a formula."""
    columns = flat_columns(table)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([column.key for column in columns])
    for at in range(len(table.rows)):
        writer.writerow([_csv_cell(column.values[at]) for column in columns])
    return out.getvalue().encode("utf-8")


def _csv_cell(value: Plain) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return digits(value)
    text = inert_outside(value, None)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def parquet_file(table: Table) -> bytes:
    """The table as Parquet, zstd. Needs pyarrow (extra `reports`)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = flat_columns(table)
    arrays = [pa.array(_typed(column), type=_type(column, pa)) for column in columns]
    units = {column.key: column.unit for column in table.columns if column.unit is not None}
    schema = pa.schema(
        [
            pa.field(column.key, array.type, metadata={"unit": units[column.key]} if column.key in units else None)
            for column, array in zip(columns, arrays, strict=True)
        ]
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), out, compression="zstd")
    return out.getvalue()


def _type(column: Flat, pa: Any) -> Any:
    values = [value for value in column.values if value is not None]
    if column.is_text:
        return pa.string()
    if values and all(isinstance(value, bool) for value in values):
        return pa.bool_()
    if values and all(isinstance(value, int) and -INT64 <= value < INT64 for value in values):
        return pa.int64()
    return pa.float64()


def _typed(column: Flat) -> list[Plain]:
    """Floats beside integers are all floats; bytes that are no UTF-8 are shown as escapes."""
    if column.is_text:
        return [None if value is None else inert_outside(str(value), None) for value in column.values]
    values = [value for value in column.values if value is not None]
    if all(isinstance(value, bool) for value in values) or all(
        isinstance(value, int) and -INT64 <= value < INT64 for value in values
    ):
        return column.values
    return [
        None if value is None else float(value if isinstance(value, str) else rounded(value)) for value in column.values
    ]
