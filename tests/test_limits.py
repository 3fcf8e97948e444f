"""Limits in force: the smallest on the way up, exactly, with the cgroup that sets it; unknown is never unlimited."""

import os
import resource
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import limits, record

PAGE = os.sysconf("SC_PAGE_SIZE")
V1_UNLIMITED = str((2**63 - 1) // PAGE * PAGE)
V2_CONTROLLERS = "cpuset cpu io memory hugetlb pids\n"


def cgroup(directory: Path, **files: str) -> Path:
    """A cgroup directory as the kernel shows it; `memory_max` stands for the file memory.max."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cgroup.procs").write_text("")
    for name, text in files.items():
        head, _, tail = name.partition("_")
        (directory / f"{head}.{tail.replace('swap_', 'swap.').replace('memsw_', 'memsw.')}").write_text(text)
    return directory


def v2_root(tmp_path: Path) -> Path:
    root = cgroup(tmp_path / "cgroup")
    (root / "cgroup.controllers").write_text(V2_CONTROLLERS)
    return root


def in_force(**directories: Path) -> dict[str, Any]:
    found = limits.in_force({name: str(path) for name, path in directories.items()})
    record.dumps(found)  # nothing that a record must not hold
    return dict(found)


def test_v2_takes_the_smallest_on_the_way_up(tmp_path: Path) -> None:
    root = v2_root(tmp_path)
    cgroup(root / "a.slice", memory_max="4294967296\n", memory_swap_max="max\n", cpu_max="150000 100000\n")
    cgroup(root / "a.slice/b.service", memory_max="max\n", memory_swap_max="0\n", cpu_max="max 100000\n")
    leaf = cgroup(root / "a.slice/b.service/c", memory_max="8589934592\n", memory_swap_max="max\n")
    found = in_force(unified=leaf)
    assert found["cgroup_memory_bytes"] == {"value": 4294967296, "reason": None, "scope": "/a.slice"}
    assert found["cgroup_swap_bytes"] == {"value": 0, "reason": None, "scope": "/a.slice/b.service"}
    assert found["cgroup_cpu"] == {
        "value": {"numerator": 150000, "denominator": 100000},
        "reason": None,
        "scope": "/a.slice",
    }


def test_v2_without_limits_is_unlimited_and_says_so(tmp_path: Path) -> None:
    leaf = cgroup(v2_root(tmp_path) / "a", memory_max="max\n", memory_swap_max="max\n", cpu_max="max 100000\n")
    found = in_force(unified=leaf)
    for name in ("cgroup_memory_bytes", "cgroup_swap_bytes", "cgroup_cpu"):
        assert found[name] == {"value": None, "reason": "unlimited", "scope": None}


def test_v2_leaf_without_controller_files_still_falls_under_its_ancestors(tmp_path: Path) -> None:
    root = v2_root(tmp_path)
    cgroup(root / "a", memory_max="1048576\n")
    assert in_force(unified=cgroup(root / "a/b"))["cgroup_memory_bytes"]["value"] == 1048576
    assert in_force(unified=cgroup(root / "other"))["cgroup_memory_bytes"]["reason"] == "unlimited"


def test_a_cgroup_that_is_not_made_yet_has_the_limits_of_where_it_will_be(tmp_path: Path) -> None:
    parent = cgroup(v2_root(tmp_path) / "a", memory_max="1048576\n")
    assert in_force(unified=parent / "invocation")["cgroup_memory_bytes"]["scope"] == "/a"


def test_in_a_namespace_unlimited_does_not_claim_to_have_seen_the_host(tmp_path: Path) -> None:
    """A container sees its own cgroup as the root, with limit files in it; the host's slice above is hidden."""
    root = v2_root(tmp_path)
    cgroup(root, memory_max="max\n", cpu_max="max 100000\n")
    assert in_force(unified=root)["cgroup_memory_bytes"] == {
        "value": None,
        "reason": "unlimited",
        "scope": limits.ABOVE_HIDDEN,
    }
    cgroup(root, memory_max="4096\n")
    assert in_force(unified=root)["cgroup_memory_bytes"] == {"value": 4096, "reason": None, "scope": "/"}


def test_v1_hierarchies_lead_where_they_are_given(tmp_path: Path) -> None:
    memory = cgroup(tmp_path / "memory", memory_limit_in_bytes=V1_UNLIMITED, memory_memsw_limit_in_bytes=V1_UNLIMITED)
    leaf = cgroup(memory / "x", memory_limit_in_bytes="2097152\n", memory_memsw_limit_in_bytes="4194304\n")
    cpu = cgroup(tmp_path / "cpu", cpu_shares="1024\n")
    quota = cgroup(cpu / "y", cpu_cfs_quota_us="50000\n", cpu_cfs_period_us="100000\n")
    found = in_force(unified=v2_root(tmp_path), memory=leaf, cpu=quota)
    assert found["cgroup_memory_bytes"] == {"value": 2097152, "reason": None, "scope": "/x"}
    assert found["cgroup_swap_bytes"] == {"value": 4194304, "reason": None, "scope": "/x (memory and swap together)"}
    assert found["cgroup_cpu"]["value"] == {"numerator": 50000, "denominator": 100000}
    assert found["effective_cpus"] == {"numerator": 50000, "denominator": 100000}


def test_v1_unlimited_is_null(tmp_path: Path) -> None:
    memory = cgroup(tmp_path / "memory", memory_limit_in_bytes=V1_UNLIMITED + "\n")
    cpu = cgroup(tmp_path / "cpu", cpu_cfs_quota_us="-1\n", cpu_cfs_period_us="100000\n")
    found = in_force(memory=memory, cpu=cpu)
    assert found["cgroup_memory_bytes"] == {"value": None, "reason": "unlimited", "scope": None}
    assert found["cgroup_cpu"] == {"value": None, "reason": "unlimited", "scope": None}
    assert found["cgroup_swap_bytes"]["reason"] == "no memory.memsw.limit_in_bytes on this hierarchy"


def test_v1_cpu_root_without_quota_files_is_unlimited(tmp_path: Path) -> None:
    assert in_force(cpu=cgroup(tmp_path / "cpu", cpu_shares="1024\n"))["cgroup_cpu"]["reason"] == "unlimited"


def test_without_a_cgroup_nothing_is_claimed() -> None:
    found = in_force()
    assert found["cgroup_memory_bytes"] == {"value": None, "reason": "no memory cgroup known", "scope": None}
    assert found["cgroup_cpu"]["reason"] == "no cpu cgroup known"
    assert found["effective_cpus"] == {"numerator": len(os.sched_getaffinity(0)), "denominator": 1}


def test_a_hybrid_v2_mount_without_controllers_is_not_unlimited(tmp_path: Path) -> None:
    root = cgroup(tmp_path / "unified")
    (root / "cgroup.controllers").write_text("\n")
    assert in_force(unified=root)["cgroup_memory_bytes"]["reason"] == "no memory.max on this hierarchy"
    assert in_force(unified=root)["cgroup_cpu"]["reason"] == "no cpu.max on this hierarchy"


@pytest.mark.parametrize("text", ["", "\n", "-1\n", "1e9\n", "10 MB\n", "0x10\n", "9" * 30, "\xff\xfe"])
def test_what_is_not_understood_is_a_reason(tmp_path: Path, text: str) -> None:
    root = v2_root(tmp_path)
    cgroup(root / "a", memory_max="4096\n")
    leaf = cgroup(root / "a/b", memory_max=text)
    assert in_force(unified=leaf)["cgroup_memory_bytes"] == {
        "value": 4096,
        "reason": "at most: memory.max of /a/b is not understood",
        "scope": "/a",
    }
    (root / "a/memory.max").unlink()
    assert in_force(unified=leaf)["cgroup_memory_bytes"] == {
        "value": None,
        "reason": "memory.max of /a/b is not understood",
        "scope": None,
    }


def test_what_cannot_be_read_is_a_reason(tmp_path: Path) -> None:
    leaf = cgroup(v2_root(tmp_path) / "a")
    (leaf / "memory.max").symlink_to("memory.max")
    assert in_force(unified=leaf)["cgroup_memory_bytes"]["reason"] == (
        "memory.max of /a: Too many levels of symbolic links"
    )


def test_a_scope_with_odd_bytes_is_escaped(tmp_path: Path) -> None:
    root = v2_root(tmp_path)
    leaf = cgroup(Path(os.fsdecode(os.fsencode(str(root)) + b"/a\xff\\b")), memory_max="4096\n")
    assert in_force(unified=leaf)["cgroup_memory_bytes"]["scope"] == "/a\\xff\\\\b"


def test_the_walk_up_ends_at_the_mount(tmp_path: Path) -> None:
    outside = tmp_path / "memory.max"
    outside.write_text("1\n")
    assert in_force(unified=v2_root(tmp_path))["cgroup_memory_bytes"]["value"] is None


def test_rlimits_are_those_that_the_command_inherits() -> None:
    code = (
        "import resource\n"
        "from proofcost.harness import limits\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (7, 9))\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "print(limits.in_force({})['rlimits'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = eval(done.stdout)
    assert found["cpu"] == {"soft": 7, "hard": 9}
    assert found["core"] == {"soft": 0, "hard": 0}
    assert set(found) == {"cpu", "as", "data", "stack", "fsize", "nofile", "nproc", "core", "memlock", "rss"}


def test_rlim_infinity_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (-2, resource.RLIM_INFINITY))
    assert in_force()["rlimits"]["as"] == {"soft": None, "hard": None}


def test_an_rlimit_or_affinity_that_cannot_be_had_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "getrlimit", refuse)
    monkeypatch.setattr(os, "sched_getaffinity", refuse)
    found = in_force()
    assert found["affinity_cpus_count"] is None
    assert found["affinity_reason"] == "Operation not permitted"
    assert found["effective_cpus"] is None
    assert found["rlimits"]["as"]["soft"] is None
    assert "not permitted" in found["rlimits"]["as"]["reason"]


def test_affinity_of_one_cpu_is_one_effective_cpu(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        found = in_force(unified=cgroup(v2_root(tmp_path) / "a", cpu_max="150000 100000\n"))
    finally:
        os.sched_setaffinity(0, before)
    assert found["affinity_cpus_count"] == 1
    assert found["effective_cpus"] == {"numerator": 1, "denominator": 1}


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**63 - 1)), min_size=1, max_size=6))
def test_v2_memory_is_the_minimum_of_all_levels(values: list[int | None]) -> None:
    parsed = [limits.parse_v2_bytes(b"max\n" if value is None else b"%d\n" % value) for value in values]
    assert [None if p is None else p[0] for p in parsed] == values


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 10**9), st.integers(1, 10**9))
def test_ratios_compare_exactly(a: int, b: int, c: int, d: int) -> None:
    assert limits.is_less((a, b), (c, d)) == (Fraction(a, b) < Fraction(c, d))


