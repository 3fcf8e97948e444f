"""`proofcost bench`: run kernels on workloads in an order that can be believed; every run is an ordinary record.

    proofcost bench old=./nanoda-a new=./nanoda-b --on exports/
    proofcost bench SUITE.toml | calibration | growth | contention | aa

Exit: 0 done, 1 a verdict is not as it should be, 2 wrong call (nothing was run), 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proofcost import bench_reports
from proofcost.bench_progress import Progress
from proofcost.bench_suites import (
    call,
    conduct,
    counters,
    described,
    durations,
    quiet,
    registry,
    series,
    sessions,
    suite,
    work,
)
from proofcost.bench_suites import kernel as kernels
from proofcost.bench_suites.described import DescriptionError
from proofcost.bench_suites.expected import Expected, Left, said
from proofcost.bench_suites.kernel import Kernel
from proofcost.bench_suites.registry import Registry
from proofcost.bench_suites.series import ABBA, ORDERS, RANDOM, Limits, Series, Turn
from proofcost.bench_suites.sessions import Known
from proofcost.bench_suites.stopping import Stop
from proofcost.bench_suites.suite import Suite
from proofcost.harness import cgroup, hierarchy, policy, quantity, store
from proofcost.harness.merged import Record
from proofcost.harness.record import Json, escape_text
from proofcost.reports import bench_table
from proofcost.reports.units import human, plural
from proofcost.run import UsageError, chosen_store, parse_labels, parse_quantity

DONE, FINDING, USAGE, INTERRUPTED = 0, 1, 2, 130
GUARD_SHARE = 0.9
"""Of the memory that is there now: a kernel's limit where none is set, so that it cannot take the host down."""
_SANDBOX_VARIABLES = {
    call.LANDRUN: ("PROOFCOST_LANDRUN", "COMPARATOR_LANDRUN"),
    call.BWRAP: ("PROOFCOST_BWRAP", "COMPARATOR_BWRAP"),
}


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
    add("--timeout", metavar="T", help="kill a run after T (90, 90s, 15m, 2h, none; default 1h)")
    add("--memory", metavar="M", help="limit a run's whole tree to M (512M, 8Gi; default: 90 %% of what is free)")
    add(
        "--counter",
        action="append",
        metavar="NAME",
        help=f"count by a tool: {', '.join(counters.COUNTERS)} (docs/bench.md)",
    )
    add("--aa", action="store_true", help="run the first kernel a second time under another name, in the same blocks")
    add("--save", metavar="NAME", help="keep the series under this name")
    add("--resume", action="store_true", help="go on where this series was interrupted")
    add("--shard", metavar="I/N", help="run part I of N of the plan")
    add("-o", "--output", metavar="FILE", help="also write the chart: .svg, .pdf, .png (growth)")
    add("--dry-run", action="store_true", help="print the plan and what it takes; run nothing")
    add("-l", "--label", action="append", default=[], metavar="K=V", help="label every record")
    add("--kernels", action="append", default=[], metavar="FILE", help="kernels of your own (see docs/bench.md)")
    add("--store", metavar="DIR", help="where records go (default: $PROOFCOST_STORE, else by user)")
    parser.set_defaults(run=main)


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that is known before anything runs."""

    series: Series
    turns: tuple[Turn, ...]
    shard: str | None
    place: str
    left_out: tuple[str, ...]
    guard_bytes: int | None
    notes: tuple[str, ...]


def main(args: argparse.Namespace) -> int:
    """Run a bench. Returns the exit code."""
    try:
        return _bench(args)
    except (UsageError, DescriptionError, store.StoreError, sessions.BusyError) as error:
        policy.say(f"bench: {error}")
        return USAGE


def _bench(args: argparse.Namespace) -> int:
    known = registry.load(args.kernels, os.environ)
    asked = _asked(args, known)
    if args.output is not None and (wrong := bench_reports.wrong_output(args.output, asked.settings.report)):
        raise UsageError(wrong)
    labels = parse_labels(args.label)
    place = chosen_store(args.store)
    store.check_place(place, [])
    scratch = tempfile.mkdtemp(prefix="proofcost-bench-")
    try:
        prepared = _prepare(args, asked, known, place, scratch)
        if args.dry_run:
            _print_plan(prepared)
            return DONE
        return _run(args, prepared, labels, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# What was asked for.


def _asked(args: argparse.Namespace, known: Registry) -> Suite:
    """The suite: from its file, from the command line, or the first changed by the second."""
    named = [word for word in args.words if "=" not in word]
    given = [word for word in args.words if "=" in word]
    if len(named) > 1:
        shown = ", ".join(map(repr, named))
        raise UsageError(f"{shown}: more than one suite; a kernel is given as NAME=CMD")
    if not named and not given:
        raise UsageError(f"what is to run? Give NAME=CMD... --on EXPORTS, or a suite ({', '.join(suite.shipped())})")
    kernels_given = tuple(kernels.from_command(*_split(word), known) for word in given)
    for at, kernel in enumerate(kernels_given):
        if kernel.name in [other.name for other in kernels_given[:at]]:
            raise UsageError(f"{given[at]!r}: the name {kernel.name} is there twice; give each kernel its own")
    if named:
        found = suite.read(suite.file_of(named[0]), known, os.environ)
        if kernels_given:
            controls = tuple(one for one in found.kernels if one.control)
            found = replace(found, kernels=(*kernels_given, *controls), installed=False)
        if args.on:
            found = replace(found, specs=tuple(args.on), expected={})
    else:
        if not args.on:
            raise UsageError(f"{given[0]!r}: on what? Give --on EXPORTS (an export, a folder of them, FAMILY:n)")
        settings = series.Settings(name="+".join(one.name for one in kernels_given), limits=suite.DEFAULT_LIMITS)
        found = Suite(settings, kernels_given, tuple(args.on))
    return _changed(args, found)


def _split(word: str) -> tuple[str, str]:
    name, _, command = word.partition("=")
    return name, command


def _changed(args: argparse.Namespace, found: Suite) -> Suite:
    """The suite with the command line's options laid over it."""
    settings = found.settings
    ranges = {"repetitions": (1, suite.REPETITIONS_MAX), "warmups": (0, 1000), "seed": (0, suite.SEED_MAX)}
    for name, (least, most) in ranges.items():
        value = getattr(args, name)
        if value is not None:
            if not least <= value <= most:
                raise UsageError(f"--{name} {value}: out of range; give a number from {least} to {most}")
            settings = replace(settings, **{name: value})
    if args.threads is not None:
        for threads in args.threads:
            if not 1 <= threads <= suite.THREADS_MAX:
                raise UsageError(f"--threads {threads}: out of range; give a number from 1 to {suite.THREADS_MAX}")
        settings = replace(settings, threads=tuple(dict.fromkeys(args.threads)))
    if args.counter is not None:
        for name in args.counter:
            if name not in counters.COUNTERS:
                raise UsageError(f"--counter {name!r}: no such counter{described.suggestion(name, counters.COUNTERS)}")
        settings = replace(settings, counters=tuple(dict.fromkeys(args.counter)))
        # A count repeats: so many runs tell its spread, and none is needed to warm anything up.
        settings = replace(
            settings,
            repetitions=settings.repetitions if args.repetitions else counters.RUNS + (args.order == ABBA),
            warmups=settings.warmups if args.warmups is not None else 0,
        )
    if args.order is not None:
        settings = replace(settings, order=args.order)
    if settings.order == ABBA and settings.repetitions % 2:
        if args.order == ABBA:
            raise UsageError(
                f"--repetitions {settings.repetitions}: odd, and a block of --order abba has two turns of each kernel; "
                "give an even number, or --order random"
            )
        settings = replace(settings, order=RANDOM)
    if args.sandbox is not None:
        settings = replace(settings, sandbox=call.Sandbox(args.sandbox))
    settings = replace(settings, limits=_limits(args, settings.limits))
    return replace(found, settings=settings, aa=found.aa or args.aa)


