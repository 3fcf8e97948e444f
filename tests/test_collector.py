"""What a hostile program of the judge's user can do to the collector: less than to itself.

Each test's judge is that program. It runs unconfined, with the door in its hands, and speaks the collector's language.
Afterwards an honest call is made (`honest()`), which must come out as if nothing had been.
"""

import json
import os
import signal
import time
from typing import Any

import pytest
from kept import Judged

from proofcost.harness import collector, door, keeper, procfs

HOSTILE = f"""
import ast, select
NUMBER = int(os.environ["PROOFCOST_FD"])
OPTIONS = [ast.literal_eval(line[10:]) for line in open(SHIM) if line.startswith("OPTIONS = ")][0]
SESSION = OPTIONS["session"]
LINE_MAX = {door.LINE_MAX_BYTES}
STARTED = {list(keeper._STARTED)!r}
FINISHED = {list(keeper._FINISHED)!r}
CLOCKS = {{"realtime_ns": 0, "monotonic_ns": 0, "boottime_ns": 0}}
LISTS = {{"inputs": [], "filesystems": [], "faults": []}}
KINDS = {{"session_known_by": "baked", "trust": "root", "clocks": CLOCKS, **LISTS}}
counter = 0
"""
HOSTILE += '''
def take(flags=0):
    """A connection out of the door."""
    shared = socket.socket(fileno=os.dup(NUMBER))
    _, carried, _, _ = shared.recvmsg(16, socket.CMSG_SPACE(4), flags)
    return socket.socket(fileno=struct.unpack("i", carried[0][2])[0])
def new_id():
    global counter
    counter += 1
    return "%x-%d-%08x" % (time.time_ns(), os.getpid(), counter)
def started(**more):
    event = {"schema": 1, "event": "started", "invocation": new_id(), "session": SESSION}
    return {**event, **{key: KINDS.get(key, {}) for key in STARTED}, **more}
def finished(invocation, **more):
    event = {"schema": 1, "event": "finished", "invocation": invocation, "session": SESSION}
    return {**event, **{key: KINDS.get(key, {}) for key in FINISHED}, **more}
def send(connection, event):
    connection.settimeout(10)
    connection.sendall(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\\n")
def say(connection, event):
    """Send it; what the collector answers, empty when it hangs up."""
    try:
        send(connection, event)
        return connection.recv(4096).decode()
    except (ConnectionError, BrokenPipeError):
        return ""
def say_anew(event):
    with take() as connection:
        return say(connection, event)
def honest(status=5):
    assert call("/bin/sh", "-c", "exit %d" % status) == status
    print("honest")
'''


def attack(judged: Judged, script: str, *options: str) -> str:
    """Run the hostile judge; what it printed. It ends with 0 when it got to its end."""
    ended = judged.python(HOSTILE + script, *options)
    assert ended.status == 0, (ended.stdout.decode(), ended.stderr.decode())
    return ended.stdout.decode()


def honest_calls(judged: Judged) -> list[dict[str, Any]]:
    """The outcomes of those that real meters made."""
    found = [one for one in judged.records(valid=False) if one.started["meter"].get("entrance") == "landrun"]
    return [one.outcome for one in found]


def refused(judged: Judged) -> dict[str, int]:
    found: dict[str, int] = judged.seal()["collector"]["refused"]
    return found


@pytest.mark.guest
def test_a_forged_call_is_kept_with_what_the_kernel_knows_of_its_forger(judged: Judged) -> None:
    """Nobody can keep the judge's user from claiming a call. It cannot claim to be another process, or to be root's."""
    said = attack(
        judged,
        """
connection = take()
claim = {"meter_pid": 1, "meter_start_ticks": 5, "uid": 0, "collector": {"pid": 1, "uid": 0}}
event = started(trust="root", process=claim, host={"instance": "x"}, labels={"kernel": "mine"},
                cgroup={"kind": "v2", "paths": {"unified": "/sys/fs/cgroup"}}, phase={"understood": "whole"})
print(os.getpid())
print(say(connection, event).split()[:2])
print(say(connection, finished(event["invocation"], measurements={"cpu_tree": {"value": 1}})))
honest()
""",
    )
    forger = int(said.splitlines()[0])
    assert "['ok', 'started']" in said
    assert "ok finished" in said
    [forged] = [one for one in judged.records(valid=False) if not one.started["meter"]]
    whole = next(one for one in judged.records(valid=False) if one.started["meter"].get("entrance") == "run")
    seen = forged.started["process"]["collector"]
    assert (seen["pid"], seen["uid"], seen["from_judge"], seen["ancestry"]) == (forger, 65534, True, [])
    assert forged.started["trust"] == "collected"
    assert forged.started["host"] == whole.started["host"]
    assert forged.started["labels"] == {}
    assert forged.started["phase"]["understood"] == "unknown"
    assert all(forged.started["invocation"] in path for path in forged.started["cgroup"]["paths"].values())
    assert honest_calls(judged)[0]["code"] == 5
    assert judged.seal()["complete"] is True


