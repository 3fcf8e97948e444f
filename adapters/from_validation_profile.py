"""lax-archive's `validation-profile.json`: a tree of named spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, put, scaled, text
from proofcost.harness.columns import Row

HELP = "lax-archive validation-profile.json (a tree of spans)"
MAPS = (
    ("name, with its parents", "subject", "joined by /"),
    ("name of a leaf", "phase", "as it is; `unknown` for a span that has parts"),
    ("ms", "wall_command", "ms to ns"),
    ("peakMemoryBytes", "memory_peak_tree", "where there is one"),
    ("container", "labels", "as it is"),
)
UNKNOWN = ("CPU", "exit status", "when and where it ran")
DEFECTS = ("A span holds its children's time: adding up rows of different depth counts twice. `depth` is a label.",)
_DEEPEST = 32


def fits(head: Head) -> bool:
    return head.opening == "{" and {"name", "ms", "children"} <= head.keys


def rows(source: Source) -> Iterator[Row]:
    document = source.document()
    if not isinstance(document, dict) or "ms" not in document:
        raise FormatError("no span: `name`, `ms` and `children` are expected")
    yield from _span(document, (), 0)


def _span(span: Any, above: tuple[str, ...], depth: int) -> Iterator[Row]:
    if not isinstance(span, dict):
        raise FormatError("a span that is no object")
    if depth > _DEEPEST:
        raise FormatError(f"spans deeper than {_DEEPEST}")
    way = (*above, text(span.get("name")) or "?")
    children = span.get("children")
    parts = children if isinstance(children, list) else []
    labels = {"depth": str(depth)}
    if text(span.get("container")):
        labels["container"] = str(span["container"])
    row: Row = {"subject": "/".join(way), "phase": way[-1] if not parts else "unknown", "labels": labels}
    put(row, "wall_command", scaled(span.get("ms"), 10**6), "not in the source")
    put(row, "memory_peak_tree", count(span.get("peakMemoryBytes")) or None, "not in the source")
    yield row
    for part in parts:
        yield from _span(part, way, depth + 1)
