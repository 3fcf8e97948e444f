"""The very call of one kernel on one export: its words, its configuration file, its standard input, its sandbox."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proofcost.bench_suites import counters, demo_judge, environment, registry
from proofcost.bench_suites.kernel import Kernel, python

NONE, LANDRUN, BWRAP = "none", "landrun", "bwrap"
SANDBOXES = (NONE, LANDRUN, BWRAP)
_LOADERS = ("/lib", "/lib64", "/usr/lib")
"""landrun looks for the loader of the program it is given; a script has none of its own."""
CONFIG_NAME = "config.json"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Which sandbox every call of a suite runs in, and its program (empty for none)."""

    kind: str = NONE
    program: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """What is started. `target` are the kernel's own words inside `argv`, without a counter's; `stdin` is None for
    /dev/null.

    `write_config` is the text of `config_path`, which the caller writes before.
    """

    argv: tuple[str, ...]
    target: tuple[str, ...]
    stdin: str | None
    environment: Mapping[str, str]
    config_path: str | None = None
    write_config: str | None = None


def make(
    kernel: Kernel,
    build: int,
    export: str,
    folder: str,
    sandbox: Sandbox,
    threads: int | None = None,
    memory_bytes: int | None = None,
    used_counters: tuple[str, ...] = (),
) -> Call:
    """The call of build number `build` (from 0) on the export at `export`, both absolute, working in `folder`."""
    config_path = config = None
    if "config" in kernel.input:
        config_path = os.path.join(folder, CONFIG_NAME)
        config = json.dumps(kernel.configuration(export, threads), separators=(",", ":"))
    values = {"export": export, "threads": str(threads or 1), "python": python(), "here": registry.HERE}
    if config_path is not None:
        values["config"] = config_path
    program = kernel.builds[build]
    values["program"] = program.path
    words = [*program.words, *kernel.arguments]
    if memory_bytes is not None:
        values["memory_mb"] = str(memory_bytes >> 20)
        words += kernel.convention.memory
    target = tuple(registry.filled(word, values) for word in words)
    started = counters.wrapped(target, used_counters, folder)
    stdin = export if kernel.input in (registry.STDIN, registry.CONFIG_STDIN) else None
    return Call(
        argv=_sandboxed(sandbox, started, kernel, export, config_path, folder),
        target=target,
        stdin=stdin,
        environment=_environment(kernel, folder, used_counters),
        config_path=config_path,
        write_config=config,
    )


def _sandboxed(
    sandbox: Sandbox, target: tuple[str, ...], kernel: Kernel, export: str, config: str | None, folder: str
) -> tuple[str, ...]:
    if sandbox.kind == NONE:
        return target
    execute = [os.path.realpath(path) for path in (target[0], *_interpreters(target[0]))]
    if target[0] == python():
        execute += [*demo_judge.python_folders(), registry.HERE]
    files = [word for word in target[1:] if os.path.isabs(word) and os.path.exists(word)]
    inner = demo_judge.Call(
        command=target,
        directory=Path("/tmp") if sandbox.kind == BWRAP else Path(folder),
        pass_environment=() if sandbox.kind == BWRAP else tuple(kernel.environment),
        read=tuple(dict.fromkeys(path for path in (config, export, *files) if path is not None)),
        execute=tuple(execute),
    )
    if sandbox.kind == LANDRUN:
        return (sandbox.program, *demo_judge.landrun_arguments(inner), "--", *target)
    entries = [word for name, value in kernel.environment.items() for word in ("--setenv", name, value)]
    return (sandbox.program, *demo_judge.bwrap_arguments(inner), *entries, "--", *target)


def _interpreters(program: str) -> list[str]:
    """What a script needs to be executed besides itself: the programs that its first line names, and their loader."""
    try:
        with open(program, "rb") as file:
            line = file.readline(256)
    except OSError:
        return []
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if len(words) > 1 and os.path.basename(words[0]) == "env":
        found = shutil.which(words[1])
        words[1:] = [] if found is None else [found]
    else:
        words[1:] = []
    return [*words, *(folder for folder in _LOADERS if os.path.isdir(folder))] if words else []


def _environment(kernel: Kernel, folder: str, used_counters: tuple[str, ...]) -> dict[str, str]:
    """The small environment of all with the kernel's own entries; a sandbox lets only the latter through."""
    return {**environment.base(folder, environment.COUNTING if used_counters else ()), **kernel.environment}


def default_threads(kernel: Kernel, threads: int) -> int | None:
    """How many threads it is told to use; None for one that cannot be told."""
    return threads if kernel.takes_threads else None
