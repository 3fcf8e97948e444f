"""A file that appears under its name only when it is whole."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Gives a file to write to. `path` appears when the block ends well; nothing is left behind when it does not.

    A link stays, and what it leads to is replaced; the file keeps the rights it had. What is no file but can be written
    to (a pipe, /dev/stdout) is written to as it is. Raises OSError with the name that was given.
    """
    place = Path(os.path.realpath(path))
    partial = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        before = None
        with contextlib.suppress(FileNotFoundError):
            before = os.stat(path).st_mode
        if before is not None and not stat.S_ISREG(before):
            with open(path, "wb") as file:
                yield file
            return
        try:
            with partial.open("wb") as file:
                if before is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(before))
                yield file
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        # Of a full disk Python does not say which file, and people do not know the name of ours.
        if error.filename not in (None, str(partial)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
