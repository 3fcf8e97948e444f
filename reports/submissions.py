"""`report submissions`: under one kernel, who solved what, at which cost, and who is ahead as far as noise tells.

Solved problems count first, cost only among those that solved the same. Ranks are intervals (`statistics/
rank_intervals.py`): being tied is not transitive. Only inside one cohort: one kernel binary, configuration, number of
threads, sandbox, host class and meaning of the figures. Cohorts stand beside each other and are never mixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from proofcost.reports import charts
from proofcost.reports.document import Bound, Column, Document, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.metric_key import metric_key
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.statistics.growth import FLOORS, LEAST_SIZES, fit_growth
from proofcost.reports.statistics.rank_intervals import MOST_ENTRIES, RankInterval, rank_intervals

SOLVED = ("accepted", "exit 0")
"""How a run of a solved problem ends; exit 0 where nobody knows what the program's codes mean."""

LEAD = 25
PICTURED_MOST = 40
"""Submissions in the picture, from the first."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One submission on one problem."""

    submission: str
    problem: str
    ends: Counter[str]
    costs: dict[str, tuple[int, ...]]
    """By figure's key, in order of time: of runs that ended by themselves."""
    bounds: dict[str, tuple[int, ...]]
    """By figure's key, of runs that a limit cut off: what they cost at least."""
    size: int | None = None
    """n of a generated workload, else bytes of the input; None where not told."""
    size_is_n: bool = False
    digest: str | None = None
    """SHA-256 of what was checked, where told."""
    family: str | None = None
    """Generated workloads that grow with n are of one family."""

    @property
    def solved(self) -> bool:
        return bool(self.ends) and all(end in SOLVED for end in self.ends)

    @property
    def said(self) -> str:
        """How its runs ended."""
        return ", ".join(end if len(self.ends) == 1 else f"{end}: {n}" for end, n in sorted(self.ends.items()))


@dataclass(frozen=True, slots=True)
class Cohort:
    """What may be held against each other."""

    name: str
    """Empty where there is only one."""
    figures: tuple[Metric, ...]
    """Those that it has, the deciding one first."""
    slots: Sequence[Slot]
    floor_ns: int | None = None
    """What a run costs at least on its host class, where a calibration says."""


@dataclass(frozen=True, slots=True)
class Place:
    """Of one submission among all of a cohort."""

    submission: str
    solved: frozenset[str]
    low: int
    high: int
    interval: RankInterval | None
    """Among those that solved the same problems; its ranks count within them."""
    why: str | None
    """Why it is not ranked by cost."""


def document(cohorts: Sequence[Cohort], notes: Sequence[str] = (), data: Sequence[str] = ()) -> Document:
    """The report."""
    sections = []
    for cohort in cohorts:
        sections += _sections(cohort)
    if len(cohorts) > 1:
        notes = [f"{len(cohorts)} cohorts, never ranked against each other; choose one with --where", *notes]
    return Document(
        kind="submissions",
        title="Submissions: who solved what, and at which cost",
        answer=_answer(cohorts),
        sections=sections,
        notes=notes,
        data=data,
    )


def places(cohort: Cohort) -> list[Place]:
    """Everybody's place, solved problems first. Raises BadSampleError for more than can be ranked together."""
    solved: dict[str, set[str]] = {slot.submission: set() for slot in cohort.slots}
    open_ones = {(slot.submission, slot.problem) for slot in cohort.slots if not slot.solved}
    for slot in cohort.slots:
        if (slot.submission, slot.problem) not in open_ones:
            solved[slot.submission].add(slot.problem)
    made: list[Place] = []
    for count in sorted({len(problems) for problems in solved.values()}, reverse=True):
        group = {name: frozenset(of) for name, of in solved.items() if len(of) == count}
        first = len(made) + 1
        made += _group(cohort, group, first)
    return made


