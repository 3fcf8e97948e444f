"""The store: safe places, modes put right, one file per invocation, nothing lost and nothing torn."""

import concurrent.futures
import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import BARE, PHASE, RUN, Wrap, call, running, shared_tree, wait_for
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import settle, store


@pytest.fixture(scope="module")
def tree() -> Path:
    return shared_tree()


@pytest.fixture
def wrap(tmp_path: Path, tree: Path) -> Wrap:
    return Wrap(tmp_path / "w", tree)


NOBODY = 54321


@pytest.fixture
def of_nobody(as_root: None, tree: Path) -> Iterator[Wrap]:
    """All of it belongs to an ordinary user; call with `as_nobody`."""
    wrap = Wrap(Path(tempfile.mkdtemp(prefix="proofcost-store-")), tree)
    os.chown(wrap.folder, NOBODY, NOBODY)
    yield wrap
    shutil.rmtree(wrap.folder)


def as_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def faults(one: dict[str, dict[str, object]]) -> str:
    return json.dumps(one["finished"]["faults"])


# Places.


def refused(place: Path | str, writable: list[str] | None = None, unrestricted: bool = False) -> str:
    with pytest.raises(store.StoreError) as caught:
        store.check_place(str(place), writable or [], unrestricted)
    message = str(caught.value)
    assert "\n" not in message
    assert str(place) in message
    return message


def test_a_place_that_does_not_exist_yet_is_fine(tmp_path: Path) -> None:
    assert store.check_place(str(tmp_path / "a/b/c"), []) == []
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"


@pytest.mark.parametrize("place", ["/dev/shm/x", "/dev/x", "/dev"])
def test_below_dev_is_refused(place: str) -> None:
    assert "/dev" in refused(place)


def test_a_neighbour_with_a_longer_name_is_not_inside(tmp_path: Path) -> None:
    place = tmp_path / "store"
    assert (
        store.check_place(str(place), [str(tmp_path / "sto"), str(tmp_path / "store2"), str(tmp_path / "stor")]) == []
    )


@given(
    st.lists(st.sampled_from(["a", "b", "ab", ".", ".."]), max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), max_size=4),
)
def test_inside_means_the_same_folder_or_one_below(one: list[str], other: list[str]) -> None:
    path, directory = os.path.normpath("/" + "/".join(one)), "/" + "/".join(other)
    assert store.is_inside(path, directory) == (Path(directory) in (Path(path), *Path(path).parents))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o775])
def test_an_ancestor_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    refused(tmp_path / "open/store")
    refused(tmp_path / "open/deep/er/store")
    (tmp_path / "open").chmod(mode | stat.S_ISVTX)
    assert store.check_place(str(tmp_path / "open/store"), []) == [], "the sticky bit keeps others from replacing it"


