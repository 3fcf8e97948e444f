"""A campaign's folder: `campaign.json`, the shards' stores, and what each shard's runner told of itself.

    FOLDER/campaign.json     the plan's digest, what was asked for, how large each shard is, every submission
    FOLDER/shard-3/          the store of shard 3
    FOLDER/told/3.json       where and when it began, where, when and how it ended (note.py)
    FOLDER/told/3.lock       held while it runs (lock.py)
    FOLDER/told/3.out        what it printed, where the scheduler does not keep that itself
    FOLDER/collected/        all of it as one data set

It lies on a file system that all hosts share, under the same path.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from proofcost.harness import store

FILE = "campaign.json"
SCHEMA = 1
FILE_BYTES_MAX = 64 << 20
SHARDS_MAX = 100_000
_ID = re.compile(r"[0-9a-f]{8}")


class CampaignError(Exception):
    """A campaign cannot be made, read or gone on with. One line: what, where, how to mend it."""


@dataclass(frozen=True, slots=True)
class Shard:
    """How much a shard holds. `runs_count`: turns, those at the same time counted each."""

    turns_count: int
    runs_count: int
    blocks_count: int


@dataclass(frozen=True, slots=True)
class Submission:
    """What was handed to a scheduler at once. `shards` in the order of their indices there; `job` its name for it."""

    at_ns: int
    on: str
    job: str | None
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Campaign:
    """`asked`: options of `bench`, as its parser has them; they are meant from the folder `started_in`. `options`: of
    the scheduler (options.py)."""

    id: str
    suite: str
    plan_sha256: str
    made_ns: int
    asked: Mapping[str, Any]
    started_in: str
    environment: Mapping[str, str]
    options: Mapping[str, Any]
    shards: tuple[Shard, ...]
    submissions: tuple[Submission, ...] = ()

    @property
    def name(self) -> str:
        """What schedulers call it; fit for all of them."""
        return f"proofcost-{self.id}"


def shard_store(folder: str, number: int) -> str:
    return f"{folder}/shard-{number}"


def told(folder: str, number: int, kind: str) -> str:
    """The file of that kind (`json`, `lock`, `out`) of a shard."""
    return f"{folder}/told/{number}.{kind}"


def collected(folder: str) -> str:
    return f"{folder}/collected"


def exists(folder: str) -> bool:
    return os.path.lexists(f"{folder}/{FILE}")


def make(folder: str) -> None:
    """The folder, and those that runners write into: `told` must be there before a scheduler opens files in it.

    Raises CampaignError, StoreError.
    """
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        os.makedirs(f"{folder}/told", 0o700, exist_ok=True)
    except OSError as error:
        raise CampaignError(
            f"-o {folder}: cannot be made: {error.strerror}; name a folder that all hosts share"
        ) from None
    store.check_place(shard_store(folder, 1), [])


def write(folder: str, campaign: Campaign) -> None:
    """Put `campaign.json` there, whole or not at all. Raises CampaignError."""
    replace_file(f"{folder}/{FILE}", json.dumps({"schema": SCHEMA, **asdict(campaign)}, indent=1) + "\n")


def replace_file(path: str, text: str) -> None:
    """Write a small file anew; whoever reads it sees the old one or the new one. Raises CampaignError."""
    try:
        fd, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")
        try:
            with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise CampaignError(f"{path}: cannot be written: {error.strerror}; free some space there") from None


def read(folder: str) -> Campaign:
    """The campaign of a folder. Raises CampaignError."""
    path = f"{folder}/{FILE}"
    try:
        with open(path, "rb") as file:
            raw = file.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        raise CampaignError(f"{folder}: no campaign there (no {FILE}); name the folder that -o named") from None
    except OSError as error:
        raise CampaignError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        said = json.loads(raw)
        if said["schema"] != SCHEMA:
            raise CampaignError(f"{path}: of another version of proofcost (schema {said['schema']!r}); use that one")
        shards = tuple(Shard(**{name: int(one[name]) for name in Shard.__slots__}) for one in said["shards"])
        submissions = tuple(
            Submission(
                int(one["at_ns"]),
                str(one["on"]),
                None if one["job"] is None else str(one["job"]),
                tuple(map(int, one["shards"])),
            )
            for one in said["submissions"]
        )
        made = Campaign(
            id=str(said["id"]),
            suite=str(said["suite"]),
            plan_sha256=str(said["plan_sha256"]),
            made_ns=int(said["made_ns"]),
            asked=dict(said["asked"]),
            started_in=str(said["started_in"]),
            environment={str(name): str(value) for name, value in dict(said["environment"]).items()},
            options=dict(said["options"]),
            shards=shards,
            submissions=submissions,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"[:120]
        raise CampaignError(f"{path}: no campaign's file ({what}); put it back as it was") from None
    numbers = set(range(1, len(made.shards) + 1))
    if not _ID.fullmatch(made.id) or not made.shards or any(set(one.shards) - numbers for one in submissions):
        raise CampaignError(f"{path}: no campaign's file (an id or a shard that cannot be); put it back as it was")
    return made
