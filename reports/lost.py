"""Verdicts that one side lost: the other came to one in every run, this one crashed or ran out of time or memory.

No cost can be compared there, and yet it is what a gate is for. Of two sides that both lose a verdict now and then, one
is called the loser only where it never came to any and the other mostly did.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

FINISHED = ("accepted", "rejected", "ran", "exit 0")
"""Ends of what did all of its work. To decline is an answer, but no work done."""

SPOKEN = ("accepted", "rejected", "declined")
"""What two sides can disagree in."""

NOT_ITS_OWN = ("terminated_by_caller", "unknown")
"""Ends that tell nothing of the command: somebody stopped it, or its end was never recorded."""


class Loss(Enum):
    """Who lost a verdict. Head's loss is a regression, base's an improvement."""

    HEAD = "lost"
    BASE = "gained"


def loss(base: Mapping[str, int], head: Mapping[str, int]) -> Loss | None:
    """Which side lost what the other has, from how often each ended how; None where neither did, or nobody can tell."""
    sides = [{end: count for end, count in side.items() if end not in NOT_ITS_OWN} for side in (base, head)]
    if not all(sides):
        return None
    runs = [sum(side.values()) for side in sides]
    solved = [sum(side.get(end, 0) for end in FINISHED) for side in sides]
    for mine, other, who in ((1, 0, Loss.HEAD), (0, 1, Loss.BASE)):
        always, never = solved[other] == runs[other], solved[mine] == 0
        if (always and solved[mine] < runs[mine]) or (never and 2 * solved[other] > runs[other]):
            return who
    return None


def disagree(base: Mapping[str, int], head: Mapping[str, int]) -> bool:
    """Whether head says of the proof what base never says."""
    said = [{end for end in side if end in SPOKEN} for side in (base, head)]
    return bool(said[0] and said[1] - said[0])


def ends_text(ends: Mapping[str, int]) -> str:
    """`12 accepted, 1 time_limit`."""
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items(), key=lambda item: (-item[1], item[0])))
