"""Options of `bench` that are about schedulers; what they come to stands in campaign_new.py, loaded only then."""

from __future__ import annotations

import argparse

from proofcost.bench_suites.cluster import options as cluster_options
from proofcost.run import UsageError

OPTIONS = ("shards", "at_once", "time", "partition", "constraint", "image", "claim", "cpus", "pod_memory", "namespace",
            "privileged", "scheduler")  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of `bench` that are about schedulers."""
    add = parser.add_argument_group("on a cluster (docs/campaigns.md)").add_argument
    add("--on-cluster", choices=cluster_options.KINDS, help="submit shards of the plan; -o FOLDER: shared by all hosts")
    add("--shards", type=int, metavar="N", help="how many (default: one a workload, a family's sizes together)")
    add("--at-once", type=int, metavar="M", help="so many of them at a time (default: as many as there are hosts)")
    add("--time", metavar="T", help="a shard's longest (default: the plan's worst case)")
    add("--partition", metavar="P", help="of Slurm's")
    add("--constraint", metavar="CLASS", help="hosts of one class: a feature (Slurm), KEY=VALUE[,...] (Kubernetes)")
    add("--scheduler", metavar="URL", help="Dask's: tcp://HOST:PORT")
    add("--image", metavar="NAME", help="of a pod: proofcost and the kernels")
    add("--claim", action="append", default=[], metavar="NAME=PATH", help="a volume's claim, and where pods mount it")
    add("--cpus", type=int, metavar="N", help="whole CPUs of a pod (default: what runs at a time, and one)")
    add("--pod-memory", metavar="M", help="memory of a pod")
    add("--namespace", metavar="NAME", help="of the Job")
    add("--privileged", action="store_true", help="privileged pods: where the suite limits memory, or for counters")


def is_asked(args: argparse.Namespace) -> bool:
    """Whether this is a call for a cluster. Raises UsageError for options that mean nothing without one."""
    if args.on_cluster is not None:
        return True
    given = [name for name in OPTIONS if getattr(args, name)]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} is for --on-cluster {'|'.join(cluster_options.KINDS)}")
    return False
