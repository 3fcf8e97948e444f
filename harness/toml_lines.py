"""In which line of a TOML file each key stands: tomllib does not say, and an error that names no line is no help.

For text that tomllib has read already: nothing here checks it.
"""

from __future__ import annotations

import tomllib

Path = tuple[str | int, ...]
"""Where a value stands: keys, and numbers (from 0) inside arrays."""


def lines_of(text: str) -> dict[Path, int]:
    """Line, from 1, of every key, table, and element of an array in `text`, which must be valid TOML."""
    return _Scan(text.replace("\r\n", "\n")).whole()


class _Scan:
    """One pass over the text, statement by statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.found: dict[Path, int] = {}
        self.table: Path = ()
        # How many elements each array of tables has so far.
        self.tables_count: dict[Path, int] = {}

    def whole(self) -> dict[Path, int]:
        while self._blank(newlines=True):
            if self._takes("[["):
                self._header(self._key(), of_array=True)
                self._takes("]]")
            elif self._takes("["):
                self._header(self._key(), of_array=False)
                self._takes("]")
            else:
                self._assignment(self.table)
        return self.found

    def _header(self, key: list[str], of_array: bool) -> None:
        path: Path = ()
        for at, part in enumerate(key):
            path = (*path, part)
            self.found.setdefault(path, self.line)
            if of_array and at == len(key) - 1:
                number = self.tables_count.get(path, 0)
                self.tables_count[path] = number + 1
                path = (*path, number)
            elif path in self.tables_count:
                path = (*path, self.tables_count[path] - 1)
        self.found.setdefault(path, self.line)
        self.table = path

    def _assignment(self, table: Path) -> None:
        self._blank(newlines=True)
        path = table
        line = self.line
        for part in self._key():
            path = (*path, part)
            self.found.setdefault(path, line)
        self._blank(newlines=False)
        self._takes("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        self._blank(newlines=True)
        if self._takes("["):
            self._elements(path)
        elif self._takes("{"):
            while self._blank(newlines=True) and not self._takes("}"):
                self._assignment(path)
                self._blank(newlines=True)
                self._takes(",")
        elif self._peek() in "\"'":
            self._string()
        else:
            while self._peek() not in ",]}#\n":
                self.at += 1

    def _elements(self, path: Path) -> None:
        number = 0
        while self._blank(newlines=True) and not self._takes("]"):
            self.found[(*path, number)] = self.line
            self._value((*path, number))
            number += 1
            self._blank(newlines=True)
            self._takes(",")

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._blank(newlines=False)
            start = self.at
            if self._peek() in "\"'":
                self._string()
                quoted: str = tomllib.loads(f"k = {self.text[start : self.at]}")["k"]
                parts.append(quoted)
            else:
                while self._peek().isalnum() or self._peek() in "_-":
                    self.at += 1
                parts.append(self.text[start : self.at])
            self._blank(newlines=False)
            if not self._takes("."):
                return parts

    def _string(self) -> None:
        """Past a string of any of the four kinds."""
        quote = self._peek()
        end = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(end)
        while not self.text.startswith(end, self.at):
            if self._peek() == "\\" and quote == '"':
                self._advance()
            self._advance()
        self.at += len(end)
        while len(end) == 3 and self._peek() == quote:  # up to two more quotes may belong to it
            self.at += 1

    def _advance(self) -> None:
        if self._peek() == "\n":
            self.line += 1
        self.at += 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1] or "\n"

    def _takes(self, what: str) -> bool:
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def _blank(self, newlines: bool) -> bool:
        """Past blanks and comments; whether anything is left."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "#" and newlines:
                while self._peek() != "\n":
                    self.at += 1
            elif char in " \t" or (newlines and char == "\n"):
                self._advance()
            else:
                return True
        return False
