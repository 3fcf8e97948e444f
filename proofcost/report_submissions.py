"""`proofcost report submissions`: its options, and how it is made."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofcost.reports.asked import Asked
    from proofcost.reports.document import Document


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a submission is, what a problem; what to keep, check, and put beside."""
    add = parser.add_argument
    add("--submission", metavar="COLUMN", help="what tells submissions apart (default: label.submission, else subject)")
    add("--problem", metavar="COLUMN", help="what tells problems apart (default: label.problem, else they are one)")
    add("--freeze", metavar="FILE", help="also keep the result there, with a digest over it")
    add("--check", metavar="FILE", help="hold a frozen result against its digest, and against these data")
    add("--beside", metavar="GRADES.csv", help="put seconds, peak memory and a time limit beside each file of a list")
    add("--beside-column", metavar="NAME", help="its column with SHA-256 digests (default: found by name and content)")


def make(asked: Asked, args: argparse.Namespace) -> Document:
    """Make the report."""
    from proofcost.reports.asked import ReportError, nothing
    from proofcost.reports.beside import GradesError, joined, read_grades
    from proofcost.reports.document import Section
    from proofcost.reports.frozen import FrozenError, checked, compared, frozen
    from proofcost.reports.statistics.sample import BadSampleError
    from proofcost.reports.submissions import document
    from proofcost.reports.submissions_data import SubmissionsError, cohorts_found

    if args.beside_column is not None and args.beside is None:
        raise ReportError("--beside-column: goes with --beside")
    if args.freeze is not None and args.check is not None:
        raise ReportError("--freeze and --check: first check what is kept, then freeze anew")
    try:
        kept = None if args.check is None else checked(Path(args.check))
        grades = None if args.beside is None else read_grades(Path(args.beside), args.beside_column)
        cohorts, notes = cohorts_found(asked.data, asked.where, args.submission, args.problem, asked.pool)
        if not cohorts:
            raise ReportError(nothing(asked.data, asked.where))
        made = document(cohorts, notes, asked.said)
        if args.freeze is not None:
            digest = _frozen(made, asked, args.freeze)
            made = replace(made, notes=[f"frozen as {digest}", *made.notes])
        elif kept is not None:
            said = compared(kept, frozen(made, asked.data, asked.where))
            made = replace(made, notes=[said, *made.notes])
        if grades is not None:
            tables = [joined(grades, cohort)[0] for cohort in cohorts]
            made = replace(made, sections=[Section("Beside the grades", tables), *made.sections])
    except (SubmissionsError, GradesError, FrozenError, BadSampleError) as error:
        raise ReportError(str(error)) from None
    return made


def _frozen(made: Document, asked: Asked, name: str) -> str:
    """The digest. Raises ReportError."""
    from proofcost.reports.asked import ReportError
    from proofcost.reports.frozen import freeze
    from proofcost.reports.inert import inert_outside

    try:
        return freeze(made, asked.data, asked.where, Path(name))
    except OSError as error:
        shown = inert_outside(name, 200, True)
        raise ReportError(f"--freeze {shown}: cannot be written: {error.strerror}; nothing was kept") from None
