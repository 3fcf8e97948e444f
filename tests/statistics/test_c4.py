"""C4: hosts for a stream of jobs. Known answers: Hillier & Lieberman's hospital, Erlang's tables, M/M/3."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import full_simulation

from proofcost.reports.statistics import arrivals, fleet_size
from proofcost.reports.statistics.fleet import Discipline, Fleet, simulate, used_share
from proofcost.reports.statistics.fleet_size import estimate_fleet, hosts_for_wait, least_hosts, mean_of
from proofcost.reports.statistics.jobs import Jobs, draw_jobs, jobs, with_transfer
from proofcost.reports.statistics.queueing import (
    OverloadedError,
    allen_cunneen,
    erlang_b,
    erlang_c,
    mmc,
    servers_for,
)
from proofcost.reports.statistics.sample import BadSampleError

SERVER = Fleet(hosts=3, memory_bytes=1, cores=1, sandboxes=1)


def markov(random: np.random.Generator, count: int = 4000, rate: float = 0.2, service: float = 10.0) -> Jobs:
    """Exponential gaps and times, each job a whole server."""
    ones = np.ones(count)
    return Jobs(arrivals.constant(rate, count, random), random.exponential(service, count), ones, ones)


class TestByFormula:
    def test_the_hospital(self) -> None:
        one, two = mmc(2, 1 / 3, 1), mmc(2, 1 / 3, 2)
        assert one.mean_wait_s == pytest.approx(2 / 3)
        assert one.mean_present == pytest.approx(2)
        assert two.empty == pytest.approx(1 / 2)
        assert two.mean_waiting == pytest.approx(1 / 12)
        assert two.mean_wait_s == pytest.approx(1 / 24)
        assert two.mean_time_s == pytest.approx(3 / 8)
        assert two.mean_present == pytest.approx(3 / 4)

    def test_erlang(self) -> None:
        assert erlang_b(10, 15) == pytest.approx(0.0365, abs=5e-5)
        assert erlang_c(10, 15) == pytest.approx(0.1020, abs=5e-5)
        assert erlang_c(15, 15) == 1

    def test_three_servers(self) -> None:
        queue = mmc(0.2, 10, 3)
        assert queue.mean_wait_s == pytest.approx(4.444, abs=5e-4)
        assert queue.wait_quantile_s(0.5) == 0.0
        # P(wait > t) = C exp(-(c mu - lambda) t).
        assert queue.wait_quantile_s(0.95) == pytest.approx(math.log(queue.waits / 0.05) / 0.1)

    def test_spread_corrects_the_mean_wait(self) -> None:
        assert allen_cunneen(0.2, 10, 3, 1, 1) == pytest.approx(4.444, abs=5e-4)
        assert allen_cunneen(0.2, 10, 3, 1, 0) == pytest.approx(2.222, abs=5e-4)

    def test_thousands_of_servers_do_not_overflow(self) -> None:
        queue = mmc(4900, 1, 5000)
        assert 0 < queue.waits < 1
        assert math.isfinite(queue.empty)

    def test_servers_for_a_wait(self) -> None:
        found = servers_for(0.2, 10, 5.0)
        assert found == 3
        assert mmc(0.2, 10, found).mean_wait_s <= 5.0
        assert servers_for(0.2, 10, 4.0) == 4

    def test_beyond_capacity_the_maximum_is_told(self) -> None:
        with pytest.raises(OverloadedError, match=r"rate 0.4/s: .* 0.3/s") as caught:
            mmc(0.4, 10, 3)
        assert caught.value.capacity_per_s == pytest.approx(0.3)

    @pytest.mark.parametrize(("rate", "service", "servers"), [(0, 1, 1), (-1, 1, 1), (1, math.nan, 3), (1, 0.1, 0)])
    def test_absurd_numbers(self, rate: float, service: float, servers: int) -> None:
        with pytest.raises(BadSampleError):
            mmc(rate, service, servers)


def number_present(done_start: np.ndarray, jobs_: Jobs, since: float) -> float:
    """L, by looking at moments and counting, without any wait entering."""
    moments = np.linspace(since, jobs_.arrival_s[-1], 4000)
    ends = np.sort(done_start + jobs_.service_s)
    return float((np.searchsorted(jobs_.arrival_s, moments, "right") - np.searchsorted(ends, moments, "right")).mean())


class TestSimulated:
    def test_three_servers_wait_as_the_formula_says(self) -> None:
        found = estimate_fleet(markov, SERVER, replications=100, seed=1)
        assert found.mean_wait_s.low <= 4.444 <= found.mean_wait_s.high
        assert found.mean_wait_s.high - found.mean_wait_s.low < 0.5
        assert found.cores_used.value == pytest.approx(2 / 3, abs=0.01)
        assert found.waiting_share.value == pytest.approx(mmc(0.2, 10, 3).waits, abs=0.02)
        assert found.wait_quantile_s.value == pytest.approx(mmc(0.2, 10, 3).wait_quantile_s(0.95), rel=0.06)

    @full_simulation
    def test_intervals_of_100_replications_hold_the_truth(self) -> None:
        hits = 0
        for seed in range(40):
            mean = estimate_fleet(markov, SERVER, replications=100, seed=seed).mean_wait_s
            hits += mean.low <= 4.444 <= mean.high
        assert hits >= 33

    def test_littles_law(self) -> None:
        ratios = []
        for seed in range(20):
            made = markov(np.random.default_rng(seed))
            done = simulate(made, SERVER)
            since = float(made.arrival_s[800])
            late = made.arrival_s >= since
            rate = late.sum() / (made.arrival_s[-1] - since)
            time_in_system = (done.wait_s + made.service_s)[late].mean()
            ratios.append(number_present(done.start_s, made, since) / (rate * time_in_system))
        assert mean_of(ratios).value == pytest.approx(1, abs=0.02)

    def test_without_a_warm_up_the_empty_start_makes_waits_too_short(self) -> None:
        make = partial(markov, count=300, rate=0.28)
        cut = estimate_fleet(make, SERVER, warm_up=0.5, seed=2).mean_wait_s.value
        whole = estimate_fleet(make, SERVER, warm_up=0.0, seed=2).mean_wait_s.value
        assert whole < 0.9 * cut < mmc(0.28, 10, 3).mean_wait_s

    def test_constant_times_halve_the_wait(self) -> None:
        def make(random: np.random.Generator) -> Jobs:
            ones = np.ones(4000)
            return Jobs(arrivals.constant(0.08, 4000, random), ones * 10, ones, ones)

        found = estimate_fleet(make, Fleet(1, 1, 1, 1), seed=3).mean_wait_s
        assert found.value == pytest.approx(mmc(0.08, 10, 1).mean_wait_s / 2, rel=0.06)

    def test_100_000_jobs_on_100_hosts(self) -> None:
        random = np.random.default_rng(4)
        n = 100_000
        made = Jobs(
            arrivals.constant(40, n, random),
            random.lognormal(2, 1, n),
            random.uniform(1, 8, n) * 1e9,
            random.choice([1.0, 2.0], n),
        )
        fleet = Fleet(100, 32e9, 8, 6)
        done = simulate(made, fleet)
        assert (done.wait_s >= 0).all()
        assert (done.wait_s > 0).mean() > 0.1
        span = float(made.arrival_s[-1])
        # What arrived is what was worked on, but for what stands at the end.
        work = 40 * float((made.service_s * made.cores).mean()) / (8 * 100)
        assert used_share(made, done, fleet, 0, span)[0] == pytest.approx(work, rel=0.02)


def small_world(seed: int, count: int = 60) -> tuple[Jobs, Fleet]:
    random = np.random.default_rng(seed)
    made = Jobs(
        np.sort(random.uniform(0, 50, count)),
        random.uniform(1, 20, count),
        random.integers(1, 9, count).astype(float),
        random.choice([0.1, 0.3, 1.0, 2.5], count),
    )
    return made, Fleet(int(random.integers(1, 4)), 10, 4, 3, random.choice(np.array(list(Discipline))))


class TestProperties:
    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 100_000))
    def test_no_host_is_ever_overcommitted_and_nobody_starts_before_arriving(self, seed: int) -> None:
        made, fleet = small_world(seed)
        done = simulate(made, fleet)
        assert (done.wait_s >= 0).all()
        assert done.end_s == pytest.approx(done.start_s + made.service_s)
        for moment in done.start_s:
            there = (done.start_s <= moment) & (done.end_s > moment)
            assert made.memory_bytes[there].sum() <= fleet.hosts * 10
            assert made.cores[there].sum() <= fleet.hosts * 4 + 1e-6
            assert there.sum() <= fleet.hosts * 3

    @settings(deadline=None, max_examples=40)
    @given(st.integers(0, 100_000))
    def test_first_come_first_served_knows_no_overtaking(self, seed: int) -> None:
        made, fleet = small_world(seed)
        starts = simulate(made, Fleet(fleet.hosts, 10, 4, 3, Discipline.FIRST_COME)).start_s
        assert (np.diff(starts) >= 0).all()

    @settings(deadline=None, max_examples=40)
    @given(st.integers(0, 100_000))
    def test_many_hosts_are_searched_as_few_are(self, seed: int) -> None:
        """A fleet large enough for the array search, of which the jobs only need a few."""
        made, _ = small_world(seed)
        few, many = simulate(made, Fleet(48, 10, 4, 3)), simulate(made, Fleet(49, 10, 4, 3))
        assert few.start_s == pytest.approx(many.start_s)

    def test_a_full_head_of_the_queue_holds_up_all_behind_it_but_not_a_backfill(self) -> None:
        made = jobs([0, 1, 2], [10, 10, 5], [6, 8, 3], [1, 1, 1])
        in_order = simulate(made, Fleet(1, 10, 4, 3))
        assert in_order.start_s.tolist() == [0, 10, 20]
        backfilled = simulate(made, Fleet(1, 10, 4, 3, Discipline.BACKFILL))
        assert backfilled.start_s.tolist() == [0, 10, 2]

    def test_who_stood_behind_the_head_may_start_on_any_host(self) -> None:
        # Host 0 is full until 10, host 1 has 4 left; the head needs 8, and the next one 4.
        made = jobs([0, 0, 1, 2], [10, 30, 5, 5], [10, 6, 8, 4], [1, 1, 1, 1])
        assert simulate(made, Fleet(2, 10, 4, 3)).start_s.tolist() == [0, 0, 10, 10]

    def test_a_job_that_ends_makes_room_for_one_that_arrives_at_that_moment(self) -> None:
        made = jobs([0, 10], [10, 10], [1, 1], [1, 1])
        assert simulate(made, Fleet(1, 1, 1, 1)).wait_s.tolist() == [0, 0]

    def test_the_same_seed_gives_the_same_estimate(self) -> None:
        make = partial(markov, count=500)
        assert estimate_fleet(make, SERVER, replications=5, seed=7) == estimate_fleet(
            make, SERVER, replications=5, seed=7
        )

    def test_used_shares(self) -> None:
        made = jobs([0, 0], [10, 5], [4, 2], [2, 1])
        done = simulate(made, Fleet(1, 8, 4, 3))
        cores, memory = used_share(made, done, Fleet(1, 8, 4, 3), 0, 10)
        assert cores == pytest.approx((20 + 5) / 40)
        assert memory == pytest.approx((40 + 10) / 80)


class TestSize:
    def test_the_fewest_hosts_for_a_wait(self) -> None:
        make = partial(markov, count=2000)
        found = hosts_for_wait(make, SERVER, 8.0, quantile=0.9, replications=40, seed=5)
        wanted = next(c for c in range(3, 9) if mmc(0.2, 10, c).wait_quantile_s(0.9) <= 8.0)
        assert found.hosts == wanted
        assert found.least in (2, 3)
        assert found.estimate.wait_quantile_s.high <= 8.0
        assert found.one_less is not None
        assert found.one_less.wait_quantile_s.high > 8.0

    def test_a_search_that_stopped_too_high_comes_down_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two replications have intervals so wide that they believe in no small fleet."""
        make = partial(markov, count=1000)
        usual = hosts_for_wait(make, SERVER, 3.5, quantile=0.9, replications=40, seed=5)
        monkeypatch.setattr(fleet_size, "SEARCH_REPLICATIONS", 2)
        assert hosts_for_wait(make, SERVER, 3.5, quantile=0.9, replications=40, seed=5).hosts == usual.hosts

    def test_a_wait_of_0_is_possible_with_enough_hosts(self) -> None:
        found = hosts_for_wait(partial(markov, count=500), SERVER, 0.0, quantile=0.5, replications=10)
        assert found.estimate.wait_quantile_s.value == 0

    def test_beyond_the_most_hosts_the_rate_that_they_could_do_is_told(self) -> None:
        with pytest.raises(OverloadedError) as caught:
            hosts_for_wait(partial(markov, count=500, rate=3.0), SERVER, 1.0, most=4, replications=5)
        assert caught.value.capacity_per_s == pytest.approx(0.4, rel=0.15)

    def test_the_scarcest_resource_decides_the_least(self) -> None:
        made = jobs(np.arange(11.0), [2.0] * 11, [5.0] * 11, [0.1] * 11)
        # One a second for two seconds: two at once, of memory 5 each.
        assert least_hosts(made, Fleet(1, 10, 4, 3)) == 1
        assert least_hosts(made, Fleet(1, 5, 4, 3)) == 2
        assert least_hosts(made, Fleet(1, 10, 4, 1)) == 2

    def test_a_batch_has_no_rate(self) -> None:
        with pytest.raises(BadSampleError, match="batch"):
            least_hosts(jobs([0.0, 0.0], [1.0, 1.0], [1, 1], [1, 1]), SERVER)


