"""A suite: which kernels on which workloads, how often, in what order, under which limits. A TOML file, or one line.

docs/bench.md describes the file. Paths in it are meant from its own folder.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proofcost.bench_suites import call, counters, environment, families, registry
from proofcost.bench_suites import kernel as kernels
from proofcost.bench_suites.call import Sandbox
from proofcost.bench_suites.kernel import Kernel
from proofcost.bench_suites.registry import Registry
from proofcost.bench_suites.series import ABBA, ORDERS, RANDOM, Limits, Settings
from proofcost.harness import described
from proofcost.harness.described import DescriptionError, Table
from proofcost.harness.quantity import BYTE_UNITS, TIME_UNITS

SHIPPED = os.path.join(registry.HERE, "suites")
SUFFIX = ".toml"

REPETITIONS_MAX = 100_000
THREADS_MAX = 4096
CO_RUNNING_MAX = 1024
SEED_MAX = (1 << 63) - 1
DEFAULT_LIMITS = Limits(wall_ns=3600 * 10**9, memory_bytes=None, swap_bytes=0, file_size_bytes=10**9)
"""Where nothing else is said: an hour, and no file above 1 GB. (For memory: conduct.Setting.guard_bytes.)"""
FILE_SIZE_LEAST = 1 << 20
"""The meter writes its record under this limit, too."""
REPORTS = ("pairs", "growth", "contention", "calibration")
EVERY_FAMILY = "*"
AA_SUFFIX = "~aa"


@dataclass(frozen=True, slots=True)
class Suite:
    """What was asked for, nothing of it looked for yet. `specs` are workloads as work.prepare takes them."""

    settings: Settings
    kernels: tuple[Kernel, ...] = ()
    specs: tuple[str, ...] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    """{spec: the verdict that the suite expects of it}."""
    installed: bool = False
    """Besides `kernels`, all kernels of the registry that are installed."""
    aa: bool = False
    depth: bool = False
    """Covariates of the terms' depth, too."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of every kernel; what one says of its own goes before."""
    environment_named: Mapping[str, str] = field(default_factory=dict)
    """By the command line, which goes before everything."""

    def with_environment(self, kernel: Kernel) -> Kernel:
        """The kernel with its whole environment."""
        return replace(kernel, environment={**self.environment, **kernel.environment, **self.environment_named})


def shipped() -> list[str]:
    """Names of the suites that come with us."""
    try:
        return sorted(name.removesuffix(SUFFIX) for name in os.listdir(SHIPPED) if name.endswith(SUFFIX))
    except OSError:
        return []


def file_of(name: str) -> str:
    """The file of a suite named on the command line: a path, else a shipped one's name. Raises DescriptionError."""
    if name in shipped() and not os.path.exists(name):
        return os.path.join(SHIPPED, name + SUFFIX)
    if name.endswith(SUFFIX):
        return name
    meant = described.suggestion(name, shipped())
    if os.path.isfile(name):
        meant = f"; for a kernel write {os.path.basename(name)}={name}"
    raise DescriptionError(f"{name!r} is neither NAME=CMD, nor a suite file (*{SUFFIX}), nor a shipped suite{meant}")


def read(path: str, known: Registry, env: Mapping[str, str]) -> Suite:
    """The suite of a file. Raises DescriptionError."""
    top = described.read(path)
    folder = os.path.dirname(os.path.abspath(path))
    found = tuple(_kernel(table, known, env, folder) for table in top.tables("kernel"))
    for at, kernel in enumerate(found):
        if kernel.name in [other.name for other in found[:at]]:
            top.fail("kernel", f"the name {kernel.name} is there twice; give one of them another `name`", at)
    specs: list[str] = []
    expected: dict[str, str] = {}
    for table in top.tables("workload"):
        named, says = _workload(table, folder)
        specs += named
        expected.update(dict.fromkeys(named, says) if says else {})
    suite = Suite(
        settings=_settings(top, os.path.basename(path).removesuffix(SUFFIX)),
        kernels=found,
        specs=tuple(specs),
        expected=expected,
        installed=top.choice("kernels", ("installed", "listed"), "listed") == "installed",
        depth=top.flag("depth", "whether covariates of the terms' depth are wanted, too", False),
        aa=top.flag("aa", "whether the first kernel runs a second time under another name", False),
        environment=_variables(top),
    )
    top.finish()
    return suite


