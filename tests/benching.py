"""Calling `proofcost bench` on small kernels made for a test, and what it left in the store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures import made
from wrapped import Recorded, Wrapper

from proofcost.bench_suites import families
from proofcost.harness.merged import Record

PROOFCOST = str(Path(sys.executable).with_name("proofcost"))
PATIENCE_S = 240

ACCEPT = "#!/bin/sh\nexit 0\n"
REJECT = "#!/bin/sh\nexit 1\n"


def export(path: Path, spec: str = "church:8") -> Path:
    """Write a small export of a generated family."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        families.parse(spec).write(file.write)
    return path


def script(path: Path, text: str) -> Path:
    """An executable file."""
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class Called:
    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Bench:
    """`proofcost bench` with a store of its own, started in `folder`."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def argv(self, *words: object) -> list[str]:
        return [PROOFCOST, "bench", "--store", str(self.store), *map(str, words)]

    def __call__(self, *words: object, env: Sequence[tuple[str, str]] = ()) -> Called:
        done = subprocess.run(
            self.argv(*words),
            cwd=self.folder,
            env={**os.environ, **dict(env)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=PATIENCE_S,
            check=False,
        )
        return Called(done.returncode, done.stdout, done.stderr)

    def records(self) -> list[Recorded]:
        """All records, by turn and slot; each event is held to the schema."""
        found = Wrapper(self.folder, self.folder, "").records()
        return sorted(found, key=lambda one: (turn(one), one.started["bench"]["co_running"]["slot"]))

    def left_cgroups(self) -> list[Path]:
        return Wrapper(self.folder, self.folder, "").left_cgroups()


def turn(record: Recorded) -> int:
    found: int = record.started["bench"]["turn"]
    return found


def kernel(record: Recorded) -> str:
    found: str = record.started["kernel"]["name"]
    return found


def work(record: Recorded) -> str:
    found: str = record.started["bench"]["workload"]["name"]
    return found


def sequence(records: Sequence[Recorded]) -> str:
    """First letters of the kernels' names in the order of the plan."""
    return "".join(kernel(record)[0] for record in records)


# Records made by hand, for what is computed from them.


def record(
    kernel_name: str,
    work_name: str = "w",
    wall_ns: int | None = 10**9,
    *,
    turn_number: int = 0,
    block: int | None = 1,
    code: int = 0,
    cause: str = "completed",
    exit_codes: Mapping[str, str] | None = None,
    exit_seen_ns: int = 10**12,
    **changes: Any,
) -> Record:
    """One bench record. `changes` are laid over its `bench`, but for `limits` and `measurements`."""
    bench: dict[str, Any] = {
        "suite": "s",
        "plan_sha256": "0" * 64,
        "shard": None,
        "turn": turn_number,
        "part": 1,
        "kernel_number": ord(kernel_name[0]) - ord("a"),
        "convention": None,
        "control": False,
        "twin_of": None,
        "version": None,
        "exit_codes": {"0": "accepted", "1": "rejected", "2": "declined"} if exit_codes is None else dict(exit_codes),
        "exit_codes_known_by": "made",
        "settings_sha256": None,
        "workload": {
            "name": work_name,
            "path": "/w",
            "sha256": None,
            "size_bytes": 1,
            "family": None,
            "n": None,
            "seed": None,
            "expected": None,
        },
        "covariates": {},
        "co_running": {"count": 1, "slot": 0},
        "counters": [],
        "disturbances": [],
    }
    limits = changes.pop("limits", {})
    measurements = changes.pop("measurements", {})
    threads = changes.pop("kernel_threads", None)
    ids = {"build": None, "block": block, "order": 1, "iteration": 1, "warmup": block is None}
    invocation = f"{kernel_name}-{work_name}-{turn_number}-{changes.get('co_running', {}).get('slot', 0)}"
    started = made.started(
        invocation,
        bench=made.merged(bench, changes),
        ids=ids,
        kernel={"name": kernel_name, "threads_count": threads},
        limits=limits,
    )
    kind, signal = ("exited", None) if cause in ("completed", "sandbox_setup_failed") else ("signaled", 9)
    outcome = {"kind": kind, "code": code if signal is None else None, "signal": signal, "cause": cause}
    figures = {"wall_program": made.figure(wall_ns), "wall_command": made.figure(wall_ns), **measurements}
    finished = made.finished(invocation, outcome=outcome, measurements=figures, clocks={"monotonic_ns": exit_seen_ns})
    return Record(invocation, "s", started, finished, None, "made")
