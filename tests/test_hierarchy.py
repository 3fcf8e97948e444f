"""Where a cgroup is made: told from /proc as hosts, containers and namespaces really show it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import hierarchy, procfs
from proofcost.harness.hierarchy import CPU, CPUACCT, MEMORY, UNIFIED, Own

HYBRID = b"""\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""
PURE_V2 = b"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
DOCKER_V1 = b"""\
800 790 0:32 /docker/0a1b /sys/fs/cgroup/memory ro,nosuid master:15 - cgroup cgroup rw,memory
801 790 0:33 /docker/0a1b /sys/fs/cgroup/cpuacct ro,nosuid master:16 - cgroup cgroup rw,cpuacct
"""


def test_a_hybrid_host() -> None:
    assert hierarchy.parse_mounts(HYBRID) == {
        CPU: ("/sys/fs/cgroup/cpu,cpuacct", "/"),
        CPUACCT: ("/sys/fs/cgroup/cpu,cpuacct", "/"),
        MEMORY: ("/sys/fs/cgroup/memory", "/"),
        UNIFIED: ("/sys/fs/cgroup/unified", "/"),
    }
    assert hierarchy.kind_of({UNIFIED: "", MEMORY: ""}) == "hybrid"


def test_a_pure_v2_host() -> None:
    assert hierarchy.parse_mounts(PURE_V2) == {UNIFIED: ("/sys/fs/cgroup", "/")}
    assert hierarchy.kind_of({UNIFIED: ""}) == "v2"


def test_a_container_shows_the_root_of_its_mount() -> None:
    assert hierarchy.parse_mounts(DOCKER_V1)[MEMORY] == ("/sys/fs/cgroup/memory", "/docker/0a1b")
    assert hierarchy.kind_of({MEMORY: ""}) == hierarchy.kind_of({CPUACCT: ""}) == "v1"


def test_no_cgroup_file_system_at_all() -> None:
    assert hierarchy.parse_mounts(b"31 23 0:28 / / rw - ext4 /dev/vda rw\n") == {}
    assert hierarchy.kind_of({}) == "off"
    assert hierarchy.parse_mounts(b"") == {}


def test_a_name_that_only_looks_like_a_cgroup_is_none() -> None:
    assert hierarchy.parse_mounts(b"31 23 0:28 / /mnt rw - cgroupfs-fuse x rw,memory\n") == {}


def octal(raw: bytes) -> bytes:
    """As the kernel writes a path into mountinfo."""
    return b"".join(b"\\%03o" % byte if byte in b" \t\n\\" else bytes([byte]) for byte in raw)


@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw))
def test_any_path_of_a_mount_comes_back(raw: bytes) -> None:
    path = b"/mnt/" + raw
    line = b"31 23 0:28 / " + octal(path) + b" rw - cgroup2 cgroup2 rw\n"
    if any(byte in line[:-1] for byte in b"\r\x0b\x0c\x1c\x1d\x1e\x85"):
        return  # the kernel writes these as they are; no cgroup is mounted on such a path
    assert hierarchy.parse_mounts(line) == {UNIFIED: (os.fsdecode(path), "/")}


def test_own_places() -> None:
    raw = b"12:cpu,cpuacct:/a\n4:memory:/a/b c\n1:name=systemd:/x\n0::/user.slice/s:1\n"
    assert hierarchy.parse_own(raw) == {CPU: "/a", CPUACCT: "/a", MEMORY: "/a/b c", UNIFIED: "/user.slice/s:1"}
    assert hierarchy.parse_own(b"") == {}


