"""Whether a deterministic count changed between two sides: a rule without a p-value.

Counts under callgrind repeat to 10^-9 or 10^-4, by the kernel; there is no noise to test against, only a spread that
was seen. So a change is an effect beyond both a floor and a multiple of that spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low

MIN_RUNS = 3
LEAST_EFFECT = Fraction(1, 1000)
SPREADS = 5


@dataclass(frozen=True, slots=True)
class CountedChange:
    """Two sides compared. `effect` is head's median over base's, less 1; exact."""

    base: int
    head: int
    """Medians, counts."""
    effect: Fraction
    spread: Fraction
    """The larger of the two sides' (largest less smallest) over median."""
    threshold: Fraction
    """An effect of more than this, either way, is a change."""

    @property
    def is_change(self) -> bool:
        return abs(self.effect) > self.threshold


def counted_change(base: Sequence[int], head: Sequence[int]) -> CountedChange | None:
    """The change from `base`'s runs to `head`'s, in counts (at least 1 each); None with fewer than `MIN_RUNS` a side.

    Raises ValueError for a count below 1: nothing executes without instructions, so it is no count.
    """
    if min((*base, *head), default=1) < 1:
        raise ValueError(f"a count of {min((*base, *head))}: not a count of instructions")
    if len(base) < MIN_RUNS or len(head) < MIN_RUNS:
        return None
    middle = (median_low(base), median_low(head))
    spread = max(Fraction(max(side) - min(side), median) for side, median in zip((base, head), middle, strict=True))
    effect = Fraction(middle[1], middle[0]) - 1
    return CountedChange(middle[0], middle[1], effect, spread, max(LEAST_EFFECT, SPREADS * spread))
