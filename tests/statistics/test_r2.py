"""R2: variances by level. Known answers are libkalibera's own tests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from proofcost.reports.statistics.levels import nested_levels, repetitions
from proofcost.reports.statistics.sample import BadSampleError

THREE = [[[9, 5], [8, 3]], [[10, 6], [7, 11]], [[1, 12], [2, 4]]]
TWO = [[9, 5, 8, 3], [10, 6, 7, 11], [1, 12, 2, 4]]


def test_three_levels() -> None:
    found = nested_levels(THREE)
    assert found.mean == 6.5
    assert [round(level.variance_of_means, 1) for level in found.levels] == [16.5, 2.6, 3.6]
    assert [level.own_variance for level in found.levels] == pytest.approx([16.5, 0, 2.27], abs=0.005)
    negative = found.levels[1].negative
    assert negative == pytest.approx(-5.7, abs=0.05)
    assert [level.negative is None for level in found.levels] == [True, False, True]


def test_two_levels() -> None:
    found = nested_levels(TWO)
    assert [round(level.variance_of_means, 1) for level in found.levels] == [12.7, 3.6]
    assert [round(level.own_variance, 1) for level in found.levels] == [12.7, 0.4]


def test_simulated_variances_come_back() -> None:
    random = np.random.default_rng(1)
    builds, processes, iterations = 200, 20, 10
    values = (
        100
        + random.normal(0, 3, (builds, 1, 1))
        + random.normal(0, 2, (builds, processes, 1))
        + random.normal(0, 1, (builds, processes, iterations))
    )
    own = [level.own_variance for level in nested_levels(values).levels]
    assert own == pytest.approx([1, 4, 9], rel=0.2)


def test_repetitions_balance_cost_against_variance() -> None:
    random = np.random.default_rng(2)
    values = 100 + random.normal(0, 1, (400, 1)) + random.normal(0, 3, (400, 50))
    levels = nested_levels(values)
    # A build costs 16 runs: sqrt(16 * 9 / 1) = 12 of them.
    plan = repetitions(levels, [1, 16], 0.01)
    assert plan.counts[0] == pytest.approx(12, abs=1)
    assert plan.top == math.ceil((1.959964 / 1) ** 2 * (1 + 9 / 12)) or plan.top in (6, 7, 8)


def test_a_level_that_adds_nothing_needs_no_repetition_above_the_one_below() -> None:
    plan = repetitions(nested_levels(THREE), [1, 10, 100], 0.3)
    # Processes add nothing of their own: repeat iterations as wanted, and one process a build is enough.
    assert plan.counts == (None, 1)


def test_constant_values_need_one_of_each_and_two_at_the_top() -> None:
    levels = nested_levels(np.full((3, 2), 5.0))
    assert [level.own_variance for level in levels.levels] == [0, 0]
    assert levels.half_width() == 0
    assert repetitions(levels, [1, 1], 0.1).counts == (1,)
    assert repetitions(levels, [1, 1], 0.1).top == 2


def test_the_mean_is_covered_by_its_half_width() -> None:
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(400):
        values = 10 + random.normal(0, 1, (6, 1)) + random.normal(0, 1, (6, 4))
        levels = nested_levels(values)
        hits += abs(levels.mean - 10) <= levels.half_width()
    assert hits / 400 == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "at least 2"),
        ([1.0], "at least 2"),
        ([[1.0], [2.0]], "at least 2"),
        ([[1.0, 2.0], [3.0]], "not the same number"),
        ([[1.0, math.nan], [3.0, 4.0]], r"levels\[1\] is nan"),
        (3.0, "at least 2"),
    ],
)
def test_bad_experiments(values: object, text: str) -> None:
    with pytest.raises(BadSampleError, match=text):
        nested_levels(values)  # type: ignore[arg-type]


def test_costs_must_match_the_levels() -> None:
    with pytest.raises(BadSampleError, match="1 for 2 levels"):
        repetitions(nested_levels(TWO), [1], 0.1)
    with pytest.raises(BadSampleError, match=r"costs\[1\] is -1"):
        repetitions(nested_levels(TWO), [1, -1], 0.1)
