"""`proofcost export` of rows: what each format says, read back by the program that it is for."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from calling import PROOFCOST
from hypothesis import given, settings
from hypothesis import strategies as st

import proofcost
from proofcost import export, importing
from proofcost.adapters import (
    foreign,
    formats,
    to_arena,
    to_csv,
    to_openmetrics,
    to_parquet,
    to_pytest_benchmark,
    to_radar,
)
from proofcost.harness.columns import NAMES, Row
from proofcost.pseudonyms import CHOSEN, pseudonym, pseudonymised
from proofcost.reports import parquet

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"
ROOT = Path(__file__).parent.parent
S = 10**9
BASE: Row = {"phase": "checker", "kernel": "nanoda", "subject": "init", "outcome": "exited", "cause": "completed",
             "exit_code": 0, "verdict": "accepted", "started_ns": 1_796_040_000 * S}  # fmt: skip
ROWS: list[Row] = [
    {**BASE, "record": "1", "wall_program": 2 * S, "wall_command": 3 * S, "instructions_u": 933_795_598_537,
     "memory_peak_tree": 1000, "labels": {"who": "alice"}},
    {**BASE, "record": "2", "wall_program": 1_250_000_001, "instructions_u": 5, "memory_peak_tree": 2000},
    {**BASE, "record": "3", "wall_program": 9 * S, "warmup": True},
    {**BASE, "record": "4", "wall_program": 60 * S, "outcome": "timed_out", "cause": "time_limit", "verdict": None},
    {**BASE, "record": "5", "kernel": 'we"ird\\\nname', "subject": "bad", "expected": "rejected", "wall_command": S,
     "cpu_waited": 0, "events": "{}"},
]  # fmt: skip


def written(module: Any, rows: list[Row] = ROWS) -> tuple[bytes, list[str]]:
    out, notes = io.BytesIO(), dict[str, None]()
    module.write(iter(rows), out, lambda note: notes.update({note: None}))
    return out.getvalue(), list(notes)


def proofcost_export(*words: object) -> subprocess.CompletedProcess[str]:
    command = [PROOFCOST, "export", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def imported(content: bytes, name: str, folder: Path) -> list[dict[str, Any]]:
    path = folder / name
    path.write_bytes(content)
    assert importing.take(path, folder / "store") is not None
    made: list[dict[str, Any]] = proofcost.load(folder / "store").to_pylist()
    return made


def test_radar_and_back(tmp_path: Path) -> None:
    content, notes = written(to_radar)
    lines = [json.loads(line) for line in content.splitlines()]
    values = {line["metric"]: line["value"] for line in lines}
    assert len(values) == len(lines), "radar adds up what stands twice"
    assert values["checker/nanoda//wall-clock"] == 1.250000001
    assert values["checker/nanoda//instructions"] == 5
    assert b'"value": 1.250000001' in content
    assert any("32-bit floats" in note for note in notes) is False, "the median, 5, survives"
    assert any("32-bit" in note for note in written(to_radar, ROWS[:1])[1])
    assert any("left out" in note for note in notes)
    row = next(row for row in imported(content, "r.jsonl", tmp_path) if row["kernel"] == "nanoda")
    assert (row["wall_command"], row["instructions_u"]) == (1_250_000_001, 5)
    assert json.loads(row["other_figures"]) == {"memory-peak": 1000}, "a tree's peak is no maxrss"


def test_arena_and_back(tmp_path: Path) -> None:
    content, _ = written(to_arena)
    results = json.loads(content)["results"]
    first, second = results
    assert (first["status"], first["wall_time"]) == ("accepted", 2), "the median of three"
    assert (second["status"], second["correctness"]) == ("accepted", "incorrect")
    assert "instructions" not in second, "missing is not 0"
    rows = imported(content, "results.json", tmp_path)
    assert {row["kernel"]: row["wall_command"] for row in rows} == {"nanoda": 2 * S, 'we"ird\\\nname': S}
    assert {row["verdict"] for row in rows} == {"accepted"}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"verdict": None}, "accepted"),
        ({"verdict": None, "exit_code": 1}, "error"),
        ({"verdict": "ambiguous", "exit_code": 1}, "error"),
        ({"verdict": "rejected", "exit_code": 101}, "rejected"),
        ({"verdict": None, "exit_code": None, "outcome": "signaled", "signal": 9, "cause": "memory_limit"}, "error"),
        ({"verdict": None, "outcome": "timed_out", "cause": "time_limit", "exit_code": None, "signal": 9}, "timeout"),
        ({"verdict": None, "outcome": "incomplete", "cause": None, "exit_code": None}, "error"),
    ],
)
def test_what_the_arena_is_told_of_an_end(changes: Row, status: str) -> None:
    (result,) = json.loads(written(to_arena, [{**ROWS[0], **changes}])[0])["results"]
    assert result["status"] == status
    assert "max_rss" not in result


def test_one_figure_is_of_one_kind() -> None:
    """Two calls know the program's wall, one only the command's: that one is not mixed in."""
    only_command = {name: value for name, value in ROWS[0].items() if name != "wall_program"}
    rows = [ROWS[0], ROWS[1], {**only_command, "record": "9", "wall_command": 99 * S}]
    (benchmark,) = json.loads(written(to_pytest_benchmark, rows)[0])["benchmarks"]
    assert sorted(benchmark["stats"]["data"]) == [1.250000001, 2.0]
    text = written(to_openmetrics, rows)[0].decode()
    assert 'proofcost_wall_seconds_sum{phase="checker",kernel="nanoda"} 3.250000001\n' in text
    metrics = [json.loads(line) for line in written(to_radar, rows)[0].splitlines()]
    assert {line["metric"]: line["value"] for line in metrics}["checker/nanoda//wall-clock"] == 1.250000001


def test_a_bound_is_never_a_bare_number() -> None:
    weak = {"instructions:u": "lower_bound", "wall_program": "contradicted", "memory_peak_tree": "lower_bound"}
    rows = [{**ROWS[0], "weak": weak}]
    assert b"instructions" not in written(to_radar, rows)[0]
    assert [json.loads(line)["value"] for line in written(to_radar, rows)[0].splitlines()] == [3], "the command's wall"
    assert b"memory_peak_bytes{" not in written(to_openmetrics, rows)[0]
    (result,) = json.loads(written(to_arena, rows)[0])["results"]
    assert (result["wall_time"], "instructions" in result) == (3, False)
    (benchmark,) = json.loads(written(to_pytest_benchmark, rows)[0])["benchmarks"]
    assert (benchmark["stats"]["data"], benchmark["extra_info"]) == ([3.0], {})


def test_csv_and_parquet_read_by_duckdb(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "a.csv").write_bytes(written(to_csv)[0])
    (tmp_path / "a.parquet").write_bytes(written(to_parquet)[0])
    for source in (f"read_csv('{tmp_path}/a.csv', all_varchar = true, nullstr = '')", f"'{tmp_path}/a.parquet'"):
        with duckdb.connect() as connection:
            query = f"SELECT record, wall_program, kernel, labels, warmup FROM {source} ORDER BY 1"
            rows = connection.execute(query).fetchall()
        walls = [None if row[1] is None else int(row[1]) for row in rows]
        assert walls == [2 * S, 1_250_000_001, 9 * S, 60 * S, None]
        assert rows[4][2] == 'we"ird\\\nname'
        assert json.loads(rows[0][3]) == {"who": "alice"}
        assert str(rows[2][4]).lower() == "true"
    header = next(csv.reader(io.StringIO(written(to_csv)[0].decode())))
    assert header == [name for name in NAMES if name != "events"]
    assert parquet.read(tmp_path / "a.parquet").num_rows == 5


def test_pytest_benchmark_compares_it(tmp_path: Path) -> None:
    names = []
    for at, rows in enumerate((ROWS, [{**row, "wall_program": row.get("wall_program", S) * 2} for row in ROWS])):
        names.append(tmp_path / f"000{at + 1}_side.json")
        names[-1].write_bytes(written(to_pytest_benchmark, rows)[0])
    program = Path(sys.executable).with_name("pytest-benchmark")
    command = [str(program), "compare", *map(str, names), "--columns=median,rounds"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "checker::nanoda" in line]
    assert len(lines) == 2
    assert ["1,625.0000" in line or "1.6250" in line for line in lines].count(True) == 1, done.stdout
    again = imported(names[0].read_bytes(), "b.json", tmp_path)
    assert sorted(row["wall_command"] for row in again) == [S, 1_250_000_001, 2 * S]


@pytest.mark.real
def test_openmetrics_passes_its_checker(promtool: Path) -> None:
    content, _ = written(to_openmetrics)
    done = subprocess.run([promtool, "check", "metrics"], input=content, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_openmetrics_says_what_was_measured() -> None:
    lines = written(to_openmetrics)[0].decode().splitlines()
    assert 'proofcost_wall_seconds_sum{phase="checker",kernel="nanoda"} 63.250000001' in lines
    assert 'proofcost_wall_seconds_count{phase="checker",kernel="nanoda"} 3' in lines
    assert 'proofcost_memory_peak_bytes{phase="checker",kernel="nanoda"} 2000' in lines
    timed_out = 'proofcost_calls{phase="checker",kernel="nanoda",outcome="timed_out",cause="time_limit"} 1'
    assert timed_out in lines
    assert 'proofcost_cpu_seconds_sum{phase="checker",kernel="we\\"ird\\\\\\nname"} 0' in lines, "a measured 0 is 0"
    assert not any("cpu" in line and "nanoda" in line for line in lines), "what nobody measured has no line"
    assert lines[-1] == "# EOF"


def test_pseudonyms_hide_what_people_chose_and_join_what_is_the_same() -> None:
    key, other = b"k" * 16, b"o" * 16
    rows = list(pseudonymised(ROWS, key))
    text = json.dumps(rows)
    assert "alice" not in text
    assert "init" not in text
    assert all("events" not in row for row in rows)
    assert rows[0]["subject"] == rows[1]["subject"] != rows[4]["subject"]
    assert rows[0]["subject"] != next(pseudonymised(ROWS, other))["subject"]
    assert pseudonym(key, "subject", "x") != pseudonym(key, "module", "x"), "not to be matched across columns"
    assert rows[0]["kernel"] == "nanoda"
    assert re.fullmatch("[0-9a-f]{16}", rows[4]["kernel"]), "no plain name"
    assert set(CHOSEN) <= set(NAMES)


@pytest.mark.parametrize("source", ["hyperfine", "gnu-time"])
@pytest.mark.parametrize("line", ["check --token s3cret /home/alice/x", "s3cret"])
def test_a_command_line_is_no_kernel_s_name(source: str, line: str) -> None:
    (row,) = pseudonymised([{**BASE, "source": source, "kernel": line, "kernel_version": "for s3cret"}], b"k" * 16)
    assert "s3cret" not in json.dumps(row)
    assert row["kernel"] == pseudonym(b"k" * 16, "kernel", line)
    assert source in formats.names()


def test_the_command(tmp_path: Path) -> None:
    shutil.copytree(MEASURED, tmp_path / "store")
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    done = proofcost_export(
        "--to", "csv", tmp_path / "store", "--where", "phase=checker", "--pseudonymise", tmp_path / "key"
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert sorted(row["kernel"] for row in rows) == ["nanoda", "sokonanoda"]
    assert "desk" not in done.stdout
    out = tmp_path / "x.parquet"
    assert proofcost_export("--to", "parquet", tmp_path / "store", "-o", out, "--session", "last").returncode == 0
    assert parquet.read(out).num_rows == 7


def test_perfetto_is_what_show_writes(tmp_path: Path) -> None:
    shown = tmp_path / "a.perfetto-trace"
    done = subprocess.run(
        [PROOFCOST, "show", "last", "--store", MEASURED, "-o", shown], check=True, capture_output=True
    )
    assert done.returncode == 0
    assert proofcost_export("--to", "perfetto", MEASURED, "-o", tmp_path / "b").returncode == 0
    assert (tmp_path / "b").read_bytes() == shown.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "csv", "/no/such/store"], "/no/such/store: no such file or folder"),
        (["--to", "csv", MEASURED, "--where", "kernle=x"], "did you mean kernel?"),
        (["--to", "csv", MEASURED, "--pseudonymise", "/no/key"], "head -c 32 /dev/urandom"),
        (["--to", "csv", MEASURED, "--pseudonymise", "/dev/null"], "0 bytes are no key"),
        (["--to", "leaneval", MEASURED, "--since", "7d"], "--since: leaneval is of one whole session"),
        (["--to", "leaneval", MEASURED, MEASURED], "name one store, not 2"),
        (["--to", "nothing"], "invalid choice"),
        (["--to", "csv", MEASURED, "--where", "kernel=nanodo"], "leave none of 7 records; did you mean kernel=nanoda?"),
    ],
)
def test_wrong_calls(words: list[object], said: str) -> None:
    done = proofcost_export(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    done = proofcost_export("--to", "csv", MEASURED, "-o", tmp_path / "no" / "x.csv")
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_what_maps_to_what_is_up_to_date() -> None:
    page = (ROOT / "docs" / "exports.md").read_text()
    assert page == export.page(), (
        "python -c 'from proofcost import export; print(export.page(), end=\"\")' > docs/exports.md"
    )


NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
HOSTILE = st.one_of(
    NAME, st.sampled_from(["\x1b[31mred", "<b>&", "|x|`", "../../etc", "a//b", '"', "\\", "=1+1", "x" * 300])
)
NS = st.integers(1, 10**15)


def alike(kernel: str) -> str:
    """How a name comes back: `/` parts a topic; no NUL or escape stays one."""
    return foreign.text(kernel) or ""


@settings(max_examples=30)
@given(st.dictionaries(HOSTILE, st.tuples(NS, NS, st.integers(1, 1 << 60), st.integers(1, 1 << 40)), max_size=4))
def test_whatever_radar_is_given_comes_back(
    tmp_path_factory: pytest.TempPathFactory, kernels: dict[str, tuple[int, int, int, int]]
) -> None:
    kernels = {kernel.replace("/", "_"): values for kernel, values in kernels.items()}
    columns = ("wall_program", "cpu_tree", "instructions_u", "memory_peak_process")
    rows = [
        {**ROWS[0], "record": str(number), "kernel": kernel, **dict(zip(columns, values, strict=True))}
        for number, (kernel, values) in enumerate(kernels.items())
    ]
    content, _ = written(to_radar, rows)
    if not kernels:
        assert content == b""
        return
    back = {}
    for row in imported(content, "r.jsonl", tmp_path_factory.mktemp("r")):
        back[row["kernel"]] = (row["wall_command"], row["instructions_u"], row["memory_peak_process"])
    assert back == {alike(kernel): (wall, count, peak) for kernel, (wall, _, count, peak) in kernels.items()}


@settings(max_examples=30)
@given(st.lists(st.tuples(HOSTILE, HOSTILE, NS, st.integers(1, 1 << 60)), max_size=4, unique_by=lambda one: one[:2]))
def test_whatever_the_arena_is_given_comes_back(
    tmp_path_factory: pytest.TempPathFactory, results: list[tuple[str, str, int, int]]
) -> None:
    rows = [
        {
            **ROWS[0],
            "record": str(at),
            "kernel": kernel,
            "workload": test,
            "wall_program": wall,
            "instructions_u": count,
        }
        for at, (kernel, test, wall, count) in enumerate(results)
    ]
    content, _ = written(to_arena, rows)
    if not results:
        return
    back = imported(content, "results.json", tmp_path_factory.mktemp("a"))
    found = {(row["kernel"], row["workload"]): (row["wall_command"], row["instructions"]) for row in back}
    assert found == {(alike(kernel), alike(test)): (wall, count) for kernel, test, wall, count in results}


@settings(max_examples=30)
@given(HOSTILE, st.lists(NS, min_size=1, max_size=6))
def test_whatever_pytest_benchmark_is_given_comes_back(
    tmp_path_factory: pytest.TempPathFactory, kernel: str, walls: list[int]
) -> None:
    rows = [{**ROWS[0], "record": str(at), "kernel": kernel, "wall_program": wall} for at, wall in enumerate(walls)]
    content, _ = written(to_pytest_benchmark, rows)
    back = imported(content, "0001_x.json", tmp_path_factory.mktemp("p"))
    assert sorted(row["wall_command"] for row in back) == sorted(walls)


_ODD = st.sampled_from(["weak", "covariates", "labels", "absent", "other_figures", "defects"])


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(_ODD, st.sampled_from(['"x"', "7", "[1]", "null", "{", "", '{"a": 1}']), min_size=1))
def test_no_exporter_stumbles_over_json_of_another_kind(odd: dict[str, str]) -> None:
    with duckdb.connect() as connection:
        table = parquet.table_of(ROWS[:2])
        for name, text in odd.items():
            at = table.column_names.index(name)
            table = table.set_column(at, table.schema.field(at), pa.array([text] * 2, pa.string()))
        connection.register("records", table)
        rows = list(export._rows(connection, "true", ()))
    for module in (to_arena, to_csv, to_openmetrics, to_parquet, to_pytest_benchmark, to_radar):
        assert written(module, rows)[0]
        assert written(module, list(pseudonymised(rows, b"k" * 16)))[0]


def test_a_cost_below_0_is_not_exported() -> None:
    row: Row = {**BASE, "record": "1", "wall_program": -5 * S, "memory_peak_process": 10}
    assert b"wall" not in written(to_radar, [row])[0]
    assert b"-5" not in written(to_arena, [row])[0]
