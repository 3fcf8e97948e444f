"""How a kernel's cost grows with the size of what it checks, from a bench's records.

`statistics/growth.py` fits the power law. Here it is decided what counts: every repetition that ended by itself has its
cost; one that was stopped by its time limit (for memory: by its memory limit) is a bound at that limit; sizes at which
most repetitions crashed, or were stopped by another limit, say nothing and are left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from proofcost.harness.decode import plain
from proofcost.harness.merged import Record, integer_at, text_at
from proofcost.reports.bench_cells import COMPARED_TO_FLOOR, ENDS, Cell, Pick, cells
from proofcost.reports.calibration import is_null
from proofcost.reports.statistics.growth import LEAST_SIZES, fit_growth
from proofcost.reports.statistics.growth import Growth as Fit
from proofcost.reports.verdicts import Verdict, verdict

STOPPED = {"ns": Verdict.TIMEOUT, "bytes": Verdict.MEMORY}
"""Which end makes a figure of a unit a lower bound."""


@dataclass(frozen=True, slots=True)
class Point:
    """One size, as a chart shows it: its median cost, or with `censored` the bound that it lies above."""

    n: int
    value: float
    censored: bool = False
    below_floor: bool = False


@dataclass(frozen=True, slots=True)
class Growth:
    """One kernel on one family. Without an exponent in `fit`, `why` says why there is none."""

    kernel: str
    family: str
    points: tuple[Point, ...]
    fit: Fit
    why: str | None = None


def growths(records: Iterable[Record], pick: Pick, unit: str, floor: int | None) -> list[Growth]:
    """Every kernel on every generated family of a bench. `unit`: of the figure, ns or bytes. Needs scipy."""
    families: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells(records):
        family = text_at(cell.records[0].started, "bench", "workload", "family")
        # The null program reads nothing: it is there for the floor.
        if family is not None and cell.key.co_running == 1 and not is_null(cell.records[0]):
            threads = cell.key.threads
            name = cell.key.kernel if threads in (None, 1) else f"{cell.key.kernel} ({threads} threads)"
            families.setdefault((plain(family), name), []).append(cell)
    return [_growth(kernel, family, group, pick, unit, floor) for (family, kernel), group in families.items()]


def without_cost(records: Iterable[Record]) -> list[str]:
    """The sizes that a kernel did not come to the end of in most repetitions, other than at its time limit."""
    lines = []
    for cell in cells(records):
        mute = {one: count for one, count in cell.verdicts.items() if one not in (*ENDS, Verdict.TIMEOUT)}
        if sum(mute.values()) * 2 > len(cell.records):
            how = ", ".join(f"{count} {one.value}" for one, count in mute.items())
            lines.append(f"{cell.key.kernel} on {cell.key.work}: {how} of {len(cell.records)}")
    return lines


def _growth(kernel: str, family: str, group: list[Cell], pick: Pick, unit: str, floor: int | None) -> Growth:
    sizes: list[float] = []
    costs: list[float] = []
    bounds: list[bool] = []
    points = []
    for cell in group:
        n = integer_at(cell.records[0].started, "bench", "workload", "n")
        seen = _seen(cell, pick, unit)
        if n is None or not seen:
            continue
        points.append(_point(n, seen, floor))
        sizes += [n] * len(seen)
        costs += [cost for cost, _ in seen]
        bounds += [is_bound for _, is_bound in seen]
    fit = fit_growth(sizes, costs, bounds, floor or 0)
    why = None
    if fit.exponent is None:
        why = f"{fit.sizes} of {len(points)} sizes have a value to fit"
        why += f", {fit.below_floor} are below {COMPARED_TO_FLOOR} times the floor" if fit.below_floor else ""
        why += f", {fit.censored} were stopped by a limit" if fit.censored else ""
        why += f": {LEAST_SIZES} are needed"
    return Growth(kernel, family, tuple(sorted(points, key=lambda point: point.n)), fit, why)


def _seen(cell: Cell, pick: Pick, unit: str) -> list[tuple[int, bool]]:
    """(cost, whether that is a bound) of each repetition that says anything; none where most of them say nothing."""
    seen = [(value, False) for value in cell.values(pick) if value > 0]
    mute = 0
    for record in cell.records:
        said = verdict(record)
        if said is STOPPED[unit]:
            bound = _bound(record, unit)
            if bound is not None:
                seen.append((bound, True))
        elif said not in ENDS:
            mute += 1
    return [] if mute * 2 > len(cell.records) else seen


def _bound(record: Record, unit: str) -> int | None:
    return integer_at(record.started, "limits", "timeout_ns" if unit == "ns" else "memory_limit_bytes")


def _point(n: int, seen: list[tuple[int, bool]], floor: int | None) -> Point:
    # What was stopped lies above its bound, wherever: above all values.
    ranked = sorted(math.inf if is_bound else cost for cost, is_bound in seen)
    value = statistics.median_low(ranked)
    if math.isinf(value):
        return Point(n, min(cost for cost, is_bound in seen if is_bound), censored=True)
    return Point(n, value, below_floor=floor is not None and value < COMPARED_TO_FLOOR * floor)
