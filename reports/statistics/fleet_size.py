"""C4: how many hosts keep waits at a stated length: simulations repeated, each figure with an interval over them.

One simulation is one observation, since the jobs in it wait for one another; the interval is Student's over at least a
hundred. Jobs that arrive while the empty fleet fills up are left out. The search starts at the number of hosts that the
work fills by itself and trusts that more hosts never wait longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from proofcost.reports.statistics.fleet import Fleet, simulate, used_share
from proofcost.reports.statistics.jobs import Jobs
from proofcost.reports.statistics.queueing import OverloadedError
from proofcost.reports.statistics.sample import BadSampleError, Numbers, finite, not_negative, share, whole

REPLICATIONS = 100
"""With ten, one interval in the M/M/3 example missed the truth."""

SEARCH_REPLICATIONS = 20

WARM_UP = 0.2
"""Share of a simulation's span that is left out."""

MakeJobs = Callable[[np.random.Generator], Jobs]


@dataclass(frozen=True, slots=True)
class Mean:
    """Over replications."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FleetEstimate:
    fleet: Fleet
    mean_wait_s: Mean
    wait_quantile_s: Mean
    """The `quantile` of waits within a replication."""
    quantile: float
    waiting_share: Mean
    """Jobs that did not start at once."""
    cores_used: Mean
    memory_used: Mean
    """Shares, 0 to 1."""
    replications: int
    confidence: float


def estimate_fleet(
    make: MakeJobs,
    fleet: Fleet,
    *,
    quantile: float = 0.95,
    replications: int = REPLICATIONS,
    warm_up: float = WARM_UP,
    confidence: float = 0.95,
    seed: int = 0,
) -> FleetEstimate:
    """`make`: jobs of one replication, from a generator of its own. Raises BadSampleError for too short ones."""
    share(quantile, "quantile")
    rows = []
    for at in range(whole(replications, "replications", 2)):
        jobs = make(np.random.default_rng([seed, at]))
        done = simulate(jobs, fleet)
        span = float(jobs.arrival_s[-1]) if jobs.count else 0.0
        since = span * float(not_negative([warm_up], "warm_up")[0])
        waits = done.wait_s[jobs.arrival_s >= since]
        if waits.size < 2 or not since < span:
            raise BadSampleError(
                f"a replication of {jobs.count} jobs leaves {waits.size} after its warm-up; more are needed"
            )
        rows.append(
            (
                waits.mean(),
                np.quantile(waits, quantile),
                (waits > 0).mean(),
                *used_share(jobs, done, fleet, since, span),
            )
        )
    columns = [mean_of(column, confidence) for column in np.array(rows).T]
    return FleetEstimate(
        fleet, columns[0], columns[1], quantile, columns[2], columns[3], columns[4], replications, confidence
    )


def mean_of(values: Numbers, confidence: float = 0.95) -> Mean:
    """Of at least two independent values, with Student's interval."""
    from scipy.stats import t

    array = finite(values, "values")
    if array.size < 2:
        raise BadSampleError(f"values: {array.size}; an interval needs at least 2")
    middle = float(array.mean())
    half = float(t.ppf((1 + confidence) / 2, array.size - 1)) * float(array.std(ddof=1)) / math.sqrt(array.size)
    return Mean(middle, middle - half, middle + half)


def least_hosts(jobs: Jobs, fleet: Fleet) -> int:
    """Below so many hosts the queue grows without end: the work of each resource over what a host does of it."""
    fleet.check()
    span = float(jobs.arrival_s[-1] - jobs.arrival_s[0]) if jobs.count > 1 else 0.0
    if span <= 0:
        raise BadSampleError("jobs: all arrive at once, so there is no rate; that is a batch (packing)")
    time = jobs.service_s
    fills = (
        float(time @ jobs.cores) / fleet.cores,
        float(time @ jobs.memory_bytes) / fleet.memory_bytes,
        float(time.sum()) / fleet.sandboxes,
    )
    # n jobs arrive in n - 1 gaps.
    return max(1, math.ceil(max(fills) / span * (jobs.count - 1) / jobs.count))


@dataclass(frozen=True, slots=True)
class FleetSize:
    hosts: int
    estimate: FleetEstimate
    """Of this many; its wait quantile is at most the target with its interval's upper end."""
    one_less: FleetEstimate | None
    """Of one host less; None where that was not tried: its queue would grow without end."""
    least: int
    """By the amount of work alone."""


def hosts_for_wait(
    make: MakeJobs,
    fleet: Fleet,
    wait_s: float,
    *,
    quantile: float = 0.95,
    most: int = 10_000,
    replications: int = REPLICATIONS,
    seed: int = 0,
) -> FleetSize:
    """Fewest hosts like `fleet`'s (its own number is not looked at) whose `quantile` of waits is at most `wait_s`.

    Raises OverloadedError, with the rate that they could do, where `most` hosts are not enough.
    """
    limit = float(not_negative([wait_s], "wait_s")[0])
    jobs = make(np.random.default_rng([seed, 0]))
    least = least_hosts(jobs, replace(fleet, hosts=1))
    tried: dict[int, FleetEstimate] = {}

    def good(hosts: int, count: int) -> bool:
        found = estimate_fleet(make, replace(fleet, hosts=hosts), quantile=quantile, replications=count, seed=seed)
        tried[hosts] = found
        return found.wait_quantile_s.high <= limit

    def overloaded() -> OverloadedError:
        rate = jobs.count / float(jobs.arrival_s[-1] - jobs.arrival_s[0])
        return OverloadedError(rate, rate * most / least)

    quick = min(SEARCH_REPLICATIONS, replications)
    low, high, step = least - 1, least, 1
    while high <= most and not good(high, quick):
        low, high, step = high, high + step, step * 2
    if high > most and (low >= most or not good(most, quick)):
        raise overloaded()
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle, quick) else (middle, high)
    # The quick search has wide intervals and may have stopped too high, or by luck too low.
    while high > least and good(high - 1, replications):
        high -= 1
    while not good(high, replications):
        high += 1
        if high > most:
            raise overloaded()
    return FleetSize(high, tried[high], tried.get(high - 1), least)
