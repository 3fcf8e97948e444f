"""The `leaneval` entrance against its contract: what it refuses, what it keeps, and what its reader makes of that."""

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import standin_replay
from calling import Ended, Wrap, call, running, shared_tree, wait_for
from wrapped import problems

from proofcost.adapters import leaneval, replay_metrics
from proofcost.adapters.landrun import read_arguments as landrun_arguments
from proofcost.adapters.replay_file import LOST, ViewFile
from proofcost.adapters.replay_metrics import View
from proofcost.harness import describe
from proofcost.harness.meter import Meter
from proofcost.harness.plan import Plan
from proofcost.harness.policy import MeterError
from proofcost.harness.signals import Inherited

FAKE_LANDRUN = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@dataclass
class Judge:
    """LeanEval's machine, as far as its adapter sees it: a landrun, a folder for the metrics, our launcher."""

    folder: Path
    wrap: Wrap

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def metrics(self) -> Path:
        return self.run / "metrics.json"

    @property
    def capture(self) -> Path:
        return self.run / "solution-export.ndjson"

    @property
    def landrun(self) -> Path:
        return self.folder / "landrun"

    def argv(self, *command: object, phase: str = "build") -> list[str | bytes]:
        launcher = self.wrap.launcher("leaneval")
        inside = [str(word) for word in command]
        return [launcher, "--phase", phase, "--", str(self.landrun), "--ro", "/", "--", *inside]

    def __call__(self, *command: object, phase: str = "build", **more: Any) -> Ended:
        return call(self.argv(*command, phase=phase), self.folder / "streams", **more)

    def phases(self) -> dict[str, standin_replay.Object]:
        """What the reader finds."""
        assert self.metrics.stat().st_mode & 0o7777 == 0o600
        return standin_replay.parse_metrics(self.metrics.read_bytes())

    def ends(self, phase: str = "build") -> list[tuple[str, int]]:
        return [(end["kind"], end.get("code", end.get("signal"))) for end in self.phases()[phase]["terminations"]]

    def only_view(self) -> bool:
        """Whether nothing but the view stands in its folder."""
        return [path.name for path in self.run.iterdir()] == ["metrics.json"]


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    folder = tmp_path / "judge"
    folder.mkdir()
    made = Judge(folder, Wrap(folder / "w", shared_tree()))
    made.wrap.options["leaneval"] = {"landrun": str(made.landrun), "metrics": str(made.metrics), "capture": None}
    made.landrun.write_text(FAKE_LANDRUN)
    made.landrun.chmod(0o755)
    yield made
    for kept in made.wrap.records():
        assert [problems(event) for event in kept.values()] == [[]] * len(kept)
    subprocess.run(["umount", "-q", made.run], check=False, capture_output=True)


@pytest.fixture
def capturing(judge: Judge) -> Judge:
    judge.wrap.options["leaneval"]["capture"] = str(judge.capture)
    return judge


# What it refuses before anything is run


