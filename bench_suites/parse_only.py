"""The parse-only control: reads an export from end to end and checks nothing.

It stands where a kernel stands, so that everything around a kernel (sandbox, meter, file cache, reading) can be
measured on a machine that has no kernel, and so that the share of a kernel's cost that mere reading could explain is
known. Its first words on stdout say that it checks nothing; its exit 0 must never be read as an accepted proof.

    parse_only.py EXPORT      or      ... | parse_only.py -

Exit: 0 the file was read to its end and declares something; 3 it is not such an export (one line on stderr: file, line,
what is wrong, how to mend it); 2 it was called wrongly or the file cannot be opened or read, or stdout not be written.

What it looks at: every line is one JSON object of a kind the format names (lean4export NDJSON 3.x), the first is `meta`
and says 3.x, running numbers are integers. It follows no reference. Memory is bounded by the longest line (at most
LINE_BYTES_MAX).

One plain script, no import of ours, no argparse, no typing: it starts in some 20 ms with `python3 -I -S`.
"""

import json
import os
import sys
from collections.abc import Iterator
from io import BufferedIOBase

LINE_BYTES_MAX = 64 * 1024 * 1024
"""Longest line read. The longest of a Mathlib export is a few MiB (a kernel runner in use stops at 4 MiB)."""

NUMBERED = {"in": "names", "il": "levels", "ie": "expressions"}
"""Key that carries the running number -> what the record is."""
BODIES = {
    "in": ("str", "num"),
    "il": ("succ", "max", "imax", "param"),
    "ie": ("app", "lam", "forallE", "const", "bvar", "sort", "letE", "proj", "natVal", "strVal", "mdata"),
}
"""Same key -> the kinds of it."""
DECLARATIONS = ("axiom", "def", "opaque", "thm", "quot", "inductive")

FORMAT_MAJOR = "3"

EXIT_READ, EXIT_USAGE, EXIT_MALFORMED = 0, 2, 3


