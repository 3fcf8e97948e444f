"""Counters and exec stamps: what the kernel wrote is read right, and what it did not count is never a number."""

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import libc, perf

EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC


def comm(name: bytes, pid: int = 7, time_ns: int = 100, misc: int = EXEC, tid: int | None = None) -> bytes:
    """A PERF_RECORD_COMM as the kernel writes it: a padded name that ends in a NUL, then the sample id."""
    padded = name[:15] + b"\0" * (8 - len(name[:15]) % 8)
    thread = pid if tid is None else tid
    body = struct.pack("<II", pid, thread) + padded + struct.pack("<IIQ", pid, thread, time_ns)
    return struct.pack("<IHH", 3, misc, 8 + len(body)) + body


def fork(kind: int = 7) -> bytes:
    return struct.pack("<IHH", kind, 0, 48) + bytes(40)


def lost(count: int) -> bytes:
    body = struct.pack("<QQ", 1, count) + struct.pack("<IIQ", 7, 7, 5)
    return struct.pack("<IHH", 2, 0, 8 + len(body)) + body


def names(data: bytes) -> list[bytes]:
    return [stamp.name for stamp in perf.parse_ring(data)[0]]


def test_an_exec_is_a_stamp() -> None:
    (stamp,), missing = perf.parse_ring(comm(b"landrun", pid=41, time_ns=123_456_789_012))
    assert (stamp.name, stamp.pid, stamp.time_ns, missing) == (b"landrun", 41, 123_456_789_012, 0)


def test_an_exec_from_another_thread_bears_the_process() -> None:
    (stamp,), _ = perf.parse_ring(comm(b"lean", pid=41, tid=44))
    assert stamp.pid == 41


def test_a_rename_is_no_stamp() -> None:
    assert names(comm(b"lean", misc=0) + comm(b"landrun")) == [b"landrun"]


def test_forks_and_exits_are_passed_over() -> None:
    assert names(fork() + comm(b"a") + fork(4) + comm(b"b")) == [b"a", b"b"]


@pytest.mark.parametrize("length", range(1, 16))
def test_names_of_every_length_come_out_whole(length: int) -> None:
    name = b"abcdefghijklmnop"[:length]
    assert names(comm(name)) == [name]


def test_lost_records_add_up() -> None:
    assert perf.parse_ring(lost(3) + comm(b"a") + lost(4))[1] == 7


@given(st.integers(0, 200))
def test_a_ring_cut_short_gives_what_is_whole(cut: int) -> None:
    data = comm(b"one") + comm(b"two") + comm(b"three")
    whole = [b"one", b"two", b"three"][: sum(cut >= end for end in (40, 80, 120))]
    assert names(data[:cut]) == whole


@given(st.binary(max_size=300))
def test_any_bytes_end_without_a_fault(data: bytes) -> None:
    stamps, missing = perf.parse_ring(data)
    assert missing >= 0
    assert len(stamps) <= len(data) // 32


@pytest.mark.parametrize("size", range(8))
def test_a_record_smaller_than_its_head_ends_the_ring(size: int) -> None:
    assert names(comm(b"a") + struct.pack("<IHH", 3, EXEC, size) + comm(b"b")) == [b"a"]


def counter(value: int, enabled: int, running: int) -> bytes:
    return struct.pack("<QQQ", value, enabled, running)


def test_a_counter_that_always_ran_is_a_value() -> None:
    figure = perf.figure_of(counter(9, 100, 100), "count", "m")
    assert figure == {
        "value": 9, "unit": "count", "method": "m", "status": "measured", "reason": None,
        "enabled_ns": 100, "running_ns": 100,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (counter(9, 100, 99), perf.REASON_MULTIPLEXED),
        (counter(0, 100, 1), perf.REASON_MULTIPLEXED),
        (counter(0, 100, 0), perf.REASON_NEVER_RAN),
        (counter(0, 0, 0), perf.REASON_NEVER_RAN),
        (counter(9, 100, 100)[:16], perf.REASON_NOT_REPORTED),
        (b"", perf.REASON_NOT_REPORTED),
        (counter(9, 100, 100) + b"x", perf.REASON_NOT_REPORTED),
    ],
)
def test_a_counter_that_did_not_count_all_is_no_value(raw: bytes, reason: str) -> None:
    figure = perf.figure_of(raw, "count", "m")
    assert (figure["value"], figure["status"], figure["reason"]) == (None, "unavailable", reason)


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_value_needs_a_counter_that_ran_whenever_it_was_enabled(value: int, enabled: int, running: int) -> None:
    figure = perf.figure_of(counter(value, enabled, running), "count", "m")
    assert (figure["value"] is not None) == (running > 0 and running >= enabled)
    assert (figure["value"] is None) == (figure["status"] == "unavailable") == bool(figure["reason"])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, "counter_permission_denied"),
        (errno.EPERM, "counter_permission_denied"),
        (errno.ENOENT, "counter_not_supported"),
        (errno.EOPNOTSUPP, "counter_not_supported"),
        (errno.ENOSYS, "counter_not_supported"),
        (errno.E2BIG, "counter_not_supported"),
        (errno.EINVAL, "counter_not_supported"),
        (errno.EMFILE, "counter_not_reported: EMFILE"),
        (errno.EBUSY, "counter_not_reported: EBUSY"),
        (4242, "counter_not_reported: 4242"),
    ],
)
def test_each_refusal_has_its_reason(code: int, reason: str) -> None:
    assert perf.reason_of(OSError(code, "x")) == reason


