"""How cost grows with size: the exponent of a power law, with an interval that knows limits and the floor.

ln cost = a + b ln size + noise over sizes, one point a size (its median run): what a size has of its own (cache,
layout) does not shrink with runs. A size whose median ran into a limit says "at least" (Tobin 1958); sizes under ten
times the start-up floor are left out, since a constant bends the line. The interval is the profile likelihood's with
Student's correction: without censoring it is the ordinary regression's. A bend means that there is no one exponent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.comparison import ratio_of_logs
from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, not_negative, positive, share

LEAST_SIZES = 4
"""Sizes that ran to their end and above the floor, for any exponent."""

FLOORS = 10
"""A cost under so many times the floor is mostly start-up."""

BEND_P = 0.01

_LEAST_SPREAD = 1e-6
"""On the log scale: keeps the likelihood of exact counts finite."""


@dataclass(frozen=True, slots=True)
class Growth:
    exponent: float | None
    low: float | None
    high: float | None
    """None with fewer than `LEAST_SIZES` sizes; an end alone where the data do not bound it on that side."""
    log_factor: float | None
    """a: ln of the cost at size 1, by extrapolation."""
    spread: float | None
    """Deviation of sizes about the line, log scale."""
    sizes: int
    """Used, complete ones."""
    censored: int
    """Used, of which only a lower bound is known."""
    below_floor: int
    """Left out."""
    bend_p: float | None
    """Of a straight line against a parabola, from complete sizes; None with fewer than 5, or an exact line."""
    last_exponent: float | None
    """The parabola's exponent at the largest complete size; None where `bend_p` is."""
    confidence: float

    @property
    def bends(self) -> bool:
        """True: no power law; the cost grows faster (or slower) with size than `exponent` says."""
        return self.bend_p is not None and self.bend_p < BEND_P

    def cost_at(self, size: float) -> float | None:
        """By the line; None without one."""
        if self.exponent is None or self.log_factor is None:
            return None
        return ratio_of_logs(self.log_factor + self.exponent * math.log(size))


def fit_growth(
    sizes: Numbers, costs: Numbers, censored: ArrayLike | None = None, floor: float = 0.0, confidence: float = 0.95
) -> Growth:
    """Of runs, in three columns of one length: size and cost above 0; `censored`: stopped by a limit, the cost being
    what was reached. `floor`: cost of doing nothing, in the costs' unit. Raises BadSampleError for anything else."""
    share(confidence, "confidence")
    x, y = positive(sizes, "sizes"), positive(costs, "costs")
    cut = np.zeros(y.size, dtype=bool) if censored is None else np.asarray(censored, dtype=bool)
    not_negative([floor], "floor")
    if not x.size == y.size == cut.size:
        raise BadSampleError(f"sizes, costs, censored: {x.size}, {y.size}, {cut.size} entries; one of each a run")
    points = [(size, *_median(y[x == size], cut[x == size])) for size in np.unique(x).tolist()]
    # A bound below the floor is no bound either.
    used = [point for point in points if point[1] >= FLOORS * floor]
    whole = [(size, cost) for size, cost, is_bound in used if not is_bound]
    bounds = [(size, cost) for size, cost, is_bound in used if is_bound]
    counts = (len(whole), len(bounds), len(points) - len(used))
    if len(whole) < LEAST_SIZES:
        return Growth(None, None, None, None, None, *counts, None, None, confidence)
    done, bound = np.log(np.array(whole)), np.log(np.array(bounds).reshape(-1, 2))
    bend_p, last = _bend(done)
    model = _Line(done, bound)
    a, b, spread = model.fit()
    low, high = model.interval(b, confidence)
    return Growth(b, low, high, a, spread, *counts, bend_p, last, confidence)


