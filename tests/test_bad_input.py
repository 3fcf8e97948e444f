"""Bad input: what is wrong is named, what can run does run, and statuses are a shell's."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from calling import BARE, ENTRANCES, LANDRUN, PHASE, PLAIN, PROOFCOST, RUN, WAYS, Wrap, call, shared_tree

from proofcost.adapters import landrun, phase
from proofcost.harness import meter, spawn
from proofcost.harness.plan import Plan
from proofcost.harness.quantity import BYTE_UNITS, TIME_UNITS
from proofcost.harness.signals import Inherited
from proofcost.run import parse_quantity


@pytest.fixture(scope="module")
def tree() -> Path:
    return shared_tree()


@pytest.fixture
def wrap(tmp_path: Path, tree: Path) -> Wrap:
    return Wrap(tmp_path / "w", tree)


def nothing_was_kept(wrap: Wrap) -> bool:
    return not wrap.store.exists() or not any(path.is_file() for path in wrap.store.rglob("*"))


# Our own words.


@pytest.mark.parametrize(
    "words", [[], ["--phase"], ["--phase", "build"], ["/bin/true"], ["--phase", "build", "--"], ["--"]], ids=str
)
def test_phase_without_a_command_is_125(tmp_path: Path, wrap: Wrap, words: list[str]) -> None:
    ended = call([wrap.launcher("phase"), *words], tmp_path / "s")
    assert (ended.code, ended.stdout) == (125, b"")
    assert ended.stderr.startswith(b"proofcost: ")
    assert ended.stderr.count(b"\n") == 1
    assert b"--phase PHASE -- COMMAND" in ended.stderr
    assert nothing_was_kept(wrap)


@pytest.mark.parametrize(
    "own", [["--phase"], ["--pase", "build"], ["build"], ["--phase", ""], ["--phase", "a", "b"], []], ids=str
)
@pytest.mark.parametrize("strict", [False, True])
def test_wrong_words_of_ours_beside_a_command(tmp_path: Path, wrap: Wrap, own: list[str], strict: bool) -> None:
    wrap.strict = strict
    ended = call([wrap.launcher("phase"), *own, "--", "/bin/sh", "-c", "echo ran; exit 3"], tmp_path / "s")
    if strict:
        assert (ended.code, ended.stdout) == (125, b"")
    else:
        assert (ended.code, ended.stdout, ended.stderr) == (3, b"ran\n", b"")
        assert "--phase PHASE" in wrap.marks()[0]["fault"]
    assert wrap.records() == []


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", "é😀".encode(), b"a b", b"new\nline", b"'\"\\", b"build ", b"-", b"x" * 10_000]
)
def test_a_phase_of_any_name_is_stored_as_given(tmp_path: Path, wrap: Wrap, name: bytes) -> None:
    from proofcost.harness import record

    argv: list[str | bytes] = [wrap.launcher("phase"), "--phase", name, "--", "/bin/sh", "-c", "exit 3"]
    assert call(argv, tmp_path / "s").code == 3
    assert wrap.records()[0]["started"]["phase"]["given"] == record.escape(name)


@pytest.mark.parametrize(
    "words",
    [[], ["--"], ["--bogus", "x"], ["--rw"], ["-"], ["--ro", "/", "--"], ["\xff"], ["--rwx", ""], ["-ldd=,", "a", "b"]],
    ids=str,
)
def test_any_shape_of_landrun_s_arguments_runs(tmp_path: Path, wrap: Wrap, words: list[str]) -> None:
    """An unknown shape is `unknown`; whether it is wrong is landrun's to say."""
    real = tmp_path / "real"
    real.write_text('#!/bin/sh\necho "$#"; exit 3\n')
    real.chmod(0o755)
    ended = call(wrap.argv(LANDRUN, [str(real), *words]), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"%d\n" % len(words), b"")
    assert wrap.records()[0]["started"]["phase"]["understood"] == "unknown"


# Commands that cannot be executed: as execvp, with a shell's codes.