Opened = list[tuple[int, int, bool]]


def refuse(monkeypatch: pytest.MonkeyPatch, when: "dict[tuple[int, bool], int]") -> Opened:
    """perf_event_open fails with the errno for (type, user only); else it opens /dev/null."""
    opened: Opened = []

    def fake(attr: bytes, pid: int, cpu: int, flags: int) -> int:
        kind, config = struct.unpack_from("<I", attr)[0], struct.unpack_from("<Q", attr, 8)[0]
        user_only = bool(struct.unpack_from("<Q", attr, 40)[0] & 1 << 5)
        code = when.get((kind, user_only))
        if code is not None:
            raise OSError(code, os.strerror(code))
        opened.append((kind, config, user_only))
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    monkeypatch.setattr(libc, "perf_event_open", fake)
    return opened


def reasons(counters: perf.Counters) -> dict[str, object]:
    return {name: figure["reason"] for name, figure in counters.read().items() if isinstance(figure, dict)}


def test_paranoid_2_counts_user_side_and_never_reports_a_zero_for_what_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = refuse(monkeypatch, {(0, True): errno.ENOENT, (1, False): errno.EACCES})
    counters = perf.Counters()
    counters.open()
    said = reasons(counters)
    assert said["context_switches"] == said["cpu_migrations"] == perf.REASON_USER_ONLY
    assert said["instructions:u"] == said["cycles:u"] == perf.REASON_NOT_SUPPORTED
    assert {config for _, config, user_only in opened if user_only} == {1, 2, 6}
    method = counters.read()["task_clock"]
    assert isinstance(method, dict)
    assert "user-only" in str(method["method"])
    counters.close()


def test_what_is_refused_outright_says_so_for_every_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, {(kind, user): errno.EPERM for kind in (0, 1) for user in (False, True)})
    counters = perf.Counters()
    counters.open()
    said = reasons(counters)
    assert set(said.values()) == {perf.REASON_PERMISSION, perf.REASON_USER_ONLY}
    assert len(said) == 7


def test_a_counter_never_asked_for_has_no_number() -> None:
    assert all(figure["value"] is None for figure in perf.Counters().read().values() if isinstance(figure, dict))


def test_an_event_says_its_size_and_flags() -> None:
    attr = perf._attr(1, 9, perf._COMM | perf._COMM_EXEC, perf._SAMPLE_TIME, 0, 1)
    assert struct.unpack_from("<IIQ", attr) == (1, 112, 9)
    assert len(attr) == 112
    assert struct.unpack_from("<Q", attr, 40)[0] == 1 << 9 | 1 << 24
    assert struct.unpack_from("<i", attr, 92)[0] == 1  # clockid, where include/uapi/linux/perf_event.h has it


def stamps_of(*command: str, times: int = 1) -> tuple[list[perf.ExecStamp], int]:
    """Really run a command under real stamps."""
    stamps = perf.ExecStamps()
    stamps.open()
    if stamps.reason is not None:
        pytest.skip(f"no exec stamps here: {stamps.reason}")
    for _ in range(times):
        pid = os.posix_spawn(command[0], command, os.environ)
        os.waitpid(pid, 0)
    try:
        return stamps.read()
    finally:
        stamps.close()


@pytest.mark.guest
def test_stamps_are_in_order_and_in_monotonic_time() -> None:
    import time

    before = time.monotonic_ns()
    stamps, missing = stamps_of("/bin/sh", "-c", "/bin/true; /bin/true")
    after = time.monotonic_ns()
    assert [stamp.name for stamp in stamps] == [b"sh", b"true", b"true"]
    assert before < stamps[0].time_ns < stamps[1].time_ns < stamps[2].time_ns < after
    assert missing == 0


def test_a_ring_that_overflowed_says_so() -> None:
    """A full ring has no room for the kernel's own word that something was lost: it is asked for the number."""
    stamps, missing = stamps_of("/bin/true", times=400)
    assert 0 < len(stamps) < 400
    assert missing > 0


def test_a_ring_that_overflowed_says_so_on_kernels_that_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    real = libc.perf_event_open

    def before_6_0(attr: bytes, pid: int, cpu: int, flags: int) -> int:
        if struct.unpack_from("<Q", attr, 32)[0] & 1 << 4:
            raise OSError(errno.EINVAL, "no PERF_FORMAT_LOST")
        return real(attr, pid, cpu, flags)

    monkeypatch.setattr(libc, "perf_event_open", before_6_0)
    assert stamps_of("/bin/true")[1] == 0
    assert stamps_of("/bin/true", times=400)[1] > 0


def test_stamps_that_cannot_be_opened_leave_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def second_refused(attr: bytes, pid: int, cpu: int, flags: int) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.EMFILE, "x")
        return os.open("/dev/zero", os.O_RDWR | os.O_CLOEXEC)

    monkeypatch.setattr(libc, "perf_event_open", second_refused)
    monkeypatch.setattr(perf, "_online_cpus", lambda: [0, 1, 2])
    monkeypatch.setattr(libc, "map_shared", lambda fd, size: 0)
    monkeypatch.setattr(libc, "unmap", lambda address, size: None)
    before = os.listdir("/proc/self/fd")
    stamps = perf.ExecStamps()
    stamps.open()
    assert stamps.reason == "counter_not_reported: EMFILE"
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert stamps.read() == ([], 0)
