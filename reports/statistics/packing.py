"""C5: a batch by a deadline, and jobs into hosts: lower bounds, simple rules that come close, exact answers for few.

Longest processing time first takes at most 4/3 - 1/(3 m) times the optimum (Graham 1969). First fit decreasing takes
jobs by their largest share of a host, of any resource. The exact answers are integer programmes (HiGHS through scipy).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from proofcost.reports.statistics.fleet import Fleet, simulate
from proofcost.reports.statistics.jobs import Jobs
from proofcost.reports.statistics.sample import BadSampleError, Floats, Numbers, above_zero, positive, whole

MOST_EXACT = 40
"""Jobs; beyond, an integer programme may take for ever."""


def longest_first(times: Numbers, machines: int) -> float:
    """Makespan, unit of `times` (above 0): each job, the longest first, to the machine that is free first."""
    free = [0.0] * whole(machines, "machines")
    for time in sorted(positive(times, "times").tolist(), reverse=True):
        heapq.heapreplace(free, free[0] + time)
    return max(free)


def least_makespan(times: Numbers, machines: int) -> float:
    """Optimal, for at most 40 jobs; 0 for none. Raises BadSampleError for more, or if the solver gives up."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import block_array, csr_array, eye_array, kron

    x = positive(times, "times")
    m, n = whole(machines, "machines"), x.size
    if n > MOST_EXACT:
        raise BadSampleError(f"times: {n} jobs; the exact answer is for {MOST_EXACT} at most, use longest_first")
    if n == 0:
        return 0.0
    # Variables: job j on machine i (m * n, 0 or 1), then the makespan.
    once = csr_array(kron(np.ones((1, m)), eye_array(n)))
    loads = block_array([[csr_array(kron(eye_array(m), x[None, :])), csr_array(-np.ones((m, 1)))]])
    each_once = block_array([[once, csr_array((n, 1))]])
    found = milp(
        np.append(np.zeros(m * n), 1.0),
        integrality=np.append(np.ones(m * n), 0),
        bounds=Bounds(0, np.append(np.ones(m * n), np.inf)),
        constraints=[LinearConstraint(each_once, 1, 1), LinearConstraint(loads, -np.inf, 0)],
    )
    if found.x is None:
        raise BadSampleError(f"times: no exact answer ({found.message})")
    return float(found.fun)


def _work_of_one_host(jobs: Jobs, fleet: Fleet) -> float:
    """s that the batch takes a single host if its scarcest resource is always full."""
    time = jobs.service_s
    return max(
        float(time @ jobs.memory_bytes) / fleet.memory_bytes,
        float(time @ jobs.cores) / fleet.cores,
        float(time.sum()) / fleet.sandboxes,
    )


def batch_bound(jobs: Jobs, fleet: Fleet) -> float:
    """No schedule is shorter, s: the longest job, and each resource's work over what all hosts have of it."""
    fleet.check()
    if jobs.count == 0:
        return 0.0
    return max(float(jobs.service_s.max()), _work_of_one_host(jobs, fleet) / fleet.hosts)


def batch_makespan(jobs: Jobs, fleet: Fleet) -> float:
    """s until all of a batch is done, the longest first, whoever fits next going first (arrivals are not looked at)."""
    if jobs.count == 0:
        return 0.0
    order = np.argsort(-jobs.service_s, kind="stable")
    batch = Jobs(np.zeros(jobs.count), jobs.service_s[order], jobs.memory_bytes[order], jobs.cores[order])
    return float(simulate(batch, fleet).end_s.max())


@dataclass(frozen=True, slots=True)
class BatchSize:
    hosts: int
    makespan_s: float
    at_least: int
    """No schedule does with fewer."""


def hosts_for_deadline(jobs: Jobs, fleet: Fleet, deadline_s: float, most: int = 10_000) -> BatchSize | None:
    """Fewest hosts like `fleet`'s that finish the batch by `deadline_s`, by `batch_makespan`; None if none do: a single
    job is longer, or more than `most` hosts were needed."""
    above_zero(deadline_s, "deadline_s")
    if jobs.count and float(jobs.service_s.max()) > deadline_s:
        return None
    at_least = max(1, math.ceil(_work_of_one_host(jobs, fleet) / deadline_s))
    if at_least > most:
        return None
    low, high, step = at_least - 1, at_least, 1
    while batch_makespan(jobs, replace(fleet, hosts=high)) > deadline_s:
        if high >= most:
            return None
        low, high, step = high, min(most, high + step), step * 2
    while high - low > 1:
        middle = (low + high) // 2
        fits = batch_makespan(jobs, replace(fleet, hosts=middle)) <= deadline_s
        low, high = (low, middle) if fits else (middle, high)
    return BatchSize(high, batch_makespan(jobs, replace(fleet, hosts=high)), at_least)


def first_fit_decreasing(needs: Floats, capacity: Numbers) -> list[list[int]]:
    """Jobs by host, indices as given: `needs` of shape (jobs, resources), at least 0; `capacity` of one host, above 0.

    Raises BadSampleError for a job that no host can hold.
    """
    host = positive(capacity, "capacity")
    shares = np.atleast_2d(np.asarray(needs, dtype=float)) / host
    if shares.size == 0:
        return []
    if shares.shape[1] != host.size or not np.isfinite(shares).all() or (shares < 0).any():
        raise BadSampleError(f"needs: shape {shares.shape} for {host.size} resources, each a number of at least 0")
    too_large = np.flatnonzero((shares > 1 + 1e-12).any(axis=1))
    if too_large.size:
        raise BadSampleError(f"needs[{too_large[0]}] is larger than a host")
    free: list[Floats] = []
    bins: list[list[int]] = []
    for job in np.argsort(-shares.max(axis=1), kind="stable").tolist():
        for at, room in enumerate(free):
            if (shares[job] <= room + 1e-12).all():
                room -= shares[job]
                bins[at].append(job)
                break
        else:
            free.append(1 - shares[job])
            bins.append([job])
    return bins


def least_hosts_exact(needs: Floats, capacity: Numbers) -> int:
    """Fewest hosts that hold all at once, for at most 40 jobs. Raises BadSampleError as `first_fit_decreasing` does."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import block_array, csr_array, eye_array, kron

    bins = len(first_fit_decreasing(needs, capacity))
    if bins <= 1:
        return bins
    shares = np.atleast_2d(np.asarray(needs, dtype=float)) / positive(capacity, "capacity")
    n = len(shares)
    if n > MOST_EXACT:
        raise BadSampleError(f"needs: {n} jobs; the exact answer is for {MOST_EXACT} at most, use first_fit_decreasing")
    # Variables: job j in host i (bins * n), then whether host i is used.
    once = block_array([[csr_array(kron(np.ones((1, bins)), eye_array(n))), csr_array((n, bins))]])
    constraints = [LinearConstraint(once, 1, 1)]
    for column in shares.T:
        full = block_array([[csr_array(kron(eye_array(bins), column[None, :])), csr_array(-eye_array(bins))]])
        constraints.append(LinearConstraint(full, -np.inf, 1e-9))
    found = milp(
        np.append(np.zeros(bins * n), np.ones(bins)),
        integrality=np.ones(bins * n + bins),
        bounds=Bounds(0, 1),
        constraints=constraints,
    )
    if found.x is None:
        raise BadSampleError(f"needs: no exact answer ({found.message})")
    return round(float(found.fun))
