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


def _in_front(times: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """(times, jobs up to and with the last of each, work before that last one), the longest first."""
    there = counts > 0
    order = np.argsort(-times[there], kind="stable")
    t, c = times[there][order], counts[there][order]
    return t, np.cumsum(c), np.cumsum(t * c) - t


def longest_first_bounds(times: Floats, counts: Floats, machines: int) -> tuple[float, float]:
    """(no schedule is shorter, `longest_first` takes no longer) for `counts` jobs of each of `times`, in their unit.

    A job starts on the machine that is free first, so no later than the mean of what was placed before it (Graham); the
    first ones, one for each machine, at once. For batches too large to be placed job by job.
    """
    m = whole(machines, "machines")
    t, upto, before = _in_front(times, counts)
    if t.size == 0:
        return 0.0, 0.0
    ends = t + np.where(upto <= m, 0.0, before / m)
    return max(float(t[0]), float(before[-1] + t[-1]) / m), float(ends.max())


def machines_for(times: Floats, counts: Floats, deadline: float) -> int:
    """Fewest machines whose upper bound of `longest_first_bounds` keeps to `deadline`. Raises BadSampleError for a job
    that is longer."""
    t, upto, before = _in_front(times, counts)
    if t.size == 0:
        return 1
    if t[0] > deadline:
        raise BadSampleError(f"times: {t[0]:g} is longer than the deadline, {deadline:g}")
    with np.errstate(divide="ignore", invalid="ignore"):
        waiting = np.where(t < deadline, np.ceil(before / (deadline - t)), np.inf)
    return max(1, int(np.minimum(upto, waiting).max()))


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


def _alike(jobs: Jobs, fleet: Fleet) -> int:
    """How many of these one host takes, where each needs the same of memory and of cores; else 0."""
    memory, cores = float(jobs.memory_bytes[0]), float(jobs.cores[0])
    if (jobs.memory_bytes != memory).any() or (jobs.cores != cores).any():
        return 0
    room = [has / need for has, need in ((fleet.memory_bytes, memory), (fleet.cores, cores)) if need > 0]
    return min(fleet.sandboxes, *(int(one * (1 + 1e-9)) for one in room)) if room else fleet.sandboxes


def batch_makespan(jobs: Jobs, fleet: Fleet) -> float:
    """s until all of a batch is done, the longest first, whoever fits next going first (arrivals are not looked at)."""
    if jobs.count == 0:
        return 0.0
    slots = _alike(jobs, fleet)
    if slots:
        return longest_first(jobs.service_s, fleet.hosts * slots)
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
