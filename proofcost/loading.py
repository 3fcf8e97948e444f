"""`proofcost.load(PATH)`: records as an Arrow table, for notebooks."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def load(
    *paths: str | os.PathLike[str],
    where: list[str] | None = None,
    since: str | None = None,
    columns: list[str] | None = None,
) -> pa.Table:
    """Records of stores, folders, files and URLs as one Arrow table (`.to_pandas()` makes a DataFrame of it).

    Columns are those of `proofcost store sql --columns`; times in ns, sizes in bytes; null is "not measured", and
    `absent` says why. `where` and `since` as on the command line. Without `paths`: your own store.
    What is to be known of a place where files are collected (left-out files, clocks that disagree) is a warning.
    Raises DataError (nothing there), WhereError (a condition that cannot be understood).
    """
    from proofcost.harness.store import default_place
    from proofcost.reports.dataset import open_data
    from proofcost.reports.where import parse

    data = open_data(paths or [default_place(dict(os.environ), os.geteuid())])
    for note in data.notes:
        warnings.warn(note, stacklevel=2)
    condition = parse(where or [], since)
    names = ", ".join(f'"{name}"' for name in columns) if columns else "*"
    query = f"SELECT {names} FROM records WHERE {condition.sql} ORDER BY started_ns, record"
    return data.table(query, condition.parameters)
