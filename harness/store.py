"""The store on disk: is it a safe place, one file per invocation, room reserved, marks when the meter failed.

One file per invocation, made with O_EXCL and held open: no locks, nothing shared, so neither a parallel meter nor a
same-uid attacker who chmods or flocks a path can spoil what another one writes. An event is one write(2) of one line,
then fdatasync; that of `started` only once a run is long (meter.py): neither the command nor its clock waits for it.
"""

import errno
import os
import stat
import time

from proofcost.harness import libc, record
from proofcost.harness.record import Json

ROOM_BYTES = 65536
# Everything that stands in a store; a folder that holds anything else is not one.
NAMES = frozenset({"sessions", "hosts", "traces", "parquet", "marks", "digests"})
# A small file is written in less, or its writer is gone.
_LEFT_S = 60
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class StoreError(Exception):
    """The store cannot be used; the message is one line: what, where, how to mend."""


def default_place(env: dict[str, str], uid: int) -> str:
    """$PROOFCOST_STORE, else /var/lib/proofcost as root, else the user's state directory."""
    named = env.get("PROOFCOST_STORE")
    if named:
        return absolute(named)
    if uid == 0:
        return "/var/lib/proofcost"
    state = env.get("XDG_STATE_HOME") or ""
    if not state.startswith("/"):  # the XDG specification: a relative path is to be ignored
        state = os.path.join(env.get("HOME") or "/", ".local/state")
    return os.path.join(state, "proofcost")


def absolute(path: str) -> str:
    """An absolute path whose folders' links are followed but whose last part is kept: a store that is a link is
    refused."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def is_inside(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it (both absolute, links resolved)."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def check_place(place: str, writable: list[str], unrestricted: bool = False) -> list[str]:
    """Whether records may be kept at `place` while a command may write to `writable`; returns what was put right.

    Raises StoreError. The directory itself may be absent (it is made later); its ancestors are checked all the same.
    """
    if not place.startswith("/"):
        raise StoreError(f"store {place}: not an absolute path; give one with --store")
    real = os.path.realpath(place)
    if real != os.path.normpath(place):
        raise StoreError(f"store {place}: it or a folder above it is a symbolic link (to {real}); name the real folder")
    if is_inside(real, "/dev"):
        raise StoreError(f"store {place}: below /dev, which sandboxes make writable; choose another folder")
    if unrestricted:
        raise StoreError(f"store {place}: the sandbox restricts no file system, so the command could write to it")
    for path in writable:
        granted = os.path.realpath(path)
        if is_inside(real, granted) or is_inside(granted, real):
            raise StoreError(f"store {place}: the sandbox lets the command write to {path}; choose another folder")
    mended: list[str] = []
    uid = os.geteuid()
    path = real
    while True:
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            info = None
        if info is not None:
            if path == real:
                mended += _check_own(path, info, uid)
                for name in NAMES:
                    mended += put_right(f"{path}/{name}")
            else:
                _check_above(place, path, info, uid)
        if path == "/":
            return mended
        path = os.path.dirname(path)


def _check_own(path: str, info: os.stat_result, uid: int) -> list[str]:
    if not stat.S_ISDIR(info.st_mode):
        raise StoreError(f"store {path}: not a folder; move it away or name another")
    if info.st_uid != uid:
        raise StoreError(
            f"store {path}: belongs to user {info.st_uid}, the meter runs as {uid}; chown it or name another"
        )
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o777 != 0o700:
        # Ours, with drifted modes (a same-uid process may chmod): put right, and said. Another folder is not ours to
        # change.
        if not is_store(path):
            raise StoreError(
                f"store {path}: not a store (mode {mode:04o}, holds other things); name an empty or new folder"
            )
        os.chmod(path, 0o700)
        return [f"store {path}: mode was {mode:04o}, set to 0700"]
    return []


def put_right(path: str) -> list[str]:
    """Give a folder of the store its mode back where it drifted (a confined process of the same user may chmod it);
    returns what was done.

    Raises StoreError for what is no folder of ours.
    """
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return []
    mode = stat.S_IMODE(info.st_mode)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise StoreError(f"store {path}: not a folder of ours; move it away")
    if mode & 0o777 == 0o700:
        return []
    os.chmod(path, 0o700)
    return [f"store {path}: mode was {mode:04o}, set to 0700"]


def is_store(path: str) -> bool:
    """Whether a folder holds nothing but what a store holds; one that cannot be listed any more was ours."""
    try:
        return set(os.listdir(path)) <= NAMES
    except PermissionError:
        return True


def _check_above(place: str, path: str, info: os.stat_result, uid: int) -> None:
    if info.st_uid not in (0, uid):
        raise StoreError(
            f"store {place}: {path} belongs to user {info.st_uid}, who could replace it; choose another folder"
        )
    if info.st_mode & _OTHERS_MAY_WRITE and not info.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(info.st_mode)
        raise StoreError(
            f"store {place}: {path} may be written by others (mode {mode:04o}); chmod go-w it or choose another"
        )


def check_above(path: str) -> None:
    """Whether nobody but root and us can replace what stands in the folder `path`. Raises StoreError, OSError."""
    real = os.path.realpath(path)
    above = real
    while True:
        _check_above(real, above, os.lstat(above), os.geteuid())
        if above == "/":
            return
        above = os.path.dirname(above)


def make_folder(path: str) -> None:
    """A folder only its owner may read, and so whatever is missing above it. Raises StoreError naming the folder."""
    missing = []
    while not os.path.isdir(path) and path != "/":
        missing.append(path)
        path = os.path.dirname(path)
    try:
        for path in reversed(missing):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:  # another meter was first
                continue
    except OSError as error:
        raise StoreError(f"store {path}: cannot be made: {os.strerror(error.errno or 0)}") from None


def room_for(started: dict[str, Json]) -> int:
    """How much disk an invocation's file may need, bytes: `started` is known, and `finished` takes less than the rest.

    A byte of argv or of a configuration can take five in a record (`\\\\xhh`), so no fixed room fits all.
    """
    return max(ROOM_BYTES, len(record.dumps(started)) + ROOM_BYTES // 2)


class Sink:
    """Where an invocation's events go: a file of its own (`OwnFile`), or a collector (door.py)."""

    def append(self, event: dict[str, Json]) -> None:
        """Keep one event, whatever becomes of this process. Raises OSError when it could not be kept."""
        raise NotImplementedError

    def sync(self) -> None:
        """Have what was kept survive a loss of power as well. Raises OSError."""
        raise NotImplementedError

    def trace_path(self) -> str | None:
        """Where the invocation's timeline may be written; None where it cannot be kept."""
        return None

    def close(self) -> None:
        """No more events will come."""
        raise NotImplementedError

    def discard(self) -> None:
        """Nothing was measured after all: the mark that is left tells of it, not half a record."""
        raise NotImplementedError


