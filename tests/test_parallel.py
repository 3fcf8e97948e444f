"""Many meters at once, very many one after the other, and meters that are killed: nothing lost, torn or left behind."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from wrapped import Wrapper

from proofcost.harness import reading

METERS = 8
KILLED = 50


def processes_of(wrap: Wrapper) -> list[str]:
    """Command lines of whatever still runs from this test's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(wrap.folder) in line:
            found.append(line.decode("utf-8", "replace"))
    return found


def all_is_there(wrap: Wrapper, count: int) -> None:
    """`count` calls, each complete and once, and nothing else."""
    store = reading.read_store(wrap.store)
    assert store.problems == ()
    assert Counter(record.state for record in store.records) == {"complete": count}
    assert len({record.invocation for record in store.records}) == count
    assert wrap.marks() == []
    assert wrap.left_cgroups() == []
    assert processes_of(wrap) == []
    assert not [path for path in wrap.store.rglob("*") if path.name.endswith(".tmp")]


def together(wrap: Wrapper, each: int) -> None:
    command = wrap.command(["/bin/true"])

    def calls(_: int) -> list[int]:
        return [subprocess.run(command, check=False, cwd=wrap.folder).returncode for _ in range(each)]

    with ThreadPoolExecutor(METERS) as pool:
        statuses = [status for part in pool.map(calls, range(METERS)) for status in part]
    assert statuses == [0] * (METERS * each)
    all_is_there(wrap, METERS * each)


def test_eight_meters_at_once_lose_nothing(wrap: Wrapper) -> None:
    together(wrap, 25)


@pytest.mark.slow
def test_eight_meters_with_two_hundred_records_each_lose_nothing(wrap: Wrapper) -> None:
    together(wrap, 200)


def one_after_the_other(wrap: Wrapper, count: int) -> None:
    command = wrap.command(["/bin/sh", "-c", "exit 3"])
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(count):
        assert subprocess.run(command, check=False, cwd=wrap.folder, timeout=60).returncode == 3
    assert len(os.listdir("/proc/self/fd")) == descriptors
    all_is_there(wrap, count)


def test_two_hundred_calls_leave_nothing_behind(wrap: Wrapper) -> None:
    one_after_the_other(wrap, 200)


@pytest.mark.long
def test_ten_thousand_calls_neither_hang_nor_leave_anything_behind(wrap: Wrapper) -> None:
    one_after_the_other(wrap, 10_000)


def kill_one(wrap: Wrapper, at: int, after_s: float) -> tuple[int, bool]:
    """Start a call, kill its meter after a while; the status that its caller sees, and whether its command got done."""
    done = wrap.folder / f"done-{at}"
    meter = subprocess.Popen(
        wrap.command(["/bin/sh", "-c", 'sleep 0.01; echo $$ >"$1"', "sh", done]),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=wrap.folder,
    )  # fmt: skip
    time.sleep(after_s)
    meter.send_signal(signal.SIGKILL)
    meter.communicate(timeout=60)
    return meter.returncode, done.exists()


def test_killed_meters_leave_files_that_read_as_what_they_are(wrap: Wrapper) -> None:
    chance = random.Random(20240607)
    wrap("/bin/true")
    ends = [kill_one(wrap, at, chance.uniform(0.0, 0.09)) for at in range(KILLED)]
    assert {status for status, _ in ends} <= {0, -signal.SIGKILL}
    assert len({status for status, _ in ends}) == 2 or all(status for status, _ in ends)
    store = reading.read_store(wrap.store)
    states = Counter(record.state for record in store.records)
    assert set(states) <= {"complete", "incomplete"}, states
    assert [problem for problem in store.problems if "torn" in str(problem.kind).lower()] == []
    for recorded in wrap.records()[1:]:
        if recorded.finished is None:
            continue
        # Killed after its command had ended: then the command's own end is what stands there.
        outcome = recorded.outcome
        done = Path(recorded.started["argv"]["head"][-1])
        assert done.exists() or outcome["cause"] != "completed", outcome
        assert (outcome["kind"], outcome["code"]) == ("exited", 0)
    # The commands died with their meters; the next meter that passes takes their cgroups away.
    end = time.monotonic() + 30
    while wrap.left_cgroups() and time.monotonic() < end:
        wrap("/bin/true")
    assert wrap.left_cgroups() == []
    assert processes_of(wrap) == []


def test_a_killed_meter_takes_its_command_along_and_says_nothing_of_success(wrap: Wrapper) -> None:
    """What the caller kills is meant for the command; the record stays as a start without an end."""
    pid = wrap.folder / "pid"
    meter = subprocess.Popen(wrap.command(["/bin/sh", "-c", f"echo $$ >{pid}; exec sleep 300"]), cwd=wrap.folder)
    while not pid.exists() or not pid.read_text().endswith("\n"):
        time.sleep(0.01)
    command = int(pid.read_text())
    meter.send_signal(signal.SIGKILL)
    assert meter.wait(60) == -signal.SIGKILL
    end = time.monotonic() + 10
    while Path(f"/proc/{command}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{command}").exists()
    (record,) = reading.read_store(wrap.store).records
    assert record.state == "incomplete"
    assert record.outcome is None
    assert record.measurements() == {}
    wrap("/bin/true")
    settled = wrap.records()[0].settled
    if settled is not None:  # where there was a cgroup, what it held is known after all
        assert settled["measurements"]["cpu_tree"]["value"] > 0
    assert wrap.left_cgroups() == []
