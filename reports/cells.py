"""Records reduced to cells: per key how many runs, how they ended, and their figures. Every report takes cells.

The database does the reducing, in SQL that other engines know as well: grouping, counting, lists, and bins 1 % wide
where a cell has more runs than anybody wants to carry about.

Left out altogether: warm-ups. Counted, but without figures: what did not end by itself, and what ran beside an earlier
call's leavings. A figure that is more or less than its name says (`weak`) is none, unless the metric asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.declarations import pooled
from proofcost.reports.metrics import GUARDED, METRICS, Metric
from proofcost.reports.values import STEP, Values
from proofcost.reports.where import Where, reach

__all__ = ["GUARDED", "METRICS", "UNKNOWN", "Cell", "Metric", "UnlikeError", "Values", "read", "refuse_unlike"]

EXACT_MOST = 10_000
"""Runs of one cell; in a cell with more, figures are counted in bins."""

UNKNOWN = "?"
"""In a key: the records do not tell. Taken for one and the same, and to be said."""

NO_UNIT = "0"
"""In a unit: the records do not tell."""

TOO_EARLY = "time_limit, far too early"
"""The ending of what is said to have run into its time limit, and ended before half of it: no time-out, no bound."""

_READ_MOST = 1 << 20
_NAMED = {
    "subject": "coalesce(workload, subject, module)",
    "series": "coalesce(plan, session)",
    # Who reads half of its input (and a mebibyte) from storage did not find it in memory.
    "cache": f"""CASE WHEN labels LIKE '%"cache":%' THEN json_extract_string(labels, '$.cache')
        WHEN input_bytes > 0 AND coalesce(io_read_bytes_tree, io_read_bytes_waited) IS NOT NULL THEN
            CASE WHEN coalesce(io_read_bytes_tree, io_read_bytes_waited) >= {_READ_MOST}
                AND coalesce(io_read_bytes_tree, io_read_bytes_waited) >= input_bytes / 2 THEN 'cold'
            ELSE 'warm' END END""",
    "measured_host_class": "host_class",
}
"""Keys that are no column: what was checked, the bench series or the judge's session, whether the input was in memory
(a label `cache`, else by what was read from storage), the host class before declarations (`store declare`) pool it."""

_ENDED = "(outcome = 'exited' AND coalesce(cause, 'completed') = 'completed')"
_ELAPSED = "coalesce(wall_command, wall_program)"
_TOO_EARLY = f"(cause = 'time_limit' AND coalesce({_ELAPSED} < time_limit_ns / 2, false))"
_ENDING = f"""CASE WHEN verdict IS NOT NULL AND verdict <> 'read' THEN verdict
    WHEN {_ENDED} THEN 'exit ' || coalesce(CAST(exit_code AS VARCHAR), '?')
    WHEN {_TOO_EARLY} THEN '{TOO_EARLY}'
    ELSE coalesce(cause, outcome, 'unknown') END"""

_CUT = {
    "wall": ("time_limit", "coalesce({column}, time_limit_ns)"),
    "CPU": ("cpu_limit", "{column}"),
    "memory": ("memory_limit", "greatest(coalesce(memory_limit_bytes, {column}), coalesce({column}, 0))"),
}
"""By a metric's group: the cause that cuts it off, and what it then is at least."""


class UnlikeError(Exception):
    """What was to be put together differs in more than it may. One line: in what, and how to choose."""


@dataclass(slots=True)
class Cell:
    """The records of one key."""

    key: tuple[str, ...]
    """In the order of `by`; `?` where records do not tell."""
    runs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How many runs ended how: a verdict, `exit 1`, or why there is none (`memory_limit`, `crashed`, ...)."""
    values: dict[str, dict[tuple[str, ...], Values]] = field(default_factory=dict)
    """By metric's name, then by unit (the columns asked for as `unit`; `0` where not told). Only what there is."""
    censored: dict[str, list[int]] = field(default_factory=dict)
    """By metric's name, of runs that a limit cut off: what the figure is at least. Ascending."""
    kernels: set[str] = field(default_factory=set)
    """Digests of the binaries that ran, where known."""
    guarded: dict[str, set[str]] = field(default_factory=dict)
    """By guarded column: its values; an empty text where not told."""
    first_ns: int | None = None
    last_ns: int | None = None
    """Real time of the first start and of the last, ns since 1970."""
    backwards: int = 0
    """Runs whose wall is negative: a clock was set back under them. Their walls are none."""

    @property
    def verdict(self) -> str | None:
        """What all of its runs came to; None where they differ."""
        return next(iter(self.ends)) if len(self.ends) == 1 else None


