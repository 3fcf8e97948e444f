"""A cgroup per invocation: the whole tree's CPU and memory, and an honest list of what outlived the command.

Which hierarchy gives what:
- v2 (`unified`), any host that mounts it: CPU (no controller needed), pressure, kill, populated; with the memory controller
  also memory.peak and OOM events; with io, io.stat. The child is born inside by clone3 (0.5 ms).
- v1 `memory` (a "hybrid" or v1 host): peak, split and OOM count. The child writes itself into cgroup.procs (6-10 ms).
- v1 `cpuacct`, only where v2 is not mounted at all.

Where it is made: below the session's cgroup when `run` started us (we live in <session>/whole); else, on v2, a sibling of our
own cgroup if the parent is writable and hands memory down (a cgroup that holds processes cannot give controllers to a child);
else a plain child of our own: CPU yes, memory peak no.
"""

import os
import time

from proofcost.harness import libc, procfs

PREFIX = "proofcost"
WHOLE = "whole"
UNIFIED = "unified"
MEMORY = "memory"
CPUACCT = "cpuacct"
CPU = "cpu"  # v1; only its limits are read

# A tree that is only just dying is not a straggler: how long an exit is given to finish.
GRACE_NS = 20_000_000
_GRACE_STEP_S = 0.002

V1_UNLIMITED_FROM = 1 << 62


class Own:
    """Where this process lives: {hierarchy: directory}, {hierarchy: mount point}, and the kind of host."""

    __slots__ = ("dirs", "kind", "mounts")

    def __init__(self, dirs: dict[str, str], mounts: dict[str, str]) -> None:
        self.dirs = dirs
        self.mounts = mounts
        self.kind = kind_of(mounts)


def kind_of(mounts: dict[str, str]) -> str:
    """`v2`, `v1`, `hybrid` (v2 mounted beside v1's memory) or `off` (nothing usable)."""
    if UNIFIED in mounts:
        return "hybrid" if MEMORY in mounts else "v2"
    return "v1" if MEMORY in mounts or CPUACCT in mounts else "off"


def parse_mounts(mountinfo: bytes) -> dict[str, tuple[str, str]]:
    """{hierarchy: (mount point, root of that mount inside the hierarchy)} for the hierarchies we use; first mount wins."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        if b" - cgroup" not in line:
            continue
        left, _, right = line.partition(b" - ")
        fields = left.split()
        kind, _, rest = right.partition(b" ")
        root, point = _unoctal(fields[3]), _unoctal(fields[4])
        if kind == b"cgroup2":
            found.setdefault(UNIFIED, (point, root))
        elif kind == b"cgroup":
            options = rest.split()[-1].split(b",")
            for name in (MEMORY, CPUACCT, CPU):
                if name.encode() in options:
                    found.setdefault(name, (point, root))
    return found


def _unoctal(raw: bytes) -> str:
    """mountinfo writes space, tab, newline and backslash as three octal digits."""
    if b"\\" not in raw:
        return os.fsdecode(raw)
    out = bytearray()
    at = 0
    while at < len(raw):
        if raw[at : at + 1] == b"\\" and raw[at + 1 : at + 4].isdigit():
            out.append(int(raw[at + 1 : at + 4], 8))
            at += 4
        else:
            out.append(raw[at])
            at += 1
    return os.fsdecode(bytes(out))


def parse_own(self_cgroup: bytes) -> dict[str, str]:
    """{hierarchy: path} from /proc/self/cgroup."""
    paths: dict[str, str] = {}
    for line in self_cgroup.splitlines():
        number, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        if number == b"0" and not controllers:
            paths[UNIFIED] = os.fsdecode(path)
        for name in controllers.split(b","):
            if name.decode("ascii", "replace") in (MEMORY, CPUACCT, CPU):
                paths[name.decode("ascii")] = os.fsdecode(path)
    return paths


def find_own() -> Own:
    """Our own place in every hierarchy that can be seen from here."""
    mounts = parse_mounts(procfs.read_file("/proc/self/mountinfo", 1 << 22) or b"")
    paths = parse_own(procfs.read_file("/proc/self/cgroup") or b"")
    dirs: dict[str, str] = {}
    for name, (point, root) in mounts.items():
        path = paths.get(name)
        if path is None or path.startswith("/.."):  # outside the cgroup namespace that the mount shows
            continue
        if root != "/":
            if path != root and not path.startswith(root + "/"):
                continue
            path = path[len(root) :]
        directory = (point + path).rstrip("/")
        if os.path.isdir(directory):
            dirs[name] = directory
    return Own(dirs, {name: point for name, (point, _root) in mounts.items() if name in dirs})


def session_dirs(own: Own) -> dict[str, str]:
    """The session's cgroups when we live in <session>/whole (started by `run`); empty otherwise."""
    found = {}
    for name, directory in own.dirs.items():
        parent, _, leaf = directory.rpartition("/")
        if leaf == WHOLE and parent.rpartition("/")[2].startswith(PREFIX):
            found[name] = parent
    return found


