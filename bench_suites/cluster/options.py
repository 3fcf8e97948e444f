"""What is asked of a scheduler: checked where it is asked, kept in the campaign's file, the same at every resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from proofcost.bench_suites.cluster.folder import CampaignError

SLURM, KUBERNETES, DASK = "slurm", "kubernetes", "dask"
KINDS = (SLURM, KUBERNETES, DASK)


@dataclass(frozen=True, slots=True)
class Options:
    """`time_ns`: a shard's longest; None: no limit of ours. `at_once`: so many shards at most run at a time."""

    on: str
    time_ns: int | None = None
    at_once: int | None = None
    partition: str | None = None
    constraint: str | None = None
    image: str | None = None
    claims: tuple[str, ...] = ()
    """NAME=PATH."""
    cpus: int | None = None
    pod_memory_bytes: int | None = None
    namespace: str | None = None
    privileged: bool = False
    user: int = 0
    group: int = 0
    scheduler: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(said: Mapping[str, Any]) -> Options:
    """The options of an earlier submission. Raises CampaignError."""
    try:
        made = Options(**{**said, "claims": tuple(said.get("claims", ()))})
    except TypeError as error:
        raise CampaignError(f"campaign.json: options that are not known ({error}); put it back as it was") from None
    if made.on not in KINDS:
        raise CampaignError(f"campaign.json: submitted on {made.on!r}, which is no scheduler; put it back as it was")
    return made
