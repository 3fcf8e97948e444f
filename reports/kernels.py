"""`report kernels`: what each kernel costs on each submission, what it solves, and how the rest of its runs end.

A submission counts as solved by a kernel if every run of it did. Its cost is the median of those runs; what was cut off
has no cost but a bound, and what was not run has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofcost.reports.asked import Asked, ReportError
from proofcost.reports.cells import EXACT_MOST, UNKNOWN, Cell, UnlikeError, held, read, told_apart
from proofcost.reports.cold_warm import CACHE, costs_of_warm
from proofcost.reports.declarations import said_of
from proofcost.reports.document import Bound, Column, Document, Entry, Missing, Picture, Section, Table
from proofcost.reports.endings import CONTROL, UNTOLD, Ending, classed
from proofcost.reports.kernel_covariates import covariates_section
from proofcost.reports.kernel_pictures import cactus, profile, scatter
from proofcost.reports.metrics import METRICS, POOLED, Metric
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.units import plural
from proofcost.reports.values import Values, pooled
from proofcost.reports.where import Where

WITHIN = tuple(name for name in POOLED if name != CACHE)
"""Must be the same in all runs of one kernel on one submission. Cold and warm runs are told apart (cold_warm.py)."""

ACROSS = ("host_class", "sandbox", "counters", "metric_definitions", "input_sha256", "source", "phase")
"""Must be the same for all kernels on one submission. Threads and configuration are a kernel's own."""

GROUPS = tuple(dict.fromkeys(metric.group for metric in METRICS))
MOST_P = 0.05
"""Of the signed-rank test by submission that the cheapest kernel must pass against each other one."""
LEAD = 40
"""Rows of a long table that short formats show."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One kernel on one submission."""

    cell: Cell
    ends: Mapping[Ending, int]
    values: Values | None
    """Of the metric shown, of runs that ended by themselves."""
    state: Ending | None
    """None where its runs ended in different ways."""
    cost: int | None
    """The median of a submission that was solved each time; None also where that figure is not known."""


def slot_of(cell: Cell, metric: Metric, expected: str | None) -> Slot:
    """Both `ends` and `state` by `expected`, the verdict that is to come out."""
    ends = classed(cell.ends, expected)
    found = cell.values.get(metric.name)
    values = pooled(found.values()) if found else None
    state = next(iter(ends)) if len(ends) == 1 else None
    return Slot(cell, ends, values, state, values.median if values and state is Ending.SOLVED else None)


@dataclass(frozen=True, slots=True)
class Grid:
    """Kernel x submission. Kernels by what they solve, most first."""

    metric: Metric
    kernels: list[str]
    subjects: list[str]
    slots: Mapping[tuple[str, str], Slot]
    """By (kernel, submission)."""
    costs: Mapping[str, Mapping[str, int]]
    """Of each kernel what it solved, in the order of `subjects`: {submission: cost}."""

    def run_on(self, kernel: str) -> list[str]:
        """The submissions that a kernel was run on."""
        return [subject for subject in self.subjects if (kernel, subject) in self.slots]

    @property
    def shared(self) -> list[str]:
        """Submissions that every kernel was run on."""
        return [one for one in self.subjects if all((kernel, one) in self.slots for kernel in self.kernels)]


def make(asked: Asked, metric: str | None = None, against: Sequence[str] | None = None) -> Document:
    """The report. `metric`: a group of reports/metrics.py. Raises ReportError, UnlikeError."""
    grid, notes = grid_of(asked, metric or "wall")
    for name in against or ():
        if name not in grid.kernels:
            raise ReportError(f"--against {name}: no such kernel here; there are {', '.join(grid.kernels[:10])}")
    pair = tuple(against) if against else tuple(grid.kernels[:2])
    pictures: list[Picture] = [cactus(grid)]
    if len(grid.kernels) > 1:
        pictures += [profile(grid), scatter(grid, pair[0], pair[1])]
    sections = [
        Section("Each kernel", (_kernels_table(grid),)),
        Section("Each submission", (_matrix(grid),)),
        Section("Which kernel", tuple(pictures)),
        *covariates_section(asked, grid),
        Section("Every cell", (_cells_table(grid),)),
    ]
    runs = sum(slot.cell.runs for slot in grid.slots.values())
    data = (*asked.said, plural(runs, "run"))
    return Document("kernels", "Kernels and what they cost", _answer(grid), sections, notes, data)


