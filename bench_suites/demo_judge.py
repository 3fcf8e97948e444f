"""The judge of `proofcost demo`: calls a build, an export and kernels as a comparator with a measurement hook would.

It exists because a first look must not need a Lean toolchain. What is real and what stands in is printed as it goes:

* build: our generate_export.py, in place of `lake build`; it writes a small valid export into the project's .lake;
* export: `cat` of that file, in place of lean4export; stdout and stderr are pipes and read whole, as a comparator does;
* kernels: each real one that is given (`--kernel NAME=PATH`), over the export in a temporary file; one whose name has
  `noda` in it gets a config file instead, as a comparator's heuristic has it;
* at last the parse-only control, as a checker of its name: it reads the export and checks nothing.

Each call goes through the hook, if one is given: `HOOK --phase build|export|checker -- COMMAND...`; the hook's exit is
the command's. With a sandbox the command runs in it, with the arguments a comparator gives it: landrun's or bwrap's.

Exit 0 when every kernel exits 0, else 1; 2 for wrong usage. A plain script, no import of ours: it is run by its path.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
# What the export's generator imports from: HERE's own package when installed, the checkout else.
PACKAGE_ROOT = next(folder for folder in HERE.parents if (folder / "proofcost" / "bench_suites").is_dir())
EXPORT_NAME = "solution.ndjson"
CONTROL = "parse-only"
KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LEAN_PATH")
"""What calls see of the caller's environment: any more (RUST_BACKTRACE, say) would be part of what is measured."""


class JudgeError(Exception):
    """What ends the run as rejected before a kernel could speak."""


@dataclass(frozen=True)
class Call:
    """One command and what its sandbox lets it have. Paths are absolute."""

    command: tuple[str, ...]
    directory: Path
    pass_environment: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sandbox:
    """Which sandbox a call runs in: `landrun`, `bwrap` or `none`, and its program."""

    kind: str
    program: str = ""

    def argv(self, call: Call) -> list[str]:
        if self.kind == "landrun":
            return [self.program, *landrun_arguments(call), "--", *call.command]
        if self.kind == "bwrap":
            return [self.program, *bwrap_arguments(call), "--", *call.command]
        return list(call.command)


def landrun_arguments(call: Call) -> list[str]:
    """As the comparator gives them: everything readable, /dev writable, what the call names beside it."""
    arguments = ["--best-effort", "--ro", "/", "--rw", "/dev", "-ldd", "-add-exec"]
    for flag, values in (
        ("--env", call.pass_environment),
        ("--ro", call.read),
        ("--rwx", call.write),
        ("--rox", call.execute),
    ):
        for value in values:
            arguments += [flag, value]
    return arguments


def bwrap_arguments(call: Call) -> list[str]:
    """As `lake comparator` gives them: empty environment, homes and /tmp; what the call names is bound back in."""
    arguments = ["--ro-bind", "/", "/"]
    for hidden in ("/home", "/root", "/run/user", "/tmp"):
        if os.path.isdir(hidden):
            arguments += ["--tmpfs", hidden]
    arguments += ["--dir", "/tmp/home", "--dev", "/dev", "--proc", "/proc", "--clearenv"]
    for path in dict.fromkeys((*call.read, *call.execute)):
        arguments += ["--ro-bind", path, path]
    for path in call.write:
        arguments += ["--bind", path, path]
    for name in call.pass_environment:
        value = "1" if name == "LEAN_ABORT_ON_PANIC" else os.environ.get(name)
        if value is not None and name != "HOME":
            arguments += ["--setenv", name, value]
    arguments += ["--setenv", "HOME", "/tmp/home"]
    return [*arguments, "--unshare-all", "--die-with-parent", "--new-session", "--chdir", str(call.directory)]


