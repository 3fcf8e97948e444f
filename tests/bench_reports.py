"""How long reports take beside the database's own time for the same groups, and how often they cry wolf: `make bench`.

A million records in Parquet (PROOFCOST_BENCH_RECORDS, default 10^6; 10^7 is asked for as well and takes minutes, 10^8
an hour, ten files and 6 GB of disk), made by pyarrow with the columns and figures of a real bench. Every way runs in
a process of its own, in turn, and is timed there without start-up and imports, but with opening the data, which reads
the files' statistics. `bare` is SQL that a person would write for the same groups, asked of the files themselves and
fetched as Arrow; that with checks also asks of each group whether it holds unlike things (host class, threads,
digests), as the matrix does. Wall time is compared, as people wait for it; CPU time stands beside it, which other
load disturbs less.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.reports.parquet import SCHEMA
from proofcost.reports.statistics.alarm_rate import alarm_rate
from proofcost.reports.statistics.paired import compare_blocks
from proofcost.reports.statistics.unpaired import compare_samples
from proofcost.reports.statistics.verdict import Finding, judge

RECORDS = int(float(os.environ.get("PROOFCOST_BENCH_RECORDS", "1e6")))
MILLION = 1_000_000
ROUNDS = 3
PART = 500_000
FILE = 10_000_000
"""Records of one file."""
KERNELS = 6
BLOCKS, RUNS = 40, 125
"""Of the comparison: blocks, and runs a side in each."""

MATRIX_MOST = 5.0 if RECORDS <= MILLION else 2.0 if RECORDS <= FILE else 1.5
COMPARE_MOST = 5.0
GB_MOST = 1.0 if RECORDS <= FILE else 2.0

Columns = dict[str, Any]


def coded(codes: Any, names: list[str]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)).cast(pa.string())


def one(rows: int, text: str) -> Any:
    return coded(np.zeros(rows, np.int32), [text])


def common(index: Any, kernel: Any, subject: Any, subjects: int) -> Columns:
    """What both shapes share. Costs grow with the submission's number; 2 % of runs time out."""
    rows, random = index.size, np.random.default_rng([7, int(index[0])])
    size = 1000 * 1.001**subject
    wall = (size * 10_000 * (1 + 0.3 * kernel) * np.exp(random.normal(0, 0.03, rows))).astype(np.int64)
    stopped = random.random(rows) < 0.02
    return {
        "record": pa.array([f"{at:x}-7-{at * 2654435761 % 2**32:08x}" for at in index.tolist()]),
        "source": one(rows, "journal"), "host_class": one(rows, "0123456789abcdef-01234567"),
        "entrance": one(rows, "bench"), "trust": one(rows, "user"), "meter_version": one(rows, "0.1.0"),
        "metric_definitions": pa.array(np.ones(rows, np.int64)), "started_ns": pa.array(10**18 + index * 10**7),
        "phase": one(rows, "checker"), "kernel": coded(kernel, [f"kernel{at}" for at in range(KERNELS)]),
        "kernel_sha256": coded(kernel, [f"{at:064x}" for at in range(KERNELS)]),
        "config_sha256": one(rows, "ab" * 32), "threads": pa.array(np.ones(rows, np.int64)),
        "sandbox": one(rows, "landrun"), "counters": one(rows, "perf"), "host": one(rows, "h"), "boot": one(rows, "b"),
        "workload": coded(subject, [f"submission-{at:05}" for at in range(subjects)]),
        "subject": coded(subject, [f"submission-{at:05}" for at in range(subjects)]),
        "input_sha256": coded(subject, [f"{at:064x}" for at in range(subjects)]),
        "outcome": coded(stopped, ["exited", "timed_out"]), "cause": coded(stopped, ["completed", "time_limit"]),
        "verdict": pa.array(["accepted"] * rows, mask=stopped),
        "exit_code": pa.array(np.zeros(rows, np.int64), mask=stopped), "time_limit_ns": pa.array(wall),
        "wall_program": pa.array(wall), "wall_command": pa.array(wall + 5_000_000),
        "cpu_tree": pa.array((wall * 1.01).astype(np.int64)), "cpu_waited": pa.array((wall * 1.005).astype(np.int64)),
        "instructions_u": pa.array(wall * 3), "memory_peak_tree": pa.array((size * 10_000).astype(np.int64)),
        "memory_peak_process": pa.array((size * 9_000).astype(np.int64)),
        "input_bytes": pa.array((size * 50).astype(np.int64)),
        "io_read_bytes_waited": pa.array(np.zeros(rows, np.int64)),
        "weak": one(rows, '{"memory_anon_tree":"sampled","memory_file_tree":"sampled","memory_shmem_tree":"sampled"}'),
        "covariates": coded(subject, [f'{{"export_lines_count":{int(1e3 * 1.001**at)}}}' for at in range(subjects)]),
        "labels": one(rows, '{"commit":"abc"}'),
    }  # fmt: skip