class OwnFile(Sink):
    """The invocation's own file in the session's folder."""

    __slots__ = ("_fd", "path", "reserved")

    def __init__(self, path: str, room: int = ROOM_BYTES) -> None:
        """Make the file and take its room. Raises StoreError (exists already, disk full, read-only, no permission)."""
        self.path = path
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(f"store {path}: cannot be made: {os.strerror(error.errno or 0)}") from None
        self.reserved = True
        try:
            libc.reserve(self._fd, room)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                os.close(self._fd)
                os.unlink(path)
                raise StoreError(f"store {path}: no room: {os.strerror(error.errno)}; free some space there") from None
            self.reserved = False  # a file system without fallocate

    def append(self, event: dict[str, Json]) -> None:
        line = record.dumps(event).encode("ascii") + b"\n"
        while line:
            line = line[os.write(self._fd, line) :]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def trace_path(self) -> str:
        folder, name = os.path.split(self.path)
        sessions, session = os.path.split(folder)
        return f"{os.path.dirname(sessions)}/traces/{session}/{name.removesuffix('.jsonl')}.ndjson.gz"

    def discard(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        os.unlink(self.path)

    def close(self) -> None:
        """Give back the room that was not needed."""
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size)
        except OSError:
            pass  # the room stays taken; the record is whole all the same
        os.close(self._fd)
        self._fd = -1


def write_new(path: str, content: dict[str, Json]) -> bool:
    """Write a whole small file that must not exist yet; False when somebody was first. Raises OSError otherwise.

    It appears complete or not at all: written without a name, so that nothing is left of it where we are killed, then
    linked. Where the file system knows no such file, or its /proc is not there, under a name of its own.
    """
    line = record.dumps(content).encode("ascii") + b"\n"
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(os.path.dirname(path), os.O_TMPFILE | flags, 0o600)
    except OSError:
        return _write_named(path, line, flags)
    try:
        _write_all(fd, line)
        try:
            # With a folder's descriptor it is linkat(2), which follows the link in /proc; link(2) does not.
            os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
        except FileExistsError:
            return False
        except OSError:
            return _write_named(path, line, flags)
        return True
    finally:
        os.close(fd)


def _write_all(fd: int, line: bytes) -> None:
    if os.write(fd, line) != len(line):  # a disk that became full takes a part
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fdatasync(fd)


def _write_named(path: str, line: bytes, flags: int) -> bool:
    # One name for all who write this file: what one that was killed has left is found by the next.
    temporary = f"{path}.tmp"
    try:
        fd = os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if time.time() - os.lstat(temporary).st_mtime < _LEFT_S:
            return False
        os.unlink(temporary)
        fd = os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write_all(fd, line)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        return True
    finally:
        os.close(fd)
        os.unlink(temporary)


def leave_mark(place: str | None, content: dict[str, Json]) -> str | None:
    """Leave a trace that the meter failed: in the store, else in the system log. Returns where, or None if nowhere."""
    if place is not None:
        try:
            folder = place + "/marks"
            os.makedirs(folder, mode=0o700, exist_ok=True)
            path = f"{folder}/{time.time_ns()}-{os.getpid()}.json"
            if write_new(path, content):
                return path
        except OSError:
            pass
    try:
        import _socket

        # <12>: facility user, severity warning (RFC 3164).
        line = b"<12>proofcost[%d]: " % os.getpid() + record.dumps(content).encode("ascii")[:1500]
        log = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        try:
            log.connect("/dev/log")
            log.send(line)
        finally:
            log.close()
    except (OSError, ImportError):
        return None
    return "/dev/log"
