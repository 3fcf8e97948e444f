"""Records -> what was measured twice, the floor, and what disturbed runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from proofcost.reports.cells import NO_UNIT, UNKNOWN, Cell, read
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.declarations import said_of
from proofcost.reports.host_facts import oddities
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.noise import COMPARED_TO_FLOOR, Drift, Floor, Found, Same, Small, drift
from proofcost.reports.units import plural
from proofcost.reports.where import Where

SAME = (
    "subject",
    "kernel_sha256",
    "config_sha256",
    "threads",
    "phase",
    "sandbox",
    "host_class",
    "input_sha256",
    "counters",
    "metric_definitions",
    "cache",
    "source",
)
"""What makes two runs runs of one thing. A kernel's name is not among it: twins have two."""
_SUBJECT, _SHA, _SANDBOX, _HOST = (SAME.index(name) for name in ("subject", "kernel_sha256", "sandbox", "host_class"))
_UNIT = ("series", "kernel", "block", "place", "started_ns", "record")

FINISHED = ("accepted", "rejected", "declined", "ran", "exit 0")
GROUPS = ("instructions", "wall", "CPU", "memory")
NULL = "null"
"""The control that does nothing: its wall is the floor."""
LEAST_FLOOR_RUNS = 5

Run = tuple[str, str, int, int, int, int]
"""(series, kernel's name, block, place, start in ns, cost); block, place and start 0 where not told."""


def noise_found(data: Data, where: Where, said: Sequence[str] = ()) -> Found:
    """Of the chosen records. `said`: what was asked, for people."""
    cells = read(data, where, SAME, METRICS, _UNIT, (), bins=False)
    classes = sorted({cell.key[_HOST] for cell in cells} - {UNKNOWN})
    notes = [*said_of((data, where)), *oddities(data, where)]
    untold = sum(cell.runs for cell in cells if cell.key[_HOST] == UNKNOWN)
    if untold:
        notes.append(f"left out: {plural(untold, 'run')} that do not tell their host class")
    used = [cell for cell in cells if cell.key[_HOST] != UNKNOWN and cell.verdict in FINISHED]
    other = sum(cell.runs for cell in cells if cell.key[_HOST] != UNKNOWN and cell.verdict not in FINISHED)
    if other:
        notes.append(f"left out: {plural(other, 'run')} of works that did not come to one end each time")
    same: list[Same] = []
    walls: dict[tuple[str, ...], tuple[Metric, list[Run]]] = {}
    for cell in used:
        for group in GROUPS:
            metric = next((one for one in METRICS if one.group == group and one.name in cell.values), None)
            if metric is None:
                continue
            runs = _runs(cell, metric)
            if group == "wall":
                walls[cell.key] = (metric, runs)
            if not _is_null(runs):
                same += _same(cell, metric, runs)
    same += _rebuilt(data, where)
    floors = _floors(walls)
    drifts, skipped = _drifts(walls)
    if skipped:
        notes.append(f"no drift of {plural(skipped, 'series', 'series')}: its times of day do not follow its blocks")
    return Found(same, drifts, floors, _small(walls, floors), _steal(data, where), classes, notes, said)


def _runs(cell: Cell, metric: Metric) -> list[Run]:
    """In order of time: by block and place where told, else by the time of day."""
    runs = []
    for (series, kernel, block, place, started, _), values in cell.values[metric.name].items():
        told = [int(part) if part.isdecimal() else 0 for part in (block, place, started)]
        runs += [(series, kernel, told[0], told[1], told[2], int(cost)) for cost in values.floats()]
    return sorted(runs, key=lambda run: (run[0], run[2], run[3], run[4]))


def _is_null(runs: Sequence[Run]) -> bool:
    return bool(runs) and all(run[1] == NULL for run in runs)


def _same(cell: Cell, metric: Metric, runs: Sequence[Run]) -> list[Same]:
    """The one thing that a cell is; where its binary is not known each name is a thing of its own, never a twin."""
    known = cell.key[_SHA] != UNKNOWN
    names = [None] if known else sorted({run[1] for run in runs})
    made = []
    for name in names:
        mine = [run for run in runs if name is None or run[1] == name]
        first: dict[str, int] = {}
        for run in mine:
            first[run[0]] = min(first.get(run[0], run[4]), run[4])
        order = sorted(first, key=lambda series: (first[series], series))
        series = tuple(tuple(run[5] for run in mine if run[0] == one) for one in order)
        # Another series of a binary that nobody knows may be of another one: it is compared with itself only.
        parts = [series] if known else [(one,) for one in series]
        shown = f"{cell.key[_SUBJECT]} {name or ''}".strip()
        for at, part in enumerate(parts):
            twins = _twins(mine) if known and at == 0 else ()
            made.append(Same(f"{shown} {cell.key[3]} {cell.key[_SANDBOX]}", cell.key[_HOST], metric, part, twins))
    return made


