"""Reading any folder: what is whole is read, what is not is named, and nothing ever raises."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.harness import lines, procfs, record, walk
from proofcost.harness.decode import MAX_DEPTH, MAX_LINE_BYTES, ProblemKind, plain, unescape
from proofcost.harness.judge_self import judge_self
from proofcost.harness.lines import MAX_PROBLEMS_PER_FILE
from proofcost.harness.merged import Record
from proofcost.harness.reading import MAX_NAMED, Store, read_named, read_newest, read_store
from proofcost.harness.running import MeterState
from proofcost.harness.walk import MAX_MARKS_READ

S = 10**9
MS = 10**6


def kinds(store: Store) -> list[ProblemKind]:
    return [problem.kind for problem in store.problems]


def read_bytes(data: bytes) -> Store:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.jsonl"
        path.write_bytes(data)
        return read_store(path)


def value(one: Record, name: str) -> int | None:
    found = one.measurement(name)
    assert found is not None, name
    return found.value


# --- text


@given(st.binary(max_size=200))
def test_unescape_is_the_reverse_of_the_meters_escape(raw: bytes) -> None:
    escaped = record.escape(raw)
    assert unescape(escaped) == raw
    assert escaped.isprintable() or not any(ord(char) < 0x20 or ord(char) == 0x7F for char in escaped)
    escaped.encode("utf-8")  # no lone surrogate


@given(st.text(alphabet="\\x09afé\u2028", max_size=12))
def test_unescape_gives_bytes_or_value_error(text: str) -> None:
    try:
        raw = unescape(text)
    except ValueError:
        assert "\\" in text
    else:
        assert unescape(record.escape(raw)) == raw


@pytest.mark.parametrize("text", ["\\", "a\\q", "\\x4", "\\xg0", "\\\\\\", "\ud800"])
def test_unescape_refuses_what_no_meter_writes(text: str) -> None:
    with pytest.raises(ValueError, match=r"backslash|surrogates"):
        unescape(text)
    assert plain(text) == text


def test_unescape_keeps_what_looks_like_an_escape() -> None:
    assert unescape("\\\\x41\\x0a\\xFFé") == b"\\x41\n\xff\xc3\xa9"


# --- a whole record


def test_the_kept_example_reads_as_one_complete_record() -> None:
    store = read_store(made.EXAMPLE)
    assert store.problems == ()
    assert store.looked_in == (str(made.EXAMPLE),)
    (one,) = store.records
    assert (one.state, one.phase, one.side, one.kernel) == ("complete", "checker", "solution", "nanoda_bin")
    assert one.target_name == "nanoda_bin"
    assert value(one, "wall_program") == 1_240_123_456
    assert value(one, "page_faults_major") == 0
    missing = one.measurement("instructions:u")
    assert missing is not None
    assert (missing.value, missing.reason) == (None, "counter_not_supported")
    assert one.measurement("no_such_figure") is None
    assert len(one.measurements()) == len(made.example()[1]["measurements"])


def test_the_kept_session_reads_with_everything_derived() -> None:
    store = read_store(made.SESSION_V1)
    assert store.problems == ()
    assert [(one.phase, one.phase_given, one.side_known_by, one.kernel) for one in store.records] == [
        ("whole", None, None, None),
        ("challenge-build", None, "config", None),
        ("challenge-export", None, "config", None),
        ("build", "build", "config", None),
        ("export", "build", "config", None),
        ("checker", "checker", "phase", "nanoda"),
        ("checker", "checker", "phase", "soko"),
        ("unknown", None, None, None),
    ]
    assert {one.state for one in store.records[:-1]} == {"complete"}
    assert store.records[-1].state == "incomplete"
    assert all(one.labels == {"kernel-set": "both", "who": "kept fixture"} for one in store.records)
    build = store.records[3].measurement("cpu_tree")
    assert build is not None
    assert (build.value, build.status, build.settled) == (2_991 * MS, "measured", True)


@pytest.mark.parametrize("part", ["", "sessions", "sessions/5f0e8c7d6b5a4938"])
def test_a_store_its_sessions_and_one_session_read_alike(part: str) -> None:
    whole, store = read_store(made.SESSION_V1), read_store(made.SESSION_V1 / part)
    assert [one.invocation for one in store.records] == [one.invocation for one in whole.records]
    assert [one.phase for one in store.records] == [one.phase for one in whole.records]


def test_one_concatenated_file_reads_like_the_session(tmp_path: Path) -> None:
    whole = read_store(made.SESSION_V1)
    files = sorted(made.SESSION_V1.rglob("*.jsonl"), reverse=True)
    heap = tmp_path / "all.jsonl"
    heap.write_bytes(b"".join(file.read_bytes() for file in files))
    store = read_store(heap)
    assert store.problems == ()
    assert [(one.invocation, one.phase, one.finished) for one in store.records] == [
        (one.invocation, one.phase, one.finished) for one in whole.records
    ]


def test_unknown_keys_are_kept(tmp_path: Path) -> None:
    made.put(tmp_path, made.started(new_thing={"deep": [1, None]}), made.finished(other="x"))
    (one,) = read_store(tmp_path).records
    assert one.started["new_thing"] == {"deep": [1, None]}
    assert one.finished is not None
    assert one.finished["other"] == "x"


# --- torn, corrupt and foreign


def test_truncation_at_every_byte_never_raises_and_completeness_follows_the_lines() -> None:
    data = made.lines(made.started(), made.finished(measurements={}))
    first = data.index(b"\n") + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.jsonl"
        for cut in range(len(data) + 1):
            path.write_bytes(data[:cut])
            store = read_store(path)
            states = [one.state for one in store.records]
            assert states == (["complete"] if cut == len(data) else ["incomplete"] if cut >= first else []), cut
            expected = [ProblemKind.EMPTY] if cut == 0 else [] if cut in (first, len(data)) else [ProblemKind.TORN]
            assert kinds(store) == expected, cut


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_to_one_byte_run_never_raises_and_leaves_other_files_alone(data: st.DataObject) -> None:
    raw = bytearray(made.lines(made.started(), made.finished()))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.jsonl").write_bytes(raw)
        made.put(Path(folder), made.started("other"), made.finished("other"))
        store = read_store(folder)
    assert [one.state for one in store.records if one.invocation == "other"] == ["complete"]
    assert all(isinstance(one.measurement("wall_command"), object) for one in store.records)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_json_in_any_field_never_raises(data: st.DataObject) -> None:
    """Whatever stands in a field, the record is read or skipped with a problem, and its properties answer."""
    started, finished = made.example()
    event = data.draw(st.sampled_from([started, finished]))
    event[data.draw(st.sampled_from(sorted(event)))] = data.draw(json_values)
    text = "".join(json.dumps(one) + "\n" for one in (started, finished))
    store = read_bytes(text.encode("ascii"))
    assert store.records or store.problems
    for one in store.records:
        assert one.state in ("complete", "incomplete")
        assert isinstance(one.phase, str)
        assert isinstance(one.measurements(), dict)
        assert (one.side, one.kernel, one.module, one.outcome, one.started_at_ns, one.ended_at_ns) is not None
    judge_self(store.records)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_never_records_and_never_raise(raw: bytes) -> None:
    store = read_bytes(raw)
    assert store.records == ()
    assert store.problems or not raw.strip()


BAD_LINES = [
    (b"nonsense\n", ProblemKind.NOT_JSON),
    (b"[1,2]\n", ProblemKind.NOT_AN_OBJECT),
    (b"null\n", ProblemKind.NOT_AN_OBJECT),
    (b'{"metric":"build//wall","value":1.5}\n', ProblemKind.NOT_A_RECORD),
    (b'{"schema":true,"event":"started"}\n', ProblemKind.NOT_A_RECORD),
    (b'{"schema":0,"event":"started"}\n', ProblemKind.NOT_A_RECORD),
    (b'{"schema":1,"event":"started","invocation":7,"session":"s"}\n', ProblemKind.NOT_A_RECORD),
    (b'{"schema":1,"event":"started","invocation":"","session":"s"}\n', ProblemKind.NOT_A_RECORD),
    (b'{"schema":1,"event":"paused","invocation":"i","session":"s"}\n', ProblemKind.UNKNOWN_EVENT),
    (b'{"schema":1,"event":["started"],"invocation":"i","session":"s"}\n', ProblemKind.UNKNOWN_EVENT),
    (b'{"schema":2,"event":"started","invocation":"i","session":"s","f":1.5}\n', ProblemKind.NEWER_SCHEMA),
    (b'{"schema":1' + b"0" * 400 + b',"event":"started"}\n', ProblemKind.NEWER_SCHEMA),
    (b'{"schema":1,"event":"started","invocation":"i","session":"s","f":1.5}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","session":"s","f":NaN}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","session":"s","f":-Infinity}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","session":"s","f":9223372036854775808}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","f":' + b"9" * 5000 + b"}\n", ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","invocation":"j","session":"s"}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","session":"\\ud800"}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","session":"s","\\ud800":1}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i","session":"s\\u0000"}\n', ProblemKind.ENCODING),
    (b'{"schema":1,"event":"started","invocation":"i\xff","session":"s"}\n', ProblemKind.ENCODING),
    (b"\0" * 100 + b"\n", ProblemKind.NOT_JSON),
    (b"\0" * 100, ProblemKind.TORN),
    (b"[" * 100_000 + b"\n", ProblemKind.ENCODING),
    (b'{"a":' * 100_000 + b"\n", ProblemKind.ENCODING),
    (
        b'{"schema":1,"event":"started","invocation":"i","session":"s","f":'
        + b"[" * MAX_DEPTH
        + b"]" * MAX_DEPTH
        + b"}\n",
        ProblemKind.ENCODING,
    ),
    (b'{"a":"' + b"x" * MAX_LINE_BYTES + b'"}\n', ProblemKind.OVERSIZE),
    (b'{"a":"' + b"x" * (3 * MAX_LINE_BYTES), ProblemKind.OVERSIZE),
]


@pytest.mark.parametrize(("bad", "kind"), BAD_LINES, ids=[f"{n}-{kind.value}" for n, (_, kind) in enumerate(BAD_LINES)])
def test_a_bad_line_is_named_and_the_good_ones_around_it_are_read(bad: bytes, kind: ProblemKind) -> None:
    before, after = made.lines(made.started("a")), made.lines(made.finished("a"))
    torn = not bad.endswith(b"\n")
    store = read_bytes(before + after + bad if torn else before + bad + after)
    assert [one.state for one in store.records] == ["complete"]
    assert kinds(store) == [kind]
    assert store.problems[0].line == (3 if torn else 2)


def test_a_problem_never_quotes_the_line() -> None:
    """The reader may be root and the line somebody's secret: a password file renamed to .jsonl, say."""
    store = read_bytes(b'root:$6$secret:1:2\n{"secret":"secret"}\nsecret')
    assert store.problems
    assert "secret" not in "".join(problem.what for problem in store.problems)


