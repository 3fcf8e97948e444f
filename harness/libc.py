"""Calls that Python's `os` lacks, through bare `_ctypes` (the `ctypes` package costs 2 ms more at start-up).

Every function raises OSError with the errno of the failed call; `AVAILABLE` is False where Python was built without
_ctypes, and then each raises OSError(ENOSYS).
"""

import errno
import os

from proofcost.harness import arch

try:
    import _ctypes
except ImportError:  # a Python without libffi: no counters, no exec stamps, no PDEATHSIG; the record says so
    AVAILABLE = False
else:
    AVAILABLE = True

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FALLOC_FL_KEEP_SIZE = 1
CLONE_INTO_CGROUP = 0x200000000
SIGCHLD = 17
LANDLOCK_CREATE_RULESET_VERSION = 1
_IOPRIO_WHO_PROCESS = 1


if AVAILABLE:

    class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "l"

    class _Bytes(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "z"

    _HANDLE = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None: the program itself

    class _Function(_ctypes.CFuncPtr):
        # PYTHONAPI keeps the GIL during the call: clone3 returns in the child as well, and a thread state
        # that was given up there would never come back.
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO | _ctypes.FUNCFLAG_PYTHONAPI
        _restype_ = _Long

    class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "i"

    class _IntFunction(_ctypes.CFuncPtr):
        # An int's -1 read as a long is 4294967295, and the failure would not be seen.
        _flags_ = _Function._flags_
        _restype_ = _Int

    _syscall = _Function(_ctypes.dlsym(_HANDLE, "syscall"))
    _prctl = _IntFunction(_ctypes.dlsym(_HANDLE, "prctl"))
    _fallocate = _IntFunction(_ctypes.dlsym(_HANDLE, "fallocate"))
    _mmap = _Function(_ctypes.dlsym(_HANDLE, "mmap"))
    _munmap = _IntFunction(_ctypes.dlsym(_HANDLE, "munmap"))
    _tee = _Function(_ctypes.dlsym(_HANDLE, "tee"))
    _send = _Function(_ctypes.dlsym(_HANDLE, "send"))

    class _Object(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "O"

    class _ObjectFunction(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
        _restype_ = _Object

    class _Char(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "c"

    # What ctypes.string_at is, as long as Python has it; making an array type instead costs 50 us.
    _STRING_AT = getattr(_ctypes, "_string_at_addr", None)
    _string_at = None if _STRING_AT is None else _ObjectFunction(_STRING_AT)


def _check(result: int) -> int:
    if result == -1:
        code = _ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _need(which: int) -> int:
    number = arch.syscall_number(which)
    if not AVAILABLE or number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return number


def perf_event_open(attr: bytes, pid: int, cpu: int, flags: int) -> int:
    """perf_event_open(2). `attr` is the packed perf_event_attr. Returns a descriptor."""
    number = _need(arch.PERF_EVENT_OPEN)
    return _check(_syscall(_Long(number), _Bytes(attr), _Long(pid), _Long(cpu), _Long(-1), _Long(flags)))


def clone_into_cgroup(cgroup_fd: int) -> int:
    """fork, with the child born inside the cgroup v2 directory `cgroup_fd`. Returns 0 in the child, else its pid."""
    number = _need(arch.CLONE3)
    # struct clone_args, version 2 (88 bytes): flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
    # set_tid, set_tid_size, cgroup.
    fields = (CLONE_INTO_CGROUP, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, cgroup_fd)
    args = b"".join(field.to_bytes(8, "little") for field in fields)
    return _check(_syscall(_Long(number), _Bytes(args), _Long(len(args))))


def landlock_abi() -> int:
    """The Landlock ABI that the kernel offers (>= 1). Raises OSError(ENOSYS or EOPNOTSUPP) where there is none."""
    number = _need(arch.LANDLOCK_CREATE_RULESET)
    return _check(_syscall(_Long(number), _Bytes(None), _Long(0), _Long(LANDLOCK_CREATE_RULESET_VERSION)))


def io_priority() -> int:
    """Our own I/O priority, as ioprio_get(2) has it: class << 13 | level, 0 where none was set."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _check(_syscall(_Long(_need(arch.IOPRIO_GET)), _Long(_IOPRIO_WHO_PROCESS), _Long(0)))


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when its parent ends; survives exec."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _check(_prctl(_Long(PR_SET_PDEATHSIG), _Long(signal), _Long(0), _Long(0), _Long(0)))


def adopt_orphans() -> None:
    """Have descendants of this process whose parents end become its children, not init's. Lasts until exec."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _check(_prctl(_Long(PR_SET_CHILD_SUBREAPER), _Long(1), _Long(0), _Long(0), _Long(0)))


def reserve(fd: int, size: int) -> None:
    """Take `size` bytes of disk for the file without changing its length. Raises OSError where it is not supported."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _check(_fallocate(_Long(fd), _Long(FALLOC_FL_KEEP_SIZE), _Long(0), _Long(size)))


def tee(source: int, target: int, size: int) -> int:
    """Copy up to `size` bytes that wait in one pipe into another, leaving them where they are; 0 at the end."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _check(_tee(_Long(source), _Long(target), _Long(size), _Long(0)))


_MSG_DONTWAIT, _MSG_NOSIGNAL = 0x40, 0x4000


def send_at_once(fd: int, data: bytes) -> int:
    """Write to a socket what it takes without a wait; returns how much. Raises BlockingIOError when that is nothing."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _check(_send(_Long(fd), _Bytes(data), _Long(len(data)), _Long(_MSG_DONTWAIT | _MSG_NOSIGNAL)))


_PROT_READ, _PROT_WRITE, _MAP_SHARED = 1, 2, 1


def map_shared(fd: int, size: int) -> int:
    """Address of a shared mapping of a descriptor (the `mmap` module costs 0.3 ms to import)."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _check(
        _mmap(_Long(0), _Long(size), _Long(_PROT_READ | _PROT_WRITE), _Long(_MAP_SHARED), _Long(fd), _Long(0))
    )


def unmap(address: int, size: int) -> None:
    """Undo map_shared."""
    _check(_munmap(_Long(address), _Long(size)))


def read_memory(address: int, size: int) -> bytes:
    """Copy of `size` bytes of our own memory."""
    if not AVAILABLE:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _string_at is None:
        array = type("_Copy", (_ctypes.Array,), {"_type_": _Char, "_length_": size})
        return bytes(array.from_address(address))  # type: ignore[attr-defined]
    return bytes(_string_at(_Long(address), _Int(size)))
