"""What is known of kernels by the name of their program: what they are called, and what their exit codes mean.

kernels.toml beside this file says it, and says more, which `bench` reads (bench_suites/registry.py). A judge's call
does not tell which version it ran, so a code means something here only if all versions that were tried agree.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from typing import Any

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.toml")

SANDBOX_CODES = frozenset({0, 1, 2, *range(125, 128)})
"""What a sandbox that never reached its program may exit with, too."""


@cache
def _entries() -> dict[str, tuple[str, dict[int, str]]]:
    """{program's file name: (the kernel's name, {exit code: meaning})}; controls left out."""
    with open(FILE, "rb") as file:
        known: dict[str, dict[str, Any]] = tomllib.load(file)
    return {
        program: (name, _meanings(entry))
        for name, entry in known.items()
        if not entry.get("control")
        for program in entry.get("programs", ())
    }


def _meanings(entry: dict[str, Any]) -> dict[int, str]:
    """What each code means in all versions that say anything by it; without tried versions as documented."""
    said: dict[str, set[str]] = {}
    for codes in [one["exit"] for one in entry.get("tried", ())] or [entry.get("exit", {})]:
        for code, meaning in codes.items():
            said.setdefault(code, set()).add(meaning)
    return {int(code): next(iter(meanings)) for code, meanings in said.items() if len(meanings) == 1}


def name_of(program: str | None) -> str | None:
    """What the kernel of this program (a file's name) is called; None for a program that is not known."""
    found = _entries().get(program or "")
    return found[0] if found else None


def meaning_of(program: str | None, code: int | None) -> str | None:
    """What this program says by an exit code: accepted, rejected, declined, error, memory; None where nobody knows."""
    found = _entries().get(program or "")
    return found[1].get(code) if found and code is not None else None
