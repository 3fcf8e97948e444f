"""`proofcost report hosts`: its options, and how it is made."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofcost.reports.asked import Asked
    from proofcost.reports.document import Document


def add_options(parser: argparse.ArgumentParser) -> None:
    """None of its own: `--where` chooses works and classes."""


def make(asked: Asked, args: argparse.Namespace) -> Document:
    """Make the report."""
    from proofcost.reports.asked import ReportError, nothing
    from proofcost.reports.hosts import document
    from proofcost.reports.hosts_data import hosts_found

    found = hosts_found(asked.data, asked.where, asked.said)
    if not any(costs.costs for costs in found.measured):
        raise ReportError(nothing(asked.data, asked.where))
    return document(found)
