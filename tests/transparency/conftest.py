"""Programs of our own to be wrapped, and launchers to wrap them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import Wrap, compile_c, shared_tree


@pytest.fixture(scope="session")
def public() -> Iterator[Path]:
    """A folder that any user may enter; pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-transparency-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def compiled(gcc: Path, name: str, folder: Path) -> Path:
    return compile_c(gcc, Path(__file__).with_name(f"{name}.c").read_text(), folder / name, "-Wall", "-Werror")


@pytest.fixture(scope="session")
def dump(public: Path, gcc: Path) -> Path:
    """A program that writes all it finds to the file its first argument names, prints nothing and exits 7."""
    return compiled(gcc, "dump", public)


@pytest.fixture(scope="session")
def act(public: Path, gcc: Path) -> Path:
    """A program that does one thing: its source says which."""
    return compiled(gcc, "act", public)


@pytest.fixture(scope="session")
def tree() -> Path:
    return shared_tree()


@pytest.fixture
def wrap(tmp_path: Path, tree: Path) -> Wrap:
    return Wrap(tmp_path / "w", tree)
