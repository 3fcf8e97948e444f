"""`proofcost report KIND [DATA...]`: one report, on the terminal or into a file, or all of them into a folder.

A kind is one module, `proofcost/report_KIND.py`: its own options (`add_options`), and how it is made (`make`). They are
imported for `--help`, so what they need they import when they make it.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.text import Text

from proofcost.extras import need
from proofcost.on_engine import add_engine, status_of
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.reports.asked import Asked
    from proofcost.reports.document import Document

KINDS = {
    "kernels": "which kernel: what each costs on each submission, what it solves, how it ends",
    "submissions": "under one kernel: who solved what, at which cost, and who is ahead as far as noise tells",
    "history": "since when: between which two commits (or versions) a cost changed, and by how much",
    "hosts": "what one host class costs against another, what differs, what a work would cost where it never ran",
    "noise": "can the figures be trusted: false alarms of a thing with itself, the floor, steal, drift",
}
"""Kind -> what it answers; in the order of a folder's home page."""


LINE_MOST = 2000
"""Characters of a line on stderr: names in it are other people's."""

ALL = "all"
"""Stands for a kind where none is named."""


class _Kinds(argparse._SubParsersAction):  # type: ignore[type-arg]
    """A first word that is no kind is data, for all kinds: `report DATA -o FOLDER`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.choices = None  # type: ignore[assignment]

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        words = values if values[0] in (ALL, *KINDS) else [ALL, *values]
        super().__call__(parser, namespace, words, option_string)


class _Module(Protocol):
    """What `proofcost/report_KIND.py` holds."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add options of its own; every one has a default."""

    def make(self, asked: Asked, args: argparse.Namespace) -> Document:
        """Make the report. Raises ReportError, UnlikeError, WhereError, UsageError."""


def _module(kind: str) -> _Module:
    module: _Module = importlib.import_module(f"proofcost.report_{kind}")
    return module


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `report` to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="kernels, submissions, hosts and their history from many records",
        description="Reports from many records. Without KIND: all there is data for, as a folder of linked pages.",
    )
    _add_common(parser)
    parser.add_argument("--data", action="append", metavar="PATH", help="the same as DATA")
    parser.set_defaults(run=main, paths=[])
    kinds = parser.add_subparsers(title="kinds", dest="kind", metavar="KIND | DATA...", action=_Kinds)
    kinds.default = ALL
    every = kinds.add_parser(ALL)
    every.add_argument("paths", nargs="*", metavar="DATA")
    _add_common(every)
    for name, what in KINDS.items():
        kind = kinds.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        kind.add_argument("paths", nargs="*", metavar="DATA", help="store, folder, file or URL (default: your store)")
        _add_common(kind)
        _module(name).add_options(kind)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--where", action="append", default=[], metavar="COND", help="only these (kernel=nanoda); repeatable"
    )
    parser.add_argument("--since", metavar="T", help="only what started since (7d, 2026-11-01)")
    parser.add_argument(
        "--pool", action="append", default=[], metavar="COLUMN", help="put together though it differs in it"
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="PATH",
        help="write it there instead: .html, .md, .json, .csv, .parquet, .svg, .pdf, .png, or a folder",
    )
    add_engine(parser)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 done, 1 output not written or an engine that failed under way, 2 usage or nothing to report."""
    need("reports", "duckdb", "pyarrow", "scipy", "numpy", "orjson", "matplotlib", "jinja2")
    from proofcost.reports.asked import ReportError, ask
    from proofcost.reports.cells import UnlikeError
    from proofcost.reports.dataset import DataError
    from proofcost.reports.engine import EngineError, opening
    from proofcost.reports.metrics import POOLED
    from proofcost.reports.where import WhereError
    from proofcost.reports.writing import OutputError, check_path

    # A million small objects are made, none in a cycle that matters: looking for those would take half of the time.
    gc.disable()
    try:
        for name in args.pool:
            if name not in POOLED:
                raise UsageError(f"--pool {name!r}: not one of {', '.join(POOLED)}")
        for path in args.output:
            check_path(path)
        given = [*args.paths, *(args.data or [])]
        if args.kind == ALL:
            _check_all(given, args.output)
        paths = given or [choose_store(None, os.environ, os.geteuid())[0]]
        asked = ask(paths, args.where, args.since, args.pool, opening(args.engine))
        documents = _all(asked) if args.kind == ALL else [_module(args.kind).make(asked, args)]
        return _put(documents, args.output)
    except (UsageError, ReportError, DataError, WhereError, UnlikeError, OutputError) as error:
        return _say(str(error), USAGE)
    except EngineError as error:
        return _say(str(error), status_of(error))
    except BrokenPipeError:
        raise  # who reads has seen enough: `guarded` knows
    except OSError as error:
        if error.filename is None:  # of the terminal or pipe: `guarded` knows
            raise
        where = inert_outside(str(error.filename), 200, True)
        return _say(f"-o {where}: cannot be written: {error.strerror}", FAILED)


def _check_all(given: Sequence[str], outputs: Sequence[str]) -> None:
    """Raise what is wrong with a call for all reports."""
    from proofcost.reports.writing import OutputError, is_folder

    for word in given:
        near = difflib.get_close_matches(word, KINDS, 1)
        if near and not os.path.exists(word):
            raise UsageError(f"report {word!r}: neither a kind nor data; did you mean {near[0]}?")
    if not outputs:
        raise UsageError(f"report: name a kind ({', '.join(KINDS)}), or a folder for all of them: -o FOLDER")
    for path in outputs:
        if not is_folder(path):
            shown = inert_outside(path, 200, True)
            raise OutputError(f"-o {shown}: a file holds one report; name its kind, or a folder")


def _all(asked: Asked) -> list[Document]:
    """Every report that there is data for; one that cannot be made is a page that says why."""
    from proofcost.reports.asked import ReportError
    from proofcost.reports.cells import UnlikeError
    from proofcost.reports.document import Document

    documents = []
    made = 0
    for kind, what in KINDS.items():
        module, parser = _module(kind), argparse.ArgumentParser()
        module.add_options(parser)
        try:
            documents.append(module.make(asked, parser.parse_args([])))
            made += 1
        except (ReportError, UnlikeError) as error:
            title = f"{kind[0].upper()}{kind[1:]}: not made"
            documents.append(Document(kind, title, f"Not made: {error}", (), (f"it would say: {what}",), asked.said))
            _say(f"no report {kind}: {error}", DONE)
    if not made:
        raise ReportError("there is no report that this data is enough for")
    return documents


def _put(documents: Sequence[Document], outputs: Sequence[str]) -> int:
    """On the terminal, or where it was asked for."""
    from proofcost.reports.printing import is_ascii
    from proofcost.reports.writing import print_document, write, write_folder

    console = Console()
    if not outputs:
        for document in documents:
            print_document(document, console)
        return DONE
    for path in outputs:
        written = write_folder(documents, path) if len(documents) > 1 else write(documents[0], path)
        for line in written.said:
            _say(line, DONE)
    for document in documents:
        console.print(Text(inert_outside(document.answer, 1000, is_ascii(console))), highlight=False)
    return DONE


def _say(line: str, status: int) -> int:
    print(f"proofcost: {inert_outside(line, LINE_MOST)}", file=sys.stderr)
    return status
