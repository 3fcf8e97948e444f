"""What /proc says of processes. Reads that fail give None (the process is gone, or hidden from us)."""

import os

_READ_MAX = 1 << 20


def read_file(path: str, limit: int = _READ_MAX) -> bytes | None:
    """Up to `limit` bytes of a small kernel file; None when it cannot be read.

    Never waits: what stands at a path that others choose may be a pipe that nobody writes to.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        parts = []
        while limit > 0:
            part = os.read(fd, min(limit, 65536))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


def write_file(path: str, data: bytes) -> bool:
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


def read_int(path: str) -> int | None:
    """The number in a file that holds one number; None when unreadable or not a number (`max`)."""
    raw = read_file(path, 64)
    if raw is None:
        return None
    try:
        return int(raw)
    except ValueError:
        return None


def read_table(path: str) -> dict[bytes, int] | None:
    """A file of `name number` lines (cpu.stat, memory.stat, memory.events); None when unreadable."""
    raw = read_file(path)
    if raw is None:
        return None
    table = {}
    for line in raw.splitlines():
        name, _, number = line.partition(b" ")
        if number.isdigit():
            table[name] = int(number)
    return table


def boot_id() -> str | None:
    """The kernel's id of this boot."""
    raw = read_file("/proc/sys/kernel/random/boot_id", 64)
    return None if raw is None else raw.decode("ascii", "replace").strip()


def pid_namespace() -> str | None:
    """Number of our pid namespace."""
    try:
        return os.readlink("/proc/self/ns/pid").partition("[")[2].rstrip("]")
    except OSError:
        return None


def _stat_fields(pid: int) -> list[bytes] | None:
    """Fields of /proc/PID/stat from `state` (index 0) on; the name, which may hold anything, is cut out."""
    raw = read_file(f"/proc/{pid}/stat", 4096)
    if raw is None:
        return None
    return raw[raw.rfind(b")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid, its name for this boot."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and len(fields) > 19 else None


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal or a tracer."""
    fields = _stat_fields(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def parent_and_start(pid: int) -> tuple[int, int] | None:
    """The parent's pid, and `start_ticks`, from one reading."""
    fields = _stat_fields(pid)
    return (int(fields[1]), int(fields[19])) if fields and len(fields) > 19 else None


def is_running(pid: int, ticks: int) -> bool:
    """Whether that very process (not a later one with its number) still runs; a zombie does not."""
    fields = _stat_fields(pid)
    return fields is not None and len(fields) > 19 and int(fields[19]) == ticks and fields[0] not in (b"Z", b"X")


def name_of(pid: int) -> bytes | None:
    """The kernel's name of the process (at most 15 bytes)."""
    raw = read_file(f"/proc/{pid}/comm", 64)
    return None if raw is None else raw.rstrip(b"\n")


def command_line(pid: int) -> list[bytes] | None:
    """argv as the process shows it; None when unreadable, empty for a kernel thread or a zombie."""
    raw = read_file(f"/proc/{pid}/cmdline", 1 << 22)
    if raw is None:
        return None
    return raw.split(b"\0")[:-1] if raw.endswith(b"\0") else [raw] if raw else []


def status_of(pid: int | str) -> bytes | None:
    """/proc/PID/status."""
    return read_file(f"/proc/{pid}/status", 16384)


def status_field(pid: int | str, field: bytes) -> bytes | None:
    """Value of one `Field:` line of /proc/PID/status; `pid` may be `self`, also where /proc counts otherwise."""
    raw = status_of(pid)
    if raw is None:
        return None
    start = raw.find(b"\n" + field + b":")
    if start < 0:
        return None
    return raw[start + len(field) + 2 : raw.index(b"\n", start + 1)].strip()


def number_after(raw: bytes, key: bytes) -> int | None:
    """The number that stands right after `key`, blanks aside; None without one."""
    start = raw.find(key)
    if start < 0:
        return None
    start += len(key)
    words = raw[start : start + 32].split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None


def status_bytes(status: bytes | None, field: bytes) -> int | None:
    """A size from the text of /proc/PID/status, as VmRSS and VmHWM; None where it has none (a zombie's)."""
    found = None if status is None else number_after(status, b"\n" + field + b":")
    return None if found is None else found * 1024


def ignored_signals(pid: int) -> int | None:
    """Bit mask of the signals that the process ignores (bit n-1 for signal n)."""
    value = status_field(pid, b"SigIgn")
    return None if value is None else int(value, 16)


def peak_resident_bytes(pid: int) -> int | None:
    """VmHWM: the largest resident size that this process ever had since its exec."""
    return status_bytes(status_of(pid), b"VmHWM")


def children_of(pid: int) -> list[int]:
    """Living children of all threads of a process (needs CONFIG_PROC_CHILDREN; empty without)."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        raw = read_file(f"/proc/{pid}/task/{thread}/children")
        if raw:
            found.extend(int(child) for child in raw.split())
    return found


def tree_of(pid: int, limit: int = 4096) -> list[int]:
    """The process and its living descendants; orphans that were adopted by init are not found this way."""
    tree = [pid]
    for member in tree:
        if len(tree) >= limit:
            break
        tree.extend(children_of(member))
    return tree[:limit]


def own_io() -> dict[str, int] | None:
    """/proc/self/io: our own and all waited-for descendants' input and output."""
    raw = read_file("/proc/self/io", 1024)
    if raw is None:
        return None
    table = {}
    for line in raw.splitlines():
        name, _, number = line.partition(b": ")
        if number.isdigit():
            table[name.decode("ascii")] = int(number)
    return table
