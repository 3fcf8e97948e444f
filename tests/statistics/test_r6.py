"""R6: hardware. Known answers are statistics.md's: exact without noise, a disconnected graph raises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.reports.statistics.connected import connected_hosts
from proofcost.reports.statistics.hardware import NotComparableError, Rows, fit_hosts, rows
from proofcost.reports.statistics.host_prediction import predict_cost
from proofcost.reports.statistics.interaction import InteractionFinding, find_interaction
from proofcost.reports.statistics.sample import BadSampleError


def world(
    seed: int,
    submissions: int,
    kernels: int,
    effects: list[float],
    noise: float,
    missing: float = 0.0,
    runs: int = 1,
    interaction: float = 0.0,
    per_submission: float = 0.0,
) -> Rows:
    """Simulated rows; `effects`: the hosts' log factors; `per_submission`: noise that a submission shares on a host."""
    random = np.random.default_rng(seed)
    hosts = len(effects)
    shape = (submissions, kernels, hosts, runs)
    cell = random.normal(3, 2, (submissions, kernels, 1, 1))
    logs = cell + np.array(effects)[None, None, :, None] + random.normal(0, 1, shape) * noise
    logs = logs + random.normal(0, 1, (submissions, 1, hosts, 1)) * per_submission
    logs[:, 0, -1, :] += interaction
    kept = random.random(shape) >= missing
    s, k, h, _ = np.nonzero(kept)
    return Rows(
        np.exp(logs[kept]),
        s,
        k,
        h,
        tuple(f"s{i}" for i in range(submissions)),
        tuple(f"k{i}" for i in range(kernels)),
        tuple(f"h{i}" for i in range(hosts)),
    )


class TestKnownAnswers:
    def test_without_noise_the_effects_come_back_exactly(self) -> None:
        effects = [0.0, 0.3, -0.2, 1.1]
        model = fit_hosts(world(1, 60, 3, effects, noise=0.0, missing=0.5))
        found = [math.log(factor.ratio) for factor in model.factors]
        assert found == pytest.approx(effects, abs=1e-10)
        assert model.residual == pytest.approx(0, abs=1e-10)
        for factor in model.factors[1:]:
            assert factor.low == pytest.approx(factor.ratio)

    def test_144_000_rows_with_70_percent_missing(self) -> None:
        effects = [0.0, *np.random.default_rng(2).normal(0, 0.3, 7)]
        data = world(2, 5000, 6, effects, noise=0.05, missing=0.7, runs=2)
        assert data.costs.size == pytest.approx(144_148, rel=0.01)
        model = fit_hosts(data)
        errors = [math.log(f.ratio) - e for f, e in zip(model.factors, effects, strict=True)]
        assert max(map(abs, errors)) < 0.002
        assert model.residual == pytest.approx(0.05, rel=0.02)

    def test_sparse_least_squares_agrees(self) -> None:
        from scipy.sparse import csr_matrix
        from scipy.sparse.linalg import lsqr

        data = world(3, 80, 3, [0.0, 0.4, -0.1], noise=0.05, missing=0.4)
        n, hosts = data.costs.size, len(data.host_names)
        _, cells = np.unique(data.cells, return_inverse=True)
        rows_twice = np.concatenate([np.arange(n)] * 2)
        columns = np.concatenate([data.hosts, hosts + cells])
        design = csr_matrix((np.ones(2 * n), (rows_twice, columns)))
        solution = lsqr(design, np.log(data.costs), atol=1e-14, btol=1e-14)[0][:hosts]
        ours = np.log([factor.ratio for factor in fit_hosts(data).factors])
        assert ours == pytest.approx(solution - solution[0], abs=1e-9)

    def test_a_disconnected_graph_raises_and_names_the_groups(self) -> None:
        data = rows([1, 2, 1, 2], ["s1", "s1", "s2", "s2"], ["k"] * 4, ["a", "b", "c", "d"])
        with pytest.raises(NotComparableError) as caught:
            fit_hosts(data)
        assert caught.value.groups == (("a", "b"), ("c", "d"))
        assert "a, b; c, d" in str(caught.value)

    def test_a_host_that_shares_no_cell_raises(self) -> None:
        with pytest.raises(NotComparableError):
            fit_hosts(rows([1, 2, 3], ["s1", "s1", "s2"], ["k"] * 3, ["a", "b", "c"]))


class TestConnected:
    def test_a_chain_connects(self) -> None:
        assert connected_hosts([(1, "a"), (1, "b"), (2, "b"), (2, "c"), (3, "d")]) == (("a", "b", "c"), ("d",))

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abcdef")), max_size=15), st.randoms())
    def test_groups_do_not_depend_on_the_order(self, pairs: list[tuple[int, str]], random: object) -> None:
        shuffled = list(pairs)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert {frozenset(g) for g in connected_hosts(pairs)} == {frozenset(g) for g in connected_hosts(shuffled)}


