"""Digests of programs: right, cached only when it is safe, and never an exception into the meter."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import digest

BIG = b"\x7fELF" + bytes(range(256)) * 400


def at_rest(path: Path, content: bytes = BIG) -> Path:
    """A file that was last changed long ago, as far as mtime tells (ctime cannot be set: see `rested`)."""
    path.write_bytes(content)
    os.utime(path, ns=(1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "SETTLED_NS", -(10**18))


@given(st.binary(max_size=2000))
def test_bytes_have_the_digest_that_hashlib_gives(data: bytes) -> None:
    assert digest.sha256_hex(data) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1, digest.BLOCK_BYTES - 1, digest.BLOCK_BYTES, 3 * digest.BLOCK_BYTES + 7])
@pytest.mark.parametrize("cached", [False, True])
def test_a_file_has_the_digest_of_its_content(tmp_path: Path, size: int, cached: bool) -> None:
    path = at_rest(tmp_path / "program", os.urandom(size))
    cache = str(tmp_path / "cache") if cached else None
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest.of_file(str(path), cache) == (right, None)
    assert digest.of_file(str(path), cache) == (right, None)


def test_a_second_call_reads_the_cache_and_not_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at_rest(tmp_path / "program")
    first = digest.of_file(str(path), str(tmp_path / "cache"))
    monkeypatch.setattr(digest, "_read_through", lambda fd: pytest.fail("read again"))
    assert digest.of_file(str(path), str(tmp_path / "cache")) == first


def test_the_cache_is_private_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    digest.of_file(str(at_rest(tmp_path / "program")), str(cache))
    (entry,) = cache.iterdir()
    assert (cache.stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("change", ["content", "mtime", "replaced"])
def test_a_changed_program_is_read_again(tmp_path: Path, change: str) -> None:
    path = at_rest(tmp_path / "program")
    cache = str(tmp_path / "cache")
    digest.of_file(str(path), cache)
    if change == "content":
        with path.open("r+b") as file:  # same size, and the old mtime put back: ctime still tells
            file.write(b"\x7fBAD")
        os.utime(path, ns=(1_000_000_000, 1_000_000_000))
    elif change == "mtime":
        os.utime(path, ns=(5, 5))
    else:
        at_rest(tmp_path / "new", BIG[::-1]).rename(path)
    assert digest.of_file(str(path), cache) == (hashlib.sha256(path.read_bytes()).hexdigest(), None)


def every_spoiled(line: bytes) -> list[bytes]:
    flipped = [line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :] for at in range(len(line))]
    return [b"", b"\n", b"\xff" * 40, line[:-1], line[: len(line) // 2], line + line, b"\0" * 4096, *flipped]


def test_a_spoiled_cache_entry_is_ignored_and_written_anew(tmp_path: Path) -> None:
    path = at_rest(tmp_path / "program")
    cache = tmp_path / "cache"
    right = digest.of_file(str(path), str(cache))
    (entry,) = cache.iterdir()
    good = entry.read_bytes()
    for spoiled in every_spoiled(good):
        entry.write_bytes(spoiled)
        assert digest.of_file(str(path), str(cache)) == right, spoiled
        assert entry.read_bytes() == good, spoiled


@pytest.mark.parametrize("obstacle", ["file", "dangling", "entry is a directory", "entry is a pipe", "no parent"])
def test_a_cache_that_cannot_be_used_only_costs_time(tmp_path: Path, obstacle: str) -> None:
    path = at_rest(tmp_path / "program")
    cache = tmp_path / "cache"
    stat = path.stat()
    entry = cache / f"{stat.st_dev:x}-{stat.st_ino:x}"
    if obstacle == "file":
        cache.write_bytes(b"")
    elif obstacle == "dangling":
        cache.symlink_to(tmp_path / "nowhere")
    elif obstacle == "entry is a directory":
        entry.mkdir(parents=True)
    elif obstacle == "entry is a pipe":
        cache.mkdir()
        os.mkfifo(entry)
    else:
        cache = tmp_path / "a" / "b" / "cache"
    assert digest.of_file(str(path), str(cache)) == (hashlib.sha256(BIG).hexdigest(), None)
    if cache.is_dir():
        assert not [left for left in cache.iterdir() if "." in left.name], "a temporary file was left"


def test_a_file_changed_a_moment_ago_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change again within the clock tick of its time stamps, and the cache would not know."""
    monkeypatch.setattr(digest, "SETTLED_NS", 2_000_000_000)
    path = tmp_path / "program"
    path.write_bytes(BIG)
    assert digest.of_file(str(path), str(tmp_path / "cache")) == (hashlib.sha256(BIG).hexdigest(), None)
    assert not (tmp_path / "cache").exists()


