"""Which engine answers, and what is said where none can. The engines themselves: `make heavy`."""

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rows_of_runs import kept, run

from proofcost import cli
from proofcost.reports import engine
from proofcost.reports.answers import Answers, open_on_engine
from proofcost.reports.dataset import DataError, open_data
from proofcost.reports.engine import EngineError, opening
from proofcost.reports.translation import Dialect

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"


class Told:
    """An engine that answers what it is told to."""

    name = "told"
    dialect = Dialect.SPARK
    alive = True

    def __init__(self, *answers: pa.Table | EngineError) -> None:
        self.answers = list(answers)
        self.views: list[str] = []
        self.opened: list[Sequence[str]] = []

    def open(self, view: str, files: Sequence[str], rows: int) -> None:
        self.opened.append(files)

    def view(self, view: str, query: str) -> None:
        self.views.append(query)

    def ask(self, query: str) -> pa.Table:
        answer = self.answers.pop(0)
        if isinstance(answer, EngineError):
            raise answer
        return answer


def number(*values: int) -> pa.Table:
    return pa.table({str(at): pa.array([value], pa.int32()) for at, value in enumerate(values)})


def never() -> engine.Engine:
    raise AssertionError("an engine was started for nothing")


@pytest.mark.parametrize("name", ["nonsense", "spark", "spark://", "sparks://h:1", "duckdb:", "clickhouse://x", ""])
@pytest.mark.parametrize("command", ["report kernels", "compare a b --data", "plan --data"])
def test_an_engine_that_is_none_is_named_with_those_there_are(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, [run(1.0)])
    assert cli.main([*command.split(), str(tmp_path), "--engine", name]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"--engine {name!r}: no such engine; there is duckdb, spark://HOST:PORT, spark-local, clickhouse" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(("name", "package"), [("clickhouse", "chdb"), ("spark://127.0.0.1:9", "pyspark")])
def test_a_package_that_is_not_installed_is_named(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, [run(1.0)])
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda one: None if one == package else find(one))
    assert cli.main(["report", "kernels", str(tmp_path), "--engine", name]) == 2
    said = capsys.readouterr().err
    assert f"{package} not installed; it needs the extra `fleet`: pip install '.[fleet]'" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("missing", "said"), [("java", "no Java here"), (None, "no master there: Connection refused; start one")]
)
def test_a_cluster_that_cannot_be_reached_is_one_line(
    missing: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, [run(1.0)])
    find: Callable[[str], Any] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda one: find("json" if one == "pyspark" else one))
    monkeypatch.setattr(shutil, "which", lambda one: None if missing else "/bin/true")
    assert cli.main(["report", "kernels", str(tmp_path), "--engine", "spark://127.0.0.1:9"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_records_that_are_not_compacted_are_counted_and_nothing_is_answered() -> None:
    count = len(open_data([MEASURED]).rows("SELECT record FROM records"))
    assert count > 1
    with pytest.raises(DataError, match=f"^{count} records are not compacted.*run `proofcost store compact`$"):
        open_on_engine([MEASURED], never)


def test_no_data_no_engine(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        open_on_engine([tmp_path / "nowhere"], never)
    with pytest.raises(DataError, match="no Parquet file"):
        open_on_engine([tmp_path], never)
    kept(tmp_path / "a{b}", [run(1.0)])
    with pytest.raises(DataError, match="for a pattern; link to it"):
        open_on_engine([tmp_path / "a{b}"], never)


def test_an_engine_that_sees_other_records_than_this_machine_does_not_answer(tmp_path: Path) -> None:
    kept(tmp_path, [run(1.0), run(2.0)])
    with pytest.raises(EngineError, match="it sees 1 of 2 records"):
        open_on_engine([tmp_path], lambda: Told(number(1)))


def test_copies_in_several_places_are_dropped(tmp_path: Path) -> None:
    rows = [run(1.0), run(2.0)]
    kept(tmp_path / "a", rows)
    kept(tmp_path / "b", rows[:1])
    told = Told(number(3), number(1))
    open_on_engine([tmp_path / "a", tmp_path / "b"], lambda: told)
    assert len(told.opened[0]) == 2
    assert "ROW_NUMBER() OVER (PARTITION BY record ORDER BY record" in told.views[0]
    without = Told(number(3), number(0))
    open_on_engine([tmp_path / "a", tmp_path / "b"], lambda: without)
    assert without.views == []


def test_copies_in_one_folder_are_dropped_and_told_and_only_where_there_may_be_some(tmp_path: Path) -> None:
    rows = [run(1.0), run(2.0)]
    kept(tmp_path / "a", rows, "one")
    kept(tmp_path / "a", rows[:1], "two")
    told = Told(number(3), number(1))
    data = open_on_engine([tmp_path / "a"], lambda: told)
    assert "ROW_NUMBER() OVER (PARTITION BY record ORDER BY record" in told.views[0]
    assert data.notes == ("1 record stands there again, in another file; each counts once",)
    kept(tmp_path / "b", [run(1.0, host="other")], "one")
    kept(tmp_path / "b", [run(1.0)], "two")
    assert open_on_engine([tmp_path / "b"], lambda: Told(number(2))).notes == ()


def test_an_answer_takes_duckdbs_types(tmp_path: Path) -> None:
    kept(tmp_path, [run(1.0)])
    told = Told(
        number(1),
        pa.table([pa.array([1], pa.uint8()), pa.array([7], pa.int32()), pa.array([[1]], pa.list_(pa.int32()))], "xyz"),
        pa.table({"x": ["no number"]}),
    )
    answers = open_on_engine([tmp_path], lambda: told)
    made = answers.table("SELECT warmup, started_ns, list(started_ns) FROM records GROUP BY 1, 2")
    assert made.schema.types == [pa.bool_(), pa.int64(), pa.list_(pa.int64())]
    assert made.to_pylist()[0]["warmup"] is True
    with pytest.raises(EngineError, match="an answer of another kind"):
        answers.rows("SELECT started_ns FROM records")


def test_what_cannot_be_translated_is_no_answer(tmp_path: Path) -> None:
    kept(tmp_path, [run(1.0)])
    answers: Answers | None = open_on_engine([tmp_path], lambda: Told(number(1))).answers
    assert answers is not None
    with pytest.raises(EngineError, match="--engine told: no rule for"):
        answers.rows("SELECT list_sort(list(started_ns)) FROM records")


def test_an_engine_that_dies_leaves_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "data", [run(1.0)])
    dying = Told(number(1), EngineError("--engine told: the cluster went away under the question", True))
    monkeypatch.setattr(engine, "_started", lambda name: dying)
    output = tmp_path / "x.json"
    assert cli.main(["report", "kernels", str(tmp_path / "data"), "--engine", "clickhouse", "-o", str(output)]) == 1
    said = capsys.readouterr()
    assert said.err == "proofcost: --engine told: the cluster went away under the question\n"
    assert said.out == ""
    assert list(tmp_path.glob("*.json*")) == []


def test_duckdb_is_what_reads_where_nothing_is_said() -> None:
    assert opening("duckdb") is open_data
