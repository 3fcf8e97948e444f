"""C4: jobs on hosts, simulated event by event; memory, cores and a number of sandboxes a host are what they wait for.

First come first served: nobody starts before who came earlier. Backfill: a job may pass others that do not fit now, up
to so many of them; large ones may then starve. A job goes to the first host with room. What a job needs is known when
it starts and kept until it ends; hosts do not slow each other down (`contention` caps the sandboxes a host instead).
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from enum import Enum

import numpy as np

from proofcost.reports.statistics.jobs import Jobs
from proofcost.reports.statistics.sample import BadSampleError, Floats, above_zero, not_negative, whole

_ROUNDING = 1e-9
"""Of a core: fractions add up to a little less or more."""

_SEARCHED_ONE_BY_ONE = 48
"""Hosts; with more, all at once in an array."""


class Discipline(Enum):
    FIRST_COME = "first come, first served"
    BACKFILL = "backfill"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts, all alike."""

    hosts: int
    memory_bytes: float
    cores: float
    sandboxes: int
    """Most at once on one host."""
    discipline: Discipline = Discipline.FIRST_COME
    backfill_depth: int = 100
    """Jobs that a backfill looks at, from the head of the queue."""

    def check(self) -> None:
        """Raises BadSampleError for a fleet that is none."""
        whole(self.hosts, "hosts")
        above_zero(self.memory_bytes, "memory_bytes")
        above_zero(self.cores, "cores")
        whole(self.sandboxes, "sandboxes")
        whole(self.backfill_depth, "backfill_depth")


@dataclass(frozen=True, slots=True)
class Simulated:
    start_s: Floats
    """When each job started, in the order of `Jobs`."""
    end_s: Floats
    wait_s: Floats


def simulate(jobs: Jobs, fleet: Fleet) -> Simulated:
    """All `jobs` to their end. Raises BadSampleError for a job that no host can hold, naming it."""
    fleet.check()
    for name, needs, has in (
        ("memory", jobs.memory_bytes, fleet.memory_bytes),
        ("cores", jobs.cores, fleet.cores + _ROUNDING),
    ):
        too_large = np.flatnonzero(needs > has)
        if too_large.size:
            at = int(too_large[0])
            raise BadSampleError(f"job {at} needs {needs[at]:g} of {name}: no host has more than {has:g}")
    arrivals, services = jobs.arrival_s.tolist(), jobs.service_s.tolist()
    memory, cores = jobs.memory_bytes.tolist(), jobs.cores.tolist()
    room = _Room(fleet) if fleet.hosts <= _SEARCHED_ONE_BY_ONE else _RoomOfMany(fleet)
    starts = [0.0] * len(arrivals)
    running: list[tuple[float, int, int]] = []
    waiting: deque[int] = deque()
    backfills = fleet.discipline is Discipline.BACKFILL

    def begin(job: int, host: int, now: float) -> None:
        room.change(host, -memory[job], -cores[job], -1)
        starts[job] = now
        heapq.heappush(running, (now + services[job], host, job))

    arriving, count = 0, len(arrivals)
    while arriving < count or waiting:
        if running and (arriving == count or running[0][0] <= arrivals[arriving]):
            now, host, done = heapq.heappop(running)
            room.change(host, memory[done], cores[done], 1)
            if not waiting:
                continue
            if backfills:
                # Whoever waits fits nowhere else: only this host has more room than before.
                for job in [waiting[i] for i in range(min(len(waiting), fleet.backfill_depth))]:
                    if room.fits(host, memory[job], cores[job]):
                        waiting.remove(job)
                        begin(job, host, now)
            elif room.fits(host, memory[waiting[0]], cores[waiting[0]]):
                begin(waiting.popleft(), host, now)
                # The next ones stood behind it, not before a full fleet: they may fit anywhere.
                while waiting and (found := room.find(memory[waiting[0]], cores[waiting[0]])) is not None:
                    begin(waiting.popleft(), found, now)
            continue
        job, now = arriving, arrivals[arriving]
        arriving += 1
        found = room.find(memory[job], cores[job]) if backfills or not waiting else None
        if found is None:
            waiting.append(job)
        else:
            begin(job, found, now)
    start = np.array(starts)
    return Simulated(start, start + jobs.service_s, start - jobs.arrival_s)


class _Room:
    """What is free on each host."""

    def __init__(self, fleet: Fleet) -> None:
        self._memory = [fleet.memory_bytes] * fleet.hosts
        self._cores = [fleet.cores + _ROUNDING] * fleet.hosts
        self._sandboxes = [fleet.sandboxes] * fleet.hosts

    def change(self, host: int, memory: float, cores: float, sandboxes: int) -> None:
        self._memory[host] += memory
        self._cores[host] += cores
        self._sandboxes[host] += sandboxes

    def fits(self, host: int, memory: float, cores: float) -> bool:
        return self._memory[host] >= memory and self._cores[host] >= cores and self._sandboxes[host] > 0

    def find(self, memory: float, cores: float) -> int | None:
        for host, free in enumerate(self._memory):
            if free >= memory and self._cores[host] >= cores and self._sandboxes[host] > 0:
                return host
        return None


class _RoomOfMany(_Room):
    """The same, with a copy in arrays in which a search is one comparison."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._free = np.array([self._memory, self._cores, self._sandboxes], dtype=float)

    def change(self, host: int, memory: float, cores: float, sandboxes: int) -> None:
        super().change(host, memory, cores, sandboxes)
        self._free[:, host] = self._memory[host], self._cores[host], self._sandboxes[host]

    def find(self, memory: float, cores: float) -> int | None:
        good = (self._free[0] >= memory) & (self._free[1] >= cores) & (self._free[2] > 0)
        host = int(good.argmax())
        return host if good[host] else None


def used_share(jobs: Jobs, done: Simulated, fleet: Fleet, since_s: float, until_s: float) -> tuple[float, float]:
    """(of cores, of memory) in use, in the mean from `since_s` to `until_s`."""
    not_negative([until_s - since_s], "until_s less since_s")
    span = above_zero(until_s - since_s, "until_s less since_s")
    inside = np.clip(np.minimum(done.end_s, until_s) - np.maximum(done.start_s, since_s), 0, None)
    return (
        float(inside @ jobs.cores) / (span * fleet.cores * fleet.hosts),
        float(inside @ jobs.memory_bytes) / (span * fleet.memory_bytes * fleet.hosts),
    )
