"""File names made from keys, which may hold anything: short, plain, each one different."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]+")
_LONGEST = 60


def file_names(keys: Sequence[str]) -> list[str]:
    """One name for each key, in their order."""
    made: list[str] = []
    for key in keys:
        plain = _NOT_IN_NAMES.sub("-", key.lower())[:_LONGEST].strip("-") or "unnamed"
        name, number = plain, 2
        while name in made:
            name, number = f"{plain}-{number}", number + 1
        made.append(name)
    return made
