"""A stand-in for LeanEval's reader of `metrics.json`: its exact keys, its limits, its crash rule, its counts.

Written from its contract, not from its source: what it makes of a metrics file and of how the evaluator ended. It reads
with Python's own json, so that ours is not its own judge.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

METRICS_MAX_BYTES = 16384
WALL_LIMIT_MS = 19_800_000
REASONS = {"counter_not_supported", "counter_permission_denied", "counter_not_reported"}
COUNTS = {"build": 2, "checker": 1}
CRASH_FROM = 125

Object = Mapping[str, Any]


class ReplayError(Exception):
    """What the reader calls an error of the infrastructure: no verdict."""


@dataclass(frozen=True)
class Verdict:
    """`replay-verdict-v1`, as far as it comes from the metrics."""

    execution_outcome: str
    checker_outcome: str | None
    statistics: dict[str, Any] = field(default_factory=dict)


def _exactly(value: Any, keys: set[str], where: str) -> Object:
    if not isinstance(value, dict) or set(value) != keys:
        raise ReplayError(f"{where}: keys are {sorted(value) if isinstance(value, dict) else value!r}")
    return value


def _natural(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:
        raise ReplayError(f"{where}: {value!r} is no integer from 0 up")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ReplayError("a key twice")
    return made


def parse_metrics(raw: bytes) -> dict[str, Object]:
    """{phase: R} of a metrics file. Raises ReplayError on anything but exactly what its schema has."""
    if len(raw) > METRICS_MAX_BYTES:
        raise ReplayError("metrics are too large")
    try:
        document = json.loads(raw, object_pairs_hook=_unique)
    except ValueError as error:
        raise ReplayError(f"metrics are no JSON: {error}") from None
    document = _exactly(document, {"schema_version", "phases"}, "metrics")
    if document["schema_version"] != 1 or type(document["schema_version"]) is not int:
        raise ReplayError("schema_version")
    phases = _exactly(document["phases"], {"build", "checker"}, "phases")
    return {name: _parse_phase(phase, name) for name, phase in phases.items()}


def _parse_phase(value: Any, name: str) -> Object:
    phase = _exactly(value, {"invocations", "wall_time_ms", "retired_instructions", "terminations"}, name)
    _natural(phase["wall_time_ms"], f"{name}.wall_time_ms")
    counter = phase["retired_instructions"]
    if isinstance(counter, dict) and counter.get("status") == "measured":
        _natural(_exactly(counter, {"status", "value"}, name)["value"], name)
    elif _exactly(counter, {"status", "reason"}, name)["status"] != "unavailable" or counter["reason"] not in REASONS:
        raise ReplayError(f"{name}: {counter}")
    ends = phase["terminations"]
    if not isinstance(ends, list) or len(ends) != _natural(phase["invocations"], f"{name}.invocations"):
        raise ReplayError(f"{name}: terminations do not match invocations")
    for end in ends:
        if isinstance(end, dict) and end.get("kind") == "exited":
            code = _natural(_exactly(end, {"kind", "code"}, name)["code"], name)
            if code > 255:
                raise ReplayError(f"{name}: exit code {code}")
        elif _exactly(end, {"kind", "signal"}, name)["kind"] != "signaled" or _natural(end["signal"], name) == 0:
            raise ReplayError(f"{name}: termination {end}")
    return phase


def _crashed(end: Object) -> bool:
    return end["kind"] == "signaled" or int(end["code"]) >= CRASH_FROM


def _statistics(phases: Mapping[str, Object], walls: Mapping[str, int]) -> dict[str, Any]:
    made: dict[str, Any] = {"lines_of_code": 1, "file_count": 1}  # these come from the archive
    for name, phase in phases.items():
        counter = phase["retired_instructions"]
        if phase["invocations"] == 0:
            counter = {"status": "unavailable", "reason": "counter_not_reported"}
        made[f"{name}_wall_time_ms"] = walls[name]
        made[f"{name}_retired_instructions"] = counter
    return made


def conclude(
    raw: bytes | None, evaluator_status: int, timed_out: bool = False, limit_ms: int = WALL_LIMIT_MS
) -> Verdict:
    """The verdict. `raw` is None where there is no metrics file. Raises ReplayError where there is none to give."""
    nothing: Object = {
        "invocations": 0,
        "wall_time_ms": 0,
        "retired_instructions": {"status": "measured", "value": 0},
        "terminations": [],
    }
    phases = dict.fromkeys(COUNTS, nothing) if raw is None else parse_metrics(raw)
    counts = {name: phase["invocations"] for name, phase in phases.items()}
    if any(count > COUNTS[name] for name, count in counts.items()):
        raise ReplayError(f"impossible phase counts: {counts}")
    walls = {name: phase["wall_time_ms"] for name, phase in phases.items()}
    if timed_out:
        late, other = ("checker", "build") if counts["build"] == COUNTS["build"] else ("build", "checker")
        walls[late] = max(walls[late], limit_ms - walls[other])
        return Verdict("timed_out", None, _statistics(phases, walls))
    statistics = _statistics(phases, walls)
    ends = [end for phase in phases.values() for end in phase["terminations"]]
    if any(map(_crashed, ends)):
        return Verdict("crashed", None, statistics)
    if evaluator_status == 0:
        if counts != COUNTS or any(end["code"] != 0 for end in ends):
            raise ReplayError(f"accepted, but the calls were {phases}")
        return Verdict("completed", "accepted", statistics)
    if not ends:
        raise ReplayError("failed before measurement")
    if counts["checker"] == 0:
        return Verdict("completed", "rejected", statistics)
    if phases["checker"]["terminations"][0]["code"] != 0:
        return Verdict("completed", "declined", statistics)
    raise ReplayError("the checker accepted, yet the evaluator failed")
