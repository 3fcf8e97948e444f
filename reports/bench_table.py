"""A bench for people: medians, spread and ratios by workload, and before all that what kernels disagree about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from proofcost.harness.merged import Record, integer_at, value_at
from proofcost.reports.bench_cells import (
    BLOCKS_FOR_INTERVAL,
    COMPARED_TO_FLOOR,
    CPU,
    MEMORY,
    WALL,
    Cell,
    Ratio,
    Stratum,
    by_stratum,
    cells,
    counted,
    ratio,
    verdicts_by_work,
)
from proofcost.reports.inert import inert_outside
from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write, write_note
from proofcost.reports.units import human, plural
from proofcost.reports.verdicts import Trouble, troubles

COLUMNS = ("workload", "kernel", "n", "wall", "spread", "CPU", "memory", "ratio", "verdict")
RIGHT = (2, 3, 4, 5, 6, 7)
LEAST = {0: 12, 1: 8, 8: 10}
NAME_SHOWN = 48


def found_troubles(records: Iterable[Record]) -> list[tuple[str, Trouble, str]]:
    """(workload, kind, who said what) of every verdict that is not as it should be."""
    return [
        (work, trouble, line)
        for work, (said, expected) in verdicts_by_work(records).items()
        for trouble, line in troubles(said, expected)
    ]


def render(records: Sequence[Record], console: Console, floor_ns: int | None = None, floor_from: str = "") -> None:
    """Print the table of one bench. `floor_ns`: what a run costs at least here, where that is known, and from where."""
    ascii_only = is_ascii(console)
    found = cells(records)
    with full_width(console):
        table = _Table(found, floor_ns, ascii_only)
        rows = [row for stratum, group in by_stratum(found).items() for row in table.rows(stratum, group)]
        write(console, table_of(console, COLUMNS, rows, right=RIGHT, least=LEAST))
        write(console, Text(""))
        for line in table.notes(records, floor_from):
            write_note(console, line)
        shout(records, console)


class _Table:
    def __init__(self, found: Sequence[Cell], floor_ns: int | None, ascii_only: bool) -> None:
        self.floor_ns = floor_ns
        self.ascii_only = ascii_only
        self.dash = "-" if ascii_only else "\u2013"
        self.strata = by_stratum(found)
        self.several_threads = len({cell.key.threads for cell in found} - {None}) > 1
        self.several_at_once = len({cell.key.co_running for cell in found}) > 1
        self.ratios: dict[tuple[str, str], list[Ratio]] = {}
        self.twins = {cell.key.kernel for cell in found if cell.twin_of is not None}
        self.below_floor = False
        self.lacks: str | None = None
        self.without_interval = False
        self.unlike = False
        self.cell_count = len(found)

    def rows(self, stratum: Stratum, group: Sequence[Cell]) -> list[Row]:
        base = next((cell for cell in group if not cell.control), None)
        name = inert_outside(stratum.work, NAME_SHOWN, self.ascii_only)
        if self.several_threads and stratum.threads is not None:
            name += f" ({plural(stratum.threads, 'thread')})"
        if self.several_at_once:
            name += f" ({stratum.co_running} at once)"
        return [
            Row([name if at == 0 else "", *self._cells(cell, base)], section=at == len(group) - 1)
            for at, cell in enumerate(group)
        ]

    def _cells(self, cell: Cell, base: Cell | None) -> list[str]:
        wall, spread = cell.median(WALL), cell.spread(WALL)
        small = wall is not None and self.floor_ns is not None and wall < COMPARED_TO_FLOOR * self.floor_ns
        self.below_floor = self.below_floor or small
        return [
            inert_outside(cell.key.kernel, NAME_SHOWN, self.ascii_only),
            str(len(cell.values(WALL))),
            self.dash if wall is None else human(wall, "ns", self.ascii_only) + ("*" if small else ""),
            self.dash if spread is None else f"{100 * spread:.1f} %",
            self._median(cell, "ns"),
            self._median(cell, "bytes"),
            self._ratio(cell, base, small),
            _verdict_text(cell),
        ]

    def _median(self, cell: Cell, unit: str) -> str:
        value = cell.median(CPU if unit == "ns" else MEMORY)
        return self.dash if value is None else human(value, unit, self.ascii_only)

    def _ratio(self, cell: Cell, base: Cell | None, small: bool) -> str:
        if base is None or cell.control:
            return self.dash
        if cell is base:
            return "1"
        if self._is_small(base) or small:
            return self.dash
        try:
            found = ratio(cell, base, WALL)
        except ModuleNotFoundError as error:
            self.lacks = error.name
            return self.dash
        if found is None:
            self.unlike = True
            return self.dash
        if found.low is None:
            self.without_interval = True
        self.ratios.setdefault((cell.key.kernel, base.key.kernel), []).append(found)
        return ratio_text(found)

    def _is_small(self, cell: Cell) -> bool:
        wall = cell.median(WALL)
        return wall is not None and self.floor_ns is not None and wall < COMPARED_TO_FLOOR * self.floor_ns

    def notes(self, records: Sequence[Record], floor_from: str) -> list[str]:
        lines = [
            "n: repetitions that ended by themselves; wall, CPU, memory: their medians; spread: of the middle half of "
            "the walls, as a share of the median",
        ]
        for (kernel, base), ratios in self.ratios.items():
            name = " / ".join(inert_outside(one, NAME_SHOWN, self.ascii_only) for one in (kernel, base))
            mean = math.exp(math.fsum(math.log(one.value) for one in ratios) / len(ratios))
            over = f"geometric mean of the ratios of {plural(len(ratios), 'workload')}: {mean:.3f}"
            if kernel in self.twins:
                bounded = [one for one in ratios if one.low is not None and one.high is not None]
                outside = sum(not (one.low or 0) <= 1 <= (one.high or 0) for one in bounded)
                lines.append(
                    f"A/A, {name}: {over}; the interval leaves 1 out in {outside} of {len(bounded)}: so much does this "
                    "host show where there is no difference"
                )
            elif len(ratios) > 1:
                lines.append(f"{name}: {over}")
        if self.ratios:
            lines.append(
                "ratio: of walls, to the first kernel, block by block (Hodges-Lehmann) [exact interval of at least "
                "95 %]; what it means is for `proofcost compare` to say"
            )
        if self.lacks is not None:
            lines.append(f"no ratios: {self.lacks} is not here: pip install '.[bench]' in a checkout of proofcost")
        if self.without_interval:
            lines.append(f"no interval: fewer than {BLOCKS_FOR_INTERVAL} blocks")
        if self.unlike:
            lines.append("no ratio: they did not both do the same whole work, in every repetition and with one verdict")
        if self.below_floor and self.floor_ns is not None:
            floor = human(self.floor_ns, "ns", self.ascii_only)
            lines.append(
                f"*: less than {COMPARED_TO_FLOOR} times the floor of {floor} ({floor_from}): mostly start-up, so no "
                "ratio is made of it"
            )
        if self.floor_ns is None:
            lines.append("the floor of this host is not known: proofcost bench calibration measures it")
        return lines + _torn_lines(records) + _disturbance_lines(records)


def ratio_text(found: Ratio) -> str:
    """`0.831 [0.820 .. 0.847]`."""
    if found.low is None or found.high is None:
        return f"{found.value:.3f}"
    return f"{found.value:.3f} [{found.low:.3f} .. {found.high:.3f}]"


def _verdict_text(cell: Cell) -> str:
    if len(cell.verdicts) == 1:
        return next(iter(cell.verdicts)).value
    return ", ".join(f"{count} {one.value}" for one, count in cell.verdicts.most_common())


def _torn_lines(records: Sequence[Record]) -> list[str]:
    parts: dict[int, set[int | None]] = {}
    for record in counted(records):
        block = integer_at(record.started, "ids", "block")
        if block is not None:
            parts.setdefault(block, set()).add(integer_at(record.started, "bench", "part"))
    torn = sum(len(seen) > 1 for seen in parts.values())
    if not torn:
        return []
    return [
        f"{torn} of {plural(len(parts), 'block')} torn by an interruption: their turns are not close together in time"
    ]


def _disturbance_lines(records: Sequence[Record]) -> list[str]:
    told: Counter[str] = Counter()
    marked = 0
    all_of = counted(records)
    for record in all_of:
        why = value_at(record.started, "bench", "disturbances")
        if isinstance(why, list) and why:
            marked += 1
            told.update(text.partition(":")[0] for text in why if isinstance(text, str))
    if not marked:
        return []
    reasons = ", ".join(inert_outside(reason, 80, True) for reason, _ in told.most_common(4))
    return [f"{marked} of {plural(len(all_of), 'repetition')} began on a host that was not quiet ({reasons})"]


def shout(records: Iterable[Record], console: Console) -> None:
    """Print whatever is wrong with the verdicts, as loud as a terminal can."""
    found, ascii_only = found_troubles(records), is_ascii(console)
    if not found:
        return
    write(console, Text(""))
    rank = list(Trouble)
    head = Text(f"VERDICTS: {plural(len({work for work, _, _ in found}), 'workload')} where something is wrong")
    head.stylize("bold red")
    write(console, head)
    for work, trouble, line in sorted(found, key=lambda one: rank.index(one[1])):
        text = Text(f"  {trouble.value.upper()}: {inert_outside(f'{work}: {line}', 400, ascii_only)}")
        if trouble in (Trouble.DISAGREE, Trouble.CHANGES):
            text.stylize("bold red")
        write(console, text)


def is_finding(records: Iterable[Record]) -> bool:
    """Whether any verdict is not as it should be."""
    return bool(found_troubles(records))
