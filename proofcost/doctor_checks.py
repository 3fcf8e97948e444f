"""What `doctor` concludes from what it saw. Pure: observations in, checks out; `doctor.py` looks and prints.

Four statuses. `good`: nothing to do. `note`: worth knowing when figures are read. `warn`: some figure is missing,
weaker or noisier than it could be. `bad`: figures would be wrong, or nothing would keep the checked code from changing
them.
"""

from collections.abc import Callable, Mapping

from proofcost.doctor_machine import (
    clock,
    cores,
    governor,
    load,
    memory,
    numa,
    pressure,
    smt,
    steal,
    swap,
    turbo,
)
from proofcost.doctor_seen import GIB, MIB, Check, Seen, Status, Tool
from proofcost.harness.record import Json

# The Landlock ABI that first restricts each thing (Documentation/userspace-api/landlock.rst; 9 is Linux 7.1).
LANDLOCK_SINCE = (
    (2, "links and renames between folders"),
    (3, "truncation (truncate(2) empties any file that the user may write, records included)"),
    (4, "TCP"),
    (5, "ioctl on devices"),
    (6, "signals and abstract sockets"),
    (9, "connecting to path-named AF_UNIX sockets (docker, systemd)"),
)
LANDLOCK_NEVER = "UDP"


PYTHON_OLDEST = (3, 11)
PYTHON_START_SLOW_NS = 30_000_000
STORE_FREE_BAD_BYTES = 16 * MIB
STORE_FREE_WARN_BYTES = 256 * MIB
DESCRIPTORS_KEPT = 64


# Counters


def _permission_cure(seen: Seen) -> tuple[str, str]:
    """(who refuses, what to type) for a perf event that was refused."""
    if seen.seccomp and (seen.paranoid is None or seen.paranoid <= 2 or seen.uid == 0):
        return "a seccomp filter (a container's default profile)", (
            "docker run --cap-add PERFMON (or --security-opt seccomp=FILE with perf_event_open allowed)"
        )
    return f"kernel.perf_event_paranoid = {seen.paranoid}", "sudo sysctl -w kernel.perf_event_paranoid=1"


def counters(seen: Seen) -> Check:
    """Hardware counters, opened and read over a real child as the meter does."""
    name, why = (
        "counters",
        "instructions:u is the steadiest cost there is: wall and CPU time move with the machine's mood",
    )
    facts: dict[str, Json] = {
        "events": {
            key: {"value": one.value, "reason": one.reason, "user_only": one.user_only}
            for key, one in seen.counters.items()
        },
        "perf_event_paranoid": seen.paranoid,
        "seccomp": seen.seccomp,
    }
    hardware = {key: one for key, one in seen.counters.items() if key in ("instructions:u", "cycles:u")}
    reasons = {one.reason or "" for one in hardware.values() if one.value is None}
    if hardware and not reasons:
        counted = ", ".join(f"{key} {one.value}" for key, one in hardware.items())
        return Check(name, Status.GOOD, f"counted over a child: {counted}", why, facts=facts)
    if "counter_permission_denied" in reasons:
        who, cure = _permission_cure(seen)
        return Check(name, Status.WARN, f"hardware counters are refused by {who}", why, cure, facts)
    if "counter_multiplexed" in reasons or "counter_never_ran" in reasons:
        cure = "sudo sysctl -w kernel.nmi_watchdog=0" if seen.nmi_watchdog else "stop other users of perf on this host"
        said = "the counters were taken from us for part of the time (others use them)"
        return Check(name, Status.WARN, said, why, cure, facts)
    if "counter_not_supported" in reasons or not hardware:
        return Check(
            name,
            Status.WARN,
            "no hardware counters here (a virtual machine without a PMU, or a processor that perf does not know)",
            why,
            "use a host with a PMU; without one count by valgrind --tool=callgrind, and never mix the two",
            facts,
        )
    return Check(name, Status.WARN, "; ".join(sorted(reasons)), why, "proofcost doctor --json shows each event", facts)


