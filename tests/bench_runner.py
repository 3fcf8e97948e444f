"""What the runner itself costs: 100 cells x 10 repetitions of the null kernel, beside the meter alone. `make bench`.

The meter's own cost is what a judge would pay for the same: a launcher around the same program. It is called once
before each turn of the bench, so that other load and drift fall on both alike, and means are held against means: the
whole bench (planning, starting cells, looking at the host, keeping what they print, awaiting that nothing is left,
reading the records back, the table at its end), less the launcher's calls, by its runs. What that has more than a call
is the runner's own.
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

from proofcost import bench_progress, cli
from proofcost.bench_suites import families
from proofcost.bench_suites.series import Turn
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


def cpu_ns() -> float:
    """Of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) * 1e9


class Launcher:
    """The meter alone, called from here."""

    def __init__(self, folder: Path) -> None:
        launchers, store = folder / "launchers", str(folder / "store-of-launchers")
        subprocess.run([PROOFCOST, "install", launchers, "--store", store], check=True, stdout=subprocess.DEVNULL)
        self.argv = [str(launchers / "phase"), "--phase", "checker", "--", "/bin/true"]
        self.calls: list[Cost] = []

    def call(self) -> None:
        cpu_before, began = cpu_ns(), time.monotonic_ns()
        pid = os.posix_spawn(self.argv[0], self.argv, dict(os.environ))
        os.waitpid(pid, 0)
        self.calls.append(Cost(time.monotonic_ns() - began, cpu_ns() - cpu_before))

    def total(self) -> Cost:
        return Cost(sum(one.wall_ns for one in self.calls), sum(one.cpu_ns for one in self.calls))


def test_overhead_of_a_run(
    benchmark: BenchmarkFixture, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher = Launcher(folder)
    launcher.call()  # the first one makes its store
    launcher.calls.clear()
    begins = bench_progress.Progress.begins

    def call_first(self: bench_progress.Progress, turn: Turn) -> None:
        launcher.call()
        begins(self, turn)

    monkeypatch.setattr(bench_progress.Progress, "begins", call_first)
    words = ["bench", "null=/bin/true", "--on", str(folder / "exports"), "--warmups", "0", "--order", "random"]
    whole: list[Cost] = []

    def measure() -> None:
        cpu_before, began = cpu_ns(), time.monotonic_ns()
        assert cli.main([*words, "-r", str(REPETITIONS), "--store", str(folder / "store")]) == 0
        whole.append(Cost(time.monotonic_ns() - began, cpu_ns() - cpu_before))

    benchmark.pedantic(measure, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    runs = CELLS * REPETITIONS
    assert len(read_store(folder / "store").records) == len(launcher.calls) == runs
    total = launcher.total()
    meter = Cost(total.wall_ns / runs, total.cpu_ns / runs)
    run = Cost((whole[0].wall_ns - total.wall_ns) / runs, (whole[0].cpu_ns - total.cpu_ns) / runs)
    added = Cost(run.wall_ns - meter.wall_ns, run.cpu_ns - meter.cpu_ns)
    benchmark.extra_info.update({"run": vars(run), "meter": vars(meter), "added": vars(added)})
    with capsys.disabled():
        print(f"\n{CELLS} cells x {REPETITIONS} repetitions of the null kernel; mean of a run, ms: wall, CPU")
        for name, cost in (("a run of the bench", run), ("the meter alone", meter), ("the runner adds", added)):
            print(f"  {name:<24}{cost.wall_ns / 1e6:7.2f}{cost.cpu_ns / 1e6:9.2f}")
        print(f"  the meter alone, median: {statistics.median(one.wall_ns for one in launcher.calls) / 1e6:.2f}")
        load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
        print(f"  load {load} on {os.cpu_count()} CPUs")
        print(f"  at most {MOST_NS / 1e6:.0f} ms: {'yes' if added.wall_ns <= MOST_NS else 'NO'}")