def _rebuilt(data: Data, where: Where) -> list[Same]:
    """Kernels of one commit (`label.commit`) whose binaries differ: the first series of each binary, in order of time.

    A label is of a whole call: where it has several kernels, each is taken to be of that commit under its own name.
    """
    by = ("kernel", "label.commit", *(name for name in SAME if name != "kernel_sha256"))
    unit = ("kernel_sha256", *_UNIT)
    made: list[Same] = []
    query = f"SELECT 1 FROM {VIEW} WHERE ({where.sql}) AND labels LIKE '%\"commit\":%' LIMIT 1"
    if not data.rows(query, where.parameters):
        return made
    for cell in read(data, where, by, METRICS, unit, (), bins=False):
        if UNKNOWN in cell.key[:2] or len(cell.kernels) < 2 or cell.verdict not in FINISHED:
            continue
        host = cell.key[by.index("host_class")]
        for group in GROUPS:
            metric = next((one for one in METRICS if one.group == group and one.name in cell.values), None)
            if metric is None or host == UNKNOWN:
                continue
            builds: dict[tuple[str, str], list[tuple[int, int]]] = {}
            for (digest, series, _, _, _, started, _), values in cell.values[metric.name].items():
                at = int(started) if started.isdecimal() else 0
                builds.setdefault((digest, series), []).extend((at, int(cost)) for cost in values.floats())
            first: dict[str, list[tuple[int, int]]] = {}
            for (digest, _), runs in sorted(builds.items(), key=lambda one: min(one[1])):
                first.setdefault(digest, sorted(runs))
            series_of = tuple(tuple(cost for _, cost in runs) for runs in first.values())
            made.append(Same(f"{cell.key[0]} {cell.key[1]}", host, metric, series_of, rebuilt=True))
    return made


def _twins(runs: Sequence[Run]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Blocks in which one binary ran under two names (the first two by name, in each series)."""
    blocks = []
    for series in sorted({run[0] for run in runs}):
        names = sorted({run[1] for run in runs if run[0] == series})[:2]
        if len(names) < 2:
            continue
        by_block: dict[int, tuple[list[int], list[int]]] = {}
        for run in runs:
            if run[0] == series and run[2] and run[1] in names:
                by_block.setdefault(run[2], ([], []))[names.index(run[1])].append(run[5])
        blocks += [(tuple(one), tuple(other)) for one, other in by_block.values() if one and other]
    return tuple(blocks)


def _floors(walls: dict[tuple[str, ...], tuple[Metric, list[Run]]]) -> list[Floor]:
    found: dict[tuple[str, str], list[int]] = {}
    for key, (_, runs) in walls.items():
        if _is_null(runs):
            found.setdefault((key[_HOST], key[_SANDBOX]), []).extend(run[5] for run in runs)
    return [
        Floor(host, "" if sandbox == UNKNOWN else sandbox, median_low(costs), len(costs))
        for (host, sandbox), costs in sorted(found.items())
        if len(costs) >= LEAST_FLOOR_RUNS
    ]


def _small(walls: dict[tuple[str, ...], tuple[Metric, list[Run]]], floors: Sequence[Floor]) -> list[Small]:
    known = {(floor.host_class, floor.sandbox): floor.wall_ns for floor in floors}
    made = []
    for key, (_, runs) in walls.items():
        floor = known.get((key[_HOST], "" if key[_SANDBOX] == UNKNOWN else key[_SANDBOX]))
        if floor is None or _is_null(runs):
            continue
        wall = median_low(run[5] for run in runs)
        if wall < COMPARED_TO_FLOOR * floor:
            kernels = ", ".join(sorted({run[1] for run in runs} - {NO_UNIT}))
            made.append(Small(f"{kernels} on {key[_SUBJECT]}", key[_HOST], wall, floor))
    return made


def _drifts(walls: dict[tuple[str, ...], tuple[Metric, list[Run]]]) -> tuple[list[Drift], int]:
    """Of each series on each host class, and how many have none because a clock does not follow them."""
    groups: dict[tuple[str, str, Metric], list[tuple[str, int, int]]] = {}
    broken: set[tuple[str, str]] = set()
    for key, (metric, runs) in walls.items():
        work = "\0".join(key)
        for before, run in zip([None, *runs], runs, strict=False):
            if not run[4]:
                continue
            if before is not None and before[0] == run[0] and before[2] and run[4] < before[4]:
                broken.add((run[0], key[_HOST]))
            groups.setdefault((run[0], key[_HOST], metric), []).append((f"{work}\0{run[1]}", run[4], run[5]))
    made = []
    for (series, host, metric), points in sorted(groups.items(), key=lambda one: (one[0][0], one[0][1])):
        if (series, host) not in broken:
            found = drift(series[:12], host, metric, points)
            made += [] if found is None else [found]
    return made, len(broken)


def _steal(data: Data, where: Where) -> dict[str, tuple[int, int, int]]:
    query = f"""
        SELECT host_class, sum(host_steal), sum(host_busy), count(*) FROM {VIEW}
        WHERE ({where.sql}) AND host_class IS NOT NULL AND host_steal IS NOT NULL AND host_busy IS NOT NULL
        GROUP BY 1"""
    return {
        str(name): (int(stolen), int(busy), int(runs))
        for name, stolen, busy, runs in data.rows(query, where.parameters)
    }
