"""What is said of a session's seal: nothing, one line, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from proofcost.harness.seal import Checked
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural

_PROBLEMS_SHOWN = 5
_SIGNED = {
    "verified": "its signature is this key's",
    "not checked": "signed, which --seal-key FILE checks",
    "wrong": "its signature is not this key's",
    "unsigned": "not signed",
}


def broken_lines(problems: Sequence[str]) -> list[str]:
    """One line for each of the first differences, and how many more there are."""
    shown = [f"seal broken: {inert_outside(problem, 200, True)}" for problem in problems[:_PROBLEMS_SHOWN]]
    rest = len(problems) - _PROBLEMS_SHOWN
    return shown + ([f"seal broken: and {plural(rest, 'more difference')}"] if rest > 0 else [])


def seal_lines(checked: Checked | None) -> list[str]:
    """One line where the folder is as it was sealed; else one for each difference."""
    if checked is None:
        return []
    if checked.problems:
        return broken_lines(checked.problems)
    seal = checked.seal
    files, counts, reasons = seal.get("files"), seal.get("collector"), seal.get("incomplete")
    known = len(files) if isinstance(files, list) else 0
    lines = [f"sealed: {plural(known, 'file')} as they were then; {_SIGNED[checked.signature]}"]
    if seal.get("complete") is not True:
        told = [inert_outside(str(one), 200, True) for one in reasons] if isinstance(reasons, list) else []
        lines.append(f"sealed incomplete: {'; '.join(told) or 'no reason is given'}")
    if isinstance(counts, dict) and counts.get("started_count") == 0:
        lines.append("no meter seen: no call reached the collector")
    return lines
