"""One invocation, from the caller's call to the command's status. Theory of operation.

Processes: the caller (a judge) starts an entrance; the entrance's process is the meter; it makes one child, the command. There
is no other process and no thread. The child inherits everything the meter was started with.

Two verbs. *The meter failed*: before the command starts, the policy decides (`run`: the meter becomes the command by exec,
unmeasured, and a mark is left; `strict`: 125, nothing runs). After the command has started no fault of the meter may touch
its status: every later step stands alone, and what fails is noted in `faults` and costs its figures. *The command failed*: its
status is passed on, 128+n for a signal.

Order: look (store, session) -> own file with `started` -> cgroups, counters, stamps -> fork, enter, exec -> wait, forward signals,
sample -> stop the clock, read everything -> look for stragglers -> `finished` -> leave.
"""

import os
import resource
import sys
import time

from proofcost.harness import (
    cgroup,
    digest,
    figures,
    host,
    libc,
    limits,
    outcome,
    perf,
    procfs,
    record,
    session,
    signals,
    spawn,
    store,
)
from proofcost.harness.clock import clocks
from proofcost.harness.plan import KIND_NONE, Plan
from proofcost.harness.record import Json
from proofcost.harness.sample import Sampler
from proofcost.harness.version import METRIC_DEFINITIONS, SCHEMA, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs 10 ms
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

REFUSED = 125
ARGV_KEPT_BYTES = 16384
CONFIG_KEPT_BYTES = 16384
JUDGE_CONFIG_KEPT_BYTES = 65536
SOURCE_READ_MAX_BYTES = 64 << 20
WAIT_FAULTS_MAX = 8


class MeterFault(Exception):
    """The meter failed before the command started. The message is one line."""


