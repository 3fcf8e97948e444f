"""The table of a session: one row a call, what each cost, and why a figure is missing or only a bound.

Three promises, which every figure shown here keeps: a missing one is a dash or the reason, with a note below the table,
and never 0; one that is not exactly what it says carries a sign (the legend explains those that occur); what the
challenge cost stands apart and is in no sum.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proofcost.harness.derive import SOLUTION_PHASES, whole_of
from proofcost.harness.judge_self import judge_self
from proofcost.harness.merged import Measurement, Record, by_session
from proofcost.harness.running import MeterState
from proofcost.reports.inert import inert
from proofcost.reports.units import human, plural, when

COLUMNS = ("phase", "of", "wall", "CPU", "memory", "instructions", "outcome")
"""`of` is the module that was built or exported, the kernel that checked, or the program that ran. Fits 80 columns."""

UNBOUND_WIDTH = 4000
"""Columns for a pipe or file: rows there are never wrapped or cut."""

SIGNS = {
    "lower_bound": ("≥", ">=", "at least this much"),
    "upper_bound": ("≤", "<=", "at most this much"),
    "sampled": ("~", "~", "the largest of samples: a peak between two samples is not seen"),
    "contradicted": ("!", "!", "two ways of measuring disagree: do not compare this figure"),
}
"""Status -> sign, the same in ASCII, and what it means."""

SHORT_REASONS = {
    "counter_not_supported": "no counter",
    "counter_permission_denied": "not permitted",
    "counter_multiplexed": "multiplexed",
    "counter_not_reported": "not reported",
    "counter_never_ran": "never ran",
}
"""Shown instead of a dash, since people ask about instructions first; the legend says what each means."""

LONG_REASONS = {
    "counter_not_supported": "this processor or hypervisor offers no such counter (counter_not_supported)",
    "counter_permission_denied": "the kernel forbids it here; `proofcost doctor` says how to mend that "
    "(counter_permission_denied)",
    "counter_multiplexed": "the counter ran only part of the time, so its count is no value (counter_multiplexed)",
    "counter_never_ran": "the counter was never scheduled: too few for all that were asked for (counter_never_ran)",
    "counter_not_reported": "the kernel did not report it (counter_not_reported)",
}


INCOMPLETE = {MeterState.RUNNING: "running", MeterState.VANISHED: "incomplete (meter vanished)"}
"""Shown of a call whose end was not recorded, where this host can tell what became of its meter."""

WHY_INCOMPLETE = {
    None: "only its start was recorded: the command still runs, or its meter was killed or lost its power",
    MeterState.VANISHED: "its meter was killed, or could not write: how the command ended is not known",
}

# --- outcomes ---------------------------------------------------------------------------------------------------------


def signal_name(number: Any) -> str:
    """`SIGKILL`; `signal 77` where it has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def outcome_text(record: Record) -> str:
    """How the command ended, in a few words; its own words for nothing: a judge decides what an exit status means."""
    outcome = record.outcome
    if outcome is None:
        if record.state != "incomplete":
            return "not recorded"
        return "incomplete" if record.meter is None else INCOMPLETE[record.meter]
    kind, cause = outcome.get("kind"), outcome.get("cause")
    match kind:
        case "exited":
            text = f"exit {outcome.get('code')}"
        case "signaled":
            text = signal_name(outcome.get("signal"))
        case "timed_out":
            text = "timed out"
        case "not_started":
            text = f"not started (errno {outcome.get('errno')})"
        case _:
            text = str(kind)
    said = ("completed", kind, "time_limit" if kind == "timed_out" else None)
    return text if cause in said or not isinstance(cause, str) else f"{text}, {cause.replace('_', ' ')}"


# --- figures: what of a record a column shows -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """What one table cell shows: a measurement, and what to say about having taken this one. None: nothing to show."""

    shown: Measurement | None
    remark: str | None = None


def _have(found: Measurement | None) -> bool:
    return found is not None and found.value is not None


def _reason(found: Measurement | None) -> str:
    return "not in the record" if found is None or found.reason is None else found.reason


def _first(record: Record, lead: str, second: str, remark: str) -> Figure:
    """The leading figure, else the second one with a remark that names the reason."""
    first, other = record.measurement(lead), record.measurement(second)
    if _have(first) or not _have(other):
        return Figure(first if first is not None else other)
    return Figure(other, f"{remark}: {_reason(first)}")


