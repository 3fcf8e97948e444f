"""`proofcost doctor`: can this host measure and sandbox? What was seen, why it matters, what to type next.

Everything is really tried, the way the meter does it: counters are opened over a child, a cgroup is made and removed,
landrun is asked for a write that it must refuse. Exit 1 when a check is `bad` (figures would be wrong), else 0.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from proofcost import doctor_checks, kernels
from proofcost.adapters import launchers, leaneval
from proofcost.bench_suites import registry
from proofcost.doctor_seen import Check, Counter, Interpreter, Seen, Status, Tool, Tried
from proofcost.harness import (
    cgroup,
    digest,
    hierarchy,
    host,
    hostclass,
    libc,
    limits,
    perf,
    policy,
    procfs,
    record,
    spawn,
    store,
    whole,
)
from proofcost.harness.described import DescriptionError
from proofcost.harness.record import Json
from proofcost.output import settled

SCHEMA = 1
SAMPLE_S = 0.5
ANSWER_S = 10  # how long a tool may take to tell its version
_STARTS = 7
_CLOCK_READS = 100  # in a batch; the fastest batch is the one that nothing interrupted
_CHILD = ("/bin/true", "/usr/bin/true")

LEAN_TOOLS = ("lake", "lean", "lean4export", "comparator")
INTERPRETERS = (
    "/usr/bin/python3",
    "/bin/python3",
    "/usr/local/bin/python3",
    *(f"/usr/bin/python3.{n}" for n in range(20, 10, -1)),
)


def _clean(text: str, length: int = 200) -> str:
    """Text from outside on one line, without control characters."""
    lines = text.strip().splitlines()
    return record.escape_text(lines[0].strip())[:length] if lines else ""


def _ask(*command: str) -> tuple[int | None, str]:
    """(exit status, what it printed) of a command with no input; status None when it cannot run or does not end."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_S,
            check=False,
        )
    except OSError as error:
        return None, error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return None, f"no answer in {ANSWER_S} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _child() -> str:
    return next((path for path in _CHILD if os.access(path, os.X_OK)), sys.executable)


# What is looked at


def look_counters() -> tuple[dict[str, Counter], Tried]:
    """Counters and exec stamps over a real child."""
    counters = perf.Counters()
    stamps = perf.ExecStamps()
    counters.open()
    stamps.open()
    try:
        pid = os.posix_spawn(_child(), [_child()], {})
        os.waitpid(pid, 0)
        figures = counters.read()
        found, lost = stamps.read()
    finally:
        counters.close()
        stamps.close()
    seen: dict[str, Counter] = {}
    for name, figure in figures.items():
        if isinstance(figure, dict):
            value, reason = figure["value"], figure["reason"]
            seen[name] = Counter(
                value if isinstance(value, int) else None,
                None if reason is None else str(reason),
                "user-only" in str(figure["method"]),
            )
    if stamps.reason is not None:
        return seen, Tried(False, stamps.reason)
    text = f"{len(found)} seen over a child, {lost} lost"
    return seen, Tried(len(found) > 0, text)


def look_cgroup() -> dict[str, object]:
    """Make a cgroup as the meter would, have a child enter it, read it, remove it."""
    own = hierarchy.find_own()
    group = cgroup.Group(own.kind)
    group.make(
        {name: hierarchy.base_for(own, name) for name in hierarchy.wanted(own)},
        f"{hierarchy.PREFIX}-doctor-{os.getpid()}",
    )
    made: dict[str, str] = dict(group.dirs)
    child = Tried(None)
    peak = False
    try:
        if made:
            peak = group.has_memory
            group.open_entries()
            pid = group.fork()
            if pid == 0:
                try:
                    refused = group.enter(group.was_born_inside())
                    os._exit(1 if refused else 0)
                finally:
                    os._exit(2)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            child = Tried(
                status == 0, "" if status == 0 else "refused by " + "; ".join(group.reasons.values() or ("the kernel",))
            )
            made = dict(group.dirs)
    finally:
        group.close_entries()
        for _ in range(50):  # a cgroup stays busy for a moment after its last process
            if group.remove():
                break
            time.sleep(0.01)
    return {
        "cgroup_kind": own.kind,
        "cgroup_made": made,
        "cgroup_reasons": dict(group.reasons),
        "cgroup_memory_peak": peak,
        "cgroup_child": child,
        "limits": limits.in_force(own.dirs),
    }


