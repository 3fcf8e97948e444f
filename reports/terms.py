"""Every term that a report's column may name, explained once: docs/reading.md and each page are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proofcost.reports.document import Document


@dataclass(frozen=True, slots=True)
class Term:
    """One number or word of a report."""

    key: str
    """What `Column.term` says."""
    title: str
    meaning: str
    method: str = ""
    assumes: str = ""
    source: str = ""


TERMS: Mapping[str, Term] = {
    one.key: one
    for one in (
        Term(
            "missing",
            "Not measured",
            "The figure is not there, for the reason beside it. It is never 0, and it sorts last both ways.",
        ),
    )
}

ALWAYS = ("missing",)


def terms_of(document: Document) -> list[Term]:
    """Those that occur in a document, in the order of this file."""
    named = {column.term for table in document.tables() for column in table.columns}
    return [term for key, term in TERMS.items() if key in named or key in ALWAYS]
