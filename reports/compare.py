"""Two sides compared, case by case: which costs changed, which surely did not, and which need more runs.

A case is what both sides did: a phase on a subject. Records are reduced to cells in one query each side; the statistics
(reports/statistics/) see cells only. What is unlike is not pooled: it is refused, and named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofcost.reports.cells import METRICS, Cell, Metric, read, refuse_unlike
from proofcost.reports.counted_change import CountedChange, counted_change
from proofcost.reports.declarations import said_of
from proofcost.reports.pairing import UNIT, compare_units
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
    """The very same binaries ran on both sides: what differs is noise."""

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
    one_sided: dict[Case, str] = field(default_factory=dict)
    """Cases of one side only: which."""
    disagreements: list[Case] = field(default_factory=list)
    without_ratio: dict[Case, str] = field(default_factory=dict)
    """Cases of both sides that are not compared, and why."""
    declared: list[str] = field(default_factory=list)
    """Which host classes were put together because somebody declared them one (`store declare`)."""

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
    cells = (_cells_of(base), _cells_of(head))
    report = Report(base, head)
    report.declared = said_of((base.data, base.where), (head.data, head.where))
    shared: list[Case] = []
    for case in sorted({*cells[0], *cells[1]}):
        sides = [side.get(case) for side in cells]
        if sides[0] is None or sides[1] is None:
            report.one_sided[case] = head.name if sides[0] is None else base.name
            continue
        report.ends[case] = (sides[0].ends, sides[1].ends)
        refuse_unlike([sides[0], sides[1]], pool)
        why = _no_ratio(sides[0], sides[1])
        if why is None:
            shared.append(case)
        else:
            report.without_ratio[case] = why
            if why == _DISAGREE:
                report.disagreements.append(case)
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
    report.without_ratio.update({case: "no figure that both sides have" for case in shared if case not in compared})
    order = {metric.name: at for at, metric in enumerate(METRICS)}
    report.compared.sort(key=lambda one: (one.case, order[one.metric.name]))
    return report


_DISAGREE = "the sides come to different verdicts"


def _no_ratio(base: Cell, head: Cell) -> str | None:
    """Why two cells give no ratio: both must have come to one and the same verdict each time."""
    for side, name in ((base, "base"), (head, "head")):
        if side.verdict is None:
            return f"{name} ended in more than one way: {', '.join(sorted(side.ends))}"
    if base.verdict != head.verdict:
        ends = {base.verdict, head.verdict}
        return _DISAGREE if ends <= {"accepted", "rejected", "declined"} else f"{base.verdict} against {head.verdict}"
    if base.verdict not in ("accepted", "rejected", "declined", "ran", "exit 0"):
        return f"both sides: {base.verdict}"
    return None


def _cells_of(side: Side) -> dict[Case, Cell]:
    found = read(side.data, side.where, ("phase", "subject"), unit=UNIT, bins=False)
    return {(cell.key[0], cell.key[1]): cell for cell in found}


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
        identical = bool(base[case].kernels) and base[case].kernels == head[case].kernels
        counted = made if isinstance(made, CountedChange) else None
        verdict = None if counted is not None else next(verdicts)
        made_of.append(Compared(case, metric, medians[0], medians[1], verdict, counted, identical))
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
        },
        indent=1,
    )


def _compared_json(one: Compared) -> dict[str, object]:
    made: dict[str, object] = {
        "phase": one.case[0], "subject": one.case[1], "metric": one.metric.name, "unit": one.metric.unit,
        "base_median": one.base, "head_median": one.head, "ratio": one.ratio, "finding": one.finding.value,
        "identical_binaries": one.identical, "delta": one.metric.delta,
    }  # fmt: skip
    if one.verdict is not None:
        comparison = one.verdict.comparison
        made |= {
            "low": comparison.low, "high": comparison.high, "confidence": comparison.confidence, "p": comparison.p,
            "adjusted_p": one.verdict.adjusted_p, "family": one.verdict.family_size, "method": comparison.method,
            "design": comparison.design.value, "base_n": comparison.base_count, "head_n": comparison.head_count,
            "why": None if one.verdict.why is None else one.verdict.why.value, "more_runs": one.verdict.more,
            "detectable_ratio": one.verdict.detectable_ratio,
        }  # fmt: skip
    if one.counted is not None:
        made |= {"spread": float(one.counted.spread), "threshold": float(one.counted.threshold)}
    return made
