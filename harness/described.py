"""A TOML file that people write (a suite, a kernel registry, a plan), read key by key; what is wrong is one clear line.

Such a line names the file, the line in it, the key, the value, and what belongs there. A key that nobody asked for is
an error too, with the nearest one that is known.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from proofcost.harness import quantity
from proofcost.harness.toml_lines import Path, lines_of

SHOWN = 60
"""Longest value shown in an error, in characters."""
FILE_BYTES_MAX = 1 << 20

_KINDS = {str: "a string", bool: "true or false", int: "a whole number", list: "an array", dict: "a table"}
_REQUIRED = object()


class DescriptionError(Exception):
    """What somebody wrote cannot be used. One line: where, what, which value, how to mend it."""


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, else `; known: ...`, else nothing."""
    known = sorted(known)
    near = difflib.get_close_matches(wrong, known, 1, 0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(known)}" if known else ""


def read(path: str, text: str | None = None) -> Table:
    """The file's top table (of `text`, when that is given). Raises DescriptionError."""
    if text is None:
        try:
            with open(path, "rb") as file:
                raw = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise DescriptionError(f"{path}: cannot be read: {error.strerror}; name a file that exists") from None
        if len(raw) > FILE_BYTES_MAX:
            raise DescriptionError(f"{path}: larger than {FILE_BYTES_MAX} bytes; is it a TOML file?")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise DescriptionError(f"{path}:{line}: not UTF-8; save it as UTF-8") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+), column \d+\)$", str(error))
        line = int(at[1]) if at else text.count("\n") + 1  # else it says: at end of document
        raise DescriptionError(f"{path}:{line}: not TOML: {error}") from None
    except RecursionError:
        raise DescriptionError(f"{path}: nested too deeply") from None
    return Table(path, lines_of(text), data, ())


class Table:
    """One table of the file; every key that is asked for counts as known.

    `lines`: where each value stands. A text instead of a line's number: it was not given in the file, but so
    (`--set limits.oom=2`)."""

    def __init__(self, file: str, lines: Mapping[Path, int | str], data: dict[str, Any], path: Path) -> None:
        self.file = file
        self.path = path
        self.data = data
        self._lines = lines
        self._known: set[str] = set()

    def __contains__(self, key: str) -> bool:
        self._known.add(key)
        return key in self.data

    def fail(self, key: str | None, what: str, at: int | None = None) -> NoReturn:
        """Raise DescriptionError about a key of this table (or about the table; or about an array's element)."""
        path = self.path if key is None else (*self.path, key)
        place = path if at is None else (*path, at)
        line = self._lines.get(place) or self._lines.get(path) or self._lines.get(self.path)
        where = line if isinstance(line, str) else f"{self.file}:{line}" if line else self.file
        name = _shown_path(place)
        raise DescriptionError(f"{where}: {name}: {what}" if name else f"{where}: {what}")

    def finish(self) -> None:
        """Every key was asked for. Raises DescriptionError for one that was not."""
        for key in self.data:
            if key not in self._known:
                self.fail(key, f"unknown key{suggestion(key, self._known)}")

    def _get(self, key: str, kind: type, default: Any, wanted: str) -> Any:
        self._known.add(key)
        if key not in self.data:
            if default is _REQUIRED:
                self.fail(None, f"{key} is missing: {wanted}")
            return default
        value = self.data[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(key, f"{shown(value)} is {_kind_of(value)}, where {_KINDS[kind]} belongs: {wanted}")
        return value

    def text(self, key: str, wanted: str, default: Any = _REQUIRED) -> Any:
        """A string that is not empty."""
        value = self._get(key, str, default, wanted)
        if value == "" and key in self.data:
            self.fail(key, f"is empty: {wanted}")
        return value

    def choice(self, key: str, choices: Sequence[str], default: Any = _REQUIRED) -> Any:
        """One of some words."""
        value = self._get(key, str, default, f"one of {', '.join(choices)}")
        if key in self.data and value not in choices:
            self.fail(key, f"{shown(value)} is none of {', '.join(choices)}{_near(value, choices)}")
        return value

    def flag(self, key: str, wanted: str, default: bool) -> bool:
        return bool(self._get(key, bool, default, wanted))

    def integer(self, key: str, least: int, most: int, default: Any = _REQUIRED) -> Any:
        wanted = f"from {least} to {most}"
        value = self._get(key, int, default, wanted)
        if key in self.data and not least <= value <= most:
            self.fail(key, f"{value} is out of range: give a number {wanted}")
        return value

    def integers(self, key: str, least: int, most: int, default: Sequence[int]) -> tuple[int, ...]:
        """A number, or an array of different ones."""
        self._known.add(key)
        value = self.data.get(key, list(default))
        values = value if isinstance(value, list) else [value]
        if not values:
            self.fail(key, "is empty: give at least one number")
        for at, one in enumerate(values):
            element = at if isinstance(value, list) else None
            if not isinstance(one, int) or isinstance(one, bool):
                self.fail(key, f"{shown(one)} is {_kind_of(one)}, where a whole number belongs", element)
            if not least <= one <= most:
                self.fail(key, f"{one} is out of range: give numbers from {least} to {most}", element)
            if values.index(one) != at:
                self.fail(key, f"{one} stands there twice", element)
        return tuple(values)

    def texts(self, key: str, wanted: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A string, or an array of strings, none of them empty."""
        self._known.add(key)
        value = self.data.get(key, list(default))
        values = value if isinstance(value, list) else [value]
        for at, one in enumerate(values):
            element = at if isinstance(value, list) else None
            if not isinstance(one, str):
                self.fail(key, f"{shown(one)} is {_kind_of(one)}, where a string belongs: {wanted}", element)
            if not one:
                self.fail(key, f"an empty string: {wanted}", element)
        return tuple(values)

    def quantity(self, key: str, units: dict[str, int], example: str, default: int | None = None) -> int | None:
        """A time or size as a string (`15m`, `8Gi`), in ns or bytes; `none` is None."""
        text = self._get(key, str, None, f"write for example {key} = {example!r}")
        if text is None:
            return default
        if text == "none":
            return None
        try:
            return quantity.parse(text, units)
        except ValueError as error:
            self.fail(key, f"{shown(text)}: {error}; write for example {key} = {example!r}, or 'none'")

    def table(self, key: str) -> Table:
        """A table inside this one; an empty one where there is none."""
        value = self._get(key, dict, {}, "a table")
        return Table(self.file, self._lines, value, (*self.path, key))

    def tables(self, key: str) -> list[Table]:
        """An array of tables (`[[key]]`); empty where there is none."""
        value = self._get(key, list, [], f"tables headed [[{key}]]")
        for at, one in enumerate(value):
            if not isinstance(one, dict):
                self.fail(key, f"{shown(one)} is {_kind_of(one)}, where a table belongs ([[{key}]])", at)
        return [Table(self.file, self._lines, one, (*self.path, key, at)) for at, one in enumerate(value)]


def shown(value: object) -> str:
    """A value in an error, in one line of bounded length."""
    text = ascii(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _near(value: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(value, choices, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _kind_of(value: object) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def _shown_path(path: Path) -> str:
    """`kernel[2].builds`: arrays count from 1, as people do."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step + 1}]"
        else:
            name = step if step.replace("_", "").replace("-", "").isalnum() else shown(step)
            text += f".{name}" if text else name
    return text
