"""Fixtures by the version of the upstream contract that they are of: every one is listed, and still understood."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from proofcost import importing
from proofcost.adapters import bwrap, entrance, formats, landrun, phase
from proofcost.harness.plan import Plan

FIXTURES = Path(__file__).parent / "fixtures"
LISTED = tomllib.loads((FIXTURES / "upstream.toml").read_text("utf-8"))


def test_every_file_of_another_s_format_is_listed_with_its_version() -> None:
    assert {path.name for path in (FIXTURES / "foreign").iterdir()} == LISTED["file"].keys()
    assert {one["format"] for one in LISTED["file"].values()} == set(formats.names())


@pytest.mark.parametrize("name", LISTED["file"])
def test_every_version_of_a_file_is_still_taken(name: str, tmp_path: Path) -> None:
    taken = importing.take(FIXTURES / "foreign" / name, tmp_path, None)
    assert taken is not None
    assert (taken.format, taken.rows) == (LISTED["file"][name]["format"], LISTED["file"][name]["records"])


def understood(call: dict[str, Any], folder: Path) -> Plan:
    (folder / "solution.ndjson").write_text('{"meta":{}}\n')
    (folder / "config.json").write_text('{"use_stdin":false,"export_file_path":"/x"}')
    files = {"@export": str(folder / "solution.ndjson"), "@config": str(folder / "config.json")}
    words = [files.get(word, word) for word in call["argv"]]
    if call["entrance"] == "phase":
        given, command, wrong = phase.split(words)
        assert wrong is None
        plan = Plan(command, "phase")
        plan.phase_given = given
        entrance.try_to(plan, phase.understand)
        return plan
    plan = Plan([call["entrance"], *words], call["entrance"])
    entrance.try_to(plan, {"landrun": landrun, "bwrap": bwrap}[call["entrance"]].understand)
    return plan


@pytest.mark.parametrize("call", LISTED["call"], ids=lambda call: f"{call['of'].split(':')[0]} {call['phase']}")
def test_every_version_of_a_call_is_still_understood(call: dict[str, Any], tmp_path: Path) -> None:
    plan = understood(call, tmp_path)
    assert plan.notes == []
    assert (plan.phase_understood, plan.subject_module, plan.kernel_name) == (
        call["phase"],
        call.get("module"),
        call.get("kernel"),
    )
