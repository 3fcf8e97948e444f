"""Records reduced to cells: per key how many runs, how they ended, and their figures. Every report takes cells.

The database does the reducing, in SQL that other engines know as well: grouping, counting, lists, and bins 1 % wide
where there are more figures than anybody wants to carry about. A look at all records first (cell_survey.py), then one
pass over them (reduction.py).

Left out altogether: warm-ups. Counted, but without figures: what did not end by itself, and what ran beside an earlier
call's leavings. A figure that is more or less than its name says (`weak`) is none, unless the metric asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proofcost.reports.cell import NO_UNIT, TOO_EARLY, UNKNOWN, Cell, merged
from proofcost.reports.cell_sql import Asked
from proofcost.reports.cell_survey import survey
from proofcost.reports.dataset import Data
from proofcost.reports.metrics import GUARDED, METRICS, Metric
from proofcost.reports.reduction import DIGEST, reduced
from proofcost.reports.values import Values
from proofcost.reports.where import Where

__all__ = [
    "EXACT_MOST",
    "GUARDED",
    "METRICS",
    "NO_UNIT",
    "TOO_EARLY",
    "UNKNOWN",
    "Cell",
    "Metric",
    "UnlikeError",
    "Values",
    "held",
    "merged",
    "read",
    "refuse_unlike",
    "told_apart",
]

EXACT_MOST = 50_000_000
"""Figures (runs times metrics) that are kept one by one, 8 bytes each; of more, how many lie in each bin."""

LONGEST_SHOWN = 32
"""Characters of a value in a message. A host class has 25, and --where takes whole values only."""


class UnlikeError(Exception):
    """What was to be put together differs in more than it may. One line: in what, and how to choose."""


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
    asked = Asked(data, where, tuple(by), tuple(unit), (DIGEST, *guarded))
    seen = survey(asked, metrics)
    there = [metric for metric in metrics if metric.column in seen.columns]
    binned = seen.runs * len(there) > EXACT_MOST if bins is None else bins
    return reduced(asked, seen, metrics, there, binned)


def held(data: Data, where: Where, columns: Sequence[str]) -> dict[str, int]:
    """How many of the chosen records have anything in each of these columns of figures."""
    asked = Asked(data, where, (), (), ())
    table = asked.fetch(asked.chosen([f"count({column})" for column in columns]))
    return dict(zip(columns, (column.to_pylist()[0] for column in table.columns), strict=True))


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