def wall(record: Record) -> Figure:
    """`wall_program`; where it is missing `wall_command`, which has the sandbox's own start in it."""
    if record.phase_understood == "whole":
        return Figure(record.measurement("wall_command"))
    return _first(record, "wall_program", "wall_command", "wall of the whole command, the sandbox's start-up included")


def cpu(record: Record) -> Figure:
    """`cpu_tree`; where it is missing `cpu_waited`, which lacks what nobody waited for."""
    return _first(record, "cpu_tree", "cpu_waited", "CPU of waited-for processes only")


def memory(record: Record) -> Figure:
    return Figure(record.measurement("memory_peak_tree"))


def instructions(record: Record) -> Figure:
    """`instructions:u`; where it is missing a kernel-inclusive count, named as such: the two never compare."""
    return _first(record, "instructions:u", "instructions", "instructions with the kernel's own (noisier)")


FIGURES: tuple[tuple[str, Callable[[Record], Figure]], ...] = (
    ("wall", wall),
    ("CPU", cpu),
    ("memory", memory),
    ("instructions", instructions),
)


# --- totals -----------------------------------------------------------------------------------------------------------


def solution_calls(records: Iterable[Record]) -> tuple[Record, ...]:
    """The calls that make up what the solution cost: its build, export and checkers; never the challenge's."""
    return tuple(one for one in records if one.side == "solution" and one.phase in SOLUTION_PHASES)


def total(records: Sequence[Record], pick: Callable[[Record], Figure], peak: bool = False) -> Measurement | None:
    """The sum (or with `peak` the largest) of a figure over `records`, as sure as its least sure part.

    A part that is missing makes it a lower bound; lower and upper bounds together say nothing and give None, as does
    there being no part at all.
    """
    parts = [found for one in records if (found := pick(one).shown) is not None and found.value is not None]
    if not parts:
        return None
    missing = len(records) - len(parts)
    values = [part.value or 0 for part in parts]
    statuses = {part.status for part in parts} | ({"lower_bound"} if missing else set())
    status, reason = "derived", None
    if "contradicted" in statuses:
        status, reason = "contradicted", "a part of it is contradicted"
    elif {"lower_bound", "upper_bound"} <= statuses:
        return None
    elif "lower_bound" in statuses:
        status = "lower_bound"
        reason = f"missing for {missing} of {len(records)} calls" if missing else "a part of it is a lower bound"
    elif "upper_bound" in statuses:
        status, reason = "upper_bound", "a part of it is an upper bound"
    elif "sampled" in statuses:
        status = "sampled"
    value = max(values) if peak else sum(values)
    return Measurement("total", value, parts[0].unit, "largest" if peak else "sum", status, reason)


# --- drawing ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Notes:
    """Footnotes and signs as they come up; each is explained once."""

    ascii_only: bool
    notes: list[str] = field(default_factory=list)
    signs: set[str] = field(default_factory=set)
    legend: dict[str, str] = field(default_factory=dict)
    """What is shown -> what it means."""

    @property
    def dash(self) -> str:
        return "-" if self.ascii_only else "\u2013"

    def note(self, text: str) -> str:
        """The reference to a footnote of this text."""
        if text not in self.notes:
            self.notes.append(text)
        return f" [{self.notes.index(text) + 1}]"

    def sign(self, status: str) -> str:
        if status not in SIGNS:
            return ""
        self.signs.add(status)
        return SIGNS[status][self.ascii_only]

    def text(self, raw: str, limit: int | None = 40) -> str:
        return inert(raw, limit, self.ascii_only)

    def reason(self, raw: str) -> str:
        return LONG_REASONS.get(raw) or self.text(raw, 200)

    def figure(self, column: str, figure: Figure) -> str:
        """A table cell."""
        shown = figure.shown
        if shown is None or shown.value is None:
            raw = _reason(shown)
            if column == "instructions" and raw in SHORT_REASONS:
                self.legend[SHORT_REASONS[raw]] = LONG_REASONS[raw]
                return SHORT_REASONS[raw]
            return self.dash + self.note(f"{column}: {self.reason(raw)}")
        text = self.sign(shown.status) + human(shown.value, shown.unit, self.ascii_only)
        if shown.status in ("lower_bound", "upper_bound", "contradicted") and shown.reason is not None:
            text += self.note(f"{column}: {self.reason(shown.reason)}")
        if figure.remark is not None:
            text += self.note(self.text(figure.remark, 240))
        return text

    def lines(self) -> list[str]:
        """The legend and the footnotes."""
        signs = [f"{SIGNS[status][self.ascii_only]}: {SIGNS[status][2]}" for status in SIGNS if status in self.signs]
        legend = [f"{shown}: {meaning}" for shown, meaning in self.legend.items()]
        return [*signs, *legend, *(f"[{number}] {text}" for number, text in enumerate(self.notes, 1))]


