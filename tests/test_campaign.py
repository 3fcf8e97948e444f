"""The campaign: what its page says of records made by hand, and that its suites and its command hold together."""

import importlib.util
import os
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from benching import PATIENCE_S, PROOFCOST, record, script
from fixtures import made

from proofcost.bench_suites import families, registry, suite
from proofcost.harness.merged import Record
from proofcost.reports import campaign, campaign_page
from proofcost.reports.document import Estimate, Missing, Table

MS = 10**6
PEAK = {"memory_peak_tree": made.figure(10**6, "bytes")}
CODES = {"0": "accepted", "1": "rejected"}


def blocks(work: str, walls: dict[str, int], code: int = 0, **about: object) -> list[Record]:
    """Six blocks of every kernel on one workload."""
    return [
        record(
            name,
            work,
            wall,
            block=block,
            turn_number=1000 * zlib.crc32(work.encode()) + 10 * block + at,
            code=code,
            exit_codes=CODES,
            workload={"expected": "rejected" if code else "accepted", **about},
            measurements=PEAK,
            covariates={"export_bytes": 77},
        )
        for block in range(1, 7)
        for at, (name, wall) in enumerate(walls.items())
    ]


def null(count: int = 5) -> list[Record]:
    return [
        record("n", "w", MS, turn_number=at, control=True, convention="null", exit_codes={"0": "ran"})
        for at in range(count)
    ]


def table(parts: campaign.Parts, key: str) -> Table:
    (found,) = [one for one in campaign.document(parts).tables() if one.key == key]
    return found


def test_a_kernel_that_accepts_what_is_false_is_the_first_thing_said() -> None:
    parts = {"twins": [*blocks("good", {"a": MS, "b": MS}), *blocks("bad-reject:5", {"b": MS}, 1)]}
    assert campaign.document(parts).answer.startswith("No kernel accepted what must be rejected; 0 workloads")
    parts["twins"].append(
        record("a", "bad-reject:5", MS, turn_number=9, exit_codes=CODES, workload={"expected": "rejected"})
    )
    document = campaign.document(parts)
    assert document.answer == "a ACCEPTS WHAT MUST BE REJECTED (bad-reject:5)."
    found = table(parts, "findings")
    assert [row[:2] for row in found.rows] == [
        ("bad-reject:5", "kernels disagree"),
        ("bad-reject:5", "not the expected verdict"),
    ]
    assert set(found.marked) == {0, 1}


def test_verdicts_are_counted_by_workload_against_what_is_expected() -> None:
    parts = {
        "exports": [*blocks("w1", {"a": MS}), *blocks("w2", {"a": MS}), *blocks("w3", {"a": MS}, 1)],
        "aa": [record("a~aa", "w1", MS, twin_of="a", exit_codes=CODES)],
    }
    found = table(parts, "verdicts")
    assert [column.key for column in found.columns][:5] == ["kernel", "expected", "workloads", "accepted", "rejected"]
    assert [list(row)[:5] for row in found.rows] == [["a", "accepted", 2, 2, 0], ["a", "rejected", 1, 0, 1]]


def test_what_costs_no_more_than_a_start_has_no_ratio_and_is_counted() -> None:
    parts = {
        "calibration": null(),
        "exports": [*blocks("small", {"a": 9 * MS, "b": 8 * MS}), *blocks("large", {"a": 100 * MS, "b": 150 * MS})],
    }
    costs = table(parts, "costs")
    assert [(row[0], row[1]) for row in costs.rows] == [("large", "a"), ("large", "b")]
    ratio = costs.rows[1][7]
    assert isinstance(ratio, Estimate)
    assert ratio.value == pytest.approx(1.5)
    (section,) = [one for one in campaign.document(parts).sections if one.title == "Real exports"]
    assert section.text[0].startswith("1 of 2 workloads cost every kernel less than 10 times the floor")
    assert [row[0] for row in table(parts, "covariates").rows] == ["large"]


def test_without_a_calibration_the_floor_is_not_invented() -> None:
    document = campaign.document({"exports": blocks("small", {"a": 9 * MS, "b": 8 * MS})})
    (floor,) = [one for one in document.sections if one.title == "The floor"]
    assert "not known" in floor.text[0]
    assert "not in it, for lack of records: calibration, twins, growth, aa" in document.notes


def test_a_figure_that_nobody_has_is_missing_not_zero() -> None:
    parts = {"calibration": null(), "exports": blocks("w", {"a": 100 * MS})}
    covariates = table(parts, "covariates").rows[0]
    assert covariates[1] == 77
    assert isinstance(covariates[2], Missing)


