"""The meter's side of the door, against collectors that do not behave; the collector's side, against random bytes."""

import _socket
import contextlib
import fcntl
import json
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import Wrap, call, shared_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.harness import caller, decode, door, keeper, known_digests, store
from proofcost.harness.door import Connection, Door, DoorError
from proofcost.harness.record import Json, dumps
from proofcost.harness.user import User

EVENT: dict[str, Json] = {"event": "started", "x": 1}


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, Door]]:
    """Inside and outside of a door; patience is short."""
    monkeypatch.setattr(door, "WAIT_S", 0.3)
    inner, outer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = os.dup(outer.fileno())
    yield inner, Door(number, os.fstat(number).st_ino, "")
    for one in (inner, outer):
        one.close()


def offer(inner: socket.socket, answer: Callable[[socket.socket], object] | None = None) -> threading.Thread:
    """Put a connection in; `answer` gets the other end once a line was sent there, None: nobody reads."""
    ours, theirs = socket.socketpair()
    socket.send_fds(inner, [b"."], [theirs.fileno()])
    theirs.close()

    def serve() -> None:
        with ours:
            if answer is None:
                time.sleep(1)
                return
            heard = b""
            while not heard.endswith(b"\n"):
                more = ours.recv(65536)
                if not more:
                    return
                heard += more
            answer(ours)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def slowly(*said: bytes) -> Callable[[socket.socket], None]:
    """Says these, and then nothing for longer than anybody's patience."""

    def answer(ours: socket.socket) -> None:
        try:
            for one in said:
                ours.sendall(one)
        except OSError:
            pass
        time.sleep(1)

    return answer


def refusal(shown: Door, event: dict[str, Json] = EVENT) -> str:
    """What is said where an event cannot be kept. (Later than the patience it would be another thing.)"""
    with pytest.raises(DoorError) as caught, contextlib.closing(Connection(shown)) as connection:
        connection.ask(event)
    return str(caught.value.strerror)


def test_an_answer_in_time_is_what_counts(pair: tuple[socket.socket, Door]) -> None:
    inner, shown = pair
    thread = offer(inner, lambda ours: ours.sendall(b"no finished late\nok other x\nok started unified,memory why\n"))
    with contextlib.closing(Connection(shown)) as connection:
        assert connection.ask(EVENT) == "unified,memory why"
    thread.join()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda ours: None, "ended the connection"),
        (lambda ours: ours.sendall(b"ok start"), "ended the connection"),
        (lambda ours: ours.sendall(b"no started disk full\n"), "would not keep it: disk full"),
        (lambda ours: ours.sendall(b"\xff\xfe started\n"), "would not keep it"),
        (slowly(b"x" * 100000), "ended the connection"),
        (slowly(), "no answer from the collector"),
        (slowly(b"ok finished\n" * 3), "no answer from the collector"),
    ],
)
def test_a_collector_that_does_not_behave_is_an_error_in_time(
    pair: tuple[socket.socket, Door], answer: Callable[[socket.socket], object], said: str
) -> None:
    inner, shown = pair
    thread = offer(inner, answer)
    assert said in refusal(shown)
    thread.join()


def test_an_answer_that_trickles_is_not_waited_for_beyond_measure(pair: tuple[socket.socket, Door]) -> None:
    def trickle(ours: socket.socket) -> None:
        try:
            for _ in range(40):
                ours.sendall(b"ok other\n")
                time.sleep(0.05)
        except OSError:
            pass

    inner, shown = pair
    thread = offer(inner, trickle)
    assert "no answer" in refusal(shown)
    thread.join()


def test_a_collector_that_does_not_read_is_not_waited_for(pair: tuple[socket.socket, Door]) -> None:
    inner, shown = pair
    thread = offer(inner)
    big: dict[str, Json] = {"event": "started", "x": "x" * 900_000}
    assert "no answer from the collector" in refusal(shown, big)
    thread.join()


def test_a_record_beyond_the_collectors_measure_is_told_before_it_is_sent(pair: tuple[socket.socket, Door]) -> None:
    inner, shown = pair
    thread = offer(inner)
    big: dict[str, Json] = {"event": "started", "x": "x" * door.LINE_MAX_BYTES}
    assert f"the collector takes {door.LINE_MAX_BYTES}" in refusal(shown, big)
    thread.join()


