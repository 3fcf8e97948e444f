"""The exponent of a growth: known answers, Student's interval where nothing is censored, and what limits hide."""

import math
import random

import pytest
from scipy.stats import linregress, t

from proofcost.reports.growth import Point, fit

SIZES = (100, 200, 400, 800, 1600, 3200)


def power(exponent: float, sigma: float, chance: random.Random, sizes: tuple[int, ...] = SIZES) -> list[Point]:
    return [Point(n, 1e6 * n**exponent * math.exp(chance.gauss(0, sigma))) for n in sizes]


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5, 2.0, -1.0])
def test_a_power_law_without_noise_is_found_exactly(exponent: float) -> None:
    found = fit(power(exponent, 0, random.Random(1)))
    assert found.exponent == pytest.approx(exponent, abs=1e-12)
    assert found.low == found.high == found.exponent
    assert found.constant == pytest.approx(math.log(1e6))
    assert found.last_step == pytest.approx(exponent, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_without_censoring_it_is_least_squares_with_students_interval(seed: int) -> None:
    points = power(1.3, 0.1, random.Random(seed))
    found = fit(points)
    known = linregress([math.log(point.n) for point in points], [math.log(point.value) for point in points])
    reach = float(t.ppf(0.975, len(points) - 2)) * known.stderr
    assert found.exponent == pytest.approx(known.slope, abs=1e-5)
    assert found.constant == pytest.approx(known.intercept, abs=1e-4)
    assert found.low == pytest.approx(known.slope - reach, abs=1e-4)
    assert found.high == pytest.approx(known.slope + reach, abs=1e-4)


def censored(points: list[Point], limit: float) -> list[Point]:
    return [point if point.value < limit else Point(point.n, limit, censored=True) for point in points]


def test_a_limit_is_a_bound_and_no_value() -> None:
    """The two largest sizes ran into the limit. Taken as values they would halve the exponent."""
    points = censored(power(2.0, 0.02, random.Random(4)), 1e6 * 1000**2)
    assert sum(point.censored for point in points) == 2
    as_values = fit([Point(point.n, point.value) for point in points])
    assert as_values.exponent < 1.8
    found = fit(points)
    assert found.exponent == pytest.approx(2.0, abs=0.05)
    assert (found.values_count, found.censored_count) == (4, 2)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 2 < found.high


def test_what_was_censored_says_that_growth_is_steeper_than_the_values_alone_say() -> None:
    flat = [Point(100, 1.0), Point(200, 1.1), Point(400, 1.05), Point(800, 1.15)]
    alone = fit(flat)
    steeper = fit([*flat, Point(1600, 3.0, censored=True)])
    assert steeper.exponent > alone.exponent + 0.1


@pytest.mark.parametrize("limit", [math.inf, 1e6 * 900**1.5])
def test_the_interval_covers_the_truth_as_often_as_it_says(limit: float) -> None:
    chance = random.Random(7)
    rounds = 200
    covered = 0
    for _ in range(rounds):
        found = fit(censored(power(1.5, 0.1, chance, (*SIZES, 6400, 12800)), limit))
        covered += (found.low is None or found.low <= 1.5) and (found.high is None or found.high >= 1.5)
    assert 0.90 <= covered / rounds <= 0.99


def test_the_last_step_shows_a_growth_that_is_no_power() -> None:
    found = fit([Point(n, 2.0**n) for n in (2, 4, 8, 16)])
    assert found.last_step is not None
    assert found.last_step > 1.5 * found.exponent


def test_repetitions_of_a_size_count_once_each_and_order_does_not_matter() -> None:
    points = power(1.2, 0.05, random.Random(2))
    shuffled = points[::-1]
    assert fit(points).exponent == pytest.approx(fit(shuffled).exponent)
