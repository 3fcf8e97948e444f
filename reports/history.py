"""`report history`: since when? Costs over commits (or versions, or time), and between which two points they changed.

A series is one work under one kernel on one host class, with one meaning of the figure; what is unlike is never in one
series. Noisy figures are judged by `statistics/history.py` (R5), exact counts by the rule for neighbours
(`statistics/counted_steps.py`): no p there, and no least number of points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING

from proofcost.reports import charts
from proofcost.reports.counted_change import CountedChange, counted_change
from proofcost.reports.document import Column, Document, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.metric_key import metric_key
from proofcost.reports.metrics import Metric
from proofcost.reports.statistics.change_points import LEAST_BLOCKS
from proofcost.reports.statistics.counted_steps import CountedHistory, counted_history
from proofcost.reports.statistics.history import History, history
from proofcost.reports.units import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

PICTURES_MOST = 12
"""Series that are drawn: those that changed first."""

NOISE_BAND = 1.96
"""Deviations either way: 95 % of single points under normal noise."""

LEAD = 20
TOLD_MOST = 8
"""Changes that a picture's text tells one by one."""


@dataclass(frozen=True, slots=True)
class Point:
    """One commit (or version, or series): what its runs cost."""

    name: str
    values: tuple[int, ...]
    """At least one, above 0."""

    @property
    def median(self) -> int:
        return median_low(self.values)


@dataclass(frozen=True, slots=True)
class Series:
    """One cost in the order of its points."""

    key: tuple[str, ...]
    """What tells it from others; by `Found.key_names`."""
    figure: Metric
    points: tuple[Point, ...]
    ancestors: tuple[tuple[int, ...], ...] | None = None
    """By point: its nearest ancestors among the points, of which none is another's; None where points are a plain list.
    Lists of commits of several branches alternate between them: there the neighbour before is no ancestor."""


@dataclass(frozen=True, slots=True)
class Change:
    """The cost of point `after` is another than that of point `before` (numbers of points)."""

    before: int
    after: int
    ratio: Entry
    p: float | None
    """None: by the rule for counts."""

    @property
    def value(self) -> float:
        return self.ratio.value if isinstance(self.ratio, Estimate) else float(str(self.ratio))


@dataclass(frozen=True, slots=True)
class Ends:
    """How the runs of each point of one work ended, in order."""

    key: tuple[str, ...]
    points: tuple[tuple[str, str], ...]
    """(point, end)"""

    @property
    def changes(self) -> list[tuple[str, str, str, str]]:
        """(last before, first after, end before, end after)."""
        return [(a, b, before, after) for (a, before), (b, after) in pairwise(self.points) if before != after]


@dataclass(frozen=True, slots=True)
class Found:
    """All series of a data set."""

    key_names: tuple[str, ...]
    series: Sequence[Series]
    along: str
    """What the points are: label.commit, kernel_version, time."""
    ends: Sequence[Ends] = ()
    notes: Sequence[str] = ()
    data: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A series and what came of it: exactly one of `noisy` and `counted` is set."""

    series: Series
    noisy: History | None
    counted: CountedHistory | None
    changes: tuple[Change, ...]
    unknown: int = 0
    """Points with too few runs to be held against those before."""
    line: tuple[int, ...] | None = None
    """Where ancestors are known: the points that lead up to the last, at a merge by the side that is nearest in cost.
    `counted` and what is drawn are of these; None: all points."""

    @property
    def shown(self) -> list[Point]:
        """The points of segments."""
        points = self.series.points
        return list(points) if self.line is None else [points[at] for at in self.line]

    @property
    def places(self) -> list[int]:
        """Points at which the cost is another than at the point before in the list."""
        return [step.index for step in (self.noisy or self.counted).steps]  # type: ignore[union-attr]

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Segments, as first point and the point after the last."""
        ends = [0, *self.places, len(self.shown)]
        return list(pairwise(ends))

    @property
    def too_few(self) -> bool:
        if self.noisy is not None:
            return self.noisy.too_few
        return self.unknown >= len(self.series.points) - 1

    def band(self, at: int) -> tuple[float, float]:
        """Where a single point of segment number `at` lies: 95 % by its own noise; for counts least and most seen."""
        if self.noisy is not None:
            segment = self.noisy.segments[at]
            reach = math.exp(NOISE_BAND * segment.spread)
            return segment.median / reach, segment.median * reach
        start, end = self.bounds[at]
        seen = [value for point in self.shown[start:end] for value in point.values]
        return min(seen), max(seen)

    def level(self, at: int) -> float:
        """Median of segment number `at`: of its points' medians."""
        if self.noisy is not None:
            return self.noisy.segments[at].median
        start, end = self.bounds[at]
        return median_low(point.median for point in self.shown[start:end])

    @property
    def said(self) -> str:
        """What came out, in words."""
        count = len(self.series.points)
        if count < 2:
            return "one point: nothing to compare it with"
        if self.noisy is not None and self.too_few:
            block = f" (neighbours depend on one another over {self.noisy.block})" if self.noisy.block > 1 else ""
            return f"too few points: {count}, and {self.noisy.least_points} are needed{block}"
        if self.counted is not None and self.too_few:
            return "too few runs: 3 a point are needed"
        said = f"changed {plural(len(self.changes), 'time')}" if self.changes else "no change"
        if self.creeps:
            said += "; its ends differ though no neighbours do"
        return said + (f"; {plural(self.unknown, 'point')} with too few runs" if self.unknown else "")

    @property
    def creeps(self) -> tuple[tuple[int, int, CountedChange], ...]:
        """Of a plain list of exact counts; see `CountedHistory.creeps`."""
        return () if self.counted is None or self.series.ancestors is not None else self.counted.creeps


