"""`proofcost show [ID|last]`: the table of a session, or one invocation in short; every field with `--all`."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from proofcost import sessions
from proofcost.harness.derive import calls_of
from proofcost.harness.merged import Record
from proofcost.harness.reading import Store
from proofcost.harness.store import default_place
from proofcost.output import DONE, FAILED, settled
from proofcost.reports import brief
from proofcost.reports.bench_cells import is_bench
from proofcost.reports.fields import render_invocation
from proofcost.reports.findings import (
    cannot_be_read,
    found_object,
    merged_objects,
    nothing_here,
    problem_lines,
    with_marks,
)
from proofcost.reports.inert import inert_outside
from proofcost.reports.session import ended_at_ns
from proofcost.reports.table import render
from proofcost.reports.units import plural
from proofcost.sealed import Sealed, sealed

USAGE = 2
SEAL_KEY_MAX_BYTES = 4096

MAX_MATCHES = 10
"""So many ids are listed for an ambiguous one."""

MARKS_AROUND_NS = 60 * 10**9
"""Marks so long before a session's start and after its end are told with it."""

_NUMBERED = re.compile(r"(.+)\.([0-9]{1,6})", re.DOTALL)
"""A session and the number of one of its calls."""


class UsageError(Exception):
    """What the user asked for cannot be done; the message says what, where, which value and how to mend it."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `show` to the command line."""
    parser = subparsers.add_parser(
        "show",
        help="what a session or one call cost",
        description="What a session, or one call of it, cost: as a table, or with -o as a file.",
    )
    parser.add_argument(
        "id",
        nargs="?",
        default="last",
        metavar="ID",
        help="beginning of a session's or call's id, or `last` (default); "
        "with .N behind a session: its Nth call (`last.3`), as the table numbers them",
    )
    parser.add_argument("--all", action="store_true", help="every field of the call, or of every call of the session")
    parser.add_argument("--seal-key", metavar="FILE", help="check the signature of a sealed session with this key")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write a file instead: FILE.svg, the phases over time with the memory line under its limit; or "
        "FILE.perfetto-trace, all that was sampled, for ui.perfetto.dev",
    )
    add_reading(parser)
    parser.set_defaults(run=main)


def add_reading(parser: argparse.ArgumentParser, as_json: str = "the merged records as JSON, integers exact") -> None:
    """The options of whatever reads a store. `as_json`: what `--json` prints."""
    parser.add_argument(
        "--store", metavar="PATH", help="store, session folder or .jsonl file (default: $PROOFCOST_STORE, else yours)"
    )
    parser.add_argument("--json", action="store_true", help=as_json)


def choose_store(named: str | None, env: Mapping[str, str], uid: int) -> tuple[str, str]:
    """The path to read, and how it was chosen, for people. Raises UsageError when a named path does not exist.

    Without a name it is where `run` and `install` write with this environment and (effective) user.
    """
    if named is not None:
        try:
            os.lstat(named)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return named, "--store"  # it may be there: reading says what is wrong
        else:
            return named, "--store"
        shown = inert_outside(named, 200, True)
        raise UsageError(f"--store {shown}: no such file or folder; name a store, a session's folder or a .jsonl file")
    if env.get("PROOFCOST_STORE"):
        how = "$PROOFCOST_STORE"
    elif uid == 0:
        how = "root's store, as $PROOFCOST_STORE is not set"
    else:
        how = "the user's store, as $PROOFCOST_STORE is not set"
    return default_place(dict(env), uid), how


def _read(path: str, wanted: str) -> tuple[Store, str, int | None]:
    """What the store holds of `wanted`; and that, parted into an id and the number of a call if it ends in one."""
    if wanted == "last":
        return sessions.newest(path, 1), wanted, None
    store, parts = sessions.named(path, wanted), _NUMBERED.fullmatch(wanted)
    if parts is None or _fits(store, wanted):  # an id may have points of its own
        return store, wanted, None
    session = parts[1]
    return (sessions.newest(path, 1) if session == "last" else sessions.named(path, session)), session, int(parts[2])


def _fits(store: Store, wanted: str) -> list[str]:
    """The ids that begin so, those of what was not read too."""
    calls = [record.invocation for record in store.records]
    ids = (*store.sessions(), *store.unread_sessions, *calls, *store.unread_calls)
    return [one for one in ids if one.startswith(wanted)]


def _numbered(found: tuple[Record, ...] | Record, number: int, wanted: str) -> Record:
    """The call of this number, from 1, of a session. Raises UsageError."""
    shown = inert_outside(wanted, 80, True)
    if isinstance(found, Record):
        raise UsageError(f"show {shown}: that is one call; only calls of a session have numbers")
    calls = calls_of(found)
    if not 0 < number <= len(calls):
        given = f"give .1 to .{len(calls)}" if calls else "leave the number out"
        raise UsageError(f"show {shown}: the session has {plural(len(calls), 'call')}; {given}")
    return calls[number - 1]


