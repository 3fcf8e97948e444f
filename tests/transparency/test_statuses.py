"""The caller sees the command's own status: every exit code, every death by signal, and nothing that is not its own."""

import signal
from pathlib import Path

import pytest
from calling import BARE, ENTRANCES, PHASE, RUN, WAYS, Ended, Wrap, call

from transparency.states import CHANGEABLE

# For `run`, which takes ten times as long to start: what shells, judges and our own policies give a meaning.
TELLING = (0, 1, 2, 3, 77, 100, 101, 124, 125, 126, 127, 128, 137, 143, 254, 255)
# What a process survives that does nothing about it; the last four stop it.
HARMLESS = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
# glibc keeps 32 and 33 to itself; they kill like any other.
FATAL = tuple(sorted({*CHANGEABLE, signal.SIGKILL, 32, 33} - {*HARMLESS, *STOPPING}))


def act_on(wrap: Wrap, folder: Path, way: str, *words: object) -> Ended:
    """The program of tests/transparency/act.c, called in this way."""
    return call(wrap.argv(way, [str(word) for word in words]), folder)


def outcomes(wrap: Wrap) -> list[tuple[str, int | None, int | None]]:
    found = [one["finished"]["outcome"] for one in wrap.records()]
    return [(outcome["kind"], outcome["code"], outcome["signal"]) for outcome in found]


@pytest.mark.parametrize("way", WAYS)
def test_every_exit_code_is_the_command_s_own(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    codes = TELLING if way == RUN else range(256)
    for code in codes:
        ended = act_on(wrap, tmp_path / "s", way, act, "exit", code)
        assert (ended.status, ended.stdout, ended.stderr) == (code << 8, b"", b"")
    assert outcomes(wrap) == [("exited", code, None) for code in codes]


@pytest.mark.parametrize("way", WAYS)
def test_every_death_by_signal_reaches_the_caller(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """128+n from an entrance, the same signal from `run`; never a success."""
    for number in FATAL:
        bare = act_on(wrap, tmp_path / "s", BARE, act, "die", number)
        ended = act_on(wrap, tmp_path / "s", way, act, "die", number)
        assert (bare.status, bare.stdout, bare.stderr) == (number, b"", b"")
        expected = number if way == RUN else (128 + number) << 8
        assert (ended.status, ended.stdout, ended.stderr) == (expected, b"", b""), number
    assert outcomes(wrap) == [("signaled", None, number) for number in FATAL]


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_that_does_not_end_the_command_ends_nobody(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    for number in HARMLESS:
        ended = act_on(wrap, tmp_path / "s", way, act, "die", number)
        assert (ended.status, ended.stdout, ended.stderr) == (3 << 8, b"", b""), number


@pytest.mark.guest_all
def test_a_signal_and_the_exit_code_that_looks_like_it_are_told_apart(tmp_path: Path, wrap: Wrap) -> None:
    for script in ("kill -9 $$", "exit 137"):
        assert call(wrap.argv(PHASE, ["/bin/sh", "-c", script]), tmp_path / "s").code == 137
    assert outcomes(wrap) == [("signaled", None, 9), ("exited", 137, None)]


@pytest.mark.parametrize("way", ENTRANCES)
@pytest.mark.parametrize(("name", "code"), [("/nonexistent/program", 127), ("/etc/passwd", 126), ("/", 126)])
def test_a_command_that_cannot_be_executed(tmp_path: Path, wrap: Wrap, way: str, name: str, code: int) -> None:
    """A caller's own exec would have failed with an errno; we are a process already and say it as a shell does."""
    ended = call(wrap.argv(way, [name]), tmp_path / "s")
    assert (ended.code, ended.stdout) == (code, b"")
    [one] = wrap.records()
    assert one["finished"]["outcome"]["kind"] == "not_started"
