"""`install --leaneval`, `--timer`: launchers that are written where they are asked for, kept, switched and removed."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from calling import PROOFCOST, call

from proofcost import doctor
from proofcost.adapters import launchers


def install(place: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    store = ["--store", str(place.parent / "store")]
    given = [*map(str, words)]
    more = [] if {"--off", "--on", "--undo"} & set(given) else store
    return subprocess.run(
        [PROOFCOST, "install", str(place), *more, *given], capture_output=True, text=True, check=False
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "bin"


@pytest.fixture
def timer(tmp_path: Path) -> Path:
    path = tmp_path / "timer-kernel"
    path.write_text('#!/bin/sh\necho "timed $*"\nexit 6\n')
    path.chmod(0o755)
    return path


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir() if path.name != "meter"}


def test_neither_is_written_unless_asked_for(place: Path) -> None:
    assert install(place).returncode == 0
    assert names(place) == {"phase", "landrun", "bwrap", "manifest.json"}


def test_leaneval_is_written_refuses_and_says_what_to_paste(place: Path, tmp_path: Path) -> None:
    done = install(place, "--leaneval")
    assert done.returncode == 0
    launcher = place / "leaneval"
    assert f"--measurement-command-json '[\"{launcher}\"]'" in done.stdout
    assert "/run/lean-eval/metrics.json" in done.stdout
    assert "copies" not in done.stdout
    ended = call([str(launcher), "--phase", "build", "--", "/bin/true"], tmp_path / "s")
    assert ended.code == 125
    assert ended.stderr == b"replay-measure: the command is '/bin/true', not /usr/local/bin/landrun\n"
    text = launcher.read_text()
    assert "'leaneval': {'capture': None, 'confined': None}" in text
    manifest = json.loads((place / "manifest.json").read_text())
    assert manifest["real"]["leaneval"] == ""
    assert "leaneval" in manifest["files"]


def test_the_capture_is_asked_for_apart(place: Path) -> None:
    done = install(place, "--leaneval", "--capture-export")
    assert "copies what a solution-export prints to /run/lean-eval/solution-export.ndjson" in done.stdout
    assert "'capture': '/run/lean-eval/solution-export.ndjson'" in (place / "leaneval").read_text()


def test_a_timer_is_wrapped_and_its_status_and_output_are_its_own(place: Path, timer: Path, tmp_path: Path) -> None:
    done = install(place, "--timer", timer)
    assert f"TIMER_BIN={place / 'timer'}" in done.stdout
    ended = call([str(place / "timer"), "a b"], tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (6, b"timed a b\n", b"")
    assert len(list((tmp_path / "store").glob("sessions/*/*.jsonl"))) == 1


def test_installing_again_keeps_what_was_asked_for_before(place: Path, timer: Path) -> None:
    install(place, "--leaneval", "--capture-export", "--timer", timer)
    before = (place / "leaneval").read_text()
    assert install(place).returncode == 0
    assert names(place) >= {"leaneval", "timer"}
    assert (place / "leaneval").read_text() == before
    assert str(timer) in (place / "timer").read_text()
    install(place, "--leaneval")
    assert "'capture': None" in (place / "leaneval").read_text()


def test_over_a_damaged_manifest_the_usual_ones_are_written(place: Path) -> None:
    install(place, "--leaneval")
    (place / "manifest.json").write_text("{")
    assert install(place).returncode == 0
    assert set(json.loads((place / "manifest.json").read_text())["real"]) == {"phase", "landrun", "bwrap"}


def test_off_on_and_undo_take_them_along(place: Path, timer: Path, tmp_path: Path) -> None:
    install(place, "--leaneval", "--timer", timer)
    install(place, "--off")
    off = call([str(place / "leaneval"), "--phase", "build", "--", "/bin/sh", "-c", "exit 3"], tmp_path / "s")
    assert off.code == 3, "a plain exec"
    assert call([str(place / "timer")], tmp_path / "s").code == 6
    install(place, "--on")
    assert launchers.is_ours(str(place / "timer"))
    assert call([str(place / "leaneval")], tmp_path / "s").code == 125
    assert install(place, "--undo").returncode == 0
    assert not place.exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--capture-export"], "--capture-export: only LeanEval's entrance captures an export; add --leaneval"),
        (["--timer", "/no/such/timer"], "--timer /no/such/timer: no such program, or not executable"),
        (["--timer", "OURS"], "is our own launcher; name the real timer with --timer"),
    ],
)
def test_what_cannot_be_is_one_line_and_2(place: Path, tmp_path: Path, words: list[str], why: str) -> None:
    install(tmp_path / "other")
    given = [str(tmp_path / "other" / "phase") if word == "OURS" else word for word in words]
    done = install(place, *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert not place.exists()


def test_doctor_starts_leaneval_too(place: Path, tmp_path: Path) -> None:
    landrun = tmp_path / "real-landrun"
    landrun.write_text("#!/bin/sh\nexit 0\n")
    landrun.chmod(0o755)
    install(place, "--leaneval", "--landrun", landrun)
    found = doctor.look_launchers(str(place))
    assert found.works, found.said
    shutil.rmtree(place / "meter" / "proofcost" / "adapters")
    install_manifest = json.loads((place / "manifest.json").read_text())
    install_manifest["files"] = {}
    (place / "manifest.json").write_text(json.dumps(install_manifest))
    found = doctor.look_launchers(str(place))
    assert not found.works
    assert "leaneval ended with 125: proofcost: " in found.said
