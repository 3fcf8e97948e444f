"""`store push`: what counts at the far end is sealed, was read back, and is there once."""

import os
import shutil
from pathlib import Path

import pytest
from collecting import DATE, parquet_bytes, records, store_of
from rows_of_runs import kept, run

import proofcost
from proofcost.cli import main
from proofcost.reports import place, pushing, remote
from proofcost.reports.dataset import DataError, open_data
from proofcost.reports.file_seal import SUFFIX, Seal, seal_text
from proofcost.reports.place import Place, shown
from proofcost.reports.place_folder import Folder
from proofcost.reports.pushing import push, verified
from proofcost.reports.remote import open_place
from proofcost.reports.removal import remove_pushed
from proofcost.reports.sealed_files import sealed_files
from proofcost.reports.sole import sole

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"


@pytest.fixture(autouse=True)
def copies_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROOFCOST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("proofcost.push.ENDS_WITH_US", ())  # these commands are all of one process
    return tmp_path / "cache"


@pytest.fixture(params=["folder", "file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of each kind that needs no server."""
    name = f"{tmp_path.name}-{os.getpid()}"
    return {"folder": f"{tmp_path}/place", "file": f"file://{tmp_path}/place", "memory": f"memory://{name}"}[
        request.param
    ]


def said(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> str:
    assert main(["store", *map(str, words)]) == status
    found = capsys.readouterr()
    assert found.err.count("\n") == (1 if status else 0), found.err
    return found.err if status else found.out


def first_of(store: Path) -> Path:
    return sorted((store / "parquet").rglob("*.parquet"))[0]


def test_what_is_pushed_is_read_from_there(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = store_of(tmp_path / "one", "aa"), store_of(tmp_path / "two", "bb", files=3)
    assert "2 files (0.0 MB) sent to" in said(capsys, "push", url, one)
    assert "3 files (0.0 MB) sent to" in said(capsys, "push", url, two)
    assert records(url) == records(one, two)
    assert len(records(url)) == 25
    assert proofcost.load(url).num_rows == 25


def test_again_sends_nothing_and_writes_nothing(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "one", "aa")
    said(capsys, "push", url, store)
    before = open_place(url).find()
    assert said(capsys, "push", url, store).splitlines()[-1].startswith("0 files sent to")
    assert open_place(url).find() == before


def test_journals_are_compacted_first(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(MEASURED, tmp_path / "store")
    told = said(capsys, "push", "--no-compact", url, tmp_path / "store")
    assert "1 session not compacted yet: run store compact first" in told
    with pytest.raises(DataError):
        open_data([url])
    told = said(capsys, "push", url, tmp_path / "store", "--min-age", "0")
    assert told.splitlines()[0] == "7 records copied into 1 file; 0 stood there already"
    assert records(url) == records(MEASURED)
    assert "compacted yet" not in said(capsys, "push", "--no-compact", url, tmp_path / "store")


def test_the_events_come_back_to_the_byte(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(MEASURED, tmp_path / "store")
    said(capsys, "push", url, tmp_path / "store", "--min-age", "0")
    texts = {path.stem: path.read_text() for path in MEASURED.rglob("*.jsonl")}
    kept_ = open_data([url]).rows("SELECT record, events FROM records")
    assert {record: f"{events}\n" for record, events in kept_} == texts


def test_a_file_counts_only_once_its_seal_is_there(url: str, tmp_path: Path) -> None:
    """The seal is written last, after the file was read back."""
    store, order = store_of(tmp_path / "one", "aa", files=1), []
    there = open_place(url)
    real = type(there)

    class Watched(real):  # type: ignore[misc, valid-type]
        def put(self, name: str, source: Path | bytes) -> None:
            order.append(("put", name.rpartition(".")[2]))
            super().put(name, source)

        def read(self, name: str) -> object:
            order.append(("read", name.rpartition(".")[2]))
            return super().read(name)

    there.__class__ = Watched
    push(store, there)
    assert order == [("put", "parquet"), ("read", "parquet"), ("put", "sha256")]


def test_what_does_not_read_back_is_not_sealed(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    store = store_of(tmp_path / "one", "aa", files=1)
    real = Folder.put

    def lossy(self: Folder, name: str, source: Path | bytes) -> None:
        real(self, name, source)
        path = self.path / name
        if path.suffix == ".parquet":
            path.write_bytes(path.read_bytes()[:-1] + b"?")

    monkeypatch.setattr(Folder, "put", lossy)
    told = said(capsys, "push", tmp_path / "place", store, status=1)
    assert "is not what the store has" in told
    assert "the same call goes on from there" in told
    assert not list((tmp_path / "place").rglob("*.sha256"))


def half(url: str, name: str, content: bytes) -> None:
    open_place(url).put(name, content)


def test_half_of_one_of_ours_is_written_anew(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "one", "aa", files=1)
    path = first_of(store)
    half(url, pushing.name_of(store, path), path.read_bytes()[:1000])
    with pytest.raises(DataError):
        open_data([url])
    said(capsys, "push", url, store)
    assert records(url) == records(store)


def test_what_arrived_whole_is_sealed_and_not_sent_again(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "one", "aa", files=1)
    path = first_of(store)
    half(url, pushing.name_of(store, path), path.read_bytes())
    assert "1 file (0.0 MB) sent" in said(capsys, "push", url, store)
    assert push(store, open_place(url)).sent_bytes == 0
    assert records(url) == records(store)


def test_half_a_seal_is_none_and_is_mended(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "one", "aa")
    said(capsys, "push", url, store)
    name = pushing.name_of(store, first_of(store)) + SUFFIX
    content = open_place(url).small([name])[name]
    half(url, name, content[:40])
    data = open_data([url])
    assert len(data.rows("SELECT record FROM records")) == 5
    (note,) = data.notes
    assert note.startswith("left out: 1 Parquet file that is not sealed, or not as sealed")
    said(capsys, "push", url, store)
    assert records(url) == records(store)


@pytest.mark.parametrize("sealed", [True, False])
def test_other_bytes_of_that_name_are_refused_and_stay(
    sealed: bool, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, other = store_of(tmp_path / "one", "aa"), store_of(tmp_path / "other", "aa", rows=4)
    path = first_of(other)
    name = pushing.name_of(other, path)
    half(url, name, path.read_bytes())
    if sealed:
        half(url, name + SUFFIX, seal_text(path.name, pushing.seal_of(path)))
    told = said(capsys, "push", url, store, status=1)
    assert "nothing was written over: move" in told
    assert b"".join(open_place(url).read(name)) == path.read_bytes()
    assert len(sealed_files(url).files) == 1 + sealed  # type: ignore[union-attr]  # the other file was sent


def test_a_newer_generation_stands_for_the_older(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "one", "aa", files=1)
    said(capsys, "push", url, store)
    old = first_of(store)
    shutil.copytree(store, tmp_path / "behind")
    newer = kept(old.parent, [run(5, record="aa00000000", host="aa"), run(6, record="new", host="aa")], "x")
    newer.rename(old.with_name(old.name.replace(".0.", ".1.")))
    old.unlink()
    said(capsys, "push", url, store)
    assert records(url) == ["aa00000000", "new"]
    # Who is behind sends nothing, and an unsealed newer one does not count.
    said(capsys, "push", f"{url}-2", store)
    told = said(capsys, "push", f"{url}-2", tmp_path / "behind")
    assert told.splitlines()[-1].startswith("0 files sent")
    assert told.endswith("; 1 stood there sealed\n")
    half(url, pushing.name_of(store, old).replace(".0.", ".2."), b"half")
    assert records(url) == ["aa00000000", "new"]


def test_only_what_is_read_back_in_this_run_is_removed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "one", "aa")
    told = said(capsys, "prune", "--pushed", url, store, "--min-age", "0", status=2)
    assert "no sealed file there" in told
    said(capsys, "push", url, store)
    extra = kept(store / "parquet" / f"day={DATE}" / "host=aa", [run(5, record="young", host="aa")], "f" * 16)
    told = said(capsys, "prune", "--pushed", url, store, "--min-age", "0")
    assert "2 Parquet files removed of 2" in told
    assert list((store / "parquet").rglob("*.parquet")) == [extra]
    assert len(records(url)) == 10
    said(capsys, "push", url, store)
    assert len(records(url)) == 11


def test_a_copy_that_rotted_stops_the_removal(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sealed, of the right size, and still not what it was."""
    store = store_of(tmp_path / "one", "aa")
    said(capsys, "push", url, store)
    before = parquet_bytes(store)
    name = pushing.name_of(store, first_of(store))
    content = bytearray(b"".join(open_place(url).read(name)))
    content[len(content) // 2] ^= 1
    half(url, name, bytes(content))
    assert "nothing was removed" in said(capsys, "prune", "--pushed", url, store, "--min-age", "0", status=1)
    assert parquet_bytes(store) == before


def test_journals_and_their_copies_go_together(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    shutil.copytree(MEASURED, store)
    said(capsys, "push", url, store, "--min-age", "0")
    told = said(capsys, "prune", "--pushed", url, store, "--min-age", "0")
    assert told.startswith("7 records removed")
    assert "1 Parquet file removed of 1" in told
    assert not list(store.rglob("*.jsonl"))
    assert not list(store.rglob("*.parquet"))
    # What is gone from here is not compacted, and so not sent, a second time.
    said(capsys, "push", url, store, "--min-age", "0")
    assert records(url) == records(MEASURED)


def test_a_copy_stays_while_a_record_of_it_has_a_file(url: str, tmp_path: Path) -> None:
    """Else compaction would write that record once more, and it would be there twice."""
    store = tmp_path / "store"
    shutil.copytree(MEASURED, store)
    assert main(["store", "push", url, str(store), "--min-age", "0"]) == 0
    files, _ = verified(store, open_place(url))
    assert len(files) == 1
    assert remove_pushed(store, files) == 0
    assert main(["store", "push", url, str(store), "--min-age", "0"]) == 0
    assert records(url) == records(MEASURED)


def test_imported_files_are_sent_and_stay(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They tell `import` what was taken already."""
    store = store_of(tmp_path / "one", "aa", files=1)
    imported = kept(store / "parquet" / "import=gnu-time", [run(5, record="i", source="gnu-time")], "a" * 64)
    said(capsys, "push", url, store)
    assert "1 Parquet file removed of 2" in said(capsys, "prune", "--pushed", url, store, "--min-age", "0")
    assert list((store / "parquet").rglob("*.parquet")) == [imported]


def test_old_generations_do_not_come_back(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compaction killed between writing a new one and removing the old."""
    store = store_of(tmp_path / "one", "aa", files=1)
    old = first_of(store)
    shutil.copy(old, old.with_name(old.name.replace(".0.", ".1.")))
    said(capsys, "push", url, store)
    said(capsys, "prune", "--pushed", url, store, "--min-age", "0")
    assert not list(store.rglob("*.parquet"))


def test_a_folder_without_seals_is_read_as_it_lies(tmp_path: Path) -> None:
    store = store_of(tmp_path / "one", "aa")
    assert sealed_files(store) is None
    assert len(records(store / "parquet")) == 10


def test_two_at_once_are_one_too_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "one", "aa")
    with sole(store):
        for words in (["push", tmp_path / "place"], ["compact"], ["prune"]):
            assert "another compact, prune or push works on it" in said(capsys, *words, store, status=1)
    assert not (tmp_path / "place").exists()


def test_a_url_is_shown_without_what_is_secret() -> None:
    assert shown("s3://me:secret@host/bucket?token=1") == "s3://host/bucket"
    assert shown("abfs://c@account.example/x?sig=abc") == "abfs://account.example/x"
    told = place.without_secrets("cannot reach https://me:pw@h:1/p?X-Amz-Signature=a or ftp://u@h/x")
    assert told == "cannot reach https://h:1/p or ftp://h/x"


def test_copies_are_fetched_once_and_checked(tmp_path: Path, copies_of_this_test: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    url = f"memory://copies-{tmp_path.name}-{os.getpid()}"
    store = store_of(tmp_path / "one", "aa", files=1)
    assert main(["store", "push", url, str(store)]) == 0
    assert len(records(url)) == 5
    seal = pushing.seal_of(first_of(store))
    assert [path.name for path in copies_of_this_test.iterdir()] == [f"{seal.sha256}.parquet"]
    monkeypatch.setattr(remote.Remote, "read", lambda *_: pytest.fail("fetched again"))
    assert len(records(url)) == 5
    monkeypatch.undo()
    shutil.rmtree(copies_of_this_test)
    name = pushing.name_of(store, first_of(store))
    half(url, name, bytes(seal.bytes_))
    monkeypatch.setenv("PROOFCOST_CACHE", str(copies_of_this_test))
    with pytest.raises(DataError, match="its bytes are not those that were sealed"):
        open_data([url])
    assert not list(copies_of_this_test.iterdir())


def test_a_seal_of_another_size_does_not_count(tmp_path: Path) -> None:
    store = store_of(tmp_path / "one", "aa", files=1)
    there: Place = open_place(tmp_path / "place")
    push(store, there)
    path = first_of(store)
    seal = pushing.seal_of(path)
    there.put(pushing.name_of(store, path) + SUFFIX, seal_text(path.name, Seal(seal.sha256, seal.bytes_ + 1)))
    with pytest.raises(DataError, match="no sealed Parquet file there"):
        open_data([tmp_path / "place"])
