"""Would the plan have held? Made from the first half of the records, held against the second.

A limit's promise is an interval for how many of the second half exceed it: what a binomial number looks like whose
share is known from so many runs (beta-binomial; exact for a limit that is an order statistic, whatever the
distribution). Waits are promised by simulations as long as the second half: arrivals by the hour of the day and
verdicts of the first drawn anew, with the uncertainty about their rate; then the second half is replayed as it came.
All intervals together hold with the stated confidence. A fleet that drifts breaks promises: it is called so, and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from proofcost.reports.dataset import Data
from proofcost.reports.plan import drift, evidence, jobs, made
from proofcost.reports.plan.asked import Asked, Load
from proofcost.reports.plan.drift import Drift
from proofcost.reports.plan.evidence import Amounts, PlanError
from proofcost.reports.plan.fleet import fleet_of, pool
from proofcost.reports.plan.host import HostPlan, Service, service
from proofcost.reports.plan.jobs import Verdicts
from proofcost.reports.plan.limits import Choice, What
from proofcost.reports.plan.made import Plan
from proofcost.reports.statistics.fleet import Fleet, simulate
from proofcost.reports.statistics.jobs import Jobs, draw_jobs
from proofcost.reports.statistics.jobs import jobs as jobs_of
from proofcost.reports.statistics.sample import Floats
from proofcost.reports.where import Where

CONFIDENCE = 0.95
"""Of all intervals together."""
REPLICATIONS = 200
"""Of the second half: its ends are the least and the largest of them where five promises share 5 %."""
HOUR_NS, DAY_NS = 3600 * 10**9, 86400 * 10**9
MOST_VERDICTS = 20_000
"""Of the second half that are replayed, from its start on."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise and what became of it. Shares, or s."""

    name: str
    unit: str
    low: float
    high: float
    realised: float
    count: int
    """Of the second half that it was held against."""
    unknown: int = 0
    """Stopped before they showed it: not counted."""

    @property
    def kept(self) -> bool:
        return self.low <= self.realised <= self.high


@dataclass(frozen=True, slots=True)
class BackTested:
    plan: Plan
    """Of the first half."""
    checks: tuple[Check, ...]
    drifts: tuple[Drift, ...]
    """Between the halves."""
    foreseen: tuple[Drift, ...]
    """Within the first half: what could have been known."""
    replayed: int
    said: tuple[str, ...]

    @property
    def broken(self) -> bool:
        return any(not check.kept for check in self.checks)


def backtest(data: Data, where: Where, asked: Asked) -> BackTested:
    """Raises PlanError where there is nothing to split, or too little for a promise."""
    cut = _cut(data, where)
    said = []
    load = asked.load
    if load is not None and not load.trace:
        load = Load(trace=True, quantile=load.quantile, wait_s=load.wait_s, hosts=load.hosts,
                    hosts_most=load.hosts_most, discipline=load.discipline, replications=load.replications)  # fmt: skip
        asked = replace(asked, load=load)
        said.append("the load that was asked for is none that the records had: verdicts come as they came there")
    plan = made.make(data, _half(where, cut, "<"), asked, with_alternatives=False)
    evidence.gather(data, _half(where, cut, ">="), asked)
    second = jobs.verdicts(data)
    tests: list[Callable[[float], Check | None]] = []
    for one, new, amount, fixed in (
        (plan.memory, second.memory, plan.given.memory_bytes, asked.sandbox.memory_bytes),
        (plan.time, second.wall, plan.given.time_ns, asked.sandbox.time_ns),
    ):
        if amount is not None and one.limit.runs and new.count:
            tests.append(_limit_test(one, new, amount, fixed is not None))
    replayed = 0
    if plan.stream is not None and plan.host is not None and plan.work is not None and load is not None:
        replayed = min(second.count, MOST_VERDICTS)
        tests += _wait_tests(plan, plan.host, plan.work, load, second, replayed)
    if not tests:
        why = "; ".join(plan.missing) or "no limit was asked for"
        raise PlanError(f"--backtest: the first half is not enough for any promise: {why}")
    each = 1 - (1 - CONFIDENCE) / len(tests)
    checks = tuple(check for test in tests if (check := test(each)) is not None)
    pairs = ((What.TIME, plan.verdicts.wall, second.wall), (What.MEMORY, plan.verdicts.memory, second.memory))
    return BackTested(
        plan=plan,
        checks=checks,
        drifts=tuple(d for what, a, b in pairs if (d := drift.between(what, a, b)) is not None),
        foreseen=tuple(d for what, a, _ in pairs if (d := drift.within(what, a)) is not None),
        replayed=replayed,
        said=tuple(said),
    )


def _cut(data: Data, where: Where) -> int:
    """When the second half of the sessions begins."""
    data.keep("plan_sessions", f"SELECT min(started_ns) AS began FROM records WHERE {where.sql} GROUP BY session",
              where.parameters)  # fmt: skip
    query = "SELECT quantile_disc(began, 0.5), min(began), count(*) FROM plan_sessions"
    found = data.connection.execute(query).fetchone()
    if found is None or found[0] is None:
        raise PlanError("--backtest: no record tells when it began")
    if found[0] == found[1]:
        raise PlanError(f"--backtest: {found[2]} sessions began at one moment: there is no second half")
    return int(found[0])


def _half(where: Where, cut: int, which: str) -> Where:
    began = f"SELECT session FROM records GROUP BY session HAVING min(started_ns) {which} ?"
    return Where(f"({where.sql}) AND session IN ({began})", (*where.parameters, cut))


