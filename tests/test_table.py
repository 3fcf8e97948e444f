"""The table: nothing missing is 0, nothing hostile acts, and what is not there is explained."""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from showing import (  # noqa: F401  # `elsewhere` is a fixture of every test here
    HOSTILE,
    S,
    cells,
    command,
    drawn,
    elsewhere,
    figures,
    json_values,
    row,
    store_of,
    table_of,
)

from proofcost.harness import record
from proofcost.harness.merged import Record
from proofcost.harness.reading import read_store
from proofcost.reports.fields import render_invocation
from proofcost.reports.figures import solution_calls, total, wall
from proofcost.reports.inert import inert
from proofcost.reports.outcome import outcome_text
from proofcost.reports.printing import HARDLY, fit
from proofcost.reports.units import human

# --- units and text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0 s"),
        (0, "bytes", "0 B"),
        (0, "count", "0"),
        (812, "ns", "812 ns"),
        (999_499, "ns", "999 µs"),
        (999_999, "ns", "1.00 ms"),
        (22_222_222, "ns", "22.2 ms"),
        (999_999_999, "ns", "1.00 s"),
        (9_999_999_999, "ns", "10.0 s"),
        (99_960_000_000, "ns", "100 s"),
        (12_345_678_901_234, "ns", "12346 s"),
        (19_607_552, "bytes", "19.6 MB"),
        (1_590_000_000, "bytes", "1.59 GB"),
        (4_092_293_535, "count", "4.09 G"),
        (933_795_598_537, "count", "934 G"),
        (-1_500_000, "ns", "-1.50 ms"),
        (7, "furlongs", "7 furlongs"),
    ],
)
def test_human_units(value: int, unit: str, text: str) -> None:
    assert human(value, unit) == text


@given(st.integers(0, (1 << 63) - 1), st.sampled_from(["ns", "bytes", "count"]))
def test_human_units_are_right_to_three_digits(value: int, unit: str) -> None:
    text = human(value, unit)
    number, _, name = text.partition(" ")
    steps = {"ns": ["ns", "µs", "ms", "s"], "bytes": ["B", "kB", "MB", "GB", "TB", "PB"]}
    names = steps.get(unit, ["", "k", "M", "G", "T", "P"])
    shown = float(number) * 1000.0 ** names.index(name) if value else 0.0
    assert shown == pytest.approx(value, rel=0.0051)
    assert (float(number) == 0) == (value == 0)


@given(st.binary(max_size=80))
def test_inert_text_is_one_printable_line(raw: bytes) -> None:
    shown = inert(record.escape(raw))
    assert shown.isprintable()
    assert len(shown) <= 60
    assert inert(record.escape(raw), ascii_only=True).isascii()


def test_a_long_text_keeps_both_ends() -> None:
    assert inert("a" * 50 + "b" * 50, 11) == "aaaaa…bbbbb"


# --- the table


def test_the_kept_sessions_table() -> None:
    text = drawn(read_store(made.SESSION_V1).records)
    assert cells(text, "build ") == ["build", "Solution", "2.18 s", "2.99 s", "900 MB", "no counter", "exit 0 [1]"]
    assert cells(text, "export (build)")[:3] == ["export (build)", "Solution", "3.38 s"]
    assert "( ): what the judge called the phase" in text
    assert "SIGKILL, memory limit" in text
    assert cells(text, "solution total") == ["solution total", "11.8 s", "12.4 s", "1.59 GB", "no counter", "4 calls"]
    assert cells(text, "challenge-build") == [
        "challenge-build",
        "Challenge",
        "1.18 s",
        "1.10 s",
        "700 MB",
        "no counter",
        "exit 0",
    ]
    assert cells(text, "whole")[1:4] == ["lake", "20.0 s", "19.0 s"]
    assert cells(text, "judge-self ")[1:4] == ["≤5.04 s", "800 ms", "45.0 MB"]
    assert cells(text, "judge-self ")[-1] == "[4]"
    assert text.index("solution total") < text.index("challenge-build") < text.index("whole")
    assert "no counter: this processor or hypervisor offers no such counter (counter_not_supported)" in text
    assert "[1] 2 processes outlived the command; what they used later is in it" in text
    assert "[2] only its start was recorded" in text


