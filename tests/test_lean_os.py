"""harness/lean_os.py does what `os` does: side by side, on whatever paths."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import lean_os

HARNESS = Path(lean_os.__file__).parent
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
PIECES = st.lists(
    st.one_of(st.sampled_from(["/", "//", "///", ".", "..", "a", "ab.c", " ", "\udcff"]), TEXT), max_size=8
)
PATHS = PIECES.map("".join)


@given(PATHS)
def test_the_parts_of_a_path(name: str) -> None:
    for function in ("basename", "dirname", "split", "normpath", "abspath", "splitext"):
        assert getattr(lean_os.path, function)(name) == getattr(os.path, function)(name), function


def test_an_absolute_path_where_the_working_directory_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posix.getcwd", lambda: pytest.fail("not needed"))
    assert lean_os.path.abspath("/a/../b") == "/b"


@given(PATHS, st.lists(PATHS, max_size=3))
def test_joining(first: str, others: list[str]) -> None:
    assert lean_os.path.join(first, *others) == os.path.join(first, *others)


@given(st.binary(max_size=20))
def test_bytes_and_text(raw: bytes) -> None:
    assert lean_os.fsdecode(raw) == os.fsdecode(raw)
    assert lean_os.fsencode(os.fsdecode(raw)) == raw


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """One path of each kind."""
    top = tmp_path_factory.mktemp("places")
    (top / "folder" / "deep").mkdir(parents=True)
    (top / "file").write_text("x")
    (top / "to-file").symlink_to("file")
    (top / "to-folder").symlink_to(top / "folder")
    (top / "dangling").symlink_to("nowhere")
    (top / "loop").symlink_to("loop")
    (top / "gone (deleted)").write_text("x")
    os.mkfifo(top / "pipe")
    names = ["", "folder", "folder/", "file", "file/", "to-file", "to-folder", "to-folder/deep/../deep", "dangling",
             "dangling/below", "loop", "loop/below", "pipe", "absent/below", "gone (deleted)", "x" * 300]  # fmt: skip
    before = os.getcwd()
    os.chdir(top)
    yield [*names, *(f"{top}/{name}" for name in names), "/", "//", "/dev/null", "/proc/self", "nul\0"]
    os.chdir(before)


@pytest.mark.parametrize("function", ["exists", "lexists", "isdir", "isfile", "islink", "realpath"])
def test_what_stands_at_a_path(places: list[str], function: str) -> None:
    for name in places:
        if function == "realpath" and "\0" in name:
            continue
        assert getattr(lean_os.path, function)(name) == getattr(os.path, function)(name), name


def test_a_real_path_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    def refuse(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr("posix.readlink", refuse)
    assert lean_os.path.realpath(f"{tmp_path}/link") == str(tmp_path)


def test_a_real_path_that_goes_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What Linux says of a folder removed between the two calls is no path."""
    monkeypatch.setattr("posix.readlink", lambda path: f"{tmp_path} (deleted)")
    assert lean_os.path.realpath(str(tmp_path)) == str(tmp_path)


def test_the_rest_is_the_real_os() -> None:
    assert lean_os.makedirs is os.makedirs
    assert getattr(lean_os, "environ") is os.environ  # noqa: B009  # not posix's, whose names are bytes
    with pytest.raises(AttributeError, match="no_such_thing"):
        getattr(lean_os, "no_such_thing")  # noqa: B009


def test_what_modules_take_from_os_path_is_there() -> None:
    """`lean_os.path` has no way back to the real one, so a name that is missing would be a fault of the meter."""
    missing = set()
    for file in [*HARNESS.glob("*.py"), *(HARNESS.parent / "adapters").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os.path":
                missing |= {node.attr} - set(vars(lean_os.path))
    assert not missing
