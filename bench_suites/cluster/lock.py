"""A lock that holds across the hosts of a shared file system, and that can be looked at without taking it.

POSIX record locks: NFS, Lustre (mounted with `flock`) and local file systems know them; they end with their process,
however it ends. A process loses them when it closes any descriptor of the file, so nothing else here opens it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from proofcost.bench_suites.cluster.folder import CampaignError

_FLOCK = "hhqqi"
"""struct flock of Linux on 64 bits: type, whence, start, length, pid."""


class HeldError(Exception):
    """Somebody else holds it."""


@contextmanager
def held(path: str) -> Iterator[None]:
    """Hold the lock of that file. Raises HeldError; CampaignError where it cannot be had at all."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CampaignError(
            f"{path}: cannot be written: {error.strerror}; is the folder shared with this host?"
        ) from None
    try:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise HeldError from None
            raise CampaignError(
                f"{path}: cannot be locked: {error.strerror}; the campaign's folder needs a file system with locks"
            ) from None
        yield
    finally:
        os.close(fd)


@contextmanager
def only_one(path: str, otherwise: str) -> Iterator[None]:
    """Hold the lock of that file. Raises CampaignError: `otherwise` where somebody else does."""
    try:
        with held(path):
            yield
    except HeldError:
        raise CampaignError(otherwise) from None


def is_held(path: str) -> bool:
    """Whether a living process, on whatever host, holds it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind: int = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0]
    except OSError:
        return False
    finally:
        os.close(fd)
    return kind != fcntl.F_UNLCK
