"""Runs the turns of a plan, one after the other, and never lets one of them stop the rest.

Theory of operation. The runner (this process) measures nothing. Each invocation is a *cell*: a fresh, small process
(cell.py) in a session of its own, which is the meter of one kernel on one export and writes an ordinary record. The
runner starts it, takes what the kernel prints off its hands, and waits; between turns it sees to it that nothing of the
turn before still runs. What it must know later it reads from the records: it keeps no state of its own.

Ctrl-C reaches the runner alone (cells have sessions of their own). It tells the cells to end; they kill their tree,
write their record as ended by their caller, and go. Such a turn counts as not done. A runner that is killed takes its
cells along in the same way.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofcost.adapters import launchers
from proofcost.bench_suites import call, counters, orphans, quiet
from proofcost.bench_suites.output import Output
from proofcost.bench_suites.series import Series, Turn
from proofcost.bench_suites.stopping import Stop
from proofcost.harness import cgroup, procfs
from proofcost.harness.record import Json, escape_text

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOOT = "import sys; sys.path.insert(0, {tree!r}); from proofcost.bench_suites.cell import main; main()"
ANSWER_BYTES_MAX = 1 << 20

TICK_MS = 1000
OVERDUE_NS = 60 * 10**9
"""So long after its time limit a cell that has not ended is given up: it is stuck, and its limit did not help."""
STOP_PATIENCE_NS = 10 * 10**9
EMPTY_PATIENCE_NS = 10 * 10**9
EMPTY_STEP_S = 0.01
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how all turns of one go are run. `guard_bytes`: a memory limit where the suite sets none."""

    store: str
    session: str
    part: int
    shard: str | None
    labels: dict[str, Json]
    scratch: str
    cgroup: str = "auto"
    guard_bytes: int | None = None
    interpreter: str = field(default_factory=launchers.choose_interpreter)


@dataclass(frozen=True, slots=True)
class Ended:
    """One cell that was run. `invocation` is None when nothing was, and then `fault` says why."""

    turn: Turn
    slot: int
    invocation: str | None
    status: int | None
    fault: str | None
    elapsed_ns: int
    printed_bytes: int
    reason: str
    """What of its output tells best why it failed, if it did (Output.reason)."""


class Observer:
    """Told what happens; this one does nothing."""

    tick_ms: int | None = None

    def begins(self, turn: Turn) -> None:
        """A turn is about to start."""

    def waits(self) -> None:
        """Time passes; called every `tick_ms`."""

    def ended(self, turn: Turn, cells: Sequence[Ended]) -> None:
        """A turn is over, and nothing of it runs any more."""

    def disturbed(self, turn: Turn, why: Sequence[str]) -> None:
        """The host was not quiet before this turn's block."""


@dataclass(slots=True)
class _Cell:
    """A cell that was started."""

    slot: int
    folder: str
    memory: int
    process: subprocess.Popen[bytes]
    outputs: list[Output]
    started_ns: int
    pidfd: int = -1
    ended_ns: int | None = None


def into_cache(path: str) -> None:
    """Read a file through: every kernel then finds it in the page cache, and none is charged for bringing it there.

    One that would not stay there is left alone.
    """
    available = quiet.memory_available_bytes()
    with contextlib.suppress(OSError):
        if available is None or os.stat(path).st_size > available // 2:
            return
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass


