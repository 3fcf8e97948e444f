"""What a suite's kernels are given: exports made ready, each with all that is known of it before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from proofcost.harness.described import DescriptionError

if TYPE_CHECKING:  # it needs libraries that the base installation does not have
    from proofcost.bench_suites.workloads import Ready

EXPECTED = {"accept": "accepted", "reject": "rejected"}


@dataclass(frozen=True, slots=True)
class Work:
    """One export as kernels read it. `path` is absolute and plain text; `expected` what a sound kernel says."""

    name: str
    path: str
    sha256: str | None
    size_bytes: int
    family: str | None = None
    n: int | None = None
    seed: int | None = None
    expected: str | None = None
    covariates: Mapping[str, int | None] = field(default_factory=dict)
    timeout_ns: int | None = None
    """A time limit of its own (an arena test's); the smaller of this and the suite's holds."""

    @property
    def group(self) -> str:
        """What must stay on one machine: a family's sizes, whose growth is fitted, else the export alone."""
        return self.family or self.name


@dataclass(frozen=True, slots=True)
class Works:
    """`left_out`: what was met but cannot be run here, a line each that says which and why."""

    works: tuple[Work, ...]
    left_out: tuple[str, ...] = ()


def prepare(specs: Sequence[str], folder: str, expected: Mapping[str, str] | None = None, depth: bool = False) -> Works:
    """Everything that `specs` name (see workloads.py); what is packed or generated is written into `folder`.

    `expected`: what is expected of a spec, whatever else is known of it. `depth`: covariates of the terms' depth, too,
    which takes some ten times as long. Raises DescriptionError.
    """
    try:
        from proofcost.bench_suites import workloads
    except ModuleNotFoundError as error:
        raise DescriptionError(
            f"bench needs {error.name}, which is not here: pip install '.[bench]' in a checkout of proofcost"
        ) from None
    works: list[Work] = []
    try:
        loaded = workloads.load(specs)
        said = {
            workload.source: says
            for spec, says in (expected or {}).items()
            for workload in workloads.load([spec]).workloads
        }
        for workload in loaded.workloads:
            works.append(_work(workloads.prepare(workload, Path(folder), depth=depth), said.get(workload.source)))
    except workloads.WorkloadError as error:
        raise DescriptionError(str(error)) from None
    except OSError as error:
        raise DescriptionError(
            f"{error.filename or folder}: {error.strerror}; the exports cannot be made ready"
        ) from None
    return Works(tuple(works), loaded.left_out)


def _work(ready: Ready, expected: str | None) -> Work:
    workload, source = ready.workload, ready.workload.source
    family = n = seed = None
    if not isinstance(source, Path):
        family, n, seed = source.name, source.order.n, source.order.seed
        if seed >= 1 << 63:
            raise DescriptionError(f"{workload.name}: a seed in a record is a number below 2^63; give a smaller one")
    return Work(
        name=workload.name,
        path=os.path.abspath(ready.path),
        sha256=ready.covariates.sha256,
        size_bytes=ready.covariates.bytes,
        family=family,
        n=n,
        seed=seed,
        expected=expected or EXPECTED.get(workload.expected or ""),
        covariates=dict(ready.covariates.as_record()),
        timeout_ns=None if workload.timeout_s is None else workload.timeout_s * 10**9,
    )
