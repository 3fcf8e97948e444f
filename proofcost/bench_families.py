"""`proofcost bench --list-families`: what exports can be generated, what each is for, and what a sound kernel says.

For people a paragraph a family; for a pipe or file a row a name, twins too, never folded.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from proofcost.bench_suites import families
from proofcost.bench_suites.families import FAMILIES, REJECT
from proofcost.bench_suites.families.family import Family
from proofcost.reports.printing import Row, full_width, table_of, write

COLUMNS = ("family", "expected", "n", "default sizes", "needs", "what it stresses; a twin: its fault", "growth")
INDENT = 4


def render(console: Console) -> None:
    """Print every family that can be asked for."""
    if console.is_terminal:
        for family in FAMILIES:
            _paragraph(family, console)
        write(console, Text("Generate and run one: proofcost bench NAME=CMD --on FAMILY:n (docs/workloads.md)"))
        return
    rows = [row for family in FAMILIES for row in (_row(family, twin=False), _row(family, twin=True))]
    with full_width(console):
        write(console, table_of(console, COLUMNS, rows, right=(), least={}))


def expected(name: str) -> str:
    """What a sound kernel says of a family or twin, as tables have it."""
    return f"{families.choose(name, families.get(name).small).expected}ed"


def _row(family: Family, *, twin: bool) -> Row:
    name = family.name + (REJECT if twin else "")
    about = family.fault if twin else family.stresses
    return Row([name, expected(name), _range(family), _sizes(family), ", ".join(family.needs), about, family.growth])


def _range(family: Family) -> str:
    most = "" if family.n_max is None else str(family.n_max)
    return f"{family.n_min}..{most}" + (", seed" if family.seeded else "")


def _sizes(family: Family) -> str:
    return " ".join(map(str, family.ladder))


def _paragraph(family: Family, console: Console) -> None:
    head = Text(family.name, style="bold")
    head.append(f": {expected(family.name)}", style="not bold")
    write(console, head)
    twin = family.name + REJECT
    lines = [
        ("stresses", family.stresses),
        ("growth", family.growth),
        ("sizes", f"{_sizes(family)} (n {_range(family)})"),
        ("needs", ", ".join(family.needs)),
        (f"{twin}", f"{expected(twin)}: {family.fault}"),
    ]
    width = max(20, console.width - INDENT)
    for name, text in lines:
        if text:
            for line in Text(f"{name}: {text}").wrap(console, width):
                write(console, Text(" " * INDENT).append_text(line))
    write(console, Text(""))
