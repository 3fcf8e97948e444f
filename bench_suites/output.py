"""What a kernel prints: taken off its hands so that it never waits, counted, and its beginning and end kept."""

from __future__ import annotations

import os

KEPT_BYTES = 4096
"""Of the beginning, and of the end again."""
READ_BYTES = 1 << 20


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

    def last_line(self) -> str:
        """The last line that says anything, for people; raw bytes escaped by whoever shows it."""
        lines = (self.tail or self.head).decode("utf-8", "surrogateescape").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
