"""`proofcost store`, as people call it, and `proofcost.load`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import proofcost
from proofcost.bench_suites.multiplied import multiply

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
    assert done.stdout == (
        "7 records removed; whatever reads the store finds them in Parquet, their timelines stay in traces/\n"
    )
    query = "SELECT kernel, count(*) AS calls FROM records WHERE phase = 'checker' GROUP BY 1 ORDER BY 1"
    done = proofcost_store("sql", query, "--data", store, "--csv")
    assert done.stdout == "kernel,calls\nnanoda,1\nsokonanoda,1\n"


def pruned(store: Path) -> Path:
    for action in ("compact", "prune"):
        assert proofcost_store(action, store, "--min-age", "0").returncode == 0
    assert not list(store.rglob("*.jsonl"))
    return store


def ours(*words: object, hidden: str = "") -> subprocess.CompletedProcess[str]:
    """proofcost, as if the packages in `hidden` were not installed."""
    code = (
        "import importlib.util as util, sys; find = util.find_spec; "
        f"util.find_spec = lambda name, *more: None if name in {hidden.split()!r} else find(name, *more); "
        "from proofcost.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "words", [["log"], ["show"], ["show", "--json"], ["show", "1a70"], ["show", "last.3"], ["log", "--json"]]
)
def test_a_pruned_session_is_shown_as_before(store: Path, words: list[str]) -> None:
    before = ours(*words, "--store", store)
    assert (before.returncode, before.stderr) == (0, "")
    after = ours(*words, "--store", pruned(store))
    assert (after.stdout, after.stderr) == (before.stdout, before.stderr)


def test_pruned_sessions_and_others_are_told_by_their_start(store: Path) -> None:
    pruned(store)
    multiply(MEASURED, store, 14, seed=3)  # the first starts within 7 s of the pruned one, the second 7 s later
    listed = ours("log", "--store", store, "--json")
    starts = [session["started_at_ns"] for session in json.loads(listed.stdout)["sessions"]]
    assert len(starts) == 3
    assert starts == sorted(starts, reverse=True)
    one = ours("log", "--store", store, "--json", "-n", "1")
    assert json.loads(one.stdout)["sessions_count"] == 3
    assert [session["started_at_ns"] for session in json.loads(one.stdout)["sessions"]] == starts[:1]
    assert "2 older sessions not shown" in ours("log", "--store", store, "-n", "1").stderr
    call = next(path.name[:12] for path in (MEASURED / "sessions").rglob("*.jsonl"))
    assert json.loads(ours("show", call, "--store", store, "--json").stdout)["records"][0]["invocation"].startswith(
        call
    )
    assert "no session or call has an id that begins so" in ours("show", "fffff", "--store", store).stderr


def test_a_seal_holds_for_what_was_pruned(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(MEASURED.parent / "collected-0.1.0", store)
    before = ours("show", "--store", store)
    assert "sealed: 4 files as they were then" in before.stdout
    after = ours("show", "--store", pruned(store))
    assert after.stdout == before.stdout


def test_an_export_of_a_pruned_session(store: Path) -> None:
    before = ours("export", "--to", "leaneval", store)
    assert ours("export", "--to", "leaneval", pruned(store)).stdout == before.stdout != ""


def test_without_what_reads_parquet_one_line_says_what_to_install(store: Path) -> None:
    pruned(store)
    for words in (["log"], ["show"]):
        done = ours(*words, "--store", store, hidden="pyarrow")
        assert done.returncode == 0
        assert "pip install '.[reports]'" in done.stderr.splitlines()[0]


def test_copies_that_cannot_be_read_are_one_line(store: Path) -> None:
    (copy,) = pruned(store).rglob("*.parquet")
    copy.write_bytes(copy.read_bytes()[:-50])
    for words in (["log", "--store"], ["show", "--store"], ["export", "--to", "leaneval"]):
        done = ours(*words, store)
        assert done.returncode == 2
        assert "move that file away" in done.stderr
        assert done.stderr.count("\n") == 1


def test_young_sessions_are_said(store: Path) -> None:
    for path in store.rglob("*"):
        path.touch()
    done = proofcost_store("compact", store)
    assert "1 session left: written to less than 3600 s ago (--min-age)" in done.stdout


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
