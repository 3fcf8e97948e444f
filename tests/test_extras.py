"""What each install can do: the base one works without a single package of an extra, and what is missing is named."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from proofcost import cli

ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "tests" / "fixtures" / "records" / "measured-0.1.0"
BENCH = ("numpy", "orjson", "perfetto", "pytest_benchmark", "yaml", "zstandard")
REPORTS = ("duckdb", "ijson", "jinja2", "matplotlib", "pyarrow", "scipy")
WITHOUT = """
import sys
missing = set(sys.argv[1].split(","))
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
sys.argv = ["proofcost", *sys.argv[2:]]
from proofcost.cli import main
sys.exit(main())
"""


def without(modules: tuple[str, ...], *words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """`proofcost WORDS` where these modules are not installed."""
    command = [sys.executable, "-c", WITHOUT, ",".join(modules), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def test_these_are_the_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules = {"pytest-benchmark": "pytest_benchmark", "pyyaml": "yaml"}
    for extra, known in (("bench", BENCH), ("reports", REPORTS)):
        names = [word.partition(">")[0] for word in extras[extra] if not word.startswith("proofcost[")]
        assert sorted(modules.get(name, name) for name in names) == sorted(known)


def test_the_list_of_commands_says_what_their_modules_say() -> None:
    assert cli.build_parser(listed=True).format_help() == cli.build_parser().format_help()


@pytest.mark.parametrize("words", [[], *([name] for name in cli._COMMANDS)], ids=lambda words: " ".join(words) or "all")
def test_help_needs_the_base_install_only(words: list[str], tmp_path: Path) -> None:
    done = without((*BENCH, *REPORTS), *words, "--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: proofcost" in done.stdout


@pytest.mark.parametrize(
    ("words", "modules", "extra"),
    [
        (["import", "x.json"], REPORTS, "reports"),
        (["import", "--formats"], REPORTS, "reports"),
        (["export", "--to", "csv", "STORE"], REPORTS, "reports"),
        (["compare", "a", "b", "--data", "STORE"], REPORTS, "reports"),
        (["report", "kernels", "STORE"], REPORTS, "reports"),
        (["store", "compact", "STORE"], REPORTS, "reports"),
        (["store", "synth", "NEW"], REPORTS, "reports"),
        (["plan", "--data", "STORE"], REPORTS, "reports"),
        (["store", "sql", "SELECT 1", "--data", "STORE"], REPORTS, "reports"),
        (["bench", "a=/bin/true", "--on", "nat-literals:3"], BENCH, "bench"),
        (["show", "last", "--store", "STORE", "-o", "x.perfetto-trace"], BENCH, "bench"),
        (["show", "last", "--store", "STORE", "-o", "x.svg"], REPORTS, "reports"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else None,
)
def test_what_is_missing_is_named(words: list[str], modules: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    shutil.copytree(MEASURED, tmp_path / "store")
    words = [str(tmp_path / "store") if word == "STORE" else word for word in words]
    done = without(modules, *words, folder=tmp_path)
    assert done.returncode == 2
    assert f"pip install '.[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_reading_needs_the_base_install_only(tmp_path: Path) -> None:
    shutil.copytree(MEASURED, tmp_path / "store")
    for words in (["log"], ["show", "last"], ["show", "last", "--json"], ["export", "--to", "leaneval"]):
        named = [tmp_path / "store"] if words[0] == "export" else ["--store", tmp_path / "store"]
        done = without((*BENCH, *REPORTS), *words, *named, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_a_bench_needs_its_own_extra_only(tmp_path: Path) -> None:
    done = without(
        REPORTS, "bench", "a=/bin/true", "--on", "nat-literals:3", "-r", "1", "--store", tmp_path / "s", folder=tmp_path
    )
    assert "nat-literals" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
