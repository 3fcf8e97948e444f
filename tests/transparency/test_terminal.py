"""Job control under a real terminal: a shell and its user see a wrapped command as they see a bare one."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import BARE, ENTRANCES, RUN, WAYS, Wrap, become, has_ended, wait_for

from transparency.test_signals import noted, noting, the_command_of, until_ready

PATIENCE_S = 15


class Terminal:
    """bash with job control on a terminal of its own."""

    def __init__(self) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve("/bin/bash", ["bash", "--norc", "-i"], {"PATH": "/usr/bin:/bin", "PS1": "$ ", "TERM": "dumb"})
        self.seen = ""
        self.expect("$ ")

    def send(self, text: str) -> None:
        self.seen = ""
        os.write(self.fd, text.encode())

    def type(self, key: bytes) -> None:
        os.write(self.fd, key)

    def expect(self, *texts: str) -> str:
        """Read until one of these was seen."""
        end = time.monotonic() + PATIENCE_S
        while not any(text in self.seen for text in texts):
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"none of {texts} in {self.seen!r}"
            self.seen += os.read(self.fd, 4096).decode(errors="replace")
        return self.seen

    def until_foreground(self, name: str) -> int:
        """The pid of the program of that name once it is in the terminal's foreground group."""

        def look() -> int:
            group = os.tcgetpgrp(self.fd)
            for path in Path("/proc").glob("[0-9]*/stat"):
                try:
                    head, _, rest = path.read_text().rpartition(")")
                except OSError:
                    continue
                if head.endswith(f"({name}") and int(rest.split()[2]) == group:
                    return int(path.parent.name)
            return 0

        return int(wait_for(look, f"{name} in the foreground"))

    def close(self) -> None:
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def typed(argv: list[str | bytes]) -> str:
    return " ".join("'" + os.fsdecode(word) + "'" for word in argv)


@pytest.mark.parametrize("way", [BARE, *WAYS])
@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_that_ends_the_foreground_job(
    terminal: Terminal, wrap: Wrap, way: str, key: bytes, number: signal.Signals
) -> None:
    terminal.send("ulimit -c 0; " + typed(wrap.argv(way, ["/bin/sleep", "30"])) + "; echo status-$?-\n")
    terminal.until_foreground("sleep")
    terminal.type(key)
    if number == signal.SIGINT and way in (BARE, RUN):  # bash itself gives up the line when its job died of SIGINT
        terminal.expect("^C")
        terminal.send("echo status-$?-\n")
    assert f"status-{128 + number}-" in terminal.expect(f"status-{128 + number}-", "status-0-", "status-1-")
    if way != BARE:
        assert wrap.records()[0]["finished"]["outcome"]["cause"] == "terminated_by_caller"


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_control_z_and_fg(terminal: Terminal, wrap: Wrap, way: str) -> None:
    script = "echo begun; sleep 0.6; echo ended"
    terminal.send(typed(wrap.argv(way, ["/bin/sh", "-c", script])) + "\n")
    terminal.expect("begun\r")
    terminal.until_foreground("sleep")  # a shell that is just starting a program (vfork) could not stop
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.send("jobs -l\n")
    terminal.expect("Stopped")
    time.sleep(0.7)
    terminal.send("fg; echo status-$?-\n")
    assert "status-0-" in terminal.expect("status-0-", "status-1")
    assert "ended" in terminal.seen


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_a_stopped_job_goes_on_in_the_background(terminal: Terminal, wrap: Wrap, way: str) -> None:
    terminal.send(typed(wrap.argv(way, ["/bin/sleep", "1"])) + "\n")
    terminal.until_foreground("sleep")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.send("bg; wait %1; echo status-$?-\n")
    terminal.expect("status-0-")


@pytest.mark.parametrize("way", [BARE, *ENTRANCES])
def test_a_background_job_that_reads_the_terminal_stops(terminal: Terminal, wrap: Wrap, way: str) -> None:
    terminal.send(typed(wrap.argv(way, ["/bin/cat"])) + " &\n")
    time.sleep(0.5)
    terminal.send("jobs\n")
    terminal.expect("Stopped")
    terminal.send("fg\n")
    terminal.until_foreground("cat")
    terminal.send("hello\n")
    terminal.expect("hello\r\nhello")
    terminal.type(b"\x04")
    terminal.send("echo status-$?-\n")
    terminal.expect("status-0-")


@pytest.mark.parametrize("way", [BARE, *ENTRANCES])
def test_a_background_job_that_may_not_write_to_the_terminal_stops(terminal: Terminal, wrap: Wrap, way: str) -> None:
    terminal.send("stty tostop\n")
    terminal.expect("$ ")
    terminal.send(typed(wrap.argv(way, ["/bin/echo", "said"])) + " &\n")
    time.sleep(0.5)
    terminal.send("jobs\n")
    terminal.expect("Stopped")
    assert "\nsaid" not in terminal.seen
    terminal.send("fg; echo status-$?-\n")
    assert "\nsaid" in terminal.expect("status-0-")


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_a_window_that_changes_its_size_is_told_once(
    tmp_path: Path, terminal: Terminal, wrap: Wrap, act: Path, way: str
) -> None:
    """The terminal tells the whole foreground group: what the meter gets is not passed on a second time."""
    notes = tmp_path / "notes"
    argv = wrap.argv(way, noting(act, notes, 2, signal.SIGWINCH, signal.SIGUSR1))
    terminal.send(typed(argv) + "; echo status-$?-\n")
    until_ready(notes)
    command = terminal.until_foreground("act")
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    wait_for(lambda: noted(notes), "the signal")
    time.sleep(0.2)  # for a second one
    os.kill(command, signal.SIGUSR1)
    terminal.expect("status-5-")
    assert noted(notes) == [signal.SIGWINCH, signal.SIGUSR1]


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_a_terminal_that_goes_away_ends_the_command(wrap: Wrap, way: str) -> None:
    """A hang-up reaches the session's leader alone, and that is the meter here."""
    argv = wrap.argv(way, ["/bin/sleep", "30"])
    pid, fd = pty.fork()
    if pid == 0:
        become(argv)
    command = pid if way == BARE else the_command_of(pid)
    wait_for(lambda: Path(f"/proc/{command}/comm").read_text() == "sleep\n", "the command's start")
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    expected = -signal.SIGHUP if way in (BARE, RUN) else 128 + signal.SIGHUP
    assert os.waitstatus_to_exitcode(status) == expected
    wait_for(lambda: has_ended(command), "the command's end")


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_a_terminal_that_goes_away_below_a_shell_ends_the_command(wrap: Wrap, way: str) -> None:
    """There the shell is the leader and passes the hang-up on to its jobs."""
    terminal = Terminal()
    terminal.send(typed(wrap.argv(way, ["/bin/sleep", "30"])) + "\n")
    command = terminal.until_foreground("sleep")
    os.close(terminal.fd)
    os.waitpid(terminal.pid, 0)
    wait_for(lambda: has_ended(command), "the command's end")
