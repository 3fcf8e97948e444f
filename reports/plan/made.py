"""A whole plan, worked out: from records and what was asked to limits, a host and a fleet, in no words yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from proofcost.reports.dataset import Data
from proofcost.reports.plan import evidence, jobs
from proofcost.reports.plan.asked import Asked
from proofcost.reports.plan.evidence import Evidence
from proofcost.reports.plan.fleet import BatchPlan, NotEnoughError, StreamPlan, plan_batch, plan_stream
from proofcost.reports.plan.host import Given, HostPlan, Service, given, plan_host, refuse_useless, service
from proofcost.reports.plan.jobs import Verdicts
from proofcost.reports.plan.limits import (
    Bid,
    BySize,
    Choice,
    GroupLimits,
    Retries,
    TailAsked,
    What,
    bids,
    by_size,
    choice,
    limits_of,
    retries,
    tail_of,
)
from proofcost.reports.plan.profiles import profiles
from proofcost.reports.plan.trials import Trials, trials
from proofcost.reports.plan.what_if import Alternatives, alternatives
from proofcost.reports.where import Where


@dataclass(frozen=True, slots=True)
class Plan:
    asked: Asked
    evidence: Evidence
    verdicts: Verdicts
    memory: Choice
    time: Choice
    disk: Choice
    """Of whole verdicts: what a sandbox is given."""
    bids: tuple[tuple[What, tuple[Bid, ...]], ...]
    sized: BySize | None
    groups: tuple[GroupLimits, ...]
    ladder: Retries | None
    tails: tuple[tuple[What, TailAsked], ...]
    """Where a tail was asked for."""
    given: Given
    trials: tuple[Trials, ...]
    work: Service | None
    host: HostPlan | None
    stream: StreamPlan | None
    batch: BatchPlan | None
    no_fleet: str | None
    """Why there is none though one was asked for."""
    alternatives: Alternatives | None

    @property
    def missing(self) -> tuple[str, ...]:
        """What there is not enough data for, one clause each."""
        found = []
        fixed = self.asked.sandbox
        for one, settled in ((self.memory, fixed.memory_bytes), (self.time, fixed.time_ns)):
            if one.why_not is not None and settled is None:
                found.append(f"{one.what.value}: {one.why_not}")
        if self.no_fleet is not None:
            found.append(self.no_fleet)
        return tuple(found)


def make(data: Data, where: Where, asked: Asked, with_alternatives: bool = True) -> Plan:
    """Raises PlanError."""
    found = evidence.gather(data, where, asked)
    verdicts = jobs.verdicts(data)
    refuse_useless(asked, verdicts)
    targets = asked.limits
    memory = choice(What.MEMORY, verdicts.memory, targets.oom, targets.confidence)
    time = choice(What.TIME, verdicts.wall, targets.timeouts, targets.confidence)
    disk = choice(What.DISK, verdicts.disk, targets.disk, targets.confidence)
    sandbox = given(asked.sandbox, verdicts, memory, time, disk)
    contention = trials(data, asked.host.host_class if asked.host is not None else None)
    host = work = stream = batch = no_fleet = None
    if asked.host is not None:
        work = service(verdicts, sandbox, asked.sandbox, asked.host)
        if verdicts.count:
            host = plan_host(asked, asked.host, sandbox, memory, work, contention, profiles=profiles(data))
        if asked.load is not None and host is None:
            no_fleet = "no fleet without a memory limit: measure memory, or give one (sandbox.memory)"
            if not verdicts.count:
                no_fleet = "no fleet: no verdict tells its time"
    if asked.load is not None and host is not None and work is not None:
        try:
            if asked.load.batch is not None:
                batch = plan_batch(asked, asked.load, host, work)
            else:
                stream = plan_stream(asked, asked.load, host, verdicts, work)
        except NotEnoughError as error:
            no_fleet = f"not enough data for a fleet: {error}"
    made = Plan(
        asked=asked,
        evidence=found,
        verdicts=verdicts,
        memory=memory,
        time=time,
        disk=disk,
        bids=tuple(
            (what, bids(what, amounts, targets))
            for what, amounts in (
                (What.MEMORY, verdicts.memory),
                (What.TIME, verdicts.wall),
                (What.DISK, verdicts.disk),
            )
        ),
        sized=by_size(verdicts.wall, targets),
        groups=tuple(limits_of(group, targets) for group in found.groups),
        ladder=retries(memory, targets.ladder),
        tails=((What.MEMORY, tail_of(verdicts.memory)), (What.TIME, tail_of(verdicts.wall))) if targets.tail else (),
        given=sandbox,
        trials=contention,
        work=work,
        host=host,
        stream=stream,
        batch=batch,
        no_fleet=no_fleet,
        alternatives=None,
    )
    if with_alternatives and (stream is not None or batch is not None):
        made = replace(made, alternatives=alternatives(data, made))
    return made
