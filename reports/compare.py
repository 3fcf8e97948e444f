"""Two sides compared, case by case: which costs changed, which surely did not, and which need more runs.

A case is what both sides did: a phase on a subject. Records are reduced to cells in one query each side; the statistics
(reports/statistics/) see cells only. What is unlike is not pooled: it is refused, and named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofcost.reports.cells import GUARDED, METRICS, UNKNOWN, Cell, Metric, merged, read, refuse_unlike
from proofcost.reports.cold_warm import CACHE, alike
from proofcost.reports.counted_change import MIN_RUNS, CountedChange, counted_change
from proofcost.reports.declarations import said_of
from proofcost.reports.lost import FINISHED, Loss, disagree, ends_text, loss
from proofcost.reports.pairing import UNIT, Level, compare_units, level_of
from proofcost.reports.sides import Side
from proofcost.reports.statistics.comparison import Comparison
from proofcost.reports.statistics.suite import SuiteRatio, suite_ratio
from proofcost.reports.statistics.verdict import Finding, Verdict, judge
from proofcost.reports.values import pooled

Case = tuple[str, str]
"""(phase, subject)"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of one case. Exactly one of `verdict` and `counted` is set."""

    case: Case
    metric: Metric
    base: int
    head: int
    """Medians (the lower of two middle ones)."""
    verdict: Verdict | None
    counted: CountedChange | None
    identical: bool
    """The very same binary, configured alike, had the very same input on both sides: what differs is noise."""
    level: Level
    """What the counts of runs are counts of."""

    @property
    def finding(self) -> Finding:
        if self.counted is not None:
            if not self.counted.is_change or self.identical:
                return Finding.EQUIVALENT
            return Finding.REGRESSED if self.counted.effect > 0 else Finding.IMPROVED
        assert self.verdict is not None
        if self.identical and self.verdict.finding in (Finding.REGRESSED, Finding.IMPROVED):
            return Finding.INCONCLUSIVE
        return self.verdict.finding

    @property
    def counts(self) -> str:
        """Independent units of base and of head: `12`, `12/10`."""
        if self.verdict is None:
            return ""
        one, other = self.verdict.comparison.base_count, self.verdict.comparison.head_count
        return str(one) if one == other else f"{one}/{other}"

    @property
    def ratio(self) -> float:
        return float(1 + self.counted.effect) if self.counted is not None else self.verdict.comparison.ratio  # type: ignore[union-attr]


@dataclass(slots=True)
class Report:
    """What came out. `suite`: by metric, over the cases that both sides finished with a verdict."""

    base: Side
    head: Side
    compared: list[Compared] = field(default_factory=list)
    suite: dict[str, SuiteRatio] = field(default_factory=dict)
    ends: dict[Case, tuple[Counter[str], Counter[str]]] = field(default_factory=dict)
    all_ends: dict[Case, tuple[Counter[str], Counter[str]]] = field(default_factory=dict)
    """How all runs ended, those too that are left apart below."""
    one_sided: dict[Case, str] = field(default_factory=dict)
    """Cases of one side only: which."""
    disagreements: list[Case] = field(default_factory=list)
    lost: dict[Case, str] = field(default_factory=dict)
    """Cases that base solved and head did not: how each side ended. A regression, whatever the costs of others."""
    gained: dict[Case, str] = field(default_factory=dict)
    """The other way round."""
    without_ratio: dict[Case, str] = field(default_factory=dict)
    """Cases of both sides that are not compared, and why."""
    declared: list[str] = field(default_factory=list)
    """Which host classes were put together because somebody declared them one (`store declare`)."""
    pooled: dict[str, set[str]] = field(default_factory=dict)
    """Guarded columns that differ within a case, as they were allowed to: their values."""
    host_classes: set[str] = field(default_factory=set)
    """Of the cases of both sides."""
    cold: int = 0
    """Runs left apart since they read their input from storage, where both sides have others."""
    backwards: int = 0
    """Runs with a negative wall."""
    false_alarms: list[str] = field(default_factory=list)
    """How often such a comparison cries wolf here, in words (compare_noise.py); empty where nobody asked."""
    gated: bool = False
    """Whether an exit status hangs on it."""

    @property
    def judged(self) -> bool:
        """Whether anything at all could be said of the two sides."""
        return bool(self.compared or self.lost or self.gained or self.disagreements)

    def of(self, *findings: Finding) -> list[Compared]:
        """What leads in each case, with one of these findings."""
        return [one for one in self.leading() if one.finding in findings]

    def leading(self) -> list[Compared]:
        """Of each case the metric that decides: the first that both sides have."""
        seen: dict[Case, Compared] = {}
        for one in self.compared:
            seen.setdefault(one.case, one)
        return list(seen.values())