def test_a_foreign_file_is_one_problem_not_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "radar.jsonl").write_bytes(b'{"metric":"build//wall","value":1.5}\n' * 5000)
    store = read_store(tmp_path)
    assert kinds(store) == [ProblemKind.FOREIGN_FILE]
    assert store.problems[0].count == 5000


def test_many_problems_of_one_file_are_counted_not_kept() -> None:
    store = read_bytes(made.lines(made.started()) + b"x\n" * 1000)
    assert len(store.records) == 1
    assert len(store.problems) == MAX_PROBLEMS_PER_FILE + 1
    assert sum(problem.count for problem in store.problems) == 1000


def test_a_record_of_a_newer_schema_is_skipped_loudly_without_further_noise() -> None:
    newer = made.lines({**made.started(), "schema": 2}, {**made.finished(), "schema": 2})
    store = read_bytes(newer + made.lines(made.started("b")))
    assert [one.invocation for one in store.records] == ["b"]
    assert kinds(store) == [ProblemKind.NEWER_SCHEMA] * 2
    assert "schema 2" in store.problems[0].what


@pytest.mark.parametrize("event", [made.finished(), made.settled()], ids=["finished", "settled"])
def test_an_event_without_started_is_a_problem_and_no_record(event: made.Event) -> None:
    store = read_bytes(made.lines(event))
    assert store.records == ()
    assert kinds(store) == [ProblemKind.WITHOUT_STARTED]


