"""Judges that root runs as another user (`run --as`), and what was kept of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wrapped import NOBODY, PATIENCE_S, PROOFCOST, Call, Recorded, Wrapper

from proofcost.harness import procfs, seal

PYTHON = "/usr/bin/python3"
SANDBOX = """#!/bin/sh
# Stand-in for landrun: takes its arguments and confines nothing.
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
CALL = '"$COMPARATOR_LANDRUN" --best-effort --rox / --rw /dev -- '
"""In a shell: the sandboxed call of what follows."""
PRELUDE = """
import json, os, signal, socket, struct, subprocess, sys, time
FD = int(os.environ["PROOFCOST_FD"])
SHIM = os.environ["COMPARATOR_LANDRUN"]
def call(*command, **more):
    words = [SHIM, "--best-effort", "--rox", "/", "--", *command]
    return subprocess.run(words, **{"pass_fds": (FD,), **more}).returncode
"""


@dataclass
class Judged:
    """A store of root's, and judges run as nobody in a folder of theirs."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.work.mkdir()
        os.chown(self.work, NOBODY, NOBODY)
        self.sandbox.write_text(SANDBOX)
        self.sandbox.chmod(0o755)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def work(self) -> Path:
        """Where the judge works; its user's."""
        return self.folder / "work"

    @property
    def sandbox(self) -> Path:
        return self.folder / "sandbox"

    def argv(self, judge: Sequence[object], *options: object, user: str = "nobody") -> list[str]:
        return [PROOFCOST, "run", "--as", user, "--store", *map(str, (self.store, *options, "--", *judge))]

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        known = {"PATH": os.environ["PATH"], "COMPARATOR_LANDRUN": str(self.sandbox), "HOME": "/root", "USER": "root"}
        return {**known, **self.environment, **(more or {})}

    def __call__(
        self,
        judge: Sequence[object],
        *options: object,
        user: str = "nobody",
        env: Mapping[str, str] | None = None,
        via: Sequence[object] = (),
        preexec: Callable[[], object] | None = None,
    ) -> Call:
        """Run the judge."""
        began = time.monotonic()
        done = subprocess.run(
            [*map(str, via), *self.argv(judge, *options, user=user)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False, cwd=self.work,
            env=self.env(env), preexec_fn=preexec,
        )  # fmt: skip
        return Call(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def shell(self, script: str, *options: object, **more: Any) -> Call:
        """Run a judge that is a shell script."""
        return self(["/bin/bash", "-c", script], *options, **more)

    def python(self, script: str, *options: object, **more: Any) -> Call:
        """Run a judge that is a Python script, with PRELUDE before it."""
        return self([PYTHON, "-c", PRELUDE + script], *options, **more)

    def started(self, judge: Sequence[object], *options: object) -> "subprocess.Popen[bytes]":
        """The same, still running."""
        return subprocess.Popen(
            self.argv(judge, *options),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.work, env=self.env(),
        )  # fmt: skip

    def records(self, valid: bool = True) -> list[Recorded]:
        return Wrapper(self.folder, self.folder, "").records(valid)

    def whole(self) -> Recorded:
        [one] = [one for one in self.records() if one.started["phase"]["understood"] == "whole"]
        return one

    def whole_anyway(self) -> Recorded:
        """The judge's record, among others that may be forged."""
        [one] = [one for one in self.records(valid=False) if one.started["meter"].get("entrance") == "run"]
        return one

    def calls(self) -> list[Recorded]:
        return [one for one in self.records() if one.started["phase"]["understood"] != "whole"]

    def marks(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text("ascii")) for path in sorted(self.store.glob("marks/*.json"))]

    def session(self) -> Path:
        [folder] = self.store.glob("sessions/*")
        return folder

    def seal(self) -> dict[str, Any]:
        """The session's seal, which must be of what stands there."""
        folder = self.session()
        checked = seal.check(str(folder))
        assert checked is not None, f"not sealed: {sorted(folder.iterdir())}; marks: {self.marks()}"
        assert checked.problems == []
        found: dict[str, Any] = dict(checked.seal)
        return found

    def left(self) -> list[str]:
        """Cgroups and processes that are still there."""
        found = [str(path) for path in Wrapper(self.folder, self.folder, "").left_cgroups()]
        return found + [f"{pid} {procfs.command_line(pid)!r}" for pid in self.processes()]

    def processes(self) -> list[int]:
        """Processes that name our folder in their arguments or environment, but not this test's own."""
        needle = os.fsencode(self.folder)
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                raw = (procfs.read_file(f"/proc/{name}/cmdline") or b"") + (
                    procfs.read_file(f"/proc/{name}/environ") or b""
                )
                if needle in raw:
                    found.append(int(name))
        return found

    def wait_for(self, what: Callable[[], object], why: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < until, f"not within {PATIENCE_S} s: {why}"
            time.sleep(0.01)


def interpreter() -> str:
    """The tests' own."""
    return sys.executable
