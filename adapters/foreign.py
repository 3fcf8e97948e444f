"""What files of other programs are read with: `from_FORMAT.py` makes rows (harness/columns.py) of one kind of file.

A module `from_FORMAT.py` offers:

- `HELP`: one line; `MAPS`: (their field, our column, how) of all that is taken; `UNKNOWN`: what such a file cannot
  tell; `DEFECTS`: what is known to be wrong in such files, and what is done about it. A page is made of these.
- `fits(head)`: whether a file looks like one of these. Cheap; looks at nothing but the head.
- `rows(source)`: the rows, one by one, so that a file of any size takes bounded memory. `record` may be left out (then
  it is numbered). Raises FormatError at what cannot be understood.

Outside the trusted path. Fractions are read as decimal text, never as floats: what a source says is what is stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Any

import ijson

from proofcost.harness.columns import Row

HEAD_BYTES = 1 << 16
MAX_NS = (1 << 63) - 1
MAX_TEXT = 4096
"""Longer texts of a source (its standard output, say) are cut: they are no figures."""
MAX_DEPTH = 64
"""Objects and lists in each other: deeper ones are refused, in large files at three times that at the latest."""
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LONG_NUMBER = re.compile(rb"\d{1000}")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')


class FormatError(Exception):
    """A file is not (wholly) of its format. One line: where, what is wrong; never quotes more than a word of it."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, for `fits`."""

    name: str
    raw: bytes

    @cached_property
    def keys(self) -> frozenset[str]:
        """Names of JSON members anywhere in the head."""
        return frozenset(match.decode("utf-8", "replace") for match in _KEY.findall(self.raw))

    @cached_property
    def opening(self) -> str:
        """The first character that is no blank: `{` or `[` for JSON, `<` for XML; empty for an empty file."""
        return self.raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:1].decode("latin-1")

    @cached_property
    def first(self) -> dict[str, Any] | None:
        """The first line as a JSON object, where it is one: of NDJSON."""
        line = self.raw.split(b"\n", 1)[0]
        try:
            made = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return made if isinstance(made, dict) else None


class Guarded:
    """A file of JSON for ijson, whose parser crashes at numbers of thousands of digits and takes for ever at deep
    nesting: both are refused here, as is what is no JSON text (a byte order mark is left out)."""

    def __init__(self, file: BufferedReader) -> None:
        file.seek(0)
        if file.peek(3)[:3] == b"\xef\xbb\xbf":
            file.seek(3)
        self._file = file
        self._before = b""
        """What a string that the last block did not end begins with, for the next."""
        self._depth = 0

    def read(self, size: int = -1) -> bytes:
        """The next block. Raises FormatError."""
        block = self._file.read(size)
        if block:
            self._look_at(block)
        return block

    def _look_at(self, block: bytes) -> None:
        plain = _STRING.sub(b"", self._before + block)
        plain, quote, rest = plain.partition(b'"')
        escapes = len(rest) - len(rest.rstrip(b"\\"))
        self._before = quote + (b"\\" if escapes % 2 else b"")
        if _LONG_NUMBER.search(plain):
            raise FormatError("a number of a thousand digits")
        brackets = plain.translate(None, _NO_BRACKETS)
        for _ in range(MAX_DEPTH):
            fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
            if len(fewer) == len(brackets):
                break
            brackets = fewer
        self._depth += brackets.count(b"{") + brackets.count(b"[") - brackets.count(b"}") - brackets.count(b"]")
        if self._depth > MAX_DEPTH or len(brackets) > 2 * MAX_DEPTH:
            raise FormatError(f"nested deeper than {MAX_DEPTH}")