def test_of_two_equal_events_the_first_stands() -> None:
    second = made.finished(outcome={"code": 1})
    store = read_bytes(made.lines(made.started(), made.finished(), second, made.started()))
    (one,) = store.records
    assert one.outcome is not None
    assert one.outcome["code"] == 0
    assert [(problem.kind, problem.line) for problem in store.problems] == [
        (ProblemKind.DUPLICATE_EVENT, 3),
        (ProblemKind.DUPLICATE_EVENT, 4),
    ]
    assert "a different `finished`" in store.problems[0].what
    assert "the same `started`" in store.problems[1].what


def test_events_of_two_sessions_are_not_merged() -> None:
    store = read_bytes(made.lines(made.started(session="one"), made.finished(session="two")))
    assert [one.state for one in store.records] == ["incomplete"]
    assert kinds(store) == [ProblemKind.OTHER_SESSION]


# --- the folder


def test_symbolic_links_below_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    made.put(outside, made.started("secret"))
    folder = tmp_path / "store"
    made.put(folder / "sessions" / "s", made.started("mine"))
    (folder / "sessions" / "dir").symlink_to(outside)
    (folder / "sessions" / "s" / "file.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "sessions" / "s" / "loop").symlink_to(folder)
    store = read_store(folder)
    assert [one.invocation for one in store.records] == ["mine"]
    assert kinds(store) == [ProblemKind.SYMLINK] * 3


def test_a_linked_sessions_folder_is_not_followed(tmp_path: Path) -> None:
    made.put(tmp_path / "outside" / "s", made.started())
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "sessions").symlink_to(tmp_path / "outside")
    store = read_store(tmp_path / "store")
    assert store.records == ()
    assert kinds(store) == [ProblemKind.UNREADABLE]


def test_the_named_path_itself_may_be_a_link(tmp_path: Path) -> None:
    made.put(tmp_path / "real", made.started())
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert len(read_store(tmp_path / "link").records) == 1
    (tmp_path / "file").symlink_to(tmp_path / "real" / "inv-1.jsonl")
    assert len(read_store(tmp_path / "file").records) == 1


def test_what_is_no_regular_file_is_not_opened_for_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    made.put(tmp_path, made.started())
    store = read_store(tmp_path)
    assert len(store.records) == 1
    assert kinds(store) == [ProblemKind.UNREADABLE]
    assert kinds(read_store(tmp_path / "pipe.jsonl")) == [ProblemKind.UNREADABLE]
    assert kinds(read_store("/dev/zero")) == [ProblemKind.UNREADABLE]