def _limits(args: argparse.Namespace, limits: Limits) -> Limits:
    if args.timeout == "none":
        limits = replace(limits, wall_ns=None)
    elif args.timeout is not None:
        wall = parse_quantity(args.timeout, quantity.TIME_UNITS, "--timeout", "write for example --timeout 15m")
        limits = replace(limits, wall_ns=wall)
    if args.memory is not None:
        memory = parse_quantity(args.memory, quantity.BYTE_UNITS, "--memory", "write for example --memory 8G")
        limits = replace(limits, memory_bytes=memory)
    return limits


# What is there.


def _prepare(args: argparse.Namespace, asked: Suite, known: Registry, place: str, scratch: str) -> Prepared:
    notes: list[str] = []
    asked_kernels = asked.kernels
    if asked.installed:
        more, missing = _installed(known, {one.name for one in asked_kernels})
        asked_kernels = (*more, *asked_kernels)
        notes += [f"left out: {line}" for line in missing]
    if asked.aa:
        asked_kernels = suite.with_twin(asked_kernels)
    if not asked_kernels:
        raise UsageError(f"suite {asked.settings.name}: no kernel; list one under [[kernel]], or give NAME=CMD")
    wrong = counters.refusal(asked.settings.counters, asked.settings.threads, asked.settings.sandbox.kind)
    if wrong is not None:
        raise UsageError(wrong)
    settings = replace(asked.settings, sandbox=_sandbox(asked.settings.sandbox.kind))
    found = tuple(kernels.found(one, f"{place}/digests") for one in asked_kernels)
    if not asked.specs:
        raise UsageError(f"suite {settings.name}: no workload; list one under [[workload]], or give --on EXPORTS")
    works = work.prepare(asked.specs, scratch, asked.expected)
    made = series.make(settings, found, works.works)
    shard, turns = _shard(args.shard, made)
    guard, why = _guard(settings.limits)
    if why is not None:
        notes.append(why)
    return Prepared(made, turns, shard, place, works.left_out, guard, tuple(notes))


