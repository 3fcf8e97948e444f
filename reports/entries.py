"""What an entry of a table is: its number for programs, its text for people. Every format asks here.

So all formats show the same numbers, and none reads a bound as a value or a missing figure as 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from proofcost.reports.document import Bound, Column, Entry, Estimate, Missing, Table
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import STEPS, human

NO_NUMBER = "the method gave no finite number"
OPEN = "open"
"""Stands for the end of an interval that the data do not bound."""

DIGITS = 15
"""Significant decimal digits of a written float: as many as every double keeps."""

COUNTED_BELOW = 100_000
"""Whole numbers below are shown in full: somebody counted them."""

TEXT_LIMIT = 200
"""Longest text of a cell that people see, in characters."""


def rows_of(table: Table) -> Iterator[tuple[Entry, ...]]:
    """The rows, each entry settled. Raises ValueError on a row that does not fit the columns: a fault of the report."""
    for number, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise ValueError(f"table {table.key}: row {number} has {len(row)} entries for {len(table.columns)} columns")
        yield tuple(settled(entry) for entry in row)


def settled(entry: Entry) -> Entry:
    """The entry with plain Python's numbers; what is not finite is missing, or no end of an interval."""
    if isinstance(entry, str | bool | int):
        return entry
    if isinstance(entry, Missing):
        return entry
    if isinstance(entry, Estimate):
        value = plain_number(entry.value)
        if value is None:
            return Missing(NO_NUMBER)
        low, high = (None if end is None else plain_number(end) for end in (entry.low, entry.high))
        return Estimate(value, low, high, float(entry.confidence))
    if isinstance(entry, Bound):
        value = plain_number(entry.value)
        return Missing(NO_NUMBER) if value is None else Bound(value, bool(entry.at_least))
    value = plain_number(entry)
    return Missing(NO_NUMBER) if value is None else value


def plain_number(value: float) -> int | float | None:
    """As int or float; None where it is no finite number. Takes numpy's scalars too, which are no ints of Python's."""
    value = getattr(value, "item", lambda: value)()
    if isinstance(value, int):
        return value
    value = float(value)
    return value if math.isfinite(value) else None


def number_of(entry: Entry) -> int | float | None:
    """What the entry sorts by; None where it has no number."""
    if isinstance(entry, Estimate | Bound):
        return entry.value
    return None if isinstance(entry, str | bool | Missing) else entry


def digits(value: float) -> str:
    """A number in full: integers exact, floats to 15 digits."""
    if isinstance(value, int):
        return str(value)
    short = f"{value:.{DIGITS}g}"
    return short if math.isfinite(float(short)) else repr(value)  # the largest would round up beyond all


def rounded(value: float) -> int | float:
    """The number that `digits` writes."""
    return value if isinstance(value, int) else float(digits(value))


def is_figures(column: Column) -> bool:
    """Whether the column holds figures, which stand to the right."""
    return column.unit is not None


def figure_text(value: float, unit: str | None, ascii_only: bool = False) -> str:
    """A number for people, in its unit: `1.24 s`, `1.023`, `12.3 %`."""
    if unit == "count" and value == round(value) and abs(value) < COUNTED_BELOW:
        return f"{value:,.0f}"
    if unit in STEPS:
        if abs(value) < 1000 and value != round(value):
            step = STEPS[unit][0]
            return f"{_three(value)} {step}".rstrip()
        return human(round(value), unit, ascii_only)
    if unit == "ratio":
        return f"{value:.3f}" if 0.1 <= abs(value) < 10 else _three(value)
    if unit == "share":
        return _percent(value)
    if unit == "per_second":
        return f"{_three(value)}/s"
    if unit == "money":
        return f"{value:,.2f}" if abs(value) >= 1 or value == 0 else _three(value)
    shown = str(value) if isinstance(value, int) else _three(value)
    return f"{shown} {unit}" if unit else shown


def _three(value: float) -> str:
    """Three significant digits, never as a power of ten where it can be read without."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def _percent(value: float) -> str:
    """As a percentage. What is not quite all or nothing is never shown as such."""
    for places in range(3, DIGITS):
        shown = f"{100 * value:.{places}g}"
        if shown != "100" or value == 1:
            break
    return f"{shown} %"


def interval_text(estimate: Estimate, unit: str | None, ascii_only: bool = False) -> str:
    """`0.981 .. 1.065`; an end that the data do not bound is `open`."""
    ends = (OPEN if end is None else figure_text(end, unit, ascii_only) for end in (estimate.low, estimate.high))
    return " .. ".join(ends)


def entry_text(entry: Entry, unit: str | None, ascii_only: bool = False, limit: int | None = TEXT_LIMIT) -> str:
    """A settled entry for people, harmless to look at on a terminal. A missing figure's reason is not in it."""
    if isinstance(entry, Missing):
        return entry.shown
    if isinstance(entry, str):
        return inert_outside(entry, limit, ascii_only)
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, Bound):
        sign = (">=" if ascii_only else "≥") if entry.at_least else ("<=" if ascii_only else "≤")
        return f"{sign} {figure_text(entry.value, unit, ascii_only)}"
    if isinstance(entry, Estimate):
        shown = figure_text(entry.value, unit, ascii_only)
        if entry.low is None and entry.high is None:
            return shown
        return f"{shown} ({interval_text(entry, unit, ascii_only)})"
    return figure_text(entry, unit, ascii_only)


def confidences(table: Table) -> str:
    """Which confidence the table's intervals have: `95 %`; empty without any interval."""
    found = {
        entry.confidence
        for row in table.rows
        for entry in row
        if isinstance(entry, Estimate) and (entry.low is not None or entry.high is not None)
    }
    return " or ".join(_percent(one) for one in sorted(found))


def first_rows(table: Table, most: int | None) -> Sequence[int]:
    """Numbers of the rows that a short format shows, in its order: the marked ones, then from the top."""
    count = len(table.rows)
    marked = [at for at in range(count) if at in table.marked]
    order = [*marked, *(at for at in range(count) if at not in table.marked)]
    return order if most is None else order[:most]
