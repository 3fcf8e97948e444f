"""Whether this host is quiet enough to measure on: what a look before each block finds.

Only cheap looks: a few small files, a quarter of a millisecond. What runs beside a kernel while it is measured stands
in its own record (`host_disturbance`); this is about what is there before anything of ours runs. Nothing is held up or
subtracted: who is told can stop, and the records are marked.

What we did ourselves a moment ago is no disturbance: a load average and a pressure average remember it. So those count
only before our first block, and what happens at this moment counts before each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from proofcost.harness import hierarchy, procfs, usage

LOOKS = 3
LOOK_APART_S = 0.001
"""A daemon that wakes for a moment is no load: only what runs at each of several looks counts."""
LOAD_PER_CPU_MOST = 0.1
PSI_MOST_PERCENT = {"cpu": 5.0, "memory": 1.0, "io": 10.0}
"""Share of the last ten seconds in which some task waited."""


class Quiet:
    """Looks at the host; keeps what it saw last, so that it can tell what has changed."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._proc = proc
        self._sys = sys
        self._first = True
        self._throttles = self._throttle_count()
        self._held_back_ns = _held_back_ns()

    def look(self) -> list[str]:
        """What speaks against a quiet host now, each as `what: how much`; empty when nothing does."""
        found = [*self._running(), *self._throttled(), *self._swap()]
        if self._first:
            found += [*self._load(), *self._pressure()]
        self._first = False
        return found

    def _read(self, name: str) -> bytes:
        return procfs.read_file(f"{self._proc}/{name}", 1 << 16) or b""

    def _running(self) -> list[str]:
        """Tasks that run or wait for a CPU, ours left out."""
        least = None
        for at in range(LOOKS):
            if at:
                time.sleep(LOOK_APART_S)
            running = others_running(self._read("loadavg"))
            if running is None:
                return []
            least = running if least is None else min(least, running)
            if not least:
                return []
        return [f"other tasks are running: {least}"]

    def _load(self) -> list[str]:
        words = self._read("loadavg").split()
        load = _decimal(words[0]) if words else None
        cpus = os.cpu_count() or 1
        if load is None or load <= LOAD_PER_CPU_MOST * cpus:
            return []
        return [f"load of the last minute: {load:.2f} on {cpus} CPUs"]

    def _pressure(self) -> list[str]:
        found = []
        for name, most in PSI_MOST_PERCENT.items():
            share = some_avg10(self._read(f"pressure/{name}"))
            if share is not None and share > most:
                found.append(f"{name} pressure: some task waited in {share:.1f} % of the last 10 s")
        return found

    def _throttled(self) -> list[str]:
        found = []
        count = self._throttle_count()
        if count is not None and self._throttles is not None and count > self._throttles:
            found.append(f"CPUs throttled by heat since the last look: {count - self._throttles} times")
        self._throttles = count
        held_back = _held_back_ns()
        if held_back > self._held_back_ns:
            found.append(f"CPU quota held us back since the last look: {(held_back - self._held_back_ns) / 1e6:.1f} ms")
        self._held_back_ns = held_back
        return found

    def _throttle_count(self) -> int | None:
        """Thermal throttling events of all cores (x86 counts them); None where the machine does not tell."""
        folder = f"{self._sys}/devices/system/cpu"
        try:
            names = [name for name in os.listdir(folder) if name.startswith("cpu") and name[3:].isdigit()]
        except OSError:
            return None
        files = (f"{folder}/{name}/thermal_throttle/core_throttle_count" for name in names)
        counts = [count for file in files if (count := procfs.read_int(file)) is not None]
        return sum(counts) if counts else None

    def _swap(self) -> list[str]:
        """Swap that is in use: what was swapped out comes back while something is measured."""
        table = _meminfo(self._read("meminfo").splitlines())
        total, free = table.get(b"SwapTotal", 0), table.get(b"SwapFree", 0)
        return [f"swap in use: {total - free} bytes"] if total - free > total // 20 else []


def others_running(loadavg: bytes) -> int | None:
    """Tasks that run or wait for a CPU, less the one that asks, from /proc/loadavg; None when it is not understood."""
    words = loadavg.split()
    running = words[3].partition(b"/")[0] if len(words) > 3 else b""
    return max(0, int(running) - 1) if running.isdigit() else None


def some_avg10(pressure: bytes) -> float | None:
    """Per cent of the last 10 s in which some task waited, from a file of /proc/pressure."""
    for line in pressure.splitlines():
        if line.startswith(b"some "):
            for word in line.split():
                if word.startswith(b"avg10="):
                    return _decimal(word[6:])
    return None


def memory_available_bytes(proc: str = "/proc") -> int | None:
    """What the host could give without swapping."""
    raw = procfs.read_file(f"{proc}/meminfo", 1 << 16) or b""
    return _meminfo(raw.splitlines()).get(b"MemAvailable")


def memory_total_bytes(proc: str = "/proc") -> int | None:
    """What the host has."""
    raw = procfs.read_file(f"{proc}/meminfo", 1 << 16) or b""
    return _meminfo(raw.splitlines()).get(b"MemTotal")


def _meminfo(lines: Iterable[bytes]) -> dict[bytes, int]:
    table = {}
    for line in lines:
        name, _, rest = line.partition(b":")
        words = rest.split()
        if words and words[0].isdigit():
            table[name] = int(words[0]) * 1024
    return table


def _held_back_ns() -> int:
    """How long CPU quotas above us have held anything back so far."""
    return sum(usage.throttled(hierarchy.find_own().dirs).values())


def _decimal(word: bytes) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