@dataclass(frozen=True)
class Judge:
    """A judge over one project directory: which hook (None: calls go unmeasured) and which sandbox."""

    project: Path
    hook: str | None
    sandbox: Sandbox

    def argv(self, phase: str, call: Call) -> list[str]:
        inner = self.sandbox.argv(call)
        return inner if self.hook is None else [self.hook, "--phase", phase, "--", *inner]

    def run(self, phase: str, call: Call, *, pipes: bool = False, lean: bool = False) -> tuple[int, bytes]:
        """Run `call` to its end: its status (128 + n for death by signal n) and, with `pipes`, its stdout."""
        sys.stdout.flush()
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment.update({"LANG": "C.UTF-8", **({"LEAN_ABORT_ON_PANIC": "1"} if lean else {})})
        output = subprocess.PIPE if pipes else None
        argv = self.argv(phase, call)
        try:
            child = subprocess.run(
                argv,
                cwd=self.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
        except OSError as error:
            raise JudgeError(f"cannot start {argv[0]}: {error.strerror}; give a program that can be executed") from None
        if pipes:
            sys.stderr.buffer.write(child.stderr)
            sys.stderr.flush()
        status = child.returncode
        return (128 - status if status < 0 else status), child.stdout or b""


def python() -> tuple[str, ...]:
    """This interpreter by its real path: a sandbox may forbid what a virtual environment's link points through."""
    return (os.path.realpath(sys.executable), "-I", "-S")


def python_folders() -> tuple[str, ...]:
    """Where the interpreter and its library lie, for a sandbox that hides homes."""
    return tuple(dict.fromkeys((os.path.realpath(sys.base_prefix), os.path.dirname(os.path.realpath(sys.executable)))))


def build(judge: Judge, n: int) -> None:
    print(f"build: generate_export.py writes an export of {n} declarations (stands in for `lake build`: no Lean here)")
    lake_directory = judge.project / ".lake"
    lake_directory.mkdir(exist_ok=True)
    script = HERE / "generate_export.py"
    call = Call(
        command=(*python(), str(script), f"church:{n}", "--out", str(lake_directory / EXPORT_NAME)),
        directory=judge.project,
        pass_environment=("PATH", "HOME", "LEAN_ABORT_ON_PANIC"),
        read=(str(judge.project), str(PACKAGE_ROOT)),
        write=(str(lake_directory),),
        execute=python_folders(),
    )
    status, _ = judge.run("build", call, lean=True)
    if status != 0:
        raise JudgeError(f"the build exited with {status}")


def export(judge: Judge) -> bytes:
    print("export: cat prints that export into a pipe (stands in for lean4export)")
    call = Call(
        command=("/bin/cat", str(judge.project / ".lake" / EXPORT_NAME)),
        directory=judge.project,
        pass_environment=("PATH", "HOME", "LEAN_PATH", "LEAN_ABORT_ON_PANIC"),
        read=(str(judge.project),),
    )
    status, exported = judge.run("export", call, pipes=True, lean=True)
    if status != 0:
        raise JudgeError(f"the export exited with {status}")
    return exported


def check(judge: Judge, name: str, command: Sequence[str], exported: bytes, execute: Sequence[str]) -> int:
    """Give `exported` to one kernel; its status."""
    with tempfile.NamedTemporaryFile(suffix=".json") as config, tempfile.NamedTemporaryFile(suffix=".ndjson") as file:
        file.write(exported)
        file.flush()
        keys = {
            "export_file_path": file.name,
            "use_stdin": False,
            "permitted_axioms": [],
            "unpermitted_axiom_hard_error": True,
            "nat_extension": True,
            "string_extension": True,
        }
        config.write(json.dumps(keys).encode())
        config.flush()
        in_bwrap = judge.sandbox.kind == "bwrap"
        call = Call(
            command=(*command, config.name if "noda" in name else file.name),
            directory=Path("/tmp") if in_bwrap else judge.project,
            pass_environment=("LEAN_ABORT_ON_PANIC",) if in_bwrap else (),
            read=(config.name, file.name),
            execute=tuple(execute),
        )
        status, _ = judge.run("checker", call)
    return status


def judge_all(judge: Judge, kernels: Sequence[tuple[str, str]], n: int) -> int:
    """The whole run; 0 when every kernel exited 0, else 1. Raises JudgeError where no kernel could be asked."""
    build(judge, n)
    exported = export(judge)
    failed = []
    for name, path in kernels:
        print(f"checker: kernel {name} over {len(exported)} bytes")
        program = os.path.realpath(path)
        if check(judge, name, [program], exported, [program]) != 0:
            failed.append(name)
        print(f"checker: {name} {'REJECTS (or could not check)' if name in failed else 'accepts'}")
    if not kernels:
        print("checker: no kernel was given, so no proof is checked here")
    print(f"checker: {CONTROL}, the control that reads the export and checks nothing")
    control = [*python(), str(HERE / "parse_only.py")]
    if check(judge, CONTROL, control, exported, [str(HERE), *python_folders()]) != 0:
        failed.append(CONTROL)
    if failed:
        print(f"judge: not accepted by {', '.join(failed)}")
        return 1
    print("judge: every kernel accepts" if kernels else "judge: everything ran")
    return 0


def kernel_argument(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH")
    return name, path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="demo_judge", description="A judge to measure where there is no Lean.")
    parser.add_argument("--hook", metavar="PATH", help="launcher of `proofcost phase`; without it nothing is measured")
    parser.add_argument("--project", required=True, metavar="DIR", help="an existing directory to work in")
    sandbox = parser.add_mutually_exclusive_group()
    sandbox.add_argument("--landrun", metavar="PATH")
    sandbox.add_argument("--bwrap", metavar="PATH")
    parser.add_argument("--kernel", action="append", default=[], type=kernel_argument, metavar="NAME=PATH")
    parser.add_argument("--n", type=int, default=2000, help="declarations to generate (default 2000)")
    options = parser.parse_args(arguments)

    def refuse(what: str) -> NoReturn:
        parser.error(what)

    project = Path(options.project).resolve()
    if not project.is_dir():
        refuse(f"--project {options.project}: no such directory; make it first")
    if options.landrun:
        chosen = Sandbox("landrun", options.landrun)
    elif options.bwrap:
        chosen = Sandbox("bwrap", options.bwrap)
    else:
        chosen = Sandbox("none")
        print("judge: no sandbox: every command runs unconfined")
    try:
        return judge_all(Judge(project, options.hook, chosen), options.kernel, options.n)
    except JudgeError as error:
        sys.stdout.flush()
        print(f"judge: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
