"""LeanEval's own view of what its judge's calls cost: `metrics.json`, version 1.

Sums per phase, with one entry for each way a call ended. Its consumer takes exactly these keys and no others, so what
we know beyond them stands in our own record alone. Pure: the file is replay_file.py's business.

What adds up: whole calls only. `wall_time_ms` is the sum of each call's wall, each rounded to the nearest millisecond.
A count of instructions that is missing once is missing for the phase for good, with the first reason: a sum without a
part would look like a sum.
"""

from proofcost.harness import figures, parse, record
from proofcost.harness.record import LOWER_BOUND, MEASURED, Json

VERSION = 1
# What the consumer reads at most.
MAX_BYTES = 16384
# What one more call can add: an entry (34), three sums that grow to 19 digits, a count that becomes a reason.
CALL_BYTES_MAX = 192
BUILD, CHECKER = "build", "checker"
PHASES = (BUILD, CHECKER)
EXITED, SIGNALED = "exited", "signaled"
NOT_SUPPORTED, PERMISSION, NOT_REPORTED = (
    "counter_not_supported",
    "counter_permission_denied",
    "counter_not_reported",
)
REASONS = (NOT_SUPPORTED, PERMISSION, NOT_REPORTED)
_NS_PER_MS = 1_000_000
_CODE_MAX, _SIGNAL_MAX = 255, 127
# More than any sum that can come about, and no more digits than a reader's 64 bits.
_SUM_MAX = (1 << 63) - 1


class FormatError(Exception):
    """A metrics file that is not what it should be; the message says where."""


class Phase:
    """One phase: how many calls, their wall in ms, their instructions (None with a reason), how each ended."""

    __slots__ = ("instructions", "invocations", "reason", "terminations", "wall_time_ms")

    def __init__(self) -> None:
        self.invocations = 0
        self.wall_time_ms = 0
        self.instructions: int | None = 0
        self.reason: str | None = None
        self.terminations: list[tuple[str, int]] = []

    def add(self, wall_ns: int, instructions: int | None, reason: str | None, ended: tuple[str, int]) -> None:
        """One more call. `reason` (one of REASONS) says why `instructions` is None."""
        self.invocations += 1
        self.wall_time_ms += milliseconds(wall_ns)
        self.terminations.append(ended)
        if instructions is None and self.reason is None:
            self.reason = reason if reason in REASONS else NOT_REPORTED
            self.instructions = None
        elif instructions is not None and self.instructions is not None:
            self.instructions += instructions

    def as_json(self) -> dict[str, Json]:
        """The phase as the consumer takes it."""
        return {
            "invocations": self.invocations,
            "wall_time_ms": self.wall_time_ms,
            "retired_instructions": counted(self.instructions, self.reason),
            "terminations": [
                {"kind": kind, "code" if kind == EXITED else "signal": number} for kind, number in self.terminations
            ],
        }


def counted(instructions: int | None, reason: str | None) -> dict[str, Json]:
    """A count as the consumer takes it; None needs one of REASONS."""
    if instructions is not None:
        return {"status": "measured", "value": instructions}
    return {"status": "unavailable", "reason": reason or NOT_REPORTED}


class View:
    """The whole file."""

    __slots__ = ("phases",)

    def __init__(self) -> None:
        self.phases = {name: Phase() for name in PHASES}

    def dumps(self) -> bytes:
        """The file's bytes."""
        phases: dict[str, Json] = {name: phase.as_json() for name, phase in self.phases.items()}
        return record.dumps({"schema_version": VERSION, "phases": phases}).encode("ascii") + b"\n"

    @property
    def calls_count(self) -> int:
        """How many calls it holds."""
        return sum(phase.invocations for phase in self.phases.values())

    def has_room(self) -> bool:
        """Whether one more call fits, however it ends and whatever it costs."""
        return len(self.dumps()) + CALL_BYTES_MAX <= MAX_BYTES


