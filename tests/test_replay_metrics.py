"""LeanEval's view of the costs: what it adds up to, and that its reader takes every state of it."""

import json
from typing import Any

import pytest
import standin_replay
from hypothesis import given
from hypothesis import strategies as st

from proofcost.adapters import replay_metrics
from proofcost.adapters.replay_metrics import CALL_BYTES_MAX, MAX_BYTES, FormatError, View, loads, milliseconds

ENDS = st.tuples(st.just("exited"), st.integers(0, 255)) | st.tuples(st.just("signaled"), st.integers(1, 127))
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["build", "checker"]),
        st.integers(0, 10**14),
        st.none() | st.integers(0, 10**15),
        st.sampled_from(sorted(standin_replay.REASONS)),
        ENDS,
    ),
    max_size=20,
)


def view_of(calls: list[tuple[str, int, int | None, str, tuple[str, int]]]) -> View:
    view = View()
    for phase, wall_ns, instructions, reason, ended in calls:
        view.phases[phase].add(wall_ns, instructions, None if instructions is not None else reason, ended)
    return view


def test_an_empty_view_has_no_calls_and_counted_nothing() -> None:
    phase = {
        "invocations": 0,
        "wall_time_ms": 0,
        "retired_instructions": {"status": "measured", "value": 0},
        "terminations": [],
    }
    assert json.loads(View().dumps()) == {"schema_version": 1, "phases": {"build": phase, "checker": phase}}


@given(CALLS)
def test_every_view_is_read_by_its_consumer_and_by_us(calls: list[Any]) -> None:
    raw = view_of(calls).dumps()
    found = standin_replay.parse_metrics(raw)
    assert loads(raw).dumps() == raw
    for name in ("build", "checker"):
        mine = [call for call in calls if call[0] == name]
        assert found[name]["invocations"] == len(mine)
        assert found[name]["wall_time_ms"] == sum((call[1] + 500_000) // 1_000_000 for call in mine)
        kinds = [(end["kind"], end.get("code", end.get("signal"))) for end in found[name]["terminations"]]
        assert kinds == [call[4] for call in mine]
        missing = [call[3] for call in mine if call[2] is None]
        expected = (
            {"status": "unavailable", "reason": missing[0]}
            if missing
            else {"status": "measured", "value": sum(call[2] for call in mine)}
        )
        assert found[name]["retired_instructions"] == expected


@given(CALLS, ENDS, st.none() | st.integers(0, 10**17))
def test_the_room_that_is_asked_for_is_enough_for_any_call(
    calls: list[Any], ended: tuple[str, int], instructions: int | None
) -> None:
    view = view_of(calls)
    before = len(view.dumps())
    view.phases["build"].add(10**18, instructions, "counter_permission_denied", ended)
    assert len(view.dumps()) <= before + CALL_BYTES_MAX


def test_a_view_is_full_before_its_reader_finds_it_too_large() -> None:
    view, calls = View(), 0
    while view.has_room():
        view.phases["build"].add(10**9, 10**12, None, ("signaled", 11))
        calls += 1
    assert 400 < calls < 600
    assert len(view.dumps()) <= MAX_BYTES < len(view.dumps()) + CALL_BYTES_MAX


@given(CALLS, st.data())
def test_a_damaged_view_is_refused_by_us_wherever_its_consumer_refuses_it(
    calls: list[Any], data: st.DataObject
) -> None:
    raw = bytearray(view_of(calls).dumps())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        standin_replay.parse_metrics(bytes(raw))
    except standin_replay.ReplayError:
        with pytest.raises(FormatError):
            loads(bytes(raw))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda document: document.update(extra=1), "the file does not have exactly the keys schema_version, phases"),
        (lambda document: document.update(schema_version=2), "schema_version is 2, not 1"),
        (lambda document: document.update(schema_version=True), "schema_version is true, not 1"),
        (lambda document: document["phases"].update(export={}), "phases does not have exactly the keys build, checker"),
        (
            lambda document: document["phases"]["build"].update(invocations=1),
            "build.terminations does not have one entry for each of 1 invocations",
        ),
        (
            lambda document: document["phases"]["build"].update(wall_time_ms=-1),
            "build.wall_time_ms is -1, not an integer from 0 to 9223372036854775807",
        ),
        (
            lambda document: document["phases"]["checker"].update(
                retired_instructions={"status": "unavailable", "reason": "lost"}
            ),
            'checker.retired_instructions is {"status":"unavailable","reason":"lost"}',
        ),
        (
            lambda document: document["phases"]["checker"].update(
                invocations=1, terminations=[{"kind": "exited", "code": 256}]
            ),
            "checker.terminations is 256, not an integer from 0 to 255",
        ),
    ],
)
def test_what_is_wrong_with_a_view_is_named(change: Any, why: str) -> None:
    document = json.loads(View().dumps())
    change(document)
    with pytest.raises(FormatError) as found:
        loads(json.dumps(document).encode())
    assert str(found.value) == why


def test_a_view_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(FormatError, match="larger than 16384 bytes"):
        loads(View().dumps() + b" " * MAX_BYTES)


def test_milliseconds_are_the_nearest() -> None:
    assert [milliseconds(ns) for ns in (0, 499_999, 500_000, 1_499_999, 1_500_000)] == [0, 0, 1, 1, 2]


def test_the_export_is_counted_with_the_build() -> None:
    given_names = ["build", "solution-export", "checker"]
    assert [replay_metrics.phase_of(name) for name in given_names] == ["build", "build", "checker"]


def test_reasons_that_the_consumer_does_not_know_become_not_reported() -> None:
    ours = ["counter_not_supported", "counter_permission_denied", "counter_multiplexed", "counter_never_ran", None]
    assert [replay_metrics.reason_of(reason) for reason in ours] == [
        "counter_not_supported",
        "counter_permission_denied",
        "counter_not_reported",
        "counter_not_reported",
        "counter_not_reported",
    ]
