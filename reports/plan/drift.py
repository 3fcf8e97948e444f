"""Whether the newer records are like the older: a plan made from a mixture of both holds for neither."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofcost.reports.plan.evidence import Amounts
from proofcost.reports.plan.limits import What
from proofcost.reports.statistics.survival import log_rank, survival_curve

LEAST_RUNS = 40
"""In each half."""
SURE = 0.001
"""Largest p. Two amounts are looked at: so a steady fleet is called drifting once in 500."""
LEAST_RATIO = 1.05
"""Of the medians, either way: less is no reason to plan anew."""


@dataclass(frozen=True, slots=True)
class Drift:
    what: What
    ratio: float
    """Median of the newer half over that of the older."""
    p: float

    @property
    def said(self) -> str:
        """In one clause."""
        more = "more" if self.ratio > 1 else "less"
        percent = abs(100 * (self.ratio - 1))
        odds = "p below 0.001" if self.p < SURE else f"p {self.p:.2g}"
        return f"the newer half of the records needs {percent:.0f} % {more} {self.what.value} ({odds}, log-rank)"


def between(what: What, older: Amounts, newer: Amounts) -> Drift | None:
    """None where they do not surely differ, or are too few."""
    if min(older.count, newer.count) < LEAST_RUNS:
        return None
    found = log_rank((older.values, older.stopped), (newer.values, newer.stopped))
    middles = [survival_curve(one.values, one.stopped).quantile(0.5).value for one in (older, newer)]
    if found is None or middles[0] is None or middles[1] is None or found[1] > SURE:
        return None
    ratio = middles[1] / middles[0]
    return Drift(what, ratio, found[1]) if max(ratio, 1 / ratio) >= LEAST_RATIO else None


def within(what: What, amounts: Amounts) -> Drift | None:
    """Of the older half of submissions against the newer, by their first start."""
    half = np.arange(amounts.count) < amounts.count // 2
    return between(what, amounts.part(half), amounts.part(~half))