class TestArrivals:
    def test_a_constant_rate(self) -> None:
        times = arrivals.constant(2.0, 20_000, np.random.default_rng(0))
        assert times[-1] == pytest.approx(10_000, rel=0.03)
        gaps = np.diff(times)
        assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.03)

    def test_a_daily_profile(self) -> None:
        rates = [0.0] * 8 + [60.0] * 8 + [6.0] * 8
        times = arrivals.daily(rates, 50, np.random.default_rng(1))
        hours = (times % arrivals.DAY_S) // 3600
        counts = np.bincount(hours.astype(int), minlength=24) / 50
        assert counts[:8].tolist() == [0] * 8
        assert counts[8:16].mean() == pytest.approx(60, rel=0.05)
        assert counts[16:].mean() == pytest.approx(6, rel=0.1)
        assert (np.diff(times) >= 0).all()

    def test_a_trace_keeps_its_days_together(self) -> None:
        day = arrivals.DAY_S
        trace = [0.0, 100.0, 200.0, day + 50_000.0, day + 50_001.0, 2 * day + 1.0]
        drawn = arrivals.from_trace(trace, 40, np.random.default_rng(2))
        by_day = [drawn[(drawn >= k * day) & (drawn < (k + 1) * day)] - k * day for k in range(40)]
        kinds = {tuple(part.tolist()) for part in by_day}
        assert kinds == {(0.0, 100.0, 200.0), (50_000.0, 50_001.0)}

    def test_a_trace_of_less_than_a_day_is_repeated(self) -> None:
        assert arrivals.from_trace([5.0, 8.0], 2, np.random.default_rng(0)).tolist() == [0, 3, 86_400, 86_403]

    def test_bad_arrivals(self) -> None:
        random = np.random.default_rng(0)
        with pytest.raises(BadSampleError, match="rate_per_s is 0"):
            arrivals.constant(0, 10, random)
        with pytest.raises(BadSampleError, match="2 rates"):
            arrivals.daily([1.0, 2.0], 1, random)
        with pytest.raises(BadSampleError, match="24, one above 0"):
            arrivals.daily([0.0] * 24, 1, random)
        with pytest.raises(BadSampleError, match=r"times_s\[2\] is before"):
            arrivals.from_trace([0.0, 5.0, 4.0], 1, random)
        with pytest.raises(BadSampleError, match="there are none"):
            arrivals.from_trace([], 1, random)


