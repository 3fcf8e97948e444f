"""R5: when a cost changed. Known answers: the Nile, Otava's test data (statistics.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics.autocorrelation import dependence
from proofcost.reports.statistics.change_points import change_points, pettitt
from proofcost.reports.statistics.counted_steps import counted_history
from proofcost.reports.statistics.history import history
from proofcost.reports.statistics.sample import BadSampleError

PUBLISHED = json.loads(Path(__file__).with_name("published_series.json").read_text(encoding="utf-8"))
NILE: list[int] = PUBLISHED["nile"]
TIGERBEETLE: list[int] = PUBLISHED["tigerbeetle"]
# Otava's test: ten values near 1, ten near 0.5.
HALVED = [1.02, 0.95, 0.99, 1.00, 1.12, 1.00, 1.01, 0.98, 1.01, 0.96]
HALVED += [0.50, 0.51, 0.48, 0.48, 0.55, 0.50, 0.49, 0.51, 0.50, 0.49]


def places(values: list[int] | list[float] | np.ndarray, block: int = 1) -> list[int]:
    return [change.index for change in change_points(values, block)]


class TestKnownAnswers:
    def test_the_nile_changed_once_after_28_years(self) -> None:
        index, k, p = pettitt(NILE)
        assert (index, k) == (28, 1617)
        assert p == pytest.approx(3.6e-7, rel=0.01)
        assert places(NILE) == [28]
        assert places(NILE, block=5) == [28]
        found = history(NILE, 0.02)
        assert [step.index for step in found.steps] == [28]
        assert [np.mean(NILE[segment.start : segment.end]) for segment in found.segments] == pytest.approx(
            [1097.8, 850.0], abs=0.05
        )
        (step,) = found.steps
        assert step.low is not None
        assert step.high is not None
        assert step.low < step.ratio < step.high < 1
        assert step.ratio == pytest.approx(850.0 / 1097.8, rel=0.02)

    def test_ten_values_near_1_then_ten_near_a_half(self) -> None:
        assert places(HALVED) == [10]
        (step,) = history(HALVED, 0.02).steps
        assert step.ratio == pytest.approx(0.5, abs=0.02)

    def test_tigerbeetle(self) -> None:
        """Otava itself says [15, 61, 71, 95, 117, 131, 142, 148, 192, 212, 260] (its w30, p 0.001)."""
        assert places(TIGERBEETLE, block=1) == [15, 61, 71, 95, 117, 138, 192, 260]
        assert places(TIGERBEETLE, block=10) == [71, 192]

    def test_otavas_14_points_are_just_too_few_for_its_second_step(self) -> None:
        """A split 8 : 6 has p 0.0019 among all orders: 2 of C(14, 7) are better placed, 4 of C(14, 6) as good."""
        values = [0.3, 2.4, 1.5, -0.9, -0.5, 99.7, 98.3, 99.1, 149.0, 149.7, 149.5, 149.1, 148.8, 150.0]
        assert places(values) == []
        (change,) = change_points(values, max_p=0.003)
        assert change.index == 8
        assert change.p == pytest.approx(2 / math.comb(14, 7) + 4 / math.comb(14, 6), abs=0.0012)


def ar(random: np.random.Generator, n: int, phi: float = 0.7) -> np.ndarray:
    noise = random.normal(0, 0.02 * math.sqrt(1 - phi * phi), n + 50)
    values = np.zeros(n + 50)
    for i in range(1, n + 50):
        values[i] = phi * values[i - 1] + noise[i]
    return values[50:]


NOISE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "light": lambda random, n: random.normal(0, 0.02, n),
    "heavy": lambda random, n: (
        random.normal(0, 0.02, n) + (random.random(n) < 0.1) * np.log1p(random.exponential(0.1, n))
    ),
    "bimodal": lambda random, n: random.normal(0, 0.005, n) + 0.04 * (random.random(n) < 0.5),
    "dependent": ar,
}


def alarms(noise: str, series: int) -> int:
    """Of flat series of 200 points, how many have a step."""
    random = np.random.default_rng(20)
    return sum(len(history(np.exp(NOISE[noise](random, 200)), 1e-9, seed=i).steps) > 0 for i in range(series))


class TestSimulated:
    @pytest.mark.parametrize("noise", NOISE)
    def test_flat_series_stay_flat(self, noise: str) -> None:
        assert alarms(noise, 30) <= 1

    @full_simulation
    @pytest.mark.parametrize("noise", NOISE)
    def test_1000_flat_series_have_at_most_10_alarms(self, noise: str) -> None:
        assert alarms(noise, 1000) <= 10

    @pytest.mark.parametrize("noise", ["light", "heavy"])
    def test_a_step_of_3_percent_is_found(self, noise: str) -> None:
        random = np.random.default_rng(21)
        found = 0
        for i in range(12):
            logs = NOISE[noise](random, 200)
            logs[100:] += 0.03
            steps = history(np.exp(logs), 0.01, seed=i).steps
            found += any(abs(step.index - 100) <= 10 for step in steps)
        assert found >= 10

    def test_a_step_does_not_blunt_the_next_one(self) -> None:
        """rustc-perf#1339: a 1 % step inflated the noise of its next 50 commits; here each segment has its own."""
        random = np.random.default_rng(22)
        logs = random.normal(0, 0.002, 100)
        logs[25:] += 0.01
        logs[60:] += 0.01
        found = history(np.exp(logs), 0.005)
        assert [step.index for step in found.steps] == pytest.approx([25, 60], abs=1)
        assert [step.ratio for step in found.steps] == pytest.approx([1.01, 1.01], abs=0.002)
        assert max(segment.spread for segment in found.segments) < 0.004

    def test_a_step_that_recovered_is_listed_all_the_same(self) -> None:
        random = np.random.default_rng(23)
        logs = random.normal(0, 0.01, 90)
        logs[30:60] += 0.15
        found = history(np.exp(logs), 0.02)
        assert [step.index for step in found.steps] == [30, 60]
        assert [step.ratio > 1 for step in found.steps] == [True, False]

    @pytest.mark.parametrize(("n", "start", "end"), [(40, 15, 28), (60, 20, 32), (100, 40, 60)])
    def test_a_short_step_in_the_middle_that_recovered_is_listed_with_both_its_ends(
        self, n: int, start: int, end: int
    ) -> None:
        """Pettitt's statistic has no good single split there."""
        for seed in range(5):
            costs = np.exp(np.random.default_rng(seed).normal(0, 0.005, n))
            costs[start:end] *= 2
            found = history(costs, 0.02, block=1, seed=seed)
            # Ranks place an end, and they know no distance: it may stand a point or two off.
            assert [step.index for step in found.steps] == pytest.approx([start, end], abs=2)
            assert [step.ratio for step in found.steps] == pytest.approx([2, 0.5], rel=0.02)

    def test_a_bump_in_a_long_series_is_found_on_the_coarser_grid(self) -> None:
        costs = np.exp(np.random.default_rng(27).normal(0, 0.01, 1200))
        costs[590:610] *= 1.5
        assert [step.index for step in history(costs, 0.02, block=1).steps] == pytest.approx([590, 610], abs=3)

    def test_two_odd_points_in_the_middle_are_no_bump(self) -> None:
        costs = np.exp(np.random.default_rng(28).normal(0, 0.01, 60))
        costs[30:32] *= 3
        assert history(costs, 0.02).steps == ()

    def test_the_interval_of_a_step_covers_its_ratio(self) -> None:
        random = np.random.default_rng(24)
        hits = found = 0
        for i in range(40):
            logs = random.normal(0, 0.02, 80)
            logs[40:] += 0.1
            for step in history(np.exp(logs), 0.02, seed=i).steps:
                assert step.low is not None
                assert step.high is not None
                found += 1
                hits += step.low <= math.exp(0.1) <= step.high
        assert found >= 38  # now and then noise looks dependent, and 80 points are too few
        assert hits / found >= 0.85

    @pytest.mark.parametrize(("phi", "block"), [(0.0, 1), (0.7, 9)])
    def test_the_block_follows_the_dependence(self, phi: float, block: int) -> None:
        random = np.random.default_rng(25)
        found = [dependence(ar(random, 400, phi)) for _ in range(40)]
        assert np.median([d.block for d in found]) == pytest.approx(block, abs=3 if phi else 0)
        assert np.median([d.phi for d in found]) == pytest.approx(phi, abs=0.06)

    def test_steps_are_not_taken_for_dependence(self) -> None:
        random = np.random.default_rng(26)
        logs = random.normal(0, 0.01, 400) + np.repeat([0, 0.1, 0.05, 0.2], 100)
        assert dependence(logs).block <= 2


