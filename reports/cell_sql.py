"""What cells are made of, in SQL that other engines know as well: keys, figures, and which records are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from proofcost.reports import declarations
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.metrics import Metric
from proofcost.reports.where import CACHE_STATE, Where, reach

_NAMED = {
    "subject": "coalesce(workload, subject, module)",
    "series": "coalesce(plan, session)",
    "cache": CACHE_STATE,
    "measured_host_class": "host_class",
}
"""Keys that are no column: what was checked, the bench series or the judge's session, whether the input was in memory
(a label `cache`, else by what was read from storage), the host class before declarations (`store declare`) pool it."""

ENDED = "(outcome = 'exited' AND coalesce(cause, 'completed') = 'completed')"
ELAPSED = "coalesce(wall_command, wall_program)"
TIME_LIMIT = "time_limit"
TOO_EARLY = f"CASE WHEN cause = '{TIME_LIMIT}' THEN coalesce({ELAPSED} < time_limit_ns / 2, false) ELSE false END"

_CUT = {
    "wall": (TIME_LIMIT, "coalesce({column}, time_limit_ns)"),
    "CPU": ("cpu_limit", "{column}"),
    "memory": ("memory_limit", "greatest(coalesce(memory_limit_bytes, {column}), coalesce({column}, 0))"),
}
"""By a metric's group: the cause that cuts it off, and what it then is at least."""
CUTTING = sorted({cause for cause, _ in _CUT.values()})


@dataclass(frozen=True, slots=True)
class Asked:
    """Which cells of which records."""

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
        """SQL of a column, or of what is named like one. Raises WhereError."""
        return _expression(name, declarations.pooled(self.data.declared))

    def chosen(self, columns: Sequence[str]) -> str:
        """SQL for `columns` of the chosen records."""
        return (
            f"SELECT {', '.join(columns) or '1 AS one'} FROM {VIEW} "
            f"WHERE ({self.where.sql}) AND NOT coalesce(warmup, false)"
        )

    def fetch(self, query: str, first: Sequence[object] = ()) -> pa.Table:
        """`first`: parameters that stand before those of `where`."""
        return self.data.table(query, (*first, *self.where.parameters))


def _expression(name: str, one_class: Mapping[str, str]) -> str:
    """`one_class`: which host classes count as which other (both checked to be digits and a dash)."""
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


def apart(metric: Metric) -> str:
    """SQL for a metric of one record that ran beside nothing else."""
    return f"CASE WHEN NOT coalesce(beside > 0, false) THEN {_figure(metric)} END"


def cut(metric: Metric) -> tuple[str, str] | None:
    """The cause that cuts a metric off, and SQL of what it then is at least."""
    if metric.group not in _CUT or metric.statuses == ("sampled",):
        return None
    cause, bound = _CUT[metric.group]
    return cause, bound.format(column=metric.column)


def text_of(value: object, missing: str) -> str:
    """As the database casts a value to text; `missing` for null."""
    return missing if value is None else str(value).lower() if isinstance(value, bool) else str(value)
