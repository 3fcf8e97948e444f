"""C6: the retry ladder."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.reports.statistics.retry_ladder import best_ladder, ladder_cost
from proofcost.reports.statistics.sample import BadSampleError
from proofcost.reports.statistics.survival import Survival, survival_curve


def curve(amounts: list[float] | np.ndarray) -> Survival:
    return survival_curve(amounts, [False] * len(amounts))


def test_nine_small_and_one_large() -> None:
    jobs = curve([1.0] * 9 + [10.0])
    one, two = ladder_cost(jobs, [10]), ladder_cost(jobs, [1, 10])
    assert (one.cost, one.attempts, one.failing) == (10, 1, 0)
    # All try at 1, one in ten again at 10.
    assert two.cost == pytest.approx(1 + 0.1 * 10)
    assert two.attempts == pytest.approx(1.1)
    assert ladder_cost(jobs, [1, 10], killed_after=0.5).cost == pytest.approx(0.9 + 0.05 + 1)
    assert ladder_cost(jobs, [1]).failing == pytest.approx(0.1)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=9), st.integers(1, 3), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_best_ladder_is_the_best_of_all(amounts: list[int], rungs: int, killed_after: float) -> None:
    jobs, top = curve([float(a) for a in amounts]), float(max(amounts))
    below = sorted({float(a) for a in amounts if a < top})
    found = best_ladder(jobs, rungs, top, killed_after)
    if not below:
        assert found is None
        return
    assert found is not None
    every = [
        ladder_cost(jobs, [*chosen, top], killed_after).cost
        for size in range(rungs)
        for chosen in itertools.combinations(below, size)
    ]
    assert found.cost == pytest.approx(min(every))
    # Attempt i + 1 uses a strictly larger limit.
    assert all(a < b for a, b in itertools.pairwise(found.limits))
    assert found.limits[-1] == top
    assert len(found.limits) <= rungs


def test_a_heavy_tail_gains_and_a_narrow_one_does_not() -> None:
    random = np.random.default_rng(0)
    heavy = best_ladder(curve(random.lognormal(0, 1, 2000)), 3, 30.0)
    assert heavy is not None
    assert heavy.cost < 15
    narrow = best_ladder(curve(random.uniform(9, 10, 2000)), 3, 10.0)
    assert narrow is not None
    assert narrow.cost > 9.9


def test_kills_censor() -> None:
    censored = survival_curve([1.0] * 8 + [2.0] * 2, [False] * 8 + [True] * 2)
    assert ladder_cost(censored, [1, 2]).failing == pytest.approx(0.2)
    with pytest.raises(BadSampleError, match=r"limits\[1\] is 4: beyond the largest amount seen"):
        ladder_cost(censored, [1, 4])
    with pytest.raises(BadSampleError, match="top is 4"):
        best_ladder(censored, 2, 4.0)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ([], "at least one rung"),
        ([2.0, 2.0], r"limits\[1\] is 2: not more than the one before"),
        ([3.0, 2.0], "not more"),
        ([0.0], r"limits\[0\] is 0"),
        ([math.nan], "nan"),
    ],
)
def test_limits_that_are_no_ladder(limits: list[float], text: str) -> None:
    with pytest.raises(BadSampleError, match=text):
        ladder_cost(curve([1.0, 2.0]), limits)


def test_nothing_to_choose_from() -> None:
    assert best_ladder(curve([5.0, 5.0]), 3, 5.0) is None
    assert best_ladder(survival_curve([5.0], [True]), 3, 5.0) is None
    with pytest.raises(BadSampleError, match="beyond the largest"):
        ladder_cost(survival_curve([], []), [1.0])
    with pytest.raises(BadSampleError, match="killed_after is 2"):
        ladder_cost(curve([1.0]), [1.0], killed_after=2)
