"""A FAKE comparator: it makes the calls of the real one and judges nothing.

The real one is a Lean program, and neither it nor lake nor lean4export can be had where these tests run. What a meter
meets of a comparator is its calls alone: which program, with which arguments, in which order, directory and
environment, with which descriptors. Those are kept here exactly (argv of landrun;
build and export of the challenge, then of the solution, then every external kernel in the order of their names):

* the whole environment is handed on, with LEAN_ABORT_ON_PANIC=1 added for builds and exports; SIGPIPE stays ignored in
  the children and inherited descriptors stay open, as under Lean's runtime (fork and exec, nothing between); the
  working directory is the project's;
* a build and a kernel inherit stdin, stdout and stderr; of an export both outputs are pipes, read whole, and what came
  on stderr is printed afterwards;
* a kernel gets the export in a temporary file as its last argument, or, where its name contains `noda`, a config file
  that names it; each runs even when one before it rejected;
* `measurement_command` wraps the solution's build and export (both as phase `build`) and the kernels (`checker`): never
  the challenge's;
* a child that a signal killed counts as 128 + n; a kernel's non-zero exit is a rejection, whatever it was;
* exit 0 or 1; stdout is buffered and flushed before each child, so that its lines stand where the real ones would.

What is not kept: nothing is compared (neither statements nor axioms) and there is no built-in Lean kernel; both are
named on stdout where they would have run. The list of names given to the exporter is shorter.

    standin_comparator.py CONFIG.json              in the project's directory, as the comparator is called
    standin_comparator.py --make-toolchain DIR     write stand-ins for lake, lean4export, lean and git into DIR

CONFIG has the real keys (challenge_module, solution_module, theorem_names, definition_names, permitted_axioms,
enable_nanoda, external_kernels, measurement_command) and one of our own, `standin`, an object:
  `kernel_config`  `comparator` (default: the axioms in permitted_axioms, an error for any other) or `permit-all-axioms`
                   (that key absent, as the small cases need it)
  `mismatch`       true: pretend that the statements differ, so that no kernel runs
  `result`         a path to write {"kernels": {NAME: EXIT}} to, for tests
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXEC_FAILED = 255
"""What a child of Lean's runtime exits with when the program to execute does not exist."""

KERNEL_NAMES = ("Nat", "String", "Nat.add", "Nat.sub", "Nat.mul", "List")
"""Constants asked for in every export; the comparator's own list is longer."""

TOOLS = {
    "lake": """\
#!/bin/sh
# Stand-in for lake: `lake build M` copies M.lean into .lake and exits with what M.build-status says, else 0.
[ "$1" = build ] || exit 64
mkdir -p .lake/build && cp "$2.lean" .lake/build/ || exit 65
echo "stand-in lake built $2"
[ ! -e "$2.build-status" ] || exit "$(cat "$2.build-status")"
""",
    "lean4export": """\
#!/bin/sh
# Stand-in for lean4export: prints the export prepared as M.ndjson; M.export-stderr and M.export-status if there.
[ "$2" = -- ] || exit 64
[ ! -e "$1.export-stderr" ] || cat "$1.export-stderr" >&2
[ ! -e "$1.export-status" ] || exit "$(cat "$1.export-status")"
exec cat "$1.ndjson"
""",
    # landrun lets a build execute what is under Lean's prefix. These stand-ins are scripts, so theirs is where sh is.
    "lean": '#!/bin/sh\n[ "$1" = --print-prefix ] && echo /usr\n',
    "git": "#!/bin/sh\nexit 0\n",
}


class StandinError(Exception):
    """What ends a comparator's run with exit 1: printed on stderr as Lean prints an uncaught exception."""


@dataclass(frozen=True)
class Config:
    """The comparator's config, and `standin` for what only this fake knows."""

    challenge_module: str
    solution_module: str
    theorem_names: tuple[str, ...]
    permitted_axioms: tuple[str, ...]
    definition_names: tuple[str, ...] = ()
    external_kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measurement_command: tuple[str, ...] | None = None
    permit_all_axioms: bool = False
    mismatch: bool = False
    result: str | None = None


@dataclass(frozen=True)
class Tools:
    """The programs called, and the environment they are called with, byte for byte as we got it."""

    project: Path
    landrun: str
    lean4export: str
    lean_prefix: str
    git: str
    environment: Mapping[bytes, bytes]


