"""C1, C2 and C6: the limits that targets need, what they cost, and rules that replace rules of thumb."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from proofcost.reports.plan.amounts import TimeRule
from proofcost.reports.plan.asked import Limits as Targets
from proofcost.reports.plan.evidence import Amounts, Group
from proofcost.reports.statistics.alarm_rate import share_interval
from proofcost.reports.statistics.retry_ladder import Ladder, best_ladder, ladder_cost
from proofcost.reports.statistics.safe_limit import Evidence, Limit, limit_for, runs_wanted
from proofcost.reports.statistics.size_limit import BackTest, SizeLimit, back_test, limit_by_size
from proofcost.reports.statistics.tail import LEAST_EXCEEDANCES, Tail, fit_tail
from proofcost.reports.statistics.time_limit import Bought, bought_by, knee
from proofcost.reports.units import plural

TARGETS = (0.05, 0.01, 0.001)
"""Shown beside what was asked."""
CLASSES_PER_DECADE = 2.0


class What(Enum):
    MEMORY = "memory"
    TIME = "time"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Choice:
    """A limit of one thing for one group, with what it was made from."""

    what: What
    amounts: Amounts
    limit: Limit
    set_to: float | None
    """`limit.amount` rounded up to three digits, so that nobody reads less than it is. None: not enough data."""
    why_not: str | None
    """What is missing, where it is."""


def choice(what: What, amounts: Amounts, target: float, confidence: float) -> Choice:
    limit = limit_for(amounts.values, amounts.stopped, target, confidence)
    up = None if limit.amount is None else rounded_up(limit.amount)
    return Choice(what, amounts, limit, up, None if up is not None else missing(limit, what))


def rounded_up(amount: float) -> float:
    """To three significant digits, never down."""
    scale = 10 ** (math.floor(math.log10(amount)) - 2)
    if scale <= 1:
        return float(math.ceil(amount))
    return float(math.ceil(round(amount / scale, 6)) * scale)


def percentile(target: float) -> str:
    """`p99` of a target of 1 %."""
    return f"p{100 * (1 - target):.10g}"


def missing(limit: Limit, what: What) -> str:
    """Why there is no limit, and what would help, in one clause."""
    p = percentile(limit.target)
    runs = plural(limit.runs, "run")
    stops = f"{limit.stopped} of them stopped before they showed what they need"
    match limit.evidence:
        case Evidence.NONE:
            return f"not enough data: no run tells its {what.value}"
        case Evidence.TOO_FEW:
            return f"not enough data: {runs}; {p} needs {limit.floor}" + (f", and {stops}" if limit.stopped else "")
        case Evidence.CENSORED:
            return f"not enough data: {runs}, {stops}: some must run with more {what.value} than now"
        case _:
            if limit.stopped > limit.target * limit.runs:
                return f"not enough data: {runs}, {stops}: some must run with more {what.value} than now"
            wanted = runs_wanted(limit, math.ceil(limit.runs * limit.target))
            return f"not enough data: {runs} show {p}, but not surely; about {max(wanted, limit.runs + 1)} would"


@dataclass(frozen=True, slots=True)
class Bid:
    """What one target takes."""

    target: float
    choice: Choice
    bought: Bought | None
    """By a time limit; None for other limits, or where there is none."""


def bids(what: What, amounts: Amounts, targets: Targets) -> tuple[Bid, ...]:
    """For the usual targets and the one that was asked."""
    asked = {What.MEMORY: targets.oom, What.TIME: targets.timeouts, What.DISK: targets.disk}[what]
    made = []
    for target in sorted({*TARGETS, asked}, reverse=True):
        one = choice(what, amounts, target, targets.confidence)
        bought = bought_by(one.limit.curve, one.set_to) if what is What.TIME and one.set_to is not None else None
        if bought is not None and bought.solved.value is None and one.limit.amount is not None:
            bought = bought_by(one.limit.curve, one.limit.amount)  # rounded up beyond what was seen
        made.append(Bid(target, one, bought))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A rule of thumb against runs: how many it would have stopped, and what it allows."""

    rule: TimeRule
    tested: BackTest
    share: float | None
    low: float | None
    high: float | None
    """Of the runs of which it is known."""
    mean_limit_ns: float