def test_the_challenge_is_in_no_total() -> None:
    records = read_store(made.SESSION_V1).records
    calls = solution_calls(records)
    assert [one.phase for one in calls] == ["build", "export", "checker", "checker"]
    found = total(calls, wall)
    assert found is not None
    assert found.value == sum(v - 22 * 10**6 for v in (2200 * 10**6, 3400 * 10**6, 1262 * 10**6, 5000 * 10**6))


@pytest.mark.parametrize("joined", [False, True])
def test_calls_that_went_through_launchers_of_another_store_are_told_of(tmp_path: Path, joined: bool) -> None:
    config = json.dumps({"measurement_command": ["/opt/launchers/phase"]})
    whole = made.started("w", "whole", judge_config={"text": config})
    call = made.started(
        "c", phase={"known_by": "hook" if joined else "argv", "understood": "checker", "given": "checker"}
    )
    text = table_of(tmp_path, whole, made.finished("w"), call, made.finished("c"))
    assert ("measurement command: the judge's configuration names one, /opt/launchers/phase;" in text) != joined


def test_a_missing_figure_is_never_zero(tmp_path: Path) -> None:
    missing = made.figure(None, "bytes", "unavailable", "no cgroup: read-only hierarchy")
    both = {"memory_peak_tree": missing, "memory_peak_process": missing}
    text = table_of(tmp_path, made.started(), figures(**both))
    assert cells(text, "checker")[4::2] == ["\u2013", "exit 0 [1]"]
    assert "[1] memory: no cgroup: read-only hierarchy" in text
    event = figures()
    del event["measurements"]["memory_peak_tree"], event["measurements"]["memory_peak_process"]
    text = table_of(tmp_path / "2", made.started(), event)
    assert "[1] memory: not in the record" in text


def test_a_true_zero_is_shown_as_zero(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started(), figures(cpu_tree=made.figure(0)))
    assert cells(text, "checker")[3] == "0 s"


@pytest.mark.parametrize(
    ("status", "sign", "ascii_sign"),
    [("lower_bound", "≥", ">="), ("upper_bound", "≤", "<="), ("sampled", "~", "~"), ("contradicted", "!", "!")],
)
def test_an_inexact_figure_carries_its_sign(tmp_path: Path, status: str, sign: str, ascii_sign: str) -> None:
    store = store_of(tmp_path, made.started(), figures(cpu_tree=made.figure(1_500_000_000, "ns", status, "because")))
    text = drawn(store.records)
    assert cells(text, "checker")[3].startswith(f"{sign}1.50 s")
    assert f"\n{sign}: " in text
    assert ("CPU: because" in text) == (status != "sampled")
    assert cells(text, "solution total")[2].startswith(sign)
    assert f"\n{ascii_sign}: " in drawn(store.records, "ascii")


def test_a_second_best_figure_says_so(tmp_path: Path) -> None:
    text = table_of(
        tmp_path,
        made.started(),
        figures(
            wall_program=made.figure(None, "ns", "unavailable", "no exec stamps"),
            cpu_tree=made.figure(None, "ns", "unavailable", "no cgroup"),
        ),
    )
    assert cells(text, "checker")[2:] == ["1.26 s*", "1.22 s*", "19.6 MB", "no counter", "exit 0 [1,2]"]
    assert "[1] wall of the whole command, the sandbox's start-up included: no exec stamps" in text
    assert "[2] CPU of waited-for processes only: no cgroup" in text
    assert cells(text, "solution total")[1:3] == ["1.26 s*", "1.22 s*"]
    assert "\n*: read the note before comparing this figure" in text


CGROUP = {"method": "cgroup v2 memory.peak"}


def peak(size: int, **others: int) -> dict[str, Any]:
    """Memory figures: the tree's by cgroup, others by name."""
    made_of = {name: made.figure(value, "bytes", "sampled") for name, value in others.items()}
    return {"memory_peak_tree": {**made.figure(size, "bytes"), **CGROUP}, **made_of}


def test_what_memory_is_stands_below_the_table(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started(), figures(**peak(30_000_000, memory_file_tree=14_999_999)))
    assert cells(text, "checker")[4] == "30.0 MB"
    assert "\nmemory: peak of the call's whole tree, page cache included (who reads a file first is charged" in text