def test_an_ancestor_of_somebody_else_is_refused(as_root: None, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    refused(tmp_path / "theirs/store")


@pytest.mark.parametrize("name", sorted(store.NAMES))
def test_what_stands_in_a_store_must_be_a_folder_of_ours(tmp_path: Path, name: str) -> None:
    place = tmp_path / "store"
    (place / name).mkdir(parents=True)
    place.chmod(0o700)
    (place / name).chmod(0o777)
    [said] = store.check_place(str(place), [])
    assert name in said
    assert (place / name).stat().st_mode & 0o777 == 0o700
    assert store.check_place(str(place), []) == [], "once"
    (place / name).rmdir()
    (place / name).symlink_to(tmp_path)
    refused(place)


# Modes.


@pytest.mark.parametrize("where", ["", "sessions", "hosts", "marks", "digests"])
@pytest.mark.parametrize("mode", [0o000, 0o777, 0o500])
def test_modes_that_drifted_are_put_right_and_noted(of_nobody: Wrap, tmp_path: Path, where: str, mode: int) -> None:
    """A confined process of the same user may chmod (Landlock does not forbid it); that must cost no record."""
    argv = of_nobody.argv(PHASE, ["/bin/sh", "-c", "exit 3"])
    of_nobody.folder.chmod(0o755)
    assert call(argv, tmp_path / "s", as_child=as_nobody).code == 3
    (of_nobody.store / "marks").mkdir(exist_ok=True)
    os.chown(of_nobody.store / "marks", NOBODY, NOBODY)
    (of_nobody.store / "marks").chmod(0o700)
    changed = [of_nobody.store] if not where else list(of_nobody.store.glob(where))
    assert changed
    for path in changed:
        path.chmod(mode)
    ended = call(argv, tmp_path / "s", as_child=as_nobody)
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    one, other = of_nobody.records()
    assert faults(one) == "[]"
    assert f"mode was {mode:04o}, set to 0700" in faults(other)
    assert [path.stat().st_mode & 0o777 for path in changed] == [0o700] * len(changed)
    assert of_nobody.marks() == []


@pytest.mark.guest
def test_the_mode_of_its_session_is_put_right_as_well(of_nobody: Wrap, tmp_path: Path) -> None:
    of_nobody.folder.chmod(0o755)
    phase = of_nobody.launcher("phase")
    one = f"{phase} --phase build -- /bin/true"
    judge = f"{one}; chmod 000 {of_nobody.store}/sessions/*; {one}; exit $?"
    ended = call(["/bin/sh", "-c", judge], tmp_path / "s", as_child=as_nobody)
    assert (ended.code, ended.stdout, ended.stderr) == (0, b"", b"")
    first, second = of_nobody.records()
    assert first["started"]["session"] == second["started"]["session"]
    assert "mode was 0000, set to 0700" in faults(second)


@pytest.mark.guest
def test_modes_that_change_while_the_command_runs_cost_nothing(of_nobody: Wrap, tmp_path: Path) -> None:
    attack = f"find {of_nobody.store} -exec chmod 000 {{}} +; exit 3"
    argv = of_nobody.argv(PHASE, ["/bin/sh", "-c", attack])
    of_nobody.folder.chmod(0o755)
    for _ in range(3):
        ended = call(argv, tmp_path / "s", as_child=as_nobody)
        assert ended.code == 3
    for path in of_nobody.store.rglob("*"):
        path.chmod(0o700)
    assert [one["finished"]["outcome"]["code"] for one in of_nobody.records()] == [3, 3, 3]


def test_a_lock_on_everything_holds_nobody_up(wrap: Wrap, tmp_path: Path) -> None:
    """flock works through a descriptor opened for reading, which a sandbox with `--ro /` gives."""
    argv = wrap.argv(PHASE, ["/bin/sh", "-c", "exit 3"])
    assert call(argv, tmp_path / "s").code == 3
    held = [os.open(path, os.O_RDONLY) for path in (wrap.store, *wrap.store.rglob("*"))]
    for fd in held:
        fcntl.flock(fd, fcntl.LOCK_EX)
    assert call(argv, tmp_path / "s").code == 3
    for fd in held:
        os.close(fd)
    assert len(wrap.records()) == 2


@pytest.mark.parametrize("what", ["sessions", "the session", "the file", "all"])
def test_what_is_removed_while_the_command_runs(wrap: Wrap, tmp_path: Path, what: str) -> None:
    """A careless operator, or an attacker without a sandbox: the status stands."""
    remove = {"sessions": "sessions", "the session": "sessions/*", "the file": "sessions/*/*.jsonl", "all": ""}[what]
    argv = wrap.argv(PHASE, ["/bin/sh", "-c", f"rm -rf {wrap.store}/{remove}; exit 3"])
    for _ in range(2):
        ended = call(argv, tmp_path / "s")
        assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")


# Events.


def test_a_file_of_the_same_name_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text("somebody's")
    with pytest.raises(store.StoreError):
        store.OwnFile(str(path))
    path.unlink()
    path.symlink_to(tmp_path / "target")
    with pytest.raises(store.StoreError):
        store.OwnFile(str(path))
    assert not (tmp_path / "target").exists()


def test_room_is_taken_first_and_given_back_at_the_end(tmp_path: Path) -> None:
    own = store.OwnFile(str(tmp_path / "one.jsonl"))
    if not own.reserved:
        pytest.skip("no fallocate on this file system")
    info = os.stat(own.path)
    assert (info.st_size, info.st_blocks * 512 >= store.ROOM_BYTES) == (0, True)
    own.append({"event": "started"})
    own.close()
    own.close()
    info = os.stat(own.path)
    assert info.st_blocks * 512 < store.ROOM_BYTES
    assert Path(own.path).read_bytes() == b'{"event":"started"}\n'
    assert info.st_mode & 0o777 == 0o600


def test_our_descriptors_are_not_the_command_s(wrap: Wrap, tmp_path: Path) -> None:
    """An inherited one would bypass Landlock."""
    command = ["/usr/bin/find", "/proc/self/fd", "-lname", "*", "-printf", "%f %l\n"]
    seen = [call(wrap.argv(way, command), tmp_path / "s").stdout for way in (BARE, PHASE, RUN)]
    for lines in seen[1:]:
        assert [line.split()[0] for line in lines.splitlines()] == [line.split()[0] for line in seen[0].splitlines()]
        assert str(wrap.store).encode() not in lines


def test_parallel_meters_lose_and_tear_nothing(wrap: Wrap, tmp_path: Path) -> None:
    argv = wrap.argv(PHASE, ["/bin/sh", "-c", "exit 3"])
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda _: subprocess.run(argv, check=False).returncode, range(60)))
    assert codes == [3] * 60
    found = wrap.records()
    assert len(found) == 60
    assert {len(one) for one in found} == {2}
    assert len({one["started"]["host"]["instance"] for one in found}) == 1
    assert not list(wrap.store.rglob("*.tmp"))
    assert wrap.marks() == []


