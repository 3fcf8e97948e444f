"""A kernel as it takes part in a suite: how it is called, and which very program that is on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proofcost.bench_suites import environment, registry
from proofcost.bench_suites.registry import Convention, ExitCodes, Registry
from proofcost.harness import digest
from proofcost.harness.described import DescriptionError

VERSION_PATIENCE_S = 10
VERSION_BYTES_MAX = 65536
VERSION_SHOWN = 60

DEFAULT_ARGUMENTS = {
    registry.PATH: ("{export}",),
    registry.STDIN: (),
    registry.CONFIG: ("{config}",),
    registry.CONFIG_STDIN: ("{config}",),
    registry.NONE: (),
}


@dataclass(frozen=True, slots=True)
class Program:
    """One build of a kernel: the words that start it, and the file that they name."""

    words: tuple[str, ...]
    path: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a suite. `builds` are several builds of it, a level of replication of their own; mostly one.

    `input`, `arguments` and `config` are its convention's, with what the suite changes. `twin_of` names the kernel that
    this one repeats, for an A/A.
    """

    name: str
    convention: Convention
    convention_known_by: str
    commands: tuple[tuple[str, ...], ...]
    input: str
    arguments: tuple[str, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    own_exit_codes: ExitCodes | None = None
    twin_of: str | None = None
    builds: tuple[Program, ...] = ()
    """Filled in by `found`, one for each of `commands`."""
    version: str | None = None
    """Filled in by `found`."""

    @property
    def takes_threads(self) -> bool:
        words = (*self.arguments, *(word for command in self.commands for word in command))
        in_config = self.convention.threads_key is not None and "config" in self.input
        return in_config or any("{threads}" in word for word in words)

    @property
    def control(self) -> bool:
        return self.convention.control

    def exit_codes(self) -> tuple[ExitCodes, str]:
        """What its exit codes mean, and where that is known from."""
        if self.own_exit_codes is not None:
            return self.own_exit_codes, "the suite says so"
        return self.convention.meanings(self.version)

    def settings_sha256(self, threads: int | None) -> str | None:
        """Digest of its configuration without the export's path, and of its environment; None when it has neither."""
        said: dict[str, Any] | None = self.configuration(None, threads) if "config" in self.input else None
        if self.environment:  # else the digest is what it was before there were any
            said = {"config": said, "environment": dict(self.environment)}
        return None if said is None else hashlib.sha256(_canonical(said).encode()).hexdigest()

    def configuration(self, export: str | None, threads: int | None) -> dict[str, Any]:
        """Its JSON configuration for one export."""
        config: dict[str, Any] = {"use_stdin": True} if self.input == registry.CONFIG_STDIN else {"use_stdin": False}
        if self.input == registry.CONFIG:
            config["export_file_path"] = export
        config.update(self.config)
        # nanoda refuses a list of axioms, even an empty one, beside this key.
        if "permitted_axioms" in config and config.get("unsafe_permit_all_axioms") is True:
            del config["unsafe_permit_all_axioms"]
        if self.convention.threads_key is not None and threads is not None:
            config[self.convention.threads_key] = threads
        return config


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def of_convention(name: str, convention: Convention, known_by: str, commands: Sequence[Sequence[str]]) -> Kernel:
    """A kernel called as its registry entry says; its arguments are left out where the command has its own places."""
    made = tuple(tuple(command) for command in commands)
    arguments = convention.arguments or DEFAULT_ARGUMENTS[convention.input]
    if any(registry.places(word) & {"export", "config"} for command in made for word in command):
        arguments = ()
    return Kernel(name, convention, known_by, made, convention.input, arguments, convention.config)


def from_command(name: str, text: str, known: Registry) -> Kernel:
    """The kernel of NAME=CMD. Its convention: the registry's entry of that name, else of that program.

    Raises DescriptionError.
    """
    shown = f"{name}={text}"
    if not registry.is_name(name):
        raise DescriptionError(
            f"{shown[:80]!r}: {name!r} is no kernel's name: letters, digits and _.+~-, the first a letter or digit"
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DescriptionError(f"{shown[:80]!r}: {error} in the command; quote it as for a shell") from None
    if not words:
        raise DescriptionError(f"{shown!r}: no command behind the `=`; write NAME=CMD, for example {name}=./{name}")
    for word in words:
        for place in sorted(registry.places(word) - registry.PLACES):
            raise DescriptionError(
                f"{shown[:80]!r}: {{{place}}} is not known; use {{export}}, {{config}} or {{threads}}"
            )
    convention, known_by = convention_of(name, words[0], known)
    kernel = of_convention(name, convention, known_by, [words])
    if convention is registry.UNKNOWN and any("config" in registry.places(word) for word in words):
        raise DescriptionError(
            f"{shown[:80]!r}: {{config}} needs a convention that says what stands in it; describe the kernel in a "
            "file for --kernels"
        )
    return kernel


def convention_of(name: str, program: str, known: Registry) -> tuple[Convention, str]:
    """The registry's entry for a kernel of that name or program, and how it was found."""
    if name in known:
        return known[name], f"the name {name}"
    found = registry.by_program(known, program)
    if found is not None:
        return found, f"the program's name {os.path.basename(program)}"
    return registry.UNKNOWN, "no entry of the registry fits its name or program"


def named(name: str, known: Registry, env: Mapping[str, str], alias: str | None = None) -> Kernel:
    """A registered kernel by its name. Raises DescriptionError where there is no such entry or it is not installed."""
    from proofcost.harness.described import suggestion

    if name not in known:
        raise DescriptionError(f"no kernel {name!r} is known{suggestion(name, known)}")
    entry = known[name]
    command = entry.command
    if not command:
        program = entry.find_program(env)
        if program is None:
            raise DescriptionError(f"{name} is not installed: {not_found(entry)}")
        command = (program,)
    return of_convention(alias or name, entry, f"the name {name}", [command])


def not_found(entry: Convention) -> str:
    """Where an entry's program was looked for."""
    where = f"looked for {', '.join(entry.programs)} on PATH" if entry.programs else "looked nowhere else"
    return f"{where}; name it by {entry.variable}" if entry.variable else where


def found(kernel: Kernel, cache: str | None, folder: str = ".") -> Kernel:
    """The kernel with its programs found, digested, and asked for their version. Raises DescriptionError.

    A relative program with a slash is looked for in `folder`.
    """
    builds = []
    for command in kernel.commands:
        words = [registry.filled(word, {"python": python(), "here": registry.HERE}) for word in command]
        path = program_path(words[0], folder)
        if path is None:
            why = "no such file" if "/" in words[0] else "not found on PATH"
            if os.path.exists(os.path.join(folder, words[0])):
                why = "not executable"
            raise DescriptionError(f"kernel {kernel.name}: {words[0]}: {why}; give a program that can be started")
        sha256, _ = digest.of_file(os.path.realpath(program_file(words, path)), cache)
        builds.append(Program((path, *words[1:]), path, sha256))
    version = version_of(kernel.convention, builds[0].words, kernel.environment)
    return replace(kernel, builds=tuple(builds), version=version)


def program_file(words: Sequence[str], path: str) -> str:
    """The file that a command's behaviour stands in: of a control of ours its script, not what interprets it."""
    return next((word for word in words if word.startswith(registry.HERE)), path)


def program_path(name: str, folder: str) -> str | None:
    """The file that a command's first word names; None where there is no such program."""
    if "/" not in name:
        return shutil.which(name)
    path = os.path.abspath(os.path.join(folder, os.path.expanduser(name)))
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None


def python() -> str:
    """This interpreter by its real path: a sandbox may forbid what a virtual environment's link points through."""
    return os.path.realpath(sys.executable)


def version_of(convention: Convention, words: Sequence[str], variables: Mapping[str, str] | None = None) -> str | None:
    """What a program says of its version; None where it says nothing, or nobody knows how to ask.

    `variables`: what its environment has besides what all kernels get.
    """
    if not convention.version:
        return None
    text = _asked([*words, *convention.version], variables or {}).decode("utf-8", "replace")
    if convention.version_pattern is None:
        return next((line.strip()[:VERSION_SHOWN] for line in text.splitlines() if line.strip()), None)
    seen = re.search(convention.version_pattern, text, re.M)
    return None if seen is None else seen[1][:VERSION_SHOWN]


def _asked(argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
    """The beginning of what a command prints on both streams, as far as it comes in time; then it is killed."""
    try:
        asked = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment.base(tempfile.gettempdir()), **variables},
            start_new_session=True,
        )
    except OSError:
        return b""
    assert asked.stdout is not None
    end = time.monotonic() + VERSION_PATIENCE_S
    text = b""
    with asked.stdout as pipe:
        while len(text) < VERSION_BYTES_MAX and (left := end - time.monotonic()) > 0:
            if not select.select([pipe], [], [], left)[0]:
                break
            part = os.read(pipe.fileno(), VERSION_BYTES_MAX)
            if not part:
                break
            text += part
    with contextlib.suppress(ProcessLookupError):
        os.killpg(asked.pid, signal.SIGKILL)
    asked.wait()
    return text
