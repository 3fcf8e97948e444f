"""Conditions as people write them, and what they select."""

from datetime import UTC, datetime

import duckdb
import pytest

from proofcost.reports import parquet
from proofcost.reports.where import WhereError, parse

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = 86_400 * 10**9
ROWS = [
    {"record": "a", "kernel": "nanoda", "phase": "checker", "wall_program": 2_000_000_000, "instructions_u": 5,
     "labels": {"arch": "x86", "o'dd \"k": "v"}, "covariates": {"lines": 12}, "warmup": False,
     "started_ns": int(NOW.timestamp()) * 10**9 - DAY},
    {"record": "b", "kernel": "lean4lean", "phase": "checker", "wall_program": 1_999_999_999, "warmup": True,
     "memory_peak_tree": 1 << 30, "input_bytes": 10**7, "io_read_bytes_waited": 0,
     "started_ns": int(NOW.timestamp()) * 10**9 - 9 * DAY},
    {"record": "c", "phase": "build", "memory_peak_tree": 10**9, "labels": {"cache": "cold"},
     "started_ns": int(NOW.timestamp()) * 10**9},
]  # fmt: skip


def selected(conditions: list[str], since: str | None = None) -> str:
    where = parse(conditions, since, NOW)
    with duckdb.connect() as connection:
        connection.register("records", parquet.table_of(ROWS))
        found = connection.execute(f"SELECT record FROM records WHERE {where.sql} ORDER BY 1", where.parameters)
        return "".join(row[0] for row in found.fetchall())


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], "abc"),
        (["kernel=nanoda"], "a"),
        (["kernel=nanoda,lean4lean"], "ab"),
        (["kernel!=nanoda"], "bc"),
        (["phase=checker", "kernel!=nanoda"], "b"),
        (["kernel~lean"], "b"),
        (["wall_program>=2s"], "a"),
        (["wall_program>=2000ms"], "a"),
        (["wall_program<2000000000"], "b"),
        (["memory_peak_tree>=1GiB"], "b"),
        (["memory_peak_tree>=1 GB"], "bc"),
        (["memory_peak_tree>=0.001TB"], "bc"),
        (["instructions:u=5"], "a"),
        (["label.arch=x86"], "a"),
        (["label.arch!=x86"], "bc"),
        (["label.o'dd \"k=v"], "a"),
        (["covariate.lines>=12"], "a"),
        (["covariate.lines>12"], ""),
        (["warmup=no"], "a"),
        (["cache=warm"], "b"),
        (["cache=cold"], "c"),
        (["cache=cold,warm"], "bc"),
        (["cache!=cold"], "ab"),
        (["warmup!=true"], "ac"),
        (["kernel='; DROP TABLE records"], ""),
    ],
)
def test_conditions(conditions: list[str], expected: str) -> None:
    assert selected(conditions) == expected


@pytest.mark.parametrize(
    ("since", "expected"), [("7d", "ac"), ("2w", "abc"), ("1h", "c"), ("2026-11-29", "ac"), ("2026-11-30T12:00", "c")]
)
def test_since(since: str, expected: str) -> None:
    assert selected([], since) == expected


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("kernle=nanoda", "did you mean kernel?"),
        ("nanoda", "not COLUMN=VALUE"),
        ("wall_program>=fast", "a number with a unit of ns, us"),
        ("wall_program>=2GB", "a number with a unit of ns, us"),
        ("kernel>=nanoda", "compares integers only"),
        ("warmup=perhaps", "true or false"),
        ("events=x", "no column 'events'"),
        ("=x", "not COLUMN=VALUE"),
    ],
)
def test_what_cannot_be_understood(condition: str, said: str) -> None:
    with pytest.raises(WhereError, match="--where") as caught:
        parse([condition])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_since_that_cannot_be_understood() -> None:
    with pytest.raises(WhereError, match="neither a date"):
        parse([], "yesterday")


@pytest.mark.parametrize("since", ["99999999999d", "999999d", "9" * 400 + "h"])
def test_a_span_before_all_dates_is_a_wrong_word(since: str) -> None:
    with pytest.raises(WhereError, match="so long ago there is no date"):
        parse([], since, NOW)


def test_a_value_that_is_no_text_is_a_wrong_word() -> None:
    with pytest.raises(WhereError, match="not UTF-8"):
        parse(["kernel=x\udcff"])
