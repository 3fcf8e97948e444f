"""How long the rest of a plan takes: what is known of the cells that have run, and what nobody can know.

A cell that has run is expected to take its median. One that has not is expected to take as long per byte as its kernel
took elsewhere, and no less than its kernel ever took. Of a kernel that has not run at all nothing is expected, and that
is said.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from proofcost.bench_suites.series import Limits, Turn

AROUND_NS = 3_000_000_000
"""What a turn takes beside its kernel's time limit, at most: the meter, a tree that dies slowly, awaiting its end."""


ELSEWHERE = "\0"
"""Before the name of a workload that is not the plan's: no name of one begins so."""


@dataclass(frozen=True, slots=True)
class Rest:
    """`expected_ns` is without the `unknown_count` turns of which nothing is known; `worst_ns` None: no bound."""

    turns_count: int
    expected_ns: int
    unknown_count: int
    guessed_count: int
    worst_ns: int | None


class Left:
    """Turns that are left, counted by cell; any turn of a cell stands for all of it."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.cells: dict[tuple[str, str, int | None, int], tuple[Turn, int]] = {}
        self.count = 0
        for turn in turns:
            self.count += 1
            self.cells[turn.cell] = (turn, self.cells.get(turn.cell, (turn, 0))[1] + 1)

    def take(self, turn: Turn) -> None:
        """One of them has run."""
        self.count -= 1
        one, count = self.cells[turn.cell]
        self.cells[turn.cell] = (one, count - 1)


@dataclass(slots=True)
class Expected:
    """What turns took so far, ns of wall by cell."""

    took: dict[tuple[str, str, int | None, int], list[int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, turn: Turn, took_ns: int) -> None:
        self.took.setdefault(turn.cell, []).append(took_ns)
        self.sizes[turn.work.name] = turn.work.size_bytes

    def add_elsewhere(self, turn: Turn, work: str, size_bytes: int, took_ns: int) -> None:
        """What a turn's kernel took on a workload that this plan lacks, told apart by `work`."""
        kernel, _, threads, co_running = turn.cell
        name = f"{ELSEWHERE}{work}"
        self.took.setdefault((kernel, name, threads, co_running), []).append(took_ns)
        self.sizes[name] = size_bytes

    def of(self, turn: Turn) -> tuple[int | None, bool]:
        """(ns, whether it is a guess from other cells); None when nothing is known."""
        took = self.took.get(turn.cell)
        if took:
            return round(statistics.median(took)), False
        kernel, _, threads, co_running = turn.cell
        alike = {
            cell: one for cell, one in self.took.items() if (cell[0], cell[2], cell[3]) == (kernel, threads, co_running)
        }
        alike = alike or {cell: one for cell, one in self.took.items() if cell[0] == kernel}
        if not alike:
            return None, True
        rates = [statistics.median(one) / max(1, self.sizes[cell[1]]) for cell, one in alike.items()]
        least = min(min(one) for one in alike.values())
        return max(least, round(statistics.median(rates) * turn.work.size_bytes)), True

    def rest(self, left: Left, limits: Limits) -> Rest:
        """What the turns that are left are expected to take, and take at most."""
        expected = unknown = guessed = turns = 0
        for turn, count in left.cells.values():
            turns += count
            one, guess = self.of(turn)
            if one is None:
                unknown += count
            else:
                expected += one * count
                guessed += count if guess else 0
        worst = None if limits.wall_ns is None else turns * (limits.wall_ns + AROUND_NS)
        return Rest(turns, expected, unknown, guessed, worst)


def duration(ns: int) -> str:
    """For people: `0.4 s`, `48 s`, `3 min 20 s`, `2 h 05 min`."""
    seconds = ns / 1e9
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def remaining(rest: Rest) -> str:
    """While it runs: `about 3 min 20 s left, at most 2 h 05 min`; of what is not known nothing is promised."""
    if rest.unknown_count == rest.turns_count:
        about = "time left not known yet"
    elif rest.unknown_count:
        about = f"{duration(rest.expected_ns)} left and {rest.unknown_count} unknown turns"
    else:
        about = f"about {duration(rest.expected_ns)} left"
    return about + (", no bound" if rest.worst_ns is None else f", at most {duration(rest.worst_ns)}")


def planned(rest: Rest, limits: Limits) -> list[str]:
    """Before it runs: what is expected, and apart from it the worst case, which is a bound and no estimate."""
    if rest.unknown_count == rest.turns_count:
        about = "not known: no run of these kernels in the store tells"
    elif rest.unknown_count:
        about = f"{duration(rest.expected_ns)} and what {rest.unknown_count} turns of which nothing is known take"
    else:
        about = f"about {duration(rest.expected_ns)}"
    if rest.guessed_count:
        about += f" ({rest.guessed_count} of {rest.turns_count} turns guessed by size from other exports)"
    if rest.worst_ns is None or limits.wall_ns is None:
        return [about, "no worst case: there is no wall limit"]
    return [about, f"if every turn ran into its time limit of {limit(limits.wall_ns)}: {duration(rest.worst_ns)}"]


def limit(ns: int) -> str:
    """A round limit without what is 0: `1 h`, `90 s`."""
    for name, unit_ns in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9)):
        if ns % unit_ns == 0:
            return f"{ns // unit_ns} {name}"
    return duration(ns)
