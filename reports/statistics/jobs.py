"""C4: jobs as a fleet sees them, drawn from records whose rows stay whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proofcost.reports.statistics.sample import (
    BadSampleError,
    Floats,
    Numbers,
    above_zero,
    not_negative,
    positive,
)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Columns of one length, in order of arrival."""

    arrival_s: Floats
    service_s: Floats
    """Whole time on a host: sandbox, library, run, transfers."""
    memory_bytes: Floats
    """What is set aside for it: its limit, or its peak where one overcommits."""
    cores: Floats

    @property
    def count(self) -> int:
        return int(self.arrival_s.size)


def jobs(arrival_s: Numbers, service_s: Numbers, memory_bytes: Numbers, cores: Numbers) -> Jobs:
    """Raises BadSampleError for columns of different length, arrivals that are not in order, or absurd numbers."""
    columns = Jobs(
        not_negative(arrival_s, "arrival_s"),
        positive(service_s, "service_s"),
        not_negative(memory_bytes, "memory_bytes"),
        not_negative(cores, "cores"),
    )
    sizes = {columns.arrival_s.size, columns.service_s.size, columns.memory_bytes.size, columns.cores.size}
    if len(sizes) > 1:
        raise BadSampleError(f"jobs: columns of {', '.join(map(str, sorted(sizes)))} entries; one of each a job")
    backwards = np.flatnonzero(np.diff(columns.arrival_s) < 0)
    if backwards.size:
        raise BadSampleError(f"arrival_s[{backwards[0] + 1}] is before the one in front of it: sort the jobs")
    return columns


def draw_jobs(records: Jobs, arrival_s: Floats, random: np.random.Generator) -> Jobs:
    """Jobs that arrive at `arrival_s`, each with time, memory and cores of one record drawn at random: what needs much
    time may need much memory. Raises BadSampleError without records."""
    if records.count == 0:
        raise BadSampleError("records: there are none to draw from")
    rows = random.integers(records.count, size=arrival_s.size)
    return Jobs(arrival_s, records.service_s[rows], records.memory_bytes[rows], records.cores[rows])


def with_transfer(records: Jobs, moved_bytes: Numbers, bytes_per_s: float) -> Jobs:
    """The same, with the time to move each one's export over one link (disk or network) that it has to itself."""
    size = not_negative(moved_bytes, "moved_bytes")
    if size.size != records.count:
        raise BadSampleError(f"moved_bytes: {size.size} for {records.count} jobs; one each")
    return replace(records, service_s=records.service_s + size / above_zero(bytes_per_s, "bytes_per_s"))
