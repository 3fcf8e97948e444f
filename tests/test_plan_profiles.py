"""Sandboxes that peak when their runs did: memory over time, from timelines beside the records."""

from pathlib import Path

import numpy as np
import pytest
from fixtures import traced
from planning import GB, S, plan_of, row, store

from proofcost.harness.timeline import read_timeline
from proofcost.reports.plan import page_host
from proofcost.reports.plan.host import over_time
from proofcost.reports.plan.profiles import Profiles, profile_of


def sample(at_ns: int, memory: int | None) -> list[object]:
    return ["s", at_ns, 0, memory, None, None, None, None]


def short_peak(folder: Path, runs: int) -> Path:
    """Verdicts of 100 s that hold 1 GB, and 8 GB (counted: 10) for a single second of it."""
    rows = [
        row(at, started_ns=1_790_000_000 * S + at * S, wall_command=100 * S, memory_peak_tree=10 * GB)
        for at in range(runs)
    ]
    for at in range(runs):
        seconds = [(second, 8 * GB if second == 50 else GB) for second in range(100)]
        traced.beside(
            folder, [sample(second * S, memory) for second, memory in seconds] + [["z", 100 * S]], f"r{at}",
            session=f"s{at}", invocation=f"r{at}",
        )  # fmt: skip
    return store(folder, rows)


HOST = ("host.cores=16", "host.memory=40GB", "host.overcommit=1%", "sandbox.memory=10GB", "sandbox.cores=1")


def test_runs_that_peak_for_a_second_hardly_ever_meet(tmp_path: Path) -> None:
    plan = plan_of(short_peak(tmp_path, 25), *HOST)
    assert plan.host is not None
    assert plan.host.overcommit is not None
    assert plan.host.overcommit.count == 4, "all at once: 4 peaks of 10 GB fill 40 GB"
    seen = plan.host.over_time
    assert seen is not None
    assert (seen.count, seen.profiles) == (4, 25)
    assert seen.estimated == 0, "four together hold 40 GB at most"


def test_the_chance_to_meet_is_that_of_the_profiles() -> None:
    """Two that hold 8 of 15 for one interval in a hundred: the other is there in one of a hundred runs."""
    profile = np.full(100, 1.0)
    profile[50] = 8.0
    seen = over_time(Profiles(S, (profile,) * 20), 10.0, 2, 15.0, 1)
    assert seen is not None
    assert seen.low <= 0.01 <= seen.high
    assert 0 < seen.low < seen.estimated < seen.high < 0.02


def test_fewer_than_twenty_timelines_say_nothing(tmp_path: Path) -> None:
    plan = plan_of(short_peak(tmp_path, 19), *HOST)
    assert plan.host is not None
    assert plan.host.over_time is None


def test_a_timeline_that_cannot_be_read_is_one_run_less(tmp_path: Path) -> None:
    folder = short_peak(tmp_path, 21)
    (folder / "traces" / "s3" / "r3.ndjson.gz").write_bytes(b"no timeline")
    plan = plan_of(folder, *HOST)
    assert plan.host is not None
    assert plan.host.over_time is not None
    assert plan.host.over_time.profiles == 20


def test_the_page_shows_it_beside_the_safe_side(tmp_path: Path) -> None:
    plan = plan_of(short_peak(tmp_path, 25), *HOST)
    assert plan.host is not None
    table = next(one for one in page_host.host_section(plan.host).blocks if getattr(one, "key", "") == "memory_ways")
    assert [str(line[0]) for line in table.rows] == [  # type: ignore[union-attr]
        "the sum of limits",
        "the peak of sums, at most 1 %",
        "the same many, by 25 time profiles",
    ]


@pytest.mark.parametrize(
    ("rows", "peak", "expected"),
    [
        ([sample(0, 5), sample(S, 7)], 6, [5, 7]),
        ([sample(0, 5), sample(S, 7)], 9, [5, 9]),
        ([sample(S, 7), sample(3 * S, 4), ["z", 5 * S]], 7, [7, 7, 7, 4, 4, 4]),
        ([sample(0, None), sample(S, 3), sample(S + 1, 8), sample(2 * S, None)], 8, [3, 8, 8]),
    ],
)
def test_a_profile_holds_the_largest_of_each_interval(
    rows: list[list[object]], peak: int, expected: list[int], tmp_path: Path
) -> None:
    timeline = read_timeline(str(traced.file(tmp_path, rows)))
    assert profile_of(timeline, peak, S).tolist() == expected


def test_what_is_laid_over_each_other_is_cut_at_the_limit() -> None:
    found = Profiles(S, (np.full(10, 9.0),) * 20)
    fits, too_much = over_time(found, 5.0, 2, 10.0, 1), over_time(found, 5.1, 2, 10.0, 1)
    assert fits is not None
    assert too_much is not None
    assert (fits.count, fits.profiles, fits.low, fits.estimated) == (2, 20, 0.0, 0.0)
    assert fits.high < 0.002
    assert (too_much.estimated, too_much.high) == (1.0, 1.0)
    assert over_time(found, 5.0, 1, 10.0, 1) is None, "nobody is beside it"
