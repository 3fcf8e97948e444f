"""Calling `proofcost bench` on small kernels made for a test, and what it left in the store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wrapped import Recorded, Wrapper

from proofcost.bench_suites import families

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
