"""Where a series changed its level: rank-CUSUM, block permutation, one split after the other, then bumps.

At each split the statistic is the largest standardised difference of rank sums (Pettitt's test, localised), its chance
that of series whose blocks of neighbours were put in random order, so that neighbours may depend on one another within
a block. Only order counts: a spike is one rank, however high. Any finite numbers.

A level that came back has no single place to split at. So a stretch without a split is looked at once more, for the
inner part whose mean rank stands out most from that of the rest (Levin & Kline 1985; circular binary segmentation,
Olshen et al. 2004), against the same permuted orders, with half of the first look's p.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
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

BUMP_SHARE = 0.5
"""Of that, the second look's p: both together hold 0.0015. The first can give nothing up for it: 14 points could no
longer show a step."""

BUMP_BLOCK = 2
"""Times the first look's block, where neighbours depend on one another: an inner part has two ends to be lucky with.
Of 1,000 flat series of AR(1) noise (phi 0.7) 11 alarmed with the same block, 9 with this (docs/statistics.md)."""

BUMP_PLACES = 400
"""Ends that the second look tries: in longer stretches every second point, every third and so on."""

PERMUTATIONS = 4999
"""Least p 0.0002. What came out too often to become significant stops early."""

_CHUNK = 250
FIRST_LOOK = 25
"""Orders of a second look after which most flat stretches are known to be flat: each takes the square of the length."""


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
        changes = _split(array[start:end], block, max_p, random)
        wider = block if block == 1 else BUMP_BLOCK * block
        if not changes and end - start >= LEAST_BLOCKS * wider:
            changes = _bump(array[start:end], wider, max_p * BUMP_SHARE, np.random.default_rng([seed, start, end, 1]))
        found += [Change(start + change.index, change.p) for change in changes]
        stretches += itertools.pairwise([start, *(start + change.index for change in changes), end] if changes else [])
    return tuple(sorted(found, key=lambda change: change.index))


def best_place(values: ArrayLike) -> int:
    """First point after the best place to split `values` (at least 6) once, whatever its chance."""
    z = _standardised(_ranks(finite(values, "values"))[None, :])[0]
    return MIN_SEGMENT + _middle_of_the_best(z)


def _split(values: Floats, block: int, max_p: float, random: np.random.Generator) -> list[Change]:
    """The best place to split at, if chance hardly gives as good a one."""
    ranks = _ranks(values)
    z = _standardised(ranks[None, :])[0]
    p = _chance(ranks, float(z.max()), lambda rows: _standardised(rows).max(axis=1), block, max_p, random)
    return [] if p is None else [Change(MIN_SEGMENT + _middle_of_the_best(z), p)]


def _bump(values: Floats, block: int, max_p: float, random: np.random.Generator) -> list[Change]:
    """Both ends of the inner part that stands out most, if chance hardly gives one that stands out as much."""
    ranks = _ranks(values)
    if ranks.size < 3 * MIN_SEGMENT:
        return []
    seen, start, end = max((float(z[0].max()), at, at + width) for width, at, z in _by_best_start(ranks[None, :]))
    p = _chance(ranks, seen, _best_bump, block, max_p, random, FIRST_LOOK)
    return [] if p is None else [Change(start, p), Change(end, p)]


def _by_best_start(ranks: Floats) -> Iterator[tuple[int, int, Floats]]:
    """(width, its best start in the first row, |z| at all of its starts) of inner parts, all ends one grid apart."""
    step = -(-ranks.shape[-1] // BUMP_PLACES)
    for width, z in _bumps(ranks):
        yield width, MIN_SEGMENT + step * _middle_of_the_best(z[0]), z


def _best_bump(ranks: Floats) -> Floats:
    best = np.zeros(ranks.shape[0])
    for _, z in _bumps(ranks):
        np.maximum(best, z.max(axis=1), out=best)
    return best


def _bumps(ranks: Floats) -> Iterator[tuple[int, Floats]]:
    """(width, |z| by row and start) of inner parts, `MIN_SEGMENT` points left on either side; as `_standardised`."""
    n = ranks.shape[-1]
    step = -(-n // BUMP_PLACES)
    before = np.cumsum(2 * ranks - (n + 1), axis=-1)[:, MIN_SEGMENT - 1 : n - MIN_SEGMENT : step]
    for places in range(-(-MIN_SEGMENT // step), before.shape[1]):
        width = places * step
        z: Floats = np.abs(before[:, places:] - before[:, :-places]) / math.sqrt(width * (n - width) * (n + 1) / 3)
        yield width, z


def _chance(
    ranks: Floats,
    seen: float,
    statistic: Callable[[Floats], Floats],
    block: int,
    max_p: float,
    random: np.random.Generator,
    first: int = _CHUNK,
) -> float | None:
    """How often blocks in random order give at least `seen`; None if oftener than `max_p`.

    `statistic`: of each row; `first`: orders before the first question whether that is too often already.
    """
    if seen == 0:
        return None
    above = done = 0
    blocks = [ranks[i : i + block] for i in range(0, ranks.size, block)]
    short = len(blocks[-1]) < block
    grid = np.array(blocks[:-1] if short else blocks)
    while done < PERMUTATIONS:
        count = min(_CHUNK if done else first, PERMUTATIONS - done)
        order = random.permuted(np.tile(np.arange(len(grid)), (count, 1)), axis=1)
        shuffled = grid[order].reshape(count, -1)
        if short:  # the odd block at either end, so that no place is special
            tail = np.tile(blocks[-1], (count, 1))
            front = random.random(count) < 0.5
            shuffled = np.where(front[:, None], np.hstack([tail, shuffled]), np.hstack([shuffled, tail]))
        above += int((statistic(shuffled) >= seen * (1 - 1e-12)).sum())
        done += count
        # What already came out too often cannot become rare enough.
        if (above + 1) / (PERMUTATIONS + 1) > max_p:
            return None
    return (above + 1) / (done + 1)


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
