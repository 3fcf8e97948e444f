"""What only the whole session can tell of a call: which side it was for, what its kernel is called, its labels."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from proofcost.harness.decode import Problem, ProblemKind, plain, unescape
from proofcost.harness.merged import Record, integer_at, start_order, text_at, value_at
from proofcost.harness.outcome import TIMED_OUT
from proofcost.harness.running import MeterState

SOLUTION_PHASES = frozenset({"build", "export", "check", "checker"})
"""The phases that make up what a submission costs its judge."""


def whole_of(records: Iterable[Record]) -> Record | None:
    """The record of the judge itself among the records of one session."""
    return next((record for record in records if record.phase_understood == "whole"), None)


def calls_of(records: Iterable[Record]) -> tuple[Record, ...]:
    """The calls of one session, by start: the judge's own record is none. The first is number 1 for people."""
    made = tuple(records)
    whole = whole_of(made)
    return tuple(record for record in made if record is not whole)


def judge_config(whole: Record | None) -> dict[str, Any] | None:
    """The judge's config file as an object, when the `whole` record holds its text whole and it is one."""
    text = text_at(whole.started, "judge_config", "text") if whole is not None else None
    if text is None:
        return None
    try:
        made = json.loads(unescape(text))
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) else None


def _command(raw: Any) -> list[str] | None:
    """The command of one entry of `external_kernels`: a string, a list of strings, or an object that has one."""
    if isinstance(raw, str):
        return [raw]
    if isinstance(raw, list) and raw and all(isinstance(word, str) for word in raw):
        return raw
    if isinstance(raw, dict):
        return next((made for key in ("command", "cmd", "path") if (made := _command(raw.get(key)))), None)
    return None


def _kernel_key(record: Record, config: Mapping[str, Any] | None) -> str | None:
    """The key in the config's `external_kernels` whose command this checker call ran; None unless exactly one fits."""
    kernels = config.get("external_kernels") if config is not None else None
    if not isinstance(kernels, dict):
        return None
    paths = {plain(text) for text in (record.target_path, record.target_name) if text}
    bases = {os.path.basename(path) for path in paths}
    commands = {key: made for key, raw in kernels.items() if (made := _command(raw)) is not None}
    fits = [key for key, made in commands.items() if made[0] in paths]
    fits = fits or [key for key, made in commands.items() if os.path.basename(made[0]) in bases]
    if len(fits) > 1:  # one program under several names: its arguments tell them apart
        head = value_at(record.started, "argv", "head")
        words = [plain(word) for word in head if isinstance(word, str)] if isinstance(head, list) else []
        fits = [key for key in fits if len(commands[key]) > 1 and _contains(words, commands[key][1:])]
    return fits[0] if len(fits) == 1 else None


def _contains(words: Sequence[str], run: Sequence[str]) -> bool:
    """Whether `run` stands in `words` in one piece."""
    return any(list(words[at : at + len(run)]) == list(run) for at in range(len(words) - len(run) + 1))