def test_memory_that_is_mostly_page_cache_says_so(tmp_path: Path) -> None:
    events = [
        made.started("a"),
        made.merged(made.finished("a"), {"measurements": peak(30_000_000, memory_file_tree=15_000_000)}),
        made.started("b"),
        made.merged(made.finished("b"), {"measurements": peak(20_000_000, memory_file_tree=1)}),
    ]
    text = table_of(tmp_path / "1", *events)
    assert [re.split(r"\s{2,}", line)[-3] for line in text.splitlines() if " checker " in line] == [
        "30.0 MB*",
        "20.0 MB",
    ]
    assert cells(text, "solution total")[3] == "30.0 MB*"
    assert "\n[1] mostly page cache: 15.0 MB of 30.0 MB\n" in text
    events[3]["measurements"] |= peak(40_000_000, memory_file_tree=1)
    assert cells(table_of(tmp_path / "2", *events), "solution total")[3] == "40.0 MB"


def test_without_a_tree_peak_the_largest_process_stands_in(tmp_path: Path) -> None:
    missing = made.figure(None, "bytes", "unavailable", "no cgroup")
    text = table_of(tmp_path, made.started(), figures(memory_peak_tree=missing))
    assert cells(text, "checker")[4::2] == ["19.0 MB*", "exit 0 [1]"]
    assert "[1] memory of the largest single process: no cgroup" in text
    assert cells(text, "solution total")[3] == "19.0 MB*"
    assert "page cache" not in text


def test_one_reason_of_all_calls_is_one_note(tmp_path: Path) -> None:
    reasons = {
        name: made.figure(None, unit, "unavailable", "no cgroup: not root")
        for name, unit in (("cpu_tree", "ns"), ("memory_peak_tree", "bytes"), ("memory_peak_process", "bytes"))
    }
    events = [made.started("w", "whole", 1), made.finished("w", 900 * S)]
    for at, name in enumerate("abc", 2):
        events += [made.started(name, "checker", at), made.finished(name, at + S, measurements=reasons)]
    text = table_of(tmp_path, *events)
    assert text.count("exit 0 [1]") == 3
    assert "\n[1] CPU of waited-for processes only, memory: no cgroup: not root (all calls)\n" in text
    assert text.count("no cgroup") == 1


def test_a_reason_of_different_figures_is_not_said_of_all_calls(tmp_path: Path) -> None:
    low = made.figure(5, "ns", "lower_bound", "stragglers")
    events = []
    for name, figure in (("a", "cpu_tree"), ("b", "wall_program")):
        events += [made.started(name), made.merged(made.finished(name), {"measurements": {figure: low}})]
    assert "\n[1] CPU, wall: stragglers\n" in table_of(tmp_path, *events)


def test_a_call_too_short_to_be_sampled_makes_no_note_of_its_own(tmp_path: Path) -> None:
    why = "no cgroup: not root"
    short = made.figure(None, "bytes", "unavailable", f"{why}; ended before the first sample")
    ours = made.figure(None, "bytes", "unavailable", "at most our own")
    missing = {"cpu_tree": made.figure(None, "ns", "unavailable", why), "memory_peak_tree": short}
    text = table_of(tmp_path, made.started(), figures(memory_peak_process=ours, **missing))
    said = "CPU of waited-for processes only, memory (ended before the first sample)"
    assert text.endswith(f"\n[1] {said}: no cgroup: not root\n")


def test_a_process_larger_than_its_tree_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, tree, largest in (("a", 5, 6), ("b", 6, 6), ("c", None, 6)):
        sizes = {"memory_peak_tree": made.figure(tree, "bytes"), "memory_peak_process": made.figure(largest, "bytes")}
        made.put(tmp_path, made.started(name), made.finished(name, measurements=sizes))
        assert command("show", name, "--store", str(tmp_path)) == 0
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  memory_peak_process"))
        assert ("another cgroup used first are charged to that one" in line) == (name == "a")


def test_calls_are_numbered_by_their_start(tmp_path: Path) -> None:
    lines = drawn(read_store(made.SESSION_V1).records).splitlines()
    head = next(line for line in lines if "outcome" in line)
    assert head.startswith("# phase ")
    numbered = [line[:4] for line in lines if re.match(r"[0-9] ", line)]
    assert numbered == ["3 bu", "4 ex", "5 ch", "6 ch", "7 un", "1 ch", "2 ch"]
    assert any(line.startswith("  whole ") for line in lines)


def test_a_judge_that_called_nothing_is_told_how(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started("w", "whole"), made.finished("w"))
    assert (
        "] no sandboxed call reached us; if the judge finds its sandbox by PATH: proofcost run --shims path\n" in text
    )
    assert "no sandboxed call" not in drawn(read_store(made.SESSION_V1).records)