def matrix_rows(index: Any) -> Columns:
    """Kernels on a thousand submissions (five thousand of ten million records), again and again, in series of 20."""
    subjects = 1000 if RECORDS <= MILLION else 5000
    kernel, subject, again = index % KERNELS, index // KERNELS % subjects, index // (KERNELS * subjects)
    series = [f"{at:064x}" for at in range(int(again.max()) // 20 + 1)]
    return common(index, kernel, subject, subjects) | {
        "session": coded(again // 20, series), "plan": coded(again // 20, series), "block": pa.array(again % 20 + 1),
    }  # fmt: skip


def compare_rows(index: Any) -> Columns:
    """Two kernels on the cases that fill the number of records, in `BLOCKS` blocks."""
    subjects = max(1, RECORDS // (2 * BLOCKS * RUNS))
    kernel, subject, block = index % 2, index // 2 % subjects, index // (2 * subjects) % BLOCKS
    return common(index, kernel, subject, subjects) | {
        "session": one(index.size, "s"), "plan": one(index.size, "p"), "block": pa.array(block + 1),
        "outcome": one(index.size, "exited"), "cause": one(index.size, "completed"),
        "verdict": one(index.size, "accepted"), "exit_code": pa.array(np.zeros(index.size, np.int64)),
    }  # fmt: skip


def write(folder: Path, rows_of: Callable[[Any], Columns]) -> None:
    names = [name for name in SCHEMA.names if name not in ("record", "events")]
    folder.mkdir()
    for start in range(0, RECORDS, FILE):
        end = min(RECORDS, start + FILE)
        path = folder / f"part-{start // FILE}.0.parquet"
        with pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=names) as writer:
            for first in range(start, end, PART):
                rows = min(PART, end - first)
                made = rows_of(np.arange(first, first + rows))
                columns = [made[of.name].cast(of.type) if of.name in made else pa.nulls(rows, of.type) for of in SCHEMA]
                writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), row_group_size=100_000)


TIMED = """
import gc, json, resource, sys, time
gc.disable()  # as the commands do
from proofcost.reports.dataset import connect, open_data
from proofcost.reports.where import parse
{imports}
import scipy.stats, matplotlib.figure
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
bare = connect()
wall, used = time.monotonic(), cpu()
{what}
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
print(json.dumps([time.monotonic() - wall, cpu() - used, int(peak) / 1e6 * 1.024]))
"""
KEY = "coalesce(workload, subject, module)"
BARE_MATRIX = f"""
SELECT kernel, {KEY}, verdict, count(*), min(started_ns), max(started_ns), median(wall_program), min(wall_program),
    max(wall_program) FROM records WHERE NOT coalesce(warmup, false) GROUP BY ALL"""
FIGURES = ("instructions_u", "wall_program", "wall_command", "cpu_tree", "cpu_waited", "memory_peak_tree",
           "memory_peak_process")  # fmt: skip
BARE_COMPARE = f"""
SELECT kernel, phase, {KEY}, coalesce(plan, session), host, boot, block, build, verdict, count(*),
    {", ".join(f"list({name})" for name in FIGURES)}
FROM records WHERE kernel IN ('kernel0', 'kernel1') AND NOT coalesce(warmup, false) GROUP BY ALL"""
CHECKED = ("host_class", "threads", "sandbox", "counters", "metric_definitions", "config_sha256", "input_sha256",
           "source", "kernel_sha256", "expected")  # fmt: skip
BARE_CHECKED = BARE_MATRIX.replace(
    "count(*),", "count(*), " + ", ".join(f"min({name}), max({name}), count({name})" for name in CHECKED) + ","
)


def bare(query: str) -> tuple[str, str]:
    """The files asked as they are, without `records`."""
    scan = "read_parquet('{sys.argv[1]}/*.parquet')"
    return "", f'bare.sql(f"""{query.replace("records", scan)}""").to_arrow_table()'


OPEN = "data = open_data([sys.argv[1]])\n"
MATRIX_WAYS = {
    "bare": bare(BARE_MATRIX),
    "bare, checked": bare(BARE_CHECKED),
    "the matrix": (
        "from proofcost.reports.kernels import grid_of\nfrom proofcost.reports.asked import Asked",
        OPEN + "grid_of(Asked(data, parse([])), 'wall')",
    ),
    "report kernels": (
        "from proofcost.reports.kernels import make\nfrom proofcost.reports.asked import Asked",
        OPEN + "make(Asked(data, parse([])))",
    ),
}
SIDES = OPEN + "base, head = (Side(name, data, parse([f'kernel={name}']), name) for name in ('kernel0', 'kernel1'))"
COMPARE_IMPORTS = "from proofcost.reports.compare import compare, _by_case\nfrom proofcost.reports.sides import Side"
COMPARE_WAYS = {
    "bare": bare(BARE_COMPARE),
    "its cells": (COMPARE_IMPORTS, f"{SIDES}\n_by_case(base)\n_by_case(head)"),
    "compare": (COMPARE_IMPORTS, f"{SIDES}\ncompare(base, head)"),
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="proofcost-bench-") as made:
        yield Path(made)


def once(benchmark: BenchmarkFixture, what: Callable[[], None]) -> None:
    """The measuring is ours; pytest-benchmark keeps the figures (`extra_info`) and the host's description."""
    benchmark.pedantic(what, rounds=1, iterations=1)  # type: ignore[no-untyped-call]


def timed(way: tuple[str, str], path: Path) -> tuple[float, float, float]:
    """(wall in s, CPU in s, peak memory in GB) of one fresh process."""
    code = TIMED.format(imports=way[0], what=way[1])
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    wall, cpu, peak = json.loads(done.stdout)
    return wall, cpu, peak


def held_against(
    benchmark: BenchmarkFixture,
    path: Path,
    ways: dict[str, tuple[str, str]],
    most: dict[str, float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    best: dict[str, tuple[float, float, float]] = {}

    def rounds() -> None:
        for _ in range(ROUNDS):
            for name, way in ways.items():
                found = timed(way, path)
                best[name] = found if name not in best else (
                    min(best[name][0], found[0]), min(best[name][1], found[1]), max(best[name][2], found[2])
                )  # fmt: skip

    once(benchmark, rounds)
    bare = best["bare"]
    benchmark.extra_info.update({f"s {name}": found[0] for name, found in best.items()})
    benchmark.extra_info.update({f"ratio {name}": found[0] / bare[0] for name, found in best.items()})
    with capsys.disabled():
        load = os.getloadavg()[0]
        megabytes = sum(one.stat().st_size for one in path.iterdir()) / 1e6
        print(f"\n{RECORDS:,} records, {megabytes:.0f} MB, least of {ROUNDS}, load {load:.1f}")
        print(f"  {'':<16}{'wall':>9}{'CPU':>9}{'peak':>10}{'ratio':>8}{'of CPU':>8}")
        for name, (wall, cpu, peak) in best.items():
            asked = ""
            if name in most:
                met = wall / bare[0] <= most[name], peak <= GB_MOST
                asked = f"   at most {most[name]:g}, {GB_MOST:g} GB: {', '.join('yes' if one else 'NO' for one in met)}"
            print(
                f"  {name:<16}{wall:7.2f} s{cpu:7.2f} s{peak:7.2f} GB{wall / bare[0]:8.1f}{cpu / bare[1]:8.1f}{asked}"
            )


def test_the_matrix(benchmark: BenchmarkFixture, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "matrix", matrix_rows)
    held_against(benchmark, folder / "matrix", MATRIX_WAYS, {"the matrix": MATRIX_MOST}, capsys)


@pytest.mark.skipif(RECORDS > MILLION, reason="asked for with a million records")
def test_compare(benchmark: BenchmarkFixture, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "compare", compare_rows)
    held_against(benchmark, folder / "compare", COMPARE_WAYS, {"compare": COMPARE_MOST}, capsys)


PAIRS, FAMILY, FAMILIES = 2000, 40, 100
Noise = Callable[[np.random.Generator, int], Any]
NOISES: dict[str, Noise] = {
    "iid, cv 2 %": lambda random, n: np.exp(random.normal(0, 0.02, n)),
    "10 % of runs slow": lambda random, n: (
        np.exp(random.normal(0, 0.02, n)) * np.where(random.random(n) < 0.1, 1.1 + random.exponential(0.1, n), 1)
    ),
    "two modes": lambda random, n: np.exp(random.normal(0, 0.01, n)) * np.where(random.random(n) < 0.5, 1.04, 1),
}
N = 10
STATED = {"rank sum": (0.041, 0.042, 0.045), "signed rank": (0.042, 0.049, 0.051)}
"""docs/statistics.md's measured A/A false alarms of these noises, n = 10 a side, p at most 5 %."""


def test_a_thing_with_itself(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """A/A by simulation: p of single comparisons, and alarms (BH and least effect) of whole families."""
    found: dict[tuple[str, str], Any] = {}

    def rounds() -> None:
        for noise, draw in NOISES.items():
            random = np.random.default_rng([3, len(noise)])
            for method in STATED:
                hits = 0
                for _ in range(PAIRS):
                    base, head = draw(random, N), draw(random, N)
                    if method == "rank sum":
                        hits += compare_samples(base, head).p <= 0.05
                    else:
                        hits += compare_blocks([([x], [y]) for x, y in zip(base, head, strict=True)]).p <= 0.05
                found[method, noise] = alarm_rate(int(hits), PAIRS)
            alarms = 0
            for _ in range(FAMILIES):
                family = [
                    compare_blocks([([x], [y]) for x, y in zip(draw(random, 12), draw(random, 12), strict=True)])
                    for _ in range(FAMILY)
                ]
                alarms += any(one.finding in (Finding.REGRESSED, Finding.IMPROVED) for one in judge(family, 0.02))
            found["family", noise] = alarm_rate(alarms, FAMILIES)

    once(benchmark, rounds)
    benchmark.extra_info.update({f"{method}, {noise}": rate.rate for (method, noise), rate in found.items()})
    with capsys.disabled():
        print(f"\na thing with itself: {PAIRS} pairs of {N} runs, p at most 5 %; {FAMILIES} families of {FAMILY} cases")
        for (method, noise), rate in found.items():
            stated = 0.05 if method == "family" else STATED[method][list(NOISES).index(noise)]
            inside = rate.low <= stated <= rate.high or (method == "family" and rate.low <= stated)
            print(
                f"  {method:<14}{noise:<20}{rate.rate:7.2%}  [{rate.low:.2%}, {rate.high:.2%}]   "
                f"{'at most' if method == 'family' else 'stated'} {stated:.1%}: {'yes' if inside else 'NO'}"
            )
