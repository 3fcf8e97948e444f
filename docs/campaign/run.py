#!/usr/bin/env python3
"""The whole campaign in one command, and the page made of its records.

    docs/campaign/run.py --exports DIR --store DIR [--out docs] [NAME=CMD ...]

Without NAME=CMD the kernels are those that these variables name: PROOFCOST_NANODA, PROOFCOST_SOKONANODA, and
PROOFCOST_NANODA_9557F24 and PROOFCOST_NANODA_68D5CA9 (nanoda at those two public commits). The first given is what the
others are compared with. landrun is found by PROOFCOST_LANDRUN or on PATH.

An interrupted campaign goes on with the same command. `--page` makes the page again from the records that are there;
`--quick` is a rehearsal (fewer repetitions, small sizes), whose figures are worth nothing.

Exit: 0 done, 1 done and a verdict is not as it should be, 2 wrong call, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
VARIABLES = {
    "nanoda": "PROOFCOST_NANODA",
    "sokonanoda": "PROOFCOST_SOKONANODA",
    "nanoda-9557f24": "PROOFCOST_NANODA_9557F24",
    "nanoda-68d5ca9": "PROOFCOST_NANODA_68D5CA9",
}
DONE, FINDING, USAGE = 0, 1, 2


@dataclass(frozen=True)
class Part:
    """One bench: what it is called in the store, and what stands behind `proofcost bench`."""

    name: str
    words: tuple[str, ...]

    @property
    def saved(self) -> str:
        return f"campaign-{self.name}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="docs/campaign/run.py", description=(__doc__ or "").split("\n\n")[0], epilog="More: the head of this file."
    )
    parser.add_argument("kernels", nargs="*", metavar="NAME=CMD", help="kernels (default: see the head of this file)")
    parser.add_argument("--exports", type=Path, help="folder of real exports (accept/, reject/ and larger ones)")
    parser.add_argument("--store", type=Path, required=True, help="where the records go; the same to go on")
    parser.add_argument("--out", type=Path, default=HERE.parent, help="where campaign.md and its pictures go")
    parser.add_argument("--sandbox", default="landrun", choices=("landrun", "bwrap", "none"))
    parser.add_argument("--quick", action="store_true", help="a rehearsal: some minutes, figures worth nothing")
    parser.add_argument("--page", action="store_true", help="make the page alone, from the records that are there")
    args = parser.parse_args()
    status = DONE
    if not args.page:
        kernels = args.kernels or from_variables()
        if len(kernels) < 1:
            return wrong(f"no kernel: give NAME=CMD, or set {', '.join(VARIABLES.values())}")
        if args.exports is None or not args.exports.is_dir():
            return wrong(f"--exports {args.exports}: no such folder; give the folder of the real exports")
        for part in parts(kernels, args.exports, args.sandbox, args.quick):
            ended = run(part, args.store)
            if ended not in (DONE, FINDING):
                return ended
            status = max(status, ended)
    made = make_page(args.store, args.out)
    return status if made == DONE else made


def wrong(what: str) -> int:
    print(f"campaign: {what}", file=sys.stderr)
    return USAGE


def from_variables() -> list[str]:
    found = [f"{name}={os.environ[variable]}" for name, variable in VARIABLES.items() if os.environ.get(variable)]
    for name, variable in VARIABLES.items():
        if not os.environ.get(variable):
            print(f"campaign: {name} is left out: {variable} is not set", file=sys.stderr)
    return found


def parts(kernels: list[str], exports: Path, sandbox: str, quick: bool) -> list[Part]:
    """In the order in which they run: the floor first, then what is short."""
    from proofcost.bench_suites.families import FAMILIES, REJECT

    twins = [f"{one.name}{end}:{one.small}" for one in FAMILIES for end in ("", REJECT)]
    sizes = [f"{one.name}:{n}" for one in FAMILIES[::9] for n in one.ladder[:4]]
    confined = ["--sandbox", sandbox]
    first = kernels[:1]
    found = [
        Part("calibration", ("calibration", *confined, *(["-r", "5"] if quick else []))),
        Part("aa", (str(HERE / "aa.toml"), *first, *confined, *(["-r", "4"] if quick else []))),
        Part("twins", (str(HERE / "twins.toml"), *kernels, *on(*twins), *confined)),
        Part("exports", (str(HERE / "exports.toml"), *kernels, *on(exports), *confined)),
        Part("growth", (str(HERE / "growth.toml"), *kernels, *confined)),
    ]
    if quick:
        found[3] = Part("exports", (*found[3].words, "-r", "2", "--warmups", "0"))
        found[4] = Part("growth", (*found[4].words, *on(*sizes), "-r", "1"))
    return found


def on(*specs: str | Path) -> list[str]:
    return [word for spec in specs for word in ("--on", str(spec))]


def run(part: Part, store: Path) -> int:
    """One part, or what is left of it. Returns the bench's exit code."""
    from proofcost.bench_suites import sessions

    begun = any(one.saved == part.saved for one in sessions.benches(str(store)))
    words = [*part.words, "--store", str(store), "--save", part.saved, *(["--resume"] if begun else [])]
    print(f"\n== {part.name} ==", flush=True)
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-m", "proofcost", "bench", *words], check=False).returncode
    print(f"== {part.name}: {time.monotonic() - began:.0f} s, exit {ended} ==", flush=True)
    return ended


def make_page(store: Path, out: Path) -> int:
    from proofcost.bench_suites import sessions
    from proofcost.reports import campaign, campaign_page

    newest = {one.saved: one.session for one in reversed(list(sessions.benches(str(store))))}
    found = {name: sessions.records_of(str(store), newest.get(f"campaign-{name}", "-")) for name in campaign.PARTS}
    if not any(found.values()):
        return wrong(f"no records of a campaign in {store}")
    document = campaign.document(found)
    for path in campaign_page.write(document, out):
        print(path)
    print(f"campaign: {document.answer}", file=sys.stderr)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
