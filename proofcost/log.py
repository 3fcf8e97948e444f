"""`proofcost log`: the newest sessions, one a line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from proofcost import sessions
from proofcost.harness.derive import whole_of
from proofcost.harness.merged import Record
from proofcost.harness.reading import Store
from proofcost.harness.record import escape_text
from proofcost.harness.running import MeterState
from proofcost.output import DONE, FAILED
from proofcost.reports.figures import wall
from proofcost.reports.findings import cannot_be_read, found_object, nothing_here, problem_lines, with_marks
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.outcome import outcome_text
from proofcost.reports.printing import Row, full_width, is_ascii, is_narrow, table_of, write
from proofcost.reports.session import calls_outcome, calls_span_ns, failed, judge_short, labels_of
from proofcost.reports.table import judge_text
from proofcost.reports.units import human, plural, when
from proofcost.sealed import Sealed, sealed
from proofcost.show import USAGE, UsageError, add_reading, choose_store, warn

DEFAULT_COUNT = 20
MAX_COUNT = 999_999_999

SPAN = "~: from the first call's start to the last one's end, as no `proofcost run` measured the whole"

COLUMNS = ("session", "started", "judge", "labels", "calls", "wall", "outcome")
"""`labels` only where one of the sessions has any."""
LEAST = {"judge": 10, "labels": 10, "calls": 10, "outcome": 10}
"""Least widths of the columns that are folded on a terminal."""
LOOKED_AT_FIRST = 200
"""So many sessions are read at once where few may fit what is asked for; eight times as many each time after."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `log` to the command line."""
    parser = subparsers.add_parser("log", help="sessions measured, newest first", description="Sessions, newest first.")
    parser.add_argument("path", nargs="?", metavar="PATH", help="the same as --store PATH")
    parser.add_argument("-n", type=count, default=DEFAULT_COUNT, metavar="N", help=f"so many (default {DEFAULT_COUNT})")
    parser.add_argument(
        "-l", "--label", action="append", default=[], metavar="K=V", help="those with this label; of several, all"
    )
    parser.add_argument("--kernel", metavar="NAME", help="those in which this kernel checked")
    parser.add_argument(
        "--failed", action="store_true", help="those that did not end with exit 0 (without `run`: one of whose calls)"
    )
    add_reading(parser, "the sessions as JSON, with the ids of their calls, integers exact")
    parser.set_defaults(run=main)


def count(text: str) -> int:
    """A number of sessions from 1 up. Raises ArgumentTypeError."""
    digits = text.lstrip("0") if text.isascii() and text.isdecimal() else ""
    if not digits:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of sessions: give 1 or more")
    if len(digits) > len(str(MAX_COUNT)):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is too large: give {MAX_COUNT} at most")
    return int(digits)


def phases(records: Sequence[Record]) -> dict[str, int]:
    """Calls by phase, in order of first appearance; the judge's own record is no call."""
    return dict(Counter(record.phase for record in records if record.phase_understood != "whole"))


def _row(session: str, records: Sequence[Record], console: Console) -> Row:
    ascii_only = is_ascii(console)
    whole = whole_of(records)
    found = wall(whole).shown if whole is not None else None
    missing = "-" if ascii_only else "\u2013"
    if whole is None:
        span, ended = calls_span_ns(records), calls_outcome(records)
        duration = missing if span is None else f"~{human(span, 'ns', ascii_only)}"
    else:
        ended = outcome_text(whole)
        duration = missing if found is None or found.value is None else human(found.value, found.unit, ascii_only)
    calls = ", ".join(f"{inert(phase, 20, ascii_only)} {number}" for phase, number in phases(records).items())
    pending = [record.meter for record in records if record is not whole and record.state == "incomplete"]
    running = pending.count(MeterState.RUNNING)
    cut_off = sum(record.cut_off_ns is not None for record in records)
    states = {"running": running, "cut off": cut_off, "incomplete": len(pending) - running - cut_off}
    said = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    calls += f" ({said})" if said else ""
    cells = [
        inert(session, 16, ascii_only),
        when(records[0].started_at_ns, zone=not is_narrow(console)),
        judge_short(records, ascii_only),
        " ".join(
            f"{inert(key, 20, ascii_only)}={inert(text, 30, ascii_only)}" for key, text in labels_of(records).items()
        ),
        calls or "none",
        duration,
        missing if ended is None else inert(ended, 60, ascii_only),
    ]
    return Row(cells)