def grid_of(asked: Asked, group: str) -> tuple[Grid, list[str]]:
    """The grid of one cost, and what must be said about it. Raises ReportError, UnlikeError."""
    metrics = [metric for metric in METRICS if metric.group.lower() == group.lower()]
    if not metrics:
        raise ReportError(f"--metric {group}: no such cost; there are {', '.join(GROUPS)}")
    where = Where(f"({asked.where.sql}) AND kernel IS NOT NULL", asked.where.parameters)
    counts = held(asked.data, where, list(dict.fromkeys(metric.column for metric in metrics)))
    column = max(counts, key=lambda name: counts[name])  # of equals the first
    metrics = [metric for metric in metrics if metric.column == column]
    apart = () if CACHE in asked.pool else (CACHE,)
    found = read(asked.data, where, ("kernel", "subject", *apart), metrics, guarded=(*WITHIN, "expected"))
    found, of_cold = costs_of_warm(found) if apart else (found, [])
    controls = sorted({cell.key[0] for cell in found if CONTROL in cell.ends})
    cells = [cell for cell in found if cell.key[0] not in controls]
    if not cells:
        raise ReportError("no runs of kernels among these records; bench makes some, import reads other tools'")
    _refuse(cells, asked.pool)
    metric = max(metrics, key=lambda one: sum(one.name in cell.values for cell in cells))
    expected = _expected(cells)
    slots = {(cell.key[0], cell.key[1]): slot_of(cell, metric, expected.get(cell.key[1])) for cell in cells}
    solved = Counter(kernel for (kernel, _), slot in slots.items() if slot.state is Ending.SOLVED)
    kernels = sorted({kernel for kernel, _ in slots}, key=lambda name: (-solved[name], name))
    subjects = sorted({subject for _, subject in slots})
    costs: dict[str, dict[str, int]] = {kernel: {} for kernel in kernels}
    for kernel in kernels:
        for subject in subjects:
            slot = slots.get((kernel, subject))
            if slot is not None and slot.cost is not None:
                costs[kernel][subject] = slot.cost
    grid = Grid(metric, kernels, subjects, slots, costs)
    notes = [*_notes(grid, cells), *of_cold, *said_of((asked.data, asked.where))]
    others = [one for one in METRICS if one.group == metric.group and one.column != column and counts[one.column]]
    lacking = any(slot.state is Ending.SOLVED and slot.cost is None for slot in slots.values())
    if others and lacking:
        names = " or ".join(one.name for one in others)
        notes.append(f"cells without {metric.name} may have {names}: another figure, not shown beside it")
    if controls:
        notes.append(f"left out: {', '.join(controls)}: checks nothing, and stands where a kernel stands as a control")
    return grid, notes


def _refuse(cells: Sequence[Cell], pool: Sequence[str]) -> None:
    """Raise UnlikeError for what must not be put together."""
    first = cells[0].guarded
    for name in WITHIN:
        # Cells of the same value share one set, so most need not be looked into.
        if name in pool or (len(first[name]) == 1 and len({id(cell.guarded[name]) for cell in cells}) == 1):
            continue
        for cell in cells:
            if len(cell.guarded[name]) > 1:
                raise UnlikeError(_unlike(f"{cell.key[0]} on {cell.key[1]}: the runs", name, cell.guarded[name]))
        if name in ACROSS:
            by_subject: dict[str, set[str]] = {}
            for cell in cells:
                values = cell.guarded[name]
                known = by_subject.setdefault(cell.key[1], values)
                if known is not values:
                    by_subject[cell.key[1]] = known | values
            for subject, values in by_subject.items():
                if len(values) > 1:
                    raise UnlikeError(_unlike(f"{subject}: the kernels' runs", name, values))


def _unlike(what: str, name: str, values: set[str]) -> str:
    shown = ", ".join(told_apart(values)[:5])
    return (
        f"{what} differ in {name} ({shown}); choose with --where {name}=VALUE, or put them together all the same with "
        f"--pool {name}"
    )


def _expected(cells: Sequence[Cell]) -> dict[str, str]:
    """Of each submission the verdict that was to be expected, where the records agree on one."""
    found: dict[str, str] = {}
    for cell in cells:
        for value in cell.guarded["expected"]:
            if value:
                found[cell.key[1]] = value if found.get(cell.key[1], value) == value else _CLASH
    return {subject: value for subject, value in found.items() if value != _CLASH}