def compare(base: Side, head: Side, pool: Sequence[str] = (), strict: bool = False) -> Report:
    """Compare two sides. `pool`: guarded columns that may differ all the same. Raises UnlikeError."""
    # What one store declares of host classes holds for the other, too: else its class would stand alone.
    base.data.declared = head.data.declared = tuple(dict.fromkeys((*base.data.declared, *head.data.declared)))
    report = Report(base, head)
    report.declared = said_of((base.data, base.where), (head.data, head.where))
    by_case = (_by_case(base), _by_case(head))
    cells: tuple[dict[Case, Cell], dict[Case, Cell]] = ({}, {})
    shared: list[Case] = []
    for case in sorted({*by_case[0], *by_case[1]}):
        if case not in by_case[0] or case not in by_case[1]:
            report.one_sided[case] = head.name if case not in by_case[0] else base.name
            continue
        states = [by_case[at][case] for at in (0, 1)]
        base_all, head_all = (merged(list(side.values())).ends for side in states)
        report.all_ends[case] = (base_all, head_all)
        if CACHE in pool:
            states = [{UNKNOWN: merged(list(side.values()))} for side in states]
        chosen = alike(states[0], states[1])
        report.cold += chosen.apart
        cells[0][case], cells[1][case] = chosen.base, chosen.head
        report.ends[case] = (chosen.base.ends, chosen.head.ends)
        refuse_unlike([chosen.base, chosen.head], pool)
        _note_guarded(report, chosen.base, chosen.head)
        why = _verdicts(report, case) or chosen.why or _no_ratio(chosen.base, chosen.head)
        if why is None:
            shared.append(case)
        else:
            report.without_ratio[case] = why
    done: set[tuple[Case, str]] = set()
    for metric in METRICS:
        open_cases = [case for case in shared if (case, metric.group) not in done]
        made = _compare_metric(metric, open_cases, cells[0], cells[1], strict)
        done.update((one.case, metric.group) for one in made)
        report.compared += made
        ratios = {"\0".join(one.case): [one.ratio] for one in report.compared if one.metric is metric}
        if ratios:
            report.suite[metric.name] = suite_ratio(ratios)
    compared = {one.case for one in report.compared}
    left = [case for case in shared if case not in compared]
    report.without_ratio.update({case: _no_figure(cells[0][case], cells[1][case]) for case in left})
    order = {metric.name: at for at, metric in enumerate(METRICS)}
    report.compared.sort(key=lambda one: (one.case, order[one.metric.name]))
    return report


_DISAGREE = "the sides come to different verdicts"


def _verdicts(report: Report, case: Case) -> str | None:
    """Note a verdict that is another one, lost or gained, of all runs of a case (cold ones, too); of the first, why it
    has no ratio."""
    base, head = report.all_ends[case]
    if disagree(base, head):
        report.disagreements.append(case)
        return _DISAGREE
    found = loss(base, head)
    if found is not None:
        (report.lost if found is Loss.HEAD else report.gained)[case] = f"base {ends_text(base)}; head {ends_text(head)}"
    return None


def _no_ratio(base: Cell, head: Cell) -> str | None:
    """Why two cells give no ratio: both must have come to one and the same verdict each time."""
    for side, name in ((base, "base"), (head, "head")):
        if side.verdict is None:
            return f"{name} ended in more than one way: {', '.join(sorted(side.ends))}"
    if base.verdict != head.verdict:
        return f"{base.verdict} against {head.verdict}"
    if base.verdict not in (*FINISHED, "declined"):
        return f"both sides: {base.verdict}"
    return None


def _no_figure(base: Cell, head: Cell) -> str:
    """Why two cells that may be compared are not."""
    for metric in METRICS:
        one, other = (side.values.get(metric.name) for side in (base, head))
        if metric.counted and one and other:
            runs = [sum(values.n for values in side.values()) for side in (one, other)]
            return f"{metric.name}: fewer than {MIN_RUNS} runs of each (base {runs[0]}, head {runs[1]})"
    return "no figure that both sides have"


def _note_guarded(report: Report, base: Cell, head: Cell) -> None:
    report.backwards += base.backwards + head.backwards
    for name in GUARDED:
        values = base.guarded[name] | head.guarded[name]
        if len(values) > 1:
            report.pooled.setdefault(name, set()).update(values)
        if name == "host_class":
            report.host_classes |= values


