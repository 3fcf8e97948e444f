"""reports/fast_decode.py says of every line what harness/decode.py says."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import decode as slow
from proofcost.harness.decode import LineError
from proofcost.reports import fast_decode

FIXTURES = Path(__file__).parent / "fixtures" / "records"
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 66), 1 << 66),
    st.sampled_from([(1 << 63) - 1, 1 << 63, -(1 << 63), -(1 << 63) - 1, 9_300_000_000_000_000_000, 10**19, 10**20]),
    st.floats(),
    st.text(),
    st.sampled_from(["a.5", "1e5", "\\x00", "\0", '"', "[[[[", "9" * 20, "\ud800"]),
)
VALUES = st.recursive(
    SCALARS, lambda below: st.one_of(st.lists(below), st.dictionaries(st.text(), below)), max_leaves=8
)
HEADS = st.fixed_dictionaries(
    {
        "schema": st.sampled_from([1, 1, 1, 2, 0, True, "1"]),
        "event": st.sampled_from(["started", "finished", "settled", "mark", 5]),
        "invocation": st.sampled_from(["a-1-b", "a-1-b", "", 7]),
        "session": st.sampled_from(["s", "s", None]),
    }
)


def said_by(decode: Any, line: bytes) -> Any:
    try:
        return decode(line)
    except LineError as error:
        return (error.kind, error.what)


def alike(line: bytes) -> Any:
    fast = said_by(fast_decode.decode, line)
    assert repr(fast) == repr(said_by(slow.decode_event, line))
    return fast


@given(HEADS, st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.booleans())
def test_any_object(head: dict[str, Any], more: dict[str, Any], compact: bool) -> None:
    text = json.dumps({**head, **more}, separators=(",", ":") if compact else None)
    alike(text.encode() + b"\n")


@given(st.integers(1, 80), st.sampled_from(["[", '{"a":']))
def test_depth(depth: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    inside = opening * depth + "1" + closing * depth
    line = f'{{"schema":1,"event":"started","invocation":"a","session":"s","x":{inside}}}\n'
    assert isinstance(alike(line.encode()), dict) == (depth + 1 < slow.MAX_DEPTH)


@pytest.mark.parametrize(
    "odd",
    [
        b'"x":1,"x":2', b'"x":1.5', b'"x":1e3', b'"x":NaN', b'"x":18446744073709551615', b'"x":9223372036854775808',
        b'"x":"\\u0000"', b'"x":"\\ud800"', b'"x":"\xff"', b'"x":"9300000000000000000.5e7"',
    ],
)  # fmt: skip
def test_what_breaks_the_encoding(odd: bytes) -> None:
    alike(b'{"schema":1,"event":"started","invocation":"a","session":"s",' + odd + b"}\n")


@pytest.mark.parametrize("line", [b"", b"\n", b"{", b"[]\n", b'"x"\n', b"nul\n", b"\xff\xfe\n", b"{}\n"])
def test_what_is_no_record(line: bytes) -> None:
    alike(line)


def test_real_records_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for path in FIXTURES.rglob("*.jsonl") for line in path.read_bytes().splitlines(keepends=True)]
    expected = [slow.decode_event(line) for line in lines]
    took_the_slow_way = []

    def count(line: bytes) -> dict[str, Any]:
        took_the_slow_way.append(line)
        return slow.decode_event(line)

    monkeypatch.setattr(fast_decode, "decode_event", count)
    assert [fast_decode.decode(line) for line in lines] == expected
    assert len(lines) > 20
    measured = [
        line for path in (FIXTURES / "measured-0.1.0").rglob("*.jsonl") for line in path.read_bytes().splitlines()
    ]
    assert not [line for line in took_the_slow_way if line.rstrip() in measured], "what a meter wrote"