REFUSED = {
    "not JSON": ('b"no json\\n"', "no_record"),
    "not UTF-8": ('b"\\xff\\xfe\\n"', "no_record"),
    "no object": ('b"[]\\n"', "no_record"),
    "a fraction": ("started(labels={'x': 1.5})", "no_record"),
    "a long integer": ("started(labels={'x': 1 << 63})", "no_record"),
    "an integer of 5000 digits": ('b"{\\"x\\":" + b"9" * 5000 + b"}\\n"', "no_record"),
    "a lone surrogate": ('started(labels={"x": "\\ud800"})', "no_record"),
    "a NUL": ('started(labels={"x": "\\0"})', "no_record"),
    "a key twice": ('b\'{"schema":1,"schema":1}\\n\'', "no_record"),
    "nested too deep": ('b"[" * 100000 + b"\\n"', "no_record"),
    "nested deep": ('started(labels=json.loads("[" * 80 + "]" * 80))', "no_record"),
    "finished first": ("finished(new_id())", "out_of_order"),
    "settled": ('started(event="settled")', "out_of_order"),
    "an unknown event": ('started(event="paused")', "out_of_order"),
    "discard first": ('{"event": "discard"}', "out_of_order"),
    "a newer schema": ("started(schema=2)", "out_of_order"),
    "true for 1": ("started(schema=True)", "out_of_order"),
    "another session": ('started(session="0123456789abcdef")', "another_session"),
    "no session": ("started(session=None)", "another_session"),
    "a path as id": ('started(invocation="../../../../tmp/x")', "no_record"),
    "the judge's cgroup as id": ('started(invocation="whole")', "no_record"),
    "an id with a line": ('started(invocation="18ecf76e24781aea-1480-a4f81f11\\n")', "no_record"),
    "a number as id": ("started(invocation=7)", "no_record"),
    "a part missing": ("{k: v for k, v in started().items() if k != 'argv'}", "no_record"),
    "a part of another kind": ("started(process=[])", "no_record"),
    "a judge": ("started(meter={'entrance': 'run'})", "no_record"),
    "an oversized line": ("started(labels={'x': 'x' * LINE_MAX})", "oversized"),
    "a line without end": ('b"x" * (LINE_MAX + 70000)', "oversized"),
}  # fmt: skip


def test_what_is_no_record_is_refused_and_counted(judged: Judged) -> None:
    """All in one session: one refusal must not spoil the next connection."""
    script = "".join(f"print({name!r}, '|', repr(say_anew({event})[:400]))\n" for name, (event, _) in REFUSED.items())
    said = attack(judged, script + "honest()\n")
    answers = dict(line.split(" | ") for line in said.splitlines() if " | " in line)
    assert set(answers) == set(REFUSED)
    for name, answer in answers.items():
        if name == "a line without end" and answer == "''":
            continue  # it hung up while there was still more to come
        assert answer.startswith(("'no started ", '"no started ')), (name, answer)
    expected: dict[str, int] = {}
    for _, why in REFUSED.values():
        expected[why] = expected.get(why, 0) + 1
    assert refused(judged) == expected
    assert [one["code"] for one in honest_calls(judged)] == [5]
    assert len(judged.records(valid=False)) == 2, "the judge and the honest call"
    seal = judged.seal()
    assert seal["complete"] is False
    assert "refused: " in seal["incomplete"][0]
    [fault] = judged.whole_anyway().faults
    assert fault["step"] == "collector"


def test_events_in_another_order_end_the_connection(judged: Judged) -> None:
    said = attack(
        judged,
        """
def odd(one): return {**finished(one["invocation"]), "faults": 1}
for wrong in (lambda one: one, lambda one: finished(new_id()), odd):
    connection, event = take(), started()
    assert say(connection, event).startswith("ok started")
    print(say(connection, wrong(event)).split()[:2], repr(say(connection, finished(event["invocation"]))))
connection, event = take(), started()
send(connection, json.dumps(event).encode() + b"\\n" + json.dumps(finished(event["invocation"])).encode() + b"\\n")
time.sleep(0.2)
print(connection.recv(4096).decode().split("\\n"))
print(repr(say(connection, finished(event["invocation"]))))
honest()
""",
    )
    lines = said.splitlines()
    assert lines[:3] == ["['no', 'finished'] ''"] * 3
    assert "ok finished" in lines[3], "both at once are two events all the same"
    assert lines[4] == "''", "there is no third"
    assert refused(judged) == {"out_of_order": 1, "not_its_own": 1, "no_record": 1}
    assert [one["code"] for one in honest_calls(judged)] == [5]
    assert judged.seal()["incomplete"][-1] == "3 without `finished`"