class Meter:
    """The state of one invocation."""

    __slots__ = (
        "base", "before_ns", "caller_signal", "cgroup_reason", "child", "counters", "disturbance", "exit_ns", "faults", "group",
        "inherited",
        "inside_session", "invocation", "io_before", "mended", "oom_before", "own_dirs", "own_peak", "plan", "sampler", "session", "sink", "stamps",
        "timed_out", "started_ns",
    )  # fmt: skip

    def __init__(self, plan: Plan, inherited: signals.Inherited) -> None:
        self.plan = plan
        self.inherited = inherited
        self.before_ns = time.monotonic_ns()
        self.started_ns = self.before_ns
        self.exit_ns = 0
        self.faults: list[Json] = []
        self.mended: list[str] = []
        self.session = ""
        self.invocation = f"{time.time_ns():x}-{os.getpid()}-{os.urandom(4).hex()}"
        self.sink: store.Sink | None = None
        self.base: dict[str, str] = {}
        self.own_dirs: dict[str, str] = {}
        self.inside_session = False
        self.group: cgroup.Group | None = None
        self.cgroup_reason: str | None = None
        self.counters = perf.Counters()
        self.stamps = perf.ExecStamps()
        self.sampler = Sampler({}, [])
        self.io_before: dict[str, int] | None = None
        self.oom_before: dict[str, int] = {}
        self.disturbance: dict[str, int | None] = {}
        self.own_peak = 0
        self.child = spawn.Child()
        self.caller_signal: int | None = None
        self.timed_out = False

    # Before the command: whatever is raised here is a fault of the meter, and nothing has run.

    def prepare(self) -> None:
        """Everything up to the fork. Raises MeterFault, StoreFault, OSError."""
        plan = self.plan
        sandbox = plan.sandbox
        self.mended = store.check_place(plan.store, sandbox.writable, sandbox.unrestricted)
        if plan.session is None:
            found = session.find(plan.store, [os.fsencode(argument) for argument in plan.argv[1:]])
            self.session, known_by = found.session, found.known_by
        else:
            self.session, known_by = plan.session, "baked"
        abi = landlock_abi() if sandbox.kind == "landrun" else None
        if plan.strict and sandbox.kind == "landrun" and sandbox.best_effort and abi is None:
            raise MeterFault("this kernel offers no Landlock, so landrun --best-effort would run the command unconfined")
        folder = f"{plan.store}/sessions/{self.session}"
        store.make_folder(folder)
        if plan.cgroup == "auto":
            self._make_cgroup()
        else:
            self.cgroup_reason = "--cgroup off"
        room = store.ROOM_BYTES if plan.judge_config is None else store.ROOM_BYTES + 3 * JUDGE_CONFIG_KEPT_BYTES
        sink = store.OwnFile(f"{folder}/{self.invocation}.jsonl", room)
        self.sink = sink
        if not sink.reserved:
            self._fault("reserve", "no room could be reserved: this file system has no fallocate")
        for line in plan.notes:
            self._fault("understand", line)
        for line in self.mended:
            self._fault("store", line)
        sink.append(self._started(known_by, abi))
        self._step("settle", self._settle_others, None)
        self.sampler = Sampler(self.usage_dirs(), sandbox.writable)
        self.disturbance = host.snapshot()
        if self.group is not None:
            self.oom_before = cgroup.oom_counts_above(self.usage_dirs())
            self.group.open_entries()
        self.counters.open()
        self.stamps.open()
        self.io_before = procfs.own_io()
        self.own_peak = procfs.peak_resident_bytes(os.getpid()) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def _settle_others(self) -> None:
        """What earlier meters left beside our cgroup and has ended by now gets its exact figures."""
        prefix = "" if self.inside_session else cgroup.PREFIX + "."
        others = {self.invocation, cgroup.WHOLE, f"{prefix}{self.session}.{self.invocation}"}
        if any(set(cgroup.left_over(base, prefix)) - others for base in self.base.values()):
            from proofcost.harness import settle

            settle.pass_by(self.plan.store, self.session, self.base, self.inside_session, self.invocation)

    def _make_cgroup(self) -> None:
        own = cgroup.find_own()
        self.own_dirs = own.dirs
        inside = cgroup.session_dirs(own)
        self.inside_session = bool(inside)
        names = cgroup.wanted(own)
        if not names:
            self.cgroup_reason = "no cgroup hierarchy can be seen from here"
            return
        self.base = {name: inside.get(name) or cgroup.base_for(own, name) for name in names}
        group = cgroup.Group(own.kind)
        for name in names:
            leaf = self.invocation if name in inside else f"{cgroup.PREFIX}.{self.session}.{self.invocation}"
            group.make({name: self.base[name]}, leaf)
        self.group = group
        if group.reasons:
            self.cgroup_reason = "; ".join(group.reasons.values())
        elif not group.has_memory:
            self.cgroup_reason = "the cgroup above hands no memory controller down"

    def _started(self, known_by: str, abi: int | None) -> dict[str, Json]:
        plan = self.plan
        meter: dict[str, Json] = {
            "version": VERSION,
            "digest": plan.meter_digest,
            "digest_reason": None if plan.meter_digest else "not installed: runs from its package",
            "entrance": plan.entrance,
            "metric_definitions": METRIC_DEFINITIONS,
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "policy": "strict" if plan.strict else "run",
        }
        cache = plan.store + "/digests"
        in_force = limits.in_force(self.own_dirs if self.group is None else {**self.own_dirs, **self.group.dirs})
        in_force["timeout_ns"] = plan.timeout_ns
        in_force["memory_limit_bytes"] = plan.memory_limit_bytes
        raw = [os.fsencode(argument) for argument in plan.argv]
        event: dict[str, Json] = {
            "schema": SCHEMA,
            "event": "started",
            "invocation": self.invocation,
            "session": self.session,
            "session_known_by": known_by,
            "meter": meter,
            "phase": {
                "given": None if plan.phase_given is None else record.escape_text(plan.phase_given),
                "understood": record.escape_text(plan.phase_understood),
                "known_by": plan.phase_known_by,
            },
            "subject": _subject(plan),
            "labels": plan.labels,
            "ids": {"build": None, "block": None, "order": None, "iteration": None, "warmup": None},
            "argv": _argv(raw),
            "cwd": _cwd(),
            "judge_config": _kept_file(plan.judge_config, JUDGE_CONFIG_KEPT_BYTES, ("path", "sha256", "text")),
            "sandbox": _sandbox(plan, abi, cache),
            "target": _target(plan, cache),
            "kernel": _kernel(plan),
            "inputs": _inputs(plan),
            "limits": in_force,
            "host": host.identity(plan.store),
            "clocks": clocks(),
            "trust": "root" if os.geteuid() == 0 else "user",
            "process": {
                "meter_pid": os.getpid(),
                "meter_start_ticks": procfs.start_ticks(os.getpid()),
                "pid_namespace": procfs.pid_namespace(),
                "parent_pid": os.getppid(),
                "parent_name": record.escape(procfs.name_of(os.getppid()) or b""),
                "uid": os.geteuid(),
            },
            "cgroup": {
                "kind": "off" if self.group is None else self.group.kind,
                "paths": {} if self.group is None else {k: record.escape_text(v) for k, v in self.group.dirs.items()},
                "reason": self.cgroup_reason,
            },
            "import": None,
        }
        return event

    # The command runs: nothing below may raise.

    def run(self) -> int:
        """Start the command, wait for it, record. Returns the raw wait status (or -1: exec failed, see `exec_error`)."""
        child = self.child
        spawn.start(child, self.plan.argv, self.inherited, self.group)
        self.started_ns = time.monotonic_ns()
        status, usage = self._wait(child)
        try:
            self._record(child, status, usage)
        except BaseException as error:
            self._fault("finish", error)
            self._last_words()
        if child.exec_error is not None:
            return spawn.exit_code_of(child.exec_error) << 8
        return status

    def _wait(self, child: spawn.Child) -> tuple[int, resource.struct_rusage | None]:
        """Until the command is gone: pass signals on, mirror stops, sample. Survives any fault of its own."""
        try:
            self.sampler.begin(child.pid)
        except BaseException as error:
            self._fault("sample", error)
        deadline = None if self.plan.timeout_ns is None else self.started_ns + self.plan.timeout_ns
        while True:
            try:
                now = time.monotonic_ns()
                due = self.sampler.due_ns()
                if deadline is not None and not self.timed_out:
                    due = min(due, deadline)
                taken = signals.take(max(0, due - now) / 1e9)
                if taken is None:
                    if deadline is not None and not self.timed_out and time.monotonic_ns() >= deadline:
                        self.timed_out = True
                        self._kill_command(child.pid)
                    self.sampler.tick()
                    continue
                if taken.number == signals.SIGCHLD:
                    if self._has_ended(child.pid):
                        break
                elif taken.by_process and taken.sender != child.pid or _hangup_is_ours(taken):
                    if taken.number in signals.ENDING:
                        self.caller_signal = taken.number
                    os.kill(child.pid, taken.number)
                elif taken.number in signals.ENDING:
                    # From the terminal: the whole foreground group has it already.
                    self.caller_signal = taken.number
            except ProcessLookupError:
                continue
            except BaseException as error:
                self._fault("wait", error)
                if len(self.faults) > WAIT_FAULTS_MAX:
                    break  # no more forwarding or sampling; the plain wait below still gives the status
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException as error:
            self._fault("wait4", error)
            return self.plain_wait(child.pid), None
        if not self.exit_ns:
            self.exit_ns = time.monotonic_ns()
        return status, usage

    def plain_wait(self, pid: int) -> int:
        """The status and nothing else, however often it takes; a status that is lost for good is not a success."""
        while True:
            try:
                return os.waitpid(pid, 0)[1]
            except ChildProcessError:
                return REFUSED << 8
            except BaseException as error:
                self._fault("wait", error)

    def _has_ended(self, pid: int) -> bool:
        """Look at what SIGCHLD was about. The clock stops at the first look that finds the command ended."""
        now = time.monotonic_ns()
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is not None:
            self.exit_ns = now
            return True
        stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
        if stopped is not None:
            # The caller must see us stop as it would have seen the command stop; it wakes us, and SIGCONT is passed on.
            os.kill(os.getpid(), signals.SIGSTOP)
        return False

    def _kill_command(self, pid: int) -> None:
        if self.group is not None and self.group.dirs:
            self.group.kill()
            return
        for member in reversed(procfs.tree_of(pid)):
            try:
                os.kill(member, signals.SIGKILL)
            except OSError:
                continue

    # After the exit: every step stands alone.

    def _record(self, child: spawn.Child, status: int, rusage: resource.struct_rusage | None) -> None:
        plan = self.plan
        io_after = procfs.own_io()
        for hierarchy in child.refused:
            if self.group is not None:
                self.group.forget(hierarchy, f"the command could not enter the cgroup of {hierarchy}")
        if self.group is not None and self.group.reasons:
            self.cgroup_reason = "; ".join(self.group.reasons.values())
        counted = self._step("counters", self.counters.read, {})
        stamps, lost = self._step("stamps", self.stamps.read, ([], 0))
        self._step("sample", self.sampler.last, None)
        left, action = self._step("stragglers", self._stragglers, (None, "none"))
        usage = None
        if self.group is not None and self.group.dirs:
            usage = self._step("cgroup", self._usage, None)
        target = os.path.basename(plan.target[0]) if plan.target else None
        reached = figures.find_program(
            stamps, child.pid, None if target is None else os.fsencode(target), plan.sandbox.kind != KIND_NONE, lost
        )
        if child.exec_error is not None:
            reached = figures.Reached()
            reached.reason = "the command was not started"
        table: figures.Figures = {}
        name = "the program" if target is None else record.escape_text(target)
        figures.walls(table, reached, self.exit_ns, self.started_ns, name, self.stamps.reason)
        user, system = (0, 0) if rusage is None else (round(rusage.ru_utime * 1e9), round(rusage.ru_stime * 1e9))
        figures.cpu(table, usage, user, system, self.cgroup_reason)
        figures.counters(table, counted, None if usage is None else usage.peak_bytes)
        maxrss = 0 if rusage is None else rusage.ru_maxrss * 1024
        figures.memory(table, usage, self.sampler, maxrss, self.own_peak, self.cgroup_reason)
        figures.input_output(table, usage, self.io_before, io_after)
        figures.disk(table, self.sampler)
        if rusage is None:
            for lost_name in ("cpu_waited", "cpu_waited_user", "cpu_waited_system"):
                table[lost_name] = record.unavailable("ns", "wait4 rusage", "the wait status was lost")
        if left:
            figures.still_growing(table)
        self._step("whole", lambda: self._whole(table), None)
        evidence = self._evidence(child, status, table, usage, reached)
        after = self._step("host", host.snapshot, {})
        disturbance = host.disturbance(self.disturbance, after)
        throttled = None if usage is None else usage.throttled_ns
        figures.put(disturbance, "throttled", throttled, "ns", "cgroup v2 cpu.stat throttled_usec", "no cpu controller here")
        event: dict[str, Json] = {
            "schema": SCHEMA,
            "event": "finished",
            "invocation": self.invocation,
            "session": self.session,
            "clocks": clocks(),
            "outcome": outcome.judge(status, evidence),
            "measurements": table,
            "stragglers": {
                "count": left,
                "action": action,
                "reason": None if left is not None else self.cgroup_reason or "no cgroup",
            },
            "filesystems": [
                {
                    "path": record.escape_text(disk.path),
                    "free_start_bytes": disk.free_start_bytes,
                    "free_min_bytes": disk.free_min_bytes,
                }
                for disk in self.sampler.disks
            ],
            "exec_stamps": {
                "count": len(stamps) if self.stamps.reason is None else None,
                "lost": lost if self.stamps.reason is None else None,
                "names": [record.escape(stamp.name) for stamp in stamps[:8]],
                "reason": self.stamps.reason,
            },
            "host_disturbance": disturbance,
            "meter_cost": self._cost(),
            "faults": self.faults,
        }
        if self.sink is not None:
            self.sink.append(event)
            self.sink.close()
        self._step("remove", self._leave_cgroup, None)

    def usage_dirs(self) -> dict[str, str]:
        """The cgroups whose figures are this invocation's."""
        return {} if self.group is None else self.group.dirs

    def _usage(self) -> cgroup.Usage:
        return cgroup.read_usage(self.usage_dirs())

    def _whole(self, table: figures.Figures) -> None:
        """Only `run` has more to say here."""

    def _leave_cgroup(self) -> None:
        if self.group is not None:
            self.group.close_entries()
            self.group.remove()

    def _stragglers(self) -> tuple[int | None, str]:
        if self.group is None or not self.group.dirs:
            return None, "none"
        return self._look_for_stragglers(self.group)

    def _look_for_stragglers(self, group: cgroup.Group) -> tuple[int, str]:
        left = group.wait_empty()
        if not left:
            return 0, "none"
        if self.plan.kill_stragglers or self.timed_out:
            group.kill()
            rest = group.wait_empty(1_000_000_000)
            return len(rest), "killed"
        return len(left), "reported"

    def _evidence(
        self,
        child: spawn.Child,
        status: int,
        table: figures.Figures,
        usage: cgroup.Usage | None,
        reached: figures.Reached,
    ) -> outcome.Evidence:
        seen = outcome.Evidence()
        seen.caller_signal = self.caller_signal
        if self.timed_out:
            seen.time_limit_ns = self.plan.timeout_ns
        if child.exec_error is not None:
            seen.exec_errno = child.exec_error.errno or 22
        seen.sandboxed = self.plan.sandbox.kind != KIND_NONE
        seen.program_reached = reached.program_reached
        seen.oom_kill_count = None if usage is None else usage.oom_kill_count
        if seen.oom_kill_count:
            now = cgroup.oom_counts_above(self.usage_dirs())
            hit = [where for where, count in now.items() if count > self.oom_before.get(where, 0)]
            seen.memory_limit_scope = record.escape_text(hit[0]) if hit else None
        soft = resource.getrlimit(resource.RLIMIT_CPU)[0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signals.SIGXCPU else 1]
        seen.cpu_limit_s = None if soft == resource.RLIM_INFINITY else soft
        value = table["cpu_waited"]["value"]
        seen.cpu_ns = value if isinstance(value, int) else None
        free = table["disk_free_min"]["value"]
        seen.disk_free_min_bytes = free if isinstance(free, int) else None
        return seen

    def _cost(self) -> dict[str, Json]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "before_ns": self.started_ns - self.before_ns,
            "after_ns": time.monotonic_ns() - self.exit_ns,
            "cpu_ns": round((own.ru_utime + own.ru_stime) * 1e9),
            "memory_peak_bytes": own.ru_maxrss * 1024,
        }

    def _step(self, name: str, do: "Callable[[], T]", otherwise: "T") -> "T":
        try:
            return do()
        except BaseException as error:
            self._fault(name, error)
            return otherwise

    def _fault(self, step: str, what: object) -> None:
        """A part of the meter failed; the figures it would have made are missing, nothing else."""
        if isinstance(what, BaseException):
            what = f"{type(what).__name__}: {what}"
        self.faults.append({"step": step, "what": record.escape_text(str(what)[:500])})

    def _last_words(self) -> None:
        """`finished` could not be kept: say so somewhere, and leave no half-open file."""
        try:
            if self.sink is not None:
                self.sink.close()
            self._leave_cgroup()
            store.leave_mark(self.plan.store, mark(self.plan, self.faults[-1], self.invocation))
        except BaseException:
            return

    def abandon(self) -> None:
        """A fault before the start: take back what was made. Never raises."""
        try:
            if self.sink is not None:
                self.sink.append(self._never_started())
                self.sink.close()
        except BaseException as error:
            self._fault("abandon", error)
        try:
            self._leave_cgroup()
            self.counters.close()
            self.stamps.close()
        except BaseException as error:
            self._fault("abandon", error)

    def _never_started(self) -> dict[str, Json]:
        """The end of a record whose command was not measured after all."""
        said: list[Json] = ["the meter failed before the command started; by policy it " + (
            "was refused" if self.plan.strict else "ran unmeasured"
        )]  # fmt: skip
        return {
            "schema": SCHEMA,
            "event": "finished",
            "invocation": self.invocation,
            "session": self.session,
            "clocks": clocks(),
            "outcome": {
                "kind": outcome.NOT_STARTED,
                "code": None,
                "signal": None,
                "core_dumped": None,
                "errno": None,
                "cause": outcome.CAUSE_NOT_MEASURED,
                "evidence": said,
            },
            "measurements": {},
            "stragglers": {"count": None, "action": "none", "reason": "not measured"},
            "filesystems": [],
            "exec_stamps": {"count": None, "lost": None, "names": [], "reason": "not measured"},
            "host_disturbance": {},
            "meter_cost": self._cost(),
            "faults": self.faults,
        }


