"""How fast other programs' results are imported and in how much memory, beside peers, in one run: `make bench`.

Files such as the arena and hyperfine write (PROOFCOST_BENCH_IMPORT_MB, default 200), and halves of them, by `json.load`
and `orjson.loads` of the whole file (which give no rows and hold all of it), by DuckDB,
and by `proofcost import`, each in a process of its own. Speed is told by CPU time, which other load disturbs less than
wall time. What the memory grows by from the smaller file to the larger says what a file of 2 GB would take.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

MEGABYTES = float(os.environ.get("PROOFCOST_BENCH_IMPORT_MB", "200"))
ROWS_S = 20_000
"""What is asked for, at least."""
LARGE_BYTES, LARGE_MIB = 2_000_000_000, 1024
"""So large a file in at most so much memory."""
RUNS = 1000
"""Of one command, in hyperfine's file."""

JSON, ORJSON, DUCKDB, OURS = "json.load", "orjson.loads", "DuckDB's read_json", "ours, import"
PROGRAMS = {
    JSON: "import json, sys; json.load(open(sys.argv[1]))",
    ORJSON: "import orjson, sys; orjson.loads(open(sys.argv[1], 'rb').read())",
    DUCKDB: """
import sys, duckdb
connection = duckdb.connect()
connection.execute("SET threads = 1")
query = "SELECT count(*) FROM (SELECT unnest(results) FROM read_json(?, maximum_object_size = 4000000000))"
connection.execute(query, [sys.argv[1]]).fetchall()
""",
    OURS: """
import sys
from proofcost.cli import main
sys.exit(main(["import", "--store", sys.argv[2], sys.argv[1]]))
""",
}


def arena(path: Path, size: int, chance: random.Random) -> int:
    """A site's results.json of at least `size` bytes; how many results."""
    count = 0
    with path.open("w") as file:
        file.write('{"meta":{"timestamp":"2026-08-01T00:00:00Z"},"tests":[],"checkers":[],"results":[')
        while file.tell() < size:
            result = {
                "checker": chance.choice(["official", "nanoda", "lean4lean", "con-leche"]),
                "test": f"test-{count // 20}/case",
                "status": "accepted",
                "correctness": "correct",
                "exit_code": 0,
                "wall_time": round(chance.random() * 100, 6),
                "cpu_time": round(chance.random() * 100, 6),
                "max_rss": chance.randrange(10**6, 10**10),
                "instructions": chance.randrange(10**9, 10**13),
                "stdout": "ok\n",
                "stderr": "",
            }
            file.write(("," if count else "") + json.dumps(result))
            count += 1
        file.write("]}")
    return count


def hyperfine(path: Path, size: int, chance: random.Random) -> int:
    """An --export-json of at least `size` bytes; how many runs."""
    count = 0
    with path.open("w") as file:
        file.write('{"results":[')
        while file.tell() < size:
            times = [chance.random() for _ in range(RUNS)]
            result = {
                "command": f"nanoda {count}",
                "mean": sum(times) / RUNS,
                "times": times,
                "memory_usage_byte": [chance.randrange(10**6, 10**9) for _ in times],
                "exit_codes": [0] * RUNS,
            }
            file.write(("," if count else "") + json.dumps(result))
            count += RUNS
        file.write("]}")
    return count


MAKERS: dict[str, Callable[[Path, int, random.Random], int]] = {"arena": arena, "hyperfine": hyperfine}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="proofcost-bench-") as made:
        yield Path(made)


def once(benchmark: BenchmarkFixture, what: Callable[[], None]) -> None:
    """The measuring is ours; pytest-benchmark keeps the figures (`extra_info`) and the host's description."""
    benchmark.pedantic(what, rounds=1, iterations=1)  # type: ignore[no-untyped-call]


def spent(program: str, path: Path, store: Path) -> tuple[float, float, float]:
    """(CPU seconds, wall seconds, peak in MiB) of a program that succeeds."""
    shutil.rmtree(store, ignore_errors=True)
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", program, str(path), str(store)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, program
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024


@pytest.mark.parametrize("name", MAKERS)
def test_import(benchmark: BenchmarkFixture, folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    small, large, store = folder / f"{name}-small.json", folder / f"{name}.json", folder / "store"
    MAKERS[name](small, int(MEGABYTES * 5e5), random.Random(1))
    rows = MAKERS[name](large, int(MEGABYTES * 1e6), random.Random(2))
    found: dict[str, tuple[float, float, float]] = {}
    peak_small = 0.0

    def rounds() -> None:
        nonlocal peak_small
        for one, program in PROGRAMS.items():
            found[one] = spent(program, large, store)
        peak_small = spent(PROGRAMS[OURS], small, store)[2]

    once(benchmark, rounds)
    peak = found[OURS][2]
    grows = max(0.0, peak - peak_small) / (large.stat().st_size - small.stat().st_size)
    at_large = peak + grows * (LARGE_BYTES - large.stat().st_size)
    speed = rows / found[OURS][0]
    with capsys.disabled():
        print(f"\n\n{name}: {rows:,} rows, {large.stat().st_size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}")
        for one, (cpu_s, wall_s, peak_mib) in found.items():
            asked = f"   at least {ROWS_S:,}: {'yes' if speed >= ROWS_S else 'NO'}" if one == OURS else ""
            print(f"{one:<22}{rows / cpu_s:>12,.0f} rows a CPU second{rows / wall_s:>12,.0f} a second", end="")
            print(f"{peak_mib:>8.0f} MiB{asked}")
        print(f"half of the file took {peak_small:.0f} MiB: 2 GB would take {at_large:.0f} MiB", end="")
        print(f"   at most {LARGE_MIB}: {'yes' if at_large <= LARGE_MIB else 'NO'}")
    benchmark.extra_info.update(
        rows=rows,
        load=os.getloadavg()[0],
        cpu_s={one: cpu_s for one, (cpu_s, _, _) in found.items()},
        peak_mib={one: peak_mib for one, (_, _, peak_mib) in found.items()},
        ratio_to_json=found[OURS][0] / found[JSON][0],
        peak_mib_small=peak_small,
        peak_mib_at_2_gb=at_large,
    )
