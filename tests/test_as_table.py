"""CSV and Parquet: the numbers themselves, one kind a column; nothing in a text is a formula or a control."""

import csv
import io

import pyarrow.parquet as pq
import pytest
from documents import HOSTILE, hostile, small
from hypothesis import given
from hypothesis import strategies as st

from proofcost.reports.as_table import csv_file, flat_columns, parquet_file
from proofcost.reports.document import Bound, Column, Entry, Estimate, Missing, Table


def table(*entries: Entry, unit: str | None = None, key: str = "a") -> Table:
    return Table("t", "t", (Column(key, "A", unit),), [(entry,) for entry in entries])


def test_a_csv_has_the_numbers_and_tells_bounds_and_reasons_apart() -> None:
    head, *rows = csv.reader(io.StringIO(csv_file(small().tables()[0]).decode()))
    assert head == [
        "case", "wall", "wall_at_least", "wall_missing", "memory", "memory_missing",
        "ratio", "ratio_low", "ratio_high", "ratio_confidence", "ratio_missing", "finding",
    ]  # fmt: skip
    assert rows[0] == ["a", "1500000000", "", "", "20000000", "", "1.1", "1.05", "1.16", "0.95", "", "regressed"]
    assert rows[2] == ["c", "", "10000000000", "", "1234567", "", "", "", "", "", "n too small", "inconclusive"]
    assert rows[3] == ["d", "", "", "timed out", "", "", "1", "", "", "0.95", "", "inconclusive"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1"])
def test_no_text_is_a_formula(text: str) -> None:
    (_, (cell,)) = csv.reader(io.StringIO(csv_file(table(text)).decode()))
    assert cell[0] not in "=+-@\t\r"
    assert cell.startswith(("'", "\\x"))


def test_a_negative_number_stays_one() -> None:
    assert csv_file(table(-5, -0.5, unit="count")) == b"a\r\n-5\r\n-0.5\r\n"


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_text_is_one_cell_without_a_control(texts: list[str]) -> None:
    made = csv_file(table(*texts)).decode()
    rows = list(csv.reader(io.StringIO(made, newline="")))
    assert [len(row) for row in rows if row] == [1] * (1 + len(texts))
    assert all(char.isprintable() for char in made.replace("\r\n", ""))


def test_columns_whose_names_would_meet_are_kept_apart() -> None:
    columns = (Column("r", "r", "ratio"), Column("r_low", "own", "ratio"))
    made = Table("t", "t", columns, [(Estimate(1.0, 0.9, 1.1, 0.95), 7)])
    assert [one.key for one in flat_columns(made)] == ["r", "r_low_", "r_high", "r_confidence", "r_low"]


def test_parquet_keeps_types_integers_and_units() -> None:
    read = pq.read_table(io.BytesIO(parquet_file(small().tables()[0])))
    types = {field.name: str(field.type) for field in read.schema}
    assert types["case"] == "string"
    assert types["wall"] == "int64"
    assert types["wall_at_least"] == "int64"
    assert types["ratio"] == "double"
    assert read.schema.field("wall").metadata == {b"unit": b"ns"}
    assert read.column("wall").to_pylist() == [1_500_000_000, 900_000_000, None, None]
    assert read.column("ratio_low").to_pylist() == [1.05, 0.97, None, None]


@pytest.mark.parametrize(
    ("entries", "kind", "values"),
    [
        ((2**62, 1), "int64", [2**62, 1]),
        ((2**70, 1), "double", [float(2**70), 1.0]),
        ((1, 0.5), "double", [1.0, 0.5]),
        ((True, False), "bool", [True, False]),
        ((Missing("x"), Missing("y")), "double", [None, None]),
        ((Bound(1.0), 2), "int64", [None, 2]),
    ],
)
def test_parquet_takes_every_kind_of_figure(entries: tuple[Entry, ...], kind: str, values: list[object]) -> None:
    read = pq.read_table(io.BytesIO(parquet_file(table(*entries, unit="count"))))
    assert str(read.schema.field("a").type) == kind
    assert read.column("a").to_pylist() == values


def test_texts_and_numbers_in_one_column_are_texts() -> None:
    read = pq.read_table(io.BytesIO(parquet_file(table("x", 3, 0.5, True, "\ud800"))))
    assert read.column("a").to_pylist() == ["x", "3", "0.5", "true", "\\ud800"]


def test_a_table_without_rows_still_names_its_columns() -> None:
    assert csv_file(table()) == b"a\r\n"
    assert pq.read_table(io.BytesIO(parquet_file(table()))).column_names == ["a"]


def test_a_hostile_name_is_inert_in_both() -> None:
    made = csv_file(hostile().tables()[0])
    assert b"\x1b" not in made
    assert "\u202e" not in made.decode()
    read = pq.read_table(io.BytesIO(parquet_file(hostile().tables()[0])))
    assert read.column("name").to_pylist()[0] == HOSTILE.replace("\n", "\\x0a").replace("\x1b", "\\x1b").replace(
        "\u202e", "\\u202e"
    ).replace("\x00", "\\x00")
