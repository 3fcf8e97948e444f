"""Perf task events and exec stamps.

Both are opened on ourselves, disabled and inheritable, before the child is made: our own copy never counts (we never
exec), the child's inherited copy starts at its exec, and reading our descriptor gives the sum of the child and all its
descendants. So no handshake with the child is needed, and nothing of our own start-up is in a count.

Exec stamps: a dummy event per CPU whose ring buffer receives one record per exec in the tree, stamped by the kernel
with CLOCK_MONOTONIC and flagged as an exec (a rename by prctl carries no such flag). It must be inherited and so must
be per CPU: a sandbox written in Go execs from another thread. The kernel writes forks and exits into the same ring,
asked or not. A full ring drops the newest records; we need the first ones. Since Linux 6.0 the kernel tells how many it
dropped (of all kinds); before that a ring without room for one more may have lost any number, which is said as one.
"""

import errno
import os
import resource
import stat

from proofcost.harness import libc, procfs
from proofcost.harness.record import MEASURED, UNAVAILABLE, Json, measurement, unavailable

_TYPE_HARDWARE = 0
_TYPE_SOFTWARE = 1
_HW_CYCLES = 0
_HW_INSTRUCTIONS = 1
_SW_TASK_CLOCK = 1
_SW_PAGE_FAULTS = 2
_SW_CONTEXT_SWITCHES = 3
_SW_CPU_MIGRATIONS = 4
_SW_PAGE_FAULTS_MAJOR = 6
_SW_DUMMY = 9

# perf_event_attr's flag bits, include/uapi/linux/perf_event.h
_DISABLED = 1 << 0
_INHERIT = 1 << 1
_EXCLUDE_KERNEL = 1 << 5
_EXCLUDE_HV = 1 << 6
_COMM = 1 << 9
_ENABLE_ON_EXEC = 1 << 12
_SAMPLE_ID_ALL = 1 << 18
_COMM_EXEC = 1 << 24
_USE_CLOCKID = 1 << 25

_SAMPLE_TID = 1 << 1
_SAMPLE_TIME = 1 << 2
_READ_ENABLED = 1 << 0
_READ_RUNNING = 1 << 1
_READ_LOST = 1 << 4  # Linux 6.0
_FLAG_CLOEXEC = 1 << 3
_CLOCK_MONOTONIC = 1

_ATTR_SIZE = 112
_RECORD_LOST = 2
_RECORD_COMM = 3
_RECORD_EXIT = 4
_MISC_COMM_EXEC = 1 << 13
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DATA_HEAD_OFFSET = 1024
# The largest record there: header, pid and tid, a name of at most 16 bytes, pid, tid and time.
_STAMP_BYTES_MAX = 8 + 8 + 16 + 16

# The kernel drops a task's events while the task executes a set-user-id program, or one that its user may not read, and
# says so by the record of an exit: 4 us after the exec's (1 in 200 later than 40). The quickest program that is linked
# dynamically takes 380 us to its own exit.
SHED_WITHIN_NS = 50_000

# More CPUs than this would cost more descriptors than an exec stamp is worth.
STAMP_CPUS_MAX = 512
# Descriptors that must stay free: for the stamps, more than for the counters, which matter more.
_DESCRIPTORS_KEPT = 16
_DESCRIPTORS_KEPT_BY_COUNTERS = 6  # the pipe to the child, and a file or two of /proc at a time

REASON_NOT_SUPPORTED = "counter_not_supported"
REASON_PERMISSION = "counter_permission_denied"
REASON_NOT_REPORTED = "counter_not_reported"
REASON_MULTIPLEXED = "counter_multiplexed"
REASON_NEVER_RAN = "counter_never_ran"
REASON_USER_ONLY = "counter_reads_zero_when_user_only"
REASON_DESCRIPTORS = "counter_not_reported: no descriptor to spare"

