"""Runs that read their input from storage (cold) and runs that found it in memory (warm) are never put together.

Records tell by a label `cache`, or by how much was read from storage (cells.py). Runs that do not tell go with whatever
the case has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proofcost.reports.cells import UNKNOWN, Cell, merged
from proofcost.reports.units import plural

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


def costs_of_warm(cells: Sequence[Cell]) -> tuple[list[Cell], list[str]]:
    """Cells of (kernel, submission, state) as cells of (kernel, submission), and what is to be said of them.

    All runs count with their ends. Figures are those of warm runs (and such as do not tell) where every kernel on the
    submission has some, else those of all.
    """
    sides: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        sides.setdefault((cell.key[0], cell.key[1]), {})[cell.key[2]] = cell
    cold_only = {key[1] for key, side in sides.items() if COLD in side and not _warm(side)}
    made: list[Cell] = []
    apart = among = 0
    for key, side in sides.items():
        if len(side) == 1 and COLD not in side:  # nothing to put together or to leave out: most have one state
            (cell,) = side.values()
            cell.key = key
            made.append(cell)
            continue
        cell = merged(list(side.values()))
        cold = side[COLD].runs if COLD in side else 0
        if cold and key[1] not in cold_only:
            cell = replace(cell, values=merged(_warm(side)).values)
            apart += cold
        elif cold:
            among += cold
        made.append(replace(cell, key=key))
    said = []
    if apart:
        said.append(
            f"{plural(apart, 'run')} that read the input from storage (cold) stand beside ones that found it in memory "
            "(warm): counted by their ends, costs are those of warm runs; all together: --pool cache"
        )
    if among and len({state for side in sides.values() for state in side} - {UNKNOWN}) > 1:
        said.append(
            f"{plural(among, 'run')} read the input from storage (cold) on submissions that some kernel has no warm "
            "run of: their costs are those of all runs, cold and warm, and a cold one pays for the storage"
        )
    return made, said


def _warm(side: Mapping[str, Cell]) -> list[Cell]:
    """The cells that are not cold, as long as they have any figure."""
    found = [cell for state, cell in side.items() if state != COLD]
    return found if any(cell.values for cell in found) else []
