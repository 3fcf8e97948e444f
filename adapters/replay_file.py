"""The file that holds LeanEval's view (replay_metrics.py): looked at before a call starts, brought up to date after it.

Everything that can be wrong with it is found before the command starts, and room for the next state is taken then, so
that afterwards a full disk cannot lose the call. Every state appears by rename: whole or not at all, also when the
meter is killed while it writes. Two meters at once take turns by flock on the folder. What may read the folder may hold
that lock (a sandbox with `--ro /`), so nobody waits for it for longer than LOCK_WAIT_NS; then the state is only looked
at again before it is replaced.

A call that could not be kept must not leave a view that looks whole: its consumer would judge by the calls that are
left. Then the view is put aside as `….lost`, and no later call starts until somebody has looked. The same where an
unconfined command took the file away, or its folder, and with it what was kept: the mark then stands where the next
call will look.
"""

import errno
import fcntl
import os
import stat
import time

from proofcost.adapters import replay_metrics
from proofcost.adapters.replay_metrics import FormatError, View
from proofcost.harness import libc, procfs, store
from proofcost.harness.policy import MeterError

LOST = ".lost"
LOCK_WAIT_NS = 2_000_000_000
_LOCK_STEP_S = 0.001
_TRIES = 20
_TEMPORARY = ".tmp"