# name, type, config, unit, user mode only by intent, whether a user-only count means anything
_EVENTS = (
    ("instructions:u", _TYPE_HARDWARE, _HW_INSTRUCTIONS, "count", True, True),
    ("cycles:u", _TYPE_HARDWARE, _HW_CYCLES, "count", True, True),
    ("task_clock", _TYPE_SOFTWARE, _SW_TASK_CLOCK, "ns", False, True),
    ("page_faults", _TYPE_SOFTWARE, _SW_PAGE_FAULTS, "count", False, True),
    ("page_faults_major", _TYPE_SOFTWARE, _SW_PAGE_FAULTS_MAJOR, "count", False, True),
    ("context_switches", _TYPE_SOFTWARE, _SW_CONTEXT_SWITCHES, "count", False, False),
    ("cpu_migrations", _TYPE_SOFTWARE, _SW_CPU_MIGRATIONS, "count", False, False),
)
METHOD = "perf task event, inherited, from exec to exit"


def _attr(kind: int, config: int, flags: int, sample_type: int, read_format: int, clock: int) -> bytes:
    head = kind.to_bytes(4, "little") + _ATTR_SIZE.to_bytes(4, "little")
    head += b"".join(n.to_bytes(8, "little") for n in (config, 0, sample_type, read_format, flags))
    # wakeup_events, bp_type, config1, config2, branch_sample_type, sample_regs_user, sample_stack_user, clockid
    head += bytes(4 + 4 + 8 + 8 + 8 + 8 + 4) + clock.to_bytes(4, "little")
    return head + bytes(_ATTR_SIZE - len(head))


def reason_of(error: OSError) -> str:
    """Why a counter could not be opened, in the words that judges' own metrics use (contract of replay-measure)."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return REASON_PERMISSION
    if error.errno in (errno.E2BIG, errno.EINVAL, errno.ENOENT, errno.ENOSYS, errno.EOPNOTSUPP):
        return REASON_NOT_SUPPORTED
    return REASON_NOT_REPORTED + ": " + errno.errorcode.get(error.errno or 0, str(error.errno))


def _open_counter(kind: int, config: int, user_only: bool) -> int:
    flags = _DISABLED | _INHERIT | _ENABLE_ON_EXEC | _EXCLUDE_HV | (_EXCLUDE_KERNEL if user_only else 0)
    return libc.perf_event_open(_attr(kind, config, flags, 0, _READ_ENABLED | _READ_RUNNING, 0), 0, -1, _FLAG_CLOEXEC)


class Counters:
    """The task events of one invocation. `open` before the child is made, `read` after its exit."""

    __slots__ = ("_fds", "_reasons", "_user_only")

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._user_only: set[str] = set()

    def open(self) -> None:
        """Open what this host allows; what it does not is unavailable with its reason."""
        self._open_events()
        # Numbers are given from the lowest on: a high one tells that few are left, and the command comes first.
        room = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        for name, fd in list(self._fds.items()):
            if 0 <= room < fd + _DESCRIPTORS_KEPT_BY_COUNTERS:
                os.close(self._fds.pop(name))
                self._reasons[name] = REASON_DESCRIPTORS

    def _open_events(self) -> None:
        for name, kind, config, _unit, user_only, means_something in _EVENTS:
            try:
                self._fds[name] = _open_counter(kind, config, user_only)
                continue
            except OSError as error:
                self._reasons[name] = reason_of(error)
            if user_only or self._reasons[name] != REASON_PERMISSION:
                continue
            # perf_event_paranoid 2 and higher: only the user side may be counted.
            if not means_something:
                self._reasons[name] = REASON_USER_ONLY
                continue
            try:
                self._fds[name] = _open_counter(kind, config, True)
                self._user_only.add(name)
            except OSError as error:
                self._reasons[name] = reason_of(error)

    def skip(self, reason: str) -> None:
        """Count nothing, and say why."""
        for name, *_ in _EVENTS:
            self._reasons[name] = reason

    def read(self) -> dict[str, Json]:
        """{name: measurement}. A counter that was multiplexed or never ran is not a value."""
        figures: dict[str, Json] = {}
        for name, _kind, _config, unit, *_ in _EVENTS:
            fd = self._fds.get(name)
            if fd is None:
                figures[name] = unavailable(unit, METHOD, self._reasons.get(name, REASON_NOT_REPORTED))
                continue
            try:
                raw = os.read(fd, 24)
            except OSError as error:
                figures[name] = unavailable(unit, METHOD, reason_of(error))
                continue
            figures[name] = figure_of(raw, unit, METHOD + (" (opened user-only)" if name in self._user_only else ""))
        return figures

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


def figure_of(raw: bytes, unit: str, method: str) -> dict[str, Json]:
    """Measurement from what read(2) on a counter gave: value, time enabled, time running (ns, 8 bytes each)."""
    if len(raw) != 24:
        return unavailable(unit, method, REASON_NOT_REPORTED)
    value, enabled, running = (int.from_bytes(raw[i : i + 8], "little") for i in (0, 8, 16))
    figure = measurement(value, unit, method, MEASURED)
    if running == 0:
        figure = unavailable(unit, method, REASON_NEVER_RAN)
    elif running < enabled:
        figure = measurement(None, unit, method, UNAVAILABLE, REASON_MULTIPLEXED)
    figure["enabled_ns"] = enabled
    figure["running_ns"] = running
    return figure


class ExecStamp:
    """One exec in the tree: kernel time (CLOCK_MONOTONIC, ns), process, the first 15 bytes of the program's name.

    `shed`: no event followed the process any further (it may be a program that ended in less than SHED_WITHIN_NS).
    """

    __slots__ = ("name", "pid", "shed", "time_ns")

    def __init__(self, time_ns: int, pid: int, name: bytes) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.name = name
        self.shed = False


def mark_shed(stamps: list[ExecStamp], exits: dict[int, int]) -> None:
    """Mark each process's last stamp that its exit record ({pid: ns}) follows at once."""
    for stamp in stamps:
        stamp.shed = 0 <= exits.get(stamp.pid, 0) - stamp.time_ns < SHED_WITHIN_NS


