"""`proofcost export --to FORMAT`: what was measured, in the form that somebody else's program takes.

A format is one file, `adapters/to_FORMAT.py`, found by its name. It has `HELP` (one line) and one of

- `export(records, store) -> (bytes, notes)`: one session's records and the path they were read from; what is written,
  and what a person should know of it;
- `write(rows, out, say)` and `MAPS`: rows (harness/columns.py) of any records, journals and imports alike.

A figure that is missing stays missing there, with its reason where the format has room for one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, Protocol

from proofcost import adapters, sessions
from proofcost.extras import need
from proofcost.harness.columns import COLUMNS, Kind, Row
from proofcost.harness.merged import Record
from proofcost.harness.whole_file import whole_file
from proofcost.output import DONE, FAILED, warn_of
from proofcost.reports.findings import cannot_be_read, nothing_here, problem_lines
from proofcost.reports.inert import inert_outside
from proofcost.show import USAGE, UsageError, choose_store, find, warn

_PREFIX = "to_"
_OURS = {"perfetto": "proofcost.export_perfetto"}
"""Formats that need more of us than adapters may know."""


class SessionFormat(Protocol):
    """A format of one session."""

    HELP: str

    def export(self, records: Sequence[Record], store: str) -> tuple[bytes, list[str]]:
        """The output's bytes, and notes for people."""