def _installed(known: Registry, already: set[str]) -> tuple[list[Kernel], list[str]]:
    found, missing = [], []
    for name, entry in known.items():
        if entry.control or name in already:
            continue
        if entry.command or entry.find_program(os.environ):
            found.append(kernels.named(name, known, os.environ))
        else:
            missing.append(name)
    return found, [f"kernels that are not installed: {', '.join(missing)}"] if missing else []


def _sandbox(kind: str) -> call.Sandbox:
    if kind == call.NONE:
        return call.Sandbox()
    variables = _SANDBOX_VARIABLES[kind]
    named = next((os.environ[name] for name in variables if os.environ.get(name)), kind)
    program = shutil.which(named)
    if program is None:
        raise UsageError(f"sandbox {kind}: {named} is not found; install it, name it by {variables[0]}, or use none")
    return call.Sandbox(kind, os.path.abspath(program))


def _shard(text: str | None, made: Series) -> tuple[str | None, tuple[Turn, ...]]:
    if text is None:
        return None, made.turns
    number, _, count = text.partition("/")
    if not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
        raise UsageError(f"--shard {text!r}: not of the form I/N; write for example --shard 2/8")
    if not 1 <= int(number) <= int(count) <= 10**6:
        raise UsageError(f"--shard {text!r}: I goes from 1 to N; write for example --shard 2/8")
    return f"{int(number)}/{int(count)}", made.shard(int(number), int(count))


def _guard(limits: Limits) -> tuple[int | None, str | None]:
    """A memory limit where none is set, and what is to be said. Raises UsageError for one that cannot be enforced."""
    why = _memory_refused(limits.memory_bytes or 1 << 30)
    if limits.memory_bytes is not None:
        if why is not None:
            raise UsageError(f"a memory limit cannot be enforced here: {why}; run as root or in a delegated cgroup")
        return None, None
    available = quiet.memory_available_bytes()
    if why is not None or available is None:
        return None, f"no memory limit: it cannot be enforced here ({why or 'free memory is not known'})"
    return int(available * GUARD_SHARE), None


def _memory_refused(limit: int) -> str | None:
    """Why a cgroup with a memory limit cannot be made here; None when it can. Leaves nothing behind."""
    own = hierarchy.find_own()
    inside = hierarchy.session_dirs(own)
    bases = {name: inside.get(name) or hierarchy.base_for(own, name) for name in hierarchy.wanted(own)}
    group = cgroup.Group(own.kind)
    group.make(bases, f"{hierarchy.PREFIX}.probe.{os.getpid()}")
    try:
        return "; ".join(group.reasons.values()) or cgroup.limit_tree(group.dirs, limit)
    finally:
        group.remove()


# The run.


