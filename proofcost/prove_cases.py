"""What `doctor --prove` plants: programs that accept, reject and die, sandboxes around them, states to leave them in.

What is installed here is used; what is missing is stood in for by a script of ours, and every line about it says so.
"""

import json
import os
import resource
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from proofcost.bench_suites import families
from proofcost.doctor_seen import Tool, Tried
from proofcost.prove_call import READY, Caller, Planted

SHELL = "/bin/sh"
STAND_IN = "stand-in"
# Small, and enough for a kernel to have something to accept or to reject.
_EXPORTS = {"accept": "church:40", "reject": "church-reject:40"}

# The flags before the command are the sandbox's own, and a shell needs no more to leave them out.
_STAND_IN_SANDBOX = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
# Says what kernels say, by the name of the export; it checks nothing.
_STAND_IN_KERNEL = """#!/bin/sh
case $1 in
*planted-fault*)
    echo 'a stand-in for a kernel: rejected' >&2
    exit 1
    ;;
esac
echo 'a stand-in for a kernel: Checked some declarations with no errors'
"""

PLAIN = Caller((b"PATH=/usr/bin:/bin", b"HOME=/nonexistent"))


@dataclass(frozen=True)
class Sandbox:
    """What stands before the program: `name` as its launcher is called (`none`: nothing), and what is to be said of
    it."""

    name: str
    prefix: tuple[str, ...] = ()
    label: str = "no sandbox"

    def around(self, program: Iterable[str]) -> list[str]:
        return [*self.prefix, *program]


@dataclass(frozen=True)
class Case:
    """One call to be compared: what it is called in a report, and all it consists of."""

    name: str
    planted: Planted
    caller: Caller = PLAIN
    sandbox: Sandbox = Sandbox("none")

    @property
    def argv(self) -> list[str]:
        return self.sandbox.around(self.planted.program)


def _shell(script: str, stdin: bytes = b"") -> Planted:
    return Planted((SHELL, "-c", script), stdin)


ODD_INPUT = bytes(range(256)) * 1200 + b"no newline at the end"
VERDICTS = {
    "accept": _shell("echo 'Checked 3 declarations with no errors'"),
    "reject": _shell("echo 'the type of foo is wrong' >&2; exit 1"),
    "decline": _shell("echo 'declined'; exit 2"),
    "panic": _shell("echo \"thread 'main' panicked\" >&2; exit 101"),
    "exit 125, as an adapter that fails": _shell("exit 125"),
    "exit 137, as one that was killed": _shell("exit 137"),
    "killed": _shell("echo 'half a line'; kill -9 $$"),
    "crash": _shell("ulimit -c 0; kill -SEGV $$"),
    "odd bytes in, odd bytes out": Planted(("/bin/cat",), ODD_INPUT),
    "much output": _shell("head -c 5000000 /dev/zero | tr '\\0' '\\377'; echo end >&2"),
}

_WAITS = f"echo {READY.decode().strip()}; read -r line; exit 3"
WAITING = Planted((SHELL, "-c", _WAITS), waits=True)
SILENT = Planted(("/bin/sleep", "3600"), silent=True)


def _odd_state() -> None:
    """All that a caller may change without the program's failing."""
    fd = os.open("/dev/null", os.O_RDWR)
    os.dup2(fd, 9)
    os.dup2(fd, 41)
    os.close(fd)
    for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, 50):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGWINCH, 40})
    os.kill(os.getpid(), signal.SIGUSR2)  # waits
    for which, wanted in (
        (resource.RLIMIT_NOFILE, 100),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_STACK, 1 << 22),
        (resource.RLIMIT_CPU, 600),
    ):
        hard = resource.getrlimit(which)[1]
        if hard == resource.RLIM_INFINITY or hard > wanted:
            resource.setrlimit(which, (wanted, wanted))
    os.umask(0o027)
    os.nice(1)
    os.setpgid(0, 0)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _all_closed() -> None:
    for fd in (0, 1, 2):
        os.close(fd)


