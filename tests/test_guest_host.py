"""The guest of `make guest` is what it claims to be: a host with cgroup v2 alone, and we a service's leaf in it."""

import os
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")

pytestmark = [
    pytest.mark.guest,
    pytest.mark.skipif(os.environ.get("PROOFCOST_HOST_KIND") != "v2", reason="not inside the guest of `make guest`"),
]


def cgroup_mounts() -> list[tuple[str, str]]:
    """(type, mount point) of every mounted cgroup hierarchy."""
    fields = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [(f[2], f[1]) for f in fields if f[2].startswith("cgroup")]


def test_cgroup2_is_the_only_hierarchy() -> None:
    assert cgroup_mounts() == [("cgroup2", str(CGROUPS))]


def test_memory_and_cpu_are_controllers_of_v2() -> None:
    assert {"memory", "cpu", "io", "pids"} <= set((CGROUPS / "cgroup.controllers").read_text().split())


def test_we_run_in_a_service_leaf() -> None:
    assert Path("/proc/self/cgroup").read_text() == "0::/x.slice/x.service\n"
    assert (CGROUPS / "x.slice/x.service/cgroup.subtree_control").read_text().split() == []


def test_a_leaf_cannot_hand_memory_down() -> None:
    """Why the meter goes for a sibling: a cgroup with processes in it may not enable controllers for children."""
    with pytest.raises(OSError, match="Device or resource busy"):
        (CGROUPS / "x.slice/x.service/cgroup.subtree_control").write_text("+memory")


def test_a_sibling_has_a_memory_peak() -> None:
    sibling = CGROUPS / "x.slice/test-sibling"
    sibling.mkdir()
    try:
        assert int((sibling / "memory.peak").read_text()) >= 0
    finally:
        sibling.rmdir()


def filesystem_of(path: Path) -> str:
    """The type of the filesystem that holds `path`."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return max((point, kind) for point, kind in mounts if path.is_relative_to(point))[1]


def test_the_checkout_cannot_be_changed_from_the_guest() -> None:
    """It is read-only, or, below /tmp, covered by an overlay that ends with the guest."""
    trace = Path(__file__).parent / "written-by-the-guest"
    if filesystem_of(trace.parent) != "overlay":
        with pytest.raises(OSError, match="Read-only file system"):
            trace.touch()
