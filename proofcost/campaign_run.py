"""`campaign run`: what a scheduler starts on a node. It runs one shard to its end, and tells the folder how it went."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import time
from dataclasses import replace

from proofcost import bench
from proofcost.bench_records import runs_of
from proofcost.bench_suites import homes, sessions
from proofcost.bench_suites.cluster import done, lock, note, record_files
from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.note import Note
from proofcost.harness import host, libc, policy, store
from proofcost.harness.described import DescriptionError

LOCK_PATIENCE_S = 5.0
LOCK_STEP_S = 0.1
"""A runner that was just killed may hold its lock for a moment longer, on a file system of the network."""
CAMPAIGN_LABEL, PINNED_LABEL = "campaign", "pinned"
WRONG = (*bench.WRONG, CampaignError)


def run(args: argparse.Namespace) -> int:
    """Run a shard. Returns 0 when all of it is done, else the exit code of `bench`."""
    if args.parent is not None:
        with contextlib.suppress(OSError):  # a Python without libffi
            libc.die_with_parent(signal.SIGTERM)
        if os.getppid() != args.parent:
            raise CampaignError("whoever started this is gone: nothing was run")
    folder = store.absolute(args.folder)
    campaign = campaigns.read(folder)
    number = _number(args, campaign)
    node = args.node or os.uname().nodename
    path = campaigns.told(folder, number, "lock")
    end = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            with lock.held(path):
                return _run(args, folder, campaign, number, node)
        except lock.HeldError:
            if time.monotonic() > end:
                there = note.read(folder, number)
                who = f"on {there.node}" if there is not None else "elsewhere"
                raise CampaignError(
                    f"shard {number} is being run {who}, and that still writes to its store: not begun a second time"
                ) from None
            time.sleep(LOCK_STEP_S)


def _number(args: argparse.Namespace, campaign: Campaign) -> int:
    count = len(campaign.shards)
    shard: int | None = args.shard
    if args.index is None:
        if shard is None:
            raise CampaignError("which shard? Give its number, or --submission S --index I as a scheduler counts")
        if not 1 <= shard <= count:
            raise CampaignError(f"shard {shard}: this campaign has shards 1 to {count}")
        return shard
    submissions = campaign.submissions
    if args.submission is None or not 1 <= args.submission <= len(submissions):
        raise CampaignError(f"--submission {args.submission}: this campaign has {len(submissions)}, counted from 1")
    of: tuple[int, ...] = submissions[args.submission - 1].shards
    if not 0 <= args.index < len(of):
        raise CampaignError(f"--index {args.index}: submission {args.submission} has shards 0 to {len(of) - 1}")
    number: int = of[args.index]
    return number


def _run(args: argparse.Namespace, folder: str, campaign: Campaign, number: int, node: str) -> int:
    before = note.read(folder, number)
    if args.stay and before is not None and before.submission == args.submission and before.node != node:
        raise CampaignError(
            f"shard {number} began on {before.node}, this is {node}: `proofcost campaign resume` sends it back there"
        )
    mine = Note(number, args.submission, node, args.job, time.time_ns())
    note.write(folder, mine)
    status, why = bench.USAGE, "it failed in a way that nobody foresaw; its output tells"
    try:
        status, why = _bench(folder, campaign, number, node, args.cpus)
    except WRONG as error:
        why = str(error)
        policy.say(f"campaign: shard {number}: {why}")
    except KeyboardInterrupt:
        status, why = bench.INTERRUPTED, "interrupted"
    finally:
        # Taken first: what changes while they are counted makes another digest.
        files = record_files.digest(campaigns.shard_store(folder, number))
        runs = _runs_count(folder, campaign, number)
        whole = runs is not None and runs >= campaign.shards[number - 1].runs_count
        ended = replace(mine, ended_ns=time.time_ns(), status=status, why=why or None, runs_count=runs, files=files)
        note.write(folder, ended)
    return bench.DONE if whole else status


def _runs_count(folder: str, campaign: Campaign, number: int) -> int | None:
    """Of a shard's runs those that are done; None where its records cannot be read here."""
    try:
        return done.of_shard(campaign, number, runs_of(campaigns.shard_store(folder, number))).runs_count
    except DescriptionError:
        return None