def software_counters(seen: Seen) -> Check:
    """task-clock, faults, switches: what perf gives without a PMU."""
    name, why = "software counters", "they check CPU time, and faults and switches explain a figure that moved"
    software = {key: one for key, one in seen.counters.items() if not key.endswith(":u")}
    refused = sorted(key for key, one in software.items() if one.value is None)
    user_only = sorted(key for key, one in software.items() if one.user_only)
    if software and not refused and not user_only:
        return Check(name, Status.GOOD, f"all {len(software)} counted", why)
    _, cure = _permission_cure(seen)
    if len(refused) == len(software):
        reason = next((one.reason for one in software.values() if one.reason), "perf_event_open cannot be called")
        return Check(name, Status.WARN, f"none: {reason}", why, cure)
    seen_text = f"without {', '.join(refused)}" if refused else ""
    if user_only:
        seen_text += ("; " if seen_text else "") + f"opened user-only: {', '.join(user_only)}"
    return Check(name, Status.NOTE, seen_text, why, cure)


def exec_stamps(seen: Seen) -> Check:
    """Kernel time of every exec: where the sandbox ends and the program starts."""
    name = "exec stamps"
    why = "they part the sandbox's start from the program's, and tell a sandbox that failed from a program that did"
    if seen.stamps.works:
        return Check(name, Status.GOOD, f"the kernel stamps execs ({seen.stamps.said})", why)
    _, cure = _permission_cure(seen)
    if "descriptors" in seen.stamps.said:
        cure = "ulimit -n 4096"
    return Check(name, Status.WARN, f"no: {seen.stamps.said}", why, cure)


# Cgroups


def cgroup(seen: Seen) -> Check:
    """A cgroup for one invocation, really made, entered by a child and removed."""
    name = "cgroup"
    why = (
        "only a cgroup sees the whole tree: CPU of children nobody waited for, the memory peak, what outlives a command"
    )
    facts: dict[str, Json] = {
        "kind": seen.cgroup_kind,
        "made": dict(seen.cgroup_made),
        "reasons": dict(seen.cgroup_reasons),
        "memory_peak": seen.cgroup_memory_peak,
    }
    delegate = (
        "systemd-run --user --scope -p Delegate=yes -- proofcost run -- JUDGE (as root only on a disposable machine)"
        if seen.uid
        else "mount cgroup2 (or start the container with --cgroupns=private and a writable /sys/fs/cgroup)"
    )
    said = "; ".join(seen.cgroup_reasons.values()) or "nothing mounted that can be used"
    if not seen.cgroup_made:
        return Check(name, Status.WARN, f"{seen.cgroup_kind}: none could be made ({said})", why, delegate, facts)
    if seen.cgroup_child.works is False:
        said = f"{seen.cgroup_kind}: made, but a child could not enter ({seen.cgroup_child.said})"
        return Check(name, Status.WARN, said, why, delegate, facts)
    if not seen.cgroup_memory_peak:
        return Check(
            name,
            Status.WARN,
            f"{seen.cgroup_kind}: CPU of the tree yes, its memory peak no (the memory controller is not handed down"
            " here, or the kernel is older than 5.19)",
            why,
            "systemd-run --pty -p Delegate=yes -p DelegateSubgroup=judge -- proofcost run -- JUDGE",
            facts,
        )
    return Check(
        name, Status.GOOD, f"{seen.cgroup_kind}: made, entered, removed; memory peak is read", why, None, facts
    )


# Sandboxes


def landlock_open(abi: int | None) -> list[str]:
    """What a Landlock of this ABI does not restrict."""
    if abi is None:
        return ["everything"]
    return [what for since, what in LANDLOCK_SINCE if abi < since] + [LANDLOCK_NEVER]


