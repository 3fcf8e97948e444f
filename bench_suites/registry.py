"""The kernels that are known: how each takes its input, its threads and a memory limit, and what its exit codes mean.

harness/kernels.toml has them; people add files of their own in its format.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofcost.harness import described, kernels_known
from proofcost.harness.described import Table

HERE = os.path.dirname(os.path.abspath(__file__))
SHIPPED = kernels_known.FILE

PATH, STDIN, CONFIG, CONFIG_STDIN, NONE = "path", "stdin", "config", "config+stdin", "none"
INPUTS = (PATH, STDIN, CONFIG, CONFIG_STDIN, NONE)
ACCEPTED, REJECTED, DECLINED, AMBIGUOUS = "accepted", "rejected", "declined", "ambiguous"
MEANINGS = (ACCEPTED, REJECTED, DECLINED, AMBIGUOUS, "error", "memory", "ran")
PLACES = frozenset(("export", "config", "threads", "memory_mb", "program", "python", "here"))
"""What may stand in braces in a command's words."""

_PLACE = re.compile(r"\{([a-z_]+)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+~-]{0,63}")

ExitCodes = Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Tried:
    """Versions whose exit codes somebody tried, and what those mean there."""

    versions: tuple[str, ...]
    exit_codes: ExitCodes


@dataclass(frozen=True, slots=True)
class Convention:
    """One kernel as its registry entry has it. What the fields mean stands at the top of kernels.toml."""

    name: str
    description: str = ""
    programs: tuple[str, ...] = ()
    variable: str | None = None
    matches: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    input: str = PATH
    arguments: tuple[str, ...] = ()
    threads_key: str | None = None
    memory: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    version: tuple[str, ...] = ()
    version_pattern: str | None = None
    control: bool = False
    exit_codes: ExitCodes = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()

    def takes_threads(self) -> bool:
        """Whether it can be told how many threads to use."""
        return self.threads_key is not None or any("{threads}" in word for word in (*self.command, *self.arguments))

    def meanings(self, version: str | None) -> tuple[ExitCodes, str]:
        """What exit codes mean for that version, and where this is known from."""
        for tried in self.tried:
            if version in tried.versions:
                return tried.exit_codes, f"tried with {self.name} {version}"
        if self.control:
            return self.exit_codes, f"{self.name} is ours"
        known = f"{self.name} as documented, " + (f"version {version}" if version else "version unknown")
        return self.exit_codes, known + ", which nobody tried"

    def find_program(self, env: Mapping[str, str]) -> str | None:
        """The program where it is installed: named by its variable, else on PATH. None for what has its own command."""
        names = self.programs
        if self.variable and env.get(self.variable):
            names = (env[self.variable],)
        return next((found for name in names if (found := shutil.which(name, path=env.get("PATH")))), None)


UNKNOWN = Convention(
    "unknown",
    "a program of no known convention: gets the export's path as its last argument",
    exit_codes={0: ACCEPTED, 2: DECLINED},
)

Registry = Mapping[str, Convention]


def is_name(text: str) -> bool:
    """Whether something may be called so: letters, digits and `_.+~-`, beginning with a letter or digit."""
    return _NAME.fullmatch(text) is not None


def places(word: str) -> set[str]:
    """What stands in braces in a word."""
    return set(_PLACE.findall(word))


def filled(word: str, values: Mapping[str, str]) -> str:
    """The word with what stands in braces put in; what has no value stays."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), word)


def read_file(path: str) -> dict[str, Convention]:
    """The entries of one file. Raises DescriptionError."""
    top = described.read(path)
    found = {}
    for name in top.data:
        if not is_name(name):
            top.fail(name, "not a kernel's name: letters, digits and _.+~-, the first a letter or digit")
        if not isinstance(top.data[name], dict):
            top.fail(name, f"a kernel is a table: [{name}] and its keys below")
        found[name] = _entry(name, top.table(name))
    return found


def load(files: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Registry:
    """The shipped entries, then those of $PROOFCOST_KERNELS and of `files`; a later one of a name replaces the earlier.

    Raises DescriptionError.
    """
    named = (env or {}).get("PROOFCOST_KERNELS")
    entries = read_file(SHIPPED)
    for path in ([named] if named else []) + list(files):
        entries.update(read_file(path))
    return entries


def by_program(registry: Registry, program: str) -> Convention | None:
    """The entry whose pattern fits a program's file name; of several the one with the longest pattern."""
    name = os.path.basename(program)
    fits = [
        (len(pattern), entry)
        for entry in registry.values()
        for pattern in entry.matches
        if fnmatch.fnmatchcase(name, pattern)
    ]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def _entry(name: str, table: Table) -> Convention:
    pattern = table.text("version_pattern", "a regular expression", None)
    if pattern is not None:
        try:
            if re.compile(pattern).groups != 1:
                table.fail("version_pattern", "needs exactly one group: what stands in it is the version")
        except re.error as error:
            table.fail("version_pattern", f"not a regular expression: {error}")
    given = table.choice("input", INPUTS, PATH)
    entry = Convention(
        name=name,
        description=table.text("description", "a few words", ""),
        programs=table.texts("programs", "file names to look for"),
        variable=table.text("variable", "an environment variable's name", None),
        matches=table.texts("matches", "patterns for a program's file name"),
        command=table.texts("command", "the words that start it"),
        input=given,
        arguments=table.texts("arguments", "the words behind the program"),
        threads_key=table.text("threads_key", "a key of the configuration", None),
        memory=table.texts("memory", "the words for a memory limit"),
        config=_config(table),
        version=table.texts("version", "the words that make it tell its version"),
        version_pattern=pattern,
        control=table.flag("control", "whether it is no kernel", False),
        exit_codes=exit_codes(table, "exit"),
        tried=tuple(_tried(one) for one in table.tables("tried")),
    )
    table.finish()
    if not entry.programs and not entry.command and not entry.variable:
        table.fail(None, "has neither programs, variable nor command: how is it started?")
    for key in ("config", "threads_key"):
        if "config" not in given and key in table.data:
            table.fail(key, f"of no use with input {given!r}, which has no configuration; write input = 'config'")
    for key in ("command", "arguments", "memory"):
        check_places(table, key, getattr(entry, key))
    return entry


def check_places(table: Table, key: str, words: Sequence[str]) -> None:
    """Raises DescriptionError for braces with something that nothing can be put in for."""
    for at, word in enumerate(words):
        for place in sorted(places(word) - PLACES):
            table.fail(key, f"{{{place}}} in {word!r} is not known{described.suggestion(place, PLACES)}", at)


def _tried(table: Table) -> Tried:
    made = Tried(table.texts("versions", "the versions tried"), exit_codes(table, "exit"))
    if not made.versions:
        table.fail(None, "versions is missing: which ones were tried?")
    table.finish()
    return made


def _config(table: Table) -> Mapping[str, Any]:
    config: Mapping[str, Any] = table.table("config").data
    for key in ("export_file_path", "use_stdin"):
        if key in config:
            table.table("config").fail(key, "is set by the runner: leave it out")
    return config


def exit_codes(table: Table, key: str) -> dict[int, str]:
    """{code: meaning} of a table. Raises DescriptionError."""
    inner = table.table(key)
    codes = {}
    for code in inner.data:
        if not (code.isascii() and code.isdigit() and int(code) <= 255):
            inner.fail(code, "not an exit code: a whole number from 0 to 255")
        codes[int(code)] = inner.choice(code, MEANINGS)
    return codes
