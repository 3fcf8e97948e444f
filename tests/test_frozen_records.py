"""Records that a released schema version wrote load for ever, with the same values."""

from pathlib import Path

from proofcost.harness.reading import read_store

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