def make_script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("way", WAYS)
def test_commands_that_cannot_be_executed(tmp_path: Path, wrap: Wrap, way: str) -> None:
    make_script(tmp_path / "closed", "#!/bin/sh\n", 0o644)
    make_script(tmp_path / "no-interpreter", "#!/nonexistent/sh\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    cases = {
        "/nonexistent/program": 127, "no-such-program-anywhere": 127, str(tmp_path / "closed"): 126,
        str(tmp_path / "folder"): 126, str(tmp_path / "no-interpreter"): 127, str(tmp_path / "loop"): 126,
        str(tmp_path / "closed/below"): 127, "x" * 300: 127, "/" + "x" * 5000: 127,
    }  # fmt: skip
    for command, expected in cases.items():
        ended = call(wrap.argv(way, [command, "a"]), tmp_path / "s")
        assert (ended.code, ended.stdout) == (expected, b""), command[:60]
    outcomes = [one["finished"]["outcome"] for one in wrap.records()]
    assert {(outcome["kind"], outcome["cause"]) for outcome in outcomes} == {("not_started", "not_started")}
    assert len(outcomes) == len(cases)
    assert all(outcome["errno"] for outcome in outcomes)


def test_an_empty_name_is_not_found(tmp_path: Path, wrap: Wrap) -> None:
    assert call(wrap.argv(PHASE, [""]), tmp_path / "s").code == 127


