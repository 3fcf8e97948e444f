"""`show -o`: what is drawn is what was recorded, and what is not there has its reason in the picture."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures import made, traced
from perfetto_file import BOOTTIME, MONOTONIC, REALTIME, below, parse
from wrapped import PROOFCOST, Wrapper

from proofcost import tracks
from proofcost.cli import main
from proofcost.harness.reading import read_store
from proofcost.reports import picture, rates
from proofcost.reports.course import Course, NoTimeError, course_of

Hostile = Callable[[str], Path]

S = 10**9
SLEPT = 7 * S
"""The host had been suspended for so long: CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC by it."""
SESSION = "5f0e8c7d6b5a4938"
LIMIT = 400_000_000
WITH = {"samples_count": 4, "size_bytes": 9, "reason": None}
WITHOUT = {"samples_count": None, "size_bytes": None, "reason": "the command ended before the first sample"}
HOSTILE = "\x1b[2J<script>$x^2$&\u202eabc"


def slept(event: made.Event) -> made.Event:
    event["clocks"]["boottime_ns"] += SLEPT
    return event


def times(wall: int, startup: int | None = None) -> made.Event:
    """Figures of a call that took so long, its sandbox's start-up in it."""
    parts = {"sandbox_startup": startup, "wall_program": None if startup is None else wall - startup}
    found = {
        name: made.figure(value, reason=None if value is not None else "no stamps") for name, value in parts.items()
    }
    return {"wall_command": made.figure(wall), "cpu_tree": made.figure(2 * S), **found}


def limited(to: int | None) -> made.Event:
    return {"cgroup_memory_bytes": {"value": to, "reason": None if to else "unlimited", "scope": "/x" if to else None}}


def sample(at_ms: int, cpu_ms: int | None, memory_mb: int | None) -> list[Any]:
    cpu = None if cpu_ms is None else cpu_ms * 10**6
    memory = None if memory_mb is None else memory_mb * 10**6
    return ["s", at_ms * 10**6, cpu, memory, memory, 0, 0, 5 * S]


def host_row(at_ms: int, busy_ms: int, pressure_ms: int) -> list[Any]:
    return ["h", at_ms * 10**6, busy_ms * 10**6, 0, pressure_ms * 10**6, 0, 0, None, None, 0, 0]


