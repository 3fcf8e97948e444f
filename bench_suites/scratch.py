"""A bench's folder for the time that it runs: exports that were packed or generated, and what kernels leave behind.

It may hold gigabytes. Whoever is killed cannot take it away, so the next bench does: a folder that nobody holds a lock
on any more (a lock ends with its process, in whatever pid namespace that was) and that is not just being made.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PREFIX = "proofcost-scratch-"
YOUNG_S = 60
"""Between its making and its lock a folder looks abandoned: younger ones are let be."""


@contextmanager
def folder() -> Iterator[str]:
    """A new folder below the temporary one; gone at the end. Raises OSError where none can be made."""
    sweep()
    made = tempfile.mkdtemp(prefix=PREFIX)
    held = _lock(made)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if held is not None:
            os.close(held)


def sweep() -> None:
    """Take away what benches of this user that were killed have left."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and _is_old_and_ours(entry):
                held = _lock(entry.path)
                if held is not None:
                    shutil.rmtree(entry.path, ignore_errors=True)
                    os.close(held)


def _is_old_and_ours(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        known = entry.stat(follow_symlinks=False)
        return stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid() and known.st_mtime < time.time() - YOUNG_S
    return False


def _lock(path: str) -> int | None:
    """A descriptor that holds the folder's lock; None where somebody else does."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return fd
    return None
