"""`show` of one call: what a person needs in some 25 lines, every field with `--all`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from benching import record as bench_record
from fixtures import made
from rich.console import Console
from showing import HOSTILE, S, command, store_of

from proofcost.harness.merged import Record
from proofcost.reports import brief


def shown(record: Record) -> str:
    raw = io.StringIO()
    brief.render(record, Console(file=raw, width=80))
    return raw.getvalue()


def one(folder: Path, *events: made.Event) -> Record:
    (found,) = store_of(folder, *events).records
    return found


def test_one_call_is_short_and_every_field_stands_behind_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store_of(tmp_path, made.started(), made.finished())
    assert command("show", "last.1", "--store", str(tmp_path)) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 32
    for absent in ("rlimits", "argv.head", "host_disturbance", "clocks"):
        assert absent not in short
    assert short.splitlines()[-1] == "every field: --all; as recorded: --json"
    assert command("show", "last.1", "--all", "--store", str(tmp_path)) == 0
    whole = capsys.readouterr().out
    assert "limits.rlimits.cpu.soft" in whole
    assert "argv.head[0]" in whole
    assert len(whole.splitlines()) > 4 * len(short.splitlines())


def test_what_is_missing_for_one_reason_is_one_line_and_never_nothing(tmp_path: Path) -> None:
    missing = made.figure(None, status="unavailable", reason="no controller")
    figures = {"cpu_tree": missing, "memory_peak_tree": missing, "wall_command": made.figure(1_500_000)}
    text = shown(one(tmp_path, made.started(), made.finished(measurements=figures)))
    assert "cpu_tree, memory_peak_tree: no controller" in text
    assert "1500000 ns (1.50 ms), measured; by test" in text


def test_limits_disturbances_stragglers_and_faults_are_told_where_there_are_any(tmp_path: Path) -> None:
    nothing = shown(one(tmp_path / "a", made.started(), made.finished(faults=[])))
    assert "meter failed" not in nothing
    finished = made.finished(
        faults=[{"step": "cgroup", "what": "no room"}],
        stragglers={"count": 2, "action": "killed", "reason": None},
        host_disturbance={"steal": made.figure(3 * S), "throttled": made.figure(0)},
    )
    limits = {"timeout_ns": 90 * S, "memory_limit_bytes": 10**9}
    text = shown(one(tmp_path / "b", made.started("inv-1", "checker", limits=limits), finished))
    assert "time 90.0 s, memory 1.00 GB" in text
    assert "steal 3.00 s" in text
    assert "throttled" not in text
    assert "2 processes outlived the command (killed)" in text
    assert "at cgroup: no room; the command was not touched" in text


def test_a_benchs_call_tells_its_workload_verdict_and_environment() -> None:
    text = shown(bench_record("a", "w", code=1, environment={"X": "a b"}))
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("  ")}
    assert (lines["workload"], lines["verdict"], lines["environment"]) == ("w", "rejected", "X='a b'")


def test_a_hostile_command_is_harmless_and_shortened_in_its_middle(tmp_path: Path) -> None:
    words = ["/bin/judge", HOSTILE, "the-last"]
    started = made.started(argv={"head": words, "count": 3}, cwd=HOSTILE)
    text = shown(one(tmp_path, started, made.finished()))
    assert "\x1b" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("  command")]
    assert "/bin/judge" in line
    assert line.endswith("the-last")
    assert len(line) < 330
