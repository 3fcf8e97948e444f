"""Paths -> one table `records` in DuckDB: Parquet files as they are, and journals that are not compacted yet.

What can be handed over: a store, a folder of Parquet files, one Parquet file, a session's folder, a `.jsonl` file, a
place where many hosts' files are collected (a folder or URL; sealed_files.py). A record that stands in several of them
counts once; the Parquet copy stands for it.

A store's sessions are read one by one, and kept as rows with their lines folded (folding.py): some 2 kB a record, not
60. More than `HELD_ROWS` of them go to a temporary file, which goes when the process does. `events` is made of the
forms only for a query that asks for it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.harness.columns import JOURNAL, NAMES, Row
from proofcost.harness.decode import Problem
from proofcost.harness.derive import shared_hosts
from proofcost.harness.merged import Record
from proofcost.reports import declarations, ordinary, parquet
from proofcost.reports.compaction import any_rows
from proofcost.reports.constants import PHYSICAL, constants
from proofcost.reports.folding import FOLDED_FROM, unfolded
from proofcost.reports.overlaps import meeting, span_of, told_again
from proofcost.reports.place import RemoteError, is_url, local_path, shown
from proofcost.reports.sealed_files import SealedFile, SealedFiles, nothing_sealed, sealed_files
from proofcost.reports.survey import SHARED, ForeignError, shared, survey

if TYPE_CHECKING:
    from proofcost.reports.answers import Answers

VIEW = "records"
HELD_ROWS = 50_000
_TABLE_ROWS = 2000
_UNFOLD = "proofcost_unfold"
_TYPES = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN", parquet.FORM: "VARCHAR"}
_SQL_TYPES = {field.name: _TYPES[field.type] for field in parquet.FOLDED}
_spools: list[tempfile.TemporaryDirectory[str]] = []
"""Kept until the process ends: whoever asks holds a connection, and nobody says when it is done with."""


class DataError(Exception):
    """A path holds nothing that can be read. One line: what, where, and how to mend it."""


@dataclass(slots=True)
class Data:
    """An open data set: one table, `records` (columns: harness/columns.py), that is asked in SQL."""

    connection: duckdb.DuckDBPyConnection
    """Where answers are kept."""
    problems: list[Problem]
    parquet_files: int
    journal_records: int
    declared: tuple[declarations.Declaration, ...] = ()
    """Host classes that are taken as one (`store declare`), of all stores among the paths."""
    paths: tuple[str, ...] = ()
    """What was opened, as it is shown to people."""
    notes: tuple[str, ...] = ()
    """What is to be told of places where files are collected, one line each (sealed_files.py, survey.py)."""
    answers: Answers | None = None
    """Of another engine, which is then asked instead of `connection`."""

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The answer to a query over `records`; a parameter for each `?`."""
        if self.answers is not None:
            return self.answers.rows(query, parameters)
        return self.connection.execute(query, parameters).fetchall()

    def table(self, query: str, parameters: Sequence[object] = ()) -> pa.Table:
        """The same, for long answers."""
        if self.answers is not None:
            return self.answers.table(query, parameters)
        return self.connection.sql(query, params=list(parameters)).to_arrow_table()

    def keep(self, name: str, query: str, parameters: Sequence[object] = ()) -> None:
        """Keep an answer as the table `name` of `connection`, which is asked there from then on."""
        if self.answers is not None:
            self.connection.register("answer", self.answers.table(query, parameters))
            query, parameters = "SELECT * FROM answer", ()
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", parameters)

    def lines(self, names: Sequence[str], condition: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Columns of the records that a condition chooses, and behind them each record's `events`."""
        if self.answers is not None:
            return self.answers.lines(names, condition, parameters)
        return self.rows(f"SELECT {', '.join((*names, 'events'))} FROM {VIEW} WHERE {condition}", parameters)


def open_data(paths: Sequence[str | os.PathLike[str]]) -> Data:
    """Open paths as one data set. Raises DataError."""
    given = named(paths)
    notes = list(given.notes)
    places = [(one.place.shown, list(zip(_paths(one), one.files, strict=True))) for one in given.sealed]
    files = list(dict.fromkeys([*given.files, *(path for _, collected in places for path, _ in collected)]))
    journals = given.journals
    connection = connect()
    for where, collected in places:
        notes += _survey(where, collected)
    if files:
        notes += told_again(open_files(connection, files))
    if places:
        notes += _shared(connection, places[0][0])
    journal = _Journal(connection, _known(connection) if files and journals else set())
    for one in journals:
        journal.read(one)
    journal.finish()
    # Without the journals, where there are none: then the database knows what is the same everywhere (constants.py).
    sources = ["SELECT * FROM journal"] if journal.count or not files else []
    sources += ["SELECT * FROM compacted"] if files else []
    connection.execute(f"CREATE VIEW {VIEW} AS {' UNION ALL BY NAME '.join(sources)}")
    local = [path for path in map(local_path, paths) if path is not None]
    return Data(
        connection, journal.problems, len(files), journal.count, declarations.read(local),
        tuple(shown(given) if is_url(given) else str(given) for given in paths), tuple(notes),
    )  # fmt: skip


def _sealed(given: str | os.PathLike[str]) -> SealedFiles | None:
    """What a place with seals has; None for anything else. Raises DataError."""
    try:
        sealed = sealed_files(given)
        if sealed is not None and not sealed.files and (is_url(given) or not _holds_journals(Path(given))):
            raise nothing_sealed(sealed)
    except RemoteError as error:
        raise DataError(str(error)) from None
    return sealed


def _paths(sealed: SealedFiles) -> list[Path]:
    """Raises DataError."""
    try:
        return sealed.paths()
    except RemoteError as error:
        raise DataError(str(error)) from None


def surveyed(sealed: SealedFiles) -> list[str]:
    """What is to be told of the files of a place on this machine. Raises DataError."""
    return _survey(sealed.place.shown, list(zip(_paths(sealed), sealed.files, strict=True)))


def _survey(place: str, files: Sequence[tuple[Path, SealedFile]]) -> list[str]:
    """Raises DataError."""
    kinds = {name: PHYSICAL[kind] for name, kind in _SQL_TYPES.items() if kind in PHYSICAL}
    try:
        return survey(place, files, kinds)
    except ForeignError as error:
        raise DataError(str(error)) from None


def _shared(connection: duckdb.DuckDBPyConnection, place: str) -> list[str]:
    """Raises DataError."""
    try:
        return list(shared(connection.execute(SHARED.format(table="compacted"), [JOURNAL]).fetchall()))
    except duckdb.Error as error:
        raise DataError(f"{place}: {str(error).splitlines()[0][:300]}; move that file away") from None


@dataclass(frozen=True, slots=True)
class Named:
    """What paths name."""

    files: list[Path]
    """Parquet files of this machine that stand in no place with seals."""
    sealed: list[SealedFiles]
    journals: list[str]
    """Where there may be records that are not compacted."""
    notes: list[str]


def named(paths: Sequence[str | os.PathLike[str]]) -> Named:
    """What to read. Raises DataError."""
    files: dict[Path, None] = {}
    made = Named([], [], [], [])
    for given in paths:
        if (sealed := _sealed(given)) is not None:
            made.notes.extend(sealed.notes)
            made.sealed.append(sealed)
        path = local_path(given)
        if path is None:
            continue
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; name a store, a folder of Parquet files or a .jsonl file")
        if any(char in str(path) for char in "*?["):  # DuckDB takes every name for a pattern
            raise DataError(f"{path}: a path with * ? or [ cannot be read; link to it under another name")
        if path.is_file() and path.suffix == ".parquet":
            files[path.resolve()] = None
            continue
        if path.is_dir():
            if sealed is None:
                files.update(dict.fromkeys(parquet.files(path.resolve())))
            if not _holds_journals(path):
                continue
        made.journals.append(str(path))
    made.files.extend(files)
    return made


def uncompacted(journals: Sequence[str], files: Sequence[Path]) -> int:
    """How many records below these folders stand in none of the Parquet files. Raises DataError."""
    connection = connect()
    journal = _Journal(connection, set())
    for one in journals:
        journal.read(one)
    journal.finish()
    if not files or not journal.count:
        return journal.count
    open_files(connection, files)
    query = "SELECT count(*) FROM journal WHERE record NOT IN (SELECT record FROM compacted)"
    ((count,),) = connection.execute(query).fetchall()
    return int(count)


def connect() -> duckdb.DuckDBPyConnection:
    """A connection that can unfold `events`."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # it would draw on stdout, into whatever is piped from there
    connection.execute("SET parquet_metadata_cache = true")  # else each query reads all files' footers twice
    struct = duckdb.struct_type({name: _SQL_TYPES[name] for name in _FOLDED_FROM})
    create_function: Any = connection.create_function  # its stubs know no Arrow function
    create_function(_UNFOLD, _unfold, [struct], "VARCHAR", type="arrow", null_handling="special")
    return connection


_FOLDED_FROM = tuple(dict.fromkeys((*FOLDED_FROM, "events")))


def _unfold(rows: pa.ChunkedArray) -> pa.Array:
    """What DuckDB calls for `events`."""
    parts = rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]
    made: list[str | None] = []
    for part in parts:
        made += unfolded({name: part.field(name).to_pylist() for name in _FOLDED_FROM})
    return pa.array(made, pa.string())


def _selected(there: set[str], same: Mapping[str, str] | None = None) -> str:
    """The columns of `records`, of a source that has `there`. `same`: literals, for what they are in every row."""
    told = {name: f"NULL::{_SQL_TYPES[name]}" for name in NAMES if name not in there} | dict(same or {})
    names = [f"{told.get(name, quoted)} AS {quoted}" for name in NAMES for quoted in (f'"{name}"',)]
    if "form_started" in there:
        gaps = ", ".join(
            f'"{name}" := ' + (f'"{name}"' if name in there else f"NULL::{_SQL_TYPES[name]}") for name in _FOLDED_FROM
        )
        names[NAMES.index("events")] = f'{_UNFOLD}(struct_pack({gaps})) AS "events"'
    return ", ".join(names)


def _known(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT record FROM compacted").fetchall()}


def open_files(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> int:
    """Parquet files as the view `compacted`, each record once; how many stood in another file again. Raises
    DataError."""
    scan = _scan(files)
    try:
        types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {scan}").fetchall()}
        columns = set(types)
        if "record" not in columns:
            raise DataError(f"{files[0]}: a Parquet file, but not of records (no column `record`)")
        alike = {name: kind for name, kind in types.items() if kind == _SQL_TYPES.get(name) and name != "events"}
        same = constants(connection, files, scan, alike)
        doubtful = _doubtful(files)
        copies = 0
        if doubtful:
            count = f"SELECT count(*) - count(DISTINCT record) FROM ({_scan(doubtful)})"
            ((copies,),) = connection.execute(count).fetchall()
        if copies:
            # By the file's name: else the threads decide which of two copies stands for both.
            scan = f"{_scan(doubtful)} QUALIFY row_number() OVER (PARTITION BY record ORDER BY filename) = 1"
            if rest := [path for path in files if path not in set(doubtful)]:
                scan = f"({scan}) UNION ALL BY NAME ({_scan(rest)})"
        connection.execute(f"CREATE VIEW compacted AS SELECT {_selected(columns, same)} FROM ({scan})")
    except duckdb.Error as error:
        raise DataError(f"{str(error).splitlines()[0][:300]}; move that file away") from None
    return int(copies)


def _quoted(files: Sequence[Path]) -> str:
    return ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)


def _scan(files: Sequence[Path]) -> str:
    return f"SELECT * FROM read_parquet([{_quoted(files)}], union_by_name = true, hive_partitioning = false)"


def _doubtful(files: Sequence[Path]) -> list[Path]:
    """Those that may hold a record of another. Raises DataError."""
    spans = []
    for path in files if len(files) > 1 else ():
        try:
            spans.append(span_of(pq.read_metadata(path)))
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: {str(error).splitlines()[0][:300]}; move that file away") from None
    return [files[at] for at in meeting(spans)]


def _holds_journals(folder: Path) -> bool:
    """Whether there may be record files below: not in a folder that has Parquet files and nothing of a store."""
    if (folder / "sessions").is_dir():
        return True
    return not ((folder / "parquet").is_dir() or any(folder.glob("day=*")) or any(folder.glob("*.parquet")))


class _Journal:
    """The records of journals that stand in none of the Parquet files."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, known: set[str]) -> None:
        self.problems: list[Problem] = []
        self.count = 0
        self._connection, self._known = connection, known
        self._rows: list[Row] = []
        self._tables: list[pa.Table] = []
        self._files: list[str] = []
        self._boots: dict[tuple[str, str], list[int]] = {}

    def read(self, path: str) -> None:
        """Take in what stands below a path."""
        for part in _parts(path):
            made = ordinary.rows_of(part, float("inf")) if os.path.isdir(part) and part != path else None
            if made is None:
                made = any_rows(part, self.problems)
            for row in made:
                self._boot(row)
                if row["record"] not in self._known:
                    self._known.add(row["record"])
                    self._rows.append(row)
            if len(self._rows) >= _TABLE_ROWS:
                self._gather()

    def _boot(self, row: Row) -> None:
        if row.get("host") and row.get("boot") and "started_ns" in row:
            start = row["started_ns"]
            end = start + row.get("wall_command", 0)
            span = self._boots.setdefault((row["host"], row["boot"]), [start, end])
            span[:] = min(span[0], start), max(span[1], end)

    def _gather(self) -> None:
        self._tables.append(parquet.table_of(self._rows, parquet.FOLDED))
        self.count += len(self._rows)
        self._rows = []
        if sum(table.num_rows for table in self._tables) >= HELD_ROWS:
            if not self._files:
                _spools.append(tempfile.TemporaryDirectory(prefix="proofcost-"))
            self._files.append(f"{_spools[-1].name}/{len(self._files)}.parquet")
            parquet.write(Path(self._files[-1]), pa.concat_tables(self._tables).unify_dictionaries())
            self._tables = []

    def finish(self) -> None:
        """Make the view `journal`."""
        self._gather()
        self._connection.register("held", pa.concat_tables(self._tables).unify_dictionaries() if self._tables else None)
        scans = ["SELECT * FROM held"]
        if self._files:
            names = ", ".join("'" + name.replace("'", "''") + "'" for name in self._files)
            scans.append(f"SELECT * FROM read_parquet([{names}])")
        union = " UNION ALL BY NAME ".join(scans)
        columns = _selected(set(parquet.FOLDED.names))
        self._connection.execute(f"CREATE VIEW journal AS SELECT {columns} FROM ({union})")
        self.problems += shared_hosts(_moments(self._boots))


def _moments(boots: dict[tuple[str, str], list[int]]) -> Iterator[Record]:
    """Each boot's span as two records, which is all that `shared_hosts` looks at."""
    for (host, boot), span in boots.items():
        for moment in span:
            started = {"host": {"instance": host, "boot_id": boot}, "clocks": {"realtime_ns": moment}}
            yield Record("", "", started, None, None, "")


def _parts(path: str) -> Iterator[str]:
    """A store's sessions one by one, for memory's sake; anything else as it is."""
    sessions = os.path.join(path, "sessions")
    if not os.path.isdir(sessions):
        yield path
        return
    with os.scandir(sessions) as entries:
        found = sorted(entry.path for entry in entries)
    yield from found
