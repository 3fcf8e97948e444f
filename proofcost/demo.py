"""`proofcost demo`: what one proof check costs, phase by phase, on this machine and without a Lean toolchain.

A stand-in judge calls a build, an export and kernels as a comparator with the measurement hook does, through launchers
of this run. Whatever sandbox and kernels are found are used; what is missing is said, and something real is measured
all the same: our parse-only control over a generated export, which checks nothing and says so.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from proofcost.adapters import launchers
from proofcost.harness import outcome, policy, run_folder, store, whole
from proofcost.harness.plan import Plan
from proofcost.run import USAGE, UsageError, chosen_store, launcher_directory, measure, show

# What a kernel is called here, where an environment variable may name it, and its file name on PATH.
_KERNELS = (("nanoda", "PROOFCOST_NANODA", "nanoda_bin"), ("sokonanoda", "PROOFCOST_SOKONANODA", "sokonanoda"))
_JUDGE = Path(__file__).resolve().parent / "bench_suites" / "demo_judge.py"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command line of `demo`."""
    parser = subparsers.add_parser(
        "demo",
        help="measure a small proof check, phase by phase",
        description="Measure a small generated proof check, phase by phase, with the sandbox and kernels found here.",
    )
    parser.add_argument("--store", metavar="DIR", help="where records go (default: $PROOFCOST_STORE, else by user)")
    parser.add_argument("--n", type=int, default=2000, metavar="N", help="declarations to generate (default 2000)")
    parser.set_defaults(run=main)


def find(variable: str, name: str) -> str | None:
    """A program named by an environment variable, else found on PATH."""
    return shutil.which(os.environ.get(variable) or name)


def find_sandbox(name: str) -> str | None:
    """A sandbox named by our variable or by the comparator's, else found on PATH; the real one behind our launcher."""
    ours, judges = (f"{prefix}_{name.upper()}" for prefix in ("PROOFCOST", "COMPARATOR"))
    found = find(ours if os.environ.get(ours) else judges, name)
    return None if found is None else launchers.real_behind(found)


def sandbox_arguments() -> list[str]:
    """The demo judge's arguments for the sandbox that is found: landrun, else bwrap, else none. Says which."""
    landrun, bwrap = find_sandbox("landrun"), find_sandbox("bwrap")
    if landrun:
        print(f"sandbox: landrun ({landrun})")
        return ["--landrun", landrun]
    if bwrap:
        print(f"sandbox: bwrap ({bwrap}); no landrun found")
        return ["--bwrap", bwrap]
    print("sandbox: none found (landrun, bwrap): the calls run unconfined, and their records say so")
    return []


def kernel_arguments() -> list[str]:
    """The demo judge's arguments for the kernels that are found. Says which."""
    found = [(name, path) for name, variable, program in _KERNELS if (path := find(variable, program)) is not None]
    for name, path in found:
        print(f"kernel:  {name} ({path})")
    if not found:
        print("kernel:  none found (nanoda_bin, sokonanoda): only the parse-only control runs, which checks nothing")
    return [word for name, path in found for word in ("--kernel", f"{name}={path}")]


def main(args: argparse.Namespace) -> int:
    """Run the demo and print its table on stdout. Returns the demo judge's exit code."""
    if args.n < 8:
        policy.say(f"--n {args.n}: at least 8 declarations are needed")
        return USAGE
    try:
        place = chosen_store(args.store)
        store.check_place(place, [])
    except (UsageError, store.StoreError) as error:
        policy.say(f"{error}; nothing was run")
        return USAGE
    session = whole.new_session()
    directory = None
    with tempfile.TemporaryDirectory(prefix="proofcost-demo-") as project:
        try:
            directory = launcher_directory()
            hook = os.path.join(directory, "phase")
            tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
            options = launchers.Options(place, tree, launchers.choose_interpreter())
            launchers.write(hook, launchers.text_of("phase", "", options))
            judge = [sys.executable, str(_JUDGE), "--hook", hook, "--project", project, "--n", str(args.n)]
            plan = Plan([*judge, *sandbox_arguments(), *kernel_arguments()], "run")
            plan.labels = {"demo": "yes"}
            plan.store, plan.session = place, session
            plan.phase_understood, plan.phase_known_by = "whole", "run"
            plan.target = plan.argv
            print(f"records: {place}\n", flush=True)
            status = measure(plan, "none")
        except (UsageError, policy.MeterError) as error:
            policy.say(str(error))
            return USAGE
        finally:
            if directory is not None:
                run_folder.remove(directory)
    print()
    show(plan, sys.stdout)
    print("\none call: proofcost show last.1 (--all: every field)   this table again: proofcost show last")
    print("your own judge:         proofcost run -- JUDGE [ARGUMENT...]")
    return outcome.exit_code(status)
