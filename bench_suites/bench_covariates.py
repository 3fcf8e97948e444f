"""How fast exports are written and looked through, beside peers that do part of it, in one run: `make bench`.

Reading: a generated export (PROOFCOST_BENCH_MB, default 60) by `wc -l` (finds the lines, no more), by `orjson.loads`
of every line (the least that a parser in Python costs), and by our counting and depth passes, each in a process of its
own, in turn. All have one thread and find the file in the cache, so speed is told by CPU time, which other load on
the machine disturbs less than wall time; that stands beside it.

Writing: each family, into nothing, large enough to count.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.bench_suites import families
from proofcost.bench_suites.families.family import Family

MEGABYTES = int(os.environ.get("PROOFCOST_BENCH_MB", "60"))
ROUNDS = 3
COUNTS_MB_S, DEPTH_MB_S, WRITE_MB_S, COUNTS_MIB = 150, 15, 20, 60
"""What is asked for: at least, at least, at least, at most."""

WC, ORJSON, COUNTS, DEPTH = "wc -l", "orjson.loads of every line", "ours, counts", "ours, depth"
OURS = """
import sys
from pathlib import Path
from proofcost.bench_suites import covariates
covariates.read(Path(sys.argv[1]), depth={depth})
"""
LOADS = """
import sys, orjson
for line in open(sys.argv[1], "rb"):
    orjson.loads(line)
"""
PEAK = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])\n"


@pytest.fixture(scope="module")
def export() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="proofcost-bench-") as folder:
        path = Path(folder) / "export.ndjson"
        with path.open("wb") as file:
            families.generate("church", MEGABYTES * 2600, 0, file.write)
        yield path


def once(benchmark: BenchmarkFixture, what: Callable[[], None]) -> None:
    """The measuring is ours; pytest-benchmark keeps the figures (`extra_info`) and the host's description."""
    benchmark.pedantic(what, rounds=1, iterations=1)  # type: ignore[no-untyped-call]


def against(value: float, limit: float, *, at_least: bool) -> str:
    met = value >= limit if at_least else value <= limit
    return f"   {'at least' if at_least else 'at most'} {limit:g}: {'yes' if met else 'NO'}"


def test_reading(benchmark: BenchmarkFixture, export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = [sys.executable, "-c"]
    commands = {
        WC: ["wc", "-l", str(export)],
        ORJSON: [*python, LOADS + PEAK, str(export)],
        COUNTS: [*python, OURS.format(depth=False) + PEAK, str(export)],
        DEPTH: [*python, OURS.format(depth=True) + PEAK, str(export)],
    }
    megabytes = export.stat().st_size / 1e6
    cpu_s: dict[str, float] = dict.fromkeys(commands, float("inf"))
    wall_s = cpu_s.copy()
    peak_mib: dict[str, float] = {}

    def rounds() -> None:
        for _ in range(ROUNDS):
            for name, command in commands.items():
                began = time.monotonic()
                child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                assert child.stdout is not None
                with child.stdout:
                    printed = child.stdout.read()
                _, child.returncode, usage = os.wait4(child.pid, 0)
                assert child.returncode == 0, command
                wall_s[name] = min(wall_s[name], time.monotonic() - began)
                cpu_s[name] = min(cpu_s[name], usage.ru_utime + usage.ru_stime)
                if name != WC:
                    peak_mib[name] = int(printed) / 1024

    once(benchmark, rounds)
    speed = {name: megabytes / seconds for name, seconds in cpu_s.items()}
    ratios = {"counts_to_wc": cpu_s[COUNTS] / cpu_s[WC], "depth_to_orjson": cpu_s[DEPTH] / cpu_s[ORJSON]}
    benchmark.extra_info.update(
        {f"MB_s {name}": value for name, value in speed.items()}
        | {f"MiB {name}": value for name, value in peak_mib.items()}
        | ratios
    )
    targets = {COUNTS: COUNTS_MB_S, DEPTH: DEPTH_MB_S}
    with capsys.disabled():
        print(f"\nreading {megabytes:.0f} MB, least of {ROUNDS}")
        print(f"  {'':<28}{'MB per CPU s':>12}{'MB/s':>8}{'peak':>10}")
        for name in commands:
            memory = f"{peak_mib[name]:6.0f} MiB" if name in peak_mib else ""
            asked = against(speed[name], targets[name], at_least=True) if name in targets else ""
            print(f"  {name:<28}{speed[name]:12.0f}{megabytes / wall_s[name]:8.0f}{memory:>10}{asked}")
        print(f"  memory of counts, MiB{peak_mib[COUNTS]:19.0f}{against(peak_mib[COUNTS], COUNTS_MIB, at_least=False)}")
        for name, value in ratios.items():
            print(f"  {name:<28}{value:12.1f}")


def size_for(family: Family, bytes_: int) -> int:
    """An n that gives an export of at least `bytes_`, or the largest there is."""
    n = family.small
    while written(family.name, n) < bytes_ and 2 * n <= (family.n_max or 1 << 24):
        n *= 2
    return n


def written(name: str, n: int) -> int:
    size = 0

    def sink(block: bytes) -> None:
        nonlocal size
        size += len(block)

    families.generate(name, n, 0, sink)
    return size


def test_writing(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    speed: dict[str, tuple[int, float]] = {}

    def rounds() -> None:
        for family in families.FAMILIES:
            if family.size_exponent == 0:
                continue  # its exports stay small whatever n is
            n = size_for(family, 2_000_000)
            best = 0.0
            for _ in range(ROUNDS):
                began = time.process_time()
                size = written(family.name, n)
                best = max(best, size / (time.process_time() - began) / 1e6)
            speed[family.name] = n, best

    once(benchmark, rounds)
    benchmark.extra_info.update({f"MB_s {name}": value for name, (_, value) in speed.items()})
    with capsys.disabled():
        print(f"\nwriting, most of {ROUNDS}; MB per CPU s")
        for name, (n, value) in speed.items():
            print(f"  {name:<20}n {n:<10}{value:6.0f}{against(value, WRITE_MB_S, at_least=True)}")
