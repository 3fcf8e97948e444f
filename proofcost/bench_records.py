"""The records of a bench's session, those too that `store prune` has left in Parquet files alone."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from proofcost.bench_suites import homes, sessions
from proofcost.bench_suites.homes import Run
from proofcost.extras import how
from proofcost.harness.described import DescriptionError
from proofcost.harness.merged import Record, start_order
from proofcost.harness.reading import read_store
from proofcost.harness.session import SESSION_FILE

RECORD, SETTLED = ".jsonl", ".settled"
"""The ends of a record's file names."""


def records_of(place: str, session: str) -> tuple[Record, ...]:
    """All of them, by start. Raises DescriptionError where some may be in Parquet files that cannot be read here."""
    found = {record.invocation: record for record in sessions.records_of(place, session)}
    if os.path.isdir(f"{place}/parquet"):
        for record in _moved(place, session):
            found.setdefault(record.invocation, record)
    return tuple(sorted(found.values(), key=start_order))


def runs_of(place: str, damaged: list[str] | None = None) -> Iterator[Run]:
    """What every bench of a store has run, read one by one: a record is some 50 kB. Raises as `records_of`.

    `damaged`: takes the paths of record files, or of a session's own, that could not be read whole.
    """
    wrong = [] if damaged is None else damaged
    known = set()
    for one in sessions.benches(place):
        known.add(one.session)
        with os.scandir(f"{place}/sessions/{one.session}") as entries:
            names = {entry.name.removesuffix(RECORD) for entry in entries if entry.name.endswith(RECORD)}
        there = {name for name in names if not name.endswith(SETTLED)}
        read = set()
        for name in sorted(there):
            path = sessions.invocation_file(place, one.session, name)
            found = read_store(path)
            run = homes.run_of(found.records[0]) if len(found.records) == 1 else None
            if run is None or (found.problems and not run.done):
                wrong.append(path)
            if run is not None:
                read.add(name)
                yield run
        moved = _moved(place, one.session) if os.path.isdir(f"{place}/parquet") else iter(())
        yield from filter(None, (homes.run_of(record) for record in moved if record.invocation not in read))
    wrong += _unknown(place, known)


def _unknown(place: str, known: Collection[str]) -> list[str]:
    """The sessions' files that tell of no bench, though records lie beside them."""
    try:
        names = sorted(set(os.listdir(f"{place}/sessions")) - set(known))
        return [
            f"{place}/sessions/{name}/{SESSION_FILE}"
            for name in names
            if any(file.endswith(RECORD) for file in os.listdir(f"{place}/sessions/{name}"))
        ]
    except OSError:
        return []


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
