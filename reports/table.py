"""The table of a session: one row a call, what each cost, and why a figure is missing or only a bound.

Three promises, which every figure shown here keeps: a missing one is a dash or the reason, with a note below the table,
and never 0; one that is not exactly what it says carries a sign (the legend explains those that occur); what the
challenge cost stands apart and is in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proofcost.harness.derive import SOLUTION_PHASES, calls_of, judge_config, whole_of
from proofcost.harness.judge_self import judge_self
from proofcost.harness.merged import Measurement, Record, by_session, text_at
from proofcost.harness.running import MeterState
from proofcost.reports import passed
from proofcost.reports.figures import FIGURES, Figure, is_known, solution_calls, total, wall
from proofcost.reports.inert import inert
from proofcost.reports.notes import Notes, RowNotes
from proofcost.reports.outcome import WHY_CUT_OFF, WHY_INCOMPLETE, evidence, outcome_text
from proofcost.reports.printing import Row, full_width, is_ascii, is_narrow, table_of, write, write_note
from proofcost.reports.units import human, plural, when

COLUMNS = ("phase", "of", "wall", "CPU", "memory", "instructions", "outcome")
"""`of` is the module that was built or exported, the kernel that checked, or the program that ran. Fits 80 columns.

Before the phase stands the call's number (`#`), by start, with one blank between: a column of its own has no room."""

RIGHT = range(2, 6)
"""The columns of figures; they are never folded."""

LEAST = {0: 18, 1: 10, 6: 10}
"""Least widths of the others: `1 challenge-export`, `sokonanoda`, `exit 0 [1]`."""

NARROW = {"instructions": "instr."}
"""Heads on a terminal of 80 columns."""

MAX_EVIDENCE = 300

NO_CALLS = "no sandboxed call reached us; if the judge finds its sandbox by PATH: proofcost run --shims path"
UNKNOWN = "unknown: not a call that comparators make; name a phase with the `phase` launcher: docs/record.md"


def render(records: Iterable[Record], console: Console) -> None:
    """Print one table a session, with its legend and footnotes, to `console`.

    `records` come from `read_store`, so that their derived fields are filled in. On a terminal long cells are folded;
    in a pipe or file there are no colours and no line is cut.
    """
    with full_width(console):
        for at, (session, group) in enumerate(by_session(records).items()):
            notes = Notes(is_ascii(console))
            if at:
                write(console, Text(""))
            for line in _heading(session, group, notes):
                write(console, Text(line))
            write(console, Text(""))
            write(console, _table(group, notes, console))
            write(console, Text(""))
            for line in notes.lines():
                write_note(console, line)


def judge_text(records: Sequence[Record], ascii_only: bool = False, limit: int = 80) -> str:
    """The judge of a session as people know it: the command of `run`, else the name of who made the calls."""
    whole = whole_of(records)
    suite = text_at(records[0].started, "bench", "suite") if records else None
    if suite is not None:
        return inert(f"bench {suite}", limit, ascii_only)
    if whole is not None:
        argv = whole.started.get("argv")
        head = argv.get("head") if isinstance(argv, dict) else None
        if isinstance(head, list) and head:
            return inert(" ".join(word for word in head if isinstance(word, str)), limit, ascii_only)
    process = records[0].started.get("process") if records else None
    parent = process.get("parent_name") if isinstance(process, dict) else None
    return inert(parent, limit, ascii_only) if isinstance(parent, str) else "unknown"


def _heading(session: str, records: Sequence[Record], notes: Notes) -> list[str]:
    first = records[0]
    lines = [f"session {notes.text(session)}  {when(first.started_at_ns)}  {judge_text(records, notes.ascii_only)}"]
    labels = whole.labels if (whole := whole_of(records)) is not None else first.labels
    if labels:
        lines.append("labels  " + "  ".join(f"{notes.text(key)}={notes.text(text)}" for key, text in labels.items()))
    return lines


