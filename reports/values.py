"""The figures of one cell: each as it was measured while they are few, else counted in bins 1 % wide.

Both give the same answers; a binned quantile is off by half a bin at most. Bins of several cells, of several hosts,
add up without reading a record again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from proofcost.reports.statistics.sample import Floats, Ints

STEP = math.log(1.01)
"""Width of a bin on the log scale: bin b holds what lies from 1.01^b up to 1.01^(b+1)."""

WORST_ERROR = math.expm1(STEP / 2)
"""Of a binned quantile, relative: half a bin, 0.499 %."""


class Values:
    """At least one figure, all above 0. (A plain class: there may be a million of them.)"""

    __slots__ = ("_ends", "_numbers", "_ordered", "counts")

    def __init__(self, numbers: Ints, counts: Ints | None = None, ends: tuple[int, int] | None = None) -> None:
        """Figures in any order; or, with `counts`, bins in ascending order, and the least and largest figure."""
        self._numbers = numbers
        self._ordered = counts is not None
        self.counts = counts
        """How many each bin holds; None where `numbers` are the figures themselves."""
        self._ends = ends

    @classmethod
    def of(cls, figures: Sequence[int] | Ints) -> Values:
        """Each figure kept; at least one, all above 0."""
        return cls(np.asarray(figures, dtype=np.int64))

    @property
    def numbers(self) -> Ints:
        """The figures themselves, or the bins that hold any; ascending. Put in order when first asked for."""
        if not self._ordered:
            # A block often holds a single run, and there may be a million blocks.
            self._numbers, self._ordered = np.sort(self._numbers) if self._numbers.size > 1 else self._numbers, True
        return self._numbers

    @property
    def minimum(self) -> int:
        """Exact, also where the figures are in bins."""
        return int(self.numbers[0]) if self._ends is None else self._ends[0]

    @property
    def maximum(self) -> int:
        """Exact, also where the figures are in bins."""
        return int(self.numbers[-1]) if self._ends is None else self._ends[1]

    @property
    def binned(self) -> bool:
        return self.counts is not None

    @property
    def n(self) -> int:
        return int(self._numbers.size if self.counts is None else self.counts.sum())

    @property
    def median(self) -> int:
        """The lower of two middle ones: a figure that was measured (or its bin's middle)."""
        if self.counts is None:
            return int(self.numbers[(self.numbers.size - 1) // 2])
        return round(float(self._at(np.array([(self.n - 1) // 2]))[0]))

    def quantile(self, p: float) -> float:
        """Between the two figures that are next to it, in proportion; `p` from 0 to 1."""
        place = p * (self.n - 1)
        low, high = self._at(np.array([math.floor(place), math.ceil(place)])).tolist()
        return float(low + (high - low) * (place - math.floor(place)))

    def log_mean(self) -> float:
        """Mean of natural logarithms."""
        if self.counts is None:
            return float(np.log(self.numbers).mean())
        return float(((self.numbers + 0.5) * STEP) @ self.counts / self.n)

    def floats(self) -> Floats:
        """Every figure, ascending; shape (n,). A binned one as its bin's middle."""
        if self.counts is None:
            return self.numbers.astype(np.float64)
        return np.repeat(self._middles(), self.counts)

    def in_bins(self) -> Values:
        """The same, binned."""
        if self.counts is not None:
            return self
        bins, counts = np.unique(np.floor(np.log(self.numbers) / STEP).astype(np.int64), return_counts=True)
        return Values(bins, counts, (self.minimum, self.maximum))

    def _middles(self) -> Floats:
        middles: Floats = np.clip(np.exp((self.numbers + 0.5) * STEP), self.minimum, self.maximum)
        return middles

    def _at(self, ranks: Ints) -> Floats:
        """The figures at these places of the ascending order, from 0."""
        if self.counts is None:
            return self.numbers[ranks].astype(np.float64)
        found = self._middles()[np.searchsorted(np.cumsum(self.counts), ranks, side="right")]
        return np.where(ranks == 0, self.minimum, np.where(ranks == self.n - 1, self.maximum, found))


def pooled(parts: Iterable[Values]) -> Values:
    """All figures of at least one part together; in bins if any part is."""
    given = list(parts)
    if len(given) == 1:
        return given[0]
    if all(part.counts is None for part in given):
        return Values.of(np.concatenate([part.numbers for part in given]))
    return reduce(_added, (part.in_bins() for part in given))


def _added(one: Values, other: Values) -> Values:
    assert one.counts is not None
    assert other.counts is not None
    bins, place = np.unique(np.concatenate([one.numbers, other.numbers]), return_inverse=True)
    counts = np.zeros(bins.size, dtype=np.int64)
    np.add.at(counts, place, np.concatenate([one.counts, other.counts]))
    return Values(bins, counts, (min(one.minimum, other.minimum), max(one.maximum, other.maximum)))
