"""Invented fleets, as ordinary records in Parquet: what planning is tried on, where the truth is known.

A verdict is one session: build, export, two checkers, and the whole. What it needs follows from how hard the submission
is, a latent normal number that its export's size, times and memory share. Four kinds:

- `light`: log-normal; median 5 s, nine in ten within 7 s (a public set of 405 statements).
- `heavy`: one in ten has a Pareto tail, in time (exponent 1.3) and in memory (2.5).
- `bimodal`: one in seven imports a whole library: sixty times the time, three times the memory.
- `drifting`: `light`, but over the whole span times grow to three times, memory to twice as much.

The limits in force are 8 GiB and 6 h: what needs more is killed there, as it would be. Verdicts come at random, by the
hour of the day. Seeded and made day by day, so that any number of records needs the memory of some 100,000.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from proofcost.reports import parquet
from proofcost.reports.statistics.sample import Floats

SOURCE = "synth"
PHASES: tuple[tuple[str, str | None, float, float], ...] = (
    ("build", None, 0.30, 0.85),
    ("export", None, 0.15, 0.60),
    ("checker", "nanoda", 0.20, 0.70),
    ("checker", "lean4lean", 0.30, 1.00),
)
"""(phase, kernel, share of the wall, share of the peak); the rest is the judge's own. The last is where limits hit."""
RECORDS_OF_ONE = len(PHASES) + 1
MEMORY_LIMIT_BYTES = 8 << 30
TIME_LIMIT_NS = 6 * 3600 * 10**9
STARTUP_NS = 30_000_000
"""Of a sandbox, in the middle."""
MEDIAN_S, SPREAD = 5.0, 0.2626
"""Nine in ten within 7 s: ln(7 / 5) / 1.2816."""
MEDIAN_BYTES, MEMORY_SPREAD = 1.6e9, 0.3
MEDIAN_EXPORT_BYTES = 1.5e6
SLOWER = 1.4
"""What the second host class takes for the same."""
CHUNK = 20_000
"""Verdicts that are held at once."""
FIRST_DAY = datetime.date(2026, 9, 1)
DAY_NS = 86400 * 10**9
PROFILE = tuple(1 + 0.6 * float(np.sin((hour - 9) / 24 * 2 * np.pi)) for hour in range(24))
"""Verdicts an hour of the day, to the mean one."""


class Kind(Enum):
    LIGHT = "light"
    HEAVY = "heavy"
    BIMODAL = "bimodal"
    DRIFTING = "drifting"


@dataclass(frozen=True, slots=True)
class Synth:
    """One fleet to be made."""

    kind: Kind
    records: int
    days: int = 30
    seed: int = 1
    classes: int = 1
    """1 or 2; with 2 every submission is checked on both, the second being 1.4 times as slow."""
    memory_limit_bytes: int = MEMORY_LIMIT_BYTES
    time_limit_ns: int = TIME_LIMIT_NS


@dataclass(frozen=True, slots=True)
class Need:
    """What verdicts would take without any limit; shape (n,) each."""

    wall_s: Floats
    memory_bytes: Floats
    export_bytes: Floats


def needs(kind: Kind, at: Floats, random: np.random.Generator) -> Need:
    """Of verdicts at `at`, 0 to 1 of the whole span."""
    n = at.size
    hard, of_time, of_memory, of_size = random.standard_normal((4, n))
    tail_time, tail_memory, which = random.random((3, n))
    wall = MEDIAN_S * np.exp(SPREAD * (0.8 * hard + 0.6 * of_time))
    memory = MEDIAN_BYTES * np.exp(MEMORY_SPREAD * (0.8 * hard + 0.6 * of_memory))
    if kind is Kind.HEAVY:
        wall = np.where(which < 0.1, wall * (1 - tail_time) ** (-1 / 1.3), wall)
        memory = np.where(which < 0.1, memory * (1 - tail_memory) ** (-1 / 2.5), memory)
    elif kind is Kind.BIMODAL:
        wall, memory = np.where(which < 1 / 7, 60 * wall, wall), np.where(which < 1 / 7, 3 * memory, memory)
    elif kind is Kind.DRIFTING:
        wall, memory = wall * 3**at, memory * 2**at
    return Need(wall, memory, MEDIAN_EXPORT_BYTES * np.exp(0.9 * hard + 0.4 * of_size))


