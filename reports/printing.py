"""Tables and lines on a console: folded to a terminal's width, in full and plain where the output is a pipe or file."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNBOUND_WIDTH = 4000
"""Columns for a pipe or file: rows there are never wrapped or cut."""

NARROW_WIDTH = 100
"""A terminal below this has no room for long words in a table's head."""

GAP = 2
"""Blanks between two columns."""

HARDLY = 4
"""Fewest characters that a folded column is cut to."""


def is_ascii(console: Console) -> bool:
    """Whether the console's stream can take nothing but ASCII for sure."""
    return not console.encoding.lower().startswith("utf")


def is_narrow(console: Console) -> bool:
    return console.is_terminal and console.width < NARROW_WIDTH


@contextmanager
def full_width(console: Console) -> Iterator[None]:
    """Within it a console that is no terminal has room for any row."""
    width = console.width
    if not console.is_terminal:
        console.width = UNBOUND_WIDTH
    try:
        yield
    finally:
        console.width = width


NOTE_WIDTH = 112
"""A note for a pipe or file is wrapped to this."""


def write_note(console: Console, text: str) -> None:
    """A line below a table, perhaps a long one."""
    if console.is_terminal:
        write(console, Text(text, style="dim"))
        return
    for line in textwrap.wrap(text, NOTE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False):
        write(console, Text(line))


def write(console: Console, content: Table | Text) -> None:
    """To a terminal as wide as that is; elsewhere without the blanks that fill a line up."""
    if console.is_terminal:
        console.print(content, highlight=False)
        return
    with console.capture() as captured:
        console.print(content, highlight=False, soft_wrap=not isinstance(content, Table))
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table. `section`: the last one before a blank line."""

    cells: Sequence[str]
    style: str | None = None
    section: bool = False
    call: str | None = None
    """Id of the call that it is."""


def table_of(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    right: Collection[int],
    least: Mapping[int, int],
    unbroken: Collection[int] = (),
) -> Table:
    """`rows` under `columns`, fitted into a terminal's width.

    `right`: columns (by number) that stand to the right. `least`: those that are folded where the room does not do,
    and to how many characters if that is enough. `unbroken`: those that stand on one line whatever the room.
    """
    natural = [max(map(cell_len, cells)) for cells in zip(columns, *(row.cells for row in rows), strict=True)]
    widths = fit(natural, least, console.width - GAP * (len(columns) - 1)) if console.is_terminal else natural
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for at, column in enumerate(columns):
        table.add_column(
            Text(column),
            justify="right" if at in right else "left",
            width=None if widths is None else widths[at],
            overflow="fold",
            no_wrap=at in unbroken,
            min_width=natural[at] if at in unbroken else None,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.cells), style=row.style, end_section=row.section)
    return table


def fit(natural: Sequence[int], least: Mapping[int, int], room: int) -> list[int] | None:
    """Widths of columns that need no more than `room`, taken from the widest of those in `least`; None if none do.

    No column is cut below its least width while another one is above its own, nor any to fewer than `HARDLY`.
    """
    widths = list(natural)
    for floors in (least, dict.fromkeys(least, HARDLY)):
        while (over := sum(widths) - room) > 0:
            spare = {at: widths[at] - floor for at, floor in floors.items() if widths[at] > floor}
            if not spare:
                break
            widest = max(spare, key=lambda at: widths[at])
            others = [widths[at] for at in spare if at != widest]
            step = max(1, widths[widest] - max(others, default=0))
            widths[widest] -= min(step, spare[widest], over)
    return widths if sum(widths) <= room else None
