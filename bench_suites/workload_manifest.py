"""`workloads.toml`: what is known of single exports in a folder.

[[workload]]
file = "init-medium.ndjson.gz"    # from this file's folder
expected = "accept"               # accept, reject, or either; may be left out
sha256 = "..."                    # of the plain text; checked before anything runs; may be left out
"""

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

NAME = "workloads.toml"
TABLE = "workload"
EXPECTED = ("accept", "reject", "either")
KEYS = ("file", "expected", "sha256")


class ManifestError(Exception):
    """A manifest that cannot be used. `line` counts from 1; 0 is the file as a whole."""

    def __init__(self, line: int, what: str, cure: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what
        self.cure = cure


@dataclass(frozen=True)
class Entry:
    """`expected` is accept, reject, either or None (not said); `line` is where the entry begins."""

    path: Path
    expected: str | None
    sha256: str | None
    line: int


def read(path: Path) -> dict[Path, Entry]:
    """The entries by resolved path. Raises ManifestError, and OSError where the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ManifestError(0, f"not UTF-8 ({error.reason})", "write it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise ManifestError(int(at[1]) if at else 0, f"not TOML ({error})", "mend it there") from None
    lines = text.splitlines()
    for key in found:
        if key != TABLE:
            raise ManifestError(_line_of(lines, key), f"unknown key {key!r}", f"entries are [[{TABLE}]]")
    tables = found.get(TABLE, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ManifestError(_line_of(lines, TABLE), f"{TABLE} is no list of entries", f"entries are [[{TABLE}]]")
    starts = [number for number, line in enumerate(lines, 1) if re.match(rf"\s*\[\[\s*{TABLE}\s*\]\]", line)]
    starts += [0] * (len(tables) - len(starts))  # written as inline tables: no line to point to
    entries: dict[Path, Entry] = {}
    for table, start in zip(tables, starts, strict=False):
        entry = _entry(table, lines, start, path.parent)
        if entry.path in entries:
            raise ManifestError(start, f"{table['file']} is listed twice", "leave one of them")
        entries[entry.path] = entry
    return entries


def _entry(table: dict[str, object], lines: list[str], start: int, folder: Path) -> Entry:
    for key in table:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1)
            cure = f"did you mean {close[0]}?" if close else f"there are {', '.join(KEYS)}"
            raise ManifestError(_line_of(lines, key, start), f"unknown key {key!r}", cure)
    file, expected, sha256 = (table.get(key) for key in KEYS)
    if not isinstance(file, str) or not file:
        raise ManifestError(start, f"file is {file!r}", "each entry names an export beside this file")
    path = folder / file
    if not path.is_file():
        raise ManifestError(_line_of(lines, "file", start), f"no file {file}", "mend the name, or drop the entry")
    if expected is not None and expected not in EXPECTED:
        what = f"expected is {expected!r}"
        raise ManifestError(_line_of(lines, "expected", start), what, f"it is one of {', '.join(EXPECTED)}")
    if sha256 is not None and not (isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256)):
        what, cure = f"sha256 is {sha256!r}", "it is 64 digits 0-9a-f, of the plain text"
        raise ManifestError(_line_of(lines, "sha256", start), what, cure)
    return Entry(path.resolve(), str(expected) if expected else None, str(sha256) if sha256 else None, start)


def _line_of(lines: list[str], key: str, start: int = 1) -> int:
    """The first line from `start` on that sets `key`."""
    for number in range(max(start, 1), len(lines) + 1):
        if re.match(rf"[\s\[\"']*{re.escape(key)}\b", lines[number - 1]):
            return number
    return start
