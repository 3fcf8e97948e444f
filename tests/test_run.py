"""`proofcost run`: the judge's own status whatever happens around it, its limits, and what a terminal is shown."""

import os
import pty
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calling import PROOFCOST, Wrap, call, limit, running

from proofcost.cli import main


@pytest.fixture
def wrap(tmp_path: Path) -> Wrap:
    return Wrap(tmp_path / "w", tmp_path / "unused")


def run(wrap: Wrap, *words: str) -> list[str | bytes]:
    return [PROOFCOST, "run", "--store", str(wrap.store), *words]


def outcome(wrap: Wrap, number: int = 0) -> dict[str, object]:
    found: dict[str, object] = wrap.records()[number]["finished"]["outcome"]
    return found


# Around the judge.


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "kill -9 $$"])
def test_a_closed_stdout_changes_nothing(tmp_path: Path, wrap: Wrap, script: str) -> None:
    """Nothing is to be printed, and flushing what is not there must not fail."""
    command = ["/bin/sh", "-c", script]
    bare = call(command, tmp_path / "s", as_child=lambda: os.close(1))
    assert call(run(wrap, "--", *command), tmp_path / "s", as_child=lambda: os.close(1)).status == bare.status
    full = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(run(wrap, "--", *command), stdout=full, check=False)
    os.close(full)
    assert done.returncode == os.waitstatus_to_exitcode(bare.status)


