"""A plan from too little data, for a terminal: the answer, what is missing and how to get it, and tables with figures.

Files keep every table and column, so that nothing moves in them from one plan to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proofcost.reports.document import Column, Document, Entry, Missing, Picture, Section, Table
from proofcost.reports.plan.page import CHANGE

_CONTEXT = frozenset(
    {"target", "above", "upto", "rung", "at_once", "runs", "stopped", "needed", "submissions", "cores"}
)
"""Columns of figures that say which row it is or what it was made from: none of them is an answer."""
_BY_SIZE = "time_by_size"
"""Tables whose `likely` stands beside a limit, and is none."""


def shortened(document: Document) -> Document:
    """The document with what would change it first, and without tables and columns that hold nothing."""
    first = [section for section in document.sections if section.title == CHANGE]
    rest = [_section(section) for section in document.sections if section.title != CHANGE]
    return replace(document, sections=(*first, *(section for section in rest if section is not None)))


def _section(section: Section) -> Section | None:
    """None where the text that is left would be about limits by size that there are none of."""
    blocks: list[Table | Picture] = []
    for block in section.blocks:
        if not isinstance(block, Table):
            blocks.append(block)
        elif (table := _table(block)) is not None:
            blocks.append(table)
    if section.blocks and not blocks and all(block.key.startswith(_BY_SIZE) for block in section.blocks):
        return None
    return replace(section, blocks=tuple(blocks))


def _table(table: Table) -> Table | None:
    """Without columns in which every entry is missing; None where no figure is left."""
    columns = list(zip(*table.rows, strict=True))
    kept = [at for at, entries in enumerate(columns) if not all(isinstance(one, Missing) for one in entries)]
    if not any(_is_answer(table, table.columns[at], columns[at]) for at in kept):
        return None
    notes = [f"{table.columns[at].title}: {_why(columns[at])}" for at in range(len(columns)) if at not in kept]
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
        notes=(*table.notes, *notes),
    )


def _is_answer(table: Table, column: Column, entries: Sequence[Entry]) -> bool:
    if column.unit is None or column.key in _CONTEXT:
        return False
    if table.key.startswith(_BY_SIZE) and column.key == "likely":
        return False
    return any(entry != "" and not isinstance(entry, Missing) for entry in entries)


def _why(entries: Sequence[Entry]) -> str:
    reasons = dict.fromkeys(entry.reason for entry in entries if isinstance(entry, Missing))
    return "; ".join(reasons)
