"""R6: what a host class costs against another, from cells that were measured on both.

ln cost(submission, kernel, host, run) = cell(submission, kernel) + H(host) + noise: a fixed effect per cell takes out
what the work costs, so only cells seen on two host classes or more say anything. Intervals are robust against
dependence within a submission (clustered, Liang & Zeger, with G / (G - 1) and t of G - 1), since all kernels on one
submission share its peculiarities. Assumes that factors are the same for every cell; `interaction` tests that.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.comparison import ratio_of_logs
from proofcost.reports.statistics.connected import connected_hosts
from proofcost.reports.statistics.sample import BadSampleError, Floats, Ints, Numbers, positive, share

LEAST_CLUSTERS = 5
"""Submissions below which no interval is given: a robust variance from fewer is far too small."""


class NotComparableError(ValueError):
    """Hosts without a chain of shared cells between them. `groups`: those that are comparable among themselves."""

    def __init__(self, groups: tuple[tuple[Hashable, ...], ...]) -> None:
        self.groups = groups
        told = "; ".join(", ".join(map(str, group)) for group in groups)
        super().__init__(
            f"hosts that share no work cannot be compared: {told}; run a calibration workload on both sides"
        )


@dataclass(frozen=True, slots=True)
class HostFactor:
    host: str
    ratio: float
    """Cost here over cost on the base host; 1 for the base itself."""
    low: float | None
    high: float | None
    """None with fewer than `LEAST_CLUSTERS` submissions measured on more than one host, and for the base."""
    cells: int
    """Measured here and elsewhere."""


@dataclass(frozen=True, slots=True)
class HardwareModel:
    base: str
    factors: tuple[HostFactor, ...]
    residual: float | None
    """Deviation on the log scale of what factors do not explain, in cells on more than one host; None without any
    freedom."""
    clusters: int
    """Submissions with a cell on more than one host."""
    rows: int
    """Measurements in such cells."""
    confidence: float
    covariance: Floats
    """Of the log factors, base included as 0; shape (hosts, hosts), in the order of `factors`."""

    def factor(self, host: str) -> HostFactor:
        for factor in self.factors:
            if factor.host == host:
                return factor
        raise BadSampleError(f"host {host}: not in this model; it has {', '.join(f.host for f in self.factors)}")


@dataclass(frozen=True, slots=True)
class Rows:
    """Measurements in long form, one entry each in four columns of one length."""

    costs: Floats
    """Above 0, in one unit."""
    submissions: Ints
    kernels: Ints
    hosts: Ints
    """Codes; names below."""
    submission_names: tuple[str, ...]
    kernel_names: tuple[str, ...]
    host_names: tuple[str, ...]

    @property
    def cells(self) -> Ints:
        """Code of each row's (submission, kernel)."""
        codes: Ints = self.submissions * len(self.kernel_names) + self.kernels
        return codes


def rows(costs: Numbers, submissions: Sequence[str], kernels: Sequence[str], hosts: Sequence[str]) -> Rows:
    """Columns of one length to codes. Raises BadSampleError for none, other lengths, or a cost that is not above 0."""
    values = positive(costs, "costs")
    columns = {"submissions": submissions, "kernels": kernels, "hosts": hosts}
    for name, column in columns.items():
        if len(column) != values.size:
            raise BadSampleError(f"{name}: {len(column)} for {values.size} costs; one for each is needed")
    if values.size == 0:
        raise BadSampleError("costs: there are none")
    coded = [np.unique(np.asarray(column, dtype=str), return_inverse=True) for column in columns.values()]
    codes = [place.astype(np.int64) for _, place in coded]
    names = [tuple(str(name) for name in unique) for unique, _ in coded]
    return Rows(values, codes[0], codes[1], codes[2], names[0], names[1], names[2])


