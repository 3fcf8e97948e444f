"""The batch script of a Slurm job array: one array task a shard, each with a node of its own.

Directives hold numbers and checked words only: paths stand in the shell's part, quoted for it. Where the array's own
output would go is /dev/null, since Slurm reads patterns in that path; the script opens the file itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.options import Options

FILE = "slurm.sh"
_WORD = re.compile(r"[A-Za-z0-9_.,:+@=\-]{1,200}")
_CONSTRAINT = re.compile(r"[A-Za-z0-9_.,:+@=\-&|*()\[\]!]{1,200}")
"""What sbatch(1) has in `--constraint`; no space, quote or line end, which a directive could not hold."""


def check(options: Options) -> None:
    """Raises CampaignError."""
    for option, value, form in (
        ("--partition", options.partition, _WORD),
        ("--constraint", options.constraint, _CONSTRAINT),
    ):
        if value is not None and not form.fullmatch(value):
            raise CampaignError(f"{option} {value[:60]!r}: not as sbatch takes it; no blanks, quotes or line ends")


def array(numbers: Sequence[int], at_once: int | None) -> str:
    """`1-4,7%2` of shard numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return text if at_once is None else f"{text}%{at_once}"


def time_limit(time_ns: int) -> str:
    """Slurm's minutes, rounded up: it ends what takes longer."""
    return str(-(-time_ns // (60 * 10**9)))


def script(campaign: Campaign, folder: str, options: Options, python: str) -> str:
    """The text; `python`: the interpreter that has proofcost, on every node."""
    directives = [
        f"--job-name={campaign.name}",
        f"--array={array(range(1, len(campaign.shards) + 1), options.at_once)}",
        "--exclusive",
        "--nodes=1",
        "--ntasks=1",
        "--mem=0",  # all of an exclusive node's; otherwise Slurm gives it as much as its default says
        "--no-requeue",
        "--open-mode=append",
        "--output=/dev/null",
        "--chdir=/",
    ]
    if options.time_ns is not None:
        directives.append(f"--time={time_limit(options.time_ns)}")
    if options.partition is not None:
        directives.append(f"--partition={options.partition}")
    if options.constraint is not None:
        directives.append(f"--constraint={options.constraint}")
    told = shlex.quote(f"{folder}/told/")
    words = [python, "-P", "-m", "proofcost", "campaign", "run", folder]
    return "\n".join(
        (
            "#!/bin/sh",
            *(f"#SBATCH {one}" for one in directives),
            f'exec >>{told}"$SLURM_ARRAY_TASK_ID".out 2>&1 || exit 2',
            f'exec {shlex.join(words)} "$SLURM_ARRAY_TASK_ID" --node "$SLURMD_NODENAME" --job "$SLURM_ARRAY_JOB_ID"',
            "",
        )
    )