def _hangup_is_ours(taken: signals.Taken) -> bool:
    """A hang-up of the terminal goes to the session's leader only; when that is us, the command must hear of it."""
    return taken.number == signals.SIGHUP and os.getsid(0) == os.getpid()


def landlock_abi() -> int | None:
    """The kernel's Landlock ABI version, None without Landlock."""
    try:
        return libc.landlock_abi()
    except OSError:
        return None


def _argv(raw: list[bytes]) -> dict[str, Json]:
    """Arguments as far as they fit, the number of all, and a digest over all."""
    head: list[Json] = []
    room = ARGV_KEPT_BYTES
    for argument in raw:
        if len(argument) > room:
            break
        room -= len(argument) + 1
        head.append(record.escape(argument))
    return {"head": head, "count": len(raw), "sha256": digest.sha256_hex(b"\0".join(raw))}


def _cwd() -> str | None:
    try:
        return record.escape(os.getcwdb())
    except OSError:  # deleted meanwhile; the command starts there all the same
        return None


def _kept_file(path: str | None, limit: int, names: tuple[str, str, str]) -> Json:
    """Path, size, digest and text of a small file; null when there is none to keep."""
    if path is None:
        return None
    raw = procfs.read_file(path, limit + 1)
    path_name, sha_name, text_name = names
    kept: dict[str, Json] = {path_name: record.escape_text(path)}
    if raw is None:
        kept.update({sha_name: None, text_name: None, "size_bytes": None, "reason": "cannot be read"})
    elif len(raw) > limit:
        kept.update({sha_name: None, text_name: None, "size_bytes": _size(path), "reason": f"larger than {limit} bytes"})
    else:
        kept.update({sha_name: digest.sha256_hex(raw), text_name: record.escape(raw), "size_bytes": len(raw), "reason": None})
    return kept


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _program(name: str, cache: str) -> dict[str, Json]:
    path = spawn.find_program(name)
    if path is None:
        return {"path": None, "size_bytes": None, "sha256": None, "reason": "not found"}
    sha256, reason = digest.of_file(path, cache)
    return {"path": record.escape_text(os.path.abspath(path)), "size_bytes": _size(path), "sha256": sha256, "reason": reason}


