"""The `timer` entrance: what a timer prints reaches its caller as it was, and what it says of itself is kept apart."""

import io
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from calling import Ended, Wrap, call, shared_tree
from rich.console import Console
from wrapped import problems

from proofcost.adapters.kernel_timing import LINES_MAX, PREFIX
from proofcost.harness.reading import read_store
from proofcost.reports.fields import render_invocation
from proofcost.reports.table import render

SOUND: dict[str, Any] = {
    "measurement_contract": "kernel-replay-v2",
    "boundary": "full-closure-replay-v1",
    "target": None,
    "wall_ns": 1_000_000,
    "instructions": None,
    "peak_rss_kb": None,
    "phase": "complete",
}


def line(**changes: Any) -> str:
    return PREFIX.decode() + json.dumps({**SOUND, **changes})


@pytest.fixture
def wrap(tmp_path: Path) -> Wrap:
    return Wrap(tmp_path / "w", shared_tree())


def timed(wrap: Wrap, script: str, **more: Any) -> Ended:
    """Call a timer that is this shell script, bare and then through us; both must look alike to the caller."""
    timer = wrap.folder.parent / "timer-kernel"
    timer.write_text(f"#!/bin/sh\n{script}\n")
    timer.chmod(0o755)
    bare = call([str(timer), "export.ndjson"], wrap.folder.parent / "bare", **more)
    ended = call([wrap.launcher("timer", str(timer)), "export.ndjson"], wrap.folder.parent / "streams", **more)
    assert (ended.code, ended.stdout, ended.stderr) == (bare.code, bare.stdout, bare.stderr)
    return ended


def finished(wrap: Wrap) -> dict[str, Any]:
    [kept] = wrap.records()
    assert problems(kept["finished"]) == []
    return kept["finished"]


def test_a_region_is_recorded_as_the_program_s_own_word(wrap: Wrap) -> None:
    said = f"echo before\nsleep 0.02\ncat <<'END'\n{line(target='Foo.bar')}\nEND\nprintf 'after, without an end'"
    ended = timed(wrap, said)
    assert ended.stdout == f"before\n{line(target='Foo.bar')}\nafter, without an end".encode()
    event = finished(wrap)
    figures = event["measurements"]
    assert figures["wall_region"] == {
        "value": 1_000_000,
        "unit": "ns",
        "method": "reported by the program (KERNEL_TIMING, full-closure-replay-v1)",
        "status": "measured",
        "reason": None,
    }
    assert figures["wall_command"]["value"] > 20_000_000
    assert figures["instructions_region"]["reason"] == "the program did not report it"
    assert event["regions"]["count"] == 1
    assert event["regions"]["lines"][0]["target"] == "Foo.bar"
    assert event["regions"]["contradictions"] == []
    assert event["relay"]["passed_bytes"] == len(ended.stdout)
    started = wrap.records()[0]["started"]
    assert started["phase"] == {"given": None, "understood": "checker", "known_by": "argv"}
    assert started["kernel"]["name"] == "timer-kernel"
    assert started["meter"]["entrance"] == "timer"


def test_a_region_longer_than_its_program_is_contradicted(wrap: Wrap) -> None:
    timed(wrap, f"echo '{line(wall_ns=60_000_000_000)}'")
    event = finished(wrap)
    assert event["measurements"]["wall_region"]["status"] == "contradicted"
    assert "a part of it cannot have taken 60000000000" in event["regions"]["contradictions"][0]
    assert event["measurements"]["wall_command"]["status"] == "measured"


def test_memory_that_no_process_of_it_had_is_contradicted(wrap: Wrap) -> None:
    hog = "x=$(head -c 60000000 /dev/zero | tr '\\0' x)"
    timed(wrap, f"{hog}\necho '{line(peak_rss_kb=2_000_000)}'")
    event = finished(wrap)
    assert event["measurements"]["memory_peak_process"]["status"] == "measured", event["measurements"]
    assert event["measurements"]["memory_peak_region"]["status"] == "contradicted"


def test_a_flood_of_lines_is_bounded_and_passes_whole(wrap: Wrap) -> None:
    ended = timed(wrap, f"yes '{line()}' | head -n 20000")
    assert ended.stdout.count(b"\n") == 20000
    regions = finished(wrap)["regions"]
    assert regions["count"] == 20000
    assert len(regions["lines"]) == LINES_MAX
    assert regions["contradictions"] == ["the program printed 20000 KERNEL_TIMING lines"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 7", 7),
        (f"echo '{line()}'; kill -9 $$", 137),
        ("echo out; echo err >&2; exit 1", 1),
        ("exec 1>&-; exit 3", 3),
    ],
)
def test_the_status_is_the_timer_s(wrap: Wrap, script: str, code: int) -> None:
    assert timed(wrap, script).code == code


