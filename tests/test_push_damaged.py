"""Damaged files of a store, and places that do not have it: named in one line, nothing sealed or removed for them."""

import shutil
from pathlib import Path

import pytest
from collecting import parquet_bytes, records, store_of

from proofcost.cli import main
from proofcost.reports.file_seal import SUFFIX
from proofcost.reports.place_folder import Folder
from proofcost.reports.pushing import push

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"


def said(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> str:
    assert main(["store", *map(str, words)]) == status
    found = capsys.readouterr()
    assert found.err.count("\n") == (1 if status else 0), found.err
    return found.err if status else found.out


def damaged(store: Path, kind: str) -> Path:
    """A file of the store that no report can read, beside its sound ones."""
    sound = sorted((store / "parquet").rglob("*.parquet"))[0]
    path = sound.with_name("damaged.parquet")
    if kind == "truncated":
        path.write_bytes(sound.read_bytes()[:-100])
    elif kind == "text":
        path.write_text("not a table\n")
    elif kind == "foreign":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"other": [1]}), path)
    else:
        path.symlink_to("nowhere.parquet")
    return path


WHY = {
    "truncated": "no Parquet file that can be read", "text": "no Parquet file that can be read",
    "foreign": "a Parquet file, but not of records (no column `record`)", "dangling": "a link that leads nowhere",
}  # fmt: skip


@pytest.mark.parametrize("kind", WHY)
@pytest.mark.parametrize("how", [[], ["--no-compact"]])
def test_a_damaged_file_is_named_and_the_others_are_sent(
    kind: str, how: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, place = store_of(tmp_path / "one", "aa"), tmp_path / "place"
    whole = records(store)
    path = damaged(store, kind)
    told = said(capsys, "push", *how, place, store, status=1)
    assert f"{path}: {WHY[kind]}" in told
    assert records(place) == whole
    assert not list(place.rglob(f"damaged.parquet{SUFFIX}"))


@pytest.mark.parametrize("kind", WHY)
def test_a_removal_looks_at_all_files_before_it_removes_one(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, place = store_of(tmp_path / "one", "aa"), tmp_path / "place"
    push(store, Folder(place))
    path, before = damaged(store, kind), sorted(store.rglob("*"))
    told = said(capsys, "prune", "--pushed", place, store, status=1)
    assert f"{path}: {WHY[kind]}" in told
    assert "nothing was removed" in told
    assert sorted(store.rglob("*")) == before


def test_rotten_pages_behind_a_sound_end_stop_the_removal_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, place = store_of(tmp_path / "one", "aa"), tmp_path / "place"
    last = sorted((store / "parquet").rglob("*.parquet"))[-1]
    content = last.read_bytes()
    last.write_bytes(content[:4] + bytes(len(content) // 3) + content[4 + len(content) // 3 :])
    push(store, Folder(place))
    before = parquet_bytes(store)
    assert str(last) in said(capsys, "prune", "--pushed", place, store, "--min-age", "0", status=1)
    assert parquet_bytes(store) == before


def test_journals_beside_a_damaged_file_wait_and_what_is_compacted_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, place = store_of(tmp_path / "one", "aa"), tmp_path / "place"
    whole = records(store)
    shutil.copytree(MEASURED / "sessions", store / "sessions")
    path = damaged(store, "dangling")
    assert main(["store", "push", str(place), str(store), "--min-age", "0"]) == 1
    assert str(path) in capsys.readouterr().err
    assert records(place) == whole


def test_a_removal_says_that_the_place_has_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, other = store_of(tmp_path / "one", "aa"), store_of(tmp_path / "two", "bb")
    before = parquet_bytes(store)
    told = said(capsys, "prune", "--pushed", tmp_path / "nowhere", store, status=2)
    assert f"{tmp_path}/nowhere: no sealed file there" in told
    push(other, Folder(tmp_path / "place"))
    told = said(capsys, "prune", "--pushed", tmp_path / "place", store, status=2)
    assert f"{tmp_path}/place: none of the store's 2 Parquet files is there" in told
    assert parquet_bytes(store) == before


def test_a_removal_says_where_records_are_and_how_many_files_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, place = store_of(tmp_path / "one", "aa"), tmp_path / "place"
    push(store, Folder(place))
    store_of(store, "bb", files=3)
    told = said(capsys, "prune", "--pushed", place, store)
    assert f"what reads {place} finds them" in told
    assert "whatever reads the store" not in told
    assert "2 Parquet files removed of 2" in told
    assert "3 Parquet files of the store not there yet" in told
    assert len(parquet_bytes(store)) == 3


def test_a_place_inside_the_store_is_refused_through_a_link_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "one", "aa")
    (store / "parquet").rename(tmp_path / "elsewhere")
    (store / "parquet").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "deep", store / "parquet"):
        assert "is the store itself, or lies in it" in said(capsys, "push", place, store, status=2)
