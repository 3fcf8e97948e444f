"""What a call of `bench` asks for: a suite's file, one line, or a file with options laid over it."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from proofcost.bench_suites import call, counters, environment, series, suite
from proofcost.bench_suites import kernel as kernels
from proofcost.bench_suites.registry import Registry
from proofcost.bench_suites.series import ABBA, RANDOM, Limits
from proofcost.bench_suites.suite import Suite
from proofcost.harness import described, quantity
from proofcost.run import UsageError, parse_quantity


def asked(args: argparse.Namespace, known: Registry) -> Suite:
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
    try:
        named = environment.parse(args.env)
    except environment.BadVariableError as error:
        raise UsageError(f"--env {error}") from None
    return replace(
        found,
        settings=settings,
        aa=found.aa or args.aa,
        depth=found.depth or args.depth,
        environment_named=named,
    )


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
