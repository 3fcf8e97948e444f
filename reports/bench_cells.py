"""A bench's records reduced to cells: one kernel on one workload, its repetitions beside each other, block by block."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proofcost.harness.decode import plain
from proofcost.harness.merged import Record, integer_at, text_at, value_at
from proofcost.reports import figures
from proofcost.reports.figures import Figure
from proofcost.reports.verdicts import FINISHED, Verdict, expected_of, is_control, verdict

Pick = Callable[[Record], Figure]

COMPARED_TO_FLOOR = 10
"""A wall below so many times the floor is mostly start-up: it is marked, and no ratio is made of it."""
BLOCKS_FOR_INTERVAL = 6
"""Fewer blocks give no interval of 95 %: 5 differences all lie on one side by chance in 1 of 16 cases."""

COMPARED_STATUSES = ("measured", "sampled", "derived")

ENDS = (Verdict.ACCEPTED, Verdict.REJECTED, Verdict.DECLINED, Verdict.AMBIGUOUS, Verdict.ERROR, Verdict.RAN)


@dataclass(frozen=True, slots=True)
class Key:
    """What repetitions have in common."""

    kernel: str
    work: str
    threads: int | None
    co_running: int


@dataclass(frozen=True, slots=True)
class Stratum:
    """What kernels are compared within. `threads` is what was asked for, whether a kernel takes it or not."""

    work: str
    threads: int | None
    co_running: int


@dataclass(slots=True)
class Cell:
    """All repetitions of one kernel on one workload; warm-ups and what was interrupted are left out."""

    key: Key
    records: list[Record] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    @property
    def control(self) -> bool:
        return is_control(self.records[0])

    @property
    def kernel_number(self) -> int:
        """Where the suite lists its kernel; the first is what the others are compared with."""
        return integer_at(self.records[0].started, "bench", "kernel_number") or 0

    @property
    def place(self) -> tuple[str, int, str]:
        """Where its workload stands among others."""
        work = value_at(self.records[0].started, "bench", "workload")
        return (text_at(work, "family") or self.key.work, integer_at(work, "n") or 0, self.key.work)

    @property
    def blocks(self) -> list[int]:
        """The blocks that its repetitions stand in."""
        known = (integer_at(record.started, "ids", "block") for record in self.records)
        return sorted({block for block in known if block is not None})

    @property
    def twin_of(self) -> str | None:
        found = text_at(self.records[0].started, "bench", "twin_of")
        return None if found is None else plain(found)

    @property
    def verdict(self) -> Verdict | None:
        """What every repetition came to; None where they differ."""
        return next(iter(self.verdicts)) if len(self.verdicts) == 1 else None

    @property
    def whole(self) -> bool:
        """Whether every repetition did the whole work, so that its cost can be compared."""
        return self.verdict in FINISHED

    def values(self, pick: Pick) -> list[int]:
        """A figure of each repetition that ended by itself; what was stopped has no cost of its own."""
        ended = [record for record in self.records if verdict(record) in ENDS]
        return list(_comparable(ended, pick).values())

    def median(self, pick: Pick) -> int | None:
        """The lower of two middle ones, as in every report: a figure that was measured."""
        values = self.values(pick)
        return statistics.median_low(values) if values else None

    def spread(self, pick: Pick) -> float | None:
        """The middle half's width as a share of the median; None for fewer than four values."""
        values = self.values(pick)
        if len(values) < 4 or not statistics.median_low(values):
            return None
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return (high - low) / statistics.median_low(values)

    def by_block(self, pick: Pick) -> dict[int, list[int]]:
        """{block: a figure of its repetitions}; blocks with a repetition that has none are left out."""
        values = _comparable([record for record in self.records if verdict(record) in FINISHED], pick)
        found: dict[int, list[int]] = {}
        broken: set[int] = set()
        for record in self.records:
            block = integer_at(record.started, "ids", "block")
            value = values.get(record.invocation)
            if block is None:
                continue
            if value:
                found.setdefault(block, []).append(value)
            else:
                broken.add(block)
        return {block: of_block for block, of_block in found.items() if block not in broken}


def _comparable(records: Iterable[Record], pick: Pick) -> dict[str, int]:
    """{invocation: value} of a figure that is no bound and contradicted by nothing, all of one and the same name."""
    shown = {record.invocation: pick(record).shown for record in records}
    known = {key: one for key, one in shown.items() if one is not None and one.status in COMPARED_STATUSES}
    names = Counter(one.name for one in known.values())
    usual = names.most_common(1)[0][0] if names else None
    return {key: one.value for key, one in known.items() if one.name == usual and one.value is not None}


