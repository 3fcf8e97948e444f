"""What people see: nothing missing is 0, nothing hostile acts, and what is not there is explained."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from proofcost import log, show
from proofcost.harness import procfs, record, running
from proofcost.harness.merged import Record
from proofcost.harness.reading import Store, read_store
from proofcost.harness.store import default_place
from proofcost.reports.fields import render_invocation
from proofcost.reports.figures import solution_calls, total, wall
from proofcost.reports.inert import inert
from proofcost.reports.outcome import outcome_text
from proofcost.reports.printing import HARDLY, Row, fit
from proofcost.reports.printing import table_of as table_in
from proofcost.reports.table import render
from proofcost.reports.units import human

S = 10**9
SESSION = "5f0e8c7d6b5a4938"
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\n\u202e:smile:\\" + "y" * 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def drawn(records: tuple[Record, ...], encoding: str = "utf-8", **options: Any) -> str:
    """What `render` writes; a pipe unless `force_terminal` is given."""
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding, newline=""), **options)
    render(records, console)
    console.file.flush()
    return raw.getvalue().decode(encoding)


def store_of(folder: Path, *events: made.Event) -> Store:
    for at, event in enumerate(events):
        made.put(folder / "sessions" / event["session"], event, name=f"{at}.jsonl")
    return read_store(folder)


def table_of(folder: Path, *events: made.Event) -> str:
    return drawn(store_of(folder, *events).records)


def row(text: str, start: str) -> str:
    """The one line of a table that begins with `start`, after the number of the call."""
    lines = [re.sub(r"^ *[0-9]+ |^  +", "", line) for line in text.splitlines()]
    found = [line for line in lines if line.startswith(start) and not line.startswith(f"{start}:")]
    assert len(found) == 1, text
    return found[0]


def cells(text: str, start: str) -> list[str]:
    return re.split(r"\s{2,}", row(text, start))


def figures(**changes: Any) -> made.Event:
    return made.finished(measurements=changes)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept records come from another machine, whatever machine this is."""
    monkeypatch.setattr(running, "here", lambda: ("this boot", "this namespace"))


def command(*words: str) -> int:
    """Run `proofcost WORDS` in this process."""
    parser = argparse.ArgumentParser(prog="proofcost")
    subparsers = parser.add_subparsers(required=True)
    log.add_parser(subparsers)
    show.add_parser(subparsers)
    args = parser.parse_args(words)
    status = args.run(args)
    assert isinstance(status, int)
    return status


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


# --- the commands


def test_show_prints_the_last_session(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store_of(tmp_path, made.started("a", "checker", 1, session="one"), made.started("b", "checker", 2, session="two"))
    for words in ([], ["last"]):
        assert command("show", *words, "--store", str(tmp_path)) == 0
        assert capsys.readouterr().out.startswith("session two ")


def test_show_takes_a_prefix_of_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "5f", "--store", str(made.SESSION_V1)) == 0
    assert capsys.readouterr().out.startswith(f"session {SESSION}")


def test_show_of_one_call_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "18eceb55c", "--store", str(made.SESSION_V1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("invocation 18eceb55c3942a00-4130-0a1b2c3d\n")
    assert "2991000000 ns (2.99 s), measured; by test; settled" in out
    assert "8192000 bytes (8.19 MB), upper_bound: others may write to the same filesystem" in out
    assert "unavailable: counter_not_supported; by perf task event" in out
    assert re.search(r"evidence\[0\] +wait status 0", out)
    assert re.search(r"limits\.cgroup_memory_bytes\.reason +unlimited", out)
    assert re.search(r"host\.boot_id +1f835752-23b0-4215-9d51-2e7cbbbb1397", out)
    one = next(one for one in read_store(made.SESSION_V1).records if one.invocation.startswith("18eceb55c"))
    shown = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    for event in (one.started, one.finished or {}, one.settled or {}):
        for key in set(event) - {"schema", "event", "invocation", "measurements"}:
            assert any(name.split(".")[0].split("[")[0] in (key, "kind") for name in shown), key


def test_show_all_has_table_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "--all", "--store", str(made.SESSION_V1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("session ")
    assert out.count("\ninvocation ") == 8


def test_json_is_exact_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", SESSION, "--json", "--store", str(made.SESSION_V1)) == 0
    shown = json.loads(capsys.readouterr().out)
    store = read_store(made.SESSION_V1)
    assert [one["started"] for one in shown["records"]] == [one.started for one in store.records]
    assert [one["finished"] for one in shown["records"]] == [one.finished for one in store.records]
    assert shown["records"][3]["measurements"]["cpu_tree"]["value"] == 2_991_000_000
    assert shown["records"][5]["derived"]["kernel"] == "nanoda"
    assert shown["problems"] == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("18", "8 ids begin so; give more of one: 18eceb54998e3800-4100-0a1b2c3d"),
        ("zz", "no session or call has an id that begins so"),
        ("\x1b[2J", "show \\x1b[2J: no session"),
    ],
)
def test_a_wrong_id_is_one_line_and_2(capsys: pytest.CaptureFixture[str], wanted: str, said: str) -> None:
    assert command("show", wanted, "--store", str(made.SESSION_V1)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


@pytest.mark.parametrize("words", [["show"], ["log"]])
def test_a_named_store_that_is_not_there_is_2(
    capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path
) -> None:
    assert command(*words, "--store", str(tmp_path / "no")) == 2
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["show"], ["show", "last"], ["log"]])
def test_nothing_here_says_where_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setenv("PROOFCOST_STORE", str(tmp_path / "none"))
    assert command(*words) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    for said in (str(tmp_path / "none"), "$PROOFCOST_STORE", "you may not read it", "without the hook", "tmpfs"):
        assert said in captured.err


