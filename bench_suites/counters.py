"""What a kernel may run under to be counted, besides the meter: by name, how its command is wrapped.

A counter changes what is measured: wall and memory of such runs are the counter's, and reports leave them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Wrap = Callable[[tuple[str, ...], str], tuple[str, ...]]
"""(the kernel's words, an empty folder for the counter's files) -> the words that start it under the counter."""

COUNTERS: Mapping[str, Wrap] = {}


def wrapped(command: tuple[str, ...], counters: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """A kernel's command under all of `counters`, the first one outermost."""
    for name in reversed(counters):
        command = COUNTERS[name](command, folder)
    return command