def test_a_replayed_call_is_refused(judged: Judged) -> None:
    said = attack(
        judged,
        """
first, event = take(), started()
print(say(first, event).split()[:2])
print(say_anew(event))
print(say(first, finished(event["invocation"])))
print(say_anew(event))
real = [name for name in os.listdir(".") if name]
honest()
""",
    )
    lines = said.splitlines()
    assert lines[0] == "['ok', 'started']"
    assert lines[1].startswith("no started an invocation of this id was kept before")
    assert refused(judged) == {"replayed": 2}
    assert [one["code"] for one in honest_calls(judged)] == [5]


@pytest.mark.guest
def test_only_the_process_that_began_can_go_on(judged: Judged) -> None:
    """Its own child has the connection, too, and even the pid that it claims is not its to choose."""
    said = attack(
        judged,
        """
connection, event = take(), started()
say(connection, event)
child = os.fork()
if child == 0:
    send(connection, finished(event["invocation"], faults=["forged"]))
    forged = struct.pack("iii", os.getppid(), os.getuid(), os.getgid())
    try:
        connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, forged)])
        print("the kernel let it claim another pid", flush=True)
    except PermissionError:
        pass
    os._exit(0)
os.waitpid(child, 0)
print(say(connection, finished(event["invocation"])))
honest()
""",
    )
    assert said.splitlines() == ["ok finished", "", "honest"]
    assert refused(judged) == {"another_process": 1}
    [own] = [one for one in judged.records(valid=False) if not one.started["meter"]]
    assert own.faults == []


def test_half_a_line_of_a_killed_process_is_not_finished_by_another(judged: Judged) -> None:
    attack(
        judged,
        """
connection, event = take(), started()
raw = json.dumps(event).encode() + b"\\n"
child = os.fork()
if child == 0:
    send(connection, raw[:50])
    time.sleep(0.2)
    os._exit(0)
os.waitpid(child, 0)
send(connection, raw[50:])
time.sleep(0.2)
honest()
""",
    )
    assert refused(judged) == {"another_process": 1}
    assert len(judged.records(valid=False)) == 2


def test_silent_connections_are_taken_back(judged: Judged) -> None:
    """Who empties the door and says nothing delays the others, and no more."""
    said = attack(
        judged,
        """
held = []
shared = socket.socket(fileno=os.dup(NUMBER))
until = time.monotonic() + 0.5
while time.monotonic() < until:
    if select.select([shared], [], [], 0.05)[0]: held.append(take())
print(len(held))
honest()
""",
    )
    assert int(said.splitlines()[0]) <= collector.SILENT_MAX
    assert [one["code"] for one in honest_calls(judged)] == [5]
    assert refused(judged)["silent"] > 0


def test_who_empties_the_door_for_ever_changes_no_verdict(judged: Judged) -> None:
    """A call that gets no connection runs unmeasured, after 2 s at most."""
    said = attack(
        judged,
        """
drain = os.fork()
if drain == 0:
    held = []
    while True:
        try: held.append(take())
        except OSError: time.sleep(0.001)
time.sleep(0.3)
begun = time.monotonic()
for status in (0, 1, 7):
    print(call("/bin/sh", "-c", "exit %d" % status))
os.kill(drain, 9)
""",
    )
    assert said.split() == ["0", "1", "7"]
    assert {one["code"] for one in honest_calls(judged)} <= {0, 1, 7}


def test_a_shut_door_changes_no_verdict_and_is_told(judged: Judged) -> None:
    ended = judged.python(
        HOSTILE
        + """
honest(3)
shared = socket.socket(fileno=os.dup(NUMBER))
shared.shutdown(socket.SHUT_RDWR)
while select.select([shared], [], [], 0)[0] and shared.recv(16): pass
print(call("/bin/sh", "-c", "exit 1"), call("/bin/sh", "-c", "exit 0"))
"""
    )
    assert (ended.status, ended.stdout) == (0, b"honest\n1 0\n")
    assert [one["code"] for one in honest_calls(judged)] == [3]
    seal = judged.seal()
    assert seal["complete"] is False
    assert seal["collector"]["door_shut"]["realtime_ns"] > 0
    assert set(seal["collector"]["refused"]) == {"unspoken"}, "what it threw away"
    assert seal["incomplete"][1:] == ["the way to the collector was shut from inside: later calls may be missing"]


