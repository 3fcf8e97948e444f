"""`proofcost campaign`: a suite that `bench --on-cluster` handed to a scheduler, looked after until it is one data set.

    proofcost campaign status FOLDER
    proofcost campaign resume FOLDER
    proofcost campaign collect FOLDER [--partial]
    proofcost campaign run FOLDER SHARD      what the scheduler starts on each host; by hand on any host, too

Exit: 0 done, 1 something is missing or failed, 2 wrong call (nothing was done), 130 interrupted.
"""

from __future__ import annotations

import argparse

from proofcost.harness import policy, store


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command line of `campaign`."""
    parser = subparsers.add_parser(
        "campaign",
        help="a suite as shards on a cluster: status, resume, collect",
        description="What `bench SUITE --on-cluster ... -o FOLDER` has submitted (docs/campaigns.md).",
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, what in (
        ("status", "a line a shard: waiting, running, done, failed, never returned"),
        ("resume", "submit what is missing, and only that"),
        ("collect", "check every shard and put all into one data set, FOLDER/collected"),
        ("run", "run one shard here; what the scheduler starts on each host"),
    ):
        action = actions.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        action.add_argument("folder", metavar="FOLDER", help="the campaign's, shared by all hosts")
        if name == "resume":
            action.add_argument(
                "--shard", type=int, action="append", default=[], metavar="I", help="this one, even if it only waits"
            )
        elif name == "collect":
            action.add_argument("--partial", action="store_true", help="without the shards that are missing; says so")
        elif name == "run":
            _add_run(action)
    parser.set_defaults(run=main)


def _add_run(action: argparse.ArgumentParser) -> None:
    add = action.add_argument
    add("shard", type=int, nargs="?", metavar="SHARD", help="its number, from 1")
    add("--submission", type=int, metavar="S", help="of which submission, from 1")
    add("--index", type=int, metavar="I", help="its place in that submission, from 0, instead of its number")
    add("--node", metavar="NAME", help="what the scheduler calls this host (default: its name)")
    add("--job", metavar="ID", help="what the scheduler calls this")
    add("--cpus", type=int, metavar="N", help="so many CPUs should be ours: label records pinned=yes|no")
    add("--stay", action="store_true", help="refuse where it began on another host in the same submission")
    add("--parent", type=int, metavar="PID", help="end when this process does")


def main(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    from proofcost import campaign_run

    try:
        if args.action == "run":
            return campaign_run.run(args)
        folder = store.absolute(args.folder)
        if args.action == "status":
            from proofcost import campaign_status
            from proofcost.bench_suites.cluster import folder as campaigns

            return campaign_status.status(folder, campaigns.read(folder))
        if args.action == "resume":
            from proofcost import campaign_resume

            return campaign_resume.resume(folder, args.shard)
        from proofcost import campaign_collect

        return campaign_collect.collect(folder, args.partial)
    except campaign_run.WRONG as error:
        policy.say(f"campaign: {error}")
        return 2
