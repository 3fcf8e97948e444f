"""Records of many hosts, days, kernels and endings, as columns: what every report has something to say of.

Ordinary things beside odd ones: warm-ups, limits that cut runs off, time-outs that are none, clocks that were set back,
a host under two boots, labels that hold quotes and worse, columns that some files lack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.reports.parquet import SCHEMA

KERNELS = 5
HOSTS = 8
DAY_NS = 86_400 * 10**9
BEGIN_NS = 1_760_000_000 * 10**9
BLOCKS = 4
"""Of a series."""
PART = 250_000
ODD_COMMENTS = ("it's", 'say "so"', "back\\slash", "Grüße", "two\nlines", "日本", "a%b_c", "{json}", "$.saved")


def coded(codes: Any, names: list[str]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)).cast(pa.string())


def columns(index: Any, subjects: int) -> dict[str, Any]:
    """Of the records with these numbers (ascending). What is not named is null."""
    rows, random = index.size, np.random.default_rng([11, int(index[0])])
    # A series holds each submission under each kernel in each of its blocks, on one host.
    per_block = subjects * KERNELS
    kernel, subject = index % KERNELS, index // KERNELS % subjects
    block, series = index // per_block % BLOCKS, index // (per_block * BLOCKS)
    host = series % HOSTS
    host_class = host // 4
    commit = series // HOSTS % 20
    started = BEGIN_NS + series * DAY_NS // 4 + (index % (per_block * BLOCKS)) * 10**8
    back = (series % 13 == 5) & (index % 997 == 0)
    started = started - np.where(back, 3600 * 10**9, 0)
    size = 1000 * 1.01**subject
    factor = (1 + 0.25 * kernel) * (1 + 0.2 * host_class) * np.where((commit >= 12) & (kernel == 1), 1.1, 1.0)
    wall = (size * 1e5 * factor * np.exp(random.normal(0, 0.02, rows))).astype(np.int64)
    memory = (size * 20_000 * (1 + 0.1 * kernel) * np.exp(random.normal(0, 0.01, rows))).astype(np.int64)
    chance = random.random(rows)
    late, killed = chance < 0.01, (chance >= 0.01) & (chance < 0.015)
    crashed, rejected = (chance >= 0.015) & (chance < 0.02), (chance >= 0.02) & (chance < 0.03)
    early, read = (chance >= 0.03) & (chance < 0.032), (chance >= 0.032) & (chance < 0.05)
    told = ~(late | killed | crashed | early | read)
    outcome = np.where(late | early, 1, np.where(killed | crashed, 2, 0))
    cause = np.where(late | early, 1, np.where(killed, 2, np.where(crashed, 3, 0)))
    limit = np.where(early, wall * 10, np.where(late, wall, 3600 * 10**9))
    negative = (index % 5003) == 7
    cold = index % (subjects * KERNELS) < KERNELS
    digests = [f"{at:064x}" for at in range(KERNELS * 20)]
    plan = [f"{at:064x}" for at in range(int(series.max()) + 1)]
    weak = ["", '{"memory_peak_tree":"sampled"}', '{"wall_command":"upper_bound","cpu_tree":"contradicted"}']
    labels = [
        f'{{"comment":{pa_json(ODD_COMMENTS[at % len(ODD_COMMENTS)])},"commit":"{at:040x}","tier":"{at % 3}"}}'
        for at in range(20)
    ]
    return {
        "record": pa.array([f"{at:x}-{at * 2654435761 % 2**32:08x}" for at in index.tolist()]),
        "session": coded(series, [f"s{at:07}" for at in range(int(series.max()) + 1)]),
        "plan": masked(coded(series, plan), series % 5 == 4),
        "source": coded(np.zeros(rows), ["journal"]), "trust": coded(np.zeros(rows), ["user"]),
        "host": coded(host, [f"host-{at}" for at in range(HOSTS)]),
        "host_class": coded(host_class, ["0123456789abcdef-01234567", "fedcba9876543210-01234567"]),
        "boot": coded(host * 2 + ((host == 3) & (index % 2 == 0)), [f"boot-{at}" for at in range(2 * HOSTS)]),
        "phase": coded(np.zeros(rows), ["checker"]),
        "kernel": coded(kernel, ["kern'el", "null", "nanoda", "twin", "sokonanoda"]),
        "kernel_version": coded(commit, [f"0.{at}" for at in range(20)]),
        "kernel_sha256": coded(np.where(kernel == 3, 2, kernel) * 20 + commit, digests),
        "config_sha256": coded(np.zeros(rows), ["ab" * 32]), "sandbox": coded(np.zeros(rows), ["landrun"]),
        "counters": coded(np.zeros(rows), ["perf"]), "threads": pa.array(np.ones(rows, np.int64)),
        "metric_definitions": pa.array(np.ones(rows, np.int64)), "started_ns": pa.array(started),
        "suite": coded(np.zeros(rows), ["suite"]),
        "workload": masked(coded(subject, [f"submission-{at:04}" for at in range(subjects)]), subject % 7 == 6),
        "subject": coded(subject, [f"subject-{at:04}" for at in range(subjects)]),
        "input_sha256": coded(subject, [f"{at:064x}" for at in range(subjects)]),
        "input_bytes": pa.array((size * 50).astype(np.int64)), "n": pa.array(subject + 1),
        "block": pa.array(block + 1), "place": pa.array(index % per_block + 1), "iteration": pa.array(block + 1),
        "warmup": pa.array(index % 101 == 3, mask=index % 2 == 0),
        "beside": pa.array(np.where(index % 503 == 1, 2, 0), mask=index % 3 == 0),
        "outcome": coded(outcome, ["exited", "timed_out", "signaled"]),
        "cause": masked(coded(cause, ["completed", "time_limit", "memory_limit", "crashed"]), index % 11 == 0),
        "verdict": masked(coded(np.where(rejected, 1, np.where(read, 2, 0)), ["accepted", "rejected", "read"]),
                          ~(told | read)),
        "exit_code": pa.array(rejected.astype(np.int64), mask=outcome > 0),
        "signal": pa.array(np.full(rows, 9), mask=outcome != 2),
        "time_limit_ns": pa.array(limit), "memory_limit_bytes": pa.array(np.maximum(memory, 1 << 33)),
        "wall_program": pa.array(np.where(negative, -wall, wall), mask=late & (index % 3 == 0)),
        "wall_command": pa.array(np.where(negative, -wall, wall + 5_000_000), mask=late & (index % 2 == 0)),
        "sandbox_startup": pa.array(np.full(rows, 5_000_000)),
        "cpu_tree": pa.array((wall * 1.01).astype(np.int64)), "cpu_waited": pa.array(wall),
        "instructions_u": pa.array(wall * 3 + 2**60, mask=host == 1),
        "cycles_u": pa.array(wall * 2, mask=host == 1),
        "memory_peak_tree": pa.array(memory, mask=killed & (index % 2 == 0)),
        "memory_peak_process": pa.array((memory * 0.9).astype(np.int64)),
        "disk_peak_writable": pa.array(memory // 10, mask=index % 4 == 0),
        "io_read_bytes_tree": pa.array(np.where(cold, (size * 50).astype(np.int64) + (1 << 20), 0)),
        "host_steal": pa.array(wall // 1000), "host_busy": pa.array(wall * 2),
        "weak": masked(coded(np.where(index % 9 == 0, 1, np.where(index % 31 == 0, 2, 0)), weak),
                       (index % 9 != 0) & (index % 31 != 0)),
        "absent": masked(coded(np.zeros(rows), ['{"memory_peak_tree":"no cgroup"}']), index % 50 != 0),
        "covariates": coded(subject, [f'{{"export_lines_count":{int(1e3 * 1.01**at)}}}' for at in range(subjects)]),
        "labels": coded(commit, labels), "defects": masked(coded(np.zeros(rows), ['["counts odd"]']), index % 77 != 0),
    }  # fmt: skip


def pa_json(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def masked(texts: Any, mask: Any) -> Any:
    import pyarrow.compute as pc

    return pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), texts)


def write(folder: Path, records: int, subjects: int = 50, files: int = 4) -> None:
    """`records` of them in so many files; of the last one some columns are left out, as an older version wrote it."""
    each = -(-records // files)
    for number in range(files):
        first, last = number * each, min(records, (number + 1) * each)
        lacking = ("io_read_bytes_tree", "defects", "side") if number == files - 1 else ()
        schema = pa.schema([of for of in SCHEMA if of.name not in lacking])
        names = [name for name in schema.names if name not in ("record", "events")]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{number}.0.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=names) as writer:
            for start in range(first, last, PART):
                made = columns(np.arange(start, min(start + PART, last)), subjects)
                rows = min(start + PART, last) - start
                table = [made[of.name].cast(of.type) if of.name in made else pa.nulls(rows, of.type) for of in schema]
                writer.write_table(pa.Table.from_arrays(table, schema=schema), row_group_size=50_000)
