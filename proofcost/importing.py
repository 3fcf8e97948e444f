"""`proofcost import PATH...`: other programs' figures into the store, as Parquet.

Each file becomes `parquet/import=FORMAT/DIGEST.0.parquet`, whole or not at all; its name is the file's digest, so that
the same file twice adds nothing. The small files of a folder go together (import_batches.py).
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from proofcost.extras import need
from proofcost.harness.store import StoreError, absolute, check_place, make_folder
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.adapters.foreign import Source
    from proofcost.harness.columns import Row

BATCH_ROWS = 20_000
_ENTRIES, _TELL_EVERY = 10_000, 100
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
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, folders that are looked into, or URLs")
    parser.add_argument("--as", dest="format", metavar="FORMAT", help="take every file for this format")
    parser.add_argument("--store", metavar="DIR", help="where to keep them (default: $PROOFCOST_STORE, else yours)")
    parser.add_argument("-l", "--label", action="append", default=[], metavar="K=V", help="label every row")
    parser.add_argument(
        "--kernel", metavar="NAME", help="the kernel that made these figures, where the file does not say"
    )
    parser.add_argument("--subject", metavar="NAME", help="what was checked, where the file does not say")
    parser.add_argument("--formats", action="store_true", help="list the formats in Markdown, and leave")
    parser.set_defaults(run=main)


@dataclass(frozen=True, slots=True)
class Given:
    """What was said of the files on the command line."""

    labels: dict[str, str] = field(default_factory=dict)
    kernel: str | None = None
    """Goes before what a file calls it, which is kept as the label `imported_kernel`."""
    subject: str | None = None
    """Likewise, `imported_subject`."""


NOTHING_GIVEN = Given()


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
        for mended in _checked(str(store)):
            print(f"proofcost: {inert_outside(mended, 300, True)}", file=sys.stderr)
        make_folder(str(store))  # for its owner only, as the meter makes it
        for option in ("kernel", "subject"):
            if getattr(args, option) is not None and not getattr(args, option).strip():
                raise UsageError(f"--{option}: is empty; give a name")
        given = Given(labels, args.kernel, args.subject)
        told = _take_all(args.paths, store, args.format, given)
        if told.formats:
            # Of a store that other commands would not find by themselves the place stands there too.
            named = "" if args.store is None else f" {shlex.quote(args.store)}"
            print(inert_outside(f"next: proofcost report kernels{named}", 300, True))
        return FAILED if told.failed else DONE
    except StoreError as error:
        print(f"proofcost: {error}; choose another with --store", file=sys.stderr)
        return USAGE
    except UsageError as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE


def _checked(store: str) -> list[str]:
    """What was put right of the store's modes. Raises StoreError for a folder that `run` would refuse."""
    try:
        return check_place(store, [])
    except OSError as error:
        raise StoreError(f"store {store}: {error.strerror or error}") from None


