"""Checked code that takes all there is: processes, memory, disk, output, time. Its status stands, and it is told of."""

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from calling import ENTRANCES, LANDRUN, PHASE, PROOFCOST, call, has_ended, running, wait_for
from wrapped import IN_GUEST, own_cgroups

from attacks.sandboxed import PLAIN_PATH, PYTHON, Attacker
from proofcost.harness import hierarchy

pytestmark = pytest.mark.real

Hostile = Callable[[str], Path]
MOST = 40
GIGABYTE = 10**9
ONE_IN_THE_GUEST = [pytest.param(way, marks=pytest.mark.guest_all) if way == LANDRUN else way for way in ENTRANCES]

GROWS_S = 8.0 if IN_GUEST else 0.6
BOMB = f"""
end = time.monotonic() + {GROWS_S}
def bomb():
    while time.monotonic() < end:
        try:
            if os.fork() == 0: continue
        except OSError: time.sleep(0.01)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    time.sleep(1.5)
    os._exit(0)
if os.fork() == 0: bomb()
time.sleep(end - time.monotonic() + 0.3)
sys.exit(5)
"""


def those_of(uid: int) -> list[str]:
    """Processes of a user: what `stat` begins with."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == uid:
                found.append((path / "stat").read_text()[:40])
        except OSError:
            continue
    return found


@pytest.mark.guest_all
@pytest.mark.parametrize("killed", [False, True], ids=["reported", "killed"])
def test_a_fork_bomb_that_a_limit_holds(own_user: Attacker, killed: bool) -> None:
    """RLIMIT_NPROC, as a judge sets it before it calls: the meter lives under it as well."""
    own_user.wrap.options["kill_stragglers"] = killed

    def limited() -> None:
        own_user.become()
        resource.setrlimit(resource.RLIMIT_NPROC, (MOST, MOST))

    argv = own_user.wrap.argv(LANDRUN, own_user.command(own_user.script(BOMB)))
    ended = call(argv, own_user.project / "streams", as_child=limited)
    assert ended.code == 5, ended
    [one] = own_user.records()
    assert one["finished"]["outcome"]["code"] == 5
    left = one["finished"]["stragglers"]
    if one["started"]["cgroup"]["paths"]:
        # In the guest a bomb grows as fast as emulation lets it.
        assert (1 if IN_GUEST else MOST // 2) < left["count"] <= MOST
    if killed and one["started"]["cgroup"]["paths"]:
        assert left["action"] == "killed"
        assert those_of(own_user.uid) == []
    wait_for(lambda: those_of(own_user.uid) == [], "the end of the bomb")


def is_empty(cgroup: Path) -> bool:
    return not (cgroup / "cgroup.procs").read_text()


@pytest.fixture
def few_processes(as_root: None) -> Iterator[Path]:
    """A cgroup that allows MOST processes, to be entered by its `cgroup.procs`."""
    dirs = own_cgroups()
    unified = dirs.get(hierarchy.UNIFIED)
    v1 = Path("/sys/fs/cgroup/pids")
    name = f"few-{os.getpid()}"
    if unified is not None and (unified.parent / "pids.max").exists():
        outer = unified.parent / name
        inner = outer / "leaf"
        outer.mkdir()
        (outer / "pids.max").write_text(str(MOST))
        (outer / "cgroup.subtree_control").write_text("+memory +pids")
        inner.mkdir()
    elif v1.is_dir():
        inner = outer = v1 / name
        outer.mkdir()
        (outer / "pids.max").write_text(str(MOST))
    else:
        pytest.skip("no pids controller here")
    yield inner
    # The meter's own groups stand there as well: they hold what outlived the call until it has ended.
    for folder in sorted((outer, *(path for path in outer.rglob("*") if path.is_dir())), reverse=True):
        wait_for(partial(is_empty, folder), "the end of all in it")
        folder.rmdir()


@pytest.mark.guest_all
def test_a_fork_bomb_of_root_that_a_cgroup_holds(attacker: Attacker, few_processes: Path) -> None:
    def limited() -> None:
        (few_processes / "cgroup.procs").write_text(str(os.getpid()))
        attacker.become()

    argv = attacker.wrap.argv(LANDRUN, attacker.command(attacker.script(BOMB)))
    ended = call(argv, attacker.project / "streams", as_child=limited)
    assert ended.code == 5, ended
    [one] = attacker.records()
    assert one["finished"]["outcome"]["code"] == 5
    if one["started"]["cgroup"]["paths"]:
        assert (1 if IN_GUEST else MOST // 2) < one["finished"]["stragglers"]["count"] <= MOST


def run_in_sandbox(
    attacker: Attacker, *words: object, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[bytes]:
    """`proofcost run OPTIONS -- landrun ... -- WORDS`."""
    command = attacker.command([str(word) for word in words])
    return subprocess.run(
        [PROOFCOST, "run", "--store", attacker.wrap.store, *options, "--", *command],
        cwd=attacker.project, env=PLAIN_PATH, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.guest
def test_memory_taken_by_a_grandchild_is_told_though_its_parents_survive(
    as_root: None, attacker: Attacker, hostile: Hostile
) -> None:
    if hierarchy.MEMORY not in own_cgroups() and not IN_GUEST:
        pytest.skip("no memory controller to limit with here")
    program = hostile("memory")
    done = run_in_sandbox(attacker, program, "grandchild", 1000, 0, options=("--memory", "200Mi"))
    assert (done.returncode, done.stderr) == (0, b"")
    [whole] = attacker.records()
    assert whole["finished"]["outcome"]["code"] == 0
    assert any("1 process(es) of the tree" in line for line in whole["finished"]["outcome"]["evidence"])


@pytest.mark.guest_all
def test_a_full_disk_of_its_own_making(as_root: None, attacker: Attacker) -> None:
    """The store stands on the same disk: its room was reserved before the command started."""
    point = attacker.project / "disk"
    point.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=755", "none", point], check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        (point / "writable").mkdir()
        attacker.wrap.options["store"] = str(point / "store")
        flags = ["--best-effort", "--ro", "/", "--rox", "/usr", "--rox", "/lib", "--rw", str(point / "writable")]
        fill = f"""