def test_under_sudo_the_own_store_is_pointed_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PROOFCOST_STORE", raising=False)
    monkeypatch.setenv("SUDO_USER", "someone")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(show, "default_place", lambda env, uid: str(tmp_path))
    assert command("show") == 0
    assert "sudo does not hand $PROOFCOST_STORE on" in capsys.readouterr().err


def test_an_id_in_an_empty_store_is_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command("show", "abc", "--store", str(tmp_path)) == 2
    assert "there are no records in" in capsys.readouterr().err


def test_json_of_nothing_is_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command("show", "--json", "--store", str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["records"] == []
    assert command("log", "--json", str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == []


def test_problems_are_warnings_on_stderr_and_summed_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store_of(tmp_path, made.started())
    (tmp_path / "sessions" / SESSION / "bad\x1b.jsonl").write_bytes(made.lines(made.started("b")) + b"x\n" * 50)
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / f"{made.BOOT + 100 * S}-2.json").write_text("{}")
    assert command("show", "--store", str(tmp_path)) == 0
    captured = capsys.readouterr()
    assert "warning" not in captured.out
    assert captured.err.count("bad\\x1b.jsonl:") == 5 + 1
    assert "15 more of this kind (not json)" in captured.err
    assert "30 more lines that are no records" in captured.err
    assert "1 call ran unmeasured or measured in part" in captured.err
    assert "\x1b" not in captured.err


def unfinished(invocation: str, pid: int, **changes: Any) -> made.Event:
    """`started` of a meter that was process `pid` of this machine."""
    process = {"meter_pid": pid, "meter_start_ticks": procfs.start_ticks(pid), "pid_namespace": "this namespace"}
    base = {"host": {"boot_id": "this boot"}, "process": process}
    return made.started(invocation, "build", **made.merged(base, changes))


def test_a_call_that_still_runs_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = [
        unfinished("a", os.getpid()),
        unfinished("b", os.getpid(), process={"meter_start_ticks": 1}),
        made.started("c", "build"),
    ]
    text = table_of(tmp_path, *events)
    outcomes = [re.split(r"\s{2,}", line)[-1] for line in text.splitlines() if " build " in line]
    assert outcomes == ["running", "incomplete (meter vanished) [1]", "incomplete [2]"]
    assert command("log", str(tmp_path)) == 0
    assert "build 3 (1 running, 2 incomplete)" in capsys.readouterr().out
    assert command("show", "b", "--store", str(tmp_path)) == 0
    assert re.search(r"ended +incomplete \(meter vanished\)", capsys.readouterr().out)
    assert command("show", "--json", "--store", str(tmp_path)) == 0
    assert [one["meter"] for one in json.loads(capsys.readouterr().out)["records"]] == ["running", "vanished", None]


def leave_marks(folder: Path, *fields: object) -> None:
    (folder / "marks").mkdir(parents=True, exist_ok=True)
    for at, one in enumerate(fields):
        (folder / "marks" / f"{made.BOOT + at * 60 * S}-7.json").write_text(json.dumps(one))


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ([{"fault": "no room"}], "1 call ran unmeasured or measured in part, at 2026-11-30 20:03:20 +0000: no room ("),
        (
            [{"fault": "x", "policy": "run"}, {"fault": "y", "policy": "run"}],
            "2 calls ran unmeasured or measured in part, since 2026-11-30 20:03:20 +0000, "
            "the last at 2026-11-30 20:04:20 +0000: y (",
        ),
        (
            [{"fault": "x"}, {"fault": "y", "policy": "strict"}],
            "2 calls ran unmeasured or measured in part, or refused, ",
        ),
        ([{"fault": "y", "policy": "strict"}], "1 call was refused, nothing of them ran, at "),
        ([{"fault": {"step": "finish", "what": "OSError: full"}}], "finish: OSError: full ("),
        ([{"fault": HOSTILE}], "\\x1b[2J\\x1b]0;owned"),
        ([{"fault": 7}], "its mark cannot be read ("),
        (["torn"], "its mark cannot be read ("),
    ],
)
def test_marks_are_one_line_in_log_and_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, marks: list[object], said: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    store_of(tmp_path, made.started("a", "build", 0, session="one"))
    leave_marks(tmp_path, *marks)
    for words in (
        ["log", str(tmp_path)],
        ["show", "--store", str(tmp_path)],
        ["show", "one", "--store", str(tmp_path)],
    ):
        assert command(*words) == 0
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert said in err
        assert f"(marks: {tmp_path / 'marks'}; marks/ may be deleted)" in err
        assert err.rstrip("\n").isprintable()


