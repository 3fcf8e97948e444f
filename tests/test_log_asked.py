"""`log` of some sessions: by label, kernel and end; what it shows of labels and of the judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures import made
from showing import HOSTILE, S, command, store_of

from proofcost import log
from proofcost.reports.session import judge_short

GOOD, BAD = {"kind": "exited", "code": 0}, {"kind": "exited", "code": 1}
DEMO = ["/usr/bin/python3.11", "/opt/proofcost/bench_suites/demo_judge.py", "--hook", "/tmp/h/phase", "--n", "2000",
        "--kernel", "sokonanoda=/srv/kernels/sokonanoda"]  # fmt: skip


def session(folder: Path, name: str, at: int, **changes: object) -> None:
    """A judge's session of one call by `kernel`, from `at` s."""
    labels, ended = changes.get("labels", {}), changes.get("outcome", GOOD)
    kernel = {"name": changes.get("kernel", "nanoda"), "threads_count": 1}
    store_of(
        folder,
        made.started(f"{name}-w", "whole", at * S, session=name, labels=labels, argv={"head": ["judge", "x"]}),
        made.finished(f"{name}-w", (at + 2) * S, session=name, outcome=ended),
    )
    store_of(
        folder / "more",
        made.started(f"{name}-c", "checker", at * S + 1, session=name, kernel=kernel, target={"name": None}),
    )
    moved = folder / "more" / "sessions" / name / "0.jsonl"
    moved.rename(folder / "sessions" / name / "c.jsonl")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    session(tmp_path, "5a", 100, labels={"ticket": "42"})
    session(tmp_path, "5b", 200, labels={"ticket": "43", "who": "me"}, outcome=BAD)
    session(tmp_path, "5c", 300, kernel="other")
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], store: Path, *words: str) -> list[str]:
    assert command("log", str(store), *words) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.split()[0] for line in lines if line.startswith("5")]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["5c", "5b", "5a"]),
        (("-l", "ticket=42"), ["5a"]),
        (("--label", "ticket=43", "-l", "who=me"), ["5b"]),
        (("-l", "ticket=42", "-l", "who=me"), []),
        (("-l", "ticket=4"), []),
        (("--failed",), ["5b"]),
        (("--kernel", "other"), ["5c"]),
        (("--kernel", "nanoda", "--failed"), ["5b"]),
        (("--kernel", "nanoda", "-n", "1"), ["5b"]),
    ],
)
def test_only_what_was_asked_for(
    capsys: pytest.CaptureFixture[str], store: Path, words: tuple[str, ...], names: list[str]
) -> None:
    assert listed(capsys, store, *words) == names
    assert command("log", str(store), "--json", *words) == 0
    assert [one["session"] for one in json.loads(capsys.readouterr().out)["sessions"]] == names


def test_what_fits_nothing_is_said(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert command("log", str(store), "-l", "ticket=1") == 0
    captured = capsys.readouterr()
    assert (captured.out, "none of 3 sessions is such a one" in captured.err) == ("", True)


def test_old_sessions_are_looked_for_too(
    capsys: pytest.CaptureFixture[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LOOKED_AT_FIRST", 1)
    assert listed(capsys, store, "-l", "ticket=42", "-n", "1") == ["5a"]


@pytest.mark.parametrize("word", ["ticket", "=42"])
def test_what_is_no_label_is_one_line(capsys: pytest.CaptureFixture[str], store: Path, word: str) -> None:
    assert command("log", str(store), "-l", word) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "not of the form KEY=VALUE; write for example -l ticket=42" in captured.err


def test_one_label_cannot_have_two_values(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert command("log", str(store), "-l", "a=1", "-l", "a=2") == 2
    assert "a session has one" in capsys.readouterr().err


def test_labels_stand_in_the_table_where_there_are_any(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    command("log", str(store))
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["session", "started", "judge", "labels"]
    assert "ticket=43 who=me" in rows[1]
    command("log", str(store), "--kernel", "other")
    assert "labels" not in capsys.readouterr().out


def judge(folder: Path, words: list[str], limit: int = 40) -> str:
    records = store_of(folder, made.started("w", "whole", argv={"head": words})).records
    return judge_short(records, True, limit)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/opt/bin/judge"], "judge"),
        (["/usr/bin/lake", "env", "comparator", "config.json"], "lake env comparator config.json"),
        (DEMO, "demo_judge.py ... sokonanod...sokonanoda"),
        (["/bin/sh", "-c", "true"], "sh -c true"),
        (["/opt/judge", "/one/" + "x" * 60 + "/Main.lean"], "judge /one/xxxxxxxxxx...xxxxxx/Main.lean"),
    ],
)
def test_the_judge_is_its_programs_name_and_as_much_as_there_is_room_for(
    tmp_path: Path, words: list[str], shown: str
) -> None:
    assert judge(tmp_path, words) == shown


def test_a_hostile_judge_is_harmless(tmp_path: Path) -> None:
    found = judge(tmp_path, [HOSTILE, HOSTILE, HOSTILE])
    assert "\x1b" not in found
    assert len(found) <= 40