def judged(series: Series) -> Judged:
    """Find the changes of one series."""
    if not series.figure.counted:
        found = history([point.median for point in series.points], series.figure.delta)
        changes = [
            Change(step.index - 1, step.index, Estimate(step.ratio, step.low, step.high, 0.95), step.p)
            for step in found.steps
        ]
        return Judged(series, found, None, tuple(changes))
    if series.ancestors is None:
        counted = counted_history([point.values for point in series.points])
        steps = [Change(step.index - 1, step.index, float(1 + step.change.effect), None) for step in counted.steps]
        return Judged(series, None, counted, tuple(steps), len(counted.unknown))
    made: list[Change] = []
    unknown = 0
    for after, before in enumerate(series.ancestors):
        compared = [counted_change(series.points[one].values, series.points[after].values) for one in before]
        known = [(change, one) for change, one in zip(compared, before, strict=True) if change is not None]
        unknown += len(known) < len(before)
        # Whoever is like one of its ancestors (a merge like one of its sides) changed nothing itself.
        if known and all(change.is_change for change, _ in known):
            change, one = min(known, key=lambda pair: abs(pair[0].effect))
            made.append(Change(one, after, float(1 + change.effect), None))
    line = _line(series)
    counted = counted_history([series.points[at].values for at in line])
    return Judged(series, None, counted, tuple(made), unknown, line)


def _line(series: Series) -> tuple[int, ...]:
    """See `Judged.line`; of a series whose ancestors are known."""
    assert series.ancestors is not None
    found = [len(series.points) - 1]
    while before := series.ancestors[found[-1]]:
        here = series.points[found[-1]].median
        found.append(min(before, key=lambda at: abs(math.log(series.points[at].median / here))))
    return tuple(reversed(found))


