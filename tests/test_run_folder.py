"""The folder of a run's launchers: gone with its run, or with the next one; never another's, and never for long."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wrapped import PROOFCOST

from proofcost.harness import run_folder, store


def dead() -> int:
    """A process number that nobody has."""
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    return process.pid


def of(parent: Path, pid: int, judge: int | None = None) -> Path:
    """A folder as the run of this pid would have left it."""
    at = Path(run_folder.make(str(parent)))
    (at / "meter").mkdir()
    (at / "meter" / "x.py").touch()
    if judge is not None:
        run_folder.note_judge(str(at), judge)
    renamed = at.with_name(at.name.replace(f"-{os.getpid()}-", f"-{pid}-"))
    return at.rename(renamed)


def test_what_a_dead_run_left_goes_and_a_living_ones_stays(tmp_path: Path) -> None:
    gone, also = of(tmp_path, dead()), of(tmp_path, dead(), judge=dead())
    mine, lives, judges = of(tmp_path, os.getpid()), of(tmp_path, os.getppid()), of(tmp_path, dead(), judge=os.getpid())
    elsewhere = tmp_path / gone.name.replace("proofcost-run-", "proofcost-run-0")
    namespace = tmp_path / gone.name.replace(gone.name.split("-")[3], "1")
    odd = [gone.with_name(gone.name.replace(gone.name.split("-")[4], word)) for word in ("x", "-1", "0", "9" * 12)]
    for other in (elsewhere, namespace, *odd):
        other.mkdir()
    (tmp_path / "proofcost-run-").touch()
    run_folder.sweep(str(tmp_path), 10**10)
    left = {path.name for path in tmp_path.iterdir()}
    assert gone.name not in left
    assert also.name not in left
    kept = {path.name for path in (mine, lives, judges, elsewhere, namespace, *odd)}
    assert left == {*kept, "proofcost-run-"}


def test_a_process_that_nobody_waited_for_is_gone_all_the_same(tmp_path: Path) -> None:
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    at = of(tmp_path, process.pid)
    run_folder.sweep(str(tmp_path), 10**10)
    process.wait()
    assert not at.exists()


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    at = of(tmp_path, dead())
    away = at.rename(tmp_path / "away")
    at.symlink_to(away)
    run_folder.sweep(str(tmp_path), 10**10)
    assert (away / "meter" / "x.py").exists()
    assert run_folder.remove(str(at)) is False or (away / "meter" / "x.py").exists()


@pytest.mark.parametrize("user", [0, 65534])
def test_another_users_is_left_alone(tmp_path: Path, user: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root")
    tmp_path.chmod(0o777)
    at = of(tmp_path, dead())
    os.chown(at, user, user)
    run_folder.sweep(str(tmp_path), 10**10)
    assert at.exists() is (user != 0)


def test_however_deep_it_is_nested_it_is_removed_without_recursion(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.getcwd()
    try:
        os.chdir(top)
        for _ in range(3000):
            os.mkdir("d")
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY))
            os.symlink("/etc", "l")
            os.chdir("d")
            os.chmod(".", 0o000) if os.geteuid() else None
    finally:
        os.chdir(here)
    assert run_folder.remove(str(top), 60 * 10**9)
    assert not top.exists()
    assert Path("/etc/passwd").exists()


def test_a_folder_that_its_owner_closed_is_removed(tmp_path: Path) -> None:
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "top" / "a" / "b" / "f").touch()
    for closed in ("top/a/b", "top/a", "top"):
        (tmp_path / closed).chmod(0)
    assert run_folder.remove(str(tmp_path / "top"), 10**10)


def test_removing_ends_when_its_time_is_over_and_is_gone_on_with(tmp_path: Path) -> None:
    at = of(tmp_path, dead())
    for number in range(20_000):
        os.close(os.open(at / str(number), os.O_CREAT | os.O_WRONLY))
    began = time.monotonic()
    assert run_folder.remove(str(at), 1_000_000) is False
    assert time.monotonic() - began < 5
    assert at.exists()
    until = time.monotonic() + 60
    while at.exists():
        assert time.monotonic() < until
        run_folder.sweep(str(tmp_path))


def test_a_run_that_is_killed_leaves_nothing_for_long(tmp_path: Path) -> None:
    """A plain one, as anybody."""
    sandbox = tmp_path / "sandbox"
    sandbox.write_text("#!/bin/sh\n")
    sandbox.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    known = {**os.environ, "TMPDIR": str(place), "COMPARATOR_LANDRUN": str(sandbox)}
    known.pop("XDG_RUNTIME_DIR", None)
    argv = [PROOFCOST, "run", "--store", str(tmp_path / "store"), "--", "/bin/sh", "-c"]
    process = subprocess.Popen([*argv, "touch $0; sleep 60", str(tmp_path / "ready")], env=known)
    until = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    [left] = place.iterdir()
    assert os.readlink(left / "judge").isdigit()
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert left.exists()
    judge = int(os.readlink(left / "judge"))
    while run_folder._is_there(judge):
        assert time.monotonic() < until, "it dies with its run"
        time.sleep(0.01)
    listing = subprocess.run(
        [*argv, "ls $TMPDIR"], env=known, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(listing) == 1
    assert listing != [left.name]
    assert list(place.iterdir()) == []


# Small files of the store, which a writer that is killed must not leave half.


def test_a_small_file_has_no_other_name_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = os.fdatasync

    def look(fd: int) -> None:
        seen.append(os.listdir(tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", look)
    assert store.write_new(str(tmp_path / "a.json"), {"a": 1}) is True
    assert store.write_new(str(tmp_path / "a.json"), {"a": 2}) is False
    assert (tmp_path / "a.json").read_text() == '{"a":1}\n'
    assert os.stat(tmp_path / "a.json").st_mode & 0o777 == 0o600
    assert seen == [[], ["a.json"]]


def test_where_no_file_can_be_without_a_name_the_next_writer_takes_the_left_one_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)
    at, left = tmp_path / "a.settled.jsonl", tmp_path / "a.settled.jsonl.tmp"
    left.write_text("hal")
    assert store.write_new(str(at), {"a": 1}) is False, "somebody is at it"
    os.utime(left, (1, 1))
    assert store.write_new(str(at), {"a": 1}) is True
    assert os.listdir(tmp_path) == [at.name]
    assert store.write_new(str(at), {"a": 2}) is False
    assert os.listdir(tmp_path) == [at.name]


def test_what_a_killed_writer_left_is_no_warning(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "0123456789abcdef"
    folder.mkdir(parents=True)
    for name in ("1-2-3.settled.jsonl.77.tmp", "session.json.tmp", "what.tmp"):
        (folder / name).write_text("hal")
    argv = [sys.executable, "-m", "proofcost", "log", "--store", str(tmp_path)]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
    assert "what.tmp: not a file of a session" in said
    assert "settled" not in said
    assert "session.json.tmp" not in said
