"""`proofcost report kernels`: its options, and how it is made."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofcost.reports.asked import Asked
    from proofcost.reports.document import Document


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which cost, and which two kernels a scatter shows."""
    parser.add_argument(
        "--metric", metavar="NAME", help="cost to show: wall (default), CPU, memory, instructions, callgrind"
    )
    parser.add_argument(
        "--against", nargs=2, metavar="KERNEL", help="the two kernels of the scatter (default: the two that solve most)"
    )


def make(asked: Asked, args: argparse.Namespace) -> Document:
    """Make the report."""
    from proofcost.reports.kernels import make as made

    return made(asked, args.metric, args.against)
