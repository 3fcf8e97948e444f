"""C4: when jobs arrive: at random at a constant rate, by the hour of the day, or as a trace had it.

All give ascending times in s from 0, drawn with the generator that is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, above_zero, finite, not_negative, whole

HOUR_S = 3600.0
DAY_S = 86_400.0


def constant(rate_per_s: float, count: int, random: np.random.Generator) -> Floats:
    """`count` arrivals of a Poisson process."""
    times: Floats = np.cumsum(random.exponential(1 / above_zero(rate_per_s, "rate_per_s"), whole(count, "count")))
    return times


def daily(per_hour: Sequence[float], days: int, random: np.random.Generator) -> Floats:
    """Arrivals of a Poisson process whose rate is `per_hour[h]` (24 of them, jobs an hour) in hour h of each day."""
    rates = not_negative(per_hour, "per_hour")
    if rates.size != 24 or not rates.any():
        raise BadSampleError(f"per_hour: {rates.size} rates, the largest {rates.max(initial=0):g}; 24, one above 0")
    # Unit-rate arrivals, carried to where the expected number reaches them.
    expected = np.concatenate([[0.0], np.cumsum(np.tile(rates, whole(days, "days")))])
    count = int(random.poisson(expected[-1]))
    at = np.sort(random.uniform(0, expected[-1], count))
    times: Floats = np.interp(at, expected, np.arange(expected.size) * HOUR_S)
    return times


def from_trace(times_s: Numbers, days: int, random: np.random.Generator, block_s: float = DAY_S) -> Floats:
    """`days` blocks of a trace, drawn with replacement: what belongs together within one (a deadline's rush) stays.

    `times_s`: ascending, any origin. The last block is left out if it is not whole; a trace shorter than one block is
    repeated as it is. Raises BadSampleError for no times, or times that run backwards.
    """
    times = finite(times_s, "times_s")
    above_zero(block_s, "block_s")
    if times.size == 0:
        raise BadSampleError("times_s: there are none")
    backwards = np.flatnonzero(np.diff(times) < 0)
    if backwards.size:
        raise BadSampleError(
            f"times_s[{backwards[0] + 1}] is before the one in front of it: sort them, or mend the clock"
        )
    since = times - times[0]
    blocks = max(1, int(since[-1] // block_s))
    place = np.minimum(since // block_s, blocks).astype(int)
    parts = [since[place == k] - k * block_s for k in range(blocks)]
    if since[-1] < block_s:
        parts = [since]
    drawn = random.integers(len(parts), size=whole(days, "days"))
    return np.concatenate([parts[k] + at * block_s for at, k in enumerate(drawn)])
