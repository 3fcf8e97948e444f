"""From what was read to the record's measurements: every figure with its method, and judged where two ways disagree.

The rules are stated once, here; docs/record.md says what each name means.
"""

import os

from proofcost.harness import perf, record
from proofcost.harness.record import CONTRADICTED, LOWER_BOUND, MEASURED, SAMPLED, Json, measurement, unavailable
from proofcost.harness.sample import Sampler
from proofcost.harness.usage import Usage

# Two clocks of the same CPU time may differ by this much: constant, and per hundred (experiment; docs/design-notes.md).
CPU_SLACK_NS = 5_000_000
CPU_SLACK_PERCENT = 2
# What a cgroup sees and a wait status or task clock does not: tearing down an address space, per GiB in it.
TEARDOWN_NS_PER_GIB = 70_000_000
# Where memory is slow (a busy virtual machine: 130 ms), faulting it in was as well: tearing down took 13 to 15 per
# hundred of the system time then. So much of it may be torn down, and at most so many times the above.
TEARDOWN_PERCENT = 16
TEARDOWN_SLOW = 3
_GIB = 1 << 30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A process's peak this close above our own cannot be told from ours, which exec folds into the child's.
HIDDEN_SLACK_BYTES = 256 * 1024

COUNTERS_LOST = "counters_lost_a_task: more CPU was used than they saw (a set-user-id or unreadable program was run)"
_DROPPED = (
    "the kernel counts and stamps nothing from the exec of {} on, which is set-user-id or not readable by its user"
)
_MAY_LACK = "{} and what it started may not be counted: the kernel drops counters at the exec of a set-user-id program"
UNWAITED = "the sandbox does not wait for what ran in it, so the wait status knows only the sandbox itself"
STRAGGLERS = "what outlived the command still adds to it"
_NAME_MAX = 15
_BY_WAIT, _PEAK_BY_WAIT = "wait4 rusage", "wait4 ru_maxrss"
_CPU_NAMES = ("cpu_waited", "cpu_waited_user", "cpu_waited_system", "cpu_tree", "cpu_tree_user", "cpu_tree_system")

Figures = dict[str, dict[str, Json]]


def as_json(figures: Figures) -> dict[str, Json]:
    """The same figures as the value of a record's field."""
    return dict(figures)


def put(figures: Figures, name: str, value: int | None, unit: str, method: str, reason: str) -> None:
    """A measured value, or its absence with `reason`."""
    figures[name] = unavailable(unit, method, reason) if value is None else measurement(value, unit, method)


class Reached:
    """When the command and the program in it started, from exec stamps.

    `dropped_at` names the program at whose exec the kernel dropped counters and stamps: the command or its sandbox.
    `may_lack` names another one of which that may be true (or it ended at once).
    """

    __slots__ = ("command_ns", "dropped_at", "may_lack", "method", "program_ns", "program_reached", "reason")

    def __init__(self) -> None:
        self.command_ns: int | None = None
        self.program_ns: int | None = None
        self.program_reached: bool | None = None
        self.dropped_at: str | None = None
        self.may_lack: str | None = None
        self.method = "first exec stamp"
        self.reason = "where the program starts was not looked for"


def find_program(
    stamps: list[perf.ExecStamp],
    pid: int,
    target: bytes | None,
    sandboxed: bool,
    lost: int,
    command: str | None = None,
) -> Reached:
    """The start of the command (first stamp) and of the program in it (first later stamp that carries its name).

    A stamp of the command's own process is preferred: sandboxes that exec in place keep it, and helpers that they start
    to look at the program (ldd) do not. `command` is the command's file.
    """
    found = Reached()
    if not stamps:
        found.reason = "no exec was stamped"
        return found
    found.command_ns = stamps[0].time_ns
    found.dropped_at = _dropped_at(stamps, command, sandboxed)
    if found.dropped_at is None:
        found.may_lack = next((record.escape(stamp.name) for stamp in stamps if stamp.shed), None)
    if target is None:
        found.reason = "the command line does not tell which program runs in the sandbox"
        return found
    if not sandboxed:
        found.program_ns = found.command_ns
        found.program_reached = True
        return found
    name = target[:_NAME_MAX]
    later = [stamp for stamp in stamps[1:] if stamp.name == name]
    own = [stamp for stamp in later if stamp.pid == pid]
    if own or later:
        found.program_ns = (own or later)[0].time_ns
        found.program_reached = True
        found.may_lack, found.dropped_at = found.may_lack or found.dropped_at, None
        return found
    if found.dropped_at is not None:
        found.reason = _DROPPED.format(found.dropped_at)
        return found
    found.reason = f"no exec of {record.escape(name)} was stamped"
    if lost:
        found.reason += f" ({lost} stamps were lost)"
    else:
        found.program_reached = False
    return found


