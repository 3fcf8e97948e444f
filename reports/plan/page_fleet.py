"""The fleet as tables, its load over a month, and the what-if table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proofcost.reports.document import Bound, Column, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.plan import words
from proofcost.reports.plan.fleet import BatchPlan, StreamPlan, month
from proofcost.reports.statistics.fleet_size import FleetEstimate, Mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from proofcost.reports.plan.made import Plan
    from proofcost.reports.plan.what_if import Outcome


UNSETTLED = (
    "So busy, or so large, a fleet does not settle within the longest simulation: its waits are lower bounds, and the "
    "number of hosts is the formula's, of a steady state."
)
BY_BOUNDS = (
    "So large a batch is not placed verdict by verdict: all is done no later than a bound of its schedule (each starts "
    "no later than the mean of what was placed before it), and the hosts are the fewest whose bound keeps to the "
    "deadline."
)


def fleet_section(plan: Plan) -> Section:
    if plan.batch is not None:
        return _batch(plan, plan.batch)
    assert plan.stream is not None
    return _stream(plan, plan.stream)


def _mean(found: Mean, confidence: float, scale: float = 1.0) -> Entry:
    return Estimate(found.value * scale, max(0.0, found.low * scale), found.high * scale, confidence)


def _taken(found: Mean, at_most: bool) -> Entry:
    """s, in the mean; or what that is surely no longer than."""
    return Bound(found.high * 1e9, at_least=False) if at_most else _mean(found, 0.95, 1e9)


def _batch_cost(plan: Plan, cost: float | None, at_most: bool) -> Entry:
    if cost is None:
        return _no_price(plan)
    return Bound(cost, at_least=False) if at_most else cost


def _no_price(plan: Plan) -> Entry:
    priced = plan.host is not None and plan.host.host.price is not None
    return Missing("nothing is solved" if priced else "no price was given")


def _stream(plan: Plan, found: StreamPlan) -> Section:
    estimate, load = found.estimate, plan.asked.load
    assert load is not None
    p = f"p{100 * load.quantile:g}"
    columns = (
        Column("hosts", "hosts", "count"),
        Column("mean_wait", "mean wait", "ns", "plan_wait"),
        Column("wait", f"{p} of waits", "ns", "plan_wait"),
        Column("waiting", "verdicts that wait", "share"),
        Column("cores_used", "cores in use", "share", "plan_used"),
        Column("memory_used", "memory in use", "share", "plan_used"),
        Column("per_hour", "price an hour", "money"),
        Column("cost_per_1000", "cost per 1,000", "money", "plan_cost"),
    )
    rows = [_row(plan, found, estimate)]
    if found.one_less is not None:
        rows.append(_row(plan, found, found.one_less))
    bracket = found.bracket
    formula = "more than there may be" if bracket.formula is None else str(bracket.formula)
    text = (
        f"{found.stream.said[0].upper()}{found.stream.said[1:]}.",
        f"By the amount of work alone {bracket.least}, by formula (Erlang, Allen and Cunneen) {formula}, by "
        f"simulation of {estimate.replications} replications {found.hosts}"
        + (" (given)" if found.given else f": the fewest whose {p} of waits surely keeps to {words.span(load.wait_s)}")
        + ".",
        f"Order: {load.discipline.value}.",
        *([UNSETTLED] if found.unsettled else []),
    )
    return Section("Hosts", (Table("fleet", "The fleet", columns, tuple(rows)), _picture(plan, found.hosts)), text)


def _row(plan: Plan, found: StreamPlan, estimate: FleetEstimate) -> tuple[Entry, ...]:
    hosts, c = estimate.fleet.hosts, estimate.confidence
    price = plan.host.host.price if plan.host is not None else None
    cost = None if found.cost_per_1000 is None else found.cost_per_1000 * hosts / found.hosts
    return (
        hosts,
        _mean(estimate.mean_wait_s, c, 1e9),
        _mean(estimate.wait_quantile_s, c, 1e9),
        _mean(estimate.waiting_share, c),
        _mean(estimate.cores_used, c),
        _mean(estimate.memory_used, c),
        _no_price(plan) if price is None else hosts * price.per_hour,
        _no_price(plan) if cost is None else cost,
    )


def _batch(plan: Plan, found: BatchPlan) -> Section:
    load, price = plan.asked.load, plan.host.host.price if plan.host is not None else None
    assert load is not None
    columns = (
        Column("hosts", "hosts", "count"),
        Column("makespan", "all done after", "ns", "plan_makespan"),
        Column("bound", "no schedule is shorter than", "ns"),
        Column("kept", "done by the deadline", "share"),
        Column("at_least", "no fewer hosts would do", "count"),
        Column("per_hour", "price an hour", "money"),
        Column("cost_per_1000", "cost per 1,000", "money", "plan_cost"),
    )
    kept: Entry = Bound(found.kept_low)
    if found.simulated:
        kept = Estimate(found.kept, found.kept_low, found.kept_high, 0.95)
    row = (
        found.hosts,
        _taken(found.makespan_s, not found.simulated),
        found.bound_s * 1e9,
        kept,
        found.at_least,
        _no_price(plan) if price is None else found.hosts * price.per_hour,
        _batch_cost(plan, found.cost_per_1000, not found.simulated),
    )
    text = (
        f"{load.batch} verdicts by {words.span(load.deadline_s or 0)}, the longest first; {found.replications} batches "
        "drawn from the records.",
        *([] if found.simulated else [BY_BOUNDS]),
    )
    return Section("Hosts", (Table("fleet", "The fleet", columns, (row,)),), text)


def _picture(plan: Plan, hosts: int) -> Picture:
    load, host, work = plan.asked.load, plan.host, plan.work
    assert load is not None
    assert host is not None
    assert work is not None
    hours, busy = month(load, host, plan.verdicts, work, plan.asked.seed)

    def draw(canvas: Canvas) -> None:
        from proofcost.reports.chart_style import BLUE, VERMILLION

        axes = canvas.add_subplot()
        axes.fill_between(hours / 24, busy, step="post", color=BLUE, alpha=0.35, linewidth=0)
        axes.plot(hours / 24, busy, drawstyle="steps-post", color=BLUE, linewidth=0.7, label="hosts' worth of work")
        axes.axhline(hosts, color=VERMILLION, linestyle="--", linewidth=1.4, label=f"planned: {hosts}")
        axes.set_ylim(0, max(hosts, float(busy.max())) * 1.15)
        axes.set_xlim(0, len(hours) / 24)
        axes.set_xlabel("days")
        axes.set_ylabel("hosts")
        axes.legend(loc="upper right")

    over = float((busy > hosts).mean())
    said = (
        f"Over {len(hours) // 24} days an hour holds {float(busy.mean()):.3g} hosts' worth of work in the mean and "
        f"{float(busy.max()):.3g} at most; planned: {hosts}; {words.percent(over)} of hours hold more."
    )
    return Picture("load", "Is there an hour with more work than hosts?", said, draw, height=3.5)


def what_if_section(plan: Plan) -> Section:
    assert plan.alternatives is not None
    load = plan.asked.load
    assert load is not None
    waited = "makespan" if load.batch is not None else f"p{100 * load.quantile:g} of waits"
    columns = (
        Column("what", "what if"),
        Column("hosts", "hosts", "count"),
        Column("sandboxes", "sandboxes a host", "count"),
        Column("wait", waited, "ns", "plan_wait"),
        Column("per_hour", "price an hour", "money"),
        Column("cost_per_1000", "cost per 1,000", "money", "plan_cost"),
        Column("solved", "not stopped", "share"),
        Column("said", "remark"),
    )
    rows: list[tuple[Entry, ...]] = [_as_planned(plan)]
    for one in plan.alternatives.outcomes:
        if one.why_not is not None:
            rows.append((one.name, hosts_of(one), "", "", "", "", "", ""))
            continue
        assert one.hosts is not None
        assert one.sandboxes is not None
        assert one.wait is not None
        assert one.solved is not None
        rows.append(
            (
                one.name,
                one.hosts,
                one.sandboxes,
                _taken(one.wait, one.at_most),
                _no_price(plan) if one.per_hour is None else one.per_hour,
                _batch_cost(plan, one.cost_per_1000, one.at_most),
                one.solved,
                one.said,
            )
        )
    return Section("What if", (Table("what_if", "The same question, one thing different", columns, tuple(rows)),))


def hosts_of(outcome: Outcome) -> Missing:
    """Of one that came to nothing."""
    return Missing(outcome.why_not or "unknown", "none suffices" if outcome.impossible else "not known")


def _as_planned(plan: Plan) -> tuple[Entry, ...]:
    host = plan.host
    assert host is not None
    price = host.host.price
    found = plan.stream or plan.batch
    assert found is not None
    wait = found.estimate.wait_quantile_s if isinstance(found, StreamPlan) else found.makespan_s
    at_most = isinstance(found, BatchPlan) and not found.simulated
    return (
        "as planned",
        found.hosts,
        host.count,
        _taken(wait, at_most),
        _no_price(plan) if price is None else found.hosts * price.per_hour,
        _batch_cost(plan, found.cost_per_1000, at_most),
        host.solved,
        "",
    )