def fit_hosts(data: Rows, base: str | None = None, confidence: float = 0.95) -> HardwareModel:
    """Factors of all hosts to `base` (the first by name if None). Raises NotComparableError where no chain of shared
    cells leads from one to another, BadSampleError for an unknown base or a single host."""
    share(confidence, "confidence")
    names = data.host_names
    if len(names) < 2:
        raise BadSampleError(f"hosts: only {names[0]}; there is nothing to compare it with")
    base = names[0] if base is None else base
    if base not in names:
        raise BadSampleError(f"base host {base}: not among {', '.join(names)}")
    pairs = np.unique(np.stack([data.cells, data.hosts]), axis=1).T
    groups = connected_hosts((int(cell), names[host]) for cell, host in pairs)
    if len(groups) > 1:
        raise NotComparableError(groups)
    at = names.index(base)
    shared = in_shared_cells(data)
    part = within_cells(data, shared)
    others = [h for h in range(len(names)) if h != at]
    effects, covariance = np.zeros(len(names)), np.zeros((len(names), len(names)))
    bread = np.linalg.inv(part.normal[np.ix_(others, others)])
    effects[others] = bread @ part.moments[others]
    residuals = part.demeaned - effects[part.hosts] + part.expected(effects)
    clusters = np.unique(part.submissions).size
    if clusters > 1:
        scores = part.scores(residuals)[:, others]
        covariance[np.ix_(others, others)] = clusters / (clusters - 1) * bread @ (scores.T @ scores) @ bread
    freedom = residuals.size - part.cell_count - len(others)
    quantile = t_quantile(confidence, clusters)
    cells_of = np.bincount(pairs[np.isin(pairs[:, 0], data.cells[shared])][:, 1], minlength=len(names))
    factors = []
    for h, name in enumerate(names):
        half = None if quantile is None or h == at else quantile * math.sqrt(max(0.0, covariance[h, h]))
        ends = [None if half is None else ratio_of_logs(effects[h] + sign * half) for sign in (-1, 1)]
        factors.append(HostFactor(name, ratio_of_logs(effects[h]), ends[0], ends[1], int(cells_of[h])))
    residual = math.sqrt(float(residuals @ residuals) / freedom) if freedom > 0 else None
    return HardwareModel(base, tuple(factors), residual, clusters, int(shared.sum()), confidence, covariance)


def t_quantile(confidence: float, clusters: int) -> float | None:
    """Two-sided; None for too few clusters."""
    if clusters < LEAST_CLUSTERS:
        return None
    from scipy.stats import t

    return float(t.ppf((1 + confidence) / 2, clusters - 1))


def in_shared_cells(data: Rows) -> np.ndarray:
    """Which rows stand in a cell that has two hosts or more."""
    cells = data.cells
    pairs = np.unique(np.stack([cells, data.hosts]), axis=1)[0]
    codes, count = np.unique(pairs, return_counts=True)
    return np.isin(cells, codes[count > 1])


@dataclass(frozen=True, slots=True)
class Within:
    """Rows of shared cells with each cell's mean taken out, and the sums that a least-squares fit needs."""

    demeaned: Floats
    """Log costs less their cell's mean."""
    hosts: Ints
    submissions: Ints
    cells: Ints
    """Codes without gaps, cells from 0."""
    host_shares: Floats
    """Shape (cells, hosts): which part of a cell's rows is each host's."""
    normal: Floats
    """Demeaned host columns times themselves; shape (hosts, hosts)."""
    moments: Floats
    """The same times log costs; shape (hosts,)."""

    @property
    def cell_count(self) -> int:
        return len(self.host_shares)

    def expected(self, effects: Floats) -> Floats:
        """Each row's cell mean of the hosts' effects."""
        means: Floats = (self.host_shares @ effects)[self.cells]
        return means

    def scores(self, residuals: Floats) -> Floats:
        """Shape (submissions, hosts): sums over a submission of demeaned host columns times residuals."""
        hosts = self.host_shares.shape[1]
        _, cluster = np.unique(self.submissions, return_inverse=True)
        count = int(cluster.max()) + 1
        # The columns' cell means need not be taken out: residuals add up to 0 in each cell.
        own = np.bincount(cluster * hosts + self.hosts, weights=residuals, minlength=count * hosts)
        return own.reshape(count, hosts).astype(np.float64)


def within_cells(data: Rows, chosen: np.ndarray) -> Within:
    """Of the `chosen` rows."""
    logs, hosts = np.log(data.costs[chosen]), data.hosts[chosen]
    _, cells = np.unique(data.cells[chosen], return_inverse=True)
    host_count, cell_count = len(data.host_names), int(cells.max()) + 1
    counts = np.bincount(cells * host_count + hosts, minlength=cell_count * host_count).reshape(cell_count, host_count)
    size = counts.sum(axis=1)
    demeaned = logs - (np.bincount(cells, weights=logs, minlength=cell_count) / size)[cells]
    shares = counts / size[:, None]
    normal = np.diag(counts.sum(axis=0)) - counts.T @ shares
    moments = np.bincount(hosts, weights=demeaned, minlength=host_count).astype(np.float64)
    return Within(demeaned, hosts, data.submissions[chosen], cells, shares, normal.astype(np.float64), moments)
