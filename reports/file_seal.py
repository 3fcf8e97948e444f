"""The seal of one Parquet file: a small text beside it that is written last, and says what the file is.

`NAME.parquet.sha256` holds a comment with a size and one line that `sha256sum -c` takes. A file whose seal is absent,
torn or of another file does not count. It guards against accidents: whoever may write to the place can write seals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SUFFIX = ".sha256"
MOST_BYTES = 4096
_SEAL = re.compile(rb"# proofcost seal 1: (0|[1-9][0-9]{0,18}) bytes\n([0-9a-f]{64})  ([^\n\\/]{1,255})\n")


class SealError(Exception):
    """This text is no seal, or not that of this file."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a file was when it was sealed."""

    sha256: str
    """64 hexadecimal digits."""
    bytes_: int
    """Its size."""


def seal_text(name: str, seal: Seal) -> bytes:
    """The content of the seal of the file `name` (no folder in it)."""
    return f"# proofcost seal 1: {seal.bytes_} bytes\n{seal.sha256}  {name}\n".encode()


def read_seal(name: str, content: bytes) -> Seal:
    """The seal that a text is. Raises SealError where a byte of it is not as `seal_text` makes it for this name."""
    match = _SEAL.fullmatch(content)
    if match is None:
        raise SealError("no seal, or half of one")
    if match[3] != name.encode():
        raise SealError("the seal of another file")
    return Seal(match[2].decode(), int(match[1]))