def test_foreign_files_are_named_in_a_store_and_passed_over_elsewhere(tmp_path: Path) -> None:
    made.put(tmp_path / "heap", made.started())
    (tmp_path / "heap" / "README").write_text("hello")
    assert read_store(tmp_path / "heap").problems == ()
    made.put(tmp_path / "store" / "sessions" / "s", made.started())
    (tmp_path / "store" / "sessions" / "s" / "README").write_text("hello")
    assert kinds(read_store(tmp_path / "store")) == [ProblemKind.FOREIGN_FILE]


def test_what_a_user_may_not_read_is_a_problem_and_the_rest_is_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in "abc":
            made.put(Path(folder) / name, made.started(name))
        (Path(folder) / "a").chmod(0)
        (Path(folder) / "b" / "b.jsonl").chmod(0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            store = read_store(folder)
        finally:
            if root:
                os.seteuid(0)
            (Path(folder) / "a").chmod(0o700)
    assert [one.invocation for one in store.records] == ["c"]
    assert kinds(store) == [ProblemKind.UNREADABLE] * 2


def test_a_missing_path_is_a_problem_that_says_where_it_looked(tmp_path: Path) -> None:
    store = read_store(tmp_path / "nowhere")
    assert store.records == ()
    assert store.looked_in == (str(tmp_path / "nowhere"),)
    assert kinds(store) == [ProblemKind.UNREADABLE]
    assert "No such file" in store.problems[0].what


def test_deep_folders_stop_somewhere(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d"] * 20)
    made.put(folder, made.started())
    store = read_store(tmp_path)
    assert store.records == ()
    assert kinds(store) == [ProblemKind.TOO_DEEP]


def test_a_whole_machine_is_not_walked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(walk, "MAX_FOLDERS", 5)
    for number in range(20):
        (tmp_path / f"{number:02}" / "below").mkdir(parents=True)
    made.put(tmp_path / "zz", made.started("beyond"))
    made.put(tmp_path / "sessions-of-others" / "sessions" / "s", made.started("a"))
    store = read_store(tmp_path)
    assert store.records == ()
    assert [(one.kind, one.path) for one in store.problems] == [(ProblemKind.TOO_MANY, str(tmp_path))]
    assert "name the store itself" in store.problems[0].what


@pytest.mark.parametrize("top", ["", "sessions"])
def test_a_large_store_is_no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, top: str) -> None:
    monkeypatch.setattr(walk, "MAX_FOLDERS", 5)
    for number in range(20):
        put_session(tmp_path, f"s{number}", number)
    for store in (read_store(tmp_path / top), read_newest(tmp_path / top, 30)):
        assert len(store.records) == 40
        assert store.problems == ()


def test_sessions_are_looked_for_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(walk, "MAX_FOLDERS", 5)
    for number in range(20):
        (tmp_path / "h" / f"{number:02}").mkdir(parents=True)
    put_session(tmp_path / "h", "s", 1)
    assert len(read_store(tmp_path).records) == 2


def test_several_stores_in_one_folder_are_read_together(tmp_path: Path) -> None:
    for host in ("h1", "h2"):
        made.put(tmp_path / host / "sessions" / "s", made.started(host))
    assert [one.invocation for one in read_store(tmp_path).records] == ["h1", "h2"]


def test_names_that_are_no_utf8_are_read(tmp_path: Path) -> None:
    made.put(tmp_path / "ok", made.started())
    os.rename(os.fsencode(tmp_path / "ok"), os.fsencode(tmp_path) + b"/\xff\n")
    assert len(read_store(tmp_path).records) == 1


def test_marks_of_unmeasured_calls_are_listed(tmp_path: Path) -> None:
    made.put(tmp_path / "sessions" / "s", made.started())
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "1-2.json").write_text('{"fault":"store is full"}')
    (tmp_path / "marks" / "2-2.json").write_text("torn")
    store = read_store(tmp_path)
    assert [mark.fields for mark in store.marks] == [{"fault": "store is full"}, {}]
    assert store.problems == ()


# --- derived


def records(*events: made.Event) -> tuple[Record, ...]:
    store = read_bytes(made.lines(*events))
    assert store.problems == ()
    return store.records


def whole(**changes: Any) -> made.Event:
    base: dict[str, Any] = {"phase": {"known_by": "run"}, "labels": {"k": "whole", "w": "whole"}}
    return made.started("whole", "whole", 10**11, **made.merged(base, changes))


def config(text: bytes) -> dict[str, Any]:
    return {"path": "c.json", "size_bytes": len(text), "sha256": "0" * 64, "text": record.escape(text)}


