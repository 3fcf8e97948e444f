"""`export --to leaneval`: a session as LeanEval's parts take it.

`metrics` is its adapter's file (replay_metrics.py), `statistics` the block of that name in a verdict,
`execution_profile_host` what of an execution profile is the host's. What we do not know is not there, and `absent` says
why; a value of 0 is a measured 0.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from typing import Any

from proofcost.adapters import replay_metrics
from proofcost.adapters.replay_metrics import BUILD, CHECKER, View
from proofcost.harness import procfs
from proofcost.harness.decode import unescape
from proofcost.harness.derive import calls_of
from proofcost.harness.merged import Record, integer_at, text_at, value_at

HELP = "one session as LeanEval's metrics, the statistics of its verdict and the host's part of its execution profile"

_HOOKED = frozenset({"build", "solution-export", "checker"})
_SOLUTION = frozenset({"build", "export", "check", "checker"})
_MODEL_MAX, _MACHINE_MAX, _RELEASE_MAX = 256, 128, 256
# What its own reading of /proc/cpuinfo gives where no line says `model name`.
_NO_MODEL = "unavailable"
# A store, or in it `sessions`, a session's folder, a file of it.
_STORE_DEPTH = 4
_ARCHIVE = "comes from the archive of the solution, which no call shows"


def export(records: Sequence[Record], store: str) -> tuple[bytes, list[str]]:
    """The document (JSON, ASCII), and what a person should know of it. `records` are those of one session."""
    absent: dict[str, str] = {}
    notes: list[str] = []
    made: dict[str, Any] = {"session": records[0].session}
    view = _view(records, absent, notes)
    if view is not None:
        made["metrics"] = json.loads(view.dumps())
        if len(view.dumps()) > replay_metrics.MAX_BYTES:
            notes.append(f"metrics is larger than the {replay_metrics.MAX_BYTES} bytes that its reader takes")
        made["statistics"] = _statistics(view, absent)
    made["execution_profile_host"] = _host(records, store, absent)
    made["absent"] = absent
    return json.dumps(made, indent=1).encode("ascii") + b"\n", notes


def _counted(records: Sequence[Record]) -> list[tuple[str, Record]]:
    """The calls that its adapter would have seen, with where each is counted; without a hook, the solution's own."""
    calls = calls_of(records)
    hooked = [one for one in calls if one.phase_known_by == "hook" and one.phase_given in _HOOKED]
    if hooked:
        return [(replay_metrics.phase_of(one.phase_given or ""), one) for one in hooked]
    return [
        (replay_metrics.phase_of(one.phase), one) for one in calls if one.side == "solution" and one.phase in _SOLUTION
    ]


def _view(records: Sequence[Record], absent: dict[str, str], notes: list[str]) -> View | None:
    view = View()
    for phase, record in _counted(records):
        ended = _ended(record)
        if ended is None:
            why = "was not started" if record.outcome is not None else "has no end"
            notes.append(f"call {record.invocation} ({phase}) {why}: in no count, as its adapter would have it")
            continue
        wall_ns = integer_at(record.finished, "measurements", "wall_command", "value")
        if wall_ns is None:
            absent["metrics"] = absent["statistics"] = f"call {record.invocation} has no wall time"
            return None
        view.phases[phase].add(wall_ns, *_instructions(record), ended)
    if not any(phase.invocations for phase in view.phases.values()):
        notes.append("no call of this session is one that its adapter would have seen")
    return view


def _ended(record: Record) -> tuple[str, int] | None:
    """How a call ended; None for one that did not, or that never started."""
    outcome = record.outcome or {}
    code, signal = outcome.get("code"), outcome.get("signal")
    if isinstance(signal, int):
        return replay_metrics.SIGNALED, signal
    return (replay_metrics.EXITED, code) if isinstance(code, int) else None


def _instructions(record: Record) -> tuple[int | None, str | None]:
    """As counted when the call's exit was seen: what `settled` adds is not the call's own."""
    figure = value_at(record.finished, "measurements", "instructions:u")
    return replay_metrics.instructions_of(figure if isinstance(figure, dict) else {})


def _statistics(view: View, absent: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in (CHECKER, BUILD):
        phase = view.phases[name]
        if phase.invocations:
            made[f"{name}_wall_time_ms"] = phase.wall_time_ms
            made[f"{name}_retired_instructions"] = replay_metrics.counted(phase.instructions, phase.reason)
        else:
            absent[f"statistics.{name}_wall_time_ms"] = "no call of that phase"
            made[f"{name}_retired_instructions"] = replay_metrics.counted(None, replay_metrics.NOT_REPORTED)
    for name in ("lines_of_code", "file_count"):
        absent[f"statistics.{name}"] = _ARCHIVE
    return made


def _host(records: Sequence[Record], store: str, absent: dict[str, str]) -> dict[str, str]:
    """What the store wrote down of the machine that the session ran on."""
    parts = _host_parts(records[0], store)
    made: dict[str, str] = {}
    if parts is None:
        for name in ("cpu_model", "architecture", "kernel_release"):
            absent[f"execution_profile_host.{name}"] = "the store's hosts/ does not have this machine"
        return made
    machine, release = text_at(parts, "matters", "architecture"), text_at(parts, "declarable", "kernel_release")
    models = value_at(parts, "matters", "cpu_models")
    found = {
        "architecture": None if machine is None else machine[:_MACHINE_MAX],
        "kernel_release": None if release is None else _plain(release)[:_RELEASE_MAX],
        "cpu_model": _model([one for one in models if isinstance(one, str)] if isinstance(models, list) else []),
    }
    for name, value in found.items():
        if value is None:
            several = name == "cpu_model" and models
            absent[f"execution_profile_host.{name}"] = (
                "several models, and which comes first is not written down" if several else "not written down"
            )
        else:
            made[name] = value
    return made


def _host_parts(record: Record, store: str) -> dict[str, Any] | None:
    instance, boot = text_at(record.started, "host", "instance"), text_at(record.started, "host", "boot_id")
    name = text_at(record.started, "host", "class")
    if instance is None or boot is None or "/" in instance + boot:
        return None
    place = os.path.abspath(store)
    for _ in range(_STORE_DEPTH):
        for path in sorted(glob.glob(f"{glob.escape(f'{place}/hosts/{instance}/{boot}')}*.json")):
            try:
                parts = json.loads(procfs.read_file(path) or b"")
            except ValueError:
                continue
            if isinstance(parts, dict) and parts.get("class") == name:
                return parts
        place = os.path.dirname(place)
    return None


def _model(models: list[str]) -> str | None:
    """The first `model name` of /proc/cpuinfo: ours has the numbers of an Arm core behind it, or in its place."""
    if len(models) != 1:
        return None
    words = _plain(models[0]).split(" ")
    if words[-1].startswith("0x") and words[-1].count("/") == 3:
        words.pop()
    return " ".join(words)[:_MODEL_MAX] or _NO_MODEL


def _plain(text: str) -> str:
    return unescape(text).decode("utf-8", "replace")
