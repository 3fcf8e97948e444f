"""`campaign resume`: submit what is missing, and only that; each shard to the host it began on, where that is up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

from proofcost import bench, campaign_new, campaign_submit
from proofcost.bench_suites import registry
from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster import lock, options
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.options import DASK, SLURM
from proofcost.bench_suites.cluster.states import Seen, State
from proofcost.campaign_run import bench_arguments, stand_in
from proofcost.campaign_status import Row, ask, look, tell_damaged, tell_unasked
from proofcost.extras import need


def resume(folder: str, only: Sequence[int]) -> int:
    """Returns the exit code. `only`: these shards, whatever is known of them. Raises CampaignError, `bench.WRONG`."""
    with held(folder):
        campaign = campaigns.read(folder)
        asked = options.from_json(campaign.options)
        if asked.on == DASK:
            need("fleet", "distributed")
        said, unasked = ask(folder, campaign)
        rows = look(folder, campaign, said)
        wanted = [row for row in rows if _is_wanted(row, only)]
        for number in only:
            if number not in [row.number for row in wanted]:
                raise CampaignError(f"--shard {number}: it is done, at work, or none of this campaign's {len(rows)}")
        if unasked is not None and wanted:
            # Whoever cannot be asked takes nothing either, and may have at work what is missing here.
            raise CampaignError(unasked)
        tell_unasked(unasked)
        if not wanted:
            at_work = sum(row.state in (State.RUNNING, State.WAITING) for row in rows)
            print(
                f"nothing to resume: {sum(row.state is State.DONE for row in rows)} done, {at_work} at work or waiting"
            )
            return 0
        tell_damaged(wanted)
        check_plan(campaign)
        nodes = {row.number: row.note.node for row in wanted if row.note is not None and row.runs_count}
        campaign_submit.hand_over(
            folder, campaign, asked, [row.number for row in wanted], nodes if asked.on in (SLURM, DASK) else {}
        )
        return 0


def held(folder: str) -> AbstractContextManager[None]:
    """The campaign's own lock, for whoever submits or collects. Raises CampaignError."""
    campaigns.read(folder)
    return lock.only_one(f"{folder}/lock", f"{folder}: another resume or collect works on this campaign; wait for it")


def _is_wanted(row: Row, only: Sequence[int]) -> bool:
    if not only:
        return row.state.is_missing
    return row.number in only and row.state not in (State.DONE, State.RUNNING) and row.said.seen is not Seen.WAITING


def check_plan(campaign: Campaign) -> None:
    """Raises UsageError where the suite's plan is not the campaign's any more."""
    stand_in(campaign)
    args = bench_arguments(campaign)
    bench.check_plan(campaign_new.plan(args, registry.load(args.kernels, os.environ)), campaign.plan_sha256)
