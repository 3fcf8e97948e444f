"""`proofcost compare BASE HEAD`: which costs changed, which did not, and which need more runs."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from proofcost.extras import need
from proofcost.on_engine import add_engine, status_of
from proofcost.output import DONE, FAILED, settled
from proofcost.reports.inert import inert_outside
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.reports.compare import Report
    from proofcost.reports.document import Document

NOT_ENOUGH = 3


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
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit with 0 where no regression was seen, 1 where something regressed or head lost a verdict, "
        "3 where nothing could be judged",
    )
    parser.add_argument(
        "--conclusive", action="store_true", help="with --gate: exit with 3 also when something is inconclusive"
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="also write .html, .md, .json, .csv, .svg, ..., or a folder",
    )
    add_engine(parser)
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 done, 1 output not written, an engine that failed under way or (--gate) a
    regression, 2 usage, 3 (--gate) nothing judged, or (--conclusive) something not settled."""
    need("reports", "duckdb", "pyarrow", "scipy", "numpy", "orjson", "matplotlib", "jinja2")
    from proofcost.reports.cells import GUARDED, UnlikeError
    from proofcost.reports.cold_warm import CACHE
    from proofcost.reports.compare import compare
    from proofcost.reports.compare_document import document
    from proofcost.reports.compare_noise import false_alarms
    from proofcost.reports.dataset import DataError
    from proofcost.reports.engine import EngineError, opening
    from proofcost.reports.sides import SideError, resolve
    from proofcost.reports.where import WhereError, parse
    from proofcost.reports.writing import OutputError, check_path, print_document

    gc.disable()  # as in report.py
    try:
        for name in args.pool:
            if name not in (*GUARDED, CACHE):
                raise UsageError(f"--pool {name!r}: not one of {', '.join((*GUARDED, CACHE))}")
        for path in args.output:
            check_path(path)
        if args.conclusive and not args.gate:
            raise UsageError("--conclusive: goes with --gate")
        paths = args.data or [choose_store(None, os.environ, os.geteuid())[0]]
        base, head = resolve(args.base, args.head, paths, parse(args.where, args.since), opening(args.engine))
        report = compare(base, head, args.pool, args.strict)
        if args.gate:
            report.gated, report.false_alarms = True, false_alarms(report)
    except (UsageError, DataError, SideError, WhereError, UnlikeError, OutputError) as error:
        print(f"proofcost: {inert_outside(str(error), 2000)}", file=sys.stderr)
        return USAGE
    except EngineError as error:
        print(f"proofcost: {inert_outside(str(error), 2000)}", file=sys.stderr)
        return status_of(error)
    made = document(report)
    try:
        for path in args.output:
            put(report, made, path)
    except OutputError as error:
        print(f"proofcost: {inert_outside(str(error), 2000)}", file=sys.stderr)
        return USAGE
    except OSError as error:
        where = inert_outside(str(error.filename or " ".join(args.output)), 200, True)
        print(f"proofcost: -o {where}: cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED
    status = settled(gate(report, args.conclusive) if args.gate else DONE)
    print_document(made, Console())
    return status


def put(report: Report, made: Document, path: str) -> None:
    """Write by suffix, whole or not at all. Raises OutputError, OSError."""
    from proofcost.reports.compare import as_json
    from proofcost.reports.writing import replace, write

    if path.endswith(".json"):  # keys of its own, which CI reads
        replace({Path(path): f"{as_json(report)}\n".encode()})
        return
    for line in write(made, path).said:
        print(f"proofcost: {line}", file=sys.stderr)


def gate(report: Report, conclusive: bool) -> int:
    """The exit status of a gate."""
    from proofcost.reports.statistics.verdict import Finding

    if report.of(Finding.REGRESSED) or report.disagreements or report.lost:
        return FAILED
    if not report.judged:
        return NOT_ENOUGH  # that nothing was compared is not that nothing regressed
    unsettled = [one for one in report.of(Finding.INCONCLUSIVE) if not one.identical]
    return NOT_ENOUGH if conclusive and (unsettled or not report.compared) else DONE
