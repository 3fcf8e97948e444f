"""What is seen while a bench runs: on a terminal a line with the time that is left; elsewhere only what goes wrong."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from proofcost.bench_suites import sessions
from proofcost.bench_suites.conduct import Ended, Observer
from proofcost.bench_suites.expected import Expected, Left, duration, remaining
from proofcost.bench_suites.series import Limits, Turn
from proofcost.harness.merged import Record
from proofcost.reports.bench_table import found_troubles
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.verdicts import Verdict, verdict

REFRESH_MS = 1000
_LIBRARY = re.compile(r"[Ee]rror (?:while )?loading shared librar(?:ies|y):? ([^\s:]+)")
"""How glibc's and musl's loaders say it."""
LONG_NS = 2 * 10**9
"""A turn that has run for less needs no figure: the next look may be at another one."""
NAME_LEAST, CUT = 12, "..."
LOUD_MAX = 20
"""So many lines about single runs; of more, the table at the end tells."""
QUIET_ENDS = (Verdict.ACCEPTED, Verdict.REJECTED, Verdict.DECLINED, Verdict.RAN, Verdict.INTERRUPTED)


class Progress(Observer):
    """Follows a bench on stderr. A context manager."""

    def __init__(self, limits: Limits, turns: Sequence[Turn], place: str, session: str, expected: Expected) -> None:
        self._limits = limits
        self._left = Left(turns)
        self._count = len(turns)
        self._place, self._session = place, session
        self._expected = expected
        self._records: dict[str, list[Record]] = {}
        self._told: set[tuple[str, str]] = set()
        self._lines = 0
        self._turn: Turn | None = None
        self._began_ns = self._draw_after_ns = 0
        console = Console(stderr=True)
        self._console = console
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self.tick_ms = REFRESH_MS

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def begins(self, turn: Turn) -> None:
        self._turn, self._began_ns = turn, time.monotonic_ns()
        self._show()

    def waits(self) -> None:
        self._show()

    def ended(self, turn: Turn, cells: Sequence[Ended]) -> None:
        self._left.take(turn)
        self._expected.add(turn, time.monotonic_ns() - self._began_ns)
        for cell in cells:
            self._look_at(cell)

    def disturbed(self, turn: Turn, why: Sequence[str]) -> None:
        if not self._told_once("disturbed", ""):
            self._say(f"this host is not quiet ({'; '.join(why)}): runs are marked where it is not", "yellow")

    def _look_at(self, cell: Ended) -> None:
        where = f"{cell.turn.kernel.name} on {cell.turn.work.name}"
        if cell.fault is not None:
            # What starts the meter gets the kernel's environment, too.
            why = _why(cell) if _LIBRARY.search(cell.reason) else ""
            self._single(f"{where}: the meter failed: {cell.fault}{why}")
        if cell.invocation is None:
            return
        record = sessions.read_invocation(self._place, self._session, cell.invocation)
        if record is None:
            return
        said_now = verdict(record)
        if said_now not in QUIET_ENDS and not self._told_once(where, said_now.value):
            self._single(f"{where}: {said_now.value} ({_how(record)}){_why(cell)}; proofcost show {cell.invocation}")
        alike = self._records.setdefault(cell.turn.work.name, [])
        if all((verdict(one), one.kernel) != (said_now, record.kernel) for one in alike):
            alike.append(record)
            for work, trouble, line in found_troubles(alike):
                if not self._told_once(work, f"{trouble.value} {line}"):
                    told = inert_outside(f"{work}: {line}", 400, True)
                    self._say(f"VERDICTS: {trouble.value.upper()}: {told}", "bold red")

    def _told_once(self, what: str, how: str) -> bool:
        """Whether this was told before; from now on it was."""
        if (what, how) in self._told:
            return True
        self._told.add((what, how))
        return False

    def _single(self, line: str) -> None:
        self._lines += 1
        if self._lines <= LOUD_MAX:
            self._say(line, "yellow")
        elif self._lines == LOUD_MAX + 1:
            self._say("further runs that did not end well are told in the table only", "yellow")

    def _say(self, line: str, style: str) -> None:
        if self._live is None:
            print(f"proofcost: bench: {line}", file=sys.stderr, flush=True)
        else:
            self._console.print(Text(f"proofcost: bench: {line}", style=style), highlight=False, soft_wrap=True)

    def _show(self) -> None:
        """Draw the line, at most once a second: drawing is work on a host that should be quiet."""
        if self._live is None or self._turn is None or time.monotonic_ns() < self._draw_after_ns:
            return
        self._draw_after_ns = time.monotonic_ns() + REFRESH_MS * 1_000_000
        turn = self._turn
        number = f"{self._count - self._left.count + 1}/{self._count} "
        since = time.monotonic_ns() - self._began_ns
        rest = f" for {duration(since)}; " if since >= LONG_NS else "; "
        rest += remaining(self._expected.rest(self._left, self._limits))
        text = line(number, f"{turn.kernel.name} on {turn.work.name}", rest, self._console.width)
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)


def line(number: str, name: str, rest: str, width: int) -> str:
    """One line of `width` columns: the name is shortened in its middle where it must be, and nothing else."""
    room = max(NAME_LEAST, width - len(number) - len(rest) - 1)
    name = inert_outside(name, None, True)
    if len(name) > room:
        kept = room - len(CUT)
        name = name[: kept - kept // 2] + CUT + name[len(name) - kept // 2 :]
    return number + name + rest


def _why(cell: Ended) -> str:
    """What the kernel's own output tells of it; of a library that its environment would have led to, the cure."""
    reason = inert_outside(cell.reason, 160, True)
    lacks = _LIBRARY.search(cell.reason)
    if lacks is not None:
        return (
            f": it could not start: the shared library {inert_outside(lacks[1], 80, True)} is not found. Kernels get a "
            "small environment, not yours (docs/bench.md); name what it needs: --env LD_LIBRARY_PATH=FOLDER"
        )
    return f": {reason}" if reason else ""


def _how(record: Record) -> str:
    outcome = record.outcome or {}
    evidence = outcome.get("evidence")
    words = [one for one in evidence if isinstance(one, str)] if isinstance(evidence, list) else []
    return inert("; ".join(words), 200, True)
