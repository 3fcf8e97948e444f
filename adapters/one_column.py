"""Formats with one bare number for what we know in several ways: one way for all of a figure, and never a bound."""

from __future__ import annotations

from collections.abc import Sequence

from proofcost.harness.columns import Row

BOUNDS = ("lower_bound", "upper_bound", "contradicted")
"""Statuses of a figure that formats with a bare number cannot tell from a measured one."""
WALL = ("wall_program", "wall_command")
CPU = ("cpu_tree", "cpu_waited")


def figure(row: Row, column: str) -> int | None:
    """A figure that may stand as a bare number; None where it is missing, a bound, or below 0 (a clock set back)."""
    name = {"instructions_u": "instructions:u", "cycles_u": "cycles:u"}.get(column, column)
    value: int | None = row.get(column)
    if value is not None and value < 0:
        return None
    return None if (row.get("weak") or {}).get(name) in BOUNDS else value


def column_of_most(rows: Sequence[Row], columns: Sequence[str]) -> str | None:
    """The column that most of the rows have, the earlier of two alike; None where none has any.

    A median or a sum over some programs' walls and other whole commands' would be the figure of neither.
    """
    counts = [sum(figure(row, column) is not None for row in rows) for column in columns]
    best = max(counts, default=0)
    return columns[counts.index(best)] if best else None
