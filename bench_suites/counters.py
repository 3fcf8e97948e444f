"""What a kernel may run under to be counted, besides the meter: by name, how its command is wrapped.

A counter changes what is measured: wall and memory of such runs are the counter's, so their records hold the count
and no other value (cell.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from proofcost.bench_suites import callgrind

CALLGRIND = "callgrind"
RUNS = callgrind.RUNS
"""Repetitions where nothing else is asked for."""

Wrap = Callable[[tuple[str, ...], str], tuple[str, ...]]
"""(the kernel's words, its folder, where the counter's files go too) -> the words that start it under the counter."""


@cache
def found() -> callgrind.Callgrind:
    """The valgrind of this machine. Raises CallgrindError."""
    return callgrind.find()


def _under_callgrind(command: tuple[str, ...], folder: str) -> tuple[str, ...]:
    return tuple(callgrind.wrapped(found(), command, folder))


COUNTERS: Mapping[str, Wrap] = {CALLGRIND: _under_callgrind}


def wrapped(command: tuple[str, ...], counters: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """A kernel's command under all of `counters`, the first one outermost."""
    for name in reversed(counters):
        command = COUNTERS[name](command, folder)
    return command


def refusal(counters: tuple[str, ...], threads: tuple[int, ...], sandbox: str) -> str | None:
    """Why a bench of this kind cannot be counted; None when it can."""
    if CALLGRIND not in counters:
        return None
    if threads != (callgrind.THREADS,):
        shown = ", ".join(map(str, threads))
        return (
            f"--counter callgrind with {shown} threads: under valgrind threads take turns as chance has it; give "
            "--threads 1"
        )
    if sandbox != "none":
        return f"--counter callgrind in {sandbox}: valgrind must write and execute what it forbids; give --sandbox none"
    try:
        found()
    except callgrind.CallgrindError as error:
        return str(error)
    return None
