"""Groups become cells: what a loop over the groups says, whatever their order, their types, and what is null."""

from typing import Any, cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from proofcost.reports.binned import lists
from proofcost.reports.cell_sql import Asked
from proofcost.reports.dataset import Data
from proofcost.reports.groups import Groups, coded
from proofcost.reports.where import parse

TEXTS = st.sampled_from([None, "", "?", "a", "b", "é", "日本", "a longer one"])
TIMES = st.none() | st.integers(-(2**63), 2**63 - 1)
GROUPS = st.lists(
    st.tuples(TEXTS, st.none() | st.booleans(), TEXTS, st.integers(1, 9), TIMES, TIMES, st.integers(0, 2), TEXTS),
    min_size=1,
    max_size=30,
)
NAMES = ("k0", "k1", "end", "n", "first_ns", "last_ns", "backwards", "g0")


def by_hand(rows: list[tuple[Any, ...]]) -> list[Any]:
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        flag = "?" if row[1] is None else str(row[1]).lower()
        found.setdefault(("?" if row[0] is None else row[0], flag), []).append(row)
    made = []
    for key in sorted(found):
        mine = found[key]
        ends: dict[str, int] = {}
        for row in sorted(mine, key=lambda row: row[2] or ""):
            ends[row[2] or ""] = ends.get(row[2] or "", 0) + row[3]
        first = min((row[4] for row in mine if row[4] is not None), default=None)
        last = max((row[5] for row in mine if row[5] is not None), default=None)
        sums = sum(row[3] for row in mine), sum(row[6] for row in mine)
        made.append((key, sums, list(ends.items()), first, last, {row[7] or "" for row in mine}))
    return made


@given(GROUPS, st.booleans())
def test_cells_are_what_a_loop_over_the_groups_says(rows: list[tuple[Any, ...]], dictionary: bool) -> None:
    types = (pa.string(), pa.bool_(), pa.string(), *[pa.int64()] * 4, pa.string())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    if dictionary:  # as texts that were grouped by their hashes come
        columns[0] = columns[0].dictionary_encode()
    table = pa.table(dict(zip(NAMES, columns, strict=True)))
    asked = Asked(cast("Data", None), parse([]), ("kernel", "sandbox_enforced"), (), ())
    groups = Groups(asked, table, coded(table.column("end"), ""))
    sets = groups.sets("g0")
    told = [
        (cell.key, (cell.runs, cell.backwards), list(cell.ends.items()), cell.first_ns, cell.last_ns, values)
        for cell, values in zip(groups.cells(), sets, strict=True)
    ]
    assert told == by_hand(rows)
    assert groups.sets("g0", without="") == [values - {""} for values in sets]
    single = [(text, id(values)) for values in sets if len(values) == 1 for text in values]
    assert len(set(single)) == len({text for text, _ in single})  # one set for all cells of the same
    cells, units = groups.places()
    keys = ["?" if key is None else key for key, *_ in rows]
    assert [told[cell][0][0] for cell in cells] == keys
    assert units == [()] * len(rows)


def test_units_are_told_of_each_row() -> None:
    asked = Asked(cast("Data", None), parse([]), (), ("block", "series"), ())
    table = pa.table({"u0": [3, None, 3], "u1": ["s", "s", None], "end": ["x", "x", "y"]})
    cells, units = Groups(asked, table, coded(table.column("end"), "")).places()
    assert (cells, units) == ([0, 0, 0], [("3", "s"), ("0", "s"), ("3", "0")])


LISTS = st.lists(st.none() | st.lists(st.integers(-9, 9), max_size=4), max_size=9)


@given(st.lists(LISTS, max_size=3), st.integers(0, 3))
def test_lists_come_with_their_rows_whatever_the_chunks(chunks: list[Any], skipped: int) -> None:
    column = pa.chunked_array([pa.array(chunk, pa.list_(pa.int64())) for chunk in chunks], pa.list_(pa.int64()))
    rows = [one for chunk in chunks for one in chunk][skipped:]
    found = [(row, numbers.tolist()) for row, numbers in lists(column.slice(skipped))]
    assert found == [(row, one) for row, one in enumerate(rows) if one]


@given(st.lists(st.none() | st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=3), max_size=3), max_size=6))
def test_lists_of_lists_are_one_list(rows: list[Any]) -> None:
    column = pa.chunked_array([pa.array(rows, pa.list_(pa.list_(pa.int64())))])
    found = [(row, numbers.tolist()) for row, numbers in lists(column)]
    assert found == [(row, [n for inner in one for n in inner]) for row, one in enumerate(rows) if one]


def test_what_lies_below_a_null_list_is_nobodys() -> None:
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4]), pa.array([1, 2, 3, 4]), mask=pa.array([True, False]))
    assert [(row, numbers.tolist()) for row, numbers in lists(pa.chunked_array([hidden]))] == [(1, [3, 4])]
