"""What becomes of a command's exit status and files when nobody reads what it prints, or nothing can be written."""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path

import pytest
from documents import small

from proofcost import output, plan
from proofcost.output import guarded, settled


@pytest.fixture(autouse=True)
def kept_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest's own output is descriptor 1."""
    monkeypatch.setattr(output, "_forget", lambda: None)


def gone(said: int | None = None) -> int:
    if said is not None:
        settled(said)
    raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def full(said: int) -> int:
    settled(said)
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_status_that_was_said_survives_a_reader_who_goes_away(status: int) -> None:
    assert guarded(lambda: gone(status)) == status


def test_without_a_word_a_reader_who_goes_away_is_no_complaint() -> None:
    settled(3)
    assert guarded(gone) == 0, "what an earlier command said is forgotten"


@pytest.mark.parametrize(("status", "left"), [(0, 1), (1, 1), (3, 3)])
def test_a_full_disk_is_1_or_what_was_said(status: int, left: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(lambda: full(status)) == left
    assert "the output cannot be written: No space left on device" in capsys.readouterr().err


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_plan_is_written_before_its_reader_can_go_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    assert guarded(lambda: plan._put(small(), [str(tmp_path / "p.md")], 3)) == 3
    assert "1 of 4 cases regressed." in (tmp_path / "p.md").read_text()
