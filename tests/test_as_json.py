"""JSON, CSV and HTML of any document carry the same numbers; what is no number is none anywhere."""

import csv
import io
import json
import math
from html.parser import HTMLParser
from typing import Any

import pytest
from documents import hostile, small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proofcost.reports import as_html, as_json, as_table
from proofcost.reports.document import Bound, Column, Document, Entry, Estimate, Missing, Section, Table
from proofcost.reports.entries import NO_NUMBER

REALS = st.floats(allow_nan=False, allow_infinity=False)
FIGURES = st.one_of(
    st.integers(-(10**20), 10**20),
    REALS,
    st.builds(Missing, st.text(min_size=1, max_size=8)),
    st.builds(Estimate, REALS, st.none() | REALS, st.none() | REALS, st.just(0.95)),
    st.builds(Bound, REALS, st.booleans()),
    st.just(""),
)
UNITS = st.sampled_from(["ns", "bytes", "count", "ratio", "share", "per_second", "money", ""])


@st.composite
def documents(draw: st.DrawFn) -> Document:
    units = draw(st.lists(UNITS, min_size=1, max_size=3))
    columns = [Column("name", "name"), *(Column(f"f{at}", f"f{at}", unit) for at, unit in enumerate(units))]
    row = st.tuples(st.text(max_size=8), *(FIGURES for _ in units))
    return small(sections=(Section("s", (Table("t", "t", columns, draw(st.lists(row, min_size=1, max_size=5))),)),))


class Cells(HTMLParser):
    """Attributes of each cell of the first table's body."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[dict[str, str | None]]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tbody":
            self.inside = True
        elif tag == "tr" and self.inside:
            self.rows.append([])
        elif tag == "td" and self.inside:
            self.rows[-1].append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self.inside = False


def numbers_of_json(entry: Any) -> dict[str, float]:
    if isinstance(entry, dict):
        return {key: value for key, value in entry.items() if key != "missing" and value is not None}
    return {} if isinstance(entry, str) else {"value": entry}


def numbers_of_csv(row: dict[str, str], key: str) -> dict[str, float]:
    parts = {"value": key, **{name: f"{key}_{name}" for name in ("low", "high", "confidence", "at_least", "at_most")}}
    return {name: float(row[column]) for name, column in parts.items() if row.get(column)}


def numbers_of_html(cell: dict[str, str | None]) -> dict[str, float]:
    found = {
        name: float(cell[f"data-{name}"] or "") for name in ("low", "high", "confidence") if f"data-{name}" in cell
    }
    if "data-v" in cell:
        found[cell.get("data-bound") or "value"] = float(cell["data-v"] or "")
    return found


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_json_csv_and_html_carry_the_same_numbers(document: Document) -> None:
    (table,) = document.tables()
    told = json.loads(as_json.render(document))["sections"][0]["blocks"][0]["rows"]
    written = list(csv.DictReader(io.StringIO(as_table.csv_file(table).decode(), newline="")))
    page = Cells()
    page.feed(as_html.render(document).decode())
    assert len(told) == len(written) == len(page.rows) == len(table.rows)
    for at, row in enumerate(told):
        for number, column in enumerate(table.columns[1:], 1):
            expected = {name: float(value) for name, value in numbers_of_json(row[column.key]).items()}
            assert numbers_of_csv(written[at], column.key) == expected
            assert numbers_of_html(page.rows[at][number]) == expected


def entry_of(entry: Any) -> Any:
    document = small(sections=(Section("s", (Table("t", "t", (Column("a", "a", "ns"),), ((entry,),)),)),))
    return json.loads(as_json.render(document))["sections"][0]["blocks"][0]["rows"][0]["a"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (math.nan, {"missing": NO_NUMBER}),
        (math.inf, {"missing": NO_NUMBER}),
        (Bound(math.inf), {"missing": NO_NUMBER}),
        (Estimate(math.nan, 1.0, 2.0, 0.95), {"missing": NO_NUMBER}),
        (Estimate(1.0, -math.inf, math.nan, 0.95), {"value": 1.0, "low": None, "high": None, "confidence": 0.95}),
        (0, 0),
        (True, True),
        ("", ""),
        (2**70, 2**70),
        (0.1 + 0.2, 0.3),
        (1.23456789012345, 1.23456789012345),
        (Bound(5.0, at_least=False), {"at_most": 5.0}),
    ],
)
def test_no_number_is_missing_and_zero_is_zero(entry: Entry, told: Any) -> None:
    assert entry_of(entry) == told


def test_numpys_numbers_are_numbers() -> None:
    import numpy as np

    assert entry_of(np.int64(3)) == 3
    assert entry_of(np.float32(0.5)) == 0.5
    assert entry_of(np.float64("nan")) == {"missing": NO_NUMBER}
    assert entry_of(Estimate(np.float64(1.5), None, np.float64(2), 0.95))["high"] == 2.0


def test_a_json_file_is_ascii_whatever_stands_in_it() -> None:
    made = as_json.render(hostile())
    assert made.isascii()
    assert b"\x1b" not in made
    assert json.loads(made)["title"] == hostile().title, "a program gets the text as it is"