def test_what_meters_cost_is_unknown_beside_an_incomplete_call(tmp_path: Path) -> None:
    text = drawn(read_store(made.SESSION_V1).records).replace("\n  ", " ")
    assert "our meters are in it (how much is unknown)" in text


def test_long_notes_are_wrapped_in_a_pipe(tmp_path: Path) -> None:
    why = made.figure(None, "ns", "unavailable", "why " * 45)
    notes = drawn(store_of(tmp_path, made.started(), figures(cpu_tree=why, cpu_waited=why)).records).split("\n\n")[-1]
    assert max(map(len, notes.splitlines())) <= 112
    assert "\n  why" in notes


def test_instructions_are_shown_where_there_are_some(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started(), figures(**{"instructions:u": made.figure(4_092_293_535, "count")}))
    assert cells(text, "checker")[5] == "4.09 G"


def test_a_forbidden_counter_names_the_cure(tmp_path: Path) -> None:
    denied = made.figure(None, "count", "unavailable", "counter_permission_denied")
    text = table_of(tmp_path, made.started(), figures(**{"instructions:u": denied}))
    assert cells(text, "checker")[5] == "not permitted"
    assert "proofcost doctor" in text


def test_a_total_with_a_missing_part_is_a_lower_bound(tmp_path: Path) -> None:
    events = (made.started("a"), made.finished("a"), made.started("b", "checker", 10**12))
    text = table_of(tmp_path, *events)
    assert cells(text, "solution total")[1::4] == ["≥1.24 s", "2 calls [2]"]
    assert "[2] total of wall, CPU, memory: missing for 1 of 2 calls" in text


def test_a_total_of_bounds_both_ways_says_nothing(tmp_path: Path) -> None:
    low, high = (made.figure(5, "ns", f"{way}_bound", "why") for way in ("lower", "upper"))
    events = (
        made.started("a"),
        made.merged(made.finished("a"), {"measurements": {"wall_program": low}}),
        made.started("b"),
        made.merged(made.finished("b"), {"measurements": {"wall_program": high}}),
    )
    assert cells(table_of(tmp_path, *events), "solution total")[1].startswith("\u2013")


def test_a_call_of_unknown_side_is_in_no_total_and_said_so(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started("a"), made.finished("a"), made.started("b", "build"), made.finished("b"))
    assert cells(text, "solution total")[1] == "1.24 s"
    assert "1 call in no total: nothing tells whether for the solution or the challenge" in text


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ({"code": 101}, "exit 101"),
        ({"code": 137, "cause": "completed"}, "exit 137"),
        ({"code": 1, "cause": "sandbox_setup_failed"}, "exit 1, sandbox setup failed"),
        (
            {"kind": "signaled", "code": None, "signal": 9, "cause": "killed_cause_unknown"},
            "SIGKILL, cause unknown",
        ),
        ({"kind": "signaled", "code": None, "signal": 200, "cause": "crashed"}, "signal 200, crashed"),
        ({"kind": "timed_out", "code": None, "cause": "time_limit"}, "timed out"),
        ({"kind": "not_started", "code": None, "errno": 2, "cause": "not_started"}, "not started (ENOENT)"),
        ({"kind": "not_started", "code": None, "errno": 7777, "cause": "not_started"}, "not started (errno 7777)"),
        ({"kind": 7, "cause": ["x"]}, "7"),
    ],
)
def test_outcomes(tmp_path: Path, outcome: dict[str, Any], text: str) -> None:
    (one,) = store_of(tmp_path, made.started(), made.finished(outcome=outcome)).records
    assert outcome_text(one) == text


@pytest.mark.parametrize(
    ("started", "finished", "note"),
    [
        (
            {"sandbox": {"enforced": False, "enforced_known_by": "no Landlock"}},
            {},
            "ran without its sandbox in force: no L",
        ),
        ({"sandbox": {"enforced": None, "enforced_known_by": None}}, {}, "sandbox in force? not known"),
        ({}, {"faults": [{"step": "cgroup", "what": "EBUSY"}]}, "the meter failed at cgroup (EBUSY)"),
        ({}, {"stragglers": {"count": 1}}, "1 process outlived the command; what they used later is not in it"),
        ({}, {"stragglers": {"count": 1, "action": "killed"}}, "] 1 process outlived the command and was killed\n"),
        ({}, {"stragglers": {"count": 2, "action": "killed"}}, "] 2 processes outlived the command and were killed\n"),
        ({"phase": {"understood": "unknown"}}, {}, "] unknown: not a call that comparators make; name a phase with "),
    ],
)
def test_what_a_reader_must_know_is_a_footnote(
    tmp_path: Path, started: dict[str, Any], finished: dict[str, Any], note: str
) -> None:
    text = table_of(tmp_path, made.started(**started), made.finished(**finished))
    assert "exit 0 [" in row(text, started.get("phase", {}).get("understood", "checker"))
    assert note in text