def test_labels_are_merged_the_own_ones_winning(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / made.example()[0]["session"]
    made.put(folder, whole(), made.started("a", labels={"k": "own"}))
    (folder / "session.json").write_text('{"labels":{"s":"session","w":"session"}}')
    store = read_store(tmp_path)
    assert store.problems == ()
    one = next(one for one in store.records if one.invocation == "a")
    assert one.labels == {"s": "session", "w": "whole", "k": "own"}


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (b'{"K": "/usr/bin/nanoda_bin"}', "K"),
        (b'{"K": ["/usr/bin/nanoda_bin", "-x"]}', "K"),
        (b'{"K": {"command": ["nanoda_bin"]}}', "K"),
        (b'{"far": "/else/nanoda_bin", "near": "/usr/bin/nanoda_bin"}', "near"),
        (b'{"K": "/else/where/nanoda_bin"}', "K"),
        (b'{"other": "/usr/bin/other"}', "nanoda_bin"),
        (b'{"A": ["/usr/bin/nanoda_bin", "-j1"], "B": ["/usr/bin/nanoda_bin", "-j4"]}', "B"),
        (b'{"A": "/usr/bin/nanoda_bin", "B": "/usr/bin/nanoda_bin"}', "nanoda_bin"),
        (b"[]", "nanoda_bin"),
        (b'{"K": 7, "L": [], "M": [1], "N": {}}', "nanoda_bin"),
    ],
)
def test_a_kernel_is_named_by_its_key_in_the_judges_config(kernels: bytes, expected: str) -> None:
    checker = made.started("a", argv={"head": ["landrun", "--", "/usr/bin/nanoda_bin", "-j4", "/tmp/c.json"]})
    made_config = config(b'{"external_kernels": ' + kernels + b"}")
    one = records(whole(judge_config=made_config), checker)[0]
    assert (one.kernel, one.kernel_known_by) == (expected, "config" if expected != "nanoda_bin" else "record")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\n", b"[" * 100_000, b'"text"'])
def test_a_config_that_is_no_object_changes_nothing(text: bytes) -> None:
    one = records(whole(judge_config=config(text)), made.started("a"))[0]
    assert one.kernel == "nanoda_bin"


def call(invocation: str, phase: str, module: str, at: int, known_by: str = "argv") -> made.Event:
    return made.started(invocation, phase, at, subject={"module": module}, phase={"known_by": known_by})


def sides(found: tuple[Record, ...]) -> list[tuple[str, str | None, str | None]]:
    return [(one.phase, one.side, one.side_known_by) for one in found]


def test_the_config_tells_the_side() -> None:
    text = config(b'{"challenge_module": "A.B", "solution_module": "\xce\xbb"}')
    found = records(
        made.merged(whole(judge_config=text), {"clocks": made.clocks(1)}),
        call("1", "build", "\u03bb", 2),
        call("2", "build", "A.B", 3, "hook"),
        call("3", "build", "C", 4),
    )
    assert sides(found)[1:] == [
        ("build", "solution", "config"),
        ("challenge-build", "challenge", "config"),
        ("build", None, None),
    ]


def test_without_a_config_the_order_tells_the_side_and_says_so() -> None:
    names = [("build", "C"), ("export", "C"), ("build", "S"), ("export", "S")]
    found = records(*(call(str(n), phase, module, n) for n, (phase, module) in enumerate(names, 1)))
    assert sides(found) == [
        ("challenge-build", "challenge", "order"),
        ("challenge-export", "challenge", "order"),
        ("build", "solution", "order"),
        ("export", "solution", "order"),
    ]


def test_beside_the_hook_the_shims_calls_are_the_challenges() -> None:
    found = records(call("1", "build", "C", 1), call("2", "build", "S", 2, "hook"))
    assert sides(found) == [("challenge-build", "challenge", "order"), ("build", "solution", "hook")]


@pytest.mark.parametrize("modules", [["C"], ["A", "B", "C"]])
def test_one_module_or_three_tell_no_side(modules: list[str]) -> None:
    found = records(*(call(str(n), "build", module, n) for n, module in enumerate(modules, 1)))
    assert {(phase, side) for phase, side, _ in sides(found)} == {("build", None)}


def test_a_phase_understood_as_the_challenges_stays_so() -> None:
    (one,) = records(call("1", "challenge-build", "C", 1))
    assert (one.phase, one.side, one.side_known_by) == ("challenge-build", "challenge", "phase")


def test_a_settled_figure_replaces_the_finished_one_and_others_stay() -> None:
    events = (
        made.started(),
        made.finished(measurements={"cpu_tree": made.figure(1, "ns", "lower_bound", "stragglers")}),
        made.settled(measurements={"cpu_tree": made.figure(7), "late": made.figure(8)}),
    )
    (one,) = records(*events)
    assert value(one, "cpu_tree") == 7
    assert value(one, "late") == 8
    assert value(one, "wall_program") == 1_240_123_456
    assert set(one.measurements()) == {*made.example()[1]["measurements"], "late"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"value": None, "unit": "ns", "method": "m", "status": "unavailable", "reason": "why"}, (None, "why")),
        ({"value": None, "unit": "ns", "method": "m", "status": "measured"}, (None, "the record gives no reason")),
        ({"value": True, "unit": "ns", "status": "measured"}, (None, "not an integer")),
        ({"value": "7", "unit": "ns", "status": "measured"}, (None, "not an integer")),
        ({"value": 0, "status": "unavailable"}, (None, "the record calls it unavailable")),
        ({"value": 5}, (None, "the record calls it unavailable")),
    ],
)
def test_a_figure_that_is_none_is_never_a_number(raw: dict[str, Any], expected: tuple[None, str]) -> None:
    (one,) = records(made.started(), made.finished(measurements={"x": raw}))
    found = one.measurement("x")
    # "unit" and so on are laid over the example's, where "x" does not stand: the raw object is read as it is
    assert found is not None
    assert (found.value, found.reason, found.status) == (*expected, "unavailable")


