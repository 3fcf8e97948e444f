"""An invented fleet -> a folder like a store where all is compacted: `parquet/day=.../host=.../NAME.0.parquet`.

A file of a day and host appears whole or not at all, and is made from the seed, the day and the host alone. So whoever
is killed leaves whole files and perhaps a temporary one, and the same call again makes what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.reports import parquet
from proofcost.reports import synth_truth_file as truth_file
from proofcost.reports.inert import inert_outside
from proofcost.reports.sole import sole
from proofcost.reports.statistics.sample import Ints
from proofcost.reports.synth_fleet import Fleet, FleetError
from proofcost.reports.synth_rows import host_name, kernel_name, table_of
from proofcost.reports.synth_runs import ENDS, runs_of
from proofcost.reports.synth_truth import Truth, truth_of
from proofcost.reports.synth_turns import turns_of

CHUNK_ROWS = 100_000
"""Rows that are held at once, and of a row group."""
_LEFT_RECORDS, _LEFT_TRUTH = ".*.parquet.*.tmp", f".{truth_file.NAME}.*.new"
"""What a call that was killed leaves; whatever else begins with a dot is somebody's."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a call did."""

    files: int
    known: int
    """Stood there already."""


def make(folder: Path, fleet: Fleet, progress: Callable[[int, int], None] = lambda *_: None) -> Made:
    """Make what is missing of a fleet. `progress`: called with (files, files in all).

    Raises FleetError for a folder that holds something else, BusyError, OSError (the same call goes on from there).
    """
    truth = truth_of(fleet)
    _check(folder, fleet)
    folder.mkdir(parents=True, exist_ok=True)
    with sole(folder):
        for left in (*folder.glob(_LEFT_TRUTH), *(folder / "parquet").rglob(_LEFT_RECORDS)):
            left.unlink()
        if truth_file.asked_before(folder) is None:
            truth_file.write(folder, truth_file.as_json(truth, None))
        ends = np.zeros((fleet.kernels, len(ENDS)), np.int64)
        known = 0
        for number in range(fleet.files):
            day, host = divmod(number, fleet.hosts)
            path = path_of(folder, truth, day, host)
            if path.exists():
                known += 1
                ends += _ends_in(path, fleet.kernels)
            else:
                parquet.write_parts(path, _parts(truth, day, host, ends), read_back=False)
                pa.default_memory_pool().release_unused()
            progress(number + 1, fleet.files)
        truth_file.write(folder, truth_file.as_json(truth, ends))
    return Made(fleet.files - known, known)


def _check(folder: Path, fleet: Fleet) -> None:
    """Raise FleetError for what is no new folder and holds another fleet, or none."""
    if not folder.exists():
        return
    shown = inert_outside(str(folder), 200, True)
    before = truth_file.asked_before(folder) if folder.is_dir() else None
    if before is not None and before != fleet:
        differ = [name for name in Fleet.__slots__ if getattr(before, name) != getattr(fleet, name)]
        told = " ".join(f"--{name} {getattr(before, name)}" for name in differ)
        raise FleetError(f"{shown}: holds a fleet of {told}; ask for the same to go on, or name a new folder")
    if before is None and (not folder.is_dir() or any(not path.match(_LEFT_TRUTH) for path in folder.iterdir())):
        raise FleetError(f"{shown}: is there already, and not empty; name a new folder")


def path_of(folder: Path, truth: Truth, day: int, host: int) -> Path:
    """The file of a host's day, named as compaction names files: by a digest, and as the first generation."""
    name = host_name(truth.fleet.seed, host)
    date = truth.date(day).isoformat()
    stem = hashlib.sha256(f"{truth.fleet} {date} {name}".encode()).hexdigest()[:16]
    return folder / "parquet" / f"day={date}" / f"host={name}" / f"{stem}.0.parquet"


def _parts(truth: Truth, day: int, host: int, ends: Ints) -> Iterator[pa.Table]:
    """The rows of a host's day; how they ended is added to `ends`."""
    fleet = truth.fleet
    count = fleet.records_of(day, host)
    for first in range(0, count, CHUNK_ROWS):
        random = np.random.default_rng([fleet.seed, 3, day, host, first])
        turns = turns_of(truth, day, host, first, min(CHUNK_ROWS, count - first), random)
        runs = runs_of(truth, day, host, turns, random)
        np.add.at(ends, (turns.kernel, runs.end), 1)
        yield table_of(truth, day, host, turns, runs, random)


def _ends_in(path: Path, kernels: int) -> Ints:
    """How the runs of a file ended, shape (kernels, ends)."""
    names = ("kernel", "verdict", "cause")
    found = pq.read_table(path, columns=list(names)).group_by(names).aggregate([([], "count_all")]).to_pylist()
    ends = np.zeros((kernels, len(ENDS)), np.int64)
    at = {kernel_name(kernel): kernel for kernel in range(kernels)}
    for one in found:
        ends[at[one["kernel"]], ENDS.index(one["verdict"] or one["cause"])] += one["count_all"]
    return ends
