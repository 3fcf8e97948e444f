"""A record's lines <-> forms that many records share, and what stands in their gaps: so each figure is stored once.

A line of 5 kB says little that the line before has not said: its figures, clocks, ids and digests differ, its words do
not. So a line is kept as its *form*, in which each such value is replaced by where it is to be had:

    {"schema":1,...,"wall_command":{"value":<wall_command>,"unit":"ns",...

A *gap* is written here as <name>; in the form it stands between the bytes 1 and 2, which no JSON line can hold. The
name is that of a column of the row (`wall_command`, `record`), of a column made for this alone (`gap_...`), or a sum of
such (`started_ns+gap_monotonic`): clocks run beside each other, and their distance takes two bytes where their time
takes five.

`Unfolding` puts the values back and gives the very bytes that stood in the file. `fold` tries that before it returns:
where it does not come true (another program's spelling, one name within another) the lines are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from operator import itemgetter
from typing import Any

import orjson

from proofcost.harness.columns import DISTURBANCES, FIGURES, Row, column_of

FORMS = ("form_started", "form_finished", "form_settled")
PLAIN_GAPS, _START_GAPS = 40, 8
"""So many numbers of a record without a column of their own have one of these, the first of them those of `started`; a
record with more is kept as it is."""
_ONCE = {
    b"meter_pid": "gap_meter_pid",
    b"meter_start_ticks": "gap_meter_ticks",
    b"parent_pid": "gap_parent_pid",
    b"cpu_ns": "gap_meter_cpu",
    b"memory_peak_bytes": "gap_meter_memory",
    b"free_start_bytes": "gap_free_start",
    b"build": "gap_build",
    b"block": "gap_block",
    b"order": "gap_order",
    b"iteration": "gap_iteration",
}
"""Numbers that stand once in nearly every record, by their keys."""
_CLOCKS = ("gap_monotonic", "gap_boottime", "gap_end", "gap_end_monotonic", "gap_end_boottime")
_OWN_GAP = "gap_own_bytes"
NUMBER_GAPS = (*_ONCE.values(), *_CLOCKS, _OWN_GAP, *(f"gap_{number}" for number in range(PLAIN_GAPS)))
TEXT_GAPS = ("gap_argv_sha256", "gap_labels", "gap_cwd", "gap_source_sha256", "gap_input_0", "gap_input_1")
FOLDED_FROM = (
    *FORMS,
    *NUMBER_GAPS,
    *TEXT_GAPS,
    "record",
    "session",
    "started_ns",
    *(column_of(name) for name in FIGURES),
    *(f"host_{name.removeprefix('host_')}" for name in DISTURBANCES),
)
"""The columns that stand in forms, and they."""

_DIGITS = rb"(?=[1-9])([1-8]\d{0,18}|9\d{0,17})(?=[,}])"
_NUMBERS = (
    re.compile(
        rb'":(?=[1-9])(?:(?<=time_ns":)|(?<=tonic_ns":)|(?<=_pid":)|(?<=_ticks":)|(?<=size_bytes":)'
        rb'|(?<="build":)|(?<="block":)|(?<="order":)|(?<="iteration":))' + _DIGITS
    ),
    re.compile(rb'":(?=\d)(?:(?<=value":)|(?<=_ns":)|(?<=_bytes":))(0|[1-8]\d{0,18}|9\d{0,17})(?=[,}])'),
)
"""Of `started` and of `finished`. In the first neither limits, which are read for their size, nor 0, which may mean
something else than a number does: they stay in the form."""
_OWN = re.compile(rb"our own (0|[1-9]\d{0,17}) bytes")
_KEY = re.compile(rb'"([a-z_0-9:]+)$')
_FIGURE = re.compile(rb'"([a-z_0-9:]+)":\{"value$')
_GAP = re.compile("\x01([a-z0-9_+]+)\x02")
_PLAIN = rb"[ !#-\[\]-~]"
"""What JSON spells as it is."""
_TEXT = re.compile(_PLAIN + rb"{8,4096}")
_CWD = re.compile(rb'"cwd":"(' + _PLAIN + rb'{8,4096})"')
_ARGV = re.compile(rb'"count":\d+,"sha256":"([0-9a-f]{64})"')
_SOURCE = re.compile(rb'"source_sha256":"([0-9a-f]{64})"')
_LABELS = re.compile(rb'"labels":(\{(?:"' + _PLAIN + rb'+":"' + _PLAIN + rb'+",?){1,64}\})')
_SINGLE = (
    (_SOURCE.search, "gap_source_sha256"),
    (_LABELS.search, "gap_labels"),
    (_ARGV.search, "gap_argv_sha256"),
)
"""What stands in one place, in the order of the record."""
_INPUTS = re.compile(rb'"inputs":\[(\{[^\[\]]+\})\]')
_INPUT = re.compile(rb'\{"path":"(' + _PLAIN + rb'{8,4096})"')
_EVERYWHERE, _INPUTS_KEPT = 3, 2
_INT64 = 1 << 63
_KEPT = 20_000
"""So many shapes of lines are remembered."""


@lru_cache(1000)
def _gap(name: str) -> bytes:
    return b"\x01" + name.encode() + b"\x02"


_RECORD, _SESSION, _CWD_GAP = _gap("record"), _gap("session"), _gap("gap_cwd")
_FINISHED_HEAD = b'{"schema":1,"event":"finished","invocation":"%s","session":"%s",' % (_RECORD, _SESSION)
_NOWHERE = b"\n"
"""What no line holds."""
_GAP_NAMES = b"\n".join(name.encode() for name in FOLDED_FROM)
_OWN_TEXT = b"our own " + _gap(_OWN_GAP) + b" bytes"
_BETWEEN = b'":\x01\x02'


@dataclass(slots=True)
class Shape:
    """What lines have in common that differ in nothing but their numbers."""

    number: int
    """Its own."""
    pieces: list[bytes]
    keys: list[bytes]
    """Of each number."""
    figures: list[tuple[int, str]]
    """(number's place, column) of those that are a figure's value."""
    beside_task: list[int]
    """Places of what is mostly the task clock over again: how long a counter was enabled, and ran."""
    task: int | None
    start: int | None
    """Place of the real time."""
    parent: int | None
    """Place of the parent's process id."""
    take_beside: Callable[[Sequence[int]], tuple[int, ...]] | None
    """What takes the numbers at `beside_task` and the task clock, where there are some."""
    unheld: tuple[int, ...] | None = None
    """Places of figures that are in no row made of this shape alone; None where that was not asked yet."""
    plans: dict[tuple[tuple[int, ...], bool], Plan | None] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """The form of a shape, and which of its numbers go into which gap."""

    form: str
    alone: tuple[tuple[str, int], ...]
    """(gap, place)."""
    less: tuple[tuple[str, int, tuple[str, ...]], ...]
    """(gap, place, columns whose sum is taken away)."""


_shapes: dict[bytes, Shape] = {}
_tried: set[tuple[int, ...]] = set()
_numbers = count()


def shape_of(line: bytes, number: int) -> tuple[Shape, list[int]]:
    """A line's shape and its numbers. `number`: 0 for `started`, 1 for `finished`."""
    parts = _NUMBERS[number].split(line)
    key = _BETWEEN.join(parts[::2])
    shape = _shapes.get(key)
    if shape is None:
        if len(_shapes) >= _KEPT:
            _shapes.clear()
            _tried.clear()
        shape = _shapes[key] = _new_shape(parts[::2])
    return shape, orjson.loads(b"[%s]" % b",".join(parts[1::2]))


def _new_shape(pieces: list[bytes]) -> Shape:
    keys = [match[1] if (match := _KEY.search(piece)) else b"" for piece in pieces[:-1]]
    figures: dict[str, int] = {}
    in_host = False
    for place, piece in enumerate(pieces[:-1]):
        in_host = in_host or b'"host_disturbance":{' in piece
        match = _FIGURE.search(piece)
        name = match[1].decode() if match else ""
        if in_host and name in DISTURBANCES:
            figures.setdefault(f"host_{name.removeprefix('host_')}", place)
        elif name in FIGURES:
            figures.setdefault(column_of(name), place)
    task = figures.get("task_clock")
    beside = [place for place, key in enumerate(keys) if key in (b"enabled_ns", b"running_ns")] if task else []
    return Shape(
        number=next(_numbers),
        pieces=pieces,
        keys=keys,
        figures=[(place, column) for column, place in figures.items()],
        beside_task=beside,
        task=task,
        start=keys.index(b"realtime_ns") if b"realtime_ns" in keys else None,
        parent=keys.index(b"parent_pid") if b"parent_pid" in keys else None,
        take_beside=itemgetter(task, *beside) if task is not None and beside else None,
    )


def _plan(shape: Shape, is_start: bool, wrong: tuple[int, ...], even: bool) -> Plan | None:
    """How the numbers of a shape are kept; None where they are too many.

    `wrong`: places of figures that the row does not hold. `even`: all counters ran as long as the task clock.
    """
    columns = {place: name for place, name in shape.figures if place not in wrong}
    at = frozenset(columns.values())
    wall = ("wall_command",) if "wall_command" in at else ()
    start, end = ("started_ns",), ("started_ns", *wall)
    clocks: dict[bytes, tuple[tuple[str, ...], str | None]] = {
        b"realtime_ns": (start, None) if is_start else (end, "gap_end"),
        b"monotonic_ns": (start, "gap_monotonic")
        if is_start
        else ((*end, "gap_end", "gap_monotonic"), "gap_end_monotonic"),
        b"boottime_ns": ((*start, "gap_monotonic"), "gap_boottime")
        if is_start
        else ((*end, "gap_end", "gap_monotonic", "gap_end_monotonic", "gap_boottime"), "gap_end_boottime"),
    }
    plain = iter(range(_START_GAPS) if is_start else range(_START_GAPS, PLAIN_GAPS))
    into: list[tuple[int, str, tuple[str, ...]]] = []
    form = [shape.pieces[0]]
    used: set[bytes] = set()
    for place, key in enumerate(shape.keys):
        less: tuple[str, ...] = ()
        name: str | None = None
        if place in columns:
            less = (columns[place],)
        elif even and place in shape.beside_task and "task_clock" in at:
            less = ("task_clock",)
        elif key in clocks and key not in used:
            less, name = clocks[key]
        else:
            name = _ONCE.get(key) if key not in used else None
            if name is None:
                number = next(plain, None)
                if number is None:
                    return None
                name = f"gap_{number}"
            if place in shape.beside_task and "task_clock" in at:
                less = ("task_clock",)
            elif name == "gap_free_start" and {"disk_free_min", "disk_peak_writable"} <= at:
                less = ("disk_free_min", "disk_peak_writable")
        used.add(key)
        if name is not None:
            into.append((place, name, less))
        form += (b'":', _gap("+".join((*less, *(() if name is None else (name,))))), shape.pieces[place + 1])
    alone = tuple((name, place) for place, name, less in into if not less)
    return Plan(b"".join(form).decode(), alone, tuple((name, place, less) for place, name, less in into if less))


class Folding:
    """The lines of one record on their way into forms: looked at first, put into its row then.

    `lines` are those of `started`, `finished` and `settled` that there are, without their ends.
    """

    __slots__ = ("_texts", "lines", "more", "parts")

    def __init__(self, lines: Sequence[bytes], record: str, session: str) -> None:
        self.lines = lines
        self.more: Row = {}
        """What stands in the gaps, by column."""
        first, self._texts = _texts(lines[0], record, session, self.more)
        self.parts = [self._part(line, number) for number, line in enumerate((first, *lines[1:2]))]

    def _part(self, line: bytes, number: int) -> tuple[Shape, list[int]]:
        texts = self._texts
        if number:
            (record, _), (session, _), cwd = texts[:_EVERYWHERE]
            head = b'{"schema":1,"event":"finished","invocation":"%s","session":"%s",' % (record, session)
            if line.startswith(head):  # and nowhere else, as a rule: two searches of the whole line less
                line = _FINISHED_HEAD + line[len(head) :]
                texts = [cwd]
            else:
                texts = texts[:_EVERYWHERE]
        for text, gap in texts:
            line = line.replace(text, gap)
        if number and (own := _OWN.search(line)):
            self.more[_OWN_GAP] = int(own[1])
            line = line.replace(own[0], _OWN_TEXT)
        return shape_of(line, number)

    def line(self, number: int, numbers: Sequence[int], changed: Callable[[str, str], str]) -> bytes:
        """A line of the shape of the first or second, with these numbers, and texts as `changed` has them."""
        pieces = self.parts[number][0].pieces
        made = b"".join([pieces[0], *(b'":%d' % one + piece for one, piece in zip(numbers, pieces[1:], strict=True))])
        own = self.more.get(_OWN_GAP)
        if own is not None:
            made = made.replace(_OWN_TEXT, b"our own %d bytes" % own)
        for text, gap in self._texts[:2]:
            made = made.replace(gap, text)
        for name in TEXT_GAPS:
            if name in self.more:
                made = made.replace(_gap(name), changed(name, self.more[name]).encode())
        return made

    def put(self, row: Row, trusted: bool = False) -> bool:
        """Put the forms, and what stands in their gaps, into the record's row. `trusted`: it was made of
        these lines alone, nothing was settled later.

        False, and nothing is put, where the lines would not come back to the byte. Where they are trusted that is tried
        once for each pair of plans: a gap is between bytes that no line holds, so what was put there comes out again.
        """
        more = self.more
        used = []
        for number, (shape, numbers) in enumerate(self.parts):
            if not number:
                wrong: tuple[int, ...] = ()
            elif trusted and shape.unheld is not None:
                wrong = shape.unheld
            else:
                wrong = tuple([place for place, column in shape.figures if row.get(column) != numbers[place]])
                shape.unheld = wrong if trusted else shape.unheld
            even = shape.take_beside is not None and len(set(shape.take_beside(numbers))) == 1
            how = (wrong, even)
            if how in shape.plans:
                plan = shape.plans[how]
            else:
                plan = shape.plans[how] = _plan(shape, number == 0, wrong, even)
            if plan is None:
                return False
            used.append(plan)
            more[FORMS[number]] = plan.form
            for name, place in plan.alone:
                more[name] = numbers[place]
            for name, place, less in plan.less:
                value = numbers[place]
                for one in less:
                    part = more[one] if one in more else row.get(one)
                    if part is None:
                        return False  # a clock that this record has not
                    value -= part
                if not -_INT64 <= value < _INT64:
                    return False
                more[name] = value
        if len(self.lines) > 2:
            more[FORMS[2]] = self.lines[2].decode()
        row.update(more)
        plans = tuple([id(plan) for plan in used])
        if (trusted and plans in _tried) or unfold(row) == b"\n".join(self.lines).decode():
            if trusted:
                _tried.add(plans)
            return True
        for name in more:
            del row[name]
        return False


def _texts(line: bytes, record: str, session: str, more: Row) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The first line without what stands once in it; and what is to be replaced wherever it stands, as (text, gap), the
    first `_EVERYWHERE` in the others too."""
    found = [(_whole(text.encode()), gap) for text, gap in ((record, _RECORD), (session, _SESSION))]
    out: list[bytes] = []
    at = 0
    for search, name in _SINGLE:
        match = search(line, at)
        if match:
            more[name] = match[1].decode()
            start, end = match.span(1)
            out += (line[at:start], _gap(name))
            at = end
    out.append(line[at:])
    cwd = _CWD.search(line)
    found.append((_whole(cwd[1]) if cwd else _NOWHERE, _CWD_GAP))
    if cwd and found[-1][0] is not _NOWHERE:
        more["gap_cwd"] = cwd[1].decode()
    if inputs := _INPUTS.search(line, at):
        for number, path in enumerate(dict.fromkeys(_INPUT.findall(inputs[1])[:_INPUTS_KEPT])):
            if _whole(path) is not _NOWHERE:
                more[f"gap_input_{number}"] = path.decode()
                found.append((path, _gap(f"gap_input_{number}")))
    return b"".join(out), found


@lru_cache(_KEPT)
def _whole(text: bytes) -> bytes:
    """A text that may be replaced wherever it stands: JSON spells it as it is, and it is no part of a gap's name."""
    return text if _TEXT.fullmatch(text) and text not in _GAP_NAMES else _NOWHERE


@lru_cache(_KEPT)
def _compiled(form: str) -> tuple[str, Callable[[Any], tuple[Any, ...]], list[tuple[int, tuple[str, ...]]]]:
    """A form as a format for `%`; what takes the values out of a row, where there is a sum its first; and the sums."""
    parts = _GAP.split(form)
    gaps = [tuple(part.split("+")) for part in parts[1::2]]
    sums = [(place, gap[1:]) for place, gap in enumerate(gaps) if len(gap) > 1]
    # One name more, since with a single one it would give no tuple.
    take = itemgetter("record", *(gap[0] for gap in gaps))
    return "%.0s" + "%s".join(part.replace("%", "%%") for part in parts[::2]), take, sums


def unfold(row: Mapping[str, Any]) -> str | None:
    """The lines of a row's record, as they stood in its files, without the last end of line; None if it has none.

    Raises KeyError, TypeError for a row that `fold` has not made.
    """
    lines = []
    for name in FORMS:
        form = row.get(name)
        if form is None:
            continue
        text, take, sums = _compiled(form)
        values = take(row)
        if sums:
            whole = list(values)
            for place, names in sums:
                for one in names:
                    whole[place + 1] += row[one]
            values = tuple(whole)
        lines.append(text % values)
    return "\n".join(lines) if lines else row.get("events")


def unfolded(columns: Mapping[str, list[Any]]) -> list[str | None]:
    """`unfold` of rows that are given by column: `FOLDED_FROM` (those that there are) and `events`."""
    names = list(columns)
    return [unfold(dict(zip(names, values, strict=True))) for values in zip(*columns.values(), strict=True)]