def test_marks_alone_are_pointed_at(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    leave_marks(tmp_path, {"fault": "no room"})
    assert command("show", "--store", str(tmp_path)) == 0
    assert "- calls were made, but the meter failed each time" in capsys.readouterr().err


def by_meter(folder: Path, number: int) -> tuple[str, str]:
    """A session of one call, as meters leave it: ids of both."""
    call = f"{made.BOOT + number:x}-{100 + number}-{number:08x}"
    session = f"5e{number:04x}"
    made.put(folder / "sessions" / session, made.started(call, "build", number, session=session))
    return session, call


def test_an_id_is_looked_for_in_the_names_of_a_large_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ids = [by_meter(tmp_path, number) for number in range(40)]
    for wanted in (*ids[7], ids[7][1][:-7]):
        assert command("show", wanted, "--store", str(tmp_path)) == 0
        assert capsys.readouterr().out.split()[1] == (ids[7][1] if "-" in wanted else ids[7][0])
    assert command("show", "5e", "--store", str(tmp_path)) == 2
    assert "show 5e: 40 ids begin so; give more of one: 5e0027, 5e0026," in capsys.readouterr().err
    assert command("show", "5e000", "--store", str(tmp_path)) == 2
    assert "show 5e000: 16 ids begin so" in capsys.readouterr().err
    assert command("show", "x", "--store", str(tmp_path)) == 2
    assert "no session or call has an id that begins so" in capsys.readouterr().err
    assert command("log", str(tmp_path), "-n", "3") == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[2:]] == ["5e0027", "5e0026", "5e0025"]
    assert "37 older sessions not shown: -n 40 shows all" in captured.err


@pytest.mark.parametrize(
    ("env", "uid", "expected"),
    [
        ({"PROOFCOST_STORE": "/s"}, 0, "/s"),
        ({"PROOFCOST_STORE": ""}, 0, "/var/lib/proofcost"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, 0, "/var/lib/proofcost"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, 7, "/x/proofcost"),
        ({"HOME": "/h"}, 7, "/h/.local/state/proofcost"),
    ],
)
def test_one_reads_where_run_writes(env: dict[str, str], uid: int, expected: str) -> None:
    path, how = show.choose_store(None, env, uid)
    assert path == expected == default_place(env, uid)
    assert "PROOFCOST_STORE" in how


def test_log_lists_the_newest_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for at in range(5):
        store_of(tmp_path / str(at), made.started(f"i{at}", "checker", at * S, session=f"s{at}"))
    assert command("log", str(tmp_path), "-n", "2") == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[2:]] == ["s4", "s3"]
    assert "3 older sessions not shown" in captured.err


