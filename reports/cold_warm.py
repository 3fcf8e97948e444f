"""Runs that read their input from storage (cold) and runs that found it in memory (warm) are never put together.

Records tell by a label `cache`, or by how much was read from storage (cells.py). Runs that do not tell go with whatever
the case has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proofcost.reports.cells import UNKNOWN, Cell, merged

COLD, WARM = "cold", "warm"
CACHE = "cache"
"""The key's name in cells.py."""


@dataclass(frozen=True, slots=True)
class Alike:
    """The runs of both sides of one case that may be compared."""

    base: Cell
    head: Cell
    apart: int
    """Runs left apart."""
    why: str | None
    """Set where there are no two sides alike: the whole sides stand here then, and are not to be compared."""


def alike(base: Mapping[str, Cell], head: Mapping[str, Cell]) -> Alike:
    """From the cells of one case by state, at least one a side: warm with warm where both have any, else cold with
    cold."""
    runs = sum(cell.runs for side in (base, head) for cell in side.values())
    for state in (WARM, COLD):
        other = COLD if state == WARM else WARM
        if all(state in side or (UNKNOWN in side and other not in side) for side in (base, head)):
            chosen = [merged([side[one] for one in (state, UNKNOWN) if one in side]) for side in (base, head)]
            return Alike(chosen[0], chosen[1], runs - chosen[0].runs - chosen[1].runs, None)
    sides = [merged(list(side.values())) for side in (base, head)]
    states = [" and ".join(sorted(set(side) - {UNKNOWN})) for side in (base, head)]
    return Alike(sides[0], sides[1], 0, f"base ran {states[0]}, head {states[1]}")
