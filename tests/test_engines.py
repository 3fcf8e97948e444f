"""Reports on a real Spark cluster and on ClickHouse say what they say on DuckDB, to the last character, or nothing.

A master and two workers from the package, on this machine; ClickHouse in process. `make heavy`.
"""

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import many_hosts
import pyarrow.parquet as pq
import pytest
from asking import CALLS, call, make
from conftest import missing
from rows_of_runs import kept, run
from spark_cluster import Cluster, java, settings

from proofcost.reports import parquet
from proofcost.reports.cells import Values, read
from proofcost.reports.compaction import compact
from proofcost.reports.dataset import Data, open_data
from proofcost.reports.engine import EngineError, opening
from proofcost.reports.values import STEP
from proofcost.reports.where import Where

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"
RECORDS = int(float(os.environ.get("PROOFCOST_HEAVY_RECORDS", "1e6")))
ENGINES = ("spark", "clickhouse")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(settings(tmp_path_factory.mktemp("settings"))))
        made = a_cluster(tmp_path_factory.mktemp("cluster"))
        yield made
        made.stop()


def a_cluster(folder: Path, workers: int = 2) -> Cluster:
    if importlib.util.find_spec("pyspark") is None or java() is None:
        missing("pyspark, or a Java for it")
    return Cluster(folder, workers)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        return str(request.getfixturevalue("cluster").url)
    if importlib.util.find_spec("chdb") is None:
        missing("chdb")
    return "clickhouse"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    many_hosts.write(folder / "data", RECORDS, subjects=50 if RECORDS < 100_000 else 200)
    return folder / "data"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    many_hosts.write(folder / "data", 20_000, subjects=10)
    return folder / "data"


