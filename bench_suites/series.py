"""The plan of a suite: every turn in its order, known before anything runs, the same whenever and wherever it is made.

A **turn** is one invocation, or several of the same at the same time (contention). A **block** holds turns that are
compared with each other: every kernel of a suite on one workload, close together in time. Blocks of all workloads take
turns (all first blocks, then all second ones), so that drift falls on all alike.

Order inside a block: `abba`: each kernel twice, the second half the mirror of the first, so that a linear drift cancels
out; who begins changes from block to block. `random`: each kernel once, shuffled from the seed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofcost.bench_suites.call import Sandbox
from proofcost.bench_suites.kernel import Kernel
from proofcost.bench_suites.work import Work

ABBA, RANDOM = "abba", "random"
ORDERS = (ABBA, RANDOM)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each invocation's whole tree; None: none. `swap_bytes` counts beside memory."""

    wall_ns: int | None = None
    memory_bytes: int | None = None
    swap_bytes: int = 0
    file_size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a suite says besides its kernels and workloads."""

    name: str
    order: str = ABBA
    repetitions: int = 12
    warmups: int = 1
    seed: int = 1
    threads: tuple[int, ...] = (1,)
    co_running: tuple[int, ...] = (1,)
    sandbox: Sandbox = field(default_factory=Sandbox)
    limits: Limits = field(default_factory=Limits)
    counters: tuple[str, ...] = ()
    report: str = "pairs"
    chart: bool = False


@dataclass(frozen=True, slots=True)
class Stratum:
    """What is compared within: one workload, one number of threads, so many at the same time."""

    work: Work
    threads: int
    co_running: int
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One place in the plan. `build` counts from 0; `block`, `order` from 1, None for a warm-up; `iteration` from 1."""

    number: int
    kernel: Kernel
    work: Work
    threads: int | None
    co_running: int
    build: int
    block: int | None
    order: int | None
    iteration: int

    @property
    def warmup(self) -> bool:
        return self.block is None

    @property
    def cell(self) -> tuple[str, str, int | None, int]:
        """Turns of the same cell are repetitions of each other."""
        return (self.kernel.name, self.work.name, self.threads, self.co_running)


@dataclass(frozen=True, slots=True)
class Series:
    """A whole plan. `turns` are all of it, whatever part a shard runs."""

    settings: Settings
    kernels: tuple[Kernel, ...]
    works: tuple[Work, ...]
    turns: tuple[Turn, ...]
    sha256: str

    def shard(self, number: int, count: int) -> tuple[Turn, ...]:
        """The turns of shard `number` of `count` (from 1): whole workloads, a family's together, dealt out in turn."""
        groups = list(dict.fromkeys(work.group for work in self.works))
        mine = {group for at, group in enumerate(groups) if at % count == number - 1}
        return tuple(turn for turn in self.turns if turn.work.group in mine)


def make(settings: Settings, kernels: Sequence[Kernel], works: Sequence[Work]) -> Series:
    """The plan; kernels must have been found (kernel.found). Repetitions must be even with `abba`."""
    turns = tuple(_turns(settings, kernels, works))
    digest = hashlib.sha256(_identity(settings, kernels, works).encode()).hexdigest()
    return Series(settings, tuple(kernels), tuple(works), turns, digest)


def strata(settings: Settings, kernels: Sequence[Kernel], works: Sequence[Work]) -> list[Stratum]:
    """A kernel that cannot be told its number of threads takes part in the first number only: it would be the same."""
    found = []
    for work in works:
        for threads in settings.threads:
            taking_part = tuple(one for one in kernels if one.takes_threads or threads == settings.threads[0])
            for co_running in settings.co_running:
                if taking_part:
                    found.append(Stratum(work, threads, co_running, taking_part))
    return found


def _turns(settings: Settings, kernels: Sequence[Kernel], works: Sequence[Work]) -> Iterator[Turn]:
    all_strata = strata(settings, kernels, works)
    builds = max(len(kernel.builds) for kernel in kernels)
    per_build = settings.repetitions // 2 if settings.order == ABBA else settings.repetitions
    number = block = 0
    seen: dict[tuple[object, ...], int] = {}
    for at in range(per_build * builds):
        order = list(range(len(all_strata)))
        if settings.order == RANDOM:
            random.Random(f"{settings.seed} strata {at}").shuffle(order)
        for which in order:
            stratum = all_strata[which]
            block += 1
            sequence: list[tuple[int | None, Kernel]] = []
            if at == 0:
                sequence += [(None, kernel) for kernel in stratum.kernels for _ in range(settings.warmups)]
            sequence += enumerate(_block(settings, stratum, at, which), 1)
            for place, kernel in sequence:
                build = at % len(kernel.builds)
                counted = (kernel.name, which, build, place is None)
                seen[counted] = seen.get(counted, 0) + 1
                yield Turn(
                    number=number,
                    kernel=kernel,
                    work=stratum.work,
                    threads=stratum.threads if kernel.takes_threads else None,
                    co_running=stratum.co_running,
                    build=build,
                    block=None if place is None else block,
                    order=place,
                    iteration=seen[counted],
                )
                number += 1


def _block(settings: Settings, stratum: Stratum, at: int, which: int) -> list[Kernel]:
    kernels = list(stratum.kernels)
    if settings.order == RANDOM:
        random.Random(f"{settings.seed} block {at} {which}").shuffle(kernels)
        return kernels
    first = at % len(kernels)
    half = kernels[first:] + kernels[:first]
    return half + half[::-1]


def _identity(settings: Settings, kernels: Sequence[Kernel], works: Sequence[Work]) -> str:
    """All that the plan hangs on, as text: what changes it is another series."""
    said: dict[str, Any] = {
        "version": 2,
        "name": settings.name,
        "order": [settings.order, settings.repetitions, settings.warmups, settings.seed],
        "threads": settings.threads,
        "co_running": settings.co_running,
        "sandbox": settings.sandbox.kind,
        "limits": [
            settings.limits.wall_ns,
            settings.limits.memory_bytes,
            settings.limits.swap_bytes,
            settings.limits.file_size_bytes,
        ],
        "counters": settings.counters,
        "kernels": [
            {
                "name": kernel.name,
                "builds": [[program.words, program.sha256] for program in kernel.builds],
                "input": kernel.input,
                "arguments": kernel.arguments,
                "config": kernel.config,
                "environment": kernel.environment,
                "exit_codes": sorted(kernel.exit_codes()[0].items()),
            }
            for kernel in kernels
        ],
        "works": [[work.name, work.sha256 or work.path, work.expected, work.timeout_ns] for work in works],
    }
    return json.dumps(said, sort_keys=True, default=dict)