class _Told:
    """What is said of the files, whatever their number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failed = 0
        self.skipped = 0
        self.formats: Counter[str] = Counter()

    def fail(self, line: str) -> None:
        self.failed += 1
        if self.failed <= MAX_LISTED:
            self.lines.append(line)

    def taken(self, shown: str, taken: Taken) -> None:
        self.formats[taken.format] += taken.rows
        if taken.known:
            print(f"{shown}: {taken.format}: stands there already; nothing was added, and nothing of it changed")
            return
        print(f"{shown}: {taken.format}: {plural(taken.rows, 'row')}")
        for note, rows in taken.said.items():
            print(f"  {note} ({plural(rows, 'row')})")

    def end(self) -> None:
        for line in self.lines:
            print(f"proofcost: {line}", file=sys.stderr)
        if self.failed > MAX_LISTED:
            print(f"proofcost: and {self.failed - MAX_LISTED} more files were not taken", file=sys.stderr)
        if self.skipped:
            print(f"{plural(self.skipped, 'file')} of no format that is known left aside")
        from proofcost.adapters import formats

        for name in self.formats:
            print(f"{name} cannot tell: {'; '.join(formats.load(name).UNKNOWN)}")


def _take_all(paths: list[str], store: Path, named: str | None, given: Given) -> _Told:
    from proofcost.adapters.foreign import FormatError
    from proofcost.import_batches import Batches
    from proofcost.reports.parquet import CopyError

    told = _Told()
    batches = Batches(store, named, given)
    for path, folder, called in _progress(_files(paths)):
        shown = inert_outside(called, 200, True)
        try:
            if folder is None or not batches.add(path, folder):
                taken = take(path, store, named, given, batches.stands)
                if taken is not None:
                    told.taken(shown, taken)
                elif folder is None:
                    told.fail(f"{shown}: of no format that is known; `proofcost import --formats` lists them")
                else:
                    told.skipped += 1
        except (FormatError, CopyError) as error:
            told.fail(f"{shown}: {inert_outside(str(error), 300, True)}")
        except OSError as error:  # of the file, or of the store
            where = shown if error.filename is None or str(error.filename) == str(path) else str(error.filename)
            told.fail(f"{inert_outside(where, 200, True)}: {error.strerror or error}; {shown} was not taken")
    for why in batches.end():
        told.fail(inert_outside(str(why), 400, True))
    for folder, taken, files, known in batches.taken:
        where = inert_outside(folder, 200, True)
        if files:
            told.taken(f"{where}: {plural(files, 'file')}", taken)
        if known:
            told.formats[taken.format] += 0
            print(f"{where}: {taken.format}: {plural(known, 'file')} stood there already; nothing was added for them")
    told.end()
    return told


def _files(paths: list[str]) -> Iterator[tuple[Path, str | None, str]]:
    """(file, the folder that was named, None for a file that was named itself; what to call the file). Raises
    UsageError for a path that is not there."""
    from proofcost.import_urls import fetched, of_records, sealed
    from proofcost.reports.place import RemoteError, local_path, shown

    for given in paths:
        path = local_path(given)
        if path is None:
            try:
                yield from fetched(given)
            except RemoteError as error:
                raise UsageError(str(error)) from None
            continue
        if not path.exists():
            raise UsageError(f"{inert_outside(given, 200, True)}: no such file or folder")
        if not path.is_dir():
            yield path, None, str(path)
        elif sealed(path):
            raise UsageError(of_records(shown(path)))
        else:
            folder = str(path) if "://" in given else given
            yield from ((Path(file), folder, file) for file in _below(folder))


def _below(folder: str) -> Iterator[str]:
    """Regular files below, no links followed. By name, but of a folder with a million only some thousand at a time."""
    below: list[str] = []
    with os.scandir(folder) as entries:
        while some := list(islice(entries, _ENTRIES)):
            some.sort(key=lambda entry: entry.name)
            below += [entry.path for entry in some if entry.is_dir(follow_symlinks=False)]
            yield from (entry.path for entry in some if entry.is_file(follow_symlinks=False))
    for one in sorted(below):
        yield from _below(one)


def _progress(files: Iterator[tuple[Path, str | None, str]]) -> Iterator[tuple[Path, str | None, str]]:
    """The files, counted on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from files
        return
    with console.status("importing") as status:
        for number, one in enumerate(files, 1):
            if number % _TELL_EVERY == 0:
                status.update(f"importing: {number:,} files looked at")
            yield one


def take(
    path: Path,
    store: Path,
    named: str | None = None,
    given: Given = NOTHING_GIVEN,
    stands: Callable[[str, str], bool] = lambda _name, _sha256: False,
) -> Taken | None:
    """Import one file; None when it is of no format that is known.

    `stands(format, digest)`: whether it is in the store together with others. Raises FormatError, OSError, CopyError.
    """
    from proofcost.adapters.foreign import FormatError, Source, digest
    from proofcost.reports import parquet

    if not path.is_file():
        raise FormatError("no regular file")  # a FIFO would be waited for
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        name = named or recognised(path, file)
        if name is None:
            return None
        sha256 = digest(file)
        place = store / "parquet" / f"import={name}" / f"{sha256}.0.parquet"
        if place.exists() or stands(name, sha256):
            return Taken(name, 0, known=True)
        source = Source(path, file)
        count = parquet.write_parts(place, _tables(made_rows(name, source, sha256, given), file, before))
    return Taken(name, count, said=source.said)


