"""`campaign collect`: every shard's records, checked, as one data set of Parquet files in FOLDER/collected.

Only what counts goes there: of each turn its last record with an end of its own, of whole blocks. What was interrupted
or run again stays in the shards' stores.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proofcost.bench_records import runs_of
from proofcost.bench_suites.cluster import done, lock, record_files
from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.expected import duration
from proofcost.bench_suites.homes import Run
from proofcost.campaign_resume import held
from proofcost.extras import need
from proofcost.reports.units import plural, when

FILE = "collected.json"
COMPLETE, REFUSED = 0, 1


@dataclass(slots=True)
class Collected:
    """What FOLDER/collected/collected.json says of the data set beside it."""

    campaign: str
    suite: str
    plan_sha256: str
    collected_ns: int
    shards_count: int
    records_count: int = 0
    left_out_count: int = 0
    """Records of turns that were interrupted or run again."""
    partial: bool = False
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(folder: str, partial: bool) -> int:
    """Returns 0; 1 where a shard is missing and `partial` was not asked for. Raises CampaignError."""
    need("reports", "pyarrow", "duckdb", "orjson")
    with held(folder):
        campaign = campaigns.read(folder)
        _check_own(folder)
        made = Collected(campaign.id, campaign.suite, campaign.plan_sha256, time.time_ns(), len(campaign.shards))
        chosen, seen = _chosen(folder, campaign, made)
        made.partial = bool(made.missing)
        for line in made.missing:
            print(line)
        if made.missing and not partial:
            print(
                f"not collected: {plural(len(made.missing), 'shard')} of {len(campaign.shards)} missing; "
                f"proofcost campaign resume {shlex.quote(folder)}, or collect --partial"
            )
            return REFUSED
        made.notes += skewed(campaign, seen, made.collected_ns)
        made.notes += _classes(seen)
        _put(folder, chosen, made)
        for line in made.notes:
            print(line)
        where = campaigns.collected(folder)
        what = f"PARTIAL, {len(made.missing)} of {len(campaign.shards)} shards missing: " if made.partial else ""
        print(
            f"{what}{plural(made.records_count, 'record')} in {where}; {made.left_out_count} of turns that were "
            f"interrupted or run again left out; proofcost report kernels {shlex.quote(where)}"
        )
        return COMPLETE


def _check_own(folder: str) -> None:
    """Raises CampaignError where something of somebody else's stands where the data set belongs."""
    where = campaigns.collected(folder)
    for path, ours in (
        (where, f"{where}/{FILE}"),
        (f"{where}.new", f"{where}.new"),
        (f"{where}.old", f"{where}.old"),
    ):
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path) or not os.path.lexists(ours)):
            raise CampaignError(f"{path}: no folder that collect made; move it away")


def _chosen(folder: str, campaign: Campaign, made: Collected) -> tuple[dict[int, set[str]], dict[int, list[Run]]]:
    """({shard: ids of its records that count}, {shard: those runs}); fills in what is missing."""
    chosen: dict[int, set[str]] = {}
    seen: dict[int, list[Run]] = {}
    turns: dict[int, int] = {}
    for number, shard in enumerate(campaign.shards, 1):
        place = campaigns.shard_store(folder, number)
        damaged: list[str] = []
        of = done.of_shard(campaign, number, runs_of(place, damaged) if os.path.isdir(place) else ())
        if of.foreign is not None:
            raise CampaignError(f"{place}: {of.foreign}; move what does not belong there away")
        for turn, _ in of.counted:
            if turns.setdefault(turn, number) != number:
                raise CampaignError(f"turn {turn} stands in shards {turns[turn]} and {number}; one of them is a copy")
        if of.runs_count < shard.runs_count:
            name = f"shard {number}/{len(campaign.shards)}"
            if lock.is_held(campaigns.told(folder, number, "lock")):
                made.missing.append(f"{name}: still at work, {of.turns_count} of {shard.turns_count} turns done")
                continue
            torn = f", {plural(len(of.torn), 'block')} torn between hosts" if of.torn else ""
            named = f"; {record_files.named(damaged)}" if damaged else ""
            made.missing.append(f"{name}: {of.turns_count} of {shard.turns_count} turns done{torn}{named}")
        chosen[number] = {run.invocation for run in of.counted.values()}
        seen[number] = list(of.counted.values())
        made.left_out_count += of.all_count - len(chosen[number])
    return chosen, seen


