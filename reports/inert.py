"""Text from a record made harmless to look at. It comes from whoever was measured: it may hold terminal commands."""

from __future__ import annotations

from proofcost.harness.decode import plain

MAX_SHOWN = 60
"""Longest text a table shows, in characters; the middle of a longer one gives way to `…`."""


def inert(text: str, limit: int | None = MAX_SHOWN, ascii_only: bool = False) -> str:
    """`text`, a string of a record, for one line of a terminal.

    The record's own escapes are undone, then everything that is not printable (controls, line ends, direction marks,
    bytes that are no UTF-8) is shown as an escape. `ascii_only` shows all else that is not ASCII so as well. The result
    must be printed as it stands, never as rich markup: use `rich.text.Text`.
    """
    return inert_outside(plain(text), limit, ascii_only)


def inert_outside(text: str, limit: int | None = MAX_SHOWN, ascii_only: bool = False) -> str:
    """The same for text that no record holds and that carries no escapes of its own: a path, an argument."""
    shown = "".join(char if _harmless(char, ascii_only) else _escape(char) for char in text)
    if limit is None or len(shown) <= limit:
        return shown
    gap = "..." if ascii_only else "…"
    head = (limit - len(gap)) // 2
    return shown[:head] + gap + shown[len(shown) - (limit - len(gap) - head) :]


def _harmless(char: str, ascii_only: bool) -> bool:
    return char.isprintable() and (char.isascii() or not ascii_only)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as Python decodes paths
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
