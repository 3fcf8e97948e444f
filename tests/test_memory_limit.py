"""A memory limit: who was killed, by whose limit, and the meter that tells of it still alive."""

from collections.abc import Callable
from pathlib import Path

import pytest
from wrapped import IN_GUEST, Wrapper, own_cgroups

from proofcost.harness import hierarchy

Hostile = Callable[[str], Path]
MIB = 1 << 20
OOM_KILLED = 137

pytestmark = pytest.mark.guest


@pytest.fixture(autouse=True)
def can_limit(as_root: None) -> None:
    dirs = own_cgroups()
    if hierarchy.MEMORY not in dirs and not IN_GUEST:
        pytest.skip("no memory controller to limit with here")


def killed_evidence(evidence: list[str]) -> str:
    lines = [line for line in evidence if "killed for memory" in line]
    assert len(lines) == 1, evidence
    return lines[0]


def test_a_judge_beyond_its_limit_is_killed_and_the_meter_tells(wrap: Wrapper, hostile: Hostile) -> None:
    called = wrap.run("--memory", "200Mi", "--", hostile("memory"), "alone", 1000, 0)
    assert called.status == -9  # `run` dies as the judge died
    whole = wrap.last()
    assert (whole.outcome["kind"], whole.outcome["signal"]) == ("signaled", 9)
    assert whole.outcome["cause"] == "memory_limit"
    line = killed_evidence(whole.outcome["evidence"])
    assert f"proofcost-{whole.started['session']}" in line  # the limit is this session's own
    assert 190 * MIB <= whole.value("memory_peak_tree") <= 201 * MIB
    assert whole.started["limits"]["memory_limit_bytes"] == 200 * MIB
    assert whole.started["limits"]["cgroup_memory_bytes"]["value"] == 200 * MIB
    assert wrap.left_cgroups() == []


def test_a_grandchild_killed_for_memory_is_told_though_its_parent_survives(wrap: Wrapper, hostile: Hostile) -> None:
    called = wrap.run("--memory", "200Mi", "--", hostile("memory"), "grandchild", 1000, 0)
    assert called.status == 0
    whole = wrap.last()
    assert (whole.outcome["kind"], whole.outcome["code"], whole.outcome["cause"]) == ("exited", 0, "completed")
    assert "1 process(es) of the tree" in killed_evidence(whole.outcome["evidence"])
    assert whole.value("memory_peak_tree") >= 190 * MIB


def test_a_judge_within_its_limit_is_left_alone(wrap: Wrapper, hostile: Hostile) -> None:
    assert wrap.run("--memory", "400Mi", "--", hostile("memory"), "alone", 100, 0).status == 0
    outcome = wrap.last().outcome
    assert outcome["cause"] == "completed"
    assert not any("killed for memory" in line for line in outcome["evidence"])


def test_a_call_killed_by_the_runs_limit_knows_it_itself(wrap: Wrapper, hostile: Hostile) -> None:
    """The judge calls a checker through a launcher; the limit stands on the session, above both."""
    checker = " ".join(wrap.command([hostile("memory"), "alone", "1000", "0"], "checker"))
    called = wrap.run("--memory", "200Mi", "--", "/bin/sh", "-c", f"{checker}; echo status $?; exit 1")
    assert called.stdout == b"status %d\n" % OOM_KILLED
    assert called.status == 1
    whole, call = wrap.records()
    assert whole.started["phase"]["understood"] == "whole"
    assert call.started["session"] == whole.started["session"]
    assert (call.outcome["kind"], call.outcome["signal"], call.outcome["cause"]) == ("signaled", 9, "memory_limit")
    assert f"proofcost-{whole.started['session']}" in killed_evidence(call.outcome["evidence"])
    assert 190 * MIB <= call.value("memory_peak_tree") <= 201 * MIB
    assert wrap.left_cgroups() == []


def test_a_limit_that_cannot_be_had_starts_nothing(wrap: Wrapper) -> None:
    called = wrap.run("--memory", "200Mi", "--cgroup", "off", "--", "/bin/sh", "-c", "echo ran")
    assert called.status == 2
    assert called.stdout == b""
    assert b"--memory" in called.stderr
    assert wrap.records() == []


def test_a_killed_call_without_oom_is_not_blamed_on_memory(wrap: Wrapper) -> None:
    assert wrap("/bin/sh", "-c", "kill -9 $$").status == OOM_KILLED
    outcome = wrap.last().outcome
    assert (outcome["kind"], outcome["signal"], outcome["cause"]) == ("signaled", 9, "killed_cause_unknown")


@pytest.mark.parametrize("swap_as_well", [False, True], ids=["memory", "memory and swap equal"])
def test_a_limit_above_is_named_as_what_it_is(wrap: Wrapper, hostile: Hostile, swap_as_well: bool) -> None:
    """A container's or a unit's limit: not ours, and seen all the same. The second is Docker's default."""
    dirs = own_cgroups()
    home = dirs.get(hierarchy.MEMORY) or dirs[hierarchy.UNIFIED].parent
    above = home / "limited-by-somebody"
    above.mkdir()
    try:
        v1 = hierarchy.MEMORY in dirs
        if v1:
            inner = above
            (above / "memory.limit_in_bytes").write_text(str(150 * MIB))
            together = above / "memory.memsw.limit_in_bytes"
            if swap_as_well and together.exists():
                together.write_text(str(150 * MIB))
        else:
            (above / "memory.max").write_text(str(150 * MIB))
            if swap_as_well and (above / "memory.swap.max").exists():
                (above / "memory.swap.max").write_text("0")
            (above / "cgroup.subtree_control").write_text("+memory")
            inner = above / "leaf"
            inner.mkdir()
        script = f'echo $$ >{inner}/cgroup.procs && "$@"; echo status $?'
        called = wrap(hostile("memory"), "alone", 600, 0, via=("/bin/sh", "-c", script, "sh"))
        assert called.stdout == b"status %d\n" % OOM_KILLED
        call = wrap.last()
        assert call.outcome["cause"] == "memory_limit"
        assert "limited-by-somebody" in killed_evidence(call.outcome["evidence"])
        assert call.started["limits"]["cgroup_memory_bytes"]["value"] == 150 * MIB
        assert wrap.left_cgroups() == []
    finally:
        for folder in (above / "leaf", above):
            if folder.exists():
                folder.rmdir()
