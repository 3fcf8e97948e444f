"""`proofcost report history`: its options, and how it is made."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofcost.reports.asked import Asked
    from proofcost.reports.document import Document

ORDER_MAX_BYTES = 64 << 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the points are, and their order."""
    parser.add_argument(
        "--along",
        metavar="COLUMN",
        help="what the points are: label.commit, kernel_version, kernel, time (default: the first of the former two "
        "that records tell, else time)",
    )
    parser.add_argument(
        "--order",
        metavar="FILE",
        help="names of points, the oldest first: git log --reverse --format='%%H %%P' > FILE (default: by first run)",
    )


def make(asked: Asked, args: argparse.Namespace) -> Document:
    """Make the report."""
    from proofcost.reports.asked import ReportError, nothing
    from proofcost.reports.history import document
    from proofcost.reports.history_data import HistoryError, history_found, read_order

    order = None
    if args.order is not None:
        order = read_order(_text(args.order))
        if not order:
            raise ReportError(f"--order {args.order}: names nothing; write one point a line, the oldest first")
    try:
        found = history_found(asked.data, asked.where, args.along, order, asked.pool, asked.said)
    except HistoryError as error:
        raise ReportError(str(error)) from None
    if not found.series and not any(one.changes for one in found.ends):
        raise ReportError(nothing(asked.data, asked.where))
    return document(found)


def _text(name: str) -> str:
    """Raises ReportError."""
    from proofcost.reports.asked import ReportError
    from proofcost.reports.inert import inert_outside

    shown = inert_outside(name, 200, True)
    try:
        with Path(name).open("rb") as file:
            raw = file.read(ORDER_MAX_BYTES + 1)
    except OSError as error:
        raise ReportError(f"--order {shown}: {error.strerror}; give a file of points, one a line") from None
    if len(raw) > ORDER_MAX_BYTES:
        raise ReportError(f"--order {shown}: larger than {ORDER_MAX_BYTES >> 20} MiB; no list of commits is")
    return raw.decode("utf-8", "replace")
