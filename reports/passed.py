"""What is said of a call whose output passed through us: what that cost, what the program said of its own region."""

from __future__ import annotations

from collections.abc import Iterator

from proofcost.harness.merged import Record, integer_at, text_at, value_at
from proofcost.reports.notes import Notes
from proofcost.reports.units import human

MAX_SAID = 300

_FIGURES = (
    ("wall_region", "wall"),
    ("instructions_region", "instructions (user and kernel, one thread)"),
    ("memory_peak_region", "memory"),
)


def remarks(record: Record, notes: Notes) -> Iterator[str]:
    """Lines for the notes below a table."""
    count, cpu = (integer_at(record.finished, "relay", name) for name in ("passed_bytes", "cpu_ns"))
    if count is not None and cpu is not None:
        size, took = human(count, "bytes", notes.ascii_only), human(cpu, "ns", notes.ascii_only)
        yield f"its output passed through us: {size}, {took} CPU that is in none of its figures"
    if value_at(record.finished, "capture", "kept") is False:
        why = text_at(record.finished, "capture", "reason")
        yield f"no copy of the export was kept: {notes.text(why or 'unknown', MAX_SAID)}"
    figures = [(record.measurement(name), what) for name, what in _FIGURES]
    told = [
        f"{human(found.value, found.unit, notes.ascii_only)} {what}"
        for found, what in figures
        if found is not None and found.value is not None
    ]
    if told:
        yield f"the program itself says of the region that it timed: {', '.join(told)}"
    said = value_at(record.finished, "regions", "contradictions")
    for what in said if isinstance(said, list) else ():
        if isinstance(what, str):
            yield f"what the program says of itself is contradicted: {notes.text(what, MAX_SAID)}"
