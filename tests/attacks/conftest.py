"""Attackers: the meter's own user (root, and one without rights), in a folder that both can enter."""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from calling import Wrap, shared_tree

from attacks.sandboxed import NOBODY, Attacker


def made_for(uid: int, landrun: Path) -> Generator[Attacker, None, None]:
    folder = Path(tempfile.mkdtemp(prefix="proofcost-attacks-"))
    folder.chmod(0o755)
    project, wrapped = folder / "project", folder / "w"
    for path in (project, project / ".lake", wrapped):
        path.mkdir()
        path.chmod(0o755)
        if uid:
            os.chown(path, uid, uid)
    yield Attacker(Wrap(wrapped, shared_tree()), landrun, project, uid)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def attacker(landrun: Path) -> Iterator[Attacker]:
    """As whoever runs the tests."""
    yield from made_for(0, landrun)


@pytest.fixture
def unprivileged(as_root: None, landrun: Path) -> Iterator[Attacker]:
    """As a user without rights, whose store and launchers these are."""
    yield from made_for(NOBODY, landrun)


@pytest.fixture
def own_user(as_root: None, landrun: Path) -> Iterator[Attacker]:
    """As a user that nobody else on this machine is: what it may kill, or be refused a process for, is its own."""
    yield from made_for(NOBODY + os.getpid(), landrun)


@pytest.fixture(params=["root", "user"])
def either(request: pytest.FixtureRequest, landrun: Path) -> Iterator[Attacker]:
    """Each of the two in turn; only root can become the other."""
    if os.geteuid() != 0 and request.param == "root":
        pytest.skip("needs root")
    yield from made_for(NOBODY if request.param == "user" and os.geteuid() == 0 else 0, landrun)
