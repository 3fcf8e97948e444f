"""`show` and `log`, as people call them: what they find, say, and leave with."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures import made
from rich.console import Console
from showing import (  # noqa: F401  # `elsewhere` is a fixture of every test here
    HOSTILE,
    SESSION,
    S,
    command,
    elsewhere,
    store_of,
    table_of,
)

from proofcost import log, show
from proofcost.harness import procfs
from proofcost.harness.reading import read_store
from proofcost.harness.store import default_place
from proofcost.reports.printing import Row
from proofcost.reports.printing import table_of as table_in


def test_show_prints_the_last_session(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store_of(tmp_path, made.started("a", "checker", 1, session="one"), made.started("b", "checker", 2, session="two"))
    for words in ([], ["last"]):
        assert command("show", *words, "--store", str(tmp_path)) == 0
        assert capsys.readouterr().out.startswith("session two ")


def test_show_takes_a_prefix_of_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "5f", "--store", str(made.SESSION_V1)) == 0
    assert capsys.readouterr().out.startswith(f"session {SESSION}")


def test_show_of_one_call_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "18eceb55c", "--all", "--store", str(made.SESSION_V1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("invocation 18eceb55c3942a00-4130-0a1b2c3d\n")
    assert "2991000000 ns (2.99 s), measured; by test; settled" in out
    assert "8192000 bytes (8.19 MB), upper_bound: others may write to the same filesystem" in out
    assert "unavailable: counter_not_supported; by perf task event" in out
    assert re.search(r"evidence\[0\] +wait status 0", out)
    assert re.search(r"limits\.cgroup_memory_bytes\.reason +unlimited", out)
    assert re.search(r"host\.boot_id +1f835752-23b0-4215-9d51-2e7cbbbb1397", out)
    one = next(one for one in read_store(made.SESSION_V1).records if one.invocation.startswith("18eceb55c"))
    shown = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    for event in (one.started, one.finished or {}, one.settled or {}):
        for key in set(event) - {"schema", "event", "invocation", "measurements"}:
            assert any(name.split(".")[0].split("[")[0] in (key, "kind") for name in shown), key


def test_show_all_has_table_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "--all", "--store", str(made.SESSION_V1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("session ")
    assert out.count("\ninvocation ") == 8


def test_json_is_exact_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", SESSION, "--json", "--store", str(made.SESSION_V1)) == 0
    shown = json.loads(capsys.readouterr().out)
    store = read_store(made.SESSION_V1)
    assert [one["started"] for one in shown["records"]] == [one.started for one in store.records]
    assert [one["finished"] for one in shown["records"]] == [one.finished for one in store.records]
    assert shown["records"][3]["measurements"]["cpu_tree"]["value"] == 2_991_000_000
    assert shown["records"][5]["derived"]["kernel"] == "nanoda"
    assert shown["problems"] == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("18", "8 ids begin so; give more of one: 18eceb54998e3800-4100-0a1b2c3d"),
        ("zz", "no session or call has an id that begins so"),
        ("\x1b[2J", "show \\x1b[2J: no session"),
    ],
)
def test_a_wrong_id_is_one_line_and_2(capsys: pytest.CaptureFixture[str], wanted: str, said: str) -> None:
    assert command("show", wanted, "--store", str(made.SESSION_V1)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


@pytest.mark.parametrize("words", [["show"], ["log"]])
def test_a_named_store_that_is_not_there_is_2(
    capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path
) -> None:
    assert command(*words, "--store", str(tmp_path / "no")) == 2
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["show"], ["show", "last"], ["log"]])
def test_nothing_here_says_where_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setenv("PROOFCOST_STORE", str(tmp_path / "none"))
    assert command(*words) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    for said in (str(tmp_path / "none"), "$PROOFCOST_STORE", "you may not read it", "without the hook", "tmpfs"):
        assert said in captured.err


def test_under_sudo_the_own_store_is_pointed_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PROOFCOST_STORE", raising=False)
    monkeypatch.setenv("SUDO_USER", "someone")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(show, "default_place", lambda env, uid: str(tmp_path))
    assert command("show") == 0
    assert "sudo does not hand $PROOFCOST_STORE on" in capsys.readouterr().err


def test_an_id_in_an_empty_store_is_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command("show", "abc", "--store", str(tmp_path)) == 2
    assert "there are no records in" in capsys.readouterr().err


def test_json_of_nothing_is_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command("show", "--json", "--store", str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["records"] == []
    assert command("log", "--json", str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == []


def test_problems_are_warnings_on_stderr_and_summed_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store_of(tmp_path, made.started())
    (tmp_path / "sessions" / SESSION / "bad\x1b.jsonl").write_bytes(made.lines(made.started("b")) + b"x\n" * 50)
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / f"{made.BOOT + 100 * S}-2.json").write_text("{}")
    assert command("show", "--store", str(tmp_path)) == 0
    captured = capsys.readouterr()
    assert "warning" not in captured.out
    assert captured.err.count("bad\\x1b.jsonl:") == 5 + 1
    assert "15 more of this kind (not json)" in captured.err
    assert "30 more lines that are no records" in captured.err
    assert "1 call ran unmeasured or measured in part" in captured.err
    assert "\x1b" not in captured.err


def unfinished(invocation: str, pid: int, **changes: Any) -> made.Event:
    """`started` of a meter that was process `pid` of this machine."""
    process = {"meter_pid": pid, "meter_start_ticks": procfs.start_ticks(pid), "pid_namespace": "this namespace"}
    base = {"host": {"boot_id": "this boot"}, "process": process}
    return made.started(invocation, "build", **made.merged(base, changes))


def test_a_call_that_still_runs_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = [
        unfinished("a", os.getpid()),
        unfinished("b", os.getpid(), process={"meter_start_ticks": 1}),
        made.started("c", "build"),
    ]
    text = table_of(tmp_path, *events)
    outcomes = [re.split(r"\s{2,}", line)[-1] for line in text.splitlines() if " build " in line]
    assert outcomes == ["running", "incomplete (meter vanished) [1]", "incomplete [2]"]
    assert command("log", str(tmp_path)) == 0
    assert "build 3 (1 running, 2 incomplete)" in capsys.readouterr().out
    assert command("show", "b", "--store", str(tmp_path)) == 0
    assert re.search(r"ended +incomplete \(meter vanished\)", capsys.readouterr().out)
    assert command("show", "--json", "--store", str(tmp_path)) == 0
    assert [one["meter"] for one in json.loads(capsys.readouterr().out)["records"]] == ["running", "vanished", None]


def leave_marks(folder: Path, *fields: object) -> None:
    (folder / "marks").mkdir(parents=True, exist_ok=True)
    for at, one in enumerate(fields):
        (folder / "marks" / f"{made.BOOT + at * 60 * S}-7.json").write_text(json.dumps(one))


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ([{"fault": "no room"}], "1 call ran unmeasured or measured in part, at 2026-11-30 20:03:20 +0000: no room ("),
        (
            [{"fault": "x", "policy": "run"}, {"fault": "y", "policy": "run"}],
            "2 calls ran unmeasured or measured in part, since 2026-11-30 20:03:20 +0000, "
            "the last at 2026-11-30 20:04:20 +0000: y (",
        ),
        (
            [{"fault": "x"}, {"fault": "y", "policy": "strict"}],
            "2 calls ran unmeasured or measured in part, or refused, ",
        ),
        ([{"fault": "y", "policy": "strict"}], "1 call was refused, nothing of them ran, at "),
        ([{"fault": {"step": "finish", "what": "OSError: full"}}], "finish: OSError: full ("),
        ([{"fault": HOSTILE}], "\\x1b[2J\\x1b]0;owned"),
        ([{"fault": 7}], "its mark cannot be read ("),
        (["torn"], "its mark cannot be read ("),
    ],
)
def test_marks_are_one_line_in_log_and_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, marks: list[object], said: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    store_of(tmp_path, made.started("a", "build", 0, session="one"))
    leave_marks(tmp_path, *marks)
    for words in (
        ["log", str(tmp_path)],
        ["show", "--store", str(tmp_path)],
        ["show", "one", "--store", str(tmp_path)],
    ):
        assert command(*words) == 0
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert said in err
        assert f"(marks: {tmp_path / 'marks'}; marks/ may be deleted)" in err
        assert err.rstrip("\n").isprintable()


def test_marks_alone_are_pointed_at(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    leave_marks(tmp_path, {"fault": "no room"})
    assert command("show", "--store", str(tmp_path)) == 0
    assert "- calls were made, but the meter failed each time" in capsys.readouterr().err


def by_meter(folder: Path, number: int) -> tuple[str, str]:
    """A session of one call, as meters leave it: ids of both."""
    call = f"{made.BOOT + number:x}-{100 + number}-{number:08x}"
    session = f"5e{number:04x}"
    made.put(folder / "sessions" / session, made.started(call, "build", number, session=session))
    return session, call


def test_an_id_is_looked_for_in_the_names_of_a_large_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ids = [by_meter(tmp_path, number) for number in range(40)]
    for wanted in (*ids[7], ids[7][1][:-7]):
        assert command("show", wanted, "--store", str(tmp_path)) == 0
        assert capsys.readouterr().out.split()[1] == (ids[7][1] if "-" in wanted else ids[7][0])
    assert command("show", "5e", "--store", str(tmp_path)) == 2
    assert "show 5e: 40 ids begin so; give more of one: 5e0027, 5e0026," in capsys.readouterr().err
    assert command("show", "5e000", "--store", str(tmp_path)) == 2
    assert "show 5e000: 16 ids begin so" in capsys.readouterr().err
    assert command("show", "x", "--store", str(tmp_path)) == 2
    assert "no session or call has an id that begins so" in capsys.readouterr().err
    assert command("log", str(tmp_path), "-n", "3") == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[2:]] == ["5e0027", "5e0026", "5e0025"]
    assert "37 older sessions not shown: -n 40 shows all" in captured.err


@pytest.mark.parametrize(
    ("env", "uid", "expected"),
    [
        ({"PROOFCOST_STORE": "/s"}, 0, "/s"),
        ({"PROOFCOST_STORE": ""}, 0, "/var/lib/proofcost"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, 0, "/var/lib/proofcost"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, 7, "/x/proofcost"),
        ({"HOME": "/h"}, 7, "/h/.local/state/proofcost"),
    ],
)
def test_one_reads_where_run_writes(env: dict[str, str], uid: int, expected: str) -> None:
    path, how = show.choose_store(None, env, uid)
    assert path == expected == default_place(env, uid)
    assert "PROOFCOST_STORE" in how


def test_log_lists_the_newest_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for at in range(5):
        store_of(tmp_path / str(at), made.started(f"i{at}", "checker", at * S, session=f"s{at}"))
    assert command("log", str(tmp_path), "-n", "2") == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[2:]] == ["s4", "s3"]
    assert "3 older sessions not shown" in captured.err


def test_log_shows_judge_calls_outcome_and_wall(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("log", "--store", str(made.SESSION_V1)) == 0
    found = re.split(r"\s{2,}", capsys.readouterr().out.splitlines()[2])
    calls = "challenge-build 1, challenge-export 1, build 1, export 1, checker 2, unknown 1 (1 incomplete)"
    assert found[0] == SESSION
    assert found[2:] == [
        "lake env comparator config.json",
        "kernel-set=both who=kept fixture",
        calls,
        "20.0 s",
        "exit 1",
    ]


def test_log_json_counts_and_keeps_integers(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("log", "--json", str(made.SESSION_V1)) == 0
    (one,) = json.loads(capsys.readouterr().out)["sessions"]
    assert one["calls"]["challenge-build"] == 1
    assert one["calls"]["checker"] == 2
    assert one["whole_wall_ns"] == 20 * S
    assert one["incomplete"] == ["18eceb5923d89b00-4170-0a1b2c3d"]


def test_a_session_without_run_has_no_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("log", str(made.EXAMPLE)) == 0
    found = re.split(r"\s{2,}", capsys.readouterr().out.splitlines()[2])
    assert found[2:] == ["comparator", "checker 1", "~1.30 s", "exit 0"]


SEGV = {"kind": "signaled", "code": None, "signal": 11, "cause": "crashed"}


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([{}, {"code": 1}, SEGV], "1 of 3 calls: SIGSEGV, crashed"),
        ([{}, {"code": 1}, {}, {"code": 1}], "2 of 4 calls: exit 1"),
        ([{}, {}, {}, {}], "all 4 exit 0"),
        ([{}, {}, None], "2 of 3 calls: exit 0"),
        ([{"code": 3}], "exit 3"),
        ([None], "\u2013"),
        ([{"kind": "exited", "code": None}, {"kind": ["x"]}], "1 of 2 calls: ['x']"),
    ],
)
def test_log_tells_the_worst_call_of_a_session_without_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ends: list[dict[str, Any] | None], said: str
) -> None:
    for at, end in enumerate(ends):
        events = [made.started(f"i{at}", "build", at * S)]
        if end is not None:
            events.append(made.finished(f"i{at}", (at + 1) * S, outcome=end))
        made.put(tmp_path / "sessions" / SESSION, *events)
    assert command("log", str(tmp_path)) == 0
    captured = capsys.readouterr().out
    ended = [at for at, end in enumerate(ends) if end is not None]
    span = f"~{ended[-1] + 1}.00 s" if ended else "\u2013"
    assert re.split(r"\s{2,}", captured.splitlines()[2])[-2:] == [span, said]
    assert ("~: from the first call's start" in captured) == bool(ended)
    assert command("log", "--json", str(tmp_path)) == 0
    (one,) = json.loads(capsys.readouterr().out)["sessions"]
    assert one["calls_outcome"] == (said if ended else None)
    assert one["calls_span_ns"] == ((ended[-1] + 1) * S if ended else None)


def test_only_marks_of_a_sessions_time_are_told_with_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made.put(tmp_path / "sessions" / "old", made.started("a", "build", 600 * S, session="old"))
    with (tmp_path / "sessions" / "old" / "a.jsonl").open("ab") as file:
        file.write(made.lines(made.finished("a", 610 * S, session="old")))
    made.put(tmp_path / "sessions" / "new", made.started("b", "build", 900 * S, session="new"))
    (tmp_path / "marks").mkdir()
    for words, at, told in (
        (["show", "old"], 539, False),
        (["show", "old"], 541, True),
        (["show", "a"], 669, True),
        (["show", "old"], 671, False),
        (["show", "new"], 839, False),
        (["show"], 10**6, True),
        (["log", "-n", "1"], 899, False),
        (["log", "-n", "1"], 900, True),
        (["log"], 599, False),
        (["log"], 601, True),
    ):
        mark = tmp_path / "marks" / f"{made.BOOT + at * S}-7.json"
        mark.write_text('{"fault":"no room"}')
        assert command(*words, "--store", str(tmp_path)) == 0
        assert ("no room" in capsys.readouterr().err) == told, (words, at)
        assert command(*words, "--json", "--store", str(tmp_path)) == 0
        assert bool(json.loads(capsys.readouterr().out)["marks"]) == told
        mark.unlink()


def test_a_mark_too_old_to_be_read_is_not_called_unreadable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    by_meter(tmp_path, 0)
    by_meter(tmp_path, 10**12)
    leave_marks(tmp_path, "old", *[{"fault": "x", "policy": "strict"}] * 100)
    session = tmp_path / "sessions" / "5e0000"
    with next(session.iterdir()).open("ab") as file:
        call = next(session.iterdir()).stem
        file.write(made.lines(made.finished(call, 1, session="5e0000")))
    for path in sorted((tmp_path / "marks").iterdir())[1:]:
        path.rename(path.with_name(f"{int(path.name.split('-')[0]) + 10**15}-7.json"))
    assert command("show", "5e0000", "--store", str(tmp_path)) == 0
    err = capsys.readouterr().err
    assert "1 call ran unmeasured or measured in part, at " in err
    assert ": its mark says why (" in err


@pytest.mark.parametrize("wanted", ["last.6", "5f.6", f"{SESSION}.6"])
def test_a_call_is_named_by_its_number(capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    assert command("show", wanted, "--store", str(made.SESSION_V1)) == 0
    out = capsys.readouterr().out
    assert out.startswith("invocation ")
    assert re.search(r"kernel +soko ", out)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("last.0", "show last.0: the session has 7 calls; give .1 to .7"),
        ("5f.8", "show 5f.8: the session has 7 calls; give .1 to .7"),
        ("18eceb55c.1", "that is one call; only calls of a session have numbers"),
        ("zz.1", "no session or call has an id that begins so"),
        ("last.1234567", "no session or call has an id that begins so"),
    ],
)
def test_a_wrong_number_is_one_line_and_2(capsys: pytest.CaptureFixture[str], wanted: str, said: str) -> None:
    assert command("show", wanted, "--store", str(made.SESSION_V1)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_an_id_with_a_point_in_it_is_an_id(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store_of(tmp_path, made.started("a", session="s"), made.started("b", session="s.1"))
    assert command("show", "s.1", "--store", str(tmp_path)) == 0
    assert capsys.readouterr().out.startswith("session s.1 ")


@pytest.mark.parametrize("words", [["show"], ["show", "abc"], ["show", "--json"], ["log"], ["log", "--json"]])
@pytest.mark.parametrize("what", ["folder", "file", "foreign"])
def test_what_is_there_and_cannot_be_read_is_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], what: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "named"
        path.mkdir() if what == "folder" else path.write_text("root:x:0:0\n")
        path.chmod(0o644 if what == "foreign" else 0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            assert command(*words, "--store", str(path)) == 1
        finally:
            if root:
                os.seteuid(0)
    err = capsys.readouterr().err
    assert f"no records could be read in {path}" in err
    assert "launchers were installed by root but the judge runs as another user" in err


@pytest.mark.parametrize(("name", "status"), [("empty.jsonl", 0), ("notes.txt", 1)])
def test_an_empty_file_is_a_store_by_its_name_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, status: int
) -> None:
    (tmp_path / name).touch()
    for words in (["show"], ["log"]):
        assert command(*words, "--store", str(tmp_path / name)) == status
        assert capsys.readouterr().err.count("nothing here") == (status == 0)


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["show", "--all"], ["log"], ["log", "--json"]])
def test_an_output_that_cannot_be_written_is_one_line_and_1(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "proofcost", *words, "--store", str(made.SESSION_V1)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.stderr == "proofcost: stdout: the output cannot be written: No space left on device\n"
    assert found.returncode == 1


def test_a_session_id_is_never_folded(capsys: pytest.CaptureFixture[str]) -> None:
    raw = io.StringIO()
    cells = [
        SESSION,
        "2026-11-30 20:05:00",
        "lake env comparator",
        "ticket=42",
        "build 1, export 1",
        "20.0 s",
        "exit 1",
    ]
    rows = [Row(cells)]
    least = {at: log.LEAST[name] for at, name in enumerate(log.COLUMNS) if name in log.LEAST}
    for width in (80, 60, 50, 30):
        console = Console(file=raw, force_terminal=True, width=width, color_system=None)
        console.print(table_in(console, log.COLUMNS, rows, right=(5,), least=least, unbroken=(0,)))
    assert raw.getvalue().count(SESSION) == 4


@pytest.mark.parametrize("words", [["log", "a", "--store", "b"], ["log", "-n", "0"], ["log", "-n", "x"]])
def test_wrong_log_options_are_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        raise SystemExit(command(*words))
    assert capsys.readouterr().err


def test_a_time_no_calendar_has_is_shown_as_it_is(tmp_path: Path) -> None:
    event = made.started(clocks={"realtime_ns": (1 << 63) - 1})
    assert "session" in table_of(tmp_path / "1", event)
    event = made.started(clocks={"realtime_ns": -(1 << 63)})
    assert "session" in table_of(tmp_path / "2", event)


def test_a_closed_pipe_is_no_complaint() -> None:
    words = [sys.executable, "-m", "proofcost", "show", "--all", "--json", "--store", str(made.SESSION_V1)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.read(10)
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    assert (child.wait(), err) == (0, b"")
