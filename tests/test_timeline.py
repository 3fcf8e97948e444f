"""Timelines read back: what was written is what is read, and what is wrong is skipped and told."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from fixtures import traced
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import timeline
from proofcost.harness.process_tree import BY_KERNEL, BY_LOOK, BY_TICKS, Process, processes
from proofcost.harness.timeline import Sample, Stamp, TimelineError, path_beside, read_timeline
from proofcost.harness.trace import Trace

S = 10**9
O = traced.ORIGIN  # noqa: E741  # every expected time is written from it


def read(folder: Path, *rows: Any, **changes: Any) -> timeline.Timeline:
    return read_timeline(str(traced.file(folder, rows, **changes)))


def test_every_kind_of_row_is_read_at_its_time(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        ["s", 100, 5, 4096, 1, 2, 3, None],
        ["n", 100, 7, 1, 12, "lean"],
        ["p", 100, 2, [7, 3, 50, 4096, 8192, None, 6]],
        ["i", 100, 11, 12],
        ["h", 100, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        ["x", -50, 7, "lean"],
        ["f", -60, 7, 1],
        ["e", 900, 7, 1],
        ["g", 950, "full"],
        ["z", 1000],
    )
    assert found.samples == [Sample(O + 100, 5, 4096, 1, 2, 3, None)]
    [look] = found.looks
    assert (look.at_ns, look.processes_count) == (O + 100, 2)
    [kept] = look.kept
    assert (kept.pid, kept.threads_count, kept.cpu_ns, kept.resident_bytes, kept.peak_bytes) == (7, 3, 50, 4096, 8192)
    assert (kept.read_bytes, kept.write_bytes) == (None, 6)
    assert [(one.pid, one.parent_pid, one.start_ticks, one.name) for one in found.named] == [(7, 1, 12, "lean")]
    assert found.stamps == [
        Stamp(O - 50, "x", 7, "lean", None),
        Stamp(O - 60, "f", 7, None, 1),
        Stamp(O + 900, "e", 7, None, 1),
    ]
    assert found.io[0].values == {"read_bytes": 11, "write_bytes": 12}
    assert found.host[0].values["psi_io_full"] == 7
    assert found.gaps == [(O + 950, "full")]
    assert found.ended_ns == O + 1000
    assert found.problems == {}
    assert found.methods == traced.METHODS


def test_what_the_meter_writes_is_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    path = tmp_path / "store/traces/s/i.ndjson.gz"
    one = Trace(str(path), O, None, {"cpu_ns": "c", "memory_bytes": "m"})
    for at in range(1, 50):
        one.fast(O + at * S // 10, at, at * 1000, (at, 0, 0), 5)
        if at % 7 == 0:
            one.flush(O + at * S // 10)
        if at % 10 == 1:
            one.processes(O + at * S // 10, [(os.getpid(), b"\nVmRSS: 5 kB\n")])
    one.finish(O + 5 * S, None)
    found = read_timeline(str(path))
    assert [sample.cpu_ns for sample in found.samples] == list(range(1, 50))
    assert [sample.at_ns for sample in found.samples] == [O + at * S // 10 for at in range(1, 50)]
    assert [look.kept[0].resident_bytes for look in found.looks] == [5120] * 5
    assert len(found.host) == 5
    assert (found.ended_ns, found.problems, found.invocation) == (O + 5 * S, {}, "i")


def test_columns_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    columns = {"s": ["at_ns", "new", "memory_bytes", "cpu_ns"], "q": ["at_ns"]}
    found = read(tmp_path, ["s", 1, "text", 4096, 7], ["q", 2, {"any": 1}], columns=columns)
    assert found.samples == [Sample(O + 1, 7, 4096, None, None, None, None)]
    assert found.problems == {}


@pytest.mark.parametrize(
    "row",
    [
        5, None, {}, [], ["s"], ["s", None, 1], ["s", "1"], ["s", True, 1], ["s", 1 << 63], [5, 5], ["p", 5],
        ["p", 5, "x"], ["p", 5, 1, [None]], ["p", 5, 1, 7], ["n", 5, 1, 2, 3], ["n", 5, 1, 2, 3, 4], ["x", 5, 7, 8],
        ["x", 5, 7], ["f", 5, "7", 1], ["f", 5, 7, "lean"], ["g", 5, 5], b"", b"{", b"[1.5]", b'["s",1.5]', b"\xff",
        b"[" * 5000, b"NaN",
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_costs_itself_alone(tmp_path: Path, row: Any) -> None:
    found = read(tmp_path, ["s", 1, 1, 1, 1, 1, 1, 1], row, ["s", 9, 2, 2, 2, 2, 2, 2], ["z", 10])
    assert [sample.cpu_ns for sample in found.samples] == [1, 2]
    assert found.ended_ns == O + 10
    assert found.problems == {"a row that cannot be read": 1}


def test_a_time_that_goes_back_is_no_sample(tmp_path: Path) -> None:
    found = read(tmp_path, ["s", 5, 1], ["s", 4, 2], ["s", 5, 3])
    assert [sample.cpu_ns for sample in found.samples] == [1, 3]
    assert found.problems == {"a row that cannot be read": 1}


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_a_torn_member_loses_itself_alone(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress(traced.text([["s", 1, 1, 1, 1, 1, 1, 1]]))
    other = gzip.compress(b"".join(b'["s",%d,2,2,2,2,2,2]\n' % at for at in range(2, 200)))
    path = tmp_path / "torn"
    path.write_bytes(whole + other[:-cut])
    found = read_timeline(str(path))
    assert found.samples[0].cpu_ns == 1
    assert found.problems == {"torn: the last rows are lost": 1}
    assert found.ended_ns is None


def test_damage_ends_it_and_is_told(tmp_path: Path) -> None:
    whole = gzip.compress(traced.text([["s", 1, 1, 1, 1, 1, 1, 1]]))
    path = tmp_path / "damaged"
    path.write_bytes(whole + b"these are no gzip bytes" * 9)
    found = read_timeline(str(path))
    assert len(found.samples) == 1
    assert found.problems == {"damaged: what comes after is lost": 1}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"text", "damaged"),
        (gzip.compress(b"[1]\n"), "not a timeline"),
        (gzip.compress(b'{"event":"started"}\n'), "not a timeline"),
        (gzip.compress(b"no json\n"), "not a timeline"),
        (gzip.compress(traced.text([], schema=2)), "of schema 2, newer than this reader's 1"),
        (gzip.compress(traced.text([], schema=None)), "of schema None"),
        (gzip.compress(traced.text([], ticks_per_second=0)), "lacks"),
        (gzip.compress(traced.text([], ticks_per_second=-5)), "lacks"),
        (gzip.compress(traced.text([], origin_monotonic_ns="x")), "lacks"),
        (gzip.compress(traced.text([], columns=[])), "lacks"),
        (gzip.compress(traced.text([], session=7)), "names no session"),
    ],
)
def test_what_is_no_timeline_says_so_in_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(TimelineError, match=why) as caught:
        read_timeline(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(traced.file(tmp_path, []))
    for name, why in (("fifo", "not a regular file"), ("link", "symbolic links"), ("none", "No such file"), ("", ":")):
        with pytest.raises(TimelineError, match=why):
            read_timeline(str(tmp_path / name))


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_TEXT_BYTES", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(traced.text([])) + gzip.compress(b'["q",1]\n' * (1 << 20)))
    assert list(read_timeline(str(path)).problems) == [f"more than {1 << 20} bytes of text"]
    path.write_bytes(gzip.compress(traced.text([])) + gzip.compress(b"x" * (2 << 20)))
    assert len(read_timeline(str(path)).problems) == 1
    monkeypatch.setattr(timeline, "MAX_FILE_BYTES", 100)
    with pytest.raises(TimelineError, match="larger than 100 bytes"):
        read_timeline(str(path))
    monkeypatch.undo()
    monkeypatch.setattr(timeline, "MAX_ROWS", 3)
    assert read(tmp_path, *[["s", at, at] for at in range(9)]).problems == {"more than 3 rows": 1}


@given(st.binary(max_size=400))
def test_any_bytes_are_a_timeline_or_a_reason(raw: bytes) -> None:
    problems: dict[str, int] = {}
    assert all(isinstance(line, bytes) for line in timeline._lines(raw, problems))
    assert all(isinstance(line, bytes) for line in timeline._lines(zlib.compress(raw, wbits=31) + raw, problems))


json_rows = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), 1 << 64)
    | st.sampled_from(["s", "p", "n", "x", "f", "z", "lean"]),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=12,
)


@given(st.lists(json_rows, max_size=8))
def test_any_rows_are_survived_and_make_a_tree(rows: list[Any]) -> None:
    made = timeline._Reader(traced.header(), "x", {})
    for row in rows:
        made.add(row)
    for one in processes(made.timeline, 0):
        assert one.until_ns >= one.began_ns or one.ended_ns is not None


def test_a_record_in_a_store_has_its_timeline_beside_it() -> None:
    assert path_beside("/a/store/sessions/s1/i1.jsonl") == "/a/store/traces/s1/i1.ndjson.gz"
    assert path_beside("/a/heap/i1.jsonl") is None
    assert path_beside("/a/sessions/s1/i1.parquet") is None


# The tree.


def tree(folder: Path, *rows: Any, offset: int | None = 0) -> list[Process]:
    return processes(read(folder, *rows), offset)


def test_stamps_make_an_exact_tree(tmp_path: Path) -> None:
    shell, first, second = tree(
        tmp_path,
        ["x", 0, 10, "sh"],
        ["f", 100, 11, 10],
        ["x", 110, 11, "lake"],
        ["x", 150, 11, "lean"],
        ["e", 500, 11, 10],
        ["f", 600, 11, 10],
        ["e", 700, 11, 10],
        ["e", 900, 10, 1],
    )
    assert (shell.began_ns, shell.ended_ns, shell.names) == (O, O + 900, [(O, "sh")])
    assert (first.began_ns, first.ended_ns, first.began_known_by) == (O + 100, O + 500, BY_KERNEL)
    assert first.names == [(O + 110, "lake"), (O + 150, "lean")]
    assert first.parent is shell
    assert (second.pid, second.began_ns, second.ended_ns, second.names) == (11, O + 600, O + 700, [])
    assert second.parent is shell, "a number that came back is another process"


def test_looks_alone_know_a_start_to_a_tick_and_no_end(tmp_path: Path) -> None:
    one, other = tree(
        tmp_path,
        ["n", S, 11, 10, 10_050, "lean"],
        ["p", S, 1, [11, 4, 5, 6, 7, 8, 9]],
        ["n", 2 * S, 11, 10, 10_150, "leanc"],
        ["p", 2 * S, 1, [11, 1, 1, 1, 1, 1, 1]],
    )
    assert (one.began_ns, one.began_known_by) == (10_050 * 10**7, BY_TICKS)
    assert (one.ended_ns, one.until_ns) == (None, O + S)
    assert [sample.threads_count for sample in one.samples] == [4]
    assert (other.names, other.until_ns) == ([(10_150 * 10**7, "leanc")], O + 2 * S)


def test_without_a_boot_clock_a_start_is_the_first_look(tmp_path: Path) -> None:
    [one] = tree(tmp_path, ["n", S, 11, 10, 7, "lean"], ["p", S, 1, [11]], offset=None)
    assert (one.began_ns, one.began_known_by) == (O + S, BY_LOOK)


def test_a_look_and_a_stamp_of_one_process_are_put_together(tmp_path: Path) -> None:
    ticks = (O + 100_000_000) // 10**7
    [one] = tree(
        tmp_path,
        ["f", 103_000_000, 11, 10],
        ["x", 104_000_000, 11, "lean"],
        ["n", S, 11, 10, ticks, "lean"],
        ["p", S, 1, [11, 4, 5, 6, 7, 8, 9]],
        ["e", 3 * S, 11, 10],
    )
    assert (one.began_ns, one.start_ticks, one.ended_ns, len(one.samples)) == (O + 103_000_000, ticks, O + 3 * S, 1)
    assert one.names == [(O + 104_000_000, "lean")]


def test_a_later_process_with_the_same_number_is_another_one(tmp_path: Path) -> None:
    """Its predecessor's exit found no room among the stamps."""
    ticks = (O + 2 * S) // 10**7
    first, second = tree(tmp_path, ["f", 0, 11, 10], ["n", 3 * S, 11, 10, ticks, "lean"], ["p", 3 * S, 1, [11]])
    assert first.ended_ns is None
    assert first.until_ns == O
    assert (second.began_ns, second.until_ns) == (ticks * 10**7, O + 3 * S)


def test_a_name_that_changes_between_looks_is_told_with_its_time(tmp_path: Path) -> None:
    [one] = tree(tmp_path, ["n", S, 11, 10, 10_050, "sh"], ["p", S, 1, [11]], ["n", 2 * S, 11, 10, 10_050, "lean"])
    assert one.names == [(10_050 * 10**7, "sh"), (O + 2 * S, "lean")]