def read(
    data: Data,
    where: Where,
    by: Sequence[str],
    metrics: Sequence[Metric] = METRICS,
    unit: Sequence[str] = (),
    guarded: Sequence[str] = GUARDED,
    bins: bool | None = None,
) -> list[Cell]:
    """The cells of the records that `where` chooses, one for each combination of `by`, in the order of their keys.

    `by`, `unit`, `guarded`: columns, `label.KEY`, `covariate.NAME`, or `subject`, `series`, `cache`. `bins`: count
    figures in bins (True), keep each (False), or by the number of a cell's runs (None). Raises WhereError.
    """
    asked = _Asked(data, where, tuple(by), tuple(metrics), tuple(unit), tuple(guarded))
    cells = _facts(asked)
    large = [cell for cell in cells.values() if cell.runs > EXACT_MOST]
    if bins is False or (bins is None and not large):
        _put_lists(asked, cells, None)
    elif bins or len(large) == len(cells):
        _put_bins(asked, cells, None)
    else:
        _put_lists(asked, cells, f"count(*) <= {EXACT_MOST}")
        _put_bins(asked, cells, f"count(*) > {EXACT_MOST}")
    _put_censored(asked, cells)
    return [cells[key] for key in sorted(cells)]


def refuse_unlike(cells: Sequence[Cell], pool: Sequence[str] = ()) -> None:
    """Raise UnlikeError if these cells, of one case, differ in a guarded column that is not in `pool`."""
    for name in dict.fromkeys(name for cell in cells for name in cell.guarded):
        values = {value for cell in cells for value in cell.guarded.get(name, ())}
        if len(values) > 1 and name not in pool:
            shown = ", ".join(sorted(value[:16] or "unknown" for value in values)[:5])
            raise UnlikeError(
                f"{' of '.join(cells[0].key)}: the runs differ in {name} ({shown}); choose with --where {name}=VALUE, "
                f"or compare all the same with --pool {name}"
            )


@dataclass(frozen=True, slots=True)
class _Asked:
    data: Data
    where: Where
    by: tuple[str, ...]
    metrics: tuple[Metric, ...]
    unit: tuple[str, ...]
    guarded: tuple[str, ...]

    @property
    def keys(self) -> list[str]:
        return [f"k{at}" for at in range(len(self.by))]

    @property
    def units(self) -> list[str]:
        return [f"u{at}" for at in range(len(self.unit))]

    def query(
        self, selected: Sequence[str], columns: Sequence[str], grouped: Sequence[str], only: str | None = None
    ) -> pa.Table:
        """`selected` by key and `grouped`, over `columns` of chosen records; `only` of keys whose runs meet that."""
        source, times = self._chosen(columns), 1
        if only is not None:
            keys = ", ".join(self.keys)
            match = " AND ".join(f"one.{key} = these.{key}" for key in self.keys)
            these = f"SELECT {keys} FROM ({self._chosen([])}) AS counted GROUP BY {keys} HAVING {only}"
            source, times = f"SELECT one.* FROM ({source}) AS one JOIN ({these}) AS these ON {match}", 2
        grouping = ", ".join([*self.keys, *grouped])
        made = f"SELECT {', '.join([*self.keys, *selected])} FROM ({source}) AS chosen"
        if grouping:
            made += f" GROUP BY {grouping}"
        return self.data.connection.sql(made, params=list(self.where.parameters) * times).to_arrow_table()

    def _chosen(self, columns: Sequence[str]) -> str:
        named = [*self.named("k", self.by, UNKNOWN), *columns] or ["1 AS one"]
        return f"SELECT {', '.join(named)} FROM {VIEW} WHERE ({self.where.sql}) AND NOT coalesce(warmup, false)"

    def named(self, letter: str, names: Sequence[str], missing: str) -> list[str]:
        return [
            f"coalesce(CAST({self.expression(name)} AS VARCHAR), '{missing}') AS {letter}{at}"
            for at, name in enumerate(names)
        ]

    def expression(self, name: str) -> str:
        return _expression(name, pooled(self.data.declared))


