"""What exists only as samples while the command runs: the memory split, processes' peaks, free disk space.

10 Hz for cgroup files and disks, 1 Hz for processes; five times coarser once a run is long, when a second more or less
of detail no longer matters and our own cost would.
"""

import os
import resource
import time

from proofcost.harness import procfs
from proofcost.harness.usage import read_split

FAST_NS = 100_000_000
PROCESSES_NS = 1_000_000_000
LONG_RUN_NS = 600_000_000_000
COARSER = 5
_PROCESSES_MAX = 512
_NEVER_NS = 1 << 62


class Disk:
    """One filesystem of the writable paths: free bytes at the start and the smallest seen."""

    __slots__ = ("free_min_bytes", "free_start_bytes", "path")

    def __init__(self, path: str, free: int) -> None:
        self.path = path
        self.free_start_bytes = free
        self.free_min_bytes = free


def free_bytes(path: str) -> int:
    """Free bytes of the filesystem for us (and the command): what is kept for root counts for root alone.

    Raises OSError.
    """
    info = os.statvfs(path)
    return (info.f_bfree if os.geteuid() == 0 else info.f_bavail) * info.f_frsize


class Sampler:
    """Keeps the extremes of its samples. A sample that fails is a sample less, never an error."""

    __slots__ = (
        "_cpu_budget_ns",
        "_dirs",
        "_next_fast",
        "_next_processes",
        "_pid",
        "_start",
        "disks",
        "process_peak_bytes",
        "samples_count",
        "split",
        "tree_peak_bytes",
    )

    def __init__(self, dirs: dict[str, str], writable: list[str]) -> None:
        self._dirs = dirs
        self._pid = 0
        self._cpu_budget_ns = _NEVER_NS
        self._start = self._next_fast = self._next_processes = 0
        self.split: tuple[int, int, int] | None = None
        self.process_peak_bytes: int | None = None
        self.tree_peak_bytes: int | None = None
        self.samples_count = 0
        self.disks = _disks_of(writable)

    def begin(self, pid: int) -> None:
        """The command runs: first samples are due one interval from now."""
        self._pid = pid
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        # The command's limit is ours too: over a long idle run our samples would use it up, and our end is its end.
        self._cpu_budget_ns = _NEVER_NS if hard < 0 else hard * 500_000_000
        self._start = time.monotonic_ns()
        self._next_fast = self._start + FAST_NS
        self._next_processes = self._start + FAST_NS

    def due_ns(self) -> int:
        """When the next sample is due, CLOCK_MONOTONIC."""
        return min(self._next_fast, self._next_processes)

    def tick(self) -> None:
        """Take what is due."""
        if time.process_time_ns() > self._cpu_budget_ns:
            self._next_fast = self._next_processes = _NEVER_NS
            return
        now = time.monotonic_ns()
        factor = COARSER if now - self._start > LONG_RUN_NS else 1
        if now >= self._next_fast:
            self._next_fast = now + FAST_NS * factor
            self._fast()
        if now >= self._next_processes:
            self._next_processes = now + PROCESSES_NS * factor
            self._processes()

    def last(self) -> None:
        """At exit: one more look at the disks (the memory of the tree is gone by now)."""
        self._sample_disks()

    def _fast(self) -> None:
        self.samples_count += 1
        split = read_split(self._dirs)
        if split is None:
            total = 0
            for pid in procfs.tree_of(self._pid, _PROCESSES_MAX):
                total += procfs.peak_resident_bytes(pid) or 0
            if total:
                self.tree_peak_bytes = max(total, self.tree_peak_bytes or 0)
        elif self.split is None or sum(split) > sum(self.split):
            self.split = split
        self._sample_disks()

    def _processes(self) -> None:
        for pid in self._members():
            peak = procfs.peak_resident_bytes(pid)
            if peak is not None and peak > (self.process_peak_bytes or 0):
                self.process_peak_bytes = peak

    def _members(self) -> list[int]:
        for directory in self._dirs.values():
            raw = procfs.read_file(directory + "/cgroup.procs")
            if raw:
                return [int(pid) for pid in raw.split()[:_PROCESSES_MAX]]
        return procfs.tree_of(self._pid, _PROCESSES_MAX)

    def _sample_disks(self) -> None:
        for disk in self.disks:
            try:
                free = free_bytes(disk.path)
            except OSError:
                continue
            disk.free_min_bytes = min(free, disk.free_min_bytes)


def _disks_of(writable: list[str]) -> list[Disk]:
    """One entry per filesystem of the writable paths; /dev is writable in every sandbox and holds no work."""
    disks: list[Disk] = []
    seen: set[int] = set()
    for path in writable:
        if path == "/dev" or path.startswith("/dev/"):
            continue
        try:
            device = os.stat(path).st_dev
            if device in seen:
                continue
            disks.append(Disk(path, free_bytes(path)))
        except OSError:
            continue
        seen.add(device)
    return disks
