"""Rows of a judge's checkers: settings without the export's path, one name for one program, what an exit code says."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from proofcost.bench_suites import kernel as kernels
from proofcost.bench_suites import registry
from proofcost.harness import kernels_known
from proofcost.harness.columns import rows
from proofcost.harness.kernels_known import meaning_of, name_of
from proofcost.harness.merged import Record
from proofcost.harness.settings import settings_sha256


def config(export: str = "/tmp/tmp1", **more: Any) -> str:
    made = {"use_stdin": False, "export_file_path": export, "permitted_axioms": ["propext"], "nat_extension": True}
    return json.dumps({**made, **more}, separators=(",", ":"))


def started(text: str | None, **more: Any) -> dict[str, Any]:
    digest = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    return {"kernel": {"name": "nanoda_bin", "config_sha256": digest, "config_text": text}, **more}


def row(code: int = 0, *, program: str = "nanoda_bin", cause: str = "completed", **more: Any) -> dict[str, Any]:
    event = {
        "phase": {"understood": "checker"},
        "target": {"name": program, "sha256": "ab" * 32},
        "sandbox": {"kind": more.pop("sandbox", "landrun")},
        **started(config()),
    }
    figure = {"value": more.pop("ran", 5), "unit": "ns", "method": "m", "status": "measured"}
    outcome = {"kind": "exited", "code": code, "cause": cause, **more.pop("outcome", {})}
    finished = {"outcome": outcome, "measurements": {"wall_program": figure}}
    made = Record("i", "s", {**event, **more.pop("event", {})}, finished, None, "p", phase="checker")
    [found] = rows([replace(made, **{"kernel": program, "kernel_known_by": "record", **more})])
    return found


def test_the_path_of_the_export_is_no_setting() -> None:
    one, two = settings_sha256(started(config("/tmp/tmp1"))), settings_sha256(started(config("/tmp/tmp2")))
    assert one == two is not None
    assert settings_sha256(started(config("/tmp/tmp1", nat_extension=False))) != one
    assert settings_sha256(started(config("/tmp/tmp1", use_stdin=True))) != one


def test_a_key_of_any_name_that_names_an_input_or_an_argument_is_none() -> None:
    def of(path: str, **more: Any) -> str | None:
        return settings_sha256(started(json.dumps({"file": path, "threads": 2}), **more))

    inputs: dict[str, Any] = {"inputs": [{"path": "/tmp/a"}]}
    assert of("/tmp/a", **inputs) == of("/tmp/b", argv={"head": ["k", "/tmp/b"]})
    assert of("/tmp/b", **inputs) != of("/tmp/a", **inputs)
    assert of("fast", argv={"head": ["k", "fast"]}) != of("slow", argv={"head": ["k", "slow"]})


@pytest.mark.parametrize("text", ["not JSON", "[1]", '{"a":1,"a":2}', '{"a":' * 5000, '{"a":' + "9" * 5000 + "}"])
def test_what_is_no_object_has_the_digest_of_its_file(text: str) -> None:
    assert settings_sha256(started(text)) == hashlib.sha256(text.encode()).hexdigest()


def test_a_configuration_that_was_not_kept_has_none() -> None:
    assert settings_sha256(started(None)) is None
    assert settings_sha256({}) is None


def test_settings_of_a_judge_and_of_bench_are_one_digest() -> None:
    known = registry.load()
    kernel = kernels.of_convention("nanoda", known["nanoda"], "its name", [["nanoda_bin"]])
    text = json.dumps(kernel.configuration("/tmp/export", 1))
    assert settings_sha256(started(text)) == kernel.settings_sha256(1)


def test_a_program_that_is_known_has_one_name() -> None:
    assert row()["kernel"] == "nanoda"
    assert row(program="their_kernel")["kernel"] == "their_kernel"
    assert row(kernel_known_by="config")["kernel"] == "nanoda_bin"  # the judge calls it so
    assert row(event={"bench": {"version": "1"}})["kernel"] == "nanoda_bin"  # somebody's name in a suite


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("nanoda_bin", 0, "accepted"),
        ("nanoda_bin", 1, "error"),
        ("nanoda_bin", 101, "rejected"),
        ("nanoda_bin", 7, None),
        ("sokonanoda", 1, "rejected"),
        ("sokonanoda", 101, None),
        ("vow-lean-kernel", 1, None),  # out of memory, or a rejection
        ("their_kernel", 0, None),
        ("parse_only.py", 0, None),
    ],
)
def test_exit_codes_of_known_kernels_have_a_meaning(program: str, code: int, said: str | None) -> None:
    assert row(code, program=program).get("verdict") == said


@pytest.mark.parametrize("cause", ["memory_limit", "killed_cause_unknown", "time_limit", "sandbox_setup_failed"])
def test_what_did_not_end_by_itself_says_nothing(cause: str) -> None:
    assert "verdict" not in row(0, cause=cause)
    assert "verdict" not in row(101, cause=cause)


def test_a_killed_one_says_nothing() -> None:
    assert "verdict" not in row(outcome={"kind": "signaled", "code": None, "signal": 9})


@pytest.mark.parametrize("code", [0, 1])
def test_a_sandbox_whose_program_was_not_seen_says_nothing(code: int) -> None:
    assert "verdict" not in row(code, ran=None)
    assert "verdict" in row(code, ran=None, sandbox="none")
    assert row(101, ran=None)["verdict"] == "rejected"  # no sandbox leaves with that


def test_a_code_that_tried_versions_use_differently_has_no_meaning() -> None:
    tried = [{"exit": {"0": "accepted", "1": "error"}}, {"exit": {"0": "accepted", "1": "rejected", "2": "declined"}}]
    entry = {"exit": {"3": "error"}, "tried": tried}
    assert kernels_known._meanings(entry) == {0: "accepted", 2: "declined"}
    assert kernels_known._meanings({"exit": {"3": "error"}}) == {3: "error"}


def test_every_entry_with_a_program_is_known_by_it() -> None:
    for name, entry in registry.load().items():
        for program in entry.programs:
            assert name_of(program) == name
            for tried in entry.tried:
                for code, meaning in tried.exit_codes.items():
                    assert meaning_of(program, code) in (meaning, None)
