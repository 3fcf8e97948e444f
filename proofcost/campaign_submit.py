"""Shards handed to a scheduler, by `bench --on-cluster` and by `campaign resume`; every submission is written down."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster import kubernetes_job, slurm, slurm_script
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError, Submission
from proofcost.bench_suites.cluster.options import KUBERNETES, SLURM, Options


def hand_over(
    folder: str,
    campaign: Campaign,
    options: Options,
    numbers: Sequence[int],
    nodes: Mapping[int, str],
    *,
    dry_run: bool = False,
) -> None:
    """Submit shards, each to the node that it began on where `nodes` has one, and write that down. Says what it does.

    Raises CampaignError; what was submitted until then is written down.
    """
    if options.on == SLURM:
        _to_slurm(folder, campaign, options, numbers, nodes, dry_run)
    elif options.on == KUBERNETES:
        _to_kubernetes(folder, campaign, options, numbers, dry_run)
    else:
        _to_dask(folder, campaign, options, numbers, nodes, dry_run)


def _noted(folder: str, campaign: Campaign, options: Options, job: str | None, numbers: Sequence[int]) -> Campaign:
    """The campaign with one submission more, as it is written down now."""
    made = Submission(time.time_ns(), options.on, job, tuple(numbers))
    written = replace(campaign, submissions=(*campaign.submissions, made))
    campaigns.write(folder, written)
    return written


def _to_slurm(
    folder: str, campaign: Campaign, options: Options, numbers: Sequence[int], nodes: Mapping[int, str], dry_run: bool
) -> None:
    path = slurm.script_of(folder)
    campaigns.replace_file(path, slurm_script.script(campaign, folder, options, sys.executable))
    if dry_run:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            print(file.read(), end="")
        print(f"not submitted: sbatch {shlex.quote(path)}")
        return
    for node, of in _by_node(numbers, nodes).items():
        job = slurm.submit(path, of, options.at_once, node)
        try:
            campaign = _noted(folder, campaign, options, job, of)
        except CampaignError:
            slurm.call("scancel", job)  # nobody would know of it
            raise
        print(f"submitted: Slurm job {job}, {_named(of)}{'' if node is None else f' on {node}, where they began'}")


def _to_kubernetes(folder: str, campaign: Campaign, options: Options, numbers: Sequence[int], dry_run: bool) -> None:
    import yaml

    number = len(campaign.submissions) + 1
    path = kubernetes_job.file_of(folder, number)
    text = yaml.safe_dump(
        kubernetes_job.manifest(campaign, folder, options, list(numbers), number), sort_keys=False, width=10**6
    )
    if dry_run:  # pods look for their submission, which is not written down: no file that could be applied
        print(text, end="")
        cure = f"proofcost campaign resume {shlex.quote(folder)}"
        print(f"# not submitted: {cure} writes it to {shlex.quote(path)}")
        return
    campaigns.replace_file(path, text)
    _noted(folder, campaign, options, f"{campaign.name}-{number}", numbers)
    print(f"submit it: {kubernetes_job.apply_line(path)}")


def _to_dask(
    folder: str, campaign: Campaign, options: Options, numbers: Sequence[int], nodes: Mapping[int, str], dry_run: bool
) -> None:
    from proofcost.bench_suites.cluster import dask_shards

    if dry_run:
        cure = f"proofcost campaign resume {shlex.quote(folder)}"
        print(f"not submitted: {_named(numbers)} to {options.scheduler}; {cure}")
        return
    # Written down first: a worker may begin at once.
    _noted(folder, campaign, options, options.scheduler, numbers)
    try:
        at = len(campaign.submissions) + 1
        for line in dask_shards.submit(options.scheduler or "", folder, campaign, at, numbers, nodes):
            print(line)
    except CampaignError:
        campaigns.write(folder, campaign)
        raise
    print(f"submitted: {_named(numbers)} to {options.scheduler}")


def _by_node(numbers: Sequence[int], nodes: Mapping[int, str]) -> dict[str | None, list[int]]:
    found: dict[str | None, list[int]] = {}
    for number in numbers:
        node = nodes.get(number)
        if node is not None and not slurm.is_usable(node):
            print(f"shard {number} began on {node}, which takes nothing now: it goes on elsewhere")
            node = None
        found.setdefault(node, []).append(number)
    return found


def _named(numbers: Sequence[int]) -> str:
    return f"shard{'s'[: len(numbers) != 1]} {slurm_script.array(numbers, None)}"