def landlock(seen: Seen) -> Check:
    """Landlock's ABI, and what it leaves open."""
    name = "landlock"
    why = "landrun --best-effort drops, without a word and with status 0, what the kernel cannot restrict"
    missing: list[Json] = [*landlock_open(seen.landlock_abi)]
    facts: dict[str, Json] = {"abi": seen.landlock_abi, "open": missing}
    if seen.landlock_abi is None:
        other = seen.bwrap_works.works is True
        return Check(
            name,
            Status.WARN if other else Status.BAD,
            f"none ({seen.landlock_reason}): landrun --best-effort would run the checked code unconfined"
            + ("" if other else ", and bwrap does not work here either"),
            why,
            "boot with `lsm=landlock,...` (CONFIG_SECURITY_LANDLOCK, Linux 5.13), or judge under bwrap",
            facts,
        )
    said = f"ABI {seen.landlock_abi}; not restricted: {'; '.join(str(what) for what in missing)}"
    if seen.landlock_abi < 6:
        cure = (
            "a newer kernel (Linux 6.12 has ABI 6); until then run the judge as another user: proofcost run --as USER"
        )
        return Check(name, Status.WARN, said, why, cure, facts)
    if seen.landlock_abi < 9:
        cure = "run the judge under: systemd-run -p RestrictAddressFamilies=~AF_UNIX"
        return Check(name, Status.NOTE, said, why, cure, facts)
    return Check(name, Status.GOOD, said, why, None, facts)


def _tool_facts(tool: Tool) -> dict[str, Json]:
    return {
        "name": tool.name,
        "path": tool.path,
        "sha256": tool.sha256,
        "version": tool.version,
        "setuid": tool.setuid,
    }


def _tool_text(tool: Tool) -> str:
    digest = "no digest" if tool.sha256 is None else f"sha256 {tool.sha256[:16]}"
    return f"{tool.name} {tool.version or '(tells no version)'} at {tool.path}, {digest}"


def landrun(seen: Seen) -> Check:
    """The sandbox of the stock comparators, started once to write where it may not."""
    name, why = "landrun", "comparators run every build, export and kernel in it"
    if seen.landrun is None:
        return Check(
            name,
            Status.NOTE,
            "not on PATH",
            why,
            "install landrun, or name it: COMPARATOR_LANDRUN=/path",
        )
    facts = _tool_facts(seen.landrun)
    said = _tool_text(seen.landrun)
    if seen.landrun_enforces.works is False:
        cure = "do not judge with it here: without Landlock in the kernel use bwrap; with it reinstall landrun"
        known = seen.landlock_abi is None and seen.bwrap_works.works is True
        status = Status.WARN if known else Status.BAD
        return Check(name, status, f"{said}; {seen.landrun_enforces.said}", why, cure, facts)
    return Check(name, Status.GOOD, f"{said}; a forbidden write was refused", why, None, facts)


def bwrap(seen: Seen) -> Check:
    """The sandbox of `lake comparator`, started once."""
    name, why = "bwrap", "lake's own comparator runs every step in it"
    if seen.bwrap is None:
        return Check(name, Status.NOTE, "not on PATH", why, "apt-get install bubblewrap")
    facts = _tool_facts(seen.bwrap)
    said = _tool_text(seen.bwrap)
    if seen.bwrap_works.works is False:
        cure = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or user.max_user_namespaces > 0"
        return Check(name, Status.WARN, f"{said}; does not start: {seen.bwrap_works.said}", why, cure, facts)
    if seen.bwrap.setuid:
        text = f"{said}; it is setuid, so the kernel takes our counters off at its start"
        return Check(name, Status.WARN, text, why, f"sudo chmod u-s {seen.bwrap.path} (needs user namespaces)", facts)
    return Check(name, Status.GOOD, f"{said}; starts", why, None, facts)