def hands_down_memory(directory: str) -> bool:
    """Whether a v2 cgroup's children have the memory controller."""
    return b"memory" in (procfs.read_file(directory + "/cgroup.subtree_control", 4096) or b"").split()


def base_for(own: Own, name: str) -> str:
    """Under which directory of hierarchy `name` a new cgroup beside or below our own is made."""
    directory = own.dirs[name]
    if name != UNIFIED or own.kind != "v2":
        return directory
    parent = directory.rpartition("/")[0]
    if directory != own.mounts[UNIFIED] and hands_down_memory(parent) and os.access(parent, os.W_OK):
        return parent
    return directory


def wanted(own: Own) -> list[str]:
    """The hierarchies that add something on this host."""
    names = [name for name in (UNIFIED, MEMORY) if name in own.dirs]
    if UNIFIED not in own.dirs and CPUACCT in own.dirs:
        names.append(CPUACCT)
    return names


class Group:
    """One set of cgroups (one per hierarchy) made by us, for an invocation or a session."""

    __slots__ = ("_fds", "dirs", "kind", "reasons")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.dirs: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self._fds: dict[str, int] = {}

    def make(self, bases: dict[str, str], name: str) -> None:
        """Make directory `name` under each base. What cannot be made is left out, with its reason."""
        for hierarchy, base in bases.items():
            directory = base + "/" + name
            try:
                os.mkdir(directory, 0o755)
            except OSError as error:
                self.reasons[hierarchy] = f"cgroup {directory}: {os.strerror(error.errno or 0)}"
                continue
            self.dirs[hierarchy] = directory
            if hierarchy == MEMORY:
                # An old kernel's default would not add children up; a new one refuses the write and is always so.
                write(directory + "/memory.use_hierarchy", b"1")

    @property
    def has_memory(self) -> bool:
        """Whether the peak memory of the tree can be read from here."""
        return MEMORY in self.dirs or os.path.exists(self.dirs.get(UNIFIED, "") + "/memory.peak")

    def open_entries(self) -> None:
        """Open what the child needs to get in: before the fork, so that the child only writes."""
        for hierarchy, directory in list(self.dirs.items()):
            try:
                if hierarchy == UNIFIED:
                    flags, path = os.O_RDONLY | os.O_DIRECTORY, directory
                else:
                    flags, path = os.O_WRONLY, directory + "/cgroup.procs"
                self._fds[hierarchy] = os.open(path, flags | os.O_CLOEXEC)
            except OSError as error:
                self.reasons[hierarchy] = f"cgroup {directory}: {os.strerror(error.errno or 0)}"
                self.remove_one(hierarchy)

    def close_entries(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def fork(self) -> int:
        """fork into the v2 cgroup where that works, else a plain fork after which the child writes itself in."""
        fd = self._fds.get(UNIFIED)
        if fd is not None:
            try:
                return libc.clone_into_cgroup(fd)
            except OSError as error:
                # No clone3 (seccomp, an old kernel) or no right to move: figures of this hierarchy are void.
                self.reasons[UNIFIED] = f"clone3 into {self.dirs[UNIFIED]}: {os.strerror(error.errno or 0)}"
                os.close(self._fds.pop(UNIFIED))
                if not self._enter_v2_after_fork():
                    self.remove_one(UNIFIED)
        return os.fork()

    def _enter_v2_after_fork(self) -> bool:
        try:
            self._fds[UNIFIED] = os.open(self.dirs[UNIFIED] + "/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def enter(self, born_inside_v2: bool) -> list[str]:
        """In the child: write ourselves into every cgroup we were not born in. Returns the hierarchies that refused."""
        refused = []
        for hierarchy, fd in self._fds.items():
            if hierarchy == UNIFIED and born_inside_v2:
                continue
            try:
                os.write(fd, b"0")
            except OSError:
                refused.append(hierarchy)
        return refused

    def was_born_inside(self) -> bool:
        """In the child: whether clone3 put us into the v2 cgroup."""
        return UNIFIED in self._fds and UNIFIED not in self.reasons

    def forget(self, hierarchy: str, reason: str) -> None:
        """The child could not enter: nothing read there would be true."""
        self.reasons[hierarchy] = reason
        self.remove_one(hierarchy)

    def pids(self) -> list[int]:
        """Processes in the cgroup and below it, from whichever hierarchy we have."""
        for directory in self.dirs.values():
            return pids_below(directory)
        return []

    def wait_empty(self, grace_ns: int = GRACE_NS) -> list[int]:
        """Processes left after an exit was given `grace_ns` to finish."""
        left = self.pids()
        end = time.monotonic_ns() + grace_ns
        while left and time.monotonic_ns() < end:
            time.sleep(_GRACE_STEP_S)
            left = self.pids()
        return left

    def kill(self) -> None:
        """SIGKILL everything inside, at once where v2 can, else until nothing is left or a second has passed."""
        unified = self.dirs.get(UNIFIED)
        if unified is not None and write(unified + "/cgroup.kill", b"1"):
            return
        end = time.monotonic_ns() + 1_000_000_000
        pids = self.pids()
        while pids and time.monotonic_ns() < end:
            for pid in pids:
                try:
                    os.kill(pid, 9)
                except OSError:
                    continue
            time.sleep(_GRACE_STEP_S)
            pids = self.pids()

    def remove_one(self, hierarchy: str) -> bool:
        """Remove one directory; False when something still lives in it."""
        directory = self.dirs.get(hierarchy)
        if directory is None:
            return True
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            pass
        except OSError:
            return False
        del self.dirs[hierarchy]
        return True

    def remove(self) -> bool:
        """Remove all directories; True when nothing is left of them."""
        for hierarchy in list(self.dirs):
            self.remove_one(hierarchy)
        return not self.dirs


def pids_below(directory: str) -> list[int]:
    """Processes in a cgroup and in all cgroups below it."""
    raw = procfs.read_file(directory + "/cgroup.procs") or b""
    pids = [int(pid) for pid in raw.split()]
    for name in left_over(directory, ""):
        pids += pids_below(directory + "/" + name)
    return pids


def write(path: str, data: bytes) -> bool:
    """Write to a control file; whether the kernel took it."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, data)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


class Usage:
    """What the cgroups say at one moment: ns and bytes; None where the file or the controller is absent."""

    __slots__ = ("cpu_ns", "cpu_system_ns", "cpu_user_ns", "io_read_bytes", "io_write_bytes", "oom_count", "oom_kill_count",
                 "peak_bytes", "peak_method", "swap_peak_bytes", "throttled_ns", "cpu_method")  # fmt: skip

    def __init__(self) -> None:
        self.cpu_ns: int | None = None
        self.cpu_user_ns: int | None = None
        self.cpu_system_ns: int | None = None
        self.cpu_method = "cgroup CPU"
        self.throttled_ns: int | None = None
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
    usage.throttled_ns = _times(cpu.get(b"throttled_usec"), 1000)
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


def read_split(dirs: dict[str, str]) -> tuple[int, int, int] | None:
    """(anonymous, file without shared memory, shared memory) bytes now; None where there is no memory controller.

    v1 calls anonymous memory rss, and its cache includes shared memory; v2's file includes it as well.
    """
    memory = dirs.get(MEMORY)
    if memory is not None:
        stat = procfs.read_table(memory + "/memory.stat") or {}
        anon, cache, shmem = (stat.get(name) for name in (b"total_rss", b"total_cache", b"total_shmem"))
    else:
        unified = dirs.get(UNIFIED)
        stat = (procfs.read_table(unified + "/memory.stat") or {}) if unified is not None else {}
        anon, cache, shmem = (stat.get(name) for name in (b"anon", b"file", b"shmem"))
    if anon is None or cache is None:
        return None
    shared = shmem or 0
    return anon, max(0, cache - shared), shared


def oom_counts_above(dirs: dict[str, str]) -> dict[str, int]:
    """How often each ancestor (and the cgroup itself) ran into its own memory limit: {directory: count}.

    A growing count between start and end names the limit that an OOM kill belongs to; none growing means the host itself.
    """
    directory = dirs.get(MEMORY)
    counter = "/memory.failcnt"
    if directory is None:
        directory = dirs.get(UNIFIED)
        counter = "/memory.events.local"
    counts: dict[str, int] = {}
    while directory:
        if counter == "/memory.failcnt":
            count = procfs.read_int(directory + counter)
        else:
            count = (procfs.read_table(directory + counter) or {}).get(b"oom")
        if count is not None:
            counts[directory] = count
        elif not os.path.exists(directory + "/cgroup.procs"):
            break
        directory = directory.rpartition("/")[0]
    return counts


def limit_tree(dirs: dict[str, str], memory_bytes: int) -> str | None:
    """Limit a session's memory, swap included (a tree that swaps would thrash instead of ending). Reason when it fails."""
    memory, unified = dirs.get(MEMORY), dirs.get(UNIFIED)
    text = str(memory_bytes).encode()
    if memory is not None:
        if not write(memory + "/memory.limit_in_bytes", text):
            return f"{memory}/memory.limit_in_bytes cannot be written"
        if os.path.exists(memory + "/memory.memsw.limit_in_bytes") and not write(
            memory + "/memory.memsw.limit_in_bytes", text
        ):
            return f"{memory}/memory.memsw.limit_in_bytes cannot be written"
        return None
    if unified is None or not os.path.exists(unified + "/memory.max"):
        return "no memory controller here"
    if not write(unified + "/memory.max", text):
        return f"{unified}/memory.max cannot be written"
    if os.path.exists(unified + "/memory.swap.max") and not write(unified + "/memory.swap.max", b"0"):
        return f"{unified}/memory.swap.max cannot be written"
    return None


def open_controllers(directory: str) -> None:
    """Give every controller that a v2 cgroup has to its children; one by one, so that one refusal costs only itself."""
    have = (procfs.read_file(directory + "/cgroup.controllers", 4096) or b"").split()
    for name in (b"memory", b"cpu", b"io", b"pids"):
        if name in have:
            write(directory + "/cgroup.subtree_control", b"+" + name)


def left_over(base: str, prefix: str) -> list[str]:
    """Names of the cgroups under `base` that start with `prefix`; none when it cannot be listed (it may just have gone)."""
    try:
        return [entry.name for entry in os.scandir(base) if entry.is_dir() and entry.name.startswith(prefix)]
    except OSError:
        return []
