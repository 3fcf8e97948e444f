"""What the checked code may try, as the command of a real landrun with a comparator's flags, at the meter's own user.

It may prevent a record (chmod, prlimit on the meter: Landlock forbids neither); it may never forge, change or read away
one that was made, and the caller sees the status that it would have seen without us.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import LANDRUN, PHASE, Wrap, call, shared_tree

pytestmark = pytest.mark.real
PYTHON = "/usr/bin/python3"
# The attack knows everything: its meter, the store, the descriptors.
PRELUDE = """
import ctypes, errno, fcntl, os, resource, signal, socket, sys, time
meter, store = os.getppid(), sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, do):
    try:
        result = do()
        print(what, "done", result if isinstance(result, int) else "")
        return result
    except (OSError, ValueError) as error:
        print(what, "refused", errno.errorcode.get(getattr(error, "errno", 0) or 0))
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
def files():
    return [os.path.join(at, name) for at, _, names in os.walk(store) for name in names]
"""


@pytest.fixture(scope="module")
def tree() -> Path:
    return shared_tree()


@pytest.fixture
def wrap(tmp_path: Path, tree: Path) -> Wrap:
    return Wrap(tmp_path / "w", tree)


@pytest.fixture
def project() -> Iterator[Path]:
    """Where the checked code may write, as comparators grant `.lake`."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-project-"))
    (folder / ".lake").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Attack:
    """One command under landrun, in whichever way it is called."""

    def __init__(self, wrap: Wrap, landrun: Path, project: Path, folder: Path) -> None:
        self.wrap = wrap
        self.landrun = landrun
        self.project = project
        self.folder = folder
        self.said = ""

    def command(self, code: str) -> list[str | bytes]:
        flags = ["--best-effort", "--ro", "/", "--rw", "/dev", "-ldd", "-add-exec", "--env", "PATH"]
        grants = ["--ro", str(self.project), "--rwx", str(self.project / ".lake"), "--rox", "/usr", "--rox", "/lib"]
        lib64 = ["--rox", "/lib64"] if Path("/lib64").exists() else []
        program = [PYTHON, "-c", PRELUDE + code, str(self.wrap.store)]
        return [str(self.landrun), *flags, *grants, *lib64, "--", *program]

    def run(self, code: str, way: str = LANDRUN) -> int:
        ended = call(
            self.wrap.argv(way, self.command(code)), self.folder / "s", as_child=lambda: os.chdir(self.project)
        )
        self.said = ended.stdout.decode() + ended.stderr.decode()
        return ended.code

    def records(self) -> list[dict[str, dict[str, Any]]]:
        return self.wrap.records()


@pytest.fixture
def attack(wrap: Wrap, landrun: Path, project: Path, tmp_path: Path) -> Attack:
    return Attack(wrap, landrun, project, tmp_path)


def contents(store: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in store.rglob("*.jsonl")}


def test_it_is_really_confined(attack: Attack) -> None:
    """Else every test below would prove nothing."""
    assert attack.run('attempt("write", lambda: open("/tmp/proofcost-attack", "w").write("x")); sys.exit(3)') == 3
    assert "write refused EACCES" in attack.said
    assert attack.run('attempt("write", lambda: open(".lake/x", "w").write("x")); sys.exit(0)') == 0
    assert "write done" in attack.said


def test_the_store_cannot_be_changed(attack: Attack) -> None:
    assert attack.run("sys.exit(3)") == 3
    before = contents(attack.wrap.store)
    code = """
for path in files():
    attempt("append", lambda: open(path, "a").write("{}"))
    attempt("overwrite", lambda: open(path, "r+").write("{}"))
    attempt("create", lambda: open(path + "x", "x").write("{}"))
    attempt("unlink", lambda: os.unlink(path))
    attempt("rename", lambda: os.rename(path, path + "y"))
    attempt("link", lambda: os.link(path, ".lake/link"))
    attempt("symlink", lambda: os.symlink("/etc/passwd", path + "z"))
attempt("mark", lambda: os.mkdir(store + "/marks"))
attempt("session", lambda: os.mkdir(store + "/sessions/0123456789abcdef"))
attempt("rmdir", lambda: os.rename(store, store + "2"))
sys.exit(4)
"""
    assert attack.run(code) == 4
    assert "done" not in attack.said
    assert "refused EACCES" in attack.said
    after = contents(attack.wrap.store)
    assert {path: after[path] for path in before} == before
    assert [one["finished"]["outcome"]["code"] for one in attack.records()] == [3, 4]