@dataclass(frozen=True, slots=True)
class Ratio:
    """One cell's figure over another's, from the blocks that have both (statistics/paired.py: Hodges-Lehmann over
    blocks, and the signed rank's exact interval of at least 95 %; None for too few blocks)."""

    value: float
    blocks_count: int
    low: float | None
    high: float | None


def ratio(cell: Cell, base: Cell, pick: Pick) -> Ratio | None:
    """`cell` over `base`; None unless both did the same whole work in at least one block together. Needs numpy."""
    from proofcost.reports.statistics.paired import compare_blocks

    if not (cell.whole and base.whole and cell.verdict == base.verdict):
        return None
    mine, other = cell.by_block(pick), base.by_block(pick)
    shared = [(other[block], mine[block]) for block in sorted(mine.keys() & other.keys())]
    if not shared:
        return None
    found = compare_blocks(shared)
    return Ratio(found.ratio, len(shared), found.low, found.high)


def key_of(record: Record) -> Key:
    return Key(
        kernel=plain(text_at(record.started, "kernel", "name") or "?"),
        work=plain(text_at(record.started, "bench", "workload", "name") or "?"),
        threads=integer_at(record.started, "kernel", "threads_count"),
        co_running=integer_at(record.started, "bench", "co_running", "count") or 1,
    )


def is_bench(records: Sequence[Record]) -> bool:
    """Whether all of a session is a bench's."""
    return bool(records) and all(value_at(record.started, "bench") is not None for record in records)


def is_warmup(record: Record) -> bool:
    return value_at(record.started, "ids", "warmup") is True


def counted(records: Iterable[Record]) -> list[Record]:
    """The records of repetitions, in the plan's order: of each turn and slot the last that has an end of its own."""
    chosen: dict[tuple[int, int], Record] = {}
    for record in records:
        turn = integer_at(record.started, "bench", "turn")
        slot = integer_at(record.started, "bench", "co_running", "slot")
        if turn is None or slot is None or is_warmup(record):
            continue
        if verdict(record) in (Verdict.INCOMPLETE, Verdict.INTERRUPTED) and (turn, slot) in chosen:
            continue
        chosen[turn, slot] = record
    return [chosen[at] for at in sorted(chosen)]


def cells(records: Iterable[Record]) -> list[Cell]:
    """Cells by workload (a family's by size) and by kernel as the suite lists them.

    What never came to an end has none.
    """
    found: dict[Key, Cell] = {}
    for record in counted(records):
        said = verdict(record)
        if said in (Verdict.INCOMPLETE, Verdict.INTERRUPTED):
            continue
        cell = found.setdefault(key_of(record), Cell(key_of(record)))
        cell.records.append(record)
        cell.verdicts[said] += 1
    return sorted(found.values(), key=lambda cell: (cell.place, cell.kernel_number))


def by_stratum(found: Sequence[Cell]) -> Mapping[Stratum, list[Cell]]:
    """Cells that are compared with each other. One that takes no number of threads stands with those of its blocks."""
    strata: dict[Stratum, list[Cell]] = {}
    of_block = {block: cell.key.threads for cell in found if cell.key.threads is not None for block in cell.blocks}
    for cell in found:
        threads = cell.key.threads
        if threads is None:
            threads = next((of_block[block] for block in cell.blocks if block in of_block), None)
        strata.setdefault(Stratum(cell.key.work, threads, cell.key.co_running), []).append(cell)
    # In a shuffled plan the first record of a workload may be of any number.
    return dict(
        sorted(strata.items(), key=lambda one: (one[1][0].place, one[0].threads or 0, one[0].co_running)),
    )


def verdicts_by_work(records: Iterable[Record]) -> dict[str, tuple[dict[str, list[Verdict]], str | None]]:
    """{workload: ({kernel: what each run said}, the expected verdict)}, warm-ups included, controls left out."""
    found: dict[str, tuple[dict[str, list[Verdict]], str | None]] = {}
    for record in records:
        if is_control(record):
            continue
        key = key_of(record)
        said, _ = found.setdefault(key.work, ({}, expected_of(record)))
        said.setdefault(key.kernel, []).append(verdict(record))
    return found


WALL: Pick = figures.wall
CPU: Pick = figures.cpu
MEMORY: Pick = figures.memory
INSTRUCTIONS: Pick = figures.instructions