def milliseconds(ns: int) -> int:
    """To the nearest millisecond, half of one up."""
    return (ns + _NS_PER_MS // 2) // _NS_PER_MS


def reason_of(reason: str | None) -> str:
    """The consumer's word for a reason of ours: it knows three, all else was not reported."""
    return reason if reason in (NOT_SUPPORTED, PERMISSION) else NOT_REPORTED


def instructions_of(figure: dict[str, Json]) -> tuple[int | None, str | None]:
    """(count, None) or (None, the consumer's word for why), from a record's `instructions:u`.

    A lower bound because something outlived the call is the count that the contract means: read at the call's exit. One
    that lost a task is no count.
    """
    value, status, reason = (figure.get(key) for key in ("value", "status", "reason"))
    counted_at_exit = status == LOWER_BOUND and reason == figures.STRAGGLERS
    if isinstance(value, int) and (status == MEASURED or counted_at_exit):
        return value, None
    return None, reason_of(reason if isinstance(reason, str) else None)


def phase_of(given: str) -> str:
    """Where a call of that phase is counted: the export belongs to the build."""
    return CHECKER if given == CHECKER else BUILD


def loads(raw: bytes) -> View:
    """The view in a file's bytes. Raises FormatError."""
    if len(raw) > MAX_BYTES:
        raise FormatError(f"larger than {MAX_BYTES} bytes")
    try:
        found = _object(parse.loads(raw), "the file", ("schema_version", "phases"))
    except ValueError as error:
        raise FormatError(f"not JSON as it is written here: {error}") from None
    if type(found["schema_version"]) is not int or found["schema_version"] != VERSION:
        raise FormatError(f"schema_version is {_shown(found['schema_version'])}, not {VERSION}")
    view = View()
    phases = _object(found["phases"], "phases", PHASES)
    for name in PHASES:
        view.phases[name] = _phase(phases[name], name)
    return view


def _phase(value: Json, name: str) -> Phase:
    found = _object(value, name, ("invocations", "wall_time_ms", "retired_instructions", "terminations"))
    phase = Phase()
    phase.invocations = _number(found["invocations"], f"{name}.invocations", 0, _SUM_MAX)
    phase.wall_time_ms = _number(found["wall_time_ms"], f"{name}.wall_time_ms", 0, _SUM_MAX)
    counter = found["retired_instructions"]
    where = f"{name}.retired_instructions"
    if isinstance(counter, dict) and counter.get("status") == "measured":
        value = _object(counter, where, ("status", "value"))["value"]
        phase.instructions = _number(value, f"{where}.value", 0, _SUM_MAX)
    else:
        counter = _object(counter, where, ("status", "reason"))
        reason = counter["reason"]
        if counter["status"] != "unavailable" or not isinstance(reason, str) or reason not in REASONS:
            raise FormatError(f"{where} is {_shown(counter)}")
        phase.instructions, phase.reason = None, reason
    ends = found["terminations"]
    if not isinstance(ends, list) or len(ends) != phase.invocations:
        raise FormatError(f"{name}.terminations does not have one entry for each of {phase.invocations} invocations")
    phase.terminations = [_termination(end, f"{name}.terminations") for end in ends]
    return phase


def _termination(value: Json, where: str) -> tuple[str, int]:
    if isinstance(value, dict) and value.get("kind") == EXITED:
        return EXITED, _number(_object(value, where, ("kind", "code"))["code"], where, 0, _CODE_MAX)
    found = _object(value, where, ("kind", "signal"))
    if found["kind"] != SIGNALED:
        raise FormatError(f"{where} has a {_shown(value)}")
    return SIGNALED, _number(found["signal"], where, 1, _SIGNAL_MAX)


def _object(value: Json, where: str, keys: tuple[str, ...]) -> dict[str, Json]:
    if not isinstance(value, dict) or sorted(value) != sorted(keys):
        raise FormatError(f"{where} does not have exactly the keys {', '.join(keys)}")
    return value


def _number(value: Json, where: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise FormatError(f"{where} is {_shown(value)}, not an integer from {least} to {most}")
    return value


def _shown(value: Json) -> str:
    return record.dumps(value)[:80]
