"""What of a store may go because it stands elsewhere: Parquet files whose sealed copies were read back.

A Parquet file goes only when no record of it has a file of its own here any more: such a record may still change, and
compaction would write it a second time. Old generations go before the newest, so that none of them counts again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.harness.reading import read_store
from proofcost.reports import parquet
from proofcost.reports.fast_decode import decode
from proofcost.reports.soundness import flaw

_IMPORTED = "import="


def remove_pushed(store: Path, files: Collection[Path]) -> int:
    """Remove those of verified Parquet files none of whose records has a file of its own in the store any more.

    A record with one may change yet, and compaction would write one without a copy here a second time. Imported files
    stay: they tell `import` what was taken already. Returns how many went. Raises OSError, CopyError.
    """
    left, older = _with_files(store), _older(store)
    mine = [path for path in sorted(files) if not path.relative_to(store / "parquet").parts[0].startswith(_IMPORTED)]
    going = [path for path in mine if left.isdisjoint(ids(path))]  # all are read before any goes
    for path in going:
        for one in (*older.get(parquet.generation_of(str(path))[0], ()), path):  # an old one must not count again
            one.unlink()
        for folder in (path.parent, path.parent.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return len(going)


def ids(path: Path) -> list[str]:
    """Of a Parquet file the ids of its records. Raises CopyError where it cannot be read."""
    try:
        table: pa.Table = pq.read_table(path, columns=["record"], partitioning=None)
        found: list[str] = table["record"].to_pylist()
    except (OSError, KeyError, pa.ArrowException) as error:
        told = flaw(path) or f"{path}: cannot be read ({str(error).splitlines()[0][:100]}); move it away"
        raise parquet.CopyError(told) from None
    return found


def _older(store: Path) -> Mapping[str, list[Path]]:
    """By stem the generations that count no more, the oldest first."""
    current = set(parquet.files(store / "parquet"))
    found: dict[str, list[Path]] = {}
    for path in sorted(path for path in (store / "parquet").rglob("*.parquet") if path not in current):
        found.setdefault(parquet.generation_of(str(path))[0], []).append(path)
    return found


def _with_files(store: Path) -> set[str]:
    """The ids of records that have a file of their own, also where its name is another."""
    found: set[str] = set()
    for folder in sessions(store):
        names = files_of(folder)
        found.update(names)
        if names:
            found.update(record.invocation for record in read_store(folder, decode).records)
    return found


def sessions(store: Path) -> list[str]:
    """The folders of a store's sessions."""
    try:
        with os.scandir(store / "sessions") as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def files_of(session: str) -> list[str]:
    """The ids of a session's records that have a file of their own."""
    with os.scandir(session) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(".jsonl")]
    return [name.removesuffix(".jsonl").removesuffix(".settled") for name in names]
