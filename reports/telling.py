"""Which parts of keys tell them apart: the others would be columns, or words, of no use."""

from __future__ import annotations

from collections.abc import Collection


def telling(keys: Collection[tuple[str, ...]]) -> list[int]:
    """Places in the keys (all of one length), in order; none that adds nothing to those before it."""
    shown: list[int] = []
    told = 1
    for at in range(len(next(iter(keys), ()))):
        apart = len({tuple(key[one] for one in (*shown, at)) for key in keys})
        if apart > told:
            shown.append(at)
            told = apart
    return shown
