"""How runs ended, in the few classes that people count; and what a cell of one kernel on one submission came to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Ending(Enum):
    """In the order in which they are shown."""

    SOLVED = "solved"
    """The verdict that was to be expected; accepted, where none was; exit 0, where nobody tells what it means."""
    REJECTED = "rejected"
    """Not solved: what should be (or is by others) accepted."""
    WRONG = "wrongly accepted"
    """Accepted what was to be rejected."""
    DECLINED = "declined"
    TIMEOUT = "timeout"
    MEMORY = "out of memory"
    CRASHED = "crashed"
    OTHER = "other"
    """No verdict for another reason: killed by nobody knows whom, an exit code without meaning, never finished."""

    __hash__ = object.__hash__
    """Each is one object. Enum's own takes a call of Python, for each of a matrix's tens of thousands of cells."""


_OF = {
    "declined": Ending.DECLINED,
    "time_limit": Ending.TIMEOUT,
    "cpu_limit": Ending.TIMEOUT,
    "memory_limit": Ending.MEMORY,
    "host_memory": Ending.MEMORY,
    "crashed": Ending.CRASHED,
    "exit 0": Ending.SOLVED,
}
UNTOLD = "exit 0"
"""An end without a verdict that counts as solved."""
CONTROL = "ran"
"""The end of what stands where a kernel stands and checks nothing."""


def ending(end: str, expected: str | None) -> Ending:
    """The class of one of `Cell.ends`."""
    if end == "accepted":
        return Ending.WRONG if expected == "rejected" else Ending.SOLVED
    if end == "rejected":
        return Ending.SOLVED if expected == "rejected" else Ending.REJECTED
    return _OF.get(end, Ending.OTHER)


def classed(ends: Mapping[str, int], expected: str | None) -> dict[Ending, int]:
    """How many of each class."""
    made: dict[Ending, int] = {}
    for end, count in ends.items():
        one = ending(end, expected)
        made[one] = made.get(one, 0) + count
    return made
