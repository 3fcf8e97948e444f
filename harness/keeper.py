"""What the collector does with the events of one session: check, complete, write down, count. No sockets here.

Every event comes from a process of the judge's user, so from anybody who runs as that user: nothing in it is believed
that root can know better (who sent it, which host and cgroup), and nothing may cost more than its share of disk and
time. What is left is what a meter says it measured, or a forger says; the reader is told which process said so.
"""

import os
import re

from proofcost.harness import cgroup, hierarchy, procfs, record, store
from proofcost.harness.clock import clocks
from proofcost.harness.decode import LineError, check_encoding, json_object
from proofcost.harness.door import LINE_MAX_BYTES
from proofcost.harness.known_digests import KnownDigests
from proofcost.harness.plan import UNKNOWN
from proofcost.harness.record import Json
from proofcost.harness.user import User
from proofcost.harness.version import SCHEMA, VERSION

INVOCATIONS_MAX = 100_000
# Each keeps its cgroup to the end, where it is settled (0.5 ms) while the judge's caller waits.
UNFINISHED_MAX = 2048
BYTES_MAX = 1 << 30
_ANCESTORS_MAX = 64
_ID = re.compile(r"[0-9a-f]{1,16}-[0-9]{1,10}-[0-9a-f]{8}")
# What must be there, and of which kind, so that a reader finds its way; more is kept as it is.
_STARTED: dict[str, type] = {
    "session_known_by": str, "meter": dict, "phase": dict, "labels": dict, "ids": dict, "argv": dict, "sandbox": dict,
    "target": dict, "inputs": list, "limits": dict, "host": dict, "clocks": dict, "trust": str, "process": dict,
    "cgroup": dict,
}  # fmt: skip
_FINISHED: dict[str, type] = {
    "clocks": dict, "outcome": dict, "measurements": dict, "stragglers": dict, "filesystems": list,
    "exec_stamps": dict, "host_disturbance": dict, "meter_cost": dict, "faults": list,
}  # fmt: skip


