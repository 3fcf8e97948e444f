"""R4: the suite in one figure. Known answer: Fleming & Wallace 1986."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics.sample import BadSampleError
from proofcost.reports.statistics.suite import geometric_mean, suite_ratio

R = [417, 83, 66, 39449, 772]
M = [244, 70, 153, 33527, 368]
Z = [134, 70, 135, 66000, 369]


def relative(machine: list[int], to: list[int]) -> list[float]:
    return [a / b for a, b in zip(machine, to, strict=True)]


def test_fleming_and_wallace() -> None:
    assert round(geometric_mean(relative(M, R)), 3) == 0.857
    assert round(geometric_mean(relative(Z, R)), 3) == 0.850
    assert round(geometric_mean(relative(R, M)), 2) == 1.17
    assert round(geometric_mean(relative(Z, M)), 3) == 0.991
    # Arithmetic means contradict one another, which is why they are never used.
    assert [round(np.mean(relative(a, b)), 2) for a, b in ((M, R), (Z, R), (R, M), (Z, M))] == [1.01, 1.07, 1.32, 1.08]


costs = st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4)


@settings(deadline=None)
@given(st.lists(costs, min_size=2, max_size=5))
def test_the_order_of_kernels_does_not_depend_on_the_reference(kernels: list[list[float]]) -> None:
    for reference, other in itertools.combinations(kernels, 2):
        by_one = [geometric_mean(np.divide(kernel, reference)) for kernel in kernels]
        by_other = [geometric_mean(np.divide(kernel, other)) for kernel in kernels]
        assert np.divide(by_one, by_one[0]) == pytest.approx(np.divide(by_other, by_other[0]))


def suite(logs: np.ndarray) -> dict[str, list[float]]:
    return {f"s{i}": [float(np.exp(value))] for i, value in enumerate(logs)}


@pytest.mark.parametrize("n", [6, 12, 40])
def test_the_interval_covers(n: int) -> None:
    random = np.random.default_rng(n)
    hits = 0
    for _ in range(200):
        found = suite_ratio(suite(random.normal(0.03, 0.1, n)), resamples=999)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= math.exp(0.03) <= found.high
    assert 0.91 <= hits / 200 <= 0.995


NOISE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "light": lambda random, n: random.normal(0, 0.1, n),
    "heavy": lambda random, n: random.standard_t(3, n) * 0.05,
    "skewed": lambda random, n: random.exponential(0.1, n) - 0.1,
}


@full_simulation
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [6, 10, 20, 60])
def test_the_interval_covers_in_2000_suites(n: int, noise: str) -> None:
    random = np.random.default_rng(n)
    hits = 0
    for _ in range(2000):
        found = suite_ratio(suite(0.03 + NOISE[noise](random, n)), resamples=999)
        hits += found.low is not None and found.high is not None and found.low <= math.exp(0.03) <= found.high
    assert 0.92 <= hits / 2000 <= 0.99


def test_ratios_of_one_submission_are_no_replicates() -> None:
    """40 kernels on each of 6 submissions are 6 units, not 240."""
    random = np.random.default_rng(4)
    effects = random.normal(0, 0.2, 6)
    many = {f"s{i}": list(np.exp(e + random.normal(0, 0.01, 40))) for i, e in enumerate(effects)}
    one = {name: [geometric_mean(values)] for name, values in many.items()}
    found, expected = suite_ratio(many), suite_ratio(one)
    assert found.submissions == 6
    assert (found.ratio, found.low, found.high) == pytest.approx((expected.ratio, expected.low, expected.high))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1, 1), min_size=6, max_size=9), st.randoms())
def test_neither_the_order_nor_the_direction_matters(logs: list[float], random: object) -> None:
    forward = suite_ratio(suite(np.array(logs)), resamples=499)
    shuffled = list(logs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = suite_ratio(suite(np.array(shuffled)), resamples=499)
    assert (forward.ratio, forward.low, forward.high) == (again.ratio, again.low, again.high)
    back = suite_ratio(suite(-np.array(logs)), resamples=499)
    assert forward.ratio is not None
    assert back.ratio == pytest.approx(1 / forward.ratio)


def test_few_or_no_submissions_have_no_interval() -> None:
    assert (suite_ratio({}).ratio, suite_ratio({}).submissions) == (None, 0)
    few = suite_ratio({f"s{i}": [1.1 + i / 10] for i in range(5)})
    assert few.ratio is not None
    assert (few.low, few.high) == (None, None)


def test_all_alike_have_the_interval_of_one_point() -> None:
    same = suite_ratio({f"s{i}": [1.25] for i in range(8)})
    assert (same.ratio, same.low, same.high) == pytest.approx((1.25, 1.25, 1.25))


def test_all_alike_but_one_never_gives_nan() -> None:
    odd = suite_ratio({f"s{i}": [1.0] for i in range(20)} | {"odd": [3.0]})
    assert odd.ratio is not None
    for end in (odd.low, odd.high):
        assert end is None or math.isfinite(end)


def test_the_same_seed_gives_the_same_interval() -> None:
    ratios = suite(np.random.default_rng(9).normal(0, 0.1, 15))
    assert suite_ratio(ratios, seed=3) == suite_ratio(ratios, seed=3)
    assert suite_ratio(ratios, seed=3) != suite_ratio(ratios, seed=4)


@pytest.mark.parametrize(
    ("ratios", "text"),
    [({"a": []}, "ratios of a: none"), ({"a": [0.0]}, r"ratios of a\[0\] is 0"), ({"a": [math.nan]}, "is nan")],
)
def test_bad_ratios(ratios: dict[str, list[float]], text: str) -> None:
    with pytest.raises(BadSampleError, match=text):
        suite_ratio(ratios)
    with pytest.raises(BadSampleError, match="there are none"):
        geometric_mean([])