def _group(cohort: Cohort, group: dict[str, frozenset[str]], first: int) -> list[Place]:
    """Places of those that solved equally many, beginning with number `first`."""
    last = first + len(group) - 1
    why = None
    if not next(iter(group.values())):
        why = "solved nothing"
    elif len(set(group.values())) > 1:
        why = "solved as many as others, but other problems"
    elif not cohort.figures:
        why = "no figure"
    costs = {} if why else {name: totals(cohort, name, problems) for name, problems in group.items()}
    without = [name for name, values in costs.items() if not values]
    if without and not why:
        why = f"not measured for {without[0]}" + (f" and {len(without) - 1} more" if len(without) > 1 else "")
    if why:
        return [Place(name, problems, first, last, None, why) for name, problems in sorted(group.items())]
    ranked = rank_intervals(costs)
    return [Place(one.name, group[one.name], first + one.low - 1, first + one.high - 1, one, None) for one in ranked]


def totals(cohort: Cohort, submission: str, problems: frozenset[str], figure: Metric | None = None) -> list[int]:
    """What these problems cost together: first runs added up, then second ones, as far as all have one."""
    key = metric_key(figure or cohort.figures[0])
    runs = [
        slot.costs.get(key, ()) for slot in cohort.slots if slot.submission == submission and slot.problem in problems
    ]
    return [sum(one) for one in zip(*runs, strict=False)] if runs else []


def _answer(cohorts: Sequence[Cohort]) -> str:
    if not any(cohort.slots for cohort in cohorts):
        return "No submission was checked in these records."
    said = []
    for cohort in cohorts[:3]:
        ranked = places(cohort)
        best = len(ranked[0].solved)
        if not best:
            said.append(f"nobody solved anything{_of(cohort)}")
            continue
        leading = [place.submission for place in ranked if place.low == 1]
        problems = len({slot.problem for slot in cohort.slots})
        names = ", ".join(leading[:5]) + (f" and {len(leading) - 5} more" if len(leading) > 5 else "")
        if len(leading) == 1:
            said.append(f"{names} is first with {best} of {problems} solved{_of(cohort)}")
        else:
            said.append(f"{names} may each be first with {best} of {problems} solved, noise does not tell{_of(cohort)}")
    more = f" ({len(cohorts) - 3} more cohorts below)" if len(cohorts) > 3 else ""
    text = "; ".join(said)
    return ("N" + text[1:] if text.startswith("nobody") else text) + more + "."


def _of(cohort: Cohort) -> str:
    return f" ({cohort.name})" if cohort.name else ""


def _sections(cohort: Cohort) -> list[Section]:
    ranked = places(cohort)
    suffix = f": {cohort.name}" if cohort.name else ""
    blocks: list[Table | Picture] = [_ranks(cohort, ranked)]
    bars = [charts.Rank(place.submission, place.low, place.high) for place in ranked[:PICTURED_MOST]]
    if sum(place.interval is not None for place in ranked) > 1:
        text = "; ".join(f"{one.name}: rank {_range(one.low, one.high)}" for one in bars)
        blocks.append(
            Picture(
                _key("ranks", cohort),
                f"Who wins? {cohort.figures[0].name}{suffix}",
                text + ".",
                lambda canvas: charts.ranks(canvas.subplots(), bars),
                height=1.5 + 0.28 * len(bars),
            )
        )
    made = [Section(f"Who is ahead{suffix}", blocks), Section(f"Cost per problem{suffix}", [_costs(cohort)])]
    growth = _growth(cohort)
    if growth is not None:
        made.append(Section(f"Growth with size{suffix}", [growth]))
    return made


