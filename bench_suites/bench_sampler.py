"""What sampling costs while a command runs: the meter's own CPU, % of one core. Part of `make bench`.

The meter's wait loop as it is, over a cgroup with six sleeping processes, on the clock; with nothing read, with the
cgroup's three files alone, and with everything (processes and host once a second, the timeline written).
"""

import gc
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.harness import cgroup, hierarchy, procfs, sample, samples, signals

LENGTH_S = float(os.environ.get("PROOFCOST_BENCH_SAMPLER_S", "4"))
ROUNDS = 3
"""In turn, the least of each: what else the host does makes caches cold, which only ever adds."""
PROCESSES = 6
TARGET = 0.2


@pytest.fixture(scope="module")
def group() -> Iterator[tuple[cgroup.Group, int]]:
    """A cgroup as a call's, and the pid of a process in it."""
    own = hierarchy.find_own()
    made = cgroup.Group(own.kind)
    made.make({name: hierarchy.base_for(own, name) for name in hierarchy.wanted(own)}, f"proofcost-bench-{os.getpid()}")
    if not made.dirs:
        pytest.skip(f"no cgroup here: {made.reasons}")
    inside = [subprocess.Popen(["/bin/sleep", "1000"]) for _ in range(PROCESSES)]
    for one in inside:
        for directory in made.dirs.values():
            procfs.write_file(directory + "/cgroup.procs", str(one.pid).encode())
    yield made, inside[0].pid
    for one in inside:
        one.kill()
        one.wait()
    made.wait_empty(1_000_000_000)
    made.remove(whole=True)


def loop(sampler: sample.Sampler) -> float:
    """CPU of the meter's wait loop, % of one core."""
    gc.disable()  # as a launcher does
    try:
        end = time.monotonic() + LENGTH_S
        began = time.process_time_ns()
        while time.monotonic() < end:
            if signals.take(max(0, sampler.due_ns() - time.monotonic_ns()) / 1e9) is None:
                sampler.tick()
        return (time.process_time_ns() - began) / LENGTH_S / 1e7
    finally:
        gc.enable()


def measure(group: cgroup.Group, pid: int, what: str, monkeypatch: pytest.MonkeyPatch) -> float:
    with monkeypatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        one = sample.Sampler(group.dirs, ["/tmp"] if what == "all" else [])
        if what == "nothing":
            patch.setattr(samples.Taker, "fast", lambda self, now: None)
        if what != "all":
            patch.setattr(samples.Taker, "processes", lambda self, now: None)
        one.begin(pid, f"{folder}/traces/s/i.ndjson.gz" if what == "all" else None)
        found = loop(one)
        one.end_trace(time.monotonic_ns(), None)
        assert one.fault is None
        assert what != "all" or list(Path(folder).glob("traces/s/*"))
    return found


def test_cpu_of_the_sampler(
    benchmark: BenchmarkFixture,
    group: tuple[cgroup.Group, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    signals.block_all()
    found: dict[str, float] = {}

    def all_of_them() -> None:
        for _ in range(ROUNDS):
            for what in ("nothing", "three cgroup files", "all"):
                found[what] = min(found.get(what, 100.0), measure(*group, what, monkeypatch))

    try:
        benchmark.pedantic(all_of_them, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    benchmark.extra_info.update({f"{what} %": value for what, value in found.items()})
    with capsys.disabled():
        print(
            f"\nthe sampler's own CPU, % of one core, {PROCESSES} processes, least of {ROUNDS} times {LENGTH_S:.0f} s"
        )
        for what, value in found.items():
            print(f"  {what:<24}{value:6.3f}")
        files = found["three cgroup files"]
        print(f"  three cgroup files at 10 Hz: at most {TARGET}: {'yes' if files <= TARGET else 'NO'}")