def recognised(path: Path, file: BufferedReader) -> str | None:
    """The format of an open file; None for none that is known. Raises FormatError where it may be several."""
    from proofcost.adapters import formats
    from proofcost.adapters.foreign import HEAD_BYTES, FormatError, Head

    fits = formats.recognise(Head(path.name, file.read(HEAD_BYTES)))
    if len(fits) > 1:
        raise FormatError(f"may be {' or '.join(fits)}: say which with --as")
    return fits[0] if fits else None


def made_rows(name: str, source: Source, sha256: str, given: Given) -> Iterator[Row]:
    """The rows of one file, each with where it is from. Raises FormatError, also for several kernels (or subjects) that
    were to be given one name."""
    from proofcost.adapters.foreign import FormatError

    shown = inert_outside(source.name, 200, True)
    first: Row | None = None
    for number, row in enumerate(_rows(name, source)):
        first = row if first is None else first
        for option, column in (("kernel", "kernel"), ("subject", "workload"), ("subject", "subject")):
            if getattr(given, option) is not None and row.get(column) != first.get(column):
                one, other = (inert_outside(str(of.get(column)), 60, True) for of in (first, row))
                raise FormatError(
                    f"--{option} gives one name to several: {one} and {other}; leave it out, or import a file each"
                )
        yield _finish(dict(row), number, name, shown, sha256, given)


def unchanged(file: BufferedReader, before: os.stat_result) -> None:
    """Raise FormatError when a file changed while it was read."""
    from proofcost.adapters.foreign import FormatError

    after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FormatError("changed while it was read; import it again when it is finished")


def _rows(name: str, source: Source) -> Iterator[Row]:
    from proofcost.adapters import formats

    return formats.load(name).rows(source)


def _finish(row: Row, number: int, name: str, shown: str, sha256: str, given: Given) -> Row:
    row.setdefault("record", f"{sha256[:16]}-{number}")
    row["source"], row["source_name"], row["source_sha256"] = name, shown, sha256
    labels = dict(row.get("labels") or {})
    if given.kernel is not None:
        labels |= _kept("imported_kernel", row.get("kernel"))
        row["kernel"] = given.kernel
    if given.subject is not None:
        labels |= _kept("imported_subject", row.pop("workload", None) or row.get("subject"))
        row["subject"] = given.subject
    labels |= given.labels
    if labels:
        row["labels"] = labels
    return row


def _kept(label: str, was: str | None) -> dict[str, str]:
    return {label: was} if was else {}


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
    unchanged(file, before)


def page() -> str:
    """What maps to what, of all formats, in Markdown."""
    from proofcost.adapters import formats

    parts = [
        "# What is imported, and as what\n\n`--kernel NAME` and `--subject NAME` say which kernel made a file's "
        "figures and what was checked, where the file\ndoes not. A file of several kernels (or subjects) is refused "
        "then, since one name would put them together. What the file called\nthem stays, as the labels "
        "`imported_kernel` and `imported_subject`. `-l K=V` labels every row.\n"
    ]
    for name in formats.names():
        one = formats.load(name)
        parts.append(f"\n## {name}\n\n{one.HELP}.\n\n| there | column | how |\n|---|---|---|")
        parts += [f"| `{theirs}` | {ours} | {how} |" for theirs, ours, how in one.MAPS]
        parts.append("\nCannot tell: " + "; ".join(one.UNKNOWN) + ".")
        parts += [f"\nDefect: {defect}" for defect in one.DEFECTS]
    return "\n".join(parts) + "\n"