def test_an_empty_door_is_not_waited_for_for_ever(pair: tuple[socket.socket, Door]) -> None:
    assert "offered no connection within" in refusal(pair[1])


def test_a_door_without_a_collector_is_an_error_at_once(pair: tuple[socket.socket, Door]) -> None:
    inner, shown = pair
    inner.close()
    assert "is gone" in refusal(shown)


def test_a_message_without_a_connection_is_none(pair: tuple[socket.socket, Door]) -> None:
    inner, shown = pair
    inner.send(b".")
    assert "is gone" in refusal(shown)


def test_only_the_door_itself_is_touched(tmp_path: Path) -> None:
    """A descriptor of the judge's own that has the number keeps its flags, and a closed one stays closed."""
    file = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    os.set_inheritable(file, True)
    one, other = socket.socketpair()
    os.set_inheritable(other.fileno(), True)
    for number, inode in ((file, os.fstat(file).st_ino), (other.fileno(), os.fstat(other.fileno()).st_ino + 1)):
        shown = Door(number, inode, "")
        shown.hide()
        assert not shown.is_open()
        assert os.get_inheritable(number)
        with pytest.raises(DoorError, match="hand it on"):
            Connection(shown)
    mine = Door(other.fileno(), os.fstat(other.fileno()).st_ino, "")
    mine.hide()
    assert not os.get_inheritable(other.fileno())
    os.close(file)
    one.close()
    other.close()
    assert not Door(file, 1, "").is_open()
    Door(file, 1, "").hide()


LISTING = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"


@pytest.mark.parametrize("how", ["the meter is not there", "a wrong call", "a call within a call"])
def test_a_command_that_runs_unmeasured_does_not_inherit_the_door(tmp_path: Path, how: str) -> None:
    """Whatever goes wrong before the door is used: what is behind the launcher may be confined code."""
    inner, outer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = fcntl.fcntl(outer, fcntl.F_DUPFD_CLOEXEC, 150)
    shown = (number, os.fstat(number).st_ino, "")
    missing = how == "the meter is not there"
    wrap = Wrap(tmp_path / "w", tmp_path / "nothing" if missing else shared_tree(), options={"door": shown})
    command: list[str | bytes] = ["/usr/bin/python3", "-c", LISTING]
    argv: list[str | bytes] = [
        wrap.launcher("phase"),
        "--odd" if how == "a wrong call" else "--phase",
        "x",
        "--",
        *command,
    ]
    if how == "a call within a call":
        outside = Wrap(tmp_path / "o", shared_tree())
        argv = [outside.launcher("phase"), "--phase", "x", "--", *argv]
    with inner, outer:
        ended = call(argv, tmp_path / "s", as_child=lambda: os.set_inheritable(number, True))
        bare = call(command, tmp_path / "s")
        os.close(number)
    assert (ended.code, ended.stdout) == (0, bare.stdout)


# The collector's side.


class Desk:
    """A keeper in a folder, and one connection to it."""

    def __init__(self, folder: Path) -> None:
        self.session = "0123456789abcdef"
        (folder / "sessions" / self.session).mkdir(parents=True, mode=0o700)
        self.folder = folder / "sessions" / self.session
        user = User("nobody", os.getuid(), os.getgid(), [], "/")
        self.keeper = keeper.Keeper(str(folder), self.session, user, {"instance": None})

    def hear(self, chunks: list[bytes]) -> bytes:
        """Send these, let the collector take each, hang up; its answers."""
        ours, theirs = socket.socketpair()
        raw = socket.socket.detach(ours)
        one = caller.Caller(_socket.socket(fileno=raw), self.keeper, 0)
        going = True
        for chunk in chunks:
            try:
                theirs.sendall(chunk)
            except OSError:
                break
            while going and _readable(raw):
                going = one.receive()
            if not going:
                break
        theirs.settimeout(5)
        theirs.shutdown(socket.SHUT_WR)
        while going:
            going = one.receive()
        answers = b""
        with theirs:
            try:
                while more := theirs.recv(65536):
                    answers += more
            except ConnectionResetError:  # it hung up on what it had not read
                pass
        return answers


