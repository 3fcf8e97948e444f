"""A comparison for people: on a console, and as Markdown for a job's summary."""

from __future__ import annotations

from collections import Counter

from proofcost.reports.cells import UNKNOWN
from proofcost.reports.compare import Case, Compared, Report
from proofcost.reports.inert import inert
from proofcost.reports.statistics.verdict import Finding
from proofcost.reports.units import human, plural

MARKDOWN_MAX_BYTES = 60_000
"""A comment may have 65,536 characters; a job's summary with more than 1 MiB is dropped whole."""

HEAD = ("case", "metric", "base", "head", "ratio", "interval", "n", "finding")


_METHOD = (
    "ratio: head over base, with an interval of at least 95 %; a finding needs a p that survives all cases of its "
    "metric (Benjamini-Hochberg, 5 %) and an effect beyond 0.5 % of instructions, 2 % of others; the first metric of a "
    "case decides"
)


def lines(report: Report, ascii_only: bool) -> list[tuple[str, ...]]:
    """One row for each case and metric."""
    return [_row(one, ascii_only) for one in report.compared]


def _row(one: Compared, ascii_only: bool) -> tuple[str, ...]:
    unit = one.metric.unit
    interval, count = "", ""
    if one.verdict is not None:
        comparison = one.verdict.comparison
        if comparison.low is not None and comparison.high is not None:
            interval = f"{comparison.low:.3f} .. {comparison.high:.3f}"
        same = comparison.base_count == comparison.head_count
        count = str(comparison.base_count) if same else f"{comparison.base_count}/{comparison.head_count}"
    elif one.counted is not None:
        interval = f"threshold {float(one.counted.threshold):.2%}"
    return (
        case_text(one.case, ascii_only),
        one.metric.name,
        human(one.base, unit, ascii_only),
        human(one.head, unit, ascii_only),
        f"{one.ratio:.3f}",
        interval,
        count,
        finding_text(one),
    )


def case_text(case: Case, ascii_only: bool = True) -> str:
    return f"{inert(case[0], 20, ascii_only)} {inert(case[1], 48, ascii_only)}"


def finding_text(one: Compared) -> str:
    """The finding in words, with what is missing to a clear one."""
    if one.identical:
        return "the same binary on both sides"
    finding: Finding = one.finding
    if one.verdict is None or finding is not Finding.INCONCLUSIVE:
        return str(finding.value)
    if one.verdict.why is None:
        return str(finding.value)
    if one.verdict.more is None:
        return f"inconclusive: {one.verdict.why.value}"
    unit = "block" if one.verdict.comparison.design.name == "PAIRED" else "run a side"
    more = plural(one.verdict.more, unit, "blocks" if unit == "block" else "runs a side")
    return f"inconclusive: {more} more"


def conclusion(report: Report) -> str:
    """The answer in one sentence."""
    leading = report.leading()
    if not leading:
        return "nothing could be compared"
    counts = Counter(one.finding for one in leading)
    parts = [f"{counts[finding]} {finding.value}" for finding in Finding if counts[finding]]
    sentence = f"{plural(len(leading), 'case')} compared: {', '.join(parts)}"
    if not counts[Finding.REGRESSED] and not counts[Finding.IMPROVED]:
        sentence += "; nothing significant"
    return sentence


def notes(report: Report) -> list[str]:
    """What must be known beside the table."""
    made = [f"base: {report.base.said}", f"head: {report.head.said}", *report.declared]
    for name, one in report.suite.items():
        if one.ratio is None or one.submissions < 2:
            continue
        interval = (
            "no interval below 6 cases" if one.low is None or one.high is None else f"{one.low:.3f} .. {one.high:.3f}"
        )
        made.append(f"{name}, geometric mean over {one.submissions} cases: {one.ratio:.3f} [{interval}]")
    if report.disagreements:
        cases = ", ".join(case_text(case) for case in report.disagreements[:5])
        made.append(f"VERDICTS DISAGREE in {plural(len(report.disagreements), 'case')}: {cases}")
    if any(case[1] == UNKNOWN for case in report.ends):
        made.append(
            "runs that do not say what they checked are taken for one subject: label them (run -l subject=NAME)"
        )
    for why, number in Counter(report.without_ratio.values()).items():
        made.append(f"not compared: {plural(number, 'case')}: {why}")
    for side, number in Counter(report.one_sided.values()).items():
        made.append(f"not compared: {plural(number, 'case')} only in {side}")
    designs = {one.verdict.comparison.design.value for one in report.compared if one.verdict is not None}
    if designs:
        made.append(
            f"design: {', '.join(sorted(designs))}"
            + (
                "; what drifted between the sides counts as a difference"
                if "two independent samples" in designs
                else ""
            )
        )
    least = [one.verdict.detectable_ratio for one in report.compared if one.verdict and one.verdict.detectable_ratio]
    if least:
        best, worst = min(least) - 1, max(least) - 1
        made.append(f"these runs would have shown a change of {best:.1%} in the best case, {worst:.1%} in the worst")
    made.append(_METHOD)
    return made


def markdown(report: Report) -> str:
    """A summary of at most 60 kB: what changed first, then the rest as far as it fits."""
    order = {Finding.REGRESSED: 0, Finding.IMPROVED: 1, Finding.INCONCLUSIVE: 2, Finding.EQUIVALENT: 3}
    rows = sorted(report.compared, key=lambda one: order[one.finding])
    head = [
        f"## {_cell(report.base.name)} → {_cell(report.head.name)}: {conclusion(report)}",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
    ]
    tail = ["", *(f"- {_cell(note)}" for note in notes(report)), ""]
    room = MARKDOWN_MAX_BYTES - sum(len(line.encode()) + 1 for line in [*head, *tail]) - 100
    body: list[str] = []
    for at, one in enumerate(rows):
        line = "| " + " | ".join(_cell(cell) for cell in _row(one, False)) + " |"
        room -= len(line.encode()) + 1
        if room < 0:
            body.append(f"| {len(rows) - at} more rows, in the JSON file |" + " |" * (len(HEAD) - 1))
            break
        body.append(line)
    return "\n".join([*head, *body, *tail])


def _cell(text: str) -> str:
    """Text that is no markup: names are other people's."""
    for char in "\\`*_{}[]<>|#!~@":
        text = text.replace(
            char, f"\\{char}" if char not in "<>@" else {"<": "&lt;", ">": "&gt;", "@": "@\u200b"}[char]
        )
    return text.replace("\n", " ")
