"""What the kernel's files say becomes ns and bytes; a file or a line that is not there becomes None, never 0."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import usage
from proofcost.harness.hierarchy import CPU, CPUACCT, MEMORY, UNIFIED

V2_CPU = "usage_usec 1630001\nuser_usec 1500000\nsystem_usec 130001\nnr_periods 5\nnr_throttled 1\nthrottled_usec 7\n"
V2_EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
V2_STAT = "anon 1000\nfile 900\nkernel 5\nshmem 400\n"
V1_STAT = "cache 1\nrss 2\nshmem 3\ntotal_cache 900\ntotal_rss 1000\ntotal_shmem 400\n"


def folder(where: Path, **files: str) -> str:
    where.mkdir(exist_ok=True)
    for name, text in files.items():
        (where / name.replace("__", ".")).write_text(text)
    return str(where)


def test_v2(tmp_path: Path) -> None:
    made = folder(
        tmp_path, cpu__stat=V2_CPU, memory__peak="1367343104\n", memory__swap__peak="0\n", memory__events=V2_EVENTS,
        io__stat="8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=5 wbytes=0 rios=1 wios=0\n",
    )  # fmt: skip
    seen = usage.read_usage({UNIFIED: made})
    assert (seen.cpu_ns, seen.cpu_user_ns, seen.cpu_system_ns) == (1_630_001_000, 1_500_000_000, 130_001_000)
    assert (seen.peak_bytes, seen.swap_peak_bytes) == (1_367_343_104, 0)
    assert (seen.oom_count, seen.oom_kill_count) == (3, 2)
    assert (seen.io_read_bytes, seen.io_write_bytes) == (15, 20)


def test_v2_without_controllers_has_cpu_and_nothing_else(tmp_path: Path) -> None:
    made = folder(tmp_path, cpu__stat="usage_usec 5\nuser_usec 3\nsystem_usec 2\n")
    seen = usage.read_usage({UNIFIED: made})
    assert (seen.cpu_ns, seen.cpu_user_ns, seen.cpu_system_ns) == (5000, 3000, 2000)
    for name in ("peak_bytes", "swap_peak_bytes", "oom_count", "oom_kill_count", "io_read_bytes"):
        assert getattr(seen, name) is None, name


def test_v1(tmp_path: Path) -> None:
    memory = folder(
        tmp_path / "m", memory__max_usage_in_bytes="1366859776\n", memory__failcnt="9\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )  # fmt: skip
    cpuacct = folder(
        tmp_path / "c",
        cpuacct__usage="1630000123\n",
        cpuacct__usage_user="1500000000\n",
        cpuacct__usage_sys="130000123\n",
    )
    seen = usage.read_usage({MEMORY: memory, CPUACCT: cpuacct})
    assert (seen.cpu_ns, seen.cpu_user_ns, seen.cpu_system_ns) == (1_630_000_123, 1_500_000_000, 130_000_123)
    assert (seen.peak_bytes, seen.oom_count, seen.oom_kill_count) == (1_366_859_776, 9, 1)
    assert seen.peak_method == "cgroup v1 memory.max_usage_in_bytes"


def test_hybrid_takes_cpu_from_v2_and_memory_from_v1(tmp_path: Path) -> None:
    unified = folder(tmp_path / "u", cpu__stat="usage_usec 5\nuser_usec 3\nsystem_usec 2\n")
    memory = folder(tmp_path / "m", memory__max_usage_in_bytes="77\n")
    seen = usage.read_usage({UNIFIED: unified, MEMORY: memory})
    assert (seen.cpu_ns, seen.peak_bytes) == (5000, 77)
    assert (seen.cpu_method, seen.peak_method) == ("cgroup v2 cpu.stat", "cgroup v1 memory.max_usage_in_bytes")
    assert seen.oom_kill_count is None  # a kernel whose oom_control does not count kills


def test_a_cgroup_that_is_gone_says_nothing(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    seen = usage.read_usage({UNIFIED: gone, MEMORY: gone, CPUACCT: gone})
    numbers = {name: getattr(seen, name) for name in usage.Usage.__slots__ if not name.endswith("_method")}
    assert set(numbers.values()) == {None}
    assert usage.read_usage({}).cpu_ns is None


def test_no_input_or_output_is_zero(tmp_path: Path) -> None:
    assert usage.read_usage({UNIFIED: folder(tmp_path, io__stat="")}).io_read_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 50))))
def test_input_and_output_add_up_over_devices(devices: list[tuple[int, int]]) -> None:
    lines = [f"8:{at} rbytes={r} wbytes={w} rios=1 wios=1 dbytes=9 dios=9" for at, (r, w) in enumerate(devices)]
    assert usage.sum_io("\n".join(lines).encode()) == (sum(r for r, _ in devices), sum(w for _, w in devices))


@pytest.mark.parametrize("text", [V2_STAT, V1_STAT])
def test_shared_memory_is_no_file(text: str) -> None:
    """Both versions count it into their file figure."""
    assert usage.split_of(text.encode()) == (1000, 500, 400)


@pytest.mark.parametrize("missing", ["anon", "file", "shmem"])
def test_a_split_with_a_part_missing_is_none(missing: str) -> None:
    text = "".join(line + "\n" for line in V2_STAT.splitlines() if not line.startswith(missing))
    assert usage.split_of(text.encode()) is None
    assert usage.split_of(b"") is None


def test_shared_memory_beyond_the_cache_is_not_negative() -> None:
    """The kernel's counters are read one by one and may disagree by a batch."""
    assert usage.split_of(b"anon 1\nfile 3\nshmem 4\n") == (1, 0, 4)


