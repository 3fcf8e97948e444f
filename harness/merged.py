"""One invocation as read: its events merged into a `Record`, and its figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from proofcost.harness.decode import ProblemKind
from proofcost.harness.running import MeterState
from proofcost.harness.walk import Found

_ROOM = 1 << 63


def value_at(value: Any, *keys: str) -> Any:
    """`value[k1][k2]…`, or None where anything on the way is missing or not an object."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_at(value: Any, *keys: str) -> str | None:
    found = value_at(value, *keys)
    return found if isinstance(found, str) else None


def integer_at(value: Any, *keys: str) -> int | None:
    found = value_at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of a record.

    `value` is in `unit` (`ns`, `bytes`, `count`), None when unavailable, and then `reason` says why. `settled` tells
    that it was read after all that the command started had ended, and replaces the figure read at the command's exit.
    `enabled_ns` and `running_ns` stand with perf counters only.
    """

    name: str
    value: int | None
    unit: str
    method: str
    status: str
    reason: str | None
    enabled_ns: int | None = None
    running_ns: int | None = None
    settled: bool = False


def figure_of(raw: dict[str, Any]) -> tuple[int | None, str, str | None]:
    """(value, status, reason) of one measurement as read. What it lacks is said in the reason, never guessed."""
    value, status, reason = raw.get("value"), raw.get("status"), raw.get("reason")
    if not isinstance(reason, str):
        reason = None
    if not isinstance(status, str) or not status:
        status = "unavailable"
    if type(value) is not int:
        why = "the record gives no reason" if value is None else "not an integer"
        return None, "unavailable", reason or why
    if status == "unavailable":
        return None, status, reason or "the record calls it unavailable"
    if not -_ROOM <= value < _ROOM:
        return None, "unavailable", "more than 64 bits hold: no figure of a meter"
    return value, status, reason


def _measurement(name: str, raw: Any, settled: bool) -> Measurement | None:
    """`raw` as a Measurement; None when it is no object at all."""
    if not isinstance(raw, dict):
        return None
    value, status, reason = figure_of(raw)
    return Measurement(
        name=name,
        value=value,
        unit=text_at(raw, "unit") or "count",
        method=text_at(raw, "method") or "unknown",
        status=status,
        reason=reason,
        enabled_ns=integer_at(raw, "enabled_ns"),
        running_ns=integer_at(raw, "running_ns"),
        settled=settled,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One invocation: its events merged, and what the rest of its session tells about it.

    `started`, `finished` and `settled` are the events as read, unknown keys included; the last two are None when they
    were never written (or could not be read: see `Store.problems`). The fields below `path` are derived by the reader.
    """

    invocation: str
    session: str
    started: dict[str, Any]
    finished: dict[str, Any] | None
    settled: dict[str, Any] | None
    path: str
    """The file that held `started`."""
    phase: str = "unknown"
    """`phase_understood`, with `challenge-` before it where the session shows that it was for the challenge."""
    side: str | None = None
    """`challenge`, `solution`, or None where nothing tells."""
    side_known_by: str | None = None
    """`phase`, `config`, `hook`, `order` (inferred) or None."""
    kernel: str | None = None
    """A checker's name: its key in the judge's config, else the kernel's or program's own name; None for others."""
    kernel_known_by: str | None = None
    """`config`, `record` or None."""
    beside: tuple[str, ...] = ()
    """Earlier calls of the session some of whose processes had outlived them and still ran as this one began, or may
    have: they took CPU and caches from it."""
    cut_off_ns: int | None = None
    """Of a call that `run`'s own time limit cut off, its meter with it: from its start as recorded to that limit."""
    labels: dict[str, str] = field(default_factory=dict)
    """The session's labels, then the `whole` record's, then its own: the later wins."""
    meter: MeterState | None = None
    """What became of the meter of an incomplete record; None for others, and where this host cannot know."""

    @property
    def state(self) -> str:
        """`complete`, or `incomplete`: the meter vanished while the command ran, or still runs (see `meter`)."""
        return "complete" if self.finished is not None else "incomplete"

    @property
    def phase_given(self) -> str | None:
        return text_at(self.started, "phase", "given")

    @property
    def phase_understood(self) -> str:
        return text_at(self.started, "phase", "understood") or "unknown"

    @property
    def phase_known_by(self) -> str | None:
        return text_at(self.started, "phase", "known_by")

    @property
    def module(self) -> str | None:
        """The module a build or export was for, as recorded (escaped)."""
        return text_at(self.started, "subject", "module")

    @property
    def target_name(self) -> str | None:
        return text_at(self.started, "target", "name")

    @property
    def target_path(self) -> str | None:
        return text_at(self.started, "target", "path")

    @property
    def started_at_ns(self) -> int | None:
        """Real time (ns since 1970) before the command started; None when the record has no such clock."""
        return integer_at(self.started, "clocks", "realtime_ns")

    @property
    def ended_at_ns(self) -> int | None:
        """Real time (ns since 1970) when the exit was seen; None when incomplete."""
        return integer_at(self.finished, "clocks", "realtime_ns")

    @property
    def outcome(self) -> dict[str, Any] | None:
        found = value_at(self.finished, "outcome")
        return found if isinstance(found, dict) else None

    def measurement(self, name: str) -> Measurement | None:
        """The figure called `name`, the settled one where there is one; None when the record never mentions it."""
        for event, settled in ((self.settled, True), (self.finished, False)):
            found = _measurement(name, value_at(event, "measurements", name), settled)
            if found is not None:
                return found
        return None

    def measurements(self) -> dict[str, Measurement]:
        """Every figure by name, in the record's order, settled ones in place."""
        names: dict[str, None] = {}
        for event in (self.finished, self.settled):
            found = value_at(event, "measurements")
            if isinstance(found, dict):
                names.update(dict.fromkeys(found))
        made = ((name, self.measurement(name)) for name in names)
        return {name: one for name, one in made if one is not None}


