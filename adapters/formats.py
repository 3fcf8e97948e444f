"""Which files of other programs can be read, and which of them a given file is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from proofcost import adapters
from proofcost.adapters.foreign import Head, Source
from proofcost.harness.columns import Row

PREFIX = "from_"


class Format(Protocol):
    """What a module `from_FORMAT.py` offers (foreign.py)."""

    HELP: str
    MAPS: tuple[tuple[str, str, str], ...]
    UNKNOWN: tuple[str, ...]
    DEFECTS: tuple[str, ...]

    def fits(self, head: Head) -> bool: ...

    def rows(self, source: Source) -> Iterator[Row]: ...


@cache
def names() -> tuple[str, ...]:
    """The formats, by name."""
    found = (module.name for module in pkgutil.iter_modules(adapters.__path__))
    return tuple(sorted(name.removeprefix(PREFIX).replace("_", "-") for name in found if name.startswith(PREFIX)))


def load(name: str) -> Format:
    """The format of this name, one of `names()`."""
    return cast(Format, importlib.import_module(f"proofcost.adapters.{PREFIX}{name.replace('-', '_')}"))


def recognise(head: Head) -> list[str]:
    """The formats that a file may be of: one, none, or several where they look alike."""
    return [name for name in names() if load(name).fits(head)]
