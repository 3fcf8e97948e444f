"""Records reduced to cells: per key how many runs, how they ended, and their figures. Every report takes cells.

The database does the reducing, in SQL that other engines know as well: grouping, counting, lists, and bins 1 % wide
where there are more figures than anybody wants to carry about.

Left out altogether: warm-ups. Counted, but without figures: what did not end by itself, and what ran beside an earlier
call's leavings. A figure that is more or less than its name says (`weak`) is none, unless the metric asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from proofcost.reports import declarations
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.metrics import GUARDED, METRICS, Metric
from proofcost.reports.statistics.sample import Ints
from proofcost.reports.values import STEP, Values, pooled
from proofcost.reports.where import CACHE_STATE, Where, reach

__all__ = [
    "GUARDED",
    "METRICS",
    "UNKNOWN",
    "Cell",
    "Metric",
    "UnlikeError",
    "Values",
    "merged",
    "read",
    "refuse_unlike",
]

EXACT_MOST = 50_000_000
"""Figures (runs times metrics) that are kept one by one, 8 bytes each; of more, how many lie in each bin."""

LONGEST_SHOWN = 32
"""Characters of a value in a message. A host class has 25, and --where takes whole values only."""
UNKNOWN = "?"
"""In a key: the records do not tell. Taken for one and the same, and to be said."""

NO_UNIT = "0"
"""In a unit: the records do not tell."""

TOO_EARLY = "time_limit, far too early"
"""The ending of what is said to have run into its time limit, and ended before half of it: no time-out, no bound."""

_NAMED = {
    "subject": "coalesce(workload, subject, module)",
    "series": "coalesce(plan, session)",
    "cache": CACHE_STATE,
    "measured_host_class": "host_class",
}
"""Keys that are no column: what was checked, the bench series or the judge's session, whether the input was in memory
(a label `cache`, else by what was read from storage), the host class before declarations (`store declare`) pool it."""

_ENDED = "(outcome = 'exited' AND coalesce(cause, 'completed') = 'completed')"
_ELAPSED = "coalesce(wall_command, wall_program)"
_TOO_EARLY = f"(cause = 'time_limit' AND coalesce({_ELAPSED} < time_limit_ns / 2, false))"
_ENDING = f"""CASE WHEN verdict IS NOT NULL AND verdict <> 'read' THEN verdict
    WHEN {_ENDED} THEN NULL
    WHEN early THEN '{TOO_EARLY}'
    ELSE coalesce(cause, outcome, 'unknown') END"""
_CODE = f"CASE WHEN (verdict IS NULL OR verdict = 'read') AND {_ENDED} THEN exit_code END"
"""How a run ended: the first, or where that is null its exit code. Asked of groups by these columns and `early`."""

_CUT = {
    "wall": ("time_limit", "coalesce({column}, time_limit_ns)"),
    "CPU": ("cpu_limit", "{column}"),
    "memory": ("memory_limit", "greatest(coalesce(memory_limit_bytes, {column}), coalesce({column}, 0))"),
}
"""By a metric's group: the cause that cuts it off, and what it then is at least."""
_CUTTING = sorted({cause for cause, _ in _CUT.values()})


