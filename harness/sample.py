"""What exists only as samples while the command runs: the memory split, processes' peaks, free disk space.

10 Hz for cgroup files and disks, 1 Hz for processes; five times coarser once a run is long, when a second more or less
of detail no longer matters and our own cost would. Each sample also goes into the timeline (trace.py), which may fail
by itself: the extremes kept here do not depend on it.
"""

import os
import resource
import time

from proofcost.harness import procfs, record
from proofcost.harness.hierarchy import CPUACCT, MEMORY, UNIFIED
from proofcost.harness.record import Json
from proofcost.harness.usage import split_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from proofcost.harness.perf import ExecStamps
    from proofcost.harness.trace import Trace

FAST_NS = 100_000_000
PROCESSES_NS = 1_000_000_000
LONG_RUN_NS = 600_000_000_000
COARSER = 5
# Looking at processes may take one part in so many of a CPU: of a fork bomb we look less often.
PROCESSES_SHARE = 200
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


class Files:
    """The cgroup's files that are read ten times a second, held open: half the cost of opening them each time."""

    __slots__ = ("_fds", "cpu_method", "memory_method")

    def __init__(self, dirs: dict[str, str]) -> None:
        unified, cpuacct, memory = (dirs.get(name) for name in (UNIFIED, CPUACCT, MEMORY))
        cpu, self.cpu_method = None, "no cgroup"
        if unified is not None:
            cpu, self.cpu_method = unified + "/cpu.stat", "cgroup v2 cpu.stat"
        elif cpuacct is not None:
            cpu, self.cpu_method = cpuacct + "/cpuacct.usage", "cgroup v1 cpuacct.usage"
        now, self.memory_method = None, "no memory controller"
        if memory is not None:
            now, self.memory_method = memory + "/memory.usage_in_bytes", "cgroup v1 memory.usage_in_bytes"
        elif unified is not None:
            now, self.memory_method = unified + "/memory.current", "cgroup v2 memory.current"
        directory = unified if memory is None else memory
        self._fds = [_open(path) for path in (cpu, now, None if directory is None else directory + "/memory.stat")]

    def read(self) -> tuple[int | None, int | None, tuple[int, int, int] | None]:
        """(CPU ns, memory bytes, its split) of the tree now; None for what is not offered."""
        cpu, now, stat = [None if fd < 0 else _read(fd) for fd in self._fds]
        used = None
        if cpu is not None:
            used = int(cpu) if cpu[:1].isdigit() else procfs.number_after(cpu, b"usage_usec ")
            if used is not None and not cpu[:1].isdigit():
                used *= 1000
        return used, None if now is None else int(now), None if stat is None else split_of(stat)

    def close(self) -> None:
        for fd in self._fds:
            if fd >= 0:
                os.close(fd)
        self._fds = [-1, -1, -1]


def _open(path: str | None) -> int:
    try:
        return -1 if path is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _read(fd: int) -> bytes | None:
    try:
        return os.pread(fd, 16384, 0)
    except OSError:
        return None


