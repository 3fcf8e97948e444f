"""Which of many Parquet files may hold the same record: those of one host whose spans of time meet.

A record has its host and its moment of starting in every copy. Files tell the least and the largest of both at their
ends, so that of files which do not meet no row is read. A file that does not tell may meet any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import pyarrow.parquet as pq

from proofcost.reports.units import plural


@dataclass(frozen=True, slots=True)
class Span:
    """What a file's end tells of its records."""

    host: str | None
    """The host of all of them, "" where none has one; None: of several hosts, or not told."""
    first_ns: float
    """Not told: -inf."""
    last_ns: float
    """Not told: inf. Below `first_ns` where no record has a start."""
    timeless: bool
    """Whether there may be records without a start."""
    rows: int


@dataclass(frozen=True, slots=True)
class _Told:
    least: Any
    most: Any
    nulls: bool
    """Whether there may be nulls."""


def span_of(end: pq.FileMetaData) -> Span:
    """The span of a file, by its end."""
    places = {end.schema.column(at).path: at for at in range(len(end.schema))}
    host, start = (_told(end, places.get(name)) for name in ("host", "started_ns"))
    if host is None or host.least != host.most or (host.nulls and host.least is not None):
        name = None
    else:
        name = "" if host.least is None else str(host.least)
    if start is None or not isinstance(start.least, int | None):
        return Span(name, -inf, inf, True, end.num_rows)
    if start.least is None:
        return Span(name, inf, -inf, True, end.num_rows)
    return Span(name, start.least, start.most, start.nulls, end.num_rows)


def _told(end: pq.FileMetaData, column: int | None) -> _Told | None:
    """A column's least and largest value, None for both where all are null; None where it is not told."""
    if column is None:
        return None
    least: Any = None
    most: Any = None
    nulls = False
    for number in range(end.num_row_groups):
        part = end.row_group(number).column(column)
        if not part.num_values:
            continue
        told = part.statistics
        if told is None or not told.has_null_count:
            return None
        nulls = nulls or told.null_count > 0
        if told.null_count == end.row_group(number).num_rows:
            continue
        if not told.has_min_max:
            return None
        least = told.min if least is None else min(least, told.min)
        most = told.max if most is None else max(most, told.max)
    return _Told(least, most, nulls)


def meeting(spans: Sequence[Span]) -> list[int]:
    """The places, in `spans`, of files that may hold a record which stands in another of them as well."""
    there = [at for at, span in enumerate(spans) if span.rows]
    anywhere = [at for at in there if spans[at].host is None]
    found: set[int] = set()
    for host in {spans[at].host for at in there}:
        group = anywhere if host is None else [*anywhere, *(at for at in there if spans[at].host == host)]
        found.update(_meeting(spans, group))
    return sorted(found)


def _meeting(spans: Sequence[Span], group: Iterable[int]) -> Iterator[int]:
    """In order of their beginnings: whoever begins before the longest of those before it ends meets that one."""
    group = sorted(group, key=lambda at: spans[at].first_ns)
    timeless = [at for at in group if spans[at].timeless]
    if len(timeless) > 1:
        yield from timeless
    longest: int | None = None
    for at in group:
        if spans[at].first_ns > spans[at].last_ns:
            continue
        if longest is not None and spans[at].first_ns <= spans[longest].last_ns:
            yield from (longest, at)
        if longest is None or spans[at].last_ns > spans[longest].last_ns:
            longest = at


def told_again(copies: int) -> list[str]:
    """What is said of records that stood in several files."""
    if not copies:
        return []
    verb = "stands" if copies == 1 else "stand"
    return [f"{plural(copies, 'record')} {verb} there again, in another file; each counts once"]
