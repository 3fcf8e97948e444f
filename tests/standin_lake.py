"""A FAKE Lake: it makes the calls of the real one's `comparator` and `check` (Lean 4.35) and judges nothing.

What a meter meets of Lake is its calls alone, and those are kept here exactly: bwrap's arguments, word for word and in
their order; `env -i` in front, so that the sandbox's program starts with an empty environment; the working directory;
which streams are pipes. `comparator` resolves, builds and exports the challenge, then the solution, then runs every
external kernel in the order of their names and last the bundled one: 6 + N calls. All kernels run, also when one before
has rejected. `check` resolves, builds and exports in one call, and runs the kernels. Exit: 0 accepted, 1 rejected, 2
could not start; stdout is buffered and flushed before each child.

    standin_lake.py --make-toolchain DIR            write bin/{lake,leanexport,lean,KERNELS...} into DIR
    lake comparator [--config F] [--paranoid] [--challenge-from-export F] [--solution-from-export F]
    lake check [--paranoid]
    lake env | resolve-deps | build MODULE          what the two call inside the sandbox

A project is a folder with lake-manifest.json. M.ndjson is what exporting M prints; M.build-status, M.export-status and
resolve-status are exit codes, KERNEL.kernel-status beside the toolchain the kernel's (or a signal's name), where they
are there. The config may hold `standin`: {"mismatch": true} pretends that the statements differ.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LAKE = """\
#!/bin/sh
# Stand-in for lake: what runs inside the sandbox is here; a judge goes to standin_lake.py.
case "$1" in
    env | resolve-deps)
        [ ! -e resolve-status ] || exit "$(cat resolve-status)"
        : > .lake/resolved || exit 65
        [ "$1" = resolve-deps ] || printf 'LEAN_PATH=%s/.lake/build\\nPATH=@PREFIX@/bin:%s\\n' "$PWD" "$PATH" ;;
    build)
        mkdir -p .lake/build && cp "$2.lean" .lake/build/ || exit 65
        echo "stand-in lake built $2"
        [ ! -e "$2.build-status" ] || exit "$(cat "$2.build-status")" ;;
    check)
        [ "$LAKE_CHECK_EXPORT" = 1 ] || exec @PYTHON@ -IS @STANDIN@ @PREFIX@ "$@"
        : > .lake/built && cat Project.ndjson ;;
    *) exec @PYTHON@ -IS @STANDIN@ @PREFIX@ "$@" ;;
esac
"""
LEANEXPORT = """\
#!/bin/sh
# Stand-in for leanexport: prints the export prepared as M.ndjson.
[ "$2" = -- ] && [ -n "$LEAN_PATH" ] || exit 64
[ ! -e "$1.export-status" ] || exit "$(cat "$1.export-status")"
exec cat "$1.ndjson"
"""
KERNEL = """\
#!/bin/sh
# Stand-in for a kernel: its last argument must be there; ends as NAME.kernel-status beside the toolchain says.
for last; do :; done
[ -s "$last" ] && [ "$PWD" = /tmp ] && [ "$LEAN_ABORT_ON_PANIC" = 1 ] || exit 3
how=$(cat @PREFIX@/"${0##*/}.kernel-status" 2>/dev/null || echo 0)
case "$how" in [A-Z]*) kill -s "$how" $$ ;; *) exit "$how" ;; esac
"""
KERNELS = ("leanchecker", "leanchecker-paranoid", "lean4lean", "nanoda_bin", "con-leche", "con-ron")
PRIMITIVES = ("Nat.add", "Nat.sub", "List", "Nat", "String")
"""Constants asked for in every export; Lake's own list is longer."""
FORBIDDEN = ("/run", "/var")
EXEC_FAILED = 255
INTERPRETER = "/usr/bin/python3"
MISSING_SANDBOX = "error: `lake {}` needs `{}` to sandbox the code it checks, and it was not found.\n"


class RejectedError(Exception):
    """Ends a judge with 1."""


class CannotRunError(Exception):
    """Ends a judge with 2."""


@dataclass(frozen=True)
class Call:
    """One sandboxed call: the command, the variables and paths it gets, where it runs."""

    command: Sequence[str]
    variables: Sequence[tuple[str, str]] = ()
    readable: Sequence[str] = ()
    writable: Sequence[str] = ()
    hidden: Sequence[str] = ()
    network: bool = False
    directory: str | None = None


@dataclass
class Judge:
    """What a judge found when it started, and the project's search paths once they are resolved."""

    prefix: str
    project: str
    sandbox: str
    env: str
    lean_path: str = ""
    path: str = ""
    kernels: dict[str, list[str]] = field(default_factory=dict)


