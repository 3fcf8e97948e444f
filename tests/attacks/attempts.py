"""The hostile program: every thing that a process may try against its meter and the store, one line of outcome each.

Run inside the sandbox as `python3 -I -S attempts.py STORE VICTIM EMPTIED SOCKET ABSTRACT [NAME=PID...]`. It knows
everything: the store, a finished record (VICTIM), another one (EMPTIED), two sockets of somebody outside, its meter
(its parent), and whichever other processes of ours are named (`the collector=PID`). It prints `NAME: done` or
`NAME: ERRNO` for each attempt and ends with 3. Nothing here ends or stops a process: that is in test_fatal.py, one by
one.
"""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable

STORE, VICTIM, EMPTIED, SOCKET, ABSTRACT = (*sys.argv[1:6], *[""] * 5)[:5]
libc = ctypes.CDLL(None, use_errno=True)
# x86_64, aarch64
SYSCALLS = {
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "ioprio_set": (251, 30),
    "tgkill": (234, 131),
    "clone3": (435, 435),
    "mount": (165, 40),
}


class PerfAttributes(ctypes.Structure):
    """The first, smallest form of perf_event_attr: a software clock of the process, disabled, user only."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 3),
        ("flags", ctypes.c_uint64),
        ("tail", ctypes.c_uint64 * 2),
    )


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class CloneArguments(ctypes.Structure):
    """struct clone_args, version 2."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls",
                     "set_tid", "set_tid_size", "cgroup")
    )  # fmt: skip


def syscall(name: str, *words: object) -> int:
    number = SYSCALLS[name][os.uname().machine == "aarch64"]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def of(*words: int) -> list[object]:
    return [ctypes.c_long(word) for word in words]


def vectors() -> tuple[object, Vector]:
    buffer = ctypes.create_string_buffer(8)
    return buffer, Vector(ctypes.addressof(buffer), 8)


def read_memory(name: str, pid: int) -> None:
    buffer, vector = vectors()
    syscall(name, *of(pid), ctypes.byref(vector), *of(1), ctypes.byref(vector), *of(1, 0))
    del buffer


def perf_of(pid: int) -> None:
    attributes = PerfAttributes(kind=1, size=64, config=1, flags=1 | 1 << 5 | 1 << 6)
    os.close(syscall("perf_event_open", ctypes.byref(attributes), *of(pid, -1, -1, 0)))


def pidfd_of(pid: int) -> int:
    return syscall("pidfd_open", *of(pid, 0))


def steal_a_descriptor(pid: int) -> None:
    fd = pidfd_of(pid)
    for wanted in range(64):
        try:
            got = syscall("pidfd_getfd", *of(fd, wanted, 0))
        except OSError as error:
            if error.errno == errno.EBADF:
                continue
            raise
        os.close(got)
        return
    raise OSError(errno.EBADF, "the meter has no descriptors at all")


def open_descriptor_of(pid: int, flags: int) -> None:
    names = os.listdir(f"/proc/{pid}/fd")
    for name in names:
        if int(name) > 2:
            os.close(os.open(f"/proc/{pid}/fd/{name}", flags))
            return
    raise OSError(errno.EBADF, "no descriptor above 2")


def inherited_descriptors() -> None:
    """Those of ours would be as good as the store."""
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if STORE in link or "perf_event" in link or "/cgroup" in link or link.endswith(".jsonl"):
            return
    raise OSError(errno.EBADF, "none")


def connect(kind: int, address: str | bytes) -> None:
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.connect(address)


def connect_tcp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        try:
            one.connect(("127.0.0.1", 9))  # nobody listens: reached, and refused by nobody
        except ConnectionRefusedError:
            return


def send_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", 9))


