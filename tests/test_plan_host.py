"""Sandboxes on a host and hosts in a fleet: what binds, what it costs, what would change it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from planning import GB, S, data_of, fleet, plan_of, row, spread, store

from proofcost.harness.columns import Row
from proofcost.reports.plan import made, page
from proofcost.reports.plan.asked import read
from proofcost.reports.plan.evidence import PlanError
from proofcost.reports.plan.fleet import _work_before, month, pool
from proofcost.reports.plan.made import Plan
from proofcost.reports.plan.suite_for import ladder
from proofcost.reports.plan.what_if import Outcome
from proofcost.reports.statistics.contention import Binding
from proofcost.reports.where import parse

HOST = ("host.size=8c/64G", "host.price=2/h", "sandbox.size=1c/8G")


def alike(count: int, wall: int = 10 * S, **changed: object) -> list[Row]:
    return [row(at, wall_command=wall, **changed) for at in range(count)]


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet(tmp_path_factory.mktemp("light"), "light", 5000, days=2)


class TestHost:
    def test_the_smallest_of_all_caps_binds_and_the_cost_follows(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, alike(400)), *HOST)
        assert plan.host is not None
        assert plan.host.concurrency.caps == ((Binding.MEMORY, 8), (Binding.CORES, 8))
        assert (plan.host.count, plan.host.concurrency.binding) == (8, Binding.MEMORY)
        # 8 at once, 10 s each: 2,880 an hour; 2 an hour of money.
        assert plan.host.per_hour == pytest.approx(2880)
        assert plan.host.cost_per_1000 == pytest.approx(2 / 2.88)
        assert "8 sandboxes a host (bound by memory); a host that is always busy costs 0.694 per 1,000" in (
            page.document(plan).answer
        )

    def test_disk_network_and_cores_bind_as_well(self, tmp_path: Path) -> None:
        rows = alike(400, input_bytes=10**9, phase="checker", kernel="nanoda", disk_peak_writable=10**10)
        folder = store(tmp_path, rows)
        disk = plan_of(folder, "host.size=8c/64G/35G", "sandbox.cores=1", "sandbox.memory=2G")
        assert disk.host is not None
        assert (disk.host.count, disk.host.concurrency.binding) == (3, Binding.DISK)
        # A gigabyte each over 100 MB/s: 10 s of moving, 10 s of checking, so two at once fill the link.
        network = plan_of(folder, *HOST, "host.network_rate=100M/s")
        assert network.host is not None
        assert (network.host.count, network.host.concurrency.binding) == (2, Binding.NETWORK)
        assert network.host.service_s == pytest.approx(20)
        cores = plan_of(folder, "host.size=8c/64G", "sandbox.size=4c/8G")
        assert cores.host is not None
        assert (cores.host.count, cores.host.concurrency.binding) == (2, Binding.CORES)

    def test_peaks_fit_where_limits_do_not(self, tmp_path: Path) -> None:
        """16 sandboxes of peaks around 2 GB under limits of 8 GB: the sum of limits allows 4 on 32 GB."""
        folder = store(tmp_path, spread(400))
        safe = plan_of(folder, "host.size=64c/32G", "sandbox.size=1c/8G")
        bold = plan_of(folder, "host.size=64c/32G", "sandbox.size=1c/8G", "host.overcommit=0.1%")
        assert safe.host is not None
        assert bold.host is not None
        assert (safe.host.count, safe.host.guaranteed) == (4, 4)
        assert bold.host.overcommit is not None
        assert 10 < bold.host.count < 16
        assert bold.host.overcommit.risk <= 0.001
        # What was drawn, by hand: sums of so many peaks.
        random = np.random.default_rng(9)
        sums = random.choice(bold.memory.amounts.values, (20_000, bold.host.count)).sum(axis=1)
        assert (sums > 32 * GB).mean() < 0.003

    def test_boot_library_and_transfers_are_in_a_verdicts_time(self, tmp_path: Path) -> None:
        rows = alike(400, input_bytes=10**9, phase="checker", kernel="nanoda")
        plan = plan_of(store(tmp_path, rows), *HOST, "sandbox.boot=2s", "sandbox.library=3s", "host.disk_rate=500M/s")
        assert plan.host is not None
        assert plan.host.service_s == pytest.approx(10 + 2 + 3 + 2)

    def test_a_time_limit_stops_the_long_ones(self, tmp_path: Path) -> None:
        rows = [*alike(300), *[row(900 + at, wall_command=100 * S) for at in range(100)]]
        plan = plan_of(store(tmp_path, rows), *HOST, "sandbox.time=20s")
        assert plan.host is not None
        assert plan.host.service_s == pytest.approx(0.75 * 10 + 0.25 * 20)
        assert plan.host.solved == pytest.approx(0.75)
        assert plan.host.cost_per_1000 == pytest.approx(2 / (plan.host.per_hour * 0.75) * 1000)

    def test_who_timed_out_earlier_takes_all_of_a_longer_limit(self, tmp_path: Path) -> None:
        late = row(999, outcome="timed_out", cause="time_limit", exit_code=None, wall_command=60 * S,
                   time_limit_ns=60 * S)  # fmt: skip
        plan = plan_of(store(tmp_path, [*alike(399), late]), *HOST, "sandbox.time=410s")
        assert plan.host is not None
        assert plan.host.service_s == pytest.approx((399 * 10 + 410) / 400), "nobody knows how much more it needed"
        assert plan.host.solved == pytest.approx(399 / 400)

    def test_kernels_that_are_left_out_take_no_time_and_no_memory(self, tmp_path: Path) -> None:
        rows = []
        for at in range(60):
            for phase, kernel, wall, peak in (
                ("build", None, 2 * S, GB), ("checker", "a", 3 * S, 2 * GB), ("checker", "b", 4 * S, 5 * GB),
                ("whole", None, 10 * S, 6 * GB),
            ):  # fmt: skip
                name = f"r{at}-{phase}-{kernel}"
                rows.append(row(at, record=name, phase=phase, kernel=kernel, wall_command=wall, memory_peak_tree=peak))
        both = plan_of(store(tmp_path, rows))
        assert (set(both.verdicts.wall_ns), set(both.verdicts.memory_bytes)) == ({10e9}, {6e9})
        only = plan_of(tmp_path, 'kernels=["a"]')
        assert (set(only.verdicts.wall_ns), set(only.verdicts.memory_bytes)) == ({6e9}, {2e9})

    def test_a_host_smaller_than_any_verdict_is_refused(self, tmp_path: Path) -> None:
        folder = store(tmp_path, alike(400))
        with pytest.raises(
            PlanError, match=r"host\.size=8c/1\.5G: a host with 1\.50 GB for sandboxes is smaller than any"
        ):
            plan_of(folder, "host.size=8c/1.5G")
        with pytest.raises(PlanError, match=r"even the smallest verdict seen took 2\.00 GB"):
            plan_of(folder, "host.size=8c/1.5G")
        rows = alike(400, phase="checker", kernel="nanoda", threads=16)
        with pytest.raises(PlanError, match=r"8 cores are fewer than one sandbox needs: 16"):
            plan_of(store(tmp_path / "b", rows), "host.size=8c/64G")


def contended(throughputs: dict[int, float]) -> list[Row]:
    """A bench's records: the same work so many times at once, each turn as long as gives this throughput."""
    rows, turn = [], 0
    for count, per_s in throughputs.items():
        for _ in range(3):
            span = int(count / per_s * S)
            for slot in range(count):
                name = f"c{turn}-{slot}"
                started = {
                    "schema": 1, "event": "started", "invocation": name, "session": "bench",
                    "phase": {"understood": "checker", "given": None, "known_by": "bench"},
                    "ids": {"build": None, "block": turn + 1, "order": 1, "iteration": 1, "warmup": False},
                    "bench": {"suite": "contention", "plan_sha256": "p", "turn": turn, "kernel_number": 0,
                              "workload": {"name": "church", "n": 5000}, "exit_codes": {"0": "accepted"},
                              "co_running": {"count": count, "slot": slot}},
                    "kernel": {"name": "nanoda", "threads_count": 1},
                    "clocks": {"realtime_ns": 1, "monotonic_ns": turn * 1000 * S, "boottime_ns": 1},
                }  # fmt: skip
                finished = {
                    "schema": 1, "event": "finished", "invocation": name, "session": "bench",
                    "clocks": {"realtime_ns": 1, "monotonic_ns": turn * 1000 * S + span, "boottime_ns": 1},
                    "outcome": {"kind": "exited", "code": 0, "signal": None, "cause": "completed", "evidence": ["x"]},
                    "measurements": {"wall_command": {"value": span, "unit": "ns", "method": "m",
                                                      "status": "measured", "reason": None}},
                }  # fmt: skip
                events = "\n".join(json.dumps(event, separators=(",", ":")) for event in (started, finished))
                rows.append(
                    row(turn * 100 + slot, record=name, session="bench", phase="checker", kernel="nanoda",
                        suite="contention", plan="p", workload="church", subject="church", wall_command=span,
                        memory_peak_tree=None, events=events)
                )  # fmt: skip
            turn += 1
    return rows