def _sandbox(plan: Plan, abi: int | None, cache: str) -> Json:
    sandbox = plan.sandbox
    seen: dict[str, Json] = {"kind": sandbox.kind, "path": None, "sha256": None}
    enforced: bool | None = False
    known_by = "no sandbox in the command line"
    if sandbox.kind != KIND_NONE:
        program = _program(plan.argv[0], cache)
        seen["path"], seen["sha256"] = program["path"], program["sha256"]
        enforced, known_by = None, f"{sandbox.kind} was asked for; nothing here checks what it enforces"
    if sandbox.kind == "landrun":
        if abi is None and sandbox.best_effort:
            enforced, known_by = False, "this kernel offers no Landlock and --best-effort drops what it cannot have"
        elif abi is not None:
            enforced, known_by = True, f"the kernel offers Landlock ABI {abi}, as far as that ABI goes"
    if sandbox.unrestricted:
        enforced, known_by = False, "its arguments restrict no file system"
    seen.update(
        {
            "best_effort": sandbox.best_effort,
            "landlock_abi": abi,
            "enforced": enforced,
            "enforced_known_by": known_by,
            "writable": [record.escape_text(path) for path in sandbox.writable],
            "readable": [record.escape_text(path) for path in sandbox.readable],
        }
    )
    return seen


