"""What each file of somebody's list of grades cost: seconds, peak memory, and a time limit, joined by SHA-256.

The list is CSV with a head line. The column with the digests is `sha256` (or a name that ends in it, or `digest`), else
the only one whose every entry is 64 hexadecimal digits. A file is met by the digest of the input that was checked, or
where the subject is a digest (of a solution's source) by that.

The limit is one that a further run surely (95 %) keeps to in 95 % of cases: the file's median wall times what other
runs took over the median of their own file's other runs. It assumes that files are alike in that ratio; with fewer than
59 such runs in the cohort there is no promise, and none is made.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from proofcost.reports.document import Column, Entry, Missing, Table
from proofcost.reports.inert import inert_outside
from proofcost.reports.metric_key import metric_key
from proofcost.reports.metrics import Metric
from proofcost.reports.statistics.safe_limit import Limit, limit_for
from proofcost.reports.submissions import Cohort, Slot

MAX_BYTES = 256 << 20
TARGET = 0.05
"""Share of runs that may exceed the advised limit."""
LEAST_RUNS = 3
"""Of a file, for its runs to be held against each other."""
_DIGEST = re.compile(r"\s*(?:sha256:)?([0-9a-fA-F]{64})\s*")
_HEAD = re.compile(r"(.*[_ -])?(sha-?256(sum)?|digest)", re.IGNORECASE)


class GradesError(Exception):
    """A list of grades that cannot be joined. One line: which, why, and what would do."""


@dataclass(frozen=True, slots=True)
class Grades:
    """The list, as it was given."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    digests: tuple[str | None, ...]
    """Of each row; None where it has none."""
    column: str


