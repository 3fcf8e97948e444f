"""A copy of the solution's export beside LeanEval's metrics, made as it passes (harness/relay.py).

The file is there for whoever runs the judge: made new or not at all, readable by its owner alone, at most MAX_BYTES.
What is not the whole export of a command that succeeded is removed again; a file that was there is not touched. Nothing
of this concerns the command or its stdout.
"""

import errno
import os

from proofcost.harness import record, relay
from proofcost.harness.record import Json

MAX_BYTES = 64 << 20


class FileTap(relay.Tap):
    """Writes what passes into a file, up to MAX_BYTES; beyond that, or when it cannot, it gives the room back."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._count = 0
        self._errno: int | None = None
        self._over = False

    def take(self, data: bytes) -> None:
        if not self._fits(len(data)):
            return
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self.fd, rest) :]
        except OSError as error:
            self._fail(error)
        else:
            self._count += len(data)

    def take_pipe(self, fd: int, count: int) -> None:
        if not self._fits(count):
            return
        rest = count
        try:
            while rest > 0:
                moved = os.splice(fd, self.fd, rest)
                self._count += moved
                rest -= moved
        except OSError as error:
            if error.errno == errno.EINVAL:  # a file system that takes no splice
                super().take_pipe(fd, rest)
            else:
                self._fail(error)

    def _fits(self, count: int) -> bool:
        if self.active and self._count + count > MAX_BYTES:
            self._over = True
            self._stop()
        return self.active

    def _fail(self, error: OSError) -> None:
        self._errno = error.errno
        self._stop()

    def _stop(self) -> None:
        self.active = False
        try:
            os.ftruncate(self.fd, 0)
        except OSError:
            pass  # the meter removes it in any case

    def report(self) -> dict[str, Json]:
        return {"captured_bytes": self._count, "errno": self._errno, "over_limit": self._over}


class Capture:
    """The meter's side: `open` before the command, `finish` after it."""

    __slots__ = ("_fd", "path", "reason")

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self.reason: str | None = None

    def open(self) -> FileTap | None:
        """The tap; None, with a reason, where no file can be made: that is no fault that could stop the command."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(self.path, flags, 0o600)
        except FileExistsError:
            self.reason = "it was there already, and was left alone"
        except OSError as error:
            self.reason = f"cannot be made: {error.strerror}"
        else:
            return FileTap(self._fd)
        return None

    def finish(self, report: dict[str, Json] | None, succeeded: bool) -> dict[str, Json]:
        """Keep the file or remove it; the record's `capture`. Raises OSError when it cannot be removed."""
        if self._fd < 0:
            return self._as_json(None)
        tap = {} if report is None else report["tap"]
        assert isinstance(tap, dict)
        count = tap.get("captured_bytes")
        self.reason = _why_not(report, tap, succeeded)
        if self.reason is not None:
            self.remove()
        self._close()
        return self._as_json(count if isinstance(count, int) and self.reason is None else None)

    def remove(self) -> None:
        """Take the file away, if it is the one that we made. Raises OSError."""
        if self._fd < 0:
            return
        try:
            there = os.lstat(self.path)
        except FileNotFoundError:
            return
        mine = os.fstat(self._fd)
        if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
            os.unlink(self.path)

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def _as_json(self, size: int | None) -> dict[str, Json]:
        return {
            "path": record.escape_text(self.path),
            "kept": size is not None,
            "size_bytes": size,
            "reason": None if self.reason is None else record.escape_text(self.reason),
        }


def _why_not(report: dict[str, Json] | None, tap: dict[str, Json], succeeded: bool) -> str | None:
    """Why what was captured is not the export; None when it is."""
    failed = tap.get("errno")
    if report is None:
        return "the process that passed the export on did not say how it ended"
    if report["state"] == relay.NO_READER:
        return "whom the export was for had stopped reading"
    if report["state"] == relay.OPEN:
        return "something outlived the command and could still have written to it"
    if report["state"] != relay.ENDED:
        return "passing the export on failed"
    if tap.get("over_limit"):
        return f"the export is larger than {MAX_BYTES} bytes"
    if isinstance(failed, int):
        return f"it could not be written: {os.strerror(failed)}"
    if not succeeded:
        return "the command failed, so what it printed is no whole export"
    if not tap.get("captured_bytes"):
        return "the command printed nothing"
    return None