class RefusedError(Exception):
    """What was sent is not kept. `why` is one of few words, which are counted."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text or why)
        self.why = why


class Peer:
    """The process that speaks on a connection, as the kernel names it."""

    __slots__ = ("gid", "inode", "pid", "ticks", "uid")

    def __init__(self, pid: int, uid: int, gid: int, inode: int) -> None:
        self.pid = pid
        self.uid = uid
        self.gid = gid
        # Of its pidfd: since Linux 6.9 one for each process that ever was.
        self.inode = inode
        self.ticks = procfs.start_ticks(pid)

    def is_same(self, pid: int, inode: int) -> bool:
        """Whether a later message comes from it, and not from another or from a later one with its number."""
        return pid == self.pid and inode == self.inode and procfs.start_ticks(pid) in (self.ticks, None)


class Kept:
    """One invocation that is being kept."""

    __slots__ = ("argv", "entrance", "group", "invocation", "is_finished", "sink")

    def __init__(self, invocation: str, sink: store.OwnFile, group: cgroup.Group | None) -> None:
        self.invocation = invocation
        self.sink = sink
        self.group = group
        self.is_finished = False
        self.entrance = UNKNOWN
        self.argv: dict[str, Json] = {}


class Keeper:
    """One session's records, and what became of everything that was sent."""

    __slots__ = (
        "around",
        "bytes_count",
        "discarded_count",
        "finished_count",
        "host",
        "known",
        "no_cgroup",
        "place",
        "refused",
        "run_pid",
        "session",
        "started_count",
        "user",
    )

    def __init__(self, place: str, session: str, user: User, host: Json) -> None:
        self.place = place
        self.session = session
        self.user = user
        self.host = host
        self.known = KnownDigests("")
        self.run_pid = os.getpid()
        # The session's cgroup S, or why there is none.
        self.around: cgroup.Group | None = None
        self.no_cgroup = "--cgroup off"
        self.bytes_count = 0
        self.started_count = 0
        self.finished_count = 0
        self.discarded_count = 0
        self.refused: dict[str, int] = {}

    @property
    def folder(self) -> str:
        return f"{self.place}/sessions/{self.session}"

    def open_cgroups(self) -> None:
        """Let the user's processes move from S/whole into their calls' cgroups; limits, kill and removal stay root's.

        On v2 that takes the right to write to the common ancestor's cgroup.procs, too.
        """
        unified = None if self.around is None else self.around.dirs.get(hierarchy.UNIFIED)
        if unified is not None:
            os.chown(unified + "/cgroup.procs", self.user.uid, self.user.gid)

    def read(self, line: bytes) -> dict[str, Json]:
        """The JSON object in a line, fit for a record. Raises RefusedError."""
        try:
            event: dict[str, Json] = json_object(line)
            check_encoding(event)
        except LineError as error:
            raise RefusedError("no_record", error.what) from None
        return event

    def _make_room(self, event: dict[str, Json]) -> None:
        """Take from the session's share what an event needs on the disk: `\\u00e9` is three times what was sent. Raises
        RefusedError where it is too much."""
        size = len(record.dumps(event)) + 1
        if size > LINE_MAX_BYTES:
            raise RefusedError("oversized", f"written down it has {size} bytes; an event may have {LINE_MAX_BYTES}")
        if self.bytes_count + size > BYTES_MAX:
            raise RefusedError("too_much", f"this session's records exceed {BYTES_MAX} bytes")
        self.bytes_count += size

    def started(self, event: dict[str, Json], peer: Peer) -> tuple[Kept, str]:
        """Keep a `started`; returns what to answer besides. Raises RefusedError, OSError."""
        learnt = event.pop("digests", None)
        invocation = self._check(event, "started", _STARTED)
        if self.started_count >= INVOCATIONS_MAX:
            raise RefusedError("too_many", f"this session has {INVOCATIONS_MAX} calls already")
        if self.started_count - self.finished_count - self.discarded_count >= UNFINISHED_MAX:
            raise RefusedError("too_many", f"this session has {UNFINISHED_MAX} calls without an end already")
        if os.path.lexists(f"{self.folder}/{invocation}.jsonl"):
            raise RefusedError("replayed", "an invocation of this id was kept before")
        group, why = self._make_cgroup(invocation)
        try:
            self._complete(event, peer, group, why)
            self._make_room(event)
            kept = Kept(invocation, store.OwnFile(f"{self.folder}/{invocation}.jsonl", store.room_for(event)), group)
            try:
                kept.sink.append(event)
            except BaseException:
                kept.sink.discard()
                raise
        except BaseException as error:
            if group is not None:
                group.remove()
            if isinstance(error, store.StoreError):
                raise RefusedError("no_room", str(error)) from None
            raise
        if isinstance(event["argv"], dict):
            kept.argv = event["argv"]
        self.started_count += 1
        self.known.take(learnt)
        names = "" if group is None else ",".join(group.dirs)
        return kept, f"{names} {why}".rstrip()

    def finished(self, kept: Kept, event: dict[str, Json]) -> None:
        """Keep a `finished`. Raises RefusedError, OSError."""
        if self._check(event, "finished", _FINISHED) != kept.invocation:
            raise RefusedError("not_its_own", "it names another invocation than `started` did")
        self._make_room(event)
        kept.sink.append(event)
        kept.is_finished = True
        self.finished_count += 1

    def close(self, kept: Kept) -> None:
        """After the last event: have it survive a loss of power, and take the cgroup away if nothing lives in it.

        Without `finished` the cgroup is all that knows what the call has used: `run` reads it at its end.
        """
        try:
            kept.sink.sync()
        finally:
            kept.sink.close()
            if kept.group is not None and kept.is_finished:
                kept.group.remove()

    def discard(self, kept: Kept) -> None:
        """Its meter gave up before the command started: a mark instead of half a record."""
        self.discarded_count += 1
        try:
            kept.sink.discard()
        finally:
            if kept.group is not None:
                kept.group.remove()
            mark = self._mark(kept)
            self._make_room(mark)
            store.leave_mark(self.place, mark)

    def refuse(self, why: str) -> None:
        """Count something that was not kept."""
        self.refused[why] = self.refused.get(why, 0) + 1

    def _mark(self, kept: Kept) -> dict[str, Json]:
        return {
            "schema": SCHEMA,
            "event": "mark",
            "fault": "a meter gave up before its command started (it says more in the system log or on stderr)",
            "policy": "run",
            "entrance": kept.entrance,
            "invocation": kept.invocation,
            "argv_sha256": kept.argv.get("sha256"),
            "argv_count": kept.argv.get("count"),
            "version": VERSION,
            "clocks": clocks(),
            "pid": os.getpid(),
        }

    def _check(self, event: dict[str, Json], name: str, shape: dict[str, type]) -> str:
        invocation = event.get("invocation")
        if event.get("event") != name or event.get("schema") != SCHEMA or isinstance(event.get("schema"), bool):
            raise RefusedError("out_of_order", f"not a `{name}` of schema {SCHEMA}, which is what comes next")
        if not isinstance(invocation, str) or not _ID.fullmatch(invocation):
            raise RefusedError("no_record", "its invocation is no id of ours")
        if event.get("session") != self.session:
            raise RefusedError("another_session", "it names another session")
        wrong = [key for key, kind in shape.items() if not isinstance(event.get(key), kind)]
        if wrong:
            raise RefusedError("no_record", f"missing or of the wrong kind: {', '.join(wrong)}")
        return invocation

    def _complete(self, event: dict[str, Json], peer: Peer, group: cgroup.Group | None, why: str) -> None:
        """Put in what root knows, whatever was sent."""
        process, meter, phase = event["process"], event["meter"], event["phase"]
        assert isinstance(process, dict)
        assert isinstance(meter, dict)
        assert isinstance(phase, dict)
        if meter.get("entrance") == "run":
            raise RefusedError("no_record", "only `run` itself records a judge")
        if phase.get("understood") == hierarchy.WHOLE:
            phase["understood"] = UNKNOWN
        ancestry, from_judge = ancestors(peer.pid, self.run_pid)
        process["collector"] = {
            "pid": peer.pid,
            "start_ticks": peer.ticks,
            "uid": peer.uid,
            "gid": peer.gid,
            "from_judge": from_judge,
            "ancestry": ancestry,
        }
        event["trust"] = "collected"
        event["labels"] = {}
        event["host"] = self.host
        event["cgroup"] = {
            "kind": "off" if group is None else group.kind,
            "paths": {} if group is None else {name: record.escape_text(at) for name, at in group.dirs.items()},
            "reason": why or None,
        }

    def _make_cgroup(self, invocation: str) -> tuple[cgroup.Group | None, str]:
        """S/<invocation>, whose entries are the user's; and why some or all of it is missing."""
        if self.around is None or not self.around.dirs:
            return None, self.no_cgroup
        group = cgroup.Group(self.around.kind)
        group.make(self.around.dirs, invocation)
        for name, directory in list(group.dirs.items()):
            entries = ("cgroup.procs",) if name == hierarchy.UNIFIED else ("cgroup.procs", "tasks")
            try:
                for entry in entries:
                    os.chown(f"{directory}/{entry}", self.user.uid, self.user.gid)
            except OSError as error:
                group.forget(name, f"cgroup {directory}: {os.strerror(error.errno or 0)}")
        return group, "; ".join(group.reasons.values())


def ancestors(pid: int, run: int) -> tuple[list[Json], bool]:
    """The processes above one, nearest first; and whether the last of them is a child of `run`: the judge."""
    above: list[Json] = []
    seen = procfs.parent_and_start(pid)
    while seen is not None and seen[0] > 0 and len(above) < _ANCESTORS_MAX:
        pid = seen[0]
        if pid == run:
            return above, True
        seen = procfs.parent_and_start(pid)
        if seen is not None:
            above.append({"pid": pid, "start_ticks": seen[1], "name": record.escape(procfs.name_of(pid) or b"")})
    return above, False
