"""What is measured through a real bwrap: all of what runs in its namespaces, or nothing and why.

bwrap leaves without waiting for what ran in it, so neither wait status nor ru_maxrss know of it; a set-user-id bwrap
sheds counters and exec stamps as well, where its user is not root.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from calling import running, wait_for
from standin_lake import Call as LakeCall
from standin_lake import bwrap_arguments
from wrapped import IN_GUEST, PROOFCOST, Call, Recorded, Wrapper

from proofcost.adapters import launchers
from proofcost.harness import procfs

Hostile = Callable[[str], Path]

MIB = 1 << 20
BURNED_S = 0.8
FOUND_NS = 780_000_000
HELD_MIB = 200
SOMEBODY = 12345
"""Not nobody: namespaces show its number for users they do not know, and a set-user-id bwrap then waits for ever."""
AS_SOMEBODY = ("/usr/bin/setpriv", "--reuid", str(SOMEBODY), "--regid", str(SOMEBODY), "--clear-groups")
COUNTED = ("task_clock", "page_faults", "page_faults_major")

pytestmark = pytest.mark.real


def in_lake_s_sandbox(command: Sequence[object], *readable: object) -> list[str]:
    """bwrap's arguments as Lake writes them around a kernel."""
    call = LakeCall([str(word) for word in command], readable=[str(path) for path in readable], directory="/tmp")
    return bwrap_arguments(call, "/")


def called(
    wrap: Wrapper, bwrap: object, *arguments: object, via: Sequence[object] = (), stdin: bytes | None = None
) -> Call:
    """Through the `bwrap` launcher, in an empty environment."""
    launcher = wrap.launcher("bwrap", str(bwrap))
    command = [*map(str, via), "/usr/bin/env", "-i", str(launcher), *map(str, arguments)]
    done = subprocess.run(command, input=stdin or b"", capture_output=True, timeout=120, check=False, cwd="/")
    return Call(done.returncode, done.stdout, done.stderr, 0.0)


def burns_and_holds(hostile: Hostile, how: str) -> list[str]:
    """0.8 s of CPU and then 200 MiB, in children and grandchildren."""
    burn, memory = hostile("burn"), hostile("memory")
    script = f"{burn} {how} {BURNED_S}; {memory} grandchild {HELD_MIB} 400; exit 3"
    return in_lake_s_sandbox(["/bin/sh", "-c", script], burn.parent)


def assert_the_wait_status_is_no_figure(seen: Recorded) -> None:
    for name in ("cpu_waited", "cpu_waited_user", "io_read_bytes_waited", "io_write_bytes_waited"):
        assert seen.status(name) == "lower_bound", seen.figures[name]
        assert seen.figures[name]["reason"], name
    assert seen.value("cpu_waited") < FOUND_NS / 2 or IN_GUEST


@pytest.mark.parametrize("how", ["waited", "unwaited", "ignored", pytest.param("daemon", marks=pytest.mark.guest)])
def test_whole_tree_figures_hold_what_runs_in_other_namespaces(
    wrap: Wrapper, working_bwrap: Path, hostile: Hostile, how: str
) -> None:
    for _ in range(4):  # what bwrap leaves to the kernel to kill is seen dying on a busy machine, hardly four times
        assert called(wrap, working_bwrap, *burns_and_holds(hostile, how)).status == 3
        seen = wrap.last()
        assert seen.finished is not None
        left = seen.finished["stragglers"]["count"]
        if left == 0:
            break
    assert left == 0
    assert FOUND_NS <= seen.value("cpu_tree") < (20 if IN_GUEST else 1.6) * BURNED_S * 1e9
    assert seen.status("cpu_tree") == "measured"
    if seen.figures["memory_peak_tree"]["value"] is not None:
        assert seen.status("memory_peak_tree") == "measured"
        assert HELD_MIB * MIB <= seen.value("memory_peak_tree") < (HELD_MIB + 100) * MIB
    assert seen.value("task_clock") >= FOUND_NS, "counters follow into the namespaces"
    assert_the_wait_status_is_no_figure(seen)


def test_however_little_it_was_the_wait_status_is_no_figure(wrap: Wrapper, working_bwrap: Path) -> None:
    assert called(wrap, working_bwrap, *in_lake_s_sandbox(["/bin/true"])).status == 0
    assert_the_wait_status_is_no_figure(wrap.last())