def look_landlock() -> dict[str, object]:
    try:
        return {"landlock_abi": libc.landlock_abi()}
    except OSError as error:
        return {"landlock_abi": None, "landlock_reason": error.strerror or str(error)}


def find_tool(name: str, variable: str | None = None, *asked: str) -> Tool | None:
    """A program from the variable or PATH, with digest, and version where it tells one without a side effect."""
    path = (os.environ.get(variable) if variable else None) or shutil.which(name)
    if path is not None:
        path = launchers.real_behind(path)  # our own launcher would measure the trial
    if path is None or not os.access(path, os.X_OK):
        return None
    real = os.path.realpath(path)
    found, _reason = digest.of_file(real, None)
    version = None
    if os.path.basename(real) in ("elan", "elan-init"):
        # A shim: asked for a version it may first download a toolchain.
        version = "(by elan: the project's toolchain decides)"
    else:
        status, said = _ask(path, *(asked or ("--version",)))
        line = _clean(said, 80)
        if status == 0 and any(char.isdigit() for char in line):
            version = line.removeprefix(name).removeprefix("bubblewrap").strip().removeprefix("version ").strip()
    try:
        setuid = bool(os.stat(real).st_mode & 0o6000)
    except OSError:
        setuid = False
    return Tool(name, record.escape_text(path), found, version, setuid)


def try_landrun(tool: Tool | None) -> Tried:
    """Start a program in landrun that may read and execute all, and ask for a write that it must refuse."""
    if tool is None:
        return Tried(None)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "written"
        status, said = _ask(tool.path, "--best-effort", "--rox", "/", "--", _child())
        if status != 0:
            return Tried(False, f"does not start a program: {_clean(said) or f'exit {status}'}")
        _ask(tool.path, "--best-effort", "--rox", "/", "--", "/bin/sh", "-c", f": > {target}")
        return Tried(False, "a forbidden write was NOT refused") if target.exists() else Tried(True)


def try_bwrap(tool: Tool | None) -> Tried:
    """Start bwrap as lake does."""
    if tool is None:
        return Tried(None)
    mounts = ("--ro-bind", "/", "/", "--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc")
    status, said = _ask(tool.path, *mounts, "--unshare-all", "--die-with-parent", "--new-session", "--", _child())
    return Tried(status == 0, _clean(said) or f"exit {status}")


def look_tools() -> dict[str, object]:
    landrun = find_tool("landrun", "COMPARATOR_LANDRUN")
    bwrap = find_tool("bwrap", "COMPARATOR_BWRAP")
    lean = [find_tool(name) for name in LEAN_TOOLS]
    return {
        "landrun": landrun,
        "landrun_enforces": try_landrun(landrun),
        "bwrap": bwrap,
        "bwrap_works": try_bwrap(bwrap),
        "kernels": look_kernels(),
        "lean_tools": tuple(tool for tool in lean if tool is not None),
    }


def look_kernels() -> tuple[Tool, ...]:
    """The kernels of the registry (`proofcost kernels`) that are installed here."""
    found = []
    try:
        known = registry.load([], os.environ)
    except DescriptionError as error:  # a file of the user's own; `kernels` says more
        policy.say(f"doctor: {error}")
        known = registry.load([], {})
    for entry in known.values():
        if entry.control:
            continue
        one = kernels.look(entry, None)
        if one["program"] is not None:
            found.append(Tool(entry.name, record.escape_text(one["program"]), one["sha256"], one["version"]))
    return tuple(found)


def _nearest(path: str) -> str:
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    return path


