"""A record can be prevented by the checked code, never forged, changed or read away; the status stands either way."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from calling import ENTRANCES, LANDRUN, PHASE, call

from attacks.sandboxed import PYTHON, Attacker, landlock_abi
from proofcost.harness import record

pytestmark = pytest.mark.real


@pytest.mark.guest
def test_it_is_really_confined(attacker: Attacker) -> None:
    """Else every test in this folder would prove nothing."""
    assert landlock_abi() >= 1, "no Landlock on this host"
    assert attacker.run('attempt("write", lambda: open("/tmp/proofcost-attack", "w").write("x")); sys.exit(3)') == 3
    assert "write refused EACCES" in attacker.said
    assert attacker.run('attempt("write", lambda: open(".lake/x", "w").write("x")); sys.exit(0)') == 0
    assert "write done" in attacker.said


@pytest.mark.parametrize("way", ENTRANCES)
def test_modes_and_locks_change_no_verdict(either: Attacker, way: str) -> None:
    code = """
for path in [store, *files(), *[at for at, _, _ in os.walk(store)]]:
    fd = attempt("open", lambda: os.open(path, os.O_RDONLY))
    if fd: attempt("lock", lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
for at, folders, names in os.walk(store, topdown=False):
    for name in names: attempt("chmod", lambda: os.chmod(os.path.join(at, name), 0))
    attempt("chmod folder", lambda: os.chmod(at, 0))
if os.fork() == 0: time.sleep(0.5); os._exit(0)  # keeps the locks while the meter writes
sys.exit(5)
"""
    for _ in range(2):
        assert either.run(code, way) == 5
        assert "chmod folder done" in either.said
    for path in either.wrap.store.rglob("*"):
        path.chmod(0o700)
    first, second = either.records()
    assert [one["finished"]["outcome"]["code"] for one in (first, second)] == [5, 5]
    assert any("mode was 0000, set to 0700" in fault["what"] for fault in second["finished"]["faults"])


def test_a_store_that_was_given_away_takes_no_records_and_costs_no_verdict(as_root: None, attacker: Attacker) -> None:
    """Root's chown is not Landlock's business."""
    code = 'attempt("chown", lambda: os.chown(store, 12345, -1)); sys.exit(5)'
    assert attacker.run("sys.exit(1)") == 1
    assert attacker.run(code) == 5
    assert "chown done" in attacker.said
    assert attacker.run("sys.exit(6)") == 6
    os.chown(attacker.wrap.store, 0, -1)
    assert [one["finished"]["outcome"]["code"] for one in attacker.records()] == [1, 5]


IMMUTABLE = """
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, IMMUTABLE = 0x80086601, 0x40086602, 0x10
def set_flag(path):
    fd = os.open(path, os.O_RDONLY)
    flags = int.from_bytes(fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(8)), "little")
    fcntl.ioctl(fd, FS_IOC_SETFLAGS, (flags | IMMUTABLE).to_bytes(8, "little"))
for path in files(): attempt("make immutable", lambda: set_flag(path))
sys.exit(5)
"""


def test_a_record_that_root_made_immutable_is_lost_and_costs_no_verdict(as_root: None, attacker: Attacker) -> None:
    """`started` alone is no success. (Some filesystems know no such flag.)"""
    try:
        assert attacker.run(IMMUTABLE) == 5
        ends = [one.get("finished") for one in attacker.records()]
        if "make immutable done" in attacker.said:
            assert ends == [None]
        assert attacker.run("sys.exit(6)") == 6
    finally:
        subprocess.run(["chattr", "-R", "-i", attacker.wrap.store], check=False, capture_output=True)


def test_a_sandbox_that_may_write_to_the_store_gets_no_record_to_forge(attacker: Attacker) -> None:
    flags = ["--best-effort", "--rox", "/", "--rwx", f"/nonexistent-x, {attacker.wrap.folder}", "--ignore-missing"]
    write = f"open({str(attacker.wrap.folder / 'forged')!r}, 'w').close()"
    command = [str(attacker.landrun), *flags, "--", PYTHON, "-c", write]
    ended = call(attacker.wrap.argv(LANDRUN, command), attacker.project / "streams")
    assert ended.code == 0
    assert (attacker.wrap.folder / "forged").exists(), "the sandbox did grant it"
    assert not list(attacker.wrap.store.glob("sessions/*/*.jsonl"))


def test_the_launcher_shares_the_fate_of_what_it_stands_for(unprivileged: Attacker) -> None:
    """Whose files these are may take their x away, as of the landrun and kernel that are the same user's: the next call
    fails, wrapped or not. Launchers belong to root (docs/security.md)."""
    folder = unprivileged.wrap.folder
    own = folder / "own-landrun"
    own.write_bytes(b"#!/bin/sh\nexit 0\n")
    own.chmod(0o755)
    launcher = Path(os.fsdecode(unprivileged.wrap.argv(PHASE, ["x"])[0]))
    for path in (own, launcher):
        os.chown(path, unprivileged.uid, unprivileged.uid)
    code = f"""
for path in ({str(own)!r}, {str(launcher)!r}): attempt("chmod", lambda: os.chmod(path, 0o644))
sys.exit(5)
"""
    assert unprivileged.run(code) == 5
    assert unprivileged.said.count("chmod done") == 2
    for path in (own, launcher):
        ended = call([str(path)], unprivileged.project / "streams", as_child=unprivileged.become)
        assert (ended.code, ended.stderr) == (127, b"execve: Permission denied\n")


def test_a_name_given_by_prctl_is_no_exec(attacker: Attacker) -> None:
    """Stamps are the kernel's own of a real exec: a process that calls itself something else adds none."""
    script = """
for name in (b"landrun", b"lake", b"nanoda_bin"):
    libc.prctl(15, name, 0, 0, 0)
    if os.fork() == 0: os._exit(0)
sys.exit(2)
"""
    assert attacker.run(script) == 2
    stamps = attacker.records()[0]["finished"]["exec_stamps"]
    if stamps["reason"] is None:
        assert "lake" not in stamps["names"]
        assert "nanoda_bin" not in stamps["names"]


@pytest.mark.parametrize("text", ["\x00", "\xff", "\n", '"', "\\", "\u2028", "{0}", "%s"])
def test_odd_bytes_in_its_arguments_come_back_as_they_were(attacker: Attacker, text: str) -> None:
    raw = text.encode("latin-1", "replace").replace(b"\0", b"0")
    command = [*attacker.command(attacker.script("sys.exit(1)")), b"module-" + raw]
    assert call(attacker.wrap.argv(LANDRUN, command), attacker.project / "streams").code == 1
    [one] = attacker.records()
    assert one["started"]["argv"]["head"][-1] == record.escape(b"module-" + raw)


def test_a_line_that_it_prints_is_no_record(attacker: Attacker) -> None:
    forged = json.dumps({"schema": 1, "event": "finished", "invocation": "x", "outcome": {"code": 0}})
    assert attacker.run(f"print({forged!r}, flush=True); print({forged!r}, file=sys.stderr); sys.exit(7)") == 7
    assert attacker.said.count(forged) == 2
    [one] = attacker.records()
    assert one["finished"]["outcome"]["code"] == 7
