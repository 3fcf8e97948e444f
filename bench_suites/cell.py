"""One planned invocation, in a fresh process that ends with it: the meter around one kernel on one export.

Started by conduct.py as `python -I -S -c ...`, so that nothing of the runner (its memory, its threads, its modules) is
in what is measured. The specification comes in a memory file (marshal, for start-up's sake), the answer goes into the
same file: first the invocation's id, then the wait status, or what went wrong before anything ran.

A signal that ends us (TERM from the runner, or as it dies) ends the whole tree at once; the record is still written.
"""

import marshal
import os
import resource
import sys

from proofcost.adapters import bwrap, landrun
from proofcost.bench_suites import orphans
from proofcost.harness import cgroup, figures, libc, policy, signals, spawn, store, whole
from proofcost.harness.meter import Meter
from proofcost.harness.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPECIFICATION_BYTES_MAX = 1 << 24
PLAN_FIELDS = (
    "bench", "cgroup", "ids", "kernel_config", "kernel_name", "kernel_threads_count", "labels", "memory_limit_bytes",
    "session", "store", "swap_limit_bytes", "target", "timeout_ns",
)  # fmt: skip
"""What of a specification goes into the meter's plan as it is."""


class Cell(Meter):
    """An invocation with a memory limit of its own, that ends when it is told to."""

    __slots__ = ("adopts", "callgrind")
    limited = "this kernel on this export, its sandbox included"

    def __init__(self, plan: Plan, inherited: signals.Inherited, callgrind: "list[str] | None" = None) -> None:
        super().__init__(plan, inherited)
        # valgrind's path, its version and the folder of its files, where the command runs under it.
        self.callgrind = callgrind
        # Without a cgroup, what a kernel leaves behind becomes ours, so that it can be found and killed.
        self.adopts = False

    def prepare(self) -> None:
        super().prepare()
        if self.group is None or not self.group.dirs:
            self.adopts = orphans.adopt()

    def _stragglers(self) -> tuple[int | None, int, str]:
        if not self.adopts:
            return super()._stragglers()
        outlived, left = orphans.kill()
        return outlived, left, "killed" if outlived else "none"

    def _last_word(self, table: figures.Figures) -> None:
        if self.callgrind is not None:
            from proofcost.bench_suites import callgrind

            path, version, folder = self.callgrind
            callgrind.only_the_count(table, callgrind.figure(callgrind.Callgrind(path, version), folder))

    def _make_cgroup(self) -> None:
        super()._make_cgroup()
        limit = self.plan.memory_limit_bytes
        if limit is None:
            return
        dirs = {} if self.group is None else self.group.dirs
        why = cgroup.limit_tree(dirs, limit, self.plan.swap_limit_bytes)
        if why is not None:
            raise whole.LimitError(f"memory limit {limit}: cannot be enforced here: {self.cgroup_reason or why}")

    def _pass_on(self, pid: int, number: int) -> None:
        if number in signals.ENDING:
            self._kill_command(pid)
        else:
            super()._pass_on(pid, number)


def plan_of(said: "dict[str, Any]") -> Plan:
    """The meter's plan from a specification."""
    plan = Plan(said["argv"], "bench")
    for name in PLAN_FIELDS:
        setattr(plan, name, said[name])
    # A run that would go unmeasured is of no use to a bench; nor is a sandbox that would not confine.
    plan.strict = plan.kill_stragglers = True
    plan.phase_understood, plan.phase_known_by = landrun.CHECKER, "bench"
    if said["sandbox"] == landrun.KIND:
        plan.sandbox, _ = landrun.read_arguments(plan.argv[1:])
    elif said["sandbox"] == bwrap.KIND:
        plan.sandbox, _ = bwrap.read_arguments(plan.argv[1:])
    return plan


def answer(fd: int, what: "dict[str, Any]") -> None:
    """Put the answer where the runner reads it."""
    raw = marshal.dumps(what, 4)
    os.pwrite(fd, raw, 0)
    os.ftruncate(fd, len(raw))


def main() -> None:
    """Measure what the memory file `argv[1]` specifies; `argv[2]` is the runner's pid."""
    fd, runner = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(fd, False)
    inherited = signals.Inherited(0)  # what the runner ignores (Python's habits) is not for the kernel
    signals.block_all()
    libc.die_with_parent(signals.SIGTERM)
    if os.getppid() != runner:
        os._exit(policy.REFUSED)
    said = marshal.loads(os.pread(fd, SPECIFICATION_BYTES_MAX, 0))
    cell = None
    try:
        limit = said["file_size_bytes"]
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        cell = Cell(plan_of(said), inherited, said["callgrind"])
        cell.prepare()
        cgroups = [] if cell.group is None else list(cell.group.dirs.values())
        told = {"invocation": cell.invocation, "cgroups": cgroups, "status": None, "fault": None}
        answer(fd, told)
    except BaseException as fault:  # noqa: BLE001  # whatever it is, nothing has run, and the runner is told
        if cell is not None:
            cell.abandon()
        answer(fd, {"invocation": None, "cgroups": [], "status": None, "fault": _said(fault)})
        os._exit(policy.REFUSED)
    status = None
    fault_text = None
    try:
        status = cell.run()
    except BaseException as fault:  # noqa: BLE001  # no process could be made, or its status is lost
        fault_text = _said(fault)
        if not spawn.started_pid:
            cell.abandon()
            told["invocation"] = None
    answer(fd, {**told, "status": status, "fault": fault_text})
    os._exit(0 if fault_text is None else policy.REFUSED)


def _said(fault: BaseException) -> str:
    if isinstance(fault, policy.MeterError | store.StoreError):
        return str(fault)
    return f"{type(fault).__name__}: {fault}"