_CLASH = "the records do not agree"


def disagreements(grid: Grid) -> list[str]:
    """Submissions that some run accepted and some run rejected."""
    by_end = {
        end: {subject for (_, subject), slot in grid.slots.items() if end in slot.cell.ends}
        for end in ("accepted", "rejected")
    }
    return sorted(by_end["accepted"] & by_end["rejected"])


def _answer(grid: Grid) -> str:
    parts = [_most_solved(grid)]
    shared = set.intersection(*(set(grid.costs[kernel]) for kernel in grid.kernels))
    if len(grid.kernels) > 1 and shared:
        parts.append(_least_cost(grid, sorted(shared)))
    at_odds = disagreements(grid)
    if at_odds:
        parts.insert(0, f"KERNELS DISAGREE on {plural(len(at_odds), 'submission')}")
    return "; ".join(parts) + "."


def _most_solved(grid: Grid) -> str:
    count = plural(len(grid.subjects), "submission")
    solved = {kernel: _solved(grid, kernel) for kernel in grid.kernels}
    most = max(solved.values())
    best = [kernel for kernel in grid.kernels if solved[kernel] == most]
    if most == 0:
        return f"no kernel solved any of {count}"
    if len(grid.kernels) == 1:
        return f"{best[0]} solves {most} of {count}"
    if len(best) == 1:
        return f"{best[0]} solves most: {most} of {count}"
    alike = {
        tuple(one for one in grid.subjects if (slot := grid.slots.get((kernel, one))) and slot.state is Ending.SOLVED)
        for kernel in best
    }
    return f"{_listed(best)} solve {'the same' if len(alike) == 1 else 'as many, not the same:'} {most} of {count}"


def _least_cost(grid: Grid, shared: Sequence[str]) -> str:
    """Which costs least on what all solved, if its costs by submission tell it from each of the others."""
    on = f"on the {plural(len(shared), 'submission')} that all of them solve"
    costs = {kernel: [grid.costs[kernel][one] for one in shared] for kernel in grid.kernels}
    least = min(costs, key=lambda name: sum(costs[name]))
    others = [name for name in grid.kernels if name != least]
    tests = [compare_blocks([([a], [b]) for a, b in zip(costs[least], costs[name], strict=True)]) for name in others]
    # Each of the others must be told from it, so each at the full level (an intersection-union test).
    if all(test.p <= MOST_P and test.ratio > 1 for test in tests):
        return f"{on} {least} costs least"
    return f"{on} noise does not tell which costs least"


def _listed(names: Sequence[str], most: int = 6) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _solved(grid: Grid, kernel: str) -> int:
    return sum(name == kernel and slot.state is Ending.SOLVED for (name, _), slot in grid.slots.items())