@pytest.fixture(scope="module")
def duckdbs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("duckdb")
    return {name: make(name, data, folder) for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_a_report_is_the_same_as_duckdbs(
    engine: str, name: str, data: Path, duckdbs: dict[str, str], tmp_path: Path
) -> None:
    mine = json.loads(make(name, data, tmp_path, engine))
    assert mine == json.loads(duckdbs[name])
    assert len(duckdbs[name]) > 1000


def test_figures_in_bins_are_the_same_counts_and_extrema(engine: str, data: Path) -> None:
    where = Where("true", ())
    on_duckdb = read(open_data([data]), where, ("kernel", "host_class"), bins=True)
    on_engine = read(opening(engine)([data]), where, ("kernel", "host_class"), bins=True)
    exact = read(open_data([data]), where, ("kernel", "host_class"), bins=False)
    assert [cell.key for cell in on_engine] == [cell.key for cell in on_duckdb]
    for mine, theirs, whole in zip(on_engine, on_duckdb, exact, strict=True):
        assert (mine.runs, mine.ends, mine.censored) == (theirs.runs, theirs.ends, theirs.censored)
        for name, one, other in pairs(mine.values, theirs.values):
            assert (one.n, one.minimum, one.maximum) == (other.n, other.minimum, other.maximum), name
            true = whole.values[name[0]][name[1]]
            for p in (0.05, 0.5, 0.95):
                assert one.quantile(p) == pytest.approx(other.quantile(p), rel=math.expm1(STEP / 2))
                assert one.quantile(p) == pytest.approx(true.quantile(p), rel=0.007)


def pairs(one: Any, other: Any) -> list[tuple[tuple[str, Any], Values, Values]]:
    assert {name: set(of) for name, of in one.items()} == {name: set(of) for name, of in other.items()}
    return [((name, unit), of[unit], other[name][unit]) for name, of in one.items() for unit in of]


def test_integers_above_what_a_float_holds_beside_nulls_stay_exact(engine: str, tmp_path: Path) -> None:
    odd = 2**53 + 1
    kept(tmp_path, [run(1.0, instructions_u=odd), run(2.0), run(3.0, instructions_u=2**63 - 1)])
    asked = opening(engine)([tmp_path])
    assert sorted(asked.rows("SELECT instructions_u FROM records"), key=str) == sorted(
        [(odd,), (None,), (2**63 - 1,)], key=str
    )
    assert asked.rows("SELECT sum(instructions_u) FROM records") == [(odd + 2**63 - 1,)]


def test_texts_of_any_kind_come_through_and_choose(engine: str, tmp_path: Path) -> None:
    texts = [
        "it's",
        'say "so"',
        "back\\slash",
        "two\nlines",
        "日本 é",
        "a%b_c",
        "\\'; --",
        "\t\x01",
        "🧮",
        "{x}",
        "?",
        "$1",
    ]
    kept(tmp_path, [run(1.0, kernel=text, labels={text: f"<{text}>"}) for text in texts])
    asked = opening(engine)([tmp_path])
    assert {row[0] for row in asked.rows("SELECT DISTINCT kernel FROM records")} == set(texts)
    for text in texts:
        assert asked.rows("SELECT kernel FROM records WHERE kernel = ?", (text,)) == [(text,)]
        path = '$."' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        query = "SELECT json_extract_string(labels, ?) FROM records WHERE json_extract_string(labels, ?) IS NOT NULL"
        assert asked.rows(query, (path, path)) == [(f"<{text}>",)], text
        contains = "SELECT kernel FROM records WHERE contains(kernel, ?)"
        assert (text,) in asked.rows(contains, (text[:2],))


def test_copies_count_once_and_columns_that_a_file_lacks_are_null(engine: str, tmp_path: Path) -> None:
    rows = [run(float(at), host_steal=at) for at in range(1, 6)]
    kept(tmp_path / "a", rows)
    path = kept(tmp_path / "b" / "day=2026-01-01" / "host=other", [*rows[:3], run(9.0)])
    pq.write_table(parquet.read(path).drop_columns(["host_steal", "defects"]), path)
    asked = opening(engine)([tmp_path / "a", tmp_path / "b"])
    assert asked.rows("SELECT count(*), count(DISTINCT record) FROM records") == [(6, 6)]
    only = opening(engine)([tmp_path / "b"])
    assert only.rows("SELECT count(host_steal), count(*), count(defects) FROM records") == [(0, 4, 0)]
    assert only.rows("SELECT DISTINCT host FROM records") == [("h",)]


def test_a_records_own_lines_come_whole_though_they_are_folded(engine: str, tmp_path: Path) -> None:
    shutil.copytree(MEASURED, tmp_path / "store")
    compact(tmp_path / "store", 0)
    on_duckdb, on_engine = (opening(name)([tmp_path / "store"]) for name in ("duckdb", engine))
    condition = ("record IS NOT NULL AND phase <> ?", ("nothing",))
    lines = sorted(on_duckdb.lines(("record", "phase"), *condition))
    assert len(lines) > 1
    assert all('"event":"started"' in line for _, _, line in lines)
    assert sorted(on_engine.lines(("record", "phase"), *condition)) == lines
    told = "SELECT count(*) FROM records WHERE regexp_extract(events, '(\"event\":\"started\")', 1) <> ''"
    assert on_engine.rows(told) == on_duckdb.rows(told) == [(len(lines),)]


def command(name: str, data: Path, engine: str, output: Path) -> list[str]:
    return [sys.executable, "-m", "proofcost", *call(name, data, engine), "-o", str(output)]


def one_line(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.stderr.count("\n") == 1, answer.stderr
    assert "\tat " not in answer.stderr
    assert answer.stdout == ""
    return answer.stderr


def test_a_master_that_is_not_there_is_one_line(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    answer = subprocess.run(command("hosts", small, "spark://127.0.0.1:9", output), capture_output=True, text=True)
    assert answer.returncode == 2
    assert "no master there: Connection refused" in one_line(answer)
    assert not output.exists()


def test_a_cluster_without_workers_is_one_line(small: Path, tmp_path: Path) -> None:
    alone = a_cluster(tmp_path / "cluster", workers=0)
    try:
        output = tmp_path / "x.json"
        answer = subprocess.run(
            command("hosts", small, alone.url, output), capture_output=True, text=True,
            env={**os.environ, "PROOFCOST_SPARK_WAIT_S": "10"},
        )  # fmt: skip
    finally:
        alone.stop()
    assert answer.returncode == 1
    assert "no worker for 10 s" in one_line(answer)
    assert not output.exists()


@pytest.mark.parametrize("victims", ["a worker", "all workers", "the master", "everything"])
def test_what_dies_under_a_report_costs_a_line_or_nothing(
    victims: str, data: Path, duckdbs: dict[str, str], tmp_path: Path
) -> None:
    """One worker of two, at some moment: the right answer or one line. All: one line. Never another answer."""
    cluster = a_cluster(tmp_path / "cluster")
    output = tmp_path / "x.json"
    try:
        doing = subprocess.Popen(
            command("history", data, cluster.url, output), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PROOFCOST_SPARK_WAIT_S": "10"},
        )  # fmt: skip
        executors_are_there(tmp_path / "cluster")
        for one in {
            "a worker": cluster.workers[:1], "all workers": cluster.workers, "the master": [cluster.master],
            "everything": [cluster.master, *cluster.workers],
        }[victims]:  # fmt: skip
            one.kill()
        stdout, stderr = doing.communicate(timeout=900)
    finally:
        cluster.stop()
    assert doing.returncode in (0, 1), stderr
    if doing.returncode == 0:
        assert json.loads(output.read_text()) == json.loads(duckdbs["history"])
        return
    one_line(subprocess.CompletedProcess([], 1, stdout, stderr))
    assert not output.exists()


def executors_are_there(folder: Path) -> None:
    """Wait until the workers run something for a report."""
    deadline = time.monotonic() + 300
    while not list(folder.glob("work*/app-*/*/stderr")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(10)


DIES = """
import sys, threading
from proofcost.reports import engine
from proofcost.reports.cells import read
from proofcost.reports.where import parse
url, data = sys.argv[1:]
asked = engine.opening(url)([data])
threading.Timer(0.5, engine._running[url]._jvm.kill).start()
try:
    for _ in range(100):
        read(asked, parse([]), ("kernel", "record"))
except engine.EngineError as error:
    print(error)
    print(engine._running[url].alive)
"""


def test_a_java_that_dies_under_a_question_is_one_line(cluster: Cluster, data: Path) -> None:
    """In a process of its own: Spark does not start a second time where its Java was killed."""
    command = [sys.executable, "-c", DIES, cluster.url, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        f"--engine {cluster.url}: its driver died under the question\nFalse\n",
    )


def test_workers_that_do_not_see_the_files_are_named(cluster: Cluster, small: Path, tmp_path: Path) -> None:
    """The driver lists the files; by the time that workers look, one is gone."""
    copy = tmp_path / "data"
    copy.mkdir()
    for path in small.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    asked: Data = opening(cluster.url)([copy])
    next(copy.iterdir()).unlink()
    with pytest.raises(EngineError, match="a worker does not see the files"):
        asked.rows("SELECT count(wall_program) FROM records")
