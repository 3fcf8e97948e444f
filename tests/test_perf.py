"""Counters and exec stamps: what the kernel wrote is read right, and what it did not count is never a number."""

import errno
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wrapped import IN_GUEST, NOBODY, Recorded, Wrapper

from proofcost.harness import libc, perf

Hostile = Callable[[str], Path]

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


def exited(pid: int, time_ns: int, tid: int | None = None) -> bytes:
    """A PERF_RECORD_EXIT as the kernel writes it."""
    thread = pid if tid is None else tid
    return struct.pack("<IHH", 4, 0, 48) + struct.pack("<IIIIQIIQ", pid, 1, thread, 1, time_ns, pid, thread, time_ns)


def shed_by(data: bytes) -> list[bytes]:
    exits: dict[int, int] = {}
    stamps, _ = perf.parse_ring(data, exits)
    perf.mark_shed(stamps, exits)
    return [stamp.name for stamp in stamps if stamp.shed]


def test_a_process_whose_exit_follows_its_exec_at_once_shed_its_events() -> None:
    late = 10**6 + perf.SHED_WITHIN_NS
    execs = (
        comm(b"sh", pid=5, time_ns=1000) + comm(b"bwrap", pid=7, time_ns=10**6) + comm(b"lake", pid=9, time_ns=10**6)
    )
    assert shed_by(execs + exited(7, 10**6 + 4000) + exited(5, 10**7) + exited(9, late)) == [b"bwrap"]
    assert shed_by(execs + exited(7, 10**6 + 4000, tid=8) + exited(9, late)) == [], "a thread's exit is no process's"
    assert shed_by(execs) == [], "nothing is said of what still runs"
    again = exited(7, 500) + comm(b"bwrap", pid=7, time_ns=10**6)
    assert shed_by(again) == [], "an exit before the exec was another process"


def test_of_several_execs_in_one_process_only_the_last_can_shed() -> None:
    data = comm(b"script", pid=7, time_ns=1000) + comm(b"bwrap", pid=7, time_ns=10**6) + exited(7, 10**6 + 1)
    assert shed_by(data) == [b"bwrap"]


