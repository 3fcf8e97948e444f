"""Kernels that hang, eat memory, write without end, leave processes behind, crash, or kill their meter.

Every one has its outcome in its own record, with evidence, and never stops the rest.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from benching import ACCEPT, PATIENCE_S, Bench, export, kernel, script
from wrapped import IN_GUEST, Recorded, own_cgroups

from proofcost.bench_suites import conduct, registry, series
from proofcost.bench_suites.kernel import Kernel, found, from_command
from proofcost.bench_suites.series import Settings
from proofcost.bench_suites.work import Work
from proofcost.harness import cgroup, hierarchy

MIB = 1 << 20


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    script(tmp_path / "yes", ACCEPT)
    export(tmp_path / "one.ndjson")
    return Bench(tmp_path)


@pytest.fixture
def can_limit(as_root: None) -> None:
    if hierarchy.MEMORY not in own_cgroups() and not IN_GUEST:
        pytest.skip("no memory controller to limit with here")


def beside_a_good_one(bench: Bench, text: str, *options: object) -> tuple[Recorded, str, str]:
    """A hostile kernel's record, and all that was shown; the good kernels before and after it must have run."""
    script(bench.folder / "bad", text)
    words = ("a=./yes", "bad=./bad", "b=./yes", "--on", "one.ndjson", "-r", 1, "--warmups", 0, "--order", "random")
    done = bench(*words, *options)
    assert done.status in (0, 1), done.stderr
    seen = {kernel(record): record for record in bench.records()}
    assert set(seen) == {"a", "bad", "b"}
    assert [seen[name].outcome["cause"] for name in ("a", "b")] == ["completed", "completed"]
    assert bench.left_cgroups() == []
    return seen["bad"], done.stdout, done.stderr


def test_a_kernel_that_hangs_is_killed_at_its_time_limit_although_it_ignores_term(bench: Bench) -> None:
    text = f"#!/bin/sh\ntrap '' TERM INT HUP\n(sleep 3; touch {bench.folder}/alive) &\necho waiting\nwait; sleep 100\n"
    record, out, err = beside_a_good_one(bench, text, "--timeout", "700ms")
    assert (record.outcome["kind"], record.outcome["cause"], record.outcome["signal"]) == ("timed_out", "time_limit", 9)
    assert "our time limit of 0.7 s for this kernel on this export" in " ".join(record.outcome["evidence"])
    assert record.started["limits"]["timeout_ns"] == 700_000_000
    assert record.value("wall_command") >= 700_000_000
    assert "timeout" in out
    assert "bad on one: timeout" in err
    assert "waiting" in err, "its last words are shown"
    if record.started["cgroup"]["paths"]:
        time.sleep(3)
        assert not (bench.folder / "alive").exists(), "the whole tree was killed"


def test_a_kernel_that_eats_memory_is_killed_by_its_own_limit(can_limit: None, bench: Bench) -> None:
    text = "#!/usr/bin/python3\nx = []\nwhile True: x.append(b'x' * (8 << 20))\n"
    record, out, _ = beside_a_good_one(bench, text, "--memory", "150Mi")
    assert (record.outcome["kind"], record.outcome["signal"]) == ("signaled", 9)
    assert record.outcome["cause"] == "memory_limit"
    said = " ".join(record.outcome["evidence"])
    assert record.started["invocation"] in said, "the limit that was hit is this invocation's own"
    assert 140 * MIB <= record.value("memory_peak_tree") <= 151 * MIB
    limits = record.started["limits"]
    assert (limits["memory_limit_bytes"], limits["cgroup_memory_bytes"]["value"]) == (150 * MIB, 150 * MIB)
    assert "out of memory" in out


def test_without_a_limit_of_its_own_a_kernel_gets_one_that_spares_the_host(can_limit: None, bench: Bench) -> None:
    bench("a=./yes", "--on", "one.ndjson", "-r", 1, "--warmups", 0)
    limits = bench.records()[0].started["limits"]
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert total // 4 < limits["memory_limit_bytes"] < total
    assert limits["cgroup_memory_bytes"]["value"] <= limits["memory_limit_bytes"]


def test_a_kernel_that_writes_without_end_is_stopped_by_the_file_size(bench: Bench) -> None:
    suite = bench.folder / "suite.toml"
    script(bench.folder / "bad", "#!/bin/sh\nexec head -c 10000000000 /dev/zero > out\n")
    suite.write_text(
        'repetitions = 1\nwarmups = 0\n[limits]\nfile_size = "2Mi"\n[[kernel]]\nname = "bad"\ncommand = "./bad"\n'
        '[[workload]]\npath = "one.ndjson"\n'
    )
    assert bench(suite).status == 0
    record = bench.records()[0]
    assert (record.outcome["signal"], record.outcome["cause"]) == (signal.SIGXFSZ, "file_size_limit")
    assert f"RLIMIT_FSIZE is {2 * MIB} bytes" in record.outcome["evidence"]


