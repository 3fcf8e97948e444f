"""A stream that passes through us: byte for byte, in order, and its two ends feel of each other what they would."""

import fcntl
import hashlib
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import wait_for

from proofcost.adapters.export_capture import MAX_BYTES, Capture
from proofcost.adapters.kernel_timing import LineTap
from proofcost.harness import libc, relay

BLOCK = bytes(range(256)) * 256


class Relayed:
    """A child whose stdout goes through a relay to the pipe that the test reads, or to `sink`."""

    def __init__(self, code: str, tap: relay.Tap, sink: int | None = None, both: bool = False) -> None:
        self.read_end, write_end = os.pipe()
        result, told = os.pipe()
        self.meter = os.fork()
        if self.meter == 0:
            try:
                os.close(self.read_end)
                os.close(result)
                os.dup2(write_end if sink is None else sink, 1)
                if both:
                    os.dup2(1, 2)
                for end in {write_end, *([] if sink is None else [sink])} - {1, 2}:
                    os.close(end)
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGPIPE})
                os.write(told, repr(self._as_meter(code, tap)).encode())
            except BaseException as error:  # noqa: BLE001  # told to the test, which fails on it
                os.write(told, repr(error).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        os.close(told)
        self._result = result

    @staticmethod
    def _as_meter(code: str, tap: relay.Tap) -> Any:
        way = relay.Relay()
        way.start(tap)
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
            for target, source in way.outputs.items():
                os.dup2(source, target)
            os.execv(sys.executable, [sys.executable, "-ISc", code])
        way.given()
        status = os.waitpid(pid, 0)[1]
        return status, way.collect(lambda: False), sorted(way.outputs), way.pid

    def read(self) -> bytes:
        parts = []
        while part := os.read(self.read_end, 1 << 20):
            parts.append(part)
        return b"".join(parts)

    def told(self) -> tuple[int, dict[str, Any] | None, list[int], int]:
        raw = b""
        while part := os.read(self._result, 65536):
            raw += part
        os.waitpid(self.meter, 0)
        os.close(self._result)
        found: tuple[int, dict[str, Any] | None, list[int], int] = eval(raw)
        return found

    def close(self) -> None:
        os.close(self.read_end)


WRITE_MUCH = """
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
block = bytes(range(256)) * 256
for at in range({count}):
    os.write(1, block[at % 256:])
"""


def much(count: int) -> bytes:
    return b"".join(BLOCK[at % 256 :] for at in range(count))


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[Capture]:
    made = Capture(str(tmp_path / "export.ndjson"))
    yield made
    made.remove()


def tap_of(capture: Capture) -> relay.Tap:
    tap = capture.open()
    assert tap is not None, capture.reason
    return tap


def test_what_passes_is_whole_and_captured_and_told(capture: Capture) -> None:
    passed = Relayed(WRITE_MUCH.format(count=300), tap_of(capture))
    assert passed.read() == much(300)
    status, report, outputs, _ = passed.told()
    assert report is not None
    assert (status, outputs) == (0, [1])
    assert (report["state"], report["passed_bytes"], report["errno"]) == ("ended", len(much(300)), None)
    assert report["cpu_ns"] > 0
    found = capture.finish(report, True)
    assert found == {"path": capture.path, "kept": True, "size_bytes": len(much(300)), "reason": None}
    assert Path(capture.path).read_bytes() == much(300)
    assert Path(capture.path).stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("how", ["append", "no tee"])
def test_what_cannot_be_spliced_passes_all_the_same(
    capture: Capture, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "no tee":
        monkeypatch.setattr(libc, "AVAILABLE", False)
        sink = None
    else:
        sink = os.open(tmp_path / "sink", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    passed = Relayed(WRITE_MUCH.format(count=100), tap_of(capture), sink)
    read = passed.read()
    _, report, _, _ = passed.told()
    if sink is not None:
        os.close(sink)
        read = (tmp_path / "sink").read_bytes()
    assert report is not None
    assert read == much(100)
    assert report["passed_bytes"] == len(read)
    assert capture.finish(report, True)["kept"] is True
    assert Path(capture.path).read_bytes() == much(100)


def test_a_terminal_gets_what_the_command_writes(capture: Capture) -> None:
    master, slave = os.openpty()
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    passed = Relayed("print('to a terminal', flush=True)", tap_of(capture), slave)
    assert os.read(master, 100) == b"to a terminal\n"
    _, report, _, _ = passed.told()
    assert report is not None
    assert report["state"] == "ended"
    os.close(master)
    os.close(slave)


def test_a_reader_that_goes_away_ends_the_command_by_sigpipe_and_removes_the_capture(capture: Capture) -> None:
    passed = Relayed(WRITE_MUCH.format(count=100000), tap_of(capture))
    assert os.read(passed.read_end, 1000) == BLOCK[:1000]
    passed.close()
    status, report, _, _ = passed.told()
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGPIPE
    assert report is not None
    assert report["state"] == "no_reader"
    assert capture.finish(report, False)["reason"] == "whom the export was for had stopped reading"
    assert not Path(capture.path).exists()


def test_a_reader_that_is_gone_is_noticed_before_anything_is_written(capture: Capture) -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
time.sleep(0.3)
os.write(1, b"first")
os.write(1, b"second")
"""
    passed = Relayed(code, tap_of(capture))
    passed.close()
    status, report, _, _ = passed.told()
    assert os.WTERMSIG(status) == signal.SIGPIPE
    assert report is not None
    assert report["passed_bytes"] == 0


def test_stdout_and_stderr_into_one_pipe_keep_their_order() -> None:
    code = """
import os
for at in range(2000):
    os.write(1 + at % 2, b"%d\\n" % at)
"""
    passed = Relayed(code, LineTap(), both=True)
    assert passed.read() == b"".join(b"%d\n" % at for at in range(2000))
    assert passed.told()[2] == [1, 2]


def test_nothing_waits_in_us_while_the_command_is_quiet() -> None:
    code = """
import os, sys
os.write(1, b"ask")
sys.stdin.read()
"""
    passed = Relayed(code, LineTap())
    ready, _, _ = select.select([passed.read_end], [], [], 30)
    assert ready, "what was written must come at once, not with what follows"
    assert passed.read() == b"ask"
    passed.told()


def test_what_outlives_the_command_is_passed_on_and_the_meter_leaves_before(capture: Capture) -> None:
    code = """
import os, sys, time
os.write(1, b"early ")
if os.fork() == 0:
    time.sleep(0.5)
    os.write(1, b"late")
"""
    passed = Relayed(code, tap_of(capture))
    status, report, _, pid = passed.told()
    assert status == 0
    assert report is not None
    assert (report["state"], report["passed_bytes"]) == ("open", 6)
    found = capture.finish(report, True)
    assert found["reason"] == "something outlived the command and could still have written to it"
    assert passed.read() == b"early late"
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or b"Z" in stat_of(pid), "the end of the process that passes on")


def stat_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2][:3]
    except OSError:
        return b"Z"


def test_the_command_waits_for_its_reader_as_it_would_without_us() -> None:
    """At most the caller's pipe, ours and the tap's can be ahead of the reader."""
    passed = Relayed(WRITE_MUCH.format(count=100), LineTap())
    before = -1
    while (waiting := in_pipe(passed.read_end)) != before:
        before = waiting
        time.sleep(0.2)
    assert waiting <= 65536
    assert Path(f"/proc/{passed.meter}").exists()
    assert passed.read() == much(100)
    passed.told()


FLOOD = """
import os, time
os.write(1, b"KERNEL")
begun, begin = os.pipe()
if os.fork() == 0:
    end = time.monotonic() + 15
    os.write(1, bytes(4096))
    os.write(begin, b".")
    while time.monotonic() < end:
        os.write(1, bytes(4096))
os.read(begun, 1)
"""


def a_pipe() -> tuple[int, int]:
    return os.pipe()


def a_socket() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def a_terminal() -> tuple[int, int]:
    master, slave = os.openpty()
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    return master, slave


@pytest.mark.parametrize("tee", [True, False], ids=["tee", "no tee"])
@pytest.mark.parametrize("ends", [a_pipe, a_socket, a_terminal])
def test_nobody_waits_for_a_straggler_that_fills_what_nobody_reads(
    ends: Callable[[], tuple[int, int]], tee: bool, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libc, "AVAILABLE", tee)
    read_end, sink = ends()
    began = time.monotonic()
    passed = Relayed(FLOOD, tap_of(capture), sink)
    status, report, _, pid = passed.told()
    assert time.monotonic() - began < 60  # FLOOD writes for longer
    os.close(sink)
    assert report is not None
    assert (status, report["state"], report["errno"]) == (0, "open", None)
    assert report["tap"]["captured_bytes"] >= report["passed_bytes"]
    assert Path(capture.path).read_bytes()[:10] == b"KERNEL" + bytes(4)
    read = b""
    while len(read) < 300_000:
        read += os.read(read_end, 1 << 16)
    assert read == b"KERNEL" + bytes(len(read) - 6)
    os.close(read_end)
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or b"Z" in stat_of(pid), "the end of the process that passes on")


def test_nobody_waits_for_a_straggler_that_writes_as_fast_as_is_read(capture: Capture) -> None:
    began = time.monotonic()
    passed = Relayed(FLOOD, tap_of(capture))
    enough = threading.Event()

    def read() -> None:
        while not enough.is_set():
            os.read(passed.read_end, 1 << 16)

    reader = threading.Thread(target=read)
    reader.start()
    status, report, _, _ = passed.told()
    told = time.monotonic() - began
    enough.set()
    reader.join()
    passed.close()
    assert told < 10
    assert report is not None
    assert (status, report["state"]) == (0, "open")


@pytest.mark.parametrize("tee", [True, False], ids=["tee", "no tee"])
def test_a_reader_that_pauses_gets_all_and_the_copy_is_whole(
    tee: bool, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has ended, and its reader takes nothing for longer than the meter waits."""
    monkeypatch.setattr(libc, "AVAILABLE", tee)
    passed = Relayed("import os\nos.write(1, bytes(range(256)) * 450)", tap_of(capture))
    status, report, _, _ = passed.told()
    assert report is not None
    assert (status, report["state"], report["passed_bytes"]) == (0, "ended", 65536)
    assert capture.finish(report, True) == {
        "path": capture.path, "kept": True, "size_bytes": 256 * 450, "reason": None
    }  # fmt: skip
    assert Path(capture.path).read_bytes() == bytes(range(256)) * 450
    assert passed.read() == bytes(range(256)) * 450


def test_a_reader_that_takes_its_time_is_waited_for(capture: Capture) -> None:
    passed = Relayed("import os\nos.write(1, bytes(range(256)) * 450)", tap_of(capture))
    read = b""
    while part := os.read(passed.read_end, 8192):
        read += part
        time.sleep(0.15)
    assert read == bytes(range(256)) * 450
    _, report, _, _ = passed.told()
    assert report is not None
    assert (report["state"], report["passed_bytes"]) == ("ended", len(read))


def in_pipe(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_capture_beyond_its_limit_gives_its_room_back_and_the_stream_goes_on(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofcost.adapters.export_capture.MAX_BYTES", 100_000)
    passed = Relayed(WRITE_MUCH.format(count=50), tap_of(capture))
    assert passed.read() == much(50)
    _, report, _, _ = passed.told()
    assert report is not None
    assert report["tap"] == {"captured_bytes": report["tap"]["captured_bytes"], "errno": None, "over_limit": True}
    assert Path(capture.path).stat().st_size == 0
    assert capture.finish(report, True)["reason"] == "the export is larger than 100000 bytes"
    assert not Path(capture.path).exists()


def test_the_limit_is_that_of_the_contract() -> None:
    assert MAX_BYTES == 67_108_864


def test_a_full_disk_loses_the_capture_alone(tmp_path: Path, as_root: None) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=True)
    try:
        capture = Capture(str(small / "export.ndjson"))
        passed = Relayed(WRITE_MUCH.format(count=50), tap_of(capture))
        assert passed.read() == much(50)
        _, report, _, _ = passed.told()
        assert capture.finish(report, True)["reason"] == "it could not be written: No space left on device"
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("mine"), "it was there already, and was left alone"),
        (lambda path: path.symlink_to("/etc/passwd"), "it was there already, and was left alone"),
        (lambda path: path.parent.rmdir(), "cannot be made: No such file or directory"),
    ],
)
def test_a_capture_that_cannot_be_made_is_told_and_touches_nothing(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "export.ndjson"
    make(path)
    before = os.lstat(path) if path.is_symlink() or path.exists() else None
    capture = Capture(str(path))
    assert capture.open() is None
    assert capture.finish(None, True) == {"path": str(path), "kept": False, "size_bytes": None, "reason": why}
    assert before is None or os.lstat(path).st_ino == before.st_ino


@pytest.mark.parametrize(
    ("code", "succeeded", "why"),
    [
        ("", True, "the command printed nothing"),
        ("print(1)", False, "the command failed, so what it printed is no whole export"),
    ],
)
def test_what_is_no_whole_export_is_removed(capture: Capture, code: str, succeeded: bool, why: str) -> None:
    passed = Relayed(code, tap_of(capture))
    passed.read()
    assert capture.finish(passed.told()[1], succeeded)["reason"] == why
    assert not Path(capture.path).exists()


def test_a_passing_process_that_is_killed_is_told_as_unknown(capture: Capture) -> None:
    code = "import os, time\nos.write(1, b'x')\ntime.sleep(1)\n"
    passed = Relayed(code, tap_of(capture))
    os.read(passed.read_end, 1)
    children = Path(f"/proc/{passed.meter}/task/{passed.meter}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    status, report, _, _ = passed.told()
    assert (status, report) == (0, None)
    assert capture.finish(None, True)["reason"] == "the process that passed the export on did not say how it ended"
    assert not Path(capture.path).exists()


def test_no_descriptor_of_the_meter_stays_open_in_the_passing_process(tmp_path: Path) -> None:
    kept = os.open(tmp_path / "store", os.O_WRONLY | os.O_CREAT)
    passed = Relayed("import sys; sys.stdin.read(); import time; time.sleep(1)", LineTap())
    os.close(kept)
    pid = int(wait_for(lambda: children_of(passed.meter), "the passing process")[0])
    wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) == 6, "six descriptors: stdout, source, control, report, copy")
    assert passed.read() == b""
    passed.told()


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.slow
def test_five_gibibytes_arrive_as_they_were_sent(capture: Capture) -> None:
    code = """
import os, hashlib
block = os.urandom(1 << 20) * 4
digest = hashlib.sha1()
for _ in range(1280):
    digest.update(block)
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(1, rest):]
os.write(2, digest.digest())
"""
    error_out, error_in = os.pipe()
    kept = os.dup(2)
    os.dup2(error_in, 2)
    try:
        passed = Relayed(code, tap_of(capture))
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(error_in)
    seen, count = hashlib.sha1(), 0
    while part := os.read(passed.read_end, 1 << 20):
        seen.update(part)
        count += len(part)
    _, report, _, _ = passed.told()
    assert count == 5 << 30
    assert seen.digest() == os.read(error_out, 100)
    os.close(error_out)
    assert report is not None
    assert report["passed_bytes"] == 5 << 30
    assert report["tap"]["over_limit"] is True