def _dropped_at(stamps: list[perf.ExecStamp], command: str | None, sandboxed: bool) -> str | None:
    """At whose exec the kernel dropped our events, if it did.

    A program that ends at once looks the same; no sandbox does, and of another command its file must say so too.
    """
    shed = next((stamp for stamp in stamps if stamp.shed), None)
    if shed is not None and sandboxed:
        return record.escape(shed.name)
    if command is None or (shed is not stamps[0] and len(stamps) > 1) or not perf.loses_counters(command):
        return None
    return record.escape(stamps[0].name)


def walls(
    figures: Figures, reached: Reached, exit_ns: int, fallback_ns: int, target: str, stamps_reason: str | None
) -> None:
    """`wall_command`, `wall_program`, `sandbox_startup` in ns."""
    start, method = reached.command_ns, "first exec stamp to exit seen"
    if start is None:
        start, method = fallback_ns, "close-on-exec pipe closed to exit seen"
    figures["wall_command"] = measurement(exit_ns - start, "ns", method)
    program = reached.program_ns
    reason = reached.reason if stamps_reason is None else f"no exec stamps: {stamps_reason}"
    method = f"exec stamp of {target} to exit seen"
    put(figures, "wall_program", None if program is None else exit_ns - program, "ns", method, reason)
    startup = None if program is None or reached.command_ns is None else program - reached.command_ns
    put(figures, "sandbox_startup", startup, "ns", f"first exec stamp to exec stamp of {target}", reason)


def cpu(
    figures: Figures,
    usage: Usage | None,
    waited_user_ns: int,
    waited_system_ns: int,
    faults_count: int,
    reason: str | None,
    before_exec_ns: int = 0,
) -> None:
    """CPU by wait status and by cgroup, and what their disagreement means. `faults_count` is the waited for's.

    `before_exec_ns` is the CPU that our child used until its exec: where it had to write itself into the cgroup, the
    wait status has that and the cgroup has not.
    """
    waited = waited_user_ns + waited_system_ns
    for name, value in zip(_CPU_NAMES[:3], (waited, waited_user_ns, waited_system_ns), strict=True):
        figures[name] = measurement(value, "ns", _BY_WAIT)
    absent = reason or "no cgroup"
    method = "cgroup CPU" if usage is None else usage.cpu_method
    tree = None if usage is None else usage.cpu_ns
    parts = (None, None) if usage is None else (usage.cpu_user_ns, usage.cpu_system_ns)
    for name, part in zip(_CPU_NAMES[3:], (tree, *parts), strict=True):
        put(figures, name, part, "ns", method, absent)
    if tree is None:
        return
    if waited > tree + before_exec_ns + CPU_SLACK_NS + tree * CPU_SLACK_PERCENT // 100:
        _mark(
            figures,
            _CPU_NAMES,
            CONTRADICTED,
            "the wait status says more CPU than the cgroup of the whole tree",
        )
    elif tree > waited + cpu_allowance(waited, faults_count, waited_system_ns):
        why = "the cgroup saw more: descendants that nobody waited for; cpu_tree leads"
        _mark(figures, _CPU_NAMES[:3], LOWER_BOUND, why)


