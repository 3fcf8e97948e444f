"""`proofcost store push URL [STORE]`: a store's Parquet files to where many hosts' are collected; `prune --pushed`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from proofcost.extras import need
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError

if TYPE_CHECKING:
    from proofcost.reports.place import Place
    from proofcost.reports.pushing import Pushed

_SHOWN = 10
"""So many refused files are told one by one."""
ENDS_WITH_US = ("memory",)
"""Schemes of places that are in this process's memory."""
GOES_ON = "what was sent before stays, and the same call goes on from there"


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `store push`."""
    from proofcost.store import DEFAULT_AGE, age  # which adds us to its actions

    parser = actions.add_parser(
        "push",
        help="send a store's Parquet files to where many hosts' are collected",
        description="Compact, then send the store's Parquet files to a folder or URL where many hosts' are collected. "
        "Each is read back there and sealed with its digest; what is sealed there already is not sent again.",
        epilog="Reports take the same URL for DATA. Credentials come from the environment: docs/collecting.md.",
    )
    parser.add_argument("url", metavar="URL", help="a folder, or s3://BUCKET/PATH, gs://, abfs://, any fsspec URL")
    parser.add_argument("path", nargs="?", metavar="STORE", help="default: $PROOFCOST_STORE, else yours")
    parser.add_argument("--no-compact", action="store_true", help="send what is compacted already, and no more")
    parser.add_argument(
        "--min-age",
        default=DEFAULT_AGE,
        metavar="T",
        type=age,
        help=f"leave younger sessions uncompacted (default {DEFAULT_AGE})",
    )
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 all is there, 1 it failed under way or some files were refused, 2 usage."""
    need("reports", "pyarrow", "duckdb", "orjson")
    from proofcost.reports.parquet import CopyError
    from proofcost.reports.place import RemoteError
    from proofcost.reports.pushing import PushError, check, push, uncompacted
    from proofcost.reports.sole import BusyError, sole
    from proofcost.store import chosen, compacting, with_progress

    try:
        store = chosen(args.path)
        place = _lasting(args.url)
        check(store, place)
        place.find()  # before anything is done: a wrong name or key is told at once
    except (UsageError, PushError, RemoteError) as error:
        return _say(str(error), USAGE)
    try:
        with sole(store):
            failed = False
            if not args.no_compact:
                try:
                    compacting(store, args.min_age)
                except CopyError as error:  # what is compacted is sent all the same
                    failed = bool(_say(str(error), FAILED))
            elif left := uncompacted(store):
                print(
                    f"{plural(left, 'session')} not compacted yet: run store compact first, or leave --no-compact out"
                )
            done = with_progress("pushing", lambda tell: push(store, place, tell))
    except BusyError as error:
        return _say(str(error), FAILED)
    except RemoteError as error:
        return _say(f"{error}; {GOES_ON}", FAILED)
    except OSError as error:
        return _say(f"store {_where(error, store)}: {error.strerror or error}; {GOES_ON}", FAILED)
    return max(_told(done, place.shown), FAILED if failed else DONE)


def _lasting(url: str) -> Place:
    """The place to push to. Raises RemoteError."""
    from proofcost.reports.place import RemoteError, shown
    from proofcost.reports.remote import open_place

    place = open_place(url)
    if url.partition("://")[0].lower() in ENDS_WITH_US:
        raise RemoteError(f"{shown(url)}: ends with this process; give a folder, or a URL of a storage that lasts")
    return place


def _told(done: Pushed, shown: str) -> int:
    size = f" ({done.sent_bytes / 1e6:.1f} MB)" if done.sent else ""
    print(
        f"{plural(len(done.sent), 'file')}{size} sent to {shown}, read back and sealed; {done.known} stood there sealed"
    )
    for note in done.notes:
        print(note)
    return _refused(done)


def _refused(done: Pushed) -> int:
    for line in done.refused[:_SHOWN]:
        print(f"proofcost: {line}", file=sys.stderr)
    if len(done.refused) > _SHOWN:
        print(f"proofcost: and {len(done.refused) - _SHOWN} more files", file=sys.stderr)
    return FAILED if done.refused else DONE


def prune_pushed(store: Path, url: str, min_age_s: float) -> int:
    """`store prune --pushed URL`, while nobody else works on the store: exit status as `main`. Raises OSError,
    CopyError."""
    from proofcost.reports.compaction import prune
    from proofcost.reports.place import RemoteError
    from proofcost.reports.pushing import PushError, verified
    from proofcost.reports.removal import remove_pushed
    from proofcost.store import pruned, with_progress

    try:
        place = _lasting(url)
        place.find()
    except RemoteError as error:
        return _say(str(error), USAGE)
    try:
        files, done = with_progress("reading back", lambda tell: verified(store, place, tell))
    except PushError as error:
        return _say(str(error), USAGE)
    except RemoteError as error:
        return _say(f"{error}; nothing was removed", FAILED)
    removed = with_progress("pruning", lambda tell: prune(store, min_age_s, tell, files))
    gone = remove_pushed(store, files)
    pruned(removed, min_age_s, f"what reads {place.shown} finds them", "a Parquet file that was read back there")
    print(
        f"{plural(gone, 'Parquet file')} removed of {done.known} that {place.shown} has, read back just now; others "
        "stay while a record of theirs has a file here, imported ones always"
    )
    if done.absent:
        print(f"{plural(done.absent, 'Parquet file')} of the store not there yet: store push sends them")
    return _refused(done)


def _where(error: OSError, store: Path) -> str:
    return inert_outside(str(error.filename or store), 200, True)


def _say(text: str, status: int) -> int:
    print(f"proofcost: {text}", file=sys.stderr)
    return status