@given(st.integers(1, 1024), st.one_of(st.none(), st.tuples(st.integers(1, 10**8), st.integers(1000, 10**6))))
def test_effective_cpus_is_never_more_than_either(affinity: int, quota: tuple[int, int] | None) -> None:
    found = limits.effective_cpus(affinity, quota)
    assert found is not None
    bounds = [Fraction(affinity)] + ([] if quota is None else [Fraction(*quota)])
    assert Fraction(*found) == min(bounds)


@given(st.binary(max_size=40))
def test_parsers_understand_or_refuse_and_never_do_else(text: bytes) -> None:
    for parse in (
        limits.parse_v2_bytes,
        limits.parse_v2_cpu,
        lambda raw: limits.parse_v1_bytes(raw, 4096),
        lambda raw: limits.parse_v1_cpu(raw, b"100000\n"),
    ):
        try:
            found = parse(text)
        except limits.NotUnderstoodError:
            continue
        assert found is None or (found[0] >= 0 and found[1] > 0)


@pytest.mark.parametrize("page_bytes", [4096, 16384, 65536])
def test_v1_unlimited_depends_on_the_page_size(page_bytes: int) -> None:
    most = (2**63 - 1) // page_bytes * page_bytes
    assert limits.parse_v1_bytes(b"%d\n" % most, page_bytes) is None
    assert limits.parse_v1_bytes(b"9223372036854775807\n", page_bytes) is None
    assert limits.parse_v1_bytes(b"%d\n" % (most - page_bytes), page_bytes) == (most - page_bytes, 1)


def test_this_host_has_limits_that_a_record_can_hold() -> None:
    found = in_force(unified=Path("/sys/fs/cgroup"), memory=Path("/sys/fs/cgroup/memory"))
    assert found["affinity_cpus_count"] == len(os.sched_getaffinity(0))