def test_a_record_cannot_be_emptied(attack: Attack) -> None:
    """truncate(2) is restricted from Landlock ABI 3 on."""
    if attack_abi() < 3:
        pytest.skip("Landlock before ABI 3 does not restrict truncate(2); docs/security.md says so")
    assert attack.run("sys.exit(3)") == 3
    before = contents(attack.wrap.store)
    code = 'for path in files(): attempt("truncate", lambda: os.truncate(path, 0))\nsys.exit(4)'
    assert attack.run(code) == 4
    assert "truncate done" not in attack.said
    assert {path: contents(attack.wrap.store)[path] for path in before} == before


def attack_abi() -> int:
    from proofcost.harness import libc

    return libc.landlock_abi()


@pytest.mark.parametrize("way", [LANDRUN, PHASE])
def test_modes_and_locks_change_no_verdict(attack: Attack, way: str) -> None:
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
        assert attack.run(code, way) == 5
        assert "chmod folder done" in attack.said
    for path in attack.wrap.store.rglob("*"):
        path.chmod(0o700)
    assert [one["finished"]["outcome"]["code"] for one in attack.records()] == [5, 5]


def test_nothing_of_ours_is_inherited(attack: Attack) -> None:
    code = """
for fd in range(3, 1024):
    try: link = os.readlink("/proc/self/fd/%d" % fd)
    except OSError: continue
    if "proofcost" in link or store in link or "perf" in link or "cgroup" in link: print("inherited", fd, link)
    attempt("write", lambda: os.write(fd, b"forged")) if "jsonl" in link else None
for fd in os.listdir("/proc/self/fd"): pass
for fd in os.listdir("/proc/%d/fd" % meter):
    if int(fd) > 2: attempt("the meter's descriptor", lambda: os.open("/proc/%d/fd/%s" % (meter, fd), os.O_WRONLY))
attempt("the meter's memory", lambda: open("/proc/%d/mem" % meter, "rb").read(1))
sys.exit(6)
"""
    assert attack.run(code) == 6
    assert "inherited" not in attack.said
    assert "forged" not in attack.said
    assert "descriptor done" not in attack.said
    assert "memory done" not in attack.said
    [one] = attack.records()
    assert one["finished"]["outcome"]["code"] == 6


def test_the_meter_cannot_be_traced_or_signalled(attack: Attack) -> None:
    code = """
attempt("attach", lambda: check(libc.ptrace(16, meter, None, None)))
attempt("seize", lambda: check(libc.ptrace(0x4206, meter, None, None)))
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGUSR1):
    attempt("kill", lambda: os.kill(meter, number))
sys.exit(7)
"""
    assert attack.run(code) == 7
    assert "attach done" not in attack.said
    assert "seize done" not in attack.said
    if attack_abi() >= 6:
        assert "kill done" not in attack.said
    [one] = attack.records()
    assert (one["finished"]["outcome"]["code"], one["finished"]["outcome"]["cause"]) == (7, "completed")


@pytest.mark.parametrize(
    ("name", "soft"),
    [("RLIMIT_NOFILE", 0), ("RLIMIT_AS", 0), ("RLIMIT_DATA", 0), ("RLIMIT_FSIZE", 0), ("RLIMIT_STACK", 0),
     ("RLIMIT_NPROC", 0), ("RLIMIT_SIGPENDING", 0), ("RLIMIT_MEMLOCK", 0), ("RLIMIT_CORE", 0)],
)  # fmt: skip
def test_limits_set_on_the_meter_cannot_change_the_status(attack: Attack, name: str, soft: int) -> None:
    """prlimit asks only for the same user. The record may be lost; a lost one is `started` alone, never a success."""
    for code in (0, 8):
        script = (
            f'attempt("limit", lambda: resource.prlimit(meter, resource.{name}, ({soft}, {soft})))\nsys.exit({code})'
        )
        assert attack.run(script) == code
        assert "limit done" in attack.said or "limit refused" in attack.said
    for one in attack.records():
        assert one.get("finished") is None or one["finished"]["outcome"]["code"] in (0, 8)


def test_a_killed_meter_is_no_success(attack: Attack) -> None:
    """RLIMIT_CPU 0 kills it although signals are scoped: its caller sees a death, as of the command it stands for."""
    script = """
attempt("limit", lambda: resource.prlimit(meter, resource.RLIMIT_CPU, (0, 0)))
time.sleep(5)
sys.exit(0)
"""
    code = attack.run(script)
    if "limit done" in attack.said and code == 0:
        pytest.fail("the command outlived its meter with a success")
    assert code in (137, 128 + 24, 0)
    [one] = attack.records()
    assert "finished" not in one or code == 0


def test_nor_can_scheduling(attack: Attack) -> None:
    script = """
attempt("idle", lambda: os.sched_setscheduler(meter, os.SCHED_IDLE, os.sched_param(0)))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, meter, 19))
attempt("pin", lambda: os.sched_setaffinity(meter, {0}))
sys.exit(9)
"""
    assert attack.run(script) == 9
    assert attack.records()[0]["finished"]["outcome"]["code"] == 9


