"""Paths -> one table `records` in DuckDB: Parquet files as they are, and journals that are not compacted yet.

What can be handed over: a store, a folder of Parquet files, one Parquet file, a session's folder, a `.jsonl` file. A
record that stands in several of them counts once; the Parquet copy stands for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from proofcost.harness.columns import NAMES, rows
from proofcost.harness.decode import Problem
from proofcost.harness.reading import read_store
from proofcost.reports import parquet
from proofcost.reports.compaction import events_of
from proofcost.reports.fast_decode import decode

VIEW = "records"


class DataError(Exception):
    """A path holds nothing that can be read. One line: what, where, and how to mend it."""


@dataclass(slots=True)
class Data:
    """An open data set: ask `connection` for `records` (columns: harness/columns.py)."""

    connection: duckdb.DuckDBPyConnection
    problems: list[Problem]
    parquet_files: int
    journal_records: int


def open_data(paths: Sequence[str | os.PathLike[str]], memory: str | None = None) -> Data:
    """Open paths as one data set. `memory`: a limit for DuckDB, as `1GB`. Raises DataError."""
    files: dict[Path, None] = {}
    journals: list[str] = []
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; name a store, a folder of Parquet files or a .jsonl file")
        if path.is_file() and path.suffix == ".parquet":
            files[path] = None
            continue
        if path.is_dir():
            files.update(dict.fromkeys(parquet.files(path)))
            if not _holds_journals(path):
                continue
        journals.append(str(path))
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    if memory is not None:
        connection.execute(f"SET memory_limit = '{memory}'")
    problems, table = _journals(journals, files)
    connection.register("journal", table)
    sources = ["SELECT * FROM journal"]
    if files:
        connection.execute(f"CREATE VIEW compacted AS SELECT * FROM {_scan(list(files))}")
        missing = set(NAMES) - {str(row[0]) for row in connection.execute("DESCRIBE compacted").fetchall()}
        if "record" in missing:
            raise DataError(f"{next(iter(files))}: a Parquet file, but not of records (no column `record`)")
        sources.append("SELECT * FROM compacted")
    connection.execute(f"CREATE VIEW {VIEW} AS {' UNION ALL BY NAME '.join(sources)}")
    return Data(connection, problems, len(files), table.num_rows)


def _holds_journals(folder: Path) -> bool:
    """Whether there may be record files below: not in a folder that has Parquet files and nothing of a store."""
    if (folder / "sessions").is_dir():
        return True
    return not ((folder / "parquet").is_dir() or any(folder.glob("day=*")) or any(folder.glob("*.parquet")))


def _scan(files: Sequence[Path]) -> str:
    names = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
    return f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"


def _journals(paths: Sequence[str], files: dict[Path, None]) -> tuple[list[Problem], pa.Table]:
    """The records of journals that stand in none of the Parquet files."""
    problems: list[Problem] = []
    known: set[str] = set()
    tables = [parquet.table_of([])]
    if paths and files:
        with duckdb.connect() as reader:
            known = {str(row[0]) for row in reader.execute(f"SELECT record FROM {_scan(list(files))}").fetchall()}
    for path in paths:
        read = read_store(path, decode)
        problems += read.problems
        made = []
        for row, record in zip(rows(read.records), read.records, strict=True):
            if row["record"] not in known:
                known.add(row["record"])
                made.append({**row, "events": events_of(record)})
        tables.append(parquet.table_of(made))
    return problems, pa.concat_tables(tables)
