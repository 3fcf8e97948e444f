"""Who wins, as far as noise lets one tell: an interval of ranks for each, instead of an order by medians.

All pairs are compared by Welch's t on log costs, with Holm's correction for their number; a rank is at least one more
than those surely cheaper, at most the number of all less those surely dearer. With the stated confidence all intervals
hold the true ranks at once. Being tied is not transitive. Assumes independent runs, of log costs not far from normal:
rank tests need more runs than a contest has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.comparison import ratio_of_logs
from proofcost.reports.statistics.run_count import runs_per_side
from proofcost.reports.statistics.sample import BadSampleError, Floats, Ints, Numbers, positive, share

MOST_RUNS = 100_000
"""A need beyond this is told as None."""

MOST_ENTRIES = 3000
"""All pairs are held at once: 72 MB a table at this number."""

_ROUNDING = 1e-12
"""On the log scale: counts that are the same are a tie."""


@dataclass(frozen=True, slots=True)
class RankInterval:
    name: str
    cost: float
    """Geometric mean of the runs: what the order goes by."""
    runs: int
    low: int
    high: int
    """Ranks, 1 the cheapest."""
    tied: tuple[str, ...]
    """Those that the noise does not let one tell from this, in order."""
    runs_to_separate: int | None
    """Runs each that would tell this from the next in order, with a chance of 80 %, if things are as they look. None
    where they are told apart, where this is the last, with one run (the noise is unknown), or beyond `MOST_RUNS`."""


def rank_intervals(costs: Mapping[str, Numbers], confidence: float = 0.95) -> tuple[RankInterval, ...]:
    """From the cheapest; `costs` of one work's runs by name, above 0 in one unit. Empty for none.

    Raises BadSampleError for a name without costs, and for more than `MOST_ENTRIES`.
    """
    share(confidence, "confidence")
    if len(costs) > MOST_ENTRIES:
        raise BadSampleError(f"{len(costs)} entries: at most {MOST_ENTRIES} are ranked together; rank cohorts apart")
    logs = {}
    for name, values in costs.items():
        logs[name] = np.log(positive(values, f"costs of {name}"))
        if logs[name].size == 0:
            raise BadSampleError(f"costs of {name}: none; count what was not solved apart")
    means = {name: math.fsum(values) / values.size for name, values in logs.items()}
    names = sorted(logs, key=lambda name: (means[name], name))
    if not names:
        return ()
    mean = np.array([means[name] for name in names])
    runs = np.array([logs[name].size for name in names])
    variance = np.array([logs[name].var(ddof=1) if logs[name].size > 1 else 0.0 for name in names])
    apart = _told_apart(mean, runs, variance, 1 - confidence)
    pairs = max(1, len(names) * (len(names) - 1) // 2)
    found = []
    for at, name in enumerate(names):
        more = None
        if at + 1 < len(names) and not apart[at, at + 1] and runs[at] > 1 and runs[at + 1] > 1:
            spread = math.sqrt((variance[at] + variance[at + 1]) / 2)
            more = _runs_needed(spread, float(mean[at + 1] - mean[at]), (1 - confidence) / pairs)
        found.append(
            RankInterval(
                name=name,
                cost=ratio_of_logs(means[name]),
                runs=int(runs[at]),
                low=1 + int(apart[at, :at].sum()),
                high=len(names) - int(apart[at, at + 1 :].sum()),
                tied=tuple(other for j, other in enumerate(names) if j != at and not apart[at, j]),
                runs_to_separate=more,
            )
        )
    return tuple(found)


def _runs_needed(spread: float, gap: float, alpha: float) -> int | None:
    if gap <= _ROUNDING:
        return None
    needed = runs_per_side(spread, math.expm1(gap), alpha)
    return needed if needed <= MOST_RUNS else None


def _told_apart(mean: Floats, runs: Ints, variance: Floats, alpha: float) -> np.ndarray:
    """Which pairs differ, Holm's procedure over all of them; symmetric, shape (entries, entries)."""
    from scipy.stats import t

    rows, columns = np.triu_indices(mean.size, 1)
    gap = np.abs(mean[columns] - mean[rows])
    of_mean = variance / runs
    error = np.sqrt(of_mean[rows] + of_mean[columns])
    p = np.ones(rows.size)
    known = (runs[rows] > 1) & (runs[columns] > 1)
    noisy = known & (error > 0)
    squares = of_mean**2 / np.maximum(runs - 1, 1)
    freedom = error[noisy] ** 4 / (squares[rows] + squares[columns])[noisy]
    p[noisy] = 2 * t.sf(gap[noisy] / error[noisy], freedom)
    p[known & (error == 0) & (gap > _ROUNDING)] = 0.0
    order = np.argsort(p, kind="stable")
    passed = p[order] <= alpha / np.arange(p.size, 0, -1)
    first_miss = int(np.argmin(passed)) if not passed.all() else p.size
    apart = np.zeros((mean.size, mean.size), dtype=bool)
    kept = order[:first_miss]
    apart[rows[kept], columns[kept]] = apart[columns[kept], rows[kept]] = True
    return apart
