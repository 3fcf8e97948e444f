"""An export's bytes, plain, gzip- or zstd-compressed: told by how the file begins, not by its name."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from proofcost.bench_suites.parse_only import MalformedError

BLOCK_BYTES = 1 << 20
"""Least size of a block, but for the last."""
PIECE_BYTES = 4096
"""Compressed bytes unpacked at a time: a piece that unpacks to thousands of times its size stays bearable."""
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def compression(path: Path) -> str:
    """`gzip`, `zstd` or `none`. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(4)
    return next((name for name, magic in MAGIC.items() if head.startswith(magic)), "none")


def blocks(path: Path) -> Iterator[bytes]:
    """The plain bytes in order. Raises OSError, and MalformedError for a packed stream that is damaged or cut off."""
    kind = compression(path)
    with path.open("rb") as file:
        if kind == "none":
            while block := file.read(BLOCK_BYTES):
                yield block
        else:
            yield from _gathered(_unpacked(file, kind))


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(held)
            held.clear()
            size = 0
    if held:
        yield b"".join(held)


def _unpacker_of(kind: str) -> tuple[Callable[[], _Unpacker], type[Exception]]:
    """What makes an unpacker for one gzip member or zstd frame, and the fault it raises."""
    if kind == "gzip":
        return lambda: zlib.decompressobj(wbits=31), zlib.error
    import zstandard  # only where needed: the library is an extra

    return zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError


def _unpacked(file: BinaryIO, kind: str) -> Iterator[bytes]:
    make, fault = _unpacker_of(kind)
    unpacker: _Unpacker | None = None
    while piece := file.read(PIECE_BYTES):
        while piece:
            if unpacker is None:
                if not piece.strip(b"\0"):  # padding behind the last member, as tape tools leave it
                    break
                unpacker = make()
            try:
                yield unpacker.decompress(piece)
            except fault as error:
                raise MalformedError(0, f"damaged {kind} stream ({error})", "compress or fetch it again") from None
            piece = unpacker.unused_data if unpacker.eof else b""
            if unpacker.eof:
                unpacker = None
    if unpacker is not None:
        raise MalformedError(0, f"the {kind} stream ends too early: the file was cut off", "compress or fetch it again")
