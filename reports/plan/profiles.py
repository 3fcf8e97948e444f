"""Memory over time of the verdicts that were seen, from the timelines that stand beside their records in a store."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from proofcost.harness.timeline import Timeline, TimelineError, read_timeline
from proofcost.reports.dataset import Data
from proofcost.reports.statistics.peak_of_sums import LEAST_RUNS
from proofcost.reports.statistics.sample import Floats

FILES_MOST = 500
"""Timelines that are read, the newest: 2 MB each at most."""
POINTS_MOST = 500
"""Of the longest profile."""
LEAST_INTERVAL_NS = 100_000_000
"""The meter looks ten times a second."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """At least 20 verdicts' memory, all at one interval."""

    interval_ns: int
    memory_bytes: tuple[Floats, ...]
    """Of each the largest in each interval from its start to its end, and its highest raised to its counted peak, which
    lies between two samples as a rule."""


def profiles(data: Data) -> Profiles | None:
    """Of the verdicts that `jobs.verdicts` found; None where fewer than 20 of them have a timeline that can be read."""
    query = """
        SELECT used.session, used.record, jobs.memory FROM plan_jobs AS jobs JOIN plan_used AS used ON used.record = job
        WHERE jobs.memory > 0 ORDER BY jobs.started_ns DESC, job"""
    seen: list[tuple[Timeline, float]] = []
    for session, record, peak in data.connection.execute(query).fetchall():
        for store in data.paths:
            path = os.path.join(store, "traces", str(session), f"{record}.ndjson.gz")
            if not os.path.isfile(path):
                continue
            try:
                timeline = read_timeline(path)
            except TimelineError:
                continue  # one run less; `show` tells what is wrong with it
            if any(one.memory_bytes is not None for one in timeline.samples):
                seen.append((timeline, float(peak)))
            break
        if len(seen) == FILES_MOST:
            break
    if len(seen) < LEAST_RUNS:
        return None
    longest = max(_end(timeline) - timeline.origin_ns for timeline, _ in seen)
    interval = max(LEAST_INTERVAL_NS, -(-longest // POINTS_MOST))
    return Profiles(interval, tuple(profile_of(timeline, peak, interval) for timeline, peak in seen))


def _end(timeline: Timeline) -> int:
    return max(timeline.samples[-1].at_ns, timeline.ended_ns or 0)


def profile_of(timeline: Timeline, peak_bytes: float, interval_ns: int) -> Floats:
    """The largest sample of each interval; where there is none, the one before (before the first: the first)."""
    known = [(one.at_ns, one.memory_bytes) for one in timeline.samples if one.memory_bytes is not None]
    count = (_end(timeline) - timeline.origin_ns) // interval_ns + 1
    made = np.full(count, -1.0)
    for at, memory in known:
        place = min(max(0, (at - timeline.origin_ns) // interval_ns), count - 1)
        made[place] = max(made[place], memory)
    made[0] = known[0][1] if made[0] < 0 else made[0]
    filled = np.maximum.accumulate(np.where(made < 0, 0, np.arange(count)))
    profile: Floats = made[filled]
    highest = int(profile.argmax())
    profile[highest] = max(profile[highest], peak_bytes)
    return profile
