"""C2: time limits. Known answer: Freireich's 6-MP trial."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics.safe_limit import Evidence
from proofcost.reports.statistics.sample import BadSampleError
from proofcost.reports.statistics.size_limit import back_test, limit_by_size
from proofcost.reports.statistics.survival import Bounded, log_rank, survival_curve
from proofcost.reports.statistics.time_limit import bought_by, cheapest_limit, knee, limit_for_share

SIX_MP = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
ONGOING = [value in {9, 11, 17, 19, 20, 25, 32, 34, 35} for value in SIX_MP]
ONGOING[3] = ONGOING[7] = True  # one of the four 6, one of the two 10
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]


class TestFreireich:
    @pytest.mark.parametrize(
        ("week", "share"),
        [(6, 0.857), (7, 0.807), (10, 0.753), (13, 0.690), (16, 0.627), (22, 0.538), (23, 0.448)],
    )
    def test_survival(self, week: int, share: float) -> None:
        assert survival_curve(SIX_MP, ONGOING).exceedance(week).value == pytest.approx(share, abs=5e-4)

    def test_interval_and_median(self) -> None:
        curve = survival_curve(SIX_MP, ONGOING)
        at_6 = curve.exceedance(6)
        assert at_6.low == pytest.approx(0.620, abs=5e-4)
        assert at_6.high == pytest.approx(0.952, abs=5e-4)
        assert curve.quantile(0.5) == Bounded(23, 13, None)
        assert (curve.count, curve.censored) == (21, 12)

    def test_log_rank_against_placebo(self) -> None:
        found = log_rank((SIX_MP, ONGOING), (PLACEBO, [False] * 21))
        assert found is not None
        assert found[0] == pytest.approx(16.79, abs=5e-3)
        assert found[1] == pytest.approx(4.2e-5, rel=0.02)

    def test_the_restricted_mean_is_the_area(self) -> None:
        curve = survival_curve(PLACEBO, [False] * 21)
        mean = curve.restricted_mean(10)
        assert mean.value == pytest.approx(np.minimum(PLACEBO, 10).mean())
        assert curve.restricted_mean(23).value == pytest.approx(np.mean(PLACEBO))
        assert curve.restricted_mean(1000).value == pytest.approx(np.mean(PLACEBO))
        assert survival_curve(SIX_MP, ONGOING).restricted_mean(100).value is None


class TestRestrictedMean:
    def test_it_is_covered(self) -> None:
        random = np.random.default_rng(0)
        hits = 0
        for _ in range(300):
            times, stops = random.exponential(1, 60), random.exponential(4, 60)
            mean = survival_curve(np.minimum(times, stops), stops < times).restricted_mean(2.0)
            assert mean.low is not None
            assert mean.high is not None
            hits += mean.low <= 1 - math.exp(-2.0) <= mean.high
        assert hits / 300 >= 0.90

    def test_means_over_finished_runs_alone_are_wrong(self) -> None:
        random = np.random.default_rng(1)
        times = random.exponential(1, 20_000)
        spent = survival_curve(np.minimum(times, 1.0), times > 1).restricted_mean(1.0).value
        assert times[times <= 1].mean() == pytest.approx(0.418, abs=0.01)
        assert spent == pytest.approx(1 - math.exp(-1), abs=0.01)


class TestBought:
    def test_share_cost_and_time_of_an_exponential(self) -> None:
        random = np.random.default_rng(2)
        curve = survival_curve(random.exponential(1, 50_000), [False] * 50_000)
        for limit in (0.5, 1.0, 2.0):
            bought = bought_by(curve, limit)
            assert bought.solved.value == pytest.approx(1 - math.exp(-limit), abs=0.01)
            # An exponential forgets: a verdict costs the same under every limit.
            assert bought.cost_per_verdict == pytest.approx(1, abs=0.02)

    def test_nothing_solved_has_no_cost(self) -> None:
        bought = bought_by(survival_curve([10.0, 10.0], [True, True]), 5.0)
        assert (bought.solved.value, bought.cost_per_verdict) == (0.0, None)

    def test_beyond_what_was_seen_nothing_is_claimed(self) -> None:
        bought = bought_by(survival_curve([1.0, 2.0, 3.0], [False, False, True]), 5.0)
        assert (bought.solved.value, bought.mean_spent.value, bought.cost_per_verdict) == (None, None, None)

    def test_the_cheapest_limit_gives_up_on_the_hard_half(self) -> None:
        times = [1.0] * 50 + [100.0] * 50
        cheapest = cheapest_limit(survival_curve(times, [False] * 100))
        assert cheapest is not None
        assert (cheapest.limit, cheapest.solved.value) == (1.0, 0.5)
        assert cheapest.cost_per_verdict == pytest.approx(2)
        always = cheapest_limit(survival_curve([1.0] * 50 + [1.5] * 50, [False] * 100))
        assert always is not None
        assert always.limit == 1.5

    def test_the_knee_stands_between_the_many_and_the_few(self) -> None:
        times = [*np.linspace(5, 10, 80), *np.linspace(200, 2000, 20)]
        found = knee(survival_curve(times, [False] * 100))
        assert found == 10

    def test_a_required_share(self) -> None:
        curve = survival_curve(range(1, 101), [False] * 100)
        found = limit_for_share(curve, 0.9)
        assert found.value == 90
        assert found.low is not None
        assert found.high is not None
        assert found.low < 90 < found.high
        assert limit_for_share(survival_curve([1.0, 2.0], [False, True]), 0.9).value is None

    def test_nothing_and_too_little(self) -> None:
        empty = survival_curve([], [])
        assert (cheapest_limit(empty), knee(empty), empty.largest, empty.complete) == (None, None, None, False)
        assert bought_by(empty, 1.0).solved.value is None
        assert cheapest_limit(survival_curve([1.0], [True])) is None
        assert knee(survival_curve([1.0, 2.0], [False, False])) is None

    @pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
    def test_bad_limits(self, limit: float) -> None:
        with pytest.raises(BadSampleError, match="limit is"):
            bought_by(survival_curve([1.0], [False]), limit)


def quantile_covered(sets: int, n: int = 120) -> float:
    """Share of simulated sets, about 30 % censored, whose interval for the 75 % quantile holds the true one."""
    random = np.random.default_rng(3)
    true, hits = math.exp(0.6745 * 0.8), 0
    for _ in range(sets):
        times = np.exp(random.normal(0, 0.8, n))
        stops = np.exp(random.normal(0.6, 0.8, n))
        found = survival_curve(np.minimum(times, stops), stops < times).quantile(0.75)
        assert found.low is not None
        hits += found.low <= true and (found.high is None or true <= found.high)
    return hits / sets


class TestQuantileInterval:
    def test_it_covers_with_30_percent_censored(self) -> None:
        assert quantile_covered(200) >= 0.91

    @full_simulation
    def test_it_covers_in_1000_sets(self) -> None:
        assert 0.93 <= quantile_covered(1000) <= 0.985


def exports(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sizes, times, timed out) of checks whose time grows with size; 3 to 5 decades of size."""
    random = np.random.default_rng(seed)
    sizes = 10 ** random.uniform(3, 5, n)
    times = 1e-3 * sizes * np.exp(random.normal(0, 0.5, n))
    stops = np.where(random.random(n) < 0.3, 1e-3 * sizes * np.exp(random.normal(0.8, 0.3, n)), np.inf)
    return sizes, np.minimum(times, stops), times > stops


