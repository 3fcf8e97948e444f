"""`proofcost import`: what is taken, once, whole or not at all; what each format becomes."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proofcost
from proofcost import importing
from proofcost.adapters import foreign, formats
from proofcost.adapters.foreign import FormatError, Head
from proofcost.cli import main
from proofcost.harness.columns import NAMES
from proofcost.reports.dataset import open_data

FOREIGN = Path(__file__).parent / "fixtures" / "foreign"
ROOT = Path(__file__).parent.parent


def rows_of(path: Path, store: Path, named: str | None = None) -> list[dict[str, Any]]:
    """The rows that an import of `path` adds to `store`, without what is null."""
    taken = importing.take(path, store, named)
    assert taken is not None
    made = proofcost.load(store).to_pylist()
    assert len(made) == taken.rows
    made.sort(key=lambda row: int(row["record"].rpartition("-")[2]))
    return [
        {name: json.loads(value) if name in ("labels", "weak", "absent", "defects") else value
         for name, value in row.items() if value is not None}
        for row in made
    ]  # fmt: skip


def import_into(store: Path, *paths: Path) -> int:
    return main(["import", "--store", str(store), *map(str, paths)])


def proofcost_import(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "proofcost", "import", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_hyperfine(tmp_path: Path) -> None:
    rows = rows_of(FOREIGN / "hyperfine.json", tmp_path)
    assert [row["wall_command"] for row in rows] == [300_000_000, 302_000_000, 304_900_000, 500_000]
    assert [row.get("exit_code") for row in rows] == [0, 0, None, 1]
    assert [row["outcome"] for row in rows] == ["exited", "exited", "signaled", "exited"]
    assert rows[0]["labels"] == {"threads": "4"}
    assert rows[0]["weak"] == {"memory_peak_process": "upper_bound"}
    assert "memory_peak_process" not in rows[3]
    assert all("verdict" not in row for row in rows), "an exit code of who knows what says nothing"


def test_what_is_no_exit_code_of_hyperfine_is_not_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    path.write_text(
        '{"results": [{"command": "x", "times": [1, 1, 1], "exit_codes": [null, 99999999999999999999, 0.5]}]}'
    )
    assert [row.get("outcome") for row in rows_of(path, tmp_path)] == ["signaled", None, None]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"results": [{"command": "\xff", "times": [1]}]}', "not JSON: not UTF-8"),
        (b'{"results": [{"command": "x", "times": [NaN]}]}', "not JSON: it holds NaN"),
        (b'{"results": [{"command": "x", "times": [1', "is it cut short?"),
    ],
)
def test_what_is_no_json_is_told_in_plain_words(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "h.json").write_bytes(content)
    assert main(["import", "--store", str(tmp_path / "s"), str(tmp_path / "h.json")]) != 0
    error = capsys.readouterr().err
    assert said in error
    assert "b'" not in error


def test_arena(tmp_path: Path) -> None:
    (row,) = rows_of(FOREIGN / "arena.one.json", tmp_path / "one")
    assert (row["kernel"], row["subject"], row["wall_command"]) == ("nanoda", "tutorial/bad_01", 250_000_000)
    assert row["verdict"] == "ambiguous", "its script folds every failure into 1"
    assert set(row["absent"]) == {"cpu_waited", "memory_peak_process", "instructions"}
    accepted, stopped, rejected = rows_of(FOREIGN / "arena.site.json", tmp_path / "site")
    assert accepted["wall_command"] == 96_123_456_789
    assert (accepted["instructions"], accepted["memory_peak_process"]) == (576_000_000_001, 540_000_000)
    assert "instructions_u" not in accepted
    assert (stopped["outcome"], stopped["cause"], stopped.get("verdict")) == ("timed_out", "time_limit", None)
    assert stopped["weak"] == {"wall_command": "lower_bound"}
    assert (rejected["verdict"], rejected["exit_code"]) == ("rejected", 1)
    assert rejected["absent"]["instructions"] == "not in the source"


def test_radar(tmp_path: Path) -> None:
    kernel, build, size = rows_of(FOREIGN / "radar.jsonl", tmp_path / "a")
    assert (kernel["phase"], kernel["kernel"], kernel["wall_command"]) == ("checker", "nanoda", 1_250_000_000)
    assert kernel["weak"] == {"instructions_u": "derived", "memory_peak_process": "lower_bound"}
    assert (build["subject"], build["instructions_u"]) == ("build/module/X", 1_000_006)
    assert "weak" not in build
    assert json.loads(size["other_figures"]) == {"bytes": 12_345_678_901}
    (output,) = rows_of(FOREIGN / "radar.output.txt", tmp_path / "b")
    assert output["task_clock"] == 100_000_000


def test_gnu_time(tmp_path: Path) -> None:
    whole, killed = rows_of(FOREIGN / "gnu-time.txt", tmp_path)
    assert whole["wall_command"] == 3723 * 10**9
    assert (whole["cpu_waited"], whole["context_switches"]) == (1_250_000_000, 10)
    assert whole["memory_peak_process"] == 24576 * 1024
    assert whole["weak"] == {"memory_peak_process": "lower_bound"}
    assert (whole["outcome"], whole["exit_code"]) == ("exited", 0)
    assert (killed["outcome"], killed["signal"], killed.get("exit_code")) == ("signaled", 9, None)
    assert killed["wall_command"] == 12_340_000_000
    assert {"cpu_waited", "memory_peak_process"} <= set(killed["absent"])


def test_perf_stat(tmp_path: Path) -> None:
    (row,) = rows_of(FOREIGN / "perf-stat.csv", tmp_path / "csv")
    assert (row["task_clock"], row["wall_command"], row["page_faults"]) == (1_234_560_000, 1_236_000_000, 42)
    assert row["absent"] == {"instructions_u": "not supported"}
    assert (row["cycles_u"], row["weak"]) == (5_000_000_000, {"cycles_u": "derived"})
    (row,) = rows_of(FOREIGN / "perf-stat.json", tmp_path / "json")
    assert (row["task_clock"], row["context_switches"]) == (1_234_560_000, 17)
    assert row["absent"] == {"instructions": "not counted"}


def test_pytest_benchmark(tmp_path: Path) -> None:
    first, second, other = rows_of(FOREIGN / "pytest-benchmark.json", tmp_path)
    assert [first["wall_command"], second["wall_command"]] == [100_000_000, 200_000_000]  # half to even: 200,000,000.5
    assert first["labels"] == {"commit": "abcdef0", "cpu": "AMD EPYC 7B13", "node": "desk", "group": "kernels"}
    assert first["started_ns"] == 1_796_040_000 * 10**9
    assert "wall_command" not in other
    assert other["absent"]["wall_command"].startswith("only statistics were saved")


def test_pyperf(tmp_path: Path) -> None:
    warm, one, two, three, size = rows_of(FOREIGN / "pyperf.json", tmp_path)
    assert [row["warmup"] for row in (warm, one, two, three)] == [True, False, False, False]
    assert [row["wall_command"] for row in (warm, one, two, three)] == [
        400_000_000,
        250_000_000,
        260_000_000,
        300_000_000,
    ]
    assert [row["build"] for row in (one, two, three)] == [1, 1, 2]
    assert (warm["memory_peak_process"], "memory_peak_process" in three) == (7_340_032, False)
    assert one["started_ns"] == 1_796_040_000 * 10**9 + 1000
    assert (json.loads(size["other_figures"]), size["absent"]) == ({"byte": 1024}, {"wall_command": "measured in byte"})


def test_benchexec(tmp_path: Path) -> None:
    done, memory, slow = rows_of(FOREIGN / "benchexec.results.xml", tmp_path)
    assert (done["wall_command"], done["cpu_tree"]) == (25_123_456_789, 96_500_000_000)
    assert (done["verdict"], done["outcome"], done["exit_code"]) == ("accepted", "exited", 0)
    assert (done["memory_limit_bytes"], done["time_limit_ns"]) == (8_000_000_000, 900 * 10**9)
    assert (memory["cause"], memory["signal"], memory.get("verdict")) == ("memory_limit", 9, None)
    assert (slow["cause"], slow["outcome"]) == ("cpu_limit", "timed_out")
    assert "memory_peak_tree" in slow["absent"]


def test_a_small_document_that_unfolds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "benchexec.results.xml"
    path.write_text('<?xml version="1.0"?><!DOCTYPE result [<!ENTITY a "aaaa">]><result benchmarkname="x">&a;</result>')
    with pytest.raises(FormatError, match="declares entities"):
        importing.take(path, tmp_path / "store")


def test_lean_exercise(tmp_path: Path) -> None:
    one, two, three, four = rows_of(FOREIGN / "lean-exercise.check.json", tmp_path / "a")
    assert (one["wall_command"], one["verdict"]) == (11_400_000_000, "accepted")
    assert one["labels"]["kernels"] == "Lean default,nanoda"
    assert (two["outcome"], two.get("verdict")) == ("timed_out", None)
    assert three["wall_command"] == 3_200_000_000
    assert "wall_command" not in four, "a verdict without a run is no sample"
    assert four["absent"]["wall_command"].startswith("not run")
    for at, name in enumerate(("batch.json", "batch.csv")):
        first, second = rows_of(FOREIGN / f"lean-exercise.{name}", tmp_path / f"b{at}")
        assert (first["subject"], first["verdict"], first["input_sha256"]) == ("a.lean", "accepted", "cc")
        assert second["verdict"] == ("rejected" if at == 0 else "error")
        assert "wall_command" in first["absent"]


def test_harbor(tmp_path: Path) -> None:
    setup, agent, verifier = rows_of(FOREIGN / "harbor.json", tmp_path)
    assert [row["phase"] for row in (setup, agent, verifier)] == ["environment_setup", "agent_execution", "whole"]
    assert setup["wall_command"] == 30_500_000_000
    assert "wall_command" in agent["absent"]
    assert (verifier["wall_command"], verifier["verdict"]) == (210_249_999_000, "accepted")
    assert verifier["absent"]["memory_peak_tree"] == "Harbor keeps none"


def test_leaneval(tmp_path: Path) -> None:
    build, checker = rows_of(FOREIGN / "leaneval.metrics.json", tmp_path / "a")
    assert (build["wall_command"], build["labels"]) == (15_300_000_000, {"invocations": "2"})
    assert build["absent"] == {"instructions_u": "counter_not_supported"}
    assert "a sum of several invocations: no sample of one" in build["defects"]
    assert (checker["outcome"], checker["signal"], checker["instructions_u"]) == ("signaled", 9, 123_456_789)
    assert checker["absent"] == {"wall_command": "0 ms: under 1 ms, floored"}
    for row in rows_of(FOREIGN / "leaneval.verdict.json", tmp_path / "b"):
        assert (row["outcome"], row["cause"], "wall_command" in row) == ("timed_out", "time_limit", False)
        assert row["absent"]["wall_command"].startswith("imputed")
    (one,) = rows_of(FOREIGN / "leaneval.observations.json", tmp_path / "c")
    assert (one["subject"], one["verdict"], one["kernel"]) == ("r1", "accepted", "nanoda-0.4.10")
    assert (one["wall_command"], one["memory_peak_process"]) == (430_000_000, 24_000_000)


def test_kernel_challenge(tmp_path: Path) -> None:
    whole, one, two, slot, late = rows_of(FOREIGN / "kernel-challenge.json", tmp_path)
    assert (whole["phase"], whole["wall_command"]) == ("whole", 12_300_000_000)
    assert (one["instructions"], one["memory_peak_process"]) == (8_400_000, 69_000 * 1024)
    assert one["labels"]["boundary"] == "full-closure-replay-v1"
    assert {"cohort": "c1", "measurement_contract": "kernel-replay-v2"}.items() <= one["labels"].items()
    assert (two["iteration"], two["absent"]) == (2, {"memory_peak_process": "not in the sample"})
    assert (slot["n"], slot["workload"], slot["family"], slot["labels"]["group"]) == (20, "fib-20", "fib", "2")
    assert (late["cause"], late.get("verdict"), "wall_command" in late) == ("time_limit", None, False)
    assert not any("instructions_u" in row for row in (one, two, slot))


def test_kernel_timing(tmp_path: Path) -> None:
    (row,) = rows_of(FOREIGN / "kernel-timing.txt", tmp_path)
    assert (row["wall_command"], row["subject"]) == (1_234_567, "Nat.add_comm")
    assert (row["memory_peak_process"], row["absent"]) == (70_000 * 1024, {"instructions": "not in the line"})


def test_other_judges(tmp_path: Path) -> None:
    (row,) = rows_of(FOREIGN / "cgroup-status.json", tmp_path / "a")
    assert (row["outcome"], row["signal"], row["cause"]) == ("signaled", 9, "memory_limit")
    assert (row["memory_peak_tree"], row["cpu_tree"]) == (2_800_000_000, 12_000_000_000)
    top, resolve, checker = rows_of(FOREIGN / "validation-profile.json", tmp_path / "b")
    assert (top["wall_command"], top["phase"]) == (11_440_500_000, "unknown")
    assert (resolve["phase"], resolve["labels"]) == ("resolve", {"depth": "1"})
    assert (checker["subject"], checker["memory_peak_tree"]) == ("validate/leanchecker", 129_000_000)
    one, late = rows_of(FOREIGN / "kimina.json", tmp_path / "c")
    assert (one["wall_command"], one["weak"]) == (2_500_000_000, {"memory_peak_tree": "lower_bound"})
    assert (late["subject"], late["outcome"], late["weak"]) == ("2", "timed_out", {"wall_command": "lower_bound"})
    assert late["absent"]["memory_peak_tree"].startswith("0: polled")


@pytest.mark.real
def test_what_the_real_programs_write_is_taken(tmp_path: Path, hyperfine: Path, gnu_time: Path, perf: Path) -> None:
    """Each program runs `sleep 0.05` and says so in its own words; all of them must end up near 50 ms."""
    sleep = ["sleep", "0.05"]
    pyperf = [sys.executable, "-m", "pyperf", "command", "--processes=2", "--values=1", "--warmups=1", "-q"]
    runs: dict[str, list[object]] = {
        "hyperfine.json": [hyperfine, "-N", "-r", "3", "--export-json", tmp_path / "hyperfine.json", " ".join(sleep)],
        "gnu-time.txt": [gnu_time, "-v", "-o", tmp_path / "gnu-time.txt", *sleep],
        "perf-stat.csv": [
            perf,
            "stat",
            "-x,",
            "-e",
            "duration_time,task-clock",
            "-o",
            tmp_path / "perf-stat.csv",
            *sleep,
        ],
        "perf-stat.json": [perf, "stat", "-j", "-e", "duration_time", "-o", tmp_path / "perf-stat.json", *sleep],
        "pyperf.json": [*pyperf, "-o", tmp_path / "pyperf.json", "--", *sleep],
    }
    for name, command in runs.items():
        done = subprocess.run([str(word) for word in command], capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        rows = rows_of(tmp_path / name, tmp_path / f"store-{name}")
        assert rows[0]["source"] == name.split(".")[0]
        for row in rows:
            assert 40_000_000 <= row["wall_command"] < 30 * 10**9 or row["source"] == "gnu-time", (name, row)


@pytest.mark.real
def test_benchexec_itself_reads_our_idea_of_its_results(tmp_path: Path) -> None:
    copy = tmp_path / "nanoda.2026-11-30_12-00-00.results.xml"
    copy.write_bytes((FOREIGN / "benchexec.results.xml").read_bytes())
    program = Path(sys.executable).with_name("table-generator")
    command = [str(program), "--no-diff", "--format=csv", "-o", str(tmp_path), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    table = next(tmp_path.glob("*.csv")).read_text()
    assert "25.123456789" in table
    assert "OUT OF MEMORY" in table


def test_the_same_file_twice_adds_nothing(tmp_path: Path) -> None:
    first = proofcost_import(FOREIGN / "hyperfine.json", "--store", tmp_path, "-l", "machine=desk")
    assert (first.returncode, first.stderr) == (0, "")
    assert ": hyperfine: 4 rows\n" in first.stdout
    assert "cannot tell: when and where it ran" in first.stdout
    again = proofcost_import(FOREIGN / "hyperfine.json", "--store", tmp_path)
    assert "stands there already; nothing was added" in again.stdout
    table = proofcost.load(tmp_path, where=["label.machine=desk"])
    assert table.num_rows == 4


@pytest.mark.parametrize("name", formats.names())
def test_what_is_said_of_a_format_is_true_of_its_names(name: str) -> None:
    one = formats.load(name)
    for theirs, ours, _ in one.MAPS:
        for column in ours.split(", "):
            assert column in NAMES, (theirs, column)
    assert one.HELP
    assert one.UNKNOWN


@pytest.mark.parametrize("path", sorted(FOREIGN.iterdir()), ids=lambda path: path.name)
def test_every_fixture_is_recognised_as_what_it_is(path: Path) -> None:
    name = path.name.split(".")[0]
    assert formats.recognise(Head(path.name, path.read_bytes()[: foreign.HEAD_BYTES])) == [name]


@pytest.mark.parametrize("path", sorted(FOREIGN.iterdir()), ids=lambda path: path.name)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.8, 0.99])
def test_a_file_cut_short_is_refused_or_taken_for_what_is_left(path: Path, part: float, tmp_path: Path) -> None:
    raw = path.read_bytes()
    cut = tmp_path / path.name
    cut.write_bytes(raw[: int(len(raw) * part)])
    try:
        importing.take(cut, tmp_path / "store", path.name.split(".")[0])
        said = ""
    except FormatError as error:
        said = str(error)
    assert "\n" not in said
    assert not said or not list((tmp_path / "store").rglob("*.parquet"))


@pytest.mark.parametrize(
    "odd",
    [
        '{"results": [{"command": "x", "times": [1], "times": [2], "exit_codes": [0]}]}',
        '{"results": [{"command": "x", "times": [NaN], "exit_codes": [0]}]}',
        '{"results": [{"command": "x", "times": [1]' + ", [1" * 50_000,
        '{"results": [{"command": "x", "times": {}}]}',
        '{"results": [{"command": "x", "x": ' + "[" * 100_000 + "]" * 100_000 + ', "times": [1]}]}',
        '{"results": [{"command": "x", "times": [' + "9" * 5000 + "]}]}",
    ],
    ids=["a member twice", "NaN", "deep and torn", "no list", "deep", "a number that crashes the parser"],
)
def test_hostile_json_is_refused_in_one_line(tmp_path: Path, odd: str) -> None:
    (tmp_path / "h.json").write_text(odd)
    with pytest.raises(FormatError) as caught:
        importing.take(tmp_path / "h.json", tmp_path / "store", "hyperfine")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "store").rglob("*.parquet"))


JSON = st.recursive(
    st.one_of(
        st.none(), st.integers(), st.text(), st.sampled_from(['"', "\\", '\\"', "[[[[", "}}", "\\\\", "1" * 2000])
    ),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.text(max_size=3), below, max_size=3)),
    max_leaves=12,
)


def depth(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + max((depth(one) for one in below), default=0)


@given(JSON, st.integers(0, 250), st.integers(1, 400), st.booleans())
def test_the_guard_refuses_depth_and_nothing_else(value: Any, more: int, block: int, ascii_only: bool) -> None:
    for _ in range(more):
        value = [value]
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    guarded = foreign.Guarded(io.BufferedReader(io.BytesIO(text)))
    read = b""
    try:
        while part := guarded.read(block):
            read += part
    except FormatError:
        assert depth(value) > foreign.MAX_DEPTH
    else:
        assert read == text
        assert depth(value) <= 3 * foreign.MAX_DEPTH


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    assert import_into(tmp_path / "store", tmp_path / "fifo.json") == 1
    assert "fifo.json: no regular file" in capsys.readouterr().err


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    path.write_text('\ufeff{"results": [{"command": "x", "times": [1.5, 1e999999], "exit_codes": [0, 0]}]}')
    first, second = rows_of(path, tmp_path / "store")
    assert first["wall_command"] == 1_500_000_000
    assert "wall_command" not in second


def test_negative_times_are_absent(tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text(
        '{"results": [{"command": "x", "times": [-1, 1e400, 0.25], "exit_codes": [0, 0, 0]}]}'
    )
    rows = rows_of(tmp_path / "h.json", tmp_path / "store")
    assert [row.get("wall_command") for row in rows] == [None, None, 250_000_000]
    assert rows[0]["absent"] == {"wall_command": "not a time in the source"}


def test_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of interest")
    done = proofcost_import(tmp_path / "notes.txt", "--store", tmp_path / "store")
    assert done.returncode == 1
    assert "notes.txt: of no format that is known" in done.stderr
    done = proofcost_import(tmp_path, "--store", tmp_path / "store")
    assert (done.returncode, done.stdout) == (0, "1 file of no format that is known left aside\n")


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.json"
    path.write_bytes((FOREIGN / "hyperfine.json").read_bytes())
    real = formats.load("hyperfine").rows

    def growing(source: foreign.Source) -> Any:
        yield from real(source)
        path.write_bytes(path.read_bytes() + b" ")

    monkeypatch.setattr(importing, "_rows", lambda name, source: growing(source))
    with pytest.raises(FormatError, match="changed while it was read"):
        importing.take(path, tmp_path / "store")
    assert not [one for one in (tmp_path / "store").rglob("*") if one.is_file()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no file given"),
        (["/no/such/file"], "/no/such/file: no such file or folder"),
        ([__file__, "--as", "hyperfien"], "no such format"),
        ([__file__, "-l", "nonsense"], "not of the form KEY=VALUE"),
    ],
)
def test_wrong_calls(words: list[str], said: str) -> None:
    done = proofcost_import(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_store_that_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    assert proofcost_import(FOREIGN / "hyperfine.json", "--store", tmp_path / "a" / "store").returncode == 0
    assert (tmp_path / "a" / "store").stat().st_mode & 0o777 == 0o700


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    done = proofcost_import(FOREIGN / "hyperfine.json", "--store", tmp_path / "file" / "store")
    assert done.returncode == 2
    assert f"store {tmp_path}/file" in done.stderr
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "parquet").write_text("in the way")
    done = proofcost_import(FOREIGN / "hyperfine.json", "--store", tmp_path / "store")
    assert done.returncode == 2
    assert f"{tmp_path}/store/parquet" in done.stderr
    assert "not a folder of ours" in done.stderr
    assert done.stderr.count("\n") == 1


def test_numbers_stay_exact() -> None:
    assert foreign.ns(foreign.parse("0.1")) == 100_000_000
    assert foreign.ns(foreign.parse("933795598.537000001")) == 933_795_598_537_000_001
    assert [foreign.ns(value) for value in (-1, True, "x", None, foreign.parse("1e300"))] == [None] * 5
    assert [foreign.count(value) for value in (5, "5", foreign.parse("5.0"), foreign.parse("5.5"))] == [5, 5, 5, None]
    assert foreign.moment("1970-01-01T00:00:01.5Z") == foreign.moment(foreign.parse("1.5")) == 1_500_000_000
    assert foreign.moment("yesterday") is None


@pytest.mark.parametrize("odd", ['{"a":1,"a":2}', '{"a":NaN}', "[" * 100_000, '{"a":', ""])
def test_what_is_no_plain_json(odd: str) -> None:
    with pytest.raises(FormatError):
        foreign.parse(odd)


def test_the_page_of_what_maps_to_what_is_up_to_date() -> None:
    assert (ROOT / "docs" / "imports.md").read_text() == importing.page(), (
        "proofcost import --formats > docs/imports.md"
    )


def one_command(folder: Path, **more: Any) -> Path:
    path = folder / "one.json"
    path.write_text(json.dumps({"results": [{"command": "./k x.ndjson", "times": [0.5, 0.7], **more}]}))
    return path


def test_a_kernel_and_a_subject_that_the_file_does_not_tell(tmp_path: Path) -> None:
    said = proofcost_import("--store", tmp_path / "s", "--kernel", "nanoda", "--subject", "x", one_command(tmp_path))
    assert said.returncode == 0, said
    assert said.stdout.endswith(f"next: proofcost report kernels {tmp_path / 's'}\n")
    made = proofcost.load(tmp_path / "s").to_pylist()
    assert [(row["kernel"], row["subject"]) for row in made] == [("nanoda", "x")] * 2
    assert json.loads(made[0]["labels"]) == {"imported_kernel": "./k x.ndjson"}


def test_one_name_is_not_given_to_two_kernels(tmp_path: Path) -> None:
    said = proofcost_import("--store", tmp_path / "s", "--kernel", "k", FOREIGN / "hyperfine.json")
    assert (said.returncode, said.stdout) == (1, "")
    assert "--kernel gives one name to several: " in said.stderr
    assert not list((tmp_path / "s").rglob("*.parquet"))


def test_kernel_and_workload_as_parameters_or_extra_info(tmp_path: Path) -> None:
    path = one_command(tmp_path, parameters={"kernel": "soko", "workload": "big"})
    assert {(row["kernel"], row["workload"]) for row in rows_of(path, tmp_path / "h")} == {("soko", "big")}
    bench = {"fullname": "t", "stats": {"data": [0.5]}, "extra_info": {"kernel": "nanoda", "workload": "w"}}
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"machine_info": {}, "commit_info": {}, "benchmarks": [bench]}))
    [row] = rows_of(path, tmp_path / "p")
    assert (row["kernel"], row["workload"], row["subject"]) == ("nanoda", "w", "t")


def test_a_folder_of_others_is_no_store(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o770)
    (folder / "theirs.txt").write_text("")
    said = proofcost_import("--store", folder, FOREIGN / "hyperfine.json")
    assert said.returncode == 2
    assert "not a store (mode 0770, holds other things)" in said.stderr
    assert [one.name for one in folder.iterdir()] == ["theirs.txt"]
    assert folder.stat().st_mode & 0o777 == 0o770


def test_a_name_that_would_break_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "h\x1b[31m<b>.json"
    path.write_bytes((FOREIGN / "hyperfine.json").read_bytes())
    done = proofcost_import(path, "--store", tmp_path / "store")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert os.listdir(tmp_path / "store" / "parquet") == ["import=hyperfine"]


def result(folder: Path, number: int, **more: object) -> Path:
    """One `_results` file of the arena."""
    path = folder / f"official_test-{number}.json"
    known = {"checker": "official", "test": f"test-{number}", "status": "accepted", "correctness": "correct"}
    path.write_text(json.dumps({**known, "exit_code": 0, "wall_time": number + 0.5, "instructions": 0, **more}))
    return path


def test_a_folder_of_small_files_is_a_few_parquet_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, store = tmp_path / "_results", tmp_path / "store"
    (folder / "below").mkdir(parents=True)
    for number in range(30):
        result(folder if number % 2 else folder / "below", number)
    (folder / "readme.txt").write_text("nothing to import")
    (folder / "cut.json").write_text('{"checker": "x", "test": "y", "status": "accepted", "correctness": ')
    (folder / "elsewhere").symlink_to("/etc")
    assert import_into(store, folder) == 1
    said = capsys.readouterr()
    assert f"{folder}: 30 files: arena: 30 rows\n  instructions of 0 taken as missing (30 rows)\n" in said.out
    assert "1 file of no format that is known left aside" in said.out
    assert "cut.json: not JSON" in said.err
    (made,) = store.rglob("*.parquet")
    assert made.name.startswith("batch-")
    query = "SELECT count(*), count(DISTINCT record), count(DISTINCT source_sha256), sum(wall_command) FROM records"
    assert open_data([store]).connection.execute(query).fetchall() == [(30, 30, 30, 450_000_000_000)]
    result(folder, 99)
    (folder / "cut.json").unlink()
    assert import_into(store, folder) == 0
    said = capsys.readouterr()
    assert f"{folder}: 1 file: arena: 1 row\n" in said.out
    assert f"{folder}: arena: 30 files stood there already; nothing was added for them\n" in said.out
    assert open_data([store]).connection.execute("SELECT count(*) FROM records").fetchall() == [(31,)]
    assert import_into(store, result(folder, 99)) == 0, "named itself it stands there too"
    assert open_data([store]).connection.execute("SELECT count(*) FROM records").fetchall() == [(31,)]


def test_a_batch_that_cannot_be_written_is_told_and_taken_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from proofcost.reports import parquet

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for number in range(5):
        result(tmp_path, number)
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write", full)
        assert import_into(tmp_path / "store", tmp_path) == 1
    said = capsys.readouterr()
    assert "5 files that go into" in said.err
    assert "No space left on device" in said.err
    assert "rows" not in said.out
    assert import_into(tmp_path / "store", tmp_path) == 0
    assert "5 files: arena: 5 rows" in capsys.readouterr().out
