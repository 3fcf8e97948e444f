"""What is to be told of the files of a shared place before anybody trusts their figures. Nothing of it changes one.

Read from the files' own statistics: files of another version of the records, records that started later than the
storage wrote them, and machines that share one id. A file of no records, or with a column of another kind, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.harness.columns import NAMES
from proofcost.harness.derive import shared_hosts
from proofcost.harness.merged import Record
from proofcost.reports.inert import inert_outside
from proofcost.reports.sealed_files import SealedFile
from proofcost.reports.units import plural

SKEW_S = 60
"""A storage's clock and a host's may differ by so much without a word."""
_NAMED = 4
_DAY_S = 86_400


class ForeignError(Exception):
    """A file that is none of records of ours. One line."""


@dataclass(frozen=True, slots=True)
class _Facts:
    columns: frozenset[str]
    kinds: Mapping[str, str]
    newest_ns: int | None
    host: str


def survey(place: str, files: Sequence[tuple[Path, SealedFile]], kinds: Mapping[str, str]) -> list[str]:
    """Lines to tell. `kinds`: column -> physical type that it must have. Raises ForeignError."""
    here = []
    for path, file in files:
        try:
            facts = _facts(path)
        except (OSError, pa.ArrowException) as error:
            why = f"{place}: {inert_outside(file.name, 200, True)}: {str(error).splitlines()[0][:200]}"
            raise ForeignError(f"{why}; move that file away") from None
        _refuse_foreign(place, file.name, facts, kinds)
        here.append((file, facts))
    return [*_versions(here), *_clocks(here)]


def _facts(path: Path) -> _Facts:
    """What a file tells of itself at its end. DuckDB takes four times as long for that."""
    told = pq.read_metadata(path)
    schema = told.schema
    kinds = {schema.column(at).path: schema.column(at).physical_type for at in range(len(schema))}
    places = {name: at for at, name in enumerate(kinds)}
    starts, hosts = ([
        told.row_group(group).column(places[name]).statistics
        for group in range(told.num_row_groups if name in places else 0)
    ] for name in ("started_ns", "host"))  # fmt: skip
    latest = [one.max for one in starts if one is not None and one.has_min_max]
    host = [str(one.min) for one in hosts if one is not None and one.has_min_max]
    newest = max(latest) if latest and kinds["started_ns"] == "INT64" else None
    return _Facts(frozenset(kinds), kinds, newest, min(host, default="unknown"))


def _refuse_foreign(place: str, name: str, facts: _Facts, kinds: Mapping[str, str]) -> None:
    shown = f"{place}: {inert_outside(name, 200, True)}"
    if "record" not in facts.columns:
        raise ForeignError(f"{shown}: a Parquet file, but not of records (no column `record`); move it away")
    for column, kind in facts.kinds.items():
        if kinds.get(column, kind) != kind:
            raise ForeignError(
                f"{shown}: its column `{column}` is {kind}, and {kinds[column]} in this version; move it away, or read "
                "it with the version that wrote it"
            )


def _versions(here: Sequence[tuple[SealedFile, _Facts]]) -> Iterator[str]:
    """Files that lack columns which others have, and columns that this version does not know."""
    known = frozenset(NAMES)
    all_of_them = frozenset[str]().union(*(facts.columns for _, facts in here)) & known
    lacking = [all_of_them - facts.columns for _, facts in here]
    if any(lacking):
        without = sorted(frozenset[str]().union(*lacking))
        files = plural(sum(map(bool, lacking)), "file")
        yield f"{files} of {len(here)} of another version of the records, without {_some(without)}: null there"
    fresh = [column for column in sorted(frozenset[str]().union(*(facts.columns for _, facts in here)) - known)
             if not column.startswith(_FORMS)]  # fmt: skip
    if fresh:
        yield f"columns that this version does not know are not read: {_some(fresh)}"


_FORMS = ("form_", "gap_")


def _clocks(here: Sequence[tuple[SealedFile, _Facts]]) -> Iterator[str]:
    """Hosts with records that started after the storage had written them."""
    late: dict[str, float] = {}
    for file, facts in here:
        if file.written_s is None or facts.newest_ns is None:
            continue
        ahead = facts.newest_ns / 1e9 - file.written_s
        if ahead > SKEW_S:
            late[facts.host] = max(ahead, late.get(facts.host, 0))
    if late:
        most = max(late.values())
        span = f"{most / _DAY_S:.1f} days" if most > _DAY_S else f"{most:.0f} s"
        hosts = _some(sorted(host[:12] for host in late))
        yield (
            f"clocks disagree: records of {plural(len(late), 'host')} ({hosts}) started up to {span} later than the "
            "storage's own time of writing them; figures stand as they are, dates of that host may be wrong"
        )


SHARED = """SELECT host, boot, min(started_ns), max(started_ns + coalesce(wall_command, 0)) FROM {table}
    WHERE source = ? AND host IS NOT NULL AND boot IS NOT NULL AND started_ns IS NOT NULL GROUP BY host, boot"""
"""What `shared` takes; its parameter is the source of records that meters wrote."""


def shared(spans: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """Host ids that two boots used at the same time. `spans`: host, boot, first and last moment (`SHARED`)."""
    moments = [
        Record("", "", {"host": {"instance": host, "boot_id": boot}, "clocks": {"realtime_ns": moment}}, None, None, "")
        for host, boot, *span in spans
        for moment in span
    ]
    yield from (inert_outside(problem.what, 400) for problem in shared_hosts(moments))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(inert_outside(name, 40, True) for name in names[:_NAMED]) + more
