"""`campaign status`: a line a shard, from its records, its runner's note and lock, and the scheduler's word."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proofcost.bench_records import runs_of
from proofcost.bench_suites.cluster import done, lock, note, record_files, slurm
from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError, Shard
from proofcost.bench_suites.cluster.note import Note
from proofcost.bench_suites.cluster.options import DASK, SLURM
from proofcost.bench_suites.cluster.states import UNASKED, Said, State, state_of
from proofcost.bench_suites.expected import duration
from proofcost.harness import policy
from proofcost.reports.inert import inert_outside
from proofcost.reports.units import plural, when

COMPLETE, MISSING = 0, 1


@dataclass(frozen=True, slots=True)
class Row:
    """One shard. `turns_count`: those done; `damaged`: files that could not be read, of one that is missing."""

    number: int
    state: State
    turns_count: int
    runs_count: int
    note: Note | None
    said: Said
    damaged: tuple[str, ...] = ()


def status(folder: str, campaign: Campaign) -> int:
    """Print it. Returns 1 where something is for `resume` (or for a look), else 0."""
    said, unasked = ask(folder, campaign)
    tell_unasked(unasked)
    rows = look(folder, campaign, said)
    jobs = [f"{one.on} {one.job or ''}".strip() for one in campaign.submissions]
    print(
        f"campaign {campaign.id}: suite {inert_outside(campaign.suite, 80, True)}, plan {campaign.plan_sha256[:16]}, "
        f"made {when(campaign.made_ns)}; {', '.join(jobs) or 'not submitted'}"
    )
    width = len(f"{len(rows)}/{len(rows)}")
    most = max(len(str(one.turns_count)) for one in campaign.shards)
    for row in rows:
        of = campaign.shards[row.number - 1].turns_count
        done_text = f"{row.turns_count:>{most}} of {of:>{most}} turns"
        line = f"  shard {f'{row.number}/{len(rows)}':<{width}}  {row.state.value:<15}{done_text}  {_rest(row)}"
        print(line.rstrip())
    tell_damaged(rows)
    missing = [row.number for row in rows if row.state.is_missing]
    if missing:
        print(f"{plural(len(missing), 'shard')} to be resumed: proofcost campaign resume {shlex.quote(folder)}")
        return MISSING
    if all(row.state is State.DONE for row in rows):
        print(f"complete: proofcost campaign collect {shlex.quote(folder)}")
    return COMPLETE


def tell_damaged(rows: Iterable[Row]) -> None:
    """A line for each shard that has damaged files."""
    for row in rows:
        if row.damaged:
            print(inert_outside(f"shard {row.number}: {record_files.named(row.damaged)}", 4000, True))


def _rest(row: Row) -> str:
    """Where, since when, why."""
    told = []
    note, said = row.note, row.said
    if note is not None:
        told.append(inert_outside(note.node, 60, True))
    if row.state is State.RUNNING:
        told += [f"since {when(note.began_ns)}"] if note is not None and note.ended_ns is None else []
    elif row.state is State.WAITING:
        told += [said.why] if said.why else []
    elif row.state is State.DONE and note is not None and note.ended_ns is not None:
        told.append(f"ended {when(note.ended_ns)}, the last go took {duration(max(0, note.ended_ns - note.began_ns))}")
        told += [note.why] if note.why else []
    elif row.state is State.FAILED and note is not None:
        told.append(note.why or f"exit status {note.status}")
        told += [said.why] if said.final else []
    elif row.state is State.DAMAGED and note is not None:
        told.append(f"{note.runs_count} runs were done when it ended, records of {row.runs_count} are there")
    elif row.state is State.LOST:
        told += [f"began {when(note.began_ns)}" if note is not None else "it has never begun"]
        told += [said.why] if said.why else []
    return inert_outside("; ".join(told), 400, True)


def look(folder: str, campaign: Campaign, said: Mapping[int, Said]) -> list[Row]:
    """Every shard; `said`: what the scheduler says of them."""
    submitted = {number for one in campaign.submissions for number in one.shards}
    rows = []
    for number, shard in enumerate(campaign.shards, 1):
        held = lock.is_held(campaigns.told(folder, number, "lock"))
        there = note.read(folder, number)
        place = campaigns.shard_store(folder, number)
        turns = runs = 0
        damaged: list[str] = []
        if there is not None and not held and _is_as_left(there, shard, place):
            turns, runs = shard.turns_count, shard.runs_count
        elif os.path.isdir(place):
            of = done.of_shard(campaign, number, runs_of(place, damaged))
            turns, runs = of.turns_count, of.runs_count
        its = said.get(number, UNASKED)
        state = state_of(shard, runs, there, held, its, number in submitted)
        rows.append(Row(number, state, turns, runs, there, its, tuple(damaged) if state.is_missing else ()))
    return rows


def _is_as_left(note: Note, shard: Shard, place: str) -> bool:
    """Whether a runner has counted all of a shard as it ended, in the files that are there now."""
    return (note.runs_count or 0) >= shard.runs_count and note.files == record_files.digest(place)


def ask(folder: str, campaign: Campaign) -> tuple[Mapping[int, Said], str | None]:
    """({shard: what the scheduler says}, why it could not be asked). It is not, where all is done.

    To be called before the records are looked at: what ends in between is then done, and not lost.
    """
    notes = {number: note.read(folder, number) for number in range(1, len(campaign.shards) + 1)}
    if all(
        there is not None and _is_as_left(there, campaign.shards[number - 1], campaigns.shard_store(folder, number))
        for number, there in notes.items()
    ):
        return {}, None
    on = campaign.options.get("on")
    try:
        if on == SLURM:
            return slurm.look(campaign), None
        if on == DASK and campaign.submissions:
            from proofcost.bench_suites.cluster import dask_shards

            return dask_shards.look(str(campaign.options.get("scheduler")), campaign), None
    except (CampaignError, ModuleNotFoundError) as error:
        return {}, str(error)
    return {}, None


def tell_unasked(why: str | None) -> None:
    if why is not None:
        policy.say(f"campaign: {why}; what follows is told from the campaign's folder alone")