def _phase(record: Record, notes: Notes) -> str:
    given = record.phase_given
    same = given is None or given in (record.phase_understood, record.phase)
    if given is None or same:
        return notes.text(record.phase)
    notes.legend["( )"] = "what the judge called the phase"
    return f"{notes.text(record.phase)} ({notes.text(given)})"


def _of(record: Record, notes: Notes) -> str:
    inferred = ""
    if record.side_known_by == "order":
        inferred = notes.note("challenge or solution: inferred from the order of the calls")
    if record.kernel is not None:
        return notes.text(record.kernel)
    if record.module is not None:
        return notes.text(record.module) + inferred
    if record.phase_understood in ("whole", "unknown") or record.side is None:
        return notes.text(record.target_name) if record.target_name is not None else ""
    return record.side + inferred


def _outcome(record: Record, notes: Notes) -> str:
    text = notes.text(outcome_text(record), 60)
    finished = record.finished
    if finished is None:
        return text if record.meter is MeterState.RUNNING else text + notes.note(WHY_INCOMPLETE[record.meter])
    stragglers = finished.get("stragglers")
    count = stragglers.get("count") if isinstance(stragglers, dict) else None
    if isinstance(count, int) and count > 0:
        told = "is" if record.settled is not None else "is not"
        text += notes.note(
            f"{plural(count, 'process', 'processes')} outlived the command; what they used later {told} in it"
        )
    faults = finished.get("faults")
    for fault in faults if isinstance(faults, list) else ():
        if isinstance(fault, dict):
            where, what = (notes.text(str(fault.get(key)), 120) for key in ("step", "what"))
            text += notes.note(f"the meter failed at {where} ({what}); the command was not touched")
    sandbox = record.started.get("sandbox")
    if (
        isinstance(sandbox, dict)
        and sandbox.get("kind") in ("landrun", "bwrap")
        and sandbox.get("enforced") is not True
    ):
        known = sandbox.get("enforced_known_by")
        how = f": {notes.text(known, 120)}" if isinstance(known, str) else ""
        sure = "ran without its sandbox in force" if sandbox.get("enforced") is False else "sandbox in force? not known"
        text += notes.note(sure + how)
    return text


def _row(record: Record, notes: Notes) -> list[str]:
    row = [_phase(record, notes), _of(record, notes)]
    if record.finished is None:
        row.extend([notes.dash] * len(FIGURES))
    else:
        row.extend(notes.figure(column, pick(record)) for column, pick in FIGURES)
    return [*row, _outcome(record, notes)]


def _total_row(calls: Sequence[Record], notes: Notes) -> list[str]:
    row = ["solution total", ""]
    for column, pick in FIGURES:
        figures = [pick(one) for one in calls]
        found = total(calls, pick, peak=column == "memory")
        if found is not None:
            remark = next((figure.remark for figure in figures if figure.remark is not None), None)
            row.append(notes.figure(f"total of {column}", Figure(found, remark)))
        elif any(_have(figure.shown) for figure in figures):
            row.append(notes.dash + notes.note(f"total of {column}: of lower and of upper bounds, so it is neither"))
        else:
            row.append(notes.figure(column, figures[0]))
    notes.legend["solution total"] = "memory is the largest of its calls, everything else their sum"
    return [*row, plural(len(calls), "call")]


def _self_row(records: Sequence[Record], notes: Notes) -> list[str] | None:
    found = judge_self(records)
    if found is None:
        return None
    row = ["judge-self", ""]
    for column, shown in (("wall", found.wall), ("CPU", found.cpu), ("memory", found.memory)):
        row.append(notes.figure(f"judge-self {column}", Figure(shown)))
    wall_cost, cpu_cost = (human(ns, "ns", notes.ascii_only) for ns in (found.meters_ns, found.meters_cpu_ns))
    notes.legend["judge-self"] = (
        "the judge beside its calls, an upper bound for a kernel inside its process; our meters are in it "
        f"({wall_cost} wall, {cpu_cost} CPU); its instructions cannot be told from its calls'"
    )
    return [*row, notes.dash, ""]