class TestProperties:
    def test_one_spike_of_10x_gives_nothing(self) -> None:
        random = np.random.default_rng(30)
        for at in (0, 1, 20, 38, 39):
            costs = np.exp(random.normal(0, 0.01, 40))
            costs[at] *= 10
            assert history(costs, 0.005).steps == ()

    def test_two_odd_points_at_an_end_are_no_segment(self) -> None:
        values = [float(i % 7) for i in range(98)]
        assert places([*values, 50.0, 51.0]) == []
        # Ten are one; where it starts, chance has two points of the cycle's upper end join it.
        assert places([*values, *np.arange(50.0, 60.0)]) == [96]

    def test_lists_and_arrays_give_the_same(self) -> None:
        assert (
            change_points(TIGERBEETLE)
            == change_points(np.array(TIGERBEETLE))
            == change_points([float(v) for v in TIGERBEETLE])
        )
        assert history(NILE, 0.02) == history(np.array(NILE), 0.02)

    @settings(deadline=None, max_examples=15)
    @given(st.integers(0, 1000), st.floats(1e-6, 1e6))
    def test_the_unit_does_not_matter(self, seed: int, scale: float) -> None:
        random = np.random.default_rng(seed)
        costs = np.exp(random.normal(0, 0.02, 60) + 0.1 * (np.arange(60) >= 30))
        one, other = history(costs, 0.01), history(costs * scale, 0.01)
        assert [s.index for s in one.steps] == [s.index for s in other.steps]
        assert [s.ratio for s in one.steps] == pytest.approx([s.ratio for s in other.steps])

    def test_steps_below_delta_are_joined_again(self) -> None:
        random = np.random.default_rng(31)
        costs = np.exp(random.normal(0, 0.001, 90) + np.repeat([0, 0.01, 0.1], 30))
        assert [step.index for step in history(costs, 0.005).steps] == [30, 60]
        assert [step.index for step in history(costs, 0.05).steps] == [60]

    def test_the_same_seed_gives_the_same_answer(self) -> None:
        assert change_points(TIGERBEETLE, seed=5) == change_points(TIGERBEETLE, seed=5)


