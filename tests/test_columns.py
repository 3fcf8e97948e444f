"""A record that somebody forged may be refused line by line, but nobody who reads records stumbles over it."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from proofcost.harness.columns import NAMES, rows
from proofcost.harness.reading import read_store
from proofcost.reports import fields, findings, parquet, table

FIXTURES = Path(__file__).parent / "fixtures" / "records"
SESSIONS = sorted({path.parent for path in FIXTURES.glob("*/sessions/*/*.jsonl")})
SCALARS: list[Any] = [None, True, 5, -1, (1 << 63) - 1, 1 << 63, 10**30, 0.5, "", "text", "9" * 400, "\ud800", "\0"]
ODD: st.SearchStrategy[Any] = st.one_of(st.sampled_from([*SCALARS, [], [5], {}]), st.lists(st.integers(), max_size=2))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested JSON."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    value[at[0]] = put(value[at[0]], at[1:], new)
    return value


def rows_of(folder: Path) -> list[dict[str, Any]]:
    store = read_store(folder)
    made = rows(store.records)
    parquet.table_of(made)
    console = Console(file=io.StringIO())
    table.render(store.records, console)
    for record in store.records:
        fields.render_invocation(record, console)
    json.dumps(findings.merged_objects(store.records))
    assert all(set(row) <= set(NAMES) for row in made)
    return made


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_forged_value_anywhere_stops_no_reader(tmp_path: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for folder in SESSIONS for path in sorted(folder.glob("*.jsonl"))]))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    number = data.draw(st.integers(0, len(events) - 1))
    at = data.draw(st.sampled_from(list(places(events[number]))))
    forged = [put(event, at, data.draw(ODD)) if one == number else event for one, event in enumerate(events)]
    folder = tmp_path / "sessions" / path.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / path.name).write_text("".join(json.dumps(event) + "\n" for event in forged))
    rows_of(tmp_path)
    (folder / path.name).unlink()


@pytest.mark.parametrize("inputs", [[5], [None], [[]], {"a": 1}, "text", [{"size_bytes": "5"}]])
def test_inputs_of_another_kind_have_no_size(tmp_path: Path, inputs: Any) -> None:
    [path] = sorted((FIXTURES / "measured-0.1.0").glob("sessions/*/*.jsonl"))[:1]
    events = [json.loads(line) for line in path.read_text().splitlines()]
    events[0]["inputs"] = inputs
    folder = tmp_path / "sessions" / path.parent.name
    folder.mkdir(parents=True)
    (folder / path.name).write_text("".join(json.dumps(event) + "\n" for event in events))
    assert [row.get("input_bytes") for row in rows_of(tmp_path)] == [None]
