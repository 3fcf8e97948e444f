"""Whether runs on two host classes show that they cost the same, so that somebody may declare them one.

Works that ran on both (same kernel binary, configuration, threads, sandbox, input) are compared as two independent
samples. Wall and instructions must be shown to be the same: every work equivalent, or the whole within delta; no other
figure may have changed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from proofcost.reports.cells import Cell, read
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.statistics.suite import suite_ratio
from proofcost.reports.statistics.unpaired import compare_samples
from proofcost.reports.statistics.verdict import Finding, Verdict, judge
from proofcost.reports.units import plural
from proofcost.reports.values import pooled
from proofcost.reports.where import Where

SHOWN_GROUPS = ("instructions", "callgrind", "wall")
"""Groups of metrics that must be shown to be the same, where there are any."""

_ALIKE = (
    "phase",
    "subject",
    "kernel",
    "kernel_sha256",
    "config_sha256",
    "threads",
    "sandbox",
    "counters",
    "input_sha256",
    "metric_definitions",
    "source",
)
_FINISHED = ("accepted", "rejected", "declined", "ran", "exit 0")


@dataclass(frozen=True, slots=True)
class Shown:
    """One metric, over all works that ran on both classes."""

    metric: Metric
    works: int
    equivalent: int
    changed: int
    ratio: float
    """The second class over the first, geometric mean over works."""
    low: float | None
    high: float | None

    @property
    def is_same(self) -> bool:
        bound = math.log1p(self.metric.delta)
        inside = (
            self.low is not None
            and self.high is not None
            and math.log(self.low) >= -bound
            and math.log(self.high) <= bound
        )
        return not self.changed and (self.equivalent == self.works or inside)

    @property
    def said(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4f} .. {self.high:.4f}]"
        return (
            f"{self.metric.name} {self.ratio:.4f}{interval}, {self.equivalent} of {plural(self.works, 'work')} "
            f"equivalent within {self.metric.delta:.1%}" + (f", {self.changed} changed" if self.changed else "")
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runs show of two classes."""

    shown: tuple[Shown, ...]
    records: pa.Table
    """The runs themselves, all columns, in the order of their ids."""

    @property
    def sha256(self) -> str:
        """Of the records' ids and what they hold: the same for the same runs, however they were stored."""
        made = hashlib.sha256()
        for row in self.records.to_pylist():
            made.update(repr(sorted((name, value) for name, value in row.items() if value is not None)).encode())
        return made.hexdigest()

    @property
    def against(self) -> list[Shown]:
        """What speaks against taking the two as one."""
        return [one for one in self.shown if one.changed]

    @property
    def open(self) -> list[Shown]:
        """What would have to be shown, and is not yet."""
        wanted = [one for one in self.shown if one.metric.group in SHOWN_GROUPS]
        return [one for one in wanted if not one.is_same]

    @property
    def said(self) -> str:
        return "; ".join(one.said for one in self.shown if one.metric.group in SHOWN_GROUPS)

    def details(self) -> dict[str, Any]:
        """For programs."""
        return {
            "records": self.records.num_rows,
            "shown": [
                {"metric": one.metric.name, "works": one.works, "equivalent": one.equivalent, "ratio": one.ratio,
                 "low": one.low, "high": one.high, "delta": one.metric.delta}
                for one in self.shown
            ],
        }  # fmt: skip


def evidence(data: Data, one: str, other: str) -> Evidence:
    """Of all runs on the two host classes."""
    cells = [
        {cell.key: cell for cell in read(data, Where("host_class = ?", (name,)), _ALIKE, METRICS, ("host", "boot"))}
        for name in (one, other)
    ]
    shared = [key for key in cells[0] if key in cells[1] and _both_finished(cells[0][key], cells[1][key])]
    shown: list[Shown] = []
    done: set[tuple[tuple[str, ...], str]] = set()
    for metric in METRICS:
        works = [
            key
            for key in shared
            if (key, metric.group) not in done and all(metric.name in side[key].values for side in cells)
        ]
        done.update((key, metric.group) for key in works)
        if works:
            shown.append(_shown(metric, [(cells[0][key], cells[1][key]) for key in works]))
    query = f"SELECT * FROM {VIEW} WHERE host_class IN (?, ?) ORDER BY record"
    records = data.table(query, (one, other))
    return Evidence(tuple(shown), records)


def _both_finished(one: Cell, other: Cell) -> bool:
    return one.verdict is not None and one.verdict == other.verdict and one.verdict in _FINISHED


def _shown(metric: Metric, pairs: Sequence[tuple[Cell, Cell]]) -> Shown:
    sides = [[pooled(side.values[metric.name].values()).floats() for side in pair] for pair in pairs]
    comparisons = [compare_samples(one, other) for one, other in sides]
    verdicts: Sequence[Verdict] = judge(comparisons, metric.delta)
    suite = suite_ratio({str(at): [comparison.ratio] for at, comparison in enumerate(comparisons)})
    assert suite.ratio is not None
    return Shown(
        metric,
        len(pairs),
        sum(verdict.finding is Finding.EQUIVALENT for verdict in verdicts),
        sum(verdict.finding in (Finding.REGRESSED, Finding.IMPROVED) for verdict in verdicts),
        suite.ratio,
        suite.low,
        suite.high,
    )
