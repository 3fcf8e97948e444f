"""Files that people asked for: whole or not there, and whatever stood there keeps what it was."""

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest
from small_files import room_for

from proofcost.harness.whole_file import whole_file


def put(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "real").write_text("old")
    (tmp_path / "link").symlink_to("there/real")
    put(tmp_path / "link", b"new")
    assert (tmp_path / "link").readlink() == Path("there/real")
    assert (tmp_path / "there" / "real").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["link", "there"]


def test_a_link_to_nothing_yet_makes_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    put(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "later").read_bytes() == b"new"


def test_rights_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o640)
    put(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    put(tmp_path / "pipe", b"new")
    reader.join(60)
    assert heard == [b"new"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_no_room_leaves_the_old_file_alone_and_names_the_new_one_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with room_for(10), pytest.raises(OSError, match="File too large") as caught:
        put(path, b"x" * 11)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_is_not_there_is_said_of_the_name_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        put(path, b"")
    assert caught.value.filename == str(path)


def test_another_file_s_fault_stays_that_file_s(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, whole_file(tmp_path / "out"):
        (tmp_path / "source").read_bytes()
    assert caught.value.filename == str(tmp_path / "source")
    assert os.listdir(tmp_path) == []


def test_what_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with contextlib.suppress(ZeroDivisionError), whole_file(tmp_path / "out") as file:
        file.write(b"half")
        file.write(bytes(1 // 0))
    assert os.listdir(tmp_path) == []
