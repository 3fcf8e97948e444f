"""C4 and C5: how many hosts: a bracket by formula, then simulations driven by the records, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from proofcost.reports.plan import words
from proofcost.reports.plan.asked import Asked, Load
from proofcost.reports.plan.evidence import ImpossibleError, PlanError
from proofcost.reports.plan.host import HostPlan, Service
from proofcost.reports.plan.jobs import Verdicts
from proofcost.reports.statistics import arrivals
from proofcost.reports.statistics.alarm_rate import share_interval
from proofcost.reports.statistics.fleet import Fleet
from proofcost.reports.statistics.fleet_size import (
    REPLICATIONS,
    FleetEstimate,
    Mean,
    estimate_fleet,
    hosts_for_wait,
    mean_of,
)
from proofcost.reports.statistics.jobs import Jobs, draw_jobs
from proofcost.reports.statistics.packing import (
    batch_bound,
    batch_makespan,
    hosts_for_deadline,
    longest_first_bounds,
    machines_for,
)
from proofcost.reports.statistics.queueing import OverloadedError, mmc
from proofcost.reports.statistics.sample import Floats

LEAST_JOBS, MOST_JOBS, MOST_DAY = 1000, 10_000, 20_000
"""Verdicts of one replication at a constant rate, and of one of whole days."""
SERVICE_TIMES = 20
"""A replication lasts so many times what one verdict takes, so that the empty fleet at its start is forgotten."""
RELAXATIONS = 8
"""And so many times what a queue takes to settle, 1 / (1 - sqrt(use))^2 of a verdict's share of the fleet (Cohen): at
92 % of use 4,400 verdicts, whose waits are 2 % below those of 10,000."""
LEAST_VERDICTS = 20
"""Fewer records give no fleet."""
KEEPS = 0.95
"""Share of batches that a number of hosts must finish by the deadline."""
MOST_PLACED = 1_000_000
"""Verdicts of all replications of a batch that are placed one by one, in about a second; of more there are bounds."""
HOUR_S, DAY_S = arrivals.HOUR_S, arrivals.DAY_S

MOST_OF_A_MONTH = 1_000_000
"""Verdicts of a month that are drawn; of more, every so many-th."""

Arrive = Callable[[np.random.Generator], Floats]


@dataclass(frozen=True, slots=True)
class Stream:
    """Arrivals of one replication."""

    arrive: Arrive
    rate_per_s: float
    """Mean over the whole day, or trace."""
    busiest_per_s: float
    """Of the busiest hour."""
    said: str
    count: int | None = None
    """Verdicts of a replication at a constant rate."""


def stream(load: Load, verdicts: Verdicts, service_s: float, factor: float = 1.0, least: int = LEAST_JOBS) -> Stream:
    """`factor`: times as much load; `least`: verdicts of a replication. Raises PlanError where the records give no
    trace."""
    if load.rate_per_s is not None:
        rate = load.rate_per_s * factor
        count = int(min(MOST_JOBS, max(least, SERVICE_TIMES * service_s * rate)))
        return Stream(
            lambda random: arrivals.constant(rate, count, random),
            rate,
            rate,
            f"{_hourly(rate)} at random, {count} verdicts a replication",
            count,
        )
    if load.per_hour is not None:
        hours = [x * factor for x in load.per_hour]
        mean = sum(hours) / DAY_S
        said = f"{_hourly(mean)} in the mean, {max(hours):g}/h in the busiest hour of the day"
        if sum(hours) > MOST_DAY:
            rate = max(hours) / HOUR_S
            count = int(min(MOST_JOBS, max(LEAST_JOBS, SERVICE_TIMES * service_s * rate)))
            return Stream(
                lambda random: arrivals.constant(rate, count, random), mean, rate, f"{said}; the busiest is simulated"
            )
        days = 2 if sum(hours) * 2 <= MOST_DAY else 1
        return Stream(lambda random: arrivals.daily(hours, days, random), mean, max(hours) / HOUR_S, said)
    return _of_trace(verdicts, factor)


def _of_trace(verdicts: Verdicts, factor: float) -> Stream:
    times = np.sort(verdicts.started_ns[verdicts.started_ns > 0]) / 1e9
    if times.size and times[-1] <= times[0]:
        raise PlanError(f"fleet.trace: all {times.size} records began at one moment; give a rate instead (fleet.rate)")
    if times.size < LEAST_VERDICTS:
        raise PlanError(f"fleet.trace: {times.size} records tell when they began; at least {LEAST_VERDICTS} are needed")
    since = times - times[0]
    rate = times.size / float(since[-1]) * factor
    hours = np.bincount((since // HOUR_S).astype(int))
    busiest = float(hours.max()) / HOUR_S * factor if since[-1] > HOUR_S else rate
    block = DAY_S
    while block > HOUR_S and rate * block > MOST_DAY:
        block /= 2
    blocks = max(1, min(7, int(MOST_DAY // max(1.0, rate * block))))

    def arrive(random: np.random.Generator) -> Floats:
        found = arrivals.from_trace(since, blocks, random, block)
        if factor != 1:
            # As many more at like moments, not the same ones faster: a rush stays as long as it is.
            found = np.sort(np.repeat(found, random.poisson(factor, found.size)))
        return found

    span = "days" if block == DAY_S else f"spans of {block / HOUR_S:.3g} h"
    return Stream(
        arrive, rate, busiest, f"{_hourly(rate)} in the mean, as they came in the records, {blocks} {span} drawn"
    )


def _hourly(rate_per_s: float) -> str:
    return f"{words.number(rate_per_s * HOUR_S)}/h"


@dataclass(frozen=True, slots=True)
class Bracket:
    """By formula, before anything is simulated."""

    least: int
    """By the amount of work alone: with fewer the queue grows without end."""
    formula: int | None
    """Whose waits keep to the target by Erlang's formula, corrected for the spread of times; None for more than there
    may be."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    stream: Stream
    hosts: int
    given: bool
    """The number was given, not sought."""
    bracket: Bracket
    estimate: FleetEstimate
    one_less: FleetEstimate | None
    cost_per_1000: float | None
    """Of 1,000 solved ones."""
    unsettled: bool
    """Replications were too short for so busy, or so large, a fleet to settle: their waits are lower bounds, and the
    number of hosts is the formula's where that is larger."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    hosts: int
    given: bool
    at_least: int
    bound_s: float
    """No schedule is shorter, in the mean."""
    makespan_s: Mean
    kept: float
    kept_low: float
    kept_high: float
    """Share of replications that were done by the deadline, and its interval."""
    replications: int
    cost_per_1000: float | None
    simulated: bool = True
    """Else too large a batch to be placed job by job: makespan and cost are upper bounds, the share a lower one."""


def pool(plan: HostPlan, work: Service) -> Jobs:
    """Records as jobs: a slot each, as long as it takes among its neighbours."""
    n = work.seconds.size
    slot = _slot_bytes(plan)
    return Jobs(np.zeros(n), work.seconds / plan.efficiency, np.full(n, slot), np.full(n, _slot_cores(plan)))


def _slot_bytes(plan: HostPlan) -> float:
    """What is set aside: the limit, or a share of the host where its memory is overcommitted."""
    room = plan.host.memory_bytes - plan.host.reserve_bytes
    assert plan.sandbox.memory_bytes is not None
    return min(plan.sandbox.memory_bytes, room / plan.count)


def _slot_cores(plan: HostPlan) -> float:
    return min(plan.sandbox.cores, plan.host.cores / plan.count)


def fleet_of(plan: HostPlan, load: Load, hosts: int = 1) -> Fleet:
    room = plan.host.memory_bytes - plan.host.reserve_bytes
    return Fleet(hosts, room * (1 + 1e-9), plan.host.cores, plan.count, load.discipline)


def plan_stream(
    asked: Asked,
    load: Load,
    plan: HostPlan,
    verdicts: Verdicts,
    work: Service,
    factor: float = 1.0,
    most_jobs: int = MOST_JOBS,
) -> StreamPlan:
    """Raises PlanError for a rate that no number of hosts (or the given number) can keep up with: it says the most."""
    records = pool(plan, work)
    _enough(records)
    mean = float(records.service_s.mean())
    made = _simulated(asked, load, plan, records, stream(load, verdicts, mean, factor))
    for _ in range(3):
        needed, count = settling(made, mean, plan.count), made.stream.count
        if count is None or count >= min(needed, most_jobs):
            break
        least = math.ceil(min(needed, most_jobs))
        made = _simulated(asked, load, plan, records, stream(load, verdicts, mean, factor, least))
    unsettled = made.stream.count is not None and made.stream.count < settling(made, mean, plan.count)
    formula = made.bracket.formula
    if unsettled and load.hosts is None and formula is not None and formula > made.hosts:
        # What does not settle in a simulation shows too little waiting; the formulas are of the steady state.
        made = _simulated(asked, replace(load, hosts=formula), plan, records, made.stream)
        made = replace(made, given=False)
    return replace(made, unsettled=unsettled)


def settling(made: StreamPlan, service_s: float, sandboxes: int) -> float:
    """Verdicts that a replication needs for the fleet to forget that it began empty; infinite where it never does."""
    load = made.stream.rate_per_s * service_s
    used = load / (made.hosts * sandboxes)
    return max(SERVICE_TIMES * load, RELAXATIONS * used / (1 - math.sqrt(used)) ** 2) if used < 1 else math.inf


def _simulated(asked: Asked, load: Load, plan: HostPlan, records: Jobs, found: Stream) -> StreamPlan:
    fleet = fleet_of(plan, load)

    def make(random: np.random.Generator) -> Jobs:
        times = found.arrive(random)
        while times.size < 10:  # a quiet day of a trace
            times = found.arrive(random)
        return draw_jobs(records, times, random)

    bracket = _bracket(load, plan, records, found)
    if load.hosts is not None and load.hosts < bracket.least:
        raise _overloaded(asked, load.hosts, plan, found)
    try:
        if load.hosts is not None:
            estimate = _estimate(make, fleet, load, load.hosts, asked.seed)
            one_less = _estimate(make, fleet, load, load.hosts - 1, asked.seed) if load.hosts > bracket.least else None
            hosts = load.hosts
        else:
            sized = hosts_for_wait(
                make,
                fleet,
                load.wait_s,
                quantile=load.quantile,
                most=load.hosts_most,
                replications=load.replications,
                seed=asked.seed,
            )
            hosts, estimate, one_less = sized.hosts, sized.estimate, sized.one_less
            if hosts < bracket.least:  # by the luck of a short simulation
                hosts, one_less = bracket.least, None
                estimate = _estimate(make, fleet, load, hosts, asked.seed)
    except OverloadedError:
        raise _overloaded(asked, load.hosts_most, plan, found) from None
    return StreamPlan(
        found, hosts, load.hosts is not None, bracket, estimate, one_less, _cost(plan, hosts, found.rate_per_s), False
    )


def _estimate(
    make: Callable[[np.random.Generator], Jobs], fleet: Fleet, load: Load, hosts: int, seed: int
) -> FleetEstimate:
    return estimate_fleet(
        make, replace(fleet, hosts=hosts), quantile=load.quantile, replications=load.replications, seed=seed
    )


def _cost(plan: HostPlan, hosts: int, rate_per_s: float) -> float | None:
    if plan.host.price is None or not plan.solved:
        return None
    return hosts * plan.host.price.per_hour / (rate_per_s * HOUR_S * plan.solved) * 1000


def _enough(records: Jobs) -> None:
    if records.count < LEAST_VERDICTS:
        raise NotEnoughError(f"{records.count} verdicts; a fleet is planned from at least {LEAST_VERDICTS}")


class NotEnoughError(Exception):
    """Too few records for a fleet: no fault of the plan. One line."""


def _overloaded(asked: Asked, hosts: int, plan: HostPlan, found: Stream) -> ImpossibleError:
    how = next(
        (asked.said[key] for key in ("fleet.rate", "fleet.profile", "fleet.hosts") if key in asked.said), "fleet"
    )
    most = hosts * plan.per_hour
    return ImpossibleError(
        f"{how}: {_hourly(found.rate_per_s)} is more than {hosts} hosts of {plan.count} sandboxes can do: the most is "
        f"{words.number(most)}/h; give more hosts, larger ones, or less work"
    )


def _bracket(load: Load, plan: HostPlan, records: Jobs, found: Stream) -> Bracket:
    """Arrivals are taken for random at the mean rate: the formulas know neither days nor traces."""
    mean = float(records.service_s.mean())
    scv = float(records.service_s.var()) / mean**2
    least = max(1, math.floor(found.rate_per_s * mean / plan.count) + 1)
    hosts = least
    while hosts <= load.hosts_most:
        queue = mmc(found.rate_per_s, mean, hosts * plan.count)
        # Allen and Cunneen's factor on the whole of the wait, with arrivals of squared variation 1.
        if (1 + scv) / 2 * queue.wait_quantile_s(load.quantile) <= load.wait_s:
            return Bracket(least, hosts)
        hosts += max(1, hosts // 50)
    return Bracket(least, None)


def plan_batch(asked: Asked, load: Load, plan: HostPlan, work: Service) -> BatchPlan:
    """Raises ImpossibleError where no number of hosts can do it."""
    assert load.batch is not None
    assert load.deadline_s is not None
    records = pool(plan, work)
    _enough(records)
    longest = float(records.service_s.max())
    how = asked.said.get("fleet.deadline", "fleet.deadline")
    if longest > load.deadline_s:
        raise ImpossibleError(
            f"{how}: {load.deadline_s:g} s is shorter than one verdict can take, {longest:.0f} s; give more time, or a "
            "time limit below it (sandbox.time)"
        )

    if load.batch * load.replications > MOST_PLACED:
        return _batch_by_bounds(asked, load, plan, records, load.batch, load.deadline_s)

    def batch(at: int) -> Jobs:
        random = np.random.default_rng([asked.seed, at])
        return draw_jobs(records, np.zeros(load.batch or 0), random)

    fleet = fleet_of(plan, load)
    first = hosts_for_deadline(batch(0), fleet, load.deadline_s, load.hosts_most)
    hosts = load.hosts or (first.hosts if first else None)
    if hosts is None:
        raise _too_many(asked, load, plan, records)
    while True:
        spans = [batch_makespan(batch(at), replace(fleet, hosts=hosts)) for at in range(load.replications)]
        kept = sum(span <= load.deadline_s for span in spans)
        if load.hosts is not None or kept >= KEEPS * len(spans) or hosts >= load.hosts_most:
            break
        hosts += 1
    mean = mean_of(spans)
    cost = _batch_cost(plan, hosts, mean.value, load.batch)
    low, high = share_interval(kept, len(spans))
    bound = float(np.mean([batch_bound(batch(at), replace(fleet, hosts=hosts)) for at in range(load.replications)]))
    return BatchPlan(
        hosts,
        load.hosts is not None,
        first.at_least if first else 1,
        bound,
        mean,
        kept / len(spans),
        low,
        high,
        len(spans),
        cost,
    )


def _batch_cost(plan: HostPlan, hosts: int, makespan_s: float, batch: int) -> float | None:
    if plan.host.price is None or not plan.solved:
        return None
    return hosts * makespan_s / HOUR_S * plan.host.price.per_hour / (batch * plan.solved) * 1000


def _too_many(asked: Asked, load: Load, plan: HostPlan, records: Jobs) -> ImpossibleError:
    how = asked.said.get("fleet.deadline", "fleet.deadline")
    assert load.deadline_s is not None
    most = int(load.hosts_most * plan.count * load.deadline_s / float(records.service_s.mean()))
    return ImpossibleError(
        f"{how}: {load.batch} verdicts by {load.deadline_s:g} s need more than {load.hosts_most} hosts, which do "
        f"about {most}; give more hosts (fleet.hosts_most) or more time"
    )


def _batch_by_bounds(
    asked: Asked, load: Load, plan: HostPlan, records: Jobs, batch: int, deadline_s: float
) -> BatchPlan:
    """Of so many verdicts how often each record is drawn is drawn at once, and bounds stand in for the schedule."""
    times, n = records.service_s, records.count

    def draws() -> Iterator[Floats]:
        for at in range(REPLICATIONS):
            random = np.random.default_rng([asked.seed, at])
            yield random.multinomial(batch, np.full(n, 1 / n)).astype(float)

    needed, works = zip(*((machines_for(times, one, deadline_s), float(times @ one)) for one in draws()), strict=True)
    at_least = max(1, math.ceil(min(works) / (deadline_s * plan.count)))
    if load.hosts is None and at_least > load.hosts_most:
        raise _too_many(asked, load, plan, records)
    enough = math.ceil(sorted(needed)[math.ceil(KEEPS * REPLICATIONS) - 1] / plan.count)
    hosts = load.hosts or min(enough, load.hosts_most)
    lows, highs = zip(*(longest_first_bounds(times, one, hosts * plan.count) for one in draws()), strict=True)
    kept = sum(one <= hosts * plan.count for one in needed)
    low, high = share_interval(kept, REPLICATIONS)
    mean = mean_of(highs)
    return BatchPlan(
        hosts=hosts,
        given=load.hosts is not None,
        at_least=at_least,
        bound_s=float(np.mean(lows)),
        makespan_s=mean,
        kept=kept / REPLICATIONS,
        kept_low=low,
        kept_high=high,
        replications=REPLICATIONS,
        cost_per_1000=_batch_cost(plan, hosts, mean.value, batch),
        simulated=False,
    )


def month(
    load: Load, plan: HostPlan, verdicts: Verdicts, work: Service, seed: int, days: int = 30
) -> tuple[Floats, Floats]:
    """(hours, hosts that the work of each hour fills), over a month, if nobody ever waited."""
    random = np.random.default_rng([seed, 30])
    records = pool(plan, work)
    expected = days * (load.rate_per_s or sum(load.per_hour or ()) / DAY_S) * DAY_S
    thinned = max(1.0, expected / MOST_OF_A_MONTH)
    if load.rate_per_s is not None:
        count = max(1, int(random.poisson(expected / thinned)))
        times = np.sort(random.uniform(0, days * DAY_S, count))
    elif load.per_hour is not None:
        times = arrivals.daily([x / thinned for x in load.per_hour], days, random)
    else:
        since = np.sort(verdicts.started_ns[verdicts.started_ns > 0]) / 1e9
        times = arrivals.from_trace(since, days, random)
        if since[-1] - since[0] < DAY_S:
            days = max(1, math.ceil((times[-1] - times[0]) / DAY_S))
    service = random.choice(records.service_s, times.size)
    hours = np.arange(days * 24 + 1) * HOUR_S
    # Work of each hour: what began before its end less what began before its start, each as far as it had come.
    done = _work_before(times, service, np.asarray(hours, dtype=np.float64))
    busy: Floats = np.diff(done) / HOUR_S / plan.count * thinned
    return np.arange(days * 24, dtype=float), busy


def _work_before(times: Floats, service: Floats, moments: Floats) -> Floats:
    """Seconds of work done by each moment, all starting as they arrive."""
    ends = np.sort(times + service)
    begun, ended = np.searchsorted(times, moments), np.searchsorted(ends, moments)
    starts_sum = np.concatenate([[0.0], np.cumsum(times)])
    ends_sum = np.concatenate([[0.0], np.cumsum(ends)])
    # Of all begun (moment - start), less of all ended (moment - end).
    found: Floats = begun * moments - starts_sum[begun] - (ended * moments - ends_sum[ended])
    return found