def test_whose_exec_loses_counters(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("")
    program.chmod(0o755)
    assert not perf.loses_counters(str(program))
    assert not perf.loses_counters(str(tmp_path / "none"))
    program.chmod(0o4755)
    assert not perf.loses_counters(str(program)), "its owner becomes nobody else"
    if not os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        assert perf.loses_counters(str(program), os.getuid() + 1, os.getgid()), "who the judge is to be does"


def test_whose_exec_loses_counters_of_another_user(as_root: None, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("")
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("mounted nosuid")
    os.chown(program, NOBODY, NOBODY)
    for mode, expected in ((0o755, False), (0o4755, True), (0o2755, True), (0o2745, False)):
        program.chmod(mode)
        assert perf.loses_counters(str(program)) is expected, oct(mode)


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


# Real commands: where the program in a sandbox starts, and whether it was ever reached.

FAKE_LANDRUN = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift\n'


def fake_landrun(wrap: Wrapper, body: str) -> Path:
    """Something that looks like a landrun and does `body`, with the program and its arguments as "$@"."""
    made = wrap.folder / "landrun"
    made.write_text(FAKE_LANDRUN + body + "\n")
    made.chmod(0o755)
    return made


def sandboxed(landrun: Path) -> list[object]:
    return [landrun, "--best-effort", "--rox", "/", "--rw", "/dev"]


def startup(seen: Recorded) -> int:
    """`sandbox_startup` of a call whose three times must add up."""
    assert seen.value("wall_program") + seen.value("sandbox_startup") == seen.value("wall_command")
    for name in ("wall_program", "sandbox_startup", "wall_command"):
        assert seen.status(name) == "measured"
    return seen.value("sandbox_startup")


@pytest.mark.real
@pytest.mark.guest
def test_the_program_under_a_real_landrun_is_timed_from_its_own_exec(wrap: Wrapper, landrun: Path) -> None:
    assert wrap(*sandboxed(landrun), "--", "/bin/sleep", "0.5").status == 0
    seen = wrap.last()
    assert startup(seen) > 1_000_000
    assert 500_000_000 <= seen.value("wall_program") < (10 if IN_GUEST else 0.6) * 1e9
    assert seen.finished is not None
    names = seen.finished["exec_stamps"]["names"]
    assert (names[0], names[-1]) == ("landrun", "sleep")
    assert seen.started["sandbox"]["kind"] == "landrun"


@pytest.mark.real
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--rox", "/nonexistent-path", "--", "/bin/true"], "a granted path is missing"),
        (["--best-effort", "--rox", "/", "--", "/nonexistent-program"], "the program is missing"),
        (["--no-such-flag", "--", "/bin/true"], "a flag is unknown"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_landrun_that_fails_is_no_rejection(wrap: Wrapper, landrun: Path, arguments: list[str], what: str) -> None:
    assert wrap(landrun, *arguments, phase="checker").status == 1
    seen = wrap.last()
    assert (seen.outcome["kind"], seen.outcome["code"]) == ("exited", 1)
    assert seen.outcome["cause"] == "sandbox_setup_failed", (what, seen.outcome)
    assert any("never reached" in line for line in seen.outcome["evidence"])
    for name in ("wall_program", "sandbox_startup"):
        assert seen.figures[name]["value"] is None
        assert "no exec of" in seen.figures[name]["reason"]
    assert seen.value("wall_command") > 0


@pytest.mark.real
@pytest.mark.guest
def test_a_program_that_says_no_under_a_real_landrun_is_a_rejection(wrap: Wrapper, landrun: Path) -> None:
    assert wrap(*sandboxed(landrun), "--", "/bin/sh", "-c", "exit 1", phase="checker").status == 1
    assert wrap.last().outcome["cause"] == "completed"


@pytest.mark.real
def test_a_program_under_a_real_bwrap_is_found_in_its_own_process(wrap: Wrapper, bwrap: Path) -> None:
    command = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "--", "/bin/sleep", "0.2"]
    if wrap(*command).status != 0:
        pytest.skip("bwrap is not allowed to work here")
    seen = wrap.last()
    assert seen.started["sandbox"]["kind"] == "bwrap"
    assert startup(seen) > 0
    assert 200_000_000 <= seen.value("wall_program") < 400_000_000


def test_a_rename_is_not_taken_for_the_program(wrap: Wrapper, hostile: Hostile) -> None:
    """A hostile wrapper may call itself what it likes; only an exec makes a program."""
    fake = fake_landrun(wrap, f'exec {hostile("execs")} rename sleep "$@"')
    assert wrap(fake, "--", "/bin/sleep", "1").status == 1
    assert wrap.last().outcome["cause"] == "sandbox_setup_failed"
    assert wrap.last().figures["wall_program"]["value"] is None


def test_a_script_is_found_by_its_own_name(wrap: Wrapper) -> None:
    fake = fake_landrun(wrap, 'exec "$@"')
    script = wrap.folder / "check.sh"
    script.write_text("#!/bin/sh\n/bin/true\nexit 1\n")
    script.chmod(0o755)
    assert wrap(fake, "--", script).status == 1
    assert startup(wrap.last()) > 0
    assert wrap.last().outcome["cause"] == "completed"


def test_a_link_is_found_by_the_name_it_was_called_by(wrap: Wrapper) -> None:
    fake = fake_landrun(wrap, 'exec "$@"')
    (wrap.folder / "nap").symlink_to("/bin/sleep")
    assert wrap(fake, "--", wrap.folder / "nap", "0.01").status == 0
    assert startup(wrap.last()) > 0


@pytest.mark.parametrize("length", [15, 16, 40])
def test_a_long_name_is_found_by_what_the_kernel_keeps_of_it(wrap: Wrapper, length: int) -> None:
    fake = fake_landrun(wrap, 'exec "$@"')
    name = ("lean-kernel-" * 4)[:length]
    (wrap.folder / name).symlink_to("/bin/false")
    assert wrap(fake, "--", wrap.folder / name).status == 1
    assert startup(wrap.last()) > 0
    assert wrap.last().outcome["cause"] == "completed"


def test_an_exec_from_another_thread_is_found(wrap: Wrapper, hostile: Hostile) -> None:
    fake = fake_landrun(wrap, f'exec {hostile("execs")} thread - "$@"')
    for _ in range(20):
        assert wrap(fake, "--", "/bin/false").status == 1
    for seen in wrap.records():
        assert startup(seen) > 0
        assert seen.outcome["cause"] == "completed"


def test_stamps_that_were_lost_blame_no_sandbox(wrap: Wrapper, hostile: Hostile) -> None:
    """The program's own stamp found no room: then nobody knows whether it was reached."""
    fake = fake_landrun(wrap, f'{hostile("execs")} many 600 /bin/true; exec "$@"')
    assert wrap(fake, "--", "/bin/false").status == 1
    seen = wrap.last()
    assert seen.finished is not None
    assert seen.finished["exec_stamps"]["lost"] > 0
    assert seen.outcome["cause"] == "completed"
    assert seen.figures["wall_program"]["value"] is None
    assert "lost" in seen.figures["wall_program"]["reason"]
    assert len(seen.finished["exec_stamps"]["names"]) == 8


def test_a_program_its_user_may_not_read_is_reached_all_the_same(wrap_as_nobody: Wrapper) -> None:
    """The kernel drops a task's events at such an exec, but stamps it first."""
    wrap = wrap_as_nobody
    fake = fake_landrun(wrap, 'exec "$@"')
    copy = wrap.folder / "unreadable"
    shutil.copy("/bin/false", copy)
    copy.chmod(0o111)
    assert wrap(fake, "--", copy, via=("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups")).status == 1
    seen = wrap.last()
    assert seen.finished is not None
    if seen.finished["exec_stamps"]["reason"] is None:
        assert startup(seen) > 0
    assert seen.outcome["cause"] == "completed"


def test_the_wall_of_a_sleep_is_what_the_sleeper_saw(wrap: Wrapper) -> None:
    """Between the sleeper's own clock readings and ours lie its start and its end: milliseconds, on a quiet machine."""
    program = "import time; a=time.monotonic_ns(); time.sleep(.5); print(a, time.monotonic_ns())"
    over = []
    for _ in range(7):
        began, ended = map(int, wrap("/usr/bin/python3", "-ISc", program).stdout.split())
        seen = wrap.last()
        over.append(seen.value("wall_command") - (ended - began))
        assert seen.finished is not None
        assert seen.finished["clocks"]["monotonic_ns"] >= ended
        assert over[-1] > 0
    assert sorted(over)[3] < 60_000_000


def test_without_stamps_the_wall_is_from_the_closed_pipe_and_the_rest_is_absent(
    wrap: Wrapper, hostile: Hostile
) -> None:
    number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
    fake = fake_landrun(wrap, 'exec "$@"')
    called = wrap(fake, "--", "/bin/sh", "-c", "sleep 0.3; exit 1", via=(hostile("forbid"), 1, number))
    assert called.status == 1
    seen = wrap.last()
    assert 300_000_000 <= seen.value("wall_command") < 600_000_000
    assert seen.figures["wall_command"]["method"] == "close-on-exec pipe closed to exit seen"
    for name in ("wall_program", "sandbox_startup"):
        assert seen.figures[name]["reason"] == "no exec stamps: counter_permission_denied"
    assert seen.outcome["cause"] == "completed"  # not known whether it was reached: no sandbox is blamed
    assert seen.finished is not None
    assert seen.finished["exec_stamps"] == {
        "count": None, "lost": None, "names": [], "reason": "counter_permission_denied",
    }  # fmt: skip