def _kernels_table(grid: Grid) -> Table:
    unit = grid.metric.unit
    columns = [
        Column("kernel", "kernel"),
        Column("threads", "threads"),
        Column("submissions", "submissions", "count"),
        *(Column(one.name.lower(), one.value, "count", f"ending_{one.name.lower()}") for one in Ending),
        Column("changes", "changes from run to run", "count", "ending_changes"),
        Column("not_run", "not run", "count"),
        Column("least", f"least {grid.metric.name}", unit),
        Column("median", "median", unit, "median_cost"),
        Column("most", "most", unit),
    ]
    rows: list[list[Entry]] = []
    for kernel in grid.kernels:
        mine = [slot for (name, _), slot in grid.slots.items() if name == kernel]
        states = Counter(slot.state for slot in mine)
        costs = sorted(grid.costs[kernel].values())
        none = (
            _itself("nothing solved")
            if not any(slot.state is Ending.SOLVED for slot in mine)
            else Missing("of nothing solved")
        )
        spread: list[Entry] = [costs[0], costs[(len(costs) - 1) // 2], costs[-1]] if costs else [none, none, none]
        threads = sorted({value or "?" for slot in mine for value in slot.cell.guarded["threads"]})
        rows.append(
            [kernel, ", ".join(threads), len(mine), *(states[one] for one in Ending), states[None],
             len(grid.subjects) - len(mine), *spread]
        )  # fmt: skip
    return Table("kernels", "Submissions by how all of their runs ended", columns, rows)


def entry_of(slot: Slot | None, metric: Metric) -> Entry:
    """What stands in the matrix for one kernel on one submission."""
    if slot is None:
        return _itself("not run")
    if slot.cost is not None:
        return slot.cost
    state = slot.state
    if state is Ending.SOLVED:
        return Missing(f"no {metric.name}: not measured, or only a bound")
    bounds = slot.cell.censored.get(metric.name)
    if bounds and state in (Ending.TIMEOUT, Ending.MEMORY):
        return Bound(bounds[0])
    if state is None:
        return _itself(
            ", ".join(
                f"{slot.ends[one]} {one.value}"
                for one in sorted((one for one in Ending if one in slot.ends), key=lambda one: -slot.ends[one])
            )
        )
    return _itself(state.value if state is not Ending.OTHER else ", ".join(sorted(slot.cell.ends)))


def _itself(reason: str) -> Missing:
    """A cost that is not there for what happened: that is shown, since nothing was left unmeasured."""
    return Missing(reason, reason)


def _matrix(grid: Grid) -> Table:
    unit = grid.metric.unit
    columns = [
        Column("submission", "submission"),
        *(Column(f"median_{at}", kernel, unit, "median_cost") for at, kernel in enumerate(grid.kernels)),
    ]
    rows = [
        [subject, *(entry_of(grid.slots.get((kernel, subject)), grid.metric) for kernel in grid.kernels)]
        for subject in grid.subjects
    ]
    odd = set(disagreements(grid))
    marked = {at: "bad" for at, subject in enumerate(grid.subjects) if subject in odd}
    title = f"Median {grid.metric.name} by submission and kernel"
    return Table("matrix", title, columns, rows, lead=LEAD, marked=marked)


def _cells_table(grid: Grid) -> Table:
    unit = grid.metric.unit
    columns = [
        Column("submission", "submission"),
        Column("kernel", "kernel"),
        Column("ends", "ends"),
        Column("runs", "runs", "count"),
        Column("n", "n", "count"),
        Column("least", f"least {grid.metric.name}", unit),
        Column("median", "median", unit, "median_cost"),
        Column("most", "most", unit),
    ]
    rows: list[list[Entry]] = []
    for subject in grid.subjects:
        for kernel in grid.kernels:
            slot = grid.slots.get((kernel, subject))
            if slot is None:
                rows.append([subject, kernel, "not run", 0, 0, *[_itself("not run")] * 3])
                continue
            values = slot.values
            ends = ", ".join(f"{count} {end}" for end, count in slot.cell.ends.most_common())
            spread: list[Entry] = [Missing("no run ended by itself with this figure")] * 3
            if values is not None:
                spread = [values.minimum, values.median, values.maximum]
            rows.append([subject, kernel, ends, slot.cell.runs, 0 if values is None else values.n, *spread])
    title = f"{grid.metric.name.capitalize()} of every kernel on every submission"
    return Table("cells", title, columns, rows, lead=LEAD)


def _notes(grid: Grid, cells: Sequence[Cell]) -> list[str]:
    made = []
    at_odds = disagreements(grid)
    if at_odds:
        more = "" if len(at_odds) <= 5 else f" and {len(at_odds) - 5} more"
        made.append(f"KERNELS DISAGREE: some accepted and some rejected {', '.join(at_odds[:5])}{more}")
    if any(UNTOLD in cell.ends for cell in cells):
        made.append("exit 0 counts as solved where nobody told what the kernel's exit codes mean")
    threads = {kernel: slot.cell.guarded["threads"] for (kernel, _), slot in grid.slots.items()}
    if grid.metric.group == "wall" and len({value for values in threads.values() for value in values}) > 1:
        made.append("kernels ran with not the same number of threads: their wall alone ranks nobody; see --metric CPU")
    if UNKNOWN in grid.subjects:
        made.append("runs that do not say what they checked are taken for one submission, `?`: label them")
    backwards = sum(cell.backwards for cell in cells)
    if backwards:
        made.append(f"{plural(backwards, 'run')} with a negative wall: a clock was set back; they have no cost here")
    if any(slot.values is not None and slot.values.binned for slot in grid.slots.values()):
        made.append(
            f"more than {EXACT_MOST:,} figures: they are counted in bins 1 % wide, and medians are right to 0.5 %"
        )
    return made
