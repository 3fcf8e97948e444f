"""ClickHouse in this process (package `chdb`): one machine, and no server to run. A server takes the same SQL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from proofcost.reports.answers import OWN_EVENTS, columns
from proofcost.reports.engine import CLICKHOUSE, EngineError, need_package
from proofcost.reports.place import shown
from proofcost.reports.translation import Dialect

_TYPES = {"VARCHAR": "Nullable(String)", "BIGINT": "Nullable(Int64)", "BOOLEAN": "Nullable(Bool)"}
_SETTINGS = {
    "output_format_arrow_string_as_string": 1,
    "session_timezone": "'UTC'",
    # As everywhere else: a name means a column before it means what another line of SELECT calls so.
    "prefer_column_name_to_alias": 1,
    "count_distinct_implementation": "'uniqExact'",
    "transform_null_in": 0,
    "use_hive_partitioning": 0,  # else a folder's name (host=...) would stand for a column of the files
}


class ClickHouse:
    """Raises EngineError, as Engine says."""

    name = CLICKHOUSE
    dialect = Dialect.CLICKHOUSE

    def __init__(self) -> None:
        need_package(CLICKHOUSE, "chdb")
        from chdb import session

        start: Any = session.Session
        self._session: Any = start()
        settings = ", ".join(f"{name} = {value}" for name, value in _SETTINGS.items())
        self._do(f"SET {settings}")

    @property
    def alive(self) -> bool:
        return True

    def open(self, view: str, files: Sequence[str], rows: int) -> None:
        elsewhere = next((name for name in files if "://" in name), None)
        if elsewhere is not None:
            raise EngineError(f"--engine {self.name}: reads files of this machine only, not {shown(elsewhere)}")
        kinds = ", ".join(f"`{name}` {_TYPES[kind]}" for name, kind in columns())
        # A pattern may not begin with its alternatives: then it stands for no file at all.
        base = os.path.commonpath([os.path.dirname(name) for name in files])
        names = ",".join(os.path.relpath(name, base) for name in files)
        where = _text(f"{base}/{{{names}}}" if len(files) > 1 else files[0])
        told = ", ".join(f"`{name}`" for name, _ in columns() if name != "events")
        own = f"SELECT {told}, `events` AS `{OWN_EVENTS}` FROM file({where}, 'Parquet', {_text(kinds)})"
        self.view(view, f"SELECT *, coalesce(`{OWN_EVENTS}`, `form_started`) AS `events` FROM ({own})")

    def view(self, view: str, query: str) -> None:
        self._do(f"CREATE VIEW `{view}` AS {query}")

    def ask(self, query: str) -> pa.Table:
        with pa.ipc.open_file(pa.BufferReader(self._do(query))) as answer:
            return answer.read_all()

    def _do(self, query: str) -> bytes:
        try:
            made: bytes = self._session.query(query, "Arrow").bytes()
        except Exception as error:  # noqa: BLE001  # the package raises plain RuntimeError, Exception, ChdbError
            told = str(error).split(" (in query")[0].splitlines()[0][:300]
            raise EngineError(f"--engine {self.name}: {told}", True) from None
        return made


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
