"""Invocation files to Parquet and back: nothing lost, nothing twice, whatever happens in between."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness.columns import COLUMNS, FIGURES, NAMES, Row, column_of, rows
from proofcost.harness.reading import read_store
from proofcost.reports import compaction, parquet
from proofcost.reports.compaction import compact, prune
from proofcost.reports.dataset import DataError, open_data

FIXTURES = Path(__file__).parent / "fixtures" / "records"
MEASURED = FIXTURES / "measured-0.1.0"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    shutil.copytree(MEASURED, tmp_path / "store")
    return tmp_path / "store"


def files_of(store: Path) -> list[str]:
    return sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_file())


def ask(*paths: Path, query: str) -> list[tuple[object, ...]]:
    data = open_data(paths)
    with data.connection:
        return data.connection.execute(query).fetchall()


def test_a_row_says_what_the_record_says() -> None:
    records = read_store(MEASURED).records
    for record, row in zip(records, rows(records), strict=True):
        assert set(row) <= set(NAMES)
        assert row["record"] == record.invocation
        assert row["phase"] == record.phase
        for name, figure in record.measurements().items():
            assert name in FIGURES, "a figure without a column: add it"
            assert row.get(column_of(name)) == figure.value
            assert (name in row.get("absent", {})) == (figure.value is None)
            assert row.get("weak", {}).get(name, "measured") == (
                figure.status if figure.value is not None else "measured"
            )
    kernels = {row["kernel"] for row in rows(records) if row["phase"] == "checker"}
    assert kernels == {"nanoda", "sokonanoda"}
    assert len({row["subject"] for row in rows(records)}) == 1


def test_every_column_has_a_meaning_and_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(column.what for column in COLUMNS)


def test_compacting_copies_all_and_removes_nothing(store: Path) -> None:
    before = files_of(store)
    done = compact(store, 0)
    assert (done.records, done.known, done.problems) == (7, 0, [])
    assert [name for name in files_of(store) if name in before] == before
    texts = {path.stem: path.read_text() for path in MEASURED.rglob("*.jsonl")}
    kept = ask(done.files[0], query="SELECT record, events FROM records")
    assert {record: f"{events}\n" for record, events in kept} == texts
    assert parquet.read(done.files[0])["events"].null_count == 7, "they stand in forms"
    day = done.files[0].relative_to(store).parts
    assert day[:2] == ("parquet", "day=2026-11-30")


def test_again_changes_nothing(store: Path) -> None:
    compact(store, 0)
    before = files_of(store)
    done = compact(store, 0)
    assert (done.records, done.known) == (0, 7)
    assert files_of(store) == before


def test_a_copy_and_its_source_count_once(store: Path) -> None:
    assert ask(store, query="SELECT count(*) FROM records") == [(7,)]
    compact(store, 0)
    assert ask(store, query="SELECT count(*) FROM records") == [(7,)]
    assert ask(store, store / "parquet", MEASURED, query="SELECT count(*) FROM records") == [(7,)]
    prune(store, 0)
    assert ask(store, query="SELECT count(*), sum(wall_command) FROM records") == ask(
        MEASURED, query="SELECT count(*), sum(wall_command) FROM records"
    )


def test_what_is_settled_later_replaces_the_copy(store: Path) -> None:
    settled = next(path for path in (FIXTURES / "session-v1").rglob("*.settled.jsonl"))
    session = settled.parent
    there = store / "sessions" / session.name
    shutil.copytree(session, there)
    (there / settled.name).unlink()
    compact(store, 0)
    count = ask(store, query="SELECT count(*) FROM records")
    shutil.copy(settled, there)
    done = compact(store, 0)
    assert done.records == 1
    assert done.files[0].name.endswith(".1.parquet")
    assert ask(store, query="SELECT count(*) FROM records") == count
    name = settled.name.removesuffix(".settled.jsonl")
    (events,) = ask(store / "parquet", query=f"SELECT events FROM records WHERE record = '{name}'")[0]
    assert str(events).count("\n") == 2
    # Killed between writing the new generation and removing the old one: the newer counts.
    old = done.files[0].with_name(done.files[0].name.replace(".1.", ".0."))
    shutil.copy(done.files[0], old)
    assert ask(store, query="SELECT count(*) FROM records") == count


@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_killed_in_the_middle_leaves_nothing_half(store: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    before = files_of(store)

    class KilledError(Exception):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(os if at == "fsync" else Path, at, killed)
        with pytest.raises(KilledError):
            compact(store, 0)
    assert files_of(store) == before
    (store / "parquet" / "day=2026-11-30").mkdir(parents=True, exist_ok=True)
    (store / "parquet" / "day=2026-11-30" / ".left.0.parquet.1.tmp").write_bytes(b"half")
    assert compact(store, 0).records == 7


def test_what_does_not_read_back_is_not_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, calls = parquet._digest, []

    def another(table: object) -> bytes:
        calls.append(1)
        return digest(table) if len(calls) == 1 else b"another"

    monkeypatch.setattr(parquet, "_digest", another)
    before = files_of(store)
    with pytest.raises(parquet.CopyError, match="does not read back"):
        compact(store, 0)
    assert files_of(store) == before


def test_pruning_removes_only_what_is_copied_whole(store: Path) -> None:
    assert prune(store, 0).records == 0
    compact(store, 0)
    call = next(path for path in sorted(store.rglob("*.jsonl")))
    text = call.read_bytes()
    for changed in (text + b'{"schema":1,"torn', text.replace(b'"exited"', b'"exiteD"')):
        call.write_bytes(changed)
        done = prune(store, 0)
        assert (done.records, done.unverified) == (0, 1), "and nothing else of its session goes without it"
        assert len(list(store.rglob("*.jsonl"))) == 7
    call.write_bytes(text)
    assert prune(store, 0).records == 7
    assert not list(store.rglob("*.jsonl"))


def edited(store: Path, old: bytes, new: bytes, line: int = 0) -> Path:
    """One record file of the store, with a change in one of its lines."""
    call = next(path for path in sorted(store.rglob("*.jsonl")) if b'"understood":"checker"' in path.read_bytes())
    lines = call.read_bytes().splitlines(keepends=True)
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new, 1)
    call.write_bytes(b"".join(lines))
    return call


def test_a_record_that_may_still_grow_is_copied_but_not_removed(store: Path) -> None:
    """A meter of another boot or pid namespace may hold its file open for all we can see."""
    call = edited(store, b'"boot_id":"', b'"boot_id":"another-')
    call.write_bytes(call.read_bytes().splitlines(keepends=True)[0])
    assert compact(store, 0).records == 7
    done = prune(store, 0)
    assert (done.records, done.running) == (0, 1)
    assert call.exists()


def test_a_record_that_may_still_be_settled_is_not_removed(store: Path) -> None:
    edited(store, b'"action":"none"', b'"action":"reported"', line=1)
    compact(store, 0)
    assert (prune(store, 0).records, prune(store, 0).running) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"instance":"', b'"instance":"../../../../../out'),
        (b'"instance":"', b'"instance":"a/b'),
        (b'"realtime_ns":', b'"realtime_ns":-'),
    ],
)
def test_a_record_is_whoever_s_word_and_names_no_folder(store: Path, old: bytes, new: bytes) -> None:
    edited(store, old, new)
    done = compact(store, 0)
    assert done.records == 7
    for path in done.files:
        assert path.resolve().is_relative_to((store / "parquet").resolve())
    assert any("unknown" in str(path) for path in done.files) or old == b'"realtime_ns":'
    assert ask(store, query="SELECT count(*) FROM records") == [(7,)]


def test_a_damaged_parquet_file_is_named_and_nothing_is_removed(store: Path) -> None:
    compact(store, 0)
    (copy,) = store.rglob("*.parquet")
    copy.write_bytes(copy.read_bytes()[:-100])
    with pytest.raises(parquet.CopyError, match="no Parquet file that can be read"):
        prune(store, 0)
    assert len(list(store.rglob("*.jsonl"))) == 7
    with pytest.raises(DataError, match="move that file away"):
        open_data([store])


def test_copies_in_two_places_count_once(store: Path, tmp_path: Path) -> None:
    compact(store, 0)
    shutil.copytree(store / "parquet", tmp_path / "elsewhere")
    assert ask(tmp_path / "elsewhere", store / "parquet", query="SELECT count(*) FROM records") == [(7,)]


def test_a_path_that_is_a_pattern_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a[b]").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        open_data([tmp_path / "a[b]"])


def test_young_sessions_are_left_alone(store: Path) -> None:
    for path in store.rglob("*"):
        os.utime(path)
    assert (compact(store, 3600).records, compact(store, 3600).young) == (0, 1)


def test_a_record_file_as_link_is_never_followed(store: Path, tmp_path: Path) -> None:
    (store / "sessions" / "elsewhere").symlink_to(MEASURED / "sessions")
    assert compact(store, 0).records == 7


def test_a_path_with_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        open_data([tmp_path / "absent"])
    assert ask(tmp_path, query="SELECT count(*) FROM records") == [(0,)]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"record": st.uuids().map(str)},
            optional={
                "kernel": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
                "wall_program": st.integers(-(1 << 63), (1 << 63) - 1),
                "warmup": st.booleans(),
                "labels": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
            },
        ),
        max_size=5,
    )
)
def test_a_table_reads_back(tmp_path_factory: pytest.TempPathFactory, made: list[Row]) -> None:
    path = tmp_path_factory.mktemp("t") / "x.0.parquet"
    parquet.write(path, parquet.table_of(made))
    back = parquet.read(path).to_pylist()
    for row, one in zip(made, back, strict=True):
        assert all(one[name] == value for name, value in row.items() if name != "labels")


TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=3))


@given(st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.integers(-9, 9)), st.one_of(st.none(), st.booleans()))))
def test_a_digest_is_of_the_values_alone(values: list[tuple[str | None, int | None, bool | None]]) -> None:
    def table(more: list[tuple[str | None, int | None, bool | None]]) -> Any:
        return parquet.table_of([{"kernel": text, "exit_code": number, "warmup": flag} for text, number, flag in more])

    around = table([("zz", 1, True), *values, ("y", None, None)])
    assert parquet._digest(around.slice(1, len(values))) == parquet._digest(table(values))
    changed = [(None if text == "" else (text or "") + "", number, flag) for text, number, flag in values]
    if changed != values:
        assert parquet._digest(table(changed)) != parquet._digest(table(values)), "empty is not missing"


def test_rows_of_older_files_lack_newer_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = parquet.table_of([{"record": "a", "phase": "build"}]).select(["record", "phase"])
    pq.write_table(table, tmp_path / "old.0.parquet")
    assert ask(tmp_path, query="SELECT record, kernel, wall_program FROM records") == [("a", None, None)]


def test_compaction_keeps_the_batches_small(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "BATCH_ROWS", 1)
    shutil.copytree(FIXTURES / "session-v1" / "sessions", store / "sessions", dirs_exist_ok=True)
    done = compact(store, 0)
    assert len(done.files) == 2
    assert ask(store, query="SELECT count(*) FROM records") == [(done.records,)]


def test_what_a_dead_writer_left_goes_after_a_day(store: Path) -> None:
    compact(store, 0)
    folder = next((store / "parquet").rglob("*.parquet")).parent
    dead, living = 4_194_399, os.getpid()  # above Linux's greatest pid; this one
    old = [folder / f".a.0.parquet.{dead}.tmp", folder / f".b.0.parquet.{living}.tmp", folder / ".c.0.parquet.tmp"]
    for path in old:
        path.write_bytes(b"half")
        os.utime(path, (1, 1))
    young = folder / f".d.0.parquet.{dead}.tmp"
    young.write_bytes(b"half")
    compact(store, 0)
    assert [path.exists() for path in (*old, young)] == [False, True, True, True]
    assert ask(store, query="SELECT count(*) FROM records") == [(7,)]


def test_only_names_that_are_ours_have_generations() -> None:
    """A file of somebody's own never stands for another one, whatever numbers are in their names."""
    of = parquet.generation_of
    assert of("8c01d2e3f4a5b6c7.12.parquet") == ("8c01d2e3f4a5b6c7", 12)
    assert of("parquet/day=2026-11-30/host=3f/8c01d2e3f4a5b6c7.0.parquet") == (
        "parquet/day=2026-11-30/host=3f/8c01d2e3f4a5b6c7", 0,
    )  # fmt: skip
    assert of("batch-" + "ab" * 32 + ".1.parquet") == ("batch-" + "ab" * 32, 1)
    theirs = [Path(name) for name in ("0.parquet", "1.parquet", "run.2025.parquet", "run.2026.parquet", "a.0.parquet")]
    assert parquet.newest(theirs) == sorted(theirs)
    ours = [Path(f"8c01d2e3f4a5b6c7.{number}.parquet") for number in (0, 2, 10)]
    assert parquet.newest(ours) == [ours[2]]