def _side(record: Record, config: Mapping[str, Any] | None, order: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Which side a call was for, and how that is known. `order`: side by module, inferred from the session."""
    phase = record.phase_understood
    if phase.startswith("challenge-"):
        return "challenge", "phase"
    if phase == "checker":
        return "solution", "phase"  # kernels check the solution's export, never the challenge's
    if phase not in SOLUTION_PHASES:
        return None, None
    module = plain(record.module) if record.module is not None else None
    if module is not None and config is not None:
        for side in ("challenge", "solution"):
            if config.get(f"{side}_module") == module:
                return side, "config"
    if record.phase_known_by == "hook":
        return "solution", "hook"  # the hook never wraps the challenge's calls
    if phase == "check":
        return "solution", "phase"
    if module is not None and module in order:
        return order[module], "order"
    return None, None


def _runs(records: Iterable[Record]) -> list[list[Record]]:
    """The calls of each comparator of a session: a batch starts one after the other, or several at once.

    Each has calls of its own process; where a script stands between, that script's are one or two calls and tell
    nothing, and each run starts at its resolve.
    """
    of_parent: dict[Any, list[Record]] = {}
    for record in records:
        of_parent.setdefault(integer_at(record.started, "process", "parent_pid"), []).append(record)
    scripts = [group for group in of_parent.values() if len(_modules(group)) < 2]
    runs: list[list[Record]] = []
    rest = sorted((one for group in scripts for one in group), key=start_order)
    for group in (*(group for group in of_parent.values() if len(_modules(group)) > 1), rest):
        runs.append([])
        for record in group:
            if record.phase_understood == "resolve":
                runs.append([])
            runs[-1].append(record)
    return runs


def _modules(records: Iterable[Record]) -> set[str]:
    return {plain(one.module) for one in records if one.module is not None}


def _orders(records: Iterable[Record]) -> dict[str, Mapping[str, str]]:
    """`_sides_by_order` of its run, by invocation. A run that only one module was reached in is read like others."""
    runs = [(run, _sides_by_order(run)) for run in _runs(records)]
    known: dict[str, set[str]] = {}
    for _, order in runs:
        for module, side in order.items():
            known.setdefault(module, set()).add(side)
    common = {module: sides.pop() for module, sides in known.items() if len(sides) == 1}
    return {record.invocation: order or common for run, order in runs for record in run}


def _sides_by_order(records: Iterable[Record]) -> dict[str, str]:
    """Side by module where only the order of the calls of one run tells it: comparators build the challenge first.

    Two modules are needed, no more; one alone may be either side, three or more are not a comparator's doing.
    """
    hooked: dict[str, None] = {}
    seen: dict[str, None] = {}
    for record in records:
        if record.phase_understood in ("build", "export") and record.module is not None:
            (hooked if record.phase_known_by == "hook" else seen)[plain(record.module)] = None
    others = [module for module in seen if module not in hooked]
    if hooked:  # what the hook did not wrap, the shim saw: the challenge
        return {others[0]: "challenge"} if len(hooked) == 1 and len(others) == 1 else {}
    return {others[0]: "challenge", others[1]: "solution"} if len(others) == 2 else {}


def labels_of(raw: Any) -> dict[str, str]:
    return {key: value for key, value in raw.items() if isinstance(value, str)} if isinstance(raw, dict) else {}


def _beside(record: Record, others: Iterable[Record]) -> tuple[str, ...]:
    """The calls whose leavings `record` ran beside.

    A meter settles what has ended before it starts its command: what is settled later had not ended by then.
    """
    others = [other for other in others if other is not record]
    if not others:
        return ()
    exit_seen = integer_at(record.finished, "clocks", "monotonic_ns")
    wall = record.measurement("wall_command")
    if exit_seen is None or wall is None or wall.value is None:
        return ()
    began = exit_seen - wall.value
    found = []
    for other in others:
        settled = integer_at(other.settled, "clocks", "monotonic_ns")
        if other.finished is not None:
            ended = integer_at(other.finished, "clocks", "monotonic_ns")
            left_running = text_at(other.finished, "stragglers", "action") == "reported"
        else:  # its meter was killed, nobody knows when, and what the command had started may have lived on
            ended = integer_at(other.started, "clocks", "monotonic_ns")
            left_running = settled is not None or other.meter is MeterState.VANISHED
        if not left_running or ended is None:
            continue
        same_clock = value_at(other.started, "host", "boot_id") == value_at(record.started, "host", "boot_id")
        if same_clock and ended <= began and (settled is None or settled > began):
            found.append(other.invocation)
    return tuple(found)


def _cut_off_ns(record: Record, whole: Record | None, calls: Sequence[Record]) -> int | None:
    """How long a call had run when the time limit of `run` passed, which killed the judge, the call and its meter.

    None where that is not what happened, or may not be: its meter may have been killed earlier, which a later call that
    came to its end lets nobody exclude, unless what the call had started is known to have lived until the limit.
    """
    if whole is None or record is whole or record.finished is not None or record.meter is MeterState.RUNNING:
        return None
    limit = integer_at(whole.started, "limits", "timeout_ns")
    began, started = (integer_at(one.started, "clocks", "monotonic_ns") for one in (whole, record))
    if value_at(whole.outcome, "kind") != TIMED_OUT or limit is None or began is None or started is None:
        return None
    if value_at(whole.started, "host", "boot_id") != value_at(record.started, "host", "boot_id"):
        return None
    passed = began + limit  # or some ms later: the judge started after its record
    settled = integer_at(record.settled, "clocks", "monotonic_ns")
    if started >= passed or (settled is not None and settled < passed):
        return None
    if settled is None and any(
        other.finished is not None and (integer_at(other.started, "clocks", "monotonic_ns") or 0) > started
        for other in calls
    ):
        return None
    return passed - started


def derive(records: Sequence[Record], session_labels: Mapping[str, str] | None = None) -> tuple[Record, ...]:
    """The records of one session with their derived fields filled in."""
    whole = whole_of(records)
    config, orders = judge_config(whole), _orders(records)
    outlived = [one for one in records if one.finished is None or integer_at(one.finished, "stragglers", "count")]
    common = {**(session_labels or {}), **(labels_of(whole.started.get("labels")) if whole is not None else {})}
    made: list[Record] = []
    for record in records:
        side, side_known_by = _side(record, config, orders[record.invocation])
        phase = record.phase_understood
        if side == "challenge" and phase in SOLUTION_PHASES:
            phase = f"challenge-{phase}"
        kernel = known_by = None
        if phase == "checker":
            kernel, known_by = _kernel_key(record, config), "config"
            if kernel is None:
                kernel, known_by = text_at(record.started, "kernel", "name") or record.target_name, "record"
        made.append(
            replace(
                record,
                phase=phase,
                side=side,
                side_known_by=side_known_by,
                kernel=kernel,
                kernel_known_by=known_by if kernel is not None else None,
                beside=_beside(record, outlived),
                cut_off_ns=_cut_off_ns(record, whole, records),
                labels={**common, **labels_of(record.started.get("labels"))},
            )
        )
    return tuple(made)


def shared_hosts(records: Iterable[Record]) -> Iterator[Problem]:
    """A problem for every host id that two boots used in turns: a machine runs one boot at a time, so it is two.

    A boot's time goes from its first start to its last end; an incomplete record is a moment, since its end is unknown.
    """
    boots: dict[str, dict[str, tuple[int, int, str]]] = {}
    for record in records:
        instance, boot = text_at(record.started, "host", "instance"), text_at(record.started, "host", "boot_id")
        start = record.started_at_ns
        if instance is None or boot is None or start is None:
            continue
        end = max(start, record.ended_at_ns or start)
        spans = boots.setdefault(instance, {})
        first, last, path = spans.get(boot, (start, end, record.path))
        spans[boot] = (min(first, start), max(last, end), path)
    for instance, spans in boots.items():
        ordered = sorted(spans.values())
        for (_, last, _), (first, _, path) in pairwise(ordered):
            if first < last:
                what = (
                    f"two machines share one host id ({instance}): two boot ids used it at the same time. "
                    "Was its `hosts/` folder copied, or a clock set back? Their figures must not be pooled"
                )
                yield Problem(ProblemKind.SHARED_HOST, path, None, what)
                break
