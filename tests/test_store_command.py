"""`proofcost store`, as people call it, and `proofcost.load`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import proofcost

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    shutil.copytree(MEASURED, tmp_path / "store")
    return tmp_path / "store"


def proofcost_store(*words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "proofcost", "store", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)


def test_compact_then_prune_then_ask(store: Path) -> None:
    done = proofcost_store("compact", store, "--min-age", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "7 records copied into 1 file; 0 stood there already\n"
    done = proofcost_store("prune", store, "--min-age", "0")
    assert done.stdout == "7 records removed; `proofcost store sql` and `compare` find them in Parquet\n"
    query = "SELECT kernel, count(*) AS calls FROM records WHERE phase = 'checker' GROUP BY 1 ORDER BY 1"
    done = proofcost_store("sql", query, "--data", store, "--csv")
    assert done.stdout == "kernel,calls\nnanoda,1\nsokonanoda,1\n"


def test_who_looks_for_pruned_records_is_told_where_they_are(store: Path) -> None:
    for action in ("compact", "prune"):
        proofcost_store(action, store, "--min-age", "0")
    command = [sys.executable, "-m", "proofcost", "log", "--store", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "they were pruned, or imported" in done.stderr


def test_young_sessions_are_said(store: Path) -> None:
    for path in store.rglob("*"):
        path.touch()
    done = proofcost_store("compact", store)
    assert "1 sessions left: written to less than 3600 s ago (--min-age)" in done.stdout


def test_queries_from_standard_input(store: Path) -> None:
    done = proofcost_store("sql", "--data", store, stdin="SELECT 1 AS a;\nSELECT count(*)\nFROM records")
    assert done.stdout.split() == ["a", "1", "count_star()", "7"]


def test_a_wrong_query_is_one_message_and_the_next_still_runs(store: Path) -> None:
    done = proofcost_store("sql", "--data", store, "--csv", stdin="SELECT nothing FROM records; \nSELECT 5 AS five;\n")
    assert done.returncode == 2
    assert done.stderr.startswith("proofcost: ")
    assert done.stdout == "five\n5\n"


def test_the_data_dictionary(store: Path) -> None:
    done = proofcost_store("sql", "--columns")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "integer (ns)" in lines["wall_program"]
    described = proofcost_store("sql", "DESCRIBE records", "--data", store, "--csv").stdout.splitlines()[1:]
    assert [line.split(",")[0] for line in described] == list(lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compact", "/no/such/store"], "/no/such/store"),
        (["sql", "SELECT 1", "--data", "/no/such/store"], "/no/such/store: no such file or folder"),
        (["compact", ".", "--min-age", "soon"], "'soon' is no span of time"),
        (["fold"], "fold"),
        ([], "ACTION"),
    ],
)
def test_wrong_calls(words: list[str], said: str) -> None:
    done = proofcost_store(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_store_of_another_user_is_left_to_that_user(store: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(store, 65534, 65534)
    for action in ("compact", "prune"):
        done = proofcost_store(action, store, "--min-age", "0")
        assert (done.returncode, done.stdout) == (2, "")
        assert "belongs to user 65534, you are 0" in done.stderr
    assert not (store / "parquet").exists()


def test_load(store: Path) -> None:
    table = proofcost.load(
        store, where=["phase=checker"], columns=["kernel", "wall_program", "instructions_u", "absent"]
    )
    assert table.num_rows == 2
    assert sorted(table["kernel"].to_pylist()) == ["nanoda", "sokonanoda"]
    assert all(value > 0 for value in table["wall_program"].to_pylist())
    assert table["instructions_u"].to_pylist() == [None, None]
    assert '"instructions:u":"counter_not_supported"' in table["absent"][0].as_py()
    assert proofcost.load(store, since="2030-01-01").num_rows == 0


def test_the_package_still_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import proofcost; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'proofcost'}\n"
