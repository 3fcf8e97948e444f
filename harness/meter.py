"""One invocation, from the caller's call to the command's status. Theory of operation.

Processes: the caller (a judge) starts an entrance; the entrance's process is the meter; it makes one child, the
command. There is no other process (but one while we are stopped, to wake us) and no thread. The child inherits
everything the meter was started with.

Two verbs. *The meter failed*: before the command starts, the policy decides (`run`: the meter becomes the command by
exec, unmeasured, and a mark is left; `strict`: 125, nothing runs). After the command has started no fault of the meter
may touch its status: every later step stands alone, and what fails is noted in `faults` and costs its figures. *The
command failed*: its status is passed on, 128+n for a signal.

Order: look (store, session) -> own file with `started` -> cgroups, counters, stamps -> fork, enter, exec -> wait,
forward signals, sample -> stop the clock, read everything -> look for stragglers -> `finished` -> leave.
"""

import os
import resource
import time

from proofcost.harness import (
    cgroup,
    describe,
    figures,
    guard,
    hierarchy,
    host,
    libc,
    outcome,
    perf,
    policy,
    procfs,
    record,
    session,
    signals,
    spawn,
    standing,
    store,
)
from proofcost.harness.clock import clocks
from proofcost.harness.plan import KIND_NONE, Plan
from proofcost.harness.record import Json
from proofcost.harness.sample import Sampler
from proofcost.harness.usage import Usage, oom_counts_above, read_usage, throttled, v1_limit_reached
from proofcost.harness.version import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself costs 10 ms
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

# A byte takes at most this many in a record: `\\xHH`, its backslash escaped again by JSON.
ESCAPE_GROWTH = 5
# When `started` is flushed to disk: a slow disk's tens of ms are then small beside the wall that they could lengthen.
FLUSH_AFTER_NS = 5_000_000_000
# After so many faults the wait gives up forwarding and sampling, never the status.
WAIT_FAULTS_MAX = 8
WAKER_STEP_S = 0.02


