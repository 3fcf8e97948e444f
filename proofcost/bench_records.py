"""The records of a bench's session, those too that `store prune` has left in Parquet files alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from proofcost.bench_suites import sessions
from proofcost.extras import how
from proofcost.harness.described import DescriptionError
from proofcost.harness.merged import Record, start_order


def records_of(place: str, session: str) -> tuple[Record, ...]:
    """All of them, by start. Raises DescriptionError where some may be in Parquet files that cannot be read here."""
    found = {record.invocation: record for record in sessions.records_of(place, session)}
    if os.path.isdir(f"{place}/parquet"):
        for record in _moved(place, session):
            found.setdefault(record.invocation, record)
    return tuple(sorted(found.values(), key=start_order))


def all_records_of(place: str) -> tuple[Record, ...]:
    """Those of every bench of a store, by start. Raises as `records_of`."""
    found = [record for one in sessions.benches(place) for record in records_of(place, one.session)]
    return tuple(sorted(found, key=start_order))


def _moved(place: str, session: str) -> Iterator[Record]:
    try:
        import pyarrow.parquet as pq

        from proofcost.reports import folding, parquet
    except ModuleNotFoundError as error:
        raise DescriptionError(
            f"{place}: records of this store were moved into Parquet files, and {error.name}, which reads them, is not "
            f"here: {how('reports')}"
        ) from None
    for file in parquet.files(Path(place)):
        there = set(pq.read_schema(file).names)
        needed = ["events", *(name for name in folding.FOLDED_FROM if name in there and name != "events")]
        table = pq.read_table(file, columns=needed, filters=[("session", "=", session)], partitioning=None)
        for lines in folding.unfolded(table.to_pydict()):
            if lines is None:
                continue
            events = {event["event"]: event for line in lines.split("\n") if (event := json.loads(line))}
            started = events["started"]
            later = (events.get("finished"), events.get("settled"))
            yield Record(started["invocation"], session, started, *later, str(file))
