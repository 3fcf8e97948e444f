"""Places that are full, unreachable, somebody else's or of other days and versions: one line each, nothing lost."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from collecting import DATE, parquet_bytes, records, store_of
from rows_of_runs import DAY, kept, run

import proofcost
from proofcost.cli import main
from proofcost.extras import how
from proofcost.harness.columns import NAMES
from proofcost.reports import parquet
from proofcost.reports.dataset import DataError, open_data
from proofcost.reports.file_seal import SUFFIX, Seal, seal_text
from proofcost.reports.place import There
from proofcost.reports.place_folder import Folder
from proofcost.reports.pushing import push
from proofcost.reports.remote import open_place
from proofcost.reports.sealed_files import seals_of

NOW = time.time_ns()


def failed(capsys: pytest.CaptureFixture[str], *words: object, status: int) -> str:
    assert main([str(word) for word in words]) == status
    found = capsys.readouterr()
    assert found.err.count("\n") == 1, found.err
    return found.err


def place_of(tmp_path: Path, *stores: Path) -> Path:
    for store in stores:
        push(store, open_place(tmp_path / "place"))
    return tmp_path / "place"


def put(place: Path, name: str, content: bytes) -> None:
    """A file with a sound seal, whatever it holds."""
    path = place / "parquet" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    seal = Seal(hashlib.sha256(content).hexdigest(), len(content))
    path.with_name(path.name + SUFFIX).write_bytes(seal_text(path.name, seal))


def notes(place: Path) -> list[str]:
    return list(open_data([place]).notes)


def test_a_full_place_keeps_what_it_has(as_root: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tmpfs with room for some of the files."""
    store = store_of(tmp_path / "store", "aa", files=12, rows=200)
    size = len(next(iter(parquet_bytes(store).values())))
    small, room = tmp_path / "small", 6 * size
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", small], check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs may be mounted here")
    try:
        told = failed(capsys, "store", "push", small, store, status=1)
        assert "No space left on device" in told
        assert "what was sent before stays, and the same call goes on from there" in told
        there = sorted(path.name for path in small.rglob("*"))
        assert not [name for name in there if name.endswith(".tmp")]
        assert 0 < len(records(small)) < 2400
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        assert main(["store", "push", str(small), str(store)]) == 0
        assert records(small) == records(store)
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_place_that_may_not_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "store", "aa")
    (tmp_path / "file").write_text("x")
    told = failed(capsys, "store", "push", tmp_path / "file", store, status=2)
    assert "Not a directory" in told


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gs://b/x", "gcsfs not installed; gs:// needs it: pip install gcsfs"),
        ("abfs://b/x", "adlfs not installed; abfs:// needs it: pip install adlfs"),
        ("quark://me:secret@b/x", "quark://b/x: Protocol not known: quark"),
        ("ftp://me:secret@127.0.0.1:9/x", "ftp://127.0.0.1:9/x: [Errno 111] Connection refused"),
    ],
)
def test_a_scheme_without_its_package_is_named(
    url: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "store", "aa")
    for words in (
        ["store", "push", url, store],
        ["store", "sql", "SELECT 1", "--data", url],
        ["report", "kernels", url],
        ["import", url],
        ["compare", url, url],
        ["export", "--to", "csv", url],
        ["plan", "--data", url],
        ["store", "declare", "a", "b", "--evidence", url, "--store", store],
    ):
        told = failed(capsys, *words, status=2)
        assert said in told
        assert "secret" not in told


@pytest.mark.parametrize("module", ["fsspec", "s3fs"])
def test_without_the_extra_one_line_says_what_to_install(module: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from proofcost.cli import main; sys.exit(main(sys.argv[1:]))"
    store = store_of(tmp_path / "store", "aa")
    command = [sys.executable, "-c", code, "store", "push", "s3://b/x", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"{module} not installed" in done.stderr
    assert how("fleet") in done.stderr
    # A folder needs neither.
    command[-2] = str(tmp_path / "place")
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


def test_the_store_itself_is_no_place_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "store", "aa")
    for place in (store, store / "parquet", store / "parquet" / "x", f"file://{store}"):
        assert "is the store itself, or lies in it" in failed(capsys, "store", "push", place, store, status=2)
    assert not list(store.rglob("*.sha256"))


def test_a_folder_of_parquet_files_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path / "files", [run(5)])
    for words in (["push", tmp_path / "place"], ["prune", "--pushed", tmp_path / "place"]):
        told = failed(capsys, "store", *words, tmp_path / "files", status=2)
        assert "files: no store (it has neither sessions/ nor parquet/); name one" in told
    (tmp_path / "new" / "sessions").mkdir(parents=True)
    assert main(["store", "push", str(tmp_path / "place"), str(tmp_path / "new")]) == 0


