"""A folder of reports: index.html, which links to each report's page, and beside it their numbers and pictures."""

from __future__ import annotations

from collections.abc import Sequence

from proofcost.reports import as_html, as_json, as_pictures, as_table
from proofcost.reports.document import Document
from proofcost.reports.names import file_names
from proofcost.reports.units import plural

HOME = "index"
INDEX = f"{HOME}.html"


def files_of(documents: Sequence[Document]) -> dict[str, bytes]:
    """Name and content of every file; the home page comes last, so that it never links to what is not there yet."""
    files: dict[str, bytes] = {}
    pages = []
    names = file_names([HOME, *(one.kind for one in documents)])[1:]
    for document, name in zip(documents, names, strict=True):
        tables, pictures = document.tables(), document.pictures()
        keys = file_names([*(one.key for one in tables), *(one.key for one in pictures)])
        # Two hyphens, which no name has: a table "2" of one report is no file of a second one.
        beside = {f"{name}.json": as_json.render(document)}
        for table, key in zip(tables, keys, strict=False):
            beside[f"{name}--{key}.csv"] = as_table.csv_file(table)
        for picture, key in zip(pictures, keys[len(tables) :], strict=True):
            beside[f"{name}--{key}.svg"] = as_pictures.render(picture, "svg")
        files |= beside
        files[f"{name}.html"] = as_html.render(document, list(beside), home=True)
        pages.append((document, f"{name}.html", list(beside)))
    files[INDEX] = _home(pages)
    return files


def _home(pages: Sequence[tuple[Document, str, list[str]]]) -> bytes:
    sections = [
        {
            "id": f"r{at}",
            "title": as_html.shown(document.title),
            "text": [as_html.shown(document.answer)],
            "blocks": [],
            "link": name,
            "files": beside,
        }
        for at, (document, name, beside) in enumerate(pages)
    ]
    return as_html.page(
        title="Reports",
        answer=plural(len(pages), "report"),
        sections=sections,
        notes=[],
        data=[],
        terms=[],
        files=[],
        home=False,
    )
