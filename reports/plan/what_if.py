"""What would change the plan: the same question with one thing different, a line each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from proofcost.reports.dataset import Data
from proofcost.reports.plan import words
from proofcost.reports.plan.amounts import Size
from proofcost.reports.plan.asked import Alternative, Asked
from proofcost.reports.plan.evidence import ImpossibleError, PlanError
from proofcost.reports.plan.fleet import KEEPS, NotEnoughError, plan_batch, plan_stream
from proofcost.reports.plan.host import HostPlan, Service, given, plan_host, refuse_useless, service
from proofcost.reports.plan.jobs import Unit, Verdicts
from proofcost.reports.plan.limits import Choice, What, choice
from proofcost.reports.statistics import hardware
from proofcost.reports.statistics.fleet_size import Mean
from proofcost.reports.statistics.hardware import NotComparableError
from proofcost.reports.statistics.sample import BadSampleError

if TYPE_CHECKING:
    from proofcost.reports.plan.made import Plan

MOST_ROWS_OF_CLASSES = 300_000
MOST_JOBS = 5000
"""Verdicts of a replication, at a constant rate."""
MOST_KERNELS = 4
"""Each of so many is left out once; of more, those that were asked for."""
TWICE = "twice the load"
ONE_DOWN = "one host down"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One alternative. Everything but the name is None where `why_not` says why."""

    name: str
    hosts: int | None
    sandboxes: int | None
    """On a host."""
    wait: Mean | None
    """The quantile that was asked for, s; of a batch its makespan."""
    per_hour: float | None
    """Price of all hosts."""
    cost_per_1000: float | None
    solved: float | None
    said: str
    why_not: str | None = None
    impossible: bool = False
    """No number of hosts does it; else what `why_not` says is not known."""
    at_most: bool = False
    """`wait` and `cost_per_1000` are upper bounds: too large a batch to be simulated."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    outcomes: tuple[Outcome, ...]


def alternatives(data: Data, plan: Plan) -> Alternatives:
    """Of a plan with a fleet: the usual two, each kernel alone where there are several, and what was asked for."""
    return Alternatives(tuple(_outcome(data, plan, one) for one in _wanted(plan)))


def _wanted(plan: Plan) -> Iterator[Alternative]:
    yield Alternative(TWICE, load=2.0)
    hosts = plan.stream.hosts if plan.stream is not None else plan.batch.hosts if plan.batch is not None else 0
    if hosts > 1:
        yield Alternative(ONE_DOWN, down=1)
    sandbox, targets = plan.asked.sandbox, plan.asked.limits
    if sandbox.memory_bytes is None:
        more = min(0.5, 5 * targets.oom)
        yield Alternative(f"kills of {words.percent(more)} allowed", oom=more)
    if sandbox.time_ns is None and plan.time.set_to is not None:
        more = min(0.5, 5 * targets.timeouts)
        yield Alternative(f"time-outs of {words.percent(more)} allowed", timeouts=more)
    kernels = plan.evidence.kernels if not plan.asked.kernels else plan.asked.kernels
    if plan.verdicts.unit is not Unit.RECORD and 1 < len(kernels) <= MOST_KERNELS:
        for kernel in kernels:
            yield Alternative(f"without {kernel}", kernels=tuple(one for one in kernels if one != kernel))
    yield from plan.asked.alternatives


def _outcome(data: Data, plan: Plan, wanted: Alternative) -> Outcome:
    try:
        return _sized(data, plan, wanted)
    except (PlanError, NotEnoughError, NotComparableError, BadSampleError) as error:
        impossible = isinstance(error, ImpossibleError)
        return Outcome(wanted.name, None, None, None, None, None, None, "", str(error), impossible)


def _sized(data: Data, plan: Plan, wanted: Alternative) -> Outcome:
    asked, said = _changed(plan.asked, plan, wanted), []
    verdicts = plan.verdicts
    if wanted.kernels:
        verdicts = _of_kernels(data, plan, wanted.kernels)
    refuse_useless(asked, verdicts)
    memory, time = _choices(plan, asked, verdicts)
    speed = wanted.speed or 1.0
    low = high = None
    if wanted.host_class is not None:
        speed, low, high = _speed(data, plan, wanted.host_class)
        ends = f", {1 / high:.3g} to {1 / low:.3g}" if low and high else ", no interval: too few submissions on both"
        said.append(f"its times are {1 / speed:.3g} of ours{ends}")
    if speed != 1.0:
        verdicts = replace(verdicts, wall_ns=verdicts.wall_ns / speed)
        if wanted.speed is not None:
            said.append(f"taken to be {speed:g} times as fast, as given")
    assert asked.host is not None
    assert asked.load is not None
    sandbox = given(asked.sandbox, verdicts, memory, time, plan.disk)
    if asked.sandbox.time_ns is None and speed != 1.0 and sandbox.time_ns is not None:
        sandbox = replace(sandbox, time_ns=sandbox.time_ns / speed)
    work = service(verdicts, sandbox, asked.sandbox, asked.host)
    host = plan_host(asked, asked.host, sandbox, memory, work, plan.trials, both_ways=False)
    if host is None:
        raise PlanError(memory.why_not or "no memory limit")
    if host.count < 1:
        raise ImpossibleError(f"no sandbox fits: {host.concurrency.binding.value} does not suffice for one")
    return _run(plan, asked, wanted, host, verdicts, work, said)


def _run(
    plan: Plan,
    asked: Asked,
    wanted: Alternative,
    host: HostPlan,
    verdicts: Verdicts,
    work: Service,
    said: list[str],
) -> Outcome:
    load = asked.load
    assert load is not None
    price = host.host.price
    at_most = False
    if load.batch is not None:
        batch = plan_batch(asked, load, host, work)
        at_most = not batch.simulated
        if at_most:
            said.append("by bounds: too large to simulate")
            if batch.kept < KEEPS:
                said.append("not sure by the deadline")
        elif batch.kept < 1:
            said.append(f"by the deadline in {batch.kept:.0%} of simulations")
        hosts, wait, cost = batch.hosts, batch.makespan_s, batch.cost_per_1000
    else:
        stream = plan_stream(asked, load, host, verdicts, work, wanted.load or 1.0, MOST_JOBS)
        if stream.unsettled:
            said.append("waits are lower bounds: too busy to settle")
        if stream.estimate.wait_quantile_s.high > load.wait_s:
            said.append("waits are longer than asked for")
        hosts, wait, cost = stream.hosts, stream.estimate.wait_quantile_s, stream.cost_per_1000
    return Outcome(
        wanted.name,
        hosts,
        host.count,
        wait,
        None if price is None else hosts * price.per_hour,
        cost,
        host.solved,
        "; ".join(said),
        at_most=at_most,
    )


def _changed(asked: Asked, plan: Plan, wanted: Alternative) -> Asked:
    """The plan with what is different in it. Arrivals are multiplied elsewhere: a trace is no number."""
    host, load, sandbox, limits = asked.host, asked.load, asked.sandbox, asked.limits
    assert host is not None
    assert load is not None
    if wanted.size is not None:
        assert wanted.size.cores is not None
        assert wanted.size.memory_bytes is not None
        size: Size = wanted.size
        host = replace(host, cores=wanted.size.cores, memory_bytes=wanted.size.memory_bytes, price=wanted.price)
        host = replace(host, disk_bytes=size.disk_bytes or host.disk_bytes)
        if host.reserve_bytes >= host.memory_bytes:
            raise ImpossibleError("the reserve leaves nothing of its memory")
    if wanted.price is not None:
        host = replace(host, price=wanted.price)
    if wanted.memory_bytes is not None:
        sandbox = replace(sandbox, memory_bytes=wanted.memory_bytes)
    if wanted.time_ns is not None:
        sandbox = replace(sandbox, time_ns=wanted.time_ns)
    if wanted.oom is not None:
        limits, sandbox = replace(limits, oom=wanted.oom), replace(sandbox, memory_bytes=None)
    if wanted.timeouts is not None:
        limits, sandbox = replace(limits, timeouts=wanted.timeouts), replace(sandbox, time_ns=None)
    if wanted.load is not None and load.batch is not None:
        load = replace(load, batch=max(1, round(load.batch * wanted.load)))
    now = plan.stream.hosts if plan.stream is not None else plan.batch.hosts if plan.batch is not None else 1
    if wanted.down is not None:
        if now - wanted.down < 1:
            raise ImpossibleError(f"of {now} hosts {wanted.down} down leaves none")
        load = replace(load, hosts=now - wanted.down)
    else:
        # What is there already is no answer to another question.
        load = replace(load, hosts=None)
    return replace(asked, host=host, load=load, sandbox=sandbox, limits=limits)


def _choices(plan: Plan, asked: Asked, verdicts: Verdicts) -> tuple[Choice, Choice]:
    targets = asked.limits
    memory, time = plan.memory, plan.time
    if verdicts is not plan.verdicts or targets.oom != plan.asked.limits.oom:
        memory = choice(What.MEMORY, verdicts.memory, targets.oom, targets.confidence)
    if verdicts is not plan.verdicts or targets.timeouts != plan.asked.limits.timeouts:
        time = choice(What.TIME, verdicts.wall, targets.timeouts, targets.confidence)
    return memory, time


def _of_kernels(data: Data, plan: Plan, kernels: tuple[str, ...]) -> Verdicts:
    """The verdicts if only these kernels checked: the records of the others are taken out."""
    from proofcost.reports.plan import jobs

    known = plan.evidence.kernels
    for name in kernels:
        if name not in known:
            raise PlanError(f"no record of kernel {name!r}; there are {', '.join(known)}")
    connection = data.connection
    marks = ", ".join("?" * len(kernels))
    unwanted = f"kernel IS NOT NULL AND kernel NOT IN ({marks})"
    connection.execute("CREATE OR REPLACE TEMP TABLE plan_all AS SELECT * FROM plan_used")
    connection.execute("CREATE OR REPLACE TEMP TABLE plan_dropped_before AS SELECT * FROM plan_dropped")
    try:
        connection.execute(f"INSERT INTO plan_dropped SELECT session, wall FROM plan_used WHERE {unwanted}", kernels)
        connection.execute(f"DELETE FROM plan_used WHERE {unwanted}", kernels)
        return jobs.verdicts(data)
    finally:
        connection.execute("CREATE OR REPLACE TEMP TABLE plan_used AS SELECT * FROM plan_all")
        connection.execute("CREATE OR REPLACE TEMP TABLE plan_dropped AS SELECT * FROM plan_dropped_before")
        jobs.verdicts(data)


def _speed(data: Data, plan: Plan, host_class: str) -> tuple[float, float | None, float | None]:
    """(how many times as fast as the plan's class, its interval), from what was checked on both."""
    found = data.connection.execute(
        "SELECT submission, work, host_class, wall FROM plan_classes ORDER BY ALL LIMIT ?", (MOST_ROWS_OF_CLASSES,)
    ).fetchnumpy()
    classes = [str(one) for one in np.ma.filled(np.ma.asarray(found["host_class"]), "")]
    if host_class not in classes:
        known = ", ".join(sorted(set(classes))[:5]) or "none that is named"
        raise PlanError(f"no record of host class {host_class!r}; there are {known}")
    own = plan.asked.host.host_class if plan.asked.host is not None else None
    if own is None:
        ours = [one for one in sorted(set(classes)) if one != host_class]
        if len(ours) != 1:
            raise PlanError("which class is the plan's own? name it as class = in [host]")
        own = ours[0]
    if own == host_class:
        return 1.0, None, None
    rows = hardware.rows(
        np.asarray(found["wall"], dtype=float),
        [str(one) for one in found["submission"]],
        [str(one) for one in found["work"]],
        classes,
    )
    factor = hardware.fit_hosts(rows, own).factor(host_class)
    return 1 / factor.ratio, *(
        (None, None) if factor.low is None or factor.high is None else (1 / factor.high, 1 / factor.low)
    )