def test_a_meter_that_is_killed_at_any_moment_leaves_whole_lines(wrap: Wrap) -> None:
    argv = wrap.argv(PHASE, ["/bin/sleep", "0.02"])
    for delay in range(0, 60, 2):
        with running(argv) as started:
            try:
                started.wait(delay / 1000)
            except subprocess.TimeoutExpired:
                started.kill()
    assert subprocess.run(wrap.argv(PHASE, ["/bin/true"]), check=False).returncode == 0  # takes away what they left
    for path in wrap.store.glob("sessions/*/*[0-9a-f].jsonl"):
        if path.name.endswith(".settled.jsonl"):
            continue
        lines = path.read_bytes().split(b"\n")
        assert lines.pop() == b""
        assert [json.loads(line)["event"] for line in lines] in ([], ["started"], ["started", "finished"])


def test_a_small_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = str(tmp_path / "one.json")
    assert store.write_new(path, {"a": 1})
    assert not store.write_new(path, {"a": 2})
    assert json.loads(Path(path).read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.json"]


def test_a_write_that_was_short_is_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk write(2) may take a part: half a file under its final name would be a lie."""

    def short(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "planted")

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="planted"):
        store.write_new(str(tmp_path / "one.json"), {"a": 1})
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    try:
        written = store.write_new(str(tmp_path / "one.json"), {"a": 1})
    except OSError:
        written = False
    monkeypatch.undo()
    if written:
        assert json.loads((tmp_path / "one.json").read_text()) == {"a": 1}
    else:
        assert list(tmp_path.iterdir()) == []


# Marks.


def test_a_mark_says_what_failed(wrap: Wrap, tmp_path: Path) -> None:
    wrap.folder.mkdir()
    wrap.store.mkdir(mode=0o700)
    (wrap.store / "sessions").write_text("")
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", "exit 3", "secret"]), tmp_path / "s")
    assert (ended.code, ended.stderr) == (3, b"")
    [mark] = wrap.marks()
    assert "sessions" in mark["fault"]
    assert (mark["event"], mark["policy"], mark["entrance"], mark["argv_count"]) == ("mark", "run", "phase", 4)
    assert len(mark["argv_sha256"]) == 64
    assert "secret" not in json.dumps(mark), "a digest tells calls apart; a mark holds nothing else of them"


def test_run_leaves_a_mark_too(wrap: Wrap, tmp_path: Path) -> None:
    wrap.folder.mkdir()
    wrap.store.mkdir(mode=0o700)
    (wrap.store / "sessions").write_text("")
    ended = call(wrap.argv(RUN, ["/bin/sh", "-c", "exit 3"]), tmp_path / "s")
    assert (ended.code, ended.stderr) == (3, b"")
    assert wrap.marks()[0]["entrance"] == "run"


@pytest.mark.guest
def test_what_a_killed_meter_of_another_store_left_is_removed_when_it_is_old(
    wrap: Wrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store is gone, so nobody would ever settle it, and each call would look at it again."""
    with running(wrap.argv(PHASE, ["/bin/sleep", "30"])) as started:
        wait_for(wrap.records, "the start")
        started.kill()
    [one] = wrap.records()
    dirs = {kind: path for kind, path in one["started"]["cgroup"]["paths"].items() if Path(path).exists()}
    if not dirs:
        pytest.skip("no cgroup here")
    wait_for(lambda: not any(Path(path, "cgroup.procs").read_text() for path in dirs.values()), "the command's end")
    invocation = one["started"]["invocation"]
    place = str(tmp_path / "another")
    assert not settle.settle(place, "0" * 16, invocation, dict(dirs), "meter"), "young: perhaps its meter lives"
    assert all(Path(path).exists() for path in dirs.values())
    monkeypatch.setattr(settle, "ABANDONED_NS", 0)
    alive = f"{invocation.split('-')[0]}-{os.getpid()}-0"
    assert not settle.settle(place, "0" * 16, alive, dict(dirs), "meter"), "its meter lives"
    assert settle.settle(place, "0" * 16, invocation, dict(dirs), "meter")
    assert not any(Path(path).exists() for path in dirs.values())
