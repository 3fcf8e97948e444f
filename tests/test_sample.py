"""Memory and disk: peaks of whole trees, what is shared counted once, what was freed again still seen."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wrapped import IN_GUEST, NOBODY, Wrapper

from proofcost.harness import procfs, sample, samples

Hostile = Callable[[str], Path]

MIB = 1 << 20
OVERHEAD = 24 * MIB
"""Page tables, kernel stacks, the program's own pages."""
HOLD_MS = 3000 if IN_GUEST else 450


@pytest.mark.guest
def test_the_peak_of_one_process(wrap: Wrapper, hostile: Hostile) -> None:
    assert wrap(hostile("memory"), "alone", 300, HOLD_MS).status == 0
    seen = wrap.last()
    assert 300 * MIB <= seen.value("memory_peak_tree") < 300 * MIB + OVERHEAD
    assert seen.status("memory_peak_tree") == "measured"
    assert 300 * MIB <= seen.value("memory_peak_process") < 300 * MIB + OVERHEAD
    assert 295 * MIB <= seen.value("memory_anon_tree") < 300 * MIB + OVERHEAD
    assert seen.value("memory_shmem_tree") < MIB


@pytest.mark.guest
def test_children_at_the_same_time_add_up(wrap: Wrapper, hostile: Hostile) -> None:
    assert wrap(hostile("memory"), "children", 100, HOLD_MS).status == 0
    seen = wrap.last()
    assert 400 * MIB <= seen.value("memory_peak_tree") < 400 * MIB + OVERHEAD
    assert 100 * MIB <= seen.value("memory_peak_process") < 100 * MIB + OVERHEAD


@pytest.mark.guest
def test_what_four_share_is_counted_once_and_is_neither_file_nor_anonymous(wrap: Wrapper, hostile: Hostile) -> None:
    assert wrap(hostile("memory"), "shared", 300, HOLD_MS).status == 0
    seen = wrap.last()
    assert 300 * MIB <= seen.value("memory_peak_tree") < 300 * MIB + OVERHEAD
    assert 295 * MIB <= seen.value("memory_shmem_tree") < 300 * MIB + OVERHEAD
    assert seen.value("memory_file_tree") < OVERHEAD
    assert seen.value("memory_anon_tree") < OVERHEAD


def test_children_one_after_the_other_do_not_add_up(wrap: Wrapper, hostile: Hostile) -> None:
    assert wrap(hostile("memory"), "series", 50, 0).status == 0
    assert 50 * MIB <= wrap.last().value("memory_peak_tree") < 50 * MIB + OVERHEAD


@pytest.mark.guest
def test_a_large_run_does_not_enlarge_the_next_small_one(wrap: Wrapper, hostile: Hostile) -> None:
    wrap(hostile("memory"), "alone", 200, 0)
    wrap("/bin/true")
    large, small = wrap.records()
    assert large.value("memory_peak_tree") >= 200 * MIB
    assert small.value("memory_peak_tree") < 8 * MIB
    assert small.figures["memory_peak_process"]["value"] is None


@pytest.mark.guest
def test_what_our_interpreter_hides_has_no_number(wrap: Wrapper) -> None:
    """exec folds the forked interpreter's peak into ru_maxrss: of /bin/true only an upper bound is known."""
    wrap("/bin/true")
    figure = wrap.last().figures["memory_peak_process"]
    assert (figure["value"], figure["status"]) == (None, "unavailable")
    assert "at most our own" in figure["reason"]


def test_a_large_meter_does_not_inflate_what_it_measures(wrap: Wrapper) -> None:
    """A caller as large as 300 MiB, and a meter that holds as much itself."""
    wrap("/bin/true")
    launcher = wrap.launcher()
    fat = wrap.folder / "fat"
    text = launcher.read_text()
    assert text.count("        launch(entries)\n") == 1
    fat.write_text(
        text.replace("        launch(entries)\n", "        sys.held = bytearray(b'x') * (300 << 20); launch(entries)\n")
    )
    fat.chmod(0o755)
    subprocess.run([fat, "--phase", "build", "--", "/bin/true"], check=True)
    thin, inflated = wrap.records()
    assert inflated.finished is not None
    assert inflated.finished["meter_cost"]["memory_peak_bytes"] > 300 * MIB  # it really held that much
    assert inflated.figures["memory_peak_process"]["value"] is None
    assert inflated.value("memory_peak_tree") < thin.value("memory_peak_tree") + 4 * MIB


