"""What a bench is before anything runs: kernels and workloads found, the plan, and what of it can be enforced here."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from dataclasses import dataclass, replace

from proofcost.bench_suites import call, counters, durations, quiet, series, suite, work
from proofcost.bench_suites import kernel as kernels
from proofcost.bench_suites.expected import Left, planned
from proofcost.bench_suites.kernel import Kernel
from proofcost.bench_suites.registry import Registry
from proofcost.bench_suites.series import Limits, Series, Turn
from proofcost.bench_suites.suite import Suite
from proofcost.harness import cgroup, hierarchy
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import human, plural
from proofcost.run import UsageError

GUARD_SHARE = 0.9
"""Of the memory that is there now: a kernel's limit where none is set, so that it cannot take the host down."""
SANDBOX_VARIABLES = {
    call.LANDRUN: ("PROOFCOST_LANDRUN", "COMPARATOR_LANDRUN"),
    call.BWRAP: ("PROOFCOST_BWRAP", "COMPARATOR_BWRAP"),
}


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


def prepare(
    args: argparse.Namespace, asked: Suite, known: Registry, place: str | None, scratch: str, runs_here: bool = True
) -> Prepared:
    """`runs_here`: else it is for other hosts, and what this one can enforce does not matter.

    Raises UsageError, DescriptionError.
    """
    notes: list[str] = []
    asked_kernels = asked.kernels
    if asked.installed:
        more, missing = _installed(known, {one.name for one in asked_kernels})
        asked_kernels = (*more, *asked_kernels)
        notes += [f"left out: {line}" for line in missing]
    asked_kernels = tuple(map(asked.with_environment, asked_kernels))
    if asked.aa:
        asked_kernels = suite.with_twin(asked_kernels)
    if not asked_kernels:
        raise UsageError(f"suite {asked.settings.name}: no kernel; list one under [[kernel]], or give NAME=CMD")
    wrong = counters.refusal(asked.settings.counters, asked.settings.threads, asked.settings.sandbox.kind)
    if wrong is not None:
        raise UsageError(wrong)
    settings = replace(asked.settings, sandbox=_sandbox(asked.settings.sandbox.kind))
    found = tuple(kernels.found(one, None if place is None else f"{place}/digests") for one in asked_kernels)
    if not asked.specs:
        raise UsageError(f"suite {settings.name}: no workload; list one under [[workload]], or give --on EXPORTS")
    works = work.prepare(asked.specs, scratch, asked.expected, asked.depth)
    made = series.make(settings, found, works.works)
    shard, turns = _shard(args.shard, made)
    guard, why = _guard(settings.limits) if runs_here else (None, None)
    if why is not None:
        notes.append(why)
    return Prepared(made, turns, shard, place or "", works.left_out, guard, tuple(notes))


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
    variables = SANDBOX_VARIABLES[kind]
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


def check_memory(limits: Limits, at_once: int) -> None:
    """Raises UsageError where kernels may take more together than this host has: it would end them, not their limit."""
    there = quiet.memory_total_bytes()
    if limits.memory_bytes is not None and there is not None and limits.memory_bytes * at_once > there:
        raise UsageError(
            f"kernels may take {human(limits.memory_bytes * at_once, 'bytes')} together, and this host has "
            f"{human(there, 'bytes')}: choose hosts with more (--constraint)"
        )


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


def print_plan(prepared: Prepared) -> None:
    settings, made = prepared.series.settings, prepared.series
    limits = settings.limits
    print(f"suite {settings.name}: plan {made.sha256[:16]}")
    for kernel in made.kernels:
        version = f" {kernel.version}" if kernel.version else ""
        called = f"called as {kernel.convention.name}{version} ({kernel.convention_known_by})"
        print(f"  kernel   {kernel.name}: {' '.join(kernel.builds[0].words)}; {called}; {_codes(kernel)}")
        if kernel.environment:
            named = " ".join(f"{name}={shlex.quote(value)}" for name, value in kernel.environment.items())
            print(f"           environment: {inert_outside(named, 400, True)}")
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
    about, worst = planned(rest, limits)
    print(f"  duration: {about}")
    print(f"  worst case: {worst}")


def _codes(kernel: Kernel) -> str:
    codes, known_by = kernel.exit_codes()
    shown = ", ".join(f"{code} {meaning}" for code, meaning in sorted(codes.items()))
    return f"exit {shown}, else ambiguous ({known_by})"