import sys
with open({str(point / "writable" / "x")!r}, "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)): pass
    except OSError: pass
sys.exit(13)
"""
        command = [str(attacker.landrun), *flags, "-ldd", "-add-exec", "--", PYTHON, "-c", fill]
        ended = call(attacker.wrap.argv(LANDRUN, command), attacker.project / "streams")
        assert ended.code == 13, ended
        [path] = (point / "store").glob("sessions/*/*.jsonl")
        finished = json.loads(path.read_text().splitlines()[1])
        assert finished["outcome"]["code"] == 13
        assert finished["outcome"]["cause"] == "disk_full"
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def pour_out(attacker: Attacker, way: str, count: int) -> None:
    """Have it write so many bytes to a reader that counts them."""
    argv = attacker.wrap.argv(way, attacker.command(["/usr/bin/head", "-c", str(count), "/dev/zero"]))
    with running(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd=attacker.project) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        total = 0
        while block := started.stdout.read(1 << 20):
            total += len(block)
        assert total == count
        assert started.wait() == 0
        assert started.stderr.read() == b""
    [one] = attacker.records()
    assert one["finished"]["outcome"]["code"] == 0
    peak = one["finished"]["meter_cost"]["memory_peak_bytes"]
    assert peak is None or peak < 64_000_000, "nothing of it was kept"


@pytest.mark.parametrize("way", ONE_IN_THE_GUEST)
def test_a_gigabyte_of_output(attacker: Attacker, way: str) -> None:
    pour_out(attacker, way, GIGABYTE // (10 if IN_GUEST else 1))


@pytest.mark.long
def test_ten_gigabytes_of_output(attacker: Attacker) -> None:
    pour_out(attacker, LANDRUN, 10 * GIGABYTE)


DEAF = """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT): signal.signal(number, signal.SIG_IGN)
print("pid", os.getpid(), flush=True)
time.sleep(60)
sys.exit(0)
"""


@pytest.mark.parametrize("way", ONE_IN_THE_GUEST)
def test_a_program_that_ignores_to_be_ended_is_ended_by_a_kill(attacker: Attacker, way: str) -> None:
    """As without us: TERM does nothing, KILL of what the caller started ends all of it."""
    argv = attacker.wrap.argv(way, attacker.command(attacker.script(DEAF)))
    with running(argv, stdout=subprocess.PIPE, cwd=attacker.project, env=PLAIN_PATH) as started:
        assert started.stdout is not None
        command = int(started.stdout.readline().split()[1])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            started.send_signal(number)
        time.sleep(0.3)
        assert started.poll() is None
        assert not has_ended(command)
        started.kill()
        assert started.wait() == -signal.SIGKILL
        wait_for(lambda: has_ended(command), "the command's end")
    [one] = attacker.records()
    assert set(one) == {"started"}


@pytest.mark.guest_all
def test_a_program_that_ignores_to_be_ended_is_ended_by_a_time_limit(attacker: Attacker) -> None:
    limit = "15s" if IN_GUEST else "2s"
    done = run_in_sandbox(attacker, *attacker.script(DEAF), options=("--timeout", limit))
    assert done.returncode == -signal.SIGKILL
    [whole] = attacker.records()
    assert whole["finished"]["outcome"]["kind"] == "timed_out"
    command = int(done.stdout.split()[1])
    wait_for(lambda: has_ended(command), "the command's end")


@pytest.mark.guest
@pytest.mark.parametrize("how", ["waited", "left"])
def test_root_that_leaves_its_cgroup_is_found_out_or_told_of(
    as_root: None, attacker: Attacker, hostile: Hostile, how: str
) -> None:
    """No Landlock forbids clone3 into a cgroup that one's user may use.

    What was waited for shows in the wait status, and then the cgroup's figures are not called measured. Who leaves and
    lives on is not counted as a straggler and not killed (docs/security.md): only a user who owns no cgroup cannot.
    """
    place = own_cgroups().get(hierarchy.UNIFIED)
    if place is None:
        pytest.skip("no cgroup v2 here")
    program = hostile("leave")
    ended = attacker.call([str(program), str(place), "0.5", how], PHASE)
    assert ended.code == 7, ended
    [one] = attacker.records()
    figures = one["finished"]["measurements"]
    if how == "waited":
        assert figures["cpu_waited"]["value"] > 450_000_000
        assert figures["cpu_tree"]["status"] != "measured" or figures["cpu_tree"]["value"] > 450_000_000
    else:
        assert one["finished"]["stragglers"]["count"] == 0
