"""The launchers that `install` writes only where they are asked for: `leaneval` and `timer`.

An installation that has one keeps it when it is installed again: a judge's configuration may name it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proofcost.adapters import launchers, leaneval
from proofcost.adapters.launchers import LEANEVAL, TIMER
from proofcost.harness import spawn


class AskedError(Exception):
    """What is asked for cannot be written; one line: what, which value, how to mend."""


@dataclass(frozen=True)
class Asked:
    """The launchers to write besides the usual ones, each with the real program behind it (none: `leaneval`)."""

    reals: Mapping[str, str]
    capture: str | None = None
    """Where `leaneval` keeps a copy of the solution's export; None: nowhere."""

    def options(self) -> dict[str, str | None] | None:
        """What is baked into `leaneval`."""
        return {"capture": self.capture} if LEANEVAL in self.reals else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `install` for them."""
    parser.add_argument(
        "--leaneval",
        action="store_true",
        help="also write `leaneval`, which stands in for LeanEval's replay-measure and keeps its metrics.json",
    )
    parser.add_argument(
        "--capture-export",
        action="store_true",
        help=f"with --leaneval: also copy the solution's export to {leaneval.CAPTURE}",
    )
    parser.add_argument(
        "--timer",
        metavar="PATH",
        help="also write `timer` around this timer (a TIMER_BIN), which keeps its KERNEL_TIMING lines",
    )


def find(args: argparse.Namespace, directory: Path, before: Mapping[str, object] | None) -> Asked:
    """What is asked for now or was installed before (`before`: that manifest). Raises AskedError."""
    known = {} if before is None else before["real"]
    assert isinstance(known, dict)
    reals: dict[str, str] = {}
    if args.leaneval or LEANEVAL in known:
        reals[LEANEVAL] = ""
    elif args.capture_export:
        raise AskedError("--capture-export: only LeanEval's entrance captures an export; add --leaneval")
    if args.timer is not None:
        reals[TIMER] = _find_timer(args.timer, directory)
    elif TIMER in known:
        reals[TIMER] = str(known[TIMER])
    captured = args.capture_export or (before is not None and before.get("capture") is not None and not args.leaneval)
    return Asked(reals, leaneval.CAPTURE if captured and LEANEVAL in reals else None)


def _find_timer(given: str, directory: Path) -> str:
    found = spawn.find_program(given)
    if found is None:
        raise AskedError(f"--timer {given}: no such program, or not executable; name the real timer")
    path = os.path.abspath(found)
    if launchers.is_ours(path):
        raise AskedError(f"{path}: is our own launcher; name the real timer with --timer")
    return path


def report(directory: Path, asked: Asked) -> None:
    """The lines to paste for them."""
    if LEANEVAL in asked.reals:
        pasted = json.dumps([str(directory / LEANEVAL)])
        print(f"\nLeanEval    in the place of replay-measure: --measurement-command-json '{pasted}'")
        print(f"            keeps {leaneval.METRICS}, takes {leaneval.LANDRUN} alone, and refuses (125)")
        print("            what it cannot measure")
        if asked.capture is not None:
            print(f"            copies what a solution-export prints to {asked.capture}")
    if TIMER in asked.reals:
        print(f"\ntimer       TIMER_BIN={directory / TIMER}")
        print(f"            (real timer: {asked.reals[TIMER]}; its stdout passes through us)")
