"""What /proc says of processes. Reads that fail give None (the process is gone, or hidden from us).

A pid is a number that our own pid namespace gives. /proc may be that of a namespace above it (`unshare --pid --fork`
without `--mount-proc`) and count otherwise: what it calls by our number is a stranger there. Then each process is found
by a pidfd, which /proc/self tells /proc's own number of, and each number that is read is translated back.
"""

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


# Whose answer that is, and the answer: whether /proc counts as this process does.
_counting = (0, True)


def counts_as_we_do() -> bool:
    """Whether /proc/PID is the process that has this pid for us (by chance, once in all pids, also where it is not)."""
    global _counting
    pid = os.getpid()
    if _counting[0] != pid:
        try:
            _counting = (pid, os.readlink("/proc/self") == str(pid))
        except OSError:  # no /proc, or one that does not show us
            _counting = (pid, False)
    return _counting[1]


def folder_of(pid: int | str) -> str | None:
    """The folder of one of our processes in /proc; None where that cannot be told. `self` is ours in every /proc."""
    if pid == "self" or counts_as_we_do():
        return f"/proc/{pid}"
    if pid == os.getpid():
        return "/proc/self"
    try:
        fd = os.pidfd_open(int(pid))
    except (OSError, OverflowError):
        return None
    try:
        number = number_after(read_file(f"/proc/self/fdinfo/{fd}", 1024) or b"", b"\nPid:")
    finally:
        os.close(fd)
    return f"/proc/{number}" if number else None


def our_number(number: int) -> int:
    """The pid that we have for what /proc calls `number`: a relative of one of ours. 0 where we cannot see it."""
    if counts_as_we_do():
        return number
    # From /proc's namespace down to each process's own, one number each: ours is at the depth of our own last one.
    ours, theirs = (
        (_field(read_file(f"/proc/{one}/status", 16384), b"NSpid") or b"").split() for one in ("self", number)
    )
    return int(theirs[len(ours) - 1]) if 0 < len(ours) <= len(theirs) else 0


def read_of(pid: int | str, name: str, limit: int) -> bytes | None:
    """Up to `limit` bytes of the file `name` in /proc's folder of a process."""
    folder = folder_of(pid)
    return None if folder is None else read_file(f"{folder}/{name}", limit)


def link_of(pid: int | str, name: str) -> str | None:
    """Where the link `name` in /proc's folder of a process leads."""
    folder = folder_of(pid)
    try:
        return None if folder is None else os.readlink(f"{folder}/{name}")
    except OSError:
        return None


def exists(pid: int) -> bool:
    """Whether there is such a process in our pid namespace, whatever /proc says."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _stat_fields(pid: int) -> list[bytes] | None:
    """Fields of /proc/PID/stat from `state` (index 0) on; the name, which may hold anything, is cut out."""
    raw = read_of(pid, "stat", 4096)
    if raw is None:
        return None
    return raw[raw.rfind(b")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid, its name for this boot."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and len(fields) > 19 else None


def is_stopped(pid: int) -> bool | None:
    """Whether the process is stopped by a signal or a tracer; None where /proc does not tell."""
    fields = _stat_fields(pid)
    return fields[0] in (b"T", b"t") if fields else None


def parent_and_start(pid: int) -> tuple[int, int] | None:
    """The parent's pid, and `start_ticks`, from one reading."""
    fields = _stat_fields(pid)
    return (our_number(int(fields[1])), int(fields[19])) if fields and len(fields) > 19 else None


def is_running(pid: int, ticks: int) -> bool:
    """Whether that very process (not a later one with its number) still runs; a zombie does not."""
    fields = _stat_fields(pid)
    return fields is not None and len(fields) > 19 and int(fields[19]) == ticks and fields[0] not in (b"Z", b"X")


def name_of(pid: int) -> bytes | None:
    """The kernel's name of the process (at most 15 bytes)."""
    raw = read_of(pid, "comm", 64)
    return None if raw is None else raw.rstrip(b"\n")


def command_line(pid: int) -> list[bytes] | None:
    """argv as the process shows it; None when unreadable, empty for a kernel thread or a zombie."""
    raw = read_of(pid, "cmdline", 1 << 22)
    if raw is None:
        return None
    return raw.split(b"\0")[:-1] if raw.endswith(b"\0") else [raw] if raw else []


def status_of(pid: int | str) -> bytes | None:
    """/proc/PID/status."""
    return read_of(pid, "status", 16384)


def status_field(pid: int | str, field: bytes) -> bytes | None:
    """Value of one `Field:` line of /proc/PID/status; `pid` may be `self`."""
    return _field(status_of(pid), field)


def _field(raw: bytes | None, field: bytes) -> bytes | None:
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
    folder = folder_of(pid)
    try:
        threads = [] if folder is None else os.listdir(f"{folder}/task")
    except OSError:
        return found
    for thread in threads:
        raw = read_file(f"{folder}/task/{thread}/children")
        if raw:
            found.extend(our_number(int(child)) for child in raw.split())
    return [child for child in found if child]  # one that has just ended has no number any more


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
