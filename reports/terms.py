"""Every term that a report's column may name, explained once, in terms.toml: docs/reading.md is made of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from proofcost.reports.document import Bound, Document, Estimate, Missing


@dataclass(frozen=True, slots=True)
class Term:
    """One number or word of a report."""

    key: str
    """What `Column.term` says."""
    group: str
    title: str
    meaning: str
    method: str = ""
    assumes: str = ""
    source: str = ""
    see: tuple[str, ...] = ()
    """Keys of terms that it cannot be understood without."""
    pictures: tuple[str, ...] = ()
    """What the keys of pictures begin with that show it."""


@cache
def terms() -> Mapping[str, Term]:
    """All of them, by key, in their order."""
    found = tomllib.loads(resources.files("proofcost.reports").joinpath("terms.toml").read_text("utf-8"))
    made = {}
    for key, of in found.items():
        fields: dict[str, Any] = {name: _value(value) for name, value in of.items()}
        made[key] = Term(key, **fields)
    return made


def _value(value: str | list[str]) -> str | tuple[str, ...]:
    return " ".join(value.split()) if isinstance(value, str) else tuple(value)


def key_of(term: str | None) -> str | None:
    """The key under which a column's term is explained; None where it is not."""
    key = (term or "").replace(" ", "_")
    return key if key in terms() else None


def terms_of(document: Document) -> list[Term]:
    """Those that a document needs, in the order of the file: of its columns, pictures and kinds of entries."""
    named = {key_of(column.term) for table in document.tables() for column in table.columns}
    keys = [picture.key for picture in document.pictures()]
    named |= {term.key for term in terms().values() if any(key.startswith(term.pictures) for key in keys)}
    kinds = {type(entry) for table in document.tables() for row in table.rows for entry in row}
    named |= {key for kind, key in ((Missing, "missing"), (Bound, "bound"), (Estimate, "interval")) if kind in kinds}
    needed = _with_what_they_need(key for key in named if key is not None)
    return [term for key, term in terms().items() if key in needed]


def _with_what_they_need(keys: Iterable[str]) -> set[str]:
    found: set[str] = set()
    left = list(keys)
    while left:
        key = left.pop()
        if key not in found:
            found.add(key)
            left += terms()[key].see
    return found


HEAD = """# How to read a report

Every number of a report, what it means, how it is made, what it assumes and where the method comes from. Each page of a
report ends with those of these terms that occur in it. Made from `reports/terms.toml` by
`python -m proofcost.reports.terms`; [statistics.md](statistics.md) says what the methods were held against.

## Files

`-o` chooses by the name's end. All of them hold the same numbers, floats to 15 digits.

- `.html`: the whole report as one page that needs no network. Click a head to sort; type a word or `> 1.5 s` to filter.
- `.md`: for a job's summary or a comment, below 60 kB: the answer, marked rows first; what is left out is counted.
- `.json`: everything. A figure is a number or an object: `{"missing": reason}`, `{"at_least": n}`, `{"at_most": n}`, or
  `value`, `low`, `high` and `confidence`, where an open end is null.
- `.csv`, `.parquet`: the first table. Column `x` holds values only; beside it, where they occur: `x_low`, `x_high`,
  `x_confidence`, `x_at_least`, `x_at_most` and `x_missing` (the reason). Times are in ns, memory in bytes.
- `.svg`, `.pdf`, `.png`: the picture; several are a file each, `NAME-KEY.svg`. The same data give the same bytes.
- A folder: a home page, and each report's page with its JSON, all of its tables as CSV and all of its pictures as SVG.
"""


def page() -> str:
    """docs/reading.md."""
    lines = [HEAD]
    group = ""
    for term in terms().values():
        if term.group != group:
            group = term.group
            lines += [f"## {group}", ""]
        lines += [f'<a id="{term.key}"></a>', f"**{term.title}**: {term.meaning}", ""]
        parts = (("Method", term.method), ("Assumes", term.assumes), ("Source", term.source))
        said = [f"- {name}: {text}" for name, text in parts if text]
        also = ", ".join(f"[{terms()[key].title}](#{key})" for key in term.see)
        said += [f"- See also: {also}"] if also else []
        lines += [*said, ""] if said else []
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
