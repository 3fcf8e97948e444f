"""`proofcost store synth DIR`: invented records, to try plans and reports on where the truth is known."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from proofcost.extras import need
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError

KINDS = ("light", "heavy", "bimodal", "drifting")
FLEET = "fleet"
MOST_RECORDS, MOST_DAYS, MOST_SEED = 10**10, 3650, (1 << 63) - 1
MOST_CLASSES = 2
OF_A_FLEET = {"hosts": 10, "kernels": 6, "submissions": 100}
"""Options that only a fleet has, and what they are where not given."""

Tell = Callable[[int, int], None]


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `synth` to `store`."""
    parser = actions.add_parser(
        "synth",
        help="make up records, to try plans and reports on",
        description="Make up records, seeded. One judge's verdicts, for plans: light tail, heavy tail, two kinds of "
        "submission, or drifting. Or a fleet, for reports: a daily bench of kernels on submissions, dealt out to many "
        "hosts; what is true of it stands beside the records in fleet.truth.json.",
        epilog="A fleet that was interrupted goes on with the same call.",
    )
    add = parser.add_argument
    add("folder", metavar="DIR", help="a new folder")
    add("--kind", default=KINDS[0], choices=(*KINDS, FLEET), help="what to make up (default light)")
    add("--records", type=int, default=100_000, metavar="N", help="records, five a verdict (default 100000)")
    add("--days", type=int, default=30, metavar="N", help="over so many days (default 30)")
    add("--seed", type=int, default=1, metavar="N", help="the same seed gives the same records (default 1)")
    add("--classes", type=int, default=1, metavar="N", help="host classes; of verdicts 2 at most, all checked on both")
    for name, default in OF_A_FLEET.items():
        add(f"--{name}", type=int, metavar="N", help=f"{name} of a fleet (default {default})")
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 made, 1 not written, 2 usage."""
    need("reports", "pyarrow", "numpy", "orjson")
    from proofcost.reports.parquet import CopyError
    from proofcost.reports.sole import BusyError

    folder = Path(args.folder)
    shown = inert_outside(args.folder, 200, True)
    console = Console(stderr=True)
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("making")
            make = _fleet if args.kind == FLEET else _verdicts
            said = make(args, folder, lambda done, total: progress.update(task, completed=done, total=total))
    except UsageError as error:
        print(f"proofcost: store synth: {error}", file=sys.stderr)
        return USAGE
    except BusyError:
        print(f"proofcost: store synth: {shown}: another call works on it; wait until it is done", file=sys.stderr)
        return FAILED
    except (OSError, CopyError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        cure = (
            "mend that, and the same call goes on from there"
            if args.kind == FLEET
            else "remove that folder and try again"
        )
        print(f"proofcost: store synth: {shown}: {why}; {cure}", file=sys.stderr)
        return FAILED
    print(f"{said} below {shown}")
    return DONE


def _verdicts(args: argparse.Namespace, folder: Path, tell: Tell) -> str:
    """What was made, in words. Raises UsageError, OSError, CopyError."""
    from proofcost.reports.plan.synth import Kind, Synth, make

    for name in OF_A_FLEET:
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: of a fleet alone; add --kind {FLEET}, or leave it out")
    for name, least, most in (
        ("records", 1, MOST_RECORDS), ("days", 1, MOST_DAYS), ("seed", 0, MOST_SEED), ("classes", 1, MOST_CLASSES)
    ):  # fmt: skip
        if not least <= getattr(args, name) <= most:
            raise UsageError(f"--{name} {getattr(args, name)}: out of range; give a number from {least} to {most}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{inert_outside(args.folder, 200, True)}: is there already, and not empty; name a new folder")
    files = make(folder, Synth(Kind(args.kind), args.records, args.days, args.seed, args.classes), tell)
    return f"{plural(args.records, 'record')} of an invented fleet ({args.kind}) in {plural(files, 'file')}"


def _fleet(args: argparse.Namespace, folder: Path, tell: Tell) -> str:
    """The same. Raises UsageError, BusyError, OSError."""
    from proofcost.reports.synth_fleet import Fleet, FleetError
    from proofcost.reports.synth_folder import make

    more = {
        name: default if getattr(args, name) is None else getattr(args, name) for name, default in OF_A_FLEET.items()
    }
    try:
        made = make(folder, Fleet(args.records, args.days, args.seed, args.classes, **more), tell)
    except FleetError as error:
        raise UsageError(str(error)) from None
    known = f", {made.known} of them there already," if made.known else ""
    files = plural(made.files + made.known, "file")
    return f"{plural(args.records, 'record')} of an invented fleet of {plural(more['hosts'], 'host')} in {files}{known}"