def _settings(top: Table, name: str) -> Settings:
    used = top.texts("counters", "names of counters")
    for at, counter in enumerate(used):
        if counter not in counters.COUNTERS:
            what = f"{described.shown(counter)} is no counter{described.suggestion(counter, counters.COUNTERS)}"
            top.fail("counters", what, at)
    order_given = "order" in top
    order = top.choice("order", ORDERS, ABBA)
    repetitions = top.integer("repetitions", 1, REPETITIONS_MAX, counters.RUNS if used else 12)
    if repetitions % 2 and order == ABBA:
        if order_given:
            top.fail("repetitions", f"{repetitions} is odd: a block of order abba has two turns of each kernel")
        order = RANDOM
    return Settings(
        name=top.text("name", "a name for the suite", name),
        order=order,
        repetitions=repetitions,
        warmups=top.integer("warmups", 0, 1000, 0 if used else 1),
        seed=top.integer("seed", 0, SEED_MAX, 1),
        threads=top.integers("threads", 1, THREADS_MAX, (1,)),
        co_running=top.integers("co_running", 1, CO_RUNNING_MAX, (1,)),
        sandbox=Sandbox(top.choice("sandbox", call.SANDBOXES, call.NONE)),
        limits=_limits(top.table("limits")),
        counters=used,
        report=top.choice("report", REPORTS, "pairs"),
    )


def _limits(table: Table) -> Limits:
    swap = table.data.get("swap")
    made = Limits(
        wall_ns=table.quantity("wall", TIME_UNITS, "15m", DEFAULT_LIMITS.wall_ns),
        memory_bytes=table.quantity("memory", BYTE_UNITS, "8Gi", DEFAULT_LIMITS.memory_bytes),
        swap_bytes=0 if swap in (0, "0") else table.quantity("swap", BYTE_UNITS, "1Gi", 0) or 0,
        file_size_bytes=table.quantity("file_size", BYTE_UNITS, "1G", DEFAULT_LIMITS.file_size_bytes),
    )
    if "swap" in table and made.memory_bytes is None:
        table.fail("swap", "needs memory as well: swap counts beside it")
    if made.file_size_bytes is not None and made.file_size_bytes < FILE_SIZE_LEAST:
        table.fail("file_size", f"at least 1Mi: {FILE_SIZE_LEAST} bytes")
    table.finish()
    return made


def _kernel(table: Table, known: Registry, env: Mapping[str, str], folder: str) -> Kernel:
    use = table.text("use", "a kernel of the registry", None)
    name = table.text("name", "what it is called here", use)
    if name is None:
        table.fail(None, "says neither `use` (a kernel of the registry) nor `name` and `command`")
    if not registry.is_name(name):
        table.fail("name", f"{described.shown(name)}: letters, digits and _.+~-, the first a letter or digit")
    commands = _commands(table, folder)
    if use is not None and use not in known:
        table.fail("use", f"no kernel {described.shown(use)} is known{described.suggestion(use, known)}")
    if commands:
        if use is not None:
            convention, known_by = known[use], "the suite says so"
        else:
            convention, known_by = kernels.convention_of(name, commands[0][0], known)
        made = kernels.of_convention(name, convention, known_by, commands)
    else:
        try:
            made = kernels.named(use or name, known, env, name)
        except DescriptionError as error:
            table.fail("use" if use is not None else "name", str(error))
    made = _overlaid(made, table)
    table.finish()
    return made


def _overlaid(kernel: Kernel, table: Table) -> Kernel:
    """The kernel with what the suite says of its input, arguments, configuration, environment and exit codes."""
    given = table.choice("input", registry.INPUTS, kernel.input)
    if given != kernel.input:
        kernel = replace(kernel, input=given, arguments=kernels.DEFAULT_ARGUMENTS[given])
    if "arguments" in table:
        kernel = replace(kernel, arguments=table.texts("arguments", "the words behind the program"))
        registry.check_places(table, "arguments", kernel.arguments)
    config = table.table("config")
    for key in ("export_file_path", "use_stdin"):
        if key in config:
            config.fail(key, "is set by the runner: leave it out")
    if config.data and "config" not in kernel.input:
        table.fail("config", f"{kernel.name} takes no configuration (input {kernel.input})")
    codes = registry.exit_codes(table, "exit") if "exit" in table else None
    return replace(
        kernel,
        config={**kernel.config, **config.data},
        environment=_variables(table),
        own_exit_codes=codes,
    )


