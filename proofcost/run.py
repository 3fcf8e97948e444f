"""`proofcost run -- JUDGE...`: run any judge or command, and record it and every sandboxed call in it.

The judge gets COMPARATOR_LANDRUN and COMPARATOR_BWRAP (or a PATH) that name launchers of this very session; everything
else it gets as from the shell. Exit: as the judge; 2 when nothing was started because of a wrong call.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

from proofcost.adapters import launchers
from proofcost.harness import meter, outcome, perf, policy, quantity, run_folder, signals, spawn, store, whole
from proofcost.harness.door import VARIABLE as DOOR_VARIABLE
from proofcost.harness.plan import Plan
from proofcost.harness.record import Json, escape_text

DESCRIPTION = (
    "Run any judge or command; every sandboxed call in it and the whole are recorded, its verdict is unchanged."
)

# These hand the work to something else and wait: measuring them measures an idle client.
_CLIENTS = {
    "systemd-run": "systemd-run [OPTIONS] proofcost run -- JUDGE",
    "docker": "docker run [OPTIONS] IMAGE proofcost run -- JUDGE",
    "podman": "podman run [OPTIONS] IMAGE proofcost run -- JUDGE",
    "nerdctl": "nerdctl run [OPTIONS] IMAGE proofcost run -- JUDGE",
    "kubectl": "proofcost run -- JUDGE as the container's own command",
    "srun": "srun [OPTIONS] proofcost run -- JUDGE",
    "sbatch": "`proofcost run -- JUDGE` inside the batch script",
    "ssh": "ssh HOST proofcost run -- JUDGE",
}
# Environment variables by which judges are told where a sandbox is, and the launcher that stands there.
_SHIMMED = {"COMPARATOR_LANDRUN": "landrun", "COMPARATOR_BWRAP": "bwrap"}
_EXEC_DIRECTORIES = ("XDG_RUNTIME_DIR", "TMPDIR")
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


USAGE = 2
LABEL_MAX = 1024
LEAST_MEMORY_BYTES = 1 << 20


class UsageError(Exception):
    """The call was wrong; nothing was started. One line."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command line of `run`."""
    parser = subparsers.add_parser(
        "run",
        help="run a judge or command and record what it cost",
        description=DESCRIPTION,
        usage="proofcost run [OPTIONS] -- JUDGE [ARGUMENT...]",
    )
    parser.add_argument(
        "-l", "--label", action="append", default=[], metavar="K=V", help="label every record of this run"
    )
    parser.add_argument("--store", metavar="DIR", help="where records go (default: $PROOFCOST_STORE, else by user)")
    parser.add_argument("--timeout", metavar="T", help="kill the judge and all it started after T (90, 90s, 15m, 2h)")
    parser.add_argument(
        "--memory",
        metavar="M",
        help="limit the judge and all it starts to M (512M = 512 million bytes, 8Gi = 8 x 2^30), swap included",
    )
    parser.add_argument("--strict", action="store_true", help="refuse (exit 125) rather than run unmeasured")
    parser.add_argument(
        "--kill-stragglers", action="store_true", help="kill what outlives a call instead of reporting it"
    )
    parser.add_argument(
        "--cgroup", choices=("auto", "off"), default="auto", help="use a cgroup for each call (default auto)"
    )
    parser.add_argument(
        "--shims", choices=("env", "path", "none"), default="env",
        help="how the judge finds our launchers: COMPARATOR_LANDRUN and _BWRAP, PATH, or not at all (default env)",
    )  # fmt: skip
    parser.add_argument(
        "--as", dest="as_user", metavar="USER",
        help="(root) run the judge as USER (a name, a number or UID:GID); root keeps the records, USER cannot",
    )  # fmt: skip
    parser.add_argument(
        "--seal-key", metavar="FILE", help="(with --as) sign the session's seal with this key (HMAC-SHA256)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- JUDGE...", help=argparse.SUPPRESS)
    parser.set_defaults(run=main)


def parse_labels(given: list[str]) -> dict[str, Json]:
    """{key: value} from K=V words. Raises UsageError."""
    labels: dict[str, Json] = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"label {word!r}: not of the form KEY=VALUE; write for example -l kernel=nanoda")
        if len(word) > LABEL_MAX:
            raise UsageError(f"label {word[:40]!r}...: {len(word)} characters; at most {LABEL_MAX}")
        if escape_text(key) in labels:
            raise UsageError(f"label {key!r}: given twice; give it once")
        labels[escape_text(key)] = escape_text(value)
    return labels


def parse_quantity(text: str, units: dict[str, int], option: str, example: str) -> int:
    """A positive number with a unit of `units`, in the smallest unit, rounded down. Raises UsageError."""
    try:
        return quantity.parse(text, units)
    except ValueError as error:
        raise UsageError(f"{option} {text[:40]!r}: {error}; {example}") from None


