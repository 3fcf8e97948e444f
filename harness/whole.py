"""The judge itself, measured by `proofcost run`: the session's own cgroup S, the judge in S/whole, its calls beside it.

S holds no process of its own, so what it says is the sum of the judge and of every call that a meter put beside it.
`run` stays outside, so that a memory limit or a kill of S never takes the meter with it.
"""

import os
import time

from proofcost.harness import cgroup, figures, hierarchy, procfs, run_folder, session, settle, store
from proofcost.harness.clock import clocks
from proofcost.harness.meter import Meter
from proofcost.harness.plan import Plan
from proofcost.harness.policy import MeterError
from proofcost.harness.record import Json
from proofcost.harness.sample import Sampler
from proofcost.harness.signals import Inherited
from proofcost.harness.usage import Usage, read_usage
from proofcost.harness.version import SCHEMA

METERS_COST = "the start-up of our own launchers is in it"


class LimitError(MeterError):
    """A limit was asked for that cannot be enforced here; nothing was started."""


class Whole(Meter):
    """One judge run: a session, its cgroup, and the record of the whole."""

    __slots__ = ("around", "directory", "sampled_paths")

    def __init__(self, plan: Plan, inherited: Inherited) -> None:
        super().__init__(plan, inherited)
        # The session's cgroup S; `group` is the judge's own, S/whole.
        self.around: cgroup.Group | None = None
        self.sampled_paths: list[str] = []
        # The launchers' folder, where this run has one of its own.
        self.directory: str | None = None

    def sample_paths(self, paths: list[str]) -> None:
        """Watch the free space of these paths' filesystems; a judge grants nothing, it works where it is started."""
        self.sampled_paths = paths

    def prepare(self) -> None:
        """As an invocation's, and the session's file. Raises LimitError before anything was started."""
        self._write_session()
        if self.plan.cgroup != "auto" and self.plan.memory_limit_bytes is not None:
            raise LimitError("--memory needs a cgroup: leave --cgroup off out, or --memory")
        super().prepare()
        self.sampler = Sampler(self.usage_dirs(), self.sampled_paths)

    def _write_session(self) -> None:
        plan = self.plan
        store.check_place(plan.store, [])
        folder = f"{plan.store}/sessions/{plan.session}"
        store.make_folder(folder)
        content: dict[str, Json] = {
            "schema": SCHEMA,
            "event": "session",
            "session": plan.session,
            "invocation": self.invocation,
            "pid": os.getpid(),
            "start_ticks": procfs.start_ticks(os.getpid()),
            "boot_id": procfs.boot_id(),
            "labels": plan.labels,
            "clocks": clocks(),
        }
        store.write_new(f"{folder}/{session.SESSION_FILE}", content)

    def _make_cgroup(self) -> None:
        own = hierarchy.find_own()
        self.own_dirs = own.dirs
        names = hierarchy.wanted(own)
        self.base = {name: hierarchy.base_for(own, name) for name in names}
        around = cgroup.Group(own.kind)
        around.make(self.base, hierarchy.session_name(self.session))
        if hierarchy.UNIFIED in around.dirs:
            hierarchy.open_controllers(around.dirs[hierarchy.UNIFIED])
        judge = cgroup.Group(own.kind)
        judge.make(around.dirs, hierarchy.WHOLE)
        self.around, self.group = around, judge
        reasons = {**around.reasons, **judge.reasons}
        if not names:
            self.cgroup_reason = "no cgroup hierarchy can be seen from here"
        elif reasons:
            self.cgroup_reason = "; ".join(reasons.values())
        elif not judge.has_memory:
            self.cgroup_reason = "the cgroup above hands no memory controller down"
        self._limit()

    def _limit(self) -> None:
        limit = self.plan.memory_limit_bytes
        if limit is None:
            return
        why = self.cgroup_reason if self.around is None else cgroup.limit_tree(self.around.dirs, limit)
        if why is not None:
            raise LimitError(f"--memory {limit}: cannot be enforced here: {self.cgroup_reason or why}")

    def usage_dirs(self) -> dict[str, str]:
        return {} if self.around is None else self.around.dirs

    def _usage(self) -> Usage:
        usage = super()._usage()
        if hierarchy.MEMORY in self.usage_dirs() and self.group is not None:
            # v1 counts an OOM kill where the victim lived, and adds nothing up.
            own = read_usage(self.group.dirs).oom_kill_count
            if own is not None:
                usage.oom_kill_count = (usage.oom_kill_count or 0) + own
        return usage

    def _whole(self, table: figures.Figures) -> None:
        """The judge's own share, read from S/whole."""
        usage = read_usage({} if self.group is None else self.group.dirs)
        absent = self.cgroup_reason or "no cgroup"
        figures.put(
            table, "cpu_judge_self", usage.cpu_ns, "ns", f"{usage.cpu_method} of the judge's own cgroup", absent
        )
        method = f"{usage.peak_method} of the judge's own cgroup"
        figures.put(table, "memory_peak_judge_self", usage.peak_bytes, "bytes", method, absent)
        for name in ("cpu_judge_self", "memory_peak_judge_self"):
            if table[name]["value"] is not None:
                table[name]["reason"] = METERS_COST

    def _after_start(self) -> None:
        super()._after_start()
        directory = self.directory
        if directory is not None:
            self._step("launchers", lambda: run_folder.note_judge(directory, self.child.pid), None)
        if self.around is None or self.group is None:
            return
        for kind in set(self.around.dirs) - set(self.group.dirs):
            # The judge is not in S/whole there, so S adds up the calls at best.
            self.around.forget(kind, self.group.reasons.get(kind, "the judge is not in it"))

    def _kill_group(self, pid: int) -> None:
        if self.around is not None:
            self.around.kill(pid)

    def _stragglers(self) -> tuple[int | None, int, str]:
        if self.around is None or not self.around.dirs:
            return None, 0, "none"
        return self._look_for_stragglers(self.around)

    def _leave_cgroup(self) -> None:
        """Settle every call's leftover, then take S away; what still lives keeps its cgroup until a later run."""
        super()._leave_cgroup()
        around = self.around
        if around is None:
            return
        settle_calls(self.plan.store, around.dirs, self.session)
        around.remove()
        for name in {name for base in self.base.values() for name in cgroup.left_over(base, hierarchy.PREFIX + "-")}:
            self._settle_dead_session(name)

    def _settle_dead_session(self, name: str) -> None:
        """An earlier run's S that could not be removed then: its run is dead, and its calls have ended by now."""
        owner = name[len(hierarchy.PREFIX) + 1 :]
        raw = procfs.read_file(f"{self.plan.store}/sessions/{owner}/{session.SESSION_FILE}")
        group = cgroup.Group("")
        group.dirs = {key: f"{path}/{name}" for key, path in self.base.items() if os.path.isdir(f"{path}/{name}")}
        if raw is None and not group.pids() and all(map(_is_old, group.dirs.values())):
            group.remove(whole=True)  # of a store that is not this one, perhaps gone
        if owner == self.session or raw is None or _run_is_alive(raw):
            return
        settle_calls(self.plan.store, group.dirs, owner)
        whole = _invocation_of(raw)
        if whole is None or not settle.settle(self.plan.store, owner, whole, group.dirs, "run"):
            group.remove()