ROWS = [
    ["f", -10**9, 10, 1], ["x", -(10**9), 10, "landrun"], ["x", -S // 2, 10, "nanoda_bin"],
    sample(0, 500, 100), sample(1000, 1500, 300), sample(2000, 1750, 200),
    ["n", 0, 10, 1, 9900, "nanoda_bin"], ["p", 0, 1, [10, 4, 500 * 10**6, 90, 95, 0, 0]],
    ["f", S // 4, 11, 10], ["x", S // 4, 11, "helper"], ["e", S // 2, 11, 10],
    ["n", 2 * S, 12, 10, 10_100, "late"],
    ["p", 2 * S, 2, [10, 4, 1750 * 10**6, 80, 95, 4096, 0], [12, 2, 0, 10, 10, None, None]],
    host_row(0, 0, 0), host_row(1000, 1500, 250), host_row(2000, 3500, 250),
    ["e", 2500 * 10**6, 10, 1], ["z", 2500 * 10**6],
]  # fmt: skip


def four_calls(store: Path) -> Course:
    """A judge with a build too short to sample, a kernel with everything, and a call whose meter was killed."""
    folder = store / "sessions" / SESSION
    calls = [
        [
            slept(made.started("w", "whole", 98 * S, target={"name": "judge"}, sandbox={"kind": "none"})),
            slept(made.finished("w", 110 * S, measurements=times(11 * S), trace=WITHOUT)),
        ],
        [
            slept(made.started("b", "build", 98_500_000_000, subject={"module": "Solution"}, kernel=None)),
            slept(made.finished("b", 98_600_000_000, measurements=times(S // 20, S // 100), trace=WITHOUT)),
        ],
        [
            slept(made.started("inv-1", "checker", 99 * S - 5, limits=limited(LIMIT))),
            slept(made.finished("inv-1", traced.ORIGIN + 2500 * 10**6, measurements=times(3500 * 10**6, S // 2),
                                trace=WITH, stragglers={"count": 1, "action": "reported"})),
            slept(made.settled("inv-1", clocks=made.clocks(103 * S))),
        ],
        [slept(made.started("lost", "checker", 103 * S, kernel={"name": HOSTILE}))],
    ]  # fmt: skip
    for at, events in enumerate(calls):
        made.put(folder, *events, name=f"{at}.jsonl")
    traced.beside(store, ROWS, "2")
    records = read_store(store).records
    return course_of(records, records)


def test_calls_stand_where_their_stamps_put_them(tmp_path: Path) -> None:
    course = four_calls(tmp_path)
    assert course.whole is not None
    assert (course.whole.begin_ns, course.whole.end_ns, course.whole.name) == (99 * S, 110 * S, "whole judge")
    build, kernel, lost = course.calls
    assert (build.name, build.begin_ns, build.end_ns) == ("1 build Solution", 98_550_000_000, 98_600_000_000)
    assert (kernel.name, kernel.begin_ns, kernel.end_ns) == ("2 checker nanoda_bin", 99 * S, 102_500_000_000)
    assert [(part.name, part.begin_ns, part.end_ns) for part in kernel.parts] == [
        ("landrun starts up", 99 * S, 99_500_000_000),
        ("nanoda_bin", 99_500_000_000, 102_500_000_000),
    ]
    assert [(span.begin_ns, span.end_ns) for span in kernel.meter] == [
        (99 * S - 9_000_000, 99 * S),
        (102_500_000_000, 102_501_000_000),
    ]
    assert kernel.stragglers is not None
    assert (kernel.stragglers.name, kernel.stragglers.end_ns) == (
        "1 process outlived it: ended by then",
        103 * S,
    )
    assert (lost.begin_ns, lost.end_ns, lost.ended) == (103 * S, 103 * S, False)
    assert "its exit is not recorded" in lost.absent["end"]
    assert (course.boottime_offset_ns, course.realtime_offset_ns) == (SLEPT, made.BOOT)


def test_an_exit_of_before_there_were_timelines_is_put_right(tmp_path: Path) -> None:
    """`finished` had the clocks of when it was written then."""
    ended = made.finished("inv-1", 105 * S, measurements=times(S), meter_cost={"after_ns": 20_000_000})
    ended.pop("trace", None)
    made.put(tmp_path / "sessions" / SESSION, made.started(), ended)
    records = read_store(tmp_path).records
    [one] = course_of(records, records).calls
    assert (one.begin_ns, one.end_ns) == (104 * S - 20_000_000, 105 * S - 20_000_000)
    assert one.absent["timeline"] == "records of that time had none"


def test_cores_are_what_the_cpu_grew_by(tmp_path: Path) -> None:
    kernel = four_calls(tmp_path).calls[1]
    assert rates.cores(kernel) == [
        (99 * S, 0.5),  # from the exec to the first sample
        (100 * S, 1.0),
        (101 * S, 0.25),
        (102 * S, 0.5),  # to the exit, by the record's own total
    ]


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([(0, 0), (2 * S, S)], [(0, 0.5)]),
        ([(0, 5), (S, 3), (2 * S, S + 3)], [(S, 1.0)]),
        ([(0, 0), (1000, 10**9)], []),
        ([(0, None), (S, 7), (2 * S, None), (3 * S, 7 + S)], [(S, 0.5)]),
        ([(0, 1)], []),
    ],
)
def test_rates(totals: list[tuple[int, int | None]], expected: list[tuple[int, float]]) -> None:
    assert rates.rate(totals) == expected


# Perfetto.


def test_the_perfetto_file_of_a_session(tmp_path: Path) -> None:
    course = four_calls(tmp_path)
    found, clocks = parse(tracks.perfetto_trace(course))
    begin = course.begin_ns
    assert clocks == {MONOTONIC: begin, BOOTTIME: begin + SLEPT, REALTIME: begin + made.BOOT}
    calls = below(found, "calls").slices
    shift = SLEPT
    assert [(one.name, one.begin - shift, one.end - shift, one.depth) for one in calls] == [
        ("1 build Solution", 98_550_000_000, 98_600_000_000, 0),
        ("landrun starts up", 98_550_000_000, 98_560_000_000, 1),
        ("nanoda_bin", 98_560_000_000, 98_600_000_000, 1),
        ("2 checker nanoda_bin", 99 * S, 102_500_000_000, 0),
        ("landrun starts up", 99 * S, 99_500_000_000, 1),
        ("nanoda_bin", 99_500_000_000, 102_500_000_000, 1),
        (calls[-1].name, 103 * S, 103 * S, 0),
    ]
    assert calls[3].notes["outcome"] == "exit 0"
    assert calls[3].notes["wall_command (ns, measured)"] == 3_500_000_000
    [whole] = below(found, "whole").slices
    assert (whole.begin - shift, whole.end - shift) == (99 * S, 110 * S)
    assert [one.name for one in below(found, "stragglers").slices] == ["1 process outlived it: ended by then"]
    meters = [one for path, ones in found.items() if path[-1].startswith("our meters") for one in ones[0].slices]
    assert sorted(one.name for one in meters) == ["meter: after"] * 3 + ["meter: before"] * 3


def test_counters_are_the_samples(tmp_path: Path) -> None:
    found, _ = parse(tracks.perfetto_trace(four_calls(tmp_path)))
    call, at = "2 checker nanoda_bin", [100 * S + SLEPT, 101 * S + SLEPT, 102 * S + SLEPT, 102_500_000_000 + SLEPT]
    memory = below(found, call, "memory")
    assert memory.points == list(zip(at, (100_000_000, 300_000_000, 200_000_000, 0), strict=True))
    assert "0 marks the end" in memory.descriptor.description
    assert "memory.current" in memory.descriptor.description
    limit = below(found, call, "memory: limit")
    assert limit.points == [(99 * S + SLEPT, LIMIT), (at[3], LIMIT)]
    assert below(found, call, "CPU").points == [(99 * S + SLEPT, 0.5), *zip(at, (1.0, 0.25, 0.5, 0), strict=True)]
    assert below(found, call, "processes").points == [(at[0], 1), (at[2], 2), (at[3], 0)]
    assert below(found, call, "threads").points == [(at[0], 4), (at[2], 6), (at[3], 0)]
    end = 110 * S + SLEPT
    assert below(found, "host: CPUs busy").points == [(at[0], 1.5), (at[1], 2.0), (end, 0)]
    assert below(found, "host pressure: CPU, some wait").points == [(at[0], 25.0), (at[1], 0.0), (end, 0)]


def test_the_tree_of_processes_is_a_tree_of_tracks(tmp_path: Path) -> None:
    found, _ = parse(tracks.perfetto_trace(four_calls(tmp_path)))
    kernel = below(found, "process tree", "nanoda_bin 10")
    [life, first, second] = kernel.slices
    assert (life.name, life.begin - SLEPT, life.end - SLEPT) == ("nanoda_bin 10", 99 * S, 102_500_000_000)
    assert [(one.name, one.depth) for one in (first, second)] == [("landrun", 1), ("nanoda_bin", 1)]
    helper = below(found, "nanoda_bin 10", "helper 11")
    [life] = helper.slices
    assert (life.begin - SLEPT, life.end - SLEPT) == (100_250_000_000, 100_500_000_000)
    assert life.notes == {"pid": 11, "parent pid": 10, "start known by": "stamped by the kernel"}
    [late] = below(found, "nanoda_bin 10", "late 12").slices
    assert late.notes["absent: end"] == "not stamped: shown up to the last look at it"
    assert below(found, "nanoda_bin 10", "resident memory").points[:2] == [(100 * S + SLEPT, 90), (102 * S + SLEPT, 80)]


def test_what_is_missing_is_said_in_the_file(tmp_path: Path) -> None:
    course = four_calls(tmp_path)
    found, _ = parse(tracks.perfetto_trace(course))
    build = below(found, "session 5f0e8c7d6b5a4938: " + course.name, "1 build Solution")
    assert ("absent: timeline", {"reason": "the command ended before the first sample"}) in [
        (name, notes) for _, name, notes in build.instants
    ]
    assert ("session 5f0e8c7d6b5a4938: " + course.name, "1 build Solution", "memory") not in found
    kernel = below(found, "session 5f0e8c7d6b5a4938: " + course.name, "2 checker nanoda_bin")
    assert "absent: I/O of the tree" in [name for _, name, _ in kernel.instants]
    host = below(found, "host")
    assert [name for _, name, _ in host.instants] == [
        "absent: host pressure: I/O, some wait",
        "absent: host pressure: I/O, all wait",
    ]
    assert "absent: memory limit" in [name for _, name, _ in build.instants]


def test_calls_at_the_same_time_get_a_line_each(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / SESSION
    for at in range(3):
        name = f"inv-{at}"
        ended = made.finished(name, (101 + at) * S, measurements=times(2 * S), trace=WITHOUT)
        made.put(folder, made.started(name, "build", 99 * S + at, subject={"module": f"M{at}"}), ended)
    records = read_store(tmp_path).records
    found, _ = parse(tracks.perfetto_trace(course_of(records, records)))
    assert [one.name for one in below(found, "calls").slices] == ["1 build M0", "3 build M2"]
    assert [one.name for one in below(found, "calls, at the same time (2)").slices] == ["2 build M1"]


def test_a_call_without_clocks_is_left_out_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / SESSION
    made.put(folder, made.started("inv-1"), made.finished("inv-1"))
    made.put(folder, made.started("inv-2", clocks={"monotonic_ns": None}))
    records = read_store(tmp_path).records
    course = course_of(records, records)
    assert course.left_out == {course.left_out.copy().popitem()[0]: "its record lacks a clock"}
    found, _ = parse(tracks.perfetto_trace(course))
    assert sum("absent" in name for _, name, _ in found[next(iter(found))][0].instants) == 1
    with pytest.raises(NoTimeError, match="lacks a clock"):
        course_of(records, [record for record in records if record.invocation == "inv-2"])


# SVG.


def texts(svg: bytes) -> list[str]:
    return [(node.text or "").strip() for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_has_every_call_the_limit_and_what_is_missing(tmp_path: Path) -> None:
    said = texts(picture.picture(four_calls(tmp_path)))
    for text in ("whole judge", "1 build Solution", "2 checker nanoda_bin", "50.0 ms", "3.50 s", "limit 400 MB"):
        assert text in said, (text, said)
    assert any(text.startswith("end not known") for text in said)
    assert "missing: timeline: the command ended before the first sample (whole judge, 1 build Solution)" in said


def test_a_limit_far_above_is_named(tmp_path: Path) -> None:
    course = four_calls(tmp_path)
    course.calls[1].limit_bytes = 64 * S
    assert "limit 64.0 GB: above the picture" in texts(picture.picture(course))


def test_the_same_records_are_the_same_bytes_whoever_draws_them(tmp_path: Path) -> None:
    four_calls(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/matplotlibrc").write_text("axes.facecolor: red\nsvg.fonttype: path\n")
    drawn = []
    environments: tuple[dict[str, str], ...] = (
        {},
        {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path / "home"), "TZ": "Asia/Tokyo"},
    )
    for at, extra in enumerate(environments):
        for suffix in (".svg", ".perfetto-trace"):
            file = tmp_path / f"{at}{suffix}"
            command = [PROOFCOST, "show", SESSION, "--store", str(tmp_path), "-o", str(file)]
            subprocess.run(command, check=True, env={**os.environ, **extra}, capture_output=True)
            drawn.append(file.read_bytes())
    assert drawn[0] == drawn[2]
    assert drawn[1] == drawn[3]
    assert b"<dc:date>" not in drawn[0]


def test_hostile_names_are_harmless_in_both(tmp_path: Path) -> None:
    course = four_calls(tmp_path)
    svg = picture.picture(course)
    assert b"<script>" not in svg
    assert b"\x1b" not in svg
    assert "\u202e".encode() not in svg
    assert any("$x^2$" in text for text in texts(svg)), "no formula is made of a name"
    parse(tracks.perfetto_trace(course))


def test_more_calls_than_a_picture_holds_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_ROWS", 2)
    assert "not in the picture: 2 more calls" in texts(picture.picture(four_calls(tmp_path)))


# The command.


def show(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["show", *map(str, words)])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_one_call_and_a_session_can_be_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four_calls(tmp_path)
    assert show(capsys, "last", "--store", tmp_path, "-o", tmp_path / "all.svg") == (0, "", "")
    assert show(capsys, "last.2", "--store", tmp_path, "-o", tmp_path / "one.svg") == (0, "", "")
    assert "1 build Solution" in texts((tmp_path / "all.svg").read_bytes())
    one = texts((tmp_path / "one.svg").read_bytes())
    assert "2 checker nanoda_bin" in one
    assert "1 build Solution" not in one
    assert show(capsys, "inv-1", "--store", tmp_path, "-o", tmp_path / "one.perfetto-trace") == (0, "", "")
    found, _ = parse((tmp_path / "one.perfetto-trace").read_bytes())
    assert [one.name for one in below(found, "calls").slices if one.depth == 0] == ["2 checker nanoda_bin"]


def test_a_session_without_a_timeline_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four_calls(tmp_path)
    code, out, err = show(capsys, "last.1", "--store", tmp_path, "-o", tmp_path / "x.svg")
    assert (code, out) == (0, "")
    assert err == f"{tmp_path}/x.svg: no timeline in it: the command ended before the first sample\n"


def test_without_any_record_there_is_no_file_and_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sessions").mkdir()
    code, _, err = show(capsys, "last", "--store", tmp_path, "-o", tmp_path / "x.svg")
    assert code == 1
    assert "no records" in err
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("name", ["x", "x.png", "x.svg.gz", ".", ""])
def test_a_kind_of_file_that_we_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = show(capsys, "last", "--store", tmp_path, "-o", f"{tmp_path}/{name}")
    assert (code, out) == (2, "")
    assert "name it FILE.svg or FILE.perfetto-trace" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", [["--json"], ["--all"], ["--seal-key", "key"]])
def test_a_file_goes_with_no_other_output(tmp_path: Path, capsys: pytest.CaptureFixture[str], other: list[str]) -> None:
    code, _, err = show(capsys, "last", "--store", tmp_path, *other, "-o", "x.svg")
    assert code == 2
    assert "goes with neither --json, --all nor --seal-key" in err


def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four_calls(tmp_path)
    for where, why in ((tmp_path / "none/x.svg", "No such file"), (tmp_path / "x.svg", "directory")):
        (tmp_path / "x.svg").mkdir(exist_ok=True)
        code, out, err = show(capsys, "last", "--store", tmp_path, "-o", where)
        assert (code, out) == (1, "")
        assert f"show -o {where}: cannot be written: " in err
        assert why in err
    assert not list(tmp_path.glob("*.new"))


def test_a_file_that_is_there_is_replaced_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four_calls(tmp_path)
    (tmp_path / "x.svg").write_text("old")
    assert show(capsys, "last", "--store", tmp_path, "-o", tmp_path / "x.svg")[0] == 0
    assert b"</svg>" in (tmp_path / "x.svg").read_bytes()


@pytest.mark.parametrize(
    ("suffix", "package", "extra"), [(".svg", "matplotlib", "reports"), (".perfetto-trace", "perfetto", "bench")]
)
def test_a_missing_package_names_its_extra(tmp_path: Path, suffix: str, package: str, extra: str) -> None:
    four_calls(tmp_path)
    hide = (
        "import importlib.util as u, sys\n"
        "real = u.find_spec\n"
        f"u.find_spec = lambda name, *more: None if name == {package!r} else real(name, *more)\n"
        "from proofcost.cli import main\n"
        f"sys.exit(main(['show', '--store', {str(tmp_path)!r}, '-o', {str(tmp_path / ('x' + suffix))!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install '.[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_show_without_a_file_imports_nothing_of_it(tmp_path: Path) -> None:
    four_calls(tmp_path)
    code = (
        "import sys\nfrom proofcost.cli import main\n"
        f"main(['show', '--store', {str(tmp_path)!r}])\n"
        "print([name for name in sys.modules if name.partition('.')[0] in "
        "('matplotlib', 'numpy', 'perfetto', 'google') or name in ('proofcost.tracks', 'proofcost.reports.picture')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# A real one.


def test_a_real_session_as_both(wrap: Wrapper, hostile: Hostile, capsys: pytest.CaptureFixture[str]) -> None:
    inner = f"{wrap.launcher()} --phase checker -- {hostile('memory')} alone 120 700; sleep 0.3"
    done = wrap.run("--memory", "900M", "--shims", "none", "--", "/bin/sh", "-c", inner)
    assert done.status == 0, done
    call = next(one for one in wrap.records() if one.started["phase"]["understood"] == "checker")
    file = wrap.folder / "x.perfetto-trace"
    assert show(capsys, "last", "--store", wrap.store, "-o", file)[0] == 0
    found, clocks = parse(file.read_bytes())
    if call.started["session"] != next(iter(wrap.records())).started["session"]:
        pytest.skip("the call is not of the session of its run")
    assert call.finished is not None
    exit_ns = call.finished["clocks"]["monotonic_ns"] + clocks[BOOTTIME] - clocks[MONOTONIC]
    checker = next(one for one in below(found, "calls").slices if one.depth == 0)
    assert (checker.begin, checker.end) == (exit_ns - call.value("wall_command"), exit_ns)
    name = checker.name
    memory = below(found, name, "memory").points
    assert 120 << 20 <= max(value for _, value in memory) <= call.value("memory_peak_tree")
    assert all(checker.begin <= at <= checker.end for at, _ in memory)
    [whole] = below(found, "whole").slices
    assert whole.begin <= checker.begin
    assert checker.end <= whole.end
    limit = next(ones[0] for path, ones in found.items() if path[-1] == "memory: limit")
    assert {value for _, value in limit.points} == {900_000_000 // 4096 * 4096}, "the kernel's, in whole pages"
    assert any(path[-2:-1] == ("process tree",) for path in found)
    assert show(capsys, "last", "--store", wrap.store, "-o", wrap.folder / "x.svg")[0] == 0
    assert name in texts((wrap.folder / "x.svg").read_bytes())
