"""Calling hostile programs through the meter, under a real landrun with a comparator's flags, as a user of choice."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from calling import LANDRUN, PLAIN, Ended, Wrap, call

from proofcost.harness import libc

PYTHON = "/usr/bin/python3"
NOBODY = 65534
PLAIN_PATH = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
# landrun before this one was not tried: the scoping of signals and abstract sockets is newer than the rest.
TRIED_SINCE = (0, 1, 17)
# Known to every attack: its meter, the store, how to try a thing and say how it went.
PRELUDE = """
import ctypes, errno, fcntl, os, resource, signal, socket, sys, time
meter, store = os.getppid(), sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, do):
    try:
        result = do()
        print(what, "done", result if isinstance(result, int) else "", flush=True)
        return result
    except (OSError, ValueError) as error:
        print(what, "refused", errno.errorcode.get(getattr(error, "errno", 0) or 0), flush=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
def files():
    return [os.path.join(at, name) for at, _, names in os.walk(store) for name in names]
"""


@cache
def landlock_abi() -> int:
    """Of this host; 0 without Landlock."""
    try:
        return libc.landlock_abi()
    except OSError:
        return 0


@cache
def version_of(landrun: Path) -> tuple[int, ...]:
    """(0, 1, 17); empty where it does not tell."""
    said = subprocess.run([landrun, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def scoped(landrun: Path) -> bool:
    """Whether signals and abstract sockets end at the sandbox's border."""
    return landlock_abi() >= 6 and version_of(landrun) >= TRIED_SINCE


@dataclass
class Attacker:
    """One user's checked code: a project whose `.lake` it may write to, as comparators grant it, and launchers and a
    store of the same user."""

    wrap: Wrap
    landrun: Path
    project: Path
    uid: int = 0
    said: str = ""

    def flags(self, *more: str) -> list[str]:
        flags = ["--best-effort", "--ro", "/", "--rw", "/dev", "-ldd", "-add-exec", "--env", "PATH", *more]
        grants = ["--ro", str(self.project), "--rwx", str(self.project / ".lake"), "--rox", "/usr", "--rox", "/lib"]
        return [*flags, *grants, *(["--rox", "/lib64"] if Path("/lib64").exists() else [])]

    def command(self, program: Sequence[str], *more: str) -> list[str | bytes]:
        return [str(self.landrun), *self.flags(*more), "--", *program]

    def script(self, code: str) -> list[str]:
        return [PYTHON, "-I", "-S", "-c", PRELUDE + code, str(self.wrap.store)]

    def become(self) -> None:
        """In the child, before the exec: the user, in its project."""
        os.chdir(self.project)
        if self.uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def call(self, program: Sequence[str], way: str = LANDRUN) -> Ended:
        ended = call(self.wrap.argv(way, self.command(program)), self.project / "streams", PLAIN, as_child=self.become)
        self.said = ended.stdout.decode() + ended.stderr.decode()
        return ended

    def run(self, code: str, way: str = LANDRUN) -> int:
        """Run Python code inside the sandbox; what a shell would show as its status."""
        return self.call(self.script(code), way).code

    def records(self) -> list[dict[str, dict[str, Any]]]:
        return self.wrap.records()

    def contents(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.wrap.store.rglob("*.jsonl")}