def test_no_place_for_launchers_runs_the_judge_all_the_same(
    tmp_path: Path, wrap: Wrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours, not a wrong call."""
    code = (
        "import sys, proofcost.harness.run_folder as module\n"
        "def no(*a, **k): raise OSError(28, 'No space left on device')\n"
        "module.make = no\n"
        "from proofcost.cli import main\n"
        "sys.exit(main())\n"
    )
    python = str(Path(PROOFCOST).with_name("python"))
    argv = [python, "-c", code, *run(wrap, "--", "/bin/sh", "-c", "echo out; exit 3")[1:]]
    ended = call(argv, tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"out\n", b"")
    assert "no directory for launchers" in wrap.marks()[0]["fault"]


@pytest.mark.parametrize("store", ["relative/store", "../store"])
def test_a_deleted_folder(tmp_path: Path, wrap: Wrap, store: str) -> None:
    """A relative store means nothing there: a fault, and the judge runs; an absolute one is used."""

    def go() -> None:
        folder = tmp_path / "gone"
        folder.mkdir()
        os.chdir(folder)
        folder.rmdir()

    ended = call([PROOFCOST, "run", "--store", store, "--", "/bin/false"], tmp_path / "s", as_child=go)
    assert ended.code == 1
    assert ended.stderr.startswith(b"proofcost: ")
    ended = call(run(wrap, "--", "/bin/false"), tmp_path / "s", as_child=go)
    assert (ended.code, ended.stderr) == (1, b"")
    assert outcome(wrap)["code"] == 1


@pytest.mark.parametrize("name", ["few descriptors", "no locked memory", "one second of CPU"])
def test_narrow_limits(tmp_path: Path, wrap: Wrap, name: str) -> None:
    limits: dict[str, Callable[[], None]] = {
        "few descriptors": limit(resource.RLIMIT_NOFILE, 8),
        "no locked memory": limit(resource.RLIMIT_MEMLOCK, 0),
        "one second of CPU": limit(resource.RLIMIT_CPU, 1, 1),
    }
    ended = call(run(wrap, "--", "/bin/true"), tmp_path / "s", as_child=limits[name])
    assert (ended.code, ended.stdout) == (0, b"")
    ended = call(run(wrap, "--", "/bin/false"), tmp_path / "s", as_child=limits[name])
    assert ended.code == 1


def test_a_fault_before_the_start_gives_the_judge_its_own_environment(tmp_path: Path, wrap: Wrap) -> None:
    """Launchers were promised in it by then; duplicates and odd entries must survive the undoing."""
    wrap.folder.mkdir()
    wrap.store.write_text("")
    env = (b"A=1", b"A=2", b"no-equals", b"COMPARATOR_LANDRUN=/bin/mine", b"LC_CTYPE=C", b"PATH=/usr/bin:/bin")
    for shims in ("env", "path"):
        ended = call(run(wrap, "--shims", shims, "--", "/bin/cat", "/proc/self/environ"), tmp_path / "s", env)
        assert ended.stdout == b"".join(entry + b"\0" for entry in env)
        assert ended.stderr.startswith(b"proofcost: ")


def test_strict_refuses_before_anything_runs(tmp_path: Path, wrap: Wrap) -> None:
    wrap.folder.mkdir()
    wrap.store.write_text("")
    ended = call(run(wrap, "--strict", "--", "/bin/touch", str(tmp_path / "ran")), tmp_path / "s")
    assert (ended.code, ended.stdout) == (125, b"")
    assert not (tmp_path / "ran").exists()


def test_a_signal_that_comes_when_the_judge_has_ended_is_nobody_s(tmp_path: Path, wrap: Wrap) -> None:
    """Kept back while the record was written, it would end `run` and hide the judge's status."""
    code = (
        "import os, sys, signal\n"
        "from proofcost.harness import meter, store\n"
        "real = store.OwnFile.close\n"
        "def close(self):\n"
        "    real(self)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "store.OwnFile.close = close\n"
        "from proofcost.cli import main\n"
        "sys.exit(main())\n"
    )
    python = str(Path(PROOFCOST).with_name("python"))
    argv = [python, "-c", code, *run(wrap, "--", "/bin/sh", "-c", "exit 3")[1:]]
    assert call(argv, tmp_path / "s").status == 3 << 8


# Limits of ours.


@pytest.mark.guest
def test_a_time_limit_kills_the_judge_and_all_it_started(tmp_path: Path, wrap: Wrap) -> None:
    alive = tmp_path / "alive"
    script = f"(setsid sh -c 'sleep 1; touch {alive}' &) ; sleep 300"
    ended = call(run(wrap, "--timeout", "300ms", "--", "/bin/sh", "-c", script), tmp_path / "s")
    assert ended.status == signal.SIGKILL
    seen = outcome(wrap)
    assert (seen["kind"], seen["cause"], seen["signal"]) == ("timed_out", "time_limit", 9)
    if wrap.records()[0]["started"]["cgroup"]["paths"]:
        time.sleep(1.2)
        assert not alive.exists()


def test_a_judge_that_ends_in_time_is_not_timed_out(tmp_path: Path, wrap: Wrap) -> None:
    assert call(run(wrap, "--timeout", "20s", "--", "/bin/sh", "-c", "exit 3"), tmp_path / "s").code == 3
    assert outcome(wrap)["kind"] == "exited"


def test_a_memory_limit_holds_or_nothing_is_started(as_root: None, tmp_path: Path, wrap: Wrap) -> None:
    eat = "x = b'x' * (200 << 20)"
    ended = call(run(wrap, "--memory", "64M", "--", "/usr/bin/python3", "-c", eat), tmp_path / "s")
    if ended.code == 2:
        assert b"cannot be enforced here" in ended.stderr
        assert not wrap.store.exists() or all("finished" not in one for one in wrap.records())
        return
    assert ended.status == signal.SIGKILL
    assert outcome(wrap)["cause"] == "memory_limit"


def test_a_memory_limit_without_a_unit_is_asked_about(tmp_path: Path, wrap: Wrap) -> None:
    ended = call(run(wrap, "--memory", "40", "--", "/bin/touch", str(tmp_path / "ran")), tmp_path / "s")
    said = b"proofcost: --memory '40': 40 bytes hold no program; write for example 8G\n"
    assert (ended.code, ended.stdout, ended.stderr) == (2, b"", said)
    assert not (tmp_path / "ran").exists()


def test_a_memory_limit_without_a_cgroup_starts_nothing(tmp_path: Path, wrap: Wrap) -> None:
    argv = run(wrap, "--cgroup", "off", "--memory", "64M", "--", "/bin/touch", str(tmp_path / "ran"))
    ended = call(argv, tmp_path / "s")
    assert ended.code == 2
    assert b"--memory" in ended.stderr
    assert not (tmp_path / "ran").exists()


# What is shown.


def on_a_terminal(argv: list[str | bytes]) -> tuple[int, str]:
    """(wait status, what appeared) of a command that has a terminal on all three."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, {"PATH": "/usr/bin:/bin", "TERM": "dumb"})
    seen = b""
    while select.select([fd], [], [], 20)[0]:
        try:
            part = os.read(fd, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(fd)
    return os.waitpid(pid, 0)[1], seen.decode(errors="replace")


def test_a_terminal_is_shown_the_table_after_the_judge(wrap: Wrap) -> None:
    status, seen = on_a_terminal(run(wrap, "--", "/bin/sh", "-c", "echo the judge spoke; exit 3"))
    assert status == 3 << 8
    spoke, _, table = seen.partition("the judge spoke")
    assert spoke.strip() == ""
    assert "whole" in table


def test_a_table_that_cannot_be_made_costs_no_status(wrap: Wrap) -> None:
    status, seen = on_a_terminal(run(wrap, "--", "/bin/sh", "-c", f"rm -rf {wrap.store}; exit 3"))
    assert status == 3 << 8
    assert "Traceback" not in seen
    status, _ = on_a_terminal(run(wrap, "--", "/bin/sh", "-c", "kill -SEGV $$"))
    assert os.WTERMSIG(status) == signal.SIGSEGV


def test_a_judge_that_is_not_there_is_said_so_once(tmp_path: Path, wrap: Wrap) -> None:
    ended = call(run(wrap, "--", "/nonexistent/judge"), tmp_path / "s")
    assert ended.code == 127
    assert ended.stderr == b"proofcost: /nonexistent/judge: No such file or directory\n"
    assert outcome(wrap)["kind"] == "not_started"


def test_it_can_be_called_in_process(wrap: Wrap) -> None:
    """And leaves that process's environment as it was. (In a fork: dispositions of signals become the command's.)"""
    pid = os.fork()
    if pid == 0:
        try:
            before = dict(os.environ)
            code = main(["run", "--store", str(wrap.store), "--", "/bin/sh", "-c", "exit 3"])
            os._exit(0 if code == 3 and dict(os.environ) == before else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert outcome(wrap)["code"] == 3


def judged_with_shims(tmp_path: Path, before: str, most: int = resource.RLIM_INFINITY) -> tuple[int, dict[str, Any]]:
    """A judge that does `before` and then calls its landrun, a stand-in: its status, and the call's `meter`."""
    real = tmp_path / "landrun"
    real.write_text("#!/bin/sh\nexit 7\n")
    real.chmod(0o755)
    judge = f'{before}; "$COMPARATOR_LANDRUN" --ro / -- /bin/true'
    done = subprocess.run(
        [PROOFCOST, "run", "--store", tmp_path / "store", "--", "/bin/bash", "-c", judge],
        env={**os.environ, "COMPARATOR_LANDRUN": str(real), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )  # fmt: skip
    assert done.stderr == b""
    meters = [one["started"]["meter"] for one in Wrap(tmp_path, tmp_path).records()]
    [shim] = [meter for meter in meters if meter["entrance"] != "run"]
    return done.returncode, shim


def test_an_upgrade_changes_nothing_under_a_running_judge(tmp_path: Path) -> None:
    """The launchers start a copy of the meter that lies beside them; where none can be made, the package itself."""
    tree = '$(dirname "$COMPARATOR_LANDRUN")/meter'
    status, meter = judged_with_shims(tmp_path, f'[ -s "{tree}/bundle" ] && [ -s "{tree}/proofcost/harness/meter.py" ]')
    assert status == 7
    assert len(meter["digest"]) == 64
    # Removing has its time, and on a busy machine leaves the rest to the next run (tests/test_run_folder.py).


def test_a_meter_that_cannot_be_copied_measures_from_its_package(tmp_path: Path) -> None:
    """No file may grow to the size that the compiled meter has."""
    enough = 100_000
    status, meter = judged_with_shims(tmp_path, "true", enough)
    assert (status, meter["digest"]) == (7, None)


def test_a_folder_that_no_path_can_name_is_passed_over(tmp_path: Path, wrap: Wrap) -> None:
    real, odd = tmp_path / "landrun", tmp_path / "t:d"
    odd.mkdir()
    real.write_text("#!/bin/sh\nexit 7\n")
    real.chmod(0o755)
    env = (f"PATH={tmp_path}:/usr/bin:/bin".encode(), f"TMPDIR={odd}".encode())
    judge = ["/bin/sh", "-c", "landrun --ro / -- /bin/true"]
    ended = call(run(wrap, "--shims", "path", "--", *judge), tmp_path / "s", env)
    assert (ended.code, ended.stdout, ended.stderr) == (7, b"", b"")
    assert {one["started"]["meter"]["entrance"] for one in wrap.records()} == {"run", "landrun"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_judge_that_handles_its_end_ends_as_it_likes(wrap: Wrap, number: signal.Signals) -> None:
    script = "trap 'exit 6' TERM INT; echo ready; while :; do sleep 0.05; done"
    argv = run(wrap, "--", "/bin/sh", "-c", script)
    with running(argv, stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}) as started:
        assert started.stdout is not None
        started.stdout.readline()
        started.send_signal(number)
        assert started.wait(timeout=10) == 6
    assert outcome(wrap)["cause"] == "terminated_by_caller"
