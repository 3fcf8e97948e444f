"""A result kept as it was, with a digest over it: who looks at it later can tell that nobody has touched it.

The digest is over the result and over which records it was made from, as JSON with sorted keys; not over where those
records lay. A digest proves no author: who can change the file can make a new one. Publish it somewhere else as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proofcost.harness.whole_file import whole_file
from proofcost.reports import as_json
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.document import Document
from proofcost.reports.inert import inert_outside
from proofcost.reports.where import Where

SCHEMA = "proofcost.frozen/1"
MAX_BYTES = 256 << 20
DIGITS = 9
"""Significant digits in which two computations of one result must agree: numerical libraries differ in the last."""


class FrozenError(Exception):
    """Not as it was frozen, or nothing frozen. One line: what, and what that means."""


def frozen(document: Document, data: Data, where: Where) -> dict[str, Any]:
    """What `freeze` writes: schema, result, records, and sha256 over these three."""
    result = json.loads(as_json.render(document))
    result.pop("data")
    made = {"schema": SCHEMA, "result": result, "records": _records(data, where)}
    return {**made, "sha256": digest_of(made)}


def _records(data: Data, where: Where) -> dict[str, Any]:
    """How many records there were, and a digest over their ids."""
    made, count = hashlib.sha256(), 0
    query = f"SELECT record FROM {VIEW} WHERE {where.sql} ORDER BY record"
    for some in data.table(query, where.parameters).to_batches(100_000):
        count += some.num_rows
        for record in some.column(0).to_pylist():
            made.update(str(record).encode("utf-8", "surrogatepass") + b"\n")
    return {"count": count, "sha256": made.hexdigest()}


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 over schema, result and records, however the file is laid out."""
    signed = {name: content.get(name) for name in ("schema", "result", "records")}
    return hashlib.sha256(json.dumps(signed, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def freeze(document: Document, data: Data, where: Where, path: Path) -> str:
    """Write it, whole or not at all; the digest. Raises OSError."""
    made = frozen(document, data, where)
    with whole_file(path) as file:
        file.write(f"{json.dumps(made, indent=1)}\n".encode("ascii"))
    return str(made["sha256"])


def checked(path: Path) -> dict[str, Any]:
    """The content of a frozen file whose digest fits. Raises FrozenError."""
    name = inert_outside(str(path), 200, True)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FrozenError(f"{name}: {error.strerror}; give a file that --freeze wrote") from None
    try:
        content = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FrozenError(f"{name}: no frozen result of schema {SCHEMA}; give a file that --freeze wrote")
    made = digest_of(content)
    if content.get("sha256") != made:
        raise FrozenError(f"{name}: NOT as it was frozen: its content has the digest {made}, not the one it names")
    return content


def compared(content: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What to say where the data give the frozen result again. Raises FrozenError where they do not."""
    then, there = content["records"], now["records"]
    same_records = then == there
    if _rounded(content["result"]) == _rounded(now["result"]):
        told = (
            "of the same records"
            if same_records
            else f"though there are {there['count']} records, {then['count']} then"
        )
        return f"as frozen: the digest {str(content['sha256'])[:16]} holds, and these data give the same result, {told}"
    what = _difference(content["result"], now["result"])
    why = (
        "the same records: another version, or other options"
        if same_records
        else f"other records ({there['count']} now, {then['count']} then)"
    )
    raise FrozenError(f"the digest holds, but these data give another result, from {why}: {what}")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return {key: _rounded(one) for key, one in value.items()} if isinstance(value, dict) else value


def _difference(then: Any, now: Any, where: str = "") -> str:
    """The first place where two results differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            if _rounded(then.get(key)) != _rounded(now.get(key)):
                return _difference(then.get(key), now.get(key), f"{where}.{key}" if where else key)
    if isinstance(then, list) and isinstance(now, list):
        for at, (one, other) in enumerate(zip(then, now, strict=False)):
            if _rounded(one) != _rounded(other):
                return _difference(one, other, f"{where}[{at}]")
        return f"{where} has {len(now)} entries, {len(then)} then"
    shown = [inert_outside(json.dumps(one), 60, True) for one in (now, then)]
    return f"{where} is {shown[0]}, {shown[1]} then"
