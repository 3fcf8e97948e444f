"""A document as JSON: the same numbers as every other format, floats to 15 digits, ASCII."""

from __future__ import annotations

import json
from typing import Any

from proofcost.reports.document import Bound, Document, Entry, Estimate, Missing, Picture, Table
from proofcost.reports.entries import rounded, rows_of

SCHEMA = "proofcost.document/1"


def render(document: Document) -> bytes:
    """The file. A row is an object by column key; a text that does not apply is empty.

    A figure is a number, or an object: `{"missing": reason}`, `{"at_least": n}`, `{"at_most": n}`, or an estimate
    `{"value": n, "low": n or null, "high": n or null, "confidence": 0.95}`.
    """
    made = {
        "schema": SCHEMA,
        "kind": document.kind,
        "title": document.title,
        "answer": document.answer,
        "data": list(document.data),
        "notes": list(document.notes),
        "sections": [
            {"title": one.title, "text": list(one.text), "blocks": [_block(block) for block in one.blocks]}
            for one in document.sections
        ],
    }
    return (json.dumps(made, indent=1, allow_nan=False) + "\n").encode("ascii")


def _block(block: Table | Picture) -> dict[str, Any]:
    if isinstance(block, Picture):
        return {"type": "picture", "key": block.key, "question": block.question, "text": block.text}
    keys = [column.key for column in block.columns]
    return {
        "type": "table",
        "key": block.key,
        "title": block.title,
        "columns": [{"key": one.key, "title": one.title, "unit": one.unit, "term": one.term} for one in block.columns],
        "rows": [dict(zip(keys, map(entry_json, row), strict=True)) for row in rows_of(block)],
        "marked": [{"row": at, "why": why} for at, why in sorted(block.marked.items())],
        "notes": list(block.notes),
    }


def entry_json(entry: Entry) -> Any:
    """A settled entry as `render` says."""
    if isinstance(entry, Missing):
        return {"missing": entry.reason}
    if isinstance(entry, Bound):
        return {"at_least" if entry.at_least else "at_most": rounded(entry.value)}
    if isinstance(entry, Estimate):
        low, high = (None if end is None else rounded(end) for end in (entry.low, entry.high))
        return {"value": rounded(entry.value), "low": low, "high": high, "confidence": rounded(entry.confidence)}
    return entry if isinstance(entry, str | bool) else rounded(entry)
