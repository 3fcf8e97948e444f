"""`bench --counter callgrind`: counts that repeat, and nothing of such a run that could be taken for its cost."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from benching import Bench, export, kernel, record, script
from rich.console import Console

from proofcost import bench_reports
from proofcost.bench_suites import call, counters
from proofcost.bench_suites.callgrind import NOT_A_VALUE, Callgrind
from proofcost.harness.merged import Record
from proofcost.reports import counted_table

Hostile = Callable[[str], Path]


@pytest.fixture
def bench(tmp_path: Path, valgrind: Path) -> Bench:
    export(tmp_path / "exports/one.ndjson")
    return Bench(tmp_path)


@pytest.mark.real
def test_three_runs_of_each_are_counted_and_compared(bench: Bench, hostile: Hostile) -> None:
    program = hostile("count")
    done = bench(
        f"old={program} loop 1000000", f"same={program} loop 1000000", f"new={program} loop 1500000",
        "--on", "exports", "--counter", "callgrind",
    )  # fmt: skip
    assert done.status == 0, done
    records = bench.records()
    assert sorted(map(kernel, records)) == ["new"] * 3 + ["old"] * 3 + ["same"] * 3
    counts: dict[str, list[int]] = {}
    for one in records:
        counts.setdefault(kernel(one), []).append(one.value("instructions_callgrind"))
        assert one.started["bench"]["counters"] == ["callgrind"]
        assert one.started["target"]["path"] == str(program), "the kernel's own file, not valgrind's"
        assert one.outcome["code"] == 0
        others = {name: figure for name, figure in one.figures.items() if name != "instructions_callgrind"}
        assert {figure["value"] for figure in others.values()} == {None}
        assert others["wall_command"]["reason"] == others["memory_peak_tree"]["reason"] == NOT_A_VALUE
        assert "valgrind-" in one.figures["instructions_callgrind"]["method"]
        assert one.faults == []
    assert max(counts["old"]) - min(counts["old"]) < 1000
    turns = 500_000 * round((counts["new"][0] - counts["old"][0]) / 500_000)
    assert abs(counts["new"][0] - counts["old"][0] - turns) < 1000
    lines = done.stdout.splitlines()
    assert next(line for line in lines if " old " in line).rstrip().endswith("  base")
    assert "no change beyond 0.1 %" in next(line for line in lines if " same " in line)
    assert next(line for line in lines if " new " in line).rstrip().endswith("a change")
    assert bench.left_cgroups() == []


def test_show_prints_the_counted_table_as_bench_does(tmp_path: Path) -> None:
    records = [counted("a", 1_000_000, at) for at in range(3)] + [counted("b", 1_500_000, at) for at in range(3)]
    shown = io.StringIO()
    bench_reports.render_bench(str(tmp_path), records, Console(file=shown))
    assert "a change" in shown.getvalue()
    assert "instructions" in shown.getvalue()
    assert "no ratio" not in shown.getvalue()


@pytest.mark.real
def test_a_kernel_that_is_killed_has_no_count_and_the_others_do(bench: Bench, hostile: Hostile) -> None:
    forks = script(bench.folder / "forks", f"#!/bin/sh\nexec {hostile('count')} fork 1000\n")
    done = bench(
        f"good={hostile('count')} loop 1000", f"forks={forks}", "--on", "exports", "--counter", "callgrind",
        "--repetitions", "1",
    )  # fmt: skip
    assert done.status == 0, done
    by_kernel = {kernel(one): one for one in bench.records()}
    assert by_kernel["good"].value("instructions_callgrind") > 1000
    figure = by_kernel["forks"].figures["instructions_callgrind"]
    assert figure["value"] is None
    assert "before the fork twice" in figure["reason"]
    assert "forks: no count:" in done.stdout
    assert "fewer than 3 runs of each" not in done.stdout


@pytest.mark.real
def test_a_suite_has_it_as_a_key(bench: Bench, hostile: Hostile) -> None:
    program = hostile("count")
    (bench.folder / "s.toml").write_text(
        f'counters = ["callgrind"]\n[[kernel]]\nname = "k"\ncommand = "{program} loop 1000"\n'
        '[[workload]]\npath = "exports"\n'
    )
    done = bench("s.toml")
    assert done.status == 0, done
    assert len(bench.records()) == 3
    assert all(one.value("instructions_callgrind") > 1000 for one in bench.records())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--threads", "4"], "with 4 threads: under valgrind threads take turns"),
        (["--threads", "1", "--threads", "4"], "with 1, 4 threads"),
        (["--sandbox", "landrun"], "in landrun: valgrind must write"),
        (["--sandbox", "bwrap"], "in bwrap: valgrind must write"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_one_line(bench: Bench, words: list[str], why: str) -> None:
    done = bench("k=/bin/true", "--on", "exports", "--counter", "callgrind", *words)
    assert (done.status, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (bench.store / "sessions").exists()


def test_a_counter_that_does_not_exist_is_named(bench: Bench) -> None:
    done = bench("k=/bin/true", "--on", "exports", "--counter", "calgrind")
    assert done.status == 2
    assert "'calgrind': no such counter" in done.stderr
    assert "callgrind" in done.stderr.partition("no such counter")[2]


def test_a_missing_valgrind_is_named_with_its_cure(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = bench("k=/bin/true", "--on", "exports", "--counter", "callgrind", env=[("PATH", str(tmp_path / "empty"))])
    assert done.status == 2
    assert "no valgrind on PATH; install it (Debian: apt-get install valgrind)" in done.stderr


def test_wrapped_words_keep_the_command_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Callgrind("/opt/valgrind", "valgrind-3.19.0")
    monkeypatch.setattr(counters, "found", lambda: tool)
    words = counters.wrapped(("/k", "--x", "a b"), ("callgrind",), "/tmp/f")
    assert words[0] == "/opt/valgrind"
    assert words[-3:] == ("/k", "--x", "a b")
    assert counters.wrapped(("/k",), (), "/tmp/f") == ("/k",)
    assert counters.refusal((), (4,), call.LANDRUN) is None, "without a counter nothing is refused"


def counted(name: str, value: int | None, block: int, **changes: Any) -> Record:
    figure = {"value": value, "unit": "count", "method": "valgrind-3.19.0", "status": "measured", "reason": None}
    if value is None:
        figure |= {"status": "unavailable", "reason": "no\x1b[2J end"}
    return record(
        name, "w", None, block=block, turn_number=100 * ord(name) + block, counters=["callgrind"],
        measurements={"instructions_callgrind": figure}, **changes,
    )  # fmt: skip


def drawn(*records: Record) -> str:
    out = io.StringIO()
    counted_table.render(records, Console(file=out))
    return out.getvalue()


def test_the_table_of_counts() -> None:
    shown = drawn(
        *(counted("a", 1_000_000, at) for at in range(3)),
        *(counted("b", 1_002_000, at) for at in range(3)),
        *(counted("c", 1_000_500 + at * 1000, at) for at in range(3)),
    )
    lines = {line.split()[0 if line.startswith(" ") else 1]: line for line in shown.splitlines() if "1.00 M" in line}
    assert lines["a"].rstrip().endswith("  base")
    assert shown.splitlines()[0].split()[-2:] == ["effect", "finding"]
    assert "+0.2 %  a change" in lines["b"]
    assert lines["c"].rstrip().endswith("no change beyond 0.999 %"), "five times 2,000 by 1,001,500"
    assert "never pool these counts" in shown


@pytest.mark.parametrize(
    ("effect", "text"),
    [("0.00213", "+0.213 %"), ("-0.123", "-12.3 %"), ("0.99", "+99 %"), ("1", "2x"), ("11.3", "12.3x"),
     ("12344", "12,300x"), ("0.0000003", "+0.00003 %"), ("0", "+0 %")],
)  # fmt: skip
def test_an_effect_is_never_a_power_of_ten(effect: str, text: str) -> None:
    assert counted_table.effect_text(Fraction(effect)) == text


def test_too_few_runs_and_missing_counts_are_said() -> None:
    shown = drawn(counted("a", 5, 1), counted("a", None, 2), counted("b", 5, 1))
    assert "fewer than 3 runs of each" in shown
    assert "a: no count: no\\x1b[2J end" in shown
    assert "\x1b" not in shown


def test_unlike_verdicts_are_not_compared() -> None:
    shown = drawn(*(counted("a", 1000, at) for at in range(3)), *(counted("b", 9000, at, code=1) for at in range(3)))
    assert "not the same whole work" in shown
    assert "a change" not in shown.partition("a change: an effect")[0]


def test_only_counted_runs_get_this_table() -> None:
    assert counted_table.is_counted([counted("a", 1, 1)])
    assert not counted_table.is_counted([record("a")])
    assert not counted_table.is_counted([])