ODD = Caller(
    (b"PATH=/usr/bin:/bin", b"A=1", b"A=2", b"no-equals", b"", b"=empty", b"ODD=\xff\xfe\n", b"LC_CTYPE=C", b"LANG=C"),
    _odd_state,
)
CLOSED = Caller(PLAIN.environment, _all_closed)
STATES = {
    "what the program finds": (WAITING, PLAIN),
    "what it finds in an empty environment": (WAITING, Caller(())),
    "what it finds in an odd state": (WAITING, ODD),
    "what it finds with its streams closed": (SILENT, CLOSED),
}
ENDINGS = {
    f"ended by its caller with {signal.Signals(number).name}": Planted(WAITING.program, waits=True, kill=number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
}


def for_sandbox(sandbox: Sandbox) -> Iterator[Case]:
    """Every case that needs no kernel."""
    for name, planted in (*VERDICTS.items(), *ENDINGS.items()):
        yield Case(name, planted, PLAIN, sandbox)
    for name, (planted, caller) in STATES.items():
        yield Case(name, planted, caller, sandbox)
    if sandbox.name != "none":
        nowhere = Planted(("/nonexistent/program",))
        yield Case("a program that the sandbox cannot start", nowhere, PLAIN, sandbox)


def sandboxes(folder: Path, landrun: Tool | None, enforces: Tried, bwrap: Tool | None, works: Tried) -> list[Sandbox]:
    """No sandbox, and each kind that there is an entrance for, real or stood in for by a script in `folder`."""
    stand_in = folder / "sandbox"
    stand_in.write_text(_STAND_IN_SANDBOX)
    stand_in.chmod(0o755)
    # As comparators call it; readable and executable is everything, so that it is found whatever is installed where.
    flags = ("--best-effort", "--rox", "/", "--rw", "/dev", "-ldd", "-add-exec", "--env", "PATH", "--env", "ODD", "--")
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--clearenv", "--setenv", "PATH",
              "/usr/bin:/bin", "--unshare-all", "--die-with-parent", "--new-session", "--")  # fmt: skip
    made = [Sandbox("none")]
    for name, tool, tried, arguments in (
        ("landrun", landrun, enforces, flags),
        ("bwrap", bwrap, works, mounts),
    ):
        if tool is not None and tried.works:
            label = f"{name} {tool.version or ''}".rstrip()
            made.append(Sandbox(name, (os.path.abspath(tool.path), *arguments), label))
        else:
            why = "none found" if tool is None else f"{tool.path}: {tried.said}"
            made.append(Sandbox(name, (str(stand_in), *arguments), f"{name} ({STAND_IN}; {why})"))
    return made


def exports(folder: Path) -> dict[str, Path]:
    """A proof that every kernel accepts and its twin that none may accept, by verdict."""
    made = {"accept": folder / "accept.ndjson", "reject": folder / "planted-fault.ndjson"}
    for verdict, path in made.items():
        with path.open("wb") as file:
            families.parse(_EXPORTS[verdict]).write(file.write)
    return made


def _configured(folder: Path, name: str, export: Path) -> str:
    """What nanoda and its kin are given instead of the export (measuring one is no reason to allow axioms)."""
    path = folder / f"{name}-{export.stem}.json"
    settings = {
        "export_file_path": str(export),
        "use_stdin": False,
        "permitted_axioms": ["propext", "Quot.sound", "Classical.choice"],
        "unpermitted_axiom_hard_error": True,
        "nat_extension": True,
        "string_extension": True,
        "print_success_message": True,
    }
    path.write_text(json.dumps(settings))
    return str(path)


def for_kernels(folder: Path, kernels: Iterable[Tool], sandbox: Sandbox) -> Iterator[Case]:
    """Each kernel that is called by a configuration, on both exports; a stand-in where there is none."""
    found = [tool for tool in kernels if "noda" in tool.name]
    planted = exports(folder)
    for tool in found:
        for verdict, export in planted.items():
            program = (os.path.abspath(tool.path), _configured(folder, tool.name, export))
            yield Case(f"{verdict} by {tool.name}", Planted(program), PLAIN, sandbox)
    if not found:
        script = folder / "kernel"
        script.write_text(_STAND_IN_KERNEL)
        script.chmod(0o755)
        for verdict, export in planted.items():
            yield Case(f"{verdict} by a kernel ({STAND_IN})", Planted((str(script), str(export))), PLAIN, sandbox)
