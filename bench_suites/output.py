"""What a kernel prints: taken off its hands so that it never waits, counted, and its beginning and end kept."""

from __future__ import annotations

import os
import re

KEPT_BYTES = 4096
"""Of the beginning, and of the end again."""
READ_BYTES = 1 << 20

_ERROR = re.compile(r"(?:\S+: )*[\w.]*(?:error|fatal|exception)\b(?=[\s:\[(])", re.IGNORECASE)
_PANIC = re.compile(r"\bpanicked at\b")
_HINT = re.compile(r"^usage\b|^(?:options|commands|arguments):|--help\b|RUST_BACKTRACE|^for more information\b", re.I)


class Output:
    """The reading end of a pipe that a kernel writes to."""

    __slots__ = ("bytes_count", "fd", "head", "tail")

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.bytes_count = 0
        self.head = b""
        self.tail = b""

    def take(self) -> bool:
        """Take what there is; False when no more will come."""
        try:
            block = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return True
        if not block:
            return False
        self.bytes_count += len(block)
        missing = KEPT_BYTES - len(self.head)
        self.head += block[:missing]
        self.tail = (self.tail + block[missing:])[-KEPT_BYTES:]
        return True

    def drain(self) -> None:
        """Take what is still there, and no more: who outlives the kernel may hold the other end for ever."""
        for _ in range(64):
            before = self.bytes_count
            if not self.take() or self.bytes_count == before:
                return

    def close(self) -> None:
        os.close(self.fd)

    def reason(self) -> str:
        """The line that tells best why a command failed, for people; raw bytes escaped by whoever shows it.

        The last one that calls itself an error, or follows a panic's; else the last one that is no hint on usage.
        """
        kept = self.head + b"\n" + self.tail if self.tail else self.head
        lines = [line.strip() for line in kept.decode("utf-8", "surrogateescape").splitlines() if line.strip()]
        for at in reversed(range(len(lines))):
            if _PANIC.search(lines[at]):
                return lines[min(at + 1, len(lines) - 1)]
            if _ERROR.match(lines[at]):
                return lines[at]
        return next((line for line in reversed(lines) if not _HINT.search(line)), lines[-1] if lines else "")
