"""`proofcost log`: the newest sessions, one a line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from proofcost import sessions
from proofcost.harness.derive import whole_of
from proofcost.harness.merged import Record
from proofcost.harness.running import MeterState
from proofcost.output import DONE, FAILED
from proofcost.reports.figures import wall
from proofcost.reports.findings import cannot_be_read, found_object, nothing_here, problem_lines, with_marks
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.outcome import outcome_text
from proofcost.reports.printing import Row, full_width, is_ascii, is_narrow, table_of, write
from proofcost.reports.session import calls_outcome, calls_span_ns
from proofcost.reports.table import judge_text
from proofcost.reports.units import human, plural, when
from proofcost.sealed import Sealed, sealed
from proofcost.show import USAGE, UsageError, add_reading, choose_store, warn

DEFAULT_COUNT = 20
MAX_COUNT = 999_999_999

SPAN = "~: from the first call's start to the last one's end, as no `proofcost run` measured the whole"

COLUMNS = ("session", "started", "judge", "calls", "wall", "outcome")
LEAST = {2: 10, 3: 10, 5: 10}
"""Least widths of the columns that are folded on a terminal."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `log` to the command line."""
    parser = subparsers.add_parser("log", help="sessions measured, newest first", description="Sessions, newest first.")
    parser.add_argument("path", nargs="?", metavar="PATH", help="the same as --store PATH")
    parser.add_argument("-n", type=count, default=DEFAULT_COUNT, metavar="N", help=f"so many (default {DEFAULT_COUNT})")
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
        judge_text(records, ascii_only, 40),
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
        "labels": whole.labels if whole is not None else records[0].labels,
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
    store = sessions.newest(path, args.n)
    newest = list(reversed(store.sessions().items()))
    total = len(newest) + len(store.unread_sessions)
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
    if not newest:
        warn(nothing_here(store, how, os.environ, os.geteuid()))
        return FAILED if cannot_be_read(store) else DONE
    if args.json:
        return status
    console = Console()
    rows = [_row(session, records, console) for session, records in chosen]
    with full_width(console):
        write(console, table_of(console, COLUMNS, rows, right=(4,), least=LEAST, unbroken=(0,)))
        if any(row.cells[4].startswith("~") for row in rows):
            write(console, Text(f"\n{SPAN}", style="dim"))
    if total > args.n:
        warn([f"{plural(total - args.n, 'older session')} not shown: -n {total} shows all"])
    return status