def test_log_shows_judge_calls_outcome_and_wall(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("log", "--store", str(made.SESSION_V1)) == 0
    found = re.split(r"\s{2,}", capsys.readouterr().out.splitlines()[2])
    calls = "challenge-build 1, challenge-export 1, build 1, export 1, checker 2, unknown 1 (1 incomplete)"
    assert found[0] == SESSION
    assert found[2:] == ["lake env comparator config.json", calls, "20.0 s", "exit 1"]


def test_log_json_counts_and_keeps_integers(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("log", "--json", str(made.SESSION_V1)) == 0
    (one,) = json.loads(capsys.readouterr().out)["sessions"]
    assert one["calls"]["challenge-build"] == 1
    assert one["calls"]["checker"] == 2
    assert one["whole_wall_ns"] == 20 * S
    assert one["incomplete"] == ["18eceb5923d89b00-4170-0a1b2c3d"]


def test_a_session_without_run_has_no_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("log", str(made.EXAMPLE)) == 0
    found = re.split(r"\s{2,}", capsys.readouterr().out.splitlines()[2])
    assert found[2:] == ["comparator", "checker 1", "~1.30 s", "exit 0"]


SEGV = {"kind": "signaled", "code": None, "signal": 11, "cause": "crashed"}


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([{}, {"code": 1}, SEGV], "1 of 3 calls: SIGSEGV, crashed"),
        ([{}, {"code": 1}, {}, {"code": 1}], "2 of 4 calls: exit 1"),
        ([{}, {}, {}, {}], "all 4 exit 0"),
        ([{}, {}, None], "2 of 3 calls: exit 0"),
        ([{"code": 3}], "exit 3"),
        ([None], "\u2013"),
        ([{"kind": "exited", "code": None}, {"kind": ["x"]}], "1 of 2 calls: ['x']"),
    ],
)
def test_log_tells_the_worst_call_of_a_session_without_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ends: list[dict[str, Any] | None], said: str
) -> None:
    for at, end in enumerate(ends):
        events = [made.started(f"i{at}", "build", at * S)]
        if end is not None:
            events.append(made.finished(f"i{at}", (at + 1) * S, outcome=end))
        made.put(tmp_path / "sessions" / SESSION, *events)
    assert command("log", str(tmp_path)) == 0
    captured = capsys.readouterr().out
    ended = [at for at, end in enumerate(ends) if end is not None]
    span = f"~{ended[-1] + 1}.00 s" if ended else "\u2013"
    assert re.split(r"\s{2,}", captured.splitlines()[2])[-2:] == [span, said]
    assert ("~: from the first call's start" in captured) == bool(ended)
    assert command("log", "--json", str(tmp_path)) == 0
    (one,) = json.loads(capsys.readouterr().out)["sessions"]
    assert one["calls_outcome"] == (said if ended else None)
    assert one["calls_span_ns"] == ((ended[-1] + 1) * S if ended else None)


def test_only_marks_of_a_sessions_time_are_told_with_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made.put(tmp_path / "sessions" / "old", made.started("a", "build", 600 * S, session="old"))
    with (tmp_path / "sessions" / "old" / "a.jsonl").open("ab") as file:
        file.write(made.lines(made.finished("a", 610 * S, session="old")))
    made.put(tmp_path / "sessions" / "new", made.started("b", "build", 900 * S, session="new"))
    (tmp_path / "marks").mkdir()
    for words, at, told in (
        (["show", "old"], 539, False),
        (["show", "old"], 541, True),
        (["show", "a"], 669, True),
        (["show", "old"], 671, False),
        (["show", "new"], 839, False),
        (["show"], 10**6, True),
        (["log", "-n", "1"], 899, False),
        (["log", "-n", "1"], 900, True),
        (["log"], 599, False),
        (["log"], 601, True),
    ):
        mark = tmp_path / "marks" / f"{made.BOOT + at * S}-7.json"
        mark.write_text('{"fault":"no room"}')
        assert command(*words, "--store", str(tmp_path)) == 0
        assert ("no room" in capsys.readouterr().err) == told, (words, at)
        assert command(*words, "--json", "--store", str(tmp_path)) == 0
        assert bool(json.loads(capsys.readouterr().out)["marks"]) == told
        mark.unlink()


def test_a_mark_too_old_to_be_read_is_not_called_unreadable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    by_meter(tmp_path, 0)
    by_meter(tmp_path, 10**12)
    leave_marks(tmp_path, "old", *[{"fault": "x", "policy": "strict"}] * 100)
    session = tmp_path / "sessions" / "5e0000"
    with next(session.iterdir()).open("ab") as file:
        call = next(session.iterdir()).stem
        file.write(made.lines(made.finished(call, 1, session="5e0000")))
    for path in sorted((tmp_path / "marks").iterdir())[1:]:
        path.rename(path.with_name(f"{int(path.name.split('-')[0]) + 10**15}-7.json"))
    assert command("show", "5e0000", "--store", str(tmp_path)) == 0
    err = capsys.readouterr().err
    assert "1 call ran unmeasured or measured in part, at " in err
    assert ": its mark says why (" in err


