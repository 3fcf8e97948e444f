"""The timeline of one invocation: what was sampled while it ran, compressed, beside its record.

`traces/<session>/<invocation>.ndjson.gz` (docs/record.md, "The timeline") grows by one whole gzip member at a time, so
what a killed meter leaves is readable to the last member. Nothing is reserved for it: a full disk, a limit or a missing
zlib costs the timeline and nothing else. It is bounded: the larger it gets the fewer samples are kept, and of those
that stand for several the one with the most memory.

Imported at the first sample; a command that ends before pays nothing.
"""

from proofcost.harness import host, perf, procfs, record, store
from proofcost.harness import lean_os as os  # the real one takes a millisecond, while the command runs
from proofcost.harness.record import Json
from proofcost.harness.usage import sum_io
from proofcost.harness.version import SCHEMA, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from proofcost.harness.perf import ExecStamps

# A killed meter takes at most so much with it.
FLUSH_NS = 10_000_000_000
_ROWS_HELD = 512
# Each time the file has grown by so much, half as many samples are kept.
THIN_EVERY_BYTES = 256 << 10
SIZE_MAX_BYTES = 2 << 20
PROCESSES_KEPT = 64
LIVES_KEPT = 8192
# One sample tells no more than the record does.
SAMPLES_MIN = 2

TOO_SHORT = "the command ended before the second sample"
FULL = f"stopped at {SIZE_MAX_BYTES} bytes"

_TICKS = os.sysconf("SC_CLK_TCK")
_NS_PER_TICK = 1_000_000_000 // _TICKS
_GZIP = 31  # zlib's wbits: a gzip member
# perf's kinds of records, include/uapi/linux/perf_event.h; of both: pid, ppid, tid, ptid, time, then the sample id
_RECORD_EXIT, _RECORD_FORK = 4, 7
_LIFE_BYTES = 8 + 16 + 8 + 16

