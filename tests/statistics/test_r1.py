"""R1: paired comparison. Known answers are statistics.md's, with their published source."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics import run_count
from proofcost.reports.statistics.comparison import Comparison, Design
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.statistics.rank_sum import pair_difference, rank_sum
from proofcost.reports.statistics.sample import BadSampleError
from proofcost.reports.statistics.signed_rank import one_sided_p, signed_rank, walsh_averages
from proofcost.reports.statistics.unpaired import compare_samples
from proofcost.reports.statistics.verdict import Finding, Verdict, Why, judge

# Hollander & Wolfe, depression scale before and after (R, wilcox.test help).
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]


def pairs(ratios: list[float], base: float = 10.0) -> list[tuple[list[float], list[float]]]:
    return [([base], [base * ratio]) for ratio in ratios]


def judged(ratios: list[float], delta: float = 0.02, *, strict: bool = False) -> Verdict:
    (verdict,) = judge([compare_blocks(pairs(ratios))], delta, strict=strict)
    return verdict


class TestKnownAnswers:
    def test_depression_pairs(self) -> None:
        differences = np.subtract(BEFORE, AFTER)
        test = signed_rank(differences)
        assert test.statistic == 40
        assert one_sided_p(differences) == pytest.approx(0.01953, abs=5e-6)
        assert test.p == pytest.approx(2 * 0.01953125)
        assert test.estimate == pytest.approx(0.46, abs=0.005)
        assert test.low == pytest.approx(0.010)
        assert test.high == pytest.approx(0.786)
        assert test.method == "exact"

    def test_males_and_females(self) -> None:
        test = rank_sum([20, 11, 17, 12], [19, 22, 16, 29, 24])
        assert test.statistic == 17
        assert test.p == pytest.approx(0.1111, abs=5e-5)

    def test_five_all_one_way_is_inconclusive_for_n_too_small(self) -> None:
        verdict = judged([1.5, 1.51, 1.52, 1.53, 1.54])
        assert verdict.comparison.p == 0.0625
        assert (verdict.finding, verdict.why) == (Finding.INCONCLUSIVE, Why.TOO_FEW)
        assert verdict.more == 1
        assert judged([1.5, 1.51, 1.52, 1.53, 1.54, 1.55]).finding is Finding.REGRESSED

    @pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 40])
    def test_all_equal_counters_have_ratio_1_and_interval_1_to_1(self, n: int) -> None:
        for comparison in (
            compare_blocks([([40_500_000_000], [40_500_000_000])] * n),
            compare_samples([7] * n, [7] * n),
        ):
            assert (comparison.ratio, comparison.low, comparison.high, comparison.p) == (1, 1, 1, 1)
            (verdict,) = judge([comparison], 0.005)
            assert verdict.finding is (Finding.EQUIVALENT if n >= 3 else Finding.INCONCLUSIVE)
            assert verdict.more == (None if n >= 3 else 3 - n)

    @pytest.mark.parametrize(("n", "p"), [(5, 0.0625), (6, 0.03125), (10, 0.001953125), (12, 0.00048828125)])
    def test_the_least_p_of_n_blocks(self, n: int, p: float) -> None:
        assert compare_blocks(pairs([1.1 + i / 100 for i in range(n)])).p == p

    @pytest.mark.parametrize(("family", "n"), [(1, 6), (40, 11)])
    def test_blocks_for_a_family(self, family: int, n: int) -> None:
        assert run_count.least_blocks(0.05, family) == n

    @pytest.mark.parametrize(("cv", "runs"), [(0.01, (64, 16, 5)), (0.02, (253, 64, 17)), (0.05, (1578, 397, 101))])
    def test_unpaired_runs_a_side(self, cv: float, runs: tuple[int, int, int]) -> None:
        assert tuple(run_count.runs_per_side(cv, delta) for delta in (0.005, 0.01, 0.02)) == runs


def covered(n: int, sets: int, noise: Callable[[np.random.Generator, int], np.ndarray]) -> float:
    """Share of simulated sets of n blocks, true ratio 1.03, whose interval holds it."""
    random = np.random.default_rng(n)
    hits = 0
    for _ in range(sets):
        test = signed_rank(math.log(1.03) + noise(random, n))
        assert test.low is not None
        assert test.high is not None
        hits += test.low <= math.log(1.03) <= test.high
    return hits / sets


def light(random: np.random.Generator, n: int) -> np.ndarray:
    return random.normal(0, 0.02, n) - random.normal(0, 0.02, n)


def heavy(random: np.random.Generator, n: int) -> np.ndarray:
    return random.standard_t(2, n) * 0.02


class TestSimulated:
    @pytest.mark.parametrize("n", [8, 12])
    def test_the_interval_covers(self, n: int) -> None:
        nominal = {8: 0.961, 12: 0.958}[n]  # what the exact distribution of n blocks gives for 95 %
        assert covered(n, 600, light) == pytest.approx(nominal, abs=0.025)

    @full_simulation
    @pytest.mark.parametrize(("n", "nominal"), [(8, 0.961), (10, 0.951), (12, 0.958), (20, 0.952)])
    def test_the_interval_covers_in_4000_sets(self, n: int, nominal: float) -> None:
        assert covered(n, 4000, light) == pytest.approx(nominal, abs=0.011)
        assert covered(n, 4000, heavy) == pytest.approx(nominal, abs=0.011)

    @pytest.mark.parametrize(("base_count", "head_count", "nominal"), [(5, 7, 0.952), (10, 10, 0.957), (60, 60, 0.95)])
    def test_the_unpaired_interval_covers(self, base_count: int, head_count: int, nominal: float) -> None:
        random = np.random.default_rng(base_count)
        hits = 0
        for _ in range(800):
            test = rank_sum(random.standard_t(3, base_count), random.standard_t(3, head_count) + 1)
            assert test.low is not None
            assert test.high is not None
            hits += test.low <= 1 <= test.high
        assert hits / 800 == pytest.approx(nominal, abs=0.024)

    @pytest.mark.parametrize("noise", [light, heavy])
    def test_same_against_same_alarms_at_the_level_and_not_above(
        self, noise: Callable[[np.random.Generator, int], np.ndarray]
    ) -> None:
        random = np.random.default_rng(11)
        alarms = sum(signed_rank(noise(random, 10)).p <= 0.05 for _ in range(1500))
        assert 0.025 <= alarms / 1500 <= 0.065

    def test_the_blocks_that_are_asked_for_see_the_effect(self) -> None:
        random = np.random.default_rng(12)
        n = run_count.blocks_needed(0.03, 0.02)
        found = sum(signed_rank(np.log1p(0.02) + random.normal(0, 0.03, n)).p <= 0.05 for _ in range(600))
        assert 0.75 <= found / 600 <= 0.87

    def test_linear_drift_over_a_session_is_no_difference_in_abba_blocks(self) -> None:
        random = np.random.default_rng(13)
        alarms = 0
        for _ in range(400):
            costs = np.linspace(1, 1.04, 40) * np.exp(random.normal(0, 0.01, 40))
            blocks = [(block[[0, 3]], block[[1, 2]]) for block in costs.reshape(10, 4)]
            alarms += compare_blocks(blocks).p <= 0.05
        assert alarms / 400 <= 0.09


class TestVerdicts:
    @pytest.mark.parametrize("percent", range(-50, 51, 2))
    def test_the_truth_table_of_a_clear_effect(self, percent: int) -> None:
        """From -50 to +50 %: nothing but the sign and delta decides, and equality is equivalence."""
        ratio = 1 + percent / 100
        verdict = judged([ratio * (1 + i * 1e-6) for i in range(-5, 5)], delta=0.03)
        expected = Finding.REGRESSED if ratio > 1.03 else Finding.IMPROVED if ratio < 1 / 1.03 else Finding.EQUIVALENT
        assert verdict.finding is expected

    def test_an_effect_of_delta_itself_is_not_beyond_it(self) -> None:
        assert judged([1.02] * 10).finding is Finding.EQUIVALENT
        assert judged([1 / 1.02] * 10).finding is Finding.EQUIVALENT
        assert judged([1.0201] * 10).finding is Finding.REGRESSED

    def test_equivalent_needs_the_whole_interval_inside(self) -> None:
        assert judged([1 + i * 1e-3 for i in range(-6, 7)]).finding is Finding.EQUIVALENT
        wide = judged([1 + i * 1e-2 for i in range(-6, 7)])
        assert (wide.finding, wide.why) == (Finding.INCONCLUSIVE, Why.WIDE)

    def test_strict_wants_the_whole_interval_beyond(self) -> None:
        ratios = [1.01, 1.015, 1.02, 1.025, 1.03, 1.035, 1.04, 1.045, 1.05, 1.055]
        assert judged(ratios).finding is Finding.REGRESSED
        strict = judged(ratios, strict=True)
        assert (strict.finding, strict.why) == (Finding.INCONCLUSIVE, Why.WIDE)

    def test_one_among_many_does_not_survive_its_family(self) -> None:
        """moq.analyzers#1315: identical code failed since one of many crossed the line."""
        random = np.random.default_rng(14)
        many = [compare_blocks(pairs(list(np.exp(random.normal(0, 0.03, 8))))) for _ in range(39)]
        one = compare_blocks(pairs([1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09, 1.10]))
        assert judge([one], 0.02)[0].finding is Finding.REGRESSED
        among = judge([*many, one], 0.02)
        assert [v.finding for v in among if v.finding in (Finding.REGRESSED, Finding.IMPROVED)] == []
        assert among[-1].why is Why.FAMILY
        assert among[-1].more is not None
        assert among[-1].more >= 11 - 8
        assert among[-1].family_size == 40

    def test_what_cannot_be_significant_is_left_out_of_the_family(self) -> None:
        strong = compare_blocks(pairs([1.2 + i / 100 for i in range(7)]))
        hopeless = compare_blocks(pairs([1.2, 1.3]))
        verdicts = judge([strong, *[hopeless] * 50], 0.02)
        assert verdicts[0].finding is Finding.REGRESSED
        assert verdicts[0].family_size == 1
        assert {(v.finding, v.why, v.adjusted_p) for v in verdicts[1:]} == {(Finding.INCONCLUSIVE, Why.TOO_FEW, None)}

    def test_the_runs_asked_for_bring_a_verdict(self) -> None:
        """Four times in five, both where nothing changed and where it did."""
        random = np.random.default_rng(15)
        for true in (1.0, 1.03):
            asked = settled = 0
            while asked < 60:
                first = list(true * np.exp(random.normal(0, 0.03, 8)))
                verdict = judged(first)
                if verdict.finding is not Finding.INCONCLUSIVE or verdict.more is None or verdict.more > 150:
                    continue
                asked += 1
                # As many as were asked for, in a world where the first estimate was right.
                ratio = verdict.comparison.ratio
                again = list(ratio * np.exp(random.normal(0, verdict.comparison.spread or 0, 8 + verdict.more)))
                settled += judged(again).finding is not Finding.INCONCLUSIVE
            assert settled / asked >= 0.7

    def test_at_the_threshold_no_number_is_promised(self) -> None:
        verdict = judged([1.02 * (1 + i * 0.01) for i in range(-4, 5)])
        assert (verdict.why, verdict.more) == (Why.AT_THE_THRESHOLD, None)

    def test_the_detectable_ratio_shrinks_with_runs_and_is_absent_where_nothing_can_be_found(self) -> None:
        ratios = [0.99, 1.01, 1.0, 1.02, 0.98, 1.005]
        few, many = judged(ratios), judged(ratios * 4)
        assert few.detectable_ratio is not None
        assert many.detectable_ratio is not None
        assert 1 < many.detectable_ratio < few.detectable_ratio < 1.1
        assert judged([1.0, 1.1, 1.2]).detectable_ratio is None

    def test_the_callgrind_like_case_of_two_different_constants_is_too_few_at_3(self) -> None:
        assert judged([1.1, 1.1, 1.1]).why is Why.TOO_FEW
        constant = judged([1.1] * 6)
        assert constant.comparison.low == pytest.approx(1.1)
        assert constant.finding is Finding.REGRESSED