def document(found: Found) -> Document:
    """The report."""
    done = [judged(series) for series in found.series]
    figures = list(dict.fromkeys(one.series.figure for one in done))
    shown = _shown_keys(found)
    sections = [_section(figure, [one for one in done if one.series.figure == figure], shown) for figure in figures]
    ends = _ends(found, shown)
    if ends is not None:
        sections.append(Section("Ends", [ends]))
    return Document(
        kind="history",
        title="Since when: costs over " + {"time": "time"}.get(found.along, found.along),
        answer=_answer(done, found.ends),
        sections=sections,
        notes=[*_notes(done), *found.notes],
        data=[*found.data, *_constant(found, shown)],
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """Which of a series' keys differ between series: the others would be columns of one value."""

    names: tuple[str, ...]
    places: tuple[int, ...] = field(default=())

    def of(self, series: Series | Ends) -> list[Entry]:
        return [series.key[at] for at in self.places]

    def text(self, series: Series) -> str:
        return ", ".join(str(part) for part in self.of(series)) or "all"

    @property
    def columns(self) -> list[Column]:
        return [Column(name, name.replace("_", " ")) for name in self.names]


def _shown_keys(found: Found) -> _Keys:
    places = []
    for at, name in enumerate(found.key_names):
        if name == "input_sha256":  # a digest says nothing where a subject has only one
            several = len({(series.key[0], series.key[at]) for series in found.series}) > len(
                {series.key[0] for series in found.series}
            )
        else:
            several = name == "subject" or len({series.key[at] for series in found.series}) > 1
        places += [at] if several else []
    return _Keys(tuple(found.key_names[at] for at in places), tuple(places))


def _constant(found: Found, shown: _Keys) -> list[str]:
    if not found.series:
        return []
    first = found.series[0].key
    told = [
        f"{name} {first[at]}"
        for at, name in enumerate(found.key_names)
        if len({series.key[at] for series in found.series}) == 1 and at not in shown.places and first[at] != "?"
    ]
    return [f"records that are all of {', '.join(told)}"] if told else []


def _section(figure: Metric, done: Sequence[Judged], keys: _Keys) -> Section:
    changed = [one for one in done if one.changes]
    blocks: list[Table | Picture] = []
    if changed:
        blocks.append(_changes(figure, changed, keys))
    blocks.append(_overview(figure, done, keys))
    blocks += [_picture(figure, one, keys) for one in [*changed, *(o for o in done if not o.changes)][:PICTURES_MOST]]
    blocks.append(_segments(figure, done, keys))
    text = []
    if figure.counted:
        text.append(
            "Exact counts: a change is an effect beyond 0.1 % and beyond five times the spread that was seen; "
            "there is no p."
        )
    return Section(figure.name, blocks, text)


def _changes(figure: Metric, changed: Sequence[Judged], keys: _Keys) -> Table:
    rows: list[Sequence[Entry]] = []
    marked: dict[int, str] = {}
    for one in changed:
        for at, change in enumerate(one.changes):
            marked[len(rows)] = "bad" if change.value > 1 else "good"
            before, after = one.series.points[change.before], one.series.points[change.after]
            levels: list[Entry] = [before.median, after.median]
            if one.noisy is not None:
                levels = [one.level(at), one.level(at + 1)]
            by: Entry = "rule for counts" if change.p is None else change.p
            rows.append([*keys.of(one.series), before.name, after.name, change.ratio, *levels, by])
    columns = [
        *keys.columns,
        Column("after_point", "last before"),
        Column("by_point", "first after"),
        Column("ratio", "ratio", "ratio", "ratio"),
        Column("before", "before", figure.unit),
        Column("after", "after", figure.unit),
        Column("p", "p", None, "p"),
    ]
    return Table(
        f"changes_{metric_key(figure)}", f"Where it changed: {figure.name}", columns, rows, lead=LEAD, marked=marked,
        notes=[
            "the cost changed after the point `last before` and by `first after`; levels are "
            + ("medians of these points" if figure.counted else "medians of segments")
        ],
    )  # fmt: skip


def _overview(figure: Metric, done: Sequence[Judged], keys: _Keys) -> Table:
    rows: list[Sequence[Entry]] = []
    for one in done:
        points = one.series.points
        latest = one.level(len(one.bounds) - 1)
        few = len(points) < 3 and one.counted is None
        noise: Entry = Missing("too few points to know it") if few else _noise(one)
        rows.append(
            [*keys.of(one.series), len(points), sum(len(point.values) for point in points), one.said, latest, noise]
        )  # fmt: skip
    columns = [
        *keys.columns,
        Column("points", "points", "count"),
        Column("runs", "runs", "count"),
        Column("finding", "finding"),
        Column("level", "level now", figure.unit),
        Column("noise", "noise now", "share", "noise"),
    ]
    return Table(f"series_{metric_key(figure)}", f"Series: {figure.name}", columns, rows, lead=LEAD)


def _noise(one: Judged) -> float:
    """Of the last segment: its deviation on the log scale; of counts the largest spread within a point."""
    if one.counted is not None:
        start, end = one.bounds[-1]
        return max((max(point.values) - min(point.values)) / point.median for point in one.shown[start:end])
    assert one.noisy is not None
    return one.noisy.segments[-1].spread


def _segments(figure: Metric, done: Sequence[Judged], keys: _Keys) -> Table:
    rows: list[Sequence[Entry]] = []
    for one in done:
        for at, (start, end) in enumerate(one.bounds):
            points = one.shown[start:end]
            low, high = one.band(at)
            rows.append([*keys.of(one.series), points[0].name, points[-1].name, len(points), one.level(at), low, high])
    columns = [
        *keys.columns,
        Column("from", "from"),
        Column("to", "to"),
        Column("points", "points", "count"),
        Column("level", "level", figure.unit),
        Column("band_low", "band from", figure.unit, "noise band"),
        Column("band_high", "band to", figure.unit, "noise band"),
    ]
    lines = any(one.line is not None for one in done)
    along = "; of the commits that lead up to the last" if lines else ""
    said = (
        f"least and most seen{along}"
        if figure.counted
        else "where 95 % of single points lie, by the segment's own noise"
    )
    return Table(
        f"segments_{metric_key(figure)}", f"Segments: {figure.name}", columns, rows, lead=LEAD, notes=[f"band: {said}"]
    )


def _ends(found: Found, keys: _Keys) -> Table | None:
    """Where the end of a work changed: a verdict, above all."""
    rows: list[Sequence[Entry]] = []
    for one in found.ends:
        for last, first, before, after in one.changes:
            rows.append([*keys.of(one), last, first, before, after])
    if not rows:
        return None
    columns = [
        *keys.columns,
        Column("after_point", "last before"),
        Column("by_point", "first after"),
        Column("before", "ended"),
        Column("after", "then ended"),
    ]
    notes = ["costs are followed over the points of the commonest end only: another end is other work"]
    return Table("ends", "Where the end changed", columns, rows, notes, LEAD, dict.fromkeys(range(len(rows)), "bad"))


def _picture(figure: Metric, one: Judged, keys: _Keys) -> Picture:
    points = one.series.points
    beside = len(points) - len(one.shown)
    text = f"{plural(len(points), 'point')}, {one.said}." + (
        f" Drawn: the line that leads up to the last; {plural(beside, 'point')} of other branches not."
        if beside
        else ""
    )
    for change in one.changes[:TOLD_MOST]:
        before, after = points[change.before].name, points[change.after].name
        text += f" Between {before} and {after} by a ratio of {change.value:.4f}."
    if len(one.changes) > TOLD_MOST:
        text += f" {len(one.changes) - TOLD_MOST} more changes in the table."
    name = "_".join(part for part in one.series.key if part)
    return Picture(
        key=f"history_{metric_key(figure)}_{name}"[:80],
        question=f"Since when? {figure.name}: {keys.text(one.series)}",
        text=text,
        draw=lambda canvas: _draw(canvas, one),
    )


def _draw(canvas: Canvas, one: Judged) -> None:
    points = one.shown
    found = [charts.Segment(start, end - 1, one.level(at), *one.band(at)) for at, (start, end) in enumerate(one.bounds)]
    figure = one.series.figure
    charts.segments(
        canvas.subplots(), [point.median for point in points], found, [point.name for point in points], figure.unit,
        figure.name,
    )  # fmt: skip


def _answer(done: Sequence[Judged], ends: Sequence[Ends]) -> str:
    changed = sum(bool(one.changes) for one in ends)
    said = _costs_said(done)
    return said if not changed else f"{said} {plural(changed, 'work')} ended otherwise than before."


def _costs_said(done: Sequence[Judged]) -> str:
    if not done:
        return "Nothing to follow: no run came to an end of its own with a figure."
    changed = [one for one in done if one.changes]
    few = [one for one in done if one.too_few]
    judgeable = len(done) - len(few)
    if not judgeable:
        points = max(len(one.series.points) for one in done)
        return (
            f"Too few points to tell: {plural(len(done), 'series', 'series')} of at most {points}; noisy costs need "
            f"{LEAST_BLOCKS} points, exact counts 2 of 3 runs each."
        )
    order = {point.name: at for one in changed for at, point in enumerate(one.series.points)}
    places = sorted(
        {
            (one.series.points[change.before].name, one.series.points[change.after].name)
            for one in changed
            for change in one.changes
        },
        key=lambda place: (order[place[1]], place),
    )
    said = f"{len(changed)} of {plural(judgeable, 'series', 'series')} changed"
    if changed:
        named = ", ".join(f"{before} -> {after}" for before, after in places[:8])
        more = f" and {len(places) - 8} more" if len(places) > 8 else ""
        said += f", at {plural(len(places), 'place')}: {named}{more}"
    else:
        said = f"No change in {plural(judgeable, 'series', 'series')}"
    return said + (f"; {len(few)} more are too short to tell." if few else ".")


def _notes(done: Sequence[Judged]) -> list[str]:
    notes = []
    if any(one.noisy is not None and one.noisy.steps for one in done):
        notes.append(
            "a change's interval is given its place: measure the two points against each other in one bench "
            "(`proofcost bench`, then `compare`) before acting on it"
        )
    noisy = [one for one in done if one.noisy is not None]
    if noisy:
        blocks = sorted({one.noisy.block for one in noisy if one.noisy is not None})
        least = sorted({f"{one.series.figure.delta:.1%} of {one.series.figure.name}" for one in noisy})
        notes.append(
            "method: rank-CUSUM with block permutation, p at most 0.001, no segment below 3 points; neighbours kept "
            f"together over {', '.join(map(str, blocks))} points; changes below {', '.join(least)} are not looked for"
        )
    for one in done:
        for first, last, change in one.creeps:
            points = one.series.points
            notes.append(
                f"{one.series.key[0]}: {one.series.figure.name} crept by {float(change.effect):+.2%} from "
                f"{points[first].name} to {points[last].name}; no two neighbours differ enough to be named"
            )
    if any(one.series.ancestors is not None for one in done):
        notes.append(
            "each point's counts are held against its nearest measured ancestors, not against its neighbour in the "
            "list; a change is named where they differ from all of these, against the one that is nearest in cost"
        )
        if any(one.noisy is not None and one.noisy.steps and not _is_line(one.series) for one in done):
            notes.append(
                "noisy costs are followed down the list, which is no line of ancestors: a step may be an alternation "
                "of branches; give a line (git log --first-parent)"
            )
    return notes


def _is_line(series: Series) -> bool:
    """Whether each point's nearest ancestor is the point before it."""
    return all(before == (at - 1,) for at, before in enumerate(series.ancestors or ()) if at)
