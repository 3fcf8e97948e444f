"""A metric's name as part of a file's or a column's."""

from __future__ import annotations

import re

from proofcost.reports.metrics import Metric


def metric_key(metric: Metric) -> str:
    """`instructions_callgrind` for `instructions (callgrind)`."""
    return re.sub(r"\W+", "_", metric.name).strip("_").lower()