def _table(records: Sequence[Record], notes: Notes, console: Console) -> Table:
    whole = whole_of(records)
    rest = [one for one in records if one is not whole]
    notes.calls = len(rest)
    parts = [
        [_row(one, notes) for one in rest if one.side != "challenge"],
        _totals(rest, notes),
        _challenge(rest, notes),
        _judge(whole, records, notes) if whole is not None else [],
    ]
    numbers = {one.invocation: str(number) for number, one in enumerate(calls_of(records), 1)}
    width = len(str(len(rest)))
    blank = "" if is_narrow(console) or not rest else " " * (width + 1)  # `solution total` has no room to stand in line
    rows = []
    for part in parts:
        for at, row in enumerate(part, 1):
            before = f"{numbers[row.call]:>{width}} " if row.call in numbers else blank
            rows.append(replace(row, cells=[before + row.cells[0], *row.cells[1:]], section=at == len(part)))
    heads = [NARROW.get(column, column) if is_narrow(console) else column for column in COLUMNS]
    if rest:
        heads[0] = f"{'#':>{width}} {heads[0]}"
    return table_of(console, heads, rows, right=RIGHT, least=LEAST)


def _totals(calls: Sequence[Record], notes: Notes) -> list[Row]:
    solution = solution_calls(calls)
    if not solution:
        return []
    row = _total_row(solution, notes)
    sideless = [one for one in calls if one.side is None and one.phase in SOLUTION_PHASES]
    if sideless:
        said = "in no total: nothing tells whether for the solution or the challenge"
        notes.note(f"{plural(len(sideless), 'call')} {said}")
    return [row]


def _challenge(calls: Sequence[Record], notes: Notes) -> list[Row]:
    rows = [_row(one, notes, "dim") for one in calls if one.side == "challenge"]
    if rows:
        notes.legend["challenge-..." if notes.ascii_only else "challenge-\u2026"] = (
            "in no total: what it costs is the judge's own, the same for every solution"
        )
    return rows


def _judge(whole: Record, records: Sequence[Record], notes: Notes) -> list[Row]:
    alone = len(records) == 1
    rows = [_row(whole, notes, said=NO_CALLS if alone else None)]
    own = None if alone else _self_row(records, notes)
    if (elsewhere := measured_elsewhere(whole, records)) is not None:
        notes.legend["measurement command"] = (
            f"the judge's configuration names one, {notes.text(elsewhere, 200)}; what it calls through that is none of "
            "the calls above: its launcher keeps them in the store it was installed with"
        )
    return rows if own is None else [*rows, own]


def measured_elsewhere(whole: Record, records: Sequence[Record]) -> str | None:
    """The measurement command of the judge's configuration, if none of the calls through it is in this session."""
    command = (judge_config(whole) or {}).get("measurement_command")
    program = command[0] if isinstance(command, list) and command else command
    if not isinstance(program, str) or any(one.phase_known_by == "hook" for one in records):
        return None
    return program


def _as_usual(record: Record) -> bool:
    """Whether the call ended by itself, or still runs."""
    if record.outcome is not None:
        return record.outcome.get("kind") == "exited"
    return record.meter is MeterState.RUNNING


# --- rows -------------------------------------------------------------------------------------------------------------


def _row(record: Record, notes: Notes, style: str | None = None, said: str | None = None) -> Row:
    about = RowNotes(notes, call=record.phase_understood != "whole")
    row = [_phase(record, notes), _of(record, notes)]
    if record.finished is None and record.settled is None:
        shown = {"wall": about.figure("wall", wall(record))} if record.cut_off_ns is not None else {}
        row.extend(shown.get(column, notes.dash) for column, _ in FIGURES)
    else:
        row.extend(about.figure(column, pick(record)) for column, pick in FIGURES)
    for text in _remarks(record, notes):
        about.say(text)
    if record.phase == "resolve":
        notes.legend["resolve"] = "in no total: what a project depends on is fetched for challenge and solution alike"
    if record.phase == "unknown":
        about.say(UNKNOWN)
    if said is not None:
        about.say(said)
    row.append(notes.text(outcome_text(record), 60) + about.references())
    return Row(row, style if _as_usual(record) else "yellow", call=record.invocation)


def _phase(record: Record, notes: Notes) -> str:
    given = record.phase_given
    same = given is None or given in (record.phase_understood, record.phase)
    if given is None or same:
        return notes.text(record.phase)
    notes.legend["( )"] = "what the judge called the phase"
    return f"{notes.text(record.phase)} ({notes.text(given)})"


def _of(record: Record, notes: Notes) -> str:
    if record.kernel is not None:
        return notes.text(record.kernel)
    if record.module is not None:
        return notes.text(record.module)
    if record.phase_understood in ("whole", "unknown") or record.side is None:
        return notes.text(record.target_name) if record.target_name is not None else ""
    return record.side


