"""A session's seal: what it notices, what it does not claim, and that an incomplete session is called so."""

import hashlib
import hmac
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from kept import CALL, Judged
from wrapped import PROOFCOST, REPO

from proofcost.harness import seal
from proofcost.harness.record import dumps

KEY = b"an operator's key, 32 bytes long"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of two calls, one of them unfinished."""
    at = tmp_path / "sessions" / str(made.started()["session"])
    at.mkdir(parents=True)
    (at / "a.jsonl").write_text(dumps(made.started()) + "\n" + dumps(made.finished()) + "\n")
    (at / "b.jsonl").write_text(dumps(made.started()) + "\n" + dumps(made.finished()) + "\n")
    (at / "session.json").write_text("{}\n")
    return at


def sealed(folder: Path, key: bytes | None = None, why: tuple[str, ...] = ()) -> dict[str, Any]:
    assert seal.write(str(folder), folder.name, {"started_count": 2}, list(why), key)
    found: dict[str, Any] = json.loads((folder / "sealed.json").read_text("ascii"))
    return found


def problems(folder: Path, key: bytes | None = None) -> list[str]:
    checked = seal.check(str(folder), key)
    assert checked is not None
    return checked.problems


def test_a_seal_lists_every_file_and_can_be_checked_with_sha256sum(folder: Path) -> None:
    found = sealed(folder)
    assert [one["name"] for one in found["files"]] == ["a.jsonl", "b.jsonl", "session.json"]
    assert all(one["size_bytes"] == (folder / one["name"]).stat().st_size for one in found["files"])
    printed = subprocess.run(
        ["sha256sum", *(one["name"] for one in found["files"])], cwd=folder, capture_output=True, check=True
    ).stdout
    assert found["sha256"] == hashlib.sha256(printed).hexdigest()
    assert (found["complete"], found["incomplete"], found["hmac_sha256"]) == (True, [], None)
    assert problems(folder) == []


def test_a_session_is_sealed_once(folder: Path) -> None:
    sealed(folder)
    before = (folder / "sealed.json").read_bytes()
    assert seal.write(str(folder), folder.name, None, [], None) is False
    assert (folder / "sealed.json").read_bytes() == before


def test_an_incomplete_session_is_called_so(folder: Path) -> None:
    (folder / "b.jsonl").write_text(dumps(made.started()) + "\n")
    found = sealed(folder, why=("run was killed",))
    assert (found["complete"], found["incomplete"]) == (False, ["run was killed", "1 without `finished`"])
    assert problems(folder) == [], "incomplete is not broken"


def test_what_settles_later_is_said_to_be_added(folder: Path) -> None:
    sealed(folder)
    (folder / "a.settled.jsonl").write_text(dumps(made.settled()) + "\n")
    assert problems(folder) == ["a.settled.jsonl: added after the sealing"]


def one_bit(at: Path) -> None:
    raw = (at / "a.jsonl").read_bytes()
    (at / "a.jsonl").write_bytes(raw.replace(b"0", b"1", 1))


def one_line(at: Path) -> None:
    (at / "a.jsonl").write_bytes((at / "a.jsonl").read_bytes() + b"\n")


def other(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Something else where a.jsonl was."""

    def spoil(at: Path) -> None:
        (at / "a.jsonl").unlink()
        make(at / "a.jsonl")

    return spoil


def seal_of(text: str) -> Callable[[Path], object]:
    return lambda at: (at / "sealed.json").write_text(text)


GONE = "a.jsonl: missing or unreadable"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (one_bit, "a.jsonl: not what was sealed"),
        (one_line, "a.jsonl: not what was sealed"),
        (other(lambda path: None), GONE),
        (other(lambda path: path.symlink_to("b.jsonl")), GONE),
        (other(os.mkfifo), GONE),
        (other(Path.mkdir), GONE),
        (seal_of("{"), "sealed.json: not JSON"),
        (seal_of("[]"), "sealed.json: JSON, but not an object"),
        (seal_of("{}"), "its list of files does not have the digest it states"),
        (seal_of('{"files":[1.5]}'), "sealed.json: a fraction"),
        (seal_of('{"files":7,"sha256":[]}'), "its list of files does not have"),
    ],
)
def test_every_change_is_noticed(folder: Path, spoil: Callable[[Path], object], said: str) -> None:
    sealed(folder)
    spoil(folder)
    assert any(problem.startswith(said) for problem in problems(folder)), problems(folder)