def _median(costs: Floats, cut: np.ndarray) -> tuple[float, bool]:
    """Median cost, and whether that is a lower bound only: a run that was cut might have ended anywhere above."""
    order = np.lexsort((cut, costs))  # what ended by itself at a limit's very value comes before what was cut there
    lower, upper = order[(costs.size - 1) // 2], order[costs.size // 2]
    middle = ratio_of_logs((math.log(costs[lower]) + math.log(costs[upper])) / 2)
    return middle, bool(cut[order[: costs.size // 2 + 1]].any())


def _bend(points: Floats) -> tuple[float | None, float | None]:
    n = len(points)
    if n < LEAST_SIZES + 1:
        return None, None
    from scipy.stats import t

    x = points[:, 0] - points[:, 0].mean()
    design = np.stack([np.ones(n), x, x * x], axis=1)
    fitted, *_ = np.linalg.lstsq(design, points[:, 1], rcond=None)
    residuals = points[:, 1] - design @ fitted
    variance = float(residuals @ residuals) / (n - 3)
    if variance < _LEAST_SPREAD**2 and abs(fitted[2]) < _LEAST_SPREAD:
        return None, None
    error = math.sqrt(max(variance, _LEAST_SPREAD**2) * float(np.linalg.inv(design.T @ design)[2, 2]))
    return float(2 * t.sf(abs(fitted[2]) / error, n - 3)), float(fitted[1] + 2 * fitted[2] * x.max())


class _Line:
    """Likelihood of a line through complete points and lower bounds, both (n, 2) of (ln size, ln cost)."""

    def __init__(self, done: Floats, bound: Floats) -> None:
        self._center = float(done[:, 0].mean())
        self._x, self._y = done[:, 0] - self._center, done[:, 1]
        self._bound_x, self._bound_y = bound[:, 0] - self._center, bound[:, 1]

    def fit(self) -> tuple[float, float, float]:
        """(a, b, spread as the regression gives it)."""
        b = float(self._x @ self._y / (self._x @ self._x))
        if self._bound_x.size:
            from scipy.optimize import minimize_scalar

            # Concave in b once the rest is at its best; bounds can only pull it up or down within the data's own range.
            reach = 1 + 10 * (abs(b) + 1)
            found = minimize_scalar(
                lambda slope: -self._best(slope)[0], bounds=(b - reach, b + reach), method="bounded",
                options={"xatol": 1e-9},
            )  # fmt: skip
            b = float(found.x)
        _, level, spread = self._best(b)
        n = self._x.size
        return level - b * self._center, b, spread * math.sqrt(n / (n - 2))

    def interval(self, b: float, confidence: float) -> tuple[float | None, float | None]:
        from scipy.optimize import brentq
        from scipy.stats import t

        n = self._x.size
        quantile = float(t.ppf((1 + confidence) / 2, n - 2))
        drop = n / 2 * math.log1p(quantile * quantile / (n - 2))
        best = self._best(b)[0]

        def beyond(slope: float) -> float:
            return best - self._best(slope)[0] - drop

        ends: list[float | None] = []
        for direction in (-1.0, 1.0):
            step = 1e-6
            while beyond(b + direction * step) < 0 and step < 1e3:
                step *= 2
            ends.append(
                float(brentq(beyond, b, b + direction * step, xtol=1e-10))
                if beyond(b + direction * step) >= 0
                else None
            )
        return ends[0], ends[1]

    def _best(self, b: float) -> tuple[float, float, float]:
        """(log-likelihood, level at the center, spread) at the best level and spread for slope `b`."""
        rest = self._y - b * self._x
        level, spread = float(rest.mean()), max(_LEAST_SPREAD, float(rest.std()))
        if not self._bound_x.size:
            return self._likelihood(rest, level, spread), level, spread
        from scipy.special import log_ndtr

        limits = self._bound_y - b * self._bound_x
        count = rest.size + limits.size
        for _ in range(2000):
            # Expectation: a value beyond its limit, given level and spread (normal, cut off from below).
            z = (limits - level) / spread
            hazard = np.exp(-z * z / 2 - 0.5 * math.log(2 * math.pi) - log_ndtr(-z))
            first = level + spread * hazard
            second = spread**2 + level**2 + spread * (limits + level) * hazard
            new_level = (float(rest.sum()) + float(first.sum())) / count
            squares = float((rest * rest).sum()) + float(second.sum())
            new_spread = math.sqrt(max(_LEAST_SPREAD**2, squares / count - new_level**2))
            moved = abs(new_level - level) + abs(new_spread - spread)
            level, spread = new_level, new_spread
            if moved < 1e-12 * (1 + spread):
                break
        return self._likelihood(rest, level, spread) + float(log_ndtr(-(limits - level) / spread).sum()), level, spread

    def _likelihood(self, rest: Floats, level: float, spread: float) -> float:
        return -rest.size * math.log(spread) - float(((rest - level) ** 2).sum()) / (2 * spread**2)
