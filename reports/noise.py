"""`report noise`: can these figures be trusted? How often the comparison cries wolf, and what disturbed it.

R7: things are compared with themselves through the very methods that judge changes. Four ways, each told apart: twins
(one binary under two names in the same blocks: `bench aa`), reruns (one binary, measured in two series), builds of one
commit (in two series; what a build varies is in it), and split halves of one series. The interval of a rate is Clopper
and Pearson's. Beside it the floor, steal, drift, and who is too close to the floor.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

import numpy as np

from proofcost.reports import charts
from proofcost.reports.document import Column, Document, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.entries import figure_text
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.statistics.alarm_rate import AlarmRate, alarm_rate, calibrated_delta, sample_floor
from proofcost.reports.statistics.comparison import Comparison
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.statistics.split_half import split_half
from proofcost.reports.statistics.unpaired import compare_samples
from proofcost.reports.statistics.verdict import Finding, judge
from proofcost.reports.units import plural

COMPARED_TO_FLOOR = 10
"""A wall below so many times the floor is mostly start-up."""
Q = 0.05
WANTED_RATE = 0.05
"""Of false alarms, which the calibrated delta keeps to."""
LEAD = 25
MOST_THINGS = 1000
"""That one line of the table is made of: 3 % are known to within 1 % then, and more would only take longer."""
LONG = 24
"""Runs of a series from which blocks hold two a side: six blocks are the least that can alarm."""
MANY_STEAL = 0.02
"""Share of CPU time taken by the hypervisor from which it is marked."""


class Way(Enum):
    """How a thing is compared with itself."""

    TWINS = "twins in the same blocks"
    RERUNS = "reruns of one binary"
    REBUILDS = "builds of one commit"
    HALVES = "split halves"


@dataclass(frozen=True, slots=True)
class Same:
    """One thing on one host class, measured again and again."""

    name: str
    host_class: str
    figure: Metric
    series: tuple[tuple[int, ...], ...]
    """By series, the oldest first: costs in order of time."""
    twins: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    """By block: costs of one name and of the other."""
    rebuilt: bool = False
    """Each series is of another build of one commit."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Of one series on one host: cost at its end over cost at its beginning, each work against itself."""

    series: str
    host_class: str
    figure: Metric
    runs: int
    span_ns: int
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Floor:
    """What a run costs at least."""

    host_class: str
    sandbox: str
    wall_ns: int
    runs: int


@dataclass(frozen=True, slots=True)
class Small:
    """A work close to the floor."""

    name: str
    host_class: str
    wall_ns: int
    floor_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a data set says about its noise."""

    same: Sequence[Same]
    drifts: Sequence[Drift] = ()
    floors: Sequence[Floor] = ()
    small: Sequence[Small] = ()
    steal: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By host class: (stolen ns, busy ns of all, runs that tell both)."""
    host_classes: Sequence[str] = ()
    notes: Sequence[str] = ()
    data: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """False alarms of one figure on one host class, in one way."""

    way: Way
    host_class: str
    figure: Metric
    rate: AlarmRate
    too_few: int
    """Comparisons left out: their counts could not have alarmed whatever they said."""
    delta: float | None
    """That keeps false alarms to `WANTED_RATE`; None with too few comparisons."""


def rates(same: Sequence[Same]) -> list[Rate]:
    """By way, figure and host class."""
    groups: dict[tuple[str, str], list[Same]] = {}
    for one in same:
        groups.setdefault((one.figure.name, one.host_class), []).append(one)
    made = []
    for every in groups.values():
        # Chosen by a digest of the name: neither by size nor by how they came out.
        group = sorted(every, key=lambda one: hashlib.sha256(one.name.encode("utf-8", "replace")).digest())[
            :MOST_THINGS
        ]
        figure, host_class = group[0].figure, group[0].host_class
        twins = [compare_blocks(list(one.twins)) for one in group if one.twins]
        reruns = [comparison for one in group if not one.rebuilt for comparison in _reruns(one)]
        builds = [comparison for one in group if one.rebuilt for comparison in _reruns(one)]
        for way, comparisons in ((Way.TWINS, twins), (Way.RERUNS, reruns), (Way.REBUILDS, builds)):
            if comparisons:
                made.append(_rate(way, host_class, figure, comparisons))
        made += _halves(host_class, figure, [one for one in group if not one.rebuilt])
    order = list(Way)
    return sorted(made, key=lambda one: (one.figure.name, one.host_class, order.index(one.way)))


