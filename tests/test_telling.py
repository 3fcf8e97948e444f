"""Only what tells keys apart is said."""

from hypothesis import given
from hypothesis import strategies as st

from proofcost.reports.telling import telling


def test_what_adds_nothing_is_left_out() -> None:
    assert telling([]) == []
    assert telling([("a", "x")]) == []
    assert telling([("a", "x", "1"), ("b", "y", "1"), ("b", "y", "2")]) == [0, 2]


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 4), min_size=1))
def test_what_is_left_tells_as_many_apart(keys: list[tuple[str, ...]]) -> None:
    shown = telling(keys)
    assert len({tuple(key[at] for at in shown) for key in keys}) == len(set(keys))
