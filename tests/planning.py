"""Records for the tests of plans: rows as people might hand them over, in one Parquet file."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proofcost.harness.columns import Row
from proofcost.reports import parquet
from proofcost.reports.dataset import Data, open_data
from proofcost.reports.plan import made
from proofcost.reports.plan.asked import read
from proofcost.reports.plan.made import Plan
from proofcost.reports.plan.synth import Kind, Synth, make
from proofcost.reports.where import parse

S, GB = 10**9, 10**9
START_NS = 1_790_000_000 * S


def row(number: int, **changed: Any) -> Row:
    """A verdict of its own: a whole run of 5 s and 2 GB, that ended by itself."""
    made: Row = {
        "record": f"r{number}",
        "session": f"s{number}",
        "source": "journal",
        "phase": "whole",
        "subject": f"submission {number}",
        "host_class": "class-a",
        "started_ns": START_NS + number * 60 * S,
        "outcome": "exited",
        "cause": "completed",
        "exit_code": 0,
        "wall_command": 5 * S,
        "memory_peak_tree": 2 * GB,
    }
    return {key: value for key, value in {**made, **changed}.items() if value is not None}


def store(folder: Path, rows: Sequence[Row]) -> Path:
    """A folder with one Parquet file of them."""
    parquet.write(folder / "day=x" / "a.0.parquet", parquet.table_of(list(rows)))
    return folder


def spread(count: int, seed: int = 1, **changed: Any) -> list[Row]:
    """So many different submissions, log-normal: median 5 s and 2 GB."""
    random = np.random.default_rng(seed)
    walls = (5 * S * np.exp(0.3 * random.standard_normal(count))).astype(int).tolist()
    peaks = (2 * GB * np.exp(0.3 * random.standard_normal(count))).astype(int).tolist()
    return [
        row(at, wall_command=wall, memory_peak_tree=peak, **changed)
        for at, (wall, peak) in enumerate(zip(walls, peaks, strict=True))
    ]


def plan_of(folder: Path, *given: str, alternatives: bool = False, where: Sequence[str] = ()) -> Plan:
    """The plan of `key=value` on a folder of records."""
    pairs = [(one, *one.partition("=")[::2]) for one in given]
    return made.make(data_of(folder), parse(list(where)), read(None, pairs), alternatives)


def data_of(folder: Path) -> Data:
    return open_data([folder])


def fleet(folder: Path, kind: str, records: int, **changed: Any) -> Path:
    make(folder, Synth(Kind(kind), records, **changed))
    return folder


def command(*words: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`proofcost plan WORDS`."""
    return subprocess.run(
        [sys.executable, "-m", "proofcost", "plan", *map(str, words)],
        capture_output=True, text=True, timeout=120, check=False, cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
