"""What tests of the tables and of the commands that print them share."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from hypothesis import strategies as st
from rich.console import Console

from proofcost import log, show
from proofcost.harness import running
from proofcost.harness.merged import Record
from proofcost.harness.reading import Store, read_store
from proofcost.reports.table import render

S = 10**9
SESSION = "5f0e8c7d6b5a4938"
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\n\u202e:smile:\\" + "y" * 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def drawn(records: tuple[Record, ...], encoding: str = "utf-8", **options: Any) -> str:
    """What `render` writes; a pipe unless `force_terminal` is given."""
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding, newline=""), **options)
    render(records, console)
    console.file.flush()
    return raw.getvalue().decode(encoding)


def store_of(folder: Path, *events: made.Event) -> Store:
    for at, event in enumerate(events):
        made.put(folder / "sessions" / event["session"], event, name=f"{at}.jsonl")
    return read_store(folder)


def table_of(folder: Path, *events: made.Event) -> str:
    return drawn(store_of(folder, *events).records)


def row(text: str, start: str) -> str:
    """The one line of a table that begins with `start`, after the number of the call."""
    lines = [re.sub(r"^ *[0-9]+ |^  +", "", line) for line in text.splitlines()]
    found = [line for line in lines if line.startswith(start) and not line.startswith(f"{start}:")]
    assert len(found) == 1, text
    return found[0]


def cells(text: str, start: str) -> list[str]:
    return re.split(r"\s{2,}", row(text, start))


def figures(**changes: Any) -> made.Event:
    return made.finished(measurements=changes)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept records come from another machine, whatever machine this is."""
    monkeypatch.setattr(running, "here", lambda: ("this boot", "this namespace"))


def command(*words: str) -> int:
    """Run `proofcost WORDS` in this process."""
    parser = argparse.ArgumentParser(prog="proofcost")
    subparsers = parser.add_subparsers(required=True)
    log.add_parser(subparsers)
    show.add_parser(subparsers)
    args = parser.parse_args(words)
    status = args.run(args)
    assert isinstance(status, int)
    return status
