"""A call that the time limit of `run` cut off is told so, with what its wall is at least; nothing else is told so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from showing import S, row, store_of, table_of

from proofcost.harness.merged import Record
from proofcost.reports import figures
from proofcost.reports.outcome import outcome_text

BOOT = {"boot_id": "a boot"}
TIMED_OUT = {"kind": "timed_out", "code": None, "signal": 9, "cause": "time_limit"}


def whole(outcome: dict[str, Any] = TIMED_OUT, timeout_ns: int | None = 3 * S) -> list[made.Event]:
    """The judge's record: from 100 s, with a limit of 3 s."""
    started = made.started("w", "whole", 100 * S, host=BOOT, limits={"timeout_ns": timeout_ns})
    return [started, made.finished("w", 103 * S + 1000, outcome=outcome)]


def cut(at_ns: int = 101 * S, **changes: Any) -> made.Event:
    return made.started("c", "build", at_ns, **made.merged({"host": BOOT}, changes))


def call_of(folder: Path, *events: made.Event) -> Record:
    (found,) = [one for one in store_of(folder, *events).records if one.invocation == "c"]
    return found


def test_it_says_what_killed_it_and_how_long_it_had_run(tmp_path: Path) -> None:
    text = table_of(tmp_path, *whole(), cut())
    line = row(text, "build")
    assert "killed by run's time limit" in line
    assert "≥2.00 s" in line
    assert "vanished" not in text
    assert "incomplete" not in text
    assert "its meter were killed together" in text
    assert "lower bound" not in row(text, "whole")


def test_its_wall_is_a_bound_and_no_value_to_compare(tmp_path: Path) -> None:
    record = call_of(tmp_path, *whole(), cut())
    shown = figures.wall(record).shown
    assert shown is not None
    assert (shown.value, shown.status, record.state) == (2 * S, "lower_bound", "incomplete")
    assert record.outcome is None, "what was recorded stays as it is"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([*whole(made.finished()["outcome"]), cut()], id="the judge ended by itself"),
        pytest.param([*whole(timeout_ns=None), cut()], id="there was no limit"),
        pytest.param([*whole(), cut(host={"boot_id": "another"})], id="another boot's clock"),
        pytest.param([*whole(), cut(103 * S + 1)], id="it started after the limit"),
        pytest.param(
            [*whole(), cut(), made.settled("c", clocks=made.clocks(102 * S))], id="nothing of it was left before it"
        ),
        pytest.param(
            [*whole(), cut(), made.started("d", "build", 102 * S, host=BOOT), made.finished("d", 102 * S + 5)],
            id="a later call came to its end, so it may have been killed before",
        ),
    ],
)
def test_what_may_have_ended_otherwise_is_incomplete_as_ever(tmp_path: Path, events: list[made.Event]) -> None:
    record = call_of(tmp_path, *events)
    assert record.cut_off_ns is None
    assert outcome_text(record).startswith("incomplete")


def test_what_is_settled_after_the_limit_lived_until_then(tmp_path: Path) -> None:
    later = [made.started("d", "build", 102 * S, host=BOOT), made.finished("d", 102 * S + 5)]
    settled = made.settled("c", clocks=made.clocks(104 * S))
    assert call_of(tmp_path, *whole(), cut(), settled, *later).cut_off_ns == 2 * S