def _put(folder: str, chosen: dict[int, set[str]], made: Collected) -> None:
    """Write the data set beside where it belongs, then move it there. The shards' stores stay as they are.

    It begins as a store of its own, with links to all files of the shards' sessions: what is derived of a record needs
    those beside it, whether they count or not.
    """
    from proofcost.reports import compaction

    where = campaigns.collected(folder)
    new, old = f"{where}.new", f"{where}.old"
    try:
        shutil.rmtree(new, ignore_errors=True)
        os.makedirs(new, 0o700)
        for number in chosen:
            place = campaigns.shard_store(folder, number)
            for name in ("sessions", "parquet", "hosts"):  # parquet: of a store that was pruned
                if os.path.isdir(f"{place}/{name}"):
                    shutil.copytree(f"{place}/{name}", f"{new}/{name}", copy_function=_link, dirs_exist_ok=True)
        compaction.compact(Path(new), 0)
        shutil.rmtree(f"{new}/sessions", ignore_errors=True)
        made.records_count = _keep(Path(new), set().union(*chosen.values()))
        wanted = sum(map(len, chosen.values()))
        if made.records_count != wanted:
            raise CampaignError(f"{where}: {made.records_count} records came out of {wanted}; collect once more")
        campaigns.replace_file(f"{new}/{FILE}", json.dumps(asdict(made), indent=1) + "\n")
        shutil.rmtree(old, ignore_errors=True)
        if os.path.lexists(where):
            os.rename(where, old)
        os.rename(new, where)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise CampaignError(
            f"{error.filename or where}: {error.strerror or error}; nothing was collected, the shards are as they were"
        ) from None


def _link(path: str, into: str) -> None:
    """The same file once more; a copy where the file system has no links. Host files stand in several shards."""
    if os.path.lexists(into):
        return
    try:
        os.link(path, into)
    except OSError:
        shutil.copy2(path, into)


def _keep(data: Path, ids: set[str]) -> int:
    """Leave these records alone in a data set's files. Returns how many there are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from proofcost.reports import parquet

    count = 0
    kept = pa.array(sorted(ids), pa.string())
    for path in parquet.files(data):
        table = parquet.read(path)
        its = table.filter(pc.is_in(table["record"], kept))
        count += its.num_rows
        if its.num_rows < table.num_rows:
            path.unlink()
            if its.num_rows:
                # Another content, another name: what was pushed under the first one stays what it is.
                stem, generation = parquet.generation_of(path.name)
                parquet.write(path.with_name(f"{stem}.{generation + 1}.parquet"), its.unify_dictionaries())
    return count


def skewed(campaign: Campaign, seen: dict[int, list[Run]], now_ns: int) -> list[str]:
    """Of shards whose records lie before the campaign was made or after now, by their own hosts' clocks."""
    found = []
    for number, runs in seen.items():
        times = [run.at_ns for run in runs if run.at_ns]
        for what, off_ns in (
            (
                f"before the campaign was made ({when(campaign.made_ns)})",
                campaign.made_ns - min(times, default=campaign.made_ns),
            ),
            ("after they were collected", max(times, default=now_ns) - now_ns),
        ):
            if off_ns > 0:
                nodes = ", ".join(sorted({run.home or "?" for run in runs}))
                found.append(
                    f"clock: shard {number} has records {duration(off_ns)} {what}: the clock of {nodes} or of this "
                    "host is wrong; reports along time are not to be trusted"
                )
    return found


def _classes(seen: dict[int, list[Run]]) -> list[str]:
    """Where shards ran on hosts of several classes."""
    of: dict[str, set[int]] = {}
    for number, runs in seen.items():
        for run in runs:
            of.setdefault(run.host_class or "unknown", set()).add(number)
    if len(of) < 2:
        return []
    told = "; ".join(f"{name}: {_listed(numbers)}" for name, numbers in sorted(of.items()))
    return [f"{len(of)} host classes, which reports do not pool ({told}); --constraint keeps a campaign on one"]


def _listed(numbers: Collection[int]) -> str:
    shown: Sequence[int] = sorted(numbers)
    return f"shard{'s'[: len(shown) != 1]} {', '.join(map(str, shown[:20]))}{' ...' if len(shown) > 20 else ''}"