def nested(tmp_path: Path, **files: str) -> tuple[Path, Path, Path]:
    outer, middle, inner = tmp_path / "o", tmp_path / "o/m", tmp_path / "o/m/i"
    for level in (outer, middle, inner):
        folder(level, cgroup__procs="", **files)
    return outer, middle, inner


def test_a_limit_is_named_by_the_level_whose_own_count_grew(tmp_path: Path) -> None:
    outer, middle, inner = nested(tmp_path, memory__events__local="oom 2\noom_kill 9\n")
    assert usage.oom_counts_above({UNIFIED: str(inner)}) == {str(inner): 2, str(middle): 2, str(outer): 2}


def test_v1_names_the_level_by_failcnt(tmp_path: Path) -> None:
    outer, middle, inner = nested(tmp_path, memory__failcnt="4\n")
    assert list(usage.oom_counts_above({MEMORY: str(inner), UNIFIED: "/u"})) == [str(inner), str(middle), str(outer)]


def test_v1_tells_a_limit_that_the_kernel_does_not_count_by_its_peak(tmp_path: Path) -> None:
    """memory and swap together: hit first where both limits are equal, and not in any failcnt on Linux 6.18."""
    outer, middle, inner = nested(
        tmp_path, memory__failcnt="0\n", memory__memsw__limit_in_bytes="9223372036854771712\n",
        memory__memsw__max_usage_in_bytes="209715200\n",
    )  # fmt: skip
    assert usage.v1_limit_reached({MEMORY: str(inner)}) is None
    (outer / "memory.memsw.limit_in_bytes").write_text("209715200\n")
    assert usage.v1_limit_reached({MEMORY: str(inner)}) == str(outer)
    (middle / "memory.memsw.limit_in_bytes").write_text("209715200\n")
    assert usage.v1_limit_reached({MEMORY: str(inner)}) == str(middle)
    for level in (outer, middle):
        (level / "memory.memsw.limit_in_bytes").write_text("419430400\n")
    assert usage.v1_limit_reached({MEMORY: str(inner)}) is None
    assert usage.v1_limit_reached({UNIFIED: str(inner)}) is None


def test_a_quota_is_counted_where_it_is_set(tmp_path: Path) -> None:
    """A container's quota holds its leaves back, and the leaf's own file says 0."""
    outer, middle, inner = nested(tmp_path, cpu__stat="usage_usec 5\nnr_throttled 0\nthrottled_usec 0\n")
    (outer / "cpu.stat").write_text("usage_usec 9\nnr_throttled 3\nthrottled_usec 70\n")
    assert usage.throttled({UNIFIED: str(inner)}) == {str(inner): 0, str(middle): 0, str(outer): 70_000}
    (outer / "cpu.stat").write_text("nr_throttled 3\nthrottled_time 71\n")
    assert usage.throttled({UNIFIED: "/u", CPU: str(outer)}) == {str(outer): 71}
    assert usage.throttled({UNIFIED: str(outer)}) == {}  # v2 without the cpu controller
    assert usage.throttled({}) == {}


def test_a_level_without_a_count_is_passed_over(tmp_path: Path) -> None:
    outer, middle, inner = nested(tmp_path, memory__failcnt="4\n")
    (middle / "memory.failcnt").unlink()
    assert list(usage.oom_counts_above({MEMORY: str(inner)})) == [str(inner), str(outer)]
    assert usage.oom_counts_above({}) == {}