class MalformedError(Exception):
    """The input is no such export. `line` counts from 1; 0 is the file as a whole."""

    def __init__(self, line: int, what: str, cure: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what
        self.cure = cure


class Tally:
    """What was seen: bytes, lines, and records by kind (the format's own words, `meta` apart)."""

    __slots__ = ("bytes", "kinds", "lines")

    def __init__(self) -> None:
        self.bytes = 0
        self.lines = 0
        self.kinds = dict.fromkeys([*BODIES["in"], *BODIES["il"], *BODIES["ie"], *DECLARATIONS], 0)

    def of(self, kinds: tuple[str, ...]) -> int:
        return sum(self.kinds[kind] for kind in kinds)

    def names_count(self) -> int:
        return self.of(BODIES["in"])

    def levels_count(self) -> int:
        return self.of(BODIES["il"])

    def expressions_count(self) -> int:
        return self.of(BODIES["ie"])

    def declarations_count(self) -> int:
        """Records that declare: an inductive block is one, though kernels count its constructors and recursors too."""
        return self.of(DECLARATIONS)


def _lines(file: BufferedIOBase) -> Iterator[bytes]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise MalformedError(number, f"longer than {LINE_BYTES_MAX} bytes", "give an export with one record a line")
        yield line


def parse_line(line: bytes, number: int) -> dict[str, object]:
    """The record that `line` (number `number` of its file) is. Raises MalformedError where it is no JSON object."""
    if number == 1 and line.startswith(b"\x1f\x8b"):
        raise MalformedError(1, "gzip-compressed", "unpack it first: gunzip -c FILE | parse_only.py -")
    if number == 1 and line.startswith(b"\x28\xb5\x2f\xfd"):
        raise MalformedError(1, "zstd-compressed", "unpack it first: zstd -dc FILE | parse_only.py -")
    try:
        # Decoded here: given bytes, json guesses an encoding, and the format's is UTF-8.
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedError(number, f"not UTF-8 (byte {error.start + 1} of the line)", "export again") from None
    except (ValueError, RecursionError) as error:
        torn = "" if line.endswith(b"\n") else " and no newline ends it: the file was cut off"
        what = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise MalformedError(number, f"not JSON ({what}){torn}", "export again with lean4export 3.x") from None
    if not isinstance(record, dict):
        raise MalformedError(number, f"a JSON {type(record).__name__} where an object belongs", "export again")
    return record


def format_version(record: dict[str, object]) -> str:
    """What the first line, as parsed, says of the format. Raises MalformedError where it is not 3.x."""
    meta = record.get("meta")
    if not isinstance(meta, dict):
        raise MalformedError(1, "the first line is not the format's `meta` record", "give a lean4export 3.x export")
    about = meta.get("format")
    version = about.get("version") if isinstance(about, dict) else None
    if not isinstance(version, str):
        raise MalformedError(1, "`meta` does not say which format version this is", "give a lean4export 3.x export")
    if version.split(".")[0] != FORMAT_MAJOR:
        raise MalformedError(1, f"format version {version[:40]!a}, not 3.x", "export again with lean4export 3.x")
    return version


def kind_of(record: dict[str, object], number: int) -> str:
    """Which kind of record line `number` is (any but `meta`). Raises MalformedError for one that the format lacks."""
    for key, name in NUMBERED.items():
        if key in record:
            bodies = [body for body in record if body in BODIES[key]]
            if len(bodies) != 1 or len(record) != 2:
                raise MalformedError(number, f"no known kind of {name}: {_keys(record)}", "use format 3.x")
            running = record[key]
            if not isinstance(running, int) or isinstance(running, bool) or running < 0:
                raise MalformedError(number, f"{key} is {running!r:.40}, not a running number", "export again")
            return bodies[0]
    if len(record) == 1:
        (kind,) = record
        if kind in DECLARATIONS:
            return kind
    raise MalformedError(number, f"no known record: {_keys(record)}", "use lean4export's NDJSON format 3.x")


def _keys(record: dict[str, object]) -> str:
    shown = ", ".join(key[:20] for key in list(record)[:4])
    return f"keys {shown!a}" if record else "an empty object"


def read_export(file: BufferedIOBase) -> Tally:
    """Count what `file` holds. Raises MalformedError (see there), and OSError where reading fails."""
    tally = Tally()
    for number, line in enumerate(_lines(file), 1):
        tally.bytes += len(line)
        tally.lines = number
        record = parse_line(line, number)
        if number == 1:
            format_version(record)
        else:
            tally.kinds[kind_of(record, number)] += 1
    complete(tally)
    return tally


def complete(tally: Tally) -> None:
    """Look at a whole file's tally. Raises MalformedError where it holds nothing that could be checked."""
    if tally.lines == 0:
        raise MalformedError(0, "empty", "look whether the exporter failed or its output went elsewhere")
    if tally.declarations_count() == 0:
        raise MalformedError(0, f"no declaration in {tally.lines} lines", "export at least one declaration")


def report(tally: Tally) -> str:
    """The lines for stdout; the first stands for all of it."""

    expressions = BODIES["ie"]

    def split(kinds: tuple[str, ...]) -> str:
        return ", ".join(f"{kind} {tally.kinds[kind]}" for kind in sorted(kinds) if tally.kinds[kind])

    return (
        f"parse-only control: checks nothing; {tally.declarations_count()} declarations, "
        f"{tally.expressions_count()} expressions, {tally.names_count()} names, {tally.levels_count()} levels, "
        f"{tally.lines} lines, {tally.bytes} bytes\n"
        f"  declarations: {split(DECLARATIONS)}\n"
        f"  expressions: {split(expressions)}\n"
    )


def main(arguments: list[str]) -> int:
    """Run on the arguments after the program's name; see the top of this file for the exit status."""
    if len(arguments) != 1 or arguments[0].startswith("--"):
        print("parse_only: give one export's path, or - for stdin", file=sys.stderr)
        return EXIT_USAGE
    path = arguments[0]
    shown = "stdin" if path == "-" else path
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            tally = read_export(file)
    except MalformedError as fault:
        where = f"{shown}:{fault.line}" if fault.line else shown
        print(f"parse_only: {where}: {fault.what}; {fault.cure}", file=sys.stderr)
        return EXIT_MALFORMED
    except OSError as error:
        print(f"parse_only: cannot read {shown}: {error.strerror}; give a readable file", file=sys.stderr)
        return EXIT_USAGE
    text = report(tally).encode("ascii")
    try:
        # Past sys.stdout, which is None when stdout was closed and flushes a second time at exit when it is broken.
        while text:
            text = text[os.write(1, text) :]
    except OSError as error:
        # A figure that nobody could read is no success.
        print(f"parse_only: cannot write to stdout: {error.strerror}; give it an open stdout", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_READ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