# --- the newest, and one by its name


def named(at_ns: int, number: int = 0) -> str:
    """An invocation id as meters make them."""
    return f"{made.BOOT + at_ns:x}-{100 + number}-{number:08x}"


def put_session(folder: Path, session: str, at_ns: int, calls: int = 2) -> list[str]:
    """A session as meters leave it; returns the ids of its calls."""
    ids = [named(at_ns + number, number) for number in range(calls)]
    for number, one in enumerate(ids):
        made.put(folder / "sessions" / session, made.started(one, "build", at_ns + number, session=session))
    return ids


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Sessions s0 to s4, the newest last; reading s0, s1 or s2 gives a problem."""
    for at in range(5):
        (first, _) = put_session(tmp_path, f"s{at}", at * S)
        if at < 3:
            (tmp_path / "sessions" / f"s{at}" / f"{first}.settled.jsonl").write_bytes(b"")
    return tmp_path


def test_the_newest_sessions_are_found_by_names_and_no_other_is_read(five: Path) -> None:
    store = read_newest(five, 2)
    assert list(store.sessions()) == ["s3", "s4"]
    assert store.problems == ()
    assert store.unread_sessions == ("s2", "s1", "s0")
    assert len(store.unread_calls) == 6
    assert kinds(read_store(five)) == [ProblemKind.EMPTY] * 3


def test_asking_for_more_than_there_are_reads_all(five: Path) -> None:
    store = read_newest(five, 9)
    assert store.unread_sessions == store.unread_calls == ()
    assert store.records == read_store(five).records
    assert kinds(store) == kinds(read_store(five))


def test_a_newest_session_without_a_record_is_named_and_the_one_before_it_shown(five: Path) -> None:
    (five / "sessions" / "s5").mkdir()
    (five / "sessions" / "s5" / f"{named(9 * S)}.jsonl").write_bytes(b"")
    store = read_newest(five, 1)
    assert list(store.sessions()) == ["s4"]
    assert kinds(store) == [ProblemKind.EMPTY]


def test_files_of_other_names_are_read_to_know_when_they_began(five: Path) -> None:
    made.put(five / "sessions" / "odd", made.started("x", "build", 3 * S + 7, session="odd"), name="x.jsonl")
    store = read_newest(five, 1)
    assert list(store.sessions()) == ["odd", "s4"]
    assert store.problems == ()


def test_a_session_partly_among_other_files_is_read_whole(five: Path) -> None:
    extra = made.started("x", "build", 1, session="s3")
    made.put(five / "sessions" / "odd", extra, name="x.jsonl")
    assert len(read_newest(five, 1).sessions()["s3"]) == 3


def test_where_names_lie_everything_is_read(five: Path) -> None:
    (five / "sessions" / "s4").rename(five / "sessions" / "copy")
    assert read_newest(five, 1) == read_store(five)
    assert read_named(five, "copy") == read_store(five)
    assert list(read_named(five, "s3").sessions()) == ["s3"]
    (five / "sessions" / "copy").rename(five / "sessions" / "s4")
    first, second = (five / "sessions" / "s4" / f"{named(4 * S + at, at)}.jsonl" for at in (0, 1))
    os.replace(second, first)
    assert read_newest(five, 1) == read_store(five)


def test_a_heap_of_stores_has_one_newest(tmp_path: Path) -> None:
    for host, at in (("h1", 1), ("h2", 2)):
        put_session(tmp_path / host, host, at * S)
    store = read_newest(tmp_path, 1)
    assert (list(store.sessions()), store.unread_sessions) == (["h2"], ("h1",))


@pytest.mark.parametrize("wanted", ["s3", "s", named(3 * S), named(3 * S)[:13]])
def test_what_is_named_is_read_whole(five: Path, wanted: str) -> None:
    store = read_named(five, wanted)
    assert store.sessions()["s3"] == read_store(five).sessions()["s3"]


def test_what_is_not_named_is_not_read(five: Path) -> None:
    store = read_named(five, "s3")
    assert list(store.sessions()) == ["s3"]
    assert store.unread_sessions == ("s4", "s2", "s1", "s0")
    assert read_named(five, "zz").records == ()
    assert read_named(five, named(4 * S, 0)).unread_sessions == ("s3", "s2", "s1", "s0")


def test_a_beginning_that_very_many_have_reads_none_of_them(tmp_path: Path) -> None:
    for at in range(MAX_NAMED + 1):
        put_session(tmp_path, f"s{at}", at, 1)
    store = read_named(tmp_path, "s")
    assert store.records == ()
    assert len(store.unread_sessions) == MAX_NAMED + 1
    assert "s1" in read_named(tmp_path, "s1").sessions()


def test_the_kept_session_reads_alike_by_name() -> None:
    assert read_named(made.SESSION_V1, "5f") == read_newest(made.SESSION_V1, 1) == read_store(made.SESSION_V1)


def test_links_are_not_followed_into_a_session(five: Path) -> None:
    (five / "sessions" / "s9").symlink_to(five / "sessions" / "s0")
    store = read_newest(five, 1)
    assert list(store.sessions()) == ["s4"]
    assert kinds(store) == [ProblemKind.SYMLINK]


def test_old_marks_are_listed_and_the_newest_read(five: Path) -> None:
    (five / "marks").mkdir()
    for at in range(MAX_MARKS_READ + 3):
        (five / "marks" / f"{made.BOOT + at}-7.json").write_text('{"fault":"f"}')
    marks = read_newest(five, 1).marks
    assert [mark.fields for mark in marks[:4]] == [None, None, None, {"fault": "f"}]
    assert [mark.at_ns for mark in marks] == [made.BOOT + at for at in range(MAX_MARKS_READ + 3)]
    assert all(mark.fields == {"fault": "f"} for mark in read_store(five).marks)


# --- the meter of an unfinished record


@pytest.fixture
def meter() -> Iterator[subprocess.Popen[bytes]]:
    """A real process that stands for a meter."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def unfinished(process: subprocess.Popen[bytes], /, **changes: Any) -> made.Event:
    """`started`, as if `process` had written it just now on this host."""
    base = {
        "host": {"boot_id": procfs.boot_id()},
        "process": {
            "meter_pid": process.pid,
            "meter_start_ticks": procfs.start_ticks(process.pid),
            "pid_namespace": procfs.pid_namespace(),
        },
    }
    return made.started(**made.merged(base, changes))


