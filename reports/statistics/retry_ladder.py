"""C6: start small and try again with more: what a ladder of memory limits costs against one limit for all.

A job that is killed at one rung starts anew at the next. Its cost is memory set aside times time, of all its attempts,
which is what it keeps from others. Peaks by Kaplan-Meier; an attempt that is killed is taken to last a stated part of
the job's time (all of it unless known better: the safe side), and time not to depend on the peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.sample import BadSampleError, positive, whole
from proofcost.reports.statistics.survival import Survival

MOST_RUNGS_TRIED = 200
"""Amounts that are tried as rungs: more are thinned out evenly, by rank."""


@dataclass(frozen=True, slots=True)
class Ladder:
    limits: tuple[float, ...]
    """Ascending; unit of the curve. Each attempt has strictly more than the one before."""
    cost: float
    """Expected memory-time of a job, in limits times its own time: compare with the last limit for a single rung."""
    attempts: float
    """Expected."""
    failing: float
    """Share of jobs that the last rung does not hold either, as estimated."""


def ladder_cost(curve: Survival, limits: Sequence[float], killed_after: float = 1.0) -> Ladder:
    """Of given `limits`, strictly ascending and above 0; `killed_after`: part of its time that a killed attempt takes.

    Raises BadSampleError for limits that do not ascend, an empty curve, or a limit beyond what the curve knows.
    """
    steps = positive(limits, "limits")
    if steps.size == 0:
        raise BadSampleError("limits: a ladder has at least one rung")
    level = np.flatnonzero(np.diff(steps) <= 0)
    if level.size:
        raise BadSampleError(f"limits[{level[0] + 1}] is {steps[level[0] + 1]:g}: not more than the one before it")
    if not 0 <= killed_after <= 1:
        raise BadSampleError(f"killed_after is {killed_after}: a part of the job's time, 0 to 1")
    over = []
    for at, limit in enumerate(steps.tolist()):
        beyond = curve.exceedance(limit).value
        if beyond is None:
            raise BadSampleError(
                f"limits[{at}] is {limit:g}: beyond the largest amount seen, so its kills are not known"
            )
        over.append(beyond)
    reached = np.concatenate([[1.0], over[:-1]])
    killed = np.array(over)
    cost = float((steps * ((reached - killed) + killed * killed_after)).sum())
    return Ladder(tuple(steps.tolist()), cost, float(reached.sum()), over[-1])


def best_ladder(curve: Survival, rungs: int, top: float, killed_after: float = 1.0) -> Ladder | None:
    """The cheapest ladder of at most `rungs` whose last is `top` (a limit from `safe_limit`), by dynamic programming.

    None where nothing ended by itself below `top`: there is nothing to choose from.
    """
    whole(rungs, "rungs")
    ended = curve.values[(curve.events > 0) & (curve.values < top)]
    if ended.size == 0:
        return None
    if ended.size > MOST_RUNGS_TRIED:
        ended = ended[np.linspace(0, ended.size - 1, MOST_RUNGS_TRIED).round().astype(int)]
    amounts = np.append(ended, top)
    beyond = curve.exceedance(top).value
    if beyond is None:
        raise BadSampleError(f"top is {top:g}: beyond the largest amount seen, so its kills are not known")
    inside = np.searchsorted(curve.values, ended, side="right") - 1
    over = np.append(curve.survival[inside], beyond)
    # cost[i]: of reaching a ladder whose last rung so far is i. An attempt at j after i: everything that i killed.
    reach = np.concatenate([[1.0], over])  # reach[0]: before any rung
    cost = amounts * (reach[0] - over + over * killed_after)
    came_from = [np.full(amounts.size, -1)]
    costs = [cost]
    for _ in range(1, rungs):
        step = amounts[None, :] * (over[:, None] - over[None, :] + over[None, :] * killed_after)
        total = costs[-1][:, None] + np.where(np.tri(amounts.size, k=0, dtype=bool), np.inf, step)
        came_from.append(np.argmin(total, axis=0))
        costs.append(total.min(axis=0))
    used = int(np.argmin([c[-1] for c in costs]))
    at, picked = amounts.size - 1, []
    for level in range(used, -1, -1):
        picked.append(float(amounts[at]))
        at = int(came_from[level][at])
    return ladder_cost(curve, picked[::-1], killed_after)
