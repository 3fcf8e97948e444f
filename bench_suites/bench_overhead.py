"""What the meter itself costs, beside other tools, in one run: `make bench`.

Added wall per wrapped /bin/true, calls 100 ms apart (a judge's calls are apart; back to back everything is warmer), the
variants taken in turn so that drift and other load fall on all alike. What counts is each variant's median minus the
bare command's of the same rounds; CPU of the whole call stands beside it, because it suffers less from other load.

Each variant starts the same way: posix_spawn of an absolute path and wait4, from this process.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.adapters import launchers
from proofcost.harness import reading

ROUNDS = int(os.environ.get("PROOFCOST_BENCH_ROUNDS", "60"))
APART_S = 0.1
MIB = 1 << 20
PLAIN = Path(__file__).with_name("plain_adapter.py")
OURS = ("ours, --cgroup off", "ours, auto")
BARE, PERF, PLAIN_PYTHON = "bare", "perf stat", "plain Python adapter"


@dataclass
class Series:
    """One variant's calls: wall and CPU of each, ns."""

    command: list[str]
    wall_ns: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)

    def call(self, environment: dict[str, str]) -> None:
        began = time.monotonic_ns()
        pid = os.posix_spawn(self.command[0], self.command, environment)
        _, status, usage = os.wait4(pid, 0)
        self.wall_ns.append(time.monotonic_ns() - began)
        self.cpu_ns.append(round((usage.ru_utime + usage.ru_stime) * 1e9))
        assert status == 0, (self.command, status)


def shown(values: list[int]) -> str:
    """Median and where most values lie, ms."""
    spread = statistics.quantiles(values, n=20)
    return f"{statistics.median(values) / 1e6:7.2f}  [{spread[0] / 1e6:6.2f} .. {spread[-1] / 1e6:6.2f}]"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="proofcost-bench-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def perf() -> str:
    found = shutil.which("perf")
    if found is None:
        pytest.skip("no perf to compare with")
    return found


def installed(folder: Path, cgroup: str, *more: str) -> Path:
    """A launcher as a judge would have it: `proofcost install` with a store of its own."""
    proofcost = Path(sys.executable).with_name("proofcost")
    where = folder / cgroup
    arguments = ["install", str(where), "--store", str(folder / f"store-{cgroup}"), "--cgroup", cgroup, *more]
    subprocess.run([proofcost, *arguments], check=True, stdout=subprocess.DEVNULL)
    return where / "phase"


def variants(folder: Path, perf: str, command: list[str]) -> dict[str, Series]:
    ours = dict(zip(OURS, (installed(folder, "off"), installed(folder, "auto")), strict=True))
    plain = [launchers.choose_interpreter(), str(PLAIN), "--phase", "build", "--"]
    made = {
        BARE: Series(command),
        PERF: Series([perf, "stat", "-x,", "-o", str(folder / "perf.csv"), "-e", "task-clock", *command]),
        PLAIN_PYTHON: Series([*plain, *command]),
    }
    made.update({name: Series([str(path), "--phase", "build", "--", *command]) for name, path in ours.items()})
    return made


def take_turns(series: dict[str, Series], rounds: int, environment: dict[str, str], apart_s: float) -> None:
    for _ in range(3):  # caches of files, hosts, digests
        for one in series.values():
            Series(one.command).call(environment)
    for at in range(rounds):
        order = list(series.values())
        for one in order[at % len(order) :] + order[: at % len(order)]:
            time.sleep(apart_s)
            one.call(environment)


def once(benchmark: BenchmarkFixture, what: Callable[[], None]) -> None:
    """The measuring is ours; pytest-benchmark keeps the figures (`extra_info`) and the host's description."""
    benchmark.pedantic(what, rounds=1, iterations=1)  # type: ignore[no-untyped-call]


def verdict(what: str, value: float, limit: float) -> str:
    return f"  {what:<44}{value:6.2f}   at most {limit:.2f}: {'yes' if value <= limit else 'NO'}"


def test_added_wall_of_a_wrapped_true(
    benchmark: BenchmarkFixture, folder: Path, perf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "PLAIN_ADAPTER_METRICS": str(folder / "metrics.json")}
    series = variants(folder, perf, ["/bin/true"])
    once(benchmark, lambda: take_turns(series, ROUNDS, environment, APART_S))
    bare_wall = statistics.median(series[BARE].wall_ns)
    bare_cpu = statistics.median(series[BARE].cpu_ns)
    added = {name: statistics.median(one.wall_ns) - bare_wall for name, one in series.items()}
    cpu = {name: statistics.median(one.cpu_ns) - bare_cpu for name, one in series.items()}
    off, auto = OURS
    memory = max(
        record.finished["meter_cost"]["memory_peak_bytes"]
        for kind in ("off", "auto")
        for record in reading.read_store(folder / f"store-{kind}").records
        if record.finished
    )
    ratios = {
        "off_to_perf": added[off] / added[PERF],
        "off_to_plain": added[off] / added[PLAIN_PYTHON],
        "auto_to_perf": added[auto] / added[PERF],
    }
    benchmark.extra_info.update(
        {**ratios, "memory_mib": memory / MIB, **{f"added_ms {k}": v / 1e6 for k, v in added.items()}}
    )
    with capsys.disabled():
        print(f"\n/bin/true, {ROUNDS} rounds, calls {APART_S * 1000:.0f} ms apart; ms: median [5 % .. 95 %]")
        print(f"  {'':<24}{'wall of the call':<30}{'added':>8}{'added CPU':>12}")
        for name, one in series.items():
            print(f"  {name:<24}{shown(one.wall_ns):<30}{added[name] / 1e6:8.2f}{cpu[name] / 1e6:12.2f}")
        print(verdict("--cgroup off / perf stat", ratios["off_to_perf"], 1.5))
        print(verdict("--cgroup off / plain Python adapter", ratios["off_to_plain"], 0.5))
        print(verdict("auto / perf stat", ratios["auto_to_perf"], 3.0))
        print(verdict("resident memory, MiB", memory / MIB, 14.0 * 1e6 / MIB))


