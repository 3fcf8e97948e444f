"""A comparison as a document: each case, a forest plot for each metric that decides, how runs ended, what is out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proofcost.reports import charts
from proofcost.reports.chart_style import height_of
from proofcost.reports.compare import Compared, Report
from proofcost.reports.compare_text import case_text, conclusion, finding_text, level_text, notes
from proofcost.reports.document import Column, Document, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.inert import inert
from proofcost.reports.lost import Loss, ends_text
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.statistics.verdict import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LEAD = 40
NAME_SHOWN = 40
_ORDER = {Finding.REGRESSED: 0, Finding.IMPROVED: 1, Finding.INCONCLUSIVE: 2, Finding.EQUIVALENT: 3}
_MARKS = {Finding.REGRESSED: "bad", Finding.IMPROVED: "good"}


def document(report: Report) -> Document:
    """All of it."""
    names = [inert(side.name, NAME_SHOWN) for side in (report.base, report.head)]
    sections = [Section("Verdicts lost, or gained", [_lost(report)])] if report.lost or report.gained else []
    if report.compared:
        sections.append(Section("Each case", [*_cases(report), *_forests(report)]))
        sections.append(Section("All cases in one figure", [_suite(report)]))
    if report.ends:
        sections.append(Section("How runs ended", [_ends(report)]))
    if report.without_ratio or report.one_sided:
        sections.append(Section("Not compared", [_not_compared(report)]))
    return Document("compare", f"{names[0]} → {names[1]}", f"{conclusion(report)}.", sections, notes(report))


def _lost(report: Report) -> Table:
    columns = [Column("phase", "phase"), Column("case", "case"), Column("finding", "finding"),
               Column("base", "base"), Column("head", "head")]  # fmt: skip
    rows: list[list[Entry]] = []
    marked: dict[int, str] = {}
    for cases, who, mark in ((report.lost, Loss.HEAD, "bad"), (report.gained, Loss.BASE, "good")):
        for case in cases:
            marked[len(rows)] = mark
            rows.append([*case, who.value, *map(ends_text, report.all_ends[case])])
    note = "lost: base came to a verdict, and head did not; no cost can be compared there, and a gate fails"
    return Table("lost", "Cases where one side has no verdict", columns, rows, [note], LEAD, marked)


def ratio_of(one: Compared) -> Estimate:
    """With its interval; of an exact count there is none, but what was seen to vary."""
    if one.verdict is None:
        return Estimate(one.ratio, None, None, 0.95)
    comparison = one.verdict.comparison
    return Estimate(comparison.ratio, comparison.low, comparison.high, comparison.confidence)


def _cases(report: Report) -> list[Table]:
    """The metrics that decide, then the others."""
    leading = sorted(report.leading(), key=lambda one: (_ORDER[one.finding], one.case))
    chosen = {id(one) for one in leading}
    others = [one for one in report.compared if id(one) not in chosen]
    tables = [_table("cases", "What decides each case", leading)]
    return [*tables, _table("others", "Other costs of the same cases", others)] if others else tables


def _table(key: str, title: str, rows: Sequence[Compared]) -> Table:
    units = {one.metric.unit for one in rows}
    # One column has one unit; where metrics of several stand below each other each gets columns of its own.
    columns = [Column("phase", "phase"), Column("case", "case"), Column("metric", "metric")]
    for unit in sorted(units):
        of = f" ({_NAMES[unit]})" if len(units) > 1 else ""
        columns.append(Column(f"base_{unit}", f"base{of}", unit, "median"))
        columns.append(Column(f"head_{unit}", f"head{of}", unit, "median"))
    counted = any(one.counts for one in rows)
    columns.append(Column("ratio", "ratio", "ratio", "ratio"))
    columns += [Column("n", "n", None, "n")] if counted else []
    columns.append(Column("finding", "finding", None, "verdict"))
    levels = [level_text(one) for one in rows]
    if any(levels):
        columns.append(Column("level", "where the noise is", None, "more_runs"))
    body: list[list[Entry]] = []
    for one, level in zip(rows, levels, strict=True):
        medians: list[Entry] = []
        for unit in sorted(units):
            medians += [one.base, one.head] if unit == one.metric.unit else ["", ""]
        said = [finding_text(one), level] if any(levels) else [finding_text(one)]
        counts = [one.counts] if counted else []
        body.append([*one.case, one.metric.name, *medians, ratio_of(one), *counts, *said])
    marked = {at: _MARKS[one.finding] for at, one in enumerate(rows) if one.finding in _MARKS}
    paired = any(one.verdict is not None for one in rows)
    notes = ["base, head: medians; ratio: Hodges-Lehmann's, of blocks or runs, not head over base"] if paired else ()
    return Table(key, title, columns, body, notes, LEAD, marked)


_NAMES = {"ns": "time", "bytes": "bytes", "count": "instructions"}


def _forests(report: Report) -> list[Picture]:
    leading = report.leading()
    pictures = []
    for metric in METRICS:
        mine = [one for one in leading if one.metric is metric]
        if mine:
            pictures.append(_forest(metric, sorted(mine, key=lambda one: (_ORDER[one.finding], one.case))))
    return pictures


def _forest(metric: Metric, rows: Sequence[Compared]) -> Picture:
    effects = [charts.Effect(case_text(one.case, False), ratio_of(one), _MARKS.get(one.finding, "")) for one in rows]
    changed = [f"{case_text(one.case)} {one.ratio:.3f}" for one in rows if one.finding in _MARKS]
    text = f"Changed: {', '.join(changed[:10])}." if changed else f"None of {len(rows)} changed."

    def draw(canvas: Canvas) -> None:
        charts.forest(canvas.add_subplot(), effects, metric.delta, f"{metric.name}: head over base")

    key = f"forest-{metric.column}"
    return Picture(key, f"In which cases did {metric.name} change?", text, draw, height=height_of(len(rows)))


def _suite(report: Report) -> Table:
    columns = [Column("metric", "metric"), Column("cases", "cases", "count", "suite"),
               Column("ratio", "geometric mean of ratios", "ratio", "suite")]  # fmt: skip
    rows: list[list[Entry]] = []
    for name, one in report.suite.items():
        mean: Entry = (
            Missing("no case") if one.ratio is None else Estimate(one.ratio, one.low, one.high, one.confidence)
        )
        rows.append([name, one.submissions, mean])
    note = "no interval below 6 cases; only cases that both sides finished with one and the same verdict"
    return Table("suite", "Geometric mean over cases", columns, rows, notes=[note])


def _ends(report: Report) -> Table:
    columns = [Column("phase", "phase"), Column("case", "case"), Column("base", "base"), Column("head", "head")]
    rows = [[*case, ends_text(one), ends_text(other)] for case, (one, other) in report.ends.items()]
    marked = {at: "bad" for at, case in enumerate(report.ends) if case in set(report.disagreements)}
    return Table("ends", "Runs by how they ended", columns, rows, lead=LEAD, marked=marked)


def _not_compared(report: Report) -> Table:
    columns = [Column("phase", "phase"), Column("case", "case"), Column("why", "why")]
    rows = [[*case, why] for case, why in report.without_ratio.items()]
    rows += [[*case, f"only in {side}"] for case, side in report.one_sided.items()]
    return Table("not_compared", "Cases without a ratio", columns, rows, lead=LEAD)
