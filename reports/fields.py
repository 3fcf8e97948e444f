"""Every field of one invocation, for people: outcome and evidence first, then the figures, then all the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from proofcost.harness.merged import Measurement, Record
from proofcost.reports.inert import inert
from proofcost.reports.outcome import outcome_text
from proofcost.reports.printing import is_ascii
from proofcost.reports.units import human, when

MAX_TEXT = 400
"""Longest single value shown, in characters; `--json` has all of it."""

PAGES_ELSEWHERE = "larger than memory_peak_tree, as pages that another cgroup used first are charged to that one"

ENVELOPE = ("schema", "event", "invocation", "session")


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """`a.b[0]` -> value, for every value of a nested object that is no object or list; empty ones count as values."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from leaves(inner, f"{name}[{at}]")
    else:
        yield name, value


def _value(value: Any, ascii_only: bool) -> str:
    match value:
        case None:
            return "null"
        case True | False:
            return "true" if value else "false"
        case dict() | list():
            return "none"
        case _:
            return inert(str(value), MAX_TEXT, ascii_only)


def figure_text(found: Measurement, ascii_only: bool) -> str:
    """The exact number, for people too, how sure it is and how it was found; or why it is missing."""
    if found.value is None:
        text = f"unavailable: {inert(found.reason or '', MAX_TEXT, ascii_only)}"
    else:
        text = str(found.value) if found.unit == "count" else f"{found.value} {inert(found.unit, 20, ascii_only)}"
        short = human(found.value, found.unit, ascii_only)
        if found.value and short not in (text, str(found.value)):
            text += f" ({short})"
        text += f", {inert(found.status, 20, ascii_only)}"
        if found.reason is not None:
            text += f": {inert(found.reason, MAX_TEXT, ascii_only)}"
    text += f"; by {inert(found.method, MAX_TEXT, ascii_only)}"
    if found.running_ns is not None:
        text += f"; counted {found.running_ns} of {found.enabled_ns} ns"
    return text + ("; settled" if found.settled else "")


def figure_texts(figures: Mapping[str, Measurement], ascii_only: bool) -> dict[str, str]:
    """`figure_text` of each; what seems to contradict another one is explained."""
    lines = {name: figure_text(one, ascii_only) for name, one in figures.items()}
    largest, tree = figures.get("memory_peak_process"), figures.get("memory_peak_tree")
    if largest is not None and tree is not None and (largest.value or 0) > (tree.value or largest.value or 0):
        lines[largest.name] += f"; {PAGES_ELSEWHERE}"
    return lines


def _lines(fields: Any, ascii_only: bool) -> list[tuple[str, str]]:
    """Name and text of every leaf; names are from outside as well."""
    return [(inert(name, 200, ascii_only), _value(value, ascii_only)) for name, value in leaves(fields) if name]


def head(record: Record, ascii_only: bool) -> list[tuple[str, str]]:
    """Name and text of what tells the call from others."""
    side = "" if record.side is None else f", for the {record.side} (known by {record.side_known_by})"
    given = "" if record.phase_given is None else f", given as {inert(record.phase_given, 40, ascii_only)}"
    top = [
        ("session", inert(record.session, None, ascii_only)),
        ("phase", inert(record.phase, 40, ascii_only) + given + side),
        ("state", record.state),
        ("started", when(record.started_at_ns)),
    ]
    if record.kernel is not None:
        top.append(("kernel", f"{inert(record.kernel, None, ascii_only)} (known by {record.kernel_known_by})"))
    top.extend((f"label {inert(key, 40, ascii_only)}", _value(text, ascii_only)) for key, text in record.labels.items())
    return top


def _sections(record: Record, ascii_only: bool) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Title and lines (name, text) of each part."""
    yield "", head(record, ascii_only)
    outcome = [("ended", inert(outcome_text(record), MAX_TEXT, ascii_only))]
    outcome.extend(_lines(record.outcome or {}, ascii_only))
    yield "outcome", outcome
    lines = figure_texts(record.measurements(), ascii_only)
    yield "measurements", [(inert(name, None, ascii_only), text) for name, text in lines.items()]
    for title, event in (("started", record.started), ("finished", record.finished), ("settled", record.settled)):
        if event is None:
            continue
        shown = {key: value for key, value in event.items() if key not in (*ENVELOPE, "measurements", "outcome")}
        yield f"{title} (as recorded)", _lines(shown, ascii_only)


def render_invocation(record: Record, console: Console) -> None:
    """Print every field of `record`, one a line, in full width."""
    ascii_only = is_ascii(console)

    def line(text: str, style: str | None = None) -> None:
        console.print(Text(text, style=style or ""), soft_wrap=True, highlight=False)

    line(f"invocation {inert(record.invocation, None, ascii_only)}", "bold")
    for title, lines in _sections(record, ascii_only):
        if title:
            line("")
            line(title, "bold")
        width = min(32, max((len(name) for name, _ in lines), default=0))
        for name, text in lines:
            line(f"  {name:<{width}}  {text}")
