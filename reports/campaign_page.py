"""A document as a page of the docs: Markdown in full, its pictures as SVG files beside it.

The same records give the same bytes. Unlike a job's summary (as_markdown.py) nothing is left out for want of room.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from proofcost.harness.whole_file import whole_file
from proofcost.reports import as_pictures
from proofcost.reports.as_markdown import safe
from proofcost.reports.document import Document, Missing, Picture, Table
from proofcost.reports.entries import confidences, entry_text, is_figures, rows_of

HEAD = "<!-- Made from records by docs/campaign/run.py: nothing here is written by hand, so change nothing here. -->"
LONG = 12
"""Tables with more rows are folded up, but for those whose rows are marked."""


def write(document: Document, folder: Path) -> list[Path]:
    """`KIND.md` and `KIND/KEY.svg` below `folder`. Returns what was written. Raises OSError; needs matplotlib."""
    made = {folder / document.kind / f"{one.key}.svg": as_pictures.render(one, "svg") for one in document.pictures()}
    made[folder / f"{document.kind}.md"] = ("\n".join(lines(document)) + "\n").encode("utf-8")
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(content)
    return list(made)


def lines(document: Document) -> Iterator[str]:
    yield from (f"# {safe(document.title, None)}", "", HEAD, "", f"**{safe(document.answer, None)}**")
    for section in document.sections:
        yield from ("", f"## {safe(section.title, None)}")
        for text in section.text:
            yield from ("", safe(text, None))
        for block in section.blocks:
            yield ""
            if isinstance(block, Picture):
                yield f"![{safe(block.question, None)}]({document.kind}/{block.key}.svg)"
                yield from ("", f"{safe(block.question, None)} {safe(block.text, None)}")
            else:
                yield from _table(block)
    yield ""
    yield from (f"- {safe(note, None)}" for note in (*document.notes, *document.data))


def _table(table: Table) -> Iterator[str]:
    folded = len(table.rows) > LONG and not table.marked
    if folded:
        yield from (f"<details><summary>{safe(table.title, None)} ({len(table.rows)} rows)</summary>", "")
    else:
        yield from (safe(table.title, None), "")
    yield "| " + " | ".join(safe(column.title, None) for column in table.columns) + " |"
    yield "| " + " | ".join("---:" if is_figures(column) else "---" for column in table.columns) + " |"
    reasons: dict[str, None] = {}
    for at, row in enumerate(rows_of(table)):
        cells = []
        for entry, column in zip(row, table.columns, strict=True):
            if isinstance(entry, Missing):
                reasons[entry.reason] = None
                shown = "\u2013"
            else:
                shown = safe(entry_text(entry, column.unit, limit=None), None)
            cells.append(f"**{shown}**" if at in table.marked and shown else shown)
        yield "| " + " | ".join(cells) + " |"
    said = confidences(table)
    notes = [*table.notes, *([f"intervals: {said} confidence"] if said else [])]
    notes += [f"\u2013: {'; '.join(reasons)}"] if reasons else []
    yield from ("", *(f"- {safe(note, None)}" for note in notes))
    if folded:
        yield from ("", "</details>")
