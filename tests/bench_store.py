"""How fast a store is compacted, into how many bytes, beside peers that do part of it, in one run: `make bench`.

A store of PROOFCOST_BENCH_RECORDS (default 20,000) records in as many files, made of real sessions with ids, clocks,
digests and figures of their own (multiplied.py), by `orjson.loads` of every line of every file (the least that a reader
in Python costs), by DuckDB reading the same lines as JSON, and by `store compact`, each in a process of its own, in
turn. One thread each; the files are in the cache, so speed is told by CPU time, which other load disturbs less than
wall time; that stands beside it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.bench_suites.multiplied import multiply

RECORDS = int(os.environ.get("PROOFCOST_BENCH_RECORDS", "20000"))
ROUNDS = 3
RECORDS_S, CORE_BYTES, ALL_BYTES = 10_000, 40, 250
"""What is asked for: at least (of a core), at most, at most."""
CORE = (
    *("record", "session", "host", "phase", "side", "subject", "kernel", "started_ns", "outcome", "exit_code", "cause"),
    *("verdict", "wall_program", "cpu_tree", "memory_peak_tree"),
)
"""What is asked for most: who, what, when, how it ended, and the three figures."""

REAL = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "records" / "measured-0.1.0"
ORJSON, DUCKDB, COMPACT = "orjson.loads of every line", "DuckDB's read_json", "ours, store compact"
PROGRAMS = {
    ORJSON: """
import os, sys, orjson
for folder in os.scandir(sys.argv[1] + "/sessions"):
    for one in os.scandir(folder.path):
        with open(one.path, "rb", 0) as file:
            for line in file.read().splitlines():
                orjson.loads(line)
""",
    DUCKDB: """
import sys, duckdb
connection = duckdb.connect()
connection.execute("SET threads = 1")
names = sys.argv[1] + "/sessions/*/*-*.jsonl"
query = "SELECT count(json->>'$.invocation'), max((json->>'$.clocks.realtime_ns')::BIGINT)"
connection.execute(query + f" FROM read_ndjson_objects('{names}')").fetchall()
""",
    COMPACT: """
import sys
from pathlib import Path
from proofcost.reports.compaction import compact
assert not compact(Path(sys.argv[1]), 0).problems
""",
}


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="proofcost-bench-") as folder:
        multiply(REAL, Path(folder), RECORDS)
        yield Path(folder)


def once(benchmark: BenchmarkFixture, what: Callable[[], None]) -> None:
    """The measuring is ours; pytest-benchmark keeps the figures (`extra_info`) and the host's description."""
    benchmark.pedantic(what, rounds=1, iterations=1)  # type: ignore[no-untyped-call]


def spent(command: list[str]) -> tuple[float, float, int]:
    """(CPU seconds, wall seconds, peak in KiB) of a command that succeeds."""
    began = time.monotonic()
    child = subprocess.Popen(command)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss


def sizes(folder: Path) -> dict[str, int]:
    """Compressed bytes by column, of all Parquet files below."""
    made: dict[str, int] = {}
    for path in folder.rglob("*.parquet"):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                for place in range(group.num_columns):
                    column = group.column(place)
                    name = column.path_in_schema
                    made[name] = made.get(name, 0) + column.total_compressed_size
    return made


def test_compaction(benchmark: BenchmarkFixture, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = sum(1 for _ in (store / "sessions").rglob("*-*.jsonl"))
    start_s = min(spent([sys.executable, "-c", "import pyarrow, duckdb, orjson"])[0] for _ in range(ROUNDS))
    best: dict[str, tuple[float, float, int]] = {}

    def rounds() -> None:
        for _ in range(ROUNDS):
            for name, program in PROGRAMS.items():
                shutil.rmtree(store / "parquet", ignore_errors=True)
                found = spent([sys.executable, "-c", program, str(store)])
                best[name] = min(best.get(name, found), found)

    once(benchmark, rounds)
    bytes_of = sizes(store / "parquet")
    whole = sum(path.stat().st_size for path in (store / "parquet").rglob("*.parquet")) / records
    core = sum(bytes_of[name] for name in CORE) / records
    with capsys.disabled():
        print(f"\n\n{records} records in as many files; load {os.getloadavg()[0]:.1f}")
        for name, (cpu_s, wall_s, peak_kib) in best.items():
            print(
                f"{name:<30}{records / cpu_s:>10,.0f} records a CPU second {records / wall_s:>10,.0f} a second", end=""
            )
            print(f"{peak_kib / 1024:>8.0f} MiB")
        steady = records / (best[COMPACT][0] - start_s)
        print(f"{'  without loading its libraries':<30}{steady:>10,.0f} records a CPU second", end="")
        print(f"   at least {RECORDS_S:,}: {'yes' if steady >= RECORDS_S else 'NO'}")
        for what, value, limit in (("core columns", core, CORE_BYTES), ("everything", whole, ALL_BYTES)):
            print(f"{what:<30}{value:>10.1f} bytes a record   at most {limit}: {'yes' if value <= limit else 'NO'}")
    benchmark.extra_info.update(
        records=records,
        load=os.getloadavg()[0],
        cpu_s={name: found[0] for name, found in best.items()},
        steady_records_per_cpu_s=steady,
        ratio_to_orjson=best[COMPACT][0] / best[ORJSON][0],
        core_bytes=core,
        all_bytes=whole,
    )