def stand_in(campaign: Campaign, host: str = "this host") -> None:
    """Be where the campaign's paths are meant from, with the environment that it was made in. Raises CampaignError."""
    try:
        os.chdir(campaign.started_in)
    except OSError as error:
        raise CampaignError(
            f"{campaign.started_in}: {error.strerror} on {host}; the campaign's paths are meant from there"
        ) from None
    os.environ.update(campaign.environment)


def _bench(folder: str, campaign: Campaign, number: int, node: str, cpus: int | None) -> tuple[int, str]:
    """(exit code of `bench`, why it is none of 0). Raises `WRONG`."""
    place = campaigns.shard_store(folder, number)
    stand_in(campaign, node)
    store.check_place(place, [])
    _share_ids(folder, place)
    _check_host(place, campaign, number, node)
    args = bench_arguments(campaign)
    args.store, args.shard = place, f"{number}/{len(campaign.shards)}"
    args.label = [*args.label, f"{CAMPAIGN_LABEL}={campaign.id}", f"{homes.NODE_LABEL}={node}"]
    if cpus is not None:
        args.label.append(f"{PINNED_LABEL}={'yes' if _is_pinned(cpus) else 'no'}")
    args.resume = any(
        (one.plan_sha256, one.shard) == (campaign.plan_sha256, args.shard) for one in sessions.benches(place)
    )
    status = bench.bench(args, campaign.plan_sha256)
    if status == bench.INTERRUPTED:
        return status, "interrupted"
    return status, "" if status == bench.DONE else "a verdict or a turn is not as it should be: its table tells"


def _share_ids(folder: str, place: str) -> None:
    """A host is one in all shards: they take its id from the campaign's folder instead of each making one."""
    host.identity(folder)
    store.make_folder(f"{place}/hosts")
    with contextlib.suppress(OSError), os.scandir(f"{folder}/hosts") as entries:
        for entry in entries:
            if entry.name.endswith(".id") and not os.path.lexists(f"{place}/hosts/{entry.name}"):
                shutil.copyfile(entry.path, f"{place}/hosts/{entry.name}", follow_symlinks=False)


def _is_pinned(cpus: int) -> bool:
    """Whether we have just so many CPUs; says where not."""
    there = len(os.sched_getaffinity(0))
    if there != cpus:
        policy.say(
            f"campaign: may run on {there} CPUs, {cpus} were asked for: not pinned (the kubelet's cpuManagerPolicy is "
            f"not static); records are labelled {PINNED_LABEL}=no"
        )
    return there == cpus


def bench_arguments(campaign: Campaign) -> argparse.Namespace:
    """What `bench` is called with. Raises CampaignError for options that it does not have."""
    parser = argparse.ArgumentParser()
    bench.add_parser(parser.add_subparsers())
    args = parser.parse_args(["bench"])
    unknown = campaign.asked.keys() - vars(args).keys()
    if unknown:
        raise CampaignError(f"campaign.json: bench has no {', '.join(sorted(unknown))}; put it back as it was")
    vars(args).update(campaign.asked)
    return args


def _check_host(place: str, campaign: Campaign, number: int, node: str) -> None:
    """A shard goes on only on a host of the class that it began on. Raises CampaignError."""
    of = done.of_shard(campaign, number, runs_of(place))
    if of.foreign is not None:
        raise CampaignError(f"{place}: {of.foreign}; move it away")
    began = of.classes
    if not began:
        return
    now = host.identity(place)["class"]
    if began != {now}:
        raise CampaignError(
            f"shard {number} has runs of host class {', '.join(sorted(began))}, {node} is of class {now}: no report "
            "would pool them; resume it on a host of its class"
        )
