"""`export --to csv`: every column but `events`, one record a line; missing is empty, and `absent` says why."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from typing import IO

from proofcost.harness.columns import COLUMNS, Kind, Row

HELP = "one record a line, all columns (`proofcost store sql --columns` tells what they are)"
MAPS = (("every column but events", "the column of that name", "JSON columns as JSON text; missing is empty"),)
_COLUMNS = tuple(column for column in COLUMNS if column.name != "events")


def write(rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
    """Write rows as RFC 4180 has it, in UTF-8."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow([column.name for column in _COLUMNS])
    for row in rows:
        writer.writerow([_cell(row.get(column.name), column.kind) for column in _COLUMNS])
    text.flush()
    text.detach()


def _cell(value: object, kind: Kind) -> object:
    if value is None:
        return ""
    if kind is Kind.JSON:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    if kind is Kind.BOOL:
        return "true" if value else "false"
    return value
