"""A plan from the first half of a trace, held against the second: kept on steady fleets, called drifting on one."""

from pathlib import Path

import numpy as np
import pytest
from planning import S, data_of, fleet, row, spread, store

from proofcost.reports.plan import backtest_page, drift
from proofcost.reports.plan.asked import read
from proofcost.reports.plan.backtest import DAY_NS, HOUR_NS, BackTested, _again, _hours_within, _unlike_days, backtest
from proofcost.reports.plan.evidence import PlanError
from proofcost.reports.plan.limits import What
from proofcost.reports.where import parse


def back_tested(folder: Path, *given: str) -> BackTested:
    pairs = [(one, *one.partition("=")[::2]) for one in given]
    return backtest(data_of(folder), parse([]), read(None, pairs))


BUSY = ("fleet.trace=true", "fleet.wait=p95=30s", "limits.oom=2%")


@pytest.mark.parametrize(("kind", "host"), [("light", "1c/64G"), ("heavy", "1c/64G"), ("bimodal", "2c/64G")])
def test_promises_hold_on_steady_fleets(kind: str, host: str, tmp_path: Path) -> None:
    found = back_tested(fleet(tmp_path, kind, 10_000, days=2, seed=3), f"host.size={host}", *BUSY)
    assert [check.name for check in found.checks] == [
        "killed for memory", "stopped by time", "had to wait", "waited longer than asked", "p95 of waits",
    ]  # fmt: skip
    assert [check.name for check in found.checks if not check.kept] == []
    assert found.drifts == ()
    waits = found.checks[2]
    assert 0 < waits.realised < 0.2, "somebody did wait, so there was something to hold against"
    assert 0 < waits.high - waits.low < 0.1, "and the interval said something"
    assert backtest_page.answer(found).startswith("5 of 5 promises")


def test_the_drifting_fleet_is_called_so(tmp_path: Path) -> None:
    found = back_tested(fleet(tmp_path, "drifting", 10_000, days=2), "host.size=1c/64G", *BUSY)
    assert found.broken
    assert [one.what for one in found.drifts] == [What.TIME, What.MEMORY]
    # Times grow to three times over the span: the medians of the halves are sqrt(3) apart.
    assert found.drifts[0].ratio == pytest.approx(3**0.5, rel=0.1)
    assert found.foreseen, "the first half alone showed it"
    said = backtest_page.document(found)
    assert "The records drift" in said.answer
    assert said.tables()[0].marked[0] == "bad"


def test_limits_alone_are_tested_where_no_fleet_was_asked_for(tmp_path: Path) -> None:
    found = back_tested(fleet(tmp_path, "light", 5000, days=2), "limits.oom=5%", "limits.timeouts=5%")
    assert [check.name for check in found.checks] == ["killed for memory", "stopped by time"]
    assert not found.broken


def test_a_promise_is_kept_as_often_as_it_says() -> None:
    """The interval for the second half, over many halves: a limit chosen as an order statistic of 400, 2 % allowed."""
    from scipy.stats import betabinom

    random = np.random.default_rng(4)
    kept = 0
    for _ in range(500):
        first, second = random.pareto(1.2, 400), random.pareto(1.2, 400)
        limit = np.sort(first)[-4]
        law = betabinom(400, 3 + 1, 400 - 3)
        kept += law.ppf(0.025) <= (second > limit).sum() <= law.ppf(0.975)
    assert kept / 500 >= 0.94


def test_half_of_too_little_is_said(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"--backtest: the first half is not enough for any promise: memory"):
        back_tested(store(tmp_path / "a", spread(100)))
    with pytest.raises(PlanError, match=r"began at one moment"):
        back_tested(store(tmp_path / "b", [row(at, started_ns=S) for at in range(100)]))
    with pytest.raises(PlanError, match=r"no record tells when it began"):
        back_tested(store(tmp_path / "c", [row(at, started_ns=None) for at in range(100)]))


class TestArrivals:
    def test_hours_are_counted_as_far_as_they_lie_inside(self) -> None:
        found = _hours_within(HOUR_NS // 2, DAY_NS + 2 * HOUR_NS)
        assert found[0] == pytest.approx(1.5)
        assert found[1] == pytest.approx(2)
        assert found[2] == pytest.approx(1)
        assert found.sum() == pytest.approx(25.5)

    def test_they_come_at_the_hours_at_which_they_came(self) -> None:
        random = np.random.default_rng(1)
        days = 5
        seen = np.sort(np.concatenate([
            (day * 24 + hour) * HOUR_NS + random.integers(0, HOUR_NS, 200)
            for day in range(days) for hour in (9, 15)
        ]))  # fmt: skip
        found = _again(seen, days * DAY_NS, (days + 1) * DAY_NS, random)
        hours = np.unique(found // 3600)
        assert hours.tolist() == [9, 15]
        assert found.size == pytest.approx(400, abs=100)
        assert (np.diff(found) >= 0).all()

    def test_days_that_differ_beyond_chance_are_told_from_those_that_do_not(self) -> None:
        random = np.random.default_rng(2)

        def of(rates: list[int]) -> float:
            return _unlike_days(
                np.concatenate([day * DAY_NS + random.integers(0, DAY_NS, n) for day, n in enumerate(rates)])
            )

        assert of([1000, 1010, 990, 1005, 998, 1000]) == 0
        assert of([200, 1800, 400, 1500, 300, 1000]) > 0.2
        assert of([1000, 10]) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_steady_fleet_is_not_called_drifting(seed: int, tmp_path: Path) -> None:
    rows = spread(400, seed)
    from planning import plan_of

    plan = plan_of(store(tmp_path, rows))
    assert drift.within(What.TIME, plan.verdicts.wall) is None
    assert drift.within(What.MEMORY, plan.verdicts.memory) is None