logs = st.floats(-3, 3).map(lambda value: round(value, 6))
samples = st.lists(logs, min_size=1, max_size=9)
many_small = settings(deadline=None, max_examples=50)


class TestProperties:
    @many_small
    @given(samples, st.randoms())
    def test_order_does_not_matter(self, d: list[float], random: object) -> None:
        shuffled = list(d)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        ours, theirs = (
            compare_blocks(pairs([math.exp(x) for x in d])),
            compare_blocks(pairs([math.exp(x) for x in shuffled])),
        )
        assert (ours.ratio, ours.low, ours.high, ours.p) == (theirs.ratio, theirs.low, theirs.high, theirs.p)

    @many_small
    @given(samples, st.floats(1e-9, 1e9))
    def test_the_unit_does_not_matter(self, d: list[float], scale: float) -> None:
        ratios = [math.exp(x) for x in d]
        one, other = compare_blocks(pairs(ratios)), compare_blocks(pairs(ratios, 10 * scale))
        assert other.ratio == pytest.approx(one.ratio, rel=1e-9)
        assert other.p == pytest.approx(one.p)
        assert (other.low is None) == (one.low is None)

    @many_small
    @given(samples)
    def test_exchanging_the_sides_mirrors_everything(self, d: list[float]) -> None:
        blocks = pairs([math.exp(x) for x in d])
        (there,) = judge([compare_blocks(blocks)], 0.02)
        (back,) = judge([compare_blocks([(head, base) for base, head in blocks])], 0.02)
        mirrored = {Finding.REGRESSED: Finding.IMPROVED, Finding.IMPROVED: Finding.REGRESSED}
        assert back.finding is mirrored.get(there.finding, there.finding)
        assert back.comparison.ratio == pytest.approx(1 / there.comparison.ratio)
        assert back.comparison.p == pytest.approx(there.comparison.p)

    @many_small
    @given(st.lists(logs, min_size=1, max_size=8), st.lists(logs, min_size=1, max_size=8))
    def test_unpaired_p_is_the_permutation_p(self, base: list[float], head: list[float]) -> None:
        """By going through every way to deal the values out, ties and all."""
        both = np.array(base + head)
        ranks = np.array([(both < v).sum() + ((both == v).sum() + 1) / 2 for v in both])
        sums = [ranks[list(chosen)].sum() for chosen in itertools.combinations(range(len(both)), len(base))]
        seen = ranks[: len(base)].sum()
        tail = min(np.mean(np.array(sums) <= seen), np.mean(np.array(sums) >= seen))
        assert rank_sum(base, head).p == pytest.approx(min(1.0, 2 * tail))

    @many_small
    @given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
    def test_p_with_ties_and_zeros_is_the_sign_flip_p(self, d: list[int]) -> None:
        size = np.abs(np.array(d, dtype=float))
        ranks = np.array([(size < v).sum() + ((size == v).sum() + 1) / 2 for v in size]) * (size > 0)
        flips = np.array(list(itertools.product([0, 1], repeat=len(d)))) @ ranks
        seen = float(ranks @ (np.array(d) > 0))
        tail = min(np.mean(flips <= seen), np.mean(flips >= seen))
        assert signed_rank(d).p == pytest.approx(min(1.0, 2 * tail))

    @settings(deadline=None, max_examples=10)
    @given(st.integers(501, 560), st.integers(0, 2**32))
    def test_many_differences_are_searched_and_not_listed_with_the_same_result(self, n: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        d = random.normal(0, 1, n).round(2)
        rows, columns = np.triu_indices(n)
        every = np.sort((d[rows] + d[columns]) / 2)
        for k in (1, 2, n, every.size // 2, every.size):
            assert walsh_averages(d, [k]) == [pytest.approx(every[k - 1], abs=1e-12)]

    def test_many_pair_differences_are_searched_too(self) -> None:
        random = np.random.default_rng(3)
        x, y = random.normal(0, 1, 1100).round(2), random.normal(0.5, 1, 1000).round(2)
        every = np.sort(np.subtract.outer(y, x).ravel())
        for k in (1, 5000, every.size // 2, every.size):
            assert pair_difference(x, y, k) == pytest.approx(every[k - 1], abs=1e-12)

    @pytest.mark.parametrize("n", [20, 80])
    def test_without_ties_scipy_agrees(self, n: int) -> None:
        from scipy.stats import mannwhitneyu, wilcoxon

        random = np.random.default_rng(n)
        x, y = random.normal(0, 1, n), random.normal(0.4, 1, n // 2)
        assert signed_rank(x).p == pytest.approx(wilcoxon(x, method="exact").pvalue)
        assert rank_sum(x, y).p == pytest.approx(mannwhitneyu(y, x, method="exact" if n < 60 else "asymptotic").pvalue)

    def test_the_normal_approximation_joins_on(self) -> None:
        random = np.random.default_rng(5)
        d = random.normal(0.05, 1, 501)
        assert signed_rank(d).method == "normal"
        assert signed_rank(d).p == pytest.approx(signed_rank(d[:500]).p, rel=0.2)


class TestBadInput:
    @pytest.mark.parametrize(
        ("base", "head", "text"),
        [
            ([], [1.0], "blocks[0] base: no values"),
            ([1.0], [], "blocks[0] head: no values"),
            ([0.0], [1.0], "blocks[0] base[0] is 0: a cost that is compared must be above 0"),
            ([1.0], [-2.0], "blocks[0] head[0] is -2"),
            ([1.0], [1.0, math.nan], "blocks[0] head[1] is nan"),
            ([math.inf], [1.0], "blocks[0] base[0] is inf"),
            ([10**400], [1.0], "not numbers that a float can hold"),
            (["x"], [1.0], "not numbers"),
            ([[1.0]], [1.0], "expected a plain list"),
        ],
    )
    def test_one_line_says_which_value(self, base: list[float], head: list[float], text: str) -> None:
        with pytest.raises(BadSampleError) as caught:
            compare_blocks([(base, head)])
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_no_blocks(self) -> None:
        with pytest.raises(BadSampleError, match="there are none"):
            compare_blocks([])
        with pytest.raises(BadSampleError, match="head: no values"):
            compare_samples([1], [])

    def test_huge_and_tiny_costs_are_costs_up_to_a_point(self) -> None:
        for size in (1e50, 1e-50):
            comparison = compare_blocks([([size], [1.1 * size])] * 6)
            assert comparison.ratio == pytest.approx(1.1)
        for size in (1e70, 1e-70, 5e-324):
            with pytest.raises(BadSampleError, match="no cost is so"):
                compare_blocks([([size], [1.0])] * 6)

    def test_one_block_and_one_run_say_too_few(self) -> None:
        for comparison in (compare_blocks([([1.0], [2.0])]), compare_samples([1.0], [2.0])):
            assert comparison.ratio == pytest.approx(2)
            assert (comparison.low, comparison.high, comparison.p, comparison.spread) == (None, None, 1, None)
            (verdict,) = judge([comparison], 0.02)
            assert (verdict.finding, verdict.why) == (Finding.INCONCLUSIVE, Why.TOO_FEW)
            assert verdict.more == (5 if comparison.design is Design.PAIRED else 3)

    @pytest.mark.parametrize("delta", [0.0, -0.1, math.nan, math.inf])
    def test_delta_must_be_a_number_above_0(self, delta: float) -> None:
        comparison: Comparison = compare_samples([1.0], [2.0])
        with pytest.raises(BadSampleError, match="delta is"):
            judge([comparison], delta)

    def test_an_empty_family_is_empty(self) -> None:
        assert judge([], 0.02) == ()
