"""One connection of the collector: who speaks there, line by line, and the answers.

Nothing that the other side does may hold the collector up: no read or write waits, a line has a greatest length, and no
descriptor is ever taken from it (closing one may wait for a file system that the sender serves itself).
"""

import _socket
import os

from proofcost.harness import door, record
from proofcost.harness.keeper import Keeper, Kept, Peer, RefusedError

_DONTWAIT_QUIETLY = _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL
_READ_BYTES = 1 << 16
_SENT_BYTES_MIN = 4096  # nothing but answers goes that way


class Caller:
    """A connection, from the moment it was put into the door."""

    __slots__ = ("_anc_bytes", "_held", "_keeper", "_kept", "_over", "made_ns", "peer", "socket")

    def __init__(self, ours: "_socket.socket", keeper: Keeper, made_ns: int) -> None:
        ours.setsockopt(_socket.SOL_SOCKET, door.SO_PASSCRED, 1)
        # Exactly the room that the kernel's own words take: what else is sent along finds none and is dropped.
        self._anc_bytes = door.SPACE_OF_CREDENTIALS
        if _set(ours, door.SO_PASSPIDFD, 1):
            self._anc_bytes += door.SPACE_OF_A_DESCRIPTOR
        _set(ours, door.SO_PASSRIGHTS, 0)
        self.socket = ours
        self.made_ns = made_ns
        self.peer: Peer | None = None
        self._keeper = keeper
        self._held = bytearray()
        self._kept: Kept | None = None
        self._over = False

    @property
    def held_bytes(self) -> int:
        """How much of an unfinished line is held."""
        return len(self._held)

    def receive(self) -> bool:
        """Take what came, once. False when the connection is over and was closed."""
        try:
            data, carried, _, _ = self.socket.recvmsg(
                _READ_BYTES, self._anc_bytes, _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return True
        except OSError:
            data, carried = b"", []
        pid, uid, gid, inode = _credentials(carried)
        if not data:
            self.close()
            return False
        try:
            if self._is_from_peer(pid, uid, gid, inode):
                self._held += data
                self._take_lines()
        except RefusedError as refused:
            self.refuse(refused)
        except (OSError, ValueError, AssertionError, MemoryError, RecursionError) as error:
            self.refuse(RefusedError("failed", f"{type(error).__name__}: {error}"))
        if self._over:
            self.close()
        return not self._over

    def _is_from_peer(self, pid: int, uid: int, gid: int, inode: int) -> bool:
        if self.peer is None:
            if pid <= 0:
                raise RefusedError("unknown_process", "the kernel does not say who sent it")
            self.peer = Peer(pid, uid, gid, inode)
            if self.peer.ticks is None:
                raise RefusedError("unknown_process", "who sent it is gone")
        elif not self.peer.is_same(pid, inode):
            # Somebody else got hold of this connection; whose it is may go on.
            self._keeper.refuse("another_process")
            return False
        return True

    def _take_lines(self) -> None:
        while not self._over:
            end = self._held.find(b"\n")
            if end < 0:
                if len(self._held) > door.LINE_MAX_BYTES:
                    raise RefusedError("oversized", f"a line of more than {door.LINE_MAX_BYTES} bytes")
                return
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            if len(line) > door.LINE_MAX_BYTES:
                raise RefusedError("oversized", f"a line of more than {door.LINE_MAX_BYTES} bytes")
            self._take(line)

    def _take(self, line: bytes) -> None:
        keeper, peer = self._keeper, self.peer
        assert peer is not None
        event = keeper.read(line)
        if self._kept is None:
            self._kept, said = keeper.started(event, peer)
            self._answer(f"ok started {said}")
            return
        if event.get("event") == "discard":
            kept, self._kept, self._over = self._kept, None, True
            keeper.discard(kept)
            return
        keeper.finished(self._kept, event)
        self._over = True
        self._answer("ok finished")

    def refuse(self, refused: RefusedError) -> None:
        """Say why, and have nothing more to do with it."""
        self._keeper.refuse(refused.why)
        self._over = True
        about = "started" if self._kept is None else "finished"
        self._answer(f"no {about} {record.escape_text(str(refused)[:300])}")

    def _answer(self, text: str) -> None:
        """Who does not read its answers has none to come: there are few, and they are short."""
        try:
            self.socket.send(text.encode("ascii", "replace") + b"\n", _DONTWAIT_QUIETLY)
        except OSError:
            self._over = True

    def close(self) -> None:
        """End the connection; what was kept of its invocation stays."""
        self.socket.close()
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                self._keeper.close(kept)
            except OSError:
                self._keeper.refuse("not_flushed")


def _set(sock: "_socket.socket", option: int, value: int) -> bool:
    try:
        sock.setsockopt(_socket.SOL_SOCKET, option, value)
    except OSError:  # an older kernel
        return False
    return True


def _credentials(carried: "list[tuple[int, int, bytes]]") -> tuple[int, int, int, int]:
    """(pid, uid, gid, inode of its pidfd; 0 for what the kernel does not say). Closes the pidfd."""
    pid = uid = gid = inode = 0
    for level, kind, data in carried:
        if level != _socket.SOL_SOCKET:
            continue
        if kind == door.SCM_CREDENTIALS and len(data) >= 12:
            pid, uid, gid = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8))
        elif kind == door.SCM_PIDFD and len(data) >= 4:
            pidfd = int.from_bytes(data[:4], "little", signed=True)
            if pidfd >= 0:
                inode = os.fstat(pidfd).st_ino
                os.close(pidfd)
    return pid, uid, gid, inode