def test_a_call_as_the_contract_has_it_is_right() -> None:
    for phase in ("build", "checker", "solution-export"):
        assert leaneval.wrong(["--phase", phase, "--", "/usr/local/bin/landrun"], leaneval.LANDRUN) is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "0 arguments; usage: --phase PHASE -- /usr/local/bin/landrun [ARGUMENT...]"),
        (["--phase", "build", "--"], "3 arguments; usage: --phase PHASE -- /usr/local/bin/landrun [ARGUMENT...]"),
        (["--Phase", "build", "--", "L"], "the first argument is '--Phase', not --phase"),
        (["--phase=build", "--", "L", "x"], "the first argument is '--phase=build', not --phase"),
        (["--phase", "export", "--", "L"], "the phase is 'export', not one of build, solution-export, checker"),
        (["--phase", "", "--", "L"], "the phase is '', not one of build, solution-export, checker"),
        (["--phase", "build", "-x", "L"], "the third argument is '-x', not --"),
        (["--phase", "build", "--", "landrun"], "the command is 'landrun', not /usr/local/bin/landrun"),
        (
            ["--phase", "build", "--", "/usr/local/bin/../bin/landrun"],
            "the command is '/usr/local/bin/../bin/landrun', not /usr/local/bin/landrun",
        ),
        (["--phase", "build", "--", "L", "a\0b"], "an argument holds a NUL"),
    ],
)
def test_a_call_that_is_not_word_for_word_so_is_named(arguments: list[str], why: str) -> None:
    given = ["/usr/local/bin/landrun" if word == "L" else word for word in arguments]
    assert leaneval.wrong(given, leaneval.LANDRUN) == why


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--phase", "build", "--"],
        ["--phase", "solution-build", "--", "LANDRUN", "--", "/bin/touch", "RAN"],
        ["--phase", "build", "/bin/touch", "RAN"],
        ["--phase", "build", "--", "/bin/touch", "RAN"],
        ["--strict", "--phase", "build", "--", "LANDRUN", "--", "/bin/touch", "RAN"],
        ["--phase", b"b\xffuild", "--", "LANDRUN", "--", "/bin/touch", "RAN"],
    ],
)
def test_what_is_not_so_ends_with_125_one_line_and_nothing_else(judge: Judge, arguments: list[str | bytes]) -> None:
    ran = judge.folder / "ran"
    given = [{"LANDRUN": str(judge.landrun), "RAN": str(ran)}.get(str(word), word) for word in arguments]
    ended = call([judge.wrap.launcher("leaneval"), *given], judge.folder / "streams")
    assert (ended.code, ended.stdout) == (125, b"")
    assert ended.stderr.startswith(b"replay-measure: ")
    assert ended.stderr.count(b"\n") == 1
    assert not ran.exists()
    assert not judge.run.exists()
    assert judge.wrap.records() == []


def test_without_our_meter_nothing_is_run(judge: Judge, tmp_path: Path) -> None:
    judge.wrap.tree = tmp_path / "gone"
    ended = judge("/bin/touch", judge.folder / "ran")
    assert ended.code == 125
    assert b"nothing was run" in ended.stderr
    assert not (judge.folder / "ran").exists()


# How calls end, and what its reader concludes


@pytest.mark.parametrize("code", [0, 1, 2, 101, 124, 125, 126, 127, 128, 137, 143, 255])
def test_an_exit_code_goes_through_and_stands_in_the_view(judge: Judge, code: int) -> None:
    ended = judge("/bin/sh", "-c", f"exit {code}")
    assert (ended.code, ended.stdout, ended.stderr) == (code, b"", b"")
    assert judge.ends() == [("exited", code)]
    assert judge.only_view()


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 15, 31, 64])
def test_a_signal_is_no_exit_code_in_the_view(judge: Judge, number: int) -> None:
    assert judge("/bin/sh", "-c", f"ulimit -c 0; kill -{number} $$").code == 128 + number
    assert judge.ends() == [("signaled", number)]


def test_both_views_come_from_one_run(judge: Judge) -> None:
    counter = judge.folder / "count"
    assert judge("/bin/sh", "-c", f"echo once >> {counter}; sleep 0.02", phase="solution-export").code == 0
    assert counter.read_text() == "once\n"
    [kept] = judge.wrap.records()
    phase = judge.phases()["build"]
    assert phase["invocations"] == 1
    figures = kept["finished"]["measurements"]
    assert phase["wall_time_ms"] == replay_metrics.milliseconds(figures["wall_command"]["value"]) >= 20
    assert kept["started"]["phase"] == {"given": "solution-export", "understood": "export", "known_by": "hook"}
    assert kept["started"]["meter"]["entrance"] == "leaneval"
    assert kept["started"]["meter"]["policy"] == "strict"
    assert kept["finished"]["faults"] == []
    counted = figures["instructions:u"]
    expected = (
        {"status": "measured", "value": counted["value"]}
        if counted["status"] == "measured"
        else {"status": "unavailable", "reason": replay_metrics.reason_of(counted["reason"])}
    )
    assert phase["retired_instructions"] == expected
    assert judge.phases()["checker"]["invocations"] == 0
    assert judge.run.stat().st_mode & 0o7777 == 0o700