def make(folder: Path, asked: Synth, progress: Callable[[int, int], None] = lambda *_: None) -> int:
    """Write the fleet below `folder` as a store's Parquet files; returns how many. Raises OSError, CopyError."""
    random = np.random.default_rng([asked.seed, 0])
    verdicts = -(-asked.records // RECORDS_OF_ONE)
    by_day = random.multinomial(verdicts, np.full(asked.days, 1 / asked.days))
    left, files, before = asked.records, 0, 0
    for day, count in enumerate(by_day.tolist()):
        if not left or not count:
            continue
        date = FIRST_DAY + datetime.timedelta(days=day)
        path = folder / "parquet" / f"day={date.isoformat()}" / f"host={SOURCE}" / f"{asked.kind.value}.0.parquet"
        written = parquet.write_parts(path, _day(asked, day, count, before, left))
        left, files, before = left - written, files + 1, before + count
        progress(asked.records - left, asked.records)
    return files


def _day(asked: Synth, day: int, count: int, before: int, most: int) -> Iterator[pa.Table]:
    """One day's records in the order of their verdicts, `most` of them at the most."""
    random = np.random.default_rng([asked.seed, 1, day])
    expected = np.concatenate([[0.0], np.cumsum(PROFILE)])
    times = np.sort(np.interp(random.uniform(0, expected[-1], count), expected, np.arange(25) * 3600.0))
    for first in range(0, count, CHUNK):
        part = times[first : first + CHUNK]
        numbers = np.arange(part.size) + before + first
        table = _chunk(asked, day, part, numbers)
        table = table.slice(0, most)
        most -= table.num_rows
        if table.num_rows:
            yield table


def _chunk(asked: Synth, day: int, times_s: Floats, numbers: np.ndarray) -> pa.Table:
    start = int(datetime.datetime.combine(FIRST_DAY, datetime.time(), datetime.UTC).timestamp()) * 10**9 + day * DAY_NS
    n = times_s.size
    # The same submission again on the other class: the same draws.
    submissions = numbers // asked.classes
    unique, place = np.unique(submissions, return_inverse=True)
    random = np.random.default_rng([asked.seed, 2, int(unique[0])])
    span = (day + times_s / 86400) / asked.days
    need = needs(asked.kind, span[np.searchsorted(submissions, unique)], random)
    on = numbers % asked.classes
    wall = need.wall_s[place] * np.where(on == 1, SLOWER, 1.0) * np.exp(0.01 * random.standard_normal(n))
    memory, export = need.memory_bytes[place], need.export_bytes[place]
    over_memory = memory > asked.memory_limit_bytes
    wall = np.where(over_memory, wall * random.uniform(0.3, 1.0, n), wall)
    wall_ns = (wall * 1e9).astype(np.int64)
    over_time = (wall_ns >= asked.time_limit_ns) & ~over_memory
    wall_ns = np.minimum(wall_ns, asked.time_limit_ns)
    startup = (STARTUP_NS * np.exp(0.3 * random.standard_normal((len(PHASES), n)))).astype(np.int64)
    parts = [*PHASES, ("whole", None, 1.0, 1.0)]
    names = [f"{asked.kind.value}-{asked.seed}-{number:09d}" for number in numbers.tolist()]
    starts, tables = start + (times_s * 1e9).astype(np.int64), []
    for at, (phase, kernel, of_wall, of_peak) in enumerate(parts):
        hit = at >= len(PHASES) - 1
        killed, late = over_memory & hit, over_time & hit
        before = sum(part[2] for part in PHASES[:at]) if phase != "whole" else 0.0
        own = np.maximum(1, (wall_ns * of_wall).astype(np.int64))
        columns: dict[str, Any] = {
            "record": [f"{name}-{at}" for name in names],
            "session": names,
            "source": [SOURCE] * n,
            "source_name": [asked.kind.value] * n,
            "host": [f"{SOURCE}-{one}" for one in on.tolist()],
            "host_class": [f"{SOURCE}-class-{one}" for one in on.tolist()],
            "trust": ["user"] * n,
            "started_ns": starts + (wall_ns * before).astype(np.int64),
            "metric_definitions": np.ones(n, dtype=np.int64),
            "phase": [phase] * n,
            "side": ["solution"] * n if phase != "whole" else None,
            "subject": [f"submission-{one}" for one in submissions.tolist()],
            "kernel": [kernel] * n,
            "threads": np.ones(n, dtype=np.int64) if phase == "checker" else None,
            "outcome": np.where(killed, "signaled", np.where(late, "timed_out", "exited")),
            "cause": np.where(killed, "memory_limit", np.where(late, "time_limit", "completed")),
            "exit_code": pa.array(np.zeros(n, dtype=np.int64), mask=killed | late),
            "signal": pa.array(np.full(n, 9, dtype=np.int64), mask=~(killed | late)),
            "memory_limit_bytes": np.full(n, asked.memory_limit_bytes),
            "time_limit_ns": np.full(n, asked.time_limit_ns) if phase == "whole" else None,
            "input_bytes": export.astype(np.int64) if phase == "checker" else None,
            "wall_command": own,
            "sandbox_startup": np.minimum(own // 2, startup[at]) if phase != "whole" else None,
            "cpu_tree": (own * 0.98).astype(np.int64),
            "memory_peak_tree": np.minimum(memory * of_peak, asked.memory_limit_bytes).astype(np.int64),
            "disk_peak_writable": (np.where(phase == "export", export, 0.1 * export) + 4096).astype(np.int64)
            if phase in ("build", "export")
            else (1.1 * export + 4096).astype(np.int64)
            if phase == "whole"
            else None,
            "labels": [f'{{"fleet":"{asked.kind.value}"}}'] * n,
        }
        tables.append(
            pa.Table.from_arrays(
                [
                    pa.nulls(n, field.type) if columns.get(field.name) is None else _array(columns[field.name], field)
                    for field in parquet.SCHEMA
                ],
                schema=parquet.SCHEMA,
            )
        )
    whole = pa.concat_tables(tables)
    order = np.arange(n * len(parts)).reshape(len(parts), n).T.ravel()
    return whole.take(pa.array(order)).combine_chunks()


def _array(values: Any, field: pa.Field) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, field.type)