def test_a_fat_caller_is_not_measured(wrap: Wrapper) -> None:
    held = bytearray(b"x") * (300 * MIB)
    wrap("/bin/true")
    assert len(held) == 300 * MIB
    assert wrap.last().value("memory_peak_tree") < 8 * MIB


@pytest.mark.guest
def test_page_cache_is_in_the_peak_and_the_split_tells_it_apart(
    wrap: Wrapper, hostile: Hostile, tmp_path: Path
) -> None:
    """On a real file system; a tmpfs file is shared memory, which is right too."""
    file = tmp_path / "file"
    assert wrap(hostile("memory"), "cache", 120, HOLD_MS, file).status == 0
    seen = wrap.last()
    assert seen.value("memory_peak_tree") >= 120 * MIB
    assert seen.value("memory_anon_tree") < OVERHEAD
    assert seen.value("memory_file_tree") + seen.value("memory_shmem_tree") >= 110 * MIB
    assert {seen.status(f"memory_{part}_tree") for part in ("anon", "file", "shmem")} == {"sampled"}


def test_without_a_cgroup_the_peak_is_a_sum_of_samples_and_says_so(wrap: Wrapper, hostile: Hostile) -> None:
    mine = wrap.with_options(cgroup="off")
    assert mine(hostile("memory"), "children", 60, HOLD_MS).status == 0
    seen = mine.last()
    assert 240 * MIB <= seen.value("memory_peak_tree") < 240 * MIB + OVERHEAD
    assert seen.status("memory_peak_tree") == "sampled"
    assert "counted in each" in seen.figures["memory_peak_tree"]["method"]
    for part in ("anon", "file", "shmem"):
        assert seen.figures[f"memory_{part}_tree"]["value"] is None
        assert seen.figures[f"memory_{part}_tree"]["reason"] == "--cgroup off"


def test_a_command_too_short_to_sample_has_no_sampled_figures(wrap: Wrapper) -> None:
    mine = wrap.with_options(cgroup="off")
    mine("/bin/true")
    figure = mine.last().figures["memory_peak_tree"]
    assert figure["value"] is None
    assert "before the first sample" in figure["reason"]


def test_an_unwaited_giant_is_the_largest_process(wrap: Wrapper, hostile: Hostile) -> None:
    """ru_maxrss knows only who was waited for."""
    script = 'trap "" CHLD; setsid "$0" alone 150 1500 & sleep 1.3'
    assert wrap("/bin/sh", "-c", script, hostile("memory")).status == 0
    seen = wrap.last()
    assert 150 * MIB <= seen.value("memory_peak_process") < 150 * MIB + OVERHEAD
    assert seen.status("memory_peak_process") == "sampled"


@pytest.fixture
def own_disk(as_root: None, tmp_path: Path) -> Iterator[Path]:
    """A small file system of one's own."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", mounted], check=False, capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr.decode()}")
    yield mounted
    subprocess.run(["umount", "-l", mounted], check=True)


FILL = """
import os, sys, time
with open(sys.argv[1], 'wb') as file:
    file.write(bytes({mib} << 20))
    file.flush()
    time.sleep(.5)