HOST_COLUMNS = (
    "busy", "steal", "psi_cpu_some", "psi_memory_some", "psi_memory_full", "psi_io_some", "psi_io_full", "swap_in",
    "swap_out",
)  # fmt: skip
COLUMNS: dict[str, Json] = {
    "s": ["at_ns", "cpu_ns", "memory_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "free_bytes"],
    "n": ["at_ns", "pid", "parent_pid", "start_ticks", "name"],
    "p": [
        "at_ns", "processes_count",
        ["pid", "threads_count", "cpu_ns", "resident_bytes", "peak_bytes", "read_bytes", "write_bytes"],
    ],
    "i": ["at_ns", "read_bytes", "write_bytes"],
    "h": ["at_ns", *HOST_COLUMNS],
    "x": ["at_ns", "pid", "name"],
    "f": ["at_ns", "pid", "parent_pid"],
    "e": ["at_ns", "pid", "parent_pid"],
    "g": ["at_ns", "reason"],
    "z": ["at_ns"],
}  # fmt: skip


class Trace:
    """One timeline being written. Every method may raise; whoever calls then gives the timeline up."""

    __slots__ = (
        "_fd",
        "_flushed_ns",
        "_header",
        "_held",
        "_held_bytes",
        "_known",
        "_origin",
        "_path",
        "_rows",
        "_since",
        "_slow",
        "_stride",
        "_unified",
        "reason",
        "samples_count",
        "size_bytes",
    )

    def __init__(self, path: str, origin_ns: int, unified: str | None, methods: dict[str, Json]) -> None:
        """`origin_ns`: CLOCK_MONOTONIC at 0 of all rows. `unified`: the command's v2 cgroup. `methods`: by column."""
        self._path = path
        self._origin = origin_ns
        self._unified = unified
        folder, name = os.path.split(path)
        header: dict[str, Json] = {
            "schema": SCHEMA,
            "event": "trace",
            "session": os.path.basename(folder),
            "invocation": name.partition(".")[0],
            "version": VERSION,
            "origin_monotonic_ns": origin_ns,
            "ticks_per_second": _TICKS,
            "columns": COLUMNS,
            "methods": methods,
        }
        self._header = record.dumps(header)
        self._rows: list[str] = []
        # The sample with the most memory among those that one is to stand for.
        self._held: list[Json] | None = None
        self._held_bytes = 0
        self._since = self._slow = 0
        self._stride = 1
        self._known: dict[int, tuple[int, int, bytes]] = {}
        self._flushed_ns = origin_ns
        self._fd = -1
        self.size_bytes = 0
        self.samples_count = 0
        # Why the timeline is not whole.
        self.reason: str | None = None

    def fast(
        self, now: int, cpu: int | None, memory: int | None, split: tuple[int, int, int] | None, free: int | None
    ) -> None:
        """One sample of the cgroup's files. `now` is CLOCK_MONOTONIC; what is not known is None."""
        self.samples_count += 1
        if self._held is None or (memory or 0) >= self._held_bytes:
            self._held = ["s", now - self._origin, cpu, memory, *(split or (None, None, None)), free]
            self._held_bytes = memory or 0
        self._since += 1
        if self._since >= self._stride:
            self._let_go()
        if now - self._flushed_ns >= FLUSH_NS or len(self._rows) >= _ROWS_HELD:
            self.flush(now)

    def processes(self, now: int, members: list[tuple[int, bytes | None]]) -> None:
        """One sample of the processes, each by pid and /proc/PID/status; and of the cgroup's I/O and of the host."""
        self._slow += 1
        if self._slow % self._stride:
            return
        at = now - self._origin
        found = [one for one in (Process.read(pid, status) for pid, status in members) if one is not None]
        found.sort(key=lambda one: -(one.resident_bytes or 0))
        known, self._known = self._known, {}
        rows: list[Json] = []
        for one in found[:PROCESSES_KEPT]:
            who = (one.parent_pid, one.start_ticks, one.name)
            if known.get(one.pid) != who:
                self._add(["n", at, one.pid, one.parent_pid, one.start_ticks, record.escape(one.name)])
            self._known[one.pid] = who
            read, written = _input_output(one.pid)
            rows.append([one.pid, one.threads_count, one.cpu_ns, one.resident_bytes, one.peak_bytes, read, written])
        self._add(["p", at, len(members), *rows])
        seen = host.snapshot()
        self._add(["h", at, *(seen.get(name) for name in HOST_COLUMNS)])
        io = None if self._unified is None else procfs.read_file(self._unified + "/io.stat")
        if io is not None:
            self._add(["i", at, *sum_io(io)])

    def gap(self, now: int, reason: str) -> None:
        """From here on the timeline lacks something."""
        self.reason = reason
        self._rows.append(record.dumps(["g", now - self._origin, reason]))

    def finish(self, exit_ns: int, stamps: "ExecStamps | None") -> dict[str, Json]:
        """The last rows: execs, forks and exits as the kernel stamped them. Returns the record's `trace`."""
        if self.samples_count < SAMPLES_MIN and self._fd < 0:
            return no_trace(TOO_SHORT)
        if self._held is not None:
            self._let_go()
        if stamps is not None:
            for kind, at, pid, more in lives(stamps.rings())[:LIVES_KEPT]:
                self._rows.append(record.dumps([kind, at - self._origin, pid, more]))
        self._rows.append(record.dumps(["z", exit_ns - self._origin]))
        self.flush(exit_ns)
        self.close()
        return {"samples_count": self.samples_count, "size_bytes": self.size_bytes, "reason": self.reason}

    def flush(self, now: int) -> None:
        """Write what is held as one member. Raises OSError, ImportError; the file then ends with the one before."""
        import zlib

        self._flushed_ns = now
        if not self._rows:
            return
        if self._fd < 0:
            self._open()
        lines, self._rows = self._rows, []
        member = zlib.compress(("\n".join(lines) + "\n").encode("ascii"), 6, wbits=_GZIP)
        written = os.write(self._fd, member)
        if written != len(member):  # a disk that became full takes a part
            os.ftruncate(self._fd, self.size_bytes)
            raise OSError(28, os.strerror(28), self._path)
        self.size_bytes += written
        stride = 1 << (self.size_bytes // THIN_EVERY_BYTES)
        if self.size_bytes >= SIZE_MAX_BYTES:
            if self.reason != FULL:
                self.gap(now, FULL)
        elif stride != self._stride:
            self.gap(now, f"one sample in {stride} is kept from here on, the one with the most memory")
        self._stride = stride

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _let_go(self) -> None:
        if self._held is not None:
            self._add(self._held)
        self._held, self._since = None, 0

    def _add(self, row: list[Json]) -> None:
        if self.reason != FULL:
            self._rows.append(record.dumps(row))

    def _open(self) -> None:
        folder = os.path.dirname(self._path)
        for made in (os.path.dirname(folder), folder):  # no more: a store that was removed stays so
            try:
                os.mkdir(made, 0o700)
            except FileExistsError:
                store.put_right(made)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        self._rows.insert(0, self._header)


def no_trace(reason: str) -> dict[str, Json]:
    """The record's `trace` where none was kept."""
    return {"samples_count": None, "size_bytes": None, "reason": reason}


class Process:
    """What /proc says of one process at one moment; None where it does not tell."""

    __slots__ = ("cpu_ns", "name", "parent_pid", "peak_bytes", "pid", "resident_bytes", "start_ticks", "threads_count")

    def __init__(self, pid: int, name: bytes, fields: list[bytes], status: bytes | None) -> None:
        """`fields` of /proc/PID/stat, from the state on."""
        self.pid = pid
        self.name = name
        self.parent_pid = procfs.our_number(int(fields[1]))
        self.cpu_ns = (int(fields[11]) + int(fields[12])) * _NS_PER_TICK
        self.threads_count = int(fields[17])
        self.start_ticks = int(fields[19])
        self.resident_bytes = procfs.status_bytes(status, b"VmRSS")
        self.peak_bytes = procfs.status_bytes(status, b"VmHWM")

    @classmethod
    def read(cls, pid: int, status: bytes | None) -> "Process | None":
        """None for one that is gone."""
        raw = procfs.read_of(pid, "stat", 4096)
        if raw is None:
            return None
        # The name may hold anything, brackets too.
        end = raw.rfind(b")")
        fields = raw[end + 2 :].split()
        return cls(pid, raw[raw.find(b"(") + 1 : end], fields, status) if len(fields) > 19 else None


def _input_output(pid: int) -> tuple[int | None, int | None]:
    """Bytes that a process read from and wrote to storage; (None, None) where we may not know."""
    raw = procfs.read_of(pid, "io", 1024)
    if raw is None:
        return None, None
    read, written = (procfs.number_after(raw, key) for key in (b"\nread_bytes: ", b"\nwrite_bytes: "))
    return read, written


def lives(rings: list[bytes]) -> list[tuple[str, int, int, Json]]:
    """Execs (`x`, with the name), forks (`f`) and exits (`e`, both with the parent) of processes, in order of time.

    Each as (kind, CLOCK_MONOTONIC ns, pid, name or parent), from the rings' bytes as the kernel wrote them; of threads
    there is none.
    """
    found: list[tuple[str, int, int, Json]] = []
    for data in rings:
        for stamp in perf.parse_ring(data)[0]:
            found.append(("x", stamp.time_ns, stamp.pid, record.escape(stamp.name)))
        at = 0
        while at + 8 <= len(data):
            kind, size = int.from_bytes(data[at : at + 4], "little"), int.from_bytes(data[at + 6 : at + 8], "little")
            if size < 8 or at + size > len(data):
                break
            if kind in (_RECORD_EXIT, _RECORD_FORK) and size >= _LIFE_BYTES:
                pid, parent, thread = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (8, 12, 16))
                if pid == thread and pid != parent:
                    time_ns = int.from_bytes(data[at + size - 8 : at + size], "little")
                    found.append(("f" if kind == _RECORD_FORK else "e", time_ns, pid, parent))
            at += size
    found.sort(key=lambda one: one[1])
    return found