_DIGEST = "kernel_sha256"


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
    """By guarded column: its values; an empty text where not told. To be read only: cells share them."""
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
    figures in bins (True), keep each (False), or as there are many of them (None). Raises WhereError.
    """
    asked = _Asked(data, where, tuple(by), tuple(unit), (_DIGEST, *guarded))
    survey = _survey(asked, metrics)
    there = [metric for metric in metrics if metric.column in survey.columns]
    binned = survey.runs * len(there) > EXACT_MOST if bins is None else bins
    cells = _reduce(asked, survey, metrics, [] if binned else there)
    if binned:
        _put_bins(asked, cells, there)
    return [cells[key] for key in sorted(cells)]


def held(data: Data, where: Where, columns: Sequence[str]) -> dict[str, int]:
    """How many of the chosen records have anything in each of these columns of figures."""
    asked = _Asked(data, where, (), (), ())
    table = asked.fetch(asked.chosen([f"count({column})" for column in columns]))
    return dict(zip(columns, (column.to_pylist()[0] for column in table.columns), strict=True))


def merged(cells: Sequence[Cell]) -> Cell:
    """At least one cell, of unlike keys, as one; its key is the first one's."""
    if len(cells) == 1:
        return cells[0]
    made = Cell(cells[0].key)
    for cell in cells:
        made.runs += cell.runs
        made.ends += cell.ends
        made.kernels |= cell.kernels
        made.backwards += cell.backwards
        for name, of_metric in cell.values.items():
            known = made.values.setdefault(name, {})
            known.update(
                {unit: pooled([known[unit], one]) if unit in known else one for unit, one in of_metric.items()}
            )
        for name, bounds in cell.censored.items():
            made.censored[name] = sorted([*made.censored.get(name, ()), *bounds])
        made.guarded = {name: values | made.guarded.get(name, set()) for name, values in cell.guarded.items()}
    made.first_ns = min((cell.first_ns for cell in cells if cell.first_ns is not None), default=None)
    made.last_ns = max((cell.last_ns for cell in cells if cell.last_ns is not None), default=None)
    return made


def told_apart(values: Iterable[str]) -> list[str]:
    """Values as a message shows them, sorted: digests by their beginning, unless two of them then look the same."""
    whole = sorted({value or "unknown" for value in values})
    cut = [value if len(value) <= LONGEST_SHOWN else f"{value[:16]}..." for value in whole]
    return cut if len(set(cut)) == len(whole) else whole


def refuse_unlike(cells: Sequence[Cell], pool: Sequence[str] = ()) -> None:
    """Raise UnlikeError if these cells, of one case, differ in a guarded column that is not in `pool`."""
    for name in dict.fromkeys(name for cell in cells for name in cell.guarded):
        values = {value for cell in cells for value in cell.guarded.get(name, ())}
        if len(values) > 1 and name not in pool:
            shown = ", ".join(told_apart(values)[:5])
            raise UnlikeError(
                f"{' of '.join(cells[0].key)}: the runs differ in {name} ({shown}); choose with --where {name}=VALUE, "
                f"or compare all the same with --pool {name}"
            )


@dataclass(frozen=True, slots=True)
class _Asked:
    data: Data
    where: Where
    by: tuple[str, ...]
    unit: tuple[str, ...]
    sets: tuple[str, ...]
    """What each cell says all values of: the digests of what ran, then what is guarded."""

    @property
    def keys(self) -> list[str]:
        return [f"k{at}" for at in range(len(self.by))]

    @property
    def units(self) -> list[str]:
        return [f"u{at}" for at in range(len(self.unit))]

    def expression(self, name: str) -> str:
        return _expression(name, declarations.pooled(self.data.declared))

    def named(self, letter: str, names: Sequence[str]) -> list[str]:
        """As they are: to make text of a million numbers, and of nulls, takes longer than to group by them."""
        return [f"{self.expression(name)} AS {letter}{at}" for at, name in enumerate(names)]

    def chosen(self, columns: Sequence[str]) -> str:
        """SQL for `columns` of the chosen records."""
        return (
            f"SELECT {', '.join(columns) or '1 AS one'} FROM {VIEW} "
            f"WHERE ({self.where.sql}) AND NOT coalesce(warmup, false)"
        )

    def grouped(
        self, columns: Sequence[str], groups: Sequence[str], aggregates: Sequence[str], shown: Sequence[str] = ("*",)
    ) -> pa.Table:
        """Chosen records by key and `groups`; `columns`: SQL that names what groups and aggregates take.

        `shown`: SQL of what is wanted of each group.
        """
        groups = [*self.keys, *groups]
        source = self.chosen([*self.named("k", self.by), *columns])
        grouping = f" GROUP BY {', '.join(groups)}" if groups else ""
        query = f"SELECT {', '.join([*groups, *aggregates])} FROM ({source}) AS chosen{grouping}"
        return self.fetch(f"SELECT {', '.join(shown)} FROM ({query}) AS grouped")

    def fetch(self, query: str, first: Sequence[object] = ()) -> pa.Table:
        """`first`: parameters that stand before those of `where`."""
        return self.data.table(query, (*first, *self.where.parameters))


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