def write_to(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def open_and_close(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def lock(path: str) -> None:
    """Held until the program ends."""
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def own_cgroups() -> list[str]:
    """Its own directories, v2 first."""
    found: list[str] = []
    paths = dict(line.rstrip().split(":", 2)[1:] for line in open("/proc/self/cgroup"))  # noqa: SIM115
    for line in open("/proc/self/mountinfo"):  # noqa: SIM115
        left, _, right = line.partition(" - ")
        kind, point = right.split()[0], left.split()[4]
        if kind == "cgroup2":
            found.insert(0, point + paths.get("", "/").rstrip("/"))
        elif kind == "cgroup" and "memory" in paths and "memory" in right:
            found.append(point + paths["memory"].rstrip("/"))
    if not found:
        raise OSError(errno.ENOENT, "no cgroup")
    return found


def leave_the_cgroup() -> None:
    """Into the cgroup above: what is used there is not the call's any more."""
    write_to(os.path.dirname(own_cgroups()[0]) + "/cgroup.procs", b"0")


def be_born_elsewhere() -> None:
    """A child born in a cgroup above or beside by clone3, which asks for no open file that Landlock would see."""
    above = os.path.dirname(own_cgroups()[0])
    places = [above, *[os.path.join(above, name) for name in sorted(os.listdir(above))]]
    places = [place for place in places if os.path.isdir(place) and place != own_cgroups()[0]]
    for place in places:
        try:
            be_born_in(place)
        except OSError as error:
            if place == places[-1] or error.errno != errno.EBUSY:  # one that hands controllers down takes no process
                raise
        else:
            return


def be_born_in(place: str) -> None:
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        arguments = CloneArguments(flags=0x200000000, exit_signal=signal.SIGCHLD, cgroup=fd)
        pid = syscall("clone3", ctypes.byref(arguments), *of(ctypes.sizeof(arguments)))
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    finally:
        os.close(fd)


def send_by_pidfd(pid: int) -> None:
    syscall("pidfd_send_signal", *of(pidfd_of(pid), int(signal.SIGURG), 0, 0))


def signal_by_io(pid: int) -> None:
    """SIGIO, sent by the host's kernel in our name."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(read_end, fcntl.F_SETOWN, pid)
    fcntl.fcntl(read_end, fcntl.F_SETFL, fcntl.fcntl(read_end, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    os.write(write_end, b"x")


def lower_a_limit_of(pid: int) -> None:
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft - 1, hard))


def harmless_signal(pid: int) -> None:
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    os.kill(pid, signal.SIGURG)


ATTEMPTS: dict[str, Callable[[], object]] = {
    "inherit a descriptor of ours": inherited_descriptors,  # first: others below open some
    # The store: what would change a record.
    "append to a record": lambda: open_and_close(VICTIM, os.O_WRONLY | os.O_APPEND),
    "overwrite a record": lambda: open_and_close(VICTIM, os.O_RDWR),
    "open and empty a record": lambda: open_and_close(VICTIM, os.O_WRONLY | os.O_TRUNC),
    "remove a record": lambda: os.unlink(VICTIM),
    "rename a record": lambda: os.rename(VICTIM, VICTIM + "x"),
    "put another file in a record's place": lambda: os.rename(".lake/planted", VICTIM),
    "take a record out of the store": lambda: os.rename(VICTIM, ".lake/taken"),
    "link a record into the sandbox": lambda: os.link(VICTIM, ".lake/link"),
    "make a file in the store": lambda: open_and_close(VICTIM + "y", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "make a link in the store": lambda: os.symlink("/etc/passwd", VICTIM + "z"),
    "make a session": lambda: os.mkdir(STORE + "/sessions/0123456789abcdef"),
    "make marks": lambda: os.mkdir(STORE + "/planted"),
    "make a pipe in the store": lambda: os.mkfifo(VICTIM + "p"),
    "move the store": lambda: os.rename(STORE, STORE + "2"),
    "empty a record by its path": lambda: os.truncate(EMPTIED, 0),
    # The store: what only reads it or holds it up.
    "read a record": lambda: open_and_close(VICTIM, os.O_RDONLY),
    "lock a record": lambda: lock(VICTIM),
    "lock the store": lambda: lock(STORE),
    "change a record's mode": lambda: os.chmod(VICTIM, 0o640),
    "change a record's times": lambda: os.utime(VICTIM, (1, 1)),
    "give a record away": lambda: os.chown(VICTIM, 12345, -1),
    "change the store's mode": lambda: os.chmod(STORE, 0o755),
    # Sockets.
    "connect to a socket by its path": lambda: connect(socket.SOCK_STREAM, SOCKET),
    "connect to an abstract socket": lambda: connect(socket.SOCK_STREAM, b"\0" + ABSTRACT.encode()),
    "connect by TCP": connect_tcp,
    "send by UDP": send_udp,
    # Cgroups and mounts.
    "write into its own cgroup": lambda: write_to(own_cgroups()[0] + "/cgroup.procs", b"0"),
    "leave its cgroup": leave_the_cgroup,
    "make a cgroup": lambda: os.mkdir(own_cgroups()[0] + "/planted"),
    "remove its cgroup": lambda: os.rmdir(own_cgroups()[0]),
    "have a child born in another cgroup": be_born_elsewhere,
    "mount over the store": lambda: syscall("mount", b"none", STORE.encode(), b"tmpfs", *of(0), b""),
    "change the host's settings": lambda: write_to("/proc/sys/kernel/perf_event_paranoid", b"4"),
}  # fmt: skip


def against(name: str, pid: int) -> dict[str, Callable[[], object]]:
    """What may be tried against a process of ours."""
    return {
        # Its memory, its descriptors, its files.
        f"attach to {name}": lambda: syscall("ptrace", *of(16, pid, 0, 0)),
        f"seize {name}": lambda: syscall("ptrace", *of(0x4206, pid, 0, 0)),
        f"read {name}'s memory": lambda: read_memory("process_vm_readv", pid),
        f"write {name}'s memory": lambda: read_memory("process_vm_writev", pid),
        f"open {name}'s memory": lambda: open_and_close(f"/proc/{pid}/mem", os.O_RDWR),
        f"take a descriptor of {name}": lambda: steal_a_descriptor(pid),
        f"open a descriptor of {name} to write": lambda: open_descriptor_of(pid, os.O_WRONLY),
        f"open a descriptor of {name} to read": lambda: open_descriptor_of(pid, os.O_RDONLY),
        f"look through {name}'s root": lambda: os.listdir(f"/proc/{pid}/root"),
        f"count what {name} does": lambda: perf_of(pid),
        f"compare with {name}": lambda: syscall("kcmp", *of(os.getpid(), pid, 0, 0, 0)),
        f"read {name}'s arguments": lambda: open_and_close(f"/proc/{pid}/cmdline", os.O_RDONLY),
        f"write {name}'s OOM score": lambda: write_to(f"/proc/{pid}/oom_score_adj", b"1000"),
        f"write {name}'s name": lambda: write_to(f"/proc/{pid}/comm", b"x"),
        # Signals.
        f"ask whether {name} is there": lambda: os.kill(pid, 0),
        f"send {name} a signal": lambda: harmless_signal(pid),
        f"send a thread of {name} a signal": lambda: syscall("tgkill", *of(pid, pid, int(signal.SIGURG))),
        f"send {name} one by a pidfd": lambda: send_by_pidfd(pid),
        f"have input and output signal {name}": lambda: signal_by_io(pid),
        # What the host's kernel asks no Landlock about.
        f"limit {name}": lambda: lower_a_limit_of(pid),
        f"renice {name}": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        f"pin {name}": lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}),
        f"make {name} idle": lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
        f"starve {name}'s disk": lambda: syscall("ioprio_set", *of(1, pid, 3 << 13)),
    }  # fmt: skip


def main() -> None:
    targets = {"the meter": os.getppid()}
    for word in sys.argv[6:]:
        name, _, pid = word.partition("=")
        targets[name] = int(pid)
    every = dict(ATTEMPTS)
    for name, number in targets.items():
        every.update(against(name, number))
    for name, attempt in every.items():
        try:
            attempt()
        except OSError as error:
            print(f"{name}: {errno.errorcode.get(error.errno or 0, error)}")
        else:
            print(f"{name}: done")
    sys.stdout.flush()
    os._exit(3)


if __name__ == "__main__":
    main()