@dataclass(frozen=True, slots=True)
class BySize:
    """A time limit that grows with the export, and how it did on runs it was not made from."""

    advice: SizeLimit
    tested: BackTest | None
    """Made from the first half of the runs, held against the second; None with too few for that."""
    share: float | None
    low: float | None
    high: float | None
    rule: RuleTest | None
    unknown: int
    """Runs whose size is not known: not in it."""


def by_size(amounts: Amounts, targets: Targets) -> BySize | None:
    """None where no run has a size."""
    sized = amounts.part(np.isfinite(amounts.sizes) & (amounts.sizes > 0))
    if sized.count == 0:
        return None
    advice = _advice(sized, targets)
    half = sized.count // 2
    tested = share = low = high = None
    if half >= advice.classes[0].limit.floor:
        first, second = sized.part(np.arange(sized.count) < half), sized.part(np.arange(sized.count) >= half)
        tested = back_test(_advice(first, targets), second.sizes, second.values, second.stopped)
        share, low, high = _share(tested)
    rule = None if targets.rule is None else rule_test(targets.rule, sized)
    return BySize(advice, tested, share, low, high, rule, amounts.count - sized.count)


def _advice(sized: Amounts, targets: Targets) -> SizeLimit:
    return limit_by_size(
        sized.sizes, sized.values, sized.stopped, targets.timeouts, targets.confidence, CLASSES_PER_DECADE
    )


def _share(tested: BackTest) -> tuple[float | None, float | None, float | None]:
    known = tested.runs - tested.unknown
    if known <= 0:
        return None, None, None
    return (tested.over / known, *share_interval(tested.over, known))


def rule_test(rule: TimeRule, sized: Amounts) -> RuleTest:
    limits = np.array([rule.limit_ns(size) for size in sized.sizes.tolist()])
    over = int(((sized.values > limits) | (sized.stopped & (sized.values >= limits))).sum())
    unknown = int((sized.stopped & (sized.values < limits)).sum())
    tested = BackTest(sized.count, over, unknown, 0)
    return RuleTest(rule, tested, *_share(tested), float(limits.mean()))


@dataclass(frozen=True, slots=True)
class Retries:
    ladder: Ladder
    single: Ladder
    """The same last limit for all."""

    @property
    def saved(self) -> float:
        """Share of the memory-time of the single limit; below 0 where the ladder costs more."""
        return 1 - self.ladder.cost / self.single.cost


def retries(one: Choice, rungs: int) -> Retries | None:
    """The cheapest ladder to a memory limit; None without a limit, or where there is nothing to choose from."""
    if one.limit.amount is None or rungs < 2:
        return None
    found = best_ladder(one.limit.curve, rungs, one.limit.amount)
    return None if found is None else Retries(found, ladder_cost(one.limit.curve, [one.limit.amount]))


@dataclass(frozen=True, slots=True)
class TailAsked:
    """A model beyond the data, since it was asked for; `why_not` where there can be none."""

    tail: Tail | None
    why_not: str | None


def tail_of(amounts: Amounts) -> TailAsked:
    if amounts.stopped.any():
        stops = int(amounts.stopped.sum())
        return TailAsked(None, f"no tail is modelled: {plural(stops, 'run')} were stopped, so the tail was not seen")
    found = fit_tail(amounts.values)
    if found is None:
        need = 10 * LEAST_EXCEEDANCES
        return TailAsked(None, f"no tail is modelled: {plural(amounts.count, 'run')}; about {need} are needed")
    return TailAsked(found, None)


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """All of one phase, kernel and class of submission."""

    group: Group
    memory: Choice
    time: Choice
    disk: Choice
    knee_ns: float | None
    """Past it more time buys little."""
    sized: BySize | None
    """Of checkers: their time hangs on the export they read."""


def limits_of(group: Group, targets: Targets) -> GroupLimits:
    time = choice(What.TIME, group.wall, targets.timeouts, targets.confidence)
    return GroupLimits(
        group,
        choice(What.MEMORY, group.memory, targets.oom, targets.confidence),
        time,
        choice(What.DISK, group.disk, targets.disk, targets.confidence),
        knee(time.limit.curve) if group.wall.count else None,
        by_size(group.wall, targets) if group.phase == "checker" else None,
    )
