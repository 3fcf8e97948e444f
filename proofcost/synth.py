"""`proofcost store synth DIR`: an invented fleet as ordinary records, to try planning on where the truth is known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from proofcost.extras import need
from proofcost.output import DONE, FAILED
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural
from proofcost.show import USAGE, UsageError

KINDS = ("light", "heavy", "bimodal", "drifting")
MOST_RECORDS, MOST_DAYS, MOST_SEED = 10**10, 3650, (1 << 63) - 1


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `synth` to `store`."""
    parser = actions.add_parser(
        "synth",
        help="make up a fleet's records, to try plans on",
        description="Make up a fleet's records, seeded: light tail, heavy tail, two kinds of submission, or drifting.",
    )
    add = parser.add_argument
    add("folder", metavar="DIR", help="a new folder")
    add("--kind", default=KINDS[0], choices=KINDS, help="what the times and peaks are like (default light)")
    add("--records", type=int, default=100_000, metavar="N", help="records, five a verdict (default 100000)")
    add("--days", type=int, default=30, metavar="N", help="over so many days (default 30)")
    add("--seed", type=int, default=1, metavar="N", help="the same seed gives the same records (default 1)")
    add("--classes", type=int, default=1, choices=(1, 2), help="host classes; with 2 all is checked on both")
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Exit status: 0 made, 1 not written, 2 usage."""
    need("reports", "pyarrow", "numpy", "orjson")
    from proofcost.reports.parquet import CopyError
    from proofcost.reports.plan.synth import Kind, Synth, make

    folder = Path(args.folder)
    shown = inert_outside(args.folder, 200, True)
    try:
        for name, value, least, most in (
            ("records", args.records, 1, MOST_RECORDS),
            ("days", args.days, 1, MOST_DAYS),
            ("seed", args.seed, 0, MOST_SEED),
        ):
            if not least <= value <= most:
                raise UsageError(f"--{name} {value}: out of range; give a number from {least} to {most}")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{shown}: is there already, and not empty; name a new folder")
        asked = Synth(Kind(args.kind), args.records, args.days, args.seed, args.classes)
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("making")
            files = make(folder, asked, lambda done, total: progress.update(task, completed=done, total=total))
    except UsageError as error:
        print(f"proofcost: store synth: {error}", file=sys.stderr)
        return USAGE
    except (OSError, CopyError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        print(f"proofcost: store synth: {shown}: {why}; remove that folder and try again", file=sys.stderr)
        return FAILED
    print(
        f"{plural(args.records, 'record')} of an invented fleet ({args.kind}) in {plural(files, 'file')} below {shown}"
    )
    return DONE