def _store_fault(place: str) -> tuple[str | None, str | None]:
    """(why no records may be kept at `place`, what the meter would put right there)."""
    # Asked about a folder inside it, the meter's check looks at the place itself as at all above it, and mends nothing.
    inside = place.rstrip("/") + "/doctor"
    try:
        store.check_place(inside, [])
    except store.StoreError as fault:
        real = os.path.realpath(inside)
        return str(fault).replace(inside, place).replace(real, os.path.dirname(real)), None
    except OSError as error:
        return f"store {place}: {error.strerror or error}", None
    try:
        info = os.lstat(place)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return f"store {place}: {error.strerror}", None
    if not stat.S_ISDIR(info.st_mode):
        return f"store {place}: not a folder; move it away or name another", None
    if info.st_uid != os.geteuid():
        return f"store {place}: belongs to user {info.st_uid}, the meter would run as {os.geteuid()}", None
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o777 == 0o700:
        return None, None
    strange = sorted(set(os.listdir(place)) - store.NAMES)
    if strange:
        other = _clean(strange[0])
        return f"store {place}: holds other things ({other}) and is open to others; name a folder of its own", None
    return None, f"mode is {mode:04o}; the meter sets it to 0700 at its next call"


def look_store(place: str) -> dict[str, object]:
    """The store by the meter's own rules, but changing nothing (the meter puts drifted modes of its store right)."""
    import psutil

    seen: dict[str, object] = {"store": place, "store_exists": os.path.isdir(place)}
    fault, drift = _store_fault(place)
    seen["store_fault"] = None if fault is None else record.escape_text(fault)
    seen["store_drift"] = drift
    there = _nearest(place)
    seen["store_writable"] = os.access(there, os.W_OK | os.X_OK)
    try:
        seen["store_free_bytes"] = psutil.disk_usage(there).free
        mounts = [
            part
            for part in psutil.disk_partitions(all=True)
            if store.is_inside(os.path.realpath(there), part.mountpoint)
        ]
        seen["store_filesystem"] = max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else None
    except OSError:
        seen["store_free_bytes"] = seen["store_filesystem"] = None
    return seen


def _list(value: Json) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def _clock_batch_ns() -> int:
    began = time.perf_counter_ns()
    for _ in range(_CLOCK_READS):
        time.monotonic_ns()
    return time.perf_counter_ns() - began


def look_machine() -> dict[str, object]:
    """Processor, memory, clock: what stays while we look."""
    import psutil

    matters, _ = hostclass.gather()
    virtual, swap = psutil.virtual_memory(), psutil.swap_memory()
    read_ns = min(_clock_batch_ns() for _ in range(50)) // _CLOCK_READS
    source = procfs.read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", 64)
    kinds, threads, nodes = matters["core_kinds"], matters["threads_per_core_count"], matters["numa_nodes_count"]
    seccomp = procfs.status_field("self", b"Seccomp")
    return {
        "uid": os.geteuid(),
        "machine": os.uname().machine,
        "paranoid": procfs.read_int("/proc/sys/kernel/perf_event_paranoid"),
        "seccomp": seccomp is not None and seccomp != b"0",
        "nmi_watchdog": procfs.read_int("/proc/sys/kernel/nmi_watchdog") == 1,
        "clock_source": None if source is None else _clean(source.decode("ascii", "replace")),
        "clock_read_ns": read_ns,
        "governors": _list(matters["governors"]),
        "frequency_drivers": _list(matters["frequency_drivers"]),
        "turbo": hostclass.turbo(),
        "threads_per_core": threads if isinstance(threads, int) else None,
        "cpus_count": psutil.cpu_count(logical=True) or 1,
        "cores_count": psutil.cpu_count(logical=False),
        "core_kinds": tuple(kind for kind in kinds if isinstance(kind, dict)) if isinstance(kinds, list) else (),
        "numa_nodes": nodes if isinstance(nodes, int) else None,
        "memory_total_bytes": virtual.total,
        "memory_available_bytes": virtual.available,
        "swap_total_bytes": swap.total,
        "swap_used_bytes": swap.used,
        "pressure": os.path.exists("/proc/pressure/cpu"),
    }


def look_activity(seconds: float = SAMPLE_S) -> dict[str, object]:
    """What else runs, over a moment in which we do nothing."""
    import psutil

    before, began = host.snapshot(), time.monotonic_ns()
    time.sleep(seconds)
    after, sample = host.snapshot(), time.monotonic_ns() - began
    figures = host.disturbance(before, after)
    return {
        "sample_ns": sample,
        "busy_ns": figures["busy"]["value"],
        "steal_ns": figures["steal"]["value"],
        "steal_since_boot_ns": after["steal"],
        "uptime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "load_1_minute_hundredths": int(psutil.getloadavg()[0] * 100),
    }