class TestProperties:
    @settings(deadline=None, max_examples=20)
    @given(st.integers(0, 10_000))
    def test_the_ratio_of_two_hosts_does_not_depend_on_the_base(self, seed: int) -> None:
        data = world(seed, 12, 2, [0.0, 0.5, -0.3], noise=0.1)
        for one, other in itertools.combinations(data.host_names, 2):
            by = {base: fit_hosts(data, base=base) for base in (one, other)}
            assert by[one].factor(other).ratio == pytest.approx(1 / by[other].factor(one).ratio)
            assert by[one].factor(other).low == pytest.approx(1 / (by[other].factor(one).high or 0))

    @settings(deadline=None, max_examples=20)
    @given(st.integers(0, 10_000), st.floats(1e-6, 1e6))
    def test_neither_unit_nor_order_matters(self, seed: int, scale: float) -> None:
        data = world(seed, 12, 2, [0.0, 0.5], noise=0.1)
        order = np.random.default_rng(seed).permutation(data.costs.size)
        other = Rows(
            data.costs[order] * scale,
            data.submissions[order],
            data.kernels[order],
            data.hosts[order],
            data.submission_names,
            data.kernel_names,
            data.host_names,
        )
        one, two = fit_hosts(data).factors[1], fit_hosts(other).factors[1]
        assert (two.ratio, two.low, two.high) == pytest.approx((one.ratio, one.low, one.high))

    def test_work_seen_on_one_host_only_changes_nothing(self) -> None:
        data = world(5, 20, 2, [0.0, 0.5], noise=0.1)
        names = [f"s{i}" for i in data.submissions] + ["lonely"] * 3
        kernels = [f"k{i}" for i in data.kernels] + ["k0"] * 3
        hosts = [f"h{i}" for i in data.hosts] + ["h1"] * 3
        more = rows([*data.costs.tolist(), 1.0, 2.0, 3.0], names, kernels, hosts)
        assert fit_hosts(more).factors == fit_hosts(data).factors

    @pytest.mark.parametrize("per_submission", [0.0, 0.1])
    def test_intervals_cover_whether_or_not_a_submission_hangs_together(self, per_submission: float) -> None:
        hits = 0
        for seed in range(200):
            data = world(seed, 15, 5, [0.0, 0.2], noise=0.05, per_submission=per_submission)
            factor = fit_hosts(data).factors[1]
            assert factor.low is not None
            assert factor.high is not None
            hits += factor.low <= math.exp(0.2) <= factor.high
        assert 0.90 <= hits / 200 <= 0.995


class TestInteraction:
    def test_a_kernel_that_likes_a_host_is_found(self) -> None:
        data = world(6, 30, 3, [0.0, 0.2], noise=0.02, interaction=0.15)
        found = find_interaction(data, fit_hosts(data), 0.02)
        assert found.finding is InteractionFinding.PRESENT
        own = {factor.kernel: factor.ratio for factor in found.factors}
        assert own["k0"] == pytest.approx(math.exp(0.35), rel=0.02)
        assert own["k1"] == pytest.approx(math.exp(0.2), rel=0.02)
        assert found.p is not None
        assert found.p < 1e-6

    def test_absent_only_where_the_intervals_say_so(self) -> None:
        tight = world(7, 100, 3, [0.0, 0.2], noise=0.01)
        assert find_interaction(tight, fit_hosts(tight), 0.02).finding is InteractionFinding.ABSENT
        loose = world(7, 8, 3, [0.0, 0.2], noise=0.2)
        assert find_interaction(loose, fit_hosts(loose), 0.02).finding is InteractionFinding.UNDECIDED

    def test_without_interaction_one_test_in_twenty_alarms_at_most(self) -> None:
        alarms = 0
        for seed in range(150):
            data = world(seed, 12, 3, [0.0, 0.2, 0.4], noise=0.05, per_submission=0.05)
            alarms += find_interaction(data, fit_hosts(data), 1e-6).finding is InteractionFinding.PRESENT
        assert alarms / 150 <= 0.09

    def test_deviations_are_known_as_well_as_they_say(self) -> None:
        """What a submission has of its own on a host moves a kernel's factor and the common one alike."""
        from scipy.stats import t

        apart, claimed = [], []
        for seed in range(120):
            data = world(seed, 20, 2, [0.0, 0.2], noise=0.02, per_submission=0.1)
            (one, _) = find_interaction(data, fit_hosts(data), 0.02).factors
            assert one.low is not None
            assert one.high is not None
            apart.append(math.log(one.deviation))
            claimed.append(math.log(one.high / one.low) / 2 / t.ppf(1 - 0.025 / 2, 19))
        assert np.mean(claimed) == pytest.approx(np.std(apart), rel=0.2)

    def test_one_kernel_cannot_tell(self) -> None:
        data = world(8, 20, 1, [0.0, 0.2], noise=0.02)
        found = find_interaction(data, fit_hosts(data), 0.02)
        assert (found.finding, found.p, found.spread) == (InteractionFinding.UNDECIDED, None, 0)

    def test_without_noise_nothing_is_found_and_nothing_is_nan(self) -> None:
        data = world(9, 10, 2, [0.0, 0.2], noise=0.0)
        found = find_interaction(data, fit_hosts(data), 0.02)
        assert found.finding is InteractionFinding.ABSENT
        assert found.p == 1

    def test_a_kernel_that_ran_on_the_base_alone_is_left_out(self) -> None:
        data = rows(
            [1, 2, 1, 2, 5],
            ["s1", "s1", "s2", "s2", "s1"],
            ["k", "k", "k", "k", "other"],
            ["a", "b", "a", "b", "a"],
        )
        assert [f.kernel for f in find_interaction(data, fit_hosts(data), 0.02).factors] == ["k"]


