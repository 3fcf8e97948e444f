"""Contention as benches measured it: the same work so many times side by side, and the law fitted to it."""

from __future__ import annotations

from dataclasses import dataclass

from proofcost.harness.decode import LineError
from proofcost.harness.merged import Record
from proofcost.reports.contention import Load, loads
from proofcost.reports.dataset import Data
from proofcost.reports.fast_decode import decode
from proofcost.reports.statistics.contention import LEAST_LEVELS, Contention, fit_contention
from proofcost.reports.units import plural


@dataclass(frozen=True, slots=True)
class Trials:
    """One kernel on one workload."""

    kernel: str
    work: str
    loads: tuple[Load, ...]
    fit: Contention | None
    why_not: str | None
    host_class: str | None = None
    """Where; None where records do not tell."""


def trials(data: Data, host_class: str | None = None) -> tuple[Trials, ...]:
    """Of the benches among the records that `evidence.gather` looked at, if they ran anything side by side.
    `host_class`: only those on it."""
    made: list[Trials] = []
    for (_, where), records in _plans(data).items():
        if host_class is not None and where != host_class:
            continue
        by_work: dict[tuple[str, str], list[Load]] = {}
        for load in loads(records):
            by_work.setdefault((load.kernel, load.work), []).append(load)
        for (kernel, work), found in by_work.items():
            levels = {load.count: list(load.throughputs_per_s) for load in found if load.throughputs_per_s}
            if len({load.count for load in found}) < 2:
                continue
            fit = fit_contention(levels) if len(levels) >= LEAST_LEVELS else None
            why = None if fit else f"{plural(len(levels), 'number')} at once measured; {LEAST_LEVELS} are needed"
            loads_of = tuple(sorted(found, key=lambda load: load.count))
            made.append(Trials(kernel, work, loads_of, fit, why, where))
    return tuple(made)


def _plans(data: Data) -> dict[tuple[str, str | None], list[Record]]:
    """Records of each bench that ran something side by side, by host class."""
    query = "SELECT DISTINCT plan FROM plan_runs WHERE fate = 'side by side' AND plan IS NOT NULL"
    plans = tuple(str(plan) for (plan,) in data.connection.execute(query).fetchall())
    if not plans:
        return {}
    names = ("plan", "started_ns", "record", "host_class", "session", "phase", "kernel")
    condition = f"plan IN ({', '.join('?' * len(plans))}) AND events IS NOT NULL"
    rows = sorted(data.lines(names, condition, plans), key=lambda row: (row[0], row[1] is None, row[1] or 0, row[2]))
    made: dict[tuple[str, str | None], list[Record]] = {}
    for plan, _, invocation, where, session, phase, kernel, events in rows:
        kinds = {}
        try:
            for line in str(events).split("\n"):
                event = decode(line.encode())
                kinds[event["event"]] = event
        except LineError:
            continue
        if "started" in kinds:
            made.setdefault((plan, where), []).append(
                Record(
                    invocation=invocation,
                    session=session,
                    started=kinds["started"],
                    finished=kinds.get("finished"),
                    settled=kinds.get("settled"),
                    path="",
                    phase=phase or "unknown",
                    kernel=kernel,
                )
            )
    return made
