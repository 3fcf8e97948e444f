"""What cgroups say at one moment: CPU, memory, OOM, input and output."""

import os

from proofcost.harness import procfs
from proofcost.harness.hierarchy import CPU, CPUACCT, MEMORY, UNIFIED

# The kernel takes memory from a cgroup's limit in batches of at most this, for each CPU.
_CHARGED_AT_ONCE_BYTES = 64 * os.sysconf("SC_PAGE_SIZE") * (os.cpu_count() or 1)


class Usage:
    """What the cgroups say at one moment: ns and bytes; None where the file or the controller is absent."""

    __slots__ = (
        "cpu_method",
        "cpu_ns",
        "cpu_system_ns",
        "cpu_user_ns",
        "io_read_bytes",
        "io_write_bytes",
        "oom_count",
        "oom_kill_count",
        "peak_bytes",
        "peak_method",
        "swap_peak_bytes",
    )

    def __init__(self) -> None:
        self.cpu_ns: int | None = None
        self.cpu_user_ns: int | None = None
        self.cpu_system_ns: int | None = None
        self.cpu_method = "cgroup CPU"
        self.peak_bytes: int | None = None
        self.peak_method = "cgroup memory peak"
        self.swap_peak_bytes: int | None = None
        self.oom_count: int | None = None
        self.oom_kill_count: int | None = None
        self.io_read_bytes: int | None = None
        self.io_write_bytes: int | None = None


def read_usage(dirs: dict[str, str]) -> Usage:
    """Read CPU, memory peak, OOM counts and I/O of a set of cgroups."""
    usage = Usage()
    unified, memory, cpuacct = dirs.get(UNIFIED), dirs.get(MEMORY), dirs.get(CPUACCT)
    if unified is not None:
        _read_unified(usage, unified)
    elif cpuacct is not None:
        usage.cpu_ns = procfs.read_int(cpuacct + "/cpuacct.usage")
        usage.cpu_user_ns = procfs.read_int(cpuacct + "/cpuacct.usage_user")
        usage.cpu_system_ns = procfs.read_int(cpuacct + "/cpuacct.usage_sys")
        usage.cpu_method = "cgroup v1 cpuacct.usage"
    if memory is not None:
        usage.peak_bytes = procfs.read_int(memory + "/memory.max_usage_in_bytes")
        usage.peak_method = "cgroup v1 memory.max_usage_in_bytes"
        control = procfs.read_table(memory + "/memory.oom_control") or {}
        usage.oom_kill_count = control.get(b"oom_kill")
        usage.oom_count = procfs.read_int(memory + "/memory.failcnt")
    return usage


def _read_unified(usage: Usage, directory: str) -> None:
    cpu = procfs.read_table(directory + "/cpu.stat") or {}
    usage.cpu_method = "cgroup v2 cpu.stat"
    usage.cpu_ns = _times(cpu.get(b"usage_usec"), 1000)
    usage.cpu_user_ns = _times(cpu.get(b"user_usec"), 1000)
    usage.cpu_system_ns = _times(cpu.get(b"system_usec"), 1000)
    usage.peak_bytes = procfs.read_int(directory + "/memory.peak")
    usage.peak_method = "cgroup v2 memory.peak"
    usage.swap_peak_bytes = procfs.read_int(directory + "/memory.swap.peak")
    events = procfs.read_table(directory + "/memory.events") or {}
    usage.oom_count = events.get(b"oom")
    usage.oom_kill_count = events.get(b"oom_kill")
    io = procfs.read_file(directory + "/io.stat")
    if io is not None:
        usage.io_read_bytes, usage.io_write_bytes = sum_io(io)


def sum_io(io_stat: bytes) -> tuple[int, int]:
    """Bytes read and written over all devices of a v2 io.stat."""
    totals = {b"rbytes": 0, b"wbytes": 0}
    for word in io_stat.split():
        key, _, number = word.partition(b"=")
        if key in totals:
            totals[key] += int(number)
    return totals[b"rbytes"], totals[b"wbytes"]


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def split_of(stat: bytes) -> tuple[int, int, int] | None:
    """(anonymous, file without shared memory, shared memory) bytes by a memory.stat; None where it lacks one.

    v1 calls anonymous memory rss, and its cache includes shared memory; v2's file includes it as well.
    """
    stat = b"\n" + stat
    total = b"total_" if b"\ntotal_rss " in stat else b""
    names = (b"rss ", b"cache ", b"shmem ") if total else (b"anon ", b"file ", b"shmem ")
    anon, cache, shmem = (procfs.number_after(stat, b"\n" + total + name) for name in names)
    if anon is None or cache is None or shmem is None:
        return None
    return anon, max(0, cache - shmem), shmem


def oom_counts_above(dirs: dict[str, str]) -> dict[str, int]:
    """How often each ancestor (and the cgroup itself) ran into its own memory limit: {directory: count}.

    A growing count between start and end names the limit that an OOM kill belongs to; none growing means the host
    itself.
    """
    directory = dirs.get(MEMORY)
    look = _v1_limit_hits
    if directory is None:
        directory = dirs.get(UNIFIED)
        look = _v2_limit_hits
    counts: dict[str, int] = {}
    while directory:
        count = look(directory)
        if count is not None:
            counts[directory] = count
        elif not os.path.exists(directory + "/cgroup.procs"):
            break
        directory = directory.rpartition("/")[0]
    return counts


def _v1_limit_hits(directory: str) -> int | None:
    return procfs.read_int(directory + "/memory.failcnt")


def throttled(dirs: dict[str, str]) -> dict[str, int]:
    """How long each cgroup from the command's own upwards has been held back by a CPU quota of its own, ns.

    A quota holds everything below it back and is counted where it is set, mostly far above the command.
    """
    unified = CPU not in dirs
    directory = dirs.get(UNIFIED if unified else CPU, "")
    counts: dict[str, int] = {}
    while directory:
        table = procfs.read_table(directory + "/cpu.stat")
        if table is None:
            break
        count = _times(table.get(b"throttled_usec"), 1000) if unified else table.get(b"throttled_time")
        if count is not None:
            counts[directory] = count
        directory = directory.rpartition("/")[0]
    return counts


def v1_limit_reached(dirs: dict[str, str]) -> str | None:
    """The nearest v1 cgroup whose peak of memory and swap together reached its limit; None when there is none.

    Where that limit equals the one on memory (Docker's default) it is the one hit, and not every kernel counts that
    (6.18 does not): then only the peak tells.
    """
    for directory in oom_counts_above(dirs) if MEMORY in dirs else ():
        limit = procfs.read_int(directory + "/memory.memsw.limit_in_bytes")
        peak = procfs.read_int(directory + "/memory.memsw.max_usage_in_bytes")
        if limit is not None and peak is not None and peak + _CHARGED_AT_ONCE_BYTES >= limit:
            return directory
    return None


def _v2_limit_hits(directory: str) -> int | None:
    return (procfs.read_table(directory + "/memory.events.local") or {}).get(b"oom")
