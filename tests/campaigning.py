"""Campaigns in tests: a suite of small kernels, calls of `proofcost campaign`, and what the folder holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benching import PATIENCE_S, PROOFCOST, Called, script

from proofcost.bench_suites import homes
from proofcost.harness.merged import Record, integer_at, text_at
from proofcost.harness.reading import read_store

FAMILIES = ("church:8", "app-deep:10", "def-chain:5", "many:3")
TURNS = 14
"""Of each workload: two kernels, a warm-up and six repetitions each."""


@dataclass
class Cluster:
    """A folder with two kernels, and calls from it. `env`: how a scheduler's commands find it."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            self.kernel(name, f"sleep 0.05; while [ -e '{self.held}' ]; do sleep 0.05; done")

    def kernel(self, name: str, body: str) -> None:
        script(self.folder / name, f"#!/bin/sh\n{body}\n")

    @property
    def held(self) -> Path:
        """While this file is there, no kernel comes to its end."""
        return self.folder / "held"

    def hold_in_the_middle(self, *numbers: int, records: int = 6) -> None:
        """Wait until these shards have so many records, then let no kernel end any more."""
        for number in numbers:
            wait_until(partial(self._has, number, records), f"shard {number} does not begin")
        self.held.touch()

    def _has(self, number: int, records: int) -> bool:
        return len(self.records(number)) >= records

    @property
    def campaign(self) -> Path:
        return self.folder / "camp"

    def call(self, *words: object) -> Called:
        done = subprocess.run(
            [PROOFCOST, *map(str, words)],
            cwd=self.folder,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Called(done.returncode, done.stdout, done.stderr)

    def submit(self, on: str, *words: object, families: tuple[str, ...] = FAMILIES) -> Called:
        named = [word for family in families for word in ("--on", family)]
        return self.call("bench", "a=./a", "b=./b", *named, "-r", 6, "--on-cluster", on, "-o", self.campaign, *words)

    def do(self, action: str, *words: object) -> Called:
        return self.call("campaign", action, self.campaign, *words)

    def file(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.campaign / "campaign.json").read_text())
        return found

    def note(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.campaign / "told" / f"{number}.json").read_text())
        return found

    def states(self) -> dict[int, str]:
        """{shard: how `status` says it stands}."""
        found = {}
        for line in self.do("status").stdout.splitlines():
            if line.startswith("  shard "):
                number, _, rest = line.removeprefix("  shard ").partition("/")
                found[int(number)] = rest.split("  ")[1].strip()
        return found

    def records(self, number: int) -> list[Record]:
        """Of a shard's store."""
        place = self.campaign / f"shard-{number}"
        return list(read_store(place).records) if place.is_dir() else []

    def collected(self) -> list[Record]:
        return list(read_store_of_parquet(self.campaign / "collected"))


def read_store_of_parquet(folder: Path) -> list[Record]:
    from proofcost.reports import parquet
    from proofcost.reports.folding import unfolded

    found = []
    for file in parquet.files(folder):
        for text in unfolded(parquet.read(file).to_pydict()):
            assert text is not None
            events = {event["event"]: event for line in text.split("\n") if (event := json.loads(line))}
            started = events["started"]
            found.append(
                Record(started["invocation"], started["session"], started, events.get("finished"), None, str(file))
            )
    return found


def wait_until(what: Callable[[], bool], why: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, why
        time.sleep(0.1)


def check_whole(records: list[Record], works: int = len(FAMILIES), repetitions: int = 6) -> None:
    """One data set as an unsharded run would have made it: each cell whole, each turn once, each block on one node."""
    turns = Counter(integer_at(record.started, "bench", "turn") for record in records)
    assert set(turns.values()) == {1}, turns
    assert sorted(turn for turn in turns if turn is not None) == list(range(works * 2 * (repetitions + 1)))
    cells = Counter(
        (text_at(record.started, "kernel", "name"), text_at(record.started, "bench", "workload", "name"))
        for record in records
        if integer_at(record.started, "ids", "block") is not None
    )
    assert len(cells) == 2 * works
    assert set(cells.values()) == {repetitions}, cells
    blocks: dict[int, list[Record]] = {}
    for record in records:
        block = integer_at(record.started, "ids", "block")
        if block is not None:
            blocks.setdefault(block, []).append(record)
    assert {len(one) for one in blocks.values()} == {4}, "a block has each kernel twice"
    assert all(len({homes.home_of(record) for record in one}) == 1 for one in blocks.values())


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)


def runner_of(number: int, folder: Path) -> int | None:
    """The pid of the process that runs a shard; None where there is none."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[4:8] == [b"campaign", b"run", os.fsencode(folder), str(number).encode()]:
                return int(name)
    return None
