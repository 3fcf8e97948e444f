"""`proofcost export`: a session as another program takes it; what is not known is absent with its reason, never 0."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import standin_replay
from calling import PROOFCOST, Wrap, call, shared_tree
from fixtures import made
from fixtures.made import figure

from proofcost import export
from proofcost.adapters import to_leaneval
from proofcost.harness import figures, record
from proofcost.harness.reading import read_store

S = 10**9
ALL = {
    "statistics.lines_of_code",
    "statistics.file_count",
    "execution_profile_host.cpu_model",
    "execution_profile_host.architecture",
    "execution_profile_host.kernel_release",
}


def hooked(name: str, given: str, at_s: int, **changes: Any) -> made.Event:
    understood = {"build": "build", "solution-export": "export", "checker": "checker"}.get(given, given)
    phase = {"given": given, "understood": understood, "known_by": "hook"}
    return made.started(name, understood, at_s * S, phase=phase, **changes)


def ended(
    name: str,
    at_s: int,
    wall_ns: int = S,
    code: int | None = 0,
    signal: int | None = None,
    instructions: made.Event | None = None,
) -> made.Event:
    kind = "exited" if signal is None else "signaled"
    return made.finished(
        name,
        at_s * S,
        outcome={"kind": kind, "code": code if signal is None else None, "signal": signal},
        measurements={
            "wall_command": figure(wall_ns),
            "instructions:u": instructions or figure(7 * S, "count"),
        },
    )


def exported(store: Path) -> tuple[dict[str, Any], list[str]]:
    raw, notes = to_leaneval.export(read_store(store).records, str(store))
    found: dict[str, Any] = json.loads(raw)
    return found, notes


def test_a_session_with_the_hook_becomes_the_view_and_the_statistics(tmp_path: Path) -> None:
    for event, end in (
        (hooked("b", "build", 1), ended("b", 2, 1_600_000)),
        (hooked("e", "solution-export", 3), ended("e", 4, 2_400_000)),
        (hooked("k", "checker", 5), ended("k", 6, 5 * S, code=2)),
        # The shim saw these; its adapter would not have.
        (made.started("c", "build", S // 2), ended("c", 1)),
        (made.started("w", "whole", S // 4), ended("w", 9)),
    ):
        made.put(tmp_path, event, end)
    found, notes = exported(tmp_path)
    assert notes == []
    phases = found["metrics"]["phases"]
    assert phases["build"] == {
        "invocations": 2,
        "wall_time_ms": 4,
        "retired_instructions": {"status": "measured", "value": 14 * S},
        "terminations": [{"kind": "exited", "code": 0}] * 2,
    }
    assert phases["checker"]["terminations"] == [{"kind": "exited", "code": 2}]
    assert found["statistics"] == {
        "checker_wall_time_ms": 5000,
        "checker_retired_instructions": {"status": "measured", "value": 7 * S},
        "build_wall_time_ms": 4,
        "build_retired_instructions": {"status": "measured", "value": 14 * S},
    }
    assert set(found["absent"]) == ALL
    verdict = standin_replay.conclude(json.dumps(found["metrics"]).encode(), 1)
    assert (verdict.execution_outcome, verdict.checker_outcome) == ("completed", "declined")
    expected = {name: verdict.statistics[name] for name in found["statistics"]}
    assert found["statistics"] == expected


def test_without_a_hook_the_solution_s_calls_are_taken(tmp_path: Path) -> None:
    config = {"challenge_module": "C", "solution_module": "S"}
    whole = made.started(
        "w",
        "whole",
        S,
        judge_config={"path": "c.json", "text": json.dumps(config), "sha256": "0" * 64, "size_bytes": 9},
    )
    made.put(tmp_path, whole, ended("w", 9))
    for at, (name, phase, module) in enumerate(
        [("1", "build", "C"), ("2", "export", "C"), ("3", "build", "S"), ("4", "export", "S")], 2
    ):
        made.put(tmp_path, made.started(name, phase, at * S, subject={"module": module}), ended(name, at + 1))
    made.put(tmp_path, made.started("5", "checker", 7 * S), ended("5", 8, signal=11))
    phases = exported(tmp_path)[0]["metrics"]["phases"]
    assert phases["build"]["invocations"] == 2
    assert phases["checker"]["terminations"] == [{"kind": "signaled", "signal": 11}]


def test_a_phase_without_calls_has_no_wall_and_its_count_is_not_reported(tmp_path: Path) -> None:
    made.put(tmp_path, hooked("b", "build", 1), ended("b", 2, code=1))
    found, _ = exported(tmp_path)
    assert "checker_wall_time_ms" not in found["statistics"]
    assert found["absent"]["statistics.checker_wall_time_ms"] == "no call of that phase"
    assert found["statistics"]["checker_retired_instructions"] == {
        "status": "unavailable",
        "reason": "counter_not_reported",
    }
    assert found["metrics"]["phases"]["checker"]["retired_instructions"] == {"status": "measured", "value": 0}


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (figure(5, "count"), {"status": "measured", "value": 5}),
        (figure(0, "count"), {"status": "measured", "value": 0}),
        (figure(5, "count", "lower_bound", figures.STRAGGLERS), {"status": "measured", "value": 5}),
        (
            figure(5, "count", "lower_bound", figures.COUNTERS_LOST),
            {"status": "unavailable", "reason": "counter_not_reported"},
        ),
        (
            figure(None, "count", "unavailable", "counter_permission_denied"),
            {"status": "unavailable", "reason": "counter_permission_denied"},
        ),
        (
            figure(None, "count", "unavailable", "counter_multiplexed"),
            {"status": "unavailable", "reason": "counter_not_reported"},
        ),
        (figure(5, "count", "contradicted", "no"), {"status": "unavailable", "reason": "counter_not_reported"}),
    ],
)
def test_a_count_is_what_was_counted_at_the_exit_or_absent(
    tmp_path: Path, counted: made.Event, expected: dict[str, Any]
) -> None:
    later = made.settled("b", measurements={"instructions:u": figure(99, "count")})
    made.put(tmp_path, hooked("b", "build", 1), ended("b", 2, instructions=counted), later)
    assert exported(tmp_path)[0]["metrics"]["phases"]["build"]["retired_instructions"] == expected


def test_a_missing_count_taints_the_sum_with_its_first_reason(tmp_path: Path) -> None:
    denied = figure(None, "count", "unavailable", "counter_permission_denied")
    unsupported = figure(None, "count", "unavailable", "counter_not_supported")
    made.put(tmp_path, hooked("a", "build", 1), ended("a", 2))
    made.put(tmp_path, hooked("b", "build", 3), ended("b", 4, instructions=denied))
    made.put(tmp_path, hooked("c", "build", 5), ended("c", 6, instructions=unsupported))
    found = exported(tmp_path)[0]["metrics"]["phases"]["build"]["retired_instructions"]
    assert found == {"status": "unavailable", "reason": "counter_permission_denied"}


def test_calls_without_an_end_are_in_no_count_and_are_told(tmp_path: Path) -> None:
    made.put(tmp_path, hooked("a", "build", 1))
    not_started = {"kind": "not_started", "code": None, "signal": None, "errno": 2}
    made.put(tmp_path, hooked("b", "build", 3), made.finished("b", 4 * S, outcome=not_started))
    found, notes = exported(tmp_path)
    assert found["metrics"]["phases"]["build"]["invocations"] == 0
    assert notes == [
        "call a (build) has no end: in no count, as its adapter would have it",
        "call b (build) was not started: in no count, as its adapter would have it",
        "no call of this session is one that its adapter would have seen",
    ]


def test_a_call_without_a_wall_gives_no_sum(tmp_path: Path) -> None:
    end = ended("a", 2)
    end["measurements"]["wall_command"] = figure(None, "ns", "unavailable", "lost")
    made.put(tmp_path, hooked("a", "build", 1), end)
    found, _ = exported(tmp_path)
    assert "metrics" not in found
    assert "statistics" not in found
    assert found["absent"]["metrics"] == found["absent"]["statistics"] == "call a has no wall time"


def test_a_view_that_its_reader_would_not_take_is_said_to_be_so(tmp_path: Path) -> None:
    for at in range(600):
        made.put(tmp_path, hooked(f"i{at}", "build", at), ended(f"i{at}", at + 1))
    assert exported(tmp_path)[1] == ["metrics is larger than the 16384 bytes that its reader takes"]


def put_host(store: Path, **changes: Any) -> None:
    started = made.example()[0]
    host = started["host"]
    folder = store / "hosts" / host["instance"]
    folder.mkdir(parents=True)
    parts = {
        "class": host["class"],
        "matters": {"architecture": "x86_64", "cpu_models": ["AMD EPYC 9B14"]},
        "declarable": {"kernel_release": "6.18.44"},
    }
    (folder / f"{host['boot_id']}.json").write_text(json.dumps(made.merged(parts, changes)))


@pytest.mark.parametrize("depth", ["", "sessions", "sessions/s", "sessions/s/b.jsonl"])
def test_the_host_s_part_is_what_the_store_wrote_down(tmp_path: Path, depth: str) -> None:
    made.put(tmp_path / "sessions" / "s", hooked("b", "build", 1), ended("b", 2))
    put_host(tmp_path)
    found, _ = exported(tmp_path / depth)
    assert found["execution_profile_host"] == {
        "cpu_model": "AMD EPYC 9B14",
        "architecture": "x86_64",
        "kernel_release": "6.18.44",
    }


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (["0x41/0xd40/0x1/0x1"], "unavailable"),
        (["Neoverse 0x41/0xd40/0x1/0x1"], "Neoverse"),
        (["x" * 300], "x" * 256),
        (["A", "B"], None),
        (None, None),
    ],
)
def test_the_model_is_what_its_reader_finds_in_cpuinfo(
    tmp_path: Path, models: list[str] | None, expected: str | None
) -> None:
    made.put(tmp_path, hooked("b", "build", 1), ended("b", 2))
    put_host(tmp_path, matters={"cpu_models": models})
    found, _ = exported(tmp_path)
    assert found["execution_profile_host"].get("cpu_model") == expected
    assert ("execution_profile_host.cpu_model" in found["absent"]) is (expected is None)


def test_this_host_is_described_as_its_reader_would_find_it(tmp_path: Path) -> None:
    wrap = Wrap(tmp_path / "w", shared_tree())
    assert call(wrap.argv("phase", ["/bin/true"]), tmp_path / "streams").code == 0
    found, _ = exported(wrap.store)
    host = found["execution_profile_host"]
    assert host["architecture"] == os.uname().machine
    assert host["kernel_release"] == os.uname().release
    named = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    assert host["cpu_model"] == (named[0] if named else "unavailable")


# The command


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([PROOFCOST, "export", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_command_writes_to_stdout_or_to_a_file(tmp_path: Path) -> None:
    store = tmp_path / "store"
    made.put(store, hooked("b", "build", 1), ended("b", 2))
    printed = run(store, "--to", "leaneval")
    assert (printed.returncode, printed.stderr) == (0, "")
    target = tmp_path / "out.json"
    written = run("--to", "leaneval", store, "-o", target)
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    assert target.read_text() == printed.stdout
    assert json.loads(printed.stdout)["metrics"]["phases"]["build"]["invocations"] == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == ["out.json"]


def test_notes_go_to_stderr(tmp_path: Path) -> None:
    made.put(tmp_path, hooked("a", "build", 1))
    done = run(tmp_path, "--to", "leaneval")
    assert done.returncode == 0
    assert "note: call a (build) has no end" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "the following arguments are required: --to"),
        (["--to", "xml"], "invalid choice: 'xml'"),
        (["--to", "leaneval", "GONE"], "no such file or folder"),
        (["--to", "leaneval", "EMPTY"], "no session in"),
        (["--to", "leaneval", "STORE", "--session", "zzz"], "no session or call has an id that begins so"),
    ],
)
def test_bad_input_is_one_clear_line_and_2(tmp_path: Path, arguments: list[str], why: str) -> None:
    made.put(tmp_path / "store", hooked("b", "build", 1), ended("b", 2))
    (tmp_path / "empty").mkdir()
    places = {"GONE": tmp_path / "gone", "EMPTY": tmp_path / "empty", "STORE": tmp_path / "store"}
    done = run(*(places.get(word, word) for word in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("proofcost")
    assert why in last


def test_a_file_that_cannot_be_written_is_1(tmp_path: Path) -> None:
    made.put(tmp_path / "store", hooked("b", "build", 1), ended("b", 2))
    done = run(tmp_path / "store", "--to", "leaneval", "-o", tmp_path / "no" / "file")
    assert done.returncode == 1
    assert "cannot be written: No such file or directory" in done.stderr


def test_each_format_is_one_file_that_says_what_it_is() -> None:
    assert {"arena", "csv", "leaneval", "radar"} <= set(export.names())
    for name in export.names():
        assert export.load(name).HELP
        assert "\n" not in export.load(name).HELP


def test_what_the_entrance_kept_is_what_is_exported(tmp_path: Path) -> None:
    """One run, both ways to the view: the file beside the judge, and this command over our own record."""
    landrun = tmp_path / "landrun"
    landrun.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    landrun.chmod(0o755)
    metrics = tmp_path / "run" / "metrics.json"
    wrap = Wrap(tmp_path / "w", shared_tree())
    wrap.options["leaneval"] = {"landrun": str(landrun), "metrics": str(metrics), "capture": None}
    launcher = wrap.launcher("leaneval")
    for phase, code in (("build", 0), ("solution-export", 0), ("checker", 1)):
        argv = [launcher, "--phase", phase, "--", str(landrun), "--", "/bin/sh", "-c", f"exit {code}"]
        assert call(argv, tmp_path / "streams").code == code
    raws = {record.dumps(json.loads(metrics.read_bytes()))}
    records = read_store(wrap.store).records
    view, _ = to_leaneval.export(records, str(wrap.store))
    assert {record.dumps(json.loads(view)["metrics"])} == raws