def _lot(one: Same) -> bytes:
    """An order that has nothing to do with costs."""
    return hashlib.sha256(one.name.encode("utf-8", "replace")).digest()


def _halves(host_class: str, figure: Metric, group: Sequence[Same]) -> list[Rate]:
    """Each series once, in blocks of two runs a side where there are enough for an alarm, else of one."""
    parts = {
        f"{one.name} {number} {at}": part for number, one in enumerate(group) for at, part in enumerate(one.series)
    }
    long = {name: part for name, part in parts.items() if len(part) >= LONG}
    short = {name: part for name, part in parts.items() if name not in long}
    done = [split_half(long, figure.delta), split_half(short, figure.delta, runs_per_side=1)]
    comparisons, too_few = sum(one.rate.comparisons for one in done), sum(len(one.too_few) for one in done)
    if not comparisons and not too_few:
        return []
    rate = alarm_rate(sum(one.rate.alarms for one in done), comparisons)
    delta = calibrated_delta([ratio for one in done for ratio in one.log_ratios], WANTED_RATE)
    return [Rate(Way.HALVES, host_class, figure, rate, too_few, delta)]


def _reruns(one: Same) -> list[Comparison]:
    """First series against the second, third against the fourth: pairs that share no run are independent."""
    pairs = list(pairwise(one.series))[::2]
    return [compare_samples(before, after) for before, after in pairs if before and after]


def _rate(way: Way, host_class: str, figure: Metric, comparisons: Sequence[Comparison]) -> Rate:
    """Each comparison a family by itself."""
    tested = [comparison for comparison in comparisons if comparison.least_p <= Q]
    alarms = sum(
        judge([comparison], figure.delta, q=Q)[0].finding in (Finding.REGRESSED, Finding.IMPROVED)
        for comparison in tested
    )
    delta = calibrated_delta([math.log(one.ratio) for one in tested], WANTED_RATE)
    return Rate(way, host_class, figure, alarm_rate(alarms, len(tested)), len(comparisons) - len(tested), delta)


def drift(
    series: str, host_class: str, figure: Metric, runs: Sequence[tuple[str, int, int]], confidence: float = 0.95
) -> Drift | None:
    """Of runs as (work, start in ns, cost above 0): a line through log costs, each work about its own level.

    None where nothing can be said: fewer than 3 runs beyond the number of works, or all at one time.
    """
    if not runs:
        return None
    works = {work: at for at, work in enumerate(sorted({work for work, _, _ in runs}))}
    code = np.array([works[work] for work, _, _ in runs])
    begin = min(start for _, start, _ in runs)
    time = np.array([float(start - begin) for _, start, _ in runs])
    logs = np.log(np.array([float(cost) for _, _, cost in runs]))
    count = np.bincount(code)
    x = time - (np.bincount(code, weights=time) / count)[code]
    y = logs - (np.bincount(code, weights=logs) / count)[code]
    freedom = len(runs) - len(works) - 1
    squares = float(x @ x)
    if freedom < 2 or squares == 0:
        return None
    from scipy.stats import t

    slope = float(x @ y) / squares
    rest = y - slope * x
    error = math.sqrt(float(rest @ rest) / freedom / squares)
    span = float(time.max())
    half = float(t.ppf((1 + confidence) / 2, freedom)) * error
    ends = [math.exp(min(700.0, max(-700.0, one * span))) for one in (slope, slope - half, slope + half)]
    return Drift(series, host_class, figure, len(runs), int(span), ends[0], ends[1], ends[2])


