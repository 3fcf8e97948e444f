"""What an export holds that a kernel's cost may hang on, in one streaming pass.

Counting alone does not parse: it looks at a block of lines at a time and tells a record's kind by the first bytes of
its line, in the exporter's way of writing. A line written in any other way (keys in another order, blanks) is parsed
by itself: the same comes out, later. What is seen besides: the first line is `meta` of format 3.x, the text is UTF-8,
every line begins and ends as a record does, the last one is whole JSON. A fault in the middle of a line that looks
right at both ends is not seen; with `depth` it is, since then every line is parsed.

Memory: counting holds a block (1 MiB) or the longest line; `depth` adds some 20 bytes an expression.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proofcost.bench_suites import export_files, parse_only
from proofcost.bench_suites.export_depth import Depth, DepthReader
from proofcost.bench_suites.parse_only import BODIES, DECLARATIONS, LINE_BYTES_MAX, MalformedError, Tally

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

HEAD_BYTES = 8
"""A kind is told by this many bytes; no two kinds of the format begin alike in them."""
NUMBER_DIGITS_MAX = 12


@dataclass(frozen=True)
class Covariates:
    """Of the plain text, whatever the file was packed with. Counts are exact.

    `kinds`: records by the format's own words (app, lam, thm, ...), zeros left out. A declaration is a record that
    declares: an inductive block is one. `declaration_lines_longest_count`: lines from one declaration to the next, at
    most; an exporter writes a declaration's new names, levels and expressions right before it, so this is its largest.
    `depth`: None unless asked for.
    """

    sha256: str
    format_version: str
    bytes: int
    lines_count: int
    line_longest_bytes: int
    names_count: int
    levels_count: int
    expressions_count: int
    declarations_count: int
    declaration_lines_longest_count: int
    kinds: dict[str, int]
    depth: Depth | None = None

    def as_record(self) -> dict[str, int]:
        """Flat, for a bench record: `export_bytes`, `export_app_count`, ... Kinds that do not occur are 0."""
        flat = {
            "export_bytes": self.bytes,
            "export_lines_count": self.lines_count,
            "export_line_longest_bytes": self.line_longest_bytes,
            "export_names_count": self.names_count,
            "export_levels_count": self.levels_count,
            "export_expressions_count": self.expressions_count,
            "export_declarations_count": self.declarations_count,
            "export_declaration_lines_longest_count": self.declaration_lines_longest_count,
        }
        flat.update({f"export_{kind}_count": self.kinds.get(kind, 0) for kind in Tally().kinds})
        if self.depth is not None:
            flat.update({f"export_{name}": value for name, value in self.depth.as_record().items()})
        return flat


def read(path: Path, *, depth: bool = False, copy: Callable[[bytes], object] | None = None) -> Covariates:
    """Read a plain, gzip- or zstd-compressed export from end to end. `copy` is given the plain bytes as they pass.

    Raises MalformedError (line, what, cure) where it is no lean4export 3.x export, OSError where it cannot be read.
    """

    def passing() -> Iterator[bytes]:
        for block in export_files.blocks(path):
            if copy is not None:
                copy(block)
            yield block

    return read_blocks(passing(), depth=depth)


def read_blocks(blocks: Iterator[bytes], *, depth: bool = False) -> Covariates:
    """The same of blocks of bytes, cut anywhere."""
    reader = Reader(depth=depth)
    for block in blocks:
        reader.take(block)
    return reader.end()


def _word(text: str) -> int:
    """The first bytes of `text` as they come out of a block that is read as little-endian numbers."""
    return int.from_bytes(text.encode("ascii")[:HEAD_BYTES], "little")


# A line begins with its kind, or with its running number and then its kind. What opens behind it tells short keys.
_OPENS = {**dict.fromkeys(("str", "num", "app", "lam", "def", "thm"), "{"), "max": "["}
_KIND_FIRST = [(kind, _word(f'{{"{kind}":{_OPENS.get(kind, "")}')) for kind in Tally().kinds]
_NUMBER_FIRST = [
    (_word(f'{{"{key}":'), [(kind, _word(f',"{kind}":{_OPENS.get(kind, "")}')) for kind in kinds])
    for key, kinds in BODIES.items()
]
_NUMBER_AT = len('{"ie":')
_NUMBER_MASK = (1 << 8 * _NUMBER_AT) - 1
_NEWLINE, _COMMA, _CLOSE = b"\n,}"
_PADDING = bytes(_NUMBER_AT + NUMBER_DIGITS_MAX + HEAD_BYTES)


class Reader:
    """One pass over one export that somebody else reads or writes: `take` its blocks, cut anywhere, then `end`."""

    def __init__(self, *, depth: bool = False) -> None:
        self.tally = Tally()
        self.version = ""
        self.depth = DepthReader() if depth else None
        self.digest = hashlib.sha256()
        self.line_longest = 0
        self.declaration_longest = 0
        self.declared_at = 1  # `meta` belongs to no declaration
        self.rest: list[bytes] = []
        self.rest_bytes = 0

    def take(self, block: bytes) -> None:
        self.digest.update(block)
        self.tally.bytes += len(block)
        cut = block.rfind(b"\n") + 1
        if cut:
            self._lines(b"".join((*self.rest, memoryview(block)[:cut], _PADDING)), self.rest_bytes + cut)
            self.rest.clear()
            self.rest_bytes = 0
        if cut < len(block):
            self.rest.append(block[cut:])
            self.rest_bytes += len(block) - cut
            if self.rest_bytes > LINE_BYTES_MAX:
                self._too_long(self.tally.lines + 1)

    def end(self) -> Covariates:
        if self.rest:
            # No newline ends it. That is a record like any other, unless the file was cut off: it has to be parsed.
            line = b"".join(self.rest)
            if self._parse(line, self.tally.lines + 1) in DECLARATIONS:
                self._declared(np.array([self.tally.lines + 1]))
            self.line_longest = max(self.line_longest, len(line))
            if self.depth is not None:
                self.depth.take(line + b"\n", self.tally.lines + 1)
            self.tally.lines += 1
        parse_only.complete(self.tally)
        tally = self.tally
        return Covariates(
            sha256=self.digest.hexdigest(),
            format_version=self.version,
            bytes=tally.bytes,
            lines_count=tally.lines,
            line_longest_bytes=self.line_longest,
            names_count=tally.names_count(),
            levels_count=tally.levels_count(),
            expressions_count=tally.expressions_count(),
            declarations_count=tally.declarations_count(),
            declaration_lines_longest_count=self.declaration_longest,
            kinds={kind: count for kind, count in tally.kinds.items() if count},
            depth=None if self.depth is None else self.depth.end(),
        )

    def _too_long(self, number: int) -> None:
        raise MalformedError(number, f"longer than {LINE_BYTES_MAX} bytes", "give an export with one record a line")

    def _lines(self, text: bytes, size: int) -> None:
        """Count whole lines: the first `size` bytes of `text`, behind which padding stands."""
        fault: MalformedError | None = None
        if not text.isascii():
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                line_start = text.rfind(b"\n", 0, error.start) + 1
                number = self.tally.lines + 1 + text.count(b"\n", 0, line_start)
                what = f"not UTF-8 (byte {error.start - line_start + 1} of the line)"
                fault = MalformedError(number, what, "export again")
                size = line_start  # what comes before may be wrong earlier
        if size:
            self._whole_lines(text, size)
        if fault is not None:
            raise fault

    def _whole_lines(self, text: bytes, size: int) -> None:
        letters = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(letters[:size] == _NEWLINE)
        starts = np.concatenate(([0], ends[:-1] + 1))
        self.line_longest = max(self.line_longest, int((ends - starts).max()) + 1)
        if self.line_longest > LINE_BYTES_MAX:
            self._too_long(self.tally.lines + 1 + int((ends - starts).argmax()))
        words = np.ndarray(len(text) - HEAD_BYTES + 1, "<u8", text, strides=(1,))
        heads = words[starts]
        closed = letters[ends - 1] == _CLOSE
        if self.tally.lines == 0:
            closed[0] = False  # the first line is `meta` or a fault, whatever it looks like
        known = np.zeros(len(starts), bool)
        declares = np.zeros(len(starts), bool)
        for kind, head in _KIND_FIRST:
            here = (heads == head) & closed
            if count := np.count_nonzero(here):
                self.tally.kinds[kind] += int(count)
                known |= here
                if kind in DECLARATIONS:
                    declares |= here
        for head, kinds in _NUMBER_FIRST:
            here = np.flatnonzero(((heads & _NUMBER_MASK) == head) & closed)
            self._count_behind_number(kinds, here, starts, letters, words, known)
        first = self.tally.lines + 1
        for index in np.flatnonzero(~known).tolist():
            declares[index] = self._parse(text[starts[index] : ends[index] + 1], first + index) in DECLARATIONS
        self._declared(np.flatnonzero(declares) + first)
        if self.depth is not None:
            self.depth.take(text[:size], first)
        self.tally.lines += len(starts)

    def _count_behind_number(
        self,
        kinds: list[tuple[str, int]],
        which: Places,
        starts: Places,
        letters: NDArray[np.uint8],
        words: Words,
        known: NDArray[np.bool_],
    ) -> None:
        """Count lines number `which`, whose kind stands behind a running number of as yet unknown length."""
        at = starts[which] + _NUMBER_AT
        for _ in range(NUMBER_DIGITS_MAX):
            if not len(which):
                return
            digit = letters[at] - ord("0") <= 9  # wraps round below "0"
            at, which = at[digit] + 1, which[digit]
            comma = letters[at] == _COMMA
            behind, there = words[at[comma]], which[comma]
            for kind, word in kinds:
                here = behind == word
                if count := np.count_nonzero(here):
                    self.tally.kinds[kind] += int(count)
                    known[there[here]] = True
            at, which = at[~comma], which[~comma]

    def _declared(self, numbers: Places) -> None:
        """Declarations stand on lines `numbers`."""
        if len(numbers):
            gaps = np.diff(numbers, prepend=self.declared_at)
            self.declaration_longest = max(self.declaration_longest, int(gaps.max()))
            self.declared_at = int(numbers[-1])

    def _parse(self, line: bytes, number: int) -> str | None:
        """Count a line by parsing it; its kind, None for `meta`."""
        record = parse_only.parse_line(line, number)
        if number == 1:
            self.version = parse_only.format_version(record)
            return None
        kind = parse_only.kind_of(record, number)
        self.tally.kinds[kind] += 1
        return kind