class TestFewAndBad:
    @pytest.mark.parametrize("n", [0, 1, 2, 3, 13])
    def test_below_14_points_there_are_too_few(self, n: int) -> None:
        found = history([1.0] * (n // 2) + [2.0] * (n - n // 2), 0.02)
        assert found.too_few
        assert found.least_points == 14
        assert found.steps == ()
        assert len(found.segments) == (n > 0)

    def test_14_points_can_show_a_step(self) -> None:
        found = history([1.0] * 7 + [2.0] * 7, 0.02)
        assert not found.too_few
        assert [step.index for step in found.steps] == [7]

    def test_with_blocks_the_floor_is_higher(self) -> None:
        found = history(NILE, 0.02, block=10)
        assert found.too_few
        assert found.least_points == 140

    def test_all_equal_has_no_step_and_no_spread(self) -> None:
        found = history([5] * 50, 0.02)
        assert found.steps == ()
        assert found.segments[0].median == pytest.approx(5)
        assert found.segments[0].spread == 0

    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 1e61, 1e-61])
    def test_what_is_no_cost_is_refused(self, bad: float) -> None:
        with pytest.raises(BadSampleError, match=r"costs\[1\] is"):
            history([1.0, bad], 0.02)

    def test_delta_and_block_must_be_above_0(self) -> None:
        with pytest.raises(BadSampleError, match="delta is 0"):
            history([1.0], 0)
        with pytest.raises(BadSampleError, match="block is 0"):
            change_points([1.0], 0)

    def test_huge_values(self) -> None:
        costs = [1e50] * 10 + [2e50] * 10
        (step,) = history(costs, 0.02).steps
        assert step.ratio == pytest.approx(2)


class TestCounts:
    def test_neighbours_that_differ_by_more_than_their_spread_are_steps(self) -> None:
        points = [[1_000_000, 1_000_001, 1_000_000]] * 3 + [[1_020_000, 1_020_001, 1_020_000]] * 2
        found = counted_history(points)
        assert [step.index for step in found.steps] == [3]
        assert float(found.steps[0].change.effect) == pytest.approx(0.02)
        assert (found.creeps, found.unknown) == ((), ())

    def test_a_creep_blames_nobody(self) -> None:
        points = [[1_000_000 + 700 * i] * 3 for i in range(5)]
        found = counted_history(points)
        assert found.steps == ()
        ((first, last, change),) = found.creeps
        assert (first, last) == (0, 4)
        assert float(change.effect) == pytest.approx(0.0028)

    def test_a_point_with_too_few_runs_is_unknown_and_so_is_the_next(self) -> None:
        points = [[100] * 3, [100] * 2, [200] * 3, [200] * 3]
        found = counted_history(points)
        assert found.unknown == (1, 2)
        assert found.steps == ()

    def test_none_and_one(self) -> None:
        assert counted_history([]).steps == ()
        assert counted_history([[1, 1, 1]]).steps == ()
