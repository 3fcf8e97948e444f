"""Checked code that runs as another user than meter and store: nothing is possible, with Landlock or without."""

import os
import shutil
from pathlib import Path

import pytest
from calling import PHASE, call

from attacks import attempts
from attacks.sandboxed import NOBODY, PYTHON, Attacker

pytestmark = pytest.mark.real

# What is everybody's: not ours to refuse. A signal by input and output is asked for, and not sent.
EVERYBODY_S = {"read the meter's arguments", "have input and output signal the meter", "connect by TCP", "send by UDP",
               "connect to a socket by its path", "connect to an abstract socket"}  # fmt: skip


@pytest.mark.parametrize(
    "confined", [pytest.param(True, marks=pytest.mark.guest_all), False], ids=["in landrun", "bare"]
)
def test_another_user_can_do_nothing(as_root: None, attacker: Attacker, confined: bool) -> None:
    folder = attacker.wrap.folder
    program = folder / "attempts.py"
    shutil.copy(attempts.__file__, program)
    for path in (program, attacker.project / ".lake"):
        path.chmod(0o755)
    os.chown(attacker.project / ".lake", NOBODY, NOBODY)
    for code in (1, 2):
        assert attacker.run(f"sys.exit({code})") == code
    before = attacker.contents()
    victim, emptied = sorted(before)
    words = [PYTHON, "-I", "-S", str(program), str(attacker.wrap.store), victim, emptied, "/nonexistent", "nobody-here"]
    become = [shutil.which("setpriv") or "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    inner = attacker.command(words) if confined else words
    argv = attacker.wrap.argv(PHASE, [*become, *inner])
    ended = call(argv, attacker.project / "streams", as_child=lambda: os.chdir(attacker.project))
    assert ended.code == 3, ended
    results = dict(line.split(": ") for line in ended.stdout.decode().splitlines())
    assert set(results) >= {"append to a record", "limit the meter", "renice the meter", "send the meter a signal"}
    possible = {name for name, result in results.items() if result == "done"}
    assert possible <= EVERYBODY_S
    after = attacker.contents()
    assert {path: after[path] for path in before} == before
    *_, last = attacker.records()
    assert last["finished"]["outcome"]["code"] == 3
    assert last["finished"]["faults"] == []
    assert Path(victim).stat().st_mode & 0o777 == 0o600
