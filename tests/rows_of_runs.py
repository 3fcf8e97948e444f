"""Rows as records give them, made by hand for reports, and data sets of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from proofcost.harness.columns import Row
from proofcost.reports import parquet
from proofcost.reports.dataset import Data, open_data

MS = 10**6
DAY = 86_400 * 10**9
BEGIN = 1_700_000_000 * 10**9

_made = iter(range(10**12))


def run(wall: float | None = None, **more: Any) -> Row:
    """One run that came to `accepted`; `wall` in ms."""
    row: Row = {
        "record": f"r{next(_made)}", "session": "s", "plan": "p", "host": "h", "boot": "b",
        "host_class": "0123456789abcdef-11111111", "phase": "checker", "kernel": "k", "kernel_sha256": "d" * 64,
        "workload": "w", "outcome": "exited", "cause": "completed", "exit_code": 0, "verdict": "accepted",
        "started_ns": BEGIN, "source": "journal", **more,
    }  # fmt: skip
    if wall is not None:
        row["wall_program"] = round(wall * MS)
    return row


def noisy(mean: float, cv: float, count: int, seed: int) -> list[float]:
    """Log-normal, in order of time."""
    return [float(value) for value in mean * np.exp(np.random.default_rng(seed).normal(0, cv, count))]


def kept(folder: Path, rows: list[Row], name: str = "x") -> Path:
    parquet.write(folder / f"{name}.0.parquet", parquet.table_of(rows))
    return folder / f"{name}.0.parquet"


def data_of(folder: Path, rows: list[Row]) -> Data:
    return open_data([kept(folder, rows)])
