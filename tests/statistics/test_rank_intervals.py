"""Rank intervals: ties that noise cannot separate, and how many runs would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics.rank_intervals import rank_intervals
from proofcost.reports.statistics.sample import BadSampleError


def contest(random: np.random.Generator, means: list[float], runs: int, heavy: bool = False) -> dict[str, np.ndarray]:
    found = {}
    for i, mean in enumerate(means):
        logs = random.normal(mean, 0.02, runs)
        if heavy:
            logs += (random.random(runs) < 0.1) * np.log1p(random.exponential(0.1, runs))
        found[f"s{i}"] = np.exp(logs)
    return found


def test_far_apart_ranks_are_single_numbers() -> None:
    found = rank_intervals(contest(np.random.default_rng(0), [0, 1, 2], 5))
    assert [(r.name, r.low, r.high) for r in found] == [("s0", 1, 1), ("s1", 2, 2), ("s2", 3, 3)]
    assert all(r.tied == () and r.runs_to_separate is None for r in found)


def noisy(mean: float) -> np.ndarray:
    """Six runs about `mean`, on the log scale, with deviation 0.02."""
    return np.exp(mean + 0.02 * np.array([-1.5, -0.5, -0.2, 0.2, 0.5, 1.5]) / 0.95)


def test_ties_are_not_transitive() -> None:
    found = {r.name: r for r in rank_intervals({"a": noisy(0), "b": noisy(0.025), "c": noisy(0.05)})}
    assert found["a"].tied == ("b",)
    assert found["b"].tied == ("a", "c")
    assert [(r.low, r.high) for r in found.values()] == [(1, 2), (1, 3), (2, 3)]


def test_the_runs_that_are_asked_for_separate() -> None:
    """Four times in five, if the two differ as they looked to, under the noise that was seen."""
    first = rank_intervals({"a": noisy(0), "b": noisy(0.01)})
    needed = first[0].runs_to_separate
    assert first[0].tied == ("b",)
    assert first[1].runs_to_separate is None
    assert needed is not None
    spread = float(np.log(noisy(0)).std(ddof=1))
    random = np.random.default_rng(3)
    told = 0
    for _ in range(200):
        again = {"a": np.exp(random.normal(0, spread, needed)), "b": np.exp(random.normal(0.01, spread, needed))}
        told += not rank_intervals(again)[0].tied
    assert 0.72 <= told / 200 <= 0.9


@pytest.mark.parametrize("heavy", [False, True])
def test_equals_are_told_apart_in_one_contest_of_twenty_at_most(heavy: bool) -> None:
    random = np.random.default_rng(4)
    wrong = sum(
        any(r.low > 1 or r.high < 10 for r in rank_intervals(contest(random, [0.0] * 10, 5, heavy))) for _ in range(300)
    )
    assert wrong / 300 <= 0.08


@full_simulation
def test_all_true_ranks_are_held_at_once() -> None:
    random = np.random.default_rng(5)
    means = sorted(random.normal(0, 0.05, 12).tolist())
    held = 0
    for _ in range(2000):
        found = rank_intervals(contest(random, means, 6))
        held += all(r.low <= int(r.name[1:]) + 1 <= r.high for r in found)
    assert held / 2000 >= 0.945


def test_exact_counts_rank_exactly_and_equal_ones_tie() -> None:
    found = rank_intervals({"a": [100] * 3, "b": [100] * 3, "c": [101] * 3})
    assert [(r.name, r.low, r.high, r.tied) for r in found] == [
        ("a", 1, 2, ("b",)),
        ("b", 1, 2, ("a",)),
        ("c", 3, 3, ()),
    ]
    assert found[0].runs_to_separate is None


def test_one_run_each_tells_nothing_apart() -> None:
    found = rank_intervals({"a": [1.0], "b": [100.0]})
    assert [(r.low, r.high, r.runs_to_separate) for r in found] == [(1, 2, None), (1, 2, None)]


def test_none_and_one() -> None:
    assert rank_intervals({}) == ()
    (only,) = rank_intervals({"a": [1.0, 2.0]})
    assert (only.low, only.high, only.tied) == (1, 1, ())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.floats(0.5, 2), min_size=1, max_size=5), min_size=1, max_size=6), st.floats(1e-6, 1e6))
def test_neither_order_nor_unit_matters_and_each_rank_holds_its_place(costs: list[list[float]], scale: float) -> None:
    named = {f"s{i}": values for i, values in enumerate(costs)}
    found = rank_intervals(named)
    assert all(r.low <= place <= r.high for place, r in enumerate(found, 1))
    assert rank_intervals(dict(reversed(list(named.items())))) == found
    scaled = rank_intervals({name: [v * scale for v in values] for name, values in named.items()})
    assert [(r.low, r.high) for r in sorted(scaled, key=lambda r: r.name)] == [
        (r.low, r.high) for r in sorted(found, key=lambda r: r.name)
    ]


def test_bad_costs() -> None:
    with pytest.raises(BadSampleError, match="costs of a: none"):
        rank_intervals({"a": []})
    with pytest.raises(BadSampleError, match=r"costs of a\[1\] is -1"):
        rank_intervals({"a": [1.0, -1.0]})
    with pytest.raises(BadSampleError, match="3001 entries"):
        rank_intervals({str(i): [1.0] for i in range(3001)})
