"""The command's stdout on its way through us, where somebody asked for a copy of it. Opt-in: it costs, and shows.

A pipe of ours stands in the place of the caller's stdout (and of stderr, where both are one file: what was written to
the two keeps its order). A process of its own passes on what comes, by splice(2), so that no byte is copied, and gives
what a *tap* wants of it by tee(2). It is a process because the meter waits by signals, and because of what outlives the
command: whoever still holds the pipe then is served as long as it lives, as it would be without us, while the meter
leaves with the command's status.

The reader goes away: the pipe is closed at once, so the command dies of SIGPIPE (or sees EPIPE) as without us, but for
what it had written and we had not yet passed on (at most one pipe's capacity). Signals to the process group do not stop
the passing on; SIGKILL does, and a command killed with its meter leaves its pipe, so that it ends.
"""

import errno
import fcntl
import os
import select
import stat
import time

from proofcost.harness import libc, parse, record, signals
from proofcost.harness.record import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

STDOUT, STDERR = 1, 2
CHUNK_BYTES = 1 << 20
_PLAIN_BYTES = 1 << 16
# linux/fcntl.h
_SET_PIPE_SIZE, _GET_PIPE_SIZE = 1031, 1032
# How often a wait for the last bytes looks whether the caller wants us to end.
_LOOK_MS = 50

ENDED, OPEN, NO_READER, FAILED, UNKNOWN = "ended", "open", "no_reader", "failed", "unknown"


class Tap:
    """What is done with a copy of the stream, in the passing process. Nothing it does may raise."""

    active = True

    def take(self, data: bytes) -> None:
        """The next piece of the stream."""
        raise NotImplementedError

    def take_pipe(self, fd: int, count: int) -> None:
        """The next `count` bytes, waiting in a pipe."""
        while count > 0:
            data = os.read(fd, count)
            self.take(data)
            count -= len(data)

    def report(self) -> dict[str, Json]:
        """What the meter is to know. The stream goes on; no more will be taken."""
        raise NotImplementedError


class Relay:
    """The meter's side: `start` before the command, `given` once it has its end of the pipe, `collect` after it."""

    __slots__ = ("_control", "_report", "_write_end", "both", "outputs", "pid")

    def __init__(self) -> None:
        self.pid = 0
        # The descriptors of the command that are ours instead: its number -> the one to put there.
        self.outputs: dict[int, int] = {}
        self.both = False
        self._write_end = self._control = self._report = -1

    def start(self, tap: Tap) -> None:
        """Make the pipe and the process that passes on. Raises OSError."""
        self.both = are_one(STDOUT, STDERR)
        size = _pipe_size(STDOUT)
        source, self._write_end = os.pipe2(os.O_CLOEXEC)
        control, self._control = os.pipe2(os.O_CLOEXEC)
        self._report, report = os.pipe2(os.O_CLOEXEC)
        copy = os.pipe2(os.O_CLOEXEC)
        if size is not None:
            for end in (source, copy[0]):
                try:
                    fcntl.fcntl(end, _SET_PIPE_SIZE, size)
                except OSError:
                    pass  # beyond what an unprivileged user may have in all: ours stays at the usual size
        self.pid = os.fork() or _Passing(source, control, report, copy, tap).run()
        for end in (source, control, report, *copy):
            os.close(end)
        self.outputs = {STDOUT: self._write_end, **({STDERR: self._write_end} if self.both else {})}

    def given(self) -> None:
        """The command has its end: ours is closed, or the stream would never end."""
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1

    def collect(self, stop: "Callable[[], bool]") -> dict[str, Json] | None:
        """The command has ended: wait until all that it wrote was passed on, or `stop` says so; then the report.

        None when there is none: the process was killed, or `stop` ended the wait.
        """
        self.given()
        os.close(self._control)
        self._control = -1
        said = bytearray()
        look = select.poll()
        look.register(self._report, select.POLLIN)
        try:
            while not stop():
                if look.poll(_LOOK_MS):
                    part = os.read(self._report, 65536)
                    if not part:
                        break
                    said += part
        finally:
            os.close(self._report)
            self._report = -1
        os.waitpid(self.pid, os.WNOHANG)
        try:
            found = parse.loads(bytes(said))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def as_json(self, report: dict[str, Json] | None) -> dict[str, Json]:
        """The record's `relay`: what passed, and what passing it on cost besides the command's waiting for it."""
        told = report or {}
        return {
            "streams": ["stdout", "stderr"] if self.both else ["stdout"],
            "state": told.get("state", UNKNOWN),
            "passed_bytes": told.get("passed_bytes"),
            "cpu_ns": told.get("cpu_ns"),
            "errno": told.get("errno"),
        }

    def abandon(self) -> None:
        """There is no command after all: the stream ends, and with it the process. Raises OSError."""
        for end in (self._write_end, self._control, self._report):
            if end >= 0:
                os.close(end)
        self._write_end = self._control = self._report = -1
        if self.pid:
            os.waitpid(self.pid, 0)
            self.pid = 0