def _expression(name: str, one_class: Mapping[str, str]) -> str:
    """SQL of a column, or of what is named like one. `one_class`: which host classes count as which other (both checked
    to be digits and a dash). Raises WhereError."""
    if name in _NAMED:
        return _NAMED[name]
    if name == "host_class" and one_class:
        cases = " ".join(f"WHEN '{host}' THEN '{counted}'" for host, counted in sorted(one_class.items()))
        return f"CASE host_class {cases} ELSE host_class END"
    expression, _, parameters = reach(name, name)
    for parameter in parameters:
        expression = expression.replace("?", "'" + parameter.replace("'", "''") + "'", 1)
    return expression


def _figure(metric: Metric) -> str:
    """SQL for a metric of one record; null where there is none, or of a status that cannot be compared."""
    figure = {"instructions_u": "instructions:u", "cycles_u": "cycles:u"}.get(metric.column, metric.column)
    allowed = ", ".join(f"'{one}'" for one in metric.statuses)
    # Asked in two steps: `weak` names few figures, and parsing JSON costs more than all the rest.
    weak = f"""CASE WHEN weak LIKE '%"{figure}":%' THEN json_extract_string(weak, '$."{figure}"') END"""
    return f"CASE WHEN {metric.column} > 0 AND coalesce({weak}, 'measured') IN ({allowed}) THEN {metric.column} END"


def _good_figures(metrics: Sequence[Metric]) -> list[str]:
    good = f"{_ENDED} AND NOT coalesce(beside > 0, false)"
    return [f"CASE WHEN {good} THEN {_figure(metric)} END AS m{at}" for at, metric in enumerate(metrics)]


_DIGEST = "kernel_sha256"


def _facts(asked: _Asked) -> dict[tuple[str, ...], Cell]:
    """The cells with all but their figures."""
    sets = (_DIGEST, *asked.guarded)
    columns = [f"{_ENDING} AS ending", "started_ns", f"CASE WHEN {_ELAPSED} < 0 THEN 1 END AS backwards"]
    columns += [f"CAST({asked.expression(name)} AS VARCHAR) AS g{at}" for at, name in enumerate(sets)]
    selected = ["ending", "count(*) AS n", "count(backwards) AS backwards"]
    selected += ["min(started_ns) AS first_ns", "max(started_ns) AS last_ns"]
    for at in range(len(sets)):
        selected += [f"min(g{at}) AS a{at}", f"max(g{at}) AS z{at}", f"count(g{at}) AS n{at}"]
    table = asked.query(selected, columns, ["ending"])
    cells: dict[tuple[str, ...], Cell] = {}
    mixed: set[int] = set()
    for row in table.to_pylist():
        if not row["n"]:  # nothing chosen, and no key to group by
            continue
        key = tuple(row[name] for name in asked.keys)
        cell = cells.setdefault(key, Cell(key, guarded={name: set() for name in asked.guarded}))
        cell.runs += row["n"]
        cell.ends[row["ending"]] += row["n"]
        cell.backwards += row["backwards"]
        cell.first_ns = _least(cell.first_ns, row["first_ns"])
        cell.last_ns = None if row["last_ns"] is None else max(row["last_ns"], cell.last_ns or row["last_ns"])
        for at, name in enumerate(sets):
            found = {value for value in (row[f"a{at}"], row[f"z{at}"]) if value is not None}
            if len(found) == 2:  # there may be more between the two
                mixed.add(at)
            if row[f"n{at}"] < row["n"]:
                found.add("")
            _set_of(cell, at, name).update(found)
    for at in sorted(mixed):
        for row in asked.query([f"g{at}"], columns[3 + at : 4 + at], [f"g{at}"]).to_pylist():
            cell = cells[tuple(row[name] for name in asked.keys)]
            _set_of(cell, at, sets[at]).add(row[f"g{at}"] or "")
    for cell in cells.values():
        cell.kernels.discard("")
    return cells


