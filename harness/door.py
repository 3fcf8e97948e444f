"""The door: how a meter in a judge that `run --as` started reaches the collector (collector.py), and what they say.

The door is one socket that the judge and everything it starts inherit, at a number that the launchers know. The
collector keeps some connections (socket pairs made by it) waiting in it; a meter takes one out, close-on-exec, and has
it for itself. So nothing is made inside (a seccomp filter may forbid that), and nothing is received from inside but
bytes. What a meter sends is one line an event, and each is answered before the meter goes on:

    {"event":"started",...}     ok started HIERARCHY,... [why some have no cgroup]
      (in it "digests":[["DEVICE INODE SIZE MTIME CTIME","SHA-256"],...], which the collector keeps for others, and not
      in the record: meters may only read where they stand)
    {"event":"finished",...}    ok finished
    {"event":"discard"}         no answer: nothing was measured after all
                                no EVENT WHY

Whoever runs as the judge's user may hold the door as well, and empty, fill or shut it: then a call is not measured.
That is why nothing here waits for more than WAIT_S, whatever somebody else does to the same sockets.
"""

import errno
import stat
import time

from proofcost.harness import lean_os as os  # the real one takes a millisecond of every call
from proofcost.harness import record
from proofcost.harness.record import Json
from proofcost.harness.store import Sink

WAIT_S = 2.0
LINE_MAX_BYTES = 1 << 20
_ANSWER_MAX_BYTES = 1 << 16
# What is tried first; where it is taken, the next free number is used.
USUAL_NUMBER = 198
# Tells a grader which descriptor to hand on.
VARIABLE = "PROOFCOST_FD"
# Not all of them have a name in Python 3.11 (include/uapi/asm-generic/socket.h, include/linux/socket.h).
SCM_RIGHTS, SCM_CREDENTIALS, SCM_PIDFD = 1, 2, 4
SO_PASSCRED, SO_PASSPIDFD, SO_PASSRIGHTS = 16, 76, 83
SPACE_OF_A_DESCRIPTOR, SPACE_OF_CREDENTIALS = 24, 32  # CMSG_SPACE(4), CMSG_SPACE(12) with 8-byte longs


class DoorError(OSError):
    """The collector cannot be reached, or would not keep what it was sent."""


class Door:
    """Descriptor number and inode of the door, and root's folder with digests of programs (empty: none)."""

    __slots__ = ("digests", "inode", "number")

    def __init__(self, number: int, inode: int, digests: str) -> None:
        self.number = number
        self.inode = inode
        self.digests = digests

    def is_open(self) -> bool:
        """Whether the descriptor of that number is the door, and not something of the judge's own."""
        try:
            seen = os.fstat(self.number)
        except OSError:
            return False
        return stat.S_ISSOCK(seen.st_mode) and seen.st_ino == self.inode

    def check(self) -> None:
        """Raises DoorError where the door did not reach us."""
        if not self.is_open():
            raise DoorError(
                errno.EBADF,
                f"the collector's descriptor {self.number} did not reach this call: hand it on "
                f"(pass_fds=[{self.number}], sudo -C {self.number + 1}; ${VARIABLE} names it)",
            )

    def hide(self) -> None:
        """What is executed from here on must not inherit the door."""
        if self.is_open():
            os.set_inheritable(self.number, False)


class Connection(Sink):
    """A connection of our own. Raises DoorError where none can be had in time."""

    __slots__ = ("_held", "_socket")

    def __init__(self, door: Door) -> None:
        import _socket

        door.check()
        shared = _socket.socket(-1, -1, -1, door.number)
        try:
            # Waits by poll, and is never caught in a call that somebody else's read made empty: hence DONTWAIT.
            shared.settimeout(WAIT_S)
            _, carried, _, _ = shared.recvmsg(
                16, SPACE_OF_A_DESCRIPTOR, _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC
            )
        except TimeoutError:
            raise DoorError(errno.ETIMEDOUT, f"the collector offered no connection within {WAIT_S:g} s") from None
        finally:
            shared.close()
        for level, kind, data in carried:
            if level == _socket.SOL_SOCKET and kind == SCM_RIGHTS and len(data) >= 4:
                self._socket = _socket.socket(-1, -1, -1, int.from_bytes(data[:4], "little"))
                self._socket.settimeout(WAIT_S)
                self._held = b""
                return
        raise DoorError(errno.ECONNREFUSED, "the collector is gone, or its door was shut from inside")

    def append(self, event: dict[str, Json]) -> None:
        """Have an event kept. Raises DoorError unless the collector says that it did."""
        self.ask(event)

    def ask(self, event: dict[str, Json]) -> str:
        """The same; returns what the collector said besides."""
        line = record.dumps(event).encode("ascii") + b"\n"
        if len(line) > LINE_MAX_BYTES:
            raise DoorError(errno.EMSGSIZE, f"{len(line)} bytes of record; the collector takes {LINE_MAX_BYTES}")
        name = str(event["event"])
        try:
            self._socket.sendall(line, _DONTWAIT | _NOSIGNAL)
            return self._answer(name)
        except TimeoutError:
            raise DoorError(errno.ETIMEDOUT, f"no answer from the collector within {WAIT_S:g} s") from None

    def _answer(self, name: str) -> str:
        """The answer to the event of this name; others may have come too late for somebody's patience."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            line, end, rest = self._held.partition(b"\n")
            if not end:
                more = self._socket.recv(4096, _DONTWAIT)
                if not more or len(self._held) > _ANSWER_MAX_BYTES:
                    raise DoorError(errno.ECONNRESET, "the collector ended the connection")
                self._held += more
                continue
            self._held = rest
            verdict, _, said = line.decode("ascii", "replace").partition(" ")
            about, _, said = said.partition(" ")
            if about == name:
                if verdict != "ok":
                    raise DoorError(errno.EPROTO, f"the collector would not keep it: {said}")
                return said
        raise TimeoutError

    def sync(self) -> None:
        """The collector does, after its answer."""

    def close(self) -> None:
        self._socket.close()

    def discard(self) -> None:
        """The collector takes back what it kept, and leaves a mark instead."""
        try:
            self._socket.setblocking(False)
            self._socket.sendall(b'{"event":"discard"}\n', _NOSIGNAL)
        finally:
            self._socket.close()


_DONTWAIT, _NOSIGNAL = 0x40, 0x4000
