"""Public reports about tools that do part of this job, as inputs; those that no other test covers."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from wrapped import IN_GUEST, NOBODY, PROOFCOST, Wrapper, own_cgroups

from proofcost.harness import hierarchy, procfs, settle

Hostile = Callable[[str], Path]

pytestmark = pytest.mark.guest_all

LONGER_S = 8 if IN_GUEST else 0.7
"""CPU time that outlasts the start of a call."""


def shown(wrap: Wrapper, *more: str) -> str:
    """What `show last` prints of the store."""
    command = [PROOFCOST, "show", "last", "--store", str(wrap.store), *more]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def with_cgroups(as_root: None) -> None:
    if not own_cgroups() and not IN_GUEST:
        pytest.skip("no cgroup can be made here")


@pytest.mark.guest
def test_an_oom_that_the_judge_survives_is_in_the_table(with_cgroups: None, wrap: Wrapper, hostile: Hostile) -> None:
    """benchexec 779: a grandchild is killed for memory, its parent ends with 0, and nobody is told."""
    if hierarchy.MEMORY not in own_cgroups() and not IN_GUEST:
        pytest.skip("no memory controller to limit with here")
    assert wrap.run("--memory", "100Mi", "--", hostile("memory"), "grandchild", 1000, 0).status == 0
    assert "killed for memory" in shown(wrap)


@pytest.mark.parametrize("code", [0, 1])
def test_a_sandbox_that_ran_nothing_is_no_fast_run(as_root: None, wrap: Wrapper, code: int) -> None:
    """lean-kernel-challenge, equational_theories 1507: a launcher that starts nothing is no check, whatever it says."""
    broken = wrap.folder / "broken"
    broken.write_text(f"#!/bin/sh\nexit {code}\n")
    broken.chmod(0o755)
    launcher = wrap.launcher("landrun", str(broken))
    done = subprocess.run([launcher, "--best-effort", "--ro", "/", "--", "nanoda_bin", "export"], check=False)
    assert done.returncode == code
    call = wrap.last()
    if call.finished is None or call.finished["exec_stamps"]["lost"] is None:
        pytest.skip("no exec stamps here")
    assert call.outcome["cause"] == ("sandbox_setup_failed" if code else "completed")
    assert any("never reached" in line for line in call.outcome["evidence"])
    assert call.figures["wall_program"]["value"] is None
    assert "never reached" in shown(wrap)


def test_what_a_judge_left_behind_is_settled_by_the_next_run(
    with_cgroups: None, wrap: Wrapper, hostile: Hostile
) -> None:
    """kimina-lean-server 22: what lives on after its judge is charged to that judge, in full."""
    script = f"{hostile('burn')} self {LONGER_S} >/dev/null 2>&1 & exit 3"
    assert wrap.run("--", "/bin/sh", "-c", script).status == 3
    assert wrap.last().status("cpu_tree") == "lower_bound"
    assert wrap.run("--", "/bin/sleep", 30 if IN_GUEST else 6).status == 0
    first, second = wrap.records()
    assert first.settled is not None
    assert first.settled["measurements"]["cpu_tree"]["value"] >= 390_000_000
    assert second.value("cpu_tree") < 390_000_000
    assert wrap.left_cgroups() == []


def test_a_call_beside_what_an_earlier_one_left_running_says_so(
    with_cgroups: None, wrap: Wrapper, hostile: Hostile
) -> None:
    """hex-dev 10252: lake was killed, its lean child ran on, and the next rows took twice as long."""
    build = " ".join(wrap.command([hostile("burn"), "outlive", LONGER_S], "build"))
    checker = " ".join(wrap.command(["/bin/true"], "checker"))
    wrap.run("--", "/bin/sh", "-c", f"{build}; {checker}; sleep {30 if IN_GUEST else 6}; {checker}")
    whole, first, beside, after = json.loads(shown(wrap, "--json"))["records"]
    assert first["finished"]["stragglers"]["count"] == 1
    assert beside["derived"]["beside_stragglers_of"] == [first["invocation"]]
    assert after["derived"]["beside_stragglers_of"] == whole["derived"]["beside_stragglers_of"] == []
    assert "ran beside" in shown(wrap)


def test_so_does_one_beside_the_tree_of_a_call_that_was_killed_outright(
    with_cgroups: None, wrap: Wrapper, hostile: Hostile
) -> None:
    """The same with the way in which Python kills at a time limit: SIGKILL to whom it started, here the meter."""
    burn = f"{hostile('burn')} self {LONGER_S}"
    build = " ".join(wrap.command(["/bin/sh", "-c"], "build"))
    checker = " ".join(wrap.command(["/bin/true"], "checker"))
    killed = f"timeout --foreground -s KILL {4 if IN_GUEST else 0.3} {build} '{burn} & wait'"
    wrap.run("--", "/bin/sh", "-c", f"{killed}; {checker}; sleep {30 if IN_GUEST else 6}; {checker}")
    _, first, beside, after = json.loads(shown(wrap, "--json"))["records"]
    assert first["state"] == "incomplete"
    assert beside["derived"]["beside_stragglers_of"] == [first["invocation"]]
    assert after["derived"]["beside_stragglers_of"] == []


@pytest.mark.guest
def test_a_call_that_is_just_leaving_is_not_settled_by_its_neighbour(tmp_path: Path) -> None:
    """Calls in parallel: whose meter still lives takes its own cgroup away, and its figures are final."""
    ticks, namespace = procfs.start_ticks(os.getpid()), procfs.pid_namespace()
    session, invocation = "0123456789abcdef", f"18ecedb1b191eb9b-{os.getpid()}-8a9f1ee8"
    folder, group = tmp_path / "sessions" / session, tmp_path / "cgroup"
    folder.mkdir(parents=True)
    group.mkdir()
    process = f'{{"meter_start_ticks":{ticks},"pid_namespace":"{namespace}"}}'
    started = f'{{"event":"started","process":{process}}}\n'
    (folder / f"{invocation}.jsonl").write_text(started + '{"event":"finished"}\n')
    assert not settle.settle(str(tmp_path), session, invocation, {"unified": str(group)}, "meter")
    assert not (folder / f"{invocation}.settled.jsonl").exists()
    assert group.exists()
    assert settle.settle(str(tmp_path), session, invocation, {"unified": str(group)}, "run")


def test_a_program_that_may_not_be_killed_is_not_called_killed(as_root: None, gcc: Path, open_folder: Path) -> None:
    """arena 211: a time limit that ended nothing must be visible, and is not "all it started were killed"."""
    folder = Path(tempfile.mkdtemp(prefix="suid-", dir=open_folder))
    program = folder / "becomes_root"
    source = "#include <unistd.h>\nint main(void) { setgid(0); return setuid(0) ? 9 : (int)sleep(3); }\n"
    subprocess.run([gcc, "-x", "c", "-", "-o", program], input=source.encode(), check=True)
    program.chmod(0o4755)
    os.chown(folder, NOBODY, NOBODY)
    run = [PROOFCOST, "run", "--store", str(folder / "store"), "--timeout", "1s", "--", str(program)]
    try:
        done = subprocess.run(
            run, user=NOBODY, group=NOBODY, extra_groups=[], cwd=folder, capture_output=True, check=False
        )
    except PermissionError:
        pytest.skip("another user cannot reach the checkout")
    if done.returncode == 9:
        pytest.skip("set-user-id programs are not honoured here")
    call = Wrapper(folder, folder, "").last()
    shutil.rmtree(folder)
    assert done.returncode == 0
    assert b"killed" not in done.stderr.replace(b"could not be killed", b"")
    assert call.outcome["kind"] == "timed_out"
    assert "ended by itself" in call.outcome["evidence"][-1]
    assert [fault["step"] for fault in call.faults] == ["time limit"]


def test_a_name_that_cannot_be_run_does_not_write_to_the_terminal(wrap: Wrapper) -> None:
    """What a name holds reaches a terminal only as text."""
    called = wrap.run("--", "./a\x1b[31m\nb")
    assert called.status == 127
    assert b"\x1b" not in called.stderr
    assert called.stderr.count(b"\n") == 1


@pytest.mark.guest
def test_a_dead_session_of_a_store_that_is_gone_leaves_no_cgroup(with_cgroups: None, wrap: Wrapper) -> None:
    """isolate 40: nothing of an old run lies about for good."""
    own = hierarchy.find_own()
    bases = {name: hierarchy.base_for(own, name) for name in hierarchy.wanted(own)}
    old, young = hierarchy.session_name("00000000feedf00d"), hierarchy.session_name("00000001feedf00d")
    made = [Path(base, name) for base in bases.values() for name in (old, young)]
    try:
        for path in made:
            path.mkdir()
            if path.name == old:
                os.utime(path, (1, 1))
        assert wrap.run("--", "/bin/true").status == 0
        assert [path.name for path in made if path.exists()] == [young] * len(bases)
    finally:
        for path in made:
            if path.exists():
                path.rmdir()


@pytest.mark.guest
def test_what_is_left_in_one_hierarchy_alone_is_taken_away(tmp_path: Path) -> None:
    """A meter killed between the removals of its cgroups: the next one that passes must see the second, too."""
    session, invocation = "0123456789abcdef", "18ecedb1b191eb9b-4000000-8a9f1ee8"
    folder = tmp_path / "store" / "sessions" / session
    folder.mkdir(parents=True)
    process = f'{{"meter_start_ticks":1,"pid_namespace":"{procfs.pid_namespace()}"}}'
    (folder / f"{invocation}.jsonl").write_text(f'{{"event":"started","process":{process}}}\n')
    base = {name: str(tmp_path / name) for name in (hierarchy.UNIFIED, hierarchy.MEMORY)}
    for path in base.values():
        Path(path).mkdir()
    left = Path(base[hierarchy.MEMORY], f"{hierarchy.PREFIX}.{session}.{invocation}")
    left.mkdir()
    settle.pass_by(str(tmp_path / "store"), session, base, False, "own")
    assert not left.exists()


def test_what_a_call_killed_with_its_meter_used_is_shown_where_it_is_known(
    with_cgroups: None, wrap: Wrapper, hostile: Hostile
) -> None:
    """runner-images 6680: what a killed call had used until then is in its row, since it is in the total."""
    checker = " ".join(wrap.command([hostile("burn"), "self", "60"], "checker"))
    killed = f"timeout -s KILL {4 if IN_GUEST else 2} {checker}"
    wrap.run("--", "/bin/sh", "-c", f"{killed}; sleep 0.1; {' '.join(wrap.command(['/bin/true']))}")
    _, call, _ = json.loads(shown(wrap, "--json"))["records"]
    assert call["state"] == "incomplete"
    assert call["measurements"]["cpu_tree"]["value"] > 100_000_000
    row = next(line for line in shown(wrap).splitlines() if "incomplete" in line)
    assert " ms" in row or " s " in row, row
