"""The costs that are compared, and what must not differ where they are."""

from __future__ import annotations

from dataclasses import dataclass

from proofcost.reports.statistics.verdict import DELTA_INSTRUCTIONS, DELTA_WALL


@dataclass(frozen=True, slots=True)
class Metric:
    """A cost that is compared. The first metric that a case has on both sides leads.

    Of one `group` a case is compared in one metric, the first that both sides have: a program's own wall is never held
    against that of a whole command, nor a sampled peak against a counted one.
    """

    name: str
    column: str
    unit: str
    delta: float
    group: str
    statuses: tuple[str, ...] = ("measured", "derived")
    """What its figures may be; a mere bound is no figure to compare."""
    counted: bool = False
    """A deterministic count: judged by its own rule, without a p-value."""


METRICS = (
    Metric("instructions", "instructions_u", "count", DELTA_INSTRUCTIONS, "instructions"),
    Metric("instructions (user and kernel)", "instructions", "count", DELTA_INSTRUCTIONS, "instructions"),
    Metric("instructions (callgrind)", "instructions_callgrind", "count", 0.001, "callgrind", counted=True),
    Metric("wall", "wall_program", "ns", DELTA_WALL, "wall"),
    Metric("wall of the command", "wall_command", "ns", DELTA_WALL, "wall"),
    Metric("CPU", "cpu_tree", "ns", DELTA_WALL, "CPU"),
    Metric("CPU waited for", "cpu_waited", "ns", DELTA_WALL, "CPU"),
    Metric("memory", "memory_peak_tree", "bytes", DELTA_WALL, "memory"),
    Metric("memory (sampled)", "memory_peak_tree", "bytes", DELTA_WALL, "memory", statuses=("sampled",)),
    Metric("memory of a process", "memory_peak_process", "bytes", DELTA_WALL, "memory"),
)

GUARDED = (
    "host_class",
    "threads",
    "sandbox",
    "counters",
    "metric_definitions",
    "config_sha256",
    "input_sha256",
    "source",
)
"""Must be one and the same within a case, on both sides: figures that differ in one of these are not alike."""

POOLED = (*GUARDED, "kernel_sha256", "phase", "cache")
"""What people may have put together though it differs. Not every report guards all of them."""
