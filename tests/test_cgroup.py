"""Cgroups of ours: made, entered, killed, taken away, and their CPU quota above seen."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wrapped import IN_GUEST, Wrapper, own_cgroups

from proofcost.harness import cgroup, hierarchy, signals, whole
from proofcost.harness.hierarchy import CPU, MEMORY, UNIFIED
from proofcost.harness.plan import Plan

TOTAL = {True: "throttled_time", False: "throttled_usec"}

Hostile = Callable[[str], Path]


@pytest.fixture
def home(as_root: None) -> dict[str, Path]:
    """{hierarchy: a directory where cgroups may be made}."""
    own = hierarchy.find_own()
    found = {name: Path(hierarchy.base_for(own, name)) for name in hierarchy.wanted(own)}
    if UNIFIED not in found:
        pytest.skip("no cgroup v2 here")
    return found


@pytest.fixture
def group(home: dict[str, Path]) -> Iterator[cgroup.Group]:
    made = cgroup.Group("hybrid" if MEMORY in home else "v2")
    made.make({name: str(path) for name, path in home.items()}, f"proofcost-test-{os.getpid()}")
    yield made
    made.kill()
    made.wait_empty(1_000_000_000)
    made.close_entries()
    assert made.remove(whole=True)


def start_in(group: cgroup.Group, *command: str) -> subprocess.Popen[bytes]:
    def enter() -> None:
        for directory in group.dirs.values():
            (Path(directory) / "cgroup.procs").write_text("0")

    return subprocess.Popen(command, preexec_fn=enter)


@pytest.mark.guest
def test_what_is_inside_is_listed_at_any_depth_and_killed(group: cgroup.Group) -> None:
    first = start_in(group, "/bin/sleep", "300")
    deeper = Path(group.dirs[UNIFIED]) / "deeper"
    deeper.mkdir()
    second = start_in(group, "/bin/sleep", "300")
    (deeper / "cgroup.procs").write_text(str(second.pid))
    assert set(group.pids()) == {first.pid, second.pid}
    assert group.wait_empty(1) != []
    group.kill()
    assert {first.wait(), second.wait()} == {-9}
    assert group.wait_empty(5_000_000_000) == []
    assert group.remove() is False  # one made it not
    assert group.remove(whole=True) is True


def test_without_cgroup_kill_the_first_is_killed_first(group: cgroup.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = [start_in(group, "/bin/sleep", "300") for _ in range(3)]
    killed: list[int] = []
    real = os.kill

    def kill(pid: int, number: int) -> None:
        killed.append(pid)
        real(pid, number)

    monkeypatch.setattr(os, "kill", kill)
    without = cgroup.Group(group.kind)
    without.dirs = {"other": group.dirs[UNIFIED]}
    without.kill(inside[2].pid)
    assert killed[0] == inside[2].pid
    assert {process.wait() for process in inside} == {-9}


def test_what_cannot_be_made_is_left_out_with_its_reason(tmp_path: Path) -> None:
    made = cgroup.Group("v2")
    made.make({UNIFIED: str(tmp_path / "missing"), MEMORY: str(tmp_path)}, "x")
    assert made.dirs == {MEMORY: str(tmp_path / "x")}
    assert made.reasons == {UNIFIED: f"no cgroup below {tmp_path}/missing: No such file or directory"}


def test_a_directory_that_is_gone_is_removed(tmp_path: Path) -> None:
    made = cgroup.Group("v2")
    made.make({UNIFIED: str(tmp_path)}, "x")
    (tmp_path / "x").rmdir()
    assert made.remove()
    assert made.dirs == {}


def test_leftovers_are_what_bears_the_name(tmp_path: Path) -> None:
    for name in ("proofcost.a.b", "proofcost-s", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "proofcost.file").touch()
    assert cgroup.left_over(str(tmp_path), "proofcost.") == ["proofcost.a.b"]
    assert cgroup.left_over(str(tmp_path / "missing"), "") == []


@pytest.mark.guest
def test_a_quota_above_shows_in_what_disturbed_the_run(as_root: None, wrap: Wrapper, hostile: Hostile) -> None:
    dirs = own_cgroups()
    if CPU in dirs:
        above = inner = dirs[CPU] / "slowed-by-somebody"
        above.mkdir()
        (above / "cpu.cfs_quota_us").write_text("20000")
    elif IN_GUEST:
        above = dirs[UNIFIED].parent / "slowed-by-somebody"
        inner = above / "leaf"
        inner.mkdir(parents=True)
        (above / "cpu.max").write_text("20000 100000")
    else:
        pytest.skip("no cpu controller to slow down with")
    try:
        script = f'echo $$ >{inner}/cgroup.procs && exec "$@"'
        assert wrap(hostile("burn"), "self", 0.2, via=("/bin/sh", "-c", script, "sh")).status == 0
        seen = wrap.last()
        assert seen.finished is not None
        throttled = seen.finished["host_disturbance"]["throttled"]
        assert throttled["value"] > 50_000_000, throttled
        assert seen.started["limits"]["cgroup_cpu"]["value"] == {"numerator": 20000, "denominator": 100000}
        # What was held back before this call is not this call's.
        assert wrap("/bin/true", via=("/bin/sh", "-c", script, "sh")).status == 0
        second = wrap.last()
        assert second.finished is not None
        total = int(dict(line.split() for line in (above / "cpu.stat").read_text().splitlines())[TOTAL[CPU in dirs]])
        assert second.finished["host_disturbance"]["throttled"]["value"] < total * (1 if CPU in dirs else 1000)
        assert second.finished["host_disturbance"]["throttled"]["value"] + throttled["value"] <= total * (
            1 if CPU in dirs else 1000
        )
        wrap("/bin/true")
        free = wrap.last()
        assert free.finished is not None
        assert free.finished["host_disturbance"]["throttled"]["value"] == 0
    finally:
        for folder in {inner: None, above: None}:
            folder.rmdir()


def test_a_session_forgets_the_hierarchy_that_its_judge_could_not_enter(tmp_path: Path) -> None:
    """Else an empty cgroup's 0 would be told as what the whole session used there."""
    one = whole.Whole(Plan(["/bin/true"], "run"), signals.Inherited())
    one.around, one.group = cgroup.Group("hybrid"), cgroup.Group("hybrid")
    for name in (UNIFIED, MEMORY):
        (tmp_path / name / "whole").mkdir(parents=True)
        one.around.dirs[name] = str(tmp_path / name)
        one.group.dirs[name] = str(tmp_path / name / "whole")
    one.child.refused = [UNIFIED]
    one._after_start()
    assert one.around.dirs == {MEMORY: str(tmp_path / MEMORY)}
    assert one.group.dirs == {MEMORY: str(tmp_path / MEMORY / "whole")}
    assert "could not enter" in one.around.reasons[UNIFIED]
    assert not (tmp_path / UNIFIED).exists()
