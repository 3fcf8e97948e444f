"""What is built holds what the checkout holds: the rooms are symlinks, which build tools treat each in its way."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from proofcost.harness import version

ROOMS = ("adapters", "bench_suites", "harness", "reports")

pytestmark = pytest.mark.slow


def is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def checkout_files(repo: Path) -> set[str]:
    """Every file of the rooms and the face, under the name it should be installed by."""
    face = {f"proofcost/{path.name}" for path in (repo / "proofcost").iterdir() if is_source(path)}
    rooms = {
        f"proofcost/{path.relative_to(repo)}" for room in ROOMS for path in (repo / room).rglob("*") if is_source(path)
    }
    return face | rooms


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.startswith("proofcost/") and not name.endswith("/")}


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def build_wheel(source: Path, into: Path) -> Path:
    # No isolation: setuptools is in the development set, and no test may need a registry.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", into, source, cwd=into.parent)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def source(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the build reads, symlinks kept, so that building leaves nothing in the checkout."""
    copy = tmp_path_factory.mktemp("source") / "proofcost"
    copy.mkdir()
    for name in ("proofcost", *ROOMS):
        shutil.copytree(repo / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (repo / name).exists():
            shutil.copy(repo / name, copy / name)
    return copy


def test_the_wheel_holds_every_file_of_every_room(repo: Path, source: Path, tmp_path: Path) -> None:
    assert wheel_files(build_wheel(source, tmp_path / "wheel")) == checkout_files(repo)


def test_a_wheel_made_from_the_sdist_is_the_same(source: Path, tmp_path: Path) -> None:
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path / 'sdist')!r})"
    run(sys.executable, "-c", build, cwd=source)
    (sdist,) = (tmp_path / "sdist").glob("*.tar.gz")
    assert wheel_files(build_wheel(sdist, tmp_path / "two")) == wheel_files(build_wheel(source, tmp_path / "one"))


def test_the_editable_install_is_this_checkout(repo: Path, tmp_path: Path) -> None:
    ask = "import proofcost.harness; print(proofcost.harness.__file__)"
    done = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).resolve() == repo / "harness/__init__.py"


def test_the_meter_and_the_distribution_agree_on_the_version(repo: Path) -> None:
    """Records name the meter's own constant: the copied meter has no distribution to ask."""
    assert tomllib.loads((repo / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == version.VERSION
