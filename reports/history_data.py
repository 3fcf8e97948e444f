"""Records -> series: which runs are one point, in which order points stand, and what is left out, with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from proofcost.reports.cells import UNKNOWN, Cell, read
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.declarations import said_of
from proofcost.reports.history import Ends, Found, Point, Series
from proofcost.reports.host_facts import oddities
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.units import plural
from proofcost.reports.values import pooled
from proofcost.reports.where import Where, reach

COMMIT, VERSION, KERNEL, TIME = "label.commit", "kernel_version", "kernel", "time"

KEYS = (
    "subject",
    "kernel",
    "phase",
    "host_class",
    "threads",
    "sandbox",
    "counters",
    "config_sha256",
    "input_sha256",
    "metric_definitions",
    "cache",
    "source",
)
"""What all points of a series share."""

ID_LEAST = 4
"""Characters of an abbreviated commit that is still looked up in `--order`."""

FINISHED = ("accepted", "rejected", "declined", "ran", "exit 0")
"""Ends whose cost is that of a whole work."""

_GROUPS = ("instructions", "callgrind", "wall", "CPU", "memory")


class HistoryError(Exception):
    """What cannot be put in order. One line: what, why, and how to choose."""


def history_found(
    data: Data,
    where: Where,
    along: str | None = None,
    order: Sequence[Listed] | None = None,
    pool: Sequence[str] = (),
    said: Sequence[str] = (),
) -> Found:
    """The series of the chosen records. `along`: `label.KEY`, a column, or `time`; None: the first that records tell of
    label.commit, kernel_version, time. `order`: points, the oldest first (abbreviated commits do). `pool`: keys that
    may differ within a series. `said`: what was asked, for people.

    Raises HistoryError, WhereError.
    """
    along = along or _along(data, where)
    if along != TIME:
        reach(along, f"--along {along}")
    keys = tuple(key for key in KEYS if key != along and key not in pool)
    by = ("series" if along == TIME else along, *keys)
    cells = [cell for cell in read(data, where, by, METRICS, ("series",), ()) if cell.runs]
    notes = [*said_of((data, where)), *oddities(data, where)]
    if along != TIME:
        untold = [cell for cell in cells if cell.key[0] == UNKNOWN]
        if untold and len(untold) == len(cells):
            raise HistoryError(
                f"--along {along}: no record tells it; label runs (-l commit=ID), or choose --along kernel_version, "
                "kernel or time"
            )
        if untold:
            notes.append(f"left out: {plural(sum(cell.runs for cell in untold), 'run')} without {along}")
        cells = [cell for cell in cells if cell.key[0] != UNKNOWN]
    places, told = _places(cells, along, order)
    notes += told
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        if cell.key[0] in places:
            groups.setdefault(cell.key[1:], []).append(cell)
    graph = order if order is not None and any(one.parents for one in order) else None
    series: list[Series] = []
    ends: list[Ends] = []
    for key, group in sorted(groups.items()):
        group.sort(key=lambda cell: places[cell.key[0]])
        named = [(_name(cell, along), cell) for cell in group]
        ends.append(Ends(key, tuple((name, _end(cell)) for name, cell in named)))
        made, left_out = _series(key, named, graph, places)
        series += made
        notes += left_out
    back = sum(cell.backwards for cell in cells)
    if back:
        notes.append(f"left out: {plural(back, 'wall')} below 0: a clock was set back under the run")
    return Found(keys, series, along, ends, notes, said)


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of an order."""

    name: str
    parents: tuple[str, ...] = ()


def read_order(text: str) -> list[Listed]:
    """The lines of a file: a point each, the oldest first, and its parents behind it where they are given, as `git log
    --reverse --format="%H %P"` prints them. A line that begins with # is a comment."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [Listed(words[0], tuple(words[1:])) for words in lines]


def ancestors(order: Sequence[Listed], places: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For the points at these places of the order (ascending): the nearest ancestors of each, as numbers of points."""
    number = {listed.name: at for at, listed in enumerate(order)}
    point = {place: at for at, place in enumerate(places)}
    above: list[set[int]] = []
    """Of each line: all points that it comes from."""
    found: list[tuple[int, ...]] = []
    for at, listed in enumerate(order):
        mine: set[int] = set()
        for parent in (number[name] for name in listed.parents if name in number):
            if parent < at:  # what stands below its child is no ancestor: such a list is not in order
                mine |= above[parent] | ({point[parent]} if parent in point else set())
        above.append(mine)
        if at in point:
            nearest = {one for one in mine if not any(one in above[places[other]] for other in mine)}
            found.append(tuple(sorted(nearest)))
    return tuple(found)


def _along(data: Data, where: Where) -> str:
    """What to follow where nobody said."""
    for name in (COMMIT, VERSION):
        expression, _, parameters = reach(name, name)
        query = f"SELECT count(DISTINCT {expression}) FROM {VIEW} WHERE {where.sql}"
        if data.rows(query, (*parameters, *where.parameters))[0][0] > (name != COMMIT):
            return name
    return TIME


