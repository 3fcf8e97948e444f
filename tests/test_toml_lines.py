"""Every key of a TOML file is found in the line that it stands in, however the file is written."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness.toml_lines import Path, lines_of


def test_the_lines_of_an_ordinary_suite() -> None:
    text = """# a comment with a = 1
seed = 1
[limits]   # [not.a.table]
wall = "15m"

[[kernel]]
name = "a # b = c"
config.nat_extension = true
builds = [
  "x",  # "y",
  'z',
]
[[kernel]]
name = '''
three
lines'''
exit = { 0 = "accepted", 101 = "rejected" }
"""
    found = lines_of(text)
    assert found == {
        ("seed",): 2,
        ("limits",): 3,
        ("limits", "wall"): 4,
        ("kernel",): 6,
        ("kernel", 0): 6,
        ("kernel", 0, "name"): 7,
        ("kernel", 0, "config"): 8,
        ("kernel", 0, "config", "nat_extension"): 8,
        ("kernel", 0, "builds"): 9,
        ("kernel", 0, "builds", 0): 10,
        ("kernel", 0, "builds", 1): 11,
        ("kernel", 1): 13,
        ("kernel", 1, "name"): 14,
        ("kernel", 1, "exit"): 17,
        ("kernel", 1, "exit", "0"): 17,
        ("kernel", 1, "exit", "101"): 17,
    }


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('a = "\\"\n"', None, None),
        ('a = "\\"x"\nb = 1', ("b",), 2),
        ("a = 'it\\'\nb = 1", ("b",), 2),
        ('a = """\n""\\"""" # no\n"""\nb = 1', None, None),
        ('a = """x\n"" \n"""\nb = 1', ("b",), 4),
        ('a = """x""""\nb = 1', ("b",), 2),
        ("a.\"b c\".'d' = 1", ("a", "b c", "d"), 1),
        ("\n\n[x.y]\nz=1\n[x]\nw=2", ("x", "w"), 6),
        ("[[a]]\n[a.b]\nc=1\n[[a]]\n[a.b]\nc=1", ("a", 1, "b", "c"), 6),
        ("[[a]]\n[[a.b]]\n[[a.b]]\nc=1", ("a", 0, "b", 1, "c"), 4),
        ("a = [[1,\n2],\n[3]]", ("a", 1, 0), 3),
        ("a = {}\nb = []\nc = 1979-05-27T07:32:00Z\nd = 1", ("d",), 4),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
    ],
)
def test_what_is_easily_misread(text: str, path: Path | None, line: int | None) -> None:
    if path is None or line is None:
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(text)
        return
    tomllib.loads(text)
    assert lines_of(text)[path] == line


def test_nothing_is_found_in_nothing() -> None:
    assert lines_of("") == {}
    assert lines_of("# only a comment\n\n   ") == {}


KEYS = st.one_of(st.sampled_from(["a", "b-c", "1", "#", "x.y", "]", "=", '"', "'", "\\", "é"]), st.text(max_size=4))
SCALARS = st.one_of(st.integers(-9, 9), st.booleans(), st.text(max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TREES = st.dictionaries(KEYS, VALUES, max_size=4)


class Written:
    """A document as text, with the line of each path noted as it is written."""

    def __init__(self, gaps: list[int]) -> None:
        self.text = ""
        self.gaps = gaps
        self.lines: dict[Path, int] = {}

    def put(self, text: str) -> None:
        self.text += text

    def gap(self) -> None:
        """Where a line may end: sometimes it does, with a comment that looks like more."""
        self.gaps.append(self.gaps.pop(0))
        self.put(("", " ", "\n", ' # x = "[ {\n')[self.gaps[0]])

    def note(self, path: Path) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def value(self, value: Any, path: Path) -> None:
        if isinstance(value, dict):  # an inline table: a line may end only inside its values
            self.put("{")
            for at, (key, inner) in enumerate(value.items()):
                self.put(", " if at else " ")
                self.note((*path, key))
                self.put(f"{quoted(key)} = ")
                self.value(inner, (*path, key))
            self.put("}")
        elif isinstance(value, list):
            self.put("[")
            for at, inner in enumerate(value):
                self.gap()
                self.note((*path, at))
                self.value(inner, (*path, at))
                self.gap()
                self.put(",")
            self.put("]")
        else:
            self.put(quoted(value) if isinstance(value, str) else json.dumps(value))


def quoted(text: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's, but for surrogates and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@given(tree=TREES, gaps=st.lists(st.integers(0, 3), min_size=1, max_size=5), tables=st.booleans())
def test_every_key_of_any_document_is_found(tree: dict[str, Any], gaps: list[int], tables: bool) -> None:
    written = Written(list(gaps))
    later = {key: value for key, value in tree.items() if tables and isinstance(value, dict)}
    for key, value in tree.items():
        if key in later:
            continue
        written.gap()
        if not written.text.endswith("\n") and written.text:
            written.put("\n")
        written.note((key,))
        written.put(f"{quoted(key)} = ")
        written.value(value, (key,))
        written.put("\n")
    for key, table in later.items():
        written.note((key,))
        written.put(f"[{quoted(key)}]\n")
        for name, inner in table.items():
            written.note((key, name))
            written.put(f"  {quoted(name)} = ")
            written.value(inner, (key, name))
            written.put("\n")
    assert tomllib.loads(written.text) == tree
    assert lines_of(written.text) == written.lines