def _apart(metric: Metric) -> str:
    """The same, of what ran beside nothing else."""
    return f"CASE WHEN NOT coalesce(beside > 0, false) THEN {_figure(metric)} END"


def _cut(metric: Metric) -> tuple[str, str] | None:
    """The cause that cuts it off, and SQL of what it then is at least."""
    if metric.group not in _CUT or metric.statuses == ("sampled",):
        return None
    cause, bound = _CUT[metric.group]
    return cause, bound.format(column=metric.column)


@dataclass(frozen=True, slots=True)
class _Survey:
    """One look at all chosen records, so that what is the same in all of them is not asked of each cell again."""

    runs: int
    same: dict[str, str]
    """Of `_Asked.sets` those with one value, and that."""
    columns: set[str]
    """Columns of metrics that hold anything."""
    backwards: bool
    cut: bool
    """Whether a limit cut any run off."""


_SAMPLE = 1000
HASHED_FROM = 1_000_000
"""Runs from which on long texts are grouped by their hashes."""
_HASHED_MOST = 100_000


def _hashes(asked: _Asked, names: Sequence[str]) -> dict[str, dict[int, str | None]]:
    """By column of texts whose hashes are all different: {hash: text}. Of others, none: those are grouped as they are.

    The database takes the hash of a text once for each text that a row group has, and groups by numbers far faster.
    """
    found: dict[str, dict[int, str | None]] = {}
    for name in names:
        distinct = asked.chosen([f"{asked.expression(name)} AS text"])
        query = (
            f"SELECT text, hash(text) AS hash FROM (SELECT DISTINCT text FROM ({distinct})) LIMIT {_HASHED_MOST + 1}"
        )
        table = asked.fetch(query)
        if table.column("text").type != pa.string() or table.num_rows > _HASHED_MOST:
            continue
        by_hash = dict(zip(table.column("hash").to_pylist(), table.column("text").to_pylist(), strict=True))
        if len(by_hash) == table.num_rows:
            found[name] = by_hash
    return found


def _survey(asked: _Asked, metrics: Sequence[Metric]) -> _Survey:
    names = list(dict.fromkeys(asked.sets))
    sampled = asked.chosen([f"{asked.expression(name)} AS s{at}" for at, name in enumerate(names)])
    sample = asked.fetch(f"{sampled} LIMIT {_SAMPLE}")
    if not sample.num_rows:
        return _Survey(0, {}, set(), False, False)
    # What differs among a few records already need not be looked at in all of them.
    seen = {name: set(column.to_pylist()) for name, column in zip(names, sample.columns, strict=True)}
    names = [name for name in names if len(seen[name]) == 1]
    values = [next(iter(seen[name])) for name in names]
    columns = sorted({metric.column for metric in metrics})
    counts = [f"count(CASE WHEN {asked.expression(name)} IS DISTINCT FROM ? THEN 1 END)" for name in names]
    counts += [f"count({column})" for column in columns]
    causes = ", ".join(f"'{cause}'" for cause in _CUTTING)
    counts += [f"count(CASE WHEN cause IN ({causes}) THEN 1 END)", f"count(CASE WHEN {_ELAPSED} < 0 THEN 1 END)"]
    counts += ["count(*)"]
    table = asked.fetch(asked.chosen(counts), values)
    found = [column.to_pylist()[0] for column in table.columns]
    same = {
        name: _text(value, "") for name, value, differing in zip(names, values, found, strict=False) if not differing
    }
    there = {column for column, count in zip(columns, found[len(names) :], strict=False) if count}
    return _Survey(found[-1], same, there, bool(found[-2]), bool(found[-3]))