def _readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def started(invocation: str = "18ecf76e24781aea-1480-a4f81f11", **more: Json) -> dict[str, Json]:
    kinds: dict[type, Json] = {str: "x", dict: {}, list: []}
    event: dict[str, Json] = {"schema": 1, "event": "started", "invocation": invocation, "session": "0123456789abcdef"}
    event.update({key: kinds[kind] for key, kind in keeper._STARTED.items()})
    event.update(more)
    return event


def finished(invocation: str = "18ecf76e24781aea-1480-a4f81f11") -> dict[str, Json]:
    kinds: dict[type, Json] = {str: "x", dict: {}, list: []}
    event: dict[str, Json] = {"schema": 1, "event": "finished", "invocation": invocation, "session": "0123456789abcdef"}
    event.update({key: kinds[kind] for key, kind in keeper._FINISHED.items()})
    return event


def lines(*events: dict[str, Json]) -> bytes:
    return b"".join(dumps(event).encode() + b"\n" for event in events)


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("desk")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=5))
def test_random_bytes_are_refused_and_leave_nothing(plain_folder: Path, chunks: list[bytes]) -> None:
    desk = Desk(plain_folder / os.urandom(8).hex())
    answers = desk.hear(chunks)
    assert answers == b"" or answers.startswith(b"no started ")
    assert list(desk.folder.iterdir()) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=20).filter(str.isprintable),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*keeper._STARTED, "schema", "event", "session", "invocation", "new"]), JSON))
def test_an_event_of_any_shape_is_kept_whole_or_not_at_all(plain_folder: Path, changed: dict[str, Any]) -> None:
    desk = Desk(plain_folder / os.urandom(8).hex())
    answers = desk.hear([lines({**started(), **changed}), lines(finished())])
    kept = sorted(desk.folder.iterdir())
    if answers.startswith(b"ok started"):
        assert len(kept) == 1
        for line in kept[0].read_bytes().splitlines():
            decode.json_object(line)
        assert kept[0].stat().st_mode & 0o777 == 0o600
    else:
        assert answers.startswith(b"no started ")
        assert kept == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_lines_may_come_in_any_pieces(plain_folder: Path, data: st.DataObject) -> None:
    desk = Desk(plain_folder / os.urandom(8).hex())
    raw = lines(started(), finished())
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=6)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert desk.hear(pieces) == b"ok started  --cgroup off\nok finished\n"
    [kept] = desk.folder.iterdir()
    assert kept.read_bytes().count(b"\n") == 2
    assert desk.keeper.finished_count == 1


def test_the_bounds_of_a_session_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    monkeypatch.setattr(keeper, "INVOCATIONS_MAX", 2)
    answers = [desk.hear([lines(started(f"1-{n}-00000000"))]) for n in range(3)]
    assert [answer.split()[0] for answer in answers] == [b"ok", b"ok", b"no"]
    assert desk.keeper.refused == {"too_many": 1}
    monkeypatch.setattr(keeper, "INVOCATIONS_MAX", 100)
    monkeypatch.setattr(keeper, "BYTES_MAX", desk.keeper.bytes_count + 10)
    assert desk.hear([lines(started("1-9-00000000"))]).startswith(b"no started this session's records exceed")