class TestPrediction:
    def test_it_covers_a_run_on_a_host_that_the_work_never_saw(self) -> None:
        hits = 0
        for seed in range(150):
            random = np.random.default_rng(1000 + seed)
            model = fit_hosts(world(seed, 20, 2, [0.0, 0.3, 0.6], noise=0.1))
            work = random.normal(2, 1)
            seen = np.exp(work + 0.3 + random.normal(0, 0.1, 3))
            predicted = predict_cost(model, {"h1": seen}, "h2")
            assert predicted.low is not None
            assert predicted.high is not None
            hits += predicted.low <= math.exp(work + 0.6 + random.normal(0, 0.1)) <= predicted.high
        assert 0.90 <= hits / 150 <= 0.995

    def test_without_noise_it_is_exact(self) -> None:
        model = fit_hosts(world(1, 10, 2, [0.0, 0.3], noise=0.0))
        predicted = predict_cost(model, {"h0": [10.0]}, "h1")
        assert predicted.cost == pytest.approx(10 * math.exp(0.3))
        assert predicted.high == pytest.approx(predicted.cost)

    def test_the_factors_own_uncertainty_widens_it(self) -> None:
        from scipy.stats import t

        model = fit_hosts(world(1, 10, 2, [0.0, 0.3], noise=0.1))
        variances = []
        for host in ("h0", "h1"):
            found = predict_cost(model, {host: [10.0]}, "h1")
            assert found.low is not None
            assert found.high is not None
            variances.append((math.log(found.high / found.low) / 2 / t.ppf(0.975, 9)) ** 2)
        assert model.residual is not None
        assert variances[1] == pytest.approx(2 * model.residual**2)
        assert variances[0] - variances[1] == pytest.approx(model.covariance[1, 1])

    def test_kernels_that_differ_widen_it(self) -> None:
        model = fit_hosts(world(1, 10, 2, [0.0, 0.3], noise=0.1))
        narrow = predict_cost(model, {"h0": [10.0]}, "h1")
        wide = predict_cost(model, {"h0": [10.0]}, "h1", interaction_spread=0.5)
        assert (wide.high or 0) > (narrow.high or 0) * 1.5

    def test_unknown_hosts_and_nothing_measured(self) -> None:
        model = fit_hosts(world(1, 10, 2, [0.0, 0.3], noise=0.1))
        with pytest.raises(BadSampleError, match="host h9: not in this model; it has h0, h1"):
            predict_cost(model, {"h0": [1.0]}, "h9")
        with pytest.raises(BadSampleError, match="nothing"):
            predict_cost(model, {"h0": []}, "h1")


class TestFewAndBad:
    def test_few_submissions_have_no_interval(self) -> None:
        factor = fit_hosts(world(1, 4, 2, [0.0, 0.3], noise=0.1)).factors[1]
        assert (factor.low, factor.high, factor.cells) == (None, None, 8)

    def test_one_cell_on_two_hosts(self) -> None:
        model = fit_hosts(rows([1.0, 2.0], ["s", "s"], ["k", "k"], ["a", "b"]))
        assert model.factor("b").ratio == pytest.approx(2)
        assert (model.residual, model.factor("b").low) == (None, None)

    @pytest.mark.parametrize(
        ("costs", "hosts", "text"),
        [
            ([], [], "there are none"),
            ([1.0, 2.0], ["a"], "hosts: 1 for 2 costs"),
            ([1.0, 0.0], ["a", "b"], r"costs\[1\] is 0"),
            ([1.0, math.nan], ["a", "b"], r"costs\[1\] is nan"),
            ([1.0, 2.0], ["a", "a"], "only a"),
        ],
    )
    def test_bad_rows(self, costs: list[float], hosts: list[str], text: str) -> None:
        with pytest.raises(BadSampleError, match=text):
            fit_hosts(rows(costs, ["s"] * len(costs), ["k"] * len(costs), hosts))

    def test_an_unknown_base(self) -> None:
        with pytest.raises(BadSampleError, match="base host z"):
            fit_hosts(world(1, 4, 2, [0.0, 0.3], noise=0.1), base="z")
