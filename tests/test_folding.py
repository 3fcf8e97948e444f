"""Forms and gaps: what was folded comes back to the byte, and an ordinary session's rows are what harness says."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.bench_suites.multiplied import multiply
from proofcost.harness.columns import Row, rows
from proofcost.harness.reading import read_store
from proofcost.reports import ordinary, parquet
from proofcost.reports.compaction import any_rows, compact, prune
from proofcost.reports.dataset import open_data
from proofcost.reports.folding import FORMS, NUMBER_GAPS, TEXT_GAPS, Folding, unfold, unfolded

FIXTURES = Path(__file__).parent / "fixtures" / "records"
MEASURED = FIXTURES / "measured-0.1.0"
STORES = sorted(path.parent for path in FIXTURES.glob("*/sessions"))
LINES = [
    path.read_bytes().splitlines() for path in sorted(MEASURED.rglob("*.jsonl")) if path.read_bytes().count(b"\n") == 2
]


def plain(row: Row) -> Row:
    """A row as harness has it: without forms, JSON columns as text."""
    text = ("other_figures", "weak", "absent", "covariates", "labels")
    return {
        name: value if name not in text or type(value) is bytes else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        for name, value in row.items()
        if name not in (*FORMS, *NUMBER_GAPS, *TEXT_GAPS, "events")
    }


def by_record(made: list[Row]) -> dict[str, Row]:
    return {row["record"]: plain(row) for row in made}


@pytest.mark.parametrize("store", STORES, ids=lambda path: path.name)
def test_every_frozen_record_comes_back_to_the_byte(store: Path) -> None:
    made = any_rows(store, [])
    assert made
    for row in made:
        files = [next(store.rglob(f"{row['record']}.jsonl")), *store.rglob(f"{row['record']}.settled.jsonl")]
        whole = [line for file in files for line in file.read_bytes().splitlines() if b'"schema":1' in line]
        if all(orjson.dumps(orjson.loads(line)) == line for line in whole):
            assert unfold(row) == b"\n".join(whole).decode()
    assert by_record(made) == {row["record"]: plain(row) for row in rows(read_store(store).records)}


def test_what_a_meter_wrote_is_folded() -> None:
    made = any_rows(MEASURED, [])
    assert not [row for row in made if "form_finished" not in row]
    assert '"value":\x01wall_command\x02' in made[0]["form_finished"]
    assert len({row["form_started"] for row in made}) == 7


@pytest.mark.parametrize("store", STORES, ids=lambda path: path.name)
def test_an_ordinary_session_s_rows_are_what_harness_says(store: Path, tmp_path: Path) -> None:
    multiply(store, tmp_path, 60)
    for folder in sorted((tmp_path / "sessions").iterdir()):
        made = ordinary.rows_of(str(folder), math.inf)
        if made is not None:
            assert by_record(made) == by_record(any_rows(folder, []))
            assert [unfold(row) for row in made] == [
                (folder / f"{row['record']}.jsonl").read_text().rstrip("\n") for row in made
            ]
        else:
            assert store.name in ("session-v1", "timeline-0.1.0", "collected-0.1.0"), "these have their oddities"


def test_real_sessions_are_ordinary(tmp_path: Path) -> None:
    for store in (MEASURED, FIXTURES / "bench-0.1.0"):
        for folder in (store / "sessions").iterdir():
            assert ordinary.rows_of(str(folder), math.inf) is not None


def changed(event: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        event = event[key]
    event[path[-1]] = value


TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["%s", "%(a)s", "started_ns", "gap_labels", "gap_input_0", "\x01record\x02", '"value":5,', "/tmp/%s"]
    ),
)
NUMBERS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 9), st.none())
PLACES = (
    [(0, ("cwd",)), (0, ("labels", "problem")), (0, ("labels", "%")), (0, ("argv", "sha256")), (0, ("target", "path"))],
    [
        (0, ("clocks", "realtime_ns")),
        (0, ("clocks", "boottime_ns")),
        (0, ("process", "parent_pid")),
        (0, ("limits", "memory_limit_bytes")),
        (1, ("clocks", "monotonic_ns")),
        (1, ("measurements", "wall_command", "value")),
        (1, ("measurements", "task_clock", "enabled_ns")),
        (1, ("measurements", "disk_free_min", "value")),
        (1, ("host_disturbance", "steal", "value")),
        (1, ("stragglers", "count")),
        (1, ("outcome", "code")),
        (1, ("meter_cost", "cpu_ns")),
    ],
)


@settings(max_examples=40)
@given(
    st.sampled_from(LINES),
    st.lists(st.tuples(st.sampled_from(PLACES[0]), TEXT), max_size=3),
    st.lists(st.tuples(st.sampled_from(PLACES[1]), NUMBERS), max_size=4),
)
def test_whatever_a_record_says_it_comes_back_and_gives_the_row_that_harness_gives(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    texts: list[tuple[tuple[int, tuple[str, ...]], str]],
    numbers: list[tuple[tuple[int, tuple[str, ...]], int | None]],
) -> None:
    events = [orjson.loads(line) for line in lines]
    for (line, path), value in [*texts, *numbers]:
        changed(events[line], path, value)
    session = tmp_path_factory.mktemp("s") / events[0]["session"]
    session.mkdir()
    file = session / f"{events[0]['invocation']}.jsonl"
    file.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    made = any_rows(session, [])
    quick = ordinary.rows_of(str(session), math.inf)
    for row in [*made, *(quick or [])]:
        if "finished" in (unfold(row) or ""):
            assert f"{unfold(row)}\n" == file.read_text()
    if quick is not None:
        assert by_record(quick) == by_record(made)
    back = parquet.table_of(made, parquet.FOLDED)
    held = {name: back[name].to_pylist() for name in back.schema.names}
    assert unfolded(held) == [unfold(row) for row in made]


def test_many_of_one_kind_differ_where_they_differ(tmp_path: Path) -> None:
    """Subjects, labels, sums and clocks of a thousand sessions that are learnt from one."""
    assert multiply(MEASURED, tmp_path, 350) == 350
    store = tmp_path
    done = compact(store, 0)
    assert (done.records, done.problems) == (350, [])
    expected = by_record(any_rows(store, []))
    data = open_data([store])
    subjects = dict(data.connection.execute("SELECT record, subject FROM records").fetchall())
    assert subjects == {record: row["subject"] for record, row in expected.items()}
    assert len(set(subjects.values())) == 50
    sums = dict(data.connection.execute("SELECT record, input_bytes FROM records").fetchall())
    assert sums == {record: row.get("input_bytes") for record, row in expected.items()}
    files = {path.stem: path.read_text().rstrip("\n") for path in store.rglob("*.jsonl")}
    assert dict(data.connection.execute("SELECT record, events FROM records").fetchall()) == files
    assert prune(store, 0).records == 350


def test_events_are_made_only_for_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proofcost.reports import dataset

    shutil.copytree(MEASURED, tmp_path / "store")
    compact(tmp_path / "store", 0)
    asked: list[int] = []

    def counted(columns: Mapping[str, list[Any]]) -> list[str | None]:
        asked.append(len(columns))
        return unfolded(columns)

    monkeypatch.setattr(dataset, "unfolded", counted)
    data = open_data([tmp_path / "store"])
    data.connection.execute("SELECT count(*), sum(wall_command) FROM records WHERE kernel IS NOT NULL").fetchall()
    assert not asked
    assert len(data.connection.execute("SELECT events FROM records WHERE events LIKE '%started%'").fetchall()) == 7
    assert asked


def test_many_journals_go_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proofcost.reports import dataset

    monkeypatch.setattr(dataset, "HELD_ROWS", 20)
    monkeypatch.setattr(dataset, "_TABLE_ROWS", 5)
    multiply(MEASURED, tmp_path, 70)
    data = open_data([tmp_path])
    assert data.connection.execute(
        "SELECT count(*), count(DISTINCT record), count(events) FROM records"
    ).fetchall() == [(70, 70, 70)]
    assert data.journal_records == 70


def test_a_record_with_more_numbers_than_gaps_is_kept_as_it_is() -> None:
    started, finished = (orjson.loads(line) for line in LINES[0])
    figure = finished["measurements"]["page_faults"]
    finished["measurements"].update({f"made_up_{number}": {**figure, "value": number} for number in range(60)})
    lines = [orjson.dumps(started), orjson.dumps(finished)]
    row: Row = {"record": started["invocation"], "session": started["session"], "started_ns": 1}
    before = dict(row)
    assert not Folding(lines, started["invocation"], started["session"]).put(row)
    assert row == before
    assert not set(FORMS) & set(row)
