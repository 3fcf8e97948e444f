"""Calls that ask every question reports have, over the records of many_hosts.py; and what they asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proofcost import cli
from proofcost.reports.dataset import Data

_UNLIKE = ("--pool", "host_class")
_ALL = (*_UNLIKE, "--pool", "kernel_sha256", "--pool", "phase")
_PLANNED = (*_UNLIKE, "--pool", "memory", "--pool", "wall", "--rate", "100/h", "--host", "64c/256G")

CALLS: dict[str, tuple[str, ...]] = {
    "kernels": ("report", "kernels", "DATA", *_ALL),
    "kernels-some": ("report", "kernels", "DATA", *_ALL, "--where", 'label.comment~say "so"', "--where",
                     "kernel!=null", "--since", "2025-10-01"),
    "history": ("report", "history", "DATA", "--along", "label.commit", *_UNLIKE),
    "hosts": ("report", "hosts", "DATA"),
    "compare": ("compare", "nanoda", "twin", "--data", "DATA"),
    "plan": ("plan", "--data", "DATA", *_PLANNED, "--by", "label.tier", "--by", "covariate.export_lines_count"),
    # A record a cell in these two: of one host.
    "submissions": ("report", "submissions", "DATA", "--where", "host=host-3"),
    "noise": ("report", "noise", "DATA", "--where", "host=host-3"),
}  # fmt: skip
"""What each asks, by the name of the JSON that it writes."""


def call(name: str, data: Path, engine: str = "duckdb") -> list[str]:
    """Arguments that make one of them."""
    return [*(str(data) if word == "DATA" else word for word in CALLS[name]), "--engine", engine]


def make(name: str, data: Path, folder: Path, engine: str = "duckdb") -> str:
    """The JSON that it writes. Its terminal is not looked at."""
    path = folder / f"{name}.json"
    status = cli.main([*call(name, data, engine), "-o", str(path)])
    assert status == 0, (name, engine, status)
    return path.read_text()


@contextmanager
def recorded() -> Iterator[dict[tuple[str, tuple[Any, ...]], None]]:
    """Every (query, parameters) that reports ask of `records` meanwhile."""
    seen: dict[tuple[str, tuple[Any, ...]], None] = {}

    def watched(old: Any, at: int) -> Any:
        def asks(self: Data, *given: Any) -> Any:
            seen[given[at], tuple(given[at + 1] if len(given) > at + 1 else ())] = None
            return old(self, *given)

        return asks

    def lines(self: Data, names: Sequence[str], condition: str, parameters: Sequence[object] = ()) -> Any:
        seen[f"SELECT {', '.join(names)} FROM records WHERE {condition}", tuple(parameters)] = None
        return old_lines(self, names, condition, parameters)

    old_lines = Data.lines
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Data, "rows", watched(Data.rows, 0))
        patch.setattr(Data, "table", watched(Data.table, 0))
        patch.setattr(Data, "keep", watched(Data.keep, 1))
        patch.setattr(Data, "lines", lines)
        yield seen