def read_grades(path: Path, column: str | None = None) -> Grades:
    """Read a list. `column`: the one with the digests. Raises GradesError."""
    name = inert_outside(str(path), 200, True)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise GradesError(f"--beside {name}: {error.strerror}; give a CSV file with a head line") from None
    if len(raw) > MAX_BYTES:
        raise GradesError(f"--beside {name}: larger than {MAX_BYTES >> 20} MiB")
    text = raw.decode("utf-8-sig", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    lines = text.splitlines(keepends=True)
    first = lines[0] if lines else ""
    comma = max(",;\t", key=first.count)
    try:
        table = [tuple(row) for row in csv.reader(lines, delimiter=comma) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise GradesError(f"--beside {name}: no CSV: {error}") from None
    if len(table) < 2:
        raise GradesError(
            f"--beside {name}: holds {'a head line only' if table else 'nothing'}; one line a file is needed"
        )
    head = tuple(cell.strip() or f"column {at}" for at, cell in enumerate(table[0], 1))
    for number, row in enumerate(table[1:], 2):
        if len(row) != len(head):
            raise GradesError(
                f"--beside {name}: row {number} has {len(row)} entries, the head line {len(head)}; put text with "
                f"{comma!r} in it into double quotes"
            )
    rows = tuple(table[1:])
    at = _column(name, head, rows, column)
    digests = tuple(match[1].lower() if (match := _DIGEST.fullmatch(row[at])) else None for row in rows)
    return Grades(head, rows, digests, head[at])


def _column(name: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], asked: str | None) -> int:
    """Which column has the digests."""
    shown = ", ".join(inert_outside(one, 40, True) for one in head[:12])
    if asked is not None:
        if asked not in head:
            raise GradesError(
                f"--beside-column {inert_outside(asked, 60, True)!r}: {name} has no such column, but {shown}"
            )
        return head.index(asked)
    hold = [
        at
        for at in range(len(head))
        if any(row[at].strip() for row in rows) and all(_DIGEST.fullmatch(row[at]) for row in rows if row[at].strip())
    ]
    named = [at for at in hold if _HEAD.fullmatch(head[at])] or hold
    if len(named) > 1:
        exact = [at for at in named if head[at].lower() == "sha256"]
        named = exact if len(exact) == 1 else named
    if len(named) == 1:
        return named[0]
    if not named:
        raise GradesError(
            f"--beside {name}: no column holds SHA-256 digests (64 hexadecimal digits); it has {shown}; add a column "
            "sha256, or name it with --beside-column"
        )
    two = " and ".join(inert_outside(head[at], 40, True) for at in named[:2])
    raise GradesError(f"--beside {name}: {two} both hold digests; choose with --beside-column")


def joined(grades: Grades, cohort: Cohort) -> tuple[Table, str]:
    """The list with costs beside it, and how many of its files were met."""
    by_digest: dict[str, list[Slot]] = {}
    for slot in cohort.slots:
        for text in {slot.digest, slot.submission}:
            match = _DIGEST.fullmatch(text) if text else None
            if match:
                by_digest.setdefault(match[1].lower(), []).append(slot)
    wall = next((figure for figure in cohort.figures if figure.group == "wall"), None)
    memory = next((figure for figure in cohort.figures if figure.group == "memory"), None)
    reach = None if wall is None else reach_of(cohort, wall)
    rows: list[Sequence[Entry]] = []
    met = 0
    for row, digest in zip(grades.rows, grades.digests, strict=True):
        slots = by_digest.get(digest, []) if digest else []
        met += bool(slots)
        if not slots:
            why = Missing("no digest stands there" if digest is None else "no run of a file with this digest")
            rows.append([*row, why, why, why, 0])
            continue
        seconds = _median(slots, wall)
        limit: Entry = Missing("no wall was measured") if wall is None else _limit(slots, wall, reach)
        rows.append([*row, seconds, _peak(slots, memory), limit, sum(slot.ends.total() for slot in slots)])
    taken = set(grades.head)
    columns = [Column(_free(f"given_{at}", set()), title) for at, title in enumerate(grades.head, 1)]
    columns += [
        Column("wall", _free("wall", taken), "ns"),
        Column("memory_peak", _free("peak memory", taken), "bytes"),
        Column("time_limit", _free("advised time limit", taken), "ns", "time limit"),
        Column("runs", _free("runs", taken), "count"),
    ]
    said = f"{met} of {len(grades.rows)} files of the list were measured (joined by {inert_outside(grades.column, 60)})"
    key = f"grades_{cohort.name}" if cohort.name else "grades"
    notes = [
        said,
        "wall: median; peak memory: the largest seen; the limit is one that 95 % of further runs keep to, surely "
        "(95 %), if files are alike in how far their runs scatter",
    ]
    return Table(key, "Beside the grades", columns, rows, notes), said


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else f"measured {name}"


def _values(slots: Sequence[Slot], figure: Metric | None) -> list[int]:
    return [] if figure is None else [value for slot in slots for value in slot.costs.get(metric_key(figure), ())]


def _median(slots: Sequence[Slot], figure: Metric | None) -> Entry:
    values = _values(slots, figure)
    return median(values) if values else Missing(_why(slots))


def _peak(slots: Sequence[Slot], figure: Metric | None) -> Entry:
    values = _values(slots, figure)
    return max(values) if values else Missing(_why(slots))


def _why(slots: Sequence[Slot]) -> str:
    return f"no run with this figure came to an end of its own ({'; '.join(sorted({slot.said for slot in slots}))})"


def reach_of(cohort: Cohort, wall: Metric) -> Limit:
    """How far a run goes beyond the median of its file's other runs: the limit of that ratio. Runs that a limit cut off
    count as having reached at least that."""
    ratios: list[float] = []
    cut: list[bool] = []
    for slot in cohort.slots:
        values, bounds = slot.costs.get(metric_key(wall), ()), slot.bounds.get(metric_key(wall), ())
        if len(values) < LEAST_RUNS:
            continue
        for at, value in enumerate(values):
            ratios.append(value / median(values[:at] + values[at + 1 :]))
            cut.append(False)
        ratios += [bound / median(values) for bound in bounds]
        cut += [True] * len(bounds)
    return limit_for(ratios, cut, TARGET)


def _limit(slots: Sequence[Slot], wall: Metric, reach: Limit | None) -> Entry:
    values = _values(slots, wall)
    if not values:
        return Missing(_why(slots))
    if reach is None or reach.amount is None:
        runs = 0 if reach is None else reach.runs
        why = "" if reach is None else reach.evidence.value
        return Missing(
            f"{why}: {runs} runs of files with {LEAST_RUNS} or more; {reach.floor if reach else 59} are needed"
        )
    return median(values) * max(1.0, reach.amount)
