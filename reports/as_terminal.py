"""A document on a console: the answer first, tables folded to a terminal's width; in full and plain in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from proofcost.reports.document import Column, Document, Missing, Picture, Table
from proofcost.reports.entries import confidences, entry_text, first_rows, is_figures, rows_of
from proofcost.reports.inert import inert_outside
from proofcost.reports.printing import GAP, Row, full_width, is_ascii, table_of, write, write_note
from proofcost.reports.units import plural

STYLES = {"bad": "red", "good": "green"}
"""Of marked rows. The row's own words say why: a colour is never the only sign."""

CELL, LINE = 60, 2000
"""Longest text of a cell and of a line, in characters."""

LEAST, WORD = 10, 16
"""A column of texts is folded to so many characters where there is no room, or to its longest word up to `WORD`."""


def render(document: Document, console: Console) -> None:
    """Print all of it."""
    ascii_only = is_ascii(console)
    with full_width(console):
        write(console, Text(_line(document.title, ascii_only), style="bold"))
        write(console, Text(_line(document.answer, ascii_only)))
        for section in document.sections:
            write(console, Text())
            write(console, Text(_line(section.title, ascii_only), style="bold"))
            for text in section.text:
                write_note(console, _line(text, ascii_only))
            for block in section.blocks:
                if isinstance(block, Table):
                    _table(block, console, ascii_only)
                else:
                    _picture(block, console, ascii_only)
        notes = [*document.notes, *(f"from {one}" for one in document.data)]
        if notes:
            write(console, Text())
        for note in notes:
            write_note(console, _line(note, ascii_only))


def _line(text: str, ascii_only: bool) -> str:
    return inert_outside(text, LINE, ascii_only)


def _picture(picture: Picture, console: Console, ascii_only: bool) -> None:
    write_note(console, f"{_line(picture.question, ascii_only)} {_line(picture.text, ascii_only)}")


def _rows(console: Console, titles: Sequence[str], columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Rows below each other; where the terminal is too narrow for that without cutting words, one block a row."""
    right = [at for at, column in enumerate(columns) if is_figures(column)]
    least = {at: _least(title, [row.cells[at] for row in rows], at in right) for at, title in enumerate(titles)}
    if not console.is_terminal or sum(least.values()) + GAP * (len(titles) - 1) <= console.width:
        write(console, table_of(console, titles, rows, right=right, least=least))
        return
    for row in rows:
        for at, (title, cell) in enumerate(zip(titles, row.cells, strict=True)):
            if cell:
                write(console, Text(f"{'  ' if at else ''}{title}: {cell}", style=row.style or ""))


def _least(title: str, cells: Sequence[str], figures: bool) -> int:
    """To how many characters a column may be folded: at blanks, but between a figure and its unit. A name alone, of a
    case or file, may be cut."""
    words = title.split()
    if figures:  # of an interval, `1.01 (0.98 .. 1.04)`, each figure may stand on a line of its own
        pieces = [piece for cell in cells for piece in cell.replace(" (", "\n(").replace(" .. ", " ..\n").split("\n")]
        return max(map(cell_len, [*words, *pieces]), default=1)
    longest = max((cell_len(word) for cell in cells for word in cell.split()), default=1)
    whole = max(map(cell_len, cells), default=1)
    return max(*map(cell_len, words), min(longest, WORD), min(whole, LEAST)) if words else min(whole, LEAST)


def _table(table: Table, console: Console, ascii_only: bool) -> None:
    """The table. On a terminal no more than its lead, the marked rows first; elsewhere all rows in their order."""
    shown = first_rows(table, table.lead) if console.is_terminal else range(len(table.rows))
    all_rows = list(rows_of(table))
    reasons: dict[str, int] = {}
    rows = []
    for at in shown:
        cells = []
        for entry, column in zip(all_rows[at], table.columns, strict=True):
            text = entry_text(entry, column.unit, ascii_only, CELL)
            if isinstance(entry, Missing) and entry.reason != entry.shown:
                text = f"{entry.shown} [{reasons.setdefault(entry.reason, len(reasons) + 1)}]"
            cells.append(text)
        rows.append(Row(cells, STYLES.get(table.marked.get(at, ""))))
    write(console, Text(_line(table.title, ascii_only), style="italic"))
    if rows:
        kept = [at for at in range(len(table.columns)) if not console.is_terminal or any(row.cells[at] for row in rows)]
        columns = [table.columns[at] for at in kept]
        titles = [_line(column.title, ascii_only) for column in columns]
        _rows(console, titles, columns, [replace(row, cells=[row.cells[at] for at in kept]) for row in rows])
    else:
        write(console, Text("no rows"))
    left = len(table.rows) - len(rows)
    if left:
        write_note(console, f"{plural(left, 'more row')}: -o FILE.html shows all")
    for reason, number in reasons.items():
        write_note(console, f"[{number}] {_line(reason, ascii_only)}")
    said = confidences(table)
    for note in [*table.notes, *([f"intervals: {said} confidence"] if said else [])]:
        write_note(console, _line(note, ascii_only))