def _texts(column: pa.ChunkedArray, missing: str) -> list[str]:
    """As the database casts values to text; `missing` for null."""
    if column.type == pa.string():
        return [missing if value is None else value for value in column.to_pylist()]
    return [_text(value, missing) for value in column.to_pylist()]


def _text(value: object, missing: str) -> str:
    return missing if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _reduce(
    asked: _Asked, survey: _Survey, metrics: Sequence[Metric], there: Sequence[Metric]
) -> dict[tuple[str, ...], Cell]:
    """The cells, with each figure of `there`, and what limits cut off of `metrics`: in one pass over the records."""
    if not survey.runs:
        return {}
    varying = list(dict.fromkeys(name for name in asked.sets if name not in survey.same))
    hashes = _hashes(asked, varying) if survey.runs >= HASHED_FROM else {}
    columns = [*asked.named("u", asked.unit), "verdict", "outcome", "cause", "exit_code", "started_ns"]
    columns += [f"{_TOO_EARLY if survey.cut else 'false'} AS early"]
    columns += [f"CASE WHEN {_ELAPSED} < 0 THEN 1 END AS backwards"] if survey.backwards else []
    for at, name in enumerate(varying):
        expression = asked.expression(name)
        columns.append(f"{f'hash({expression})' if name in hashes else expression} AS g{at}")
    # A run that a limit cut off has no figure: the bound takes its place, and which of both it is, its group tells.
    figures = {metric: _apart(metric) for metric in there}
    cut = {metric: of for metric in metrics if (of := _cut(metric)) is not None} if survey.cut else {}
    listed = [metric for metric in metrics if metric in figures or metric in cut]
    for at, metric in enumerate(listed):
        figure = figures.get(metric, "NULL")
        if metric in cut:
            figure = f"CASE WHEN cause = '{cut[metric][0]}' THEN {cut[metric][1]} ELSE {figure} END"
        columns.append(f"{figure} AS m{at}")
    sets_of = [f"g{at}" for at in range(len(varying))]
    aggregates = ["count(*) AS n", "min(started_ns) AS first_ns", "max(started_ns) AS last_ns"]
    aggregates += ["count(backwards) AS backwards"] if survey.backwards else ["0 AS backwards"]
    aggregates += [f"list(m{at}) FILTER (WHERE m{at} > 0) AS m{at}" for at in range(len(listed))]
    shown = [*asked.keys, *asked.units, *sets_of, f"{_ENDING} AS ending", f"{_CODE} AS code"]
    shown += ["n", "first_ns", "last_ns", "backwards"]
    for at, metric in enumerate(listed):
        shown += [f"CASE WHEN {_ENDED} THEN m{at} END AS m{at}"] if metric in figures else []
        if metric in cut:
            shown += [f"CASE WHEN cause = '{cut[metric][0]}' AND verdict IS NULL AND NOT early THEN m{at} END AS c{at}"]
    groups = [*asked.units, "verdict", "outcome", "cause", "exit_code", "early", *sets_of]
    table = asked.grouped(columns, groups, aggregates, shown=shown)
    cells: dict[tuple[str, ...], Cell] = {}
    places: list[tuple[Cell, tuple[str, ...]]] = []
    facts = [table.column(name).to_pylist() for name in ("ending", "code", "n", "first_ns", "last_ns", "backwards")]
    texts: dict[str, list[str]] = {}
    for at, name in enumerate(varying):
        column = table.column(f"g{at}")
        if name in hashes:
            by_hash = {number: _text(text, "") for number, text in hashes[name].items()}
            texts[name] = [by_hash[number] for number in column.to_pylist()]
        else:
            texts[name] = _texts(column, "")
    digests = [texts[_DIGEST]] if _DIGEST in texts else []
    sets = [(name, texts[name]) for name in dict.fromkeys(asked.sets[1:]) if name in texts]
    # What is the same everywhere is one set for all cells: nobody may change it.
    same = {name: {survey.same[name]} for name in asked.sets[1:] if name in survey.same}
    kernels = {survey.same.get(_DIGEST, "")} - {""}
    told = zip(_keys_and_units(asked, table), *facts, strict=True)
    for row, ((key, unit), ending, code, count, first, last, backwards) in enumerate(told):
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell(key, guarded=same.copy(), kernels=kernels.copy())
            for name, _ in sets:
                cell.guarded[name] = set()
        cell.runs += count
        cell.ends[ending if ending is not None else f"exit {'?' if code is None else code}"] += count
        cell.backwards += backwards
        if first is not None:
            cell.first_ns = first if cell.first_ns is None else min(first, cell.first_ns)
            cell.last_ns = last if cell.last_ns is None else max(last, cell.last_ns)
        for name, values in sets:
            cell.guarded[name].add(values[row])
        for values in digests:
            if values[row]:
                cell.kernels.add(values[row])
        places.append((cell, unit))
    for at, metric in enumerate(listed):
        for row, numbers in _lists(table.column(f"m{at}")) if metric in figures else ():
            cell, unit = places[row]
            of_metric = cell.values.setdefault(metric.name, {})
            known = of_metric.get(unit)
            of_metric[unit] = Values(numbers) if known is None else pooled([known, Values(numbers)])
        for row, numbers in _lists(table.column(f"c{at}")) if metric in cut else ():
            bounds = places[row][0].censored
            bounds[metric.name] = sorted([*bounds.get(metric.name, ()), *numbers.tolist()])
    return cells


