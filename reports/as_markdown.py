"""A document as Markdown for a job's summary or a comment: below 60 kB whatever stands in it, the answer first.

What does not fit is left out from the least important end, and how much was left out is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from proofcost.reports.document import Document, Entry, Missing, Picture, Table
from proofcost.reports.entries import confidences, entry_text, first_rows, is_figures, rows_of
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural

MAX_BYTES = 60_000
"""A comment may have 65,536 characters; a job's summary with more than 1 MiB is dropped whole."""

CELL, LINE = 120, 1500
"""Longest text of a cell and of a paragraph, in characters."""

_KEPT = 90
"""Bytes set aside with each table's head for the line that says what was left out."""

# In which order pieces get room, whatever the order in which they stand.
_ANSWER, _HEADS, _MARKED, _NOTES, _TEXT, _ROWS, _NEVER = range(7)

_MARKUP = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "@": "@\u200b",  # else a mention
    "://": ":\u200b//",  # else a link
    "www.": "www\u200b.",
}
_ESCAPED = "\\`*_[]|#~$"
_AT_START = ("-", "+", "=")
"""A list or a heading, where a line begins so."""
_ORDERED = re.compile(r"^(\d{1,9})([.)])")


@dataclass(slots=True)
class Piece:
    """One line, and how much it matters."""

    text: str
    rank: int
    table: int | None = None
    """The table that it is a row or the head of."""
    chosen: bool = False

    @property
    def size(self) -> int:
        return len(self.text.encode()) + 1


def render(document: Document) -> bytes:
    """The file, at most `MAX_BYTES`."""
    pieces = list(_pieces(document))
    room = MAX_BYTES - 200
    open_tables: set[int | None] = {None}
    for piece in sorted(pieces, key=lambda one: one.rank):  # stable: what stands first comes first
        head = piece.rank == _HEADS and piece.table is not None
        size = piece.size + (_KEPT if head else 0)
        if piece.rank == _NEVER or size > room or not (head or piece.table in open_tables):
            continue
        piece.chosen = True
        room -= size
        if head:
            open_tables.add(piece.table)
    return ("\n".join(_lines(pieces)) + "\n").encode("utf-8")


def _lines(pieces: list[Piece]) -> Iterable[str]:
    left: dict[int, int] = {}
    for piece in pieces:
        if not piece.chosen and piece.table is not None and piece.rank != _HEADS:
            left[piece.table] = left.get(piece.table, 0) + 1
    lost = sum(not piece.chosen and (piece.table is None or piece.rank == _HEADS) for piece in pieces)
    current: int | None = None
    for piece in [*pieces, Piece("", _ANSWER, chosen=True)]:
        if current is not None and piece.table != current and current in left:
            yield f"\n{plural(left[current], 'more row')} of this table, not shown here."
            del left[current]
        if piece.chosen:
            yield piece.text
            current = piece.table
    if lost:
        yield f"{plural(lost, 'more line')} or tables left out for want of room."


def _pieces(document: Document) -> Iterable[Piece]:
    yield Piece(f"## {safe(document.title, CELL)}", _ANSWER)
    yield Piece(f"\n**{safe(document.answer, LINE)}**", _ANSWER)
    number = 0
    for section in document.sections:
        yield Piece(f"\n### {safe(section.title, CELL)}", _HEADS)
        for text in section.text:
            yield Piece(f"\n{safe(text, LINE)}", _TEXT)
        for block in section.blocks:
            if isinstance(block, Picture):
                yield Piece(f"\n{safe(block.question, LINE)} {safe(block.text, LINE)}", _TEXT)
            else:
                yield from _table(block, number)
                number += 1
    if document.notes or document.data:
        yield Piece("", _HEADS)
    for note in (*document.notes, *(f"from {one}" for one in document.data)):
        yield Piece(f"- {safe(note, LINE)}", _NOTES)


def _table(table: Table, number: int) -> Iterable[Piece]:
    titles = [safe(column.title, CELL) for column in table.columns]
    sides = ["---:" if is_figures(column) else "---" for column in table.columns]
    head = f"\n{safe(table.title, LINE)}\n\n| {' | '.join(titles)} |\n| {' | '.join(sides)} |"
    yield Piece(head, _HEADS, number)
    rows = list(rows_of(table))
    for place, at in enumerate(first_rows(table, None)):
        rank = _MARKED if at in table.marked else _ROWS if table.lead is None or place < table.lead else _NEVER
        if rank == _NEVER:  # only counted
            yield Piece("", rank, number)
            continue
        cells = [_cell(entry, column.unit) for entry, column in zip(rows[at], table.columns, strict=True)]
        yield Piece(f"| {' | '.join(cells)} |", rank, number)
    said = confidences(table)
    notes = [*table.notes, *([f"intervals: {said} confidence"] if said else [])]
    if notes:
        yield Piece("", _NOTES)
    for note in notes:
        yield Piece(f"- {safe(note, LINE)}", _NOTES)


def _cell(entry: Entry, unit: str | None) -> str:
    if isinstance(entry, Missing):
        return safe(entry.shown if entry.reason == entry.shown else f"{entry.shown}: {entry.reason}", CELL)
    return safe(entry_text(entry, unit, limit=CELL), None) if isinstance(entry, str) else entry_text(entry, unit)


def safe(text: str, limit: int | None) -> str:
    """Text that is no markup, no link, no mention and no control: names are other people's."""
    shown = inert_outside(text, limit)
    for char in _ESCAPED:
        shown = shown.replace(char, f"\\{char}") if char in shown else shown
    for char, instead in _MARKUP.items():
        shown = shown.replace(char, instead)
    shown = _ORDERED.sub(r"\1\\\2", shown)
    return f"\\{shown}" if shown.startswith(_AT_START) else shown
