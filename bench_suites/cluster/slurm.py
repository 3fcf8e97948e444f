"""Slurm's own commands: hand over a job array, ask how it stands. What Slurm refuses is passed on in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from proofcost.bench_suites.cluster import slurm_script
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.states import Said, Seen

PATIENCE_S = 120
"""Slurm's own patience with a controller that does not answer is shorter (MessageTimeout)."""
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
RUNNING = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "STOPPED", "SIGNALING", "RESIZING")
_NO_NODE = ("down", "drain", "fail", "unknown", "future", "maint", "reboot", "inval", "*")
"""States of a node that takes nothing, or does not answer (`*`)."""


def found(name: str) -> str:
    """The path of a command of Slurm. Raises CampaignError."""
    program = shutil.which(name)
    if program is None:
        raise CampaignError(f"{name} is not on PATH: submit where Slurm's commands are, or use another --on-cluster")
    return program


def call(*words: str) -> str:
    """What a command of Slurm prints. Raises CampaignError."""
    program = found(words[0])
    try:
        done = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CampaignError(f"{words[0]} did not answer for {PATIENCE_S} s; is the controller up?") from None
    except OSError as error:
        raise CampaignError(f"{program}: {error.strerror}; Slurm's commands cannot be started") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        said = "; ".join(dict.fromkeys(lines)) or f"exit status {done.returncode}, and nothing said"
        raise CampaignError(f"Slurm refuses: {said[:400]}")
    return done.stdout.decode("utf-8", "replace")


def submit(script: str, shards: Sequence[int], at_once: int | None, node: str | None) -> str:
    """Submit an array of these shards, on that node where one is named. Returns the job's id."""
    words = ["sbatch", "--parsable", f"--array={slurm_script.array(shards, at_once)}"]
    words += [] if node is None else [f"--nodelist={node}"]
    return call(*words, script).strip().partition(";")[0]


def look(campaign: Campaign) -> dict[int, Said]:
    """{shard: what Slurm says}; one that it does not name is gone. Raises CampaignError where it cannot be asked.

    By the job's name, which is the campaign's own: it finds what was submitted by hand, too, and Slurm does not mind
    when nothing is there any more.
    """
    text = call("squeue", "-h", "-r", "-a", "-t", "all", f"--name={campaign.name}", "-o", "%F|%K|%T|%N|%r")
    newest: dict[int, tuple[int, Said]] = {}
    for line in text.splitlines():
        job, index, state, node, reason = [*line.split("|"), "", "", "", ""][:5]
        if not (job.isdigit() and index.isdigit()):
            continue
        if state in RUNNING:
            said = Said(Seen.RUNNING, "", node or None)
        elif state in WAITING:
            said = Said(Seen.WAITING, reason)
        else:
            said = Said(Seen.GONE, f"Slurm says {state}", node or None, final=state not in ("COMPLETED", "FAILED"))
        # An older job may still be known beside the one that went on with its shard.
        if int(index) not in newest or newest[int(index)][0] <= int(job):
            newest[int(index)] = (int(job), said)
    gone = Said(Seen.GONE, "Slurm knows nothing of it any more")
    return {number: newest.get(number, (0, gone))[1] for number in range(1, len(campaign.shards) + 1)}


def is_usable(node: str) -> bool:
    """Whether a node is there and takes jobs."""
    try:
        states = call("sinfo", "-h", "-N", "-n", node, "-o", "%T").split()
    except CampaignError:
        return False
    return bool(states) and not any(word in state for state in states for word in _NO_NODE)


def script_of(folder: str) -> str:
    return os.path.join(folder, slurm_script.FILE)
