"""How a shard stands: from its records, its runner's note and lock, and what the scheduler says."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from proofcost.bench_suites.cluster.folder import Shard
from proofcost.bench_suites.cluster.note import Note


class Seen(enum.Enum):
    """What a scheduler says of a shard."""

    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"
    """It was not asked, or did not answer."""


class State(enum.Enum):
    """How a shard stands."""

    DONE = "done"
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"
    """Its runner ended, and told why."""
    DAMAGED = "damaged"
    """Its runner ended with all of it done, and not all of its records are there any more."""
    LOST = "never returned"
    """Nobody works on it, nobody will, and no runner told that it ended."""
    READY = "not submitted"

    @property
    def is_missing(self) -> bool:
        """Whether it is for `resume`."""
        return self in (State.FAILED, State.DAMAGED, State.LOST, State.READY)


@dataclass(frozen=True, slots=True)
class Said:
    """`why`: the scheduler's own word (its state, its reason for waiting); `node`: where it runs."""

    seen: Seen
    why: str = ""
    node: str | None = None
    final: bool = False
    """Whether `why` tells how it ended: a time limit, a node that broke, somebody who cancelled it."""


UNASKED = Said(Seen.UNKNOWN)


def state_of(shard: Shard, runs_count: int, note: Note | None, held: bool, said: Said, submitted: bool) -> State:
    """`runs_count`: of its runs, those that are done; `held`: whether a runner holds its lock."""
    if held:
        return State.RUNNING
    if runs_count >= shard.runs_count:
        return State.DONE
    if said.seen is Seen.RUNNING:
        return State.RUNNING
    if said.seen is Seen.WAITING:
        return State.WAITING
    if note is not None:
        if note.ended_ns is None:
            return State.LOST
        return State.DAMAGED if (note.runs_count or 0) >= shard.runs_count else State.FAILED
    if not submitted:
        return State.READY
    return State.WAITING if said.seen is Seen.UNKNOWN else State.LOST
