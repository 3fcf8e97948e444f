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

from proofcost.harness.columns import rows
from proofcost.harness.decode import Problem
from proofcost.harness.reading import read_store
from proofcost.reports import declarations, parquet
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
    declared: tuple[declarations.Declaration, ...] = ()
    """Host classes that are taken as one (`store declare`), of all stores among the paths."""
    paths: tuple[str, ...] = ()
    """What was opened."""


def open_data(paths: Sequence[str | os.PathLike[str]]) -> Data:
    """Open paths as one data set. Raises DataError."""
    files: dict[Path, None] = {}
    journals: list[str] = []
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; name a store, a folder of Parquet files or a .jsonl file")
        if any(char in str(path) for char in "*?["):  # DuckDB takes every name for a pattern
            raise DataError(f"{path}: a path with * ? or [ cannot be read; link to it under another name")
        if path.is_file() and path.suffix == ".parquet":
            files[path.resolve()] = None
            continue
        if path.is_dir():
            files.update(dict.fromkeys(parquet.files(path.resolve())))
            if not _holds_journals(path):
                continue
        journals.append(str(path))
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    sources = ["SELECT * FROM journal"]
    if files:
        _open_files(connection, list(files), len(paths) > 1)
        sources.append("SELECT * FROM compacted")
    problems, table = _journals(journals, connection if files else None)
    connection.register("journal", table)
    connection.execute(f"CREATE VIEW {VIEW} AS {' UNION ALL BY NAME '.join(sources)}")
    return Data(connection, problems, len(files), table.num_rows, declarations.read(paths), tuple(map(str, paths)))


def _open_files(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], several: bool) -> None:
    """Parquet files as the view `compacted`. `several`: they come from places that may hold copies of each other."""
    names = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
    scan = f"SELECT * FROM read_parquet([{names}], union_by_name = true, hive_partitioning = false)"
    try:
        columns = {str(row[0]) for row in connection.execute(f"DESCRIBE {scan}").fetchall()}
        if "record" not in columns:
            raise DataError(f"{files[0]}: a Parquet file, but not of records (no column `record`)")
        count = f"SELECT count(*) - count(DISTINCT record) FROM ({scan})"
        if several and connection.execute(count).fetchall()[0][0]:
            scan += " QUALIFY row_number() OVER (PARTITION BY record) = 1"
        connection.execute(f"CREATE VIEW compacted AS {scan}")
    except duckdb.Error as error:
        raise DataError(f"{str(error).splitlines()[0][:300]}; move that file away") from None


def _holds_journals(folder: Path) -> bool:
    """Whether there may be record files below: not in a folder that has Parquet files and nothing of a store."""
    if (folder / "sessions").is_dir():
        return True
    return not ((folder / "parquet").is_dir() or any(folder.glob("day=*")) or any(folder.glob("*.parquet")))


def _journals(paths: Sequence[str], compacted: duckdb.DuckDBPyConnection | None) -> tuple[list[Problem], pa.Table]:
    """The records of journals that stand in none of the Parquet files."""
    problems: list[Problem] = []
    known: set[str] = set()
    tables = [parquet.table_of([])]
    if paths and compacted is not None:
        known = {str(row[0]) for row in compacted.execute("SELECT record FROM compacted").fetchall()}
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