class Sampler:
    """Keeps the extremes of its samples. A sample that fails is a sample less, never an error."""

    __slots__ = (
        "_cpu_budget_ns",
        "_dirs",
        "_files",
        "_next_fast",
        "_next_processes",
        "_pid",
        "_start",
        "_trace",
        "_trace_path",
        "disks",
        "process_peak_bytes",
        "samples_count",
        "split",
        "trace_fault",
        "tree_peak_bytes",
    )

    def __init__(self, dirs: dict[str, str], writable: list[str]) -> None:
        self._dirs = dirs
        self._pid = 0
        self._cpu_budget_ns = _NEVER_NS
        self._start = self._next_fast = self._next_processes = 0
        self._files: Files | None = None
        self._trace: Trace | None = None
        self._trace_path: str | None = None
        # What became of the timeline, if that went wrong.
        self.trace_fault: str | None = None
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
        used = time.process_time_ns()
        now = time.monotonic_ns()
        if used > self._cpu_budget_ns:
            self._next_fast = self._next_processes = _NEVER_NS
            self._to_trace(lambda trace: trace.gap(now, "stopped: half of RLIMIT_CPU was used by the meter"))
            return
        factor = COARSER if now - self._start > LONG_RUN_NS else 1
        if now >= self._next_fast:
            self._next_fast = now + FAST_NS * factor
            self._fast(now)
        if now >= self._next_processes:
            self._next_processes = now + PROCESSES_NS * factor
            self._processes(now)
            cost = (time.process_time_ns() - used) * PROCESSES_SHARE
            self._next_processes = max(self._next_processes, now + cost)

    def last(self) -> None:
        """At exit: one more look at the disks (the memory of the tree is gone by now)."""
        self._sample_disks()

    def end_trace(self, exit_ns: int, stamps: "ExecStamps | None") -> dict[str, Json]:
        """Finish the timeline and let go of the cgroup's files. Returns the record's `trace`; never raises."""
        if self._files is not None:
            self._files.close()
        reason = "the command ended before the first sample"
        if self._trace_path is None:
            reason = "no timeline can be kept where the records go"
        found: list[dict[str, Json]] = [{"samples_count": None, "size_bytes": None, "reason": reason}]
        self._to_trace(lambda trace: found.append(trace.finish(exit_ns, stamps)))
        if self.trace_fault is not None:
            found[-1]["reason"] = record.escape_text(self.trace_fault)
        return found[-1]

    def _fast(self, now: int) -> None:
        self.samples_count += 1
        if self._files is None:
            self._files = Files(self._dirs)
            self._begin_trace()
        cpu, memory, split = self._files.read()
        if split is None:
            memory = self._add_up(memory)
        elif self.split is None or sum(split) > sum(self.split):
            self.split = split
        free = self._sample_disks()
        self._to_trace(lambda trace: trace.fast(now, cpu, memory, split, free))

    def _add_up(self, memory: int | None) -> int | None:
        """Without the cgroup's word: the tree's memory as the sum of its processes'."""
        peaks = resident = 0
        for pid in procfs.tree_of(self._pid, _PROCESSES_MAX):
            status = procfs.status_of(pid)
            peaks += procfs.status_bytes(status, b"VmHWM") or 0
            resident += procfs.status_bytes(status, b"VmRSS") or 0
        if peaks:
            self.tree_peak_bytes = max(peaks, self.tree_peak_bytes or 0)
        return memory if memory is not None else resident or None

    def _processes(self, now: int) -> None:
        members = [(pid, procfs.status_of(pid)) for pid in self._members()]
        for _, status in members:
            peak = procfs.status_bytes(status, b"VmHWM")
            if peak is not None and peak > (self.process_peak_bytes or 0):
                self.process_peak_bytes = peak
        self._to_trace(lambda trace: trace.processes(now, members))

    def _begin_trace(self) -> None:
        files, path = self._files, self._trace_path
        if files is None or path is None:
            return
        methods: dict[str, Json] = {"cpu_ns": files.cpu_method, "memory_bytes": files.memory_method}
        if MEMORY not in self._dirs and not os.path.exists(self._dirs.get(UNIFIED, "") + "/memory.current"):
            methods["memory_bytes"] = "the living processes' VmRSS added up: what they share is counted in each"
        try:
            from proofcost.harness.trace import Trace

            self._trace = Trace(path, self._start, self._dirs.get(UNIFIED), methods)
        except Exception as error:
            self._give_up(error)

    def _to_trace(self, do: "Callable[[Trace], object]") -> None:
        trace = self._trace
        if trace is not None:
            try:
                do(trace)
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """A fault of the timeline costs the timeline; what is written of it stays."""
        trace, self._trace = self._trace, None
        self.trace_fault = f"{type(error).__name__}: {error}"[:500]
        if trace is not None:
            trace.close()

    def _members(self) -> list[int]:
        for directory in self._dirs.values():
            raw = procfs.read_file(directory + "/cgroup.procs")
            if raw:
                return [int(pid) for pid in raw.split()[:_PROCESSES_MAX]]
        return procfs.tree_of(self._pid, _PROCESSES_MAX)

    def _sample_disks(self) -> int | None:
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