def read_config(text: str, environment: Mapping[bytes, bytes]) -> Config:
    """Parse a config. Raises StandinError on what the comparator refuses too."""
    try:
        given: dict[str, Any] = json.loads(text)
        own: dict[str, Any] = given.get("standin", {})
        kernels = {name: tuple(command) for name, command in (given.get("external_kernels") or {}).items()}
        enable_nanoda = bool(given.get("enable_nanoda") or False)
        if enable_nanoda and kernels:
            raise StandinError("enable_nanoda and external_kernels exclude each other: list nanoda among the kernels")
        for name, command in kernels.items():
            if not command:
                raise StandinError(f"{name} has an empty command")
        nanoda = environment.get(b"COMPARATOR_NANODA")
        if enable_nanoda:
            kernels = {"nanoda": (os.fsdecode(nanoda) if nanoda is not None else "nanoda_bin",)}
        elif nanoda is not None and "nanoda" in kernels:
            kernels["nanoda"] = (os.fsdecode(nanoda), *kernels["nanoda"][1:])
        hook = given.get("measurement_command")
        if hook is not None and not hook:
            raise StandinError("measurement_command must not be empty")
        return Config(
            challenge_module=given["challenge_module"],
            solution_module=given["solution_module"],
            theorem_names=tuple(given["theorem_names"]),
            permitted_axioms=tuple(given["permitted_axioms"]),
            definition_names=tuple(given.get("definition_names") or ()),
            external_kernels=kernels,
            measurement_command=None if hook is None else tuple(hook),
            permit_all_axioms={"comparator": False, "permit-all-axioms": True}[own.get("kernel_config", "comparator")],
            mismatch=bool(own.get("mismatch", False)),
            result=own.get("result"),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise StandinError(f"config: {error!r}") from None


def landrun_arguments(
    command: Sequence[str],
    *,
    pass_environment: Sequence[str] = (),
    read: Sequence[str] = (),
    write: Sequence[str] = (),
    execute: Sequence[str] = (),
) -> list[str]:
    """The arguments after `landrun`, for one command in the comparator's sandbox."""
    arguments = ["--best-effort", "--ro", "/", "--rw", "/dev", "-ldd", "-add-exec"]
    for flag, values in (("--env", pass_environment), ("--ro", read), ("--rwx", write), ("--rox", execute)):
        for value in values:
            arguments += [flag, value]
    return [*arguments, "--", *command]


def wrapped(hook: Sequence[str] | None, phase: str, command: Sequence[str]) -> list[str]:
    """`command` behind the measurement hook, if there is one."""
    return list(command) if hook is None else [*hook, "--phase", phase, "--", *command]


def lean_status(returncode: int) -> int:
    """Python's status of a child, as Lean's runtime gives it to a program: death by signal n is 128 + n."""
    return 128 - returncode if returncode < 0 else returncode


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def spawn(command: Sequence[str], tools: Tools, *, lean: bool, pipes: bool) -> tuple[int, bytes]:
    """Run one child to its end. Returns its status and, with `pipes`, all of its stdout."""
    sys.stdout.flush()
    environment = dict(tools.environment)
    if lean:
        environment[b"LEAN_ABORT_ON_PANIC"] = b"1"
    output = subprocess.PIPE if pipes else None
    try:
        child = subprocess.run(
            command,
            cwd=tools.project,
            env=environment,
            stdout=output,
            stderr=output,
            restore_signals=False,
            close_fds=False,
            check=False,
        )
    except OSError:
        sys.stderr.write(f"could not execute external process '{command[0]}'\n")
        return EXEC_FAILED, b""
    if pipes:
        sys.stderr.buffer.write(child.stderr)
        sys.stderr.flush()
    return lean_status(child.returncode), child.stdout or b""


def build(module: str, config: Config, tools: Tools, hook: Sequence[str] | None) -> None:
    say(f"Building {module}")
    lake_directory = tools.project / ".lake"
    lake_directory.mkdir(exist_ok=True)
    arguments = landrun_arguments(
        ["lake", "build", module],
        pass_environment=["PATH", "HOME", "LEAN_ABORT_ON_PANIC"],
        read=[str(tools.project)],
        write=[str(lake_directory)],
        execute=[tools.lean_prefix, tools.git],
    )
    status, _ = spawn(wrapped(hook, "build", [tools.landrun, *arguments]), tools, lean=True, pipes=False)
    if status != 0:
        raise StandinError(f"Child exited with {status}")


def export(module: str, config: Config, tools: Tools, hook: Sequence[str] | None) -> bytes:
    names = [*KERNEL_NAMES, *config.theorem_names, *config.permitted_axioms, *config.definition_names]
    say(f"Exporting #[{', '.join(names)}] from {module}")
    arguments = landrun_arguments(
        [tools.lean4export, module, "--", *names],
        pass_environment=["PATH", "HOME", "LEAN_PATH", "LEAN_ABORT_ON_PANIC"],
        read=[str(tools.project), str(tools.project / ".lake")],
        execute=[tools.lean_prefix],
    )
    status, exported = spawn(wrapped(hook, "build", [tools.landrun, *arguments]), tools, lean=True, pipes=True)
    if status != 0:
        raise StandinError(f"Child exited with {status}")
    return exported


def kernel_config(config: Config, export_path: str) -> str:
    """The config file for a nanoda-like kernel."""
    axioms: dict[str, object] = (
        {"unsafe_permit_all_axioms": True, "unpermitted_axiom_hard_error": False}
        if config.permit_all_axioms
        else {"permitted_axioms": list(config.permitted_axioms), "unpermitted_axiom_hard_error": True}
    )
    return json.dumps(
        {
            "use_stdin": False,
            "export_file_path": export_path,
            **axioms,
            "nat_extension": True,
            "string_extension": True,
        },
        separators=(",", ":"),
    )


def run_kernel(name: str, command: Sequence[str], exported: bytes, config: Config, tools: Tools) -> int:
    """Run one external kernel; returns its status."""
    say(f"Running {name} kernel on solution")
    with tempfile.NamedTemporaryFile() as config_file, tempfile.NamedTemporaryFile() as export_file:
        config_file.write(kernel_config(config, export_file.name).encode())
        config_file.flush()
        export_file.write(exported)
        export_file.flush()
        given = config_file.name if "noda" in name else export_file.name
        arguments = landrun_arguments([*command, given], read=[config_file.name, export_file.name])
        call = wrapped(config.measurement_command, "checker", [tools.landrun, *arguments])
        status, _ = spawn(call, tools, lean=False, pipes=False)
    say(f"{name} kernel {'rejected' if status else 'accepts'} the solution")
    return status


def judge(config: Config, tools: Tools) -> None:
    """Everything a comparator calls, in its order. Raises StandinError where it would end with an exception."""
    build(config.challenge_module, config, tools, None)
    export(config.challenge_module, config, tools, None)
    build(config.solution_module, config, tools, config.measurement_command)
    exported = export(config.solution_module, config, tools, config.measurement_command)
    say("(stand-in: statements and axioms are not compared)")
    if config.mismatch:
        raise StandinError("(stand-in: told to find a mismatch)")
    statuses = {
        name: run_kernel(name, command, exported, config, tools)
        for name, command in sorted(config.external_kernels.items())
    }
    say("(stand-in: the built-in Lean kernel is skipped)")
    if config.result is not None:
        Path(config.result).write_text(json.dumps({"kernels": statuses}), encoding="utf-8")
    for name, status in statuses.items():
        if status != 0:
            raise StandinError(f"{name} exited with {status}")
    say("Your solution is okay!")


def ask(command: Sequence[str]) -> str:
    """The trimmed stdout of a helper the comparator asks before it starts, outside any sandbox."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise StandinError(f"{' '.join(command)}: {error}") from None


def find_tools(environment: Mapping[bytes, bytes]) -> Tools:
    def named(variable: bytes, default: str) -> str:
        return os.fsdecode(environment.get(variable, os.fsencode(default)))

    return Tools(
        project=Path.cwd(),
        landrun=named(b"COMPARATOR_LANDRUN", "landrun"),
        lean4export=named(b"COMPARATOR_LEAN4EXPORT", "lean4export"),
        lean_prefix=ask(["lean", "--print-prefix"]),
        git=ask(["which", "git"]),
        environment=environment,
    )


def own_environment() -> dict[bytes, bytes]:
    """The environment as it was handed to us: Python adds LC_CTYPE to its own copy in a C locale, Lean adds nothing."""
    block = Path("/proc/self/environ").read_bytes()
    return dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)


def make_toolchain(directory: Path) -> Path:
    """Write the stand-ins of TOOLS, executable, into `directory`, which goes to the front of PATH; returns it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in TOOLS.items():
        path = directory / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return directory


def main(arguments: Sequence[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--make-toolchain":
        print(make_toolchain(Path(arguments[1])))
        return 0
    # Python ignores SIGXFSZ, which children would inherit; Lean's runtime leaves it alone.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        if not arguments:
            raise StandinError("Expected config file path as first argument")
        environment = own_environment()
        config = read_config(Path(arguments[0]).read_text(encoding="utf-8"), environment)
        judge(config, find_tools(environment))
    except (StandinError, OSError) as error:
        sys.stdout.flush()
        sys.stderr.write(f"uncaught exception: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
