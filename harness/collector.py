"""The collector: a process of root's that keeps a session's records while the judge runs as another user.

Theory of operation. `run --as` makes the door (door.py) and, before the judge starts, forks this process. It stands
outside the session's cgroup and in a session of its own, so that neither the judge's user (another uid), nor a kill of
the judge's tree or of our caller's process group takes it along. It has one thread and one loop over
- the door: kept filled with fresh connections, each a socket pair whose other end waits in the door to be taken out;
- the callers (caller.py): connections on which somebody has spoken, or may;
- the control socket to `run`: `judge` with the judge's pidfd once it runs, `end` when it has ended and its tree was
  killed, `bye` when `run` has sealed the session. Its end of file means that `run` was killed: then this process kills
  what is left of the judge and its tree, seals the session as incomplete, and takes away what `run` would have.
It never ends because the door is closed (who outlives the judge may hold it open for ever) and never waits for anybody.

Why a process of its own and not a part of `run`'s wait loop: the loop that must see the judge's exit at once and pass
on its signals is then as it is without a collector, and no fault or flood here can touch the judge's status.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import os
import resource
import select
import time

from proofcost.harness import cgroup, door, procfs, record, run_folder, seal, settle, store, whole
from proofcost.harness.caller import Caller
from proofcost.harness.clock import clocks
from proofcost.harness.keeper import Keeper, RefusedError
from proofcost.harness.record import Json
from proofcost.harness.signals import SIGKILL
from proofcost.harness.version import SCHEMA

# Connections that wait in the door, about; as many again may have been taken by somebody who says nothing.
DOOR_BUFFER_BYTES = 8192
SILENT_MAX = 64
SILENT_KEPT = 16
SILENT_NS = 1_000_000_000
# So many connections that were taken and ended without a word are no misfortune any more.
UNSPOKEN_MAX = 4096
CALLERS_MAX = 512
HELD_MAX_BYTES = 32 << 20
_DESCRIPTORS_KEPT = 64 + 2 * SILENT_MAX
_PAUSE_MS = 250
DRAIN_NS = 1_000_000_000
KILL_NS = 2_000_000_000
_STEP_S = 0.005
JUDGE, END, BYE, GONE = b"judge", b"end", b"bye", b"gone"
_MESSAGE_BYTES = 64


class Collector:
    """The loop's state."""

    __slots__ = (
        "_callers",
        "_callers_max",
        "_control",
        "_door",
        "_ends",
        "_judge",
        "_keeper",
        "_offers",
        "_poll",
        "_run_pid",
        "_shut",
        "_silent",
        "directory",
        "key",
        "outer_door",
        "whole",
    )

    def __init__(self, keeper: Keeper, inner_door: "_socket.socket", control: "_socket.socket") -> None:
        self._keeper = keeper
        self._door = inner_door
        self._control = control
        # {descriptor: caller}; the silent ones in the order in which they were put into the door.
        self._silent: dict[int, Caller] = {}
        self._callers: dict[int, Caller] = {}
        self._poll = select.poll()
        # The judge's pidfd.
        self._judge = -1
        self._shut: dict[str, Json] | None = None
        # Whether new connections are put into the door.
        self._offers = True
        self._ends = b""
        self._callers_max = CALLERS_MAX
        self._run_pid = os.getpid()
        # What `run` would do at its end, where it cannot: the launchers' folder to remove, the whole's invocation to
        # settle, the key to sign with.
        self.directory: str | None = None
        # The judge's end of the door, which we have as well.
        self.outer_door = -1
        self.whole = ""
        self.key: bytes | None = None

    def work(self) -> None:
        """Until `run` has said goodbye, or is gone."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass
        if soft >= 0:
            # Each has a socket and a file.
            self._callers_max = max(1, min(CALLERS_MAX, (soft - _DESCRIPTORS_KEPT) // 2))
        self._door.setblocking(False)
        self._door.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, DOOR_BUFFER_BYTES)
        self._door.shutdown(_socket.SHUT_RD)  # nothing is received through the door
        self._poll.register(self._control.fileno(), select.POLLIN)
        self._poll.register(self._door.fileno(), select.POLLOUT)
        while not self._ends:
            self._turn()
        self._drain()
        if self._ends == END:
            try:
                self._control.send(record.dumps(self.summary()).encode("ascii"), _socket.MSG_NOSIGNAL)
                self._ends = self._control.recv(_MESSAGE_BYTES)
            except OSError:
                self._ends = GONE
        if self._ends != BYE:
            self._do_without_run()

    def summary(self) -> dict[str, Json]:
        """What was seen, counted."""
        keeper = self._keeper
        own = resource.getrusage(resource.RUSAGE_SELF)
        refused: dict[str, Json] = {**keeper.refused}
        return {
            "started_count": keeper.started_count,
            "finished_count": keeper.finished_count,
            "discarded_count": keeper.discarded_count,
            "refused": refused,
            "door_shut": self._shut,
            "cpu_ns": round((own.ru_utime + own.ru_stime) * 1e9),
        }

    def _turn(self) -> None:
        """Wait for something to happen, and see to it."""
        paused = len(self._silent) >= SILENT_MAX
        for fd, what in self._poll.poll(_PAUSE_MS if paused else None):
            if fd == self._control.fileno():
                self._listen_to_run()
            elif fd == self._door.fileno():
                if what & ~select.POLLOUT:
                    self._note_that_it_is_shut()
                else:
                    self._fill_the_door()
            else:
                self._hear(fd)
        if paused:
            self._drop_the_silent()

    def _listen_to_run(self) -> None:
        try:
            message, carried, _, _ = self._control.recvmsg(_MESSAGE_BYTES, door.SPACE_OF_A_DESCRIPTOR)
        except OSError:
            message, carried = GONE, []
        if message == JUDGE:
            for _, _, data in carried:
                self._judge = int.from_bytes(data[:4], "little")
        else:
            self._ends = message or GONE

    # The door.

    def _fill_the_door(self) -> None:
        """Put fresh connections into the door until it is full."""
        while len(self._silent) < SILENT_MAX:
            ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
            try:
                caller = Caller(ours, self._keeper, time.monotonic_ns())
                fd = theirs.fileno().to_bytes(4, "little")
                self._door.sendmsg([b"."], [(_socket.SOL_SOCKET, door.SCM_RIGHTS, fd)], _socket.MSG_NOSIGNAL)
            except BlockingIOError:
                ours.close()
                return
            except OSError:
                ours.close()
                self._note_that_it_is_shut()
                return
            finally:
                theirs.close()
            self._silent[ours.fileno()] = caller
            self._poll.register(ours.fileno(), select.POLLIN)
        self._poll.modify(self._door.fileno(), 0)  # until somebody speaks, or is dropped

    def _note_that_it_is_shut(self) -> None:
        """shutdown(2) by somebody inside: once the door is empty, no call can be measured any more."""
        self._shut = clocks()
        self._offer_no_more()

    def _look_at_the_other_end(self) -> None:
        """Whether the door hands nothing on any more (SO_PASSRIGHTS), which our own end shows only once it is empty."""
        try:
            outer = _socket.socket(fileno=os.dup(self.outer_door))
            try:
                hands_on = outer.getsockopt(_socket.SOL_SOCKET, door.SO_PASSRIGHTS)
            finally:
                outer.close()
        except OSError:  # an older kernel, where nobody can do that
            return
        if not hands_on and self._shut is None:
            self._note_that_it_is_shut()

    def _offer_no_more(self) -> None:
        if self._offers:
            self._offers = False
            self._poll.unregister(self._door.fileno())

    def _note_unspoken(self) -> None:
        """A connection was taken out of the door and ended without a word: its meter was killed, or never got it, since
        somebody read it away or had the kernel drop it (SO_PASSRIGHTS). A call may be missing, so it is told."""
        self._keeper.refuse("unspoken")
        if self._offers and self._keeper.refused["unspoken"] >= UNSPOKEN_MAX:
            self._note_that_it_is_shut()

    def _drop_the_silent(self) -> None:
        """Who took connections out of the door and says nothing must not keep others from having one.

        They are taken in the order in which they were put in, and few wait in the door when it asks for more: so the
        oldest are taken ones.
        """
        now = time.monotonic_ns()
        for fd, caller in list(self._silent.items())[:-SILENT_KEPT]:
            if now - caller.made_ns > SILENT_NS:
                self._keeper.refuse("silent")
                self._forget(fd)
                caller.close()

    # The callers.

    def _hear(self, fd: int) -> None:
        caller = self._silent.get(fd) or self._callers.get(fd)
        if caller is None:
            return
        if not caller.receive():
            self._forget(fd)
            if caller.peer is None:
                self._note_unspoken()
            return
        if caller.peer is not None and fd in self._silent:
            del self._silent[fd]
            self._callers[fd] = caller
            self._ask_for_room()
        if len(self._callers) > self._callers_max or self._held_bytes() > HELD_MAX_BYTES:
            caller.refuse(RefusedError("too_many", "too many calls at a time"))
            self._forget(fd)
            caller.close()

    def _held_bytes(self) -> int:
        return sum(caller.held_bytes for caller in self._callers.values())

    def _forget(self, fd: int) -> None:
        self._silent.pop(fd, None)
        self._callers.pop(fd, None)
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass
        self._ask_for_room()

    def _ask_for_room(self) -> None:
        if self._offers and len(self._silent) < SILENT_MAX:
            self._poll.modify(self._door.fileno(), select.POLLOUT)

    # The end.

    def _drain(self) -> None:
        """Whoever could still speak was killed: take what was said before, then close everything."""
        self._look_at_the_other_end()
        self._offer_no_more()
        self._poll.unregister(self._control.fileno())
        if self._ends != END:
            self._kill_what_is_left()
        until = time.monotonic_ns() + DRAIN_NS
        while time.monotonic_ns() < until:
            ready = self._poll.poll(0)
            if not ready:
                break
            for fd, _ in ready:
                self._hear(fd)
        for caller in (*self._silent.values(), *self._callers.values()):
            caller.close()

    def _kill_what_is_left(self) -> None:
        if self._judge >= 0:
            try:
                _signal.pidfd_send_signal(self._judge, SIGKILL)
            except OSError:
                pass
        around = self._keeper.around
        if around is not None:
            around.kill()
            around.wait_empty(KILL_NS)

    def _do_without_run(self) -> None:
        """`run` was killed: leave what it would have left, and say so."""
        keeper = self._keeper
        until = time.monotonic_ns() + DRAIN_NS
        while os.getppid() == self._run_pid and time.monotonic_ns() < until:
            time.sleep(_STEP_S)
        why = ["run was killed before the session's end"]
        try:
            self._settle()
        except Exception as error:
            why.append(record.escape_text(f"what was left could not be settled: {type(error).__name__}: {error}"[:500]))
        # Before anything is removed: whatever goes wrong there, the session is sealed.
        seal.write(keeper.folder, keeper.session, self.summary(), why, self.key)
        if self.directory is not None:
            run_folder.remove(self.directory)

    def _settle(self) -> None:
        """What the session used by its end, and its cgroups taken away."""
        keeper = self._keeper
        if keeper.around is not None:
            dirs = dict(keeper.around.dirs)
            whole.settle_calls(keeper.place, dirs, keeper.session)
            settle.settle(keeper.place, keeper.session, self.whole, dirs, "run")
            around = cgroup.Group("")
            around.dirs = dirs
            around.remove(whole=True)


def start(collector: Collector, kept: list[int], place: str) -> int:
    """Fork the collector; returns its pid. `kept` are the descriptors that it needs. Raises OSError."""
    pid = os.fork()
    if pid:
        return pid
    try:
        _settle_in(kept)
        collector.work()
        os._exit(0)
    except BaseException as error:
        what = record.escape_text(f"the collector failed: {type(error).__name__}: {error}"[:500])
        store.leave_mark(place, {"schema": SCHEMA, "event": "mark", "fault": what, "policy": "run", "clocks": clocks()})
    finally:
        os._exit(1)


def _settle_in(kept: list[int]) -> None:
    """Away from the caller's terminal and process group, and from everything that somebody may wait to see closed."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the listing's own
                continue
    procfs.write_file("/proc/self/comm", b"proofcost-keeps")
