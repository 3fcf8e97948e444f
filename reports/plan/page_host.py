"""One host as tables, and throughput against the number of sandboxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from proofcost.reports.document import Bound, Column, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.plan import words
from proofcost.reports.plan.host import HostPlan
from proofcost.reports.plan.page_limits import estimate
from proofcost.reports.plan.trials import Trials
from proofcost.reports.statistics.contention import Binding
from proofcost.reports.units import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SURE = 0.95
SHOWN_TO = 4
"""Constraints beyond so many times what binds are left out of the picture."""


def host_section(plan: HostPlan, startup_ns: float | None = None) -> Section:
    """`startup_ns`: median of what a verdict's sandboxes took to start, where records tell."""
    blocks: list[Table | Picture] = [_caps(plan), _memory(plan), _costs(plan)]
    if plan.trials:
        blocks.append(trials_table(plan.trials))
    blocks.append(_picture(plan))
    host = plan.host
    text = [
        f"A host of {host.cores:g} cores and {words.size(host.memory_bytes)} takes "
        f"{plural(plan.count, 'sandbox', 'sandboxes')}, bound by {plan.concurrency.binding.value}."
    ]
    if plan.fit is None:
        text.append("Contention was never measured here: sandboxes are taken not to slow each other down.")
    elif plan.beyond_trials:
        text.append(
            f"Measured up to {plan.fit.measured_upto} at once, fitted beyond: {words.percent(plan.efficiency)} of one "
            "alone at this many."
        )
    if startup_ns is None:
        text.append("What the sandboxes themselves take to start is in no record.")
    else:
        text.append(
            f"Starting its sandboxes took a verdict {words.span_ns(startup_ns)} in the middle "
            f"({words.percent(min(1.0, startup_ns / (plan.service_s * 1e9)))} of its time; it is in there already)."
        )
    if plan.overhead_s:
        text.append(f"Boot and library, as given, add {words.span(plan.overhead_s)} to each.")
    return Section("One host", tuple(blocks), tuple(text))


def _caps(plan: HostPlan) -> Table:
    columns = (
        Column("constraint", "what stops there being more"),
        Column("most", "most sandboxes", "count"),
        Column("why", "because"),
    )
    host, sandbox = plan.host, plan.sandbox
    room = host.memory_bytes - host.reserve_bytes
    memory = f"{words.size(room)} over {words.size(sandbox.memory_bytes or 0)} each"
    if host.risk is not None:
        memory = f"the sum of peaks exceeds {words.size(room)} with a chance of at most {words.percent(host.risk)}"
    why = {
        Binding.CORES: f"{host.cores:g} over {sandbox.cores:g} each",
        Binding.MEMORY: memory,
        Binding.EFFICIENCY: f"beyond it a sandbox does less than {words.percent(host.efficiency)} of one alone",
        Binding.DISK: f"{words.size(host.disk_bytes or 0)} over {words.size(sandbox.disk_bytes or 0)} each",
        Binding.NETWORK: "exports come no faster over the network",
    }
    rows = [(binding.value, most, why[binding]) for binding, most in plan.concurrency.caps]
    marked = next(at for at, row in enumerate(rows) if row[0] == plan.concurrency.binding.value)
    return Table("constraints", "What binds", columns, tuple(rows), marked={marked: "bad"})


def _memory(plan: HostPlan) -> Table:
    columns = (
        Column("way", "memory is shared out by"),
        Column("sandboxes", "sandboxes", "count"),
        Column("host_risk", "host runs out", "share", "plan_host_risk"),
        Column("own_kills", "needs more than its limit", "share", "plan_exceeded"),
    )
    own = estimate(plan.own_kills, SURE)
    if plan.own_kills.value is None and plan.own_kills.high is not None:
        own = Bound(plan.own_kills.high, at_least=False)
    found = plan.overcommit
    few: Entry = Missing(plan.no_overcommit)
    rows: list[Sequence[Entry]] = [
        ("the sum of limits", plan.guaranteed, 0, own),
        (
            f"the peak of sums, at most {words.percent(plan.risk)}",
            few if found is None else found.count,
            few if found is None else Bound(found.risk, at_least=False),
            own,
        ),
    ]
    notes = [
        "the risk is that of all sandboxes peaking at once: the safe side; other constraints are not in this table"
    ]
    seen = plan.over_time
    if seen is not None:
        rows.append(
            (
                f"the same many, by {seen.profiles} time profiles",
                seen.count,
                Estimate(seen.estimated, seen.low, seen.high, SURE),
                own,
            )
        )
        notes.append(
            "by time profiles: each sandbox peaks when its runs did, as the timelines beside their records have it"
        )
    return Table("memory_ways", "Memory: limits that fit, or peaks that fit", columns, rows, notes)