def _target(plan: Plan, cache: str) -> Json:
    if not plan.target:
        return {"name": None, "path": None, "size_bytes": None, "sha256": None, "reason": "not told by the command line"}
    named: dict[str, Json] = {"name": record.escape_text(os.path.basename(plan.target[0]))}
    named.update(_program(plan.target[0], cache))
    return named


def _kernel(plan: Plan) -> Json:
    if plan.kernel_name is None:
        return None
    seen: dict[str, Json] = {"name": record.escape_text(plan.kernel_name)}
    kept = _kept_file(plan.kernel_config, CONFIG_KEPT_BYTES, ("config_path", "config_sha256", "config_text"))
    if isinstance(kept, dict):
        kept.pop("size_bytes")
        seen.update(kept)
    else:
        seen.update({"config_path": None, "config_sha256": None, "config_text": None, "reason": "no configuration file"})
    return seen


def _inputs(plan: Plan) -> list[Json]:
    """Sizes of the regular files that were granted one by one: the export, its configuration."""
    seen: list[Json] = []
    for path in plan.sandbox.readable or plan.target[1:]:
        if path != "/" and os.path.isfile(path):
            seen.append({"path": record.escape_text(path), "size_bytes": _size(path)})
        if len(seen) == 16:
            break
    return seen