os.unlink(sys.argv[1])
sys.exit({code})
"""


def fill(wrap: Wrapper, disk: Path, mib: int, code: int = 0) -> int:
    """Write and delete again, in something that looks like a landrun with `disk` writable."""
    fake = wrap.folder / "landrun"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    program = FILL.format(mib=mib, code=code)
    return wrap(fake, "--rw", f"/dev,{disk}", "--", "/usr/bin/python3", "-c", program, disk / "file").status


def test_what_was_written_and_deleted_again_is_seen(wrap: Wrapper, own_disk: Path) -> None:
    assert fill(wrap, own_disk, 50) == 0
    seen = wrap.last()
    assert 50 * MIB <= seen.value("disk_peak_writable") < 52 * MIB
    assert 68 * MIB <= seen.value("disk_free_min") <= 70 * MIB
    assert seen.finished is not None
    (disk,) = seen.finished["filesystems"]
    assert disk["path"] == str(own_disk)
    assert disk["free_start_bytes"] == 120 * MIB
    assert seen.outcome["cause"] == "completed"


def test_a_full_disk_is_why_a_command_failed(wrap: Wrapper, own_disk: Path) -> None:
    status = fill(wrap, own_disk, 200)
    assert status == 1  # Python's own word for ENOSPC
    seen = wrap.last()
    assert seen.outcome["cause"] == "disk_full", seen.outcome
    assert "bytes were free" in seen.outcome["evidence"][-1]
    assert (seen.outcome["kind"], seen.outcome["code"]) == ("exited", 1)


def test_free_space_is_what_the_command_could_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for root is no help to anybody else: a disk that is full for a user is full."""
    info = os.statvfs("/")
    reserved = os.statvfs_result((4096, 4096, 1000, 50, 0, 10, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: reserved)
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert sample.free_bytes("/") == 0
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert sample.free_bytes("/") == 50 * 4096
    assert info.f_frsize > 0


def test_paths_of_one_file_system_are_one_disk_and_dev_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    disks = sample.Sampler(
        {}, ["/dev", "/dev/shm", str(tmp_path), str(tmp_path / "a"), str(tmp_path / "missing")]
    ).disks
    assert [disk.path for disk in disks] == [str(tmp_path)]


def test_samples_come_ten_times_a_second_and_coarser_on_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    monkeypatch.setattr(time, "process_time_ns", lambda: 0)
    one = sample.Sampler({}, [])
    monkeypatch.setattr(procfs, "tree_of", lambda pid, limit: [])
    one.begin(1)
    taken = []
    while now < 1000 * 10**9:
        now = one.due_ns()
        before = one.samples_count
        one.tick()
        if one.samples_count > before:
            taken.append(now)
    assert taken[0] == 10**8
    assert len([at for at in taken if at <= 600 * 10**9]) == 6000
    assert len([at for at in taken if at > 601 * 10**9]) == pytest.approx(399 * 2, abs=3)


V1 = {
    "unified/cpu.stat": "usage_usec 7\nuser_usec 5\n",
    "memory/memory.usage_in_bytes": "4096\n",
    "memory/memory.stat": "cache 1\nrss 1\nshmem 0\ntotal_cache 300\ntotal_rss 1000\ntotal_shmem 100\n",
}
V2 = {
    "unified/cpu.stat": "usage_usec 7\nuser_usec 5\n",
    "unified/memory.current": "4096\n",
    "unified/memory.stat": "anon 1000\nfile 300\nkernel 9\nshmem 100\n",
}


@pytest.mark.parametrize(
    ("files", "cpu_ns", "memory", "split"),
    [
        (V2, 7000, 4096, (1000, 200, 100)),
        (V1, 7000, 4096, (1000, 200, 100)),
        ({"cpuacct/cpuacct.usage": "8123\n"}, 8123, None, None),
        ({"unified/cpu.stat": "usage_usec 7\n"}, 7000, None, None),
        ({}, None, None, None),
    ],
)
def test_the_cgroups_files_are_read_in_ns_and_bytes(
    tmp_path: Path, files: dict[str, str], cpu_ns: int | None, memory: int | None, split: object
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    one = samples.Files({path.name: str(path) for path in tmp_path.iterdir()})
    for _ in range(2):  # again: they are held open
        assert one.read() == (cpu_ns, memory, split)
    one.close()


def test_the_largest_sample_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([(5, 0, 0), (1, 9, 0), (6, 0, 1), None, (9, 0, 0)])
    monkeypatch.setattr(samples.Files, "read", lambda files: (None, None, next(seen)))
    monkeypatch.setattr(procfs, "tree_of", lambda pid, limit: [])
    one = sample.Sampler({}, [])
    taker = samples.Taker(one, {}, 1, 0, None)
    for at in range(5):
        taker.fast(at)
    assert (one.split, one.samples_count) == ((1, 9, 0), 5)


def test_a_disk_that_vanishes_costs_a_sample_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "writable"
    folder.mkdir()
    one = sample.Sampler({}, [str(folder)])
    free = one.disks[0].free_min_bytes
    folder.rmdir()
    one.last()
    assert one.disks[0].free_min_bytes == free
