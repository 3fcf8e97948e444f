"""`proofcost export --to FORMAT`: what was measured, in the form that somebody else's program takes.

A format is one file, `adapters/to_FORMAT.py`, found by its name. It has `HELP` (one line) and
`export(records, store) -> (bytes, notes)`: the records of one session and the path they were read from; what is written
to the output, and what a person should know of it. A figure that is missing stays missing there, with its reason.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from proofcost import adapters
from proofcost.harness.merged import Record
from proofcost.harness.reading import read_named, read_newest
from proofcost.output import DONE, FAILED
from proofcost.reports.findings import cannot_be_read, nothing_here, problem_lines
from proofcost.reports.inert import inert_outside
from proofcost.show import USAGE, UsageError, choose_store, find, warn

_PREFIX = "to_"


class Format(Protocol):
    """What a module `adapters/to_FORMAT.py` offers."""

    HELP: str

    def export(self, records: Sequence[Record], store: str) -> tuple[bytes, list[str]]:
        """The output's bytes, and notes for people."""


def names() -> list[str]:
    """The formats that there are."""
    modules = (module.name for module in pkgutil.iter_modules(adapters.__path__))
    return sorted(name.removeprefix(_PREFIX) for name in modules if name.startswith(_PREFIX))


def load(name: str) -> Format:
    """The format of this name, one of `names()`."""
    return cast(Format, importlib.import_module(f"proofcost.adapters.{_PREFIX}{name}"))


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export` to the command line."""
    known = names()
    parser = subparsers.add_parser(
        "export",
        help="what was measured, as another program takes it",
        description="Write what was measured as another program takes it.",
        epilog="formats: " + "; ".join(f"{name}: {load(name).HELP}" for name in known),
    )
    parser.add_argument("data", nargs="?", metavar="DATA", help="store, session folder or .jsonl file (default: yours)")
    parser.add_argument("--to", required=True, choices=known, metavar="FORMAT", help=" or ".join(known))
    parser.add_argument(
        "--session", default="last", metavar="ID", help="beginning of a session's id, or `last` (default)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write there (default: stdout)")
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Write one session in the format `args.to`.

    Exit status: 0 done, 1 what is there cannot be read, or output not written, 2 usage.
    """
    try:
        records, path = _session(args.data, args.session)
        if records is None:
            return FAILED
        content, notes = load(args.to).export(records, path)
    except UsageError as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE
    warn([f"note: {inert_outside(note, 400, True)}" for note in notes])
    if args.output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return DONE
    return _write(Path(args.output), content)


def _session(named: str | None, wanted: str) -> tuple[tuple[Record, ...] | None, str]:
    """The records of the session that is asked for (None: they cannot be read), and the store's path."""
    path, how = choose_store(named, os.environ, os.geteuid())
    store = read_newest(path, 1) if wanted == "last" else read_named(path, wanted)
    warn(problem_lines(store))
    if not store.records and not store.unread_sessions:
        warn(nothing_here(store, how, os.environ, os.geteuid()))
        if cannot_be_read(store):
            return None, path
        raise UsageError(f"export: no session in {inert_outside(path, 200, True)}; name another store")
    found = find(store, wanted)
    session = found.session if isinstance(found, Record) else found[0].session
    return store.sessions()[session], path


def _write(path: Path, content: bytes) -> int:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        shown = inert_outside(str(path), 200, True)
        print(f"proofcost: -o {shown}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return FAILED
    return DONE