class TestContention:
    def test_the_efficiency_floor_binds_where_sandboxes_slow_each_other_down(self, tmp_path: Path) -> None:
        """X(n) = n / (1 + 0.05 (n - 1)): one in twenty waits; 90 % of one alone is kept up to n = 3."""
        law = {n: n / (1 + 0.05 * (n - 1)) for n in (1, 2, 4, 8)}
        rows = [*alike(400, phase="whole"), *contended(law)]
        plan = plan_of(store(tmp_path, rows), *HOST)
        assert plan.host is not None
        assert plan.host.fit is not None
        assert plan.host.fit.waiting == pytest.approx(0.05, abs=1e-6)
        assert plan.host.fit.coherency == pytest.approx(0, abs=1e-9)
        assert (plan.host.count, plan.host.concurrency.binding) == (3, Binding.EFFICIENCY)
        assert plan.host.efficiency == pytest.approx(1 / 1.1)
        assert plan.host.service_s == pytest.approx(11)
        assert plan.work is not None
        assert set(pool(plan.host, plan.work).service_s.round(6).tolist()) == {11.0}, "in the fleet as well"
        loose = plan_of(tmp_path, *HOST, "host.efficiency=70%")
        assert loose.host is not None
        assert (loose.host.count, loose.host.concurrency.binding) == (8, Binding.MEMORY)
        assert any("side by side" in note for note in page.notes(plan))

    def test_two_numbers_at_once_are_no_law(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, [*alike(400), *contended({1: 1.0, 2: 1.9})]), *HOST)
        assert plan.host is not None
        assert plan.host.fit is None
        assert plan.trials[0].why_not == "2 numbers at once measured; 3 are needed"
        assert "contention was never measured" in " ".join(page.document(plan).sections[-1].text)


