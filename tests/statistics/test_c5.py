"""C5: batches and packing. Known answer: Graham's worst case."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.reports.statistics.fleet import Fleet, simulate
from proofcost.reports.statistics.jobs import Jobs, jobs
from proofcost.reports.statistics.packing import (
    batch_bound,
    batch_makespan,
    first_fit_decreasing,
    hosts_for_deadline,
    least_hosts_exact,
    least_makespan,
    longest_first,
    longest_first_bounds,
    machines_for,
)
from proofcost.reports.statistics.sample import BadSampleError

GRAHAM = [5, 5, 4, 4, 3, 3, 3]


def one_each(times: list[float]) -> Jobs:
    """Jobs of which a host holds one."""
    ones = [1.0] * len(times)
    return jobs([0.0] * len(times), times, ones, ones)


def test_grahams_worst_case() -> None:
    assert longest_first(GRAHAM, 3) == 11
    assert least_makespan(GRAHAM, 3) == pytest.approx(9)
    assert batch_makespan(one_each([float(t) for t in GRAHAM]), Fleet(3, 1, 1, 1)) == 11
    assert batch_bound(one_each([float(t) for t in GRAHAM]), Fleet(3, 1, 1, 1)) == 9


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=6), st.integers(1, 7))
def test_bounds_hold_the_schedule_between_them(work: list[tuple[int, int]], machines: int) -> None:
    lengths, counts = (np.array(column, dtype=float) for column in zip(*work, strict=True))
    placed = [float(t) for t, c in work for _ in range(c)]
    low, high = longest_first_bounds(lengths, counts, machines)
    if not placed:
        assert (low, high) == (0, 0)
        return
    assert low <= longest_first(placed, machines) + 1e-9
    assert longest_first(placed, machines) <= high + 1e-9
    deadline = 1.5 * max(placed)
    wanted = machines_for(lengths, counts, deadline)
    assert longest_first_bounds(lengths, counts, wanted)[1] <= deadline + 1e-9
    assert wanted == 1 or longest_first_bounds(lengths, counts, wanted - 1)[1] > deadline - 1e-9


def test_bounds_by_hand() -> None:
    """Six of 4 s and three of 2 s on 3 machines: 10 s of work each; the last of 4 s starts by 20/3, the last of 2 s by
    28/3."""
    low, high = longest_first_bounds(np.array([2.0, 4.0]), np.array([3.0, 6.0]), 3)
    assert low == 10
    assert high == pytest.approx(28 / 3 + 2)
    assert machines_for(np.array([2.0, 4.0]), np.array([3.0, 6.0]), 12) == 3
    assert machines_for(np.array([2.0, 4.0]), np.array([3.0, 6.0]), 4) == 9, "one each"
    with pytest.raises(BadSampleError, match="longer than the deadline"):
        machines_for(np.array([2.0]), np.array([1.0]), 1)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_a_batch_of_like_needs_takes_as_long_as_the_simulation_says(
    work: list[int], hosts: int, memory: int, sandboxes: int
) -> None:
    same = Jobs(np.zeros(len(work)), np.array(work, float), np.full(len(work), 1 / memory), np.full(len(work), 1 / 3))
    order = np.argsort(-same.service_s, kind="stable")
    fleet = Fleet(hosts, 1 + 1e-9, 1, sandboxes)
    done = simulate(replace(same, service_s=same.service_s[order]), fleet)
    assert batch_makespan(same, fleet) == pytest.approx(done.end_s.max())


times = st.lists(st.integers(1, 9), min_size=1, max_size=7)


@settings(deadline=None, max_examples=25)
@given(times, st.integers(1, 3))
def test_the_exact_makespan_is_the_best_of_all_assignments(work: list[int], machines: int) -> None:
    best = min(
        max(sum(t for t, m in zip(work, chosen, strict=True) if m == machine) for machine in range(machines))
        for chosen in itertools.product(range(machines), repeat=len(work))
    )
    assert least_makespan(work, machines) == pytest.approx(best)
    assert best <= longest_first(work, machines) <= (4 / 3 - 1 / (3 * machines)) * best + 1e-9


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 4)), min_size=1, max_size=9))
def test_first_fit_decreasing_fits_and_is_never_better_than_the_exact_answer(needs: list[tuple[int, int]]) -> None:
    table = np.array(needs, dtype=float)
    bins = first_fit_decreasing(table, [10, 4])
    assert sorted(job for host in bins for job in host) == list(range(len(needs)))
    assert all((table[host].sum(axis=0) <= np.array([10, 4]) + 1e-6).all() for host in bins)
    exact = least_hosts_exact(table, [10, 4])
    bound = math.ceil((table.sum(axis=0) / [10, 4]).max() - 1e-9)
    assert bound <= exact <= len(bins)


def test_packing_looks_at_the_scarcest_resource_of_each_job() -> None:
    # Two of memory and two of cores share two hosts, each with one of either kind.
    assert len(first_fit_decreasing(np.array([[9.0, 1], [9, 1], [1, 3], [1, 3]]), [10, 4])) == 2


class TestDeadline:
    def test_the_fewest_hosts(self) -> None:
        batch = one_each([float(t) for t in GRAHAM])
        found = hosts_for_deadline(batch, Fleet(1, 1, 1, 1), 11)
        assert found is not None
        assert (found.hosts, found.makespan_s, found.at_least) == (3, 11, 3)
        four = hosts_for_deadline(batch, Fleet(1, 1, 1, 1), 9)
        assert four is not None
        assert four.hosts == 4  # three would do with the best order
        assert four.at_least == 3

    def test_a_job_longer_than_the_deadline_has_no_answer(self) -> None:
        assert hosts_for_deadline(one_each([5.0, 20.0]), Fleet(1, 1, 1, 1), 10) is None

    def test_more_than_the_most_hosts(self) -> None:
        assert hosts_for_deadline(one_each([5.0] * 10), Fleet(1, 1, 1, 1), 5, most=9) is None
        found = hosts_for_deadline(one_each([5.0] * 10), Fleet(1, 1, 1, 1), 5, most=10)
        assert found is not None
        assert found.hosts == 10

    def test_hosts_that_hold_several(self) -> None:
        random = np.random.default_rng(0)
        batch = Jobs(np.zeros(500), random.lognormal(1, 1, 500), random.uniform(1, 6, 500), np.ones(500))
        fleet = Fleet(1, 16, 8, 8)
        found = hosts_for_deadline(batch, fleet, 120)
        assert found is not None
        assert found.makespan_s <= 120
        assert found.at_least <= found.hosts <= found.at_least + 3

    def test_nothing_to_do(self) -> None:
        empty = jobs([], [], [], [])
        assert batch_makespan(empty, Fleet(1, 1, 1, 1)) == batch_bound(empty, Fleet(1, 1, 1, 1)) == 0
        found = hosts_for_deadline(empty, Fleet(1, 1, 1, 1), 5)
        assert found is not None
        assert found.hosts == 1


class TestBad:
    def test_deadlines_and_machines(self) -> None:
        with pytest.raises(BadSampleError, match="deadline_s is 0"):
            hosts_for_deadline(one_each([1.0]), Fleet(1, 1, 1, 1), 0)
        with pytest.raises(BadSampleError, match="machines is 0"):
            longest_first([1.0], 0)
        assert longest_first([], 3) == least_makespan([], 3) == 0

    def test_too_many_for_the_exact_answer(self) -> None:
        with pytest.raises(BadSampleError, match="41 jobs"):
            least_makespan([1.0] * 41, 2)
        with pytest.raises(BadSampleError, match="41 jobs"):
            least_hosts_exact(np.full((41, 1), 6.0), [10])

    def test_a_job_larger_than_a_host(self) -> None:
        with pytest.raises(BadSampleError, match=r"needs\[1\] is larger"):
            first_fit_decreasing(np.array([[1.0], [11.0]]), [10])
        with pytest.raises(BadSampleError, match="for 1 resources"):
            first_fit_decreasing(np.array([[1.0, 2.0]]), [10])
        assert first_fit_decreasing(np.zeros((0, 1)), [10]) == []
        assert least_hosts_exact(np.zeros((0, 1)), [10]) == 0