def _object(session: str, records: Sequence[Record], seal: Sealed) -> dict[str, Any]:
    whole = whole_of(records)
    found = wall(whole).shown if whole is not None else None
    return {
        "session": session,
        "started_at_ns": records[0].started_at_ns,
        "judge": judge_text(records, ascii_only=True, limit=4096),
        "labels": labels_of(records),
        "calls": phases(records),
        "incomplete": [record.invocation for record in records if record.state == "incomplete"],
        "running": [record.invocation for record in records if record.meter is MeterState.RUNNING],
        "invocations": [record.invocation for record in records],
        "whole_wall_ns": None if found is None else found.value,
        "whole_wall_reason": "no `whole` record: not started by `proofcost run`" if found is None else found.reason,
        "whole_outcome": None if whole is None else whole.outcome,
        "calls_span_ns": calls_span_ns(records),
        "calls_outcome": calls_outcome(records),
        "seal": seal.as_json(),
    }


def _print(rows: Sequence[Row], console: Console) -> None:
    shown = [at for at, name in enumerate(COLUMNS) if name != "labels" or any(row.cells[at] for row in rows)]
    names = [COLUMNS[at] for at in shown]
    wall_at = names.index("wall")
    rows = [replace(row, cells=[row.cells[at] for at in shown]) for row in rows]
    least = {at: LEAST[name] for at, name in enumerate(names) if name in LEAST}
    with full_width(console):
        write(console, table_of(console, names, rows, right=(wall_at,), least=least, unbroken=(0,)))
        if any(row.cells[wall_at].startswith("~") for row in rows):
            write(console, Text(f"\n{SPAN}", style="dim"))


def _wanted(args: argparse.Namespace) -> Callable[[Sequence[Record]], bool] | None:
    """Whether a session is one of those asked for; None where all are. Raises UsageError."""
    labels: dict[str, str] = {}
    for word in args.label:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"log --label {word[:60]!a}: not of the form KEY=VALUE; write for example -l ticket=42")
        if labels.setdefault(escape_text(key), escape_text(text)) != escape_text(text):
            raise UsageError(f"log --label {key[:60]!a}: two values are asked for, and a session has one; give one")
    kernel = None if args.kernel is None else escape_text(args.kernel)
    if not labels and kernel is None and not args.failed:
        return None

    def fits(records: Sequence[Record]) -> bool:
        return (
            labels.items() <= labels_of(records).items()
            and (kernel is None or any(record.kernel == kernel for record in records))
            and (not args.failed or failed(records))
        )

    return fits


def _read(
    path: str, count: int, fits: Callable[[Sequence[Record]], bool] | None
) -> tuple[Store, list[tuple[str, tuple[Record, ...]]]]:
    """What was read of the store, and its sessions that fit, newest first: `count` of them if there are so many."""
    looked_at = count if fits is None else max(count, LOOKED_AT_FIRST)
    while True:
        store = sessions.newest(path, looked_at)
        newest = [one for one in reversed(store.sessions().items()) if fits is None or fits(one[1])]
        if fits is None or len(newest) >= count or not store.unread_sessions:
            return store, newest
        looked_at *= 8


def main(args: argparse.Namespace) -> int:
    """Print the newest sessions.

    Exit status: 0 done (also when there are none), 1 what is there cannot be read or is not as it was sealed, or output
    not written, 2 usage.
    """
    try:
        return _log(args)
    except (UsageError, sessions.CopiesError) as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE


def _log(args: argparse.Namespace) -> int:
    if args.path is not None and args.store is not None:
        raise UsageError(f"log {args.path!a} --store {args.store!a}: two stores are named; give one of them")
    path, how = choose_store(args.path if args.path is not None else args.store, os.environ, os.geteuid())
    fits = _wanted(args)
    store, newest = _read(path, args.n, fits)
    total = len(store.sessions()) + len(store.unread_sessions)
    chosen = newest[: args.n]
    if chosen:
        store = with_marks(store, chosen[-1][1][0].started_at_ns, None)
    warn(problem_lines(store))
    seals = {session: sealed(records) for session, records in chosen}
    for session, seal in seals.items():
        warn([f"warning: session {inert_outside(session, 80, True)}: {line}" for line in seal.broken()])
    status = FAILED if any(seal.problems for seal in seals.values()) else DONE
    if args.json:
        objects = [_object(session, records, seals[session]) for session, records in chosen]
        print(json.dumps({**found_object(store), "sessions_count": total, "sessions": objects}, indent=1))
    if not total:
        warn(nothing_here(store, how, os.environ, os.geteuid()))
        return FAILED if cannot_be_read(store) else DONE
    if args.json:
        return status
    console = Console()
    if not chosen:
        warn([f"none of {plural(total, 'session')} is such a one"])
        return status
    _print([_row(session, records, console) for session, records in chosen], console)
    if fits is not None:
        if len(newest) > args.n or store.unread_sessions:
            warn(["older sessions may be such ones, too: a larger -n shows more"])
    elif total > args.n:
        warn([f"{plural(total - args.n, 'older session')} not shown: -n {total} shows all"])
    return status
