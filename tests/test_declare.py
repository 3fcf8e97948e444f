"""`store declare`: two host classes are one only on the grounds of runs that show it; whatever pools them says so."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofcost import cli
from proofcost.harness.columns import Row
from proofcost.reports import compare_text, declarations, parquet
from proofcost.reports.cells import UnlikeError, read
from proofcost.reports.compare import compare
from proofcost.reports.dataset import open_data
from proofcost.reports.sides import resolve
from proofcost.reports.where import parse

OLD, NEW = "0123456789abcdef-11111111", "0123456789abcdef-22222222"
OTHER = "fedcba9876543210-11111111"
MS = 10**6


def run(host_class: str, subject: str, at: int, wall: float, **more: Any) -> Row:
    return {
        "record": f"{host_class}-{subject}-{at}-{more.get('kernel', 'k')}",
        "session": f"s-{host_class}", "plan": f"p-{host_class}", "host": f"h-{host_class}", "boot": f"b-{host_class}",
        "host_class": host_class, "phase": "checker", "kernel": "k",
        "kernel_sha256": "d" * 64, "workload": subject, "outcome": "exited", "cause": "completed", "exit_code": 0,
        "verdict": "accepted", "block": at, "started_ns": 10**18 + at, "wall_program": int(wall * MS), **more,
    }  # fmt: skip


def runs(host_class: str, factor: float = 1.0, works: int = 6, count: int = 12, cv: float = 0.003) -> list[Row]:
    rows = []
    for work in range(works):
        random = np.random.default_rng([work, int(host_class[-8:], 16)])
        for at, wall in enumerate(100 * (1 + work) * factor * np.exp(random.normal(0, cv, count)), 1):
            rows.append(run(host_class, f"w{work}", at, wall))
    return rows


def kept(path: Path, rows: list[Row]) -> str:
    parquet.write(path, parquet.table_of(rows))
    return str(path)


def declare(tmp_path: Path, rows: list[Row], one: str = OLD, other: str = NEW) -> int:
    (tmp_path / "store").mkdir(exist_ok=True)
    evidence = kept(tmp_path / "evidence.parquet", rows)
    return cli.main(["store", "declare", one, other, "--evidence", evidence, "--store", str(tmp_path / "store")])


def test_what_the_runs_show_is_kept_beside_the_declaration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = runs(OLD) + runs(NEW)
    assert declare(tmp_path, rows, NEW[:18], OLD) == 0
    out = capsys.readouterr().out
    assert f"{OLD} and {NEW} now count as one host class: wall " in out
    assert "6 of 6 works equivalent within 2.0%" in out
    file = tmp_path / "store" / "declared" / f"{OLD}+{NEW}.json"
    raw = json.loads(file.read_text())
    assert raw["classes"] == [OLD, NEW]
    assert raw["evidence"]["records"] == 144
    (shown,) = raw["evidence"]["shown"]
    assert (shown["metric"], shown["works"], shown["equivalent"]) == ("wall", 6, 6)
    assert 0.99 < shown["low"] <= shown["ratio"] <= shown["high"] < 1.01
    assert parquet.read(file.with_suffix(".parquet")).num_rows == 144
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (declared,) = declarations.read([tmp_path / "store"])
    assert (declared.one, declared.other, declared.sha256) == (OLD, NEW, raw["evidence"]["sha256"])


def test_the_evidence_is_no_data_of_the_store(tmp_path: Path) -> None:
    assert declare(tmp_path, runs(OLD) + runs(NEW)) == 0
    kept(tmp_path / "store" / "x.0.parquet", [run(OLD, "w", 1, 5)])
    data = open_data([tmp_path / "store"])
    assert data.connection.sql("SELECT count(*) FROM records").fetchall() == [(1,)]


def test_a_comparison_pools_what_is_declared_and_says_so(tmp_path: Path) -> None:
    rows = [{**row, "kernel": "old", "kernel_sha256": "o"} for row in runs(OLD)]
    rows += [{**row, "kernel": "new", "kernel_sha256": "n"} for row in runs(NEW, 1.1)]
    for row in rows:
        row["record"] = f"{row['kernel']}-{row['record']}"
    (tmp_path / "store").mkdir()
    kept(tmp_path / "store" / "x.0.parquet", rows)
    paths = [str(tmp_path / "store")]
    with pytest.raises(UnlikeError, match=r"differ in host_class .*--pool host_class"):
        compare(*resolve("old", "new", paths, parse([])))
    assert declare(tmp_path, runs(OLD) + runs(NEW)) == 0
    report = compare(*resolve("old", "new", paths, parse([])))
    assert {one.finding.value for one in report.compared} == {"regressed"}
    (said,) = [note for note in compare_text.notes(report) if "pooled" in note]
    assert said.startswith(f"host classes {OLD} and {NEW} are pooled, as declared: wall ")
    assert "evidence " in said
    # Asked for by its own name, each class still answers for itself.
    data = open_data(paths)
    assert {cell.key for cell in read(data, parse([]), ("host_class",))} == {(OLD,)}
    assert {cell.key for cell in read(data, parse([]), ("measured_host_class",))} == {(OLD,), (NEW,)}
    assert [cell.runs for cell in read(data, parse([f"host_class={NEW}"]), ("host_class",))] == [72]


def test_what_one_store_declares_holds_for_the_other_side(tmp_path: Path) -> None:
    for name, host_class in (("store", OLD), ("other", NEW)):
        (tmp_path / name).mkdir()
        kept(tmp_path / name / "x.0.parquet", runs(host_class))
    one, other = (str(tmp_path / name) for name in ("store", "other"))
    with pytest.raises(UnlikeError, match="host_class"):
        compare(*resolve(one, other, [], parse([])))
    assert declare(tmp_path, runs(OLD) + runs(NEW)) == 0
    assert len(compare(*resolve(one, other, [], parse([]))).compared) == 6


def test_classes_chain(tmp_path: Path) -> None:
    third = "0123456789abcdef-33333333"
    made = [declarations.Declaration(OLD, NEW, "a", "e", 1), declarations.Declaration(NEW, third, "b", "f", 1)]
    assert declarations.pooled(made) == dict.fromkeys((OLD, NEW, third), OLD)
    assert declarations.notes(made, [OLD]) == []
    assert len(declarations.notes(made, [OLD, third])) == 2
    assert declarations.notes(made[:1], [OLD, third]) == []


@pytest.mark.parametrize(
    ("rows", "names", "status", "said"),
    [
        (runs(OLD) + runs(NEW, 1.1), (OLD, NEW), 1, "speaks against it: wall 1.1"),
        (runs(OLD, cv=0.2) + runs(NEW, cv=0.2), (OLD, NEW), 1, "does not settle it yet"),
        (runs(OLD, works=5, count=1) + runs(NEW, works=5, count=1), (OLD, NEW), 1, "does not settle it yet"),
        (runs(OLD) + runs(OTHER), (OLD, OTHER), 2, "differ in what matters for cost"),
        (runs(OLD) + runs(NEW), (OLD, OLD), 2, "the same host class"),
        (runs(OLD), (OLD, NEW), 2, "no such host class"),
        (runs(OLD) + runs(NEW), (OLD, "0123"), 2, "stands for several host classes"),
        (runs(OLD) + runs(NEW), (OLD, ""), 2, "no such host class"),
        (runs(OLD) + runs(NEW), (OLD, "\x1b[31m"), 2, r"\x1b[31m"),
        ([], (OLD, NEW), 2, "has none"),
        ([run(OLD, "a", 1, 1), run(NEW, "b", 1, 1)], (OLD, NEW), 2, "no work ran on both"),
        ([run(OLD, "a", 1, 1), {**run(NEW, "a", 1, 1), "verdict": "rejected"}], (OLD, NEW), 2, "no work ran on both"),
    ],
)
def test_nothing_is_written_where_it_is_not_shown(
    rows: list[Row], names: tuple[str, str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert declare(tmp_path, rows, *names) == status
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert not (tmp_path / "store" / "declared").exists()


def test_an_unreadable_declaration_declares_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "declared"
    folder.mkdir()
    good = {"schema": 1, "classes": [OLD, NEW], "declared_at_ns": 1, "evidence": {"said": "x", "sha256": "y"}}
    for at, bad in enumerate(
        [
            "", "[", "[]", "null", "[" * 100_000, json.dumps({**good, "schema": 2}),
            json.dumps({**good, "classes": [OLD, OTHER]}), json.dumps({**good, "classes": [OLD, "x' THEN 'y"]}),
            json.dumps({**good, "evidence": None}), json.dumps({**good, "declared_at_ns": "1"}),
        ]
    ):  # fmt: skip
        (folder / f"{at}.json").write_text(bad)
    assert declarations.read([tmp_path]) == ()
    (folder / "good.json").write_text(json.dumps(good))
    assert len(declarations.read([tmp_path])) == 1