def cpu_allowance(cpu_ns: int, faults_count: int, system_ns: int) -> int:
    """How much more CPU than `cpu_ns`, `system_ns` of it in the kernel, a cgroup may show before work was missed, ns.

    What is torn down was faulted in before, so the page faults bound it, over any number of processes and without a
    cgroup (a peak does neither: 100 processes one after the other tear down 100 times one peak). Faults of a task that
    was missed are missed with it and excuse nothing.
    """
    teardown = TEARDOWN_NS_PER_GIB * faults_count * _PAGE_BYTES // _GIB
    slow = min(system_ns * TEARDOWN_PERCENT // 100, TEARDOWN_SLOW * teardown)
    return CPU_SLACK_NS + cpu_ns * CPU_SLACK_PERCENT // 100 + max(teardown, slow)


def counters(
    figures: Figures,
    counted: dict[str, Json],
    before_exec_ns: int,
    dropped_at: str | None = None,
    may_lack: str | None = None,
) -> None:
    """Perf figures; a lower bound when the CPU truth shows that the kernel dropped them from a task.

    It does so when a task runs a set-user-id program or one that its user may not read; where that was the command
    itself or its sandbox (`dropped_at`) there is no figure, and `may_lack` names a program of which it may be true.
    `before_exec_ns` is the CPU that our child used until its exec: in the CPU truth, not in the counters.
    """
    for name, figure in counted.items():
        if isinstance(figure, dict):
            figures[name] = figure
            if dropped_at is not None and figure["value"] is not None:
                figures[name] = unavailable(str(figure["unit"]), str(figure["method"]), _DROPPED.format(dropped_at))
    if may_lack is not None:
        _mark(figures, tuple(counted), LOWER_BOUND, _MAY_LACK.format(may_lack))
    clock = figures.get("task_clock", {}).get("value")
    truth = figures["cpu_tree"]["value"] if figures["cpu_tree"]["value"] is not None else figures["cpu_waited"]["value"]
    faults = figures.get("page_faults", {}).get("value")
    faults_count = faults if isinstance(faults, int) else 0
    told = figures["cpu_waited_system"]["value"]
    system = told if isinstance(told, int) else 0
    # Twice: the exec itself costs about as much, and counters start in it. On a slow host both are milliseconds.
    missed = 2 * before_exec_ns + cpu_allowance(clock if isinstance(clock, int) else 0, faults_count, system)
    if not isinstance(clock, int) or not isinstance(truth, int):
        return
    if truth > clock + missed:
        _mark(figures, tuple(counted), LOWER_BOUND, COUNTERS_LOST)
    elif figures["cpu_tree"]["value"] is None and clock > truth + cpu_allowance(truth, faults_count, system):
        _mark(figures, _CPU_NAMES[:3], LOWER_BOUND, "the counters saw more: descendants that nobody waited for")


def unwaited(figures: Figures, sandbox_waits: bool) -> None:
    """What only the wait status tells lacks those that nobody waited for; a sandbox may be known to wait for none."""
    cpu = figures["cpu_waited"]
    if sandbox_waits and cpu["status"] != LOWER_BOUND:
        return
    why = str(cpu["reason"]) if cpu["status"] == LOWER_BOUND else UNWAITED
    for name in (*_CPU_NAMES[:3], "io_read_bytes_waited", "io_write_bytes_waited", "memory_peak_process"):
        figure = figures.get(name)
        if figure is None:
            continue
        if figure["value"] is not None and figure["status"] == MEASURED:
            _mark(figures, (name,), LOWER_BOUND, why)
        elif name == "memory_peak_process" and figure["value"] is None:  # "at most ours" holds for what was waited for
            figure["reason"] = f"{why}; ended before the first sample"


def memory(
    figures: Figures, usage: Usage | None, sampler: Sampler, maxrss_bytes: int, own_peak_bytes: int, reason: str | None
) -> None:
    """Peaks of the tree and of the largest process, bytes."""
    if usage is not None and usage.peak_bytes is not None:
        figures["memory_peak_tree"] = measurement(usage.peak_bytes, "bytes", usage.peak_method)
    elif sampler.tree_peak_bytes is not None:
        method = "largest sum of the living processes' VmHWM (what they share counted in each), sampled at 10 Hz"
        figures["memory_peak_tree"] = measurement(
            sampler.tree_peak_bytes, "bytes", method, SAMPLED, reason or "no memory controller"
        )
    else:
        unseen = "/proc showed none of its processes" if sampler.samples_count else "ended before the first sample"
        why = f"{reason or 'no memory controller'}; {unseen}"
        figures["memory_peak_tree"] = unavailable("bytes", "cgroup memory peak", why)
    swap = None if usage is None else usage.swap_peak_bytes
    put(
        figures,
        "swap_peak_tree",
        swap,
        "bytes",
        "cgroup v2 memory.swap.peak",
        "not offered by this kernel or hierarchy",
    )
    method = "largest 10 Hz sample of cgroup memory.stat"
    split = sampler.split
    for at, name in enumerate(("memory_anon_tree", "memory_file_tree", "memory_shmem_tree")):
        if split is None:
            figures[name] = unavailable(
                "bytes", method, reason or "no memory controller, or ended before the first sample"
            )
        else:
            figures[name] = measurement(split[at], "bytes", method, SAMPLED, "a peak between two samples is not seen")
    _doubt(figures, ("swap_peak_tree", "memory_anon_tree", "memory_file_tree", "memory_shmem_tree"))
    if usage is not None and usage.peak_bytes is not None:
        _doubt(figures, ("memory_peak_tree",))
    method = _PEAK_BY_WAIT
    hidden = maxrss_bytes <= own_peak_bytes + HIDDEN_SLACK_BYTES
    sampled = sampler.process_peak_bytes
    if sampled is not None and (hidden or sampled > maxrss_bytes):
        why = "ru_maxrss is hidden by our own" if hidden else "larger than any process that was waited for"
        figures["memory_peak_process"] = measurement(sampled, "bytes", "largest VmHWM sampled at 1 Hz", SAMPLED, why)
    elif not hidden:
        figures["memory_peak_process"] = measurement(maxrss_bytes, "bytes", method)
    else:
        why = f"at most our own {own_peak_bytes} bytes, which exec folds into the child's"
        figures["memory_peak_process"] = unavailable("bytes", method, why)


def input_output(
    figures: Figures, usage: Usage | None, before: dict[str, int] | None, after: dict[str, int] | None
) -> None:
    """Bytes read from and written to storage, by wait and by cgroup."""
    for name, key in (("io_read_bytes_waited", "read_bytes"), ("io_write_bytes_waited", "write_bytes")):
        first, last = (None if table is None else table.get(key) for table in (before, after))
        value = None if first is None or last is None else last - first
        put(figures, name, value, "bytes", "/proc/self/io across the wait", "/proc/self/io does not tell")
    method, why = "cgroup v2 io.stat", "no v2 io controller here"
    put(figures, "io_read_bytes_tree", None if usage is None else usage.io_read_bytes, "bytes", method, why)
    put(figures, "io_write_bytes_tree", None if usage is None else usage.io_write_bytes, "bytes", method, why)
    _doubt(figures, ("io_read_bytes_tree", "io_write_bytes_tree"))


def disk(figures: Figures, sampler: Sampler) -> None:
    """Free space at its lowest, and the largest fall of it, over the filesystems of the writable paths."""
    if not sampler.disks:
        why = "the command line names no writable path besides /dev that is there"
        figures["disk_free_min"] = unavailable("bytes", "smallest statvfs sample", why)
        figures["disk_peak_writable"] = unavailable("bytes", "largest fall of statvfs free bytes", why)
        return
    why = "sampled at 10 Hz; more than the command's own if others write there"
    free = min(one.free_min_bytes for one in sampler.disks)
    fall = max(one.free_start_bytes - one.free_min_bytes for one in sampler.disks)
    figures["disk_free_min"] = measurement(free, "bytes", "smallest statvfs sample", SAMPLED, why)
    figures["disk_peak_writable"] = measurement(fall, "bytes", "largest fall of statvfs free bytes", SAMPLED, why)


def without_wait_status(figures: Figures) -> None:
    """Somebody else took the status, and with it what only it tells."""
    for name, figure in figures.items():
        if figure["method"] in (_BY_WAIT, _PEAK_BY_WAIT):
            figures[name] = unavailable(str(figure["unit"]), str(figure["method"]), "the wait status was lost")


def never_started(figures: Figures) -> None:
    """There was no command: whatever was read is our own child's on its way to the exec that failed."""
    for name, figure in figures.items():
        figures[name] = unavailable(str(figure["unit"]), str(figure["method"]), "the command was not started")


def still_growing(figures: Figures) -> None:
    """Something outlived the command: what the tree used is not all of it."""
    for name, figure in figures.items():
        tree = "_tree" in name or name.endswith("_judge_self") or str(figure["method"]).startswith(perf.METHOD)
        if tree and figure["status"] == MEASURED:
            figure["status"] = LOWER_BOUND
            figure["reason"] = STRAGGLERS


def _doubt(figures: Figures, names: tuple[str, ...]) -> None:
    """A cgroup that does not hold the command's CPU (root may move itself out) does not hold its memory either."""
    if figures.get("cpu_tree", {}).get("status") == CONTRADICTED:
        _mark(figures, names, LOWER_BOUND, "CPU was used that this cgroup does not know of: what left it is not in it")


def _mark(figures: Figures, names: tuple[str, ...], status: str, reason: str) -> None:
    for name in names:
        figure = figures.get(name)
        if figure is not None and figure["value"] is not None:
            figure["status"] = status
            figure["reason"] = reason
