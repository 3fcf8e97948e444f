"""`proofcost store declare A B --evidence DATA`: two host classes taken as one, on the grounds of runs that show it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from proofcost.extras import need
from proofcost.output import DONE, FAILED, warn_of
from proofcost.reports.inert import inert_outside
from proofcost.show import USAGE, UsageError

if TYPE_CHECKING:
    from proofcost.reports.dataset import Data

FINDING = 1


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `store declare`."""
    parser = actions.add_parser(
        "declare",
        help="take two host classes as one, with the runs that show it",
        description="Take two host classes as one that differ only in microcode, the host's kernel or hypervisor. The "
        "runs that show it are kept beside the declaration, and every report that pools the two says so.",
    )
    parser.add_argument("one", metavar="A", help="a host class, or its first digits (`report hosts` lists them)")
    parser.add_argument("other", metavar="B", help="the other")
    parser.add_argument(
        "--evidence",
        required=True,
        metavar="FILE|DATA",
        help="records of the same works on both: a calibration, or A/A runs (store, folder, .parquet, .jsonl or URL)",
    )
    parser.add_argument("--store", metavar="STORE", help="where to declare it (default: $PROOFCOST_STORE, else yours)")
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 declared, 1 the evidence does not show it (nothing is written), 2 usage."""
    need("reports", "pyarrow", "duckdb", "orjson", "scipy", "numpy")
    from proofcost.reports.dataset import DataError, open_data
    from proofcost.reports.declarations import DeclarationError
    from proofcost.store import chosen  # which adds us to its actions

    try:
        store = chosen(args.store)
        data = open_data([args.evidence])
        warn_of(data)
        known = _classes(data)
        one, other = (_class(name, known, inert_outside(data.paths[0], 200, True)) for name in (args.one, args.other))
        return _declare(store, data, one, other)
    except (UsageError, DataError, DeclarationError) as error:
        print(f"proofcost: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        where = inert_outside(str(error.filename or args.store or "the store"), 200, True)
        print(f"proofcost: {where}: {error.strerror or error}; nothing was declared", file=sys.stderr)
        return FAILED


def _classes(data: Data) -> list[str]:
    query = "SELECT DISTINCT host_class FROM records WHERE host_class IS NOT NULL ORDER BY 1"
    return [str(row[0]) for row in data.rows(query)]


def _class(name: str, known: Sequence[str], evidence: str) -> str:
    """The class of the evidence that a name or its first digits mean. Raises UsageError."""
    found = [one for one in known if one.startswith(name)] if name else []
    if len(found) == 1 or name in found:
        return name if name in found else found[0]
    shown = ", ".join(inert_outside(one, 40, True) for one in known[:8]) or "none"
    what = "stands for several host classes" if found else "no such host class"
    raise UsageError(
        f"{inert_outside(name, 60, True)!r}: {what} in {evidence}, which has {shown}; "
        "the evidence must hold runs on both"
    )


def _declare(store: Path, data: Data, one: str, other: str) -> int:
    from proofcost.reports import parquet
    from proofcost.reports.declarations import (
        FOLDER,
        SAID_CHARACTERS,
        Declaration,
        DeclarationError,
        is_class,
        may_be_one,
        name_of,
        write,
    )
    from proofcost.reports.declaring import evidence

    if one == other:
        raise DeclarationError(f"{one}: A and B are the same host class; there is nothing to declare")
    if not (is_class(one) and is_class(other)):
        wrong = inert_outside(one if not is_class(one) else other, 60, True)
        raise DeclarationError(f"{wrong!r}: not a host class as a meter names it; imported names cannot be declared")
    if not may_be_one(one, other):
        raise DeclarationError(
            f"{one} and {other} differ in what matters for cost (their first halves): only microcode, the host's "
            "kernel and the hypervisor can be declared harmless; `proofcost report hosts` shows factors between such "
            "classes"
        )
    shown = evidence(data, one, other)
    if not shown.shown:
        raise DeclarationError(
            f"{one} and {other}: no work ran on both and came to one and the same end; nothing to show"
        )
    against = shown.against
    if against:
        print(f"proofcost: not declared: the evidence speaks against it: {against[0].said}", file=sys.stderr)
        return FINDING
    if not any(part.metric.group == "wall" for part in shown.shown):
        print("proofcost: not declared: no wall was measured on both sides", file=sys.stderr)
        return FINDING
    if shown.open:
        print(
            f"proofcost: not declared: the evidence does not settle it yet: {shown.open[0].said}; give more",
            file=sys.stderr,
        )
        return FINDING
    first, second = sorted((one, other))
    declaration = Declaration(first, second, shown.said[:SAID_CHARACTERS], shown.sha256, time.time_ns())
    folder = store / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    parquet.write(folder / f"{name_of(one, other)}.parquet", shown.records.cast(parquet.SCHEMA))
    path = write(store, declaration, shown.details())
    os.chmod(folder / f"{name_of(one, other)}.parquet", 0o600)
    print(f"{first} and {second} now count as one host class: {shown.said}")
    print(f"kept in {inert_outside(str(path), 300, True)}, the {shown.records.num_rows} records beside it")
    return DONE