def document(found: Found) -> Document:
    """The report."""
    measured = rates(found.same)
    sections = [_alarms(measured), _floor(found), _disturbance(found)]
    return Document(
        kind="noise",
        title="Noise: can these figures be trusted",
        answer=_answer(measured, found),
        sections=[section for section in sections if section.blocks or section.text],
        notes=found.notes,
        data=found.data,
    )


def _answer(measured: Sequence[Rate], found: Found) -> str:
    known = [one for one in measured if one.rate.comparisons]
    if not known:
        said = (
            "Not known: nothing was measured often enough to be compared with itself; run `proofcost bench aa` on "
            "this host class"
        )
    else:
        order, first = list(Way), [metric.name for metric in METRICS]
        best = min(known, key=lambda one: (order.index(one.way), first.index(one.figure.name)))
        said = (
            f"{best.rate.alarms} false alarms in {plural(best.rate.comparisons, 'comparison')} of a thing with itself "
            f"({best.figure.name}, {best.way.value}): {_percent(best.rate.rate)}, "
            f"surely between {_percent(best.rate.low)} and {_percent(best.rate.high)}"
        )
    if found.small:
        said += f"; {plural(len(found.small), 'work')} under {COMPARED_TO_FLOOR} times the floor"
    return said + "."


def _percent(share: float | None) -> str:
    return "?" if share is None else figure_text(share, "share")


def _alarms(measured: Sequence[Rate]) -> Section:
    body: list[Sequence[Entry]] = []
    marked = {}
    for one in measured:
        rate: Entry = Missing("the counts of runs could not have raised an alarm, whatever they said: more runs")
        if one.rate.rate is not None:
            rate = Estimate(one.rate.rate, one.rate.low, one.rate.high, one.rate.confidence)
            if one.rate.low is not None and one.rate.low > Q:
                marked[len(body)] = "bad"
        floor = sample_floor(1 - WANTED_RATE)
        delta: Entry = Missing(f"{floor} comparisons are needed") if one.delta is None else one.delta
        body.append(
            [one.figure.name, one.host_class, one.way.value, one.rate.comparisons, one.rate.alarms, rate,
             one.figure.delta, delta, one.too_few]
        )  # fmt: skip
    if not body:
        return Section("False alarms", [], ["Nothing was measured twice: run `proofcost bench aa`."])
    columns = [
        Column("figure", "figure"),
        Column("host_class", "host class", None, "host class"),
        Column("way", "compared"),
        Column("comparisons", "comparisons", "count"),
        Column("alarms", "false alarms", "count"),
        Column("rate", "rate", "share", "false alarms"),
        Column("delta", "least effect in use", "share", "delta"),
        Column("calibrated_delta", f"that would keep to {WANTED_RATE:.0%}", "share", "delta"),
        Column("too_few", "too few runs", "count"),
    ]
    notes = [
        "an alarm is `regressed` or `improved` of a thing against itself, judged alone; too few runs: left out; of "
        f"more than {MOST_THINGS} things a line these many are taken, whatever they cost"
    ]
    table = Table("false_alarms", "False alarms", columns, body, notes, LEAD, marked)
    shown = [
        charts.Rate(
            f"{one.figure.name}, {one.way.value}, {one.host_class[:8]}",
            one.rate.alarms, one.rate.comparisons, one.rate.low, one.rate.high,
        )
        for one in measured
        if one.rate.low is not None and one.rate.high is not None
    ][:LEAD]  # fmt: skip
    if not shown:
        return Section("False alarms", [table])
    picture = Picture(
        "false_alarms",
        "Can I trust it? False alarms of a thing with itself",
        "; ".join(f"{one.name}: {one.alarms} of {one.trials}, {one.low:.2%} to {one.high:.2%}" for one in shown) + ".",
        lambda canvas: charts.rates(canvas.subplots(), shown, Q),
        height=1.6 + 0.35 * len(shown),
    )
    return Section("False alarms", [table, picture])


