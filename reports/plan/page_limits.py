"""Limits as tables and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from proofcost.reports.document import Bound, Column, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.plan import words
from proofcost.reports.plan.jobs import Unit
from proofcost.reports.plan.limits import Bid, BySize, Choice, GroupLimits, Retries, What, percentile
from proofcost.reports.statistics.safe_limit import Evidence as SafeEvidence
from proofcost.reports.statistics.safe_limit import Limit
from proofcost.reports.statistics.survival import Bounded, Survival
from proofcost.reports.units import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from proofcost.reports.charts import Curve
    from proofcost.reports.plan.made import Plan


def lacking(limit: Limit) -> str:
    """Why a class of sizes has no limit."""
    if limit.evidence is SafeEvidence.TOO_FEW:
        return f"{plural(limit.runs, 'run')}; {limit.floor} needed"
    return f"{plural(limit.runs, 'run')}: {limit.evidence.value}"


UNITS = {What.MEMORY: "bytes", What.TIME: "ns", What.DISK: "bytes"}
MOST_POINTS = 2000
"""Of a curve that is drawn; more are thinned out, the ends kept."""
MOST_SIZED = 6
"""Checkers and classes whose limits by size are told."""
PAGE_CACHE = "Peaks by cgroup count page cache, which a limit takes away first: less may do."
WIDE = 20
"""Of the largest amount to the smallest: beyond, the axis is logarithmic."""
TAIL_TO = 4.0
"""A tail is drawn to so many times the largest amount seen."""


def limit_sections(plan: Plan) -> list[Section]:
    sections = []
    for what, made in plan.bids:
        one = {What.MEMORY: plan.memory, What.TIME: plan.time, What.DISK: plan.disk}[what]
        if one.limit.runs == 0 and what is What.DISK:
            continue
        sections.append(_section(plan, what, made, one))
    if plan.sized is not None:
        alone = [one for one in plan.groups if one.sized is not None][:MOST_SIZED]
        # One kernel, and nothing else in a verdict: the same twice.
        others = [] if plan.verdicts.unit is Unit.RECORD and len(plan.groups) == 1 else alone
        sections.append(sized_section(plan.sized, others))
    if plan.ladder is not None:
        sections.append(ladder_section(plan.ladder))
    elif plan.asked.limits.ladder:
        why = plan.memory.why_not or "every verdict needs about the same: there is no smaller rung to begin with"
        sections.append(Section("Retry ladder", (), (f"None: {why}.",)))
    return sections


def _section(plan: Plan, what: What, made: Sequence[Bid], one: Choice) -> Section:
    host = plan.asked.host if what is What.MEMORY else None
    room = None if host is None else host.memory_bytes - host.reserve_bytes
    blocks: list[Table | Picture] = [bids_table(what, made, room), groups_table(what, plan.groups)]
    if one.limit.runs:
        blocks.insert(0, curve_picture(plan, what, one))
    text = []
    if what is What.MEMORY and one.limit.runs:
        text.append(PAGE_CACHE)
    if one.why_not is not None:
        text.append(one.why_not[0].upper() + one.why_not[1:] + ".")
    for of, tail in plan.tails:
        if of is what and tail.why_not is not None:
            text.append(tail.why_not[0].upper() + tail.why_not[1:] + ".")
        elif of is what:
            text.append("Dashed: a Pareto tail beyond the data, as asked for. Nothing in the data can confirm it.")
    return Section({What.MEMORY: "Memory", What.TIME: "Time", What.DISK: "Disk"}[what], tuple(blocks), tuple(text))


def estimate(found: Bounded, confidence: float, why: str = "beyond what was seen") -> Entry:
    if found.value is None:
        return Bound(found.low) if found.low is not None else Missing(why)
    return Estimate(found.value, found.low, found.high, confidence)


def likely(limit: Limit) -> Entry:
    """The quantile of the target; missing where so few runs have none: one in a hundred of twelve."""
    p = percentile(limit.target)
    if 0 < limit.runs * limit.target < 1:
        return Missing(f"too few to have a {p}: {plural(limit.runs, 'run')}")
    return estimate(limit.quantile, limit.confidence, f"the runs do not reach {p}")


def bids_table(what: What, made: Sequence[Bid], room_bytes: float | None = None) -> Table:
    """Which limit each target needs, and what it costs: in time, or in sandboxes for which `room_bytes` have room."""
    columns = [
        Column("target", "may fail", "share", "plan_target"),
        Column("limit", "limit", UNITS[what], "plan_limit"),
        Column("at_most", "exceeded at most", "share", "plan_exceeded"),
        Column("likely", "likely quantile", UNITS[what], "plan_quantile"),
    ]
    if what is What.TIME:
        columns += [
            Column("solved", "ends within it", "share", "plan_solved"),
            Column("spent", "mean time spent", "ns", "plan_restricted_mean"),
            Column("per_verdict", "time per solved verdict", "ns", "plan_per_verdict"),
        ]
    if room_bytes is not None:
        columns.append(Column("per_host", "sandboxes that memory has room for", "count"))
    rows = []
    for bid in made:
        limit = bid.choice.limit
        row: list[Entry] = [
            bid.target,
            Missing(bid.choice.why_not or "unknown") if bid.choice.set_to is None else bid.choice.set_to,
            Missing("no limit") if limit.at_most is None else Bound(limit.at_most, at_least=False),
            likely(limit),
        ]
        if what is What.TIME:
            bought = bid.bought
            if bought is None:
                row += [Missing("no limit")] * 3
            else:
                row += [
                    estimate(bought.solved, limit.confidence),
                    estimate(bought.mean_spent, limit.confidence),
                    Missing("beyond what was seen") if bought.cost_per_verdict is None else bought.cost_per_verdict,
                ]
        if room_bytes is not None:
            row.append(Missing("no limit") if bid.choice.set_to is None else int(room_bytes // bid.choice.set_to))
        rows.append(tuple(row))
    return Table(f"{what.value}_targets", "The limit that each target needs", tuple(columns), tuple(rows))


def groups_table(what: What, groups: Sequence[GroupLimits]) -> Table:
    columns = (
        Column("of", "phase, kernel, class"),
        Column("submissions", "submissions", "count"),
        Column("stopped", "of them stopped", "count", "plan_stopped"),
        Column("middle", "median", UNITS[what], "plan_quantile"),
        Column("limit", "limit", UNITS[what], "plan_limit"),
        Column("largest", "largest seen", UNITS[what]),
        Column("in_force", "largest limit in force", UNITS[what]),
        *([Column("knee", "knee", "ns", "plan_knee")] if what is What.TIME else []),
    )
    rows, timed = [], what is What.TIME
    for one in groups:
        picked = {What.MEMORY: one.memory, What.TIME: one.time, What.DISK: one.disk}[what]
        limit = picked.limit
        if limit.runs == 0:
            continue
        force = {What.MEMORY: one.group.memory_limit_bytes, What.TIME: one.group.time_limit_ns, What.DISK: None}[what]
        largest = float(picked.amounts.values.max())
        cut = bool(picked.amounts.stopped[np.argmax(picked.amounts.values)])
        rows.append(
            (
                one.group.name,
                limit.runs,
                limit.stopped,
                estimate(limit.curve.quantile(0.5), limit.confidence),
                Missing(picked.why_not or "unknown") if picked.set_to is None else picked.set_to,
                Bound(largest) if cut else largest,
                "" if what is What.DISK else Missing("no run had one") if force is None else force,
                *([Missing("fewer than three times") if one.knee_ns is None else one.knee_ns] if timed else []),
            )
        )
    return Table(f"{what.value}_phases", "Each phase by itself", columns, tuple(rows), lead=20)


def curve_picture(plan: Plan, what: What, one: Choice) -> Picture:
    limit, unit = one.limit, UNITS[what]
    amount = {What.MEMORY: plan.given.memory_bytes, What.TIME: plan.given.time_ns, What.DISK: plan.given.disk_bytes}[
        what
    ]
    tail = next((tail.tail for of, tail in plan.tails if of is what), None)
    shown = "no limit is drawn: " + (one.why_not or "") if amount is None else f"the limit is {_amount(amount, unit)}"
    target = limit.target

    def draw(canvas: Canvas) -> None:
        from proofcost.reports import charts
        from proofcost.reports.chart_style import cost_axis

        axes = canvas.add_subplot()
        curves = [_curve(limit.curve, "submissions")]
        if tail is not None:
            ends = np.geomspace(tail.threshold, TAIL_TO * (limit.curve.largest or tail.threshold), 60)
            shares = [tail.exceedance(float(x)) or 0.0 for x in ends]
            curves.append(charts.Curve("Pareto tail", ends.tolist(), shares, is_extrapolated=True))
        charts.exceedance(axes, curves, unit, what.value, target, [] if amount is None else [(amount, "limit")])
        values = limit.curve.values
        if values.size and values[-1] > WIDE * values[0]:
            cost_axis(axes, "x", unit, what.value, [values[0], *(end for one in curves for end in one.amounts[-1:])])

    said = f"{plural(limit.runs, 'submission')}, {limit.stopped} of them stopped; {shown}."
    return Picture(f"{what.value}_curve", f"How often is more {what.value} needed than a limit gives?", said, draw)


def _curve(curve: Survival, name: str) -> Curve:
    from proofcost.reports.charts import Curve

    at = np.arange(curve.values.size)
    if at.size > MOST_POINTS:
        # Even in rank, but with all of the tail.
        at = np.unique(np.concatenate([np.linspace(0, at.size - 1, MOST_POINTS).round().astype(int), at[-200:]]))
    return Curve(
        name, curve.values[at].tolist(), curve.survival[at].tolist(), curve.low[at].tolist(), curve.high[at].tolist()
    )


def _amount(amount: float, unit: str) -> str:
    return words.size(amount) if unit == "bytes" else words.span_ns(amount)


def sized_section(sized: BySize, alone: Sequence[GroupLimits] = ()) -> Section:
    """Of whole verdicts, and of checkers alone."""
    text = ["A limit of its own for each size, never less for a larger one; above the last class with a limit, none."]
    if sized.tested is not None and sized.share is not None:
        text.append(
            f"Made from the first half of the runs, it would have stopped {words.percent(sized.share)} of the second "
            f"({words.percent(sized.low or 0)} .. {words.percent(sized.high or 0)}); the target is "
            f"{words.percent(sized.advice.target)}."
        )
    else:
        text.append("Not back-tested: half of the runs are too few.")
    rule = sized.rule
    if rule is not None and rule.share is not None:
        text.append(
            f"The rule {rule.rule.text} allows {words.span_ns(rule.mean_limit_ns)} in the mean and stops "
            f"{words.percent(rule.share or 0)} ({words.percent(rule.low or 0)} .. {words.percent(rule.high or 0)}) of "
            f"{plural(rule.tested.runs - rule.tested.unknown, 'run')} of which it is known."
        )
    if sized.unknown:
        text.append(f"{plural(sized.unknown, 'submission')} tell no size and are not in it.")
    tables = [sized_table("time_by_size", "Time limits by size", sized)]
    for at, one in enumerate(alone):
        if one.sized is not None:
            tables.append(sized_table(f"time_by_size_{at}", f"Time limits by size: {one.group.name}", one.sized))
    return Section("Time by the export's size", tuple(tables), tuple(text))


def sized_table(key: str, title: str, sized: BySize) -> Table:
    columns = (
        Column("above", "exports above", "bytes"),
        Column("upto", "up to", "bytes"),
        Column("runs", "submissions", "count"),
        Column("stopped", "of them stopped", "count", "plan_stopped"),
        Column("needed", "runs needed", "count", "plan_floor"),
        Column("own", "limit of this class", "ns", "plan_limit"),
        Column("line", "time limit", "ns", "plan_line"),
        Column("likely", "likely", "ns", "plan_smoothed"),
    )
    rows = []
    for one in sized.advice.classes:
        limit = one.limit
        own: Entry = (
            limit.amount if limit.amount is not None else Missing(f"{plural(limit.runs, 'run')}; {limit.floor} needed")
        )
        rows.append(
            (
                one.above,
                one.upto,
                limit.runs,
                limit.stopped,
                limit.floor,
                own,
                Missing("no limit of its own") if one.line is None else one.line,
                Missing("the curve does not reach it") if one.smoothed_quantile is None else one.smoothed_quantile,
            )
        )
    return Table(key, title, columns, tuple(rows))


def ladder_section(found: Retries) -> Section:
    columns = (Column("rung", "attempt", "count"), Column("limit", "memory limit", "bytes", "plan_limit"))
    rows = tuple((at, limit) for at, limit in enumerate(found.ladder.limits, 1))
    if found.saved > 0:
        text = (
            f"It takes {words.percent(found.saved)} less memory-time than {words.size(found.single.limits[0])} for "
            f"all, with {found.ladder.attempts:.3g} attempts a verdict; a killed attempt is taken to have run to its "
            "end."
        )
    else:
        text = "A single limit is cheaper: retries cost more than they save."
    return Section("Retry ladder", (Table("ladder", "Memory limits of the attempts", columns, rows),), (text,))
