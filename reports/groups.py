"""Groups that the database found -> cells.

There may be a group or two for each of tens of thousands of cells. So columns are taken as a whole (numpy), and a cell
costs few steps of Python: groups are put in the order of their cells, where those of one cell stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from proofcost.reports.cell import NO_UNIT, UNKNOWN, Cell
from proofcost.reports.cell_sql import Asked, text_of
from proofcost.reports.statistics.sample import Ints

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of few different texts."""

    texts: list[str]
    """Ascending, each once."""
    codes: Ints
    """Of each row the place of its text."""

    def each(self, rows: Ints) -> list[str]:
        """The texts of these rows."""
        return [self.texts[code] for code in self.codes[rows].tolist()]


def encoded(column: pa.ChunkedArray) -> tuple[list[object], Ints]:
    """The values of a column, null as the last of them, and of each row the place of its value."""
    whole = column.combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    values = whole.dictionary.to_pylist()
    return [*values, None], whole.indices.fill_null(len(values)).to_numpy().astype(np.int64)


def coded(column: pa.ChunkedArray, missing: str) -> Coded:
    """A column's values as texts; `missing` for null."""
    values, places = encoded(column)
    said = [text_of(value, missing) for value in values]
    texts = sorted(set(said))
    ranks = {text: at for at, text in enumerate(texts)}
    return Coded(texts, np.array([ranks[text] for text in said], np.int64)[places])


class Groups:
    """The groups in the order of their cells, and in that of how their runs ended."""

    def __init__(self, asked: Asked, table: pa.Table, ends: Coded) -> None:
        """`table`: a row for each group. `ends`: how the runs of each ended."""
        self._table = table
        self._ends = ends
        self._keys = [coded(table.column(name), UNKNOWN) for name in asked.keys]
        self._units = [coded(table.column(name), NO_UNIT) for name in asked.units]
        self._order = np.lexsort([ends.codes, *(key.codes for key in reversed(self._keys))])
        new = np.zeros(table.num_rows, bool)
        new[:1] = True
        for key in self._keys:
            new |= self._differs(key)
        self._starts = np.flatnonzero(new)
        """Where each cell's groups begin, in the order."""
        self._new = new
        self._cells = np.cumsum(new) - 1
        """The number of each group's cell, in the order."""

    def _differs(self, column: Coded) -> Booleans:
        """In the order: whether a group differs from the one before it."""
        codes = column.codes[self._order]
        differs: Booleans = np.diff(codes, prepend=codes[:1]) != 0
        return differs

    def cells(self) -> list[Cell]:
        """In the order of their keys, with their runs, how those ended, and when they began."""
        first = self._order[self._starts]
        keys = zip(*(key.each(first) for key in self._keys), strict=True) if self._keys else [()] * first.size
        facts = zip(
            keys, self._sum("n"), self._extreme("first_ns", np.minimum), self._extreme("last_ns", np.maximum),
            self._sum("backwards"), strict=True,
        )  # fmt: skip
        made = [
            Cell(key, runs, first_ns=first_ns, last_ns=last_ns, backwards=backwards)
            for key, runs, first_ns, last_ns, backwards in facts
        ]
        self._count_ends(made)
        return made

    def _count_ends(self, cells: Sequence[Cell]) -> None:
        starts = np.flatnonzero(self._new | self._differs(self._ends))
        counts = np.add.reduceat(self._column("n"), starts)
        texts = self._ends.each(self._order[starts])
        for at, end, count in zip(self._cells[starts].tolist(), texts, counts.tolist(), strict=True):
            cells[at].ends[end] = count

    def _column(self, name: str) -> Ints:
        """Integers, in the order; 0 for null."""
        column = self._table.column(name).cast(pa.int64()).fill_null(0)
        numbers: Ints = column.to_numpy()[self._order]
        return numbers

    def _sum(self, name: str) -> list[int]:
        """Of each cell."""
        sums: list[int] = np.add.reduceat(self._column(name), self._starts).tolist()
        return sums

    def _extreme(self, name: str, least_or_most: np.ufunc) -> list[int | None]:
        """Of each cell; None where no group of it has any."""
        numbers = self._column(name)
        there = self._table.column(name).is_valid().to_numpy()[self._order]
        # What is null takes the place of the other end, which any number is less than, or more than.
        limit = np.iinfo(np.int64)
        numbers = np.where(there, numbers, limit.max if least_or_most is np.minimum else limit.min)
        found = least_or_most.reduceat(numbers, self._starts).tolist()
        told = np.logical_or.reduceat(there, self._starts).tolist()
        return [number if any_told else None for number, any_told in zip(found, told, strict=True)]

    def sets(self, name: str, without: str | None = None) -> list[set[str]]:
        """Of each cell the texts of a column, an empty one for null; all but `without`. Cells of the same single text
        share one set."""
        column = coded(self._table.column(name), "")
        codes = column.codes[self._order]
        least, most = (extreme.reduceat(codes, self._starts) for extreme in (np.minimum, np.maximum))
        single = [{text} - {without} for text in column.texts]
        made = [single[code] for code in least.tolist()]
        ends = [*self._starts[1:].tolist(), codes.size]
        for at in np.flatnonzero(least != most).tolist():
            found = np.unique(codes[self._starts[at] : ends[at]]).tolist()
            made[at] = {column.texts[code] for code in found} - {without}
        return made

    def places(self) -> tuple[list[int], Sequence[tuple[str, ...]]]:
        """Of each row of the table the number of its cell, and its unit."""
        cells = np.empty_like(self._cells)
        cells[self._order] = self._cells
        rows = np.arange(cells.size)
        units = list(zip(*(unit.each(rows) for unit in self._units), strict=True))
        return cells.tolist(), units or [()] * cells.size