def test_hostile_names_are_inert(tmp_path: Path) -> None:
    raw = record.escape(HOSTILE.encode())
    events = [
        made.started("w", "whole", labels={HOSTILE: HOSTILE}, argv={"head": [raw, HOSTILE]}),
        made.finished("w", outcome={"kind": HOSTILE, "cause": HOSTILE}),
        made.started("a", kernel={"name": HOSTILE}, phase={"given": HOSTILE}, session_known_by=HOSTILE),
        made.finished(
            "a", measurements={"cpu_tree": made.figure(None, "ns", HOSTILE, HOSTILE), HOSTILE: made.figure(1)}
        ),
        made.started("b", "build", subject={"module": raw}, phase={"known_by": "hook"}),
        made.finished("b", faults=[{"step": HOSTILE, "what": HOSTILE}], outcome={"evidence": [HOSTILE]}),
    ]
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "all.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    store = read_store(tmp_path / "store")
    assert len(store.records) == 3
    for terminal in (False, True):
        text = drawn(store.records, force_terminal=terminal, color_system=None)
        assert "\x07" not in text
        assert "\u202e" not in text
        assert "\x1b[2J" not in text
        assert "\x1b]" not in text
    piped = drawn(store.records)
    assert "\x1b" not in piped
    assert "\\x1b[2J" in piped
    assert "[red]" in piped
    assert ":smile:" in inert(HOSTILE, None)
    assert max(map(len, piped.splitlines())) < 700


def test_a_pipe_gets_neither_colours_nor_cut_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = drawn(read_store(made.SESSION_V1).records)
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "SIGKILL, memory limit" in row(text, "checker           soko")


def test_a_terminal_of_80_columns_loses_no_figure() -> None:
    text = drawn(read_store(made.SESSION_V1).records, force_terminal=True, width=80, color_system=None)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for figure in ("2.18 s", "2.99 s", "900 MB", "no counter", "≤5.04 s", "challenge-export", "solution total"):
        assert figure in plain
    assert all(len(line) <= 80 for line in plain.splitlines())


def bad_night(folder: Path) -> tuple[Record, ...]:
    """A session in which much went wrong."""
    missing = {
        name: made.figure(None, one["unit"], "unavailable", "the command was not started")
        for name, one in made.example()[1]["measurements"].items()
    }
    doubtful = made.figure(S, "ns", "contradicted", "the wait status says 3 s, the cgroup 1 s")
    ends: dict[str, dict[str, Any]] = {
        "late": {
            "outcome": {
                "kind": "timed_out",
                "code": None,
                "signal": 9,
                "cause": "time_limit",
                "evidence": ["killed by SIGKILL", "our time limit of 9 ns had passed, and we killed it"],
            }
        },
        "absent": {
            "outcome": {
                "kind": "not_started",
                "code": None,
                "errno": 2,
                "cause": "not_started",
                "evidence": ["exec failed: No such file or directory"],
            },
            "measurements": missing,
        },
        "doubtful": {"measurements": {"cpu_tree": doubtful}},
        "a-kernel-with-a-rather-long-name-4t": {"outcome": {"code": 1, "cause": "sandbox_setup_failed"}},
    }
    events = [made.started("w", "whole", 1), made.finished("w", 900 * S)]
    for at, (name, end) in enumerate(ends.items(), 2):
        events += [made.started(name, "checker", at, kernel={"name": name}), made.finished(name, at + S, **end)]
    return store_of(folder, *events).records