class TestFleet:
    def test_a_rate_that_needs_two_hosts(self, tmp_path: Path) -> None:
        """8 sandboxes, 10 s: 0.8 a second a host. At 1.2 a second one host can never keep up, two easily do."""
        plan = plan_of(store(tmp_path, alike(400)), *HOST, "fleet.rate=1.2/s", "fleet.wait=p95=30s")
        assert plan.stream is not None
        assert (plan.stream.hosts, plan.stream.bracket.least, plan.stream.bracket.formula) == (2, 2, 2)
        assert plan.stream.estimate.replications == 100
        assert plan.stream.estimate.cores_used.value == pytest.approx(0.75, abs=0.03)
        assert plan.stream.estimate.wait_quantile_s.high < 30
        assert plan.stream.cost_per_1000 == pytest.approx(4 / (1.2 * 3.6))
        said = page.document(plan).answer
        assert "with 2 hosts 95 of 100 verdicts wait no longer than 30.0 s at 4,320 an hour" in said
        assert "for 4.00 an hour: 0.926 per 1,000 verdicts" in said

    def test_a_rate_above_any_capacity_says_the_most(self, tmp_path: Path) -> None:
        folder = store(tmp_path, alike(400))
        with pytest.raises(PlanError, match=r"fleet\.rate=10/s: 36,000/h is more than 3 hosts .* the most is 8,640/h"):
            plan_of(folder, *HOST, "fleet.rate=10/s", "fleet.hosts_most=3")
        with pytest.raises(PlanError, match=r"36,000/h is more than 12 hosts .* the most is 34,560"):
            plan_of(folder, *HOST, "fleet.rate=10/s", "fleet.hosts=12")

    def test_hosts_that_are_there_are_judged_not_sought(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, alike(400)), *HOST, "fleet.rate=0.78/s", "fleet.hosts=1", "fleet.wait=p95=1s")
        assert plan.stream is not None
        assert plan.stream.given
        assert "it is not sure that 95 of 100 verdicts wait no longer than 1.00 s" in page.document(plan).answer

    def test_a_batch_by_a_deadline(self, tmp_path: Path) -> None:
        """1,600 verdicts of 10 s on 8 sandboxes a host: 2,000 s on one; within 1,000 s two do, and no fewer."""
        plan = plan_of(store(tmp_path, alike(400)), *HOST, "fleet.batch=1600", "fleet.deadline=1000s")
        assert plan.batch is not None
        assert (plan.batch.hosts, plan.batch.at_least) == (2, 2)
        assert plan.batch.makespan_s.value == pytest.approx(1000)
        assert plan.batch.kept == 1.0
        assert plan.batch.cost_per_1000 == pytest.approx(2 * 2 * 1000 / 3600 / 1.6)
        with pytest.raises(PlanError, match=r"5 s is shorter than one verdict can take, 10 s"):
            plan_of(tmp_path, *HOST, "fleet.batch=10", "fleet.deadline=5s")
        with pytest.raises(PlanError, match=r"need more than 2 hosts, which do about"):
            plan_of(tmp_path, *HOST, "fleet.batch=100000", "fleet.deadline=100s", "fleet.hosts_most=2")

    def test_a_daily_profile_and_a_trace(self, light: Path) -> None:
        profile = [100] * 12 + [2000] * 12
        plan = plan_of(light, "host.size=2c/64G", f"fleet.profile={profile}", "fleet.wait=p95=1m")
        assert plan.stream is not None
        assert plan.stream.stream.rate_per_s * 3600 == pytest.approx(1050)
        assert plan.stream.stream.busiest_per_s * 3600 == pytest.approx(2000)
        # 2,000 an hour of 5.2 s: 2.9 sandboxes in the busiest hours; by the mean alone one host would seem to do.
        assert (plan.stream.bracket.least, plan.stream.hosts) == (1, 2)
        trace = plan_of(light, "host.size=2c/64G", "fleet.trace=true")
        assert trace.stream is not None
        assert trace.stream.hosts == 1
        assert trace.stream.stream.rate_per_s * 3600 == pytest.approx(1000 / 48, rel=0.05)

    def test_a_fleet_that_no_simulation_settles_is_sized_by_formula_and_says_so(self, tmp_path: Path) -> None:
        folder = store(tmp_path, alike(400))
        # 5,000 sandboxes' worth of work: 20 times what one takes would be 100,000 verdicts a replication.
        plan = plan_of(folder, *HOST, "fleet.rate=500/s", "fleet.wait=p95=1s")
        assert plan.stream is not None
        assert plan.stream.unsettled
        assert plan.stream.hosts == plan.stream.bracket.formula
        assert "(by formula: simulations do not settle)" in page.document(plan).answer
        calm = plan_of(folder, *HOST, "fleet.rate=0.5/s", "fleet.wait=p95=1s")
        assert calm.stream is not None
        assert not calm.stream.unsettled

    def test_a_trace_needs_moments(self, tmp_path: Path) -> None:
        for name, start, said in (("a", None, "0 records tell when they began"), ("b", S, "began at one moment")):
            folder = store(tmp_path / name, [one | {"started_ns": start} for one in spread(100)])
            with pytest.raises(PlanError, match=said):
                plan_of(folder, *HOST, "fleet.trace=true")

    def test_verdicts_without_times_give_no_fleet(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, [row(at, wall_command=-5) for at in range(30)]), *HOST, "fleet.rate=4/h")
        assert plan.missing[-1] == "no fleet: no verdict tells its time"

    def test_too_few_verdicts_give_no_fleet(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, alike(5)), *HOST, "fleet.rate=4/h")
        assert plan.stream is None
        assert plan.missing[-1] == "not enough data for a fleet: 5 verdicts; a fleet is planned from at least 20"

    def test_the_work_of_each_hour(self) -> None:
        done = _work_before(np.array([0.0, 10.0]), np.array([20.0, 5.0]), np.array([0.0, 5.0, 12.0, 15.0, 100.0]))
        assert done.tolist() == [0, 5, 14, 20, 25]

    def test_a_month_is_as_busy_as_the_rate_says(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, alike(400)), *HOST, "fleet.rate=1.2/s", "fleet.wait=p95=30s")
        assert plan.asked.load is not None
        assert plan.host is not None
        assert plan.work is not None
        hours, busy = month(plan.asked.load, plan.host, plan.verdicts, plan.work, 1)
        assert hours.size == 720
        assert busy[1:].mean() == pytest.approx(1.5, rel=0.01)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("two")
    fleet(folder, "light", 4000, days=2, classes=2)
    file = folder / "PLAN.toml"
    file.write_text(
        """
[host]
size = "4c/64G"
price = "1/h"
class = "synth-class-0"
[sandbox]
size = "1c/8G"
[fleet]
rate = "1/s"
wait = "p95=20s"
[[alternative]]
name = "the slow class"
class = "synth-class-1"
price = "0.5/h"
[[alternative]]
name = "a fast one"
speed = 2
[[alternative]]
name = "too small"
size = "4c/4G"
price = "1/h"
[[alternative]]
name = "unknown class"
class = "synth-class-9"
""",
        encoding="utf-8",
    )
    return made.make(data_of(folder), parse([]), read(str(file)))