def test_growth_has_a_table_and_two_pictures_and_the_page_is_the_same_to_the_byte(tmp_path: Path) -> None:
    growth = [
        one for n in (100, 200, 400, 800) for one in blocks(f"f:{n}", {"a": n * MS, "b": n * n * MS}, family="f", n=n)
    ]
    parts = {"calibration": null(), "growth": growth}
    rows = {(row[1], row[2]): row[6] for row in table(parts, "growth").rows}
    exponent = rows["b", "wall"]
    assert isinstance(exponent, Estimate)
    assert exponent.value == pytest.approx(2)
    written = campaign_page.write(campaign.document(parts), tmp_path / "one")
    again = campaign_page.write(campaign.document(parts), tmp_path / "two")
    assert [path.relative_to(tmp_path / "one").as_posix() for path in written] == [
        "campaign/growth-wall.svg",
        "campaign/growth-memory.svg",
        "campaign.md",
    ]
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]
    text = (tmp_path / "one" / "campaign.md").read_text()
    assert "](campaign/growth-wall.svg)" in text
    assert "mathdefault" not in (tmp_path / "one" / "campaign" / "growth-memory.svg").read_text()


def test_names_from_records_are_no_markup_on_the_page(tmp_path: Path) -> None:
    hostile = "<script>|[x](http://evil)\x1b[31m"
    parts = {"calibration": null(), "exports": blocks(hostile, {"a": 100 * MS}, 1)}
    parts["exports"].append(
        record("a", hostile, MS, turn_number=1, exit_codes=CODES, workload={"expected": "rejected"})
    )
    campaign_page.write(campaign.document(parts), tmp_path)
    text = (tmp_path / "campaign.md").read_text()
    assert "<script>" not in text
    assert "http://evil" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["exports", "twins", "growth", "aa"])
def test_the_suites_of_the_campaign_can_be_read(repo: Path, name: str) -> None:
    found = suite.read(str(repo / f"docs/campaign/{name}.toml"), registry.load([], {}), {})
    assert found.settings.name == f"campaign-{name}"
    assert found.settings.sandbox.kind == "landrun"
    assert found.settings.limits.memory_bytes is not None
    if name == "growth":
        assert {one.partition(":")[0] for one in found.specs} == {one.name for one in families.FAMILIES}


def run_campaign(repo: Path, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PROOFCOST_NANODA")}
    environment.pop("PROOFCOST_SOKONANODA", None)
    assert Path(PROOFCOST).exists()
    return subprocess.run(
        [sys.executable, repo / "docs/campaign/run.py", "--store", folder / "store", "--out", folder, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no kernel: give NAME=CMD, or set PROOFCOST_NANODA"),
        (("a=/bin/true", "--exports", "nowhere"), "--exports nowhere: no such folder"),
        (("--page",), "no records of a campaign in"),
    ],
)
def test_a_wrong_call_says_what_is_missing(repo: Path, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run_campaign(repo, tmp_path, *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def loaded(repo: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("campaign_run", repo / "docs/campaign/run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses ask for it
    spec.loader.exec_module(module)
    return module


def test_the_parts_take_every_kernel_in_the_sandbox_and_every_twin(repo: Path) -> None:
    found = {part.name: part.words for part in loaded(repo).parts(["a=./a", "b=./b"], Path("x"), "bwrap", False)}
    assert list(found) == ["calibration", "aa", "twins", "exports", "growth"]
    assert all(words[words.index("--sandbox") + 1] == "bwrap" for words in found.values())
    assert [("a=./a" in words, "b=./b" in words) for words in found.values()] == [
        (False, False),
        (True, False),
        *[(True, True)] * 3,
    ]
    specs = {word.partition(":")[0] for word in found["twins"] if ":" in word}
    assert specs == set(families.names())
    assert "--on" not in found["growth"]
    assert set(loaded(repo).parts(["a=./a"], Path("x"), "none", True)[4].words) > {"-r", "1"}


def test_a_part_runs_once_and_the_page_is_made_of_its_records(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = loaded(repo)
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "yes", "#!/bin/sh\nexit 0\n")
    words = (str(repo / "docs/campaign/twins.toml"), "nanoda=./yes", "--on", "many:5", "--on", "many-reject:5")
    part = run.Part("twins", (*words, "--sandbox", "none"))
    assert [run.run(part, tmp_path / "store"), run.run(part, tmp_path / "store")] == [1, 1]
    files = list((tmp_path / "store" / "sessions").glob("*/*-*.jsonl"))
    assert len(files) == 2 * 2, "all was done: nothing ran a second time"
    capfd.readouterr()
    assert run.make_page(tmp_path / "store", tmp_path) == 0
    assert "campaign: nanoda ACCEPTS WHAT MUST BE REJECTED (many-reject:5)." in capfd.readouterr().err
    text = (tmp_path / "campaign.md").read_text()
    assert "**nanoda ACCEPTS WHAT MUST BE REJECTED (many-reject:5).**" in text
    assert "not in it, for lack of records: calibration, exports, growth, aa" in text