def loses_counters(path: str, uid: int | None = None, gid: int | None = None) -> bool:
    """Whether the kernel drops a task's events when it executes this file: as that user and group (ours by default) it
    becomes another one by it, or we may not read it."""
    try:
        info = os.stat(path)
        if not os.access(path, os.R_OK):
            return True
        is_set_group = info.st_mode & stat.S_ISGID and info.st_mode & stat.S_IXGRP
        becomes_other = (info.st_mode & stat.S_ISUID and info.st_uid != (os.getuid() if uid is None else uid)) or (
            is_set_group and info.st_gid != (os.getgid() if gid is None else gid)
        )
        # Where the bits mean nothing the exec is an ordinary one.
        if not becomes_other or os.statvfs(path).f_flag & os.ST_NOSUID:
            return False
    except OSError:
        return False
    return procfs.status_field("self", b"NoNewPrivs") != b"1"


def parse_ring(data: bytes, exits: dict[int, int] | None = None) -> tuple[list[ExecStamp], int]:
    """Exec stamps in one ring's bytes, and how many records the kernel says were lost.

    When a process's first thread ended is added to `exits`, {pid: ns}.
    """
    stamps: list[ExecStamp] = []
    lost = 0
    at = 0
    while at + 8 <= len(data):
        kind = int.from_bytes(data[at : at + 4], "little")
        misc = int.from_bytes(data[at + 4 : at + 6], "little")
        size = int.from_bytes(data[at + 6 : at + 8], "little")
        if size < 8 or at + size > len(data):
            break
        body = data[at + 8 : at + size]
        if kind == _RECORD_EXIT and len(body) >= 24 and exits is not None and body[0:4] == body[8:12]:
            # pid, parent, tid, parent's tid, time
            exits[int.from_bytes(body[0:4], "little")] = int.from_bytes(body[16:24], "little")
        elif kind == _RECORD_COMM and misc & _MISC_COMM_EXEC and len(body) >= 24:
            # pid, tid, name, padding, then the sample id: pid, tid, time
            pid = int.from_bytes(body[0:4], "little")
            time_ns = int.from_bytes(body[-8:], "little")
            stamps.append(ExecStamp(time_ns, pid, body[8:-16].split(b"\0", 1)[0]))
        elif kind == _RECORD_LOST and len(body) >= 16:
            lost += int.from_bytes(body[8:16], "little")
        at += size
    return stamps, lost


