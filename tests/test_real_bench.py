"""The bench on real kernels: every small case of the arena's tutorial set, and a realistic load, with real sandboxes.

What nanoda 0.4.10-beta and sokonanoda 0.5.0 say of each case is known (tests/test_real_judges.py); the bench has to
report exactly that, and shout about the one case in which they disagree.
"""

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest
from benching import Bench, kernel, work
from test_real_judges import OLD_FORMAT, WRONGLY_ACCEPTED_BY_NANODA

from proofcost.harness.reading import read_store
from proofcost.reports.bench_cells import WALL, cells
from proofcost.reports.verdicts import Verdict

pytestmark = pytest.mark.real


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def small_cases(tmp_path: Path, shared_exports: Path) -> Path:
    """All of them but the one in an older format, which no reader of 3.x takes."""
    for folder in ("accept", "reject"):
        (tmp_path / "cases" / folder).mkdir(parents=True)
        for path in (shared_exports / folder).glob("*.ndjson"):
            if path.stem != OLD_FORMAT:
                (tmp_path / "cases" / folder / path.name).symlink_to(path)
    return tmp_path / "cases"


@pytest.mark.slow
def test_every_small_case_has_the_known_verdict_and_the_one_disagreement_shouts(
    bench: Bench, small_cases: Path, nanoda: Path, sokonanoda: Path
) -> None:
    done = bench(f"nanoda={nanoda}", f"sokonanoda={sokonanoda}", "--on", small_cases, "-r", 1, "--warmups", 0)
    assert done.status == 1
    found = cells(read_store(bench.store).records)
    said = Counter((cell.key.kernel, cell.key.work.partition("/")[0], cell.verdict) for cell in found)
    assert said == {
        ("nanoda", "accept", Verdict.ACCEPTED): 73,
        ("sokonanoda", "accept", Verdict.ACCEPTED): 73,
        ("nanoda", "reject", Verdict.REJECTED): 32,
        ("nanoda", "reject", Verdict.DECLINED): 5,
        ("nanoda", "reject", Verdict.ACCEPTED): 1,
        ("sokonanoda", "reject", Verdict.REJECTED): 38,
    }
    name = f"reject/{WRONGLY_ACCEPTED_BY_NANODA}"
    assert done.stdout.partition("VERDICTS: ")[2].splitlines() == [
        "1 workload where something is wrong",
        f"  KERNELS DISAGREE: {name}: nanoda accepted, sokonanoda rejected",
        f"  NOT THE EXPECTED VERDICT: {name}: nanoda accepted what should be rejected",
    ]


def test_a_realistic_load_in_a_real_sandbox(
    bench: Bench, shared_exports: Path, landrun: Path, nanoda: Path, sokonanoda: Path
) -> None:
    suite = bench.folder / "suite.toml"
    axioms = 'config = { permitted_axioms = ["propext", "Quot.sound", "Classical.choice"] }\n'
    suite.write_text(
        'repetitions = 2\nsandbox = "landrun"\n[limits]\nmemory = "2Gi"\n'
        f'[[kernel]]\nname = "nanoda"\ncommand = "{nanoda}"\n{axioms}'
        f'[[kernel]]\nname = "sokonanoda"\ncommand = "{sokonanoda}"\n{axioms}'
        '[[kernel]]\nuse = "parse-only"\n'
        f'[[workload]]\npath = "{shared_exports / "init-medium.ndjson.gz"}"\nexpected = "accept"\n'
    )
    done = bench(suite, env=[("PROOFCOST_LANDRUN", str(landrun))])
    assert done.status == 0, done.stderr
    records = bench.records()
    assert [kernel(record) for record in records[:3]] == ["nanoda", "sokonanoda", "parse-only"]
    for record in records:
        assert record.outcome["code"] == 0, record.outcome
        assert record.started["sandbox"]["kind"] == "landrun"
        assert record.started["sandbox"]["enforced"] is True
        assert record.value("wall_program") > 50_000_000
        planned = record.started["bench"]
        assert planned["covariates"]["export_lines_count"] == 237_232
        assert planned["covariates"]["export_declarations_count"] == 3_234
    nanoda_config = next(record for record in records if kernel(record) == "nanoda").started["kernel"]["config_text"]
    assert '"permitted_axioms":["propext","Quot.sound","Classical.choice"]' in nanoda_config
    assert "unsafe_permit_all_axioms" not in nanoda_config
    by_kernel = {cell.key.kernel: cell for cell in cells(read_store(bench.store).records)}
    assert by_kernel["nanoda"].verdict is Verdict.ACCEPTED
    assert by_kernel["parse-only"].verdict is Verdict.RAN
    assert by_kernel["nanoda"].median(WALL)
    memory = {name: max(one.value("memory_peak_tree") for one in records if kernel(one) == name) for name in by_kernel}
    assert memory["nanoda"] < memory["sokonanoda"], "known: the faster one takes four times the memory"


def test_refused_axioms_are_no_acceptance(bench: Bench, shared_exports: Path, nanoda: Path) -> None:
    with gzip.open(shared_exports / "init-medium.ndjson.gz") as packed, (bench.folder / "i.ndjson").open("wb") as file:
        shutil.copyfileobj(packed, file)
    (bench.folder / "suite.toml").write_text(
        f'repetitions = 1\nwarmups = 0\n[[kernel]]\nname = "nanoda"\ncommand = "{nanoda}"\n'
        "config = { permitted_axioms = [], unpermitted_axiom_hard_error = true }\n"
        '[[workload]]\npath = "i.ndjson"\n'
    )
    bench("suite.toml")
    (record,) = bench.records()
    assert record.outcome["code"] != 0
    assert work(record) == "i"


@pytest.mark.slow
def test_co_running_kernels_are_each_in_their_own_sandbox(
    bench: Bench, shared_exports: Path, landrun: Path, sokonanoda: Path
) -> None:
    words = ("contention", f"sokonanoda={sokonanoda}", "--on", shared_exports / "init-medium.ndjson.gz")
    done = bench(*words, "-r", 1, "--warmups", 0, "--sandbox", "landrun", env=[("PROOFCOST_LANDRUN", str(landrun))])
    assert done.status == 0, done.stderr
    records = bench.records()
    assert len(records) == 1 + 2 + 4 + 8
    assert {record.outcome["code"] for record in records} == {0}
    places = [tuple(record.started["cgroup"]["paths"].values()) for record in records]
    assert len(set(places)) == len(places)
