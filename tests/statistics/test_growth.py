"""Growth: exponents with intervals that know limits and the floor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics.growth import Growth, fit_growth
from proofcost.reports.statistics.sample import BadSampleError

SIZES = [100, 200, 400, 800, 1600, 3200, 6400, 12800]


def simulated(seed: int, exponent: float, noise: float, limit: float = math.inf, runs: int = 3) -> Growth:
    random = np.random.default_rng(seed)
    sizes = np.repeat(SIZES, runs).astype(float)
    layout = np.repeat(random.normal(0, noise, len(SIZES)), runs)
    costs = 0.01 * sizes**exponent * np.exp(layout + random.normal(0, noise / 10, sizes.size))
    return fit_growth(sizes, np.minimum(costs, limit), costs >= limit)


def test_an_exact_power_law_comes_back() -> None:
    found = fit_growth(SIZES, [3 * n**1.5 for n in SIZES])
    assert (found.exponent, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5), abs=1e-4)
    assert found.cost_at(1000) == pytest.approx(3 * 1000**1.5, rel=1e-4)
    assert (found.sizes, found.censored, found.below_floor, found.bends) == (8, 0, 0, False)


def test_without_censoring_it_is_the_ordinary_regression() -> None:
    from scipy.stats import linregress, t

    random = np.random.default_rng(1)
    costs = np.exp(random.normal(0, 0.1, 8)) * np.array(SIZES) ** 1.2
    theirs = linregress(np.log(SIZES), np.log(costs))
    half = t.ppf(0.975, 6) * theirs.stderr
    found = fit_growth(SIZES, costs)
    assert found.exponent == pytest.approx(theirs.slope)
    assert found.low == pytest.approx(theirs.slope - half)
    assert found.high == pytest.approx(theirs.slope + half)


def covered(limit: float, sets: int) -> float:
    hits = 0
    for seed in range(sets):
        found = simulated(seed, 1.5, 0.15, limit)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.5 <= found.high
    return hits / sets


# About two of the eight sizes end at this limit.
LIMIT = 0.01 * 5000**1.5


@pytest.mark.parametrize("limit", [math.inf, LIMIT])
def test_the_interval_covers_with_and_without_limits(limit: float) -> None:
    assert covered(limit, 80) >= 0.88


@full_simulation
@pytest.mark.parametrize("limit", [math.inf, LIMIT])
def test_the_interval_covers_in_600_sets(limit: float) -> None:
    assert 0.925 <= covered(limit, 600) <= 0.985


@pytest.mark.parametrize("seed", range(4))
def test_with_limits_it_is_the_largest_likelihood(seed: int) -> None:
    from scipy.optimize import minimize
    from scipy.stats import norm

    random = np.random.default_rng(seed)
    sizes = np.array([100.0 * 2**k for k in range(12)])
    costs = 0.01 * sizes**1.5 * np.exp(random.normal(0, 0.3, 12))
    stopped = np.array([False] * 7 + [True, False, True, True, True])
    costs[stopped] *= 0.5
    x, y = np.log(sizes) - np.log(sizes).mean(), np.log(costs)

    def loss(at: np.ndarray) -> float:
        middle, spread = at[0] + at[1] * x, math.exp(at[2])
        seen = norm.logpdf(y[~stopped], middle[~stopped], spread).sum()
        return -float(seen + norm.logsf(y[stopped], middle[stopped], spread).sum())

    best = minimize(loss, [y.mean(), 1.5, -1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12,
                                                                              "maxiter": 5000})  # fmt: skip
    found = fit_growth(sizes, costs, stopped)
    assert found.exponent == pytest.approx(best.x[1], abs=1e-4)


def test_a_limit_taken_for_a_cost_would_flatten_the_line_and_does_not() -> None:
    costs = np.minimum(0.01 * np.array(SIZES, dtype=float) ** 2, 0.01 * 1600**2)
    cut = costs == 0.01 * 1600**2
    wrong = fit_growth(SIZES, costs)
    right = fit_growth(SIZES, costs, cut)
    assert wrong.exponent is not None
    assert wrong.exponent < 1.7
    assert right.exponent == pytest.approx(2, abs=0.01)
    assert right.censored == 4


def test_costs_near_the_floor_would_flatten_the_line_and_are_left_out() -> None:
    costs = [1.0 + 1e-6 * n**2 for n in SIZES]
    found = fit_growth([*SIZES, 25600, 51200, 102400], [*costs, *(1.0 + 1e-6 * n**2 for n in (25600, 51200, 102400))],
                       floor=1.0)  # fmt: skip
    assert found.below_floor == 5
    assert found.exponent == pytest.approx(2, abs=0.05)


def test_an_exponential_bends() -> None:
    found = fit_growth(range(4, 16), [2.0**n for n in range(4, 16)])
    assert found.bends
    assert found.last_exponent is not None
    assert found.exponent is not None
    assert found.last_exponent > found.exponent + 1
    assert not simulated(3, 1.5, 0.1).bends


def test_a_straight_line_bends_once_in_a_hundred() -> None:
    assert sum(simulated(seed, 1.5, 0.1).bends for seed in range(300)) <= 9


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_units_do_not_matter(seed: int, cost_scale: float, size_scale: float) -> None:
    random = np.random.default_rng(seed)
    costs = np.exp(random.normal(0, 0.1, 8)) * np.array(SIZES) ** 1.2
    one = fit_growth(SIZES, costs)
    other = fit_growth(np.array(SIZES) * size_scale, costs * cost_scale)
    assert (other.exponent, other.low, other.high) == pytest.approx((one.exponent, one.low, one.high), rel=1e-6)


def test_runs_of_one_size_are_no_more_sizes() -> None:
    random = np.random.default_rng(4)
    costs = np.exp(random.normal(0, 0.1, 8)) * np.array(SIZES) ** 1.2
    one = fit_growth(SIZES, costs)
    many = fit_growth(np.repeat(SIZES, 50), np.repeat(costs, 50))
    assert (many.low, many.high) == pytest.approx((one.low, one.high))


def test_a_size_is_known_while_its_median_is() -> None:
    sizes = [*SIZES, 25600, 25600, 25600]
    costs = [float(n) for n in SIZES] + [25600.0, 25600.0, 20000.0]
    kept = fit_growth(sizes, costs, [False] * 10 + [True])
    assert (kept.sizes, kept.censored) == (8, 1)
    after = fit_growth(sizes, [*costs[:-1], 30000.0], [False] * 10 + [True])
    assert (after.sizes, after.censored) == (9, 0)


@pytest.mark.parametrize(
    ("sizes", "costs", "cut", "floor"),
    [
        ([], [], [], 0.0),
        ([1, 2, 3], [1, 2, 3], [False] * 3, 0.0),
        ([5] * 10, [1.0] * 10, [False] * 10, 0.0),
        (SIZES, [1.0] * 8, [True] * 8, 0.0),
        (SIZES, [1.0] * 8, [False] * 8, 1.0),
    ],
)
def test_too_few_sizes_have_no_exponent(sizes: list[float], costs: list[float], cut: list[bool], floor: float) -> None:
    found = fit_growth(sizes, costs, cut, floor)
    assert (found.exponent, found.low, found.high, found.cost_at(10), found.bends) == (None, None, None, None, False)


def test_all_equal_costs_do_not_grow() -> None:
    found = fit_growth(SIZES, [7.0] * 8)
    assert (found.exponent, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-4)


def test_bad_columns() -> None:
    with pytest.raises(BadSampleError, match="2, 1, 1 entries"):
        fit_growth([1, 2], [1.0])
    with pytest.raises(BadSampleError, match=r"sizes\[0\] is 0"):
        fit_growth([0], [1.0])
    with pytest.raises(BadSampleError, match=r"costs\[0\] is nan"):
        fit_growth([1], [math.nan])