@pytest.fixture
def fake_proc(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    real = procfs.read_file
    monkeypatch.setattr(procfs, "read_file", lambda path, limit=1 << 20: files.get(path, real(path, limit)))
    return files


def found(fake_proc: dict[str, bytes], mount: Path, root: str, own: str) -> dict[str, str]:
    fake_proc["/proc/self/mountinfo"] = f"30 23 0:26 {root} {mount} rw - cgroup2 cgroup2 rw\n".encode()
    fake_proc["/proc/self/cgroup"] = f"0::{own}\n".encode()
    return hierarchy.find_own().dirs


@pytest.mark.parametrize(
    ("root", "own", "below"),
    [
        ("/", "/", ""),
        ("/", "/a/b", "a/b"),
        ("/docker/0a", "/docker/0a", ""),
        ("/docker/0a", "/docker/0a/a/b", "a/b"),
        ("/", "/..odd", "..odd"),
        ("/docker/0a", "/docker/0ab", None),  # another container whose name starts like ours
        ("/docker/0a", "/", None),
        ("/", "/../other", None),  # outside the cgroup namespace
        ("/", "/..", None),
        ("/../../x", "/", None),  # mounted before the namespace was made: shows another place
        ("/", "/gone (deleted)", None),
    ],
)
def test_own_directory_is_found_or_not_there(
    fake_proc: dict[str, bytes], tmp_path: Path, root: str, own: str, below: str | None
) -> None:
    for name in ("a/b", "..odd"):
        (tmp_path / name).mkdir(parents=True)
    tmp_path.with_name(tmp_path.name + "b").mkdir()  # where a name that only starts like the mount's root would lead
    expected = {} if below is None else {UNIFIED: str(tmp_path / below).rstrip("/")}
    assert found(fake_proc, tmp_path, root, own) == expected


def v2(tmp_path: Path, own: str, **handed_down: str) -> Own:
    (tmp_path / own).mkdir(parents=True, exist_ok=True)
    for name, controllers in handed_down.items():
        (tmp_path / name.replace("root", ".") / "cgroup.subtree_control").write_text(controllers)
    made = Own({UNIFIED: str(tmp_path / own).rstrip("/")}, {UNIFIED: str(tmp_path)})
    assert made.kind == "v2"
    return made


def test_a_sibling_where_the_parent_hands_memory_down(tmp_path: Path) -> None:
    own = v2(tmp_path, "slice/leaf", slice="cpu memory pids\n")
    assert hierarchy.base_for(own, UNIFIED) == str(tmp_path / "slice")


def test_a_child_where_the_parent_hands_no_memory_down(tmp_path: Path) -> None:
    own = v2(tmp_path, "slice/leaf", slice="cpu pids\n")
    assert hierarchy.base_for(own, UNIFIED) == str(tmp_path / "slice/leaf")


def test_a_controller_that_only_starts_like_memory_is_another(tmp_path: Path) -> None:
    own = v2(tmp_path, "slice/leaf", slice="memoryx\n")
    assert hierarchy.base_for(own, UNIFIED) == str(tmp_path / "slice/leaf")


def test_nothing_is_made_above_the_mount(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    own = Own({UNIFIED: str(tmp_path / "mount")}, {UNIFIED: str(tmp_path / "mount")})
    assert hierarchy.base_for(own, UNIFIED) == str(tmp_path / "mount")


def test_v1_and_hybrid_nest_below_our_own() -> None:
    own = Own({UNIFIED: "/u/x", MEMORY: "/m/x"}, {UNIFIED: "/u", MEMORY: "/m"})
    assert hierarchy.base_for(own, UNIFIED) == "/u/x"
    assert hierarchy.base_for(own, MEMORY) == "/m/x"


@pytest.mark.parametrize(
    ("dirs", "inside"),
    [
        ({UNIFIED: "/c/proofcost-0123456789abcdef/whole"}, {UNIFIED: "/c/proofcost-0123456789abcdef"}),
        (
            {UNIFIED: "/c/proofcost-0123456789abcdef/whole", MEMORY: "/m/other/whole"},
            {UNIFIED: "/c/proofcost-0123456789abcdef"},
        ),
        ({UNIFIED: "/c/proofcost-0123456789abcdef"}, {}),
        ({UNIFIED: "/c/proofcost-0123456789abcdef/whole/deeper"}, {}),
        ({UNIFIED: "/c/somebody/whole"}, {}),
        ({UNIFIED: "/c/proofcost-judge.service/whole"}, {}),
    ],
)
def test_a_session_is_known_by_where_we_live(dirs: dict[str, str], inside: dict[str, str]) -> None:
    assert hierarchy.session_dirs(Own(dirs, dirs)) == inside


def test_cpuacct_is_wanted_only_without_v2() -> None:
    everything = {UNIFIED: "u", MEMORY: "m", CPUACCT: "c", CPU: "p"}
    assert hierarchy.wanted(Own(everything, everything)) == [UNIFIED, MEMORY]
    del everything[UNIFIED]
    assert hierarchy.wanted(Own(everything, everything)) == [MEMORY, CPUACCT]
