"""Figures of groups counted in bins, where there are more than anybody wants to carry about: one pass for all metrics.

The database counts by group and bin, and puts what it counted together by group, so that a group is one row here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from proofcost.reports.statistics.sample import Ints
from proofcost.reports.values import STEP, Values

_COUNT_BITS = 40
"""Of a bin and its count in one number, the count's: so they come in one list, and stay together."""


def bin_of(figure: str) -> str:
    """SQL for the bin of a figure above 0."""
    return f"CAST(floor(ln({figure}) / {STEP:.17e}) AS INTEGER)"


def binned_query(source: str, groups: Sequence[str], facts: Sequence[str], metrics: Sequence[int]) -> str:
    """SQL for one row a group: `groups`, `n`, `first_ns`, `last_ns`, `backwards`, and for each of `metrics` (at least
    one) its bins `p`, least `l`, largest `h` and bounds `c`, with its number.

    `source`: SQL of rows with `groups`, figures `m` and bounds `c` by number. `facts`: SQL of `n` and the other three.
    """
    names = ", ".join(groups)
    counted = [f"CASE WHEN m{at} > 0 THEN {bin_of(f'm{at}')} END AS b{at}" for at in metrics]
    sets = ", ".join(f"({names}, b{at})" for at in metrics)
    inner = [*groups, *facts]
    # Which metric a row was counted for; with a single one all rows are.
    outer = [*groups]
    mine = {at: "true" if len(metrics) == 1 else f"z{at} = 0" for at in metrics}
    once = mine[metrics[0]]
    for name, how in (("n", "sum"), ("first_ns", "min"), ("last_ns", "max"), ("backwards", "sum")):
        outer.append(f"CAST({how}({name}) FILTER (WHERE {once}) AS BIGINT) AS {name}")
    for at in metrics:
        inner += [f"b{at}", f"min(m{at}) FILTER (WHERE m{at} > 0) AS l{at}", f"max(m{at}) AS h{at}"]
        inner += [f"list(c{at}) FILTER (WHERE c{at} > 0) AS c{at}"]
        inner += [f"GROUPING(b{at}) AS z{at}"] if len(metrics) > 1 else []
        packed = f"CAST(b{at} AS BIGINT) * {1 << _COUNT_BITS} + n"
        outer += [f"list({packed}) FILTER (WHERE {mine[at]} AND b{at} IS NOT NULL) AS p{at}"]
        outer += [f"min(l{at}) FILTER (WHERE {mine[at]}) AS l{at}", f"max(h{at}) FILTER (WHERE {mine[at]}) AS h{at}"]
        # What a limit cut off has no figure, so it is all in one row.
        outer += [f"list(c{at}) FILTER (WHERE {mine[at]} AND c{at} IS NOT NULL) AS c{at}"]
    by = f"{names}, b{metrics[0]}" if len(metrics) == 1 else f"GROUPING SETS ({sets})"
    return (
        f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM "
        f"(SELECT *, {', '.join(counted)} FROM ({source}) AS chosen) AS counted GROUP BY {by}) AS binned "
        f"GROUP BY {names}"
    )


def binned_values(table: pa.Table, at: int) -> Iterator[tuple[int, Values]]:
    """(row, its figures) of the metric of this number."""
    ends = zip(*(table.column(f"{letter}{at}").to_pylist() for letter in "lh"), strict=True)
    bounds = list(ends)
    for row, packed in lists(table.column(f"p{at}")):
        ordered = np.sort(packed)
        yield row, Values(ordered >> _COUNT_BITS, ordered & ((1 << _COUNT_BITS) - 1), bounds[row])


def lists(column: pa.ChunkedArray) -> Iterator[tuple[int, Ints]]:
    """(row, its numbers) of a column of lists of integers, or of lists of such; rows without any are left out.

    The numbers are not copied: they lie where the answer does.
    """
    first = 0
    for chunk in column.chunks:
        ends, inner = chunk.offsets.to_numpy(), chunk.values
        while pa.types.is_list(inner.type):  # the outer of two
            ends, inner = inner.offsets.to_numpy()[ends], inner.values
        numbers = inner.to_numpy(zero_copy_only=False)
        rows = np.flatnonzero((np.diff(ends) > 0) & chunk.is_valid().to_numpy(zero_copy_only=False))
        for row, start, end in zip(rows.tolist(), ends[rows].tolist(), ends[rows + 1].tolist(), strict=True):
            yield first + row, numbers[start:end]
        first += len(chunk)