def test_two_hosts_with_one_name_do_not_collide(tmp_path: Path) -> None:
    """A name is nowhere in it: the host instance's id is."""
    one, two = store_of(tmp_path / "one", "aa", files=1), store_of(tmp_path / "two", "bb", files=1)
    place = place_of(tmp_path, one, two)
    assert sorted(path.name for path in (place / "parquet" / f"day={DATE}").iterdir()) == ["host=aa", "host=bb"]
    assert records(place) == records(one, two)
    assert notes(place) == []


def test_two_machines_with_one_id_are_told(tmp_path: Path) -> None:
    """A copied store: one id, two boots in turns."""
    for name, shift in (("one", 0), ("two", 1)):
        runs = [
            run(
                5, record=f"{name}{at}", boot=name, host="aa", started_ns=1_700_000_000 * 10**9 + (2 * at + shift) * DAY
            )
            for at in range(3)
        ]
        kept(tmp_path / name / "parquet" / f"day={DATE}" / "host=aa", runs, name)
    place = place_of(tmp_path, tmp_path / "one", tmp_path / "two")
    (note,) = notes(place)
    assert note.startswith("two machines share one host id (aa)")
    assert len(records(place)) == 6


def test_a_record_from_after_its_writing_is_told_and_stays(tmp_path: Path) -> None:
    ahead = [run(5, record="late", host="ab" * 32, started_ns=NOW + 3 * DAY)]
    kept(tmp_path / "one" / "parquet" / "day=x" / "host=y", ahead)
    place = place_of(tmp_path, tmp_path / "one", store_of(tmp_path / "two", "aa"))
    (note,) = notes(place)
    assert note.startswith(f"clocks disagree: records of 1 host ({'ab' * 6}) started up to 3.0 days later than")
    rows = open_data([place]).rows("SELECT started_ns, wall_program FROM records WHERE record = 'late'")
    assert rows == [(NOW + 3 * DAY, 5_000_000)]
    with pytest.warns(UserWarning, match="clocks disagree"):
        assert proofcost.load(place).num_rows == 11