def _who_else_may_change(path: str) -> str | None:
    """Who but root could put another program in this one's place; None when nobody."""
    real = os.path.realpath(path)
    while True:
        try:
            info = os.stat(real)
        except OSError as error:
            return f"{real}: {error.strerror}"
        if info.st_uid != 0:
            return f"{real} belongs to user {info.st_uid}"
        if info.st_mode & 0o002 or (info.st_mode & 0o020 and info.st_gid != 0):
            return f"{real} may be written by others"
        if real == "/":
            return None
        real = os.path.dirname(real)


def look_interpreters() -> dict[str, object]:
    """System Pythons, each started as a launcher would."""
    found: dict[str, Interpreter] = {}
    for path in INTERPRETERS:
        real = os.path.realpath(path)
        if real in found or not os.access(path, os.X_OK):
            continue
        status, said = _ask(path, "-I", "-S", "-c", "import sys; print(*sys.version_info[:3])")
        words = said.split()
        if status != 0 or len(words) != 3 or not all(word.isdigit() for word in words):
            continue
        times = []
        for _ in range(_STARTS):
            began = time.monotonic_ns()
            if _ask(path, "-I", "-S", "-c", "pass")[0] == 0:
                times.append(time.monotonic_ns() - began)
        version = (int(words[0]), int(words[1]), int(words[2]))
        # The fastest: what the interpreter costs, not what else runs now (that is `load`).
        found[real] = Interpreter(path, version, min(times, default=None), _who_else_may_change(path))
    return {"interpreters": tuple(found.values())}