def test_a_name_that_leads_out_of_the_folder_is_not_read(folder: Path) -> None:
    found = sealed(folder)
    found["files"].append({"name": "../../../etc/passwd", "size_bytes": 1, "sha256": "0" * 64})
    (folder / "sealed.json").write_text(json.dumps(found))
    assert "../../../etc/passwd: missing or unreadable" in problems(folder)


def test_without_a_key_whoever_may_write_can_seal_anew(folder: Path) -> None:
    """That is what docs/security.md says of it, and why a key exists."""
    sealed(folder)
    (folder / "a.jsonl").write_text("forged\n")
    (folder / "sealed.json").unlink()
    sealed(folder)
    assert problems(folder) == []


def test_a_signature_is_an_hmac_over_the_seals_own_encoding(folder: Path) -> None:
    found = sealed(folder, KEY)
    signature = found.pop("hmac_sha256")
    assert signature == hmac.new(KEY, json.dumps(found, separators=(",", ":")).encode(), hashlib.sha256).hexdigest()


def test_with_a_key_only_its_owner_can(folder: Path) -> None:
    found = sealed(folder, KEY)
    checked = seal.check(str(folder), KEY)
    assert checked is not None
    assert (checked.signature, checked.problems) == ("verified", [])
    unchecked = seal.check(str(folder))
    assert unchecked is not None
    assert (unchecked.signature, unchecked.problems) == ("not checked", [])
    assert problems(folder, b"another key of 32 bytes.........") == ["its signature is not of this key"]
    for change in ({"complete": False}, {"session": "x"}, {"files": found["files"][:2]}, {"new": 1}):
        (folder / "sealed.json").write_text(json.dumps({**found, **change}))
        assert "its signature is not of this key" in problems(folder, KEY), change
    for odd in (None, 5, "", "0" * 63):
        (folder / "sealed.json").write_text(json.dumps({**found, "hmac_sha256": odd}))
        assert problems(folder, KEY) != [], odd


