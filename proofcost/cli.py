"""The command line: one subcommand, one module. A module is imported only when its command is called."""

import argparse
import importlib
import sys
from typing import NoReturn

from proofcost.harness.version import VERSION
from proofcost.output import guarded

# In the order in which a newcomer meets them, with what each module says of itself (held against it by a test): their
# list is to be there at once, without any of them.
_COMMANDS = {
    "demo": "measure a small proof check, phase by phase",
    "run": "run a judge or command and record what it cost",
    "log": "sessions measured, newest first",
    "show": "what a session or one call cost",
    "bench": "run kernels on workloads: medians, spread, ratios, and records of every run",
    "campaign": "a suite as shards on a cluster: status, resume, collect",
    "compare": "what changed between two kernels, commits or machines",
    "plan": "limits, sandboxes on a host and hosts, from records",
    "report": "kernels, submissions, hosts and their history from many records",
    "kernels": "which kernels are known, and which are installed here",
    "doctor": "can this host measure and sandbox?",
    "install": "write launchers for a judge's configuration",
    "import": "take in other programs' figures",
    "export": "what was measured, as another program takes it",
    "store": "records as Parquet and SQL",
}
# Where a module cannot bear its command's name.
_MODULES = {"import": "importing"}
USAGE_ERROR = 2
_LISTED: tuple[list[str], ...] = ([], ["-h"], ["--help"], ["--version"])
"""Calls that need no more of the commands than their list."""


class _Parser(argparse.ArgumentParser):
    """One clear line for a wrong call, exit code 2."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}; see {self.prog} --help\n")
        raise SystemExit(USAGE_ERROR)


def build_parser(only: str | None = None, listed: bool = False) -> argparse.ArgumentParser:
    """The whole parser; with just the command that is called; or (`listed`) the bare list of them (start-up time)."""
    parser = _Parser(
        prog="proofcost", description="Measure what checking Lean proofs costs: per phase, kernel and machine."
    )
    parser.add_argument("--version", action="version", version=f"proofcost {VERSION}")
    subparsers = parser.add_subparsers(
        title="commands", dest="name", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for name, what in _COMMANDS.items():
        if listed:
            subparsers.add_parser(name, help=what)
        elif only is None or only == name:
            importlib.import_module(f"proofcost.{_MODULES.get(name, name)}").add_parser(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Entry point of `proofcost`. Returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    only = words[0] if words and words[0] in _COMMANDS else None
    if only == "run":
        # The judge's limits are ours: one on file sizes, or a full disk, would leave half a .pyc for every later call.
        sys.dont_write_bytecode = True
    try:
        args = build_parser(only, words in _LISTED).parse_args(words)
        if only == "run":  # prints nothing of its own on stdout, and its status is the judge's
            code: int = args.run(args)
            return code
        return guarded(lambda: int(args.run(args)))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