def test_calls_without_an_end_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end, each of them takes its time."""
    assert keeper.UNFINISHED_MAX < 5000
    desk = Desk(tmp_path)
    monkeypatch.setattr(keeper, "UNFINISHED_MAX", 2)
    ids = [f"1-{n}-00000000" for n in range(5)]
    for name in ids[:2]:
        assert desk.hear([lines(started(name), finished(name))]).startswith(b"ok started")
    for name in ids[2:4]:
        assert desk.hear([lines(started(name))]).startswith(b"ok started")
    assert b"no started this session has 2 calls without an end already" in desk.hear([lines(started(ids[4]))])


def test_what_counts_is_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`\u00e9` takes two bytes on its way and six in the record."""
    desk = Desk(tmp_path)
    sent = started(labels={}, argv={"head": ["\u00e9" * 100_000]})
    raw = json.dumps(sent, ensure_ascii=False).encode() + b"\n"
    assert len(raw) < 202_000

    def pieces(raw: bytes) -> list[bytes]:
        return [raw[at : at + 50_000] for at in range(0, len(raw), 50_000)]

    assert desk.hear(pieces(raw)).startswith(b"ok started")
    [kept] = desk.folder.iterdir()
    assert 600_000 < desk.keeper.bytes_count == kept.stat().st_size
    monkeypatch.setattr(keeper, "LINE_MAX_BYTES", 600_000)
    assert b"no started written down it has 60" in desk.hear(pieces(raw.replace(b"-1480-", b"-1481-")))
    assert desk.keeper.refused == {"oversized": 1}
    monkeypatch.setattr(keeper, "LINE_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(keeper, "BYTES_MAX", 1_200_000)
    assert b"this session's records exceed" in desk.hear(pieces(raw.replace(b"-1480-", b"-1482-")))
    assert [path.name for path in desk.folder.iterdir()] == [kept.name]
    small = desk.keeper.bytes_count
    desk.hear([lines(started("1-3-00000000")), b'{"event":"discard"}\n'])
    [mark] = (tmp_path / "marks").iterdir()
    assert desk.keeper.bytes_count > small + mark.stat().st_size, "a mark takes room, too"


DIGEST = "ab" * 32


def test_learnt_digests_are_kept_as_far_as_they_are_some(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.mkdir()
    desk = Desk(tmp_path / "desk")
    desk.keeper.known = known_digests.KnownDigests(str(known))
    odd: list[Json] = [
        ["10 32 5 7 9", DIGEST], ["1 2 3 4", DIGEST], ["1 2 3 4 x", DIGEST], ["../1 2 3 4 5", DIGEST], ["", ""], 7,
        ["1 2 3 4 5", "short"], ["1 2 3 4 5\n", DIGEST], [1, 2], ["9" * 30 + " 2 3 4 5", DIGEST], None, [], {},
    ]  # fmt: skip
    assert desk.hear([lines(started(digests=odd))]).startswith(b"ok started")
    assert [path.name for path in known.iterdir()] == ["a-20"]
    assert stat.S_IMODE((known / "a-20").stat().st_mode) == 0o644
    no_digests: list[Json] = ["x", {}, 5, None]
    for number, wrong in enumerate(no_digests):
        assert desk.hear([lines(started(f"2-{number}-00000000", digests=wrong))]).startswith(b"ok started")
    many: list[Json] = [[f"1 {inode} 3 4 5", DIGEST] for inode in range(600)]
    assert desk.hear([lines(started("3-3-00000000", digests=many))]).startswith(b"ok started")
    assert len(list(known.iterdir())) == known_digests.KEPT_MAX
    assert all(b"digests" not in path.read_bytes() for path in desk.folder.iterdir())


def test_a_disk_without_room_refuses_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)

    def full(self: store.OwnFile, path: str, room: int = 0) -> None:
        raise store.StoreError(f"store {path}: no room: No space left on device")

    monkeypatch.setattr(store.OwnFile, "__init__", full)
    assert b"no room: No space left on device" in desk.hear([lines(started())])
    assert desk.keeper.refused == {"no_room": 1}


def test_a_write_that_fails_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)

    def fails(self: store.OwnFile, event: dict[str, Json]) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store.OwnFile, "append", fails)
    assert desk.hear([lines(started())]).startswith(b"no started ")
    assert list(desk.folder.iterdir()) == []
    assert desk.keeper.refused == {"failed": 1}


def test_a_discarded_call_leaves_a_mark_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.hear([lines(started()), b'{"event":"discard"}\n']).startswith(b"ok started")
    assert list(desk.folder.iterdir()) == []
    [mark] = (tmp_path / "marks").iterdir()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    assert desk.keeper.discarded_count == 1


def test_the_meters_own_side_asks_for_what_the_collector_gives(
    tmp_path: Path, pair: tuple[socket.socket, Door]
) -> None:
    """Both ends at once, in one process."""
    inner, shown = pair
    desk = Desk(tmp_path)
    ours, theirs = socket.socketpair()
    socket.send_fds(inner, [b"."], [theirs.fileno()])
    theirs.close()
    one = caller.Caller(_socket.socket(fileno=socket.socket.detach(ours)), desk.keeper, 0)
    going = [True]

    def serve() -> None:
        while going[0]:
            going[0] = one.receive()
            time.sleep(0.001)

    thread = threading.Thread(target=serve)
    thread.start()
    connection = Connection(shown)
    assert connection.ask(started()) == " --cgroup off"
    connection.append(finished())
    connection.sync()
    connection.close()
    thread.join()
    [kept] = desk.folder.iterdir()
    assert kept.read_bytes().count(b"\n") == 2