def kernels(seen: Seen) -> Check:
    """Proof checkers on PATH, by digest: two builds of one version are two kernels."""
    name, why = "kernels", "a cost belongs to one binary with one configuration; the digest says which"
    facts: dict[str, Json] = {"found": [_tool_facts(tool) for tool in seen.kernels]}
    if not seen.kernels:
        cure = "put a kernel on PATH, or name it (`proofcost kernels` says how); `proofcost demo` needs none"
        return Check(name, Status.NOTE, "none found", why, cure, facts)
    return Check(name, Status.GOOD, "; ".join(_tool_text(tool) for tool in seen.kernels), why, None, facts)


def lean(seen: Seen) -> Check:
    """Lean's own tools."""
    name, why = "lean", "a judge builds and exports with them; without them only ready exports can be checked"
    facts: dict[str, Json] = {"found": [_tool_facts(tool) for tool in seen.lean_tools]}
    if not any(tool.name == "lake" for tool in seen.lean_tools):
        cure = "install elan (https://lean-lang.org/install)"
        found = "; ".join(_tool_text(tool) for tool in seen.lean_tools)
        return Check(name, Status.NOTE, "no lake on PATH" + (f"; {found}" if found else ""), why, cure, facts)
    return Check(name, Status.GOOD, "; ".join(_tool_text(tool) for tool in seen.lean_tools), why, None, facts)


# The store


def store(seen: Seen) -> Check:
    """Whether records can be kept, and by nobody else changed."""
    name, why = "store", "who can write it can forge a cost; where there is no room a record is lost"
    free = seen.store_free_bytes
    facts: dict[str, Json] = {"path": seen.store, "free_bytes": free, "filesystem": seen.store_filesystem}
    if seen.store_fault is not None:
        return Check(name, Status.BAD, seen.store_fault, why, "proofcost doctor --store OTHER", facts)
    where = seen.store + ("" if seen.store_exists else " (not made yet)")
    if not seen.store_writable:
        cure = f"sudo mkdir -p -m 700 {seen.store}, or name another with --store or PROOFCOST_STORE"
        return Check(name, Status.BAD, f"{where}: may not be written by user {seen.uid}", why, cure, facts)
    if free is not None and free < STORE_FREE_BAD_BYTES:
        return Check(name, Status.BAD, f"{where}: {free // MIB} MiB free", why, f"df {seen.store}; free some", facts)
    if free is not None and free < STORE_FREE_WARN_BYTES:
        return Check(name, Status.WARN, f"{where}: {free // MIB} MiB free", why, f"df {seen.store}; free some", facts)
    room = "" if free is None else f", {free // GIB} GiB free" if free >= GIB else f", {free // MIB} MiB free"
    if seen.store_drift is not None:
        return Check(name, Status.NOTE, f"{where}: {seen.store_drift}", why, f"chmod 700 {seen.store}", facts)
    if seen.store_filesystem in ("tmpfs", "ramfs"):
        said = f"{where}: in memory ({seen.store_filesystem}), gone after a restart{room}"
        return Check(name, Status.NOTE, said, why, "name one on a disk with --store", facts)
    if (seen.store_filesystem or "").startswith(("nfs", "cifs", "smb", "fuse", "9p", "virtiofs", "lustre", "ceph")):
        said = f"{where}: on a network or user-space filesystem ({seen.store_filesystem}){room}"
        cure = "keep the store on a local disk; copy it afterwards"
        return Check(name, Status.NOTE, said, "each record waits for it before and after the command", cure, facts)
    return Check(name, Status.GOOD, f"{where}: only its owner can write it{room}", why, None, facts)


