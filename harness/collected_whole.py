"""The judge itself, run as another user while root keeps the records (`run --as`): whole.py and a collector beside it.

All waits for the collector at the end take door.WAIT_S together at most; what it has not done by then is missing
from the records, never from the judge's status.
"""

import _socket
import fcntl
import os
import resource
import time

from proofcost.harness import collector, door, policy, record, seal, session, store
from proofcost.harness.decode import json_object
from proofcost.harness.figures import Figures
from proofcost.harness.keeper import Keeper
from proofcost.harness.known_digests import FOLDER, KnownDigests
from proofcost.harness.plan import Plan
from proofcost.harness.policy import MeterError
from proofcost.harness.record import Json
from proofcost.harness.signals import SIGKILL, Inherited
from proofcost.harness.whole import Whole

_STEP_S = 0.002
# One that hangs in a disk's driver does not die of SIGKILL, either; it is then left to whoever adopts it.
_KILLED_S = 0.1
_ANSWER_MAX_BYTES = 1 << 16


class CollectedWhole(Whole):
    """A judge of another user, its session, and the collector that keeps it."""

    __slots__ = ("_collector_pid", "_control", "_inner", "_patience_s", "summary", "why_incomplete")

    def __init__(self, plan: Plan, inherited: Inherited) -> None:
        super().__init__(plan, inherited)
        self._inner, outer = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        number = _at_a_high_number(outer.fileno())
        outer.close()
        plan.door = door.Door(number, os.fstat(number).st_ino, "")
        self._control: _socket.socket | None = None
        self._collector_pid = 0
        # How long the judge's end may still wait for the collector, at all of its steps together.
        self._patience_s = door.WAIT_S
        self.summary: dict[str, Json] | None = None
        self.why_incomplete: list[str] = []

    def _write_session(self) -> None:
        if os.path.lexists(f"{self._session_folder()}/{session.SESSION_FILE}"):
            # A process that executes `run` twice has one pid and one start time.
            raise store.StoreError(
                f"store {self.plan.store}: session {self.plan.session} was kept before; start `run` as a new process"
            )
        super()._write_session()

    def _session_folder(self) -> str:
        return f"{self.plan.store}/sessions/{self.plan.session}"

    def _make_cgroup(self) -> None:
        super()._make_cgroup()
        if self.plan.strict and (self.around is None or not self.around.dirs):
            raise MeterError(f"what outlives the judge could not be stopped: {self.cgroup_reason or 'no cgroup'}")

    def _keep(self, started: dict[str, Json]) -> None:
        super()._keep(started)
        plan = self.plan
        assert plan.user is not None
        assert plan.door is not None
        kept = Keeper(plan.store, self.session, plan.user, started["host"])
        kept.around = self.around
        kept.no_cgroup = self.cgroup_reason or "no cgroup"
        if self.directory is not None:
            kept.known = KnownDigests(f"{self.directory}/{FOLDER}")
        self._step("cgroup", kept.open_cgroups, None)
        self._control, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        one = collector.Collector(kept, self._inner, theirs)
        one.directory, one.whole, one.key = self.directory, self.invocation, plan.seal_key
        one.outer_door = plan.door.number
        needed = [self._inner.fileno(), theirs.fileno(), plan.door.number]
        self._collector_pid = collector.start(one, needed, plan.store)
        theirs.close()
        self._inner.close()

    def run(self) -> int:
        """As an invocation's; then the session is sealed."""
        assert self.plan.door is not None
        os.set_inheritable(self.plan.door.number, True)
        try:
            return super().run()
        finally:
            if self.child.pid:
                self._finish()

    def _after_start(self) -> None:
        super()._after_start()
        control = self._control
        assert control is not None
        self._close_door()
        pidfd = os.pidfd_open(self.child.pid)
        try:
            carried = [(_socket.SOL_SOCKET, door.SCM_RIGHTS, pidfd.to_bytes(4, "little"))]
            control.sendmsg([collector.JUDGE], carried, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        finally:
            os.close(pidfd)

    def _close_door(self) -> None:
        """Our own descriptor of it; the judge and the collector have theirs."""
        door_of_ours = self.plan.door
        if door_of_ours is not None and door_of_ours.is_open():
            os.close(door_of_ours.number)

    def _stragglers(self) -> tuple[int | None, int, str]:
        """Whatever outlived the judge is killed: the session ends with it."""
        around = self.around
        if around is None or not around.dirs:
            return None, 0, "none"
        left = around.wait_empty()
        if not left:
            return 0, 0, "none"
        around.kill()
        return len(left), len(around.wait_empty(collector.KILL_NS)), "killed"

    def _whole(self, table: Figures) -> None:
        super()._whole(table)
        self._end_collector()

    def _end_collector(self) -> None:
        """Have it take what was sent before the kill, and say what it saw."""
        control = self._control
        assert control is not None
        began = time.monotonic()
        try:
            control.settimeout(self._patience_s)
            control.send(collector.END, _socket.MSG_NOSIGNAL)
            self.summary = json_object(control.recv(_ANSWER_MAX_BYTES))
        except Exception as error:
            self._patience_s = 0
            self._tell(f"the collector is gone or does not answer ({type(error).__name__}: {error})")
            return
        self._patience_s -= time.monotonic() - began
        refused = self.summary.get("refused")
        if isinstance(refused, dict) and refused:
            self._tell("refused: " + ", ".join(f"{count} x {why}" for why, count in sorted(refused.items())))
        if self.summary.get("discarded_count"):
            self._tell(f"{self.summary['discarded_count']} calls were given up before they started: see the marks")
        if self.summary.get("door_shut"):
            self._tell("the way to the collector was shut from inside: later calls may be missing")

    def _tell(self, what: str) -> None:
        self._fault("collector", what)
        self.why_incomplete.append(record.escape_text(what))

    def _leave_cgroup(self) -> None:
        super()._leave_cgroup()
        if self.around is not None:
            self.around.remove(whole=True)  # calls that were forged, or whose meters were killed, hold nothing up

    def _finish(self) -> None:
        """Seal the session, and part with the collector. Never raises."""
        try:
            seal.write(self._session_folder(), self.session, self.summary, self.why_incomplete, self.plan.seal_key)
        except BaseException as error:
            what = record.escape_text(f"the session was not sealed: {type(error).__name__}: {error}"[:500])
            store.leave_mark(self.plan.store, policy.mark(self.plan, what, self.invocation))
            policy.say(what)
        try:
            if self._control is not None:
                self._control.send(collector.BYE, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:
            pass
        self._reap_collector(self._patience_s)

    def _reap_collector(self, patience_s: float) -> None:
        """Wait for its end, and make it end. Never raises."""
        pid, self._collector_pid = self._collector_pid, 0
        try:
            if pid and not _ends(pid, patience_s):
                os.kill(pid, SIGKILL)
                _ends(pid, _KILLED_S)
        except OSError:
            pass
        finally:
            if self._control is not None:
                self._control.close()

    def abandon(self) -> None:
        self._reap_collector(0)
        self._close_door()
        self._inner.close()
        super().abandon()


def _ends(pid: int, patience_s: float) -> bool:
    """Whether a child of ours ends in time. Raises OSError."""
    until = time.monotonic() + patience_s
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() >= until:
            return False
        time.sleep(_STEP_S)
    return True


def _at_a_high_number(fd: int) -> int:
    """A copy of the descriptor where nobody else's is likely to be wanted, close-on-exec."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    least = door.USUAL_NUMBER if soft < 0 or soft > door.USUAL_NUMBER + 1 else max(3, soft // 2)
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
