"""From a timeline's running totals to what people look at: how much at a time, over each stretch between two looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from proofcost.harness.timeline import Totals
from proofcost.reports.course import Passage

Series = list[tuple[int, float]]
"""(since when, value), by time; a value holds until the next."""

SHORTEST_NS = 1_000_000
"""A stretch below this is no sample of a rate: a clock tick of CPU in it would be many cores."""


def rate(totals: Iterable[tuple[int, int | None]], scale: float = 1.0) -> Series:
    """Growth of a running total per ns of each stretch, times `scale`. A total that is missing or falls has none."""
    known = [(at, total) for at, total in totals if total is not None]
    made: Series = []
    for (at, total), (later, after) in pairwise(known):
        if later - at >= SHORTEST_NS and after >= total:
            made.append((at, (after - total) * scale / (later - at)))
    return made


def cores(passage: Passage) -> Series:
    """CPUs in use by the call's tree: from its start over every sample to its exit; empty where CPU was not sampled."""
    timeline = passage.timeline
    if timeline is None or all(sample.cpu_ns is None for sample in timeline.samples):
        return []
    totals: list[tuple[int, int | None]] = [(passage.begin_ns, 0)]
    totals += [(sample.at_ns, sample.cpu_ns) for sample in timeline.samples]
    tree = passage.record.measurement("cpu_tree")
    if passage.ended and tree is not None and tree.status == "measured":
        totals.append((passage.end_ns, tree.value))
    return rate(totals)


def host(totals: Sequence[Totals], name: str) -> Series:
    """Of the host: `busy` and `steal` in CPUs, pressure as a share of time (1 is all of it), swap in bytes a second."""
    scale = 1e9 if name.startswith("swap") else 1.0
    return rate(((one.at_ns, one.values.get(name)) for one in totals), scale)
