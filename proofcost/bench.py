"""`proofcost bench`: run kernels on workloads in an order that can be believed; every run is an ordinary record.

    proofcost bench old=./nanoda-a new=./nanoda-b --on exports/
    proofcost bench SUITE.toml | calibration | growth | contention | aa

Exit: 0 done, 1 a verdict is not as it should be, 2 wrong call (nothing was run), 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack

from rich.console import Console

from proofcost import bench_cluster, bench_families, bench_reports
from proofcost.bench_asked import asked
from proofcost.bench_prepared import Prepared, check_memory, prepare, print_plan
from proofcost.bench_progress import Progress
from proofcost.bench_records import records_of
from proofcost.bench_suites import (
    call,
    conduct,
    counters,
    durations,
    homes,
    quiet,
    registry,
    scratch,
    sessions,
    suite,
)
from proofcost.bench_suites.expected import Expected
from proofcost.bench_suites.series import ORDERS, Series, Turn
from proofcost.bench_suites.sessions import Known
from proofcost.bench_suites.stopping import Interruptible, Stop
from proofcost.harness import policy, store
from proofcost.harness.described import DescriptionError
from proofcost.harness.record import Json, escape_text
from proofcost.output import settled
from proofcost.reports import bench_table
from proofcost.reports.units import plural
from proofcost.run import UsageError, chosen_store, parse_labels

DONE, FINDING, USAGE, INTERRUPTED = 0, 1, 2, 130
WRONG = (UsageError, DescriptionError, store.StoreError, sessions.BusyError)
"""What a wrong call, or a host that cannot do what is asked, ends in: one line."""
SAVED_MOST = 200
"""Longest name to save a series under, in characters."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command line of `bench`."""
    parser = subparsers.add_parser(
        "bench",
        help="run kernels on workloads: medians, spread, ratios, and records of every run",
        description="Run kernels on workloads, in an order and under limits that make the figures comparable.",
        usage="proofcost bench [OPTIONS] NAME=CMD... --on EXPORTS | proofcost bench [OPTIONS] SUITE [NAME=CMD...]",
        epilog=f"Shipped suites: {', '.join(suite.shipped())}. What a suite file holds: docs/bench.md.",
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="SUITE | NAME=CMD", help="a suite's file or name, or kernels (or both)")
    add("--on", action="append", default=[], metavar="EXPORTS", help="an export, a folder of them, or FAMILY:n")
    add("-r", "--repetitions", type=int, metavar="N", help="turns of each kernel on each workload (default 12)")
    add("--warmups", type=int, metavar="N", help="turns before that, which do not count (default 1)")
    add("--order", choices=ORDERS, help="order inside a block (default abba)")
    add("--seed", type=int, metavar="N", help="what the order is shuffled from (default 1)")
    add("--threads", type=int, action="append", metavar="N", help="threads of a kernel (default 1); may be repeated")
    add("--sandbox", choices=call.SANDBOXES, help="what every kernel runs in (default none)")
    add("--env", action="append", default=[], metavar="K=V", help="give kernels this variable (docs/bench.md)")
    add("--timeout", metavar="T", help="kill a run after T (90, 90s, 15m, 2h, none; default 1h)")
    add("--memory", metavar="M", help="limit a run's whole tree to M (512M, 8Gi; default: 90 %% of what is free)")
    add(
        "--counter",
        action="append",
        metavar="NAME",
        help=f"count by a tool: {', '.join(counters.COUNTERS)} (docs/bench.md)",
    )
    add("--aa", action="store_true", help="run the first kernel a second time under another name, in the same blocks")
    add("--depth", action="store_true", help="record the depth of an export's terms, too (looking is slower)")
    add("--save", metavar="NAME", help="keep the series under this name")
    add("--resume", action="store_true", help="go on where this series was interrupted")
    add("--shard", metavar="I/N", help="run part I of N of the plan")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="also write the chart: .svg, .pdf, .png (growth); the folder of --on-cluster",
    )
    add("--list-families", action="store_true", help="what exports can be generated, for what, and what is expected")
    add("--dry-run", action="store_true", help="print the plan and what it takes; run nothing")
    add("-l", "--label", action="append", default=[], metavar="K=V", help="label every record")
    add("--kernels", action="append", default=[], metavar="FILE", help="kernels of your own (see docs/bench.md)")
    add("--store", metavar="DIR", help="where records go (default: $PROOFCOST_STORE, else by user)")
    bench_cluster.add_options(parser)
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Run a bench. Returns the exit code."""
    if args.list_families:
        bench_families.render(Console())
        return DONE
    try:
        if bench_cluster.is_asked(args):
            from proofcost import campaign_new

            return campaign_new.submit(args)
        return bench(args)
    except WRONG as error:
        policy.say(f"bench: {error}")
        return USAGE


def bench(args: argparse.Namespace, plan_sha256: str | None = None) -> int:
    """Run what `args` ask for; `plan_sha256`: only where that is its plan. Returns the exit code. Raises `WRONG`."""
    known = registry.load(args.kernels, os.environ)
    wanted = asked(args, known)
    if args.output is not None and (wrong := bench_reports.wrong_output(args.output, wanted.settings.report)):
        raise UsageError(wrong)
    if args.save is not None and not 0 < len(args.save) <= SAVED_MOST:
        raise UsageError(f"--save {args.save[:40]!r}: give a name of 1 to {SAVED_MOST} characters")
    labels = parse_labels(args.label)
    place = chosen_store(args.store)
    store.check_place(place, [])
    with Interruptible(), ExitStack() as held:
        try:
            folder = held.enter_context(scratch.folder())
        except OSError as error:
            raise UsageError(f"no folder to work in: {error.strerror}; set TMPDIR") from None
        prepared = prepare(args, wanted, known, place, folder)
        if plan_sha256 is not None:
            check_plan(prepared.series, plan_sha256)
            check_memory(prepared.series.settings.limits, max(prepared.series.settings.co_running))
        if args.dry_run:
            print_plan(prepared)
            return DONE
        return _run(args, prepared, labels, folder)


def check_plan(made: Series, plan_sha256: str) -> None:
    """Raises UsageError for a plan that is another one than it was."""
    if made.sha256 != plan_sha256:
        raise UsageError(
            f"suite {made.settings.name}: its plan is {made.sha256[:16]} here and now, the campaign's is "
            f"{plan_sha256[:16]}: a kernel's file, an export or an option is another one; put it back, or begin a new "
            "campaign"
        )


def _run(args: argparse.Namespace, prepared: Prepared, labels: dict[str, Json], folder: str) -> int:
    if not prepared.turns:
        policy.say(f"bench: shard {prepared.shard} of this plan holds nothing; nothing to run")
        return DONE
    session = _session(args, prepared, labels)
    lock = sessions.Lock(prepared.place, session)
    try:
        records = records_of(prepared.place, session)
        node = labels.get(homes.NODE_LABEL)
        home = homes.here(prepared.place, node if isinstance(node, str) else None)
        left = homes.left(prepared.turns, records, home)
        part = sessions.last_part(records) + 1
        finished = not left or _conduct(prepared, left, session, part, labels, folder)
        records = records_of(prepared.place, session)
    finally:
        lock.close()
    missing = len(homes.left(prepared.turns, records, home))
    found = FINDING if missing or bench_table.is_finding(records) else DONE
    status = settled(found if finished else INTERRUPTED)
    bench_reports.show(prepared.series, prepared.place, records, args.output)
    if not finished:
        policy.say(f"bench: interrupted; what is done is kept (session {session}): the same call with --resume goes on")
        return status
    if missing:
        policy.say(f"bench: {plural(missing, 'turn')} could not be measured; the same call with --resume tries again")
    return status


def _session(args: argparse.Namespace, prepared: Prepared, labels: dict[str, Json]) -> str:
    """The session to work in: a new one, or the one to resume. Raises UsageError, StoreError."""
    known = list(sessions.benches(prepared.place)) if args.resume or args.save is not None else []
    if args.resume:
        same = [one for one in known if one.plan_sha256 == prepared.series.sha256 and one.shard == prepared.shard]
        if args.save is not None:
            same = [one for one in same if one.saved == escape_text(args.save)]
        if not same:
            raise UsageError(_nothing_to_resume(args, prepared, known))
        if same[0].saved is not None:
            labels[sessions.SAVED_LABEL] = same[0].saved
        return same[0].session
    if args.save is not None:
        taken = [one for one in known if one.saved == escape_text(args.save) and one.shard == prepared.shard]
        if taken:
            raise UsageError(
                f"--save {args.save!r}: that name is taken by session {taken[0].session}; choose another, or --resume"
            )
        labels[sessions.SAVED_LABEL] = escape_text(args.save)
    made = Known(
        session="",
        suite=prepared.series.settings.name,
        plan_sha256=prepared.series.sha256,
        shard=prepared.shard,
        saved=args.save,
        turns_count=len(prepared.turns),
    )
    return sessions.new(prepared.place, made, labels)


def _nothing_to_resume(args: argparse.Namespace, prepared: Prepared, known: Sequence[Known]) -> str:
    """Why there is nothing: none at all, or one whose plan has changed since."""
    name = args.save
    alike = [one for one in known if (one.saved == name if name else one.suite == prepared.series.settings.name)]
    if alike:
        return (
            f"--resume: session {alike[0].session} was of another plan: a kernel's file, an export, or an option has "
            "changed since, and old and new runs do not belong together; run it anew without --resume"
        )
    return f"--resume: no series of this plan in {prepared.place}; run it without --resume first"


def _conduct(
    prepared: Prepared, left: Sequence[Turn], session: str, part: int, labels: dict[str, Json], folder: str
) -> bool:
    """Run what is left. False when it was interrupted."""
    setting = conduct.Setting(
        store=prepared.place,
        session=session,
        part=part,
        shard=prepared.shard,
        labels=labels,
        scratch=folder,
        guard_bytes=prepared.guard_bytes,
    )
    for line in (*prepared.notes, *prepared.left_out):
        policy.say(f"bench: {line}")
    looking = quiet.Quiet()
    # Nobody looks at the time that is left where there is no terminal.
    expected = durations.known(prepared.place, left) if os.isatty(2) else Expected()
    progress = Progress(prepared.series.settings.limits, left, prepared.place, session, expected)
    with progress, Stop() as stop:
        conductor = conduct.Conductor(prepared.series, setting, progress, lambda turn: looking.look())
        return conductor.run(left, stop)