@pytest.mark.parametrize(("shift", "said"), [(-7200, "ahead of"), (7200, "behind")])
def test_a_storage_of_another_time_is_told_by_the_push(
    shift: float, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folder, "written_s", lambda *_: time.time() + shift)
    store = store_of(tmp_path / "store", "aa")
    assert main(["store", "push", str(tmp_path / "place"), str(store)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("clocks disagree")]
    assert f"7200 s {said} the storage's" in line


def test_mixed_versions_are_told_and_null(tmp_path: Path) -> None:
    """An older writer knew fewer columns, a newer one knows more."""
    place = place_of(tmp_path, store_of(tmp_path / "one", "aa", files=1))
    rows = [run(5, record="old", host="bb"), run(6, record="new", host="cc")]
    table = parquet.table_of(rows)
    pq.write_table(table.slice(0, 1).drop_columns(["subject", "io_read_bytes_tree"]), tmp_path / "old")
    put(place, "day=x/host=bb/old.0.parquet", (tmp_path / "old").read_bytes())
    pq.write_table(table.slice(1).append_column("warp", pa.array([9])), tmp_path / "new")
    put(place, "day=x/host=cc/new.0.parquet", (tmp_path / "new").read_bytes())
    data = open_data([place])
    assert list(data.notes) == [
        "1 file of 3 of another version of the records, without io_read_bytes_tree, subject: null there",
        "columns that this version does not know are not read: warp",
    ]
    assert data.rows("SELECT wall_program, subject FROM records WHERE record = 'old'") == [(5_000_000, None)]
    assert [str(row[0]) for row in data.rows("DESCRIBE records")] == list(NAMES)


def test_a_column_of_another_kind_is_refused(tmp_path: Path) -> None:
    place = place_of(tmp_path, store_of(tmp_path / "one", "aa", files=1))
    table = parquet.table_of([run(5, record="odd", host="bb")])
    at = table.schema.get_field_index("wall_program")
    pq.write_table(table.set_column(at, "wall_program", pa.array(["five"])), tmp_path / "odd")
    put(place, "day=x/host=bb/odd.0.parquet", (tmp_path / "odd").read_bytes())
    with pytest.raises(DataError, match=r"odd\.0\.parquet: its column `wall_program` is BYTE_ARRAY, and INT64 in this"):
        open_data([place])


@pytest.mark.parametrize("sealed", [True, False])
def test_somebody_elses_parquet_is_left_out_or_refused(sealed: bool, tmp_path: Path) -> None:
    """Left out where it is not sealed, and named where somebody sealed it."""
    store = store_of(tmp_path / "one", "aa", files=1)
    place = place_of(tmp_path, store)
    pq.write_table(pa.table({"colour": ["blue"]}), place / "theirs.parquet")
    shutil.copy(place / "theirs.parquet", place / "parquet" / "theirs.parquet")
    if sealed:
        put(place, "theirs.parquet", (place / "theirs.parquet").read_bytes())
        with pytest.raises(DataError, match=r"theirs\.parquet: a Parquet file, but not of records"):
            open_data([place])
        return
    assert records(place) == records(store)
    (note,) = notes(place)
    assert note == (
        "left out: 1 Parquet file that is not sealed, or not as sealed (half written, or another's): "
        "parquet/theirs.parquet"
    )


def test_bytes_that_are_no_parquet_are_one_line(tmp_path: Path) -> None:
    place = place_of(tmp_path, store_of(tmp_path / "one", "aa", files=1))
    put(place, "day=x/host=bb/odd.0.parquet", b"PAR1 or not")
    with pytest.raises(DataError, match=r"odd\.0\.parquet: .*; move that file away"):
        open_data([place])


def test_what_is_sealed_and_gone_is_told_and_sent_again(tmp_path: Path) -> None:
    store = store_of(tmp_path / "one", "aa")
    place = place_of(tmp_path, store)
    next(iter((place / "parquet").rglob("*.parquet"))).unlink()
    assert len(records(place)) == 5
    assert "1 Parquet file that is not sealed, or not as sealed" in notes(place)[0]
    place_of(tmp_path, store)
    assert records(place) == records(store)


def test_a_killed_push_leaves_no_clutter_for_ever(tmp_path: Path) -> None:
    place = place_of(tmp_path, store_of(tmp_path / "one", "aa"))
    left = place / "parquet" / f"day={DATE}" / "host=aa" / ".x.0.parquet.999999999.tmp"
    left.write_bytes(b"half")
    push(tmp_path / "one", open_place(place))
    assert left.exists(), "another may be writing it"
    os.utime(left, (1, 1))
    push(tmp_path / "one", open_place(place))
    assert not left.exists()


def test_a_listing_with_nothing_but_seals_has_no_data(tmp_path: Path) -> None:
    name = "parquet/day=x/host=a/x.0.parquet"
    seals = {f"{name}{SUFFIX}": There(100, None)}
    place = Folder(tmp_path)
    place.put(f"{name}{SUFFIX}", seal_text("x.0.parquet", Seal("0" * 64, 4)))
    assert set(seals_of(place, seals)) == {name}
    with pytest.raises(DataError, match="no sealed Parquet file there"):
        open_data([tmp_path])


def test_import_takes_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"memory://import-{tmp_path.name}-{os.getpid()}"
    found = sorted((Path(__file__).parent / "fixtures" / "foreign").glob("hyperfine*.json"))[0]
    open_place(url).put(f"deep/{found.name}", found.read_bytes())
    open_place(url).put("readme.txt", b"nothing")
    store = tmp_path / "store"
    assert main(["import", url, "--store", str(store)]) == 0
    told = capsys.readouterr()
    assert f"{url}: 1 file: hyperfine:" in told.out
    assert "1 file of no format that is known left aside" in told.out
    assert main(["import", f"{url}/deep/{found.name}", "--store", str(store)]) == 0
    assert f"{url}/deep/{found.name}: hyperfine: stands there already" in capsys.readouterr().out
    names = {row[0] for row in open_data([store]).rows("SELECT DISTINCT source_name FROM records")}
    assert names == {found.name}


@pytest.mark.parametrize("kind", ["folder", "file", "memory"])
def test_a_place_of_records_is_not_imported(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{tmp_path.name}-{os.getpid()}"
    place = {"folder": f"{tmp_path}/p", "file": f"file://{tmp_path}/p", "memory": f"memory://{name}"}[kind]
    push(store_of(tmp_path / "one", "aa"), open_place(place))
    told = failed(capsys, "import", place, "--store", tmp_path / "store", status=2)
    assert ": records, not a foreign format: name it as the data of a report" in told
    assert not list((tmp_path / "store").rglob("*.parquet"))