class Meter:
    """The state of one invocation."""

    __slots__ = (
        "base",
        "before_ns",
        "caller_signal",
        "cgroup_reason",
        "child",
        "counters",
        "disturbance",
        "exit_ns",
        "faults",
        "flushed",
        "group",
        "guard",
        "inherited",
        "inside_session",
        "invocation",
        "io_before",
        "lets_go",
        "mended",
        "oom_before",
        "own_dirs",
        "own_peak",
        "plan",
        "sampler",
        "session",
        "sink",
        "stamps",
        "standing",
        "started_ns",
        "status",
        "throttled",
        "timed_out",
        "waker",
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
        self.throttled: dict[str, int] = {}
        self.own_peak = 0
        self.standing: dict[str, str] = {}
        self.child = spawn.Child()
        self.guard = guard.Guard()
        # Whether nothing more is to be said or read once the command runs.
        self.lets_go = False
        self.caller_signal: int | None = None
        self.timed_out = False
        self.flushed = False
        # The last process that woke us after a stop; its SIGCONT is not for the command. -1 is no pid: 0 is whoever
        # sends from outside our pid namespace, as a container's runtime does.
        self.waker = -1
        # The raw wait status, once it is known: no later fault may lose it.
        self.status: int | None = None

    # Before the command: whatever is raised here is a fault of the meter, and nothing has run.

    def prepare(self) -> None:
        """Everything up to the fork. Raises MeterError, StoreError, OSError."""
        plan = self.plan
        sandbox = plan.sandbox
        beside = [] if plan.companion is None else plan.companion.prepare(plan)
        known_by = self._find_session()
        abi = describe.landlock_abi() if sandbox.kind == "landrun" else None
        confined_only = plan.strict if plan.confined_only is None else plan.confined_only
        if confined_only and sandbox.kind == "landrun" and sandbox.best_effort and abi is None:
            raise policy.MeterError(
                "this kernel offers no Landlock, so landrun --best-effort would run the command unconfined"
            )
        self._make_place()
        if plan.cgroup == "auto":
            self._make_cgroup()
        else:
            self.cgroup_reason = "--cgroup off"
        self._keep(
            describe.started(plan, self.session, known_by, self.invocation, abi, self._cgroups(), self._limit_dirs())
        )
        for line in plan.notes:
            self._fault("understand", line)
        for line in self.mended:
            self._fault("store", line)
        for line in beside:
            self._fault(plan.entrance, line)
        self._step("settle", self._settle_others, None)
        self.sampler = Sampler(self.usage_dirs(), sandbox.writable)
        self.disturbance = host.snapshot()
        self.throttled = throttled(self._limit_dirs())
        if self.group is not None:
            self.oom_before = oom_counts_above(self.usage_dirs())
            self.group.open_entries()
        self.counters.open()
        self.stamps.open()
        self.io_before = procfs.own_io()
        self.standing = self._step("standing", standing.look, self.standing)
        self.own_peak = (
            procfs.peak_resident_bytes(os.getpid()) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        )

    def _find_session(self) -> str:
        """Look whether records can be kept, and find the session; returns how that was known."""
        plan = self.plan
        self.mended = store.check_place(plan.store, plan.sandbox.writable, plan.sandbox.unrestricted)
        if plan.session is None:
            inner = ["--", *plan.target] if plan.sandbox.kind != KIND_NONE and plan.target else []
            found = session.find(plan.store, _raw(plan.argv[1:]), _raw(inner))
            self.session = found.session
            return found.known_by
        self.session = plan.session
        return "run" if plan.entrance == "run" else "baked"

    def _folder(self) -> str:
        return f"{self.plan.store}/sessions/{self.session}"

    def _make_place(self) -> None:
        store.make_folder(self._folder())
        self.mended += store.put_right(self._folder())

    def _keep(self, started: dict[str, Json]) -> None:
        """Have `started` kept, whatever becomes of us."""
        sink = store.OwnFile(f"{self._folder()}/{self.invocation}.jsonl", store.room_for(started))
        self.sink = sink
        if not sink.reserved:
            self._fault("reserve", "no room could be reserved: this file system has no fallocate")
        sink.append(started)

    def _settle_others(self) -> None:
        """What earlier meters left beside our cgroup and has ended by now gets its exact figures."""
        prefix = "" if self.inside_session else hierarchy.PREFIX + "."
        others = {self.invocation, hierarchy.WHOLE, f"{prefix}{self.session}.{self.invocation}"}
        if any(set(cgroup.left_over(base, prefix)) - others for base in self.base.values()):
            from proofcost.harness import settle

            settle.pass_by(self.plan.store, self.session, self.base, self.inside_session, self.invocation)

    def _make_cgroup(self) -> None:
        own = hierarchy.find_own()
        self.own_dirs = own.dirs
        inside = hierarchy.session_dirs(own)
        self.inside_session = bool(inside)
        names = hierarchy.wanted(own)
        if not names:
            self.cgroup_reason = "no cgroup hierarchy can be seen from here"
            return
        self.base = {name: inside.get(name) or hierarchy.base_for(own, name) for name in names}
        group = cgroup.Group(own.kind)
        for name in names:
            leaf = self.invocation if name in inside else f"{hierarchy.PREFIX}.{self.session}.{self.invocation}"
            group.make({name: self.base[name]}, leaf)
        self.group = group
        if group.reasons:
            self.cgroup_reason = "; ".join(group.reasons.values())
        elif not group.has_memory:
            self.cgroup_reason = "the cgroup above hands no memory controller down"

    def _cgroups(self) -> dict[str, Json]:
        group = self.group
        return {
            "kind": "off" if group is None else group.kind,
            "paths": {} if group is None else {k: record.escape_text(v) for k, v in group.dirs.items()},
            "reason": self.cgroup_reason,
        }

    def _limit_dirs(self) -> dict[str, str]:
        return self.own_dirs if self.group is None else {**self.own_dirs, **self.group.dirs}

    # The command runs: nothing below may raise.

    def run(self) -> int:
        """Start the command, wait for it, record. Returns the raw wait status, a shell's code in it if exec failed."""
        child, companion = self.child, self.plan.companion
        child.user = self.plan.user
        if companion is not None:
            child.outputs = companion.outputs()
        spawn.start(child, self.plan.argv, self.inherited, self.group)
        self.started_ns = time.monotonic_ns()
        if companion is not None:
            self._step(self.plan.entrance, companion.started, None)
        self._step("cgroup", self._after_start, None)
        if self.lets_go:
            self._step("streams", spawn.let_go, None)
        status, usage = self._wait(child)
        self.status = status if child.exec_error is None else spawn.exit_code_of(child.exec_error) << 8
        spawn.ended_status = self.status
        try:
            self._record(child, status, usage)
        except BaseException as error:
            self._last_words(error)
        if companion is not None:
            self._step(self.plan.entrance, companion.close, None)
        self._step("guard", self.guard.end, None)
        return self.status

    def _after_start(self) -> None:
        """Where the command could not get in, nothing that is read is its own, and nothing that is killed."""
        for kind in self.child.refused:
            if self.group is not None:
                self.group.forget(kind, f"the command could not enter the cgroup of {kind}")

    def _wait(self, child: spawn.Child) -> tuple[int, resource.struct_rusage | None]:
        """Until the command is gone: pass signals on, mirror stops, sample. Survives any fault of its own."""
        try:
            self.sampler.begin(child.pid, None if self.sink is None else self.sink.trace_path())
        except BaseException as error:
            self._fault("sample", error)
        deadline = None if self.plan.timeout_ns is None else self.started_ns + self.plan.timeout_ns
        while True:
            try:
                # From the command itself, from ourselves (SIGXFSZ of a write of ours says so too) or from our waker:
                # not for the command.
                ours = (child.pid, os.getpid(), self.waker)
                now = time.monotonic_ns()
                due = self.sampler.due_ns()
                if deadline is not None and not self.timed_out:
                    due = min(due, deadline)
                taken = signals.take(max(0, due - now) / 1e9)
                # Also when nothing came: a SIGCHLD that was lost to a fault must not keep the caller waiting.
                if (taken is None or taken.number == signals.SIGCHLD) and self._has_ended(child.pid):
                    break
                # At each turn: signals that never stop must not put it off.
                if deadline is not None and not self.timed_out and time.monotonic_ns() >= deadline:
                    if self._has_ended(child.pid):
                        break
                    self.timed_out = True
                    self._kill_command(child.pid)
                if taken is None:
                    self.sampler.tick()
                    self._step("guard", lambda: self.guard.begin(child.pid, self._killed_with_the_command()), None)
                    self._flush_started()
                elif taken.number == signals.SIGCHLD:
                    continue
                elif (taken.by_process and taken.sender not in ours) or _hangup_is_ours(taken):
                    if taken.number in signals.ENDING:
                        self.caller_signal = taken.number
                    self._pass_on(child.pid, taken.number)
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
        self.status = spawn.ended_status = status
        if not self.exit_ns:
            self.exit_ns = time.monotonic_ns()
        return status, usage

    def _killed_with_the_command(self) -> cgroup.Group | None:
        """What else ends when we are killed: what outlives the command, where it is to be killed anyway."""
        return self.group if self.plan.kill_stragglers else None

    def _pass_on(self, pid: int, number: int) -> None:
        """Hand a signal that somebody sent us to the command. Raises OSError."""
        os.kill(pid, number)

    def _flush_started(self) -> None:
        """Have `started` survive a loss of power, once a run is long: the exit of a short one must not be seen late."""
        if not self.flushed and self.sink is not None and time.monotonic_ns() - self.started_ns > FLUSH_AFTER_NS:
            self.flushed = True
            self.sink.sync()

    def plain_wait(self, pid: int) -> int:
        """The status and nothing else, however often it takes; a status that is lost for good is not a success."""
        while True:
            try:
                return os.waitpid(pid, 0)[1]
            except ChildProcessError:
                return policy.REFUSED << 8
            except BaseException:
                continue

    def _has_ended(self, pid: int) -> bool:
        """Look at what SIGCHLD was about. The clock stops at the first look that finds the command ended."""
        now = time.monotonic_ns()
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is not None:
            self.exit_ns = now
            return True
        stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
        if stopped is not None:
            self._stop_with(pid)
        return False

    def _stop_with(self, pid: int) -> None:
        """The caller must see us stop as it would have seen the command stop; whom it wakes is us, and SIGCONT is
        passed on.

        Others may wake the command alone (cpulimit does), and we would sleep on and keep the caller waiting for ever.
        So while we are stopped a process of ours looks whether the command still is, and wakes us; where /proc does
        not tell that, we do not stop.
        """
        if procfs.is_stopped(pid) is None:
            return
        meter = os.getpid()
        waker = os.fork()
        if waker == 0:
            _wake(meter, pid)
        os.kill(meter, signals.SIGSTOP)
        os.kill(waker, signals.SIGKILL)
        os.waitpid(waker, 0)
        self.waker = waker

    def _kill_command(self, pid: int) -> None:
        """The command first: if it saw a child of its own killed, it could still end with 0."""
        tree = procfs.tree_of(pid)
        self._kill_group(pid)
        refused = 0
        for member in tree:
            try:
                os.kill(member, signals.SIGKILL)
            except PermissionError:  # a set-user-id program
                refused += 1
            except OSError:
                continue
        if refused:
            self._fault("time limit", f"{refused} process(es) of the tree may not be killed by this user")

    def _kill_group(self, pid: int) -> None:
        if self.group is not None:
            self.group.kill(pid)

    # After the exit: every step stands alone.

    def _record(self, child: spawn.Child, status: int, rusage: resource.struct_rusage | None) -> None:
        plan = self.plan
        io_after = procfs.own_io()
        if self.group is not None and self.group.reasons:
            self.cgroup_reason = "; ".join(self.group.reasons.values())
        no_counters: dict[str, Json] = {}
        no_stamps: tuple[list[perf.ExecStamp], int] = ([], 0)
        not_looked: tuple[int | None, int, str] = (None, 0, "none")
        usage: Usage | None = None
        stamps, lost = self._step("stamps", self.stamps.read, no_stamps)
        self._step("sample", self.sampler.last, None)
        outlived, rest, action = self._step("stragglers", self._stragglers, not_looked)
        # After what was only just dying, as the cgroup's figures are.
        counted = self._step("counters", self.counters.read, no_counters)
        if self.group is not None and self.group.dirs:
            usage = self._step("cgroup", self._usage, usage)
        target = os.path.basename(plan.target[0]) if plan.target else None
        sandboxed = plan.sandbox.kind != KIND_NONE
        reached = self._step(
            "figures",
            lambda: figures.find_program(
                stamps,
                child.pid,
                None if target is None else os.fsencode(target),
                sandboxed,
                lost,
                spawn.find_program(plan.argv[0]),
            ),
            figures.Reached(),
        )
        if child.exec_error is not None:
            reached = figures.Reached()
            reached.reason = "the command was not started"
        table: figures.Figures = {}
        name = "the program" if target is None else record.escape_text(target)
        user, system = (0, 0) if rusage is None else (round(rusage.ru_utime * 1e9), round(rusage.ru_stime * 1e9))
        faults_count = 0 if rusage is None else rusage.ru_minflt + rusage.ru_majflt
        maxrss = 0 if rusage is None else rusage.ru_maxrss * 1024
        why, stamps_why, started = self.cgroup_reason, self.stamps.reason, self.started_ns
        # One by one: a fault in one costs its figures, not the record.
        for do in (
            lambda: figures.walls(table, reached, self.exit_ns, started, name, stamps_why),
            lambda: figures.cpu(table, usage, user, system, faults_count, why, child.before_exec_ns),
            lambda: figures.counters(
                table, counted, child.before_exec_ns, reached.dropped_at, reached.may_lack or plan.uncounted
            ),
            lambda: figures.memory(table, usage, self.sampler, maxrss, self.own_peak, why),
            lambda: figures.input_output(table, usage, self.io_before, io_after),
            lambda: figures.unwaited(table, plan.sandbox.waits),
            lambda: figures.disk(table, self.sampler),
        ):
            self._step("figures", do, None)
        if rusage is None:
            figures.without_wait_status(table)
        self._step("whole", lambda: self._whole(table), None)
        if rest:
            figures.still_growing(table)
        if child.exec_error is not None:
            figures.never_started(table)
        evidence = self._evidence(child, status, table, usage, reached)
        self._step("figures", lambda: self._last_word(table), None)
        changed: list[str] = []
        for line in self._step("standing", lambda: standing.changed_since(self.standing), changed):
            self._fault("standing", line)
        no_host: dict[str, int | None] = {}
        after = self._step("host", host.snapshot, no_host)
        disturbance = host.disturbance(self.disturbance, after)
        held_back = [now - self.throttled.get(where, 0) for where, now in throttled(self._limit_dirs()).items()]
        figures.put(
            disturbance,
            "throttled",
            max(held_back) if held_back else None,
            "ns",
            "cpu.stat, most throttled of the command's cgroup and all above it",
            self.cgroup_reason if self.group is None and self.cgroup_reason else "no cpu controller here",
        )
        trace = self.sampler.end_trace(self.exit_ns, self.stamps if self.stamps.reason is None else None)
        if self.sampler.fault is not None:
            self._fault(*self.sampler.fault)
        event: dict[str, Json] = {
            "schema": SCHEMA,
            "event": "finished",
            "invocation": self.invocation,
            "session": self.session,
            "clocks": clocks(self.exit_ns),
            "outcome": outcome.judge(status, evidence),
            "measurements": figures.as_json(table),
            "stragglers": {
                "count": outlived,
                "action": action,
                "reason": None if outlived is not None else self.cgroup_reason or "no cgroup",
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
            "host_disturbance": figures.as_json(disturbance),
            "trace": trace,
            "meter_cost": self._cost(),
            "faults": self.faults,
        }
        companion = plan.companion
        if companion is not None:
            self._step(plan.entrance, lambda: companion.add(self, event, table), None)
            event["measurements"] = figures.as_json(table)
            event["meter_cost"] = self._cost()  # what the companion took is ours too
        if self.sink is not None:
            self.sink.append(event)
            self.sink.sync()
            self.sink.close()
        self._step("remove", self._leave_cgroup, None)

    def usage_dirs(self) -> dict[str, str]:
        """The cgroups whose figures are this invocation's."""
        return {} if self.group is None else self.group.dirs

    def _usage(self) -> Usage:
        return read_usage(self.usage_dirs())

    def _whole(self, table: figures.Figures) -> None:
        """Only `run` has more to say here."""

    def _last_word(self, table: figures.Figures) -> None:
        """What is kept of the figures, once a cause has been found by them; only a bench changes anything."""

    def _leave_cgroup(self) -> None:
        if self.group is not None:
            self.group.close_entries()
            self.group.remove(whole=True)

    def _stragglers(self) -> tuple[int | None, int, str]:
        """How many outlived the command (None: not known), how many still do, and what was done about them."""
        if self.group is None or not self.group.dirs:
            return None, 0, "none"
        return self._look_for_stragglers(self.group)

    def _look_for_stragglers(self, group: cgroup.Group) -> tuple[int, int, str]:
        left = group.wait_empty()
        if not left:
            return 0, 0, "none"
        if self.plan.kill_stragglers or self.timed_out:
            group.kill()
            return len(left), len(group.wait_empty(1_000_000_000)), "killed"
        return len(left), len(left), "reported"

    # What a time limit is for; it stands in the evidence.
    limited = "the whole"

    def _evidence(
        self,
        child: spawn.Child,
        status: int,
        table: figures.Figures,
        usage: Usage | None,
        reached: figures.Reached,
    ) -> outcome.Evidence:
        seen = outcome.Evidence()
        seen.caller_signal = self.caller_signal
        if self.timed_out:
            seen.time_limit_ns = self.plan.timeout_ns
            seen.time_limit_of = self.limited
        if child.exec_error is not None:
            seen.exec_errno = child.exec_error.errno or 22
            seen.program = record.escape_text(self.plan.argv[0])
        seen.sandboxed = self.plan.sandbox.kind != KIND_NONE
        seen.program_reached = reached.program_reached
        seen.oom_kill_count = None if usage is None else usage.oom_kill_count
        if seen.oom_kill_count:
            now = oom_counts_above(self.usage_dirs())
            hit = [where for where, count in now.items() if count > self.oom_before.get(where, 0)]
            where = hit[0] if hit else v1_limit_reached(self.usage_dirs())
            seen.memory_limit_scope = None if where is None else record.escape_text(where)
        soft = resource.getrlimit(resource.RLIMIT_CPU)[
            0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signals.SIGXCPU else 1
        ]
        seen.cpu_limit_s = None if soft == resource.RLIM_INFINITY else soft
        size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        seen.file_size_limit_bytes = None if size < 0 else size
        value = table["cpu_waited"]["value"] if "cpu_waited" in table else None
        seen.cpu_ns = value if isinstance(value, int) else None
        free = table["disk_free_min"]["value"] if "disk_free_min" in table else None
        seen.disk_free_min_bytes = free if isinstance(free, int) else None
        return seen

    def _cost(self) -> dict[str, Json]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "before_ns": self.started_ns - self.before_ns,
            "after_ns": time.monotonic_ns() - self.exit_ns,
            "cpu_ns": round((own.ru_utime + own.ru_stime) * 1e9),
            # Not ru_maxrss: whoever started us left its own peak in it.
            "memory_peak_bytes": procfs.peak_resident_bytes(os.getpid()),
        }

    def _step(self, name: str, do: "Callable[[], T]", otherwise: "T") -> "T":
        try:
            return do()
        except BaseException as error:
            self._fault(name, error)
            return otherwise

    def note(self, step: str, what: str) -> None:
        """What a companion has to say; becomes one of the record's faults."""
        self._fault(step, what)

    def _fault(self, step: str, what: object) -> None:
        """A part of the meter failed; the figures it would have made are missing, nothing else."""
        if isinstance(what, BaseException):
            what = f"{type(what).__name__}: {what}"
        self.faults.append({"step": step, "what": record.escape_text(str(what)[:500])})

    def _last_words(self, error: BaseException) -> None:
        """`finished` could not be kept: say so somewhere, and leave no half-open file."""
        try:
            self._fault("finish", error)
            if self.sink is not None:
                self.sink.close()
            self._leave_cgroup()
            store.leave_mark(self.plan.store, policy.mark(self.plan, self.faults[-1], self.invocation))
        except BaseException:
            return

    def abandon(self) -> None:
        """A fault before the start: take back what was made. Never raises."""
        try:
            if self.plan.companion is not None:
                self.plan.companion.abandon()
        except BaseException as error:
            self._fault("abandon", error)
        try:
            if self.sink is not None:
                self.sink.discard()
        except BaseException as error:
            self._fault("abandon", error)
        try:
            self._leave_cgroup()
            self.counters.close()
            self.stamps.close()
        except BaseException as error:
            self._fault("abandon", error)


def _raw(words: list[str]) -> list[bytes]:
    return [os.fsencode(word) for word in words]


def _wake(meter: int, command: int) -> None:
    """In the waker, until the meter ends it: wake the meter whenever it is stopped and the command is not."""
    try:
        try:
            libc.die_with_parent(signals.SIGKILL)
        except OSError:
            pass  # the loop below ends it as well
        while os.getppid() == meter:
            # Not known any more: it has ended, or /proc was taken away.
            if not procfs.is_stopped(command) and procfs.is_stopped(meter) is not False:
                os.kill(meter, signals.SIGCONT)
            time.sleep(WAKER_STEP_S)
    finally:
        os._exit(0)


def _hangup_is_ours(taken: signals.Taken) -> bool:
    """A hang-up of the terminal goes to the session's leader only; when that is us, the command must hear of it."""
    return taken.number == signals.SIGHUP and os.getsid(0) == os.getpid()


def _meter_for(plan: Plan, inherited: signals.Inherited) -> Meter:
    if plan.door is None:
        return Meter(plan, inherited)
    from proofcost.harness.collected import Collected

    return Collected(plan, inherited)


def invoke(plan: Plan, inherited: signals.Inherited) -> int:
    """Measure one call under the policy. Returns the exit code that the caller is to see."""
    meter = None
    try:
        meter = _meter_for(plan, inherited)
        meter.lets_go = plan.companion is None  # one that copies a stream needs it to the end
        signals.block_all()
        meter.prepare()
    except BaseException as fault:
        return give_up(plan, inherited, fault, meter)
    return outcome.exit_code(run_to_end(meter))


def give_up(plan: Plan, inherited: signals.Inherited, fault: object, meter: Meter | None) -> int:
    """Take back what was prepared, then do as the policy says; returns only when nothing could be run."""
    if meter is not None:
        try:
            meter.abandon()
        except BaseException:
            pass  # what is left behind is less than what waits to be run
    return policy.refuse_or_run(plan, inherited, fault, None if meter is None else meter.invocation)


def run_to_end(meter: Meter, undo: "Callable[[], None] | None" = None) -> int:
    """Start the prepared command and see it through. Returns its raw wait status; does not return when it runs
    unmeasured."""
    try:
        return meter.run()
    except BaseException as fault:
        if meter.child.pid == 0:  # no process could be made: nothing has run
            if undo is not None:
                undo()
            os._exit(give_up(meter.plan, meter.inherited, fault, meter))
    return meter.plain_wait(meter.child.pid) if meter.status is None else meter.status