def _variables(table: Table) -> dict[str, str]:
    """The table `env`. Raises DescriptionError."""
    inner = table.table("env")
    found = {name: inner.text(name, "a string") for name in inner.data}
    for name, value in found.items():
        try:
            environment.check({name: value})
        except environment.BadVariableError as error:
            inner.fail(name, str(error))
    return found


def _commands(table: Table, folder: str) -> list[tuple[str, ...]]:
    """The words of `command`, or of each of `builds`; none where neither is given."""
    if "command" in table and "builds" in table:
        table.fail("builds", "is there beside `command`; give one of them")
    if "builds" in table:
        texts: Sequence[Any] = table.texts("builds", "one command for each build")
        key = "builds"
    elif "command" in table and isinstance(table.data["command"], list):
        words = table.texts("command", "the words that start it")
        registry.check_places(table, "command", words)
        return [_from_folder(words, folder)] if words else []
    else:
        text = table.text("command", "the words that start it", None)
        texts = [] if text is None else [text]
        key = "command"
    found = []
    for at, text in enumerate(texts):
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            table.fail(key, f"{described.shown(text)}: {error}; quote it as for a shell")
        if not words:
            table.fail(key, "is empty")
        for word in words:
            for place in sorted(registry.places(word) - registry.PLACES):
                what = f"{{{place}}} is not known{described.suggestion(place, registry.PLACES)}"
                table.fail(key, what, at if key == "builds" else None)
        found.append(_from_folder(words, folder))
    return found


def _from_folder(words: Sequence[str], folder: str) -> tuple[str, ...]:
    """The program's path, where it is one, from the suite's folder."""
    first = os.path.expanduser(words[0])
    if "/" in first and not first.startswith("{"):
        first = os.path.normpath(os.path.join(folder, first))
    return (first, *words[1:])


def _workload(table: Table, folder: str) -> tuple[list[str], str | None]:
    """(specs, what is expected of them)."""
    path = table.text("path", "an export or a folder of exports", None)
    family = table.text("family", "a generated family", None)
    says = table.choice("expected", ("accept", "reject"), None)
    if (path is None) == (family is None):
        table.fail(None, "says neither `path` nor `family`" if path is None else "says both `path` and `family`")
    if path is not None:
        full = os.path.join(folder, os.path.expanduser(path))
        if not os.path.exists(full):
            table.fail("path", f"{described.shown(path)}: no such file or folder (looked in {folder})")
        specs = [full]
    else:
        specs = _generated(table, family)
    table.finish()
    return specs, None if says is None else f"{says}ed"


def _generated(table: Table, name: str) -> list[str]:
    """The specs of a generated family (`*`: of each) in the sizes `n`, else in the family's own ladder."""
    seed = table.integer("seed", 0, SEED_MAX, 0)
    if name != EVERY_FAMILY and name not in families.names():
        table.fail("family", f"no family {described.shown(name)}{described.suggestion(name, families.names())}")
    chosen = list(families.FAMILIES) if name == EVERY_FAMILY else [families.get(name)]
    specs = []
    for family in chosen:
        called = family.name if name == EVERY_FAMILY else name
        sizes = table.integers("n", 0, 10**12, family.ladder)
        for at, size in enumerate(sizes):
            try:
                specs.append(f"{families.choose(called, size, seed).name}:{size}:{seed}")
            except families.FamilyError as error:
                element = at if isinstance(table.data.get("n"), list) else None
                table.fail("n" if "n" in table.data else None, f"{error.what}; {error.cure}", element)
    return specs


def with_twin(found: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels, and the first of them once more under another name: an A/A inside the same job."""
    first = next((one for one in found if not one.control), None)
    if first is None:
        raise DescriptionError("an A/A needs a kernel: there are only controls")
    return (*found, replace(first, name=first.name + AA_SUFFIX, twin_of=first.name))