def settle_calls(place: str, dirs: dict[str, str], owner: str) -> None:
    """Settle what is left of the calls of session `owner`, whose cgroups are `dirs`, and of its S/whole."""
    names = {name for directory in dirs.values() for name in cgroup.left_over(directory, "")}
    for name in names:
        inner = {kind: f"{path}/{name}" for kind, path in dirs.items() if os.path.isdir(f"{path}/{name}")}
        if name == hierarchy.WHOLE:
            leaf = cgroup.Group("")
            leaf.dirs = inner
            leaf.remove()
        else:
            settle.settle(place, owner, name, inner, "run")


def _is_old(directory: str) -> bool:
    try:
        return time.time_ns() - os.stat(directory).st_mtime_ns > settle.ABANDONED_NS
    except OSError:
        return False


def _invocation_of(raw: bytes) -> str | None:
    """Of the whole of a session, from the session's file; None where an earlier version wrote it."""
    found = raw.partition(b'"invocation":"')[2].partition(b'"')[0]
    return found.decode("ascii") if found.replace(b"-", b"").isalnum() else None


def _number_after(raw: bytes, key: bytes) -> int | None:
    digits = raw[raw.find(key) + len(key) :][:24].split(b",")[0] if key in raw else b""
    return int(digits) if digits.isdigit() else None


def _run_is_alive(raw: bytes) -> bool:
    pid, ticks = _number_after(raw, b'"pid":'), _number_after(raw, b'"start_ticks":')
    return pid is not None and ticks is not None and procfs.is_running(pid, ticks)


def new_session() -> str:
    """The id of the session that hangs from this process."""
    ticks = procfs.start_ticks(os.getpid())
    return session.session_id(os.getpid(), ticks or time.monotonic_ns(), procfs.boot_id(), procfs.pid_namespace())
