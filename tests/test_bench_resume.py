"""Interrupted at any point, a bench loses nothing, leaves nothing running, and goes on exactly where it was."""

import os
import pty
import random
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benching import ACCEPT, PATIENCE_S, PROOFCOST, Bench, export, kernel, script, turn
from wrapped import Recorded

WORDS = ("a=./a", "b=./b", "--on", "exports", "-r", 4)
TURNS = 2 * 2 * 5


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    for name in ("a", "b"):
        script(tmp_path / name, "#!/bin/sh\nsleep 0.1\n")
    export(tmp_path / "exports" / "one.ndjson", "church:8")
    export(tmp_path / "exports" / "two.ndjson", "church:12")
    return Bench(tmp_path)


@contextmanager
def started(bench: Bench, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A running bench, in a session of its own; killed at the end of the test if it still runs."""
    process = subprocess.Popen(
        bench.argv(*words),
        cwd=bench.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def files(bench: Bench) -> list[Path]:
    return [path for path in bench.store.glob("sessions/*/*.jsonl") if not path.name.endswith(".settled.jsonl")]


def wait_for_records(bench: Bench, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while len(files(bench)) < count:
        assert time.monotonic() < end, f"{len(files(bench))} records of {count}"
        time.sleep(0.005)


def is_done(record: Recorded) -> bool:
    return record.finished is not None and record.outcome["cause"] != "terminated_by_caller"


def done_turns(bench: Bench) -> list[int]:
    return sorted(turn(record) for record in bench.records() if is_done(record))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_then_resumed_each_turn_is_done_once(bench: Bench, number: signal.Signals) -> None:
    with started(bench, *WORDS) as process:
        wait_for_records(bench, 7)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    assert "interrupted; what is done is kept" in err
    assert "--resume goes on" in err
    assert "accepted" in out, "what is known is shown"
    before = done_turns(bench)
    assert 5 <= len(before) < TURNS
    assert bench.left_cgroups() == []
    again = bench(*WORDS, "--resume")
    assert (again.status, again.stderr) == (0, again.stderr)
    assert done_turns(bench) == list(range(TURNS))
    records = bench.records()
    assert len({record.started["session"] for record in records}) == 1
    parts = {turn(record): record.started["bench"]["part"] for record in records if is_done(record)}
    assert {part for at, part in parts.items() if at in before} == {1}
    assert {part for at, part in parts.items() if at not in before} == {2}


def test_a_resume_of_what_is_complete_runs_nothing_and_shows_the_table(bench: Bench) -> None:
    first = bench(*WORDS)
    count = len(files(bench))
    again = bench(*WORDS, "--resume")
    assert (again.status, again.stdout) == (first.status, first.stdout)
    assert len(files(bench)) == count == TURNS


def test_the_kernel_that_was_interrupted_is_dead_and_recorded_so(bench: Bench) -> None:
    script(
        bench.folder / "a",
        f"#!/bin/sh\ntrap '' TERM INT HUP\n(sleep 3; touch {bench.folder}/alive) &\nwait; sleep 60\n",
    )
    with started(bench, *WORDS) as process:
        wait_for_records(bench, 1)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    (record,) = bench.records()
    assert record.outcome["cause"] == "terminated_by_caller"
    assert record.finished is not None
    if record.started["cgroup"]["paths"]:
        time.sleep(3)
        assert not (bench.folder / "alive").exists()


def test_a_runner_that_is_killed_takes_its_kernel_along_and_loses_one_turn(bench: Bench) -> None:
    with started(bench, *WORDS) as process:
        wait_for_records(bench, 6)
        process.kill()
        process.communicate()
    time.sleep(0.5)
    before = done_turns(bench)
    assert 5 <= len(before) <= 7
    assert bench(*WORDS, "--resume").status == 0
    assert done_turns(bench) == list(range(TURNS))


def test_interrupted_again_and_again_at_any_moment(bench: Bench) -> None:
    """From the first instant on: whatever moment a signal hits, the next --resume goes on."""
    chance = random.Random(3)
    for _ in range(6):
        before = len(files(bench))
        resume = ["--resume"] if before else []
        with started(bench, *WORDS, *resume) as process:
            time.sleep(chance.uniform(0.1, 1.6))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        if "KeyboardInterrupt" in err:  # Python itself was only just starting
            assert len(files(bench)) == before, err
            continue
        assert process.returncode in (130, 0), err
        assert "Traceback" not in err
    last = bench(*WORDS, *(["--resume"] if files(bench) else []))
    assert last.status == 0, last.stderr
    done = [turn(record) for record in bench.records() if is_done(record)]
    assert sorted(set(done)) == list(range(TURNS))
    assert len(done) == len(set(done)), "no turn was run twice"
    assert bench.left_cgroups() == []


def test_ctrl_c_on_a_terminal_reaches_the_kernel_only_through_us(bench: Bench) -> None:
    script(bench.folder / "a", f"#!/bin/sh\ntrap 'echo INT >> {bench.folder}/heard' INT\nsleep 0.3\nsleep 0.3\n")
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(bench.folder)
        argv = bench.argv(*WORDS)
        os.execve(argv[0], argv, {**os.environ, "TERM": "xterm", "COLUMNS": "200"})
    wait_for_records(bench, 2)
    os.write(fd, b"\x03")
    seen = b""
    while select.select([fd], [], [], 60)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"interrupted" in seen
    assert b"at most" in seen, "the remaining time and its bound were shown"
    assert not (bench.folder / "heard").exists()


def test_what_was_moved_into_parquet_is_done_all_the_same(bench: Bench) -> None:
    with started(bench, *WORDS) as process:
        wait_for_records(bench, 7)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    before = done_turns(bench)
    for doing in ("compact", "prune"):
        argv = [PROOFCOST, "store", doing, str(bench.store), "--min-age", "0s"]
        subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_S)
    assert files(bench) == []
    again = bench(*WORDS, "--resume")
    assert again.status == 0, again.stderr
    assert done_turns(bench) == [at for at in range(TURNS) if at not in before]
    assert {record.started["bench"]["part"] for record in bench.records()} == {2}
    assert again.stdout.count("accepted") == 4, "the table has them too"


def test_two_runners_do_not_work_on_one_session(bench: Bench) -> None:
    script(bench.folder / "a", "#!/bin/sh\nexec sleep 300\n")
    with started(bench, *WORDS) as process:
        wait_for_records(bench, 1)
        second = bench(*WORDS, "--resume")
        assert second.status == 2
        assert "is being worked on by another bench" in second.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    assert len(files(bench)) == 1


def test_a_kernel_that_has_changed_is_another_series(bench: Bench) -> None:
    with started(bench, *WORDS) as process:
        wait_for_records(bench, 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    script(bench.folder / "b", ACCEPT)
    changed = bench(*WORDS, "--resume")
    assert changed.status == 2
    assert "was of another plan: a kernel's file, an export, or an option has changed" in changed.stderr


def test_a_saved_series_is_resumed_by_its_name(bench: Bench) -> None:
    assert bench(*WORDS, "--save", "one").status == 0
    with started(bench, *WORDS, "--save", "two") as process:
        wait_for_records(bench, TURNS + 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert bench(*WORDS, "--save", "two", "--resume").status == 0
    by_name: dict[str, list[int]] = {}
    for record in bench.records():
        if is_done(record):
            by_name.setdefault(record.started["labels"]["saved"], []).append(turn(record))
    assert {name: sorted(turns) for name, turns in by_name.items()} == {
        "one": list(range(TURNS)),
        "two": list(range(TURNS)),
    }


def test_shards_part_the_plan_whole_workloads_at_a_time(bench: Bench) -> None:
    export(bench.folder / "exports" / "three.ndjson", "church:9")
    shards = [bench(*WORDS, "--shard", f"{number}/2") for number in (1, 2)]
    assert [shard.status for shard in shards] == [0, 0]
    records = bench.records()
    seen: dict[str, set[str]] = {}
    for record in records:
        planned = record.started["bench"]
        seen.setdefault(planned["shard"], set()).add(planned["workload"]["name"])
    assert seen == {"1/2": {"one", "two"}, "2/2": {"three"}}
    assert sorted(map(turn, records)) == list(range(30)), "together they are the plan, and nothing is there twice"
    assert len({record.started["bench"]["plan_sha256"] for record in records}) == 1
    empty = bench(*WORDS, "--shard", "4/4")
    assert empty.status == 0
    assert "holds nothing" in empty.stderr


def test_a_shard_is_resumed_as_that_shard(bench: Bench) -> None:
    with started(bench, *WORDS, "--shard", "1/2") as process:
        wait_for_records(bench, 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert bench(*WORDS, "--resume", "--shard", "2/2").status == 2
    assert bench(*WORDS, "--resume", "--shard", "1/2").status == 0
    assert {record.started["bench"]["workload"]["name"] for record in bench.records()} == {"one"}
    assert [kernel(record) for record in bench.records() if is_done(record)].count("a") == 5
