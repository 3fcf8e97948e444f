"""What exists only as samples while the command runs: the memory split, processes' peaks, free disk space.

10 Hz for cgroup files and disks, 1 Hz for processes; five times coarser once a run is long, when a second more or less
of detail no longer matters and our own cost would. Each sample also goes into the timeline (trace.py), which may fail
by itself: the extremes kept here do not depend on it. What takes them (samples.py) is imported for the first one.
"""

import os
import resource
import time

from proofcost.harness import record
from proofcost.harness.record import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from proofcost.harness.perf import ExecStamps
    from proofcost.harness.samples import Taker

FAST_NS = 100_000_000
PROCESSES_NS = 1_000_000_000
LONG_RUN_NS = 600_000_000_000
COARSER = 5
# Looking at processes may take one part in so many of a CPU: of a fork bomb we look less often.
PROCESSES_SHARE = 200
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
        "_taker",
        "_trace_path",
        "disks",
        "fault",
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
        self._trace_path: str | None = None
        self._taker: Taker | None = None
        # (step, what) of the record's faults.
        self.fault: tuple[str, str] | None = None
        self.split: tuple[int, int, int] | None = None
        self.process_peak_bytes: int | None = None
        self.tree_peak_bytes: int | None = None
        self.samples_count = 0
        self.disks = _disks_of(writable)

    def begin(self, pid: int, trace_path: str | None = None) -> None:
        """The command runs: first samples are due one interval from now. `trace_path`: where the timeline goes."""
        self._pid = pid
        self._trace_path = trace_path
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
        used, now = time.process_time_ns(), time.monotonic_ns()
        taker = self._taker
        if used > self._cpu_budget_ns:
            self._next_fast = self._next_processes = _NEVER_NS
            if taker is not None:
                taker.gap(now, "stopped: half of RLIMIT_CPU was used by the meter")
            return
        if taker is None:
            taker = self._begin_taking()
            if taker is None:
                return
        factor = COARSER if now - self._start > LONG_RUN_NS else 1
        if now >= self._next_fast:
            self._next_fast = now + FAST_NS * factor
            taker.fast(now)
        if now >= self._next_processes:
            self._next_processes = now + PROCESSES_NS * factor
            taker.processes(now)
            cost = (time.process_time_ns() - used) * PROCESSES_SHARE
            self._next_processes = max(self._next_processes, now + cost)

    def _begin_taking(self) -> "Taker | None":
        """What takes the samples; where that cannot be had there are none, and one fault says so."""
        try:
            from proofcost.harness.samples import Taker

            self._taker = Taker(self, self._dirs, self._pid, self._start, self._trace_path)
        except Exception as error:
            self._next_fast = self._next_processes = _NEVER_NS
            self.fault = ("sample", record.escape_text(f"{type(error).__name__}: {error}"[:500]))
        return self._taker

    def last(self) -> None:
        """At exit: one more look at the disks (the memory of the tree is gone by now)."""
        self.sample_disks()

    def end_trace(self, exit_ns: int, stamps: "ExecStamps | None") -> dict[str, Json]:
        """Finish the timeline. Returns the record's `trace`."""
        kept = None if self._taker is None else self._taker.end(exit_ns, stamps)
        if kept is None:
            reason = "the command ended before the first sample"
            if self._trace_path is None:
                reason = "no timeline can be kept where the records go"
            kept = {"samples_count": None, "size_bytes": None, "reason": reason}
        if self.fault is not None:
            kept["reason"] = self.fault[1]
        return kept

    def sample_disks(self) -> int | None:
        """The least free bytes of the filesystems now."""
        least = None
        for disk in self.disks:
            try:
                free = free_bytes(disk.path)
            except OSError:
                continue
            disk.free_min_bytes = min(free, disk.free_min_bytes)
            least = free if least is None else min(free, least)
        return least


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
