"""lean-exercise: `exercise-check/1`, `exercise-batch/1` and a batch's CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, ns, put, text, weaken
from proofcost.harness.columns import Row

HELP = "lean-exercise: check --json, batch --json and its CSV"
MAPS = (
    ("theorems[].name", "subject", "as it is; of a batch: the file"),
    ("theorems[].verdict, files[].result", "verdict, cause", "see below"),
    ("theorems[].seconds", "wall_command", "s to ns; of the whole judge run of that theorem; tenths"),
    ("theorems[].kernels[]", "labels", "as `kernels`, with commas"),
    ("toolchain, mechanism, trust", "labels", "as they are"),
    ("solution_sha256, files[].sha256", "input_sha256", "as they are"),
)
UNKNOWN = ("times of the phases", "memory", "the machine and the time", "of a batch: any time at all")
DEFECTS = (
    "seconds has one decimal: times under half a second are known to 10 % and worse. Marked as derived.",
    "After a build_error the theorems that follow bear its verdict without a run: no samples, and without a time.",
    "A batch and its CSV hold verdicts without any cost: rows without figures.",
)
_VERDICTS = {"accepted": "accepted", "statement_mismatch": "rejected", "illegal_axiom": "rejected", "pass": "accepted",
             "forbidden_constant": "rejected", "kernel_rejected": "rejected", "build_error": "rejected",
             "missing": "rejected", "timeout": None, "tool_error": "error", "fail": "rejected",
             "refused": "error"}  # fmt: skip


def fits(head: Head) -> bool:
    if head.opening == "{":
        return b'"exercise-check/' in head.raw or b'"exercise-batch/' in head.raw
    first = head.raw.split(b"\n", 1)[0].rstrip(b"\r")
    return first.startswith(b"file,sha256,result,accepted,total,") and first.endswith(b",detail")


def rows(source: Source) -> Iterator[Row]:
    if fits_csv(source):
        yield from _csv(source)
        return
    document = source.document()
    schema = document.get("schema") if isinstance(document, dict) else None
    if document.get("ok") is False and "error" in document:
        raise FormatError("a refusal: nothing was checked")
    labels = {key: str(document[key]) for key in ("toolchain", "mechanism", "trust") if document.get(key)}
    if schema == "exercise-check/1":
        yield from _check(source, document, labels)
    elif schema == "exercise-batch/1":
        for one in _list(document, "files"):
            yield _file(source, one, labels)
    else:
        raise FormatError(f"schema {str(schema)[:40]!r}; exercise-check/1 and exercise-batch/1 are known")


def fits_csv(source: Source) -> bool:
    source.file.seek(0)
    return fits(Head(source.name, source.file.read(1 << 16))) and not _is_json(source)


def _is_json(source: Source) -> bool:
    source.file.seek(0)
    return source.file.read(64).lstrip()[:1] == b"{"


def _check(source: Source, document: dict[str, Any], labels: dict[str, str]) -> Iterator[Row]:
    broken = False
    for one in _list(document, "theorems"):
        verdict = text(one.get("verdict"))
        kernels = one.get("kernels")
        own = {"kernels": ",".join(str(kernel) for kernel in kernels)} if isinstance(kernels, list) and kernels else {}
        row = _row(verdict, {**labels, **own})
        row["subject"], row["input_sha256"] = text(one.get("name")), text(document.get("solution_sha256"))
        if broken and verdict == "build_error":
            put(row, "wall_command", None, "not run: the verdict of an earlier theorem's build")
            source.say("no samples: verdicts taken over from an earlier theorem's failed build")
        else:
            put(row, "wall_command", ns(one.get("seconds")) or None, "not in the source, or 0.0: under 50 ms")
            weaken(row, "wall_command", "derived", "tenths of a second")
        broken = broken or verdict == "build_error"
        yield row


def _file(source: Source, one: dict[str, Any], labels: dict[str, str]) -> Row:
    row = _row(text(one.get("result")), labels)
    row["subject"], row["input_sha256"] = text(one.get("file")), text(one.get("sha256"))
    put(row, "wall_command", None, "a batch holds verdicts, no costs")
    source.say("verdicts without a cost")
    return row


def _row(verdict: str | None, labels: dict[str, str]) -> Row:
    row: Row = {"phase": "whole", "labels": labels or None, "verdict": _VERDICTS.get(verdict or "")}
    row["outcome"] = "timed_out" if verdict == "timeout" else "exited"
    row["cause"] = "time_limit" if verdict == "timeout" else None
    return row


def _list(document: Any, name: str) -> list[dict[str, Any]]:
    found = document.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise FormatError(f"no list of objects `{name}`")
    return found


def _csv(source: Source) -> Iterator[Row]:
    source.file.seek(0)
    try:
        lines = StringIO(source.file.read().decode("utf-8-sig"))
        for number, one in enumerate(csv.DictReader(lines, strict=True), 2):
            if None in one or None in one.values():
                raise FormatError(f"line {number}: not as many fields as the first line names")
            yield _file(source, one, {})
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(f"no CSV that can be read: {str(error)[:80]}") from None