def judge_text(records: Sequence[Record], ascii_only: bool = False, limit: int = 80) -> str:
    """The judge of a session as people know it: the command of `run`, else the name of who made the calls."""
    whole = whole_of(records)
    if whole is not None:
        argv = whole.started.get("argv")
        head = argv.get("head") if isinstance(argv, dict) else None
        if isinstance(head, list) and head:
            return inert(" ".join(word for word in head if isinstance(word, str)), limit, ascii_only)
    process = records[0].started.get("process") if records else None
    parent = process.get("parent_name") if isinstance(process, dict) else None
    return inert(parent, limit, ascii_only) if isinstance(parent, str) else "unknown"


def _table(records: Sequence[Record], notes: Notes, terminal: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in COLUMNS:
        right = column in {name for name, _ in FIGURES}
        whole_cells = not terminal or column in ("phase", "wall", "CPU", "memory", "instructions")
        table.add_column(column, justify="right" if right else "left", no_wrap=whole_cells, overflow="fold")

    def add(row: Sequence[str], style: str | None = None) -> None:
        table.add_row(*(Text(cell) for cell in row), style=style)

    whole = whole_of(records)
    rest = [one for one in records if one is not whole]
    for one in rest:
        if one.side != "challenge":
            ended = one.outcome is not None and one.outcome.get("kind") == "exited"
            add(_row(one, notes), None if ended else "yellow")
    solution = solution_calls(rest)
    if solution:
        table.add_section()
        add(_total_row(solution, notes), "bold")
        sideless = [one for one in rest if one.side is None and one.phase in SOLUTION_PHASES]
        if sideless:
            notes.note(
                f"{plural(len(sideless), 'call')} in no total: nothing tells whether for the solution or the challenge"
            )
    challenge = [one for one in rest if one.side == "challenge"]
    if challenge:
        table.add_section()
        for one in challenge:
            add(_row(one, notes), "dim")
        notes.legend["challenge-\u2026" if not notes.ascii_only else "challenge-..."] = (
            "in no total: what it costs is the judge's own, the same for every solution"
        )
    if whole is not None:
        table.add_section()
        add(_row(whole, notes))
        own = _self_row(records, notes)
        if own is not None:
            add(own)
    return table


def _print(console: Console, terminal: bool, content: Table | Text) -> None:
    """To a terminal as wide as that is; elsewhere in full width, without the blanks that fill a line up."""
    if terminal:
        console.print(content, highlight=False)
        return
    with console.capture() as captured:
        console.print(content, highlight=False, soft_wrap=not isinstance(content, Table))
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def print_rows(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str]) -> None:
    """A plain table of texts: folded to a terminal's width, in full where the output is no terminal."""
    terminal, width = console.is_terminal, console.width
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for at, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=not terminal or at == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    if not terminal:
        console.width = UNBOUND_WIDTH
    try:
        _print(console, terminal, table)
    finally:
        console.width = width


def is_ascii(console: Console) -> bool:
    """Whether the console's stream can take nothing but ASCII for sure."""
    return not console.encoding.lower().startswith("utf")


def render(records: Iterable[Record], console: Console) -> None:
    """Print one table a session, with its legend and footnotes, to `console`.

    `records` come from `read_store`, so that their derived fields are filled in. On a terminal long cells are folded;
    in a pipe or file there are no colours and no line is cut.
    """
    terminal, width = console.is_terminal, console.width
    if not terminal:
        console.width = UNBOUND_WIDTH
    try:
        for at, (session, group) in enumerate(by_session(records).items()):
            notes = Notes(is_ascii(console))
            if at:
                _print(console, terminal, Text(""))
            for line in _heading(session, group, notes):
                _print(console, terminal, Text(line))
            _print(console, terminal, Text(""))
            _print(console, terminal, _table(group, notes, terminal))
            _print(console, terminal, Text(""))
            for line in notes.lines():
                _print(console, terminal, Text(line, style="dim"))
    finally:
        console.width = width


def _heading(session: str, records: Sequence[Record], notes: Notes) -> list[str]:
    first = records[0]
    lines = [f"session {notes.text(session)}  {when(first.started_at_ns)}  {judge_text(records, notes.ascii_only)}"]
    labels = whole.labels if (whole := whole_of(records)) is not None else first.labels
    if labels:
        lines.append("labels  " + "  ".join(f"{notes.text(key)}={notes.text(text)}" for key, text in labels.items()))
    return lines
