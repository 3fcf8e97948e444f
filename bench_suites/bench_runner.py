"""What the runner itself costs: 100 cells x 10 repetitions of the null kernel, beside the meter alone. `make bench`.

The meter's own cost is what a judge would pay for the same: a launcher around the same program, called as often from
here, in the same minutes. What the runner adds to that is its own: planning, starting cells, keeping what they print,
looking at the host, awaiting that nothing is left, reading the records back.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.bench_suites import families
from proofcost.harness.reading import read_store

CELLS = int(os.environ.get("PROOFCOST_BENCH_CELLS", "100"))
REPETITIONS = 10
MOST_NS = 25_000_000
PROOFCOST = Path(sys.executable).with_name("proofcost")


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="proofcost-bench-"))
    (made / "exports").mkdir()
    for at in range(CELLS):
        with (made / "exports" / f"{at:03d}.ndjson").open("wb") as file:
            families.parse(f"church:{8 + at}").write(file.write)
    yield made
    shutil.rmtree(made)


@dataclass(frozen=True)
class Cost:
    """Of one call or run: wall, and CPU of all its processes, ns. CPU suffers less from what else the host does."""

    wall_ns: float
    cpu_ns: float


def cpu_of_children_ns() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e9


def meter_alone(folder: Path, calls: int) -> Cost:
    """Of a call through a launcher."""
    launchers = folder / "launchers"
    store = str(folder / "store-of-launchers")
    subprocess.run([PROOFCOST, "install", launchers, "--store", store], check=True, stdout=subprocess.DEVNULL)
    argv = [str(launchers / "phase"), "--phase", "checker", "--", "/bin/true"]
    took = []
    cpu_before = cpu_of_children_ns()
    for _ in range(calls):
        began = time.monotonic_ns()
        pid = os.posix_spawn(argv[0], argv, dict(os.environ))
        os.waitpid(pid, 0)
        took.append(time.monotonic_ns() - began)
    return Cost(statistics.median(took), (cpu_of_children_ns() - cpu_before) / calls)


def bench(folder: Path, store: str, repetitions: int) -> Cost:
    """Of a whole bench."""
    argv = [PROOFCOST, "bench", "null=/bin/true", "--on", folder / "exports", "--warmups", "0", "--order", "random"]
    cpu_before, began = cpu_of_children_ns(), time.monotonic_ns()
    subprocess.run(
        [*map(str, argv), "-r", str(repetitions), "--store", str(folder / store)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return Cost(time.monotonic_ns() - began, cpu_of_children_ns() - cpu_before)


def test_overhead_of_a_run(benchmark: BenchmarkFixture, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: dict[str, Cost] = {}

    def measure() -> None:
        before = meter_alone(folder, 50)
        whole = bench(folder, "store", REPETITIONS)
        start = bench(folder, "store-of-start", 1)
        after = meter_alone(folder, 50)
        seen["meter"] = Cost((before.wall_ns + after.wall_ns) / 2, (before.cpu_ns + after.cpu_ns) / 2)
        # Its start (imports, looking through the exports) and its end (the table) are once, not for each run.
        runs = CELLS * (REPETITIONS - 1)
        seen["run"] = Cost((whole.wall_ns - start.wall_ns) / runs, (whole.cpu_ns - start.cpu_ns) / runs)

    benchmark.pedantic(measure, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    assert len(read_store(folder / "store").records) == CELLS * REPETITIONS
    run, meter = seen["run"], seen["meter"]
    added = Cost(run.wall_ns - meter.wall_ns, run.cpu_ns - meter.cpu_ns)
    benchmark.extra_info.update({"run": vars(run), "meter": vars(meter), "added": vars(added)})
    with capsys.disabled():
        print(f"\n{CELLS} cells x {REPETITIONS} repetitions of the null kernel; ms for each run: wall, CPU")
        for name, cost in (("a run of the bench", run), ("the meter alone", meter), ("the runner adds", added)):
            print(f"  {name:<24}{cost.wall_ns / 1e6:7.2f}{cost.cpu_ns / 1e6:9.2f}")
        print(f"  at most {MOST_NS / 1e6:.0f} ms: {'yes' if added.wall_ns <= MOST_NS else 'NO'}")
