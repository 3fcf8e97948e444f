"""Commands that print: what becomes of them when nobody reads on, or when the output cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

DONE, FAILED = 0, 1


def guarded(command: Callable[[], int]) -> int:
    """The exit status of `command`, once all that it printed is written.

    A reader who had enough (`| head`) is no complaint: 0. An output that cannot be written (a full disk) is one line on
    stderr, and 1.
    """
    try:
        status = command()
        if sys.stdout is not None:  # the caller closed it
            sys.stdout.flush()
    except BrokenPipeError:
        _forget()
        return DONE
    except OSError as error:
        if error.filename is not None:  # not of the output: a file that nobody handled
            raise
        _forget()
        print(f"proofcost: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return FAILED
    return status


def _forget() -> None:
    """Let what is still to be written go nowhere, so that Python does not complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