@pytest.mark.parametrize("emptied", [True, False])
def test_a_door_that_hands_nothing_on_is_told(judged: Judged, emptied: bool) -> None:
    """With SO_PASSRIGHTS off at the judge's end no more connections can be put in."""
    drain = "while select.select([shared], [], [], 0.1)[0]: shared.recv(16)"
    ended = judged.python(
        HOSTILE
        + f"""
shared = socket.socket(fileno=os.dup(NUMBER))
try: shared.setsockopt(socket.SOL_SOCKET, {door.SO_PASSRIGHTS}, 0)
except OSError: sys.exit(77)
{drain if emptied else ""}
print(call("/bin/sh", "-c", "exit 1"), call("/bin/sh", "-c", "exit 0"))
"""
    )
    if ended.status == 77:
        pytest.skip("this kernel knows no SO_PASSRIGHTS")
    assert (ended.status, ended.stdout) == (0, b"1 0\n")
    assert len(honest_calls(judged)) == (0 if emptied else 2), "what waits in the door reaches a meter all the same"
    seal = judged.seal()
    assert seal["complete"] is False
    assert seal["collector"]["door_shut"] is not None
    assert set(seal["collector"]["refused"]) == ({"unspoken"} if emptied else set())


def test_connections_that_are_taken_and_thrown_away_are_counted_and_have_an_end(judged: Judged) -> None:
    said = attack(
        judged,
        """
for _ in range(10): take().close()
honest()
""",
    )
    assert said.split() == ["honest"]
    assert refused(judged) == {"unspoken": 10}
    assert judged.seal()["complete"] is False


def test_nothing_can_be_sent_through_the_door(judged: Judged) -> None:
    said = attack(
        judged,
        """
shared = socket.socket(fileno=os.dup(NUMBER))
try: shared.send(b"x" * 100)
except BrokenPipeError: print("refused")
honest()
""",
    )
    assert said.split() == ["refused", "honest"]
    assert refused(judged) == {}


@pytest.mark.guest
def test_descriptors_sent_along_are_not_taken(judged: Judged) -> None:
    """Closing one may wait for a file system that the sender serves, so none may ever arrive."""
    seen = descriptors(judged)
    assert seen["after"] <= seen["before"], "five calls and four descriptors in each"


def descriptors(judged: Judged) -> dict[str, int]:
    """How many descriptors the collector has before and after somebody sent it some."""
    script = """
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
held = []
for _ in range(5):
    connection, event = take(), started()
    raw = json.dumps(event).encode() + b"\\n"
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("4i", 0, 1, 2, NUMBER))]
    try:
        connection.sendmsg([raw], rights)
    except PermissionError:
        connection.send(raw)
    assert connection.recv(4096).startswith(b"ok started")
    assert say(connection, finished(event["invocation"])) == "ok finished\\n"
open("done", "w").close()
while not os.path.exists("end"): time.sleep(0.01)
"""
    from kept import PRELUDE, PYTHON

    with judged.started([PYTHON, "-c", PRELUDE + HOSTILE + script]) as process:
        seen = {}
        for name, mine, theirs in (("before", "go", "ready"), ("after", "end", "done")):
            judged.wait_for((judged.work / theirs).exists, theirs)
            seen[name] = len(os.listdir(f"/proc/{collector_of(process.pid)}/fd"))
            (judged.work / mine).touch()
        assert process.wait(30) == 0, process.communicate()
    return seen


def collector_of(run: int) -> int:
    [pid] = [child for child in procfs.children_of(run) if procfs.name_of(child) == b"proofcost-keeps"]
    return pid


def test_a_flood_keeps_nobody_out_for_long(judged: Judged) -> None:
    """Megabytes of half lines on many connections at once, by several processes that never read."""
    said = attack(
        judged,
        """
flooders = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        held = []
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            try:
                connection = take()
                connection.setblocking(False)
                connection.send(b"x" * 100000)
                held.append(connection)
            except OSError:
                pass
        os._exit(0)
    flooders.append(pid)
for pid in flooders: os.waitpid(pid, 0)
time.sleep(0.3)
honest()
""",
    )
    assert said.split() == ["honest"]
    assert [one["code"] for one in honest_calls(judged)] == [5]


