"""A store of any size out of real sessions: each copy has its own ids, clocks, digests, sizes and figures.

Only for benchmarks of what reads and compacts stores. What a real store repeats (the machine, the sandbox, methods and
reasons) is repeated; what differs from call to call differs here, so that nothing compresses better than it would.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

_NOISE_RATIO = 0.05
_SESSION_NS = 7_000_000_000
"""From one session's start to the next one's."""
_CLOCKS = ("realtime_ns", "monotonic_ns", "boottime_ns")


def multiply(source: Path, into: Path, records: int, seed: int = 1) -> int:
    """Write copies of the sessions below `source` as a store `into`, until it has so many records; how many it has."""
    chance = random.Random(seed)
    sessions = [
        [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
        for folder in sorted((source / "sessions").iterdir())
    ]
    made = number = 0
    while made < records:
        made += _copy(sessions[number % len(sessions)], into, number, chance)
        number += 1
    return made


def _copy(files: list[tuple[str, bytes]], into: Path, number: int, chance: random.Random) -> int:
    """One session more; how many records it has."""
    shift, pids = number * _SESSION_NS + chance.randrange(_SESSION_NS), chance.randrange(1 << 20)
    session = f"{chance.getrandbits(64):016x}"
    names = {name: _call(name, shift, chance) for name, _ in files if name.endswith(".jsonl")}
    old = {name.split(".")[0]: new for name, new in names.items()}
    subject = f"{chance.getrandbits(256):064x}"
    folder = into / "sessions" / session
    folder.mkdir(parents=True)
    for name, content in files:
        lines = [_changed(orjson.loads(line), shift, pids, subject, chance) for line in content.splitlines()]
        text = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        text = text.replace(orjson.loads(content.splitlines()[0])["session"].encode(), session.encode())
        for call, fresh in old.items():
            text = text.replace(call.encode(), fresh.encode())
        (folder / f"{names[name]}.jsonl" if name in names else folder / name).write_bytes(text)
    return len(names)


def _call(name: str, shift: int, chance: random.Random) -> str:
    start, _, _ = name.partition("-")
    return (
        f"{int(start, 16) + shift + chance.randrange(1000):x}-{chance.randrange(1 << 15)}-{chance.getrandbits(32):08x}"
    )


def _changed(event: dict[str, Any], shift: int, pids: int, subject: str, chance: random.Random) -> dict[str, Any]:
    jitter = chance.randrange(300_000)
    for clock in _CLOCKS:
        event["clocks"][clock] += shift + jitter + chance.randrange(900)
    process = event.get("process")
    if process:
        for key in ("meter_pid", "parent_pid"):
            process[key] = (process[key] + pids) % (1 << 22)
        process["meter_start_ticks"] += shift // 10_000_000
        event["argv"]["sha256"] = f"{chance.getrandbits(256):064x}"
        event["labels"] = {**event["labels"], "problem": subject[:12]}
        if event.get("subject") and event["subject"].get("source_sha256"):
            event["subject"]["source_sha256"] = subject
            event["subject"]["source_size_bytes"] = int(subject[:3], 16)
        for one in event["inputs"]:
            one["size_bytes"] = _noisy(one["size_bytes"], chance)
    for figure in [*event.get("measurements", {}).values(), *event.get("host_disturbance", {}).values()]:
        figure["value"] = _noisy(figure["value"], chance)
        if "enabled_ns" in figure:
            figure["enabled_ns"] = figure["running_ns"] = event["measurements"]["task_clock"]["value"]
    cost = event.get("meter_cost", {})
    for key in cost:
        cost[key] = _noisy(cost[key], chance)
    for one in event.get("filesystems", ()):
        for key in ("free_start_bytes", "free_min_bytes"):
            one[key] = _noisy(one[key], chance)
    return event


def _noisy(value: int | None, chance: random.Random) -> int | None:
    """A value beside this one, as coarse as it is: bytes stay whole pages, ns of a clock of microseconds stay that."""
    if not value:
        return value
    grain = next(grain for grain in (4096, 1_000_000, 1000, 1) if value % grain == 0)
    return max(grain, round(value * (1 + chance.uniform(-_NOISE_RATIO, _NOISE_RATIO)) / grain) * grain)