class TestWhatIf:
    def of(self, plan: Plan, name: str) -> Outcome:
        assert plan.alternatives is not None
        return next(one for one in plan.alternatives.outcomes if one.name == name)

    def test_twice_the_load_takes_about_twice_the_hosts(self, plan: Plan) -> None:
        assert plan.stream is not None
        assert plan.stream.hosts == 2
        found = self.of(plan, "twice the load")
        assert found.hosts == 3
        assert found.cost_per_1000 == pytest.approx(3 / (2 * 3.6 * (found.solved or 0)))

    def test_one_host_down_is_too_few(self, plan: Plan) -> None:
        found = self.of(plan, "one host down")
        assert found.hosts is None
        assert found.why_not is not None
        assert "is more than 1 hosts" in found.why_not

    def test_another_class_is_carried_over_by_what_ran_on_both(self, plan: Plan) -> None:
        found = self.of(plan, "the slow class")
        assert re.match(r"its times are 1\.(39|4) of ours, 1\.(3\d|4) to 1\.4", found.said), found.said
        assert found.hosts == 2
        assert found.per_hour == 1.0
        assert self.of(plan, "a fast one").hosts == 1
        assert "as given" in self.of(plan, "a fast one").said

    def test_what_cannot_be_says_why(self, plan: Plan) -> None:
        assert "is smaller than any" in (self.of(plan, "too small").why_not or "")
        assert "no record of host class 'synth-class-9'; there are synth-class-0" in (
            self.of(plan, "unknown class").why_not or ""
        )

    def test_without_one_kernel_a_verdict_takes_less(self, plan: Plan) -> None:
        """lean4lean takes 30 % of the wall: without it the same work fits on one host."""
        found, whole = self.of(plan, "without lean4lean"), plan.stream
        assert (found.hosts, whole.hosts if whole else None) == (1, 2)
        document = page.document(plan)
        table = next(one for one in document.tables() if one.key == "what_if")
        assert [cells[0] for cells in table.rows][:2] == ["as planned", "twice the load"]


@pytest.mark.parametrize(
    ("cores", "steps"), [(1, [1, 2, 4]), (4, [1, 2, 4]), (6, [1, 2, 4, 6]), (64, [1, 2, 4, 8, 16, 32, 64])]
)
def test_trials_go_up_to_the_hosts_cores(cores: int, steps: list[int]) -> None:
    assert ladder(cores) == steps
