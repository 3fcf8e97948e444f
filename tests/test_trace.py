"""The timeline's file: what is in it is what happened, and whatever goes wrong with it costs nothing else."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import PHASE, Wrap, call, make_tree, shared_tree
from hypothesis import given
from hypothesis import strategies as st
from wrapped import IN_GUEST, NOBODY, PATIENCE_S, Wrapper

from proofcost.harness import lean_os, procfs, sample, samples, trace
from proofcost.harness.trace import Trace, lives

Hostile = Callable[[str], Path]

MIB = 1 << 20
S = 10**9
STAMPS_MISSING = "no exec stamps here"
SLOW = 4 if IN_GUEST else 1


def rows_of(path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    """(header, rows) of a timeline's file, read with the standard library's own gzip."""
    lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    header = json.loads(lines[0])
    assert header["event"] == "trace"
    return header, [json.loads(line) for line in lines[1:]]


def kind(rows: list[list[Any]], letter: str) -> list[list[Any]]:
    return [row[1:] for row in rows if row[0] == letter]


def the_file(store: Path) -> Path:
    [path] = store.glob("traces/*/*")
    return path


@pytest.mark.guest
def test_what_a_command_did_stands_in_its_timeline(wrap: Wrapper, hostile: Hostile) -> None:
    assert wrap(hostile("memory"), "alone", 200, 1500 * SLOW).status == 0
    seen = wrap.last()
    assert seen.finished is not None
    header, rows = rows_of(the_file(wrap.store))
    samples = kind(rows, "s")
    told = seen.finished["trace"]
    assert told == {"samples_count": len(samples), "size_bytes": the_file(wrap.store).stat().st_size, "reason": None}
    assert (header["session"], header["invocation"]) == (seen.started["session"], seen.started["invocation"])
    columns = header["columns"]["s"]
    assert {len(row) for row in samples} == {len(columns)}
    times = [row[0] for row in samples]
    assert times == sorted(times)
    assert times[0] >= 10**8
    memory, cpu, anon = (
        [row[columns.index(name)] for row in samples] for name in ("memory_bytes", "cpu_ns", "anon_bytes")
    )
    assert 200 * MIB <= max(memory) <= seen.value("memory_peak_tree")
    assert max(anon) == seen.value("memory_anon_tree")
    assert cpu == sorted(cpu)
    assert seen.value("cpu_tree") // 20 < cpu[-1] <= seen.value("cpu_tree")
    if not IN_GUEST:  # there a look at the processes costs so much that the next one is far away
        resident = max(row[3] for _, _, *members in kind(rows, "p") for row in members)
        assert 200 * MIB <= resident < 232 * MIB
    assert [row[0] for row in kind(rows, "z")] == [rows[-1][1]]
    end = header["origin_monotonic_ns"] + rows[-1][1]
    assert seen.finished["clocks"]["monotonic_ns"] == end, "the clocks of `finished` are those of the exit"
    assert seen.faults == []


@pytest.mark.guest
def test_a_command_without_samples_has_no_file_and_says_so(wrap: Wrapper) -> None:
    seen: list[Any] = []
    while not seen or (seen[-1]["samples_count"] is not None and len(seen) < 5):  # a busy machine makes it slow
        wrap("/bin/true")
        finished = wrap.last().finished
        assert finished is not None
        seen.append(finished["trace"])
    assert seen[-1]["samples_count"] is None, seen
    assert "before the first sample" in seen[-1]["reason"]
    assert len(list((wrap.store / "traces").glob("*/*"))) == len(seen) - 1


def test_a_command_with_one_sample_has_no_file_and_says_so(wrap: Wrapper) -> None:
    wrap("/bin/sleep", "0.15")
    seen = wrap.last()
    assert seen.finished is not None
    if seen.finished["trace"]["samples_count"] is None:  # else the machine is slow
        assert "before the second sample" in seen.finished["trace"]["reason"]
        assert not (wrap.store / "traces").exists()


def test_only_its_owner_may_read_it(wrap: Wrapper) -> None:
    wrap("/bin/sleep", "0.5")
    path = the_file(wrap.store)
    assert [one.stat().st_mode & 0o777 for one in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]


def test_without_a_cgroup_memory_is_added_up_and_cpu_unknown(wrap: Wrapper, hostile: Hostile) -> None:
    mine = wrap.with_options(cgroup="off")
    assert mine(hostile("memory"), "children", 60, 900).status == 0
    header, rows = rows_of(the_file(mine.store))
    assert 240 * MIB <= max(row[2] for row in kind(rows, "s")) < 272 * MIB
    assert {row[1] for row in kind(rows, "s")} == {None}
    assert "counted in each" in header["methods"]["memory_bytes"]
    assert header["methods"]["cpu_ns"] == "no cgroup"
    assert max(row[1] for row in kind(rows, "p")) == 5


def test_processes_begin_and_end_as_the_kernel_says(wrap: Wrapper) -> None:
    began = time.monotonic_ns()
    wrap("/bin/sh", "-c", "/bin/sleep 0.4; /bin/sleep 0.2")
    seen = wrap.last()
    assert seen.finished is not None
    if seen.finished["exec_stamps"]["reason"] is not None:
        pytest.skip(STAMPS_MISSING)
    header, rows = rows_of(the_file(wrap.store))
    execs = [(name, at) for at, _, name in kind(rows, "x")]
    assert [name for name, _ in execs] == ["sh", "sleep", "sleep"]
    shell, *sleepers = [pid for _, pid, _ in kind(rows, "x")]
    born = {pid: at for at, pid, parent in kind(rows, "f") if parent == shell}
    gone = {pid: at for at, pid, _ in kind(rows, "e")}
    assert list(born) == sleepers
    for pid, least in zip(sleepers, (400_000_000, 200_000_000), strict=True):
        assert least <= gone[pid] - born[pid]
    assert born[sleepers[1]] >= gone[sleepers[0]]
    assert gone[shell] >= gone[sleepers[1]]
    first = header["origin_monotonic_ns"] + min(at for at, *_ in kind(rows, "x"))
    assert began < first < seen.finished["clocks"]["monotonic_ns"]


def test_what_a_killed_meter_wrote_can_be_read(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    source = tree / "proofcost/harness/trace.py"
    text = source.read_text()
    assert text.count("FLUSH_NS = 10_000_000_000") == 1
    source.write_text(text.replace("FLUSH_NS = 10_000_000_000", "FLUSH_NS = 300_000_000"))
    wrap = Wrap(tmp_path / "w", tree)
    meter = subprocess.Popen([os.fsdecode(word) for word in wrap.argv(PHASE, ["/bin/sleep", "60"])])
    end = time.monotonic() + PATIENCE_S
    while not list(wrap.store.glob("traces/*/*")) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.8)
    meter.kill()
    meter.wait()
    _, rows = rows_of(the_file(wrap.store))
    assert len(kind(rows, "s")) >= 4
    assert kind(rows, "z") == []
    [one] = wrap.records()
    assert "finished" not in one


@pytest.fixture
def small_disk(as_root: None, tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "disk"
    point.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "none", point], check=False).returncode:
        pytest.skip("cannot mount here")
    yield point
    subprocess.run(["umount", "-l", point], check=True)


def test_a_disk_that_fills_costs_the_timeline_alone(tmp_path: Path, small_disk: Path) -> None:
    wrap = Wrap(tmp_path / "w", shared_tree(), options={"store": str(small_disk / "store")})
    fill = f"cat /dev/zero >{small_disk}/filler 2>/dev/null; sleep 0.5; exit 42"
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", fill]), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (42, b"", b"")
    [path] = small_disk.glob("store/sessions/*/*.jsonl")
    finished = json.loads(path.read_text().splitlines()[1])
    assert finished["outcome"]["code"] == 42
    assert finished["measurements"]["wall_command"]["status"] == "measured"
    assert [fault["step"] for fault in finished["faults"]] == ["trace"]
    assert "No space left" in finished["trace"]["reason"]
    assert finished["trace"]["samples_count"] is None


def as_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def test_modes_that_are_changed_while_the_command_runs_are_put_right(wrap_as_nobody: Wrapper) -> None:
    """A confined process of the same user may chmod."""
    traces = wrap_as_nobody.store / "traces"
    for _ in range(2):
        done = wrap_as_nobody("/bin/sh", "-c", f"chmod 000 {traces}; sleep 0.7; exit 3", preexec=as_nobody)
        assert (done.status, done.stdout) == (3, b""), done
    assert traces.stat().st_mode & 0o777 == 0o700
    for one in wrap_as_nobody.records():
        assert one.finished is not None
        assert one.finished["trace"]["samples_count"] >= 2, one.finished["trace"]


def test_a_store_that_is_removed_stays_removed(tmp_path: Path) -> None:
    wrap = Wrap(tmp_path / "w", shared_tree())
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", f"rm -rf {wrap.store}; sleep 0.5; exit 3"]), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    assert not (wrap.store / "traces").exists()


def test_a_tree_without_the_timelines_code_measures_everything_else(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    (tree / "proofcost/harness/trace.py").write_text("raise RuntimeError('planted')\n")
    wrap = Wrap(tmp_path / "w", tree)
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", "sleep 0.5; exit 3"]), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    [one] = wrap.records()
    assert one["finished"]["faults"] == [{"step": "trace", "what": "RuntimeError: planted"}]
    assert one["finished"]["trace"]["reason"] == "RuntimeError: planted"


def test_a_tree_that_cannot_take_samples_measures_the_rest_and_says_so_once(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    (tree / "proofcost/harness/samples.py").write_text("raise RuntimeError('planted')\n")
    wrap = Wrap(tmp_path / "w", tree)
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", "sleep 1.2; exit 3"]), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    [one] = wrap.records()
    assert one["finished"]["faults"] == [{"step": "sample", "what": "RuntimeError: planted"}]
    assert one["finished"]["measurements"]["wall_command"]["status"] == "measured"
    assert one["finished"]["measurements"]["memory_anon_tree"]["value"] is None


# The parts.


def made(folder: Path, **methods: Any) -> Trace:
    (folder / "store").mkdir()
    return Trace(str(folder / "store/traces/s1/i1.ndjson.gz"), 0, None, methods)


def sampling(folder: Path) -> sample.Sampler:
    """Over this process, with two samples taken."""
    (folder / "store").mkdir()
    one = sample.Sampler({}, [])
    one.begin(os.getpid(), str(folder / "store/traces/s/i.ndjson.gz"))
    taker = one._begin_taking()
    assert taker is not None
    for at in (1, 2):
        taker.fast(one._start + at)
    return one


def test_without_zlib_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = sampling(tmp_path)
    monkeypatch.setitem(sys.modules, "zlib", None)
    told = one.end_trace(30, None)
    assert told["samples_count"] is None
    assert "zlib" in str(told["reason"])
    assert one.fault == ("trace", told["reason"])
    assert one.samples_count == 2


def test_a_write_that_is_cut_short_leaves_whole_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(tmp_path)
    for at in range(100):
        one.fast(at * 10**8, at, at, None, None)
    one.flush(0)
    real = os.write
    monkeypatch.setattr(lean_os, "write", lambda fd, data: real(fd, data[:7]))
    for at in range(100):
        one.fast(at * 10**8, at, at, None, None)
    with pytest.raises(OSError, match="No space left"):
        one.flush(0)
    one.close()
    _, rows = rows_of(the_file(tmp_path / "store"))
    assert len(rows) == 100


def test_a_file_that_is_there_is_never_touched(tmp_path: Path) -> None:
    one = made(tmp_path)
    path = tmp_path / "store/traces/s1/i1.ndjson.gz"
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(tmp_path / "elsewhere")
    one.fast(1, None, None, None, None)
    with pytest.raises(FileExistsError):
        one.flush(0)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    one = made(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store/traces").symlink_to(tmp_path / "elsewhere")
    one.fast(1, None, None, None, None)
    with pytest.raises(Exception, match="not a folder of ours"):
        one.flush(0)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_it_stays_bounded_and_keeps_the_samples_with_the_most_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "THIN_EVERY_BYTES", 4 << 10)
    monkeypatch.setattr(trace, "SIZE_MAX_BYTES", 24 << 10)
    one = made(tmp_path)
    chance = random.Random(1)
    peaks: dict[int, int] = {}
    for at in range(1, 100_000):
        memory = chance.randrange(1 << 40)  # as hard to compress as can be
        if at % 5000 == 0:
            memory += 1 << 41
            peaks[at] = memory
        one.fast(at * 10**8, at, memory, None, None)
    told = one.finish(10**13, None)
    size = the_file(tmp_path / "store").stat().st_size
    assert told["size_bytes"] == size
    assert size < (24 << 10) + (24 << 10), "the member that went beyond, and the last"
    assert "stopped at" in str(told["reason"])
    _, rows = rows_of(the_file(tmp_path / "store"))
    kept = {row[2] for row in kind(rows, "s")}
    last = kind(rows, "s")[-1][0]
    early = {memory for at, memory in peaks.items() if at * 10**8 <= last}
    assert early
    assert early <= kept
    said = [reason for _, reason in kind(rows, "g")]
    assert said[0].startswith("one sample in 2 is kept from here on")
    assert said[-1].startswith("stopped at")
    assert [row[0] for row in rows][-1] == "z"
    times = [row[1] for row in rows if row[0] == "s"]
    assert times == sorted(times)


def test_of_many_processes_the_largest_are_kept_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(pid: int, status: bytes | None) -> trace.Process:
        fields = [b"R", b"1", *[b"0"] * 20]
        return trace.Process(pid, b"p%d" % pid, fields, b"\nVmRSS:\t %d kB\nVmHWM: %d kB\n" % (pid, pid + 1))

    monkeypatch.setattr(trace.Process, "read", of)
    one = made(tmp_path)
    one.fast(1, None, None, None, None)
    one.fast(2, None, None, None, None)
    one.processes(5, [(pid, b"") for pid in range(1, 301)])
    one.processes(6, [(pid, b"") for pid in range(1, 301)])
    one.finish(9, None)
    _, rows = rows_of(the_file(tmp_path / "store"))
    first, again = kind(rows, "p")
    assert first[:2] == [5, 300]
    assert [row[0] for row in first[2:]] == list(range(300, 236, -1))
    assert first[2] == [300, 0, 0, 300 * 1024, 301 * 1024, None, None]
    assert again[2:] == first[2:]
    assert len(kind(rows, "n")) == 64, "a name is said once"


def test_a_process_with_a_name_that_plays_tricks_is_read_right(tmp_path: Path) -> None:
    name = b") R 1 2\n\\("
    script = f"import time\nopen('/proc/self/comm', 'wb').write({name!r})\nprint(flush=True)\ntime.sleep(60)\n"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = trace.Process.read(child.pid, procfs.status_of(child.pid))
        ticks = procfs.start_ticks(child.pid)
        child.kill()
    assert found is not None
    assert (found.name, found.parent_pid, found.threads_count) == (name, os.getpid(), 1)
    assert found.start_ticks == ticks
    assert found.resident_bytes is not None
    assert found.resident_bytes > MIB
    assert trace.Process.read(child.pid, None) is None


def test_a_fork_bomb_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = cpu = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    monkeypatch.setattr(time, "process_time_ns", lambda: cpu)
    monkeypatch.setattr(samples.Taker, "fast", lambda self, at: None)

    looked = []

    def look(self: samples.Taker, at: int) -> None:
        nonlocal cpu
        looked.append(at)
        cpu += 50_000_000  # of 512 processes

    monkeypatch.setattr(samples.Taker, "processes", look)
    one = sample.Sampler({}, [])
    one.begin(1)
    while now < 100 * S:
        now = one.due_ns()
        one.tick()
    assert len(looked) * 50_000_000 <= 100 * S / sample.PROCESSES_SHARE + 50_000_000
    assert len(looked) >= 10


def test_a_meter_that_must_spare_its_cpu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = sampling(tmp_path)
    one._cpu_budget_ns = 0
    one.tick()
    assert one.due_ns() > 1 << 60
    told = one.end_trace(time.monotonic_ns(), None)
    assert told["samples_count"] == 2
    assert "RLIMIT_CPU" in str(told["reason"])


def ring(*records: tuple[int, int, int, int, int]) -> bytes:
    """Fork (7) and exit (4) records: (kind, pid, parent, thread, time)."""
    out = b""
    for number, pid, parent, thread, at in records:
        body = b"".join(word.to_bytes(4, "little") for word in (pid, parent, thread, parent))
        body += (at + 5).to_bytes(8, "little")  # the record's own time; the sample id's is the one we asked a clock for
        body += pid.to_bytes(4, "little") + thread.to_bytes(4, "little") + at.to_bytes(8, "little")
        out += number.to_bytes(4, "little") + b"\0\0" + (len(body) + 8).to_bytes(2, "little") + body
    return out


def test_threads_are_no_processes_and_rings_are_put_in_order() -> None:
    one = ring((7, 20, 10, 20, 500), (7, 20, 20, 21, 600), (4, 20, 10, 21, 700), (4, 20, 10, 20, 900))
    other = ring((7, 30, 20, 30, 550))
    assert lives([one, other]) == [("f", 500, 20, 10), ("f", 550, 30, 20), ("e", 900, 20, 10)]


@given(st.lists(st.binary(max_size=200), max_size=3))
def test_any_bytes_of_a_ring_are_survived(rings: list[bytes]) -> None:
    for letter, _, pid, _ in lives(rings):
        assert letter in "xfe"
        assert pid >= 0


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (b"\na 5\n", b"\na ", 5),
        (b"\na:\t  77 kB\n", b"\na:", 77),
        (b"\na:\n", b"\na:", None),
        (b"\nab 5\n", b"\na ", None),
        (b"\na -5\n", b"\na ", None),
        (b"", b"\na ", None),
    ],
)
def test_numbers_of_kernel_files(text: bytes, key: bytes, value: int | None) -> None:
    assert procfs.number_after(text, key) == value


def test_every_member_is_a_gzip_of_its_own(tmp_path: Path) -> None:
    """So that a torn last one takes nothing else along."""
    one = made(tmp_path)
    for at in range(3):
        one.fast(at, 1, 2, (1, 1, 0), 3)
        one.flush(at)
    one.finish(9, None)
    data = the_file(tmp_path / "store").read_bytes()
    members = 0
    while data:
        machine = zlib.decompressobj(wbits=31)
        machine.decompress(data)
        assert machine.eof
        data = machine.unused_data
        members += 1
    assert members == 4


def test_signals_do_not_tear_it(wrap: Wrapper) -> None:
    meter = subprocess.Popen(wrap.command(["/bin/sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.1; done"]))
    time.sleep(1)
    meter.send_signal(signal.SIGTERM)
    assert meter.wait() == 9
    _, rows = rows_of(the_file(wrap.store))
    assert rows[-1][0] == "z"