def _key(name: str, cohort: Cohort) -> str:
    return f"{name}_{cohort.name}" if cohort.name else name


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _ranks(cohort: Cohort, ranked: Sequence[Place]) -> Table:
    problems = {slot.problem for slot in cohort.slots}
    body: list[Sequence[Entry]] = []
    for at, place in enumerate(ranked):
        cost: Entry = Missing(place.why or "not measured")
        more: Entry = ""
        tied = ""
        if place.interval is not None:
            cost = place.interval.cost
            tied = ", ".join(place.interval.tied[:6]) + (
                f" and {len(place.interval.tied) - 6} more" if len(place.interval.tied) > 6 else ""
            )
            more = _more_runs(place.interval, ranked[at + 1].submission if at + 1 < len(ranked) else None)
        others: list[Entry] = []
        for figure in cohort.figures[1:]:
            values = totals(cohort, place.submission, place.solved, figure) if place.solved else []
            others.append(median(values) if values else Missing(place.why or "not measured"))
        body.append(
            [place.low, place.high, place.submission, len(place.solved), len(problems), cost, tied, more, *others]
        )  # fmt: skip
    lead = cohort.figures[0] if cohort.figures else METRICS[0]
    columns = [
        Column("rank_low", "rank from", "count", "rank interval"),
        Column("rank_high", "to", "count", "rank interval"),
        Column("submission", "submission"),
        Column("solved", "solved", "count"),
        Column("problems", "of", "count"),
        Column(metric_key(lead), lead.name, lead.unit),
        Column("tied", "not to be told from"),
        Column("more_runs", "runs to tell it from the next", "count"),
        *(Column(metric_key(figure), figure.name, figure.unit) for figure in cohort.figures[1:]),
    ]
    notes = [
        f"ranks by problems solved, then by {lead.name} over them; all intervals hold together with 95 % (Welch, "
        f"Holm); cost: geometric mean over runs{'' if len(problems) == 1 else ' of the sum over solved problems'}",
        "runs to tell: of each, for a chance of 80 %, if things are as they look",
    ]
    if len(ranked) > MOST_ENTRIES:
        notes.append(f"at most {MOST_ENTRIES} are ranked together")
    return Table(_key("ranks", cohort), "Who is ahead", columns, body, notes, LEAD)


def _more_runs(interval: RankInterval, after: str | None) -> Entry:
    """To tell it from the next, `after`; empty where that is told apart, or there is none."""
    if interval.runs_to_separate is not None:
        return interval.runs_to_separate
    if after not in interval.tied:
        return ""
    return Missing("one run: its noise is not known" if interval.runs == 1 else "no number of runs in sight")


def _costs(cohort: Cohort) -> Table:
    body: list[Sequence[Entry]] = []
    by_problem: dict[str, list[Slot]] = {}
    for slot in cohort.slots:
        by_problem.setdefault(slot.problem, []).append(slot)
    for problem in sorted(by_problem):
        slots = by_problem[problem]
        runs = {}
        if cohort.figures:
            runs = {
                slot.submission: slot.costs[metric_key(cohort.figures[0])]
                for slot in slots
                if slot.solved and slot.costs.get(metric_key(cohort.figures[0]))
            }
        ranks = {one.name: one for one in rank_intervals(runs)}
        slots.sort(
            key=lambda slot: (
                not slot.solved,
                ranks[slot.submission].cost if slot.submission in ranks else 0.0,
                slot.submission,
            )
        )
        for slot in slots:
            rank = ranks.get(slot.submission)
            place: Entry = "" if rank is None else _range(rank.low, rank.high)
            size: Entry = Missing("the records do not tell") if slot.size is None or slot.size_is_n else slot.size
            row: list[Entry] = [problem, slot.submission, slot.said, sum(slot.ends.values()), place, size]
            for figure in cohort.figures:
                row.append(_cost(slot, figure))
            row.append(_per_size(slot, cohort))
            body.append(row)
    columns = [
        Column("problem", "problem"),
        Column("submission", "submission"),
        Column("end", "its runs ended"),
        Column("runs", "runs", "count"),
        Column("rank", "rank", None, "rank interval"),
        Column("input_bytes", "input", "bytes"),
        *(Column(metric_key(figure), figure.name, figure.unit) for figure in cohort.figures),
        Column("per_megabyte", "per MB of input", cohort.figures[0].unit if cohort.figures else "count"),
    ]
    notes = ["costs: medians of runs that ended by themselves; at least: the median run was cut off by its limit"]
    if cohort.floor_ns is not None:
        notes.append("walls below ten times the floor are mostly start-up: see `report noise`")
    return Table(_key("problems", cohort), "Cost per problem", columns, body, notes, LEAD)


