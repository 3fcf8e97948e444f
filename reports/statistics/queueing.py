"""C4: queues by formula, to bracket what the simulation then decides.

M/M/c exactly (Erlang 1917; Hillier & Lieberman, chapter 17), and Allen & Cunneen's correction for arrivals and times of
any spread. Assumes a steady state, one job a server, first come first served: no memory, no daily profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from proofcost.reports.statistics.sample import BadSampleError, above_zero, not_negative, share, whole

LEAST_WAITING = 1e-290
"""Below, a float no longer holds the chance to wait in full."""


class OverloadedError(BadSampleError):
    """More work arrives than can ever be done. `capacity_per_s`: the rate that it must stay below."""

    def __init__(self, rate_per_s: float, capacity_per_s: float) -> None:
        self.capacity_per_s = capacity_per_s
        super().__init__(f"rate {rate_per_s:g}/s: at or above the most that can be done, {capacity_per_s:g}/s")


@dataclass(frozen=True, slots=True)
class Queue:
    """Steady state. Times in s, lengths in jobs."""

    servers: int
    utilisation: float
    empty: float
    """P(no job at all)."""
    waits: float
    """P(a job that arrives must wait): Erlang C."""
    mean_wait_s: float
    mean_time_s: float
    """Wait and service."""
    mean_waiting: float
    mean_present: float

    def wait_quantile_s(self, p: float) -> float:
        """Of all jobs, those that do not wait included."""
        share(p, "p")
        if p <= 1 - self.waits:
            return 0.0
        # Among those that wait, the wait is exponential with mean mean_wait / waits.
        return self.mean_wait_s / self.waits * math.log(self.waits / (1 - p))


def erlang_b(load: float, servers: int) -> float:
    """P(all servers busy) where who finds them busy leaves; `load`: arrivals in one service time."""
    above_zero(load, "load")
    blocked = 1.0
    for n in range(1, whole(servers, "servers") + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked


def erlang_c(load: float, servers: int) -> float:
    """P(wait) where who finds them busy waits; 1 if the load is not below the number of servers."""
    if load >= whole(servers, "servers"):
        return 1.0
    blocked = erlang_b(load, servers)
    return blocked / (1 - load / servers * (1 - blocked))


def mmc(rate_per_s: float, mean_service_s: float, servers: int) -> Queue:
    """Raises OverloadedError for a rate that the servers cannot keep up with, BadSampleError for absurd numbers."""
    load = above_zero(rate_per_s, "rate_per_s") * above_zero(mean_service_s, "mean_service_s")
    if load >= whole(servers, "servers"):
        raise OverloadedError(rate_per_s, servers / mean_service_s)
    waits = erlang_c(load, servers)
    wait = waits * mean_service_s / (servers - load)
    # P0 from the chance to wait: C = load^c / c! / (1 - load/c) * P0, in logarithms for many servers.
    log_full = servers * math.log(load) - math.lgamma(servers + 1) - math.log1p(-load / servers)
    return Queue(
        servers=servers,
        utilisation=load / servers,
        # So many servers that nobody ever waits have no queue to speak of: then P0 is that of endlessly many.
        empty=math.exp(math.log(waits) - log_full) if waits > LEAST_WAITING else math.exp(-load),
        waits=waits,
        mean_wait_s=wait,
        mean_time_s=wait + mean_service_s,
        mean_waiting=rate_per_s * wait,
        mean_present=rate_per_s * (wait + mean_service_s),
    )


def allen_cunneen(
    rate_per_s: float, mean_service_s: float, servers: int, arrival_scv: float, service_scv: float
) -> float:
    """Mean wait, s, of G/G/c: M/M/c's times the mean of the squared coefficients of variation (variance over mean
    squared) of the times between arrivals and of service. 1 and 1 give M/M/c itself."""
    not_negative([arrival_scv, service_scv], "squared coefficients of variation")
    return (arrival_scv + service_scv) / 2 * mmc(rate_per_s, mean_service_s, servers).mean_wait_s


def servers_for(rate_per_s: float, mean_service_s: float, mean_wait_s: float, scv_mean: float = 1.0) -> int:
    """Least number of servers whose mean wait by `allen_cunneen` is at most `mean_wait_s` (above 0)."""
    above_zero(mean_wait_s, "mean_wait_s")
    servers = math.floor(above_zero(rate_per_s, "rate_per_s") * above_zero(mean_service_s, "mean_service_s")) + 1
    while scv_mean * mmc(rate_per_s, mean_service_s, servers).mean_wait_s > mean_wait_s:
        servers += 1
    return servers
