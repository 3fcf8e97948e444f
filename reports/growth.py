"""How a kernel's cost grows with the size of what it checks: the exponent of a power law, with an interval.

Model: ln cost = a + k ln n + e, e normal, fitted by maximum likelihood to one point for each size n (the median of its
repetitions; repetitions of one size say nothing about how cost goes from size to size).

- *Censoring.* A size at which runs were stopped by a limit of time (or of memory, for memory) is a lower bound: it
  enters with the probability of lying beyond it (Tobin's model, Econometrica 26, 1958), neither as a value nor not at
  all.
- *The floor.* Points below ten times the floor are mostly start-up, which does not grow: they are left out and counted.
- *Interval.* Profile likelihood, with the threshold n ln(1 + t^2 / (n - 2)), t of n - 2 degrees of freedom, n the
  number of points that are values: without censoring that is Student's interval of the slope exactly.

A power law may be the wrong model: `last_step`, the slope between the two largest sizes alone, tells.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from proofcost.harness.decode import plain
from proofcost.harness.merged import Record, integer_at, text_at
from proofcost.reports.bench_cells import COMPARED_TO_FLOOR, ENDS, Cell, Pick, cells
from proofcost.reports.verdicts import Verdict, verdict

LEAST_POINTS = 3
LEVEL = 0.95
STOPPED = {"ns": (Verdict.TIMEOUT,), "bytes": (Verdict.MEMORY,)}
"""Which end makes a figure of a unit a lower bound."""


@dataclass(frozen=True, slots=True)
class Point:
    """One size: its cost (a median), or with `censored` the bound that it lies above."""

    n: int
    value: float
    censored: bool = False
    below_floor: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """`exponent` k and `constant` a of ln cost = a + k ln n; an end of the interval is None where it is open."""

    exponent: float
    constant: float
    low: float | None
    high: float | None
    values_count: int
    censored_count: int
    last_step: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """One kernel on one family. `fit` is None where `why` says why."""

    kernel: str
    family: str
    points: tuple[Point, ...]
    fit: Fit | None
    why: str | None = None


def growths(records: Iterable[Record], pick: Pick, unit: str, floor: int | None) -> list[Growth]:
    """Every kernel on every generated family of a bench. `unit`: of the figure, ns or bytes."""
    families: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells(records):
        family = text_at(cell.records[0].started, "bench", "workload", "family")
        if family is not None and cell.key.co_running == 1:
            name = (
                cell.key.kernel if cell.key.threads in (None, 1) else f"{cell.key.kernel} ({cell.key.threads} threads)"
            )
            families.setdefault((plain(family), name), []).append(cell)
    found = []
    for (family, kernel), group in families.items():
        made = (_point(cell, pick, unit, floor) for cell in group)
        points = tuple(sorted((point for point in made if point is not None), key=lambda point: point.n))
        found.append(_growth(kernel, family, points))
    return found


def _point(cell: Cell, pick: Pick, unit: str, floor: int | None) -> Point | None:
    n = integer_at(cell.records[0].started, "bench", "workload", "n")
    if n is None:
        return None
    values = cell.values(pick)
    stopped = [record for record in cell.records if verdict(record) in STOPPED[unit]]
    others = [record for record in cell.records if verdict(record) not in (*ENDS, *STOPPED[unit])]
    if others and len(others) * 2 > len(cell.records):
        return None  # it crashed, or was killed by another limit: no cost, and no bound for it either
    if len(stopped) * 2 >= len(values) + len(stopped):
        bounds = [bound for record in stopped if (bound := _bound(record, unit)) is not None]
        return Point(n, min(bounds), censored=True) if bounds else None
    if not values:
        return None
    # Runs that were stopped are the largest: the median of all is that of the values, from further up.
    ranked = sorted(values) + [math.inf] * len(stopped)
    value = statistics.median_low(ranked)
    return Point(n, value, below_floor=floor is not None and value < COMPARED_TO_FLOOR * floor)


def _bound(record: Record, unit: str) -> int | None:
    return integer_at(record.started, "limits", "timeout_ns" if unit == "ns" else "memory_limit_bytes")


def _growth(kernel: str, family: str, points: tuple[Point, ...]) -> Growth:
    used = [point for point in points if not point.below_floor]
    values = [point for point in used if not point.censored]
    if len({point.n for point in values}) < LEAST_POINTS:
        small = sum(point.below_floor for point in points)
        censored = sum(point.censored for point in points)
        why = f"{len(values)} of {len(points)} sizes have a value to fit"
        why += f", {small} are below {COMPARED_TO_FLOOR} times the floor" if small else ""
        why += f", {censored} were stopped by a limit" if censored else ""
        return Growth(kernel, family, points, None, f"{why}: {LEAST_POINTS} are needed")
    return Growth(kernel, family, points, fit(used))


def fit(points: Sequence[Point]) -> Fit:
    """The power law through the points: at least three values of different n. Needs scipy (extra `reports`)."""
    values = [point for point in points if not point.censored]
    censored = [point for point in points if point.censored]
    x = [math.log(point.n) for point in values]
    y = [math.log(point.value) for point in values]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    spread = math.fsum((one - mean_x) ** 2 for one in x)
    slope = math.fsum((one - mean_x) * (other - mean_y) for one, other in zip(x, y, strict=True)) / spread
    largest = max(values, key=lambda point: point.n)
    before = max((point for point in values if point.n < largest.n), key=lambda point: point.n)
    last_step = math.log(largest.value / before.value) / math.log(largest.n / before.n)
    residuals = [other - mean_y - slope * (one - mean_x) for one, other in zip(x, y, strict=True)]
    exact = math.fsum(one * one for one in residuals)
    bounds = [(math.log(point.n), math.log(point.value)) for point in censored]
    beyond = all(mean_y + slope * (one - mean_x) > bound for one, bound in bounds)
    if exact <= 1e-18 * max(1.0, math.fsum(one * one for one in y)) and beyond:
        # Points on one line: the likelihood has no maximum, and the line no error.
        return Fit(slope, mean_y - slope * mean_x, slope, slope, len(values), len(censored), last_step)
    exponent, constant, low, high = _maximum(x, y, bounds, slope, exact, spread)
    return Fit(exponent, constant, low, high, len(values), len(censored), last_step)


def _maximum(
    x: Sequence[float],
    y: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    slope: float,
    exact: float,
    spread: float,
) -> tuple[float, float, float | None, float | None]:
    """(k, a, low, high): where the likelihood is largest, and where its profile falls to the threshold."""
    import numpy as np
    from scipy.optimize import brentq, minimize, minimize_scalar
    from scipy.stats import norm, t

    count = len(x)
    middle = statistics.fmean(x)
    at, over = np.asarray(x) - middle, np.asarray(y)
    bound_at = np.asarray([one for one, _ in bounds]) - middle
    bound = np.asarray([limit for _, limit in bounds])

    def best(k: float) -> tuple[float, float]:
        """(largest log likelihood with this slope, the constant there, at the middle of x)."""

        def negative(parameters: Any) -> tuple[float, Any]:
            """Minus the log likelihood, and its gradient by the constant and by ln sigma."""
            constant, sigma = float(parameters[0]), math.exp(float(parameters[1]))
            inside = (over - constant - k * at) / sigma
            outside = (bound - constant - k * bound_at) / sigma
            hazard = np.exp(norm.logpdf(outside) - norm.logsf(outside))
            value = float(np.sum(norm.logpdf(inside))) - count * math.log(sigma) + float(np.sum(norm.logsf(outside)))
            by_constant = (float(np.sum(inside)) + float(np.sum(hazard))) / sigma
            by_scale = float(np.sum(inside * inside)) - count + float(np.sum(outside * hazard))
            return -value, np.array([-by_constant, -by_scale])

        residuals = over - k * at
        scale = math.log(max(float(np.std(residuals)), 1e-9))
        found = minimize(negative, (float(np.mean(residuals)), scale), jac=True, method="BFGS", options={"gtol": 1e-8})
        return -float(found.fun), float(found.x[0])

    error = math.sqrt(max(exact, 1e-12) / max(1, count - 2) / spread)
    wide = 8 * error + 0.5
    found = minimize_scalar(lambda k: -best(k)[0], bracket=(slope - error, slope + error), options={"xtol": 1e-9})
    exponent = float(found.x)
    top, constant = best(exponent)
    quantile = float(t.ppf((1 + LEVEL) / 2, count - 2))
    threshold = top - count / 2 * math.log1p(quantile**2 / (count - 2))

    def end(direction: int) -> float | None:
        reach = wide
        for _ in range(12):
            if best(exponent + direction * reach)[0] < threshold:
                outer = exponent + direction * reach
                return float(brentq(lambda k: best(k)[0] - threshold, exponent, outer, xtol=1e-7))
            reach *= 2
        return None

    return exponent, constant - exponent * middle, end(-1), end(+1)
