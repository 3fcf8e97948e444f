"""Answers of another engine, as DuckDB would give them: the same columns, of the same types.

An empty table of the same columns is asked in DuckDB beside it, for nothing: what that returns says how the answer is
to look, and a query that DuckDB would refuse is refused here too.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.harness.columns import JOURNAL
from proofcost.reports import declarations
from proofcost.reports.dataset import VIEW, Data, DataError, Named, connect, named, surveyed, uncompacted
from proofcost.reports.engine import Engine, EngineError
from proofcost.reports.folding import FOLDED_FROM, FORMS, NUMBER_GAPS, TEXT_GAPS, unfolded
from proofcost.reports.overlaps import Span, meeting, span_of, told_again
from proofcost.reports.parquet import SCHEMA
from proofcost.reports.place import is_url, local_path, shown, without_secrets
from proofcost.reports.place_folder import Folder
from proofcost.reports.remote import Remote
from proofcost.reports.survey import SHARED, shared
from proofcost.reports.translation import TranslationError, translated

OWN_EVENTS = "own_events"
"""What stands in a file's column `events`. In the view, `events` is that or, where the lines are folded, the form of
the first: enough to look for words in, and `Answers.lines` has the whole."""
_SQL = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN"}
_FOLDED = (*FORMS, *NUMBER_GAPS, *TEXT_GAPS)
_FORBIDDEN = "*?[]{},\\"
"""Characters that an engine takes for a pattern of names."""
_views = itertools.count(1)


def columns() -> Iterator[tuple[str, str]]:
    """(name, SQL type in DuckDB) of each column that an engine reads."""
    yield from ((of.name, _SQL[of.type]) for of in SCHEMA)
    yield from ((name, "BIGINT" if name in NUMBER_GAPS else "VARCHAR") for name in _FOLDED)


def open_on_engine(paths: Sequence[str | os.PathLike[str]], start: Callable[[], Engine]) -> Data:
    """Raises DataError, EngineError."""
    given = named(paths)
    here = [*given.files, *(path for one in given.sealed if isinstance(one.place, Folder) for path in one.paths())]
    apart = uncompacted(given.journals, here) if given.journals else 0
    if apart:
        verb = "record is" if apart == 1 else "records are"
        raise DataError(
            f"{apart} {verb} not compacted, and an engine reads Parquet files only; run `proofcost store compact`"
        )
    files = list(dict.fromkeys([*map(str, given.files), *(url for one in given.sealed for url in one.urls())]))
    if not files:
        raise DataError(f"{shown(paths[0])}: no Parquet file; run `proofcost store compact`, or name other data")
    for name in files:
        if any(char in name for char in _FORBIDDEN):
            raise DataError(
                f"{shown(name)}: engines take {_FORBIDDEN} in a path for a pattern; link to it under another"
            )
    spans = _spans(here, given)
    answers = Answers(start(), files, sum(span.rows for span in spans))
    copies = answers.drop_copies() if meeting(spans) else 0
    notes = [*given.notes, *told_again(copies)]
    for one in given.sealed:
        if isinstance(one.place, Folder):
            notes += surveyed(one)
        else:
            notes.append(f"{one.place.shown}: of its files' versions and clocks nothing is told, the engine read them")
    if given.sealed:
        notes += shared(answers.rows(SHARED.format(table=VIEW), (JOURNAL,)))
    local = [path for path in map(local_path, paths) if path is not None]
    names = tuple(shown(one) if is_url(one) else str(one) for one in paths)
    return Data(connect(), [], len(files), 0, declarations.read(local), names, tuple(notes), answers)


def _spans(here: Sequence[Path], given: Named) -> list[Span]:
    """What the files' own ends tell: how many records there are, and of when. `here`: those on this machine. Raises
    DataError."""
    try:
        spans = [span_of(pq.read_metadata(path)) for path in dict.fromkeys(here)]
        for one in given.sealed:
            if isinstance(one.place, Remote):
                for url in one.urls():
                    with one.place.filesystem.open(url) as file:
                        spans.append(span_of(pq.read_metadata(file)))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{without_secrets(str(error)).splitlines()[0][:300]}; move that file away") from None
    return spans


class Answers:
    """One data set on an engine."""

    def __init__(self, engine: Engine, files: Sequence[str], rows: int) -> None:
        """Raises EngineError where the engine does not see all rows of the files."""
        self._engine = engine
        self._view = f"{VIEW}_{next(_views)}"
        self._shapes = duckdb.connect()
        kinds = ", ".join(f'"{name}" {kind}' for name, kind in (*columns(), (OWN_EVENTS, "VARCHAR")))
        self._shapes.execute(f"CREATE TABLE {VIEW} ({kinds})")
        engine.open(self._view, files, rows)
        ((seen,),) = self.rows(f"SELECT count(*) FROM {VIEW}")
        if seen != rows:
            raise EngineError(
                f"--engine {engine.name}: it sees {seen} of {rows} records; do all of its workers read the same files "
                f"as this machine ({files[0]}, ...)?"
            )

    def drop_copies(self) -> int:
        """Let one of the copies of a record stand for all of them. How many others there were."""
        ((copies,),) = self.rows(f"SELECT count(*) - count(DISTINCT record) FROM {VIEW}")
        if copies:
            names = ", ".join(f'"{name}"' for name in (*(name for name, _ in columns()), OWN_EVENTS))
            numbered = f"SELECT {names}, row_number() OVER (PARTITION BY record ORDER BY record) AS copy FROM {VIEW}"
            query = f"SELECT {names} FROM ({numbered}) AS numbered WHERE copy = 1"
            single = f"{VIEW}_{next(_views)}"
            self._engine.view(single, translated(query, (), self._engine.dialect, self._view))
            self._view = single
        return int(str(copies))

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        return list(zip(*(column.to_pylist() for column in self.table(query, parameters).columns), strict=True))

    def table(self, query: str, parameters: Sequence[object] = ()) -> pa.Table:
        """Raises EngineError."""
        try:
            text = translated(query, parameters, self._engine.dialect, self._view)
            schema = self._shapes.sql(query, params=list(parameters)).to_arrow_table().schema
        except TranslationError as error:
            raise EngineError(f"--engine {self._engine.name}: {error}") from None
        answer = self._engine.ask(text)
        try:
            made = [column.cast(of.type) for column, of in zip(answer.columns, schema, strict=True)]
        except (pa.ArrowException, ValueError) as error:
            raise EngineError(
                f"--engine {self._engine.name}: an answer of another kind: {str(error).splitlines()[0][:200]}", True
            ) from None
        return pa.Table.from_arrays(made, schema=schema)

    def lines(self, names: Sequence[str], condition: str, parameters: Sequence[object]) -> list[tuple[object, ...]]:
        """Columns of the records that a condition chooses, and behind them the records' own lines."""
        shown = ", ".join(f'"{name}"' for name in (*names, *FOLDED_FROM, OWN_EVENTS))
        held = self.table(f"SELECT {shown} FROM {VIEW} WHERE {condition}", parameters)
        found = [column.to_pylist() for column in held.columns]
        parts = dict(zip((*FOLDED_FROM, "events"), found[len(names) :], strict=True))
        return list(zip(*found[: len(names)], unfolded(parts), strict=True))