class TestJobs:
    def test_rows_stay_whole(self) -> None:
        records = jobs([0, 0], [1, 100], [2, 200], [3, 300])
        drawn = draw_jobs(records, np.arange(500.0), np.random.default_rng(0))
        assert (drawn.memory_bytes == 2 * drawn.service_s).all()
        assert (drawn.cores == 3 * drawn.service_s).all()
        assert set(drawn.service_s.tolist()) == {1, 100}

    def test_transfers_take_time(self) -> None:
        records = with_transfer(jobs([0], [10], [1], [1]), [5e9], 1e9)
        assert records.service_s.tolist() == [15]
        with pytest.raises(BadSampleError, match="2 for 1 jobs"):
            with_transfer(records, [1, 2], 1e9)

    @pytest.mark.parametrize(
        ("columns", "text"),
        [
            (([0], [1, 2], [1], [1]), "columns of 1, 2 entries"),
            (([5, 4], [1, 1], [1, 1], [1, 1]), r"arrival_s\[1\] is before"),
            (([0], [0], [1], [1]), r"service_s\[0\] is 0"),
            (([0], [1], [-1], [1]), r"memory_bytes\[0\] is -1"),
            (([-1], [1], [1], [1]), r"arrival_s\[0\] is -1"),
        ],
    )
    def test_bad_jobs(self, columns: tuple[list[float], ...], text: str) -> None:
        with pytest.raises(BadSampleError, match=text):
            jobs(*columns)

    def test_no_records_and_a_job_larger_than_any_host(self) -> None:
        empty = jobs([], [], [], [])
        with pytest.raises(BadSampleError, match="none to draw from"):
            draw_jobs(empty, np.arange(3.0), np.random.default_rng(0))
        assert simulate(empty, SERVER).start_s.size == 0
        with pytest.raises(BadSampleError, match="job 1 needs 20 of memory: no host has more than 10"):
            simulate(jobs([0, 0], [1, 1], [5, 20], [1, 1]), Fleet(1, 10, 4, 3))

    @pytest.mark.parametrize("fleet", [Fleet(0, 1, 1, 1), Fleet(1, -1, 1, 1), Fleet(1, 1, 0, 1), Fleet(1, 1, 1, 0)])
    def test_a_fleet_that_is_none(self, fleet: Fleet) -> None:
        with pytest.raises(BadSampleError):
            simulate(jobs([0], [1], [0], [0]), fleet)

    def test_replications_too_short_to_warm_up(self) -> None:
        with pytest.raises(BadSampleError, match="after its warm-up"):
            estimate_fleet(partial(markov, count=2), SERVER, replications=3)


def test_so_many_servers_that_none_waits_are_no_error() -> None:
    """The chance to wait is below what a float holds: 6,400 servers for a load of 0.001."""
    queue = mmc(0.001, 1.0, 6400)
    assert (queue.waits, queue.mean_wait_s, queue.wait_quantile_s(0.95)) == (0.0, 0.0, 0.0)
    assert queue.empty == pytest.approx(math.exp(-0.001))