# The calls of a run (phase, what it does), the evaluator's status, and the verdict, or why there is none.
BUILT = [("build", "exit 0"), ("solution-export", "exit 0")]
CALLS: dict[str, tuple[list[tuple[str, str]], int, tuple[str, str | None] | str]] = {
    "accepted": ([*BUILT, ("checker", "exit 0")], 0, ("completed", "accepted")),
    "accepted, the export named as of old": (
        [("build", "exit 0"), ("build", "exit 0"), ("checker", "exit 0")],
        0,
        ("completed", "accepted"),
    ),
    "declined": ([*BUILT, ("checker", "exit 2")], 1, ("completed", "declined")),
    "a mismatch": (BUILT, 1, ("completed", "rejected")),
    "does not compile": ([("build", "exit 1")], 1, ("completed", "rejected")),
    "no export": ([("build", "exit 0"), ("build", "exit 1")], 1, ("completed", "rejected")),
    "the checker dies": ([*BUILT, ("checker", "kill -11 $$")], 1, ("crashed", None)),
    "the build is killed": ([("build", "kill -9 $$")], 1, ("crashed", None)),
    "137 by itself": ([("build", "exit 137")], 1, ("crashed", None)),
    "124 by itself": ([*BUILT, ("checker", "exit 124")], 1, ("completed", "declined")),
    "an evaluator that fails on its own": (
        [*BUILT, ("checker", "exit 0")],
        1,
        "the checker accepted, yet the evaluator failed",
    ),
    "no call": ([], 1, "failed before measurement"),
    "too many checkers": ([("checker", "exit 0"), ("checker", "exit 0")], 1, "impossible phase counts"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_reader_concludes_what_happened(judge: Judge, name: str) -> None:
    calls, evaluator, expected = CALLS[name]
    for phase, does in calls:
        judge("/bin/sh", "-c", f"ulimit -c 0; {does}", phase=phase)
    raw = judge.metrics.read_bytes() if judge.metrics.exists() else None
    if isinstance(expected, str):
        with pytest.raises(standin_replay.ReplayError, match=expected):
            standin_replay.conclude(raw, evaluator)
    else:
        verdict = standin_replay.conclude(raw, evaluator)
        assert (verdict.execution_outcome, verdict.checker_outcome) == expected
    assert len(judge.wrap.records()) == len(calls)


@pytest.mark.parametrize(("made", "code"), [(False, 127), (True, 126)])
def test_a_landrun_that_cannot_be_started_is_no_call_to_the_reader(judge: Judge, made: bool, code: int) -> None:
    if made:
        judge.landrun.chmod(0o644)
    else:
        judge.landrun.unlink()
    assert judge("/bin/true").code == code
    assert not judge.metrics.exists()
    assert list(judge.run.iterdir()) == []
    [kept] = judge.wrap.records()
    assert kept["finished"]["outcome"]["kind"] == "not_started"
    with pytest.raises(standin_replay.ReplayError, match="failed before measurement"):
        standin_replay.conclude(None, 1)


def test_a_caller_that_ends_the_adapter_ends_the_command_and_the_view_says_so(judge: Judge) -> None:
    with running(judge.argv("/bin/sleep", "60")) as adapter:
        wait_for(lambda: judge.wrap.records(), "the start")
        wait_for(lambda: Path(f"/proc/{adapter.pid}/task/{adapter.pid}/children").read_text(), "the command")
        adapter.send_signal(signal.SIGTERM)
        assert adapter.wait(30) == 143
    assert judge.ends() == [("signaled", 15)]


def test_a_killed_adapter_leaves_no_call_and_no_litter(judge: Judge) -> None:
    with running(judge.argv("/bin/sleep", "60")) as adapter:
        wait_for(lambda: Path(f"/proc/{adapter.pid}/task/{adapter.pid}/children").read_text(), "the command")
        adapter.kill()
        adapter.wait(30)
    assert not judge.metrics.exists()
    assert len(list(judge.run.iterdir())) == 1  # what it had prepared
    assert "finished" not in judge.wrap.records()[0]
    assert judge("/bin/true").code == 0
    assert judge.ends() == [("exited", 0)]
    assert judge.only_view()


def test_calls_at_once_lose_nothing(judge: Judge) -> None:
    count = 12
    argv = judge.argv("/bin/sh", "-c", "sleep 0.1; exit 3")
    started = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(count)]
    for one in started:
        _, errors = one.communicate(timeout=60)
        assert (one.returncode, errors) == (3, b"")
    assert judge.ends() == [("exited", 3)] * count
    assert judge.only_view()


# A view that is not as it should be is found before the command starts


def view_of(calls: int) -> View:
    view = View()
    for _ in range(calls):
        view.phases["build"].add(10**9, 10**9, None, ("exited", 0))
    return view


def make_view(calls: int = 0) -> bytes:
    return view_of(calls).dumps()


def full_view() -> bytes:
    return make_view(next(calls for calls in range(1000) if not view_of(calls).has_room()))


def link(path: Path, target: Path | str) -> None:
    path.symlink_to(target)


BROKEN: dict[str, tuple[Callable[[Judge], object], str]] = {
    "a link": (lambda judge: link(judge.metrics, "/etc/passwd"), "metrics.json: is a symbolic link"),
    "a folder": (lambda judge: judge.metrics.mkdir(), "metrics.json: not a file of ours"),
    "a pipe": (lambda judge: os.mkfifo(judge.metrics), "metrics.json: not a file of ours"),
    "empty": (lambda judge: judge.metrics.write_bytes(b""), "not JSON as it is written here"),
    "torn": (lambda judge: judge.metrics.write_bytes(make_view(1)[:-20]), "not JSON as it is written here"),
    "another version": (
        lambda judge: judge.metrics.write_bytes(make_view().replace(b'version":1', b'version":2')),
        "schema_version is 2, not 1",
    ),
    "too large": (lambda judge: judge.metrics.write_bytes(b" " * 16385), "larger than 16384 bytes"),
    "full": (lambda judge: judge.metrics.write_bytes(full_view()), "another call would make it larger than 16384"),
    "an earlier loss": (
        lambda judge: (judge.run / f"metrics.json{LOST}").write_bytes(b""),
        "metrics.json.lost: an earlier call could not be kept",
    ),
    "a linked folder": (
        lambda judge: link(judge.run, judge.run.rename(judge.folder / "real")),
        "it or a folder above it is a symbolic link",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_view_that_cannot_take_the_call_refuses_it(judge: Judge, name: str) -> None:
    make, why = BROKEN[name]
    judge.run.mkdir(mode=0o700)
    make(judge)
    before = sorted((path.name, path.lstat().st_ino, path.lstat().st_size) for path in judge.run.iterdir())
    ended = judge("/bin/touch", judge.folder / "ran")
    assert (ended.code, ended.stdout) == (125, b"")
    assert ended.stderr.startswith(b"replay-measure: ")
    assert why.encode() in ended.stderr
    assert ended.stderr.endswith(b"; refused, nothing was run\n")
    assert not (judge.folder / "ran").exists()
    assert sorted((path.name, path.lstat().st_ino, path.lstat().st_size) for path in judge.run.iterdir()) == before
    assert judge.wrap.records() == []
    [mark] = judge.wrap.marks()
    assert (mark["policy"], mark["entrance"]) == ("strict", "leaneval")


def test_a_view_below_a_path_that_the_sandbox_may_write_to_is_refused(judge: Judge) -> None:
    launcher = judge.wrap.launcher("leaneval")
    argv = [launcher, "--phase", "build", "--", str(judge.landrun), "--rw", str(judge.folder), "--", "/bin/true"]
    ended = call(argv, judge.folder / "streams")
    assert ended.code == 125
    assert b"so it could forge it" in ended.stderr


def test_drifted_modes_are_put_right_and_noted(judge: Judge) -> None:
    judge.run.mkdir(mode=0o755)
    judge.metrics.write_bytes(make_view(1))
    judge.metrics.chmod(0o644)
    judge.run.chmod(0o755)
    assert judge("/bin/true").code == 0
    assert judge.phases()["build"]["invocations"] == 2
    assert judge.run.stat().st_mode & 0o7777 == 0o700
    said = [fault["what"] for fault in judge.wrap.records()[0]["finished"]["faults"]]
    assert said == [
        f"{judge.run}: mode was 0755, set to 0700",
        f"{judge.metrics}: mode was 0644, set to 0600",
    ]


def mount_tmpfs(judge: Judge, options: str) -> None:
    judge.run.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,{options}", "none", judge.run], check=True)


def test_a_full_disk_refuses_the_call_before_it_starts(judge: Judge, as_root: None) -> None:
    mount_tmpfs(judge, "size=64k")
    (judge.run / "filler").write_bytes(b"x" * 65536)
    ended = judge("/bin/touch", judge.folder / "ran")
    assert ended.code == 125
    assert b"no room for metrics.json: No space left on device" in ended.stderr
    assert not (judge.folder / "ran").exists()
    assert [path.name for path in judge.run.iterdir()] == ["filler"]


def test_a_disk_that_the_command_fills_still_takes_its_call(judge: Judge, as_root: None) -> None:
    mount_tmpfs(judge, "size=128k")
    assert judge("/bin/true").code == 0
    ended = judge("/bin/sh", "-c", f"cat /dev/zero > {judge.run}/filler 2> /dev/null; exit 7")
    assert (ended.code, ended.stderr) == (7, b"")
    assert judge.ends() == [("exited", 0), ("exited", 7)]
    assert judge.wrap.records()[1]["finished"]["faults"] == []


def test_a_file_system_that_nobody_may_write_to_refuses(judge: Judge, as_root: None) -> None:
    mount_tmpfs(judge, "size=128k")
    subprocess.run(["mount", "-o", "remount,ro", judge.run], check=True)
    ended = judge("/bin/true")
    assert ended.code == 125
    assert b"Read-only file system" in ended.stderr


# After the start the command's status stands, and a view that lacks a call is not left looking whole


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("echo damaged > METRICS", "not JSON as it is written here"),
        ("rm -f METRICS; mkdir METRICS", "not a file of ours"),
        ("rm METRICS; ln -s /etc/passwd METRICS", "is a symbolic link"),
    ],
)
def test_a_save_that_fails_leaves_the_status_alone(judge: Judge, code: int, spoil: str, why: str) -> None:
    assert judge("/bin/true").code == 0
    does = spoil.replace("METRICS", str(judge.metrics)).replace("RUN", str(judge.run))
    ended = judge("/bin/sh", "-c", f"{does}; exit {code}")
    assert (ended.code, ended.stdout, ended.stderr) == (code, b"", b"")
    assert [path.name for path in judge.run.iterdir()] == ["metrics.json.lost"]
    [fault] = judge.wrap.records()[1]["finished"]["faults"]
    assert fault["step"] == "metrics"
    assert why in fault["what"]
    assert fault["what"].endswith("; the view lacks this call, so it is put aside")
    with pytest.raises(standin_replay.ReplayError, match="failed before measurement"):
        standin_replay.conclude(None, 1)
    after = judge("/bin/touch", judge.folder / "ran")
    assert after.code == 125
    assert not (judge.folder / "ran").exists()


@pytest.mark.parametrize(
    ("earlier", "spoil", "why"),
    [
        (0, "rm -r RUN", "was removed or replaced while the command ran"),
        (1, "rm -r RUN", "was removed or replaced while the command ran"),
        (1, "rm -r RUN; mkdir -m 700 RUN", "was removed or replaced while the command ran"),
        (1, "mv RUN RUN.away", "was removed or replaced while the command ran"),
        (1, "rm -r RUN; ln -s /tmp RUN", "was removed or replaced while the command ran"),
        (1, "rm METRICS", "held 1 calls, and holds 0 now"),
        (1, "cp FIRST METRICS", "held 1 calls, and holds 0 now"),
        (1, "mv METRICS METRICS.lost", "another call could not be kept meanwhile"),
    ],
)
def test_a_view_that_the_command_takes_away_is_not_begun_anew(judge: Judge, earlier: int, spoil: str, why: str) -> None:
    """An unconfined command can; a view of the calls after it alone would look whole."""
    (judge.folder / "first").write_bytes(make_view())
    for _ in range(earlier):
        assert judge("/bin/true").code == 0
    does = spoil.replace("METRICS", str(judge.metrics)).replace("RUN", str(judge.run))
    does = does.replace("FIRST", str(judge.folder / "first"))
    assert judge("/bin/sh", "-c", f"{does}; exit 3").code == 3
    faults = judge.wrap.records()[-1]["finished"]["faults"]
    assert why in faults[0]["what"]
    assert judge("/bin/touch", judge.folder / "ran").code == 125
    assert not (judge.folder / "ran").exists()
    assert not judge.metrics.exists()
    if "ln -s" not in spoil:  # there each call is refused until somebody has looked
        assert [path.name for path in judge.run.iterdir()] == ["metrics.json.lost"]
        assert judge.run.stat().st_mode & 0o777 == 0o700


def test_a_prepared_file_that_somebody_removed_is_made_again(judge: Judge) -> None:
    assert judge("/bin/sh", "-c", f"rm {judge.run}/metrics.json.*.tmp; exit 5").code == 5
    assert judge.ends() == [("exited", 5)]
    assert judge.only_view()
    assert judge.wrap.records()[0]["finished"]["faults"] == []


def test_a_lock_that_somebody_holds_delays_and_changes_nothing(judge: Judge) -> None:
    assert judge("/bin/true").code == 0
    held = os.open(judge.run, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    try:
        assert judge("/bin/sh", "-c", "exit 9").code == 9
    finally:
        os.close(held)
    assert judge.ends() == [("exited", 0), ("exited", 9)]
    [fault] = judge.wrap.records()[1]["finished"]["faults"]
    assert fault["what"] == f"{judge.metrics}: somebody held its folder's lock; saved without it"


# The file alone


def save(path: Path, ended: tuple[str, int] = ("exited", 0), die_at: str | None = None) -> int:
    """One call's look and save in a process of its own; with `die_at` it is killed when it comes there."""
    pid = os.fork()
    if pid == 0:
        try:
            view = ViewFile(str(path))
            view.look([], False)
            if die_at is not None:
                module, name = die_at.split(".")

                def die(*_: Any, **__: Any) -> None:
                    os.kill(os.getpid(), signal.SIGKILL)

                setattr({"os": os, "fcntl": fcntl}[module], name, die)
            view.save("build", 10**9, 5, None, ended)
            os._exit(0)
        finally:
            os._exit(1)
    return pid


@pytest.mark.parametrize("die_at", ["fcntl.flock", "os.write", "os.ftruncate", "os.fdatasync", "os.rename", "os.close"])
def test_a_meter_killed_while_it_saves_leaves_a_whole_view(tmp_path: Path, die_at: str) -> None:
    path = tmp_path / "run" / "metrics.json"
    assert os.waitpid(save(path), 0)[1] == 0
    assert os.WTERMSIG(os.waitpid(save(path, die_at=die_at), 0)[1]) == signal.SIGKILL
    before = 2 if die_at == "os.close" else 1
    assert replay_metrics.loads(path.read_bytes()).phases["build"].invocations in (1, before)
    assert os.waitpid(save(path), 0)[1] == 0
    found = standin_replay.parse_metrics(path.read_bytes())["build"]
    assert found["invocations"] in (2, before + 1)
    assert found["retired_instructions"]["value"] == 5 * found["invocations"]
    assert [one.name for one in path.parent.iterdir()] == ["metrics.json"]


def test_many_that_save_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.json"
    pids = [save(path, ("exited", code)) for code in range(60)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)
    found = standin_replay.parse_metrics(path.read_bytes())["build"]
    assert sorted(end["code"] for end in found["terminations"]) == list(range(60))
    assert found["wall_time_ms"] == 60_000


def test_hundreds_of_calls_fill_the_view_and_then_none_is_run(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.json"
    kept = 0
    while os.waitstatus_to_exitcode(os.waitpid(save(path, ("signaled", 11)), 0)[1]) == 0:
        kept += 1
        assert kept < 1000
    assert 400 < kept < 600
    assert standin_replay.parse_metrics(path.read_bytes())["build"]["invocations"] == kept
    with pytest.raises(standin_replay.ReplayError, match="impossible phase counts"):
        standin_replay.conclude(path.read_bytes(), 1)


# The copy of the export


def test_an_export_reaches_the_judge_and_the_capture(capturing: Judge) -> None:
    data = "".join(f'{{"in":{at}}}\n' for at in range(50_000)).encode()
    (capturing.folder / "data").write_bytes(data)
    argv = capturing.argv("/bin/cat", capturing.folder / "data", phase="solution-export")
    done = subprocess.run(argv, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")
    assert capturing.capture.read_bytes() == data
    assert capturing.capture.stat().st_mode & 0o7777 == 0o600
    assert capturing.ends() == [("exited", 0)]
    finished = capturing.wrap.records()[0]["finished"]
    assert finished["capture"] == {
        "path": str(capturing.capture),
        "kept": True,
        "size_bytes": len(data),
        "reason": None,
    }
    relay = finished["relay"]
    assert relay["cpu_ns"] > 0
    assert {**relay, "cpu_ns": 0} == {
        "streams": ["stdout"],
        "state": "ended",
        "passed_bytes": len(data),
        "cpu_ns": 0,
        "errno": None,
    }


@pytest.mark.parametrize("phase", ["build", "checker"])
def test_only_the_export_is_copied(capturing: Judge, phase: str) -> None:
    assert capturing("/bin/echo", "hello", phase=phase).stdout == b"hello\n"
    assert capturing.only_view()
    assert "relay" not in capturing.wrap.records()[0]["finished"]


def test_nothing_is_copied_unless_it_is_asked_for(judge: Judge) -> None:
    assert judge("/bin/echo", "hello", phase="solution-export").stdout == b"hello\n"
    assert judge.only_view()
    assert "capture" not in judge.wrap.records()[0]["finished"]


@pytest.mark.parametrize(
    ("does", "code", "why"),
    [
        ("exit 0", 0, "the command printed nothing"),
        ("echo half; exit 3", 3, "the command failed, so what it printed is no whole export"),
        ("echo half; kill -9 $$", 137, "the command failed, so what it printed is no whole export"),
    ],
)
def test_a_capture_that_is_no_export_is_removed(capturing: Judge, does: str, code: int, why: str) -> None:
    assert capturing("/bin/sh", "-c", does, phase="solution-export").code == code
    assert capturing.only_view()
    assert capturing.wrap.records()[0]["finished"]["capture"]["reason"] == why


def test_a_capture_that_is_there_already_is_left_alone(capturing: Judge) -> None:
    capturing.run.mkdir(mode=0o700)
    capturing.capture.write_text("of somebody else")
    ended = capturing("/bin/echo", "hello", phase="solution-export")
    assert (ended.code, ended.stdout) == (0, b"hello\n")
    assert capturing.capture.read_text() == "of somebody else"
    assert capturing.wrap.records()[0]["finished"]["capture"]["reason"] == "it was there already, and was left alone"


@pytest.mark.parametrize(("ignored", "code", "end"), [(False, 141, ("signaled", 13)), (True, 1, ("exited", 1))])
def test_a_reader_that_goes_away_ends_the_command_as_it_would_without_us(
    capturing: Judge, ignored: bool, code: int, end: tuple[str, int]
) -> None:
    caller = ["/bin/sh", "-c", ('trap "" PIPE; ' if ignored else "") + '"$@"; exit $?', "sh"]
    argv = [*caller, *capturing.argv("/bin/cat", "/dev/zero", phase="solution-export")]
    with running(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as adapter:
        assert adapter.stdout is not None
        assert adapter.stdout.read(10) == bytes(10)
        adapter.stdout.close()
        assert adapter.wait(60) == code
    assert capturing.only_view()
    assert capturing.ends() == [end]
    finished = capturing.wrap.records()[0]["finished"]
    assert finished["relay"]["state"] == "no_reader"
    assert finished["capture"]["reason"] == "whom the export was for had stopped reading"


def test_what_outlives_an_export_still_reaches_its_reader(capturing: Judge) -> None:
    does = "echo early; (sleep 1; echo late) & exit 0"
    argv = capturing.argv("/bin/sh", "-c", does, phase="solution-export")
    began = time.monotonic()
    with running(argv, stdout=subprocess.PIPE) as adapter:
        assert adapter.wait(60) == 0
        ended = time.monotonic()
        assert adapter.stdout is not None
        assert adapter.stdout.read() == b"early\nlate\n"
    assert ended - began < time.monotonic() - began, "the status came before what outlived the command was done"
    assert capturing.only_view()
    assert capturing.ends() == [("exited", 0)]


def test_what_outlives_an_export_and_fills_an_unread_pipe_holds_nobody_up(capturing: Judge) -> None:
    argv = capturing.argv("/bin/sh", "-c", "echo early; (exec timeout 120 yes) & exit 0", phase="solution-export")
    began = time.monotonic()
    with running(argv, stdout=subprocess.PIPE) as adapter:
        assert adapter.wait(60) == 0
        assert time.monotonic() - began < 60
        assert adapter.stdout is not None
        assert adapter.stdout.read(300_000) == b"early\n" + b"y\n" * 149_997
        adapter.stdout.close()
    assert capturing.ends() == [("exited", 0)]
    finished = capturing.wrap.records()[0]["finished"]
    assert finished["capture"]["reason"] == "something outlived the command and could still have written to it"
    assert not os.path.exists(finished["capture"]["path"])


def test_a_closed_stdout_stays_closed(capturing: Judge) -> None:
    ended = capturing("/bin/sh", "-c", "echo x", phase="solution-export", as_child=lambda: os.close(1))
    assert ended.code != 0
    assert capturing.only_view()
    assert capturing.wrap.records()[0]["finished"]["capture"]["reason"] == "stdout is closed"


def test_an_export_that_shares_its_file_with_stderr_is_not_copied(capturing: Judge) -> None:
    argv = capturing.argv("/bin/sh", "-c", "echo out; echo err >&2", phase="solution-export")
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    assert done.stdout == b"out\nerr\n"
    assert capturing.only_view()
    reason = capturing.wrap.records()[0]["finished"]["capture"]["reason"]
    assert reason == "stdout and stderr are one file, so what comes there is no export alone"


def test_a_killed_adapter_ends_the_export_and_its_copy(capturing: Judge) -> None:
    # `exec`: what a killed command leaves behind lives on within the first 0.1 s, as it does without us.
    argv = capturing.argv("/bin/sh", "-c", "echo x; exec sleep 60", phase="solution-export")
    with running(argv, stdout=subprocess.PIPE) as adapter:
        assert adapter.stdout is not None
        assert adapter.stdout.read(2) == b"x\n"
        adapter.kill()
        adapter.wait(30)
        assert adapter.stdout.read() == b"", "no process of ours holds the judge's pipe open"


# How it is configured


def test_the_default_paths_are_the_contract_s() -> None:
    assert leaneval.LANDRUN == "/usr/local/bin/landrun"
    assert leaneval.METRICS == "/run/lean-eval/metrics.json"
    assert leaneval.CAPTURE == "/run/lean-eval/solution-export.ndjson"


@pytest.mark.parametrize("strict", [False, True])
def test_it_refuses_by_default_and_an_unconfined_run_only_when_asked(judge: Judge, strict: bool) -> None:
    judge.wrap.strict = strict
    text = Path(judge.wrap.launcher("leaneval")).read_text()
    assert "'', True, " in text
    assert f"'confined': {'yes' if strict else None!r}" in text


@pytest.mark.parametrize(
    ("strict", "confined_only", "refused"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_where_landlock_is_missing_strict_refuses_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strict: bool, confined_only: bool | None, refused: bool
) -> None:
    monkeypatch.setattr(describe, "landlock_abi", lambda: None)
    plan = Plan(["/usr/bin/landrun", "--best-effort", "--", "/bin/true"], "phase")
    plan.store, plan.cgroup, plan.strict = str(tmp_path / "store"), "off", strict
    plan.confined_only = confined_only
    plan.sandbox, plan.target = landrun_arguments(plan.argv[1:])
    meter = Meter(plan, Inherited())
    try:
        if refused:
            with pytest.raises(MeterError, match="no Landlock"):
                meter.prepare()
        else:
            meter.prepare()
    finally:
        meter.abandon()


@pytest.mark.real
def test_with_a_real_landrun_the_view_is_out_of_reach_of_what_runs_in_it(judge: Judge, landrun: Path) -> None:
    judge.wrap.options["leaneval"]["landrun"] = str(landrun)
    attack = f"echo forged > {judge.metrics}; rm -f {judge.run}/*; mv {judge.run} {judge.folder}/moved; exit 4"
    argv = [
        judge.wrap.launcher("leaneval"), "--phase", "checker", "--", str(landrun),
        "--best-effort", "--ro", "/", "--rw", "/dev", "-ldd", "-add-exec", "--", "/bin/sh", "-c", attack,
    ]  # fmt: skip
    assert call(argv, judge.folder / "streams", env=[b"PATH=/usr/bin:/bin"]).code == 4
    assert judge.ends("checker") == [("exited", 4)]
    assert json.loads(judge.metrics.read_bytes())["schema_version"] == 1
    assert judge.only_view()