def test_a_running_meter_is_told_from_one_that_vanished(meter: subprocess.Popen[bytes]) -> None:
    event = unfinished(meter)
    (one,) = records(event)
    assert (one.state, one.meter) == ("incomplete", MeterState.RUNNING)
    meter.kill()
    os.waitid(os.P_PID, meter.pid, os.WEXITED | os.WNOWAIT)  # a zombie writes no more either
    assert records(event)[0].meter is MeterState.VANISHED
    meter.wait()
    assert records(event)[0].meter is MeterState.VANISHED
    assert records(event, made.finished())[0].meter is None


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"host": {"boot_id": "another boot"}}, None),
        ({"host": {"boot_id": None}}, None),
        ({"process": {"pid_namespace": "1"}}, None),
        ({"process": {"pid_namespace": None}}, None),
        ({"process": {"meter_pid": "1"}}, None),
        ({"process": {"meter_pid": -1}}, None),
        ({"process": {"meter_pid": 1 << 62}}, None),
        ({"process": {"meter_start_ticks": None}}, None),
        ({"process": {"meter_start_ticks": 1}}, MeterState.VANISHED),  # another process has its number now
    ],
)
def test_only_the_same_host_boot_and_namespace_tell(
    meter: subprocess.Popen[bytes], changes: dict[str, Any], state: MeterState | None
) -> None:
    assert records(unfinished(meter, **changes))[0].meter is state