class TestBySize:
    def test_the_limit_grows_and_keeps_its_target_on_other_runs(self) -> None:
        sizes, times, out = exports(4000, seed=4)
        advice = limit_by_size(sizes, times, out, 0.05)
        assert len(advice.classes) == 4
        given_limits = [c.line for c in advice.classes]
        assert None not in given_limits
        assert given_limits == sorted(given_limits, key=lambda x: x or 0)
        fresh_sizes, fresh_times, _ = exports(4000, seed=5)
        random = np.random.default_rng(6)
        fresh_times = 1e-3 * fresh_sizes * np.exp(random.normal(0, 0.5, 4000))
        tested = back_test(advice, fresh_sizes, fresh_times, [False] * 4000)
        assert tested.without_limit == 0
        assert tested.over / tested.runs <= 0.055
        assert tested.over / tested.runs >= 0.005

    def test_above_the_largest_class_there_is_no_limit(self) -> None:
        sizes, times, out = exports(4000, seed=4)
        advice = limit_by_size(sizes, times, out, 0.05)
        assert advice.limit_at(1e5) is not None
        assert advice.limit_at(1.1e5) is None
        smallest = advice.classes[0]
        assert advice.limit_at(1.0) == smallest.line

    def test_classes_say_how_many_runs_they_lack(self) -> None:
        advice = limit_by_size([10.0] * 59 + [1000.0] * 12, [1.0] * 71, [False] * 71, 0.05)
        first, second = advice.classes
        assert (first.limit.evidence, second.limit.evidence) == (Evidence.ENOUGH, Evidence.TOO_FEW)
        assert (second.limit.runs, second.limit.floor, second.line) == (12, 59, None)
        assert second.smoothed_quantile == pytest.approx(1.0)

    def test_edges_belong_to_the_class_below(self) -> None:
        advice = limit_by_size([10.0, 100.0], [1.0, 2.0], [False, False], 0.5, classes_per_decade=1)
        assert [(c.above, c.upto) for c in advice.classes] == [(1.0, 10.0), (10.0, 100.0)]

    def test_a_faster_larger_class_does_not_lower_the_line(self) -> None:
        advice = limit_by_size([10.0] * 60 + [1000.0] * 60, [9.0] * 60 + [3.0] * 60, [False] * 120, 0.05)
        assert [c.line for c in advice.classes] == [9.0, 9.0]
        assert [c.smoothed_quantile for c in advice.classes] == pytest.approx([math.sqrt(27)] * 2)

    def test_back_test_counts_what_nobody_knows(self) -> None:
        advice = limit_by_size([10.0] * 60, [5.0] * 60, [False] * 60, 0.05)
        tested = back_test(advice, [10, 10, 10, 10, 1000], [5, 6, 5, 1, 1], [False, False, True, True, False])
        assert (tested.runs, tested.over, tested.unknown, tested.without_limit) == (4, 2, 1, 1)

    def test_none_and_bad(self) -> None:
        assert limit_by_size([], [], [], 0.05).classes == ()
        assert limit_by_size([], [], [], 0.05).limit_at(5.0) is None
        with pytest.raises(BadSampleError, match="1, 2, 1 entries"):
            limit_by_size([1.0], [1.0, 2.0], [False], 0.05)
        with pytest.raises(BadSampleError, match=r"sizes\[0\] is 0"):
            limit_by_size([0.0], [1.0], [False], 0.05)


class TestLogRank:
    def test_nothing_ended_on_either_side(self) -> None:
        assert log_rank(([1.0, 2.0], [True, True]), ([1.0], [True])) is None

    def test_bad_sides(self) -> None:
        with pytest.raises(BadSampleError, match="other: 0 amounts"):
            log_rank(([1.0], [False]), ([], []))

    @settings(deadline=None, max_examples=40)
    @given(
        st.lists(st.tuples(st.floats(0.1, 10), st.booleans()), min_size=1, max_size=12),
        st.lists(st.tuples(st.floats(0.1, 10), st.booleans()), min_size=1, max_size=12),
    )
    def test_exchanging_the_sides_changes_nothing(
        self, one: list[tuple[float, bool]], other: list[tuple[float, bool]]
    ) -> None:
        sides = [([x for x, _ in runs], [c for _, c in runs]) for runs in (one, other)]
        there, back = log_rank(sides[0], sides[1]), log_rank(sides[1], sides[0])
        assert (there is None) == (back is None)
        if there is not None:
            assert there == pytest.approx(back)