def _keys_and_units(asked: _Asked, table: pa.Table) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Of each row; no unit where the table has none."""
    count = len(asked.keys)
    named = [_texts(table.column(name), UNKNOWN) for name in asked.keys]
    named += [_texts(table.column(name), NO_UNIT) for name in asked.units if name in table.column_names]
    for row in zip(*named, strict=True) if named else [()] * table.num_rows:
        yield row[:count], row[count:]


def _lists(column: pa.ChunkedArray) -> Iterator[tuple[int, Ints]]:
    """(row, its numbers) of a column of lists of integers; rows without any are left out."""
    whole = column.combine_chunks()
    lengths = whole.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    numbers = whole.flatten().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths)
    start = 0
    for row, end in zip(rows.tolist(), np.cumsum(lengths[rows]).tolist(), strict=True):
        yield row, numbers[start:end]
        start = end


def _put_bins(asked: _Asked, cells: dict[tuple[str, ...], Cell], metrics: Sequence[Metric]) -> None:
    """Figures counted in bins: for each metric one pass."""
    for metric in metrics:
        columns = [*asked.named("u", asked.unit), f"CASE WHEN {_ENDED} THEN {_apart(metric)} END AS m"]
        bin_of = f"CAST(floor(ln(m) / {STEP!r}) AS INTEGER)"
        counts = [f"{bin_of} AS bin", "count(m) AS n", "min(m) AS least", "max(m) AS most"]
        table = asked.grouped(columns, [*asked.units, bin_of], counts)
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[int, ...]]] = {}
        rows = zip(*(table.column(name).to_pylist() for name in ("bin", "n", "least", "most")), strict=True)
        for place, row in zip(_keys_and_units(asked, table), rows, strict=True):
            if row[1]:
                found.setdefault(place, []).append(row)
        for (key, unit), of_unit in found.items():
            numbers, counts_, least, most = np.array(sorted(of_unit), dtype=np.int64).T
            ends = (int(least.min()), int(most.max()))
            cells[key].values.setdefault(metric.name, {})[unit] = Values(numbers.copy(), counts_.copy(), ends)