@dataclass
class Source:
    """A file that is being imported. `said` collects what a person should know of it."""

    path: Path
    file: BufferedReader
    said: dict[str, int] = field(default_factory=dict)
    """By note: how many rows it concerns."""

    @property
    def name(self) -> str:
        return self.path.name

    def say(self, note: str) -> None:
        self.said[note] = self.said.get(note, 0) + 1

    def items(self, prefix: str) -> Iterator[Any]:
        """The values at a place of one large JSON document (ijson's prefix: `results.item`), fractions as Decimal.

        Raises FormatError.
        """
        twice: list[str] = []

        class Once(dict[str, Any]):
            def __setitem__(self, name: str, value: Any) -> None:
                if name in self:  # the parser, which is written in C, does not take an exception here
                    twice.append(name)
                super().__setitem__(name, value)

        for item in self._parsed(lambda: ijson.items(Guarded(self.file), prefix, use_float=False, map_type=Once)):
            if twice:
                raise FormatError("an object names one member twice")
            yield item

    def members(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """(name, value) of an object's members, likewise."""
        yield from self._parsed(lambda: ijson.kvitems(Guarded(self.file), prefix, use_float=False))

    def _parsed(self, start: Callable[[], Any]) -> Iterator[Any]:
        self.file.seek(0)
        try:
            yield from start()
        except ijson.JSONError as error:
            raise FormatError(_not_json(error)) from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"not JSON that can be read: {type(error).__name__}") from None

    def document(self) -> Any:
        """A small JSON document whole (to 64 MiB). Raises FormatError."""
        self.file.seek(0)
        raw = self.file.read((64 << 20) + 1).removeprefix(b"\xef\xbb\xbf")
        if len(raw) > 64 << 20:
            raise FormatError("larger than 64 MiB, which no file of this format is")
        return parse(raw)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(number from 1, line without its end); a line is at most 16 MiB. Raises FormatError."""
        self.file.seek(0)
        number = 0
        while line := self.file.readline((16 << 20) + 1):
            number += 1
            if len(line) > 16 << 20:
                raise FormatError(f"line {number}: longer than 16 MiB")
            yield number, line.rstrip(b"\r\n")


def parse(raw: bytes | str) -> Any:
    """A JSON value, fractions as Decimal. Raises FormatError: not JSON, NaN, a member twice, too deep."""
    try:
        return json.loads(raw, parse_float=Decimal, parse_constant=_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {str(error)[:120]}") from None


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object names one member twice")
    return made


def digest(file: BufferedReader) -> str:
    """SHA-256 of an open file, hexadecimal."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _not_json(error: ijson.JSONError) -> str:
    """What is wrong with a file, in words of ours: the parser's second line shows the place, as bytes if not UTF-8."""
    said = error.args[0] if error.args else ""
    if isinstance(said, bytes):
        return "not JSON: not UTF-8; write the file anew as UTF-8"
    what, _, place = str(said).partition("\n")
    for name in ("NaN", "Infinity"):
        if "lexical" in what and name in place:
            return f"not JSON: it holds {name}, which JSON does not know; write null"
    short = "; is it cut short?" if "EOF" in what or "ncomplete" in what else ""
    return f"not JSON to its end ({what[:120]}){short}"


def scaled(value: Any, scale: int) -> int | None:
    """`value` times `scale` as an integer, rounded half to even; None when it is no number, negative or too large.

    Decimal text stays exact: 0.1 s is 100,000,000 ns.
    """
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal | float):
        return None
    try:
        made = Decimal(str(value)) * scale
        if not made.is_finite() or made < 0 or made > MAX_NS:
            return None
        return int(made.to_integral_value())
    except ArithmeticError:  # no number, or an exponent beyond all bounds
        return None


def ns(seconds: Any) -> int | None:
    """Nanoseconds of a number of seconds."""
    return scaled(seconds, 10**9)


def count(value: Any) -> int | None:
    """A whole number >= 0, or None (also for one with a fraction)."""
    made = scaled(value, 1)
    return made if made is not None and Decimal(str(value)) == made else None


def put(row: Row, column: str, value: int | None, why: str) -> None:
    """Set a figure, or say why it is missing."""
    if value is None:
        row.setdefault("absent", {})[column] = why
    else:
        row[column] = value


def weaken(row: Row, column: str, status: str, defect: str) -> None:
    """Say that a figure, where there is one, is not plainly what its name says."""
    if column in row:
        row.setdefault("weak", {})[column] = status
        defects = row.setdefault("defects", [])
        if defect not in defects:
            defects.append(defect)


def text(value: Any) -> str | None:
    """A text, cut to a sane length and made inert for a record (no NUL, no lone surrogate); None for anything else."""
    if not isinstance(value, str) or not value:
        return None
    return value[:MAX_TEXT].encode("utf-8", "replace").decode().replace("\0", "\\x00")


def moment(value: Any) -> int | None:
    """ns since 1970 of an ISO 8601 time (without a zone: UTC) or of seconds since 1970; None where it is neither."""
    if isinstance(value, str):
        try:
            made = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
        made = made if made.tzinfo else made.replace(tzinfo=UTC)
        return (made - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    return ns(value)
