"""Invented fleets: the same seed gives the same records, of the shape that was said, and they are ordinary ones."""

import math
from pathlib import Path

import numpy as np
import pytest
from planning import data_of, fleet

from proofcost.cli import main
from proofcost.reports.plan.synth import (
    MEDIAN_S,
    MEMORY_LIMIT_BYTES,
    RECORDS_OF_ONE,
    SLOWER,
    SPREAD,
    Kind,
    needs,
)


def rows_of(folder: Path, query: str) -> list[tuple[object, ...]]:
    return data_of(folder).connection.execute(query).fetchall()


@pytest.mark.parametrize("records", [1, 7, 5000])
def test_there_are_as_many_as_asked_for(records: int, tmp_path: Path) -> None:
    assert rows_of(fleet(tmp_path / "a", "light", records), "SELECT count(*) FROM records") == [(records,)]


def test_the_same_seed_gives_the_same_records(tmp_path: Path) -> None:
    files = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        folder = fleet(tmp_path / name, "heavy", 500, days=2, seed=seed)
        files.append(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.parquet"))))
    assert files[0] == files[1]
    assert files[0] != files[2]


def test_they_are_ordinary_records_of_whole_verdicts(tmp_path: Path) -> None:
    folder = fleet(tmp_path, "light", 1000)
    assert rows_of(folder, "SELECT DISTINCT source FROM records") == [("synth",)]
    found = rows_of(folder, "SELECT count(DISTINCT session), count(DISTINCT record) FROM records")
    assert found == [(1000 // RECORDS_OF_ONE, 1000)]
    late = """SELECT count(*) FROM records r JOIN records w USING (session) WHERE w.phase = 'whole'
        AND r.started_ns + r.wall_command > w.started_ns + w.wall_command"""
    assert rows_of(folder, late) == [(0,)]


def test_what_needs_more_than_its_limit_is_killed_at_it(tmp_path: Path) -> None:
    folder = fleet(tmp_path, "heavy", 100_000, days=3)
    kills = rows_of(
        folder,
        """SELECT count(*), min(memory_peak_tree), max(memory_peak_tree), bool_and(exit_code IS NULL)
        FROM records WHERE cause = 'memory_limit' AND phase = 'whole'""",
    )[0]
    assert kills[0]
    assert kills[1:] == (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES, True)
    assert rows_of(folder, "SELECT max(memory_peak_tree) FROM records") == [(MEMORY_LIMIT_BYTES,)]


def test_each_kind_is_what_it_says() -> None:
    random = np.random.default_rng(5)
    at = np.linspace(0, 1, 200_000)
    light, heavy, bimodal, drifting = (needs(kind, at, random) for kind in Kind)
    assert np.median(light.wall_s) == pytest.approx(MEDIAN_S, rel=0.01)
    assert np.quantile(light.wall_s, 0.9) == pytest.approx(7.0, rel=0.01)
    assert np.log(light.wall_s).std() == pytest.approx(SPREAD, rel=0.01)
    # A Pareto tail of exponent 1.3 in one of ten.
    far = heavy.wall_s > 200
    assert far.mean() == pytest.approx(0.1 * (MEDIAN_S / 200) ** 1.3 * math.exp(1.3**2 * SPREAD**2 / 2), rel=0.15)
    assert (bimodal.wall_s > 100).mean() == pytest.approx(1 / 7, rel=0.02)
    first, last = drifting.wall_s[:20_000], drifting.wall_s[-20_000:]
    assert np.median(last) / np.median(first) == pytest.approx(3**0.9, rel=0.03)


def test_two_classes_check_the_same_submissions(tmp_path: Path) -> None:
    folder = fleet(tmp_path, "light", 2000, classes=2)
    ratio = rows_of(
        folder,
        """SELECT median(b.wall_command / a.wall_command), count(*) FROM records a JOIN records b
        USING (subject, phase) WHERE a.phase = 'whole' AND a.host_class < b.host_class""",
    )[0]
    assert ratio == (pytest.approx(SLOWER, rel=0.01), pytest.approx(200, abs=30))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--records", "0"], "--records 0: out of range"),
        (["--days", "-1"], "--days -1: out of range"),
        (["--seed", "-1"], "--seed -1: out of range"),
    ],
)
def test_absurd_numbers_are_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "synth", str(tmp_path / "new"), *words]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").write_text("x")
    assert main(["store", "synth", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert main(["store", "synth", str(tmp_path / "new"), "--records", "10", "--kind", "bimodal"]) == 0
    assert "10 records of an invented fleet (bimodal)" in capsys.readouterr().out
