"""Where a series changed its level: rank-CUSUM, block permutation, one split after the other.

At each split the statistic is the largest standardised difference of rank sums (Pettitt's test, localised), its chance
that of series whose blocks of neighbours were put in random order, so that neighbours may depend on one another within
a block. Only order counts: a spike is one rank, however high. Any finite numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proofcost.reports.statistics.sample import Floats, finite, share, whole

MIN_SEGMENT = 3
"""Points. One or two odd ones are never a segment."""

LEAST_BLOCKS = 14
"""With fewer, no order of blocks is rare enough for p <= 0.001: 4 of the C(13, 6) = 1,716 ways to split 13 are as good
as the best, 2 of the 3,432 for 14."""

MOST_P = 0.001

PERMUTATIONS = 4999
"""Least p 0.0002. A split that is far from significant stops early (Besag & Clifford 1991)."""

_ENOUGH_ABOVE = 20
_CHUNK = 250


@dataclass(frozen=True, slots=True)
class Change:
    index: int
    """First point after the change, counting from 0."""
    p: float
    """Of the split within its own stretch of the series; not corrected for the number of stretches."""


def pettitt(values: ArrayLike) -> tuple[int, float, float]:
    """(index after the change, Pettitt's K, its approximate two-sided p) of at least two finite numbers."""
    array = finite(values, "values")
    n = whole(array.size, "number of values", 2)
    sums = _rank_sums(_ranks(array)[None, :])[0]
    at = int(np.argmax(np.abs(sums)))
    k = float(abs(sums[at]))
    return at + 1, k, min(1.0, 2 * math.exp(-6 * k * k / (n**3 + n**2)))


def change_points(values: ArrayLike, block: int = 1, max_p: float = MOST_P, seed: int = 0) -> tuple[Change, ...]:
    """Changes in `values` (shape (n,), in order of time), by index. `block`: neighbours that may depend on one another.

    A stretch of fewer than `LEAST_BLOCKS` blocks is not split, and no segment has fewer than `MIN_SEGMENT` points.
    """
    array = finite(values, "values")
    whole(block, "block")
    share(max_p, "max_p")
    found: list[Change] = []
    stretches = [(0, array.size)]
    while stretches:
        start, end = stretches.pop()
        if end - start < LEAST_BLOCKS * block:
            continue
        # A stretch has its own stream: whatever was split before, its answer stays.
        random = np.random.default_rng([seed, start, end])
        change = _split(array[start:end], block, max_p, random)
        if change is not None:
            found.append(Change(start + change.index, change.p))
            stretches += [(start, start + change.index), (start + change.index, end)]
    return tuple(sorted(found, key=lambda change: change.index))


def best_place(values: ArrayLike) -> int:
    """First point after the best place to split `values` (at least 6) once, whatever its chance."""
    z = _standardised(_ranks(finite(values, "values"))[None, :])[0]
    return MIN_SEGMENT + _middle_of_the_best(z)


def _split(values: Floats, block: int, max_p: float, random: np.random.Generator) -> Change | None:
    ranks = _ranks(values)
    z = _standardised(ranks[None, :])[0]
    seen = float(z.max())
    if seen == 0:
        return None
    above = done = 0
    blocks = [ranks[i : i + block] for i in range(0, ranks.size, block)]
    short = len(blocks[-1]) < block
    grid = np.array(blocks[:-1] if short else blocks)
    while done < PERMUTATIONS:
        count = min(_CHUNK, PERMUTATIONS - done)
        order = random.permuted(np.tile(np.arange(len(grid)), (count, 1)), axis=1)
        shuffled = grid[order].reshape(count, -1)
        if short:  # the odd block at either end, so that no place is special
            tail = np.tile(blocks[-1], (count, 1))
            front = random.random(count) < 0.5
            shuffled = np.where(front[:, None], np.hstack([tail, shuffled]), np.hstack([shuffled, tail]))
        above += int((_standardised(shuffled).max(axis=1) >= seen * (1 - 1e-12)).sum())
        done += count
        if above >= _ENOUGH_ABOVE and (above + 1) / (done + 1) > max_p:
            return None
    p = (above + 1) / (done + 1)
    return Change(MIN_SEGMENT + _middle_of_the_best(z), p) if p <= max_p else None


def _middle_of_the_best(z: Floats) -> int:
    """Of equally good places the middle one."""
    best = np.flatnonzero(z >= z.max() * (1 - 1e-12))
    return int(best[best.size // 2])


def _ranks(values: Floats) -> Floats:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks


def _rank_sums(ranks: Floats) -> Floats:
    """2 R_k - k (n + 1) for k = 1 .. n - 1, along the last axis; R_k the sum of the first k ranks."""
    n = ranks.shape[-1]
    sums: Floats = 2 * np.cumsum(ranks, axis=-1)[..., :-1] - np.arange(1, n) * (n + 1)
    return sums


def _standardised(ranks: Floats) -> Floats:
    """|z| of the rank sums at each place that leaves `MIN_SEGMENT` points on either side; without ties, variance 1."""
    n = ranks.shape[-1]
    k = np.arange(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    z: Floats = np.abs(_rank_sums(ranks)[..., MIN_SEGMENT - 1 : n - MIN_SEGMENT]) / np.sqrt(k * (n - k) * (n + 1) / 3)
    return z
