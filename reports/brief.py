"""One call in some 25 lines: what it was, how it ended, what it cost, and what bore on that. `fields` has the rest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from proofcost.harness.decode import plain
from proofcost.harness.merged import Measurement, Record, integer_at, text_at, value_at
from proofcost.reports import passed, verdicts
from proofcost.reports.fields import figure_texts, head
from proofcost.reports.figures import wall
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.notes import Notes
from proofcost.reports.outcome import evidence, outcome_text
from proofcost.reports.printing import is_ascii
from proofcost.reports.units import human, plural

KEY_FIGURES = (
    "wall_program", "wall_command", "sandbox_startup", "cpu_tree", "cpu_waited", "instructions:u", "instructions",
    "instructions_callgrind", "memory_peak_tree", "memory_peak_process", "memory_file_tree", "disk_peak_writable",
    "wall_region", "instructions_region", "memory_peak_region",
)  # fmt: skip
"""What people ask for, in this order, as far as the record has it."""
QUIET = ("busy",)
"""Of what the host did: the command's own doing, mostly."""
COMMAND_SHOWN, TEXT_SHOWN = 300, 200
REST = "every field: --all; as recorded: --json"


def render(record: Record, console: Console) -> None:
    """Print a call in short, one thing a line."""
    ascii_only = is_ascii(console)

    def line(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True, highlight=False)

    line(f"invocation {inert(record.invocation, None, ascii_only)}", "bold")
    for title, lines in (("", _about(record, ascii_only)), ("figures", _figures(record, ascii_only))):
        shown = list(lines)
        if title and shown:
            line("")
            line(title, "bold")
        width = max((len(name) for name, _ in shown), default=0)
        for name, text in shown:
            line(f"  {name:<{width}}  {text}")
    line("")
    line(REST, "dim")


def _about(record: Record, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Name and text of what the call was, how it ended, and what may have borne on it."""

    def text(raw: str, limit: int | None = TEXT_SHOWN) -> str:
        return inert_outside(raw, limit, ascii_only)

    yield from head(record, ascii_only)
    why = "; ".join(evidence(record))
    yield "ended", text(outcome_text(record)) + (f" ({text(why, 300)})" if why else "")
    bench = value_at(record.started, "bench")
    if isinstance(bench, dict):
        yield "workload", text(plain(text_at(bench, "workload", "name") or "?"))
        yield "verdict", verdicts.verdict(record).value
        named = value_at(bench, "environment")
        if isinstance(named, dict) and named:
            words = " ".join(f"{plain(name)}={shlex.quote(plain(str(value)))}" for name, value in named.items())
            yield "environment", text(words)
    words = value_at(record.started, "argv", "head")
    if isinstance(words, list) and words:
        command = shlex.join(plain(word) for word in words if isinstance(word, str))
        yield "command", text(command, COMMAND_SHOWN)
    for name, keys in (("folder", ("cwd",)), ("program", ("target", "path"))):
        found = text_at(record.started, *keys)
        if found is not None:
            digest = text_at(record.started, "target", "sha256") if name == "program" else None
            yield name, text(plain(found)) + ("" if digest is None else f", sha256 {text(digest[:16])}")
    sandbox = _sandbox(record)
    if sandbox is not None:
        yield "sandbox", text(sandbox)
    limits = list(_limits(record.started.get("limits"), ascii_only))
    if limits:
        yield "limits", ", ".join(limits)
    host = text_at(record.started, "host", "class")
    if host is not None:
        yield "host class", text(host)
    disturbed = list(_disturbances(value_at(record.finished, "host_disturbance"), ascii_only))
    if disturbed:
        yield "host meanwhile", ", ".join(disturbed)
    count = integer_at(record.finished, "stragglers", "count")
    if count:
        action = text_at(record.finished, "stragglers", "action") or "?"
        yield "stragglers", f"{plural(count, 'process', 'processes')} outlived the command ({text(action)})"
    for remark in passed.remarks(record, Notes(ascii_only)):
        yield "output", remark
    faults = value_at(record.finished, "faults")
    for fault in faults if isinstance(faults, list) else ():
        where, what = (text(str(value_at(fault, key)), 120) for key in ("step", "what"))
        yield "meter failed", f"at {where}: {what}; the command was not touched"


def _figures(record: Record, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Key figures with their method; what is missing for one reason is one line."""
    found = record.measurements()
    cut_off = wall(record).shown
    if record.cut_off_ns is not None and cut_off is not None:
        found = {**found, cut_off.name: cut_off}
    texts = figure_texts(found, ascii_only)
    absent: dict[str, list[str]] = {}
    shown = 0
    for name in KEY_FIGURES:
        one = found.get(name)
        if one is None:
            continue
        shown += 1
        if one.value is None:
            absent.setdefault(_reason(one), []).append(name)
        else:
            yield name, texts[name]
    for reason, names in absent.items():
        yield "unavailable", f"{', '.join(names)}: {inert_outside(reason, 300, ascii_only)}"
    if len(found) > shown:
        yield "and", f"{len(found) - shown} more with --all"


def _reason(one: Measurement) -> str:
    return one.reason or "the record gives no reason"


def _sandbox(record: Record) -> str | None:
    sandbox = record.started.get("sandbox")
    kind = text_at(sandbox, "kind")
    if kind is None or kind == "none":
        return kind
    enforced = {True: "in force", False: "not in force"}.get(value_at(sandbox, "enforced"), "in force? not known")
    how = text_at(sandbox, "enforced_known_by")
    return f"{plain(kind)}, {enforced}" + ("" if how is None else f" ({plain(how)})")


def _limits(limits: Any, ascii_only: bool) -> Iterator[str]:
    """Those in force that a proof check runs into."""
    for what, unit, keys in (
        ("time", "ns", ("timeout_ns",)),
        ("memory", "bytes", ("memory_limit_bytes",)),
        ("memory of the cgroup", "bytes", ("cgroup_memory_bytes", "value")),
        ("CPU time", "s", ("rlimits", "cpu", "soft")),
        ("address space", "bytes", ("rlimits", "as", "soft")),
        ("file size", "bytes", ("rlimits", "fsize", "soft")),
    ):
        value = integer_at(limits, *keys)
        if value is not None:
            yield f"{what} {value} s" if unit == "s" else f"{what} {human(value, unit, ascii_only)}"
    cpus, parts = (integer_at(limits, "effective_cpus", name) for name in ("numerator", "denominator"))
    if cpus is not None and parts:
        yield f"CPUs {cpus / parts:g}"


def _disturbances(said: Any, ascii_only: bool) -> Iterator[str]:
    """What is not nothing of what the host did meanwhile."""
    for name, one in said.items() if isinstance(said, dict) else ():
        value, unit = integer_at(one, "value"), text_at(one, "unit")
        if value and unit in ("ns", "bytes", "count") and name not in QUIET:
            yield f"{inert_outside(name, 40, ascii_only)} {human(value, unit, ascii_only)}"
