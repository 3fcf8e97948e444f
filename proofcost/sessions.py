"""A store's sessions, for `show`, `log` and exports of one: those in files, and those that were pruned to Parquet.

What reads Parquet is not in the base install, and takes a third of a second to load: it is asked for only where there
is a Parquet file that `store compact` made.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from proofcost.extras import how
from proofcost.harness.merged import Record
from proofcost.harness.reading import Store, read_named, read_newest

if TYPE_CHECKING:
    from proofcost.reports.pruned import Copies

_NEEDED = ("duckdb", "orjson", "pyarrow")


class CopiesError(Exception):
    """The store's Parquet files cannot be read. One line: which, why, and what to do."""


def newest(path: str, count: int) -> Store:
    """What `path` holds of its `count` newest sessions (harness.reading.read_newest). Raises CopiesError."""
    store = read_newest(path, count)
    copies = _copies(path)
    return store if copies is None else copies.newest(store, count)


def named(path: str, wanted: str) -> Store:
    """What `path` holds of the sessions and calls of this id, or that begin so (read_named). Raises CopiesError."""
    store = read_named(path, wanted)
    copies = _copies(path)
    return store if copies is None else copies.named(store, wanted)


def contents_of(records: Sequence[Record]) -> dict[str, bytes]:
    """What the pruned files of one session's records held, by name. Raises CopiesError."""
    if all(os.path.lexists(record.path) for record in records):
        return {}
    top, _, _ = records[0].path.rpartition("/sessions/")
    copies = _copies(top)
    return {} if copies is None else copies.contents(records[0].session)


def _copies(path: str) -> Copies | None:
    """The Parquet files that were made of a store; None where there are none, or nothing to read them with."""
    try:
        made = any(name.startswith("day=") for name in os.listdir(os.path.join(path, "parquet")))
    except OSError:
        return None
    if not made:
        return None
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        said = f"sessions that were pruned to Parquet are left out: to read them, {how('reports')}"
        print(f"proofcost: {said}", file=sys.stderr)
        return None
    from proofcost.reports.dataset import DataError
    from proofcost.reports.pruned import Copies

    try:
        return Copies(path)
    except DataError as error:
        raise CopiesError(str(error)) from None