def show(folder: Path, *options: object) -> "subprocess.CompletedProcess[str]":
    store = folder.parent.parent
    return subprocess.run(
        [PROOFCOST, "show", "last", "--store", str(store), *map(str, options)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_show_says_whether_a_session_is_as_it_was_sealed(judged: Judged) -> None:
    key = judged.folder / "key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    assert judged.shell(f"{CALL} /bin/true", "--seal-key", key).status == 0
    folder = judged.session()
    assert judged.seal()["hmac_sha256"] is not None
    plain, checked = show(folder), show(folder, "--seal-key", key)
    assert (plain.returncode, plain.stderr, checked.returncode) == (0, "", 0)
    assert "sealed: 3 files as they were then; signed, which --seal-key FILE checks" in plain.stdout
    assert "sealed: 3 files as they were then; its signature is this key's" in checked.stdout
    other = judged.folder / "other"
    other.write_bytes(b"x" * 32)
    wrong = show(folder, "--seal-key", other)
    assert wrong.returncode == 1
    assert "seal broken: its signature is not of this key" in wrong.stdout
    file = next(folder.glob("*.jsonl"))
    before = file.read_bytes()
    file.write_bytes(before + b"\n")
    broken = show(folder)
    file.write_bytes(before)
    assert broken.returncode == 1
    assert f"seal broken: {file.name}: not what was sealed" in broken.stdout


def reading(judged: Judged, *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [PROOFCOST, *words, "--store", str(judged.store)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_every_way_of_reading_says_that_a_seal_is_broken_or_gone(judged: Judged) -> None:
    assert judged.shell(f"{CALL} /bin/true").status == 0
    folder, [call] = judged.session(), judged.calls()
    invocation = str(call.started["invocation"])
    ways = (
        ("show",), ("show", "--all"), ("show", "--json"), ("show", invocation), ("show", invocation, "--json"),
        ("show", "last.1"), ("show", "-o", str(judged.folder / "x.svg")), ("log",), ("log", "--json"),
    )  # fmt: skip
    for way in ways:
        well = reading(judged, *way)
        assert (well.returncode, "seal" in well.stderr) == (0, False), way
    assert json.loads(reading(judged, "show", "--json").stdout)["seal"] == {
        "state": "as_sealed", "problems": [], "complete": True, "incomplete": [], "signature": "unsigned",
    }  # fmt: skip
    file = folder / f"{invocation}.jsonl"
    before, seal_before = file.read_bytes(), (folder / "sealed.json").read_bytes()

    def all_tell(said: str) -> None:
        for way in ways:
            told = reading(judged, *way)
            assert told.returncode == 1, way
            assert f"seal broken: {said}" in (told.stdout if way in (("show",), ("show", "--all")) else told.stderr), (
                way
            )
        seals = [
            json.loads(reading(judged, "show", invocation, "--json").stdout)["seal"],
            json.loads(reading(judged, "log", "--json").stdout)["sessions"][0]["seal"],
        ]
        assert [one["state"] for one in seals] == ["broken"] * 2
        assert all(one["problems"][0].startswith(said) for one in seals)

    file.write_bytes(before + b"\n")
    all_tell(f"{file.name}: not what was sealed")
    file.write_bytes(before)
    (folder / "sealed.json").unlink()
    all_tell("no sealed.json, and root's collector kept these records")
    (folder / "sealed.json").write_bytes(seal_before)
    assert reading(judged, "log").returncode == 0


def test_a_session_that_still_runs_needs_no_seal_yet(judged: Judged) -> None:
    script = f"{CALL} /bin/true; touch ready; while [ ! -e go ]; do sleep 0.02; done"
    with judged.started(["/bin/bash", "-c", script]) as process:
        judged.wait_for((judged.work / "ready").exists, "ready")
        for way in (("show",), ("log",), ("log", "--json")):
            told = reading(judged, *way)
            assert (told.returncode, told.stderr) == (0, ""), way
        assert json.loads(reading(judged, "show", "--json").stdout)["seal"] is None
        (judged.work / "go").touch()
        assert process.wait(60) == 0


def test_a_key_is_used_whatever_is_shown(judged: Judged) -> None:
    key, other = judged.folder / "key", judged.folder / "other"
    for path, content in ((key, KEY), (other, b"x" * 32)):
        path.write_bytes(content)
        path.chmod(0o600)
    judged.shell(f"{CALL} /bin/true", "--seal-key", key)
    good, bad = (reading(judged, "show", "--json", "--seal-key", str(path)) for path in (key, other))
    assert (good.returncode, json.loads(good.stdout)["seal"]["signature"]) == (0, "verified")
    assert (bad.returncode, json.loads(bad.stdout)["seal"]["signature"]) == (1, "wrong")
    assert "seal broken: its signature is not of this key" in bad.stderr


def test_show_says_that_no_meter_was_seen_and_what_is_incomplete(judged: Judged) -> None:
    judged.shell("true")
    assert "no meter seen: no call reached the collector" in show(judged.session()).stdout


def test_a_key_for_a_session_without_a_seal_is_a_wrong_call(folder: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY)
    for path, said in ((key, "not sealed"), (tmp_path / "nothing", "No such file")):
        ended = show(folder, "--seal-key", path)
        assert ended.returncode == 2
        assert said in ended.stderr


def test_the_document_names_what_a_seal_holds(judged: Judged) -> None:
    judged.shell(f"{CALL} /bin/true")
    found = judged.seal()
    text = (REPO / "docs" / "record.md").read_text("utf-8")
    section = text.split("\n## The seal\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z_0-9]+)`", section))
    parts = {*found, *found["collector"], *found["files"][0]} - {"schema"}
    assert parts <= named, parts - named
    assert {"event", "session", "files", "complete", "incomplete", "collector", "sha256", "hmac_sha256"} <= set(found)