def test_a_bad_nights_table_can_be_read_in_80_columns(tmp_path: Path) -> None:
    records = bad_night(tmp_path)
    text = drawn(records, force_terminal=True, width=80, color_system=None, legacy_windows=False)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert cells(text, "checker       late")[1:6] == ["late", "1.24 s", "1.22 s", "19.6 MB", "no counter"]
    table = text.split("\n\n")[1]
    head = table.splitlines()[0]
    of, wall_at, ended = (head.index(column) for column in ("of ", "  wall", "outcome"))
    outcomes = "".join(line[ended:] for line in table.splitlines()).replace(" ", "")
    for said in ("timedout[1]", "notstarted(ENOENT)[2,3]", "exit0[4]", "exit1,sandboxsetupfailed"):
        assert said in outcomes
    assert all(column in table for column in ("phase", "wall", "instr.", "outcome"))
    assert "a-kernel-with-a-rather-long-name-4t" in "".join(line[of:wall_at].strip() for line in table.splitlines())


def test_what_is_said_of_several_figures_is_said_once(tmp_path: Path) -> None:
    text = drawn(bad_night(tmp_path))
    assert cells(text, "checker         absent")[1:] == ["absent", *["\u2013"] * 4, "not started (ENOENT) [2,3]"]
    assert "\n[2] wall, CPU, memory, instructions: the command was not started\n" in text


def test_the_evidence_of_a_cause_is_a_footnote(tmp_path: Path) -> None:
    text = drawn(bad_night(tmp_path))
    assert "\n[1] timed out: our time limit of 9 ns had passed, and we killed it\n" in text
    assert "\n[3] not started (ENOENT): exec failed: No such file or directory\n" in text
    assert "instructions  " in text  # a pipe has room for the whole word


def test_a_judge_without_calls_has_no_row_of_its_own(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started("w", "whole"), made.finished("w"))
    assert cells(text, "whole")[1] == "nanoda_bin"
    assert "judge-self" not in text


def test_twenty_kernels_are_twenty_rows_of_one_line(tmp_path: Path) -> None:
    events = []
    for at in range(20):
        events += [made.started(f"i{at}", "checker", at, kernel={"name": f"kernel-{at}"}), made.finished(f"i{at}", at)]
    text = drawn(store_of(tmp_path, *events).records, force_terminal=True, width=80, color_system=None)
    lines = [line.split() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if "kernel-" in line]
    assert [line[:3] for line in lines] == [[str(at + 1), "checker", f"kernel-{at}"] for at in range(20)]
    assert {line[-1] for line in lines} == {"0"}


@given(
    st.lists(st.integers(1, 60), min_size=7, max_size=7),
    st.dictionaries(st.integers(0, 6), st.integers(1, 20), max_size=7),
    st.integers(10, 200),
)
def test_columns_are_fitted(natural: list[int], least: dict[int, int], room: int) -> None:
    widths = fit(natural, least, room)
    if widths is None:
        assert sum(min(one, HARDLY) if at in least else one for at, one in enumerate(natural)) > room
        return
    assert sum(widths) <= room
    assert all(one == natural[at] or at in least for at, one in enumerate(widths))
    assert all(1 <= one <= natural[at] for at, one in enumerate(widths))
    assert sum(natural) > room or widths == natural
    if any(widths[at] < min(floor, natural[at]) for at, floor in least.items()):  # then none was left above its own
        assert sum(widths) == room or all(widths[at] <= max(floor, HARDLY) for at, floor in least.items())


def test_a_terminal_too_small_for_any_table_still_shows_all_of_it() -> None:
    text = drawn(read_store(made.SESSION_V1).records, force_terminal=True, width=30, color_system=None)
    assert all(len(line) <= 30 for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_without_unicode_gets_ascii(encoding: str) -> None:
    text = drawn(read_store(made.SESSION_V1).records, encoding)
    assert text.isascii()
    assert "<=5.04 s" in text


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_stands_in_a_field_is_drawn(data: st.DataObject) -> None:
    """No record that reading lets through can stop the table or the list of fields."""
    events = [*made.example(), made.settled(made.example()[0]["invocation"])]
    if data.draw(st.booleans()):
        events[0]["phase"]["understood"] = "whole"
    node: Any = data.draw(st.sampled_from(events))
    while True:
        key = data.draw(st.sampled_from(sorted(node)))
        if not isinstance(node[key], dict) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(json_values)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        store = read_store(folder)
    assert store.records or store.problems
    text = drawn(store.records)
    for one in store.records:
        raw = io.StringIO()
        render_invocation(one, Console(file=raw))
        text += raw.getvalue()
    assert all(char.isprintable() or char == "\n" for char in text)


def test_two_sessions_are_two_tables(tmp_path: Path) -> None:
    text = table_of(tmp_path, made.started("a", session="one"), made.started("b", session="two"))
    assert text.count("outcome") == 2