def bwrap_arguments(call: Call, project: str) -> list[str]:
    arguments = ["--ro-bind", "/", "/"]
    for path in ("/home", "/root", "/run/user", "/tmp"):
        arguments += ["--tmpfs", path]
    arguments += ["--dir", "/tmp/home", "--dev", "/dev", "--proc", "/proc", "--clearenv"]
    for path in call.hidden:
        arguments += ["--tmpfs", path]
    for path in call.readable:
        arguments += ["--ro-bind", path, path]
    for path in call.writable:
        arguments += ["--bind", path, path]
    for name, value in call.variables:
        arguments += ["--setenv", name, value]
    arguments += ["--setenv", "HOME", "/tmp/home", "--unshare-all", "--die-with-parent", "--new-session"]
    arguments += ["--share-net"] if call.network else []
    return [*arguments, "--chdir", call.directory or project, "--", *call.command]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def which(name: str) -> str | None:
    done = subprocess.run(["which", name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    return os.fsdecode(done.stdout).strip() or None if done.returncode == 0 else None


def passed(*names: str) -> list[tuple[str, str]]:
    """The variables of ours that are set, then the one that every call gets."""
    found = [(name, os.environ[name]) for name in names if name in os.environ]
    return [*found, ("LEAN_ABORT_ON_PANIC", "1")]


def start(judge: Judge, call: Call, stdout: int | IO[bytes] | None) -> tuple[int, bytes]:
    """Run one call. Returns the status as Lean's runtime gives it (128 + n for a signal), and a piped stdout."""
    sys.stdout.flush()
    command = [judge.env, "-i", judge.sandbox, *bwrap_arguments(call, judge.project)]
    captured = stdout is not None
    try:
        done = subprocess.run(
            command,
            cwd=judge.project,
            stdin=subprocess.DEVNULL if captured else None,
            stdout=stdout,
            stderr=subprocess.PIPE if captured else None,
            restore_signals=False,
            check=False,
        )
    except OSError:
        return EXEC_FAILED, b""
    if captured:
        sys.stderr.buffer.write(done.stderr)
        sys.stderr.flush()
    status = done.returncode
    return (128 - status if status < 0 else status), done.stdout or b""


def needed(status: int) -> None:
    if status != 0:
        raise RejectedError(f"Child exited with {status}")


def resolve(judge: Judge, command: str) -> None:
    say("Resolving dependencies")
    Path(judge.project, ".lake").mkdir(exist_ok=True)
    call = Call(
        [f"{judge.prefix}/bin/lake", command],
        passed("PATH"),
        readable=[judge.project, judge.prefix, f"{judge.prefix}/lib"],
        writable=[f"{judge.project}/.lake"],
        network=True,
    )
    status, said = start(judge, call, subprocess.PIPE if command == "env" else None)
    needed(status)
    for line in said.decode().splitlines():
        name, _, value = line.partition("=")
        judge.lean_path = value if name == "LEAN_PATH" else judge.lean_path
        judge.path = value if name == "PATH" else judge.path


def build(judge: Judge, module: str) -> None:
    say(f"Building {module}")
    call = Call(
        [f"{judge.prefix}/bin/lake", "build", module],
        passed("PATH"),
        readable=[judge.project, judge.prefix, f"{judge.prefix}/lib"],
        writable=[f"{judge.project}/.lake"],
        hidden=FORBIDDEN,
    )
    needed(start(judge, call, None)[0])


def export(judge: Judge, module: str, names: Sequence[str]) -> bytes:
    say(f"Exporting #[{', '.join(names)}] from {module}")
    exporter = f"{judge.prefix}/bin/leanexport"
    call = Call(
        [exporter, module, "--", *names],
        [("LEAN_ABORT_ON_PANIC", "1"), ("LEAN_PATH", judge.lean_path), ("PATH", judge.path)],
        readable=[judge.project, f"{judge.project}/.lake", judge.prefix, exporter],
        hidden=FORBIDDEN,
    )
    with tempfile.TemporaryFile() as streamed:
        status, _ = start(judge, call, streamed)
        needed(status)
        streamed.seek(0)
        return streamed.read()


def run_kernel(judge: Judge, name: str, command: Sequence[str], exported: bytes, axioms: Sequence[str]) -> int:
    say(f"Running {name} kernel on solution")
    with tempfile.NamedTemporaryFile() as config, tempfile.NamedTemporaryFile() as solution:
        made = {"use_stdin": False, "export_file_path": solution.name, "permitted_axioms": list(axioms)}
        made |= {"unpermitted_axiom_hard_error": True, "num_threads": 4}
        config.write(json.dumps({**made, "nat_extension": True, "string_extension": True}).encode())
        config.flush()
        solution.write(exported)
        solution.flush()
        program = which(command[0]) or command[0]
        call = Call(
            [program, *command[1:], config.name if "noda" in name else solution.name],
            passed(),
            readable=[config.name, solution.name, program, judge.prefix],
            hidden=FORBIDDEN,
            directory="/tmp",
        )
        status, _ = start(judge, call, None)
    say(f"{name} kernel {'rejected' if status else 'accepts'} the solution")
    return status


def run_kernels(judge: Judge, exported: bytes, axioms: Sequence[str]) -> None:
    bundled = {"Lean default": [f"{judge.prefix}/bin/leanchecker", "--silent", "--from-export"]}
    refused: str | None = None
    for name, command in [*sorted(judge.kernels.items()), *bundled.items()]:
        status = run_kernel(judge, name, command, exported, axioms)
        refused = refused or (f"{name} exited with {status}" if status else None)
    if refused:
        raise RejectedError(refused)


def paranoid(prefix: str) -> dict[str, list[str]]:
    return {
        "Lean paranoid": [f"{prefix}/bin/leanchecker-paranoid", "--silent", "--from-export"],
        "lean4lean": [f"{prefix}/bin/lean4lean", "--import"],
        "nanoda": [f"{prefix}/bin/nanoda_bin"],
        "con-leche": [f"{prefix}/bin/con-leche"],
        "con-ron": [f"{prefix}/bin/con-ron"],
    }


def prepare(prefix: str, command: str) -> Judge:
    """The judge, once everything it needs to start is found. Raises CannotRunError."""
    named = os.environ.get("COMPARATOR_BWRAP", "bwrap")
    sandbox, env = which(named), which("env")
    if sandbox is None:
        raise CannotRunError(MISSING_SANDBOX.format(command, named))
    if which("git") is None or env is None:
        raise CannotRunError(f"error: `lake {command}` needs `git` and `env` on PATH\n")
    project = os.path.realpath(".")
    if not os.path.exists(f"{project}/lake-manifest.json"):
        raise CannotRunError(f"error: '{project}' has no `lake-manifest.json`\n")
    return Judge(prefix, project, sandbox, env)


def options_of(words: Sequence[str]) -> dict[str, str]:
    """{option: value} of `--option value`, `--option=value` and flags. Raises CannotRunError."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in ("--config", "--challenge-from-export", "--solution-from-export"):
            found[name] = value if equals else next(rest, "")
        elif name in ("--paranoid", "--inadvisably-no-sandbox"):
            found[name] = ""
        else:
            raise CannotRunError(f"error: unknown option '{word}'\n")
    return found


def comparator(prefix: str, options: dict[str, str]) -> None:
    judge = prepare(prefix, "comparator")
    try:
        config: dict[str, Any] = json.loads(Path(options.get("--config", "comparator.json")).read_text())
    except (OSError, ValueError) as error:
        raise CannotRunError(f"error: could not read the configuration: {error}\n") from None
    judge.kernels = {**(config.get("external_kernels") or {}), **(paranoid(prefix) if "--paranoid" in options else {})}
    names = [*config["theorem_names"], *config["permitted_axioms"], *PRIMITIVES]
    exports: dict[str, bytes] = {}
    ready = {side: options.get(f"--{side}-from-export") for side in ("challenge", "solution")}
    if None in ready.values():
        resolve(judge, "env")
    for side, path in ready.items():
        if path is None:
            build(judge, config[f"{side}_module"])
            exports[side] = export(judge, config[f"{side}_module"], names)
        else:
            exports[side] = Path(path).read_bytes()
    if config.get("standin", {}).get("mismatch"):
        raise RejectedError("(stand-in: told to find a mismatch)")
    run_kernels(judge, exports["solution"], config["permitted_axioms"])
    say("Your solution is okay!")


def check(prefix: str, options: dict[str, str]) -> None:
    judge = prepare(prefix, "check")
    judge.kernels = paranoid(prefix) if "--paranoid" in options else {}
    resolve(judge, "resolve-deps")
    say("Building and exporting")
    call = Call(
        [f"{prefix}/bin/lake", "check"],
        [*passed("PATH", "HOME"), ("LAKE_CHECK_EXPORT", "1")],
        readable=[judge.project, prefix, f"{prefix}/lib"],
        writable=[f"{judge.project}/.lake"],
        hidden=FORBIDDEN,
    )
    status, exported = start(judge, call, subprocess.PIPE)
    needed(status)
    run_kernels(judge, exported, ())
    say("Uses no axioms")


def make_toolchain(prefix: Path) -> Path:
    """Write a toolchain of stand-ins; its bin/ goes to the front of PATH."""
    (prefix / "lib").mkdir(parents=True)
    (prefix / "bin").mkdir()
    standin = prefix / "lib" / "standin_lake.py"
    standin.write_bytes(Path(__file__).read_bytes())
    tools = {"lake": LAKE, "leanexport": LEANEXPORT, "git": "#!/bin/sh\n", **dict.fromkeys(KERNELS, KERNEL)}
    for name, text in tools.items():
        for sign, value in (("PREFIX", prefix), ("STANDIN", standin), ("PYTHON", INTERPRETER)):
            text = text.replace(f"@{sign}@", str(value))
        (prefix / "bin" / name).write_text(text)
        (prefix / "bin" / name).chmod(0o755)
    return prefix


def main(arguments: Sequence[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--make-toolchain":
        print(make_toolchain(Path(arguments[1])))
        return 0
    # Python ignores SIGXFSZ, which children would inherit; Lean's runtime leaves it alone (and ignores SIGPIPE).
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    prefix, command, *words = arguments
    try:
        {"comparator": comparator, "check": check}[command](prefix, options_of(words))
    except KeyError as error:
        sys.stderr.write(f"error: unknown command or key {error}\n")
        return 2
    except CannotRunError as error:
        sys.stderr.write(str(error))
        return 2
    except (RejectedError, OSError) as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
