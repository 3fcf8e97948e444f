"""What the data say about a host class besides its name: its parts, as `hosts/` of a store keeps them.

Anybody may have written those files: what does not have the shape of a description is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofcost.harness.hostclass import name_of
from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.where import Where

MAX_BYTES = 1 << 20
"""Of a description; a real one has a few kB."""
SHOWN_CHARACTERS = 200

MATTERS = "what matters for cost"
DECLARABLE = "may be declared harmless"


@dataclass(frozen=True, slots=True)
class Facts:
    """One host class."""

    matters: Mapping[str, Any]
    """Two hosts that differ here are never pooled."""
    declarable: Mapping[str, Any]
    """A difference here may be declared harmless (`store declare`)."""

    @property
    def what(self) -> str:
        """In few words: processor, CPUs, memory."""
        models = self.matters.get("cpu_models")
        named = " + ".join(map(str, models)) if isinstance(models, list) and models else "processor not told"
        cpus, memory = self.matters.get("cpus_count"), self.matters.get("memory_gib_count")
        virtual = {True: ", virtual", False: ""}.get(self.matters.get("virtual") or False, "")
        return f"{named}, {cpus or '?'} CPUs, {memory or '?'} GiB{virtual}"


def read_facts(paths: Sequence[str | os.PathLike[str]]) -> dict[str, Facts]:
    """By host class, from `hosts/` of every store among `paths`."""
    found: dict[str, Facts] = {}
    for path in paths:
        for file in sorted(Path(path).glob("hosts/*/*.json")):
            facts = _facts(file)
            if facts is not None:
                found.setdefault(facts[0], facts[1])
    return found


def _facts(file: Path) -> tuple[str, Facts] | None:
    try:
        with file.open("rb") as opened:
            raw = json.loads(opened.read(MAX_BYTES))
        matters, declarable = raw["matters"], raw["declarable"]
        # The name is a digest of the parts: a description under another's name is none.
        if not isinstance(matters, dict) or not isinstance(declarable, dict):
            return None
        if raw["class"] != name_of(matters, declarable):
            return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return str(raw["class"]), Facts(matters, declarable)


def differences(one: Facts, other: Facts) -> list[tuple[str, str, str, str]]:
    """(part, what kind of part, its value here, and there) of each part that is not the same."""
    made = []
    for kind, here, there in ((MATTERS, one.matters, other.matters), (DECLARABLE, one.declarable, other.declarable)):
        for part in sorted({*here, *there}):
            if here.get(part) != there.get(part) and not part.endswith("_reason"):
                made.append((part, kind, _shown(here, part), _shown(there, part)))
    return made


def _shown(parts: Mapping[str, Any], part: str) -> str:
    value = parts.get(part)
    if value is None:
        return f"not known: {parts.get(part + '_reason', 'not told')}"[:SHOWN_CHARACTERS]
    text = ", ".join(map(_word, value)) if isinstance(value, list) else _word(value)
    return text[:SHOWN_CHARACTERS]


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name} {of}" for name, of in value.items())
    return str(value)


def machines(data: Data, where: Where) -> dict[str, int]:
    """How many machines there are of each host class."""
    query = f"SELECT coalesce(host_class, 'unknown'), count(DISTINCT host) FROM {VIEW} WHERE {where.sql} GROUP BY 1"
    return {str(name): int(count) for name, count in data.rows(query, where.parameters)}


def oddities(data: Data, where: Where) -> list[str]:
    """What is strange about the hosts: one name for two machines, a machine of two classes, a clock set back."""
    notes = []
    query = f"""
        WITH boots AS (
            SELECT host, boot, min(started_ns) AS first, max(started_ns) AS last FROM {VIEW}
            WHERE {where.sql} AND host IS NOT NULL AND boot IS NOT NULL AND started_ns IS NOT NULL GROUP BY 1, 2)
        SELECT DISTINCT one.host FROM boots AS one JOIN boots AS other
            ON one.host = other.host AND one.boot < other.boot AND one.first <= other.last AND other.first <= one.last
        ORDER BY 1"""
    for (host,) in data.rows(query, where.parameters):
        notes.append(
            f"TWO MACHINES UNDER ONE NAME: host {host} ran under two boots at the same time (a copied machine-id or "
            "store?); their figures are told apart only by boot: --where boot=ID"
        )
    query = f"""
        SELECT host, count(DISTINCT host_class) FROM {VIEW}
        WHERE {where.sql} AND host IS NOT NULL AND host_class IS NOT NULL GROUP BY 1
        HAVING count(DISTINCT host_class) > 1
        ORDER BY 1"""
    for host, count in data.rows(query, where.parameters):
        notes.append(
            f"host {host} is in the data as {count} host classes: it was changed between runs (a host's kernel, "
            "microcode, governor), and each class stands by itself"
        )
    query = f"""
        SELECT DISTINCT coalesce(plan, session) FROM (
            SELECT plan, session, started_ns, lag(started_ns) OVER (
                PARTITION BY plan, session, host, boot, workload, threads ORDER BY block, place, started_ns) AS before
            FROM {VIEW} WHERE {where.sql} AND block IS NOT NULL AND place IS NOT NULL AND started_ns IS NOT NULL)
        WHERE started_ns < before ORDER BY 1"""
    back = [str(row[0]) for row in data.rows(query, where.parameters)]
    if back:
        notes.append(
            f"the clock of day does not follow the order of the series in {len(back)} of them (first: {back[0][:12]}): "
            "it ran backwards, or runs were resumed; the order of blocks is used, never the time of day"
        )
    return notes
