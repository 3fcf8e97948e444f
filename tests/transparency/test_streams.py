"""Streams go straight to the command: nothing is read ahead, copied, added or held back."""

import fcntl
import os
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

import pytest
from calling import BARE, ENTRANCES, RUN, WAYS, Wrap, become, call, running, wait_for

GIBIBYTES = 5
BLOCK_BYTES = 1 << 20


def fill(stream: IO[bytes], block: memoryview) -> int:
    """Read until the block is full or the stream ends; how much there was."""
    done = 0
    while done < len(block) and (more := stream.readinto(block[done:])):  # type: ignore[attr-defined]
        done += more
    return done


@pytest.mark.parametrize("way", WAYS)
def test_five_gibibytes_of_output_arrive_byte_for_byte(wrap: Wrap, act: Path, way: str) -> None:
    """Each block begins with its number, so that a lost, doubled or moved one is seen."""
    count = GIBIBYTES << 30
    expected, seen = bytearray(BLOCK_BYTES), bytearray(BLOCK_BYTES)
    with running(wrap.argv(way, [str(act), "stream", str(count)]), stdout=subprocess.PIPE, bufsize=0) as started:
        assert started.stdout is not None
        fcntl.fcntl(started.stdout, fcntl.F_SETPIPE_SZ, BLOCK_BYTES)
        for number in range(count // BLOCK_BYTES):
            assert fill(started.stdout, memoryview(seen)) == BLOCK_BYTES
            if number == 0:
                expected[:] = seen
            expected[:8] = number.to_bytes(8, "little")
            assert seen == expected, f"block {number}"
        assert started.stdout.read() == b""
        assert started.wait() == 0
    assert len(set(expected)) == 256, "more than zeros"
    [one] = wrap.records()
    assert one["finished"]["outcome"]["code"] == 0


@pytest.mark.parametrize("way", ENTRANCES)
def test_output_is_not_copied_by_us(wrap: Wrap, way: str) -> None:
    script = "head -c 200000000 /dev/zero; sleep 0.3"
    with running(wrap.argv(way, ["/bin/sh", "-c", script]), stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        total = 0
        while total < 200_000_000:
            total += len(os.read(started.stdout.fileno(), 1 << 20))
        counted = dict(line.split(": ") for line in Path(f"/proc/{started.pid}/io").read_text().splitlines())
        assert int(counted["wchar"]) < 100_000, counted
        assert int(counted["rchar"]) < 2_000_000, "its own files and /proc"
        assert started.wait() == 0
    assert total == 200_000_000


@pytest.mark.parametrize("way", WAYS)
def test_fifty_megabytes_of_input_arrive_byte_for_byte(wrap: Wrap, way: str) -> None:
    """stdin goes straight to the command: nothing is read ahead, nothing is left."""
    block = os.urandom(1 << 20)
    with running(wrap.argv(way, ["/bin/cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        feed, drain = started.stdin, started.stdout

        def write() -> None:
            for _ in range(50):
                feed.write(block)
            feed.close()

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(50):
            assert drain.read(len(block)) == block
        assert drain.read() == b""
        writer.join()
        assert started.wait() == 0


@pytest.mark.parametrize("way", WAYS)
def test_what_the_command_left_unread_is_there_for_the_next(wrap: Wrap, way: str) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"first\nsecond\n")
    os.close(write_end)
    done = subprocess.run(wrap.argv(way, ["/usr/bin/env", "dd", "bs=1", "count=6", "status=none"]), stdin=read_end,
                          capture_output=True, check=False)  # fmt: skip
    assert (done.stdout, done.stderr) == (b"first\n", b"")
    assert os.read(read_end, 100) == b"second\n"
    os.close(read_end)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_read_and_written_from_where_the_caller_stood(tmp_path: Path, wrap: Wrap, way: str) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"skipped-taken")
    target.write_bytes(b"kept-below-and-after")
    with source.open("rb", buffering=0) as stdin, target.open("r+b", buffering=0) as stdout:
        stdin.seek(8)
        stdout.seek(5)
        subprocess.run(wrap.argv(way, ["/bin/cat"]), stdin=stdin, stdout=stdout, check=True)
        assert (stdin.tell(), stdout.tell()) == (13, 10)
    assert target.read_bytes() == b"kept-taken-and-after"


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_a_socket_serves_as_both_streams(wrap: Wrap, way: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, running(wrap.argv(way, ["/bin/cat"]), stdin=theirs, stdout=theirs) as started:
        ours.sendall(b"there and back")
        assert ours.recv(100) == b"there and back"
        ours.shutdown(socket.SHUT_WR)
        assert started.wait(timeout=30) == 0


@pytest.mark.parametrize("way", [BARE, *WAYS])
def test_an_output_that_takes_nothing_is_the_command_s_own_trouble(wrap: Wrap, way: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            wrap.argv(way, ["/bin/cat", "/etc/passwd"]), stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
            env={"LC_ALL": "C"}, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"/bin/cat: write error: No space left on device\n")


def test_sigpipe_ends_a_command_whose_reader_left(wrap: Wrap) -> None:
    """A program that Python's own ignoring of SIGPIPE reached would go on and complain."""
    for way in (BARE, *WAYS):
        line = " ".join("'" + os.fsdecode(word) + "'" for word in wrap.argv(way, ["/usr/bin/yes"]))
        done = subprocess.run(
            ["/bin/bash", "-c", f"{line} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, check=False
        )
        assert (done.stdout, done.stderr) == (b"y\n141\n", b""), way


def test_run_prints_nothing_of_its_own_without_a_terminal(tmp_path: Path, wrap: Wrap) -> None:
    ended = call(wrap.argv(RUN, ["/bin/sh", "-c", "echo out; echo err >&2"]), tmp_path / "s")
    assert (ended.status, ended.stdout, ended.stderr) == (0, b"out\n", b"err\n")


@pytest.mark.parametrize("way", WAYS)
def test_a_limit_on_the_size_of_files_is_the_command_s_own(tmp_path: Path, wrap: Wrap, way: str) -> None:
    """It dies of SIGXFSZ at its own write, and has written as much as it would have."""
    target = tmp_path / "target"
    script = f'exec head -c 100000 /dev/zero >"{target}"'

    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))

    ended = call(wrap.argv(way, ["/bin/sh", "-c", script]), tmp_path / "s", as_child=narrow)
    assert ended.code == 128 + 25
    assert target.stat().st_size == 70_000


@pytest.mark.parametrize("way", [BARE, *ENTRANCES, pytest.param(RUN, marks=pytest.mark.xfail(reason="holds its own"))])
def test_a_reader_sees_the_end_when_the_command_lets_go(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """A command that closes its streams and works on: its caller must not wait for us instead."""
    leave = tmp_path / "leave"
    with running(
        wrap.argv(way, [str(act), "let-go", str(leave)]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as started:  # fmt: skip
        assert started.stdout is not None
        threading.Timer(1.5, leave.touch).start()
        assert started.stdout.read() == b""
        early = not leave.exists()
        leave.touch()
        assert started.wait() == 6
    assert early


@pytest.mark.parametrize("way", [BARE, *ENTRANCES])
def test_a_writer_learns_that_the_command_reads_no_more(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    leave = tmp_path / "leave"
    argv = wrap.argv(way, [str(act), "let-go", str(leave)])
    with running(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stdout.read() == b"", "until it has let go"
        with pytest.raises(BrokenPipeError):
            os.write(started.stdin.fileno(), b"x")
        leave.touch()
        assert started.wait() == 6


@pytest.mark.parametrize("way", ENTRANCES)
def test_a_record_lock_of_the_caller_is_kept_to_the_end(tmp_path: Path, wrap: Wrap, act: Path, way: str) -> None:
    """Taken before the exec: no fork passes it on, so that the meter holds it for the command."""
    file, leave = tmp_path / "file", tmp_path / "leave"
    file.touch()

    def is_held() -> bool:
        with file.open("r+b") as other:
            try:
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    child = os.fork()
    if child == 0:
        fd = os.open(file, os.O_RDWR)
        os.set_inheritable(fd, True)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        become(wrap.argv(way, [str(act), "let-go", str(leave)]))
    wait_for(wrap.records, "the start")
    time.sleep(0.3)
    assert is_held()
    leave.touch()
    assert os.waitpid(child, 0)[1] == 6 << 8
    assert not is_held()