def _remarks(record: Record, notes: Notes) -> Iterator[str]:
    """What a reader must know of a call besides its figures."""
    if record.side_known_by == "order":
        yield "challenge or solution: inferred from the order of the calls"
    finished = record.finished
    if finished is None:
        if record.cut_off_ns is not None:
            yield WHY_CUT_OFF
        elif record.meter in WHY_INCOMPLETE:
            yield WHY_INCOMPLETE[record.meter]
        return
    said = "; ".join(evidence(record))
    if said:
        yield f"{notes.text(outcome_text(record), 60)}: {notes.text(said, MAX_EVIDENCE)}"
    stragglers = finished.get("stragglers")
    stragglers = stragglers if isinstance(stragglers, dict) else {}
    count = stragglers.get("count")
    if isinstance(count, int) and count > 0:
        outlived = f"{plural(count, 'process', 'processes')} outlived the command"
        if stragglers.get("action") == "killed":
            yield f"{outlived} and {'was' if count == 1 else 'were'} killed"
        else:
            told = "is" if record.settled is not None else "is not"
            yield f"{outlived}; what they used later {told} in it"
    if record.beside:
        calls = plural(len(record.beside), "earlier call")
        yield f"ran beside processes that had outlived {calls}, which may have slowed it: no fair sample of wall or CPU"
    yield from passed.remarks(record, notes)
    faults = finished.get("faults")
    for fault in faults if isinstance(faults, list) else ():
        if isinstance(fault, dict):
            where, what = (notes.text(str(fault.get(key)), 120) for key in ("step", "what"))
            yield f"the meter failed at {where} ({what}); the command was not touched"
    sandbox = record.started.get("sandbox")
    if (
        isinstance(sandbox, dict)
        and sandbox.get("kind") in ("landrun", "bwrap")
        and sandbox.get("enforced") is not True
    ):
        known = sandbox.get("enforced_known_by")
        how = f": {notes.text(known, 120)}" if isinstance(known, str) else ""
        sure = "ran without its sandbox in force" if sandbox.get("enforced") is False else "sandbox in force? not known"
        yield sure + how


def _total_row(calls: Sequence[Record], notes: Notes) -> Row:
    row, about = ["solution total", ""], RowNotes(notes, "total of ")
    for column, pick in FIGURES:
        figures = [pick(one) for one in calls]
        found = total(calls, pick, peak=column == "memory")
        if found is not None:
            row.append(about.figure(column, _remarked(found, figures, column == "memory")))
        elif any(is_known(figure.shown) for figure in figures):
            row.append(notes.dash)
            about.say("of lower and of upper bounds, so it is neither", column)
        else:
            row.append(about.figure(column, figures[0]))
    notes.legend["solution total"] = "memory is the largest of its calls, everything else their sum"
    return Row([*row, plural(len(calls), "call") + about.references()], "bold")


def _remarked(found: Measurement, figures: Sequence[Figure], peak: bool) -> Figure:
    """A total with what must be said of it: that a part of it is another figure, or what is said of the peak itself."""
    remarked = [figure for figure in figures if figure.remark is not None and is_known(figure.shown)]
    others = [figure for figure in remarked if figure.reason is not None]
    same = [one for one in remarked if peak and one.shown is not None and one.shown.value == found.value]
    return next((replace(figure, shown=found) for figure in (*others, *same)), Figure(found))


def _self_row(records: Sequence[Record], notes: Notes) -> Row | None:
    found = judge_self(records)
    if found is None:
        return None
    row, about = ["judge-self", ""], RowNotes(notes, "judge-self ")
    for column, shown in (("wall", found.wall), ("CPU", found.cpu), ("memory", found.memory)):
        row.append(about.figure(column, Figure(shown)))
    meters = ((found.meters_ns, "wall"), (found.meters_cpu_ns, "CPU"))
    costs = [f"{human(ns, 'ns', notes.ascii_only)} {what}" for ns, what in meters if ns is not None]
    if len(costs) < len(meters):
        costs.append("the rest is unknown" if costs else "how much is unknown")
    notes.legend["judge-self"] = (
        "the judge beside its calls, an upper bound for a kernel inside its process; our meters are in it "
        f"({', '.join(costs)}); its instructions cannot be told from its calls'"
    )
    return Row([*row, notes.dash, about.references().strip()])
