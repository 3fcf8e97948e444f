"""What a timer says of its own region: kept, bounded, and held against what was measured around it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.adapters import kernel_timing
from proofcost.adapters.kernel_timing import LINE_MAX_BYTES, LINES_MAX, PREFIX, LineTap
from proofcost.harness import figures, perf, record, store

GOOD: dict[str, Any] = {
    "measurement_contract": "kernel-replay-v2",
    "boundary": "full-closure-replay-v1",
    "target": None,
    "wall_ns": 4_300_000_000,
    "instructions": 36_700_000_000,
    "peak_rss_kb": 1_500_000,
    "phase": "complete",
}


def line(**changes: Any) -> bytes:
    return PREFIX + json.dumps({**GOOD, **changes}).encode()


def measured(**changes: int) -> figures.Figures:
    """What we measured around GOOD."""
    values = {
        "wall_command": 4_400_000_000,
        "cpu_tree": 4_350_000_000,
        "cpu_tree_system": 100_000_000,
        "instructions:u": 36_900_000_000,
        "memory_peak_process": 1_540_000_000,
        **changes,
    }
    return {name: record.measurement(value, "ns", "test") for name, value in values.items()}


def put(*lines: bytes, table: figures.Figures | None = None) -> tuple[figures.Figures, dict[str, Any]]:
    table = measured() if table is None else table
    return table, kernel_timing.put(table, list(lines)[:LINES_MAX], len(lines))


def taken(pieces: list[bytes]) -> tuple[int, list[bytes]]:
    tap = LineTap()
    for piece in pieces:
        tap.take(piece)
    report: dict[str, Any] = tap.report()
    return report["count"], [bytes.fromhex(text) for text in report["lines"]]


PIECES = st.lists(
    st.sampled_from([b"\n", PREFIX, PREFIX[:6], PREFIX[6:], b"{}", b"x", b"\r\n", b"\x00\xff", b"y" * 3000])
    | st.binary(max_size=20),
    max_size=40,
)


@given(PIECES)
def test_lines_are_found_however_the_stream_is_cut(pieces: list[bytes]) -> None:
    expected = [one for one in b"".join(pieces).split(b"\n") if one.startswith(PREFIX)]
    assert taken(pieces) == (len(expected), [one[: LINE_MAX_BYTES + 1] for one in expected[:LINES_MAX]])


def test_a_stream_without_lines_is_not_kept() -> None:
    tap = LineTap()
    for _ in range(1000):
        tap.take(b"z" * 65536)
    assert len(tap._head) == 0
    assert tap.report() == {"count": 0, "lines": []}


@given(st.binary(max_size=80) | st.text(alphabet='{}":,nul0123wall_s ', max_size=80).map(str.encode))
def test_no_line_makes_the_reader_raise(rest: bytes) -> None:
    region = kernel_timing.read_line(PREFIX + rest)
    assert record.dumps(region.as_json())


def test_a_sound_line_becomes_three_figures_and_nothing_speaks_against_them() -> None:
    table, regions = put(line(target="Nat.add_comm'"))
    assert table["wall_region"] == record.measurement(
        4_300_000_000, "ns", "reported by the program (KERNEL_TIMING, full-closure-replay-v1)"
    )
    assert table["instructions_region"]["value"] == 36_700_000_000
    assert table["memory_peak_region"]["value"] == 1_536_000_000
    assert {table[name]["status"] for name in table if name.endswith("_region")} == {"measured"}
    assert regions["contradictions"] == []
    assert regions["count"] == 1
    assert regions["lines"][0]["target"] == "Nat.add_comm'"
    assert regions["lines"][0]["contract"] == "kernel-replay-v2"


@pytest.mark.parametrize("name", ["instructions", "peak_rss_kb"])
@pytest.mark.parametrize(("value", "why"), [(None, "did not report it"), (0, "reported 0: not counted")])
def test_a_figure_that_is_not_told_is_absent_with_a_reason_and_never_0(name: str, value: int | None, why: str) -> None:
    table, regions = put(line(**{name: value}))
    figure = table[{"instructions": "instructions_region", "peak_rss_kb": "memory_peak_region"}[name]]
    assert (figure["value"], figure["status"]) == (None, "unavailable")
    assert why in str(figure["reason"])
    assert table["wall_region"]["status"] == "measured"
    assert regions["contradictions"] == []


def test_no_line_at_all_says_so() -> None:
    table, regions = put()
    assert table["wall_region"]["reason"] == "the program printed no KERNEL_TIMING line"
    assert regions == {"count": 0, "lines": [], "contradictions": []}


@pytest.mark.parametrize(
    ("changes", "ours", "figure", "why"),
    [
        (
            {"wall_ns": 4_410_000_000},
            {},
            "wall_region",
            "the whole command took 4400000000 ns, a part of it cannot have taken 4410000000",
        ),
        (
            {"instructions": 50_000_000_000},
            {},
            "instructions_region",
            "the whole command took 36900000000 in user mode, and 100000000 ns in the kernel cannot add the rest of "
            "50000000000",
        ),
        (
            {"peak_rss_kb": 1_600_000},
            {},
            "memory_peak_region",
            "its largest process had 1540000000 bytes at its peak, a part of its run cannot have had 1638400000",
        ),
    ],
)
def test_a_part_that_is_more_than_the_whole_is_contradicted_and_the_rest_stands(
    changes: dict[str, int], ours: dict[str, int], figure: str, why: str
) -> None:
    table, regions = put(line(**changes), table=measured(**ours))
    assert (table[figure]["status"], table[figure]["reason"]) == ("contradicted", why)
    assert regions["contradictions"] == [why]
    others = {name for name in table if name.endswith("_region")} - {figure}
    assert {table[name]["status"] for name in others} == {"measured"}


def test_what_the_clock_and_the_kernel_can_explain_is_no_contradiction() -> None:
    table, regions = put(
        line(wall_ns=4_404_000_000, instructions=36_900_000_000 + 6_400_000_000, peak_rss_kb=1_507_000)
    )
    assert regions["contradictions"] == []
    assert table["instructions_region"]["status"] == "measured"


def test_instructions_where_the_host_has_no_counter_are_contradicted() -> None:
    table = measured()
    table["instructions:u"] = record.unavailable("count", "perf", perf.REASON_NOT_SUPPORTED)
    put(line(), table=table)
    assert table["instructions_region"]["status"] == "contradicted"
    assert "no counter of instructions" in str(table["instructions_region"]["reason"])


def test_instructions_that_could_not_be_counted_by_us_are_held_against_the_time() -> None:
    table = measured()
    table["instructions:u"] = record.unavailable("count", "perf", perf.REASON_PERMISSION)
    put(line(), table=table)
    assert table["instructions_region"]["status"] == "measured"
    put(line(instructions=4_350_000_000 * 64 + 1), table=table)
    assert table["instructions_region"]["reason"] == "no processor retires 278400000001 instructions in 4350000000 ns"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([line(), line()], ["the program printed 2 KERNEL_TIMING lines, all alike"]),
        ([line(), line(wall_ns=1)], ["the program printed 2 KERNEL_TIMING lines"]),
        (
            [line(), PREFIX + b"{"],
            [
                "the program printed 2 KERNEL_TIMING lines",
                "a KERNEL_TIMING line cannot be taken: no key at character 2",
            ],
        ),
        ([line()] * 100, ["the program printed 100 KERNEL_TIMING lines"]),
    ],
)
def test_more_than_one_line_contradicts_every_figure(lines: list[bytes], why: list[str]) -> None:
    table, regions = put(*lines)
    assert {table[name]["status"] for name in table if name.endswith("_region")} == {"contradicted"}
    assert table["wall_region"]["reason"] == "; ".join(why)
    assert regions["contradictions"] == why
    assert regions["count"] == len(lines)
    assert len(regions["lines"]) <= LINES_MAX


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PREFIX + b"not json", "no JSON value at character 1"),
        (PREFIX + b"[]", "no JSON object"),
        (PREFIX + b'{"phase":"complete"}', "wall_ns is missing or 0"),
        (line(wall_ns=0), "wall_ns is missing or 0"),
        (line(wall_ns=-1), "wall_ns is -1, no integer from 0 to 2^53"),
        (line(wall_ns=True), "wall_ns is true, no integer from 0 to 2^53"),
        (line(wall_ns=1.5), "a number that is no integer at character 111"),
        (line(instructions="many"), 'instructions is "many", no integer from 0 to 2^53'),
        (line(phase="started"), 'phase is "started", not complete'),
        (line(boundary=7), "boundary is no text"),
        (line(target="x" * LINE_MAX_BYTES), f"longer than {LINE_MAX_BYTES} bytes"),
    ],
)
def test_a_line_that_cannot_be_taken_is_told_with_its_reason(text: bytes, why: str) -> None:
    table, regions = put(text)
    assert table["wall_region"]["status"] == "unavailable"
    assert table["wall_region"]["reason"] == f"KERNEL_TIMING: {why}"
    assert regions["lines"][0]["problem"] == why
    assert regions["contradictions"] == [f"a KERNEL_TIMING line cannot be taken: {why}"]


def test_a_stream_that_nobody_told_of_gives_no_figure() -> None:
    table = measured()
    assert kernel_timing.add(table, None) == {"count": None, "lines": [], "contradictions": []}
    assert table["wall_region"]["reason"] == "who passed its output on did not say"


def test_what_the_tap_reports_is_what_is_read() -> None:
    tap, table = LineTap(), measured()
    tap.take(b"before\n" + line(boundary="t\u00e9st") + b"\n\xff\n")
    regions: dict[str, Any] = kernel_timing.add(table, {"tap": tap.report()})
    assert regions["lines"][0]["boundary"] == "t\u00e9st"
    assert table["wall_region"]["value"] == GOOD["wall_ns"]


@pytest.mark.parametrize("char", ["\\", "\x01", "\u00e9", "\U0001f600"])
def test_what_is_kept_of_the_worst_lines_fits_the_room_of_a_record(char: str) -> None:
    worst = (
        PREFIX
        + json.dumps(
            {**GOOD, "boundary": char * 300, "target": char * 300, "measurement_contract": char * 300},
            ensure_ascii=False,
        ).encode()
    )
    tap, table = LineTap(), measured()
    for _ in range(20):
        tap.take(worst + b"\n")
    regions = kernel_timing.add(table, {"tap": tap.report()})
    assert regions["count"] == 20
    assert len(record.dumps({**regions, **table})) < store.ROOM_BYTES // 2


def test_lines_that_differ_late_are_not_alike() -> None:
    _, regions = put(line(target="x" * 300 + "a"), line(target="x" * 300 + "b"))
    assert regions["contradictions"] == ["the program printed 2 KERNEL_TIMING lines"]
