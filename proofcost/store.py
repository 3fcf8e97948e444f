"""`proofcost store compact|push|prune|sql|declare|synth`: files as Parquet and where they go, SQL, and more."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from proofcost import declaring, push, synth
from proofcost.extras import need
from proofcost.harness.columns import COLUMNS
from proofcost.output import DONE, FAILED, warn_of
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.reports.compaction import Done

_AGE = re.compile(r"(\d{1,9})([smhd]?)")
_AGE_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DEFAULT_AGE = "1h"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `store` to the command line."""
    parser = subparsers.add_parser(
        "store", help="records as Parquet and SQL", description="A store's records as Parquet files, and SQL over them."
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, what in (
        ("compact", "copy finished sessions into Parquet files below the store; nothing is removed"),
        ("prune", "remove the record files whose every byte stands in a Parquet file of the store"),
    ):
        action = actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        action.add_argument("path", nargs="?", metavar="STORE", help="default: $PROOFCOST_STORE, else yours")
        action.add_argument(
            "--min-age",
            default=DEFAULT_AGE,
            metavar="T",
            type=age,
            help=f"leave younger sessions (default {DEFAULT_AGE})",
        )
        if name == "compact":
            action.set_defaults(run=compact)
            push.add_parser(actions)
            continue
        action.add_argument(
            "--pushed",
            metavar="URL",
            help="remove Parquet files too, and only what was read back at URL just now (store push)",
        )
        action.set_defaults(run=prune)
    sql = actions.add_parser(
        "sql",
        help="ask DuckDB about the records",
        description="SQL over one table, `records`. Without a query: a prompt.",
    )
    sql.add_argument(
        "query", nargs="?", metavar="QUERY", help="for example: SELECT kernel, count(*) FROM records GROUP BY 1"
    )
    sql.add_argument(
        "--data", action="append", metavar="PATH", help="store, folder, file or URL of records (repeatable)"
    )
    sql.add_argument("--columns", action="store_true", help="list the columns and what they mean")
    sql.add_argument("--csv", action="store_true", help="print as CSV")
    sql.set_defaults(run=ask)
    declaring.add_parser(actions)
    synth.add_parser(actions)


def age(text: str) -> float:
    """Seconds of `90`, `15m`, `2h`, `7d`. Raises ArgumentTypeError."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no span of time; write 0, 90s, 15m, 2h or 7d")
    return int(match[1]) * _AGE_S[match[2]]


def chosen(named: str | None) -> Path:
    """The store to work on. Raises UsageError."""
    path, _ = choose_store(named, os.environ, os.geteuid())
    if not os.path.isdir(path):
        raise UsageError(f"{path}: no store there; name one")
    owner = os.stat(path).st_uid
    if owner != os.geteuid():
        # Its owner could lead us anywhere by a link.
        raise UsageError(f"{path}: belongs to user {owner}, you are {os.geteuid()}; do this as that user")
    return Path(path)


def compact(args: argparse.Namespace) -> int:
    """`store compact`."""
    return _work(args, lambda store: _alone(store, lambda: compacting(store, args.min_age)))


def prune(args: argparse.Namespace) -> int:
    """`store prune`."""
    return _work(args, lambda store: _alone(store, lambda: _pruning(store, args.min_age, args.pushed)))


def _work(args: argparse.Namespace, run: Callable[[Path], int]) -> int:
    need("reports", "pyarrow", "duckdb", "orjson")
    from proofcost.reports.parquet import CopyError
    from proofcost.reports.sole import BusyError

    try:
        store = chosen(args.path)
        return run(store)
    except UsageError as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE
    except (BusyError, CopyError) as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        where = inert_outside(str(error.filename or store), 200, True)
        print(f"proofcost: store {where}: {error.strerror or error}; the same call goes on from here", file=sys.stderr)
        return FAILED


def _alone(store: Path, work: Callable[[], int]) -> int:
    """Raises BusyError where another works on the store's Parquet files."""
    from proofcost.reports.sole import sole

    with sole(store):
        return work()


def compacting(store: Path, min_age_s: float) -> int:
    """Compact, and say what was done. Raises OSError, CopyError."""
    from proofcost.reports import compaction

    done = with_progress("compacting", lambda tell: compaction.compact(store, min_age_s, tell))
    into = f" into {plural(len(done.files), 'file')}" if done.files else ""
    print(f"{plural(done.records, 'record')} copied{into}; {done.known} stood there already")
    _left(done, min_age_s)
    return DONE


def _pruning(store: Path, min_age_s: float, pushed: str | None) -> int:
    from proofcost.reports import compaction

    if pushed is not None:
        return push.prune_pushed(store, pushed, min_age_s)
    pruned(with_progress("pruning", lambda tell: compaction.prune(store, min_age_s, tell)), min_age_s)
    return DONE


def pruned(
    done: Done, min_age_s: float, found: str = "whatever reads the store finds them in Parquet", held: str = "Parquet"
) -> None:
    """Say what was removed. `found`: where it is now; `held`: what has to hold a record before it goes."""
    print(f"{plural(done.records, 'record')} removed; {found}, their timelines stay in traces/")
    _left(done, min_age_s, held)


def _left(done: Done, min_age_s: float, held: str = "Parquet") -> None:
    for count, one, many, what in (
        (done.young, "session", "sessions", f"left: written to less than {min_age_s:g} s ago (--min-age)"),
        (done.running, "record", "records", "left: something may still be added to them"),
        (done.unverified, "record", "records", f"left: not (or not all of their files) in {held}"),
        (len(done.problems), "line or file that is no record", "lines or files that are no records",
         "left as they are; `proofcost log` tells"),
    ):  # fmt: skip
        if count:
            print(f"{plural(count, one, many)} {what}")


def with_progress(doing: str, work: Callable[[Callable[[int, int], None]], Any]) -> Any:
    """Run `work` with a function that it tells its progress; shown on a terminal only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return work(lambda *_: None)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(doing)
        return work(lambda done, total: progress.update(task, completed=done, total=total))


def ask(args: argparse.Namespace) -> int:
    """`store sql`."""
    if args.columns:
        for column in COLUMNS:
            print(
                f"{column.name:<26}{column.kind.value + (f' ({column.unit})' if column.unit else ''):<18}{column.what}"
            )
        return DONE
    need("reports", "pyarrow", "duckdb", "orjson")
    import duckdb

    from proofcost.reports.dataset import DataError, open_data

    try:
        paths = args.data or [choose_store(None, os.environ, os.geteuid())[0]]
        data = open_data(paths)
    except (UsageError, DataError) as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE
    warn_of(data)
    queries: Sequence[str] = [args.query] if args.query is not None else _prompt()
    status = DONE
    for query in queries:
        try:
            answer = data.connection.execute(query)
        except duckdb.Error as error:
            print(f"proofcost: {error}", file=sys.stderr)
            status = USAGE
            continue
        if answer.description:
            names = [str(column[0]) for column in answer.description]
            _print(names, answer.fetchall(), args.csv)
    return status


def _prompt() -> Any:
    """Queries from standard input, one at each `;`."""
    if sys.stdin.isatty():
        print("one table: records (\\d lists its columns); end a query with `;`, leave with Ctrl-D", file=sys.stderr)
    pending = ""
    while True:
        if sys.stdin.isatty():
            sys.stderr.write("sql> " if not pending else "...> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            if pending.strip():
                yield pending
            return
        if line.strip() == "\\d":
            line = "DESCRIBE records;"
        pending += line
        if pending.rstrip().endswith(";"):
            yield pending
            pending = ""


def _print(names: list[str], rows: list[tuple[Any, ...]], as_csv: bool) -> None:
    if as_csv:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
        return
    cells = [names, *([("" if value is None else inert(str(value), 60)) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
