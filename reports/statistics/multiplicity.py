"""R3: many comparisons at once. What share of the changes that are reported may be false.

Benjamini & Hochberg 1995 (independent or positively dependent tests); Benjamini & Yekutieli 2001 for any dependence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from numpy.typing import ArrayLike

from proofcost.reports.statistics.sample import BadSampleError, finite, share


class Dependence(Enum):
    POSITIVE = "Benjamini-Hochberg"
    ANY = "Benjamini-Yekutieli"
    """Costs a factor of about ln m: for metrics that move against one another."""


@dataclass(frozen=True, slots=True)
class Family:
    """m tests judged together, in the order given."""

    method: str
    q: float
    """Largest expected share of false ones among those rejected."""
    adjusted: tuple[float, ...]
    rejected: tuple[bool, ...]

    @property
    def m(self) -> int:
        return len(self.adjusted)


def judge_family(p_values: ArrayLike, q: float = 0.05, dependence: Dependence = Dependence.POSITIVE) -> Family:
    """Adjusted p for each of `p_values` (in [0, 1], else BadSampleError), and whether it survives `q`.

    None at all are a family of 0.
    """
    share(q, "q")
    p = finite(p_values, "p_values")
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise BadSampleError(f"p_values: {p.min():g} to {p.max():g}; they lie between 0 and 1")
    if p.size == 0:
        return Family(dependence.value, q, (), ())
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control(p, method="bh" if dependence is Dependence.POSITIVE else "by")
    # A tie with q but for rounding (0.05 against 2 * 0.025) counts as q.
    return Family(
        dependence.value,
        q,
        tuple(float(value) for value in adjusted),
        tuple(bool(value <= q * (1 + 1e-12)) for value in adjusted),
    )
