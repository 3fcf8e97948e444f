"""Records -> the costs of works by host class, and what the data say about the classes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from proofcost.reports.cells import UNKNOWN, Cell, read
from proofcost.reports.dataset import Data
from proofcost.reports.host_facts import machines, oddities, read_facts
from proofcost.reports.hosts import Costs, Found
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.telling import telling
from proofcost.reports.units import plural
from proofcost.reports.values import pooled
from proofcost.reports.where import Where

WORK = ("phase", "subject", "input_sha256", "source")
"""What is one work, whoever checks it."""
KERNEL = ("kernel", "kernel_sha256", "config_sha256", "threads", "sandbox", "counters", "metric_definitions")
"""What is one kernel: all that must be alike for its cost to be."""


FINISHED = ("accepted", "rejected", "declined", "ran", "exit 0")

GROUPS = ("wall", "CPU", "instructions", "callgrind", "memory")
"""Times lead: instructions are the same on hosts that differ in all that people wait for."""
CYCLES = Metric("cycles", "cycles_u", "count", 0.02, "cycles")


def hosts_found(data: Data, where: Where, said: Sequence[str] = ()) -> Found:
    """Of the chosen records. `said`: what was asked, for people. Declared classes stand by themselves here."""
    cells = read(data, where, (*WORK, *KERNEL, "measured_host_class"), (*METRICS, CYCLES), (), ())
    used = [cell for cell in cells if cell.key[-1] != UNKNOWN and cell.verdict in FINISHED]
    used, notes = _same_end(used)
    untold = sum(cell.runs for cell in cells if cell.key[-1] == UNKNOWN)
    if untold:
        notes.append(f"left out: {plural(untold, 'run')} that do not tell their host class")
    other = sum(cell.runs for cell in cells if cell.key[-1] != UNKNOWN and cell.verdict not in FINISHED)
    if other:
        notes.append(f"left out: {plural(other, 'run')} of works that did not come to one end each time")
    names = _names(used)
    measured = [costs for group in GROUPS if (costs := _costs(group, used, names)) is not None]
    classes = {cell.key[-1] for cell in cells} - {UNKNOWN}
    declared = [(one.one, one.other, one.shown) for one in data.declared if {one.one, one.other} <= classes]
    facts = read_facts(data.paths)
    return Found(
        measured,
        {name: of for name, of in facts.items() if name in classes},
        machines(data, where),
        _ipc(used, names),
        declared,
        [*notes, *oddities(data, where)],
        said,
    )


def _same_end(cells: Sequence[Cell]) -> tuple[list[Cell], list[str]]:
    """Works that come to one end on every host class: another end is other work."""
    ends: dict[tuple[str, ...], set[str | None]] = {}
    for cell in cells:
        ends.setdefault(cell.key[:-1], set()).add(cell.verdict)
    differ = [key for key, of in ends.items() if len(of) > 1]
    notes = [
        f"VERDICTS DIFFER BY HOST CLASS: {key[4]} on {key[1]}: {', '.join(sorted(str(end) for end in ends[key]))}"
        for key in differ[:5]
    ]
    return [cell for cell in cells if cell.key[:-1] not in set(differ)], notes


def _names(cells: Sequence[Cell]) -> dict[tuple[str, ...], tuple[str, str]]:
    """(subject, kernel) of each key as people see it: what is the same everywhere is not said."""
    kernels = {cell.key[len(WORK) : -1] for cell in cells}
    differ = [at for at in telling(kernels) if at]
    works = {cell.key[: len(WORK)] for cell in cells}
    several = len({work[0] for work in works}) > 1
    plain = len({work[1] for work in works}) == len({(work[1], work[2]) for work in works})
    made = {}
    for cell in cells:
        work, kernel = cell.key[: len(WORK)], cell.key[len(WORK) : -1]
        subject = f"{work[0]} {work[1]}" if several else work[1]
        subject += "" if plain else f" ({work[2][:8]})"
        told = [f"{KERNEL[at]} {kernel[at][:12]}" for at in differ if kernel[at] != UNKNOWN]
        made[cell.key[:-1]] = (subject, kernel[0] + (f" ({', '.join(told)})" if told else ""))
    return made


def _costs(group: str, cells: Sequence[Cell], names: dict[tuple[str, ...], tuple[str, str]]) -> Costs | None:
    """In the group's metric that most cells have."""
    counts = {
        metric.name: sum(metric.name in cell.values for cell in cells) for metric in METRICS if metric.group == group
    }
    best = max(counts.values(), default=0)
    metric = next((one for one in METRICS if counts.get(one.name) == best), None) if best else None
    if metric is None:
        return None
    costs: list[int] = []
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for cell in cells:
        if metric.name not in cell.values:
            continue
        values = pooled(cell.values[metric.name].values()).floats()
        costs += [int(value) for value in values]
        subject, kernel = names[cell.key[:-1]]
        for column, text in zip(columns, (subject, kernel, cell.key[-1]), strict=True):
            column += [text] * values.size
    return Costs(metric, costs, *columns)


def _ipc(cells: Sequence[Cell], names: dict[tuple[str, ...], tuple[str, str]]) -> dict[tuple[str, str], float]:
    """By kernel and host class: median over works of instructions over cycles, where both were counted in user mode."""
    found: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        instructions, cycles = (cell.values.get(name) for name in ("instructions", CYCLES.name))
        if instructions and cycles:
            ratio = pooled(instructions.values()).median / pooled(cycles.values()).median
            found.setdefault((names[cell.key[:-1]][1], cell.key[-1]), []).append(ratio)
    return {key: median(ratios) for key, ratios in found.items()}
