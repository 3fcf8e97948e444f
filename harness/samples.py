"""Taking the samples that sample.py keeps: imported at the first one, so that a short command does not pay for it."""

from proofcost.harness import lean_os as os  # the real one takes a millisecond, while the command runs
from proofcost.harness import procfs, record
from proofcost.harness.hierarchy import CPUACCT, MEMORY, UNIFIED
from proofcost.harness.record import Json
from proofcost.harness.usage import split_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from proofcost.harness.perf import ExecStamps
    from proofcost.harness.sample import Sampler
    from proofcost.harness.trace import Trace

_PROCESSES_MAX = 512


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


class Taker:
    """Takes one invocation's samples: the extremes go into `kept`, everything into the timeline."""

    __slots__ = ("_dirs", "_files", "_kept", "_pid", "_trace")

    def __init__(self, kept: "Sampler", dirs: dict[str, str], pid: int, origin_ns: int, trace_path: str | None) -> None:
        self._kept = kept
        self._dirs = dirs
        self._pid = pid
        self._files = Files(dirs)
        self._trace: Trace | None = None
        if trace_path is not None:
            try:
                self._trace = self._open_trace(trace_path, origin_ns)
            except Exception as error:
                self._give_up(error)

    def _open_trace(self, path: str, origin_ns: int) -> "Trace":
        from proofcost.harness.trace import Trace

        return Trace(path, origin_ns, self._dirs.get(UNIFIED), self._methods())

    def _methods(self) -> dict[str, Json]:
        memory = self._files.memory_method
        if MEMORY not in self._dirs and not os.path.exists(self._dirs.get(UNIFIED, "") + "/memory.current"):
            memory = "the living processes' VmRSS added up: what they share is counted in each"
        return {"cpu_ns": self._files.cpu_method, "memory_bytes": memory}

    def fast(self, now: int) -> None:
        """The cgroup's files and the disks."""
        kept = self._kept
        kept.samples_count += 1
        cpu, memory, split = self._files.read()
        if split is None:
            memory = self._add_up(memory)
        elif kept.split is None or sum(split) > sum(kept.split):
            kept.split = split
        free = kept.sample_disks()
        self._to_trace(lambda trace: trace.fast(now, cpu, memory, split, free))

    def processes(self, now: int) -> None:
        """Each process, and (for the timeline) the host."""
        kept = self._kept
        members = [(pid, procfs.status_of(pid)) for pid in self._members()]
        for _, status in members:
            peak = procfs.status_bytes(status, b"VmHWM")
            if peak is not None and peak > (kept.process_peak_bytes or 0):
                kept.process_peak_bytes = peak
        self._to_trace(lambda trace: trace.processes(now, members))

    def gap(self, now: int, reason: str) -> None:
        """No more samples will be taken."""
        self._to_trace(lambda trace: trace.gap(now, reason))

    def end(self, exit_ns: int, stamps: "ExecStamps | None") -> dict[str, Json] | None:
        """Finish the timeline and let go of the cgroup's files. The record's `trace`; None where there is none."""
        self._files.close()
        found: list[dict[str, Json]] = []
        self._to_trace(lambda trace: found.append(trace.finish(exit_ns, stamps)))
        return found[0] if found else None

    def _add_up(self, memory: int | None) -> int | None:
        """Without the cgroup's word: the tree's memory as the sum of its processes'."""
        kept = self._kept
        peaks = resident = 0
        for pid in procfs.tree_of(self._pid, _PROCESSES_MAX):
            status = procfs.status_of(pid)
            peaks += procfs.status_bytes(status, b"VmHWM") or 0
            resident += procfs.status_bytes(status, b"VmRSS") or 0
        if peaks:
            kept.tree_peak_bytes = max(peaks, kept.tree_peak_bytes or 0)
        return memory if memory is not None else resident or None

    def _members(self) -> list[int]:
        for directory in self._dirs.values():
            raw = procfs.read_file(directory + "/cgroup.procs")
            if raw:
                return [int(pid) for pid in raw.split()[:_PROCESSES_MAX]]
        return procfs.tree_of(self._pid, _PROCESSES_MAX)

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
        self._kept.fault = ("trace", record.escape_text(f"{type(error).__name__}: {error}"[:500]))
        if trace is not None:
            trace.close()