def test_a_malformed_line_is_told_and_harms_nothing(wrap: Wrap) -> None:
    ended = timed(wrap, "printf 'KERNEL_TIMING={\"wall_ns\": \\033[31m}\\n\\377\\000'")
    assert ended.code == 0
    event = finished(wrap)
    assert event["measurements"]["wall_region"]["status"] == "unavailable"
    assert event["regions"]["lines"][0]["problem"] == "no JSON value at character 13"


def test_without_a_line_the_figures_are_absent_with_that_reason(wrap: Wrap) -> None:
    timed(wrap, "echo nothing to see")
    assert finished(wrap)["measurements"]["wall_region"]["reason"] == "the program printed no KERNEL_TIMING line"


def test_a_straggler_that_fills_an_unread_pipe_does_not_hold_the_status_up(wrap: Wrap) -> None:
    timer = wrap.folder.parent / "timer-kernel"
    timer.write_text(f"#!/bin/sh\ncat <<'END'\n{line(target='Foo.bar')}\nEND\n(exec timeout 120 yes) & exit 0\n")
    timer.chmod(0o755)
    began = time.monotonic()
    with subprocess.Popen([wrap.launcher("timer", str(timer)), "export.ndjson"], stdout=subprocess.PIPE) as called:
        assert called.wait(60) == 0
        assert time.monotonic() - began < 60
        assert called.stdout is not None
        assert called.stdout.readline().decode() == line(target="Foo.bar") + "\n"
        assert called.stdout.read(300_000) == b"y\n" * 150_000
        called.stdout.close()
    assert finished(wrap)["relay"]["state"] == "open"
    assert finished(wrap)["regions"]["count"] == 1


def test_a_timer_that_is_missing_is_127_and_not_started(wrap: Wrap) -> None:
    ended = call([wrap.launcher("timer", str(wrap.folder / "gone"))], wrap.folder.parent / "streams")
    assert ended.code == 127
    event = finished(wrap)
    assert event["outcome"]["kind"] == "not_started"
    assert event["measurements"]["wall_region"]["reason"] == "the command was not started"


def test_both_streams_in_one_pipe_keep_their_order(wrap: Wrap) -> None:
    timer = wrap.folder.parent / "timer-kernel"
    timer.write_text("#!/bin/sh\nfor at in $(seq 200); do echo out $at; echo err $at >&2; done\n")
    timer.chmod(0o755)
    argv = [wrap.launcher("timer", str(timer))]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    assert done.stdout.decode().splitlines() == [f"{name} {at}" for at in range(1, 201) for name in ("out", "err")]
    assert finished(wrap)["relay"]["streams"] == ["stdout", "stderr"]


def test_a_closed_stdout_is_noted_and_nothing_is_copied(wrap: Wrap) -> None:
    assert timed(wrap, "exit 4", as_child=lambda: os.close(1)).code == 4
    event = finished(wrap)
    assert "relay" not in event
    assert event["faults"][0]["what"] == "stdout is closed: no region can be reported there"


def test_a_store_that_cannot_be_used_runs_the_timer_unmeasured(wrap: Wrap, tmp_path: Path) -> None:
    (tmp_path / "not-a-folder").write_text("")
    wrap.options["store"] = str(tmp_path / "not-a-folder")
    timer = tmp_path / "timer-kernel"
    timer.write_text(f"#!/bin/sh\necho '{line()}'; exit 5\n")
    timer.chmod(0o755)
    ended = call([wrap.launcher("timer", str(timer))], tmp_path / "streams")
    assert (ended.code, ended.stdout) == (5, line().encode() + b"\n")


def shown(wrap: Wrap) -> tuple[str, str]:
    records = read_store(wrap.store).records
    table, fields = io.StringIO(), io.StringIO()
    render(records, Console(file=table, width=200))
    render_invocation(records[0], Console(file=fields, width=200))
    return " ".join(table.getvalue().split()), fields.getvalue()


def test_people_are_shown_what_the_program_says_and_what_speaks_against_it(wrap: Wrap) -> None:
    ended = timed(wrap, f"echo '{line(wall_ns=60_000_000_000, peak_rss_kb=None)}'")
    table, fields = shown(wrap)
    assert "the program itself says of the region that it timed: 60.0 s wall" in table
    assert "what the program says of itself is contradicted: the whole command took" in table
    assert f"its output passed through us: {len(ended.stdout)} B, " in table
    assert "wall_region" in fields
    assert "60000000000 ns (60.0 s), contradicted" in fields
    assert "regions.lines[0].boundary" in fields