def test_a_small_file_is_not_cached(tmp_path: Path) -> None:
    assert digest.of_file(str(at_rest(tmp_path / "script", b"#!/bin/sh\n")), str(tmp_path / "cache"))[0]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
def test_a_file_that_changes_while_it_is_read_has_no_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = at_rest(tmp_path / "program")
    read = digest._read_through

    def read_while_changing(fd: int) -> str:
        result = read(fd)
        if how == "written":
            path.write_bytes(b"x")
        elif how == "replaced":
            at_rest(tmp_path / "new").rename(path)
        else:
            path.unlink()
        return result

    monkeypatch.setattr(digest, "_read_through", read_while_changing)
    assert digest.of_file(str(path), str(tmp_path / "cache")) == (None, "changed while read")
    assert not (tmp_path / "cache").exists()


def test_what_is_no_regular_file_is_named_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        assert digest.of_file(str(path), None) == (None, "not a regular file")
    assert digest.of_file(str(tmp_path / "missing"), None) == (None, "No such file or directory")
    assert digest.of_file("a\0b", None) == (None, "Invalid argument")
    assert digest.of_file(str(tmp_path / "loop"), None)[0] is None


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(digest.LIMIT_BYTES + 1)
    began = time.monotonic()
    found, reason = digest.of_file(str(path), None)
    assert found is None
    assert reason == f"larger than {1 << 30} bytes: {(1 << 30) + 1}"
    assert time.monotonic() - began < 3  # reading it would take five


def test_an_execute_only_program_has_a_reason(tmp_path: Path) -> None:
    path = at_rest(tmp_path / "program")
    path.chmod(0o111)
    os.chmod(tmp_path, 0o755)
    code = (
        "import os\n"
        "from proofcost.harness import digest\n"
        "if os.geteuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
        "print(digest.of_file('program', None))"
    )
    # The program is named relative to the directory: pytest keeps the ones above it closed to others.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "(None, 'Permission denied')\n", done.stderr


def test_many_meters_at_once_agree_and_leave_one_entry(tmp_path: Path) -> None:
    path = at_rest(tmp_path / "program", os.urandom(1 << 20))
    cache = tmp_path / "cache"
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    children = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            good = all(digest.of_file(str(path), str(cache)) == (right, None) for _ in range(20))
            os._exit(0 if good else 1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 8
    assert len(list(cache.iterdir())) == 1


def make_tree(root: Path) -> None:
    (root / "sub" / "__pycache__").mkdir(parents=True)
    (root / "a.py").write_text("a = 1\n")
    (root / "a.py.bak").write_text("no")
    (root / "sub" / "schema.json").write_text("{}\n")
    (root / "sub" / "b.py").write_text("")
    (root / "sub-a.py").write_text("sorted before sub/b.py: '-' < '/'\n")
    (root / "sub" / "__pycache__" / "b.py").write_text("ignored")


def test_a_tree_has_the_digest_that_coreutils_give(tmp_path: Path) -> None:
    make_tree(tmp_path)
    script = (
        "find -L . -name __pycache__ -prune -o -type f \\( -name '*.py' -o -name '*.json' \\) -printf '%P\\n' |"
        " LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum"
    )
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert digest.of_tree(str(tmp_path)) == done.stdout.split()[0]


def test_a_tree_digest_sees_content_and_names_and_nothing_else(tmp_path: Path) -> None:
    make_tree(tmp_path)
    first = digest.of_tree(str(tmp_path))
    (tmp_path / "a.py").chmod(0o600)
    (tmp_path / "notes.txt").write_text("x")
    assert digest.of_tree(str(tmp_path)) == first
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    second = digest.of_tree(str(tmp_path))
    (tmp_path / "c.py").write_text("a = 2\n")
    assert len({first, second, digest.of_tree(str(tmp_path))}) == 3


def test_a_linked_room_and_its_copy_have_one_digest(tmp_path: Path) -> None:
    for name in ("copied", "linked"):
        (tmp_path / name).mkdir()
    make_tree(tmp_path / "room")
    (tmp_path / "linked" / "room").symlink_to("../room")
    make_tree(tmp_path / "copied" / "room")
    assert digest.of_tree(str(tmp_path / "linked")) == digest.of_tree(str(tmp_path / "copied"))


def test_a_tree_that_links_into_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(".")
    with pytest.raises(OSError, match="Too many levels"):
        digest.of_tree(str(tmp_path))


def test_our_own_tree_has_a_digest() -> None:
    assert len(digest.of_tree(str(Path(digest.__file__).parent))) == 64