def _online_cpus() -> list[int]:
    try:
        fd = os.open("/sys/devices/system/cpu/online", os.O_RDONLY | os.O_CLOEXEC)
        text = os.read(fd, 4096).decode("ascii").strip()
        os.close(fd)
    except OSError:
        return list(range(os.cpu_count() or 1))
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


class ExecStamps:
    """Kernel time of every exec in the tree. `open` before the child is made, `read` after its exit."""

    __slots__ = ("_counts_lost", "_fds", "_maps", "reason")

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._maps: list[int] = []  # addresses
        self._counts_lost = True
        self.reason: str | None = "not opened"

    def open(self) -> None:
        """Open one ring per CPU; on any refusal close all and keep the reason."""
        cpus = _online_cpus()
        room = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if len(cpus) > STAMP_CPUS_MAX or (room >= 0 and len(cpus) * 2 + _DESCRIPTORS_KEPT > room):
            self.reason = f"{len(cpus)} CPUs need more descriptors than the limit of {room} leaves"
            return
        flags = _INHERIT | _COMM | _COMM_EXEC | _SAMPLE_ID_ALL | _USE_CLOCKID | _EXCLUDE_KERNEL | _EXCLUDE_HV
        try:
            for cpu in cpus:
                try:
                    fd = self._open_ring(cpu, flags)
                except OSError as error:
                    if error.errno == errno.ENODEV:  # a CPU that went offline meanwhile
                        continue
                    raise
                self._fds.append(fd)
                self._maps.append(libc.map_shared(fd, 2 * _PAGE))
        except OSError as error:
            self.close()
            self.reason = reason_of(error)
            return
        self.reason = None

    def _open_ring(self, cpu: int, flags: int) -> int:
        if self._counts_lost:
            try:
                return libc.perf_event_open(self._attr(flags, _READ_LOST), 0, cpu, _FLAG_CLOEXEC)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._counts_lost = False
        return libc.perf_event_open(self._attr(flags, 0), 0, cpu, _FLAG_CLOEXEC)

    @staticmethod
    def _attr(flags: int, read_format: int) -> bytes:
        return _attr(_TYPE_SOFTWARE, _SW_DUMMY, flags, _SAMPLE_TID | _SAMPLE_TIME, read_format, _CLOCK_MONOTONIC)

    def rings(self) -> list[bytes]:
        """What the kernel wrote, CPU by CPU: execs, forks and exits of the tree, the oldest first."""
        heads = [int.from_bytes(libc.read_memory(ring + _DATA_HEAD_OFFSET, 8), "little") for ring in self._maps]
        return [libc.read_memory(ring + _PAGE, min(head, _PAGE)) for ring, head in zip(self._maps, heads, strict=True)]

    def read(self) -> tuple[list[ExecStamp], int]:
        """All stamps in order of time, and how many records (of execs, forks, exits) found no room."""
        stamps: list[ExecStamp] = []
        exits: dict[int, int] = {}
        lost = 0
        for fd, ring in zip(self._fds, self.rings(), strict=True):
            found, said = parse_ring(ring, exits)
            stamps.extend(found)
            if self._counts_lost:
                lost += int.from_bytes(os.read(fd, 16)[8:], "little")
            else:
                # A full ring has no room for the record that would say what was lost.
                lost += said or int(_PAGE - 1 - len(ring) < _STAMP_BYTES_MAX)
        stamps.sort(key=lambda stamp: stamp.time_ns)
        mark_shed(stamps, exits)
        return stamps, lost

    def close(self) -> None:
        for ring in self._maps:
            libc.unmap(ring, 2 * _PAGE)
        self._maps.clear()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
