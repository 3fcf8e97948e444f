"""A campaign whose records were damaged or lost after their shard was done: what is left of them is what counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from campaigning import TURNS, Cluster, check_whole

from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster import note, record_files
from proofcost.bench_suites.cluster.states import State
from proofcost.campaign_status import look
from proofcost.harness.reading import read_store

FAMILIES = ("church:8", "many:3")
KEPT = ("shard-2", "told")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A campaign of two shards, both done."""
    cluster = Cluster(tmp_path_factory.mktemp("damaged"))
    for name in ("a", "b"):
        cluster.kernel(name, "exit 0")
    made = cluster.submit("kubernetes", "--image", "bench:1", "--pod-memory", "1Gi", "--claim", f"c={cluster.folder}",
                          families=FAMILIES)  # fmt: skip
    assert made.status == 0, made.stderr
    for number in (1, 2):
        done = cluster.do("run", number)
        assert done.status == 0, done.stderr
    assert cluster.states() == {1: "done", 2: "done"}
    for name in KEPT:
        shutil.copytree(cluster.campaign / name, cluster.folder / "kept" / name)
    return cluster


@pytest.fixture
def finished(once: Cluster) -> Cluster:
    """As it was, whatever other tests did to it."""
    for name in KEPT:
        shutil.rmtree(once.campaign / name, ignore_errors=True)
        shutil.copytree(once.folder / "kept" / name, once.campaign / name)
    return once


def record_of(cluster: Cluster) -> Path:
    """One of shard 2's record files, of a turn in a block."""
    return max(path for path in cluster.campaign.glob("shard-2/sessions/*/*.jsonl") if ".settled" not in path.name)


def truncate(cluster: Cluster) -> tuple[int, str]:
    os.truncate(record_of(cluster), 300)
    return TURNS - 1, str(record_of(cluster))


def delete(cluster: Cluster) -> tuple[int, str]:
    record_of(cluster).unlink()
    return TURNS - 1, ""


def lose(cluster: Cluster) -> tuple[int, str]:
    shutil.rmtree(cluster.campaign / "shard-2")
    return 0, ""


def lose_the_session(cluster: Cluster) -> tuple[int, str]:
    (path,) = cluster.campaign.glob("shard-2/sessions/*/session.json")
    os.truncate(path, 20)
    return 0, str(path)


@pytest.mark.parametrize("damage", [truncate, delete, lose, lose_the_session])
def test_status_collect_and_resume_agree_on_what_is_left_and_resume_mends_it(
    finished: Cluster, damage: Callable[[Cluster], tuple[int, str]]
) -> None:
    left, file = damage(finished)
    status = finished.do("status")
    assert status.status == 1
    assert finished.states() == {1: "done", 2: "damaged"}
    assert f"{left} of {TURNS} turns" in status.stdout.splitlines()[2]
    assert "complete" not in status.stdout
    assert f"14 runs were done when it ended, records of {left} are there" in status.stdout
    collected = finished.do("collect")
    assert collected.status == 1
    line = f"shard 2/2: {left} of {TURNS} turns done"
    told = collected.stdout.splitlines()[0]
    assert told == (f"{line}; damaged: {file}" if file else line)
    before = len(finished.file()["submissions"])
    resumed = finished.do("resume")
    assert resumed.status == 0, resumed.stderr
    assert finished.file()["submissions"][before]["shards"] == [2], "what is missing, and only that"
    named = [f"shard 2: damaged: {file}"] if file else []
    for said in (status, resumed):
        assert [line for line in said.stdout.splitlines() if line.startswith("shard 2: ")] == named
    again = finished.do("run", 2)
    assert again.status == 0, again.stderr
    assert finished.states() == {1: "done", 2: "done"}
    assert "nothing to resume: 2 done" in finished.do("resume").stdout
    assert finished.do("collect").status == 0
    check_whole(finished.collected(), works=2)


def test_a_shard_that_is_as_its_runner_left_it_is_not_read(finished: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(finished.campaign)
    campaign = campaigns.read(folder)
    read: list[str] = []

    def noted(path: str) -> object:
        read.append(path)
        return read_store(path)

    monkeypatch.setattr("proofcost.bench_records.read_store", noted)
    assert [row.state for row in look(folder, campaign, {})] == [State.DONE] * 2
    assert read == []
    touched = record_of(finished)
    os.utime(touched, ns=(1, 1))
    assert [row.state for row in look(folder, campaign, {})] == [State.DONE] * 2, "another time, and all is there"
    assert str(touched) in read
    assert all("/shard-2/" in path for path in read)


def test_a_digest_tells_a_file_more_one_less_and_another_size(tmp_path: Path) -> None:
    place = str(tmp_path)
    session = tmp_path / "sessions" / "s"
    seen = [record_files.digest(place)]
    session.mkdir(parents=True)
    assert record_files.digest(place) == seen[0], "a folder is no record"
    (tmp_path / "parquet").mkdir()
    changes: list[Callable[[], object]] = [
        lambda: (session / "a.jsonl").write_text("{}\n"),
        lambda: os.truncate(session / "a.jsonl", 1),
        lambda: (session / "a.jsonl").rename(session / "b.jsonl"),
        lambda: (tmp_path / "parquet" / "x").write_text(""),
        lambda: (session / "b.jsonl").unlink(),
    ]
    for change in changes:
        change()
        seen.append(record_files.digest(place))
    assert len(set(seen)) == len(seen)


def test_a_note_of_before_there_was_a_digest_is_read(tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    note.write(str(tmp_path), note.Note(1, None, "x", None, 1, files="abc"))
    path = tmp_path / "told" / "1.json"
    path.write_text(path.read_text().replace('"files"', '"other"'))
    assert note.read(str(tmp_path), 1) == note.Note(1, None, "x", None, 1)


def test_many_damaged_files_are_one_line() -> None:
    assert record_files.named([]) == ""
    assert record_files.named(list("abcde")) == "damaged: a, b, c and 2 more"
