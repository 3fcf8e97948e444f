"""One at a time works on a store's Parquet files: two that compact it together would write records twice."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from proofcost.reports.inert import inert_outside


class BusyError(Exception):
    """Another works on the store. One line."""


@contextlib.contextmanager
def sole(store: Path) -> Iterator[None]:
    """Hold a store's folder while its Parquet files change; whoever dies lets go. Raises BusyError, OSError."""
    fd = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = inert_outside(str(store), 200, True)
            raise BusyError(f"{where}: another compact, prune or push works on it; try again when it is done") from None
        except OSError:
            pass  # a file system without such locks
        yield
    finally:
        os.close(fd)