@pytest.mark.parametrize("how", ["waited", "daemon"])
def test_without_a_cgroup_they_are_sampled_and_the_counters_lead(
    wrap: Wrapper, working_bwrap: Path, hostile: Hostile, how: str
) -> None:
    mine = wrap.with_options(cgroup="off")
    assert called(mine, working_bwrap, *burns_and_holds(hostile, how)).status == 3
    seen = mine.last()
    assert seen.figures["cpu_tree"]["value"] is None
    assert seen.value("task_clock") >= FOUND_NS
    assert "the counters saw more" in seen.figures["cpu_waited"]["reason"]
    assert_the_wait_status_is_no_figure(seen)
    assert seen.status("memory_peak_tree") == "sampled"
    assert seen.value("memory_peak_tree") >= HELD_MIB * MIB


def test_a_largest_process_that_nobody_saw_has_no_bound(wrap: Wrapper, working_bwrap: Path, hostile: Hostile) -> None:
    """It ends before the first sample, and ru_maxrss is bwrap's own: not `at most` anything."""
    memory = hostile("memory")
    assert called(wrap, working_bwrap, *in_lake_s_sandbox([memory, "alone", 60, 0], memory.parent)).status == 0
    figure = wrap.last().figures["memory_peak_process"]
    if figure["value"] is None:
        assert "at most" not in figure["reason"]
        assert "wait" in figure["reason"]
    else:
        assert figure["status"] in ("sampled", "lower_bound"), figure


def test_a_table_without_cgroups_shows_what_the_counters_saw(
    wrap: Wrapper, working_bwrap: Path, hostile: Hostile
) -> None:
    from proofcost.harness.reading import read_store
    from proofcost.reports.figures import cpu

    mine = wrap.with_options(cgroup="off")
    called(mine, working_bwrap, *burns_and_holds(hostile, "waited"))
    [record] = read_store(mine.store).records
    shown = cpu(record).shown
    assert shown is not None
    assert (shown.name, (shown.value or 0) >= FOUND_NS) == ("task_clock", True)


@pytest.mark.guest
def test_the_program_is_timed_from_its_own_exec(wrap: Wrapper, working_bwrap: Path) -> None:
    assert called(wrap, working_bwrap, *in_lake_s_sandbox(["/bin/sleep", "0.3"])).status == 0
    seen = wrap.last()
    assert 300_000_000 <= seen.value("wall_program") < (10 if IN_GUEST else 0.5) * 1e9
    assert seen.value("sandbox_startup") > 0
    assert seen.value("wall_command") == seen.value("wall_program") + seen.value("sandbox_startup")
    assert seen.finished is not None
    assert seen.finished["exec_stamps"]["names"] == ["bwrap", "sleep"]
    assert seen.started["sandbox"]["kind"] == "bwrap"
    assert seen.started["sandbox"]["path"] == str(working_bwrap)