def find_command(words: list[str]) -> list[str]:
    """The judge's argv from what stands after our options. Raises UsageError."""
    if words and words[0] != "--":
        raise UsageError(f"{words[0]!r}: put `--` between our options and the judge: proofcost run [OPTIONS] -- JUDGE")
    command = words[1:]
    if not command or not command[0]:
        raise UsageError("no judge given; usage: proofcost run [OPTIONS] -- JUDGE [ARGUMENT...]")
    client = os.path.basename(command[0])
    if client in _CLIENTS and not (client == "systemd-run" and "--scope" in command):
        raise UsageError(
            f"{client} only waits for what it starts elsewhere: nothing would be measured; write {_CLIENTS[client]}"
        )
    return command


def judge_config(command: list[str]) -> str | None:
    """The judge's configuration file: the first existing `.json` among its arguments."""
    for word in command[1:]:
        path = word.partition("=")[2] if word.startswith("-") else word
        if path.endswith(".json") and os.path.isfile(path):
            return path
    default = lake_comparator_default(command)
    return default if default is not None and os.path.isfile(default) else None


# Lake's options before the command that take the next word.
_LAKE_VALUED = ("-d", "--dir", "-f", "--file", "-K")


def lake_comparator_default(command: list[str]) -> str | None:
    """Where `lake comparator` finds its configuration when none is named; None for any other command."""
    folder, words = ".", iter(command[1:])
    if os.path.basename(command[0]) != "lake":
        return None
    for word in words:
        if word in _LAKE_VALUED:
            value = next(words, "")
            folder = value if word in ("-d", "--dir") else folder
        elif word.startswith("--dir="):
            folder = word.removeprefix("--dir=")
        elif not word.startswith("-"):
            return os.path.join(folder, "comparator.json") if word == "comparator" else None
    return None


def launcher_directory() -> str:
    """A new directory of ours from which programs may be started. Raises MeterError."""
    candidates = [os.environ[name] for name in _EXEC_DIRECTORIES if os.environ.get(name)] + ["/tmp", "/var/tmp", "."]
    for parent in candidates:
        if os.pathsep in parent:  # nobody would find it in a PATH
            continue
        try:
            if os.statvfs(parent).f_flag & os.ST_NOEXEC:
                continue
            return run_folder.make(os.path.abspath(parent))
        except OSError:
            continue
    raise policy.MeterError(
        f"no directory for launchers that may execute: tried {', '.join(candidates)}; set TMPDIR, or use --shims none"
    )


def own_options(plan: Plan, directory: str, wanted: bool) -> launchers.Options:
    """What launchers of a judge that runs as ourselves have baked in; the meter is copied into `directory` if `wanted`.

    Where it cannot be (no room), they use the package where it stands.
    """
    options = launchers.Options(plan.store, os.path.dirname(_PACKAGE), launchers.choose_interpreter())
    if wanted:
        from pathlib import Path

        from proofcost.meter_copy import CopyError, copy_meter

        tree = os.path.join(directory, "meter")
        try:
            options.digest = copy_meter(Path(tree), Path(tree), options.interpreter)
            options.tree = tree
        except (OSError, CopyError):
            shutil.rmtree(tree, ignore_errors=True)
    return options


def write_launchers(plan: Plan, directory: str, shims: str, options: launchers.Options | None = None) -> dict[str, str]:
    """Write this run's launchers; returns the environment variables that point the judge at them."""
    # Where one is not there, the judge fails to find it in its own words, as without us.
    programs = {variable: spawn.find_program(os.environ.get(variable) or name) for variable, name in _SHIMMED.items()}
    if options is None:
        options = own_options(plan, directory, any(programs.values()))
    options.session, options.strict = plan.session, plan.strict
    options.kill_stragglers, options.cgroup = plan.kill_stragglers, plan.cgroup
    changed: dict[str, str] = {}
    for variable, name in _SHIMMED.items():
        found = programs[variable]
        if found is None:
            continue
        path = os.path.join(directory, name)
        launchers.write(path, launchers.text_of(name, os.path.abspath(found), options))
        if perf.loses_counters(found, *(() if plan.user is None else (plan.user.uid, plan.user.gid))):
            plan.uncounted = name
        # By PATH, a variable that is set all the same would lead past us.
        if shims == "env" or os.environ.get(variable):
            changed[variable] = path
    if plan.door is not None:
        changed[DOOR_VARIABLE] = str(plan.door.number)
    if shims == "path":
        changed["PATH"] = directory + os.pathsep + os.environ.get("PATH", os.defpath)
    return changed


def chosen_store(named: str | None) -> str:
    """--store, else the default place. Raises UsageError."""
    if named is None:
        return store.default_place(dict(os.environ), os.geteuid())
    if not named:
        raise UsageError("--store '': empty; name a folder, or leave the option out")
    return store.absolute(named)


