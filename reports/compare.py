"""Two sides compared, case by case: which costs changed, which surely did not, and which need more runs.

A case is what both sides did: a phase on a subject. Records are reduced to cells in one query each side; the statistics
(reports/statistics/) see cells only. What is unlike is not pooled: it is refused, and named.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofcost.reports.counted_change import CountedChange, counted_change
from proofcost.reports.sides import Side
from proofcost.reports.statistics.comparison import Comparison
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.statistics.suite import SuiteRatio, suite_ratio
from proofcost.reports.statistics.unpaired import compare_samples
from proofcost.reports.statistics.verdict import DELTA_INSTRUCTIONS, DELTA_WALL, Finding, Verdict, judge


@dataclass(frozen=True, slots=True)
class Metric:
    """A cost that is compared. The first metric that a case has on both sides leads.

    Of one `group` a case is compared in one metric, the first that both sides have: a program's own wall is never held
    against that of a whole command, nor a sampled peak against a counted one.
    """

    name: str
    column: str
    unit: str
    delta: float
    group: str
    statuses: tuple[str, ...] = ("measured", "derived")
    """What its figures may be; a mere bound is no figure to compare."""
    counted: bool = False
    """A deterministic count: judged by its own rule, without a p-value."""


METRICS = (
    Metric("instructions", "instructions_u", "count", DELTA_INSTRUCTIONS, "instructions"),
    Metric("instructions (user and kernel)", "instructions", "count", DELTA_INSTRUCTIONS, "instructions"),
    Metric("instructions (callgrind)", "instructions_callgrind", "count", 0.001, "callgrind", counted=True),
    Metric("wall", "wall_program", "ns", DELTA_WALL, "wall"),
    Metric("wall of the command", "wall_command", "ns", DELTA_WALL, "wall"),
    Metric("CPU", "cpu_tree", "ns", DELTA_WALL, "CPU"),
    Metric("CPU waited for", "cpu_waited", "ns", DELTA_WALL, "CPU"),
    Metric("memory", "memory_peak_tree", "bytes", DELTA_WALL, "memory"),
    Metric("memory (sampled)", "memory_peak_tree", "bytes", DELTA_WALL, "memory", statuses=("sampled",)),
    Metric("memory of a process", "memory_peak_process", "bytes", DELTA_WALL, "memory"),
)

GUARDED = (
    "host_class",
    "threads",
    "sandbox",
    "counters",
    "metric_definitions",
    "config_sha256",
    "input_sha256",
    "source",
)
"""Must be one and the same within a case, on both sides: figures that differ in one of these are not alike."""

_UNIT = ("coalesce(plan, session)", "host", "boot", "block", "build")
"""What a value belongs to: the series, the machine and its boot, the block in it, the build of the kernel."""
_BLOCK, _BUILD = 4, 4
"""Of a unit, the first four name a block; the fifth is the build."""
_NO_BLOCK = "0"


class UnlikeError(Exception):
    """What was to be compared differs in more than the side. One line: in what, and how to choose."""


@dataclass(slots=True)
class Cell:
    """One side of one case."""

    values: dict[str, dict[tuple[str, ...], list[int]]] = field(default_factory=dict)
    """By metric: (series, host, boot, block, build) -> values."""
    ends: Counter[str] = field(default_factory=Counter)
    """How many runs ended how: a verdict, or why there is none."""
    kernels: set[str] = field(default_factory=set)
    """Digests of what ran."""
    guarded: dict[str, set[str]] = field(default_factory=dict)

    @property
    def verdict(self) -> str | None:
        """What all of its runs came to; None where they differ."""
        return next(iter(self.ends)) if len(self.ends) == 1 else None


Case = tuple[str, str]
"""(phase, subject)"""
UNKNOWN = "?"
"""The subject of runs that do not say what they checked: taken for one, and said."""


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
    cells = (read_cells(base), read_cells(head))
    report = Report(base, head)
    shared: list[Case] = []
    for case in sorted({*cells[0], *cells[1]}):
        sides = [side.get(case) for side in cells]
        if sides[0] is None or sides[1] is None:
            report.one_sided[case] = head.name if sides[0] is None else base.name
            continue
        report.ends[case] = (sides[0].ends, sides[1].ends)
        _refuse_unlike(case, sides[0], sides[1], pool)
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


def _refuse_unlike(case: Case, base: Cell, head: Cell, pool: Sequence[str]) -> None:
    for name in GUARDED:
        values = base.guarded.get(name, set()) | head.guarded.get(name, set())
        if len(values) > 1 and name not in pool:
            shown = ", ".join(sorted(value[:16] or "unknown" for value in values)[:5])
            raise UnlikeError(
                f"{' of '.join(case)}: the runs differ in {name} ({shown}); choose with --where {name}=VALUE, "
                f"or compare all the same with --pool {name}"
            )


def read_cells(side: Side) -> dict[Case, Cell]:
    """The cells of one side: one query, grouped by the database."""
    guards = ", ".join(f"coalesce(CAST({name} AS VARCHAR), '') AS g_{name}" for name in GUARDED)
    values = ", ".join(f"list(CASE WHEN good THEN {_value(metric)} END) AS m{at}" for at, metric in enumerate(METRICS))
    query = f"""
        WITH chosen AS (
            SELECT *, outcome = 'exited' AND coalesce(cause, 'completed') = 'completed' AS ended,
                ended AND NOT coalesce(beside > 0, false) AS good,
                CASE WHEN verdict IS NOT NULL AND verdict != 'read' THEN verdict
                    WHEN ended THEN 'exit ' || coalesce(CAST(exit_code AS VARCHAR), '?')
                    ELSE coalesce(cause, outcome, 'unknown') END AS ending
            FROM records WHERE ({side.where.sql}) AND NOT coalesce(warmup, false)
        )
        SELECT phase, coalesce(workload, subject, module, '{UNKNOWN}') AS subject,
            [{", ".join(f"coalesce(CAST({name} AS VARCHAR), '0')" for name in _UNIT)}] AS unit,
            ending, coalesce(kernel_sha256, '') AS kernel_digest, {guards}, count(*) AS n, {values}
        FROM chosen GROUP BY ALL ORDER BY ALL"""
    cells: dict[Case, Cell] = {}
    for phase, subject, unit, ending, kernel, *rest in side.data.connection.execute(
        query, side.where.parameters
    ).fetchall():
        cell = cells.setdefault((phase, subject), Cell())
        guarded, (count, *lists) = rest[: len(GUARDED)], rest[len(GUARDED) :]
        cell.ends[ending] += count
        if kernel:
            cell.kernels.add(kernel)
        for name, value in zip(GUARDED, guarded, strict=True):
            cell.guarded.setdefault(name, set()).add(value)
        for metric, found in zip(METRICS, lists, strict=True):
            values_of = [value for value in found if value is not None]
            if values_of:
                cell.values.setdefault(metric.name, {}).setdefault(tuple(unit), []).extend(values_of)
    return cells


def _value(metric: Metric) -> str:
    """SQL for a metric of one record; null where it is not of a status that can be compared."""
    figure = {"instructions_u": "instructions:u"}.get(metric.column, metric.column)
    status = f"coalesce(json_extract_string(weak, '$.\"{figure}\"'), 'measured')"
    allowed = ", ".join(f"'{one}'" for one in metric.statuses)
    return f"CASE WHEN {metric.column} > 0 AND {status} IN ({allowed}) THEN {metric.column} END"


def _compare_metric(
    metric: Metric, cases: Sequence[Case], base: dict[Case, Cell], head: dict[Case, Cell], strict: bool
) -> list[Compared]:
    found: list[tuple[Case, Comparison | CountedChange]] = []
    for case in cases:
        one, other = base[case].values.get(metric.name), head[case].values.get(metric.name)
        if not one or not other:
            continue
        if metric.counted:
            change = counted_change(_flat(one), _flat(other))
            if change is not None:
                found.append((case, change))
        else:
            found.append((case, _comparison(one, other)))
    verdicts = iter(judge([made for _, made in found if isinstance(made, Comparison)], metric.delta, strict=strict))
    made_of = []
    for case, made in found:
        sides = [_flat(side[case].values[metric.name]) for side in (base, head)]
        identical = bool(base[case].kernels) and base[case].kernels == head[case].kernels
        counted = made if isinstance(made, CountedChange) else None
        verdict = None if counted is not None else next(verdicts)
        made_of.append(Compared(case, metric, _median(sides[0]), _median(sides[1]), verdict, counted, identical))
    return made_of


def _comparison(base: dict[tuple[str, ...], list[int]], head: dict[tuple[str, ...], list[int]]) -> Comparison:
    """Paired by block where both sides ran in the same blocks; else unpaired, on the highest level that varies."""
    blocks = [unit[:_BLOCK] for unit in base if unit[3] != _NO_BLOCK]
    paired: dict[tuple[str, ...], tuple[list[int], list[int]]] = {block: ([], []) for block in blocks}
    for at, side in enumerate((base, head)):
        for unit, values in side.items():
            if unit[:_BLOCK] in paired:
                paired[unit[:_BLOCK]][at].extend(values)
    whole = [pair for pair in paired.values() if pair[0] and pair[1]]
    if whole:
        return compare_blocks(whole)
    return compare_samples(_top_level(base), _top_level(head))


def _top_level(units: dict[tuple[str, ...], list[int]]) -> list[float]:
    """One value a build where builds vary (its geometric mean), else every run's."""
    builds: dict[tuple[str, str], list[int]] = {}
    for unit, values in units.items():
        builds.setdefault((unit[0], unit[_BUILD]), []).extend(values)
    if len({build for _, build in builds}) > 1:
        return [math.exp(math.fsum(map(math.log, values)) / len(values)) for values in builds.values()]
    return [float(value) for values in units.values() for value in values]


def _flat(units: dict[tuple[str, ...], list[int]]) -> list[int]:
    return [value for values in units.values() for value in values]


def _median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


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
