"""A record that stands in several files of one place counts once; only files that may hold the same are looked into."""

from math import inf
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from collecting import records, store_of
from hypothesis import given
from hypothesis import strategies as st
from rows_of_runs import BEGIN, DAY, kept, run

from proofcost.reports import parquet
from proofcost.reports.dataset import open_data
from proofcost.reports.overlaps import Span, meeting, span_of
from proofcost.reports.place_folder import Folder
from proofcost.reports.pushing import push

AGAIN = "2 records stand there again, in another file; each counts once"


def test_a_record_in_two_files_of_a_place_counts_once_and_is_told(tmp_path: Path) -> None:
    runs = [run(at + 1, record=f"r{at}", started_ns=BEGIN + at) for at in range(6)]
    for store, part, name in (("one", runs[:4], "a" * 16), ("two", runs[2:], "b" * 16)):
        (tmp_path / store / "sessions").mkdir(parents=True)
        kept(tmp_path / store / "parquet" / "day=2023-11-14" / "host=h", part, name)
        push(tmp_path / store, Folder(tmp_path / "place"))
    data = open_data([tmp_path / "place"])
    assert data.rows("SELECT count(*), sum(wall_program) FROM records") == [(6, sum(range(1, 7)) * 10**6)]
    assert records(tmp_path / "place") == [f"r{at}" for at in range(6)]
    assert AGAIN in data.notes


def test_a_plain_folder_counts_once_too_beside_files_that_meet_nothing(tmp_path: Path) -> None:
    rows = [run(1.0, record=f"r{at}", started_ns=BEGIN + at) for at in range(3)]
    kept(tmp_path, rows, "a")
    kept(tmp_path, rows[1:], "b")
    kept(tmp_path, [run(5.0, record="later", started_ns=BEGIN + DAY)], "c")
    data = open_data([tmp_path])
    assert sorted(data.rows("SELECT record, wall_program FROM records")) == [
        ("later", 5_000_000), ("r0", 1_000_000), ("r1", 1_000_000), ("r2", 1_000_000)
    ]  # fmt: skip
    assert data.notes == (AGAIN,)


@pytest.mark.parametrize("started", [BEGIN, None])
def test_files_without_statistics_or_times_are_looked_into(started: int | None, tmp_path: Path) -> None:
    row = run(1.0, record="same")
    del row["started_ns"]
    if started is not None:
        row["started_ns"] = started
    kept(tmp_path, [row], "a")
    table = parquet.table_of([row])
    pq.write_table(table, tmp_path / "b.parquet", write_statistics=started is None)
    assert records(tmp_path) == ["same"]


def test_which_of_two_copies_stands_is_the_same_each_time(tmp_path: Path) -> None:
    kept(tmp_path, [run(1.0, record="same")], "a")
    kept(tmp_path, [run(2.0, record="same")], "b")
    for _ in range(5):
        assert open_data([tmp_path]).rows("SELECT wall_program FROM records") == [(1_000_000,)]


def test_files_of_other_hosts_or_times_are_not_looked_into(tmp_path: Path) -> None:
    store_of(tmp_path, "aa", files=1)
    store_of(tmp_path, "bb", files=1)
    kept(tmp_path / "parquet" / "later", [run(1.0, host="aa", started_ns=BEGIN + DAY)], "c" * 16)
    files = parquet.files(tmp_path)
    assert len(files) == 3
    assert meeting([span_of(pq.read_metadata(path)) for path in files]) == []
    assert len(records(tmp_path)) == 11


def test_a_files_end_tells_its_span(tmp_path: Path) -> None:
    def span(*rows: dict[str, object]) -> Span:
        return span_of(pq.read_metadata(kept(tmp_path, list(rows))))

    one, two = run(1.0, started_ns=5), run(1.0, started_ns=9)
    timeless = {name: value for name, value in one.items() if name != "started_ns"}
    hostless = {name: value for name, value in two.items() if name != "host"}
    assert span(one, two) == Span("h", 5, 9, False, 2)
    assert span(one, two | {"host": "other"}) == Span(None, 5, 9, False, 2)
    assert span(one, hostless) == Span(None, 5, 9, False, 2)
    assert span(hostless) == Span("", 9, 9, False, 1)
    assert span(two, timeless) == Span("h", 9, 9, True, 2)
    assert span(timeless) == Span("h", inf, -inf, True, 1)
    pq.write_table(parquet.table_of([one]), tmp_path / "x.parquet", write_statistics=False)
    assert span_of(pq.read_metadata(tmp_path / "x.parquet")) == Span(None, -inf, inf, True, 1)


SPANS = st.builds(
    lambda host, first, length, timeless, rows: Span(host, first, first + length, timeless, rows),
    st.sampled_from(["a", "b", "", None]), st.integers(0, 12), st.integers(0, 4), st.booleans(), st.integers(0, 2),
)  # fmt: skip
UNTOLD = st.sampled_from([Span(None, -inf, inf, True, 1), Span("a", inf, -inf, True, 1)])


@given(st.lists(SPANS | UNTOLD, max_size=12))
def test_what_meets_is_what_every_pair_of_files_says(spans: list[Span]) -> None:
    def meet(one: Span, other: Span) -> bool:
        hosts = one.host is None or other.host is None or one.host == other.host
        both = max(one.first_ns, other.first_ns) <= min(one.last_ns, other.last_ns)
        return hosts and ((one.timeless and other.timeless) or both) and bool(one.rows and other.rows)

    slow = {
        at for at, one in enumerate(spans) for to, other in enumerate(spans) if at != to and meet(one, other)
    }  # fmt: skip
    assert set(meeting(spans)) == slow
