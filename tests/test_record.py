"""The encoding: any bytes go in and come out the same, one ASCII line, no floats, nothing that a database refuses."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import decode, meter, record, store
from proofcost.harness.plan import Plan
from proofcost.harness.signals import Inherited

TEXT = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.binary())
def test_any_bytes_come_back(raw: bytes) -> None:
    assert decode.unescape(record.escape(raw)) == raw


@given(st.binary())
def test_escaped_text_is_what_every_reader_can_hold(raw: bytes) -> None:
    text = record.escape(raw)
    text.encode("utf-8")  # no lone surrogate
    assert not re.search(r"[\x00-\x1f\x7f]", text)


@given(
    st.lists(st.sampled_from([b"\\", b"\\x", b"x41", b"\\x41", b"\xff", b"\xed\xa0\x80", b"\n", "é".encode(), b"a"]))
)
def test_what_looks_like_an_escape_already_comes_back_as_it_was(parts: list[bytes]) -> None:
    raw = b"".join(parts)
    assert decode.unescape(record.escape(raw)) == raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"lake", "lake"),
        (b"a b", "a b"),
        (b"\\", "\\\\"),
        (b"\x00\x1f\x7f", "\\x00\\x1f\\x7f"),
        (b"\xff", "\\xff"),
        ("é".encode(), "é"),
        ("\u0080".encode(), "\u0080"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),  # a surrogate in UTF-8's clothes is no UTF-8
        ("😀".encode(), "😀"),
    ],
)
def test_escapes_are_the_documents(raw: bytes, text: str) -> None:
    assert record.escape(raw) == text


@given(st.binary())
def test_what_python_decoded_is_escaped_like_the_bytes(raw: bytes) -> None:
    assert record.escape_text(raw.decode("utf-8", "surrogateescape")) == record.escape(raw)


@given(VALUES)
def test_what_json_reads_is_what_was_written(value: Any) -> None:
    line = record.dumps(value)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line) == value


@given(VALUES)
def test_our_own_reader_reads_it_too(value: Any) -> None:
    event: record.Json = {"schema": 1, "value": record.escape_text(str(value))}
    assert json.loads(record.dumps(event)) == event


@given(st.dictionaries(TEXT, TEXT, max_size=3))
def test_keys_are_quoted_like_values(table: dict[str, str]) -> None:
    assert json.loads(record.dumps(dict(table))) == table


@pytest.mark.parametrize("value", [1.5, float("nan"), b"bytes", (1, 2), {1, 2}, object()])
def test_what_a_record_must_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="a record holds no"):
        record.dumps({"a": [value]})


def test_true_is_not_one() -> None:
    assert record.dumps([True, False, None, 1, 0]) == "[true,false,null,1,0]"


def test_an_integer_keeps_all_its_digits() -> None:
    assert record.dumps(933_795_598_537) == "933795598537"
    assert json.loads(record.dumps((1 << 63) - 1)) == (1 << 63) - 1


def test_the_room_that_is_reserved_holds_the_largest_started_and_a_finished() -> None:
    """Bytes that no UTF-8 has take five each: 64 KiB of them do not fit the usual room."""
    small: dict[str, record.Json] = {"argv": ["true"]}
    assert store.room_for(small) == store.ROOM_BYTES
    large: dict[str, record.Json] = {"text": record.escape(b"\xff" * 65536)}
    assert len(record.dumps(large)) > 5 * 65536
    assert store.room_for(large) >= len(record.dumps(large)) + store.ROOM_BYTES // 2


class CountingSink(store.Sink):
    synced = 0

    def sync(self) -> None:
        self.synced += 1


@pytest.mark.parametrize(("ran_s", "flushes"), [(0, 0), (4, 0), (6, 1)])
def test_started_is_flushed_once_and_only_in_a_long_run(ran_s: int, flushes: int) -> None:
    """In a short one the exit would be seen late by what the disk takes."""
    one = meter.Meter(Plan(["true"], "phase"), Inherited())
    one.sink = sink = CountingSink()
    one.started_ns = time.monotonic_ns() - ran_s * 10**9
    for _ in range(3):
        one._flush_started()
    assert sink.synced == flushes
