"""What answers the reports' questions in place of DuckDB, and how it is chosen: `--engine URL`.

An engine reads Parquet files and takes SQL. It gets the very queries that DuckDB gets, translated (translation.py); its
answers are given the types of DuckDB's (answers.py), so that whatever is made of them is the same code. Where it cannot
answer, the report fails with one line: an answer is the same, or absent.

A store's records that are not compacted are in no Parquet file: then nothing is answered at all.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from proofcost.reports.remote import FLEET

if TYPE_CHECKING:
    import pyarrow as pa

    from proofcost.reports.dataset import Data
    from proofcost.reports.translation import Dialect

DUCKDB = "duckdb"
CLICKHOUSE = "clickhouse"
KINDS = "duckdb, spark://HOST:PORT, spark-local, clickhouse"
"""What there is, for people."""
_SPARK = re.compile(r"spark://[A-Za-z0-9.:_\[\]-]+(,[A-Za-z0-9.:_\[\]-]+)*")
_SPARK_LOCAL = re.compile(r"spark-local(\[(\*|[1-9][0-9]*)\])?")

Opening = Callable[[Sequence[str | os.PathLike[str]]], "Data"]
"""Opens paths as one data set. Raises DataError, EngineError."""


class EngineError(Exception):
    """An engine that cannot be had, or that failed. One line: which, what, and how to mend it."""

    def __init__(self, said: str, under_way: bool = False) -> None:
        super().__init__(said)
        self.under_way = under_way
        """Whether it had begun to answer."""


class Engine(Protocol):
    """One that is there and answers. Its methods raise EngineError."""

    name: str
    """As people gave it."""
    dialect: Dialect

    @property
    def alive(self) -> bool:
        """Whether it still answers."""

    def open(self, view: str, files: Sequence[str], rows: int) -> None:
        """Have `view` stand for the rows of these Parquet files: columns by name, those that a file lacks null
        (names and types: `answers.columns`). `rows`: how many there are, about."""

    def view(self, view: str, query: str) -> None:
        """Have `view` stand for the answer to a query in its own dialect."""

    def ask(self, query: str) -> pa.Table:
        """The answer to a query in its own dialect."""


def opening(name: str) -> Opening:
    """How data are opened for an engine; it is started when first needed. Raises EngineError for one that is none."""
    if name == DUCKDB:
        from proofcost.reports.dataset import open_data

        return open_data
    if name != CLICKHOUSE and not _SPARK.fullmatch(name) and not _SPARK_LOCAL.fullmatch(name):
        raise EngineError(f"--engine {name!r}: no such engine; there is {KINDS}")

    def open_on(paths: Sequence[str | os.PathLike[str]]) -> Data:
        from proofcost.reports.answers import open_on_engine

        return open_on_engine(paths, lambda: _started(name))

    return open_on


_running: dict[str, Engine] = {}
"""By name: a process can have one of each, and starting one takes seconds."""


def _started(name: str) -> Engine:
    known = _running.get(name)
    if known is not None and known.alive:
        return known
    if name == CLICKHOUSE:
        from proofcost.reports.engine_clickhouse import ClickHouse

        _running[name] = ClickHouse()
    else:
        from proofcost.reports.engine_spark import Spark

        _running[name] = Spark(name)
    return _running[name]


def need_package(engine: str, package: str) -> None:
    """Raise EngineError where a package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise EngineError(f"--engine {engine}: {package} not installed; it needs the extra `fleet`: {FLEET}")