def interpreter(seen: Seen) -> Check:
    """The Python that launchers name: root's own, and new enough."""
    name, why = (
        "interpreter",
        "launchers run it in the judge's trusted path at each call: who can change it can change verdicts",
    )
    oldest = ".".join(map(str, PYTHON_OLDEST))
    new = [one for one in seen.interpreters if one.version[:2] >= PYTHON_OLDEST]
    facts: dict[str, Json] = {
        "found": [
            {
                "path": one.path,
                "version": ".".join(map(str, one.version)),
                "start_ns": one.start_ns,
                "unsafe": one.unsafe,
            }
            for one in seen.interpreters
        ]
    }
    cure = f"apt-get install python3 (the system's own, {oldest} or newer)"
    if not new:
        old = ", ".join(f"{one.path} {'.'.join(map(str, one.version))}" for one in seen.interpreters)
        return Check(
            name, Status.WARN, f"no system Python {oldest} or newer" + (f" ({old})" if old else ""), why, cure, facts
        )
    safe = [one for one in new if one.unsafe is None]
    best = (safe or new)[0]
    said = f"{best.path} {'.'.join(map(str, best.version))}"
    if not safe:
        return Check(name, Status.WARN, f"{said}: {best.unsafe}", why, cure, facts)
    if best.start_ns is None:
        return Check(name, Status.WARN, f"{said} does not start with -I -S", why, cure, facts)
    said += f", starts in {best.start_ns // 100_000 / 10} ms with -I -S"
    if best.start_ns > PYTHON_START_SLOW_NS:
        cure = "measure again on an idle host; if it stays, name another interpreter (a shim on PATH costs 60 ms)"
        return Check(name, Status.WARN, said, "each call of a judge waits for it", cure, facts)
    return Check(name, Status.GOOD, said + ", only root can change it", why, None, facts)


def launchers(seen: Seen) -> Check:
    """Installed launchers, started once under the limits that doctor itself runs under."""
    why = "what stops Python from starting (limits, no interpreter) a launcher cannot catch: the judge sees it fail"
    directory = seen.launchers_directory
    if directory is None:
        return Check("launchers", Status.GOOD, "none named (--launchers DIR starts each once)", why)
    facts: dict[str, Json] = {"directory": directory}
    if seen.launchers.works:
        return Check("launchers", Status.GOOD, f"{directory}: {seen.launchers.said}", why, facts=facts)
    mend = f"proofcost install {directory} again, or --off until it is mended"
    return Check("launchers", Status.BAD, f"{directory}: {seen.launchers.said}", why, mend, facts)


def _soft(limits: Mapping[str, Json], name: str) -> int | None:
    rlimits = limits.get("rlimits")
    one = rlimits.get(name) if isinstance(rlimits, dict) else None
    value = one.get("soft") if isinstance(one, dict) else None
    return value if isinstance(value, int) else None


def time_limit(seen: Seen) -> Check:
    """RLIMIT_CPU adds up over threads (cases.md: conjectures-validator)."""
    name, why = (
        "time limit",
        "RLIMIT_CPU counts all threads together: a checker on 4 threads dies after a quarter of it",
    )
    cpu = _soft(seen.limits, "cpu")
    if cpu is None:
        return Check(name, Status.GOOD, "no RLIMIT_CPU", why)
    cure = "limit wall time instead (proofcost run --timeout), and `ulimit -t unlimited` before the judge"
    return Check(name, Status.WARN, f"RLIMIT_CPU {cpu} s: SIGXCPU ends what uses more", why, cure)


def resource_limits(seen: Seen) -> Check:
    """Limits that make a check fail without evidence of why."""
    name, why = (
        "limits",
        "a limit on addresses, files or descriptors fails a check in a way that looks like a rejection",
    )
    parts: list[str] = []
    for key, text in (("as", "RLIMIT_AS"), ("data", "RLIMIT_DATA"), ("rss", "RLIMIT_RSS"), ("fsize", "RLIMIT_FSIZE")):
        value = _soft(seen.limits, key)
        if value is not None:
            parts.append(f"{text} {value} bytes")
    files = _soft(seen.limits, "nofile")
    need = 2 * seen.cpus_count + DESCRIPTORS_KEPT
    if files is not None and files < need:
        parts.append(f"RLIMIT_NOFILE {files} (exec stamps want {need})")
    if not parts:
        return Check(name, Status.GOOD, "nothing in the way", why)
    return Check(name, Status.WARN, "; ".join(parts), why, "ulimit -v unlimited -f unlimited -n 4096 before the judge")


