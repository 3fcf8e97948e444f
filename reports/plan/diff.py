"""Two plans of the same question, months apart: which figures moved. From the JSON that a plan is written as."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proofcost.reports.as_json import SCHEMA
from proofcost.reports.document import Bound, Column, Document, Entry, Estimate, Missing, Section, Table
from proofcost.reports.entries import figure_text, settled
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.plan.evidence import PlanError

LEAST_CHANGE = 0.005
"""A figure that moved by less than so much of itself stands as it stood."""
_LARGEST = 64 << 20


def read_old(path: str) -> dict[str, Any]:
    """A plan as it was written. Raises PlanError."""
    name = inert_outside(path, 200, True)
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise PlanError(f"--diff {name}: cannot be read: {error.strerror}; name the .json of an earlier plan") from None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or found.get("kind") != "plan":
        raise PlanError(f"--diff {name}: is no plan that was written as .json; name the .json of an earlier plan")
    return found


def diff_section(old: dict[str, Any], new: Document) -> Section:
    """What moved since."""
    titles = {**_titles_of_json(old), **_titles(new)}
    before: dict[Key, float] = {}
    for key, was in _figures_of_json(old):
        before.setdefault(key, was)  # of rows without a name the first is the answer
    after: dict[Key, tuple[float, str]] = {}
    for key, entry, unit in _figures(new):
        value = _value(entry)
        if isinstance(value, int | float):
            after.setdefault(key, (value, unit))
    columns = (
        Column("figure", "figure"),
        Column("before", "before"),
        Column("now", "now"),
        Column("change", "now over before", "ratio"),
    )
    rows: list[tuple[Entry, ...]] = []
    for key, (now, unit) in after.items():
        earlier = before.pop(key, None)
        if earlier is None:
            rows.append((_shown(key, titles), "not known", figure_text(now, unit), ""))
        elif abs(now - earlier) > LEAST_CHANGE * max(abs(earlier), abs(now)):
            ratio: Entry = now / earlier if earlier else ""
            rows.append((_shown(key, titles), figure_text(earlier, unit), figure_text(now, unit), ratio))
    for key, was in before.items():
        rows.append((_shown(key, titles), f"{was:.6g}", "not known", ""))
    said = old.get("answer")
    text = [f"Before: {inert(said, 400)}"] if isinstance(said, str) else []
    if not rows:
        text.append(f"No figure moved by more than {figure_text(LEAST_CHANGE, 'share')}.")
        return Section("Since the earlier plan", (), tuple(text))
    return Section("Since the earlier plan", (Table("diff", "What moved", columns, tuple(rows), lead=30),), tuple(text))


Key = tuple[str, str, str]
"""(table, row's texts, column)"""


def _shown(key: Key, titles: Mapping[tuple[str, str], str]) -> str:
    """As people see it in the tables: the table's title, the row, the column's title."""
    table, row, column = key
    return " / ".join(
        inert(one, 60) for one in (titles.get((table, ""), table), row, titles.get((table, column), column)) if one
    )


def _titles(document: Document) -> dict[tuple[str, str], str]:
    """{(table's key, column's key; empty: of the table itself): title}."""
    found = {}
    for table in document.tables():
        found[table.key, ""] = table.title
        found.update({(table.key, column.key): column.title for column in table.columns})
    return found


def _titles_of_json(document: dict[str, Any]) -> dict[tuple[str, str], str]:
    found = {}
    for section in _list(document.get("sections")):
        for block in _list(section.get("blocks")):
            for key, one in [("", block), *((str(one.get("key")), one) for one in _list(block.get("columns")))]:
                if isinstance(one.get("title"), str):
                    found[str(block.get("key")), key] = one["title"]
    return found


def _figures(document: Document) -> Iterator[tuple[Key, Entry, str]]:
    for table in document.tables():
        for row in table.rows:
            name = ", ".join(
                _named(entry)
                for entry, column in zip(row, table.columns, strict=True)
                if _names(column.unit, column.key)
            )
            for entry, column in zip(row, table.columns, strict=True):
                if column.unit is not None and not _names(column.unit, column.key):
                    yield (table.key, name, column.key), settled(entry), column.unit


_NAMING = ("target", "above", "upto", "rung", "at_once")
"""Figures that say which row it is. So `hosts` of the fleet is none: its first row is the answer, whatever it says."""


def _names(unit: str | None, key: str) -> bool:
    return (unit is None and key not in ("said", "why")) or key in _NAMING


def _named(value: Any) -> str:
    """A text, or a number as both sides write it."""
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def _figures_of_json(document: dict[str, Any]) -> Iterator[tuple[Key, float]]:
    for section in _list(document.get("sections")):
        for block in _list(section.get("blocks")):
            if block.get("type") != "table" or block.get("key") == "diff":
                continue
            columns = [(str(one.get("key")), one.get("unit")) for one in _list(block.get("columns"))]
            for row in _list(block.get("rows")):
                name = ", ".join(_named(row.get(key)) for key, unit in columns if _names(unit, key))
                for key, unit in columns:
                    value = _number(row.get(key))
                    if unit is not None and not _names(unit, key) and value is not None:
                        yield (str(block.get("key")), name, key), value


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _value(entry: Entry) -> float | str | None:
    if isinstance(entry, Missing | Bound | bool):
        return None
    return entry.value if isinstance(entry, Estimate) else entry


def _number(value: Any) -> float | None:
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
