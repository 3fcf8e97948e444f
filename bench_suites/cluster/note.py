"""What a shard's runner tells of itself in the campaign's folder, when it begins and when it ends.

What is done stands in the shard's records. The note tells what they cannot: that it has begun, on which node, and why
it ended. One without an end is of a runner that still runs, or was killed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.harness import procfs

NOTE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Note:
    """`status` and what follows are None until it has ended. `why`: one line where it did not end well."""

    shard: int
    submission: int | None
    node: str
    job: str | None
    began_ns: int
    ended_ns: int | None = None
    status: int | None = None
    why: str | None = None
    runs_count: int | None = None
    """Of the plan's runs, those that were done when it ended."""
    files: str | None = None
    """Digest of the record files that it counted them in (record_files.py)."""


def write(folder: str, note: Note) -> None:
    """Raises CampaignError."""
    campaigns.replace_file(campaigns.told(folder, note.shard, "json"), json.dumps(asdict(note)) + "\n")


def read(folder: str, number: int) -> Note | None:
    """None where there is none that can be read."""
    raw = procfs.read_file(campaigns.told(folder, number, "json"), NOTE_BYTES_MAX)
    if raw is None:
        return None
    try:
        said: dict[str, Any] = json.loads(raw)
        return Note(
            shard=int(said["shard"]),
            submission=_integer(said["submission"]),
            node=str(said["node"]),
            job=None if said["job"] is None else str(said["job"]),
            began_ns=int(said["began_ns"]),
            ended_ns=_integer(said["ended_ns"]),
            status=_integer(said["status"]),
            why=None if said["why"] is None else str(said["why"]),
            runs_count=_integer(said["runs_count"]),
            files=None if said.get("files") is None else str(said["files"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)