class ViewFile:
    """One call's hold on the file: `look` before the command, then `save` or `give_up`; or `abandon` when none ran."""

    __slots__ = ("_calls_seen", "_directory", "_fd", "_name", "_temporary", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._name = os.path.basename(path)
        self._temporary = ""
        self._calls_seen = 0
        self._directory = -1
        self._fd = -1

    def look(self, writable: list[str], unrestricted: bool) -> list[str]:
        """Whether the next call can be kept; takes the room for it. Returns what was put right.

        `writable` is what the command may write to. Raises MeterError, OSError.
        """
        folder = os.path.dirname(self.path)
        real = os.path.realpath(folder)
        if real != os.path.normpath(folder):
            raise MeterError(f"{folder}: it or a folder above it is a symbolic link (to {real})")
        for granted in ("/dev", *map(os.path.realpath, writable)):
            if unrestricted or store.is_inside(real, granted) or store.is_inside(granted, real):
                raise MeterError(
                    f"{folder}: the sandbox lets the command write there ({granted}), so it could forge it"
                )
        mended = self._open_folder(folder)
        if self._exists(self._name + LOST):
            raise MeterError(
                f"{self.path}{LOST}: an earlier call could not be kept; read it, then remove it to start anew"
            )
        view, mode = self._read()
        self._calls_seen = view.calls_count
        if mode is not None and mode != 0o600:
            mended.append(f"{self.path}: mode was {mode:04o}, set to 0600")
        if not view.has_room():
            raise MeterError(
                f"{self.path}: another call would make it larger than {replay_metrics.MAX_BYTES} bytes, which is all "
                "that its reader takes"
            )
        self._remove_leavings()
        try:
            self._prepare()
            libc.reserve(self._fd, replay_metrics.MAX_BYTES)
        except OSError as error:
            if self._fd < 0 or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                why = os.strerror(error.errno or 0)
                raise MeterError(f"{folder}: no room for {self._name}: {why}") from None
        return mended

    def _prepare(self) -> None:
        """The file that is to become the next state."""
        name = f"{self._name}.{os.getpid()}-{os.urandom(4).hex()}{_TEMPORARY}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(name, flags, 0o600, dir_fd=self._directory)
        self._temporary = name

    def _open_folder(self, folder: str) -> list[str]:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise MeterError(f"{folder}: cannot be made: {error.strerror}") from None
        try:
            self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise MeterError(f"{folder}: not a folder that can be opened: {error.strerror}") from None
        info = os.fstat(self._directory)
        mode = stat.S_IMODE(info.st_mode)
        if info.st_uid != os.geteuid():
            raise MeterError(f"{folder}: belongs to user {info.st_uid}, the meter runs as {os.geteuid()}")
        if mode & 0o777 == 0o700:
            return []
        os.fchmod(self._directory, 0o700)
        return [f"{folder}: mode was {mode:04o}, set to 0700"]

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> tuple[View, int | None]:
        """The view as it stands and the mode that its file had; an empty one where there is none. Raises MeterError."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(self._name, flags, dir_fd=self._directory)
        except FileNotFoundError:
            return View(), None
        except OSError as error:
            why = "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
            raise MeterError(f"{self.path}: {why}") from None
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
                raise MeterError(f"{self.path}: not a file of ours")
            if stat.S_IMODE(info.st_mode) != 0o600:
                os.fchmod(fd, 0o600)
            raw = b""
            while len(raw) <= replay_metrics.MAX_BYTES and (part := os.read(fd, replay_metrics.MAX_BYTES + 1)):
                raw += part
        finally:
            os.close(fd)
        try:
            return replay_metrics.loads(raw), stat.S_IMODE(info.st_mode)
        except FormatError as error:
            raise MeterError(f"{self.path}: {error}; move it away") from None

    def _remove_leavings(self) -> None:
        """What a meter that was killed had prepared."""
        for name in os.listdir(self._directory):
            if name.startswith(self._name + ".") and name.endswith(_TEMPORARY):
                pid = name[len(self._name) + 1 :].partition("-")[0]
                if pid.isdigit() and procfs.parent_and_start(int(pid)) is None:
                    try:
                        os.unlink(name, dir_fd=self._directory)
                    except FileNotFoundError:
                        continue

    def save(
        self, phase: str, wall_ns: int, instructions: int | None, reason: str | None, ended: tuple[str, int]
    ) -> str | None:
        """Add one call to the view. Returns what a reader of the record should know, else None.

        Raises MeterError or OSError when the call could not be kept; the view is then as it was.
        """
        locked = self._lock()
        for _ in range(_TRIES):
            before = self._identity()
            view, _ = self._read()
            self._hold_to_what_was_seen(view)
            view.phases[phase].add(wall_ns, instructions, reason, ended)
            content = view.dumps()
            if len(content) > replay_metrics.MAX_BYTES:
                raise MeterError(f"{self.path}: with this call it would be larger than its reader takes")
            self._write(content)
            if locked or self._identity() == before:
                self._replace(content)
                self._close()
                return None if locked else f"{self.path}: somebody held its folder's lock; saved without it"
        raise MeterError(f"{self.path}: others never stopped changing it")

    def _hold_to_what_was_seen(self, view: View) -> None:
        """Meters only add to the view. Raises MeterError when it, or a part of it, is gone since the call started."""
        if not self._is_in_place():
            raise MeterError(f"{os.path.dirname(self.path)}: was removed or replaced while the command ran")
        if self._exists(self._name + LOST):
            raise MeterError(f"{self.path}{LOST}: another call could not be kept meanwhile")
        if view.calls_count < self._calls_seen:
            raise MeterError(f"{self.path}: held {self._calls_seen} calls, and holds {view.calls_count} now")

    def _is_in_place(self) -> bool:
        """Whether the next call will find the folder that we hold open."""
        try:
            there = os.stat(os.path.dirname(self.path), follow_symlinks=False)
        except OSError:
            return False
        ours = os.fstat(self._directory)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _lock(self) -> bool:
        deadline = time.monotonic_ns() + LOCK_WAIT_NS
        while True:
            try:
                fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic_ns() >= deadline:
                    return False
                time.sleep(_LOCK_STEP_S)

    def _identity(self) -> tuple[int, int] | None:
        try:
            info = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return info.st_ino, info.st_mtime_ns

    def _replace(self, content: bytes) -> None:
        try:
            os.rename(self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except FileNotFoundError:  # somebody tidied up, a meter that cannot see our process, say
            os.close(self._fd)
            self._prepare()
            self._write(content)
            os.rename(self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._temporary = ""

    def _write(self, content: bytes) -> None:
        os.lseek(self._fd, 0, os.SEEK_SET)
        rest = content
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        os.ftruncate(self._fd, len(content))
        os.fdatasync(self._fd)

    def give_up(self) -> None:
        """The call could not be kept: leave no view that looks as if it were all. Raises OSError."""
        try:
            if self._directory >= 0 and not self._is_in_place():
                self._find_folder_again()
            try:
                os.rename(self._name, self._name + LOST, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            except FileNotFoundError:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(self._name + LOST, flags, 0o600, dir_fd=self._directory))
        finally:
            self.abandon()

    def _find_folder_again(self) -> None:
        """Hold the folder that the next call will find, made anew where there is none. Raises OSError, MeterError."""
        gone, self._directory = self._directory, -1
        try:
            if self._temporary:
                os.unlink(self._temporary, dir_fd=gone)
        except FileNotFoundError:
            pass
        finally:
            self._temporary = ""
            os.close(gone)
        self._open_folder(os.path.dirname(self.path))

    def abandon(self) -> None:
        """Nothing is to be kept: take back what was prepared. Raises OSError."""
        temporary, self._temporary = self._temporary, ""
        try:
            if temporary:
                os.unlink(temporary, dir_fd=self._directory)
        except FileNotFoundError:
            pass
        finally:
            self._close()

    def _close(self) -> None:
        for fd in (self._fd, self._directory):
            if fd >= 0:
                os.close(fd)
        self._fd = self._directory = -1