@pytest.mark.parametrize("script", ["exit 0", "exit 1", "exit 2", "exit 125", "kill -9 $$", "kill -SEGV $$"])
def test_status_and_streams_are_as_without_us(wrap: Wrapper, working_bwrap: Path, script: str) -> None:
    arguments = in_lake_s_sandbox(["/bin/sh", "-c", f"cat; echo said >&2; {script}"])
    bare = subprocess.run([working_bwrap, *arguments], input=b"\0\xffin", capture_output=True, check=False, env={})
    seen = called(wrap, working_bwrap, *arguments, stdin=b"\0\xffin")
    assert (seen.status, seen.stdout, seen.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert (bare.stdout, bare.stderr[:5]) == (b"\0\xffin", b"said\n")
    assert wrap.last().outcome["code"] == bare.returncode


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option", "--", "/bin/true"],
        ["--ro-bind", "/nonexistent/path", "/x", "--", "/bin/true"],
        ["--ro-bind", "/", "/", "--", "/nonexistent/program"],
        ["--ro-bind", "/"],
        [],
    ],
    ids=["unknown option", "missing path", "missing program", "lacks a word", "nothing"],
)
def test_a_bwrap_that_refuses_is_no_rejection(wrap: Wrapper, working_bwrap: Path, arguments: list[str]) -> None:
    bare = subprocess.run([working_bwrap, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    seen = called(wrap, working_bwrap, *arguments)
    assert (seen.status, seen.stdout, seen.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert bare.returncode == 1
    record = wrap.last()
    assert record.started["phase"]["understood"] == "unknown"
    assert record.figures["wall_program"]["value"] is None
    if "--" in arguments:
        assert record.outcome["cause"] == "sandbox_setup_failed"


def test_arguments_by_descriptor_are_left_to_bwrap(wrap: Wrapper, working_bwrap: Path) -> None:
    """They are read once, by it: a byte taken by us would be missing there."""
    reader, writer = os.pipe()
    os.write(writer, b"--ro-bind\0/\0/\0--unshare-all\0")
    os.close(writer)
    launcher = wrap.launcher("bwrap", str(working_bwrap))
    command = [str(launcher), "--args", str(reader), "--", "/bin/sh", "-c", "exit 7"]
    assert subprocess.run(command, pass_fds=[reader], env={}, check=False).returncode == 7
    os.close(reader)
    seen = wrap.last()
    assert (seen.started["phase"]["understood"], seen.started["target"]["sha256"]) == ("unknown", None)
    assert [fault["what"] for fault in seen.faults] == [
        f"bwrap reads more options from descriptor {reader}, which are not seen here"
    ]
    assert seen.value("wall_program") > 0


def test_a_program_that_is_another_file_inside_goes_with_its_own_digest(wrap: Wrapper, working_bwrap: Path) -> None:
    command = ["--ro-bind", "/", "/", "--ro-bind", "/bin/false", "/bin/true", "--", "/bin/true"]
    assert called(wrap, working_bwrap, *command).status == 1
    target = wrap.last().started["target"]
    assert (target["name"], target["path"]) == ("true", "/bin/false")


def dies_with_its_meter(wrap: Wrapper, bwrap: Path, via: Sequence[object] = ()) -> None:
    """SIGKILL the meter: whoever kills its child means the command."""
    call = LakeCall(["/bin/sh", "-c", "echo up; exec sleep 60"], directory="/tmp")
    launcher = str(wrap.launcher("bwrap", str(bwrap)))
    command = [*map(str, via), "/usr/bin/env", "-i", launcher, *bwrap_arguments(call, "/")]
    with running(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        tree = procfs.tree_of(started.pid)
        assert len(tree) >= 4, "meter, bwrap, its init, the program"
        started.kill()
        wait_for(lambda: not any(map(alive, tree[1:])), "the end of the sandbox")
    assert wrap.records()[-1].finished is None


def alive(pid: int) -> bool:
    seen = procfs.parent_and_start(pid)
    return seen is not None and procfs.is_running(pid, seen[1])


def test_a_sandbox_dies_with_its_meter(wrap: Wrapper, working_bwrap: Path) -> None:
    dies_with_its_meter(wrap, working_bwrap)


# A set-user-id bwrap: the kernel drops counters and stamps of other users than root.


@pytest.fixture
def wrap_as_somebody(as_root: None, meter_tree: Path, open_folder: Path) -> Iterator[Wrapper]:
    """Calls through a launcher with a store that another user owns."""
    folder = Path(tempfile.mkdtemp(prefix="somebody-", dir=open_folder))
    os.chown(folder, SOMEBODY, SOMEBODY)
    yield Wrapper(folder, meter_tree, launchers.choose_interpreter())
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def setuid_bwrap(working_bwrap: Path, open_folder: Path) -> Path:
    """A copy of bwrap that runs as root whoever starts it."""
    copy = open_folder / "setuid-bwrap"
    if os.statvfs(open_folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"{open_folder} is mounted nosuid: the bit means nothing there")
    shutil.copy(working_bwrap, copy)
    copy.chmod(0o4755)
    return copy


def around(wrap: Wrapper, bwrap: Path, how: str) -> Path:
    if how == "itself":
        return bwrap
    script = wrap.folder / "around-bwrap"
    ends = 'exec BWRAP "$@"' if how == "behind exec" else 'BWRAP "$@"; exit $?'
    script.write_text(f"#!/bin/sh\n{ends.replace('BWRAP', str(bwrap))}\n")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("how", ["itself", "behind exec", "behind a script"])
def test_a_setuid_bwrap_leaves_no_truncated_figure(
    wrap_as_somebody: Wrapper, setuid_bwrap: Path, hostile: Hostile, how: str
) -> None:
    wrap = wrap_as_somebody
    bwrap = around(wrap, setuid_bwrap, how)
    seen_status = called(wrap, bwrap, *burns_and_holds(hostile, "waited"), via=AS_SOMEBODY).status
    assert seen_status == 3
    seen = wrap.last()
    assert seen.started["process"]["uid"] == SOMEBODY
    assert seen.outcome["cause"] == "completed", "that the program was not seen is no proof that it was not reached"
    for name in (*COUNTED, "wall_program", "sandbox_startup"):
        figure = seen.figures[name]
        assert figure["value"] is None, (name, figure)
        if seen.finished is not None and seen.finished["exec_stamps"]["reason"] is None:
            assert "set-user-id" in figure["reason"], (name, figure)
            assert "setuid-bwrap" in figure["reason"], (name, figure)
    assert seen.value("wall_command") >= FOUND_NS
    if seen.figures["cpu_tree"]["value"] is None:
        assert_the_wait_status_is_no_figure(seen)
        assert seen.status("memory_peak_tree") == "sampled"
    assert seen.value("memory_peak_tree") >= HELD_MIB * MIB


def test_a_setuid_sandbox_dies_with_its_meter_too(wrap_as_somebody: Wrapper, setuid_bwrap: Path) -> None:
    """The kernel forgets what we asked for at such an exec; bwrap itself asks again."""
    dies_with_its_meter(wrap_as_somebody, setuid_bwrap, AS_SOMEBODY)


def test_as_root_it_sheds_nothing(as_root: None, wrap: Wrapper, setuid_bwrap: Path) -> None:
    assert called(wrap, setuid_bwrap, *in_lake_s_sandbox(["/bin/sleep", "0.1"])).status == 0
    seen = wrap.last()
    assert seen.status("task_clock") == "measured"
    assert seen.value("wall_program") >= 100_000_000


def test_nor_where_the_bit_means_nothing(wrap_as_somebody: Wrapper, setuid_bwrap: Path) -> None:
    """no_new_privs: it is an ordinary bwrap then, and counters and stamps follow."""
    plain = subprocess.run([*AS_SOMEBODY, "--no-new-privs", setuid_bwrap, "--ro-bind", "/", "/", "true"], check=False)
    if plain.returncode != 0:
        pytest.skip("no namespaces for users here")
    via = (*AS_SOMEBODY, "--no-new-privs")
    assert called(wrap_as_somebody, setuid_bwrap, *in_lake_s_sandbox(["/bin/sleep", "0.1"]), via=via).status == 0
    seen = wrap_as_somebody.last()
    assert seen.status("task_clock") == "measured"
    assert seen.value("wall_program") >= 100_000_000


def test_the_whole_around_a_setuid_bwrap_says_what_its_counters_lack(
    wrap_as_somebody: Wrapper, setuid_bwrap: Path, hostile: Hostile
) -> None:
    wrap = wrap_as_somebody
    judge = wrap.folder / "judge"
    quoted = " ".join(f"'{word}'" for word in burns_and_holds(hostile, "waited"))
    judge.write_text(f'#!/bin/sh\n"$COMPARATOR_BWRAP" {quoted}\n')
    judge.chmod(0o755)
    variables = [f"COMPARATOR_BWRAP={setuid_bwrap}", f"TMPDIR={wrap.folder}", "PATH=/usr/bin:/bin"]
    own = [PROOFCOST, "run", "--store", str(wrap.store), "--", str(judge)]
    done = subprocess.run([*AS_SOMEBODY, "env", *variables, *own], capture_output=True, check=False, cwd=wrap.folder)
    if b"Permission denied" in done.stderr:
        pytest.skip("this checkout cannot be entered by another user")
    assert done.returncode == 3, done
    whole, call = wrap.records()
    for name in COUNTED:
        if whole.figures[name]["value"] is not None:
            assert whole.status(name) == "lower_bound", whole.figures[name]
            assert "bwrap" in whole.figures[name]["reason"]
        assert call.figures[name]["value"] is None