def find(store: Store, wanted: str) -> tuple[Record, ...] | Record:
    """The session (its records) or the invocation that `wanted` names: `last`, an id, or a prefix that only one has.

    Ids of what was not read count when it is to be told whether only one has a prefix. Raises UsageError when none or
    several have it.
    """
    sessions = store.sessions()
    if wanted == "last":
        return sessions[max(sessions, key=lambda session: sessions[session][0].started_at_ns or 0)]
    if wanted in sessions:
        return sessions[wanted]
    calls = {record.invocation: record for record in store.records}
    if wanted in calls:
        return calls[wanted]
    fits = _fits(store, wanted)
    shown = inert_outside(wanted, 80, True)
    if not fits:
        where = inert_outside(store.path, 200, True)
        raise UsageError(
            f"show {shown}: no session or call has an id that begins so in {where}; `proofcost log` lists them"
        )
    if len(fits) > 1:
        some = ", ".join(inert_outside(one, 80, True) for one in fits[:MAX_MATCHES])
        more = f" and {len(fits) - MAX_MATCHES} more" if len(fits) > MAX_MATCHES else ""
        raise UsageError(f"show {shown}: {len(fits)} ids begin so; give more of one: {some}{more}")
    return sessions[fits[0]] if fits[0] in sessions else calls[fits[0]]


def warn(lines: Sequence[str]) -> None:
    """Lines for stderr, where they disturb no pipe."""
    for line in lines:
        print(line, file=sys.stderr)


def main(args: argparse.Namespace) -> int:
    """Print what `args.id` names.

    Exit status: 0 done (also when there is nothing), 1 what is there cannot be read or is not as it was sealed, or
    output not written, 2 usage.
    """
    try:
        return _show(args)
    except (UsageError, sessions.CopiesError) as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE


def _check_output(args: argparse.Namespace) -> None:
    """Before anything is read. Raises UsageError."""
    shown = inert_outside(args.output, 80, True)
    if not args.output.endswith((".svg", ".perfetto-trace")):
        raise UsageError(f"show -o {shown}: what kind of file? name it FILE.svg or FILE.perfetto-trace")
    if args.json or args.all or args.seal_key:
        raise UsageError(f"show -o {shown}: goes with neither --json, --all nor --seal-key; call show twice")


def _save(args: argparse.Namespace, session: Sequence[Record], wanted: Sequence[Record]) -> int:
    from proofcost import show_saved

    make = show_saved.writer_for(args.output)
    assert make is not None
    try:
        show_saved.save(args.output, make, session, wanted)
    except show_saved.SavingError as error:
        warn([f"proofcost: {error}"])
        return FAILED
    return DONE


def _show(args: argparse.Namespace) -> int:
    if args.output is not None:
        _check_output(args)
    path, how = choose_store(args.store, os.environ, os.geteuid())
    store, wanted, number = _read(path, args.id)
    if not store.records and not store.unread_sessions:
        warn(problem_lines(store))
        if wanted != "last" and not cannot_be_read(store):
            raise UsageError(
                f"show {inert_outside(args.id, 80, True)}: there are no records in "
                f"{inert_outside(store.path, 200, True)} (chosen by {how}); name another with --store"
            )
        if args.json:
            print(json.dumps({**found_object(store), "records": []}, indent=1))
        warn(nothing_here(store, how, os.environ, os.geteuid()))
        return FAILED if cannot_be_read(store) or args.output is not None else DONE
    try:
        found = find(store, wanted)
        if number is not None:
            found = _numbered(found, number, args.id)
    except UsageError:
        warn(problem_lines(replace(store, marks=())))
        raise
    records = (found,) if isinstance(found, Record) else found
    session = store.sessions()[records[0].session]
    start, end = session[0].started_at_ns, ended_at_ns(session)
    store = with_marks(
        store,
        None if start is None else start - MARKS_AROUND_NS,
        None if end is None else end + MARKS_AROUND_NS,
    )
    warn(problem_lines(store))
    seal = _sealed(session, args.seal_key)
    status = settled(FAILED if seal.problems else DONE)
    if args.output is not None or args.json or isinstance(found, Record):
        warn([f"warning: session {inert_outside(session[0].session, 80, True)}: {line}" for line in seal.broken()])
    if args.output is not None:
        return _save(args, session, records) or status
    if args.json:
        whole_answer = {**found_object(store), "seal": seal.as_json(), "records": merged_objects(records)}
        print(json.dumps(whole_answer, indent=1))
        return status
    console = Console()
    if isinstance(found, Record):
        (render_invocation if args.all else brief.render)(found, console)
        return status
    if is_bench(found):
        from proofcost.bench_reports import (
            render_bench,
        )  # benches are rare, and this is what a session's table waits for

        render_bench(path, found, console)
    else:
        render(found, console)
    if args.all:
        for record in found:
            console.print()
            render_invocation(record, console)
    for line in seal.lines():
        console.print(Text(line), highlight=False, soft_wrap=True)
    return status


def _sealed(records: Sequence[Record], key_file: str | None) -> Sealed:
    """Whether a session is as it was sealed. Raises UsageError for a key that cannot be read, or without a seal."""
    key = None
    if key_file is not None:
        try:
            with open(key_file, "rb") as file:
                key = file.read(SEAL_KEY_MAX_BYTES)
        except OSError as error:
            raise UsageError(f"--seal-key {inert_outside(key_file, 200, True)}: {error.strerror}") from None
    found = sealed(records, key)
    if found.checked is None and key is not None:
        raise UsageError("--seal-key: this session is not sealed")
    return found