def _floor(found: Found) -> Section:
    blocks: list[Table | Picture] = []
    text = []
    if found.floors:
        body: list[Sequence[Entry]] = [
            [one.host_class, one.sandbox, one.wall_ns, one.wall_ns * COMPARED_TO_FLOOR, one.runs]
            for one in found.floors
        ]
        columns = [
            Column("host_class", "host class", None, "host class"),
            Column("sandbox", "sandbox"),
            Column("floor", "floor", "ns", "floor"),
            Column("compared_from", "compare from", "ns", "floor"),
            Column("runs", "runs", "count"),
        ]
        blocks.append(Table("floors", "What a run costs at least", columns, body))
    known = {one.host_class for one in found.floors}
    without = [name for name in found.host_classes if name not in known]
    if without:
        text.append(
            f"No floor is known for {', '.join(without)}: run `proofcost bench calibration` there; until then nobody "
            "can say who is under ten times the floor."
        )
    if found.small:
        body = [
            [one.name, one.host_class, one.wall_ns, one.floor_ns, one.wall_ns / one.floor_ns]
            for one in sorted(found.small, key=lambda one: one.wall_ns / one.floor_ns)
        ]
        columns = [
            Column("work", "work"),
            Column("host_class", "host class", None, "host class"),
            Column("wall", "wall", "ns"),
            Column("floor", "floor", "ns", "floor"),
            Column("times", "times the floor", "ratio", "floor"),
        ]
        notes = ["mostly start-up: a ratio of such walls says little; nothing is ever subtracted"]
        blocks.append(Table("under_floor", f"Under {COMPARED_TO_FLOOR} times the floor", columns, body, notes, LEAD))
    elif found.floors:
        text.append(f"No work is under {COMPARED_TO_FLOOR} times the floor.")
    return Section("Floor", blocks, text)


def _disturbance(found: Found) -> Section:
    blocks: list[Table | Picture] = []
    body: list[Sequence[Entry]] = []
    marked = {}
    for name in found.host_classes:
        told = found.steal.get(name)
        if told is None or told[2] == 0 or told[0] + told[1] == 0:
            body.append([name, Missing("no run of it tells steal and busy time"), 0])
            continue
        share = told[0] / (told[0] + told[1])
        if share > MANY_STEAL:
            marked[len(body)] = "bad"
        body.append([name, share, told[2]])
    if body:
        columns = [
            Column("host_class", "host class", None, "host class"),
            Column("steal", "stolen", "share", "steal"),
            Column("runs", "runs", "count"),
        ]
        notes = ["CPU time that the hypervisor took, of all that was wanted while runs lasted"]
        blocks.append(Table("steal", "Steal", columns, body, notes, None, marked))
    drifts: list[Sequence[Entry]] = []
    marked = {}
    for one in sorted(found.drifts, key=lambda one: -abs(math.log(one.ratio))):
        bound = math.log1p(one.figure.delta)
        if one.low is not None and one.high is not None and (math.log(one.low) > bound or math.log(one.high) < -bound):
            marked[len(drifts)] = "bad"
        drifts.append(
            [one.series, one.host_class, one.figure.name, one.runs, one.span_ns,
             Estimate(one.ratio, one.low, one.high, 0.95)]
        )  # fmt: skip
    if drifts:
        columns = [
            Column("series", "series"),
            Column("host_class", "host class", None, "host class"),
            Column("figure", "figure"),
            Column("runs", "runs", "count"),
            Column("span", "lasted", "ns"),
            Column("drift", "end over beginning", "ratio", "drift"),
        ]
        notes = [
            "a line through log costs over time, each work about its own level; blocks (ABBA) cancel it, sides "
            "measured one after the other do not",
        ]
        blocks.append(Table("drift", "Drift", columns, drifts, notes, LEAD, marked))
    return Section("Disturbance", blocks)
