"""The end of a bench: the table that its suite asks for, its chart, and the floor of this host beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from proofcost.bench_suites import sessions
from proofcost.bench_suites.series import Series
from proofcost.extras import how
from proofcost.harness.merged import Record, text_at, value_at
from proofcost.reports import bench_table, calibration, contention, counted_table
from proofcost.reports.bench_cells import MEMORY, WALL
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.printing import is_ascii, write
from proofcost.reports.table import judge_text
from proofcost.reports.units import when

CALIBRATION = "calibration"
CHARTS = (".svg", ".pdf", ".png")
CHARTED = ("growth",)
"""Kinds of report that have a chart."""


def wrong_output(path: str, report: str) -> str | None:
    """Why a bench of this kind cannot write its chart there; None when it can."""
    suffix = os.path.splitext(path)[1]
    if suffix not in CHARTS:
        return f"-o {path}: a chart's name ends in {', '.join(CHARTS)}"
    if report not in CHARTED:
        return f"-o {path}: only {', '.join(CHARTED)} has a chart; leave it out"
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"-o {path}: no folder {folder}; make it first"
    return None


def floor(place: str, records: Sequence[Record]) -> tuple[int | None, str]:
    """(median wall of a null program in the same sandbox on such a host, where it comes from)."""
    own = calibration.floor_ns(records)
    if own is not None:
        return own, "null, in this bench"
    here = records[0].started
    for known in sessions.benches(place):
        if known.suite != CALIBRATION:
            continue
        alike = [
            record
            for record in sessions.records_of(place, known.session)
            if text_at(record.started, "host", "class") == text_at(here, "host", "class")
            and text_at(record.started, "sandbox", "kind") == text_at(here, "sandbox", "kind")
        ]
        found = calibration.floor_ns(alike)
        if found is not None:
            return found, f"calibration {known.session}"
    return None, ""


def render_bench(place: str, records: Sequence[Record], console: Console) -> None:
    """A bench's session for `show`: what it was, and its table of pairs."""
    first, ascii_only = records[0], is_ascii(console)
    heading = f"session {inert(first.session, None, ascii_only)}  {when(first.started_at_ns)}  {judge_text(records)}"
    write(console, Text(heading))
    labels = [f"{inert(key, 40, ascii_only)}={inert(text, 60, ascii_only)}" for key, text in first.labels.items()]
    if labels:
        write(console, Text("labels  " + "  ".join(labels)))
    for line in environments(records, ascii_only):
        write(console, Text(f"environment  {line}"))
    write(console, Text(""))
    if counted_table.is_counted(records):
        counted_table.render(records, console)
        bench_table.shout(records, console)
        return
    floor_ns, floor_from = floor(place, records)
    bench_table.render(records, console, floor_ns, floor_from)


def environments(records: Sequence[Record], ascii_only: bool) -> list[str]:
    """`KERNEL: NAME=VALUE ...` of each kernel for which variables were named, in the order of their first turns."""
    found: dict[str, None] = {}
    for record in records:
        named = value_at(record.started, "bench", "environment")
        if isinstance(named, dict) and named:
            kernel = inert(text_at(record.started, "kernel", "name") or "?", 60, ascii_only)
            pairs = (f"{inert(key, 40, ascii_only)}={inert(str(text), 60, ascii_only)}" for key, text in named.items())
            found[f"{kernel}: {'  '.join(pairs)}"] = None
    return list(found)


def show(series: Series, place: str, records: Sequence[Record], output: str | None) -> None:
    """Print the bench's table and write its chart. Nothing where nothing came to an end."""
    console = Console()
    if not records:
        return
    report = series.settings.report
    floor_ns, floor_from = floor(place, records)
    if counted_table.is_counted(records):  # no other report has a value to show
        counted_table.render(records, console)
    elif report == "growth":
        _growth(series, records, console, floor_ns, output)
    elif report == "contention":
        contention.render(records, console)
    elif report == CALIBRATION:
        calibration.render(records, console)
    else:
        bench_table.render(records, console, floor_ns, floor_from)
        return
    bench_table.shout(records, console)


def _growth(
    series: Series, records: Sequence[Record], console: Console, floor_ns: int | None, output: str | None
) -> None:
    try:
        from proofcost.reports import growth_table
        from proofcost.reports.growth import growths, without_cost

        wall = growths(records, WALL, "ns", floor_ns)
        memory = growths(records, MEMORY, "bytes", None)
        failed: Exception | None = None
        if output is not None:  # before anything is printed: its reader may go away
            try:
                from proofcost.reports.growth_chart import draw

                draw(wall, output, f"{series.settings.name}: wall against n", floor_ns)
            except (OSError, ModuleNotFoundError) as error:
                failed = error  # the table is worth having all the same
        growth_table.render(
            [("wall", "ns", wall), ("memory", "bytes", memory)], console, floor_ns, without_cost(records)
        )
        if failed is not None:
            raise failed
        if output is not None:
            console.print(Text(f"chart: {inert_outside(output, 200)}"), soft_wrap=True)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("proofcost"):
            raise
        console.print(Text(f"no exponents: {error.name} is not here: {how('reports')}"))
