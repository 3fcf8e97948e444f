"""What earlier benches in the store tell of how long a plan's cells take."""

from __future__ import annotations

from collections.abc import Iterable

from proofcost.bench_suites import sessions
from proofcost.bench_suites.expected import Expected
from proofcost.bench_suites.series import Turn
from proofcost.harness.merged import Record, integer_at, text_at

SESSIONS_MOST = 10
RECORDS_MOST = 2000
"""Of the newest sessions; more would keep whoever waits for a plan waiting."""

Kernel = tuple[str | None, str | None, int | None, int | None]
"""Digests of program and settings, threads, how many at once."""


def known(place: str, turns: Iterable[Turn]) -> Expected:
    """Durations of runs with the same program, settings, threads and number at once, whatever their names.

    Those of a plan's export are of its cell; those of others tell what their kernel takes for a byte.
    """
    wanted: dict[Kernel, dict[str | None, dict[str, Turn]]] = {}
    for turn in turns:
        settings = turn.kernel.settings_sha256(turn.threads)
        kernel = (turn.kernel.builds[turn.build].sha256, settings, turn.threads, turn.co_running)
        # By the name as well: an A/A has one kernel under two.
        wanted.setdefault(kernel, {}).setdefault(turn.work.sha256, {})[f"{turn.cell}"] = turn
    found = Expected()
    looked_at = 0
    for at, session in enumerate(sessions.benches(place)):
        if at == SESSIONS_MOST or looked_at > RECORDS_MOST:
            break
        records = sessions.records_of(place, session.session)
        looked_at += len(records)
        for record in records:
            works = wanted.get(_kernel(record))
            took = _took_ns(record)
            if works is not None and took is not None and sessions.is_done(record):
                _add(found, works, record, took)
    return found


def _add(found: Expected, works: dict[str | None, dict[str, Turn]], record: Record, took_ns: int) -> None:
    sha256 = text_at(record.started, "bench", "workload", "sha256")
    if sha256 is not None and sha256 in works:
        for turn in works[sha256].values():
            found.add(turn, took_ns)
        return
    size = integer_at(record.started, "bench", "workload", "size_bytes")
    if sha256 is not None and size is not None:
        by_kernel = {turn.kernel.name: turn for turns in works.values() for turn in turns.values()}
        for turn in by_kernel.values():
            found.add_elsewhere(turn, sha256, size, took_ns)


def _kernel(record: Record) -> Kernel:
    return (
        text_at(record.started, "target", "sha256"),
        text_at(record.started, "bench", "settings_sha256"),
        integer_at(record.started, "kernel", "threads_count"),
        integer_at(record.started, "bench", "co_running", "count"),
    )


def _took_ns(record: Record) -> int | None:
    """The command, its sandbox, and the meter around it."""
    wall = record.measurement("wall_command")
    costs = [integer_at(record.finished, "meter_cost", name) or 0 for name in ("before_ns", "after_ns")]
    return None if wall is None or wall.value is None else wall.value + sum(costs)
