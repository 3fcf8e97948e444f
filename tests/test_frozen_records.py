"""Records that a released schema version wrote load for ever, with the same values."""

import math
from pathlib import Path

import pytest

from proofcost.harness import seal
from proofcost.harness.reading import read_store
from proofcost.reports.bench_cells import WALL, cells, ratio
from proofcost.reports.verdicts import Verdict, verdict

FROZEN = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"
"""One `proofcost run` of the stand-in comparator with real landrun, nanoda 0.4.10-beta and sokonanoda 0.5.0."""

EXPECTED = [
    # phase, kernel, wall_program ns, cpu_tree ns, memory_peak_tree bytes
    ("whole", None, 1567712994, 1190762000, 133173248),
    ("challenge-build", None, 14053035, 10734000, 2437120),
    ("challenge-export", None, 19938101, 14041000, 5967872),
    ("build", None, 15539126, 8141000, 1662976),
    ("export", None, 15834216, 13145000, 1650688),
    ("checker", "nanoda", 636359325, 564033000, 17076224),
    ("checker", "sokonanoda", 393121852, 350432000, 74182656),
]


def test_a_session_of_0_1_0_reads_as_it_was_measured() -> None:
    store = read_store(FROZEN)
    assert not store.problems
    seen = []
    for record in store.records:
        values = []
        for name in ("wall_program", "cpu_tree", "memory_peak_tree"):
            figure = record.measurement(name)
            assert figure is not None
            assert figure.status == "measured"
            values.append(figure.value)
        seen.append((record.phase, record.kernel, *values))
        assert record.state == "complete"
        assert record.labels == {"host": "desk"}
        instructions = record.measurement("instructions:u")
        assert instructions is not None
        assert (instructions.value, instructions.reason) == (None, "counter_not_supported")
    assert seen == EXPECTED


BENCH = FROZEN.parent / "bench-0.1.0"
"""`proofcost bench` with real nanoda 0.4.10-beta and sokonanoda 0.5.0: a warm-up each and one mirrored block."""

TURNS = [
    # turn, kernel, warm-up, block, order, wall_program ns, memory_peak_tree bytes
    (0, "nanoda", True, None, None, 8260278, 524288),
    (1, "sokonanoda", True, None, None, 294950876, 34172928),
    (2, "nanoda", False, 1, 1, 3357414, 524288),
    (3, "sokonanoda", False, 1, 2, 35338751, 36077568),
    (4, "sokonanoda", False, 1, 3, 61510845, 36323328),
    (5, "nanoda", False, 1, 4, 11135235, 524288),
]


def test_a_bench_of_0_1_0_reads_as_it_was_measured() -> None:
    store = read_store(BENCH)
    assert not store.problems
    seen = []
    for record in store.records:
        wall, memory = record.measurement("wall_program"), record.measurement("memory_peak_tree")
        assert wall is not None
        assert memory is not None
        ids, planned = record.started["ids"], record.started["bench"]
        place = (ids["warmup"], ids["block"], ids["order"])
        seen.append((planned["turn"], record.kernel, *place, wall.value, memory.value))
        assert verdict(record) is Verdict.ACCEPTED
        assert record.labels == {"host": "desk", "saved": "first"}
    assert seen == TURNS
    nanoda, sokonanoda = cells(store.records)
    assert (nanoda.median(WALL), sokonanoda.median(WALL)) == (3357414, 35338751), "the lower middle one"
    found = ratio(sokonanoda, nanoda, WALL)
    assert found is not None
    assert found.value == pytest.approx(math.sqrt(35338751 * 61510845 / (3357414 * 11135235)))


COLLECTED = Path(__file__).parent / "fixtures" / "records" / "collected-0.1.0"
"""One `proofcost run --as nobody --seal-key` of a shell that makes two calls; the key is KEY."""

KEY = b"the key of the frozen example..."

KEPT = [
    # entrance, uid of the meter, exit, wall_command ns
    ("run", 0, 1, 41730810),
    ("landrun", 65534, 3, 1215147),
    ("landrun", 65534, 0, 1521673),
]


def test_a_sealed_session_of_0_1_0_reads_as_it_was_kept() -> None:
    store = read_store(COLLECTED)
    assert not store.problems
    seen = []
    for record in store.records:
        wall = record.measurement("wall_command")
        assert wall is not None
        assert record.outcome is not None
        assert record.started["trust"] == "collected"
        process = record.started["process"]
        if process["judge_user"] is None:
            assert process["collector"]["from_judge"] is True
            assert process["collector"]["uid"] == process["uid"]
        seen.append((record.started["meter"]["entrance"], process["uid"], record.outcome["code"], wall.value))
    assert seen == KEPT
    [folder] = (COLLECTED / "sessions").iterdir()
    checked = seal.check(str(folder), KEY)
    assert checked is not None
    assert (checked.signature, checked.problems) == ("verified", [])
    assert checked.seal["complete"] is True
