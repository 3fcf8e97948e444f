"""What reading found besides records: problems in few words, marks, and what "nothing here" may hide."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from proofcost.harness.decode import Problem, ProblemKind
from proofcost.harness.merged import Record
from proofcost.harness.reading import Store
from proofcost.harness.walk import Mark
from proofcost.reports.inert import inert, inert_outside
from proofcost.reports.units import plural, when

SHOWN_PROBLEMS = 5
"""Problems of one kind that are printed one by one; of more, the rest is counted."""

MAX_PATH = 200
MAX_FAULT = 300


def problem_lines(store: Store, ascii_only: bool = True) -> list[str]:
    """Warnings for a terminal: what was skipped, and how many more of the kind there are."""
    kinds: dict[ProblemKind, list[Problem]] = {}
    for problem in store.problems:
        kinds.setdefault(problem.kind, []).append(problem)
    lines = []
    for kind, problems in kinds.items():
        for problem in problems[:SHOWN_PROBLEMS]:
            where = inert_outside(problem.path, MAX_PATH, ascii_only)
            line = f":{problem.line}" if problem.line is not None else ""
            lines.append(f"warning: {where}{line}: {inert_outside(problem.what, 400, ascii_only)}")
        more = sum(problem.count for problem in problems[SHOWN_PROBLEMS:])
        if more:
            lines.append(f"warning: {more} more of this kind ({kind.value.replace('_', ' ')}); --json lists them")
    if store.marks:
        lines.append(marks_line(store.marks, ascii_only))
    return lines


def marks_line(marks: Sequence[Mark], ascii_only: bool = True) -> str:
    """How many calls the meter failed, since when, and why the last time. `marks`: oldest first, at least one."""
    newest = marks[-1]
    read = [mark.fields for mark in marks if mark.fields is not None]
    refused = [fields.get("policy") == "strict" for fields in read]
    if refused and all(refused):
        happened = f"{plural(len(marks), 'call was', 'calls were')} refused, nothing of them ran,"
    else:
        happened = f"{plural(len(marks), 'call')} ran unmeasured or measured in part"
        happened += ", or refused," if any(refused) else ","
    times = f"at {when(newest.at_ns)}"
    if len(marks) > 1:
        times = f"since {when(marks[0].at_ns)}, the last {times}"
    where = inert_outside(os.path.dirname(newest.path), MAX_PATH, ascii_only)
    fault = _fault_text(newest.fields, ascii_only)
    return f"warning: {happened} {times}: {fault} (marks: {where}; marks/ may be deleted)"


def with_marks(store: Store, first_ns: int | None, last_ns: int | None) -> Store:
    """`store` with only the marks from `first_ns` to `last_ns` (real time); None: no such bound. Timeless ones stay."""
    marks = tuple(
        mark
        for mark in store.marks
        if mark.at_ns is None
        or ((first_ns is None or mark.at_ns >= first_ns) and (last_ns is None or mark.at_ns <= last_ns))
    )
    return replace(store, marks=marks)


def cannot_be_read(store: Store) -> bool:
    """Of a store without records: whether that is because something stands there which we could not read."""
    try:
        mode = os.stat(store.path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    kinds = {problem.kind for problem in store.problems}
    if ProblemKind.UNREADABLE in kinds or stat.S_ISDIR(mode):
        return ProblemKind.UNREADABLE in kinds
    return not store.path.endswith(".jsonl") or bool(kinds - {ProblemKind.EMPTY})


def _fault_text(fields: Mapping[str, Any] | None, ascii_only: bool) -> str:
    """The fault in a mark: a text, or where the meter failed and what it met there."""
    if fields is None:
        return "its mark says why"
    fault = fields.get("fault")
    if isinstance(fault, dict):
        fault = ": ".join(str(fault[key]) for key in ("step", "what") if key in fault)
    return inert(fault, MAX_FAULT, ascii_only) if isinstance(fault, str) and fault else "its mark cannot be read"


def nothing_here(store: Store, how: str, env: Mapping[str, str], uid: int) -> list[str]:
    """What to say where no record was found: where we looked, why there, and what may hide records."""
    looked = ", ".join(inert_outside(path, MAX_PATH, True) for path in store.looked_in)
    found = "no records could be read" if cannot_be_read(store) else "nothing here: no records"
    lines = [f"{found} in {looked or store.path} (chosen by {how})", "what may hide them:"]
    if os.path.isdir(os.path.join(store.path, "parquet")):
        lines.append(
            "- they were imported, or pruned: `proofcost store sql` and reports read the Parquet files, here or where "
            "they were pushed to"
        )
    if store.marks:
        lines.append("- calls were made, but the meter failed each time: see the warning")
    if any(problem.kind is ProblemKind.UNREADABLE for problem in store.problems):
        lines.append(
            "- it is missing, or you may not read it: the warnings say which; a store of root is for root only"
        )
    elif store.problems:
        lines.append("- what stands there could not be read as records: see the warnings")
    if not env.get("PROOFCOST_STORE"):
        if uid == 0 and env.get("SUDO_USER"):
            lines.append("- sudo does not hand $PROOFCOST_STORE on: what you measured yourself is in your own store")
        else:
            lines.append("- another user's store ($PROOFCOST_STORE is not set): root keeps /var/lib/proofcost")
        lines.append("  name the store that `proofcost install` or `run` wrote to: --store PATH")
    lines.append(
        "- a comparator without the hook ignores `measurement_command` in its config without a word: "
        "use `proofcost run -- JUDGE...`"
    )
    lines.append(
        "- launchers were installed by root but the judge runs as another user "
        "(records are kept only for the store's owner)"
    )
    lines.append("- a store on a tmpfs (/run, /tmp) is gone after a reboot")
    return lines


def problem_object(problem: Problem) -> dict[str, Any]:
    """A problem for `--json`."""
    return {
        "kind": problem.kind.value,
        "path": problem.path,
        "line": problem.line,
        "what": problem.what,
        "count": problem.count,
    }


def found_object(store: Store) -> dict[str, Any]:
    """What `--json` says about the reading itself."""
    return {
        "store": store.path,
        "looked_in": list(store.looked_in),
        "problems": [problem_object(problem) for problem in store.problems],
        "marks": [{"path": mark.path, "fields": mark.fields} for mark in store.marks],
    }


def merged_object(record: Record) -> dict[str, Any]:
    """A record for `--json`: its events as written, what they merge to, and what was derived. Integers are exact."""
    return {
        "invocation": record.invocation,
        "session": record.session,
        "state": record.state,
        "meter": None if record.meter is None else record.meter.value,
        "derived": {
            "phase": record.phase,
            "side": record.side,
            "side_known_by": record.side_known_by,
            "kernel": record.kernel,
            "kernel_known_by": record.kernel_known_by,
            "beside_stragglers_of": list(record.beside),
            "cut_off_ns": record.cut_off_ns,
            "labels": record.labels,
        },
        "measurements": {
            name: {
                "value": found.value,
                "unit": found.unit,
                "method": found.method,
                "status": found.status,
                "reason": found.reason,
                "enabled_ns": found.enabled_ns,
                "running_ns": found.running_ns,
                "settled": found.settled,
            }
            for name, found in record.measurements().items()
        },
        "started": record.started,
        "finished": record.finished,
        "settled": record.settled,
    }


def merged_objects(records: Iterable[Record]) -> list[dict[str, Any]]:
    return [merged_object(record) for record in records]
