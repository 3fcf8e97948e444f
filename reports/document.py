"""A report before it is written: an answer, tables and figures, in no format yet.

Every report makes a `Document`; every format (terminal, JSON, CSV, Parquet, Markdown, HTML, pictures) is one module
that writes it. So all of them show the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that is not there. Shown as "not measured" with its reason; sorts last.

    `shown`: what stands there for people instead, where measuring is not what is wrong; no other figure for that.
    """

    reason: str
    shown: str = field(default=NOT_MEASURED, compare=False)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with an interval. `low` or `high` is None where the data bounds that side by nothing."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    """Of the interval: 0.95 and the like."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Only known to be at least (or at most) this: a run that was cut off, a peak at its cap."""

    value: float
    at_least: bool = True


Entry = str | int | float | bool | Missing | Estimate | Bound
"""What stands in a table: text or a figure in its column's unit. What does not apply is an empty text."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `unit`: None for text, else ns, bytes, count, ratio (1 = the same), share (0 to 1), per_second, money, or empty for
    a plain number.
    """

    key: str
    """In JSON and CSV; `wall_median`, never changed later."""
    title: str
    unit: str | None = None
    term: str | None = None
    """What "How to read this" explains it under (reports/terms.py); None where the title says all."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of entries, one for each column."""

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str] = ()
    lead: int | None = None
    """How many rows a short format (terminal, Markdown) shows of a long table; None: all where there is room."""
    marked: Mapping[int, str] = field(default_factory=dict)
    """Rows to be seen first, by number, and why: `bad`, `good`."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One chart. `question`: what it answers. `text`: the same in words, for who cannot see it."""

    key: str
    question: str
    text: str
    draw: Callable[[Canvas], None]
    """Draws into an empty matplotlib figure. The same data give the same bytes."""
    width: float = 8.0
    """Inches."""
    height: float = 4.5


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what it says, and what stands below."""

    title: str
    blocks: Sequence[Table | Picture] = ()
    text: Sequence[str] = ()
    """Paragraphs."""


@dataclass(frozen=True, slots=True)
class Document:
    """One report. `answer` is the sentence that somebody in a hurry reads."""

    kind: str
    """kernels, submissions, history, hosts, noise, compare, plan."""
    title: str
    answer: str
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    """What must be known beside the figures: what was left out and why, weaknesses of sources."""
    data: Sequence[str] = ()
    """What it was made from, for people: paths, conditions, numbers of records."""

    def tables(self) -> list[Table]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]

    def pictures(self) -> list[Picture]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]
