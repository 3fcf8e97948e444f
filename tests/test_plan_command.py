"""`proofcost plan` as people call it: exit codes, one line for each wrong call, files, the suite, the difference."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from planning import command, fleet, row, spread, store

from proofcost.cli import main
from proofcost.reports.plan.suite_for import suite_text
from proofcost.reports.plan.what_if import Outcome


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet(tmp_path_factory.mktemp("light"), "light", 4000, days=4)


LINE = ("--host", "8c/64G", "--price", "2.50/h", "--rate", "4000/h", "--wait", "p95=1m", "--oom", "1%")


def test_one_line_leads_with_the_answer(light: Path) -> None:
    done = command("--data", light, *LINE)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Plan"
    assert lines[1].startswith("Give a sandbox 3.")
    assert "(bound by cores); with 1 host 95 of 100 verdicts wait no longer than 60.0 s at 4,000 an hour" in lines[1]
    assert lines[1].endswith("per 1,000 verdicts.")
    assert "What if" in lines
    assert "What would change it" in lines
    assert done.stdout.isascii()


@pytest.fixture(scope="module")
def written(light: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the same plan in every format, and what the call printed."""
    folder = tmp_path_factory.mktemp("written")
    words = [word for suffix in ("html", "md", "json", "svg") for word in ("-o", f"plan.{suffix}")]
    done = command("--data", light, *LINE, *words, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout


def test_every_format_is_written_and_says_the_same(written: tuple[Path, str]) -> None:
    folder, printed = written
    document = json.loads((folder / "plan.json").read_text())
    assert (document["kind"], document["answer"]) == ("plan", printed.splitlines()[0])
    for name in ("plan.html", "plan.md"):
        assert "wait no longer than 60.0 s" in (folder / name).read_text(encoding="utf-8")
    pictures = {path.name for path in folder.glob("plan-*.svg")}
    assert {"plan-memory_curve.svg", "plan-time_curve.svg", "plan-throughput.svg", "plan-load.svg"} <= pictures


def test_a_plan_reruns_and_says_what_moved(
    light: Path, written: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    old = str(written[0] / "plan.json")
    assert main(["plan", "--data", str(light), *LINE, "--diff", old]) == 0
    assert "No figure moved by more than 0.5 %." in capsys.readouterr().out, "the same records give the same plan"
    new = [*LINE[:4], "--rate", "20000/h", *LINE[6:]]
    assert main(["plan", "--data", str(light), *new, "--diff", old]) == 0
    said = capsys.readouterr().out
    assert "Since the earlier plan" in said
    moved = next(line for line in said.splitlines() if line.startswith("The fleet / hosts"))
    assert moved.split()[-3:] == ["1", "4", "4.000"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--oom=-1%"], "plan: --oom: limits.oom: '-1%': not a share"),
        (["--rate", "400/h"], "hosts of what size?"),
        (["--host", "64c"], "plan: --host: host.size: '64c': not a size"),
        (["--price", "2.50/h"], "a host has cores and memory"),
        (["--set", "limits.oom"], "not K=V"),
        (["--set", "limits.omo=1%"], "did you mean oom?"),
        (["nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--data", "nowhere"], "nowhere: no such file or folder"),
        (["--where", "kernal=x"], "did you mean kernel?"),
        (["--kernel", "nanodo"], "no record of kernel 'nanodo'; did you mean nanoda?"),
        (["--diff", "nowhere.json"], "--diff nowhere.json: cannot be read"),
        (["--diff", "wrong.json"], "is no plan that was written as .json"),
        (["--on", "x"], "--on: goes with --suite"),
        (["--suite", "x.md"], "give a name that ends in .toml"),
        (["--suite", "there.toml"], "is there already"),
        (["--suite", "new.toml", "--on", "nowhere"], "--on nowhere: no such file"),
        (["-o", "x.docx"], "give a folder, or a name that ends in"),
        (["--backtest", "--suite", "x.toml"], "--backtest: goes with neither"),
        (["--host", "1c/1G"], "is smaller than any"),
        (["--host", "8c/64G", "--rate", "90000/h", "--hosts", "1"], "is more than 1 hosts of 8 sandboxes can do"),
    ],
)
def test_a_wrong_call_is_one_line(
    words: list[str], said: str, light: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("wrong.json").write_text('{"schema": "x"}')
    Path("there.toml").write_text("kept")
    data = [] if "--data" in words else ["--data", str(light)]
    assert main(["plan", *words, *data]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert said in found.err
    assert found.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there.toml", "wrong.json"]
    assert Path("there.toml").read_text() == "kept"


def test_too_little_is_3_only_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(store(tmp_path, spread(12)))
    assert main(["plan", "--data", folder]) == 0
    assert "Not enough data: memory: 12 runs; p99 needs 299" in capsys.readouterr().out
    assert main(["plan", "--data", folder, "--conclusive"]) == 3


def test_a_broken_promise_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(fleet(tmp_path, "drifting", 4000, days=2))
    assert main(["plan", "--data", folder, "--backtest", "--oom", "5%", "--timeouts", "5%"]) == 1
    assert "The records drift" in capsys.readouterr().out


def test_too_little_data_shows_what_is_missing_and_no_empty_table(tmp_path: Path) -> None:
    folder = store(tmp_path / "s", spread(3))
    done = command("--data", folder, "--host", "8c/32G", "--rate", "100/h", "-o", tmp_path / "plan.json")
    tables = [one["key"] for section in json.loads((tmp_path / "plan.json").read_text())["sections"]
              for one in section["blocks"] if one["type"] == "table"]  # fmt: skip
    assert "memory_targets" in tables, "files keep all"
    done = command("--data", folder, "--host", "8c/32G", "--rate", "100/h")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("Not enough data: memory: 3 runs; p99 needs 299")
    assert lines[3] == "What would change it"
    assert lines[4].startswith("memory: measure 296 more submissions: proofcost run -- JUDGE...")
    assert "not measured" not in done.stdout
    assert "limit: not enough data: 3 runs; p99 needs 299" in lines
    assert len(lines) < 60, done.stdout


def test_a_host_down_that_cannot_be_is_no_figure_that_was_not_measured() -> None:
    from proofcost.reports.document import Missing
    from proofcost.reports.entries import entry_text
    from proofcost.reports.plan.page_fleet import hosts_of

    impossible = Outcome("one host down", None, None, None, None, None, None, "", "too much", impossible=True)
    unknown = Outcome("without x", None, None, None, None, None, None, "", "no record")
    assert hosts_of(impossible) == Missing("too much")
    assert entry_text(hosts_of(impossible), "count") == "none suffices"
    assert entry_text(hosts_of(unknown), "count") == "not known"


class TestSuite:
    @pytest.mark.parametrize("case", ["limits", "contention"])
    def test_what_is_written_is_taken_by_bench(self, case: str, light: Path, tmp_path: Path) -> None:
        """With a kernel of our own in the place of those that may not be installed here."""
        data = light if case == "contention" else store(tmp_path / "s", spread(12))
        suite = tmp_path / "wanted.toml"
        assert main(["plan", "--data", str(data), "--host", "8c/64G", "--suite", str(suite)]) == 0
        text = suite.read_text()
        assert f'name = "{case}"' in text
        dry = [sys.executable, "-m", "proofcost", "bench", str(suite), "k=/bin/true", "--dry-run"]
        done = subprocess.run(dry, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "church" in done.stdout

    def test_exports_that_were_named_are_in_it(self, tmp_path: Path) -> None:
        exports = tmp_path / 'my "exports"'
        exports.mkdir()
        (exports / "a.ndjson").write_text('{"meta":{"format":{"version":"3.1.0"}}}\n')
        suite = tmp_path / "wanted.toml"
        folder = store(tmp_path / "s", spread(12))
        words = ["plan", "--data", str(folder), "--suite", str(suite), "--on", str(exports)]
        assert main(words) == 0
        import tomllib

        assert tomllib.loads(suite.read_text())["workload"] == [{"path": str(exports)}]

    def test_families_that_bench_takes_are_taken(self, tmp_path: Path) -> None:
        import tomllib

        suite = tmp_path / "wanted.toml"
        folder = store(tmp_path / "s", spread(12))
        assert (
            main(["plan", "--data", str(folder), "--suite", str(suite), "--on", "church:300", "--on", "many:4:7"]) == 0
        )
        found = tomllib.loads(suite.read_text())["workload"]
        assert found == [{"family": "church", "n": [300]}, {"family": "many", "n": [4], "seed": 7}]

    @pytest.mark.parametrize(("spec", "said"), [("church:x", "whole numbers"), ("nofamily:3", "no family 'nofamily'")])
    def test_a_family_that_there_is_not_is_refused(self, tmp_path: Path, spec: str, said: str) -> None:
        folder = store(tmp_path / "s", spread(12))
        done = command("--data", folder, "--suite", tmp_path / "x.toml", "--on", spec)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert not (tmp_path / "x.toml").exists()

    def test_hostile_names_stay_in_their_comment(self, tmp_path: Path) -> None:
        import tomllib

        from planning import plan_of

        plan = plan_of(store(tmp_path, [row(1)]), 'name="x\\n[limits]\\nwall = 1"')
        assert tomllib.loads(suite_text(plan))["limits"] == {"wall": "60s"}


def test_help_shows_percent_signs_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    said = capsys.readouterr().out
    assert "--wait p95=10m" in said
    assert "--oom 1%" in said