def by_session(records: Iterable[Record]) -> dict[str, tuple[Record, ...]]:
    """Records by session; sessions in the order of their first record."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.session, []).append(record)
    return {session: tuple(group) for session, group in groups.items()}


def merge(found: Found) -> list[Record]:
    """One Record per invocation that has a `started`; every event that finds no place is a problem."""
    merged: dict[str, dict[str, tuple[dict[str, Any], str, int]]] = {}
    for event, path, line in found.events:
        kinds = merged.setdefault(event["invocation"], {})
        first = kinds.get(event["event"])
        if first is None:
            kinds[event["event"]] = (event, path, line)
            continue
        alike = "the same" if first[0] == event else "a different"
        what = f"{alike} `{event['event']}` of this invocation was read before, from {first[1]}: the first stands"
        found.problem(ProblemKind.DUPLICATE_EVENT, path, what, line)
    records: list[Record] = []
    for invocation, kinds in merged.items():
        if "started" not in kinds:
            for name, (_, path, line) in kinds.items():
                what = f"`{name}` without a readable `started`: what it belongs to is unknown"
                found.problem(ProblemKind.WITHOUT_STARTED, path, what, line)
            continue
        started, started_path, _ = kinds["started"]
        later: dict[str, dict[str, Any]] = {}
        for name in ("finished", "settled"):
            if name not in kinds:
                continue
            event, path, line = kinds[name]
            if event["session"] != started["session"]:
                what = f"`{name}` names another session than `started` does: not merged"
                found.problem(ProblemKind.OTHER_SESSION, path, what, line)
            else:
                later[name] = event
        records.append(
            Record(
                invocation=invocation,
                session=started["session"],
                started=started,
                finished=later.get("finished"),
                settled=later.get("settled"),
                path=started_path,
                meter=None if "finished" in later else found.meters.get(invocation),
            )
        )
    records.sort(key=start_order)
    return records


def start_order(record: Record) -> tuple[int, str]:
    return (record.started_at_ns or 0, record.invocation)