def _costs(plan: HostPlan) -> Table:
    columns = (
        Column("sandboxes", "sandboxes", "count"),
        Column("verdict", "mean time of a verdict", "ns", "plan_service"),
        Column("efficiency", "of one alone", "share", "plan_efficiency"),
        Column("per_hour", "verdicts an hour, always busy", "count"),
        Column("solved", "of them not stopped", "share"),
        Column("cost_per_1000", "cost per 1,000, always busy", "money", "plan_cost"),
    )
    cost: Entry = Missing("no price was given") if plan.host.price is None else Missing("nothing is solved")
    row = (
        plan.count,
        plan.service_s * 1e9,
        plan.efficiency if plan.fit is not None else Missing("contention was not measured: proofcost bench contention"),
        plan.per_hour,
        plan.solved,
        plan.cost_per_1000 if plan.cost_per_1000 is not None else cost,
    )
    return Table("host", "One host at work", columns, (row,))


def trials_table(trials: Sequence[Trials]) -> Table:
    columns = (
        Column("kernel", "kernel"),
        Column("work", "workload"),
        Column("host_class", "host class"),
        Column("at_once", "at once", "count"),
        Column("turns", "turns", "count"),
        Column("throughput", "throughput", "per_second"),
        Column("waiting", "waiting (a)", "ratio", "plan_usl"),
        Column("coherency", "coherency (b)", "ratio", "plan_usl"),
    )
    rows = []
    for one in trials:
        for load in one.loads:
            fit = one.fit
            rows.append(
                (
                    one.kernel,
                    one.work,
                    one.host_class or "unknown",
                    load.count,
                    load.turns_count,
                    Missing("no turn was whole") if load.throughput_per_s is None else load.throughput_per_s,
                    Missing(one.why_not or "unknown") if fit is None else _ended(fit.waiting, fit.waiting_interval),
                    Missing(one.why_not or "unknown") if fit is None else _ended(fit.coherency, fit.coherency_interval),
                )
            )
    return Table("trials", "Contention as measured", columns, tuple(rows), lead=12)


def _ended(value: float, ends: tuple[float, float] | None) -> Entry:
    return Estimate(value, None, None, SURE) if ends is None else Estimate(value, ends[0], ends[1], SURE)


def _picture(plan: HostPlan) -> Picture:
    near = [most for _, most in plan.concurrency.caps if most <= SHOWN_TO * max(plan.count, 1)]
    upto = max(2, math.ceil(1.15 * max([plan.count, *near])))
    fit = plan.fit

    def hourly(n: int) -> float:
        """Verdicts an hour with n at once."""
        base = plan.service_s * plan.efficiency
        return n * 3600 / base * (fit.efficiency(n) if fit is not None else 1.0)

    def draw(canvas: Canvas) -> None:
        from proofcost.reports.chart_style import BLUE, GREY, VERMILLION, label

        axes = canvas.add_subplot()
        ns = list(range(1, upto + 1))
        solid = [n for n in ns if n <= plan.count]
        axes.plot(solid, [hourly(n) for n in solid], color=BLUE, label="up to what fits")
        beyond = [n for n in ns if n >= max(1, plan.count)]
        axes.plot(beyond, [hourly(n) for n in beyond], color=BLUE, linestyle=":", label="does not fit")
        for at, (binding, cap) in enumerate(plan.concurrency.caps):
            if cap > upto:
                continue
            binds = binding is plan.concurrency.binding
            axes.axvline(cap, color=VERMILLION if binds else GREY, linewidth=1.4 if binds else 1)
            text = f"{binding.value}: {cap}" + (" (binds)" if binds else "")
            axes.text(cap, 0.04 + 0.09 * at, label(f" {text}"), transform=axes.get_xaxis_transform(), fontsize=8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("sandboxes at once")
        axes.set_ylabel("verdicts an hour")
        axes.legend(loc="upper left")

    bound = plan.concurrency.binding.value
    rate = words.number(plan.per_hour)
    said = f"{plural(plan.count, 'sandbox does', 'sandboxes do')} {rate} verdicts an hour, bound by {bound}."
    if fit is None:
        said += " A straight line, since contention was not measured."
    return Picture("throughput", "How much more do more sandboxes do, and what stops them?", said, draw)
