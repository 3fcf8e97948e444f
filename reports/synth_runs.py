"""What turns come to: how each ends, and its figures, as a meter would have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofcost.reports import synth_truth as true
from proofcost.reports.statistics.sample import Floats, Ints
from proofcost.reports.synth_truth import Truth
from proofcost.reports.synth_turns import Turns

ENDS = ("accepted", "rejected", "declined", "time_limit", "memory_limit", "crashed")
"""As reports call them; an end here is a place in this."""
ACCEPTED, REJECTED, DECLINED, LATE, OVER, CRASHED = range(len(ENDS))
_STARTUP_NS = 30e6
"""Of a sandbox, in the middle."""
_LATE_NS = 4e6
"""How late a limit is kept, in the mean."""
_OF_WALL = 0.98
"""CPU time of a wall: one thread."""
_A_SECOND = 3e9
"""Instructions of a second on a host with factor 1."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Shape (n,) each."""

    end: Ints
    wall_command_ns: Ints
    startup_ns: Ints
    cpu_ns: Ints
    instructions: Ints
    memory_bytes: Ints


def runs_of(truth: Truth, day: int, host: int, turns: Turns, random: np.random.Generator) -> Runs:
    """Of a host's turns on a day."""
    n, submission, kernel = turns.count, turns.submission, turns.kernel
    noise = random.standard_normal((5, n))
    # At its own speed: what a host with factor 1 and no noise would take.
    own_s = truth.base_s[submission] * truth.kernel_costs(day)[kernel]
    declined = truth.to_decline[submission] & (kernel == truth.declining)
    own_s[declined] *= true.DECLINED_COSTS
    whole_ns = own_s * truth.host_cost(host, day) * np.exp(true.WALL_NOISE * noise[0]) * 1e9
    memory = truth.base_bytes[submission] * truth.memory_factors[kernel] * np.exp(true.MEMORY_NOISE * noise[1])
    end = np.where(declined, DECLINED, np.where(truth.to_reject[submission], REJECTED, ACCEPTED))
    chance, where = random.random((2, n))
    crashed = truth.to_crash[submission] & (kernel == truth.crashing) & (chance < true.CRASHES)
    share: Floats = np.where(crashed, 0.05 + 0.9 * where, 1.0)
    end[crashed] = CRASHED
    # Memory grows evenly: whoever needs more than the limit is killed where it would pass it.
    over = ~crashed & (memory > true.MEMORY_LIMIT_BYTES)
    share = np.where(over, true.MEMORY_LIMIT_BYTES / memory, share)
    end[over] = OVER
    startup = (_STARTUP_NS * np.exp(0.2 * noise[2])).astype(np.int64)
    wall = startup + np.maximum(1, (whole_ns * share).astype(np.int64))
    late = wall > true.TIME_LIMIT_NS
    end[late] = LATE
    share = np.where(late, (true.TIME_LIMIT_NS - startup) / whole_ns, share)
    wall = np.where(late, true.TIME_LIMIT_NS + (_LATE_NS * random.exponential(size=n)).astype(np.int64), wall)
    cpu = (wall - startup) * _OF_WALL * np.exp(true.CPU_NOISE * noise[3])
    instructions = own_s * _A_SECOND * share * np.exp(true.COUNT_NOISE * noise[4])
    peak = np.minimum(memory * share, true.MEMORY_LIMIT_BYTES)
    peak[over & ~late] = true.MEMORY_LIMIT_BYTES
    return Runs(
        end.astype(np.int64),
        wall.astype(np.int64),
        startup,
        cpu.astype(np.int64),
        np.maximum(1, instructions.astype(np.int64)),
        np.maximum(4096, peak.astype(np.int64)),
    )
