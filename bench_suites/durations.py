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

Same = tuple[str | None, str | None, str | None, int | None, int | None]


def known(place: str, turns: Iterable[Turn]) -> Expected:
    """Durations of cells with the same program, settings, export, threads and number at once, whatever their names."""
    wanted: dict[Same, Turn] = {}
    for turn in turns:
        settings = turn.kernel.settings_sha256(turn.threads)
        sha256 = turn.kernel.builds[turn.build].sha256
        wanted[sha256, settings, turn.work.sha256, turn.threads, turn.co_running] = turn
    found = Expected()
    looked_at = 0
    for at, session in enumerate(sessions.benches(place)):
        if at == SESSIONS_MOST or looked_at > RECORDS_MOST:
            break
        records = sessions.records_of(place, session.session)
        looked_at += len(records)
        for record in records:
            turn_of = wanted.get(_same(record))
            took = _took_ns(record)
            if turn_of is not None and took is not None and sessions.is_done(record):
                found.add(turn_of, took)
    return found


def _same(record: Record) -> Same:
    return (
        text_at(record.started, "target", "sha256"),
        text_at(record.started, "bench", "settings_sha256"),
        text_at(record.started, "bench", "workload", "sha256"),
        integer_at(record.started, "kernel", "threads_count"),
        integer_at(record.started, "bench", "co_running", "count"),
    )


def _took_ns(record: Record) -> int | None:
    """The command, its sandbox, and the meter around it."""
    wall = record.measurement("wall_command")
    costs = [integer_at(record.finished, "meter_cost", name) or 0 for name in ("before_ns", "after_ns")]
    return None if wall is None or wall.value is None else wall.value + sum(costs)