class RowFormat(Protocol):
    """A format of any rows."""

    HELP: str
    MAPS: tuple[tuple[str, str, str], ...]

    def write(self, rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
        """Write all rows; `say` takes notes for people (the same note again is one)."""


def names() -> list[str]:
    """The formats that there are."""
    modules = (module.name for module in pkgutil.iter_modules(adapters.__path__))
    found = (name.removeprefix(_PREFIX).replace("_", "-") for name in modules if name.startswith(_PREFIX))
    return sorted([*found, *_OURS])


def load(name: str) -> Any:
    """The format of this name, one of `names()`: a SessionFormat or a RowFormat."""
    return importlib.import_module(_OURS.get(name, f"proofcost.adapters.{_PREFIX}{name.replace('-', '_')}"))


def _is_of_session(made: Any) -> bool:
    return hasattr(made, "export")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export` to the command line."""
    known = names()
    parser = subparsers.add_parser(
        "export",
        help="what was measured, as another program takes it",
        description="Write what was measured as another program takes it.",
        epilog="formats: " + "; ".join(f"{name}: {load(name).HELP}" for name in known),
    )
    parser.add_argument("data", nargs="*", metavar="DATA", help="stores, folders, files or URLs (default: yours)")
    parser.add_argument("--to", required=True, choices=known, metavar="FORMAT", help=" or ".join(known))
    parser.add_argument("--session", metavar="ID", help="beginning of a session's id, or `last`")
    parser.add_argument(
        "--where", action="append", default=[], metavar="COND", help="only these (kernel=nanoda); repeatable"
    )
    parser.add_argument("--since", metavar="T", help="only what started since (7d, 2026-11-01)")
    parser.add_argument(
        "--pseudonymise", metavar="KEYFILE", help="replace texts that people choose by digests under the key in KEYFILE"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write there (default: stdout)")
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Write records in the format `args.to`.

    Exit status: 0 done, 1 what is there cannot be read, or output not written, 2 usage.
    """
    made = load(args.to)
    try:
        if _is_of_session(made):
            return _export_session(args, made)
        return _export_rows(args, made)
    except (UsageError, sessions.CopiesError) as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE


def _export_session(args: argparse.Namespace, made: SessionFormat) -> int:
    for given, option in ((args.where, "--where"), (args.since, "--since"), (args.pseudonymise, "--pseudonymise")):
        if given:
            raise UsageError(f"{option}: {args.to} is of one whole session; leave it out")
    if len(args.data) > 1:
        raise UsageError(f"{args.to} is of one session; name one store, not {len(args.data)}")
    records, path = _session(args.data[0] if args.data else None, args.session or "last")
    if records is None:
        return FAILED
    content, notes = made.export(records, path)
    _warn_of(notes)
    return _to(args.output, lambda out: out.write(content))


def _export_rows(args: argparse.Namespace, made: RowFormat) -> int:
    need("reports", "pyarrow", "duckdb", "orjson")
    from proofcost.pseudonyms import pseudonymised, read_key
    from proofcost.reports.asked import refuse_none
    from proofcost.reports.dataset import DataError, open_data
    from proofcost.reports.where import WhereError, parse

    key = None if args.pseudonymise is None else read_key(args.pseudonymise)
    try:
        conditions = list(args.where)
        if args.session is not None:
            conditions.append(f"session={_full_session(args)}")
        where = parse(conditions, args.since)
        data = open_data(args.data or [choose_store(None, os.environ, os.geteuid())[0]])
    except (DataError, WhereError) as error:
        raise UsageError(str(error)) from None
    if conditions or args.since is not None:
        try:
            refuse_none(data, where, conditions)
        except WhereError as error:
            raise UsageError(str(error)) from None
    warn_of(data)
    rows = _rows(data.connection, where.sql, where.parameters)
    notes: dict[str, None] = {}
    status = _to(
        args.output,
        lambda out: made.write(
            rows if key is None else pseudonymised(rows, key), out, lambda note: notes.update({note: None})
        ),
    )
    _warn_of(list(notes))
    return status


def _full_session(args: argparse.Namespace) -> str:
    """The id of the session that is asked for. Raises UsageError."""
    records, _ = _session(args.data[0] if args.data else None, args.session)
    if not records:
        raise UsageError(f"--session {args.session}: none is there")
    return records[0].session


def _rows(connection: Any, condition: str, parameters: tuple[Any, ...]) -> Iterator[Row]:
    """Rows by their start, without what is null; JSON columns as what they hold."""
    in_json: dict[str, type[dict[str, Any]] | type[list[Any]]] = {
        column.name: list if column.name == "defects" else dict for column in COLUMNS if column.kind is Kind.JSON
    }
    result = connection.execute(f"SELECT * FROM records WHERE {condition} ORDER BY started_ns, record", parameters)
    columns = [str(one[0]) for one in result.description]
    while batch := result.fetchmany(5000):
        for values in batch:
            found = zip(columns, values, strict=True)
            row = {name: _held(value, in_json.get(name)) for name, value in found if value is not None}
            yield {name: value for name, value in row.items() if value is not None}


def _held(value: Any, kind: type[dict[str, Any]] | type[list[Any]] | None) -> Any:
    """What a column holds; None where its JSON is none, or of another kind than the column's."""
    if kind is None:
        return value
    try:
        made = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, kind) else None


def _warn_of(notes: list[str]) -> None:
    warn([f"note: {inert_outside(note, 400, True)}" for note in notes])


def _to(output: str | None, produce: Callable[[IO[bytes]], object]) -> int:
    """Write to a file, whole or not at all, or to standard output."""
    if output is None:
        sys.stdout.flush()
        produce(sys.stdout.buffer)
        return DONE
    if output == "-":
        raise UsageError("-o -: no file; leave -o out for stdout")
    try:
        with whole_file(output) as file:
            produce(file)
    except OSError as error:
        shown = inert_outside(output, 200, True)
        print(f"proofcost: -o {shown}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return FAILED
    return DONE


def page() -> str:
    """What is written where, of all formats of rows, in Markdown."""
    parts = ["# What is exported, and as what\n"]
    for name in names():
        one = load(name)
        parts.append(f"\n## {name}\n\n{one.HELP[:1].upper()}{one.HELP[1:]}.\n")
        if not _is_of_session(one):
            parts.append("| there | column | how |\n|---|---|---|")
            parts += [f"| `{theirs}` | {ours} | {how} |" for theirs, ours, how in one.MAPS]
    return "\n".join(parts) + "\n"


def _session(named: str | None, wanted: str) -> tuple[tuple[Record, ...] | None, str]:
    """The records of the session that is asked for (None: they cannot be read), and the store's path."""
    path, how = choose_store(named, os.environ, os.geteuid())
    store = sessions.newest(path, 1) if wanted == "last" else sessions.named(path, wanted)
    warn(problem_lines(store))
    if not store.records and not store.unread_sessions:
        warn(nothing_here(store, how, os.environ, os.geteuid()))
        if cannot_be_read(store):
            return None, path
        raise UsageError(f"export: no session in {inert_outside(path, 200, True)}; name another store")
    found = find(store, wanted)
    session = found.session if isinstance(found, Record) else found[0].session
    return store.sessions()[session], path
