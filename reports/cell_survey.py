"""One look at all chosen records, so that what is the same in all of them is not asked of each cell again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from proofcost.reports.cell_sql import CUTTING, ELAPSED, Asked, text_of
from proofcost.reports.metrics import Metric

_SAMPLE = 1000
_SHORT = 12
"""Bytes of a text that DuckDB keeps in place, and compares as fast as numbers."""
_HASHED_MOST = 100_000
"""Different texts of a column that are held here with their hashes."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What was seen."""

    runs: int
    same: dict[str, str]
    """Of `Asked.sets` those with one value, and that."""
    columns: set[str]
    """Columns of metrics that hold anything."""
    backwards: bool
    causes: set[str]
    """Limits that cut any run off."""


def survey(asked: Asked, metrics: Sequence[Metric]) -> Survey:
    """Look at all records. Raises WhereError."""
    names = list(dict.fromkeys(asked.sets))
    sampled = asked.chosen([f"{asked.expression(name)} AS s{at}" for at, name in enumerate(names)])
    sample = asked.fetch(f"{sampled} LIMIT {_SAMPLE}")
    if not sample.num_rows:
        return Survey(0, {}, set(), False, set())
    # What differs among a few records already need not be looked at in all of them.
    seen = {name: set(column.to_pylist()) for name, column in zip(names, sample.columns, strict=True)}
    names = [name for name in names if len(seen[name]) == 1]
    values = [next(iter(seen[name])) for name in names]
    columns = sorted({metric.column for metric in metrics})
    counts = [f"count(CASE WHEN {asked.expression(name)} IS DISTINCT FROM ? THEN 1 END)" for name in names]
    counts += [f"count({column})" for column in columns]
    counts += [f"count(CASE WHEN cause = '{cause}' THEN 1 END)" for cause in CUTTING]
    counts += [f"count(CASE WHEN {ELAPSED} < 0 THEN 1 END)", "count(*)"]
    table = asked.fetch(asked.chosen(counts), values)
    found = iter([column.to_pylist()[0] for column in table.columns])
    same = {name: text_of(value, "") for name, value in zip(names, values, strict=True) if not next(found)}
    there = {column for column in columns if next(found)}
    causes = {cause for cause in CUTTING if next(found)}
    backwards, runs = found
    return Survey(runs, same, there, bool(backwards), causes)


def hashes(asked: Asked, expressions: Sequence[str]) -> dict[str, dict[int, str | None]]:
    """Of each expression that is a text, and whose texts' hashes are all different: {hash: text}.

    The database takes the hash of a text once for each text that a row group has, and groups by numbers far faster: the
    more keys, the more so. What is not found here is grouped as it is: with hashes alike, with very many texts, with
    short ones only or nearly one a record, as a sample shows.
    """
    names = list(dict.fromkeys(expressions))
    sampled = asked.chosen([f"{name} AS t{at}" for at, name in enumerate(names)])
    sample = asked.fetch(f"{sampled} LIMIT {_SAMPLE}")
    names = [name for name, column in zip(names, sample.columns, strict=True) if _worth_it(column)]
    if not names:
        return {}
    lists = asked.chosen([f"list(DISTINCT {name}) AS t{at}" for at, name in enumerate(names)])
    asked_of = [f"t{at}, list_transform(t{at}, lambda text: hash(text)) AS h{at}" for at in range(len(names))]
    table = asked.fetch(f"SELECT {', '.join(asked_of)} FROM ({lists}) AS texts")
    found: dict[str, dict[int, str | None]] = {}
    for at, name in enumerate(names):
        texts, numbers = (table.column(f"{letter}{at}").to_pylist()[0] or [] for letter in "th")
        by_hash = dict(zip(numbers, texts, strict=True))
        if len(by_hash) == len(texts) <= _HASHED_MOST:
            found[name] = by_hash
    return found


def _worth_it(column: pa.ChunkedArray) -> bool:
    """Whether a column, of which this is a sample, is better grouped by hashes."""
    if column.type != pa.string():
        return False
    texts = set(column.to_pylist())
    return len(texts) <= _SAMPLE // 2 and any(len(text.encode()) > _SHORT for text in texts if text is not None)
