"""The record files of a shard's store: whether they are those that its runner left, and how damaged ones are named.

A record takes a millisecond to read, a file's size and time a hundredth of that. So a runner that ends writes a digest
of the latter into its note: while it is the same, what the note counted stands.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence

FOLDERS = ("sessions", "parquet")
NAMED_MAX = 3


def digest(place: str) -> str:
    """SHA-256 of the names, sizes (bytes) and times of change (ns) of all files that may hold records; hexadecimal.

    Of a store without any, or that is not there, too.
    """
    lines = sorted(line for name in FOLDERS for line in _lines(place, name))
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _lines(place: str, below: str) -> Iterator[bytes]:
    try:
        with os.scandir(f"{place}/{below}") as entries:
            for entry in entries:
                path = f"{below}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from _lines(place, path)
                else:
                    told = entry.stat(follow_symlinks=False)
                    yield os.fsencode(f"{path}\0{told.st_size}\0{told.st_mtime_ns}")
    except OSError as error:  # what cannot be read is not what the runner saw
        if not isinstance(error, FileNotFoundError):
            yield os.fsencode(f"{below}\0{error.errno}")


def named(damaged: Sequence[str]) -> str:
    """Damaged files, in one line; empty where there are none."""
    if not damaged:
        return ""
    more = f" and {len(damaged) - NAMED_MAX} more" if len(damaged) > NAMED_MAX else ""
    return f"damaged: {', '.join(damaged[:NAMED_MAX])}{more}"
