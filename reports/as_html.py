"""A document as one HTML file that needs nothing else: no network, no script to be read, light or dark.

Its policy lets nothing run or load but the style and the script that stand in it, known by their digests; so a name
that got past the escaping could do no harm either.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from proofcost.reports import as_pictures
from proofcost.reports.document import Bound, Document, Entry, Estimate, Missing, Picture, Table
from proofcost.reports.entries import (
    confidences,
    digits,
    entry_text,
    figure_text,
    interval_text,
    is_figures,
    number_of,
    rows_of,
)
from proofcost.reports.inert import inert_outside
from proofcost.reports.inline_svg import inline
from proofcost.reports.terms import key_of, terms_of
from proofcost.reports.whisker import SPACER, span_of, whisker

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

EXTRA = "reports"
"""The extra that brings `jinja2`."""

WIDTHS = (8, 16, 24, 32)
"""Of columns of texts, in characters; page.css has a class for each."""

SHORT = 14
"""Longest title that stands on one line with its mark, in characters."""

TEXT = 2000
"""Longest text anywhere in a page, in characters."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    classes: str = ""
    data: Sequence[tuple[str, str]] = ()
    """Attributes that sorting, filtering and tests read: the numbers in full."""
    reason: str = ""
    interval: str = ""
    whisker: Markup | str = ""


@dataclass(frozen=True, slots=True)
class Head:
    title: str
    kind: str
    """number or text: what it sorts by."""
    unit: str | None
    term: str | None
    classes: str


@dataclass(frozen=True, slots=True)
class Row:
    cells: Sequence[Cell]
    mark: str


def render(document: Document, files: Sequence[str] = (), home: bool = False) -> bytes:
    """The file. `files`: names of files beside it that hold the same numbers; `home`: index.html links to it."""
    sections = []
    for number, section in enumerate(document.sections):
        blocks = [_block(block, f"s{number}b{at}") for at, block in enumerate(section.blocks)]
        sections.append(
            {
                "id": f"s{number}",
                "title": shown(section.title),
                "text": [shown(text) for text in section.text],
                "blocks": blocks,
                "link": "",
                "files": [],
            }
        )
    return page(
        title=shown(document.title),
        answer=shown(document.answer),
        sections=sections,
        notes=[shown(note) for note in document.notes],
        data=[shown(one) for one in document.data],
        terms=terms_of(document),
        files=files,
        home=home,
    )


def page(**content: object) -> bytes:
    """A file from the template."""
    from markupsafe import Markup

    style, script = _asset("page.css"), _asset("page.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    template = _environment().get_template("page.html")
    text = template.render(policy=Markup(policy), style=Markup(style), script=Markup(script), **content)
    return text.encode("utf-8")


def marked(text: str) -> Markup:
    """A text of ours in which backticks mark names, as in Markdown."""
    from markupsafe import Markup

    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def shown(text: str) -> str:
    """Text without controls, direction marks and bytes that are no UTF-8; the template escapes its markup."""
    return inert_outside(text, TEXT)


@cache
def _asset(name: str) -> str:
    return resources.files("proofcost.reports").joinpath(name).read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined

    made = Environment(
        loader=DictLoader({"page.html": _asset("page.html")}), autoescape=True, undefined=StrictUndefined
    )
    made.filters["marked"] = marked
    return made


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _block(block: Table | Picture, name: str) -> dict[str, object]:
    return _chart(block, name) if isinstance(block, Picture) else _table(block, name)


def _chart(picture: Picture, name: str) -> dict[str, object]:
    from markupsafe import Markup

    question, text = shown(picture.question), shown(picture.text)
    svg = Markup(inline(as_pictures.render(picture, "svg"), name, question, text))
    return {"id": name, "question": question, "text": text, "svg": svg}


def _table(table: Table, name: str) -> dict[str, object]:
    rows = list(rows_of(table))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(table.columns)
    spans = [
        span_of(entries) if one.unit == "ratio" and _has_interval(entries) else 0.0
        for one, entries in zip(table.columns, columns, strict=True)
    ]
    heads = [
        Head(
            shown(one.title),
            "number" if _sorts_by_number(entries, is_figures(one)) else "text",
            one.unit,
            key_of(one.term),
            ("number" if is_figures(one) else _width(entries)) + (" short" if len(one.title) <= SHORT else ""),
        )
        for one, entries in zip(table.columns, columns, strict=True)
    ]
    made = [
        Row(
            [_cell(entry, head, span) for entry, head, span in zip(row, heads, spans, strict=True)],
            mark if (mark := table.marked.get(at, "")) in ("bad", "good") else "",
        )
        for at, row in enumerate(rows)
    ]
    said = confidences(table)
    notes = [*map(shown, table.notes), *([f"Intervals in parentheses: {said} confidence."] if said else [])]
    return {"id": name, "title": shown(table.title), "columns": heads, "rows": made, "notes": notes}


def _width(entries: Sequence[Entry]) -> str:
    """Class for the room that a column of texts has at least: names are not broken where they need not be."""
    longest = max((len(entry_text(entry, None)) for entry in entries), default=0)
    return f"w{next((size for size in WIDTHS if longest <= size), WIDTHS[-1])}"


def _has_interval(entries: Sequence[Entry]) -> bool:
    return any(isinstance(one, Estimate) and (one.low is not None or one.high is not None) for one in entries)


def _sorts_by_number(entries: Sequence[Entry], figures: bool) -> bool:
    if figures:
        return True
    return any(number_of(entry) is not None for entry in entries) and not any(
        isinstance(entry, bool) or (isinstance(entry, str) and entry) for entry in entries
    )


def _cell(entry: Entry, head: Head, span: float) -> Cell:
    from markupsafe import Markup

    kind = head.kind
    if isinstance(entry, Missing):
        return Cell(entry_text(entry, head.unit), f"{kind} missing", (), shown(entry.reason) or "no reason given")
    if isinstance(entry, str):
        return Cell(inert_outside(entry, TEXT), kind)
    number = number_of(entry)
    data = [] if number is None else [("v", digits(number))]
    if isinstance(entry, Bound):
        data.append(("bound", "at_least" if entry.at_least else "at_most"))
    if not isinstance(entry, Estimate):
        return Cell(entry_text(entry, head.unit), kind, data, whisker=Markup(SPACER) if span else "")
    data += [(end, digits(value)) for end, value in (("low", entry.low), ("high", entry.high)) if value is not None]
    data.append(("confidence", digits(entry.confidence)))
    bounded = entry.low is not None or entry.high is not None
    return Cell(
        figure_text(entry.value, head.unit),
        kind,
        data,
        interval=f"({interval_text(entry, head.unit)})" if bounded else "",
        whisker=Markup(whisker(entry, span) or SPACER) if span else "",
    )
