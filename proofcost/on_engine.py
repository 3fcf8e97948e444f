"""`--engine URL`: which engine answers the questions of a report."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from proofcost.output import FAILED
from proofcost.show import USAGE

if TYPE_CHECKING:
    from proofcost.reports.engine import EngineError


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The option, of commands that make reports."""
    parser.add_argument(
        "--engine",
        default="duckdb",
        metavar="URL",
        help="what reads the records: duckdb (default), spark://HOST:PORT, spark-local, clickhouse (docs/engines.md)",
    )


def status_of(error: EngineError) -> int:
    """2 where an engine cannot be had, 1 where it failed under way."""
    return FAILED if error.under_way else USAGE
