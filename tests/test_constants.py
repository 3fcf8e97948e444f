"""What is the same in all rows of Parquet files is told by their statistics; answers are those of a scan."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proofcost.harness.columns import Row
from proofcost.reports import dataset, parquet
from proofcost.reports.cells import read
from proofcost.reports.constants import constants
from proofcost.reports.dataset import open_data
from proofcost.reports.where import parse

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"


def rows_of(count: int, first: int = 0, **same: Any) -> list[Row]:
    kept = {name: value for name, value in same.items() if value is not None}
    return [
        {"record": f"r{first + at}", "kernel": "k", "workload": "w", "outcome": "exited", "cause": "completed",
         "verdict": "accepted", "wall_program": 10 + at, "started_ns": 5, **kept}
        for at in range(count)
    ]  # fmt: skip


def write(folder: Path, name: str, rows: list[Row], statistics: bool = True, drop: tuple[str, ...] = ()) -> None:
    table = parquet.table_of(rows, parquet.SCHEMA).drop_columns(list(drop))
    pq.write_table(table, folder / f"{name}.0.parquet", write_statistics=statistics, row_group_size=2)


def taken(folder: Path) -> set[str]:
    """Columns with a value that a query need not read."""
    found: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:

        def noted(*given: Any) -> dict[str, str]:
            found.update(constants(*given))
            return found

        patch.setattr(dataset, "constants", noted)
        open_data([folder])
    asked = ("host_class", "threads", "sandbox", "warmup", "labels")
    return {name for name in asked if name in found and not found[name].startswith("NULL")}


def guarded(folder: Path, *where: str) -> dict[str, set[str]]:
    """Of the one cell; checked against what a scan of everything says."""
    (cell,) = read(open_data([folder]), parse(list(where)), ("kernel", "workload"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "constants", lambda *_: {})
        (scanned,) = read(open_data([folder]), parse(list(where)), ("kernel", "workload"))
    assert cell.guarded == scanned.guarded
    assert (cell.runs, cell.ends, cell.censored) == (scanned.runs, scanned.ends, scanned.censored)
    assert cell.values["wall"][()].numbers.tolist() == scanned.values["wall"][()].numbers.tolist()
    return cell.guarded


def test_what_all_files_tell_to_be_the_same_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="it's", threads=3, warmup=False, labels={"a": "é"}))
    write(tmp_path, "b", rows_of(4, 4, host_class="it's", threads=3, warmup=False, labels={"a": "é"}))
    assert taken(tmp_path) == {"host_class", "threads", "warmup", "labels"}
    found = guarded(tmp_path)
    assert (found["host_class"], found["threads"], found["sandbox"]) == ({"it's"}, {"3"}, {""})
    assert guarded(tmp_path, "label.a=é")["threads"] == {"3"}


def test_another_file_differs(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="c", threads=3))
    write(tmp_path, "b", rows_of(4, 4, host_class="c", threads=4))
    assert taken(tmp_path) == {"host_class"}
    assert guarded(tmp_path)["threads"] == {"3", "4"}
    assert guarded(tmp_path, "threads=4")["threads"] == {"4"}


def test_another_row_group_differs(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(2, host_class="c") + rows_of(2, 2, host_class="d"))
    assert guarded(tmp_path)["host_class"] == {"c", "d"}


def test_a_file_without_statistics_tells_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="c"))
    write(tmp_path, "b", rows_of(4, 4, host_class="d"), statistics=False)
    assert taken(tmp_path) == set()
    assert guarded(tmp_path)["host_class"] == {"c", "d"}


def test_nulls_are_a_value_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(3, host_class="c") + rows_of(1, 3))
    assert guarded(tmp_path)["host_class"] == {"c", ""}
    write(tmp_path, "a", rows_of(4, host_class="c"))
    write(tmp_path, "b", rows_of(4, 4))
    assert taken(tmp_path) == set()
    assert guarded(tmp_path)["host_class"] == {"c", ""}


def test_a_file_may_lack_a_column(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="c", threads=3))
    write(tmp_path, "b", rows_of(4, 4, host_class="c"), drop=("threads",))
    assert taken(tmp_path) == {"host_class"}
    assert guarded(tmp_path)["threads"] == {"3", ""}


def test_a_file_without_rows_is_no_file(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="c"))
    pq.write_table(parquet.table_of([], parquet.SCHEMA), tmp_path / "b.0.parquet")
    assert taken(tmp_path) == {"host_class"}
    pq.write_table(parquet.table_of([], parquet.SCHEMA), tmp_path / "a.0.parquet")
    assert read(open_data([tmp_path]), parse([]), ("kernel",)) == []


def test_another_type_is_read(tmp_path: Path) -> None:
    table = pa.table({"record": ["a", "b"], "threads": pa.array([3, 3], pa.int32()), "kernel": ["k", "k"]})
    pq.write_table(table, tmp_path / "a.0.parquet")
    assert taken(tmp_path) == set()
    (cell,) = read(open_data([tmp_path]), parse([]), ("kernel",))
    assert cell.guarded["threads"] == {"3"}


def test_journals_stand_beside(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="c", source="journal", threads=77, warmup=True))
    data = open_data([tmp_path, MEASURED])
    assert data.journal_records > 0
    told = data.connection.execute("SELECT host_class = 'c', threads = 77, warmup, count(*) FROM records GROUP BY ALL")
    journals = [row for row in told.fetchall() if row[:3] != (True, True, True)]
    assert sum(row[3] for row in journals) == data.journal_records
    assert not any(row[0] or row[1] or row[2] for row in journals)


def test_a_part_may_be_of_one_kind_though_the_file_is_not(tmp_path: Path) -> None:
    write(tmp_path, "a", rows_of(4, host_class="c", sandbox="bwrap") + rows_of(4, 4, host_class="c", sandbox="landrun"))
    assert guarded(tmp_path)["sandbox"] == {"bwrap", "landrun"}
    assert guarded(tmp_path, "sandbox=bwrap")["sandbox"] == {"bwrap"}


def test_files_of_ours_tell(tmp_path: Path) -> None:
    parquet.write(tmp_path / "a.0.parquet", parquet.table_of(rows_of(4, host_class="c", threads=3), parquet.FOLDED))
    assert taken(tmp_path) == {"host_class", "threads"}