def test_a_session_cannot_fill_the_disk(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keeper.BYTES_MAX <= 1 << 30
    assert keeper.INVOCATIONS_MAX * 2 * door.LINE_MAX_BYTES > keeper.BYTES_MAX, "so this is the bound that counts"


def test_who_never_reads_is_not_waited_for(judged: Judged) -> None:
    said = attack(
        judged,
        """
mute = []
for _ in range(20):
    connection, event = take(), started()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    send(connection, event)
    mute.append((connection, event))
honest()
for connection, event in mute:
    send(connection, finished(event["invocation"]))
time.sleep(0.2)
honest()
""",
    )
    assert said.split() == ["honest", "honest"]
    assert judged.seal()["collector"]["finished_count"] == 22


def test_a_stolen_acknowledgement_costs_a_measurement_and_no_verdict(judged: Judged) -> None:
    """Peeking into the door gives a second descriptor of the next connection: its answers can be read away."""
    said = attack(
        judged,
        """
thief = os.fork()
if thief == 0:
    held = {}
    while True:
        try:
            connection = take(socket.MSG_PEEK | socket.MSG_DONTWAIT)
            connection.setblocking(False)
            held[os.fstat(connection.fileno()).st_ino] = connection
        except OSError: pass
        for one in list(held.values()):
            try: one.recv(4096)
            except OSError: pass
time.sleep(0.2)
for status in (0, 1, 7):
    print(call("/bin/sh", "-c", "exit %d" % status))
os.kill(thief, 9)
""",
    )
    assert said.split() == ["0", "1", "7"]


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_collector_that_is_stopped_or_gone_changes_no_verdict(judged: Judged, number: int) -> None:
    from kept import PRELUDE, PYTHON

    script = """
honest(3)
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
print(call("/bin/sh", "-c", "exit 1"))
sys.exit(9)
"""
    with judged.started([PYTHON, "-c", PRELUDE + HOSTILE + script]) as process:
        judged.wait_for((judged.work / "ready").exists, "ready")
        os.kill(collector_of(process.pid), number)
        (judged.work / "go").touch()
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (9, b"honest\n1\n")
    assert [one["code"] for one in honest_calls(judged)] == [3]
    seal = judged.seal()
    assert seal["complete"] is False
    assert seal["collector"] is None
    assert "the collector is gone or does not answer" in seal["incomplete"][0]
    assert judged.whole_anyway().outcome["code"] == 9


def test_a_collector_that_hangs_at_the_end_costs_two_seconds_in_all(judged: Judged) -> None:
    from kept import PRELUDE, PYTHON

    script = 'open("ready", "w").close()\nwhile not os.path.exists("go"): time.sleep(0.01)\nos._exit(9)\n'
    with judged.started([PYTHON, "-c", PRELUDE + script]) as process:
        judged.wait_for((judged.work / "ready").exists, "ready")
        os.kill(collector_of(process.pid), signal.SIGSTOP)
        began = time.monotonic()
        (judged.work / "go").touch()
        assert process.wait(60) == 9
    assert door.WAIT_S <= time.monotonic() - began < door.WAIT_S * 2
    assert judged.left() == []
    assert "the collector is gone or does not answer" in judged.seal()["incomplete"][0]


def test_a_call_that_is_given_up_leaves_a_mark_in_the_store(judged: Judged) -> None:
    attack(
        judged,
        """
connection, event = take(), started(argv={"count": 3, "sha256": "ab" * 32})
say(connection, event)
send(connection, {"event": "discard"})
time.sleep(0.2)
honest()
""",
    )
    [mark] = judged.marks()
    assert (mark["argv_count"], mark["argv_sha256"]) == (3, "ab" * 32)
    assert len(judged.records(valid=False)) == 2
    seal = judged.seal()
    assert seal["collector"]["discarded_count"] == 1
    assert seal["complete"] is False


def test_the_disk_of_the_store_is_full(judged: Judged) -> None:
    """Nothing can be kept: every call runs, and says so."""
    import subprocess

    judged.store.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k,mode=700", "none", judged.store], check=True)
    try:
        said = attack(
            judged,
            """
held = []
while True:
    connection, event = take(), started()
    answer = say(connection, event)
    if not answer.startswith("ok"): break
    held.append(connection)
print(len(held), answer)
print(call("/bin/sh", "-c", "exit 1"), call("/bin/sh", "-c", "exit 0"))
""",
        )
        lines = said.splitlines()
        assert "No space left on device" in lines[0]
        assert lines[-1] == "1 0"
        assert honest_calls(judged) == []
        assert json.loads((judged.session() / "sealed.json").read_text())["collector"]["refused"]["no_room"] == 3
    finally:
        subprocess.run(["umount", judged.store], check=True)
