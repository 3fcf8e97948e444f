"""Records -> cohorts of submissions: what may be held against each other, what each solved, and at which cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proofcost.reports.cells import UNKNOWN, Cell, read
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.declarations import said_of
from proofcost.reports.host_facts import oddities
from proofcost.reports.metric_key import metric_key
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.submissions import Cohort, Slot
from proofcost.reports.telling import telling
from proofcost.reports.units import plural
from proofcost.reports.where import Where, reach

COHORT = (
    "kernel",
    "kernel_sha256",
    "config_sha256",
    "threads",
    "phase",
    "sandbox",
    "host_class",
    "counters",
    "metric_definitions",
    "cache",
    "source",
)
"""What everybody in a cohort shares."""

SUBMISSION, PROBLEM = "label.submission", "label.problem"
ONE_PROBLEM = "all"
"""Name of the problem where records tell of none."""

GROUPS = ("instructions", "callgrind", "wall", "CPU", "memory")
CHECKS = ("checker", "check", "whole")
"""Phases in which something is checked: others (a build, an export) are looked at where only they are chosen."""
CONTROLS = ("null", "parse-only")
"""Kernels that check nothing: never a cohort."""


class SubmissionsError(Exception):
    """What cannot be told apart. One line."""


def cohorts_found(
    data: Data,
    where: Where,
    submission: str | None = None,
    problem: str | None = None,
    pool: Sequence[str] = (),
) -> tuple[list[Cohort], list[str]]:
    """Cohorts of the chosen records, and notes. `submission`, `problem`: columns or labels that tell them apart; None:
    the labels of that name where records have any, else what was checked, as answers to one problem. `pool`: what may
    differ within a cohort.

    Raises SubmissionsError, WhereError.
    """
    notes = []
    names = []
    for given, label, option in ((submission, SUBMISSION, "--submission"), (problem, PROBLEM, "--problem")):
        if given is not None and given != "subject":
            reach(given, f"{option} {given}")
        names.append(given or (label if _told(data, where, label) else None))
    by_submission = names[0] or "subject"
    by_problem = names[1] or ("subject" if by_submission != "subject" else None)
    if by_submission == by_problem:
        raise SubmissionsError(f"--submission and --problem are both {by_problem}: choose two different ones")
    if by_problem is None:
        notes.append(
            "the records do not say which problem was solved: all are taken as answers to one (label them: run -l "
            "problem=NAME, or --problem COLUMN)"
        )
    cohort = tuple(name for name in COHORT if name not in pool)
    by = (by_submission, by_problem or "phase", "n", "input_bytes", "input_sha256", "family", *cohort)
    cells = read(data, where, by, METRICS, ("started_ns", "record"), ())
    untold = [cell for cell in cells if cell.key[0] == UNKNOWN]
    if untold and len(untold) == len(cells):
        raise SubmissionsError(
            f"no run tells {by_submission}, of {plural(sum(cell.runs for cell in cells), 'run')}: name another with "
            "--submission, or label them (run -l submission=NAME)"
        )
    if untold:
        notes.append(f"left out: {plural(sum(cell.runs for cell in untold), 'run')} that do not tell {by_submission}")
    phase = by.index("phase", 6) if "phase" in cohort else None
    checks = phase is not None and any(cell.key[phase] in CHECKS for cell in cells)
    others = [cell for cell in cells if checks and phase is not None and cell.key[phase] not in CHECKS]
    if others and phase is not None:
        phases = ", ".join(sorted({cell.key[phase] for cell in others}))
        notes.append(
            f"left out: {plural(sum(cell.runs for cell in others), 'run')} of other phases than checks: {phases}"
        )
        cells = [cell for cell in cells if cell.key[phase] in CHECKS]
    groups: dict[tuple[str, ...], list[Cell]] = {}
    left_out = 0
    for cell in cells:
        if cell.key[0] == UNKNOWN:
            continue
        if cell.key[6] in CONTROLS:
            left_out += cell.runs
            continue
        groups.setdefault(cell.key[6:], []).append(cell)
    if left_out:
        notes.append(f"left out: {plural(left_out, 'run')} of controls, which check nothing ({', '.join(CONTROLS)})")
    shown = telling(groups)
    made = []
    for key, group in sorted(groups.items()):
        name = ", ".join(_part(cohort, key, at) for at in shown)
        made.append(_cohort(name, group, by_problem is None))
    return made, [*notes, *said_of((data, where)), *oddities(data, where)]


def _part(cohort: Sequence[str], key: Sequence[str], at: int) -> str:
    """One part of a cohort's name. What has no kernel is a judge's own record: its phase says more than `?`."""
    if cohort[at] == "kernel" and key[at] == UNKNOWN and "phase" in cohort:
        return f"no kernel of its own, phase {key[cohort.index('phase')][:25]}"
    return f"{cohort[at].replace('_sha256', '')} {key[at][:25]}"


def _told(data: Data, where: Where, label: str) -> bool:
    expression, _, parameters = reach(label, label)
    query = f"SELECT count({expression}) FROM {VIEW} WHERE {where.sql}"
    return bool(data.rows(query, (*parameters, *where.parameters))[0][0])


def _cohort(name: str, cells: Sequence[Cell], one_problem: bool) -> Cohort:
    figures = tuple(metric for group in GROUPS if (metric := _metric(group, cells)) is not None)
    slots: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        slots.setdefault((cell.key[0], ONE_PROBLEM if one_problem else cell.key[1]), []).append(cell)
    made = []
    for (submission, problem), group in sorted(slots.items()):
        # Another input is another attempt: kept apart by size, or the growth of cost could not be seen.
        for part in _by_size(group):
            made.append(_slot(submission, problem, part, figures))
    return Cohort(name, figures, made)


def _by_size(cells: Sequence[Cell]) -> list[list[Cell]]:
    sizes: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        sizes.setdefault(cell.key[2:6], []).append(cell)
    return [sizes[key] for key in sorted(sizes)]


def _metric(group: str, cells: Sequence[Cell]) -> Metric | None:
    counts = {
        metric.name: sum(metric.name in cell.values for cell in cells) for metric in METRICS if metric.group == group
    }
    best = max(counts.values(), default=0)
    return next((one for one in METRICS if counts.get(one.name) == best), None) if best else None


def _slot(submission: str, problem: str, cells: Sequence[Cell], figures: Sequence[Metric]) -> Slot:
    ends: Counter[str] = Counter()
    costs: dict[str, tuple[int, ...]] = {}
    bounds: dict[str, tuple[int, ...]] = {}
    for cell in cells:
        ends.update(cell.ends)
    for metric in figures:
        timed = [
            (unit, int(value))
            for cell in cells
            for unit, values in cell.values.get(metric.name, {}).items()
            for value in values.floats()
        ]
        costs[metric_key(metric)] = tuple(value for _, value in sorted(timed))
        bounds[metric_key(metric)] = tuple(value for cell in cells for value in cell.censored.get(metric.name, ()))
    n, size, digest, family = cells[0].key[2:6]
    told = n if n != UNKNOWN else size
    return Slot(
        submission, problem, ends, costs, bounds,
        int(told) if told.isdecimal() else None, n != UNKNOWN, None if digest == UNKNOWN else digest,
        None if family == UNKNOWN else family,
    )  # fmt: skip