def _subject(plan: Plan) -> Json:
    if plan.subject_module is None:
        return None
    seen: dict[str, Json] = {"module": record.escape_text(plan.subject_module), "source_path": None}
    raw = None if plan.source_path is None else procfs.read_file(plan.source_path, SOURCE_READ_MAX_BYTES + 1)
    if raw is None or len(raw) > SOURCE_READ_MAX_BYTES:
        reason = "no source file of that module in the project" if raw is None else "larger than 64 MiB"
        seen.update({"source_sha256": None, "source_size_bytes": None, "reason": reason})
        return seen
    seen["source_path"] = record.escape_text(plan.source_path or "")
    seen.update({"source_sha256": digest.sha256_hex(raw), "source_size_bytes": len(raw), "reason": None})
    return seen


def mark(plan: Plan, fault: Json, invocation: str | None) -> dict[str, Json]:
    """What is left behind when the meter failed."""
    raw = [os.fsencode(argument) for argument in plan.argv]
    return {
        "schema": SCHEMA,
        "event": "mark",
        "fault": fault,
        "policy": "strict" if plan.strict else "run",
        "entrance": plan.entrance,
        "invocation": invocation,
        "argv_sha256": digest.sha256_hex(b"\0".join(raw)),
        "argv_count": len(raw),
        "version": VERSION,
        "clocks": clocks(),
        "pid": os.getpid(),
    }


