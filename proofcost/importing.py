"""`proofcost import PATH...`: other programs' figures into the store, as Parquet.

Each file becomes `parquet/import=FORMAT/DIGEST.0.parquet`, whole or not at all; its name is the file's digest, so that
the same file twice adds nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofcost.extras import need
from proofcost.harness.store import StoreError, absolute, make_folder
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.adapters.foreign import Source
    from proofcost.harness.columns import Row

BATCH_ROWS = 20_000
MAX_LISTED = 20
"""So many skipped files are named; of more, the rest is counted."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `import` to the command line."""
    parser = subparsers.add_parser(
        "import",
        help="take in other programs' figures",
        description="Take in other programs' figures. Each file is recognised; what was taken, what it cannot tell and "
        "which known defects were dealt with is said.",
        epilog="`proofcost import --formats` lists the formats, and what of each becomes which column",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, or folders whose files are looked at")
    parser.add_argument("--as", dest="format", metavar="FORMAT", help="take every file for this format")
    parser.add_argument("--store", metavar="DIR", help="where to keep them (default: $PROOFCOST_STORE, else yours)")
    parser.add_argument("-l", "--label", action="append", default=[], metavar="K=V", help="label every row")
    parser.add_argument("--formats", action="store_true", help="list the formats in Markdown, and leave")
    parser.set_defaults(run=main)


@dataclass(slots=True)
class Taken:
    """What one file gave."""

    format: str
    rows: int
    known: bool = False
    said: dict[str, int] = field(default_factory=dict)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 all files taken, 1 some not, 2 usage."""
    need("reports", "ijson", "pyarrow", "orjson")
    from proofcost.adapters import formats

    if args.formats:
        print(page(), end="")
        return DONE
    try:
        if not args.paths:
            raise UsageError("import: no file given; usage: proofcost import PATH...")
        if args.format is not None and args.format not in formats.names():
            raise UsageError(f"--as {args.format!r}: no such format; there are {', '.join(formats.names())}")
        from proofcost.run import UsageError as LabelError
        from proofcost.run import parse_labels

        try:
            labels = {key: str(value) for key, value in parse_labels(args.label).items()}
        except LabelError as error:
            raise UsageError(str(error)) from None
        store = Path(choose_store(None, os.environ, os.geteuid())[0] if args.store is None else absolute(args.store))
        make_folder(str(store))  # for its owner only, as the meter makes it
        return _take_all(args.paths, store, args.format, labels)
    except StoreError as error:
        print(f"proofcost: {error}; choose another with --store", file=sys.stderr)
        return USAGE
    except UsageError as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE


def _take_all(paths: list[str], store: Path, named: str | None, labels: dict[str, str]) -> int:
    from proofcost.adapters.foreign import FormatError
    from proofcost.reports.parquet import CopyError

    failed: list[str] = []
    skipped = 0
    totals: Counter[str] = Counter()
    for path, given in _files(paths):
        shown = inert_outside(str(path), 200, True)
        try:
            taken = take(path, store, named if given or named else None, labels)
        except (FormatError, CopyError) as error:
            failed.append(f"{shown}: {inert_outside(str(error), 300, True)}")
            continue
        except OSError as error:  # of the file, or of the store
            where = shown if error.filename is None or str(error.filename) == str(path) else str(error.filename)
            failed.append(f"{inert_outside(where, 200, True)}: {error.strerror or error}; {shown} was not taken")
            continue
        if taken is None:
            if given:
                failed.append(f"{shown}: of no format that is known; `proofcost import --formats` lists them")
            skipped += not given
            continue
        totals[taken.format] += taken.rows
        if taken.known:
            print(f"{shown}: {taken.format}: stands there already; nothing was added")
            continue
        print(f"{shown}: {taken.format}: {plural(taken.rows, 'row')}")
        for note, rows in taken.said.items():
            print(f"  {note} ({plural(rows, 'row')})")
    for line in failed[:MAX_LISTED]:
        print(f"proofcost: {line}", file=sys.stderr)
    if len(failed) > MAX_LISTED:
        print(f"proofcost: and {len(failed) - MAX_LISTED} more files were not taken", file=sys.stderr)
    if skipped:
        print(f"{plural(skipped, 'file')} of no format that is known left aside")
    from proofcost.adapters import formats

    for name in totals:
        print(f"{name} cannot tell: {'; '.join(formats.load(name).UNKNOWN)}")
    return FAILED if failed else DONE


def _files(paths: list[str]) -> Iterator[tuple[Path, bool]]:
    """(file, whether it was named itself). Raises UsageError for a path that is not there."""
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise UsageError(f"{inert_outside(given, 200, True)}: no such file or folder")
        if not path.is_dir():
            yield path, True
            continue
        for top, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = Path(top, name)
                if file.is_file() and not file.is_symlink():
                    yield file, False


def take(path: Path, store: Path, named: str | None = None, labels: dict[str, str] | None = None) -> Taken | None:
    """Import one file; None when it is of no format that is known. Raises FormatError, OSError, CopyError."""
    from proofcost.adapters import formats
    from proofcost.adapters.foreign import HEAD_BYTES, FormatError, Head, Source, digest
    from proofcost.reports import parquet

    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        name = named
        if name is None:
            fits = formats.recognise(Head(path.name, file.read(HEAD_BYTES)))
            if not fits:
                return None
            if len(fits) > 1:
                raise FormatError(f"may be {' or '.join(fits)}: say which with --as")
            name = fits[0]
        sha256 = digest(file)
        place = store / "parquet" / f"import={name}" / f"{sha256}.0.parquet"
        if place.exists():
            return Taken(name, 0, known=True)
        source = Source(path, file)
        shown = inert_outside(path.name, 200, True)
        made = (_finish(row, number, name, shown, sha256, labels) for number, row in enumerate(_rows(name, source)))
        count = parquet.write_parts(place, _tables(made, file, before))
    return Taken(name, count, said=source.said)


def _rows(name: str, source: Source) -> Iterator[Row]:
    from proofcost.adapters import formats

    return formats.load(name).rows(source)


def _finish(row: Row, number: int, name: str, shown: str, sha256: str, labels: dict[str, str] | None) -> Row:
    row.setdefault("record", f"{sha256[:16]}-{number}")
    row["source"], row["source_name"], row["source_sha256"] = name, shown, sha256
    if labels:
        row["labels"] = {**(row.get("labels") or {}), **labels}
    return row


def _tables(rows: Iterator[Row], file: Any, before: os.stat_result) -> Iterator[Any]:
    """Tables of a few rows each. Raises FormatError when the file changed while it was read."""
    from proofcost.adapters.foreign import FormatError
    from proofcost.reports import parquet

    empty = True
    while batch := list(islice(rows, BATCH_ROWS)):
        empty = False
        yield parquet.table_of(batch)
    if empty:
        raise FormatError("holds no figure")
    after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FormatError("changed while it was read; import it again when it is finished")


def page() -> str:
    """What maps to what, of all formats, in Markdown."""
    from proofcost.adapters import formats

    parts = ["# What is imported, and as what\n"]
    for name in formats.names():
        one = formats.load(name)
        parts.append(f"\n## {name}\n\n{one.HELP}.\n\n| there | column | how |\n|---|---|---|")
        parts += [f"| `{theirs}` | {ours} | {how} |" for theirs, ours, how in one.MAPS]
        parts.append("\nCannot tell: " + "; ".join(one.UNKNOWN) + ".")
        parts += [f"\nDefect: {defect}" for defect in one.DEFECTS]
    return "\n".join(parts) + "\n"