class Conductor:
    """Runs turns. `look` is asked before each block what speaks against a quiet host."""

    def __init__(
        self,
        series: Series,
        setting: Setting,
        observer: Observer,
        look: Callable[[Turn], list[str]] = lambda turn: [],
    ) -> None:
        self.series = series
        self.setting = setting
        self.observer = observer
        self.look = look
        self._block: int | None = None
        self._work: str | None = None
        self._disturbances: list[str] = []
        # Children that are none of ours: of whoever called us.
        self._others: frozenset[int] = frozenset()
        # What a turn left running although it was killed: {invocation: its cgroups}.
        self._left: dict[str, list[str]] = {}

    def run(self, turns: Sequence[Turn], stop: Stop) -> bool:
        """Run them in order. False when it was stopped before the last one."""
        orphans.adopt()  # of a cell that was killed, where there is no cgroup that tells what it had started
        self._others = frozenset(procfs.children_of(os.getpid()))
        for turn in turns:
            if stop.asked:
                return False
            self._before(turn)
            self.observer.begins(turn)
            cells = self._turn(turn, stop)
            self.observer.ended(turn, cells)
        return not stop.asked

    def _before(self, turn: Turn) -> None:
        if turn.work.name != self._work:
            into_cache(turn.work.path)
            self._work = turn.work.name
        if self._block is None or turn.block != self._block:
            self._disturbances = self.look(turn)
            if self._disturbances:
                self.observer.disturbed(turn, self._disturbances)
        self._block = turn.block

    def _turn(self, turn: Turn, stop: Stop) -> list[Ended]:
        cells: list[_Cell] = []
        failed: list[Ended] = []
        for slot in range(turn.co_running):
            try:
                cells.append(self._start(turn, slot))
            except OSError as error:
                text = f"could not be started: {error.strerror or error}"
                failed.append(Ended(turn, slot, None, None, text, 0, 0, ""))
        self._wait(cells, stop)
        orphans.kill(self._others)
        return [self._finish(turn, cell) for cell in cells] + failed

    def _start(self, turn: Turn, slot: int) -> _Cell:
        folder = tempfile.mkdtemp(dir=self.setting.scratch)
        memory = os.memfd_create("cell", os.MFD_CLOEXEC)
        outputs: list[Output] = []
        ends: list[int] = []
        try:
            made, specification = self.specify(turn, slot, folder)
            if made.config_path is not None and made.write_config is not None:
                with open(made.config_path, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(made.write_config)
            os.pwrite(memory, marshal.dumps(specification, 4), 0)
            for _ in range(2):
                reading, writing = os.pipe2(os.O_CLOEXEC)
                outputs.append(Output(reading))
                ends.append(writing)
            interpreter = self.setting.interpreter
            boot = BOOT.format(tree=TREE)
            with open(made.stdin or os.devnull, "rb") as stdin:
                started_ns = time.monotonic_ns()
                process = subprocess.Popen(
                    [interpreter, "-I", "-S", "-c", boot, str(memory), str(os.getpid())],
                    stdin=stdin,
                    stdout=ends[0],
                    stderr=ends[1],
                    cwd=folder,
                    env=dict(made.environment),
                    pass_fds=(memory,),
                    start_new_session=True,
                )
            return _Cell(slot, folder, memory, process, outputs, started_ns, os.pidfd_open(process.pid))
        except BaseException:
            for output in outputs:
                output.close()
            os.close(memory)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            for end in ends:
                os.close(end)

    def specify(self, turn: Turn, slot: int, folder: str) -> tuple[call.Call, dict[str, Any]]:
        """The call of one cell, and what cell.py is told."""
        settings, setting = self.series.settings, self.setting
        memory = settings.limits.memory_bytes
        if memory is None and setting.guard_bytes is not None:
            memory = setting.guard_bytes // turn.co_running
        made = call.make(
            turn.kernel, turn.build, turn.work.path, folder, settings.sandbox, turn.threads, memory, settings.counters
        )
        return made, {
            "argv": list(made.argv),
            "target": list(made.target),
            "sandbox": settings.sandbox.kind,
            "store": setting.store,
            "session": setting.session,
            "labels": setting.labels,
            "cgroup": setting.cgroup,
            "kernel_name": turn.kernel.name,
            "kernel_config": made.config_path,
            "kernel_threads_count": turn.threads,
            "timeout_ns": self._wall_ns(turn),
            "memory_limit_bytes": memory,
            "swap_limit_bytes": settings.limits.swap_bytes,
            "file_size_bytes": settings.limits.file_size_bytes,
            "callgrind": _callgrind(settings.counters, folder),
            "ids": {
                "build": turn.build + 1 if len(turn.kernel.builds) > 1 else None,
                "block": turn.block,
                "order": turn.order,
                "iteration": turn.iteration,
                "warmup": turn.warmup,
            },
            "bench": self._planned(turn, slot),
        }

    def _wall_ns(self, turn: Turn) -> int | None:
        """The time limit that holds: the smaller of the suite's and the workload's own."""
        limits = [one for one in (self.series.settings.limits.wall_ns, turn.work.timeout_ns) if one is not None]
        return min(limits, default=None)

    def _planned(self, turn: Turn, slot: int) -> dict[str, Json]:
        """The record's `bench`."""
        kernel, work = turn.kernel, turn.work
        codes, known_by = kernel.exit_codes()
        convention = kernel.convention.name
        return {
            "suite": escape_text(self.series.settings.name),
            "plan_sha256": self.series.sha256,
            "shard": self.setting.shard,
            "turn": turn.number,
            "part": self.setting.part,
            "kernel_number": self.series.kernels.index(kernel),
            "convention": None if convention == "unknown" else escape_text(convention),
            "control": kernel.control,
            "twin_of": None if kernel.twin_of is None else escape_text(kernel.twin_of),
            "version": None if kernel.version is None else escape_text(kernel.version),
            "exit_codes": {str(code): meaning for code, meaning in codes.items()},
            "exit_codes_known_by": escape_text(known_by),
            "settings_sha256": kernel.settings_sha256(turn.threads),
            "environment": {escape_text(name): escape_text(value) for name, value in kernel.environment.items()},
            "workload": {
                "name": escape_text(work.name),
                "path": escape_text(work.path),
                "sha256": work.sha256,
                "size_bytes": work.size_bytes,
                "family": None if work.family is None else escape_text(work.family),
                "n": work.n,
                "seed": work.seed,
                "expected": work.expected,
            },
            "covariates": dict(work.covariates),
            "co_running": {"count": turn.co_running, "slot": slot},
            "counters": list(self.series.settings.counters),
            "disturbances": [escape_text(why) for why in (*self._disturbances, *self._still_running())],
        }

    def _still_running(self) -> list[str]:
        """What earlier turns left running, and does still run."""
        self._left = {name: dirs for name, dirs in self._left.items() if any(map(cgroup.pids_below, dirs))}
        return [f"what {name} had started could not be killed and still runs" for name in self._left]

    def _wait(self, cells: Sequence[_Cell], stop: Stop) -> None:
        """Until every cell has ended, by itself or because it was told to."""
        poll = select.poll()
        poll.register(stop.fd, select.POLLIN)
        by_fd: dict[int, tuple[_Cell, Output | None]] = {}
        for cell in cells:
            by_fd[cell.pidfd] = (cell, None)
            by_fd.update({output.fd: (cell, output) for output in cell.outputs})
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        told_ns: int | None = None
        while any(cell.ended_ns is None for cell in cells):
            ready = poll.poll(self._patience_ms())
            for fd, _ in ready:
                if fd == stop.fd:
                    stop.drain()
                    continue
                cell, output = by_fd[fd]
                if output is None:
                    cell.ended_ns = time.monotonic_ns()
                    cell.process.wait()
                elif output.take():
                    continue
                poll.unregister(fd)
            now = time.monotonic_ns()
            running = [cell for cell in cells if cell.ended_ns is None]
            if stop.asked and told_ns is None:
                told_ns = now
                _signal(running, signal.SIGTERM)
            if told_ns is not None and now - told_ns > STOP_PATIENCE_NS:
                _signal(running, signal.SIGKILL)
            _signal([cell for cell in running if self._is_overdue(cell, now)], signal.SIGKILL)
            if not ready:
                self.observer.waits()

    def _patience_ms(self) -> int:
        """How long to wait for anything: not for ever, as a stop or a stuck cell must be seen to."""
        return self.observer.tick_ms or TICK_MS

    def _is_overdue(self, cell: _Cell, now: int) -> bool:
        limit = self.series.settings.limits.wall_ns
        return limit is not None and now - cell.started_ns > limit + OVERDUE_NS

    def _finish(self, turn: Turn, cell: _Cell) -> Ended:
        for output in cell.outputs:
            output.drain()
            output.close()
        os.close(cell.pidfd)
        said = _answer(cell.memory)
        os.close(cell.memory)
        fault = said["fault"]
        if fault is None and said["status"] is None:
            code = cell.process.returncode
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            fault = (
                f"the meter was {how} and told nothing more" if code < 0 else f"the meter {how} and told nothing more"
            )
        self._see_it_empty(said["invocation"], said["cgroups"], said["status"] is None)
        shutil.rmtree(cell.folder, ignore_errors=True)
        reasons = [output.reason() for output in reversed(cell.outputs)]
        return Ended(
            turn=turn,
            slot=cell.slot,
            invocation=said["invocation"],
            status=said["status"],
            fault=fault,
            elapsed_ns=(cell.ended_ns or time.monotonic_ns()) - cell.started_ns,
            printed_bytes=sum(output.bytes_count for output in cell.outputs),
            reason=next(filter(None, reasons), ""),
        )

    def _see_it_empty(self, invocation: str | None, dirs: list[str], vanished: bool) -> None:
        """Nothing of a turn runs beside the next one: wait for its cgroups to be empty, and kill what does not go.

        A meter that ended well has removed them, and this is one look.
        """
        dirs = [path for path in dirs if os.path.isdir(path)]
        if invocation is None or not dirs:
            return
        group = cgroup.Group("")
        group.dirs = {str(at): path for at, path in enumerate(dirs)}
        if vanished:
            group.kill()
        began = time.monotonic_ns()
        while any(map(cgroup.pids_below, dirs)):
            if time.monotonic_ns() - began > EMPTY_PATIENCE_NS:
                self._left[invocation] = dirs
                return
            group.kill()
            time.sleep(EMPTY_STEP_S)


def _signal(cells: Sequence[_Cell], number: int) -> None:
    for cell in cells:
        with contextlib.suppress(ProcessLookupError):
            cell.process.send_signal(number)


def _answer(memory: int) -> dict[str, Any]:
    """What a cell told; a cell that was killed before it could has left its specification there."""
    nothing: dict[str, Any] = {"invocation": None, "cgroups": [], "status": None, "fault": None}
    try:
        said = marshal.loads(os.pread(memory, ANSWER_BYTES_MAX, 0))
    except (ValueError, EOFError, TypeError):
        return nothing
    if not isinstance(said, dict) or "fault" not in said:
        return nothing
    return {**nothing, **said}


def _callgrind(used: tuple[str, ...], folder: str) -> list[str] | None:
    """(valgrind's path, its version, where its files are) for a cell that is counted by it."""
    if counters.CALLGRIND not in used:
        return None
    tool = counters.found()
    return [tool.path, tool.version, folder]