def _limit_test(one: Choice, new: Amounts, amount: float, fixed: bool) -> Callable[[float], Check | None]:
    over = int(((new.values > amount) | (new.stopped & (new.values >= amount))).sum())
    unknown = int((new.stopped & (new.values < amount)).sum())
    known = new.count - unknown
    old = one.amounts
    informed = old.count - int((old.stopped & (old.values < amount)).sum())
    share = one.limit.curve.exceedance(amount).value or 0.0
    above = share * informed
    # The limit is one of the amounts itself; a given one is not.
    alpha, beta = (above + 0.5, informed - above + 0.5) if fixed else (above + 1, max(informed - above, 0.5))

    def test(confidence: float) -> Check | None:
        from scipy.stats import betabinom

        if known < 1:
            return None
        law = betabinom(known, alpha, beta)
        low, high = float(law.ppf((1 - confidence) / 2)), float(law.ppf((1 + confidence) / 2))
        what = "killed for memory" if one.what is What.MEMORY else "stopped by time"
        return Check(what, "share", max(0.0, low) / known, high / known, over / known, known, unknown)

    return test


def _wait_tests(
    plan: Plan, host: HostPlan, work: Service, load: Load, second: Verdicts, replayed: int
) -> list[Callable[[float], Check | None]]:
    assert plan.stream is not None
    assert plan.asked.host is not None
    fleet = replace(fleet_of(host, load), hosts=plan.stream.hosts)
    real = pool(host, service(second, plan.given, plan.asked.sandbox, plan.asked.host))
    begin = int(second.started_ns.min())
    times = (second.started_ns - begin) / 1e9
    order = np.argsort(times, kind="stable")[:replayed]
    end = int(second.started_ns[order][-1])
    realised = _waits(jobs_of(times[order], real.service_s[order], real.memory_bytes[order], real.cores[order]), fleet)
    records = pool(host, work)
    promised: list[Floats] = []
    for at in range(REPLICATIONS):
        random = np.random.default_rng([plan.asked.seed, 77, at])
        arrivals = _again(plan.verdicts.started_ns, begin, end, random)
        if arrivals.size < 2:
            continue
        # Which records there happen to be is uncertain, too: draw from a draw.
        rows = random.integers(records.count, size=records.count)
        drawn = Jobs(records.arrival_s, records.service_s[rows], records.memory_bytes, records.cores)
        promised.append(_waits(draw_jobs(drawn, arrivals, random), fleet))

    def test_of(of: Callable[[Floats], float], name: str, unit: str) -> Callable[[float], Check | None]:
        values = np.array([of(waits) for waits in promised])

        def test(confidence: float) -> Check | None:
            if values.size < REPLICATIONS // 2:
                return None
            # A further one lies outside of the k smallest and largest of n with a chance of 2 k / (n + 1).
            outside = max(1, math.floor((1 - confidence) / 2 * (values.size + 1)))
            ranked = np.sort(values)
            return Check(name, unit, float(ranked[outside - 1]), float(ranked[-outside]), of(realised), replayed)

        return test

    p = f"p{100 * load.quantile:g}"
    return [
        test_of(lambda waits: float((waits > 0).mean()), "had to wait", "share"),
        test_of(lambda waits: float((waits > load.wait_s).mean()), "waited longer than asked", "share"),
        test_of(lambda waits: float(np.quantile(waits, load.quantile)), f"{p} of waits", "s"),
    ]


def _waits(work: Jobs, fleet: Fleet) -> Floats:
    return simulate(work, fleet).wait_s


def _again(seen_ns: np.ndarray, begin_ns: int, end_ns: int, random: np.random.Generator) -> Floats:
    """Arrivals from the one moment to the other, s after the first, as those seen were: by the hour of the day, random
    within it; the rate as unsure as so many make it, and days as unlike as they were beyond chance."""
    counts = np.bincount(seen_ns // HOUR_NS % 24, minlength=24)
    exposed = _hours_within(int(seen_ns.min()), int(seen_ns.max()) + 1)
    overall = seen_ns.size / max(float(exposed.sum()), 1e-9)
    rates = np.where(exposed > 0.5, counts / np.maximum(exposed, 1e-9), overall)
    rates = rates * random.gamma(seen_ns.size, 1 / seen_ns.size)
    unlike = _unlike_days(seen_ns)
    times: list[Floats] = []
    for hour in range(begin_ns // HOUR_NS, end_ns // HOUR_NS + 1):
        if unlike and (hour % 24 == 0 or not times):
            factor = random.gamma(1 / unlike, unlike)
        rate = rates[hour % 24] * (factor if unlike else 1.0)
        times.append(hour * 3600.0 + np.sort(random.uniform(0, 3600.0, int(random.poisson(rate)))))
    found = np.concatenate(times) - begin_ns / 1e9
    inside: Floats = found[(found >= 0) & (found <= (end_ns - begin_ns) / 1e9)]
    return inside


def _hours_within(begin_ns: int, end_ns: int) -> Floats:
    """How many hours of each hour of the day lie between; shape (24,)."""
    found = np.zeros(24)
    for hour in range(begin_ns // HOUR_NS, end_ns // HOUR_NS + 1):
        inside = min(end_ns, (hour + 1) * HOUR_NS) - max(begin_ns, hour * HOUR_NS)
        found[hour % 24] += max(0, inside) / HOUR_NS
    return found


def _unlike_days(seen_ns: np.ndarray) -> float:
    """Squared variation of whole days' rates beyond chance; 0 with fewer than three of them."""
    days = np.bincount((seen_ns - seen_ns.min()) // DAY_NS)[:-1]
    if days.size < 3:
        return 0.0
    mean = float(days.mean())
    extra = (float(days.var(ddof=1)) - mean) / mean**2
    # Below what chance alone makes of so few days, it is none.
    return extra if extra > 2 * math.sqrt(2 / (days.size - 1)) / mean else 0.0
