"""The command's stdout on its way through us, where somebody asked for a copy of it. Opt-in: it costs, and shows.

A pipe of ours stands in the place of the caller's stdout (and of stderr, where both are one file: what was written to
the two keeps its order). A process of its own passes on what comes, by splice(2), so that no byte is copied, and gives
what a *tap* wants of it by tee(2). It is a process because the meter waits by signals, and because of what outlives the
command: whoever still holds the pipe then is served as long as it lives, as it would be without us, while the meter
leaves with the command's status.

The reader goes away: the pipe is closed at once, so the command dies of SIGPIPE (or sees EPIPE) as without us, but for
what it had written and we had not yet passed on (at most one pipe's capacity). Signals to the process group do not stop
the passing on; SIGKILL does, and a command killed with its meter leaves its pipe, so that it ends.

The command has ended: the meter still waits until its reader has taken what was in our pipe then, as the command itself
would have waited; but not for a reader that takes nothing for PATIENCE_MS. That may be one who waits for us to end,
while something that outlived the command keeps both pipes full. Then the tap gets what is left in our pipe, the meter
its report, and the reader all of it whenever it reads. So no write of ours may wait.
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
# linux/splice.h
_SPLICE_NONBLOCK = 2
# What a pipe or a socket that polls as writable takes without a wait (PIPE_BUF).
_SURE_BYTES = 4096
# How often a wait for the last bytes looks whether the caller wants us to end.
_LOOK_MS = 50
# How long the meter waits, after the command's end, for a reader that takes nothing.
PATIENCE_MS = 1000

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
    """The process that passes on. What it holds, in order: `_held`, then what waits in the pipe `_source`. Of these the
    tap has had the first `_tapped` bytes; of the first `_owed` some may be the command's, once it has ended."""

    __slots__ = (
        "_control", "_copy", "_errno", "_held", "_look", "_owed", "_passed", "_plain", "_report", "_room", "_sink",
        "_sink_kind", "_source", "_tap", "_tapped", "_teeing",
    )  # fmt: skip

    def __init__(self, source: int, control: int, report: int, copy: tuple[int, int], tap: Tap) -> None:
        self._source = source
        self._control = control
        self._report = report
        self._copy = copy
        self._tap = tap
        self._passed = 0
        self._plain = False  # the sink takes no splice that does not wait, or none (a file opened for appending)
        self._teeing = True
        self._errno: int | None = None
        self._held = memoryview(b"")
        self._tapped = 0
        self._owed: int | None = None
        self._sink, self._sink_kind = STDOUT, 0
        self._look, self._room = select.poll(), select.poll()

    def run(self) -> "NoReturn":
        """Never returns, and nothing that is raised in it reaches the meter's code."""
        try:
            state = FAILED
            try:
                self._keep_only_ours()
                self._open_sink()
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

    def _open_sink(self) -> None:
        self._sink_kind = stat.S_IFMT(os.fstat(STDOUT).st_mode)
        self._plain = self._sink_kind == stat.S_IFSOCK
        if os.isatty(STDOUT):
            self._plain = True
            try:  # what polls as writable may take a single byte; the caller's own descriptor must stay one that waits
                self._sink = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            except OSError:
                pass

    def _loop(self) -> str:
        self._look.register(self._source, select.POLLIN)
        self._look.register(STDOUT, 0)  # errors alone: the last reader went away
        self._look.register(self._control, 0)
        self._room.register(STDOUT, select.POLLOUT)
        self._room.register(self._control, 0)
        while True:
            held = bool(self._held or self._tapped)
            events = dict(self._look.poll(0 if held or self._meter_waits() else None))
            if events.get(STDOUT, 0) & select.POLLERR:
                return NO_READER
            if self._control in events:
                self._command_ended()
            if held or self._source in events:
                try:
                    if not self._move():
                        return ENDED
                except OSError as error:
                    self._errno = error.errno
                    return NO_READER if error.errno == errno.EPIPE else FAILED
                if self._meter_waits() and (self._owed or 0) <= 0 and self._rest() & select.POLLIN:
                    self._say(OPEN)  # who still writes may never stop
            elif self._meter_waits():
                self._say(OPEN)  # all that the command wrote is out; something else still holds its end

    def _command_ended(self) -> None:
        self._look.unregister(self._control)
        self._room.unregister(self._control)
        self._owed = len(self._held) + self._capacity()

    def _meter_waits(self) -> bool:
        return self._owed is not None and self._report >= 0

    def _capacity(self) -> int:
        return fcntl.fcntl(self._source, _GET_PIPE_SIZE)

    def _rest(self) -> int:
        """What our pipe has to say now: POLLIN for more, POLLHUP where nobody holds its other end."""
        look = select.poll()
        look.register(self._source, select.POLLIN)
        return dict(look.poll(0)).get(self._source, 0)

    def _move(self) -> int:
        """Pass on some of what is there. Returns how much that was, 0 at the end. Raises OSError: the sink failed."""
        if self._tap.active and not self._tapped:
            self._feed_tap()
            if not self._tapped:
                return 0
        count = self._tapped if self._tap.active else CHUNK_BYTES
        while True:
            try:
                moved = self._out(count)
            except BlockingIOError:
                self._wait_for_room()
            else:
                break
        self._passed += moved
        self._tapped = max(0, self._tapped - moved)
        if self._owed is not None:
            self._owed -= moved
        return moved

    def _feed_tap(self) -> None:
        """Give the tap what waits in the pipe; nothing at the end."""
        if self._teeing:
            try:
                self._tapped = libc.tee(self._source, self._copy[1], CHUNK_BYTES)
            except OSError:
                self._teeing = False
            else:
                if self._tapped:
                    self._tap.take_pipe(self._copy[0], self._tapped)
                return
        data = os.read(self._source, _PLAIN_BYTES)
        self._held, self._tapped = memoryview(data), len(data)
        self._tap.take(data)

    def _out(self, count: int) -> int:
        """Move up to `count` bytes to the sink; 0 at the end. Raises BlockingIOError when it takes nothing now."""
        if not self._held and not self._plain:
            try:
                return os.splice(self._source, STDOUT, count, flags=_SPLICE_NONBLOCK)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._plain = True
        if not self._held:
            self._held = memoryview(os.read(self._source, min(count, _PLAIN_BYTES)))
            if not self._held:
                return 0
        written = self._write(self._held[:count])
        self._held = self._held[written:]
        return written

    def _write(self, data: memoryview) -> int:
        if self._sink_kind == stat.S_IFSOCK and libc.AVAILABLE:
            return libc.send_at_once(STDOUT, bytes(data[:_PLAIN_BYTES]))
        if self._sink_kind != stat.S_IFREG:
            look = select.poll()
            look.register(STDOUT, select.POLLOUT)
            if not look.poll(0):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            data = data[:_SURE_BYTES]
        return os.write(self._sink, data)

    def _wait_for_room(self) -> None:
        """Until the sink takes something, or its reader is gone."""
        while True:
            waits = self._meter_waits()
            events = dict(self._room.poll(PATIENCE_MS if waits else None))
            if self._control in events:
                self._command_ended()
            elif events:
                return
            elif waits:
                self._part()

    def _part(self) -> None:
        """Nobody reads: tell the meter, whose tap gets all that the command can have written. We stay."""
        data = bytes(self._held)
        if self._rest() & select.POLLIN:
            data += os.read(self._source, self._capacity())
        if self._tap.active and len(data) > self._tapped:
            self._tap.take(data[self._tapped :])
        self._held, self._tapped = memoryview(data), 0
        self._say(ENDED if self._rest() & (select.POLLIN | select.POLLHUP) == select.POLLHUP else OPEN)

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
