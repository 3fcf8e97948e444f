"""`proofcost plan [PLAN.toml]`: from records to sandbox limits, sandboxes on a host, hosts, and what a verdict costs.

    proofcost plan --host 64c/256G --price 2.50/h --rate 400/h --wait p95=10m --oom 1%
    proofcost plan PLAN.toml --set fleet.rate=800/h -o plan.html

Exit: 0 done, 1 output not written, or (--backtest) a promise that was not kept, 2 wrong call or nothing to plan from,
3 not enough data (with --conclusive).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from proofcost.extras import need
from proofcost.harness.described import DescriptionError
from proofcost.harness.whole_file import whole_file
from proofcost.on_engine import add_engine, status_of
from proofcost.output import DONE, FAILED, settled
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError, choose_store

if TYPE_CHECKING:
    from proofcost.bench_suites.registry import Registry
    from proofcost.reports.dataset import Data
    from proofcost.reports.document import Document
    from proofcost.reports.plan.asked import Asked
    from proofcost.reports.plan.made import Plan
    from proofcost.reports.where import Where

NOT_ENOUGH = 3

FLAGS = (
    ("--host", "host.size", "64c/256G", "a host: cores/memory, and its disk as a third"),
    ("--price", "host.price", "2.50/h", "what a host costs"),
    ("--sandbox", "sandbox.size", "4c/8G", "what a sandbox is given; left out: recommended"),
    ("--time", "sandbox.time", "6h", "its time limit; left out: recommended"),
    ("--oom", "limits.oom", "1%%", "share that may be killed for memory"),
    ("--timeouts", "limits.timeouts", "1%%", "share that may time out"),
    ("--rule", "limits.rule", "3h + 15m/MB up to 6h", "a rule of thumb to be held against the records"),
    ("--ladder", "limits.ladder", "3", "a retry ladder of at most so many memory limits"),
    ("--overcommit", "host.overcommit", "0.1%%", "let peaks fit instead of limits, with this risk"),
    ("--rate", "fleet.rate", "400/h", "verdicts that are asked for"),
    ("--wait", "fleet.wait", "p95=10m", "how long they may wait"),
    ("--batch", "fleet.batch", "2000", "or: so many verdicts"),
    ("--deadline", "fleet.deadline", "8h", "by then"),
    ("--hosts", "fleet.hosts", "3", "hosts there are; left out: sought"),
)
"""(flag, the plan's key that it stands for, example, what it is)"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plan` to the command line."""
    parser = subparsers.add_parser(
        "plan",
        help="limits, sandboxes on a host and hosts, from records",
        description="From records to sandbox limits, sandboxes on a host, hosts and cost.",
        epilog="What PLAN.toml holds, and what each figure means: docs/plan.md.",
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="PLAN.toml", help="a plan's file; every flag below can stand in it")
    add("--set", action="append", default=[], metavar="K=V", help="set one key of the plan (fleet.rate=400/h)")
    for flag, key, example, what in FLAGS:
        add(flag, metavar=example.replace("%%", "%").replace(" ", ""), help=f"{what} ({key})")
    add("--kernel", action="append", default=[], metavar="NAME", help="plan for these kernels only; repeatable")
    add("--by", action="append", default=[], metavar="COLUMN", help="classes of submission: label.KEY, input_bytes")
    add("--trace", action="store_true", help="verdicts are asked for as they came in the records")
    add("--tail", action="store_true", help="draw a tail beyond the data, dashed")
    add("--data", action="append", default=[], metavar="PATH", help="store, folder, file or URL (repeatable)")
    add("--where", action="append", default=[], metavar="COND", help="only these (label.set=putnam); repeatable")
    add("--since", metavar="T", help="only what started since (30d, 2026-11-01)")
    add("--pool", action="append", default=[], metavar="COLUMN", help="take runs together though they differ in it")
    add("--backtest", action="store_true", help="plan on the first half of the records, and replay the second")
    add("--diff", metavar="OLD.json", help="say what moved since an earlier plan")
    add("--suite", metavar="FILE.toml", help="write the suite that gets what is missing")
    add("--on", action="append", default=[], metavar="EXPORTS", help="with --suite: exports that it runs on")
    add("--conclusive", action="store_true", help="exit with 3 when there is not enough data")
    add(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="PATH",
        help="write it there instead: .html, .md, .json, .csv, .parquet, .svg, .pdf, .png, or a folder",
    )
    add_engine(parser)
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 done, 1 not written or a promise broken, 2 usage or nothing to plan from, 3 not enough data."""
    need("reports", "duckdb", "pyarrow", "scipy", "numpy", "orjson", "matplotlib", "jinja2")
    from proofcost.reports.dataset import DataError
    from proofcost.reports.engine import EngineError
    from proofcost.reports.plan.evidence import PlanError
    from proofcost.reports.statistics.sample import BadSampleError
    from proofcost.reports.where import WhereError
    from proofcost.reports.writing import OutputError

    try:
        return _plan(args)
    except (UsageError, DescriptionError, DataError, WhereError, PlanError, OutputError, BadSampleError) as error:
        return _say(f"plan: {error}", USAGE)
    except EngineError as error:
        return _say(f"plan: {error}", status_of(error))
    except OSError as error:
        if error.filename is None:  # of the terminal or pipe: `guarded` knows
            raise
        where = inert_outside(str(error.filename), 200, True)
        return _say(f"plan: {where}: cannot be written: {error.strerror}", FAILED)


def _say(what: str, status: int) -> int:
    print(f"proofcost: {inert_outside(what, None)}", file=sys.stderr)
    return status


def _plan(args: argparse.Namespace) -> int:
    from proofcost.reports.plan import asked, backtest, backtest_page, diff, made, page, shortened
    from proofcost.reports.writing import check_path

    for path in args.output:
        check_path(path)
    if args.on and not args.suite:
        raise UsageError("--on: goes with --suite")
    if args.suite and not args.suite.endswith(".toml"):
        raise UsageError(f"--suite {inert_outside(args.suite, 200, True)}: give a name that ends in .toml")
    if args.suite and os.path.lexists(args.suite):
        raise UsageError(f"--suite {inert_outside(args.suite, 200, True)}: is there already; give another name")
    wanted = asked.read(args.file, _given(args))
    old = None if args.diff is None else diff.read_old(args.diff)
    data, where, sources = _open(args, wanted)
    if args.backtest:
        if old is not None or args.suite:
            raise UsageError("--backtest: goes with neither --diff nor --suite")
        tested = backtest.backtest(data, where, wanted)
        return _put(backtest_page.document(tested, sources), args.output, FAILED if tested.broken else DONE)
    plan = made.make(data, where, wanted)
    if args.suite:
        _write_suite(args, plan)
    document = page.document(plan, sources, args.suite)
    if old is not None:
        from dataclasses import replace

        document = replace(document, sections=(*document.sections, diff.diff_section(old, document)))
    if plan.missing and not args.output:
        document = shortened.shortened(document)
    return _put(document, args.output, NOT_ENOUGH if args.conclusive and plan.missing else DONE)


def _given(args: argparse.Namespace) -> list[tuple[str, str, str]]:
    """(how it was given, key, value) of everything on the command line that is part of the plan."""
    found = []
    for flag, key, _, _ in FLAGS:
        value = getattr(args, flag.removeprefix("--"))
        if value is not None:
            found.append((flag, key, value))
    for flag, key, wanted in (("--trace", "fleet.trace", args.trace), ("--tail", "limits.tail", args.tail)):
        if wanted:
            found.append((flag, key, "true"))
    for flag, key, values in (
        ("--kernel", "kernels", args.kernel),
        ("--by", "limits.by", args.by),
        ("--pool", "pool", args.pool),
    ):
        if values:
            found.append((flag, key, _array(values)))
    for text in args.set:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--set {inert_outside(text, 60, True)!r}: not K=V; write for example --set fleet.rate=400/h"
            )
        found.append((f"--set {inert_outside(key.strip(), 60, True)}", key.strip(), value.strip()))
    return found


def _array(values: Sequence[str]) -> str:
    """As TOML."""
    import json

    return json.dumps(list(values))


def _open(args: argparse.Namespace, wanted: Asked) -> tuple[Data, Where, list[str]]:
    from proofcost.reports.engine import opening
    from proofcost.reports.where import parse

    folder = os.path.dirname(os.path.abspath(args.file)) if args.file else os.getcwd()
    named = args.data or [_data(folder, path) for path in wanted.data]
    paths = named or [choose_store(None, os.environ, os.geteuid())[0]]
    conditions = [*wanted.where, *args.where]
    since = args.since or wanted.since
    where = parse(conditions, since)
    data = opening(args.engine)(paths)
    sources = [inert_outside(path, 200) for path in data.paths]
    sources += data.notes
    if conditions or since:
        sources.append(" and ".join([*conditions, *([f"since {since}"] if since else [])]))
    if data.problems:
        sources.append(f"{plural(len(data.problems), 'line or file', 'lines or files')} skipped: proofcost log tells")
    return data, where, sources


def _data(folder: str, named: str) -> str:
    """A URL as it is; a path from the plan's folder."""
    from proofcost.reports.place import is_url

    return named if is_url(named) else os.path.join(folder, os.path.expanduser(named))


def _write_suite(args: argparse.Namespace, plan: Plan) -> None:
    from proofcost.bench_suites import registry
    from proofcost.reports.plan.suite_for import suite_text

    exports, generated = [], []
    for spec in args.on:
        if os.path.exists(spec):
            exports.append(os.path.abspath(spec))
        else:
            generated.append(_family(spec))
    known = registry.load([], os.environ)
    kernels = [name for name in plan.evidence.kernels if name in known and _installed(name, known)]
    text = suite_text(plan, exports, kernels, generated)
    with whole_file(args.suite) as file:
        file.write(text.encode("utf-8"))


def _family(spec: str) -> tuple[str, int, int]:
    """(family, n, seed) of FAMILY:n[:seed], as `bench --on` takes it. Raises UsageError."""
    from proofcost.bench_suites import families

    shown = inert_outside(spec, 200, True)
    name, colon, rest = spec.partition(":")
    if not colon:
        raise UsageError(f"--on {shown}: no such file or folder; name exports, or a family and its size as church:300")
    try:
        families.parse(spec)
    except families.FamilyError as error:
        raise UsageError(f"--on {shown}: {inert_outside(str(error), 200, True)}") from None
    n, _, seed = rest.partition(":")
    return name, int(n), int(seed or 0)


def _installed(name: str, known: Registry) -> bool:
    """Whether `bench` would find it here, so that it takes the suite as it is."""
    from proofcost.bench_suites import kernel

    try:
        kernel.named(name, known, os.environ)
    except DescriptionError:
        return False
    return True


def _put(document: Document, outputs: Sequence[str], status: int) -> int:
    """On the terminal, or where it was asked for with the answer alone here; the files first. Returns `status`."""
    from proofcost.reports.printing import is_ascii
    from proofcost.reports.writing import print_document, write

    console = Console()
    said = [one for path in outputs for one in write(document, path).said]
    settled(status)
    if not outputs:
        print_document(document, console)
        return status
    ascii_only = is_ascii(console)
    print(inert_outside(document.answer, 2000, ascii_only))
    for one in said:
        print(inert_outside(one, 400, ascii_only))
    return status
