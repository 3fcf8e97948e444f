"""`bench SUITE --on-cluster ...`: the plan as shards on a scheduler. It makes a campaign's folder and hands it over.

What becomes of it: `proofcost campaign` (docs/campaigns.md).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import time
from dataclasses import replace
from typing import Any

from proofcost import bench_cluster, campaign_submit
from proofcost.bench_asked import asked as bench_asked
from proofcost.bench_prepared import SANDBOX_VARIABLES, Prepared, prepare
from proofcost.bench_suites import registry, scratch
from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster import kubernetes_job, sharding, slurm, slurm_script
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.options import DASK, KUBERNETES, SLURM, Options
from proofcost.bench_suites.registry import Registry
from proofcost.bench_suites.series import Series
from proofcost.bench_suites.stopping import Interruptible
from proofcost.extras import need
from proofcost.harness import quantity, store
from proofcost.reports.units import plural
from proofcost.run import UsageError, parse_labels, parse_quantity

_OF = {
    "partition": (SLURM,),
    "constraint": (SLURM, KUBERNETES),
    "time": (SLURM, KUBERNETES),
    **dict.fromkeys(("image", "claim", "cpus", "pod_memory", "namespace", "privileged"), (KUBERNETES,)),
    "scheduler": (DASK,),
}
"""Options that only some schedulers have a use for."""
_NOT_KEPT = {
    "run",
    "name",
    "store",
    "shard",
    "resume",
    "output",
    "dry_run",
    "list_families",
    "on_cluster",
    *bench_cluster.OPTIONS,
}


def submit(args: argparse.Namespace) -> int:
    """Make the campaign's folder and hand its shards over. Returns the exit code.

    Raises UsageError, DescriptionError, StoreError; nothing of it is left then.
    """
    if args.on_cluster == DASK:
        need("fleet", "distributed")
    try:
        return _submit(args)
    except CampaignError as error:
        raise UsageError(str(error)) from None


def _submit(args: argparse.Namespace) -> int:
    for name in ("store", "shard"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: every shard has its own below -o FOLDER; leave it out")
    if args.resume:
        raise UsageError("--resume: proofcost campaign resume FOLDER submits what is missing")
    if args.output is None:
        raise UsageError(
            f"--on-cluster {args.on_cluster}: where? Give -o FOLDER, on a file system that all hosts share"
        )
    if not args.output:
        raise UsageError("-o '': names no folder; give one on a file system that all hosts share")
    folder = store.absolute(args.output)
    above = os.path.dirname(folder)
    while True:
        if campaigns.exists(above):
            raise UsageError(f"-o {folder}: lies in the folder of another campaign, {above}; give one outside of it")
        if above == os.path.dirname(above):
            break
        above = os.path.dirname(above)
    if campaigns.exists(folder):
        there = campaigns.read(folder)
        raise UsageError(
            f"-o {folder}: campaign {there.id} (suite {there.suite}) is there; proofcost campaign status|resume "
            "goes on with it, another one needs a folder of its own"
        )
    given = _options(args, folder)
    known = registry.load(args.kernels, os.environ)
    parse_labels(args.label)
    if not args.dry_run:
        if args.on_cluster == SLURM:
            slurm.found("sbatch")
        elif args.on_cluster == DASK:
            from proofcost.bench_suites.cluster import dask_shards

            dask_shards.check(given.scheduler or "")
    series = plan(args, known)
    count = sharding.parts_count(series) if args.shards is None else args.shards
    shards = sharding.shards(series, count)
    options = _completed(given, series, count, folder)
    campaign = Campaign(
        id=os.urandom(4).hex(),
        suite=series.settings.name,
        plan_sha256=series.sha256,
        made_ns=time.time_ns(),
        asked={name: value for name, value in vars(args).items() if name not in _NOT_KEPT},
        started_in=os.getcwd(),
        environment=_environment(known),
        options=options.as_json(),
        shards=shards,
    )
    new = not os.path.isdir(folder)
    campaigns.make(folder)
    try:
        campaigns.write(folder, campaign)
        numbers = range(1, count + 1)
        campaign_submit.hand_over(folder, campaign, options, numbers, {}, dry_run=args.dry_run)
    except BaseException:
        _take_away(folder, new)
        raise
    if args.on_cluster == SLURM and options.time_ns is None:
        print("no time limit: the suite has none; the partition's own holds (--time T)")
    print(
        f"campaign {campaign.id}: {plural(count, 'shard')} of plan {series.sha256[:16]}, "
        f"{plural(sum(one.turns_count for one in shards), 'turn')}; proofcost campaign status {shlex.quote(folder)}"
    )
    return 0


def plan(args: argparse.Namespace, known: Registry) -> Series:
    """The plan, as every shard will make it. Raises UsageError, DescriptionError."""
    with Interruptible():
        try:
            with scratch.folder() as held:
                prepared: Prepared = prepare(args, bench_asked(args, known), known, None, held, runs_here=False)
        except OSError as error:
            raise UsageError(f"no folder to work in: {error.strerror}; set TMPDIR") from None
    return prepared.series


def _options(args: argparse.Namespace, folder: str) -> Options:
    """What is asked of the scheduler, checked as far as it can be before there is a plan. Raises UsageError."""
    for name, kinds in _OF.items():
        if getattr(args, name) and args.on_cluster not in kinds:
            raise UsageError(f"--{name.replace('_', '-')}: of no use with --on-cluster {args.on_cluster}; leave it out")
    for name, least in (("shards", 1), ("at_once", 1), ("cpus", 1)):
        value = getattr(args, name)
        if value is not None and not least <= value <= campaigns.SHARDS_MAX:
            raise UsageError(f"--{name.replace('_', '-')} {value}: a number from {least} to {campaigns.SHARDS_MAX}")
    if args.on_cluster == DASK and not args.scheduler:
        raise UsageError("--on-cluster dask: which scheduler? Give --scheduler tcp://HOST:PORT")
    made = Options(
        on=args.on_cluster,
        time_ns=None if args.time is None else parse_quantity(args.time, quantity.TIME_UNITS, "--time", "write 12h"),
        at_once=args.at_once,
        partition=args.partition,
        constraint=args.constraint,
        image=args.image,
        claims=tuple(args.claim),
        cpus=args.cpus,
        pod_memory_bytes=None
        if args.pod_memory is None
        else parse_quantity(args.pod_memory, quantity.BYTE_UNITS, "--pod-memory", "write 16Gi"),
        namespace=args.namespace,
        privileged=args.privileged,
        user=os.geteuid(),
        group=os.getegid(),
        scheduler=args.scheduler,
    )
    if made.on == SLURM:
        slurm_script.check(made)
    return made


def _completed(options: Options, series: Series, count: int, folder: str) -> Options:
    """With what follows from the plan. Raises CampaignError."""
    if options.time_ns is None and options.on != DASK:
        options = replace(options, time_ns=sharding.longest_ns(series, count))
    if options.on != KUBERNETES:
        return options
    settings = series.settings
    at_once = max(settings.co_running)
    needed = max(settings.threads) * at_once + 1
    kubernetes_job.check(options, folder, needed, settings.limits.memory_bytes, at_once)
    return replace(options, cpus=options.cpus or needed)


def _environment(known: Registry) -> dict[str, str]:
    """What kernels and sandboxes are found by: the same on every host, or the plan is another one."""
    names = {"PATH", "PROOFCOST_KERNELS", *(one for of in SANDBOX_VARIABLES.values() for one in of)}
    names |= {entry.variable for entry in known.values() if entry.variable}
    found: dict[str, Any] = {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}
    if "PROOFCOST_KERNELS" in found:
        found["PROOFCOST_KERNELS"] = os.path.abspath(found["PROOFCOST_KERNELS"])
    return found


def _take_away(folder: str, new: bool) -> None:
    """What a submission that was refused has written."""
    for path in (f"{folder}/{campaigns.FILE}", slurm.script_of(folder), kubernetes_job.file_of(folder, 1)):
        with contextlib.suppress(OSError):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(f"{folder}/told")
        if new:
            os.rmdir(folder)