@pytest.mark.parametrize("wanted", ["last.6", "5f.6", f"{SESSION}.6"])
def test_a_call_is_named_by_its_number(capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    assert command("show", wanted, "--store", str(made.SESSION_V1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("invocation ")
    assert re.search(r"kernel +soko ", out)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("last.0", "show last.0: the session has 7 calls; give .1 to .7"),
        ("5f.8", "show 5f.8: the session has 7 calls; give .1 to .7"),
        ("18eceb55c.1", "that is one call; only calls of a session have numbers"),
        ("zz.1", "no session or call has an id that begins so"),
        ("last.1234567", "no session or call has an id that begins so"),
    ],
)
def test_a_wrong_number_is_one_line_and_2(capsys: pytest.CaptureFixture[str], wanted: str, said: str) -> None:
    assert command("show", wanted, "--store", str(made.SESSION_V1)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_an_id_with_a_point_in_it_is_an_id(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store_of(tmp_path, made.started("a", session="s"), made.started("b", session="s.1"))
    assert command("show", "s.1", "--store", str(tmp_path)) == 0
    assert capsys.readouterr().out.startswith("session s.1 ")


@pytest.mark.parametrize("words", [["show"], ["show", "abc"], ["show", "--json"], ["log"], ["log", "--json"]])
@pytest.mark.parametrize("what", ["folder", "file", "foreign"])
def test_what_is_there_and_cannot_be_read_is_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], what: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "named"
        path.mkdir() if what == "folder" else path.write_text("root:x:0:0\n")
        path.chmod(0o644 if what == "foreign" else 0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            assert command(*words, "--store", str(path)) == 1
        finally:
            if root:
                os.seteuid(0)
    err = capsys.readouterr().err
    assert f"no records could be read in {path}" in err
    assert "launchers were installed by root but the judge runs as another user" in err


@pytest.mark.parametrize(("name", "status"), [("empty.jsonl", 0), ("notes.txt", 1)])
def test_an_empty_file_is_a_store_by_its_name_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, status: int
) -> None:
    (tmp_path / name).touch()
    for words in (["show"], ["log"]):
        assert command(*words, "--store", str(tmp_path / name)) == status
        assert capsys.readouterr().err.count("nothing here") == (status == 0)


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["show", "--all"], ["log"], ["log", "--json"]])
def test_an_output_that_cannot_be_written_is_one_line_and_1(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "proofcost", *words, "--store", str(made.SESSION_V1)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.stderr == "proofcost: the output cannot be written: No space left on device\n"
    assert found.returncode == 1


def test_a_session_id_is_never_folded(capsys: pytest.CaptureFixture[str]) -> None:
    raw = io.StringIO()
    rows = [Row([SESSION, "2026-11-30 20:05:00", "lake env comparator", "build 1, export 1", "20.0 s", "exit 1"])]
    for width in (80, 60, 50, 30):
        console = Console(file=raw, force_terminal=True, width=width, color_system=None)
        console.print(table_in(console, log.COLUMNS, rows, right=(4,), least=log.LEAST, unbroken=(0,)))
    assert raw.getvalue().count(SESSION) == 4


@pytest.mark.parametrize("words", [["log", "a", "--store", "b"], ["log", "-n", "0"], ["log", "-n", "x"]])
def test_wrong_log_options_are_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        raise SystemExit(command(*words))
    assert capsys.readouterr().err


def test_a_time_no_calendar_has_is_shown_as_it_is(tmp_path: Path) -> None:
    event = made.started(clocks={"realtime_ns": (1 << 63) - 1})
    assert "session" in table_of(tmp_path / "1", event)
    event = made.started(clocks={"realtime_ns": -(1 << 63)})
    assert "session" in table_of(tmp_path / "2", event)


def test_a_closed_pipe_is_no_complaint() -> None:
    words = [sys.executable, "-m", "proofcost", "show", "--all", "--json", "--store", str(made.SESSION_V1)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.read(10)
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    assert (child.wait(), err) == (0, b"")
