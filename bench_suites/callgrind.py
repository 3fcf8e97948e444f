"""Instruction counts on a host without counters: a kernel's command under `valgrind --tool=callgrind`.

Callgrind translates the program and counts what it executes: the same number again, to about 10^-6, on any host with
the same binary and input, and some 25 times slower. It is not what a processor retires, so it has a name of its own,
`instructions_callgrind`, and is never pooled with `instructions:u`; wall, CPU and memory of such a run are valgrind's
and no values (`only_the_count`).

What it does not see: the host kernel's work in system calls; what a process did before it executed another program (its
file is written anew); other processes, unless children are followed. A child that was forked and executed nothing
counts everything from before its fork a second time (tried with 3.19), so where there is one there is no count.

Threads take turns under valgrind and how they do varies: counts are for 1 thread.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from proofcost.harness.record import Json, escape_text, measurement, unavailable

NAME = "instructions_callgrind"
THREADS = 1
RUNS = 3
"""So many runs of each side tell the spread; more would tell little."""

NOT_A_VALUE = "the command ran under valgrind: only its instructions are the command's own"

_OUT, _LOG = "callgrind.out.", "valgrind.log."
_HEAD_BYTES = 4 << 20
"""The command line stands in the header and in the log, uncut."""
_TAIL_BYTES = 4096
_NUMBER = re.compile(rb"[0-9]{1,18}")
_EXECUTED = re.compile(rb"^==[0-9]+== For interactive control", re.M)
"""Callgrind says so in the log of every process that was executed, not of one that only forked."""


class CallgrindError(Exception):
    """There is no count to be had; one line: what, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Callgrind:
    """A valgrind that was found: its absolute path, and its version as it says it (`valgrind-3.19.0`)."""

    path: str
    version: str


def find(path: str | None = None) -> Callgrind:
    """The valgrind at `path`, else the one on PATH. Raises CallgrindError."""
    found = shutil.which(path or "valgrind")
    if found is None:
        where = f"{path}: no such program" if path else "no valgrind on PATH"
        raise CallgrindError(f"--counter callgrind: {where}; install it (Debian: apt-get install valgrind)")
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CallgrindError(f"--counter callgrind: {found} --version: {error}") from None
    version = done.stdout.strip()
    if done.returncode != 0 or not re.fullmatch(r"valgrind-[0-9][0-9A-Za-z.\-]{0,30}", version):
        said = escape_text(version or done.stderr.strip())[:100]
        raise CallgrindError(f"--counter callgrind: {found} --version said {said!r}, which is no valgrind's version")
    return Callgrind(os.path.abspath(found), version)


def wrapped(tool: Callgrind, command: Sequence[str], folder: str, children: bool = True) -> list[str]:
    """`command` under callgrind, its files in `folder`: absolute, empty, this run's alone, writable for the command.

    Streams and exit status stay the command's own: valgrind's words go into a file. A sandbox belongs around the
    result, not inside it: callgrind cannot follow Go programs (landrun).
    """
    place = folder.replace("%", "%%")
    return [
        tool.path,
        "--tool=callgrind",
        "--vgdb=no",  # no pipes in /tmp, which a sandbox may not allow
        f"--trace-children={'yes' if children else 'no'}",
        f"--callgrind-out-file={place}/{_OUT}%p",
        f"--log-file={place}/{_LOG}%p",
        *command,
    ]


def figure(tool: Callgrind, folder: str, children: bool = True) -> dict[str, Json]:
    """The measurement `instructions_callgrind` from what a run left in `folder`; unavailable with the reason why."""
    method = f"{tool.version} --tool=callgrind, {THREADS} thread"
    try:
        counts = _counts(folder, children)
    except CallgrindError as error:
        return unavailable("count", method, escape_text(str(error))[:300])
    seen = f"{len(counts)} process{'es' if len(counts) > 1 else ''}"
    unseen = "not seen: system calls' work in the host's kernel, programs that replaced themselves by another"
    if not children:
        unseen += ", other processes"
    return measurement(sum(counts), "count", f"{method}, {seen}; {unseen}")


def only_the_count(figures: dict[str, dict[str, Json]], count: dict[str, Json]) -> None:
    """Make a record's figures those of a run under callgrind: the count, and nothing else a value."""
    for name, one in figures.items():
        if one["value"] is not None:
            figures[name] = unavailable(str(one["unit"]), str(one["method"]), NOT_A_VALUE)
    figures[NAME] = count


def _counts(folder: str, children: bool) -> list[int]:
    """Each process's instructions. Raises CallgrindError when what is there does not make a count."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CallgrindError(f"{folder}: {error.strerror}") from None
    logs = [name.removeprefix(_LOG) for name in names if name.startswith(_LOG)]
    executed = [pid for pid in logs if _EXECUTED.search(_part(f"{folder}/{_LOG}{pid}", 0, _HEAD_BYTES))]
    if not executed:
        raise CallgrindError("valgrind executed no program")
    forked = sum(name.startswith(_OUT) and name.removeprefix(_OUT) not in executed for name in names)
    if forked and children:
        raise CallgrindError(
            f"{forked} process(es) forked and executed nothing: callgrind counts what came before the fork twice"
        )
    for pid in executed:
        if _OUT + pid not in names:
            raise CallgrindError(f"process {pid} ended before callgrind could write its count")
    paths = [f"{folder}/{_OUT}{pid}" for pid in executed]
    return [read_total(_part(path, 0, _HEAD_BYTES), _part(path, -_TAIL_BYTES, _TAIL_BYTES)) for path in paths]


def read_total(head: bytes, tail: bytes) -> int:
    """The instructions (event `Ir`) of one process, from the beginning and the end of its file.

    From `totals:`, the last line: without it, or without its line's end, the file was cut short. (`summary:` in the
    header falls some instructions short where a signal was handled.) Raises CallgrindError.
    """
    found = re.findall(rb"^events:(.*)$", head, re.M)
    if not found:
        raise CallgrindError("not a callgrind file: no `events:` in its header")
    events = found[-1].split()  # the command line stands before it
    if b"Ir" not in events:
        raise CallgrindError("the callgrind file counts no instructions (no event Ir)")
    lines = tail.split(b"\n")
    if len(lines) < 2 or lines[-1] or not lines[-2].startswith(b"totals:"):
        raise CallgrindError("the callgrind file has no end: killed while it was written, or the disk is full")
    sums = lines[-2].removeprefix(b"totals:").split()
    at = events.index(b"Ir")
    if at >= len(sums) or not _NUMBER.fullmatch(sums[at]):
        raise CallgrindError("the callgrind file's totals are no numbers")
    return int(sums[at])


def _part(path: str, offset: int, count: int) -> bytes:
    """`count` bytes of a file from `offset` on; a negative one counts from its end. Raises CallgrindError."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size + offset) if offset < 0 else offset)
            return file.read(count)
    except OSError as error:
        raise CallgrindError(f"{path}: {error.strerror}") from None