def _name(cell: Cell, along: str) -> str:
    if along != TIME:
        return cell.key[0]
    try:
        moment = datetime.fromtimestamp((cell.first_ns or 0) // 10**9, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # a clock that no calendar has
        moment = f"{cell.first_ns} ns"
    return f"{moment} {cell.key[0][:8]}"


def _end(cell: Cell) -> str:
    return cell.verdict or ", ".join(f"{end}: {count}" for end, count in sorted(cell.ends.items()))


def _places(cells: Sequence[Cell], along: str, order: Sequence[Listed] | None) -> tuple[dict[str, int], list[str]]:
    """Place of each point, by its name in the cells' key; and what to say."""
    first: dict[str, int] = {}
    series: dict[str, set[str]] = {}
    for cell in cells:
        name = cell.key[0]
        if cell.first_ns is not None:
            first[name] = min(first.get(name, cell.first_ns), cell.first_ns)
        units = {unit[0] for of in cell.values.values() for unit in of}
        series.setdefault(name, set()).update(units)
    if order is not None:
        return _ordered(series, order)
    untimed = [name for name in series if name not in first]
    if untimed:
        raise HistoryError(f"{untimed[0]}: no run of it tells when it started; give the order with --order FILE")
    if along != TIME:
        owner: dict[str, str] = {}
        for name, of in series.items():
            for one in of:
                if owner.setdefault(one, name) != name:
                    raise HistoryError(
                        f"{owner[one]} and {name} were measured in one series, so time tells no order of them: give it "
                        "with --order FILE (git log --reverse --format='%H %P' > FILE)"
                    )
    names = sorted(series, key=lambda name: (first[name], name))
    said = [] if along == TIME else ["points stand in the order of their first runs; --order FILE gives another"]
    return {name: at for at, name in enumerate(names)}, said


def _ordered(names: dict[str, set[str]], listed: Sequence[Listed]) -> tuple[dict[str, int], list[str]]:
    order = [one.name for one in listed]
    repeated = [name for name, count in Counter(order).items() if count > 1]
    if repeated:
        raise HistoryError(
            f"--order: {repeated[0]} stands there {Counter(order)[repeated[0]]} times; name each point once"
        )
    places: dict[str, int] = {}
    for name in names:
        found = [at for at, one in enumerate(order) if _is(name, one)]
        exact = [at for at in found if order[at] == name]
        if len(found) > 1 and not exact:
            raise HistoryError(f"--order: {name} may be {order[found[0]]} or {order[found[1]]}; write more of it")
        if found:
            places[name] = (exact or found)[0]
    if names and not places:
        raise HistoryError(f"--order: names none of the points there are ({', '.join(sorted(names)[:5])})")
    left_out = sorted(set(names) - set(places))
    said = [f"left out: not in the order that was given: {', '.join(left_out[:8])}"] if left_out else []
    return places, said


def _is(name: str, one: str) -> bool:
    """Whether a point's name and a line of the order are the same, or one the other's beginning."""
    if name == one:
        return True
    return min(len(name), len(one)) >= ID_LEAST and (name.startswith(one) or one.startswith(name))


def _series(
    key: tuple[str, ...], named: Sequence[tuple[str, Cell]], graph: Sequence[Listed] | None, places: dict[str, int]
) -> tuple[list[Series], list[str]]:
    """A series for each group of metrics that these points have, from points that came to one and the same end."""
    whole = Counter(cell.verdict for _, cell in named if cell.verdict in FINISHED)
    if not whole:
        return [], []
    end = max(whole, key=lambda one: (whole[one], one))
    used = [(name, cell) for name, cell in named if cell.verdict == end]
    made, notes = [], []
    for group in _GROUPS:
        metric = _metric(group, [cell for _, cell in used])
        if metric is None:
            continue
        points = [
            Point(name, tuple(int(value) for value in pooled(cell.values[metric.name].values()).floats()))
            for name, cell in used
            if metric.name in cell.values
        ]
        there = [places[cell.key[0]] for _, cell in used if metric.name in cell.values]
        made.append(Series(key, metric, tuple(points), None if graph is None else ancestors(graph, there)))
    if len(used) < len(named):
        notes.append(
            f"{_work(key)}: {plural(len(named) - len(used), 'point')} of {len(named)} left out, which did not come to "
            f"the end `{end}` each time: see the ends"
        )
    return made, notes


def _work(key: tuple[str, ...]) -> str:
    return " of ".join(part for part in key[:2] if part not in ("", UNKNOWN))


def _metric(group: str, cells: Sequence[Cell]) -> Metric | None:
    """The metric of a group that most points have; of equals the first."""
    counts = {
        metric.name: sum(metric.name in cell.values for cell in cells) for metric in METRICS if metric.group == group
    }
    best = max(counts.values(), default=0)
    return next((one for one in METRICS if one.group == group and counts.get(one.name) == best), None) if best else None
