"""`run --as`: whoever is killed, and wherever the way to the collector is lost, the judge's status stands and nothing
hangs."""

import os
import signal
import subprocess

import pytest
from kept import CALL, PRELUDE, PYTHON, Judged
from wrapped import NOBODY

from proofcost.harness import procfs

MISSING = b"did not reach this call"


def unmeasured(ended_stderr: bytes) -> int:
    """How many calls say on stderr that they ran unmeasured; they use the system log where there is one."""
    return ended_stderr.count(MISSING)


# The judge is killed at each step of a session.

STEPS = {
    "before its first call": "touch ready; sleep 60",
    "during a call": f"{CALL} /bin/sh -c 'touch ready; sleep 60'",
    "during two calls": f"{CALL} sleep 60 & {CALL} /bin/sh -c 'sleep 0.3; touch ready; sleep 60'",
    "after a call": f"{CALL} /bin/true; touch ready; sleep 60",
    "with a daemon": "setsid sleep 60 </dev/null >/dev/null 2>&1 & touch ready; sleep 60",
    "while a meter starts": f"touch ready; while :; do {CALL} /bin/true & sleep 0.005; done",
}
UNFINISHED = {"during a call": 1, "during two calls": 2}


@pytest.mark.parametrize("step", STEPS)
def test_the_judge_is_killed(judged: Judged, step: str) -> None:
    with judged.started(["/bin/bash", "-c", STEPS[step]]) as process:
        judged.wait_for((judged.work / "ready").exists, step)
        [judge] = [pid for pid in procfs.children_of(process.pid) if os.stat(f"/proc/{pid}").st_uid == NOBODY]
        os.kill(judge, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, err
    assert judged.left() == []
    assert judged.whole().outcome["signal"] == signal.SIGKILL
    seal = judged.seal()
    incomplete = [one for one in judged.calls() if one.finished is None]
    if step != "while a meter starts":
        assert len(incomplete) == UNFINISHED.get(step, 0)
    assert seal["complete"] is not bool(incomplete)
    for one in incomplete:
        if one.started["cgroup"]["paths"]:
            assert one.settled is not None, "what it had used by then is known"


@pytest.mark.parametrize("step", STEPS)
def test_run_is_killed(judged: Judged, step: str) -> None:
    """The judge dies with it; the collector takes the rest away and seals what there is."""
    with judged.started(["/bin/bash", "-c", STEPS[step]]) as process:
        judged.wait_for((judged.work / "ready").exists, step)
        process.kill()
        process.communicate(timeout=60)  # nobody of ours holds the caller's streams open
    judged.wait_for(lambda: (judged.session() / "sealed.json").exists(), "the collector seals")
    judged.wait_for(lambda: judged.left() == [], f"nothing is left: {judged.left()}")
    seal = judged.seal()
    assert seal["complete"] is False
    assert "run was killed before the session's end" in seal["incomplete"]
    assert judged.whole().finished is None
    assert all(one.started["trust"] == "collected" for one in judged.records())


@pytest.mark.guest
def test_a_killed_process_group_leaves_the_collector_alone(judged: Judged) -> None:
    process = subprocess.Popen(
        judged.argv(["/bin/bash", "-c", "touch ready; sleep 60"]), cwd=judged.work, env=judged.env(), process_group=0
    )
    judged.wait_for((judged.work / "ready").exists, "ready")
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    judged.wait_for(lambda: (judged.session() / "sealed.json").exists(), "the collector seals")
    judged.wait_for(lambda: judged.left() == [], "nothing is left")


@pytest.mark.guest
def test_a_meter_that_is_killed_leaves_an_incomplete_record(judged: Judged) -> None:
    script = """
meter = subprocess.Popen([SHIM, "--rox", "/", "--", "/bin/sh", "-c", "touch up; sleep 60"], pass_fds=[FD])
while not os.path.exists("up"): time.sleep(0.01)
meter.kill()
print(meter.wait(), call("/bin/sh", "-c", "exit 3"))
"""
    ended = judged.python(script)
    assert (ended.status, ended.stdout) == (0, b"-9 3\n")
    states = {one.outcome["code"] if one.finished else None for one in judged.calls()}
    assert states == {None, 3}
    assert judged.seal()["incomplete"] == ["1 without `finished`"]


def test_a_grader_that_kills_by_uid_kills_its_own_calls_only(judged: Judged) -> None:
    """`kill -9 -1` reaches every process of that user but the one that calls it: meters, not the collector."""
    script = """
for _ in range(2):
    subprocess.Popen([SHIM, "--rox", "/", "--", "/bin/sh", "-c", "touch up; sleep 60"], pass_fds=[FD])
while not os.path.exists("up"): time.sleep(0.01)
time.sleep(0.3)
os.kill(-1, 9)
print(call("/bin/sh", "-c", "exit 3"))
sys.exit(4)
"""
    # As a user of its own: other tests may have processes of nobody.
    number = "54321"
    os.chown(judged.work, int(number), int(number))
    ended = judged([PYTHON, "-c", PRELUDE + script], user=f"{number}:{number}")
    assert (ended.status, ended.stdout) == (4, b"3\n"), ended.stderr
    states = sorted(str(one.outcome["code"] if one.finished else None) for one in judged.calls())
    assert states == ["3", "None", "None"]
    assert judged.seal()["incomplete"] == ["2 without `finished`"]


# The way to the collector is closed, hidden, or something else.

LOST = {
    "closed by the judge": f"exec 198>&-; {CALL} /bin/sh -c 'exit 3'; exit $?",
    "closed for the call": f"{CALL} /bin/sh -c 'exit 3' 198>&-; exit $?",
    "another file in its place": f"exec 198>mine; {CALL} /bin/bash -c 'echo yes >&198; exit 3'; exit $?",
    "another socket in its place": f"exec 198<>/dev/tcp/127.0.0.1/$PORT; {CALL} /bin/sh -c 'exit 3'; exit $?",
}


@pytest.mark.parametrize("how", LOST)
def test_a_call_that_the_door_did_not_reach_runs_unmeasured(judged: Judged, how: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = judged.shell(LOST[how], env={"PORT": str(server.getsockname()[1])})
    assert (ended.status, ended.stdout) == (3, b"")
    assert judged.calls() == []
    if not os.path.exists("/dev/log"):
        assert unmeasured(ended.stderr) == 1
    if "file" in how:
        assert (judged.work / "mine").read_text() == "yes\n", "it is the judge's, and stays as it was"
    assert judged.seal()["collector"]["started_count"] == 0


def test_a_call_that_the_door_did_not_reach_is_refused_where_asked(judged: Judged) -> None:
    ended = judged.shell(LOST["closed by the judge"], "--strict")
    assert ended.status == 125
    assert unmeasured(ended.stderr) == 1
    assert b"refused, nothing was run" in ended.stderr


def test_a_python_grader_hands_the_door_on_or_is_not_measured(judged: Judged) -> None:
    """subprocess closes what it is not told of. $PROOFCOST_FD tells which number that is."""
    script = """
print(call("/bin/sh", "-c", "exit 3"), call("/bin/sh", "-c", "exit 4", pass_fds=()))
print(call("/bin/sh", "-c", "exit 5", close_fds=False, pass_fds=()))
"""
    ended = judged.python(script)
    assert (ended.status, ended.stdout) == (0, b"3 4\n5\n")
    assert [one.outcome["code"] for one in judged.calls()] == [3, 5]


def test_an_empty_environment_hides_nothing(judged: Judged) -> None:
    ended = judged.shell("exec env -i $COMPARATOR_LANDRUN --rox / -- /bin/sh -c 'exit 3'")
    assert (ended.status, ended.stderr) == (3, b"")
    assert [one.outcome["code"] for one in judged.calls()] == [3]


def test_no_meter_is_seen_where_the_judge_calls_none(judged: Judged) -> None:
    assert judged.shell("exit 3").status == 3
    seal = judged.seal()
    assert (seal["complete"], seal["collector"]["started_count"]) == (True, 0)


@pytest.mark.parametrize("limit", ["-n 12", "-n 60", "-f 0", "-u 40"])
def test_a_judge_that_lowers_its_limits(judged: Judged, limit: str) -> None:
    ended = judged.shell(f"ulimit {limit}; {CALL} /bin/sh -c 'exit 3'; exit $?")
    assert ended.status == 3
    assert [one.outcome["code"] for one in judged.calls()] == [3], ended.stderr


def test_a_low_limit_on_descriptors_moves_the_door(judged: Judged) -> None:
    ended = judged.shell(f"echo $PROOFCOST_FD; {CALL} /bin/sh -c 'exit 3'; exit $?", via=["prlimit", "--nofile=100"])
    assert ended.status == 3
    assert 3 < int(ended.stdout) < 100
    assert [one.outcome["code"] for one in judged.calls()] == [3]


def test_a_number_that_is_taken_moves_the_door(judged: Judged) -> None:
    ended = judged.shell(
        f"echo $PROOFCOST_FD; readlink /proc/self/fd/198; {CALL} /bin/sh -c 'exit 3'; exit $?",
        via=["bash", "-c", 'exec 198</etc/passwd; exec "$@"', "bash"],
    )
    assert ended.stdout == b"199\n/etc/passwd\n"
    assert [one.outcome["code"] for one in judged.calls()] == [3]


# Sockets forbidden by seccomp.

FORBID = r"""
import ctypes, errno, os, struct, sys
calls = {"x86_64": (41, 53, 0xC000003E), "aarch64": (198, 199, 0xC00000B7)}[os.uname().machine]
sockets, pairs, arch = calls
wanted = [sockets] + ([pairs] if sys.argv[1] == "pairs" else [])
def step(code, yes, no, k): return struct.pack("HBBI", code, yes, no, k)
load, equal, give = 0x20, 0x15, 0x06
program = []
for number in wanted:
    # if nr == number and args[0] == AF_UNIX: EAFNOSUPPORT
    program += [step(load, 0, 0, 0), step(equal, 0, 3, number), step(load, 0, 0, 16), step(equal, 0, 1, 1),
                step(give, 0, 0, 0x00050000 | errno.EAFNOSUPPORT)]
program.append(step(give, 0, 0, 0x7FFF0000))
raw = b"".join(program)
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid(): assert libc.prctl(38, 1, 0, 0, 0) == 0
filled = Program(len(program), raw)
assert libc.prctl(22, 2, ctypes.byref(filled), 0, 0) == 0, os.strerror(ctypes.get_errno())
import socket
def refused(make):
    try: make()
    except OSError as error: return error.errno == errno.EAFNOSUPPORT
    return False
assert refused(lambda: socket.socket(socket.AF_UNIX))
assert refused(socket.socketpair) == (sys.argv[1] == "pairs")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def test_all_of_it_under_a_unit_that_may_make_no_unix_socket(judged: Judged) -> None:
    """RestrictAddressFamilies=~AF_UNIX of systemd filters socket(2); here it holds for `run` and its collector, too."""
    ended = judged.shell(f"{CALL} /bin/sh -c 'exit 3'; exit $?", via=[PYTHON, "-c", FORBID, "sockets"])
    assert (ended.status, ended.stderr) == (3, b"")
    assert [one.outcome["code"] for one in judged.calls()] == [3]
    assert judged.seal()["complete"] is True


def test_inside_nothing_of_the_kind_need_be_made(judged: Judged) -> None:
    """A stricter filter around the judge alone: socketpair(2) is forbidden, too."""
    judge = [PYTHON, "-c", FORBID, "pairs", "/bin/bash", "-c", f"{CALL} /bin/sh -c 'exit 3'; exit $?"]
    ended = judged(judge)
    assert (ended.status, ended.stderr) == (3, b"")
    assert [one.outcome["code"] for one in judged.calls()] == [3]


def test_without_any_socket_the_judge_runs_unmeasured_as_its_user(judged: Judged) -> None:
    ended = judged.shell("id -u; exit 3", via=[PYTHON, "-c", FORBID, "pairs"])
    assert (ended.status, ended.stdout) == (3, b"65534\n")
    [mark] = judged.marks()
    assert "Address family not supported" in mark["fault"]
