"""The environment of a bench's kernels: a small one that is the same whoever calls, and what somebody asks for.

The caller's own would be part of what is measured, and of no record: with `RUST_BACKTRACE=1` a kernel that panics on a
rejected proof takes some seventy times as long over it. So a kernel gets PATH and HOME (programs and toolchains are
found by them), a fixed locale, the turn's own folder as TMPDIR, and what was named: `--env`, or `env` in a suite. What
was named is part of a kernel's settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

KEPT = ("PATH", "HOME")
FIXED = {"LANG": "C.UTF-8"}
COUNTING = ("VALGRIND_LIB",)
"""What valgrind needs where it is not installed in its own place; only for runs under it."""


class BadVariableError(ValueError):
    """No variable can be called so, or hold that. One line: what, and how to mend it."""


def base(folder: str, more: Sequence[str] = ()) -> dict[str, str]:
    """What every command gets. `folder`: its TMPDIR. `more`: the caller's variables that its way of starting needs."""
    kept = {name: os.environ[name] for name in (*KEPT, *more) if name in os.environ}
    return {**kept, **FIXED, "TMPDIR": folder}


def parse(words: Sequence[str]) -> dict[str, str]:
    """{name: value} of NAME=VALUE words, the last of a name. Raises BadVariableError."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadVariableError(f"{word[:60]!a}: not of the form NAME=VALUE; write for example RUST_BACKTRACE=1")
        found[name] = value
    check(found)
    return found


def check(variables: Mapping[str, str]) -> None:
    """Raises BadVariableError for what no environment can hold."""
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise BadVariableError(f"{name[:60]!a}: no variable's name: one is not empty and has no `=`")
        if "\0" in value:
            raise BadVariableError(f"{name[:60]!a}: its value has a NUL in it, which no variable can hold")