def look_identity(place: str) -> dict[str, object]:
    """machine-id, and boots under our id in this store that were alive while this one was (a cloned machine)."""
    boot_id = procfs.boot_id()
    machine, reason = host.machine_digest(boot_id)
    at_once = []
    began = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    instance = procfs.read_file(f"{place}/hosts/{machine}.id", 64)
    if instance is not None:
        for path in sorted(Path(place, "hosts", instance.decode("ascii", "replace").strip()).glob("*.json")):
            try:
                parts = json.loads(path.read_bytes())
                other = parts["boot_id"] != boot_id
                if other and parts["made"]["realtime_ns"] > began + 60 * 10**9:
                    at_once.append(str(parts["boot_id"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return {"machine_id_reason": reason, "other_boots_at_once": tuple(dict.fromkeys(at_once))}


def look_launchers(directory: str) -> Tried:
    """Start every launcher of an installation once, as this user, and hold its files to the manifest."""
    try:
        manifest = json.loads(Path(directory, "manifest.json").read_bytes())
        files, marks, reals = dict(manifest["files"]), Path(manifest["store"], "marks"), dict(manifest["real"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Tried(False, f"no usable manifest.json ({error})")
    changed = [
        name for name, sha256 in files.items() if digest.of_file(os.path.join(directory, name), None)[0] != sha256
    ]
    if changed and not Path(directory, "phase.measuring").exists():
        return Tried(False, f"{len(changed)} file(s) are not as installed, first {changed[0]}")
    before = len(list(marks.glob("*"))) if marks.is_dir() else 0
    tried = [name for name in reals if name in launchers.LAUNCHERS]
    absent = [name for name in tried if reals[name] and spawn.find_program(str(reals[name])) is None]
    for name in tried:
        if name in absent and not os.path.isabs(reals[name]):
            continue  # there was none when it was installed either
        arguments = ("--phase", "doctor", "--", _child()) if name == "phase" else ("--version",)
        status, said = _ask(os.path.join(directory, name), *arguments)
        if status != 0:
            return Tried(False, f"{name} ended with {status}: {said.strip()[:200]}")
    if launchers.LEANEVAL in manifest["real"] and "leaneval.measuring" not in os.listdir(directory):
        status, said = _ask(os.path.join(directory, launchers.LEANEVAL), "--doctor")
        if (status, said.partition(":")[0]) != (policy.REFUSED, leaneval.CALLED):  # it starts, and refuses a wrong call
            return Tried(False, f"leaneval ended with {status}: {said.strip()[:200]}")
    if marks.is_dir() and len(list(marks.glob("*"))) > before:
        return Tried(False, f"the command ran, but unmeasured: see the newest file in {marks}")
    # The trial's own session, named after this very process, is no judge's.
    trial = whole.new_session()
    shutil.rmtree(Path(manifest["store"], "sessions", trial), ignore_errors=True)
    off = "switched off (--on brings measuring back)" if Path(directory, "phase.measuring").exists() else "measuring"
    said = "".join(f"; there is no {name} here" for name in absent)
    return Tried(True, f"each started once as user {os.geteuid()}, as installed, {off}{said}")


def look(place: str, installed: str | None = None) -> Seen:
    """Look at this host, with the store at `place` and the launchers in a directory, if any."""
    counters, stamps = look_counters()
    parts: list[Callable[[], dict[str, object]]] = [
        look_cgroup,
        look_landlock,
        look_activity,  # before the tools: they would be the load
        look_machine,
        look_interpreters,
        look_tools,
        lambda: look_store(place),
        lambda: look_identity(place),
    ]
    seen: dict[str, object] = {"counters": counters, "stamps": stamps}
    for part in parts:
        seen.update(part())
    if installed is not None:
        seen.update({"launchers": look_launchers(installed), "launchers_directory": installed})
    return Seen(**seen)  # type: ignore[arg-type]


# What is shown

_STYLES = {Status.GOOD: "green", Status.NOTE: "cyan", Status.WARN: "yellow", Status.BAD: "bold red"}


def as_lines(checks: list[Check]) -> list[str]:
    """Plain text: one line a check, then why it matters and how to mend it where there is something to mend."""
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        lines.append(f"{check.status.value:4}  {check.name:{width}}  {check.seen}")
        if check.status is not Status.GOOD:
            lines.append(f"      {'':{width}}  why:  {check.why}")
            if check.mend:
                lines.append(f"      {'':{width}}  mend: {check.mend}")
    return [*lines, summary(checks)]


def summary(checks: list[Check]) -> str:
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    verdict = {
        Status.BAD: "figures from this host would be wrong: mend what is bad first",
        Status.WARN: "this host can measure; some figures will be missing or noisy",
    }.get(doctor_checks.worst(checks), "this host can measure")
    return f"{verdict} ({', '.join(f'{count} {status.value}' for status, count in counts.items() if count)})"


def _show(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        told = Text(check.seen)
        if check.status is not Status.GOOD:
            told.append(f"\nwhy: {check.why}", style="dim")
            if check.mend:
                told.append("\nmend: ", style="bold").append(check.mend, style="bold")
        table.add_row(Text(check.status.value, style=_STYLES[check.status]), Text(check.name), told)
    console = Console(highlight=False)
    console.print(table)
    console.print(Text(summary(checks), style=_STYLES[doctor_checks.worst(checks)]))


def as_json(checks: list[Check], place: str) -> str:
    """The machine-readable form: `status` is the gravest of all checks."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "status": doctor_checks.worst(checks).value,
            "store": record.escape_text(place),
            "checks": [check.as_json() for check in checks],
        },
        indent=1,
    )


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add `doctor` to the command line; the chosen command's function is `args.run`."""
    parser = subparsers.add_parser(
        "doctor",
        help="can this host measure and sandbox?",
        description="Can this host measure and sandbox: what was seen, why it matters, how to mend it.",
    )
    parser.add_argument("--store", metavar="PATH", help="the store to look at (default: where records go)")
    parser.add_argument("--launchers", metavar="DIR", help="start the launchers that `install` wrote into DIR once")
    parser.add_argument(
        "--prove",
        action="store_true",
        help="plant accepting and rejecting calls and compare them bare and wrapped: through fresh launchers, or "
        "through those of --launchers; exit 1 when anything differs",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """Look, show, and say 1 when measuring here would be wrong."""
    if args.prove:
        from proofcost import prove

        return prove.main(args)
    if args.store == "":
        print("proofcost: --store '': empty; name a folder, or leave the option out", file=sys.stderr)
        return 2
    place = os.path.abspath(args.store) if args.store else store.default_place(dict(os.environ), os.geteuid())
    checks = doctor_checks.examine(look(place, args.launchers and os.path.abspath(args.launchers)))
    status = settled(1 if doctor_checks.worst(checks) is Status.BAD else 0)
    if args.json:
        print(as_json(checks, place))
    elif sys.stdout.isatty():
        _show(checks)
    else:
        print("\n".join(as_lines(checks)))
    return status
