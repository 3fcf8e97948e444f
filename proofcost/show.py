"""`proofcost show [ID|last]`: the table of a session, or every field of one invocation."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console

from proofcost.harness.merged import Record
from proofcost.harness.reading import Store, read_named, read_newest
from proofcost.harness.store import default_place
from proofcost.reports.fields import render_invocation
from proofcost.reports.findings import found_object, merged_objects, nothing_here, problem_lines
from proofcost.reports.inert import inert_outside
from proofcost.reports.table import render

DONE, USAGE = 0, 2

MAX_MATCHES = 10
"""So many ids are listed for an ambiguous one."""


class UsageError(Exception):
    """What the user asked for cannot be done; the message says what, where, which value and how to mend it."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `show` to the command line."""
    parser = subparsers.add_parser(
        "show", help="what a session or one call cost", description="What a session, or one call of it, cost."
    )
    parser.add_argument(
        "id", nargs="?", default="last", metavar="ID", help="beginning of a session's or call's id, or `last` (default)"
    )
    parser.add_argument("--all", action="store_true", help="every field of every call of the session")
    add_reading(parser)
    parser.set_defaults(run=main)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """The options of whatever reads a store."""
    parser.add_argument(
        "--store", metavar="PATH", help="store, session folder or .jsonl file (default: $PROOFCOST_STORE, else yours)"
    )
    parser.add_argument("--json", action="store_true", help="the merged records as JSON, integers exact")


def choose_store(named: str | None, env: Mapping[str, str], uid: int) -> tuple[str, str]:
    """The path to read, and how it was chosen, for people. Raises UsageError when a named path does not exist.

    Without a name it is where `run` and `install` write with this environment and (effective) user.
    """
    if named is not None:
        if os.path.lexists(named):
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
    ids = (*sessions, *store.unread_sessions, *calls, *store.unread_calls)
    fits = [one for one in ids if one.startswith(wanted)]
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
    """Print what `args.id` names. Exit status: 0 done (also when there is nothing), 2 usage."""
    try:
        return _show(args)
    except UsageError as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        return closed_pipe()


def closed_pipe() -> int:
    """The reader of our output had enough (`| head`): no complaint, now or when Python flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return DONE


def _show(args: argparse.Namespace) -> int:
    path, how = choose_store(args.store, os.environ, os.geteuid())
    store = read_newest(path, 1) if args.id == "last" else read_named(path, args.id)
    warn(problem_lines(store))
    if not store.records and not store.unread_sessions:
        if args.id != "last":
            raise UsageError(
                f"show {inert_outside(args.id, 80, True)}: there are no records in "
                f"{inert_outside(store.path, 200, True)} (chosen by {how}); name another with --store"
            )
        if args.json:
            print(json.dumps({**found_object(store), "records": []}, indent=1))
        warn(nothing_here(store, how, os.environ, os.geteuid()))
        return DONE
    found = find(store, args.id)
    records = (found,) if isinstance(found, Record) else found
    if args.json:
        print(json.dumps({**found_object(store), "records": merged_objects(records)}, indent=1))
        return DONE
    console = Console()
    if isinstance(found, Record):
        render_invocation(found, console)
        return DONE
    render(found, console)
    if args.all:
        for record in found:
            console.print()
            render_invocation(record, console)
    return DONE
