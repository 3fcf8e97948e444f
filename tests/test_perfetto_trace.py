"""Perfetto's format, written and parsed back with its own protos."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto_file import BOOTTIME, MONOTONIC, REALTIME, below, parse

from proofcost.adapters.perfetto_trace import Clocks, Instant, Slice, Track, encode

CLOCKS = Clocks(boottime_ns=1000, monotonic_ns=900, realtime_ns=10**18)


def test_a_file_has_the_three_clocks_of_one_moment() -> None:
    _, clocks = parse(encode([], CLOCKS))
    assert clocks == {BOOTTIME: 1000, MONOTONIC: 900, REALTIME: 10**18}


def test_slices_nest_as_their_times_do() -> None:
    inner, outer, later = Slice("in", 12, 15, {"pid": 7, "why": "é"}), Slice("out", 10, 20), Slice("later", 20, 25)
    tracks, _ = parse(encode([Track("t", slices=[inner, later, outer])], CLOCKS))
    found = [(one.name, one.begin, one.end, one.depth) for one in below(tracks, "t").slices]
    assert found == [("out", 10, 20, 0), ("in", 12, 15, 1), ("later", 20, 25, 0)]
    assert below(tracks, "t").slices[1].notes == {"pid": 7, "why": "é"}


def test_slices_that_cross_or_end_early_are_refused() -> None:
    with pytest.raises(ValueError, match="'a' and 'b' cross"):
        encode([Track("t", slices=[Slice("a", 0, 10), Slice("b", 5, 15)])], CLOCKS)
    with pytest.raises(ValueError, match="'a' ends before it begins"):
        encode([Track("t", slices=[Slice("a", 10, 9)])], CLOCKS)


@st.composite
def nested(draw: st.DrawFn, begin: int = 0, end: int = 1000, depth: int = 3) -> list[Slice]:
    """Slices that nest: cuts of a stretch, each cut again."""
    cuts = sorted(draw(st.lists(st.integers(begin, end), max_size=5)))
    made = []
    for low, high in zip(cuts[::2], cuts[1::2], strict=False):
        made.append(Slice(f"{low}-{high}", low, high))
        if depth and draw(st.booleans()):
            made += draw(nested(low, high, depth - 1))
    return made


@given(nested(), st.lists(st.integers(0, 1000), max_size=4), st.randoms())
def test_whatever_nests_is_written_balanced_and_in_order(
    slices: list[Slice], moments: list[int], chance: object
) -> None:
    chance.shuffle(slices)  # type: ignore[attr-defined]
    track = Track("t", slices=slices, instants=[Instant("i", at) for at in moments])
    tracks, _ = parse(encode([track], CLOCKS))
    found = below(tracks, "t")
    assert sorted((one.name, one.begin, one.end) for one in found.slices) == sorted(
        (one.name, one.begin_ns, one.end_ns) for one in slices
    )
    assert [at for at, *_ in found.instants] == sorted(moments)


@pytest.mark.parametrize(
    ("unit", "number", "name"), [("bytes", 3, ""), ("count", 2, ""), ("ns", 1, ""), ("CPUs", 0, "CPUs")]
)
def test_counters_keep_their_values_and_units(unit: str, number: int, name: str) -> None:
    points: list[tuple[int, int | float]] = [(1, 0), (2, (1 << 62) + 1), (3, 0.25), (4, -5)]
    tracks, _ = parse(encode([Track("c", "what it is", unit, points=points)], CLOCKS))
    found = below(tracks, "c")
    assert found.points == points
    assert (found.descriptor.counter.unit, found.descriptor.counter.unit_name) == (number, name)
    assert found.descriptor.description == "what it is"


def test_tracks_stand_in_the_order_given_below_their_parents() -> None:
    inner = [Track("z"), Track("a", tracks=[Track("deep")])]
    tracks, _ = parse(encode([Track("top", tracks=inner), Track("other")], CLOCKS))
    assert list(tracks) == [("top",), ("top", "z"), ("top", "a"), ("top", "a", "deep"), ("other",)]
    assert [tracks[path][0].descriptor.sibling_order_rank for path in tracks] == [0, 0, 1, 0, 1]


def test_the_same_tracks_are_the_same_bytes() -> None:
    track = Track("t", slices=[Slice("a", 1, 2, {"k": "v", "n": 1})], points=[])
    assert encode([track], CLOCKS) == encode([track], CLOCKS)