def _identical(base: Cell, head: Cell) -> bool:
    """One binary, one configuration, one input, one number of threads: nothing that could have changed the cost."""
    same = all(base.guarded[name] == head.guarded[name] and len(base.guarded[name]) == 1 for name in _ARTEFACTS)
    return same and len(base.kernels) == 1 and base.kernels == head.kernels


_ARTEFACTS = ("config_sha256", "input_sha256", "threads")


def _by_case(side: Side) -> dict[Case, dict[str, Cell]]:
    """The cells of each case, by whether the input was in memory."""
    found: dict[Case, dict[str, Cell]] = {}
    for cell in read(side.data, side.where, ("phase", "subject", CACHE), unit=UNIT, bins=False):
        case, state = (cell.key[0], cell.key[1]), cell.key[2]
        cell.key = case
        found.setdefault(case, {})[state] = cell
    return found


def _compare_metric(
    metric: Metric, cases: Sequence[Case], base: dict[Case, Cell], head: dict[Case, Cell], strict: bool
) -> list[Compared]:
    found: list[tuple[Case, Comparison | CountedChange]] = []
    for case in cases:
        one, other = base[case].values.get(metric.name), head[case].values.get(metric.name)
        if not one or not other:
            continue
        if metric.counted:
            change = counted_change(*(pooled(side.values()).numbers.tolist() for side in (one, other)))
            if change is not None:
                found.append((case, change))
        else:
            found.append((case, compare_units(one, other)))
    verdicts = iter(judge([made for _, made in found if isinstance(made, Comparison)], metric.delta, strict=strict))
    made_of = []
    for case, made in found:
        medians = [pooled(side[case].values[metric.name].values()).median for side in (base, head)]
        level = level_of(base[case].values[metric.name], head[case].values[metric.name])
        counted = made if isinstance(made, CountedChange) else None
        verdict = None if counted is not None else next(verdicts)
        made_of.append(
            Compared(case, metric, medians[0], medians[1], verdict, counted, _identical(base[case], head[case]), level)
        )
    return made_of


def as_json(report: Report) -> str:
    """All numbers of a report, floats to 15 digits."""
    return json.dumps(
        {
            "base": {"name": report.base.name, "is": report.base.said},
            "head": {"name": report.head.name, "is": report.head.said},
            "cases": [_compared_json(one) for one in report.compared],
            "suite": {
                name: {"submissions": one.submissions, "ratio": one.ratio, "low": one.low, "high": one.high}
                for name, one in report.suite.items()
            },
            "ends": [
                {"phase": case[0], "subject": case[1], "base": dict(one), "head": dict(other)}
                for case, (one, other) in report.ends.items()
            ],
            "not_compared": [
                {"phase": case[0], "subject": case[1], "why": why}
                for case, why in [
                    *report.without_ratio.items(),
                    *((case, f"only in {side}") for case, side in report.one_sided.items()),
                ]
            ],
            "disagreements": [{"phase": case[0], "subject": case[1]} for case in report.disagreements],
            "lost": [{"phase": case[0], "subject": case[1], "why": why} for case, why in report.lost.items()],
            "gained": [{"phase": case[0], "subject": case[1], "why": why} for case, why in report.gained.items()],
            "pooled": {name: sorted(values) for name, values in report.pooled.items()},
            "cold_runs_left_apart": report.cold,
            "runs_with_a_clock_set_back": report.backwards,
            "false_alarms": report.false_alarms,
        },
        indent=1,
    )


def _compared_json(one: Compared) -> dict[str, object]:
    made: dict[str, object] = {
        "phase": one.case[0], "subject": one.case[1], "metric": one.metric.name, "unit": one.metric.unit,
        "base_median": one.base, "head_median": one.head, "ratio": one.ratio, "finding": one.finding.value,
        "identical_binaries": one.identical, "delta": one.metric.delta, "more_of": one.level.of,
        "noise_between": one.level.between,
    }  # fmt: skip
    if one.verdict is not None:
        comparison = one.verdict.comparison
        made |= {
            "low": comparison.low, "high": comparison.high, "confidence": comparison.confidence, "p": comparison.p,
            "adjusted_p": one.verdict.adjusted_p, "family": one.verdict.family_size, "method": comparison.method,
            "design": comparison.design.value, "base_n": comparison.base_count, "head_n": comparison.head_count,
            "why": None if one.verdict.why is None else one.verdict.why.value, "more_runs": one.verdict.more,
            "more_runs_at_least": one.verdict.at_least,
            "detectable_ratio": one.verdict.detectable_ratio,
        }  # fmt: skip
    if one.counted is not None:
        made |= {"spread": float(one.counted.spread), "threshold": float(one.counted.threshold)}
    return made
