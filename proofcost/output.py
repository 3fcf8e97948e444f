"""Commands that print: what becomes of them when nobody reads on, or when the output cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofcost.reports.dataset import Data

DONE, FAILED = 0, 1

_settled = DONE


def settled(status: int) -> int:
    """Say the exit status before printing: it then holds, also for a reader who goes away. Returns it."""
    global _settled
    _settled = status
    return status


def guarded(command: Callable[[], int]) -> int:
    """The exit status of `command`, once all that it printed is written.

    A reader who had enough (`| head`) is no complaint: what the command said by `settled`, else 0. An output that
    cannot be written (a full disk) is one line on stderr, and 1, or what was said if that is no 0.
    """
    settled(DONE)
    try:
        status = settled(command())
        if sys.stdout is not None:  # the caller closed it
            sys.stdout.flush()
    except BrokenPipeError:
        _forget()
        return _settled
    except OSError as error:
        if error.filename is not None:  # not of the output: a file that nobody handled
            raise
        _forget()
        print(f"proofcost: stdout: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return _settled or FAILED
    return status


def warn_of(data: Data) -> None:
    """Say on stderr what was not read of a data set, and what is to be known of the places it is from."""
    count = len(data.problems)
    if count:
        print(f"proofcost: {count:,} {'line or file' if count == 1 else 'lines or files'} skipped", file=sys.stderr)
    for note in data.notes:
        print(f"proofcost: {note}", file=sys.stderr)


def _forget() -> None:
    """Let what is still to be written go nowhere, so that Python does not complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
