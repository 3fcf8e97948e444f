"""The small JSON reader agrees with Python's own on all that it takes, and takes no more."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import parse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19), 10**19) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=25,
)


def depth(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(depth, value.values()), default=0)
        case list():
            return 1 + max(map(depth, value), default=0)
        case _:
            return 0


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_python_writes_is_read_as_it_was(value: Any, ascii_only: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if depth(value) > parse.DEPTH_MAX:
        with pytest.raises(ValueError, match="nested deeper"):
            parse.loads(text.encode())
    else:
        assert parse.loads(text.encode()) == value


@given(st.text(alphabet=' \n{}[]:,"\\u019-.eE+truefalsn', max_size=30) | st.text(max_size=20))
def test_whatever_is_taken_is_what_python_reads(text: str) -> None:
    try:
        value = parse.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no JSON value at character 1"),
        (b'{"a":1,"a":1}', "a key twice ('a') at character 8"),
        (b"1.0", "a number that is no integer at character 1"),
        (b"1e3", "a number that is no integer at character 1"),
        (b"NaN", "no JSON value at character 1"),
        (b"01", "no integer that we take at character 1"),
        (b"1" * 21, "no integer that we take at character 1"),
        (b'"\\ud800"', "half a character at character 1"),
        (b'"\xff"', "not UTF-8"),
        (b'"a\nb"', "a string without end at character 1"),
        (b"[1,]", "no JSON value at character 4"),
        (b"[1 2]", "neither a comma nor ] at character 4"),
        (b"{1:2}", "no key at character 2"),
        (b"1 2", "more than one value at character 3"),
        (b"[" * 5000, "nested deeper than 16 at character 17"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        parse.loads(text)
