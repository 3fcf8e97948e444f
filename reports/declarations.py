"""Two host classes taken as one by somebody's word: kept in the store, with the runs that show it.

`declared/` of a store: `<class>+<class>.json`, and beside it `<class>+<class>.parquet`, the records that were
the evidence. Only what may be declared harmless can be (microcode, the host's kernel, hypervisor): classes whose first
halves differ do so in what matters for cost, and no declaration changes that.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofcost.reports.statistics.connected import connected_hosts

if TYPE_CHECKING:
    from proofcost.reports.dataset import Data
    from proofcost.reports.where import Where

FOLDER = "declared"
SCHEMA = 1
MAX_BYTES = 1 << 20
SAID_CHARACTERS = 300
_CLASS = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")


class DeclarationError(Exception):
    """What cannot be declared. One line: what, why, and what would do."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """One pair."""

    one: str
    other: str
    said: str
    """What its evidence showed, for people."""
    sha256: str
    """Of the evidence."""
    at_ns: int
    """When it was declared, ns since 1970."""

    @property
    def shown(self) -> str:
        return f"{self.said} (evidence {self.sha256[:12]})"


def is_class(text: str) -> bool:
    return _CLASS.fullmatch(text) is not None


def may_be_one(one: str, other: str) -> bool:
    """Whether two classes differ only in what may be declared harmless."""
    return one.split("-")[0] == other.split("-")[0]


def read(paths: Sequence[str | os.PathLike[str]]) -> tuple[Declaration, ...]:
    """The declarations of every store among `paths`; what is no sound declaration is skipped."""
    found: dict[tuple[str, str], Declaration] = {}
    for path in paths:
        for file in sorted(Path(path).glob(f"{FOLDER}/*.json")):
            declaration = _declaration(file)
            if declaration is not None:
                found.setdefault((declaration.one, declaration.other), declaration)
    return tuple(found.values())


def _declaration(file: Path) -> Declaration | None:
    try:
        with file.open("rb") as opened:
            raw = json.loads(opened.read(MAX_BYTES))
        one, other = raw["classes"]
        evidence = raw["evidence"]
        said, sha256, at_ns = evidence["said"], evidence["sha256"], raw["declared_at_ns"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    sound = raw.get("schema") == SCHEMA and all(type(text) is str for text in (one, other, said, sha256))
    if not sound or type(at_ns) is not int or not (is_class(one) and is_class(other) and may_be_one(one, other)):
        return None
    return Declaration(one, other, said[:SAID_CHARACTERS], sha256, at_ns)


def pooled(declared: Iterable[Declaration]) -> dict[str, str]:
    """Class -> the class it counts as: the first by name of all that declarations chain together."""
    pairs = [(number, name) for number, one in enumerate(declared) for name in (one.one, one.other)]
    return {name: min(group) for group in connected_hosts(pairs) for name in group}


def notes(declared: Iterable[Declaration], seen: Iterable[str]) -> list[str]:
    """What to say beside figures of the host classes `seen`: which of them were pooled, and on what grounds."""
    classes = set(seen)
    as_one = pooled(declared)
    together = {as_one.get(name, name) for name in classes}
    if len(together) == len(classes):
        return []
    used = [one for one in declared if sum(as_one.get(name) == as_one[one.one] for name in classes) > 1]
    return [f"host classes {one.one} and {one.other} are pooled, as declared: {one.shown}" for one in used]


def said_of(*chosen: tuple[Data, Where]) -> list[str]:
    """`notes` for the chosen records of one data set or several."""
    declared: dict[Declaration, None] = {}
    seen: set[str] = set()
    for data, where in chosen:
        if data.declared:
            declared.update(dict.fromkeys(data.declared))
            query = f"SELECT DISTINCT host_class FROM records WHERE ({where.sql}) AND host_class IS NOT NULL"
            seen.update(str(row[0]) for row in data.rows(query, where.parameters))
    return notes(declared, seen)


def write(store: Path, declaration: Declaration, details: Mapping[str, Any]) -> Path:
    """Keep it in a store, whole or not at all. `details`: of the evidence, for programs. Raises OSError."""
    folder = store / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name_of(declaration.one, declaration.other)}.json"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    raw = {
        "schema": SCHEMA,
        "classes": [declaration.one, declaration.other],
        "declared_at_ns": declaration.at_ns,
        "evidence": {**details, "said": declaration.said, "sha256": declaration.sha256},
    }
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            json.dump(raw, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    return path


def name_of(one: str, other: str) -> str:
    return "+".join(sorted((one, other)))