def test_run_of_an_empty_name_is_a_wrong_call(tmp_path: Path, wrap: Wrap) -> None:
    assert call(wrap.argv(RUN, [""]), tmp_path / "s").code == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_script_without_a_first_line_is_the_shell_s(tmp_path: Path, wrap: Wrap, way: str) -> None:
    script = make_script(tmp_path / "script", 'echo "$0:$1"; exit 7\n')
    ended = call(wrap.argv(way, [str(script), "a b"]), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (7, b"%b:a b\n" % bytes(script), b"")


@pytest.mark.parametrize("way", [PHASE, RUN])
def test_a_name_is_looked_for_as_execvp_does(tmp_path: Path, wrap: Wrap, way: str) -> None:
    """A file that may not be executed, a folder and an empty PATH entry on the way to the right one."""
    for number, make in enumerate(("closed", "folder", "missing", "right")):
        place = tmp_path / str(number)
        place.mkdir()
        if make == "closed":
            make_script(place / "tool", "#!/bin/sh\nexit 1\n", 0o644)
        elif make == "folder":
            (place / "tool").mkdir()
        elif make == "right":
            make_script(place / "tool", "#!/bin/sh\nexit 9\n")
    path = b":".join(bytes(tmp_path / str(number)) for number in range(4))
    assert call(wrap.argv(way, ["tool"]), tmp_path / "s", (b"PATH=" + path,)).code == 9
    closed_alone = b"PATH=" + bytes(tmp_path / "0") + b":" + bytes(tmp_path / "2")
    assert call(wrap.argv(way, ["tool"]), tmp_path / "s", (closed_alone,)).code == 126
    here = tmp_path / "3"
    assert (
        call(wrap.argv(way, ["tool"]), tmp_path / "s", (b"PATH=/nonexistent:",), as_child=lambda: os.chdir(here)).code
        == 9
    )
    assert call(wrap.argv(way, ["sh", "-c", "exit 8"]), tmp_path / "s", (b"HOME=/",)).code == 8, "no PATH at all"


# Sizes and bytes.


@pytest.mark.parametrize("way", ENTRANCES)
def test_two_megabytes_of_arguments(tmp_path: Path, wrap: Wrap, way: str) -> None:
    words = ["w" * 1000] * 1900
    ended = call(wrap.argv(way, ["/bin/sh", "-c", 'echo "$#"; exit 3', "sh", *words]), tmp_path / "s")
    assert (ended.code, ended.stdout) == (3, b"1900\n")
    [one] = wrap.records()
    argv = one["started"]["argv"]
    assert argv["count"] == len(words) + 4
    assert sum(len(word) for word in argv["head"]) <= 16384
    assert len(argv["sha256"]) == 64


def test_many_empty_arguments_stay_within_the_room(tmp_path: Path, wrap: Wrap) -> None:
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", "exit 3", *[""] * 60_000]), tmp_path / "s")
    assert ended.code == 3
    [path] = wrap.store.glob("sessions/*/*.jsonl")
    assert path.stat().st_size < 131_072


def test_bytes_that_grow_when_written_down_stay_within_the_room(tmp_path: Path, wrap: Wrap) -> None:
    """Each byte takes five characters in a record: what is kept must still fit into what was reserved."""
    ended = call(wrap.argv(PHASE, [b"/bin/sh", b"-c", b"exit 3", b"\x01" * 16_000, b"\xff" * 100_000]), tmp_path / "s")
    assert ended.code == 3
    [path] = wrap.store.glob("sessions/*/*.jsonl")
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("argv", [["/bin/tr\0ue"], ["/bin/true", "a\0b"], ["tr\0ue"]], ids=repr)
def test_a_nul_that_only_a_caller_in_python_can_hand_over(tmp_path: Path, argv: list[str]) -> None:
    """No process can pass one; the interface must neither crash nor run half of it."""
    plan = Plan(argv, "phase")
    plan.store = str(tmp_path / "store")
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(meter.invoke(plan, Inherited()))
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 126


def test_a_nul_in_a_name_is_no_program() -> None:
    error = spawn.exec_in_place(["/bin/tr\0ue"])
    assert error.errno == 22


# run.


def run(tmp_path: Path, *words: str | bytes, env: tuple[bytes, ...] = PLAIN) -> tuple[int, str]:
    ended = call([PROOFCOST, "run", "--store", str(tmp_path / "w/store"), *words], tmp_path / "s", env)
    assert ended.stdout == b""
    return ended.code, ended.stderr.decode(errors="surrogateescape")


STARTS = ("--", "/bin/touch", "{ran}")
WRONG_CALLS: list[tuple[tuple[str, ...], str]] = [
    ((), "no judge given"),
    (("--",), "no judge given"),
    (("/bin/touch", "{ran}"), "put `--`"),
    (("-l", "novalue", *STARTS), "KEY=VALUE"),
    (("-l", "=x", *STARTS), "KEY=VALUE"),
    *(
        ((f"--timeout={value}", *STARTS), "--timeout")
        for value in ("soon", "0", "-1", "9" * 30, "1.5.0s", ".5s", "1e3", "")
    ),
    *(((f"--memory={value}", *STARTS), "--memory") for value in ("8X", "0.4", "\u0663G", "-1", "0")),
    (("--bogus", *STARTS), "--bogus"),
    (("--cgroup", "maybe", *STARTS), "--cgroup"),
    (("--shims", "all", *STARTS), "--shims"),
]


@pytest.mark.parametrize(("words", "named"), WRONG_CALLS)
def test_a_wrong_call_of_run_is_2_and_starts_nothing(tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    ran = tmp_path / "ran"
    code, said = run(tmp_path, *[word.format(ran=ran) for word in words])
    assert (code, named in said) == (2, True), said
    assert said.count("\n") == 1
    assert not ran.exists()


@pytest.mark.parametrize(
    "client", ["systemd-run", "/usr/bin/systemd-run", "docker", "podman", "nerdctl", "kubectl", "srun", "sbatch", "ssh"]
)
def test_run_around_a_mere_client_names_the_right_order(tmp_path: Path, client: str) -> None:
    """It would measure a client that waits: nothing is started, and what to write instead is said."""
    code, said = run(tmp_path, "--", client, "prog")
    assert code == 2
    assert "proofcost run -- JUDGE" in said
    assert not (tmp_path / "w").exists()


def test_run_around_systemd_run_scope_is_the_judge_itself(tmp_path: Path) -> None:
    """A scope stays a child of its caller."""
    tools = tmp_path / "bin"
    tools.mkdir()
    make_script(tools / "systemd-run", "#!/bin/sh\nexit 4\n")
    code, said = run(tmp_path, "--", "systemd-run", "--scope", "x", env=(b"PATH=" + bytes(tools),))
    assert (code, said) == (4, "")


def test_labels_of_odd_bytes_are_kept(tmp_path: Path, wrap: Wrap) -> None:
    code, said = run(tmp_path, "-l", b"a=\xff=b", "-l", "k=", "--", "/bin/true")
    assert (code, said) == (0, "")
    assert wrap.records()[0]["started"]["labels"] == {"a": "\\xff=b", "k": ""}


def test_our_options_are_read_and_the_judge_s_are_not(tmp_path: Path, wrap: Wrap) -> None:
    code, said = run(tmp_path, "--", "/bin/sh", "-c", 'exit "$#"', "sh", "--store", "/x", "-l", "--", "--help")
    assert (code, said) == (5, "")


def test_two_stores_in_one_judge(tmp_path: Path, wrap: Wrap) -> None:
    other = Wrap(tmp_path / "other", wrap.tree)
    lines = [f"'{one.launcher('phase')}' --phase build -- /bin/true" for one in (wrap, other)]
    assert call(["/bin/sh", "-c", " && ".join(lines)], tmp_path / "s").code == 0
    assert [len(one.records()) for one in (wrap, other)] == [1, 1]
    assert subprocess.run(wrap.argv(RUN, other.argv(RUN, ["/bin/true"])), check=False).returncode == 0
    assert [len(one.records()) for one in (wrap, other)] == [2, 2]


# Reading command lines.


GRAMMAR: list[tuple[str, list[str], list[str]]] = [
    ("--rw|/a|x", ["/a"], ["x"]),
    ("-rw|/a|--|x", ["/a"], ["x"]),
    ("--rwx=/a,/b|x", ["/a", "/b"], ["x"]),
    ("--rw| /a , /b |--|x", ["/a", "/b"], ["x"]),
    ("x|--rw|/a", ["/a"], ["x", "--rw", "/a"]),
    ("x|--rw|/a|--|--rw|/b", ["/a"], ["x", "--rw", "/a", "--", "--rw", "/b"]),
    ("--rw", [], []),
    ("--env|--rw|x", [], ["x"]),
    ("--ro|/a|--|--rw|/b", [], ["--rw", "/b"]),
    ("--rw=|x", [], ["x"]),
    ("-|x", [], ["-", "x"]),
]


@pytest.mark.parametrize(("words", "writable", "command"), GRAMMAR)
def test_landrun_s_arguments(words: str, writable: list[str], command: list[str]) -> None:
    sandbox, target = landrun.read_arguments(words.split("|"))
    assert (sandbox.writable, target) == (writable, command)


def test_landrun_reads_them_like_that(tmp_path: Path, landrun: Path) -> None:
    """The grammar is the real one's: blanks in lists, and flags behind the command's name."""
    for number, words in enumerate((["--rw", f"/usr, {tmp_path}", "--"], ["--rw", f"{tmp_path} ", "--"])):
        made = tmp_path / f"made{number}"
        argv = [str(landrun), "--best-effort", "--rox", "/", *words, "/usr/bin/touch", str(made)]
        assert subprocess.run(argv, check=False).returncode == 0
        assert made.exists()


def test_a_sandbox_behind_a_wrapper_is_seen_for_what_it_grants() -> None:
    plan = Plan(["/usr/bin/timeout", "60", "/x/landrun", "--rwx", "/a", "--", "cmd", "--rw", "/b"], "phase")
    plan.phase_given = "build"
    phase.understand(plan)
    assert plan.sandbox.writable == ["/a"]
    plan = Plan(["/usr/bin/env", "X=1", "bwrap", "--bind", "/a", "/a", "--", "cmd"], "phase")
    phase.understand(plan)
    assert plan.sandbox.writable == ["/a"]


def test_a_signal_before_anything_was_read_ends_us(tmp_path: Path, wrap: Wrap) -> None:
    """While the interpreter starts, the caller's TERM has its default effect, as it would have on the command."""
    for way in (BARE, PHASE):
        with subprocess.Popen(wrap.argv(way, ["/bin/sleep", "5"])) as started:
            started.send_signal(signal.SIGTERM)
            assert started.wait(timeout=4) in (-15, 143)


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90 * 10**9), ("1.5s", 1_500_000_000), ("250ms", 250_000_000), ("2h", 7200 * 10**9), ("1d", 86400 * 10**9)],
)
def test_times_as_people_write_them(text: str, value: int) -> None:
    assert parse_quantity(text, TIME_UNITS, "--timeout", "") == value


@pytest.mark.parametrize(
    ("text", "value"), [("1.5G", 1_500_000_000), ("8Gi", 8 << 30), ("512MB", 512_000_000), ("1Ki", 1024)]
)
def test_sizes_as_people_write_them(text: str, value: int) -> None:
    assert parse_quantity(text, BYTE_UNITS, "--memory", "") == value