def _cost(slot: Slot, figure: Metric) -> Entry:
    """Median; where most runs were cut off, what it is at least."""
    values, bounds = slot.costs.get(metric_key(figure), ()), slot.bounds.get(metric_key(figure), ())
    if not values and not bounds:
        return Missing(f"no run with this figure came to an end of its own ({slot.said})")
    ranked = sorted([(value, False) for value in values] + [(value, True) for value in bounds])
    middle, is_bound = ranked[(len(ranked) - 1) // 2]
    if is_bound or len(bounds) * 2 > len(ranked):
        return Bound(min(bounds))
    return middle


def _per_size(slot: Slot, cohort: Cohort) -> Entry:
    if not cohort.figures or slot.size is None or slot.size_is_n or slot.size <= 0:
        return Missing("the size of the input is not known")
    cost = _cost(slot, cohort.figures[0])
    if isinstance(cost, Bound):
        return Bound(cost.value * 1e6 / slot.size)
    return cost * 1e6 / slot.size if isinstance(cost, int | float) else cost


def _growth(cohort: Cohort) -> Table | None:
    """Of each submission over its sizes, where it has enough of them."""
    if not cohort.figures:
        return None
    figure = cohort.figures[0]
    body: list[Sequence[Entry]] = []
    by_submission: dict[tuple[str, bool], list[Slot]] = {}
    for slot in cohort.slots:
        if slot.size is not None and slot.size > 0:
            by_submission.setdefault((slot.family or slot.submission, slot.size_is_n), []).append(slot)
    for (submission, is_n), slots in sorted(by_submission.items()):
        if len({slot.size for slot in slots}) < LEAST_SIZES:
            continue
        sizes: list[int] = []
        costs: list[int] = []
        cut: list[bool] = []
        for slot in slots:
            for values, is_bound in (
                (slot.costs.get(metric_key(figure), ()), False),
                (slot.bounds.get(metric_key(figure), ()), True),
            ):
                sizes += [slot.size or 1] * len(values)
                costs += values
                cut += [is_bound] * len(values)
        fit = fit_growth(sizes, costs, cut, float(cohort.floor_ns or 0) if figure.unit == "ns" else 0.0)
        exponent: Entry = Missing(
            f"{fit.sizes} sizes have a cost, {LEAST_SIZES} are needed"
            + (f"; {fit.below_floor} are below {FLOORS} times the floor" if fit.below_floor else "")
        )
        if fit.exponent is not None:
            exponent = Estimate(fit.exponent, fit.low, fit.high, fit.confidence)
        bends: Entry = ""
        if fit.bends and fit.last_exponent is not None:
            bends = fit.last_exponent
        body.append([submission, "n" if is_n else "bytes of input", fit.sizes, fit.censored, exponent, bends])
    if not body:
        return None
    columns = [
        Column("submission", "submission"),
        Column("over", "over"),
        Column("sizes", "sizes", "count"),
        Column("stopped", "stopped", "count"),
        Column("exponent", "exponent", "", "exponent"),
        Column("bends", "exponent at the largest", "", "exponent"),
    ]
    notes = [
        f"{figure.name} = c size^exponent, fitted to all sizes, stopped ones as bounds; a figure in the last column "
        "says that it is no power law"
    ]
    return Table(_key("growth", cohort), f"Growth: {figure.name}", columns, body, notes, LEAD)
