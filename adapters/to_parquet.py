"""`export --to parquet`: the rows as they are, in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import IO

from proofcost.harness.columns import NAMES, Row

HELP = "one Parquet file with all columns"
MAPS = (
    (
        "every column",
        "the column of that name",
        "as it is; no `events` with --pseudonymise, where labels' names stay, and kernels' but for command lines",
    ),
)
_BATCH = 20_000


def write(rows: Iterable[Row], out: IO[bytes], say: Callable[[str], None]) -> None:
    """Write rows; needs pyarrow."""
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    from proofcost.harness.columns import COLUMNS, Kind

    kinds = {Kind.INT: pa.int64(), Kind.BOOL: pa.bool_(), Kind.TEXT: pa.string(), Kind.JSON: pa.string()}
    schema = pa.schema([(column.name, kinds[column.kind]) for column in COLUMNS])
    in_json = {column.name for column in COLUMNS if column.kind is Kind.JSON}
    waiting = iter(rows)
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        while batch := list(islice(waiting, _BATCH)):
            columns = [
                [
                    json.dumps(row[name], ensure_ascii=False, sort_keys=True)
                    if name in in_json and row.get(name) is not None
                    else row.get(name)
                    for row in batch
                ]
                for name in NAMES
            ]
            writer.write_table(
                pa.Table.from_arrays(
                    [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
                )
            )