def test_a_name_given_by_prctl_is_no_exec(attack: Attack) -> None:
    """Stamps are the kernel's own of a real exec: a process that calls itself something else adds none."""
    script = """
for name in (b"landrun", b"lake", b"nanoda_bin"):
    libc.prctl(15, name, 0, 0, 0)
    if os.fork() == 0: os._exit(0)
sys.exit(2)
"""
    assert attack.run(script) == 2
    stamps = attack.records()[0]["finished"]["exec_stamps"]
    if stamps["reason"] is None:
        assert "lake" not in stamps["names"]
        assert "nanoda_bin" not in stamps["names"]


@pytest.mark.parametrize("daemon", ["fork", "setsid", "double", "many"])
def test_stragglers_neither_hold_the_caller_up_nor_change_the_status(attack: Attack, daemon: str) -> None:
    script = f"""
kind = {daemon!r}
def stay():
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    time.sleep(1.5)
    os._exit(0)
for _ in range(60 if kind == "many" else 1):
    if os.fork() == 0:
        if kind != "fork": os.setsid()
        if kind == "double" and os.fork(): os._exit(0)
        stay()
sys.exit(11)
"""
    assert attack.run(script) == 11
    [one] = attack.records()
    assert one["finished"]["outcome"]["code"] == 11
    left = one["finished"]["stragglers"]
    if one["started"]["cgroup"]["paths"]:
        assert left["count"] == (60 if daemon == "many" else 1)


def test_stragglers_are_killed_where_asked(attack: Attack, project: Path) -> None:
    attack.wrap.options["kill_stragglers"] = True
    script = """
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    time.sleep(0.7)
    open(".lake/alive", "w").close()
    os._exit(0)
sys.exit(12)
"""
    assert attack.run(script) == 12
    [one] = attack.records()
    if not one["started"]["cgroup"]["paths"]:
        pytest.skip("no cgroup here, nothing can be killed")
    assert one["finished"]["stragglers"]["action"] == "killed"
    subprocess.run(["/bin/sleep", "0.8"], check=True)
    assert not (project / ".lake/alive").exists()


def test_a_full_disk_of_its_own_making(as_root: None, attack: Attack, project: Path) -> None:
    """The store stands on the same disk: its room was reserved before the command started."""
    point = project / ".lake"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=755", "none", point], check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        (point / "w").mkdir()
        (point / "writable").mkdir()
        attack.wrap.options["store"] = str(point / "store")
        flags = [
            "--best-effort",
            "--ro",
            "/",
            "--rox",
            "/usr",
            "--rox",
            "/lib",
            "--rw",
            str(point / "writable"),
            "-ldd",
            "-add-exec",
        ]
        fill = f"""
import sys
with open({str(point / "writable" / "x")!r}, "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)): pass
    except OSError: pass
sys.exit(13)
"""
        command = [str(attack.landrun), *flags, "--", PYTHON, "-c", fill]
        ended = call(attack.wrap.argv(LANDRUN, command), attack.folder / "s")
        assert ended.code == 13, ended
        [path] = (point / "store").glob("sessions/*/*.jsonl")
        finished = json.loads(path.read_text().splitlines()[1])
        assert finished["outcome"]["code"] == 13
        assert finished["outcome"]["cause"] == "disk_full"
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def test_a_sandbox_that_may_write_to_the_store_gets_no_record_to_forge(attack: Attack) -> None:
    flags = ["--best-effort", "--rox", "/", "--rwx", f"/nonexistent-x, {attack.wrap.folder}", "--ignore-missing"]
    attack.wrap.folder.mkdir()
    write = f"open({str(attack.wrap.folder / 'forged')!r}, 'w').close()"
    ended = call(
        attack.wrap.argv(LANDRUN, [str(attack.landrun), *flags, "--", PYTHON, "-c", write]), attack.folder / "s"
    )
    assert ended.code == 0
    assert (attack.wrap.folder / "forged").exists(), "the sandbox did grant it"
    assert not list(attack.wrap.store.glob("sessions/*/*.jsonl"))


@pytest.mark.parametrize("text", ["\x00", "\xff", "\n", '"', "\\", "\u2028", "{0}", "%s"])
def test_odd_bytes_in_its_arguments_come_back_as_they_were(attack: Attack, text: str) -> None:
    from proofcost.harness import record

    raw = text.encode("latin-1", "replace").replace(b"\0", b"0")
    command = [*attack.command("sys.exit(1)"), b"module-" + raw]
    assert call(attack.wrap.argv(LANDRUN, command), attack.folder / "s").code == 1
    [one] = attack.records()
    assert one["started"]["argv"]["head"][-1] == record.escape(b"module-" + raw)
