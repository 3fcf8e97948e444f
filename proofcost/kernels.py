"""`proofcost kernels`: which kernels the registry knows, and which of them are installed here."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from rich.console import Console
from rich.text import Text

from proofcost.bench_suites import kernel as kernel_of
from proofcost.bench_suites import registry
from proofcost.bench_suites.registry import Convention
from proofcost.harness import digest, policy
from proofcost.harness.described import DescriptionError
from proofcost.harness.store import default_place
from proofcost.reports.inert import inert_outside
from proofcost.reports.printing import Row, full_width, is_ascii, table_of, write
from proofcost.reports.units import plural

DONE, USAGE = 0, 2
DIGEST_SHOWN = 12
COLUMNS = ("kernel", "version", "sha256", "exit codes", "program")
LEAST = {0: 10, 3: 12, 4: 16}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command line of `kernels`."""
    parser = subparsers.add_parser(
        "kernels",
        help="which kernels are known, and which are installed here",
        description="Kernels that the registry knows, installed ones with version and digest of their program.",
    )
    parser.add_argument(
        "--kernels", action="append", default=[], metavar="FILE", help="kernels of your own (see docs/bench.md)"
    )
    parser.add_argument("--json", action="store_true", help="all that is known of each, as JSON")
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Print the list. Exit status: 0, or 2 for a registry file that cannot be used."""
    try:
        known = registry.load(args.kernels, os.environ)
    except DescriptionError as error:
        policy.say(f"kernels: {error}")
        return USAGE
    cache = f"{default_place(dict(os.environ), os.geteuid())}/digests"
    found = [look(entry, cache) for entry in known.values()]
    if args.json:
        print(json.dumps({"kernels": found}, indent=1))
        return DONE
    console = Console()
    ascii_only = is_ascii(console)
    here = [one for one in found if one["program"] is not None]
    missing = [one for one in found if one["program"] is None]
    with full_width(console):
        rows = [_row(one, ascii_only) for one in here]
        write(console, table_of(console, COLUMNS, rows, right=(), least=LEAST))
        write(console, Text(f"\n{plural(len(missing), 'kernel')} not installed:"))
        for one in missing:
            write(console, Text(f"  {one['name']}: {one['description']}; {one['not_found']}", style="dim"))
    return DONE


def look(entry: Convention, cache: str | None) -> dict[str, Any]:
    """What is known of one entry here. `program` is None where it is not installed, and then `not_found` says where
    it was looked for. `cache`: where digests are kept."""
    words = tuple(
        registry.filled(word, {"python": kernel_of.python(), "here": registry.HERE}) for word in entry.command
    )
    program = words[0] if words else entry.find_program(os.environ)
    version = sha256 = reason = None
    if program is not None:
        version = kernel_of.version_of(entry, words or (program,))
        sha256, reason = digest.of_file(os.path.realpath(kernel_of.program_file(words, program)), cache)
    codes, known_by = entry.meanings(version)
    return {
        "name": entry.name,
        "description": entry.description,
        "control": entry.control,
        "program": program,
        "version": version,
        "sha256": sha256,
        "sha256_reason": reason,
        "input": entry.input,
        "takes_threads": entry.takes_threads() or entry.threads_key is not None,
        "exit_codes": {str(code): meaning for code, meaning in sorted(codes.items())},
        "exit_codes_known_by": known_by,
        "not_found": None if program is not None else kernel_of.not_found(entry),
    }


def _row(one: dict[str, Any], ascii_only: bool) -> Row:
    dash = "-" if ascii_only else "\u2013"
    tried = " (tried)" if one["exit_codes_known_by"].startswith("tried") else ""
    codes = ", ".join(f"{code} {meaning}" for code, meaning in one["exit_codes"].items())
    return Row(
        [
            one["name"],
            dash if one["version"] is None else inert_outside(one["version"], 30, ascii_only),
            dash if one["sha256"] is None else one["sha256"][:DIGEST_SHOWN],
            codes + tried,
            inert_outside(one["program"], 200, ascii_only),
        ]
    )