def test_a_kernel_that_prints_without_end_neither_blocks_nor_fills_anything(bench: Bench) -> None:
    text = "#!/bin/sh\nhead -c 300000000 /dev/zero\nhead -c 300000000 /dev/zero >&2\necho the end >&2\nexit 5\n"
    record, _, err = beside_a_good_one(bench, text)
    assert record.outcome["code"] == 5
    assert "the end" in err
    assert len(err) < 4000


def test_what_a_kernel_leaves_running_is_killed_before_the_next_one(bench: Bench) -> None:
    text = f"#!/bin/sh\n(setsid sh -c 'sleep 2; touch {bench.folder}/alive' &)\nexit 0\n"
    record, _, _ = beside_a_good_one(bench, text)
    assert record.outcome["cause"] == "completed"
    assert record.finished is not None
    stragglers = record.finished["stragglers"]
    if stragglers["count"] is None:  # no cgroup here: nobody can know
        return
    assert stragglers["count"] >= 1
    assert stragglers["action"] == "killed"
    time.sleep(2.2)
    assert not (bench.folder / "alive").exists()


def test_what_cannot_be_killed_is_waited_for_and_taints_what_follows(
    as_root: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that sits in a turn's cgroup and, for the runner, does not die; then it does."""
    place = own_cgroups().get(hierarchy.MEMORY) or own_cgroups().get(hierarchy.UNIFIED)
    assert place is not None
    group = place / f"proofcost.test-{os.getpid()}"
    group.mkdir()
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        (group / "cgroup.procs").write_text(str(sleeper.pid))
        export(tmp_path / "one.ndjson")
        kernels = [kernel_named("a", "/bin/true")]
        works = [Work("one", str(tmp_path / "one.ndjson"), None, 1)]
        made = series.make(Settings("s", repetitions=2, warmups=0), kernels, works)
        setting = conduct.Setting(str(tmp_path / "store"), "0" * 16, 1, None, {}, str(tmp_path))
        conductor = conduct.Conductor(made, setting, conduct.Observer())
        monkeypatch.setattr(conduct, "EMPTY_PATIENCE_NS", 100_000_000)
        with monkeypatch.context() as unkillable:
            unkillable.setattr(cgroup.Group, "kill", lambda self, first=0: None)
            conductor._see_it_empty("inv-1", [str(group)], False)
        _, told = conductor.specify(made.turns[0], 0, str(tmp_path))
        assert told["bench"]["disturbances"] == ["what inv-1 had started could not be killed and still runs"]
        conductor._see_it_empty("inv-1", [str(group)], False)
        assert sleeper.wait(timeout=20) == -signal.SIGKILL
        _, told = conductor.specify(made.turns[1], 0, str(tmp_path))
        assert told["bench"]["disturbances"] == [], "once it is gone, it disturbs nothing any more"
    finally:
        sleeper.kill()
        sleeper.wait()
        group.rmdir()


def kernel_named(name: str, command: str) -> Kernel:
    return found(from_command(name, command, registry.load()), None)


def test_a_crash_is_no_rejection(bench: Bench) -> None:
    record, out, _ = beside_a_good_one(bench, "#!/bin/sh\nkill -SEGV $$\n")
    assert (record.outcome["kind"], record.outcome["cause"]) == ("signaled", "crashed")
    assert "crashed" in out
    assert "rejected" not in out


def test_a_kernel_that_kills_its_meter_costs_its_own_turn_alone(bench: Bench) -> None:
    script(bench.folder / "bad", "#!/bin/sh\nkill -KILL $PPID\nsleep 100\n")
    words = ("a=./yes", "bad=./bad", "b=./yes", "--on", "one.ndjson", "-r", 1, "--warmups", 0, "--order", "random")
    done = bench(*words)
    assert done.status == 1
    assert "bad on one: the meter failed: the meter was killed by SIGKILL" in done.stderr
    assert "1 turn could not be measured; the same call with --resume tries again" in done.stderr
    seen = {kernel(record): record for record in bench.records()}
    assert seen["bad"].finished is None
    assert seen["a"].finished is not None
    assert seen["b"].finished is not None
    assert bench.left_cgroups() == []


def test_a_program_that_is_gone_when_its_turn_comes_is_not_started(bench: Bench) -> None:
    script(bench.folder / "a", f"#!/bin/sh\nrm -f {bench.folder}/b\n")
    script(bench.folder / "b", ACCEPT)
    done = bench("a=./a", "b=./b", "--on", "one.ndjson", "-r", 2, "--warmups", 0)
    outcomes = {kernel(record): record.outcome["kind"] for record in bench.records()}
    assert outcomes == {"a": "exited", "b": "not_started"}
    assert "not started" in done.stdout


def test_landrun_keeps_a_kernel_from_writing(bench: Bench, landrun: Path) -> None:
    script(bench.folder / "touch", f"#!/bin/sh\n: > {bench.folder}/escaped && exit 0\nexit 2\n")
    env = [("PROOFCOST_LANDRUN", str(landrun))]
    done = bench("a=./touch", "--on", "one.ndjson", "-r", 1, "--warmups", 0, "--sandbox", "landrun", env=env)
    record = bench.records()[0]
    assert record.started["sandbox"]["kind"] == "landrun"
    assert record.started["sandbox"]["enforced"] is True
    assert record.outcome["code"] == 2
    assert not (bench.folder / "escaped").exists()
    assert "declined" in done.stdout


def test_a_sandbox_that_does_not_reach_the_kernel_is_no_rejection(bench: Bench, landrun: Path) -> None:
    script(bench.folder / "lost", "#!/nonexistent/interpreter\n")
    env = [("PROOFCOST_LANDRUN", str(landrun))]
    done = bench("a=./lost", "--on", "one.ndjson", "-r", 1, "--warmups", 0, "--sandbox", "landrun", env=env)
    assert bench.records()[0].outcome["cause"] == "sandbox_setup_failed"
    assert "not started" in done.stdout


def test_bwrap_hides_what_it_should(bench: Bench, bwrap: Path) -> None:
    script(bench.folder / "look", f"#!/bin/sh\n[ -e $1 ] && [ ! -e {bench.folder}/secret ] && exit 0\nexit 2\n")
    (bench.folder / "secret").write_text("x")
    env = [("PROOFCOST_BWRAP", str(bwrap))]
    done = bench("a=./look", "--on", "one.ndjson", "-r", 1, "--warmups", 0, "--sandbox", "bwrap", env=env)
    assert done.status == 0, done.stderr
    assert bench.records()[0].outcome["code"] == 0


def test_a_sandbox_that_is_not_here_is_refused(bench: Bench) -> None:
    env = [("PROOFCOST_LANDRUN", "/nonexistent/landrun")]
    done = bench("a=./yes", "--on", "one.ndjson", "--sandbox", "landrun", env=env)
    assert done.status == 2
    assert "sandbox landrun: /nonexistent/landrun is not found" in done.stderr


def test_a_memory_limit_that_cannot_hold_is_refused_before_anything_runs(bench: Bench) -> None:
    """Without cgroups in sight (an empty mount over them) nothing can be limited, and nothing is limited silently."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    hide = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
    argv = ["unshare", "-m", "sh", "-c", hide, "sh", *bench.argv("a=./yes", "--on", "one.ndjson", "-r", 2)]
    limited = subprocess.run(
        [*argv, "--memory", "1G"], cwd=bench.folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert limited.returncode == 2
    assert "a memory limit cannot be enforced here" in limited.stderr
    assert not (bench.store / "sessions").exists()
    script(bench.folder / "yes", "#!/bin/sh\n(setsid sh -c 'sleep 40' &)\nexit 0\n")
    free = subprocess.run(argv, cwd=bench.folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert free.returncode == 0
    assert "no memory limit: it cannot be enforced here" in free.stderr
    for record in bench.records():
        assert record.started["limits"]["memory_limit_bytes"] is None
        assert record.finished is not None
        assert record.finished["stragglers"]["count"] >= 1, "seen without a cgroup too"
        assert record.finished["stragglers"]["action"] == "killed"
    survivor = f"(setsid sh -c 'sleep 3; touch {bench.folder}/alive' &)"
    script(bench.folder / "yes", f"#!/bin/sh\n{survivor}\nkill -9 $PPID\nsleep 9\n")
    subprocess.run(argv, cwd=bench.folder, capture_output=True, timeout=PATIENCE_S)
    time.sleep(3)
    assert not (bench.folder / "alive").exists(), "nor does it survive when its meter was killed"


def test_a_store_that_is_full_costs_figures_and_never_hangs(bench: Bench) -> None:
    """The records do not fit; every turn says so, and the status says that something is missing."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (bench.folder / "small").mkdir()
    fill = 'mount -t tmpfs -o size=112k none small && exec "$@"'
    argv = [*bench.argv("a=./yes", "--on", "one.ndjson", "-r", 6), "--store", str(bench.folder / "small" / "store")]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", fill, "sh", *argv],
        cwd=bench.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "the meter failed: store" in done.stderr
    assert "no room" in done.stderr
    assert "could not be measured" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("where", ["/dev/shm/store", "file"])
def test_a_store_that_cannot_be_is_refused(bench: Bench, where: str) -> None:
    (bench.folder / "file").write_text("")
    done = bench("a=./yes", "--on", "one.ndjson", "--store", bench.folder / where)
    assert done.status == 2
    assert len(done.stderr.splitlines()) == 1


def test_swap_is_limited_beside_memory(can_limit: None, bench: Bench) -> None:
    (bench.folder / "suite.toml").write_text(
        'repetitions = 1\nwarmups = 0\n[limits]\nmemory = "200Mi"\nswap = "50Mi"\n[[kernel]]\nname = "a"\n'
        'command = "./yes"\n[[workload]]\npath = "one.ndjson"\n'
    )
    assert bench("suite.toml").status == 0
    limits = bench.records()[0].started["limits"]
    assert limits["cgroup_memory_bytes"]["value"] == 200 * MIB
    swap = limits["cgroup_swap_bytes"]
    if swap["value"] is None:  # a host kernel without swap accounting
        assert swap["reason"]
    elif "together" in (swap["scope"] or ""):
        assert swap["value"] == 250 * MIB + os.sysconf("SC_PAGE_SIZE")
    else:
        assert swap["value"] == 50 * MIB
