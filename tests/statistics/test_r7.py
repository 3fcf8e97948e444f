"""R7: false alarms, counted with an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulating import full_simulation

from proofcost.reports.statistics.alarm_rate import alarm_rate, calibrated_delta, sample_floor, share_interval
from proofcost.reports.statistics.sample import BadSampleError
from proofcost.reports.statistics.split_half import split_blocks, split_half


def test_2_of_1000() -> None:
    found = alarm_rate(2, 1000)
    assert found.low == pytest.approx(0.00024, abs=5e-6)
    assert found.high == pytest.approx(0.0072, abs=5e-5)


def test_none_of_300_is_at_most_1_percent() -> None:
    found = alarm_rate(0, 300)
    assert (found.rate, found.low) == (0, 0)
    assert found.high == pytest.approx(0.010, abs=1e-4)


def test_scipy_agrees_away_from_the_ends() -> None:
    from scipy.stats import binomtest

    for hits, of in ((1, 7), (5, 10), (299, 300)):
        theirs = binomtest(hits, of).proportion_ci(0.95, "exact")
        assert share_interval(hits, of) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("p", "n"), [(0.95, 59), (0.99, 299), (0.999, 2995)])
def test_sample_floors(p: float, n: int) -> None:
    assert sample_floor(p) == n


def test_a_week_of_comparisons_has_an_alarm_budget() -> None:
    budget = alarm_rate(2, 1000).expected(5000)
    assert budget is not None
    assert budget[1] == 10
    assert budget[0] < 10 < budget[2]


def test_no_comparisons_have_no_rate() -> None:
    found = alarm_rate(0, 0)
    assert (found.rate, found.low, found.high, found.expected(10)) == (None, None, None, None)


@pytest.mark.parametrize(("alarms", "of", "text"), [(3, 2, "more alarms"), (-1, 2, "alarms is -1"), (0, -1, "is -1")])
def test_impossible_counts(alarms: int, of: int, text: str) -> None:
    with pytest.raises(BadSampleError, match=text):
        alarm_rate(alarms, of)


class TestCalibratedDelta:
    def test_few_effects_give_none(self) -> None:
        assert calibrated_delta(np.zeros(298), 0.01) is None
        assert calibrated_delta([], 0.01) is None

    def test_at_the_sample_floor_it_is_the_largest_effect(self) -> None:
        effects = np.linspace(-0.01, 0.03, 299)
        assert calibrated_delta(effects, 0.01) == pytest.approx(math.expm1(0.03))

    def test_it_holds_its_rate(self) -> None:
        """In 95 of 100 calibrations the true rate beyond delta is at most the one asked for."""
        random = np.random.default_rng(0)
        from scipy.stats import norm

        held = 0
        for _ in range(200):
            delta = calibrated_delta(random.normal(0, 0.01, 500), 0.02)
            assert delta is not None
            held += 2 * norm.sf(math.log1p(delta) / 0.01) <= 0.02
        assert held / 200 >= 0.92


class TestSplitHalf:
    def test_blocks_are_abba_or_baab(self) -> None:
        random = np.random.default_rng(0)
        blocks = split_blocks([1, 2, 3, 4, 5, 6, 7, 8, 9], 2, random)
        assert len(blocks) == 2
        for block, first in zip(blocks, (1, 5), strict=True):
            sides = {tuple(block[0].tolist()), tuple(block[1].tolist())}
            assert sides == {(first, first + 3), (first + 1, first + 2)}

    def test_the_rate_is_the_pipelines(self) -> None:
        random = np.random.default_rng(1)
        cells = {f"cell {i}": np.exp(random.normal(0, 0.05, 40)) for i in range(300)}
        found = split_half(cells, delta=1e-9)
        assert found.rate.comparisons == 300
        assert found.rate.rate == pytest.approx(0.05, abs=0.03)
        assert split_half(cells, delta=0.5).rate.alarms == 0

    @full_simulation
    @pytest.mark.parametrize("noise", ["light", "heavy"])
    def test_1000_cells_alarm_at_the_level(self, noise: str) -> None:
        random = np.random.default_rng(2)
        cells = {}
        for i in range(1000):
            logs = random.normal(0, 0.02, 40)
            if noise == "heavy":
                logs += (random.random(40) < 0.1) * np.log1p(random.exponential(0.1, 40))
            cells[f"cell {i}"] = np.exp(logs)
        rate = split_half(cells, delta=1e-9).rate
        assert rate.low is not None
        assert rate.low <= 0.05

    def test_drift_within_a_session_is_no_alarm(self) -> None:
        random = np.random.default_rng(3)
        cells = {f"cell {i}": np.linspace(1, 1.04, 40) * np.exp(random.normal(0, 0.01, 40)) for i in range(100)}
        rate = split_half(cells, delta=1e-9).rate.rate
        assert rate is not None
        assert rate <= 0.12

    def test_cells_that_could_not_alarm_are_left_out_and_named(self) -> None:
        found = split_half({"short": [1.0] * 23, "empty": [], "long": [1.0, 1.1] * 12}, 0.02)
        assert found.too_few == ("short", "empty")
        assert found.rate.comparisons == 1

    def test_other_cells_do_not_change_a_cells_blocks(self) -> None:
        random = np.random.default_rng(4)
        a, b = np.exp(random.normal(0, 0.1, 24)), np.exp(random.normal(0, 0.1, 24))
        assert split_half({"a": a, "b": b}, 0.02).log_ratios == (
            *split_half({"a": a}, 0.02).log_ratios,
            *split_half({"b": b}, 0.02).log_ratios,
        )

    def test_bad_costs(self) -> None:
        with pytest.raises(BadSampleError, match=r"costs\[0\] is 0"):
            split_half({"a": [0.0] * 24}, 0.02)
