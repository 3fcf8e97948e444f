"""A cell: the records of one key, reduced to what reports take of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofcost.reports.values import Values, pooled

UNKNOWN = "?"
"""In a key: the records do not tell. Taken for one and the same, and to be said."""

NO_UNIT = "0"
"""In a unit: the records do not tell."""

TOO_EARLY = "time_limit, far too early"
"""The ending of what is said to have run into its time limit, and ended before half of it: no time-out, no bound."""


@dataclass(slots=True)
class Cell:
    """The records of one key."""

    key: tuple[str, ...]
    """In the order of `by`; `?` where records do not tell."""
    runs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How many runs ended how: a verdict, `exit 1`, or why there is none (`memory_limit`, `crashed`, ...)."""
    values: dict[str, dict[tuple[str, ...], Values]] = field(default_factory=dict)
    """By metric's name, then by unit (the columns asked for as `unit`; `0` where not told). Only what there is."""
    censored: dict[str, list[int]] = field(default_factory=dict)
    """By metric's name, of runs that a limit cut off: what the figure is at least. Ascending."""
    kernels: set[str] = field(default_factory=set)
    """Digests of the binaries that ran, where known. To be read only: cells share them."""
    guarded: dict[str, set[str]] = field(default_factory=dict)
    """By guarded column: its values; an empty text where not told. To be read only: cells share them."""
    first_ns: int | None = None
    last_ns: int | None = None
    """Real time of the first start and of the last, ns since 1970."""
    backwards: int = 0
    """Runs whose wall is negative: a clock was set back under them. Their walls are none."""

    @property
    def verdict(self) -> str | None:
        """What all of its runs came to; None where they differ."""
        return next(iter(self.ends)) if len(self.ends) == 1 else None


def merged(cells: Sequence[Cell]) -> Cell:
    """At least one cell, of unlike keys, as one; its key is the first one's."""
    if len(cells) == 1:
        return cells[0]
    made = Cell(cells[0].key)
    for cell in cells:
        made.runs += cell.runs
        made.ends += cell.ends
        made.kernels |= cell.kernels
        made.backwards += cell.backwards
        for name, of_metric in cell.values.items():
            known = made.values.setdefault(name, {})
            known.update(
                {unit: pooled([known[unit], one]) if unit in known else one for unit, one in of_metric.items()}
            )
        for name, bounds in cell.censored.items():
            made.censored[name] = sorted([*made.censored.get(name, ()), *bounds])
        made.guarded = {name: values | made.guarded.get(name, set()) for name, values in cell.guarded.items()}
    made.first_ns = min((cell.first_ns for cell in cells if cell.first_ns is not None), default=None)
    made.last_ns = max((cell.last_ns for cell in cells if cell.last_ns is not None), default=None)
    return made
