"""C3: sandboxes on one host. Known answers: sum of quantiles against quantile of the sum; benchexec#50."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.reports.statistics.contention import Binding, concurrency, fit_contention
from proofcost.reports.statistics.peak_of_sums import profile_risk, room_for, sum_quantile
from proofcost.reports.statistics.sample import BadSampleError
from proofcost.reports.statistics.survival import survival_curve

GIB = 2.0**30


class TestPeakOfSums:
    def test_the_99th_percentile_of_a_sum_is_far_below_the_sum_of_99th_percentiles(self) -> None:
        random = np.random.default_rng(0)
        peaks = np.maximum(random.normal(1, 0.3, 200_000), 0)
        assert 16 * np.quantile(peaks, 0.99) == pytest.approx(27.17, abs=0.1)
        assert sum_quantile(peaks, 16, 0.99) == pytest.approx(18.79, abs=0.1)

    def test_benchexec_50(self) -> None:
        """128 GB and limits of 15 GB allow 8 runs by their limits, while 32 GB at most were ever used by 8."""
        random = np.random.default_rng(1)
        peaks = random.uniform(0.5, 4, 500) * 1e9
        curve = survival_curve(peaks, [False] * 500)
        found = room_for(curve, 128e9, 15e9, 0.001)
        assert found is not None
        assert found.guaranteed == 8
        assert 40 <= found.count <= 60
        assert found.risk <= 0.001
        assert found.beyond == 0

    @pytest.mark.parametrize("target", [0.001, 0.01, 0.1])
    def test_the_risk_that_is_promised_is_kept(self, target: float) -> None:
        from scipy.stats import norm

        random = np.random.default_rng(2)
        peaks = random.normal(1, 0.3, 20_000).clip(0.01)
        found = room_for(survival_curve(peaks, [False] * 20_000), 20, 100, target)
        assert found is not None
        n = found.count
        true = [float(norm.sf((20 - k) / 0.3 / math.sqrt(k))) for k in (n, n + 1)]
        assert true[0] <= target * 1.15
        assert true[1] > target * 0.85

    def test_limits_that_fit_together_carry_no_risk(self) -> None:
        curve = survival_curve([10.0] * 50, [False] * 50)
        found = room_for(curve, 100, 25, 0.01)
        assert found is not None
        assert found.count == 10
        assert found.risk == pytest.approx(3e-5, rel=0.1)
        small = room_for(curve, 100, 5, 0.01)
        assert small is not None
        assert (small.guaranteed, small.count) == (20, 20)

    def test_killed_runs_count_as_their_whole_limit(self) -> None:
        killed = room_for(survival_curve([1.0] * 20 + [2.0] * 20, [False] * 20 + [True] * 20), 100, 8, 0.01)
        fine = room_for(survival_curve([1.0] * 20 + [2.0] * 20, [False] * 40), 100, 2, 0.01)
        assert killed is not None
        assert fine is not None
        assert (killed.beyond, fine.beyond) == (0.5, 0)
        # Half of them take 1, half of them 8: 4.5 each in the mean.
        assert 14 <= killed.count <= 100 / 4.5
        assert fine.count >= 55

    def test_too_few_runs_are_not_enough_data(self) -> None:
        assert room_for(survival_curve([1.0] * 19, [False] * 19), 100, 8, 0.01) is None
        assert room_for(survival_curve([], []), 100, 8, 0.01) is None

    def test_a_host_smaller_than_any_job_holds_none(self) -> None:
        found = room_for(survival_curve([10.0] * 20, [False] * 20), 5, 20, 0.01)
        assert found is not None
        assert (found.count, found.guaranteed) == (0, 0)

    @pytest.mark.parametrize(
        ("memory", "limit", "reserve", "text"),
        [
            (0, 1, 0, "memory_bytes is 0"),
            (10, -1, 0, "limit_bytes is -1"),
            (10, 1, 10, "leaves nothing"),
            (10, 1, -1, r"reserve_bytes\[0\] is -1"),
        ],
    )
    def test_bad_hosts(self, memory: float, limit: float, reserve: float, text: str) -> None:
        curve = survival_curve([1.0] * 20, [False] * 20)
        with pytest.raises(BadSampleError, match=text):
            room_for(curve, memory, limit, 0.01, reserve_bytes=reserve)

    def test_the_same_seed_gives_the_same_answer(self) -> None:
        curve = survival_curve(np.random.default_rng(3).lognormal(0, 1, 100), [False] * 100)
        assert room_for(curve, 100, 50, 0.01, seed=1) == room_for(curve, 100, 50, 0.01, seed=1)

    def test_sums_of_nothing(self) -> None:
        with pytest.raises(BadSampleError, match="there are none"):
            sum_quantile([], 3, 0.5)
        with pytest.raises(BadSampleError, match="count is 0"):
            sum_quantile([1.0], 0, 0.5)


class TestProfiles:
    def test_peaks_at_different_times_need_less_room(self) -> None:
        """A run needs 8 for a tenth of its time, else 1: two peaks seldom meet."""
        spike = [1.0] * 45 + [8.0] * 10 + [1.0] * 45
        found = profile_risk([spike] * 20, 2, 10.0, seed=1)
        assert found is not None
        low, estimate, high = found
        # The other's spike of 10 steps begins, somewhere in its 100, at most 9 before or after this one's.
        assert estimate == pytest.approx(0.19, abs=0.03)
        assert low < estimate < high
        peaks = room_for(survival_curve([8.0] * 20, [False] * 20), 10, 100, 0.01)
        assert peaks is not None
        assert peaks.count == 1

    def test_enough_room_is_never_exceeded_and_too_little_always(self) -> None:
        profiles = [np.full(50, 4.0)] * 20
        enough, little = profile_risk(profiles, 3, 12.0), profile_risk(profiles, 3, 11.9)
        assert enough is not None
        assert little is not None
        assert (enough[1], little[1]) == (0.0, 1.0)

    def test_runs_of_different_lengths_are_met_at_a_random_moment(self) -> None:
        """One run in two is long and large: at a random moment, 9 of 10 sandboxes are at a long one."""
        profiles = [np.full(90, 8.0), np.full(10, 1.0)] * 10
        found = profile_risk(profiles, 2, 8.5, seed=2)
        assert found is not None
        # A long run (8) fails whatever it meets. A short one (1) fails if the other is long at some time: 9 in 10 at
        # its start, else if a long one follows within its 10 steps: (1/2 or more) of the rest, less the last start.
        assert found[1] == pytest.approx(0.5 + 0.5 * (0.9 + 0.1 * 0.5), abs=0.03)

    def test_few_and_bad_profiles(self) -> None:
        assert profile_risk([[1.0]] * 19, 1, 1.0) is None
        with pytest.raises(BadSampleError, match=r"profiles\[1\]: no samples"):
            profile_risk([[1.0], []], 1, 1.0)


def law(n: int, gain: float, a: float, b: float) -> float:
    return gain * n / (1 + a * (n - 1) + b * n * (n - 1))


class TestContention:
    @pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.001), (0.03, 0.0005)])
    def test_an_exact_law_comes_back(self, a: float, b: float) -> None:
        found = fit_contention({n: [law(n, 7.0, a, b)] for n in (1, 2, 4, 8, 16, 32)})
        assert found is not None
        assert (found.gain, found.waiting, found.coherency) == pytest.approx((7.0, a, b), abs=1e-7)
        assert found.waiting_interval is None

    def test_noise_that_looks_like_a_gain_is_cut_off_at_0(self) -> None:
        found = fit_contention({1: [10.0], 2: [20.4], 4: [41.0], 8: [82.0]})
        assert found is not None
        assert (found.waiting, found.coherency) == (0, 0)

    def test_intervals_cover(self) -> None:
        hits = 0
        for seed in range(25):
            random = np.random.default_rng(seed)
            trials = {n: law(n, 5, 0.03, 0.0005) * np.exp(random.normal(0, 0.02, 8)) for n in (1, 2, 4, 8, 16, 32)}
            found = fit_contention(trials)
            assert found is not None
            assert found.waiting_interval is not None
            hits += found.waiting_interval[0] <= 0.03 <= found.waiting_interval[1]
        assert hits / 25 >= 0.8

    def test_the_efficiency_floor_caps_n(self) -> None:
        found = fit_contention({n: [law(n, 1, 0.02, 0.0)] for n in (1, 2, 4, 8, 16)})
        assert found is not None
        # 1 / (1 + 0.02 (n - 1)) >= 0.9 up to n = 6.55.
        assert found.most_at(0.9) == 6
        assert found.efficiency(1) == 1
        assert found.most_at(0.5) == 16  # not beyond what was measured
        assert found.best == 16

    def test_the_best_n_stands_before_the_fall(self) -> None:
        found = fit_contention({n: [law(n, 1, 0.0, 0.01)] for n in (1, 2, 4, 8, 16, 32)})
        assert found is not None
        assert found.best == 10  # sqrt((1 - a) / b)

    @settings(deadline=None, max_examples=8)
    @given(st.floats(1e-3, 1e6), st.integers(0, 100))
    def test_the_unit_does_not_matter(self, scale: float, seed: int) -> None:
        random = np.random.default_rng(seed)
        trials = {n: law(n, 5, 0.03, 0.0005) * np.exp(random.normal(0, 0.02, 2)) for n in (1, 4, 16)}
        one = fit_contention(trials)
        other = fit_contention({n: v * scale for n, v in trials.items()})
        assert one is not None
        assert other is not None
        assert (other.gain / scale, other.waiting, other.coherency) == pytest.approx(
            (one.gain, one.waiting, one.coherency), abs=1e-7
        )

    def test_few_and_bad_trials(self) -> None:
        assert fit_contention({}) is None
        assert fit_contention({1: [1.0], 2: [2.0]}) is None
        with pytest.raises(BadSampleError, match="number of sandboxes is 0"):
            fit_contention({0: [1.0]})
        with pytest.raises(BadSampleError, match="throughput at 2: no trial"):
            fit_contention({1: [1.0], 2: []})
        with pytest.raises(BadSampleError, match=r"throughput at 1\[0\] is 0"):
            fit_contention({1: [0.0]})


class TestConcurrency:
    def test_the_smallest_cap_decides_and_is_named(self) -> None:
        found = concurrency({Binding.MEMORY: 12, Binding.CORES: 8, Binding.EFFICIENCY: 8})
        assert (found.count, found.binding) == (8, Binding.CORES)
        assert dict(found.caps)[Binding.MEMORY] == 12

    def test_no_constraint_or_an_absurd_one(self) -> None:
        with pytest.raises(BadSampleError, match="no constraint"):
            concurrency({})
        with pytest.raises(BadSampleError, match="disk is -1"):
            concurrency({Binding.DISK: -1})
