"""`proofcost compare BASE HEAD`: which costs changed, which did not, and which need more runs."""

from __future__ import annotations

import argparse
import csv
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from proofcost.extras import need
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.reports.compare import Report

NOT_ENOUGH = 3
SUFFIXES = (".json", ".md", ".csv")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `compare` to the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="what changed between two kernels, commits or machines",
        description="Compare two sides case by case: what changed, what surely did not, and what needs more runs.",
    )
    for name in ("base", "head"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="a path, a name given to bench --save, a kernel, or a condition (label.commit=abc)",
        )
    parser.add_argument(
        "--data", action="append", metavar="PATH", help="where names are looked up (default: your store)"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="COND", help="only these (threads=4); repeatable"
    )
    parser.add_argument("--since", metavar="T", help="only what started since (7d, 2026-11-01)")
    parser.add_argument(
        "--pool", action="append", default=[], metavar="COLUMN", help="compare though the sides differ in it"
    )
    parser.add_argument(
        "--strict", action="store_true", help="a change needs its whole interval beyond the least effect"
    )
    parser.add_argument("--gate", action="store_true", help="exit with 1 when something regressed")
    parser.add_argument(
        "--conclusive", action="store_true", help="with --gate: exit with 3 when something is inconclusive"
    )
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="FILE", help="also write .json, .md or .csv"
    )
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 done, 1 output not written or (--gate) a regression, 2 usage, 3 (--conclusive) not settled."""
    need("reports", "duckdb", "pyarrow", "scipy", "numpy", "orjson")
    from proofcost.reports.cells import GUARDED, UnlikeError
    from proofcost.reports.compare import compare
    from proofcost.reports.dataset import DataError
    from proofcost.reports.sides import SideError, resolve
    from proofcost.reports.where import WhereError, parse

    gc.disable()  # as in report.py
    try:
        for name in args.pool:
            if name not in GUARDED:
                raise UsageError(f"--pool {name!r}: not one of {', '.join(GUARDED)}")
        for path in args.output:
            if not path.endswith(SUFFIXES):
                raise UsageError(f"-o {path}: give a name that ends in {' or '.join(SUFFIXES)}")
        if args.conclusive and not args.gate:
            raise UsageError("--conclusive: goes with --gate")
        paths = args.data or [choose_store(None, os.environ, os.geteuid())[0]]
        base, head = resolve(args.base, args.head, paths, parse(args.where, args.since))
        report = compare(base, head, args.pool, args.strict)
    except (UsageError, DataError, SideError, WhereError, UnlikeError) as error:
        print(f"proofcost: {inert_outside(str(error), 2000)}", file=sys.stderr)
        return USAGE
    show(report, Console())
    for path in args.output:
        try:
            save(report, Path(path))
        except OSError as error:
            print(
                f"proofcost: -o {inert_outside(path, 200, True)}: cannot be written: {error.strerror}", file=sys.stderr
            )
            return FAILED
    return gate(report, args.conclusive) if args.gate else DONE


def gate(report: Report, conclusive: bool) -> int:
    """The exit status of a gate."""
    from proofcost.reports.statistics.verdict import Finding

    if report.of(Finding.REGRESSED) or report.disagreements:
        return FAILED
    unsettled = report.of(Finding.INCONCLUSIVE) or not report.compared
    return NOT_ENOUGH if conclusive and unsettled else DONE


def show(report: Report, console: Console) -> None:
    """The table, the answer, and what must be known beside them."""
    from rich.text import Text

    from proofcost.reports.compare_text import HEAD, conclusion, lines, notes
    from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write, write_note

    ascii_only = is_ascii(console)
    with full_width(console):
        if report.compared:
            rows = [Row(cells) for cells in lines(report, ascii_only)]
            write(console, table_of(console, HEAD, rows, right=(2, 3, 4, 6), least={0: 12, 7: 14}))
            write(console, Text())
        write(console, Text(conclusion(report)))
        write(console, Text())
        for note in notes(report):
            write_note(console, inert_outside(note, 1000, ascii_only))


def save(report: Report, path: Path) -> None:
    """Write by suffix, whole or not at all. Raises OSError."""
    from proofcost.reports.compare import as_json
    from proofcost.reports.compare_text import HEAD, lines, markdown

    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".json":
                file.write(as_json(report) + "\n")
            elif path.suffix == ".md":
                file.write(markdown(report))
            else:
                writer = csv.writer(file)
                writer.writerow(HEAD)
                writer.writerows(lines(report, False))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