def asked_to_end() -> bool:
    """Whether a signal came that wants the command to end: it has, and so must we."""
    taken = signals.take(0)
    return taken is not None and taken.number in signals.ENDING


def is_open(fd: int) -> bool:
    """Whether the command will have this descriptor; one that our caller had closed has a placeholder of ours."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def are_one(one: int, other: int) -> bool:
    """Whether what is written to both comes out in one place, so that its order matters."""
    if not is_open(one) or not is_open(other):
        return False
    first, second = os.fstat(one), os.fstat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _pipe_size(fd: int) -> int | None:
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return None
    try:
        return fcntl.fcntl(fd, _GET_PIPE_SIZE)
    except OSError:
        return None


class _Passing:
    """The process that passes on."""

    __slots__ = ("_control", "_copy", "_errno", "_passed", "_plain", "_report", "_source", "_tap", "_teeing")

    def __init__(self, source: int, control: int, report: int, copy: tuple[int, int], tap: Tap) -> None:
        self._source = source
        self._control = control
        self._report = report
        self._copy = copy
        self._tap = tap
        self._passed = 0
        self._plain = False  # the sink takes no splice (a file opened for appending, some devices)
        self._teeing = True
        self._errno: int | None = None

    def run(self) -> "NoReturn":
        """Never returns, and nothing that is raised in it reaches the meter's code."""
        try:
            state = FAILED
            try:
                self._keep_only_ours()
                state = self._loop()
            except BaseException as error:  # noqa: BLE001  # this process has nobody to tell but the meter
                self._errno = error.errno if isinstance(error, OSError) else errno.EINVAL
            os.close(self._source)  # before all else: who still writes must hear of it
            self._say(state)
        finally:
            os._exit(0)

    def _keep_only_ours(self) -> None:
        """What outlives the command keeps us; what it closed must not stay open because of us."""
        files = [fd for fd in (getattr(self._tap, "fd", -1),) if fd >= 0]
        ours = {STDOUT, self._source, self._control, self._report, *self._copy, *files}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in ours:
                try:
                    os.close(int(name))
                except OSError:
                    continue  # that of the listing itself

    def _loop(self) -> str:
        look = select.poll()
        look.register(self._source, select.POLLIN)
        look.register(STDOUT, 0)  # errors alone: the last reader went away
        look.register(self._control, 0)
        command_ended = said = False
        while True:
            events = dict(look.poll(0 if command_ended and not said else None))
            if events.get(STDOUT, 0) & select.POLLERR:
                return NO_READER
            if self._control in events:
                look.unregister(self._control)
                command_ended = True
            if self._source in events:
                try:
                    if not self._move():
                        return ENDED
                except OSError as error:
                    self._errno = error.errno
                    return NO_READER if error.errno == errno.EPIPE else FAILED
            elif command_ended and not said:
                self._say(OPEN)  # all that the command wrote is out; something else still holds its end
                said = True

    def _move(self) -> int:
        """Pass on what is there. Returns how much that was, 0 at the end. Raises OSError when the sink fails."""
        if not self._tap.active:
            return self._out(CHUNK_BYTES)
        if self._teeing:
            try:
                count = libc.tee(self._source, self._copy[1], CHUNK_BYTES)
            except OSError:
                self._teeing = False
            else:
                rest = count
                while rest > 0:
                    rest -= self._out(rest)
                if count:
                    self._tap.take_pipe(self._copy[0], count)
                return count
        data = os.read(self._source, _PLAIN_BYTES)
        self._write(data)
        self._tap.take(data)
        return len(data)

    def _out(self, count: int) -> int:
        """Move up to `count` bytes to the sink; 0 at the end."""
        if not self._plain:
            try:
                moved = os.splice(self._source, STDOUT, count)
                self._passed += moved
                return moved
            except BlockingIOError:
                self._wait_for_room()
                return self._out(count)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._plain = True
        data = os.read(self._source, min(count, _PLAIN_BYTES))
        self._write(data)
        return len(data)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                written = os.write(STDOUT, rest)
            except BlockingIOError:
                self._wait_for_room()
                continue
            self._passed += written
            rest = rest[written:]

    @staticmethod
    def _wait_for_room() -> None:
        look = select.poll()
        look.register(STDOUT, select.POLLOUT)
        look.poll()

    def _say(self, state: str) -> None:
        """Tell the meter, once; it may be gone."""
        report, self._report = self._report, -1
        if report < 0:
            return
        said: dict[str, Json] = {
            "state": state,
            "errno": self._errno,
            "passed_bytes": self._passed,
            "cpu_ns": time.process_time_ns(),
            "tap": self._tap.report(),
        }
        self._tap.active = False
        rest = record.dumps(said).encode("ascii")
        try:
            while rest:
                rest = rest[os.write(report, rest) :]
        except OSError:
            pass
        os.close(report)
