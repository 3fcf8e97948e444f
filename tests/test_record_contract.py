"""Whatever was called in whatever way: its record is valid, complete, and says only what docs/record.md names."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from wrapped import NOBODY, REPO, Recorded, Wrapper

from proofcost.harness import reading

DOCUMENT = (REPO / "docs" / "record.md").read_text("utf-8")
INT64 = 1 << 63


def documented_names() -> dict[str, str]:
    """Name of a measurement -> its unit, by docs/record.md."""
    section = DOCUMENT.split("## Names of measurements")[1]
    found: dict[str, str] = {}
    for names, units in re.findall(r"^\| (`.*?`) \| ([a-z, ]+) \|", section, re.M):
        named = re.findall(r"`([^`]+)`", names)
        each = [unit.strip() for unit in units.split(",")]
        found.update(zip(named, each * len(named) if len(each) == 1 else each, strict=True))
    assert len(found) >= 30
    return found


def numbers(value: object, where: str = "") -> list[tuple[str, object]]:
    """Every number in an event, with its place."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in numbers(inner, f"{where}.{key}")]
    if isinstance(value, list):
        return [found for at, inner in enumerate(value) for found in numbers(inner, f"{where}[{at}]")]
    return [(where, value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def check(seen: Recorded, whole: bool = False) -> None:
    """What holds for every complete record. (The schema was held to it when it was read.)"""
    assert seen.finished is not None
    names = documented_names()
    expected = {name for name in names if whole or not name.endswith("judge_self")}
    assert set(seen.figures) == expected
    for name, figure in seen.figures.items():
        assert figure["unit"] == names[name], name
        assert (figure["value"] is None) == (figure["status"] == "unavailable"), (name, figure)
        assert figure["method"], name
        if figure["status"] not in ("measured", "derived"):
            assert figure["reason"], (name, figure)
        if figure["value"] is not None:
            assert figure["value"] >= 0, (name, figure)
        if "running_ns" in figure and figure["value"] is not None:
            assert 0 < figure["running_ns"] == figure["enabled_ns"], (name, figure)
    for event in (seen.started, seen.finished):
        for where, number in numbers(event):
            assert isinstance(number, int), f"{where}: {number!r} is no integer"
            assert -INT64 <= number < INT64, f"{where}: {number}"
    assert seen.finished["session"] == seen.started["session"]
    assert seen.finished["clocks"]["monotonic_ns"] >= seen.started["clocks"]["monotonic_ns"]
    assert seen.finished["outcome"]["evidence"]
    cost = seen.finished["meter_cost"]
    assert cost["before_ns"] > 0
    assert cost["after_ns"] > 0
    assert 4 << 20 < cost["memory_peak_bytes"] < 60 << 20
    disturbed = seen.finished["host_disturbance"]
    row = next(line for line in DOCUMENT.splitlines() if line.startswith("| `host_disturbance`"))
    assert set(disturbed) == set(re.findall(r"`(\w+)`", row)) - {"host_disturbance"}


SHAPES: dict[str, Callable[[Wrapper], object]] = {
    "ok": lambda wrap: wrap("/bin/true"),
    "fails": lambda wrap: wrap("/bin/sh", "-c", "exit 101", phase="checker"),
    "killed": lambda wrap: wrap("/bin/sh", "-c", "kill -9 $$"),
    "crashed": lambda wrap: wrap("/bin/sh", "-c", "kill -SEGV $$"),
    "not found": lambda wrap: wrap("/nonexistent/program"),
    "not executable": lambda wrap: wrap("/etc/passwd"),
    "a folder": lambda wrap: wrap("/etc"),
    "an odd phase": lambda wrap: wrap("/bin/true", phase='solution "export" \\ é'),
    "odd arguments": lambda wrap: wrap("/bin/true", os.fsdecode(b"\xff\xed\xa0\x80\\x41\n\x7f"), "", "é"),
    "many arguments": lambda wrap: wrap("/bin/true", *["x" * 1000] * 60),
    "no cgroup": lambda wrap: wrap.with_options(cgroup="off")("/bin/true"),
    "long enough to sample": lambda wrap: wrap("/bin/sleep", "0.25"),
    "a straggler": lambda wrap: wrap("/bin/bash", "-c", "setsid sleep 1 </dev/null >/dev/null 2>&1 & exit 0"),
    "no environment": lambda wrap: wrap("/bin/true", env={}),
    "through a wrapper": lambda wrap: wrap("/bin/true", via=("/usr/bin/env", "A=b", "nice", "timeout", "50")),
}


def all_records(folder: Path) -> list[Recorded]:
    found: list[Recorded] = []
    for store in folder.rglob("store"):
        found += Wrapper(store.parent, store, "").records()
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_call_leaves_a_record_that_is_valid_and_whole(wrap: Wrapper, shape: str) -> None:
    SHAPES[shape](wrap)
    (seen,) = all_records(wrap.folder)
    check(seen)
    for store in wrap.folder.rglob("store"):
        assert reading.read_store(store).problems == ()


@pytest.mark.real
def test_calls_under_a_real_landrun(wrap: Wrapper, landrun: Path) -> None:
    work = wrap.folder / "work"
    work.mkdir()
    sandbox = [landrun, "--best-effort", "--rox", "/", "--rw", "/dev", "--rw", work]
    wrap(*sandbox, "--", "/bin/sh", "-c", "exit 2", phase="checker")
    wrap(*sandbox, "--", "/nonexistent", phase="export")
    shim = wrap.launcher("landrun", str(landrun))
    Wrapper._call(wrap, [str(shim), *map(str, sandbox[1:]), "--", "/bin/true"], None, 60, None)
    records = wrap.records()
    assert [one.started["meter"]["entrance"] for one in records] == ["phase", "phase", "landrun"]
    for one in records:
        check(one)
        assert one.started["sandbox"]["kind"] == "landrun"
        assert one.started["sandbox"]["writable"] == ["/dev", str(work)]
        assert one.figures["disk_free_min"]["value"] is not None


@pytest.mark.real
def test_a_call_under_a_real_bwrap(wrap: Wrapper, bwrap: Path) -> None:
    work = wrap.folder / "work"
    work.mkdir()
    wrap(bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--bind", work, work, "--", "/bin/true")
    seen = wrap.last()
    check(seen)
    assert seen.started["sandbox"]["writable"] == [str(work)]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--", "/bin/true"], 0),
        (["-l", "a=b", "--label", "é\\=c", "--timeout", "50s", "--", "/bin/sh", "-c", "exit 9"], 9),
        (["--cgroup", "off", "--", "/bin/true"], 0),
        (["--shims", "none", "--", "/bin/sh", "-c", "kill -TERM $$"], -15),
        (["--shims", "path", "--", "/nonexistent"], 127),
        (["--timeout", "200ms", "--", "/bin/sleep", "50"], -9),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_judge_of_its_own(wrap: Wrapper, arguments: list[str], status: int) -> None:
    assert wrap.run(*arguments).status == status
    seen = wrap.last()
    check(seen, whole=True)
    assert seen.started["phase"] == {"given": None, "understood": "whole", "known_by": "run"}
    assert seen.started["session_known_by"] in ("run", "baked")


def test_a_call_in_a_judge_belongs_to_it(wrap: Wrapper) -> None:
    call = " ".join(wrap.command(["/bin/true"]))
    assert wrap.run("-l", "k=v", "--", "/bin/sh", "-c", f"{call}; {call}").status == 0
    whole, first, second = wrap.records()
    check(whole, whole=True)
    for one in (first, second):
        check(one)
        assert one.started["session"] == whole.started["session"]
        assert one.started["session_known_by"] == "run"
    # The whole adds up its calls and the judge itself.
    for figure in ("cpu_tree", "task_clock"):
        assert whole.value(figure) >= first.value(figure) + second.value(figure)
    assert whole.value("cpu_judge_self") <= whole.value("cpu_tree")
    assert whole.value("cpu_tree") >= whole.value("cpu_judge_self") + first.value("cpu_tree")
    assert whole.value("wall_command") > first.value("wall_command") + second.value("wall_command")


def test_another_user_leaves_the_same_shape(wrap_as_nobody: Wrapper) -> None:
    wrap_as_nobody("/bin/true", via=("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"))
    seen = wrap_as_nobody.last()
    check(seen)
    assert seen.started["trust"] == "user"


def test_what_never_started_has_not_one_number(wrap: Wrapper) -> None:
    assert wrap("/nonexistent/program").status == 127
    seen = wrap.last()
    assert {figure["value"] for figure in seen.figures.values()} == {None}
    assert {figure["reason"] for figure in seen.figures.values()} == {"the command was not started"}
    assert seen.outcome["kind"] == seen.outcome["cause"] == "not_started"
    assert seen.outcome["errno"] == 2


def test_two_methods_of_one_thing_agree_on_an_ordinary_command(wrap: Wrapper) -> None:
    """/bin/true: the cgroup's peak and the process's are both there or say why, never one for the other."""
    wrap("/usr/bin/python3", "-ISc", "x = bytearray(b'1') * (60 << 20); sum(range(3_000_000))")
    seen = wrap.last()
    assert abs(seen.value("cpu_waited") - seen.value("cpu_tree")) < 0.05 * seen.value("cpu_tree") + 5_000_000
    assert seen.value("memory_peak_process") > 60 << 20
    assert seen.figures["memory_peak_tree"]["method"] != seen.figures["memory_peak_process"]["method"]
    assert seen.value("wall_command") > 0.9 * (seen.value("cpu_tree") - 5_000_000)