def say(line: str) -> None:
    """One line on stderr, in one write; nobody listening is no error."""
    try:
        os.write(2, b"proofcost: " + os.fsencode(line) + b"\n")
    except OSError:
        return


def refuse_or_run(plan: Plan, inherited: signals.Inherited, fault: object, meter: Meter | None) -> int:
    """The meter failed before the command started: leave a mark, then do as the policy says.

    With `run` this returns only when the command cannot be executed at all, with a shell's code for that.
    """
    text = str(fault) if isinstance(fault, MeterFault | store.StoreFault) else f"{type(fault).__name__}: {fault}"
    if meter is not None:
        meter.abandon()
    try:
        unsafe = isinstance(fault, store.StoreFault) or not plan.store
        content = mark(plan, record.escape_text(text[:500]), None if meter is None else meter.invocation)
        left = store.leave_mark(None if unsafe and not _is_own_folder(plan.store) else plan.store, content)
    except BaseException:
        left = None
    if plan.strict:
        say(f"{text}; refused (--strict), nothing was run")
        return REFUSED
    if left is None:
        say(f"{text}; the command runs unmeasured")
    error = spawn.replace_by(plan.argv, inherited)
    say(f"{plan.argv[0]}: {os.strerror(error.errno or 0)}")
    return spawn.exit_code_of(error)


def _is_own_folder(place: str) -> bool:
    """A store that is unsafe for records may still take a mark, if it is a folder of ours that is no link."""
    return bool(place) and os.path.isdir(place) and not os.path.islink(place) and os.stat(place).st_uid == os.geteuid()


def invoke(plan: Plan, inherited: signals.Inherited) -> int:
    """Measure one call under the policy. Returns the exit code that the caller is to see."""
    meter = None
    try:
        meter = Meter(plan, inherited)
        signals.block_all()
        meter.prepare()
    except BaseException as fault:
        return refuse_or_run(plan, inherited, fault, meter)
    return outcome.exit_code(run_to_end(meter))


def run_to_end(meter: Meter) -> int:
    """Start the prepared command and see it through. Returns its raw wait status; does not return when it runs unmeasured."""
    try:
        return meter.run()
    except BaseException as fault:
        if meter.child.pid == 0:  # no process could be made: nothing has run
            os._exit(refuse_or_run(meter.plan, meter.inherited, fault, meter))
        return meter.plain_wait(meter.child.pid)