def test_what_a_meter_wrote_while_we_read_is_no_vanished_meter(
    meter: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = made.put(tmp_path, unfinished(meter))

    def late(_: object) -> MeterState:
        path.write_bytes(path.read_bytes() + made.lines(made.finished()))
        return MeterState.VANISHED

    monkeypatch.setattr(lines, "meter_state", late)
    (one,) = read_store(path).records
    assert (one.state, one.meter) == ("complete", None)


def test_a_process_hidden_from_us_did_not_vanish(
    meter: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    event = unfinished(meter)
    monkeypatch.setattr(procfs, "_stat_fields", lambda pid: None)  # what hidepid=2 does to other users
    assert records(event)[0].meter is None


# --- hosts


def host(invocation: str, boot: str, at: int, instance: str = "h") -> made.Event:
    return made.started(invocation, "unknown", at, host={"instance": instance, "boot_id": boot})


def test_one_host_id_under_two_boots_at_once_is_two_machines() -> None:
    store = read_bytes(made.lines(host("1", "a", 1 * S), host("2", "b", 2 * S), host("3", "a", 3 * S)))
    assert len(store.records) == 3
    assert kinds(store) == [ProblemKind.SHARED_HOST]
    assert "two machines share one host id (h)" in store.problems[0].what


def test_a_call_that_spans_the_other_boots_start_is_two_machines() -> None:
    end = made.finished("1", 9 * S)
    assert kinds(read_bytes(made.lines(host("1", "a", 1 * S), end, host("2", "b", 2 * S)))) == [ProblemKind.SHARED_HOST]


def test_a_reboot_is_one_machine() -> None:
    events = (host("1", "a", 1 * S), host("2", "a", 2 * S), host("3", "b", 3 * S), host("4", "b", 4 * S))
    assert read_bytes(made.lines(*events)).problems == ()


def test_two_ids_may_overlap() -> None:
    events = (host("1", "a", 1, "h1"), host("2", "b", 2, "h2"), host("3", "a", 3, "h1"))
    assert read_bytes(made.lines(*events)).problems == ()


# --- the judge itself


def timed(name: str, start: int, wall: int, cpu: int, phase: str = "unknown", **figures: Any) -> list[made.Event]:
    measurements = {
        "wall_command": made.figure(wall),
        "cpu_tree": made.figure(cpu),
        "cpu_waited": made.figure(cpu - 1),
        **figures,
    }
    base = made.finished(name, start + wall)
    return [made.started(name, phase, start), {**base, "measurements": measurements}]


def test_judge_self_is_what_the_calls_leave_of_the_whole() -> None:
    found = judge_self(
        records(*timed("w", 0, 100, 90, "whole"), *timed("a", 10, 20, 30), *timed("b", 30, 40, 45)),
    )
    assert found is not None
    assert (found.wall.value, found.wall.status) == (40, "derived")
    assert (found.cpu.value, found.cpu.status) == (15, "derived")
    assert (found.memory.value, found.memory.status) == (None, "unavailable")
    cost = made.example()[1]["meter_cost"]
    assert found.meters_ns == 2 * (cost["before_ns"] + cost["after_ns"])
    assert found.meters_cpu_ns == 2 * cost["cpu_ns"]


def test_judge_self_is_measured_where_the_whole_says_so() -> None:
    measured = {"cpu_judge_self": made.figure(5), "memory_peak_judge_self": made.figure(7, "bytes")}
    found = judge_self(records(*timed("w", 0, 100, 90, "whole", **measured), *timed("a", 10, 20, 30)))
    assert found is not None
    assert (found.cpu.value, found.cpu.status, found.memory.value) == (5, "measured", 7)


def test_judge_self_falls_back_to_waited_cpu() -> None:
    missing = made.figure(None, "ns", "unavailable", "no cgroup")
    found = judge_self(
        records(*timed("w", 0, 100, 90, "whole", cpu_tree=missing), *timed("a", 10, 20, 30, cpu_tree=missing))
    )
    assert found is not None
    assert (found.cpu.value, found.cpu.status) == (89 - 29, "derived")
    assert found.cpu.method.startswith("cpu_waited")


def test_judge_self_of_lower_bounds_is_no_bound_and_the_counters_tell_it() -> None:
    low = made.figure(4, "ns", "lower_bound", "not waited for")
    missing = made.figure(None, "ns", "unavailable", "no cgroup")

    def both(clock: int | None) -> dict[str, Any]:
        seen = missing if clock is None else made.figure(clock)
        return {"cpu_tree": missing, "cpu_waited": low, "task_clock": seen}

    found = judge_self(records(*timed("w", 0, 100, 0, "whole", **both(90)), *timed("a", 10, 20, 0, **both(30))))
    assert found is not None
    assert (found.cpu.value, found.cpu.status) == (60, "derived")
    assert found.cpu.method.startswith("task_clock")
    found = judge_self(records(*timed("w", 0, 100, 0, "whole", **both(None)), *timed("a", 10, 20, 0, **both(None))))
    assert found is not None
    assert (found.cpu.value, found.cpu.status) == (None, "unavailable")


def test_judge_self_is_an_upper_bound_beside_an_incomplete_call() -> None:
    found = judge_self(records(*timed("w", 0, 100, 90, "whole"), made.started("a", "build", 10)))
    assert found is not None
    assert (found.wall.value, found.wall.status) == (100, "upper_bound")
    assert (found.cpu.value, found.cpu.status) == (90, "upper_bound")
    assert (found.meters_ns, found.meters_cpu_ns) == (None, None)


def test_judge_self_has_no_wall_when_calls_overlap() -> None:
    found = judge_self(records(*timed("w", 0, 100, 90, "whole"), *timed("a", 10, 20, 3), *timed("b", 29, 20, 3)))
    assert found is not None
    assert (found.wall.value, found.wall.status) == (None, "unavailable")
    assert found.cpu.value == 84


def test_judge_self_is_never_negative() -> None:
    found = judge_self(records(*timed("w", 0, 100, 10, "whole"), *timed("a", 10, 20, 30)))
    assert found is not None
    assert (found.cpu.value, found.cpu.status) == (None, "unavailable")


def test_judge_self_needs_a_finished_whole() -> None:
    assert judge_self(records(made.started("a"))) is None
    assert judge_self(records(whole())) is None