def _run(args: argparse.Namespace, prepared: Prepared, labels: dict[str, Json], scratch: str) -> int:
    if args.save is not None and (not args.save or len(args.save) > 200):
        raise UsageError(f"--save {args.save[:40]!r}: give a name of 1 to 200 characters")
    if not prepared.turns:
        policy.say(f"bench: shard {prepared.shard} of this plan holds nothing; nothing to run")
        return DONE
    session, records = _session(args, prepared, labels)
    lock = sessions.Lock(prepared.place, session)
    try:
        done = sessions.done(records)
        left = [turn for turn in prepared.turns if len(done.get(turn.number, ())) < turn.co_running]
        part = sessions.last_part(records) + 1
        finished = not left or _conduct(prepared, left, session, part, labels, scratch)
        records = sessions.records_of(prepared.place, session)
    finally:
        lock.close()
    bench_reports.show(prepared.series, prepared.place, records, args.output)
    if not finished:
        policy.say(f"bench: interrupted; what is done is kept (session {session}): the same call with --resume goes on")
        return INTERRUPTED
    return FINDING if bench_table.is_finding(records) else DONE


def _session(args: argparse.Namespace, prepared: Prepared, labels: dict[str, Json]) -> tuple[str, tuple[Record, ...]]:
    """The session to work in, and what it holds already. Raises UsageError."""
    known = list(sessions.benches(prepared.place)) if args.resume or args.save is not None else []
    if args.resume:
        same = [one for one in known if one.plan_sha256 == prepared.series.sha256 and one.shard == prepared.shard]
        if args.save is not None:
            same = [one for one in same if one.saved == escape_text(args.save)]
        if not same:
            raise UsageError(_nothing_to_resume(args, prepared, known))
        if same[0].saved is not None:
            labels[sessions.SAVED_LABEL] = same[0].saved
        return same[0].session, sessions.records_of(prepared.place, same[0].session)
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
    return sessions.new(prepared.place, made, labels), ()


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
    prepared: Prepared, left: Sequence[Turn], session: str, part: int, labels: dict[str, Json], scratch: str
) -> bool:
    """Run what is left. False when it was interrupted."""
    setting = conduct.Setting(
        store=prepared.place,
        session=session,
        part=part,
        shard=prepared.shard,
        labels=labels,
        scratch=scratch,
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


def _print_plan(prepared: Prepared) -> None:
    settings, made = prepared.series.settings, prepared.series
    limits = settings.limits
    print(f"suite {settings.name}: plan {made.sha256[:16]}")
    for kernel in made.kernels:
        version = f" {kernel.version}" if kernel.version else ""
        called = f"called as {kernel.convention.name}{version} ({kernel.convention_known_by})"
        print(f"  kernel   {kernel.name}: {' '.join(kernel.commands[0])}; {called}; {_codes(kernel)}")
    for one in made.works:
        expected = f", expected {one.expected}" if one.expected else ""
        print(f"  workload {one.name}: {human(one.size_bytes, 'bytes')}{expected}")
    for line in (*prepared.left_out, *prepared.notes):
        print(f"  {line}")
    wall = "none" if limits.wall_ns is None else human(limits.wall_ns, "ns")
    memory = limits.memory_bytes or prepared.guard_bytes
    print(
        f"  sandbox {settings.sandbox.kind}; limits: wall {wall}, "
        f"memory {'none' if memory is None else human(memory, 'bytes')}, "
        f"file size {'none' if limits.file_size_bytes is None else human(limits.file_size_bytes, 'bytes')}"
    )
    blocks = {turn.block for turn in prepared.turns} - {None}
    shard = f", shard {prepared.shard} of them" if prepared.shard else ""
    warmups = sum(turn.warmup for turn in prepared.turns)
    print(
        f"  order {settings.order}: {plural(len(blocks), 'block')}, {plural(len(prepared.turns), 'turn')}"
        f" ({plural(warmups, 'warm-up')}){shard}"
    )
    rest = durations.known(prepared.place, prepared.turns).rest(Left(prepared.turns), limits)
    print(f"  duration: {said(rest)}")


def _codes(kernel: Kernel) -> str:
    codes, known_by = kernel.exit_codes()
    shown = ", ".join(f"{code} {meaning}" for code, meaning in sorted(codes.items()))
    return f"exit {shown}, else ambiguous ({known_by})"