def _cgroup_limit(seen: Seen, name: str) -> tuple[Json, str]:
    limit = seen.limits.get(name)
    if not isinstance(limit, dict) or limit.get("value") is None:
        return None, ""
    return limit["value"], f" ({limit.get('scope')})"


def cgroup_limits(seen: Seen) -> Check:
    """What our cgroup and those above it allow."""
    name, why = (
        "cgroup limits",
        "a quota stops a check in mid-run and shows as wall time; a memory limit with swap makes it crawl",
    )
    parts: list[str] = []
    status, cure = Status.GOOD, None
    memory_limit, memory_scope = _cgroup_limit(seen, "cgroup_memory_bytes")
    swap_limit, swap_scope = _cgroup_limit(seen, "cgroup_swap_bytes")
    quota, quota_scope = _cgroup_limit(seen, "cgroup_cpu")
    if isinstance(memory_limit, int):
        parts.append(f"memory {memory_limit // MIB} MiB{memory_scope}")
        status = Status.NOTE
        together = "together" in swap_scope
        tight = isinstance(swap_limit, int) and (swap_limit <= memory_limit if together else swap_limit == 0)
        if seen.swap_total_bytes and not tight:
            parts.append("but swap beyond it")
            status, cure = Status.WARN, "set memory.swap.max = 0 (docker: --memory-swap equal to --memory)"
    if isinstance(quota, dict):
        parts.append(f"CPU {quota.get('numerator')}/{quota.get('denominator')}{quota_scope}")
        if status is not Status.WARN:
            status, cure = Status.WARN, "give whole CPUs (cpuset, docker --cpuset-cpus) instead of a quota (--cpus)"
    affinity = seen.limits.get("affinity_cpus_count")
    if isinstance(affinity, int) and affinity < seen.cpus_count:
        parts.append(f"{affinity} of {seen.cpus_count} CPUs by affinity")
        status = Status.NOTE if status is Status.GOOD else status
    return Check(name, status, "; ".join(parts) or "none", why, cure, {"limits": dict(seen.limits)})


def identity(seen: Seen) -> Check:
    """Whether this machine can be told from others, and others from it."""
    name, why = "identity", "figures of two machines must never be taken for those of one"
    if seen.other_boots_at_once:
        boots: list[Json] = [*seen.other_boots_at_once]
        cure = "sudo rm /etc/machine-id && sudo systemd-machine-id-setup on the copy, and a store of its own"
        said = (
            f"this host's id in the store was used under another boot while this one ran: {', '.join(map(str, boots))}"
        )
        return Check(name, Status.BAD, said + "; two machines share one machine-id", why, cure, {"boots": boots})
    if seen.machine_id_reason is not None:
        cure = "sudo systemd-machine-id-setup (or dbus-uuidgen --ensure=/etc/machine-id)"
        return Check(name, Status.NOTE, seen.machine_id_reason, why, cure)
    return Check(name, Status.GOOD, "has a machine-id", why)


ALL: tuple[Callable[[Seen], Check], ...] = (
    counters,
    software_counters,
    exec_stamps,
    cgroup,
    landlock,
    landrun,
    bwrap,
    kernels,
    lean,
    store,
    interpreter,
    launchers,
    time_limit,
    resource_limits,
    cgroup_limits,
    clock,
    governor,
    turbo,
    smt,
    cores,
    numa,
    memory,
    swap,
    steal,
    load,
    pressure,
    identity,
)


def examine(seen: Seen) -> list[Check]:
    """Every check, in the order in which they are shown."""
    return [check(seen) for check in ALL]


def worst(checks: list[Check]) -> Status:
    """The gravest status among the checks."""
    order = list(Status)
    return max((check.status for check in checks), key=order.index, default=Status.GOOD)