def _set_of(cell: Cell, at: int, name: str) -> set[str]:
    """Of the sets that a cell has, the one in this place: the digests come first, and may be guarded as well."""
    return cell.kernels if at == 0 else cell.guarded[name]


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _put_lists(asked: _Asked, cells: dict[tuple[str, ...], Cell], only: str | None) -> None:
    """Each figure."""
    columns = [*asked.named("u", asked.unit, NO_UNIT), *_good_figures(asked.metrics)]
    lists = [f"list(m{at}) FILTER (WHERE m{at} IS NOT NULL) AS m{at}" for at in range(len(asked.metrics))]
    table = asked.query([*asked.units, *lists], columns, asked.units, only)
    places = list(_places(asked, cells, table))
    for at, metric in enumerate(asked.metrics):
        for row, numbers in _lists(table.column(f"m{at}")):
            cell, unit = places[row]
            cell.values.setdefault(metric.name, {})[unit] = Values(numbers)


def _places(
    asked: _Asked, cells: dict[tuple[str, ...], Cell], table: pa.Table
) -> Iterator[tuple[Cell, tuple[str, ...]]]:
    """Of each row: its cell and its unit, where the table tells that."""
    count = len(asked.keys)
    named = [table.column(name).to_pylist() for name in (*asked.keys, *asked.units) if name in table.column_names]
    rows = zip(*named, strict=True) if named else iter([()] * table.num_rows)
    for row in rows:
        yield cells.get(row[:count], Cell(row[:count])), row[count:]


def _lists(column: pa.ChunkedArray) -> Iterator[tuple[int, Any]]:
    """(row, its numbers, ascending) of a column of lists of integers; rows without any are left out."""
    lengths = column.combine_chunks().value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    numbers = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths)
    numbers = numbers[np.lexsort((numbers, np.repeat(np.arange(lengths.size), lengths)))]
    ends = np.cumsum(lengths[rows]).tolist()
    start = 0
    for row, end in zip(rows.tolist(), ends, strict=True):
        yield row, numbers[start:end]
        start = end


def _put_bins(asked: _Asked, cells: dict[tuple[str, ...], Cell], only: str | None) -> None:
    """Figures counted in bins: for each metric one pass."""
    for metric in asked.metrics:
        (figure,) = _good_figures([metric])
        columns = [*asked.named("u", asked.unit, NO_UNIT), figure]
        bin_of = f"CAST(floor(ln(m0) / {STEP!r}) AS INTEGER)"
        selected = [*asked.units, f"{bin_of} AS bin", "count(m0) AS n", "min(m0) AS least", "max(m0) AS most"]
        table = asked.query(selected, columns, [*asked.units, bin_of], only)
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[int, int, int, int]]] = {}
        for (cell, unit), row in zip(_places(asked, cells, table), table.to_pylist(), strict=True):
            if row["n"]:
                found.setdefault((cell.key, unit), []).append((row["bin"], row["n"], row["least"], row["most"]))
        for (key, unit), rows in found.items():
            numbers, counts, least, most = np.array(sorted(rows), dtype=np.int64).T
            ends = (int(least.min()), int(most.max()))
            cells[key].values.setdefault(metric.name, {})[unit] = Values(numbers.copy(), counts.copy(), ends)


def _put_censored(asked: _Asked, cells: dict[tuple[str, ...], Cell]) -> None:
    """What figures were at least where a limit cut them off; a query only where there is any such run."""
    causes = {cause for cause, _ in _CUT.values()}
    if not any(causes & cell.ends.keys() for cell in cells.values()):
        return
    columns: list[str] = []
    names: list[str] = []
    for metric in asked.metrics:
        if metric.group in _CUT and metric.statuses != ("sampled",):
            cause, bound = _CUT[metric.group]
            cut = f"cause = '{cause}' AND NOT {_TOO_EARLY} AND verdict IS NULL AND NOT {_ENDED}"
            columns.append(f"CASE WHEN {cut} THEN {bound.format(column=metric.column)} END AS m{len(names)}")
            names.append(metric.name)
    if not names:
        return
    lists = [f"list(m{at}) FILTER (WHERE m{at} > 0) AS m{at}" for at in range(len(names))]
    table = asked.query(lists, columns, [])
    places = list(_places(asked, cells, table))
    for at, name in enumerate(names):
        for row, numbers in _lists(table.column(f"m{at}")):
            places[row][0].censored[name] = numbers.tolist()