def fill(plan: Plan, args: argparse.Namespace) -> None:
    """What is to be measured, from the command line. Raises UsageError."""
    plan.strict, plan.kill_stragglers, plan.cgroup = args.strict, args.kill_stragglers, args.cgroup
    if plan.user is not None and plan.strict and plan.cgroup == "off":
        raise UsageError(
            "--as with --strict needs a cgroup, or what outlives the judge could not be stopped: leave --cgroup off out"
        )
    plan.labels = parse_labels(args.label)
    if args.timeout is not None:
        plan.timeout_ns = parse_quantity(
            args.timeout, quantity.TIME_UNITS, "--timeout", "write for example --timeout 15m"
        )
    if args.memory is not None:
        plan.memory_limit_bytes = parse_quantity(
            args.memory, quantity.BYTE_UNITS, "--memory", "write for example --memory 8G"
        )
        if plan.memory_limit_bytes < LEAST_MEMORY_BYTES:
            raise UsageError(
                f"--memory {args.memory!r}: {plan.memory_limit_bytes} bytes hold no program; write for example 8G"
            )
    plan.store = chosen_store(args.store)
    plan.phase_understood, plan.phase_known_by = "whole", "run"
    plan.target = plan.argv
    plan.judge_config = judge_config(plan.argv)
    plan.session = whole.new_session()
    if args.seal_key is not None:
        from proofcost import run_as

        plan.seal_key = run_as.read_key(args.seal_key, plan.user)


def change_user(plan: Plan, name: str) -> None:
    """Have the judge run as the user `name`, with a HOME, USER and LOGNAME to match. Raises UsageError.

    Before anything else: from here on nothing can run it as root.
    """
    from proofcost import run_as

    plan.user = run_as.find_user(name)
    os.environ.update(plan.user.environment())


def main(args: argparse.Namespace) -> int:
    """Run the judge. Returns its exit code, or does not return: dies by the signal the judge died of."""
    try:
        plan = Plan(find_command(args.command), "run")
        if args.as_user is not None:
            change_user(plan, args.as_user)
        status = measure(plan, args.shims, lambda: fill(plan, args))
    except UsageError as error:
        policy.say(str(error))
        return USAGE
    if os.isatty(2):
        sys.stderr.write("\n")
        show(plan, sys.stderr)
    if os.WIFSIGNALED(status):
        signals.die_by(os.WTERMSIG(status))
    return outcome.exit_code(status)


def make_whole(plan: Plan, inherited: signals.Inherited) -> whole.Whole:
    """Whoever measures the judge itself."""
    if plan.user is None:
        return whole.Whole(plan, inherited)
    from proofcost.harness.collected_whole import CollectedWhole

    return CollectedWhole(plan, inherited)


def measure(plan: Plan, shims: str, complete: Callable[[], None] | None = None) -> int:
    """Run the plan's judge with launchers of its own and record it. Returns the raw wait status.

    `complete` fills in the plan: from here on, so that what fails in it cannot keep the judge from running.
    Raises UsageError when nothing was started because of a wrong call; does not return when the meter failed before
    the start (the policy has then run or refused the judge).
    """
    inherited = signals.Inherited()
    directory: str | None = None
    options: launchers.Options | None = None
    one: whole.Whole | None = None
    before: dict[str, str | None] = {}

    def undo() -> None:
        """Without a record the launchers would fail one by one: the judge runs as if we were not there."""
        if directory is not None:
            run_folder.remove(directory)
        for name, value in before.items():
            # One by one: rewriting the whole environment would drop duplicates and entries without `=`.
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    try:
        spawn.keep_standard_descriptors_closed()
        if complete is not None:
            complete()
        one = make_whole(plan, inherited)
        signals.block_all()
        if shims != "none":
            if plan.user is None:
                directory = one.directory = launcher_directory()
            else:
                from proofcost import run_as

                directory, options = run_as.launcher_directory(plan, one)
            changed = write_launchers(plan, directory, shims, options)
            before = {name: os.environ.get(name) for name in changed}
            os.environ.update(changed)
        one.sample_paths(["."])
        one.prepare()
    except BaseException as fault:  # noqa: BLE001  # the verdict rule
        undo()
        if isinstance(fault, UsageError | whole.LimitError):
            if one is not None:
                one.abandon()
            inherited.restore()
            raise UsageError(str(fault)) from None
        os._exit(meter.give_up(plan, inherited, fault, one))
    status = meter.run_to_end(one, undo)
    undo()
    if one.child.exec_error is not None:
        what = escape_text(plan.argv[0]) if not one.child.not_the_user else "the judge's user cannot be become"
        policy.say(f"{what}: {os.strerror(one.child.exec_error.errno or 0)}")
    if one.timed_out:
        done = (
            "and all it started were killed" if os.WIFSIGNALED(status) else "could not be killed, and ended by itself"
        )
        policy.say(f"time limit of {outcome.seconds(plan.timeout_ns or 0)} s: the judge {done}")
    # What was sent to a judge that had ended is nobody's any more, and must not end us instead.
    while signals.take(0) is not None:
        pass
    inherited.restore()
    return status


def show(plan: Plan, file: TextIO) -> None:
    """The session's table; a fault here costs the table and nothing else."""
    try:
        from rich.console import Console

        from proofcost.harness.reading import read_store
        from proofcost.reports.table import render

        render(read_store(f"{plan.store}/sessions/{plan.session}").records, Console(file=file))
    except Exception as error:  # noqa: BLE001  # the judge's verdict stands whatever the table does
        policy.say(f"no table: {type(error).__name__}: {error}; proofcost show {plan.session} may tell more")
