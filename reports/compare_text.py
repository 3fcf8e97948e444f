"""A comparison in words: its answer, each finding with what is missing to a clear one, what must be known beside."""

from __future__ import annotations

from collections import Counter

from proofcost.reports.cells import UNKNOWN, told_apart
from proofcost.reports.compare import Case, Compared, Report
from proofcost.reports.inert import inert
from proofcost.reports.lost import ends_text
from proofcost.reports.statistics.verdict import Finding
from proofcost.reports.units import plural

_METHOD = (
    "ratio: head over base, block by block or run by run (Hodges-Lehmann), not the quotient of the medians beside it; "
    "with an interval of at least 95 %; a finding needs a p that survives all cases of its metric (Benjamini-Hochberg, "
    "5 %) and an effect beyond 0.5 % of instructions, 2 % of others; the first metric of a case decides"
)
_COUNTED = (
    "ratio of counts: head's median over base's; a change is an effect beyond 0.1 % and beyond five times the spread "
    "that was seen; counts repeat, so there is no p; the first metric of a case decides"
)
SAME_BINARY = "the same binary on both sides"
MORE_MOST = 1000
"""Nobody repeats a thing so often: what is to be seen through such noise needs a quieter host, or a counter."""
_MOSTLY = 0.9
"""Share of the noise from which one level is named alone."""


def case_text(case: Case, ascii_only: bool = True) -> str:
    return f"{inert(case[0], 20, ascii_only)} {inert(case[1], 48, ascii_only)}"


def finding_text(one: Compared) -> str:
    """The finding in words, with what is missing to a clear one."""
    if one.identical:
        return SAME_BINARY
    finding: Finding = one.finding
    if one.verdict is None or finding is not Finding.INCONCLUSIVE or one.verdict.why is None:
        return str(finding.value)
    if one.verdict.more is None:
        return f"inconclusive: {one.verdict.why.value}"
    unit = "block" if one.level.of == "block" else f"{one.level.of} a side"
    many = "blocks" if one.level.of == "block" else f"{one.level.of}s a side"
    if one.verdict.more > MORE_MOST:
        return f"inconclusive: more than {MORE_MOST:,} {many} more: not by repeating"
    least = "at least " if one.verdict.at_least else ""
    return f"inconclusive: {least}{plural(one.verdict.more, unit, many)} more"


def level_text(one: Compared) -> str:
    """At which level to repeat, where the data tell."""
    share = one.level.between
    if share is None:
        return ""
    if share >= _MOSTLY:
        return f"{share:.0%} of the noise is between {one.level.of}s: more runs of each would tell nothing"
    return f"{share:.0%} of the noise is between {one.level.of}s, the rest within each: more runs of each tell as well"


def conclusion(report: Report) -> str:
    """The answer in one sentence, what a gate must not pass first."""
    leading = report.leading()
    verdicts = [
        text
        for cases, text in (
            (report.lost, "head lost the verdict"),
            (report.disagreements, "verdicts disagree"),
            (report.gained, "head gained a verdict"),
        )
        if cases
        for text in [f"{plural(len(cases), 'case')} where {text}"]
    ]
    if not leading:
        return "; ".join(verdicts) or "nothing could be compared, so nothing is known of a regression"
    counts = Counter(one.finding for one in leading if not one.identical)
    parts = [f"{counts[finding]} {finding.value}" for finding in Finding if counts[finding]]
    same = sum(one.identical for one in leading)
    parts += [f"{same} with {SAME_BINARY}"] if same else []
    sentence = f"{plural(len(leading), 'case')} compared: {', '.join(parts)}"
    if not counts[Finding.REGRESSED] and not counts[Finding.IMPROVED]:
        sentence += "; nothing significant"
    return "; ".join([*verdicts, sentence, *_unseen(report)])


def _unseen(report: Report) -> list[str]:
    """What a gate that passes did not see: said where no regression was found, and some case is open."""
    opened = [one for one in report.of(Finding.INCONCLUSIVE) if not one.identical]
    if not report.gated or not opened or report.of(Finding.REGRESSED):
        return []
    least = [one.verdict.detectable_ratio for one in opened if one.verdict is not None]
    known = [ratio for ratio in least if ratio is not None]
    few = plural(len(least) - len(known), "case")
    if not known:
        return [f"the gate could not see any regression in {few}: too few runs"]
    also = f", nor any in {few}: too few runs" if len(known) < len(least) else ""
    where = f" in {plural(len(known), 'case')}" if also else ""
    return [f"the gate could not see a regression below a ratio of {max(known):.3g}{where}{also}"]


def notes(report: Report) -> list[str]:
    """What must be known beside the table."""
    made = [f"base: {report.base.said}", f"head: {report.head.said}", *report.declared]
    if report.disagreements:
        cases = ", ".join(case_text(case) for case in report.disagreements[:5])
        made.insert(0, f"VERDICTS DISAGREE in {plural(len(report.disagreements), 'case')}: {cases}")
    for lost, said in ((report.gained, "VERDICTS GAINED"), (report.lost, "VERDICTS LOST")):
        if lost:
            shown = "; ".join(f"{case_text(case)}: {why}" for case, why in list(lost.items())[:5])
            made.insert(0, f"{said} in {plural(len(lost), 'case')}: {shown}")
    made += report.false_alarms
    for at, name in enumerate(("base", "head")):
        ends: Counter[str] = Counter()
        for sides in report.ends.values():
            ends.update(sides[at])
        if ends:
            made.append(f"runs of {name}, in cases of both sides: {ends_text(ends)}")
    for column, values in report.pooled.items():
        shown = ", ".join(told_apart(values)[:5])
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
    if any(one.verdict is not None for one in report.compared):
        made.append(_METHOD)
    if any(one.counted is not None for one in report.compared):
        made.append(_COUNTED)
    return made


_UNPAIRED = "two independent samples"
