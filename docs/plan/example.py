#!/usr/bin/env python3
"""Makes the examples of docs/plan.md anew, by running the commands that stand there: docs/plan/example.py."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "plan.md"
SHOWN = ("The limit that each target needs", "The fleet", "The same question, one thing different")
"""Tables of the example, by their titles; of the first kind the first two."""
KINDS = ("light", "heavy", "bimodal", "drifting")


def proofcost(*words: str, folder: Path) -> str:
    """What a call prints; a broken promise is no fault here."""
    command = [sys.executable, "-m", "proofcost", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode not in (0, 1) or done.stderr:
        raise SystemExit(done.stderr or f"exit {done.returncode}")
    return done.stdout


def table(lines: list[str], title: str, nth: int = 0) -> list[str]:
    """The nth table of this title, to the blank line or note below it."""
    at = [number for number, line in enumerate(lines) if line == title][nth]
    end = at + 1
    while end < len(lines) and lines[end] and not lines[end].startswith(("intervals:", "[", "Each phase", "How often")):
        end += 1
    return lines[at:end]


def put(page: str, name: str, text: str) -> str:
    """The page with `text` in a block below its mark, in the place of what stood there."""
    mark = f"<!-- {name} -->\n"
    before, after = page.split(mark)
    if after.startswith("```\n"):
        after = after[4:].split("```\n", 1)[1]
    return f"{before}{mark}```\n{text}\n```\n{after}"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        proofcost("store", "synth", "fleet", "--kind", "heavy", "--records", "50000", folder=folder)
        lines = proofcost("plan", str(HERE / "PLAN.toml"), "--data", "fleet", folder=folder).splitlines()
        page = put(page, "answer", lines[1].replace("; ", ";\n"))
        shown = ["Memory", *table(lines, SHOWN[0]), "", "Time", *table(lines, SHOWN[0], 1), ""]
        shown += [*table(lines, SHOWN[1]), "", *table(lines, SHOWN[2])]
        page = put(page, "tables", "\n".join(line.rstrip() for line in shown))
        tested = []
        for kind in KINDS:
            proofcost("store", "synth", kind, "--kind", kind, "--records", "20000", "--days", "4", folder=folder)
            words = ("--data", kind, "--backtest", "--host", "2c/64G", "--trace", "--wait", "p95=30s", "--oom", "2%")
            found = proofcost("plan", *words, folder=folder).splitlines()
            tested += [f"{kind}: {found[1]}", *table(found, "Promised and realised")[1:], ""]
        page = put(page, "backtest", "\n".join(tested).rstrip())
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
