"""A plan as a document: the answer in one sentence, what it stands on, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence

from proofcost.reports.document import Bound, Column, Document, Entry, Estimate, Missing, Section, Table
from proofcost.reports.inert import inert
from proofcost.reports.plan import drift, words
from proofcost.reports.plan.fleet import KEEPS
from proofcost.reports.plan.host import stopped_by
from proofcost.reports.plan.limits import What
from proofcost.reports.plan.made import Plan
from proofcost.reports.plan.page_fleet import fleet_section, what_if_section
from proofcost.reports.plan.page_host import host_section, trials_table
from proofcost.reports.plan.page_limits import limit_sections
from proofcost.reports.statistics.safe_limit import Evidence
from proofcost.reports.units import plural, when

CHANGE = "What would change it"
"""Title of the section that says what to measure."""
ONE_SUBMISSION = (
    "every run checked one and the same submission: this says how much its runs differ, and nothing about others"
)

TWO_SIDED = (
    "“need more” is an estimate with a two-sided interval; that a limit is exceeded by at most its target is promised "
    "on one side only, with the same confidence: so the interval's upper end may lie above the target"
)


def document(plan: Plan, sources: Sequence[str] = (), suite: str | None = None) -> Document:
    """`sources`: what it was made from. `suite`: the file that was written to get what is missing."""
    sections = [chosen_section(plan), *limit_sections(plan)]
    if plan.host is not None:
        sections.append(host_section(plan.host, plan.verdicts.startup_ns))
    elif plan.trials:
        sections.append(Section("Contention", (trials_table(plan.trials),)))
    if plan.stream is not None or plan.batch is not None:
        sections.append(fleet_section(plan))
    if plan.alternatives is not None and plan.alternatives.outcomes:
        sections.append(what_if_section(plan))
    sections.append(change_section(plan, suite))
    return Document(
        kind="plan",
        title=f"Plan: {inert(plan.asked.name)}" if plan.asked.name != "plan" else "Plan",
        answer=answer(plan),
        sections=tuple(sections),
        notes=tuple(notes(plan)),
        data=tuple(sources),
    )


def answer(plan: Plan) -> str:
    """One sentence (and one more for what is missing)."""
    parts = []
    sandbox = _sandbox(plan)
    if sandbox is not None:
        parts.append(f"Give a sandbox {sandbox}")
    host = plan.host
    if host is not None and host.count > 0:
        parts.append(f"{plural(host.count, 'sandbox', 'sandboxes')} a host (bound by {host.concurrency.binding.value})")
    elif host is not None:
        parts.append(f"no sandbox fits on the host (for want of {host.concurrency.binding.value})")
    parts += _fleet(plan)
    said = "; ".join(parts) + "." if parts else ""
    said = f"{_kills(plan)} {said}".strip()
    moved = drifts(plan)
    if moved and said:
        said = f"{said} But costs drift: {words.listed([one.said for one in moved])}: plan from the newest (--since)."
    missing = plan.missing
    if missing:
        lead = "Not enough data" if not said else "Not enough data for all of it"
        clauses = [one.replace("not enough data: ", "").replace("not enough data for ", "for ") for one in missing]
        said = f"{said} {lead}: {'; '.join(clauses)}.".strip()
    return said


def _kills(plan: Plan) -> str:
    """What a given limit does, where that is more than may be; else nothing. It goes before everything else."""
    found, targets = stopped_by(plan.asked.sandbox, plan.verdicts), plan.asked.limits
    over = [
        f"{words.percent(share)} by {what}, where {words.percent(target)} may be"
        for what, share, target in (("memory", found.memory, targets.oom), ("time", found.time, targets.timeouts))
        if share is not None and share > target
    ]
    if not over:
        return ""
    return f"As given, {words.percent(found.any)} of verdicts would be stopped ({'; '.join(over)})."


def _sandbox(plan: Plan) -> str | None:
    given, fixed = plan.given, plan.asked.sandbox
    parts = []
    if given.memory_bytes is not None:
        parts.append(
            f"{words.size(given.memory_bytes)} of memory" + ("" if fixed.memory_bytes is None else " (as given)")
        )
    if given.time_ns is not None:
        parts.append(f"{words.span_ns(given.time_ns)}" + ("" if fixed.time_ns is None else " (as given)"))
    if given.disk_bytes is not None:
        parts.append(f"{words.size(given.disk_bytes)} of disk" + ("" if fixed.disk_bytes is None else " (as given)"))
    return words.listed(parts) if parts else None


def _fleet(plan: Plan) -> list[str]:
    load, host = plan.asked.load, plan.host
    if host is None:
        return []
    price = host.host.price
    if plan.stream is not None and load is not None:
        stream, wait = plan.stream, plan.stream.estimate.wait_quantile_s
        formula = stream.bracket.formula
        kept = wait.high <= load.wait_s and not (stream.unsettled and (formula is None or formula > stream.hosts))
        hosts = plural(stream.hosts, "host")
        p = f"{100 * load.quantile:g} of 100 verdicts"
        rate = f"{words.number(stream.stream.rate_per_s * 3600)} an hour"
        if kept:
            told = f"with {hosts} {p} wait no longer than {words.span(load.wait_s)} at {rate}"
        else:
            told = f"with {hosts} it is not sure that {p} wait no longer than {words.span(load.wait_s)} at {rate}"
        if stream.unsettled:
            told += " (by formula: simulations do not settle)"
        cost, hosts_count = stream.cost_per_1000, stream.hosts
    elif plan.batch is not None and load is not None:
        batch = plan.batch
        done = f"{load.batch} verdicts are done within {words.span(load.deadline_s or 0)}"
        hosts = plural(batch.hosts, "host")
        if batch.simulated:
            told = f"with {hosts} {done} in {words.percent(batch.kept)} of simulations"
        elif batch.kept >= KEEPS:
            told = f"with {hosts} {done} (by bounds: so many are not simulated)"
        else:
            told = f"with {hosts} it is not sure that {done} (by bounds: so many are not simulated)"
        cost, hosts_count = batch.cost_per_1000, batch.hosts
    else:
        if host.cost_per_1000 is None or price is None:
            return []
        return [f"a host that is always busy costs {words.money(host.cost_per_1000, price)} per 1,000 verdicts"]
    if price is not None and cost is not None:
        hourly = words.money(hosts_count * price.per_hour, price)
        most = "at most " if plan.batch is not None and not plan.batch.simulated else ""
        told += f", for {hourly} an hour: {most}{words.money(cost, price)} per 1,000 verdicts"
    return [told]


def chosen_section(plan: Plan) -> Section:
    given = plan.given
    why = dict(given.sources)
    columns = (
        Column("cores", "cores", "count", "plan_cores"),
        Column("memory", "memory", "bytes", "plan_limit"),
        Column("kills", "need more memory", "share", "plan_exceeded"),
        Column("time", "time", "ns", "plan_limit"),
        Column("timeouts", "need more time", "share", "plan_exceeded"),
        Column("disk", "disk", "bytes", "plan_limit"),
    )
    row: tuple[Entry, ...] = (
        given.cores,
        _or_missing(given.memory_bytes, why["memory"]),
        exceeded(plan, "memory"),
        _or_missing(given.time_ns, why["time"]),
        exceeded(plan, "time"),
        _or_missing(given.disk_bytes, why["disk"]),
    )
    text = [f"{what}: {why_so}." for what, why_so in given.sources]
    sides = [TWO_SIDED] if any(isinstance(one, Estimate) for one in row) else []
    table = Table("sandbox", "One sandbox", columns, (row,), sides)
    return Section("What to give a sandbox", (table,), (_unit(plan), " ".join(text)))


def _unit(plan: Plan) -> str:
    v = plan.verdicts
    return (
        f"{plural(v.count, 'verdict')} of {plural(v.memory.count if v.memory.count else v.wall.count, 'submission')}; "
        f"one is {v.unit.value}."
    )


def _or_missing(value: float | None, why: str) -> Entry:
    return Missing(why) if value is None else value


def exceeded(plan: Plan, what: str) -> Entry:
    """Share of submissions that need more than the sandbox is given."""
    one, amount = (plan.memory, plan.given.memory_bytes) if what == "memory" else (plan.time, plan.given.time_ns)
    if amount is None:
        return Missing("no limit")
    limit = one.limit
    if limit.evidence is Evidence.NONE:
        return Missing(f"no run tells its {what}")
    found = limit.curve.exceedance(amount)
    if found.value is None:
        return Missing("beyond all that was seen") if found.high is None else Bound(found.high, at_least=False)
    return Estimate(found.value, found.low, found.high, limit.confidence)


def change_section(plan: Plan, suite: str | None) -> Section:
    """What would change the plan: data first, since nothing else can be mended by measuring."""
    lines = []
    for one in (plan.memory, plan.time):
        if one.why_not is not None and one.limit.evidence is not Evidence.NONE:
            more = max(0, one.limit.floor - one.limit.runs)
            if more:
                lines.append(
                    f"{one.what.value}: measure {plural(more, 'more submission')}: proofcost run -- JUDGE..., or, for "
                    "kernels alone, proofcost bench SUITE.toml (proofcost plan --suite SUITE.toml writes one)."
                )
            else:
                lines.append(f"{one.what.value}: {one.why_not}.")
        elif one.limit.evidence is Evidence.NONE:
            lines.append(f"{one.what.value}: no record tells it; measure with proofcost run -- JUDGE...")
    if plan.host is not None and plan.host.fit is None:
        lines.append(
            "contention was never measured, so sandboxes are taken not to slow each other down: proofcost bench "
            "contention on such a host (proofcost plan --suite SUITE.toml writes one for it)."
        )
    elif plan.host is not None and plan.host.beyond_trials and plan.host.fit is not None:
        lines.append(
            f"contention was measured up to {plan.host.fit.measured_upto} at once; beyond it is the law's word alone."
        )
    sandbox = plan.asked.sandbox
    if plan.asked.host is not None and sandbox.boot_ns is None and sandbox.library_ns is None:
        lines.append(
            "what a sandbox takes to boot and to load its library before the judge starts is not in the records: give "
            "it as sandbox.boot and sandbox.library, else it counts as nothing."
        )
    if suite is not None:
        lines.append(f"written: {inert(suite, 200)}; run it by proofcost bench {inert(suite, 200)}.")
    if not lines:
        lines.append("More records narrow the intervals; nothing that was asked for is missing.")
    return Section(CHANGE, (), tuple(lines))


def drifts(plan: Plan) -> list[drift.Drift]:
    """Of time and of memory, where the newer half of the records is surely unlike the older."""
    pairs = ((What.TIME, plan.verdicts.wall), (What.MEMORY, plan.verdicts.memory))
    return [moved for what, amounts in pairs if (moved := drift.within(what, amounts)) is not None]


def notes(plan: Plan) -> list[str]:
    found = [f"left out: {one}" for one in plan.evidence.left_out]
    found += list(plan.evidence.weaknesses)
    if plan.verdicts.wall.count == 1 or (plan.verdicts.memory.count == 1 and plan.verdicts.count > 1):
        found.append(ONE_SUBMISSION)
    if plan.work is not None:
        found += list(plan.work.said)
    found += [
        f"drift: {moved.said}: a plan from both halves holds for neither; plan from the newest (--since)"
        for moved in drifts(plan)
    ]
    e = plan.evidence
    if e.first_ns is not None:
        found.append(f"records from {when(e.first_ns)} to {when(e.last_ns)}: {e.used} used of {e.records}")
    return found