# What a comparator gives its sandbox around a build; the sandbox here is a link to `true`, which ignores it.
_LANDRUN = (
    "--best-effort --ro / --rw /dev -ldd -add-exec --env PATH --env HOME --env LEAN_ABORT_ON_PANIC "
    "--ro /project --rwx /project/.lake --rox /lean --rox /usr/bin/git -- lake build Solution"
)
_BWRAP = (
    "--ro-bind / / --tmpfs /home --tmpfs /root --tmpfs /run/user --tmpfs /tmp --dir /tmp/home --dev /dev --proc /proc "
    "--clearenv --tmpfs /run --tmpfs /var --ro-bind /project /project --ro-bind /lean /lean "
    "--bind /project/.lake /project/.lake --setenv PATH /lean/bin:/usr/bin --setenv LEAN_ABORT_ON_PANIC 1 "
    "--setenv HOME /tmp/home --unshare-all --die-with-parent --new-session --chdir /project -- "
    "/lean/bin/lake build Solution"
)


def test_the_shims_cost_no_more_than_the_phase_adapter(
    benchmark: BenchmarkFixture, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same sandboxed call, once behind the measurement hook and once by the sandbox's own variable."""
    arguments = {"landrun": _LANDRUN.split(), "bwrap": _BWRAP.split()}
    reals = folder / "reals"
    reals.mkdir()
    for name in arguments:
        (reals / name).symlink_to("/bin/true")
    where = installed(folder, "off", *(word for name in arguments for word in (f"--{name}", str(reals / name)))).parent
    series = {BARE: Series(["/bin/true"])}
    for name, words in arguments.items():
        hook = [str(where / "phase"), "--phase", "build", "--", str(reals / name), *words]
        series |= {f"phase around {name}": Series(hook), f"{name} shim": Series([str(where / name), *words])}
    once(benchmark, lambda: take_turns(series, ROUNDS, dict(os.environ), APART_S))
    bare = series[BARE]
    wall = {name: statistics.median(one.wall_ns) - statistics.median(bare.wall_ns) for name, one in series.items()}
    cpu = {name: statistics.median(one.cpu_ns) - statistics.median(bare.cpu_ns) for name, one in series.items()}
    ratios = {
        f"{name} shim / phase around {name}, {what}": of[f"{name} shim"] / of[f"phase around {name}"]
        for name in arguments
        for what, of in (("wall", wall), ("CPU", cpu))
    }
    benchmark.extra_info.update(ratios)
    with capsys.disabled():
        print(f"\na sandboxed /bin/true, --cgroup off, {ROUNDS} rounds; ms: median [5 % .. 95 %]")
        for name, one in series.items():
            print(f"  {name:<24}{shown(one.wall_ns):<30}{wall[name] / 1e6:8.2f}{cpu[name] / 1e6:12.2f}")
        for name, ratio in ratios.items():
            print(verdict(name, ratio, 1.0))


SLEEPER_C = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec a, b, half = {0, 500000000};
    clock_gettime(CLOCK_MONOTONIC, &a);
    nanosleep(&half, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%lld\\n", (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec);
    return 0;
}
"""


@pytest.fixture(scope="module")
def gcc() -> str:
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("no gcc for the sleeper")
    return found


def test_wall_of_a_sleep(
    benchmark: BenchmarkFixture, folder: Path, perf: str, gcc: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What each tool says of a sleep, against what the sleeper saw by its own clock."""
    launcher = installed(folder, "auto") if not (folder / "auto").exists() else folder / "auto" / "phase"
    program = folder / "sleeper"
    source = folder / "sleeper.c"
    source.write_text(SLEEPER_C)
    subprocess.run([gcc, "-O1", "-o", program, source], check=True)
    bias: dict[str, list[int]] = {PERF: [], "ours": []}

    def by_perf() -> int:
        out = folder / "perf.csv"
        done = subprocess.run(
            [perf, "stat", "-x,", "-o", out, "-e", "duration_time", program], check=True, capture_output=True
        )
        line = next(line for line in out.read_text().splitlines() if "duration_time" in line)
        return int(line.split(",")[0]) - int(done.stdout)

    def by_us() -> int:
        done = subprocess.run([launcher, "--phase", "build", "--", program], check=True, capture_output=True)
        store = reading.read_store(folder / "store-auto")
        last = max(store.records, key=lambda record: record.started_at_ns or 0)
        figure = last.measurement("wall_command")
        assert figure is not None
        assert figure.value is not None
        return figure.value - int(done.stdout)

    def rounds() -> None:
        for _ in range(max(5, ROUNDS // 3)):
            bias[PERF].append(by_perf())
            bias["ours"].append(by_us())

    once(benchmark, rounds)
    medians = {name: statistics.median(values) for name, values in bias.items()}
    benchmark.extra_info.update({f"bias_ms {name}": value / 1e6 for name, value in medians.items()})
    with capsys.disabled():
        print("\nsleep 0.5: what is said minus what the sleeper saw; ms: median [5 % .. 95 %]")
        for name, values in bias.items():
            print(f"  {name:<24}{shown(values)}")
        print(verdict("bias, ours / perf stat", medians["ours"] / medians[PERF], 1.0))
