"""A comparison in words: its answer, each finding with what is missing to a clear one, what must be known beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from proofcost.reports.cells import UNKNOWN
from proofcost.reports.compare import Case, Compared, Report
from proofcost.reports.inert import inert
from proofcost.reports.statistics.verdict import Finding
from proofcost.reports.units import plural

_METHOD = (
    "ratio: head over base, with an interval of at least 95 %; a finding needs a p that survives all cases of its "
    "metric (Benjamini-Hochberg, 5 %) and an effect beyond 0.5 % of instructions, 2 % of others; the first metric of a "
    "case decides"
)
_MOSTLY = 0.9
"""Share of the noise from which one level is named alone."""


def case_text(case: Case, ascii_only: bool = True) -> str:
    return f"{inert(case[0], 20, ascii_only)} {inert(case[1], 48, ascii_only)}"


def finding_text(one: Compared) -> str:
    """The finding in words, with what is missing to a clear one."""
    if one.identical:
        return "the same binary on both sides"
    finding: Finding = one.finding
    if one.verdict is None or finding is not Finding.INCONCLUSIVE or one.verdict.why is None:
        return str(finding.value)
    if one.verdict.more is None:
        return f"inconclusive: {one.verdict.why.value}"
    unit = "block" if one.level.of == "block" else f"{one.level.of} a side"
    many = "blocks" if one.level.of == "block" else f"{one.level.of}s a side"
    return f"inconclusive: {plural(one.verdict.more, unit, many)} more"


def level_text(one: Compared) -> str:
    """At which level to repeat, where the data tell."""
    share = one.level.between
    if share is None:
        return ""
    if share >= _MOSTLY:
        return f"{share:.0%} of the noise is between {one.level.of}s: more runs of each would tell nothing"
    return f"{share:.0%} of the noise is between {one.level.of}s, the rest within each: more runs of each tell as well"


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


def ends_text(ends: Mapping[str, int]) -> str:
    """`12 accepted, 1 time_limit`."""
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items(), key=lambda item: (-item[1], item[0])))


def notes(report: Report) -> list[str]:
    """What must be known beside the table."""
    made = [f"base: {report.base.said}", f"head: {report.head.said}", *report.declared]
    if report.disagreements:
        cases = ", ".join(case_text(case) for case in report.disagreements[:5])
        made.insert(0, f"VERDICTS DISAGREE in {plural(len(report.disagreements), 'case')}: {cases}")
    made += report.false_alarms
    for at, name in enumerate(("base", "head")):
        ends: Counter[str] = Counter()
        for sides in report.ends.values():
            ends.update(sides[at])
        if ends:
            made.append(f"runs of {name}, in cases of both sides: {ends_text(ends)}")
    for column, values in report.pooled.items():
        shown = ", ".join(sorted(value[:16] or "unknown" for value in values)[:5])
        made.append(f"put together though they differ in {column}: {shown}")
    if report.cold:
        made.append(
            f"left apart: {plural(report.cold, 'run')}, since some read the input from storage (cold) and some found "
            "it in memory (warm): warm is compared with warm where both sides have it; all together: --pool cache"
        )
    if report.backwards:
        made.append(f"{plural(report.backwards, 'run')} with a negative wall: a clock was set back; no figure")
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
        drift = "; what drifted between the sides counts as a difference" if _UNPAIRED in designs else ""
        made.append(f"design: {', '.join(sorted(designs))}{drift}")
    for said, number in Counter(level_text(one) for one in report.leading()).items():
        if said:
            made.append(f"{plural(number, 'case')}: {said}")
    least = [one.verdict.detectable_ratio for one in report.compared if one.verdict and one.verdict.detectable_ratio]
    if least:
        best, worst = min(least) - 1, max(least) - 1
        made.append(f"these runs would have shown a change of {best:.1%} in the best case, {worst:.1%} in the worst")
    made.append(_METHOD)
    return made


_UNPAIRED = "two independent samples"
