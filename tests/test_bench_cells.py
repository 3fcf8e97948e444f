"""From records to medians, ratios and verdicts: what counts, what is compared with what, and what is not."""

import io
import itertools
import math

import pytest
from benching import record
from rich.console import Console

from proofcost.harness.merged import Record
from proofcost.reports import bench_table
from proofcost.reports.bench_cells import WALL, Cell, by_stratum, cells, ratio
from proofcost.reports.verdicts import Trouble, Verdict, troubles, verdict

MS = 1_000_000


def blocks(kernel: str, walls: list[list[int]], **changes: object) -> list[Record]:
    """One record for each wall; block by block."""
    count = itertools.count(100 * ord(kernel))
    return [
        record(kernel, wall_ns=wall, block=block, turn_number=next(count), **changes)  # type: ignore[arg-type]
        for block, in_block in enumerate(walls, 1)
        for wall in in_block
    ]


def one_cell(records: list[Record]) -> Cell:
    (found,) = cells(records)
    return found


def table(records: list[Record], floor_ns: int | None = None) -> str:
    file = io.StringIO()
    bench_table.render(records, Console(file=file, width=200), floor_ns, "a test")
    return file.getvalue()


def test_medians_and_spread_are_those_of_the_repetitions_alone() -> None:
    warm = [record("a", wall_ns=10**12, block=None, turn_number=1)]
    cell = one_cell([*warm, *blocks("a", [[10, 20], [30, 40], [50, 60]])])
    assert cell.values(WALL) == [10, 20, 30, 40, 50, 60]
    assert cell.median(WALL) == 30, "the lower of two middle ones, as `compare` has it"
    assert cell.spread(WALL) == pytest.approx((47.5 - 22.5) / 30)
    assert cell.verdict is Verdict.ACCEPTED


def test_a_planted_linear_drift_makes_no_difference_between_equals() -> None:
    """Mirrored blocks over a drift of 4 %: ABBA and BAAB in turns. (AAAA BBBB would be off by half of the drift.)"""
    walls: dict[str, list[list[int]]] = {"a": [], "b": []}
    at = 0
    for block in range(6):
        order = "abba" if block % 2 == 0 else "baab"
        seen: dict[str, list[int]] = {"a": [], "b": []}
        for kernel in order:
            seen[kernel].append(round(1e9 * (1 + 0.04 * at / 24)))
            at += 1
        for kernel, values in seen.items():
            walls[kernel].append(values)
    a, b = cells([*blocks("a", walls["a"]), *blocks("b", walls["b"])])
    found = ratio(b, a, WALL)
    assert found is not None
    assert found.value == pytest.approx(1, abs=1e-6)
    assert found.blocks_count == 6


def test_a_ratio_is_taken_block_by_block_with_its_exact_interval() -> None:
    """Hodges and Lehmann over blocks: seven ratios, one of them wild, and their signed-rank interval (98.4 %)."""
    base = [[100 * MS, 100 * MS]] * 7
    factors = (1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 9.0)
    a, b = cells([*blocks("a", base), *blocks("b", [[round(100 * MS * factor)] * 2 for factor in factors])])
    found = ratio(b, a, WALL)
    assert found is not None
    walsh = sorted(math.sqrt(one * two) for at, one in enumerate(factors) for two in factors[at:])
    assert found.value == pytest.approx(math.sqrt(walsh[13] * walsh[14]), rel=1e-6), "the middle of 28 pairs"
    assert found.low == pytest.approx(walsh[2], rel=1e-6), "V <= 2 has a chance of 3/128: the third from each end"
    assert found.high == pytest.approx(walsh[-3], rel=1e-6)
    assert found.blocks_count == 7


def test_a_block_with_a_repetition_that_has_no_value_is_left_out() -> None:
    (a,) = cells(blocks("a", [[10, 10]] * 3))
    absent = {"value": None, "unit": "ns", "method": "m", "status": "unavailable", "reason": "r"}
    nothing = {"wall_program": absent, "wall_command": absent}
    torn = record("b", block=3, turn_number=1, measurements=nothing)
    (b,) = cells([*blocks("b", [[20, 20]] * 3), torn])
    found = ratio(b, a, WALL)
    assert found is not None
    assert found.blocks_count == 2
    assert found.value == pytest.approx(2)


@pytest.mark.parametrize(
    ("cause", "code"), [("time_limit", 0), ("memory_limit", 0), ("crashed", 0), ("completed", 2), ("completed", 1)]
)
def test_no_ratio_is_made_of_what_did_not_do_the_same_whole_work(cause: str, code: int) -> None:
    """A ceiling is no cost, a declined export no checked one, and one bad repetition is enough."""
    good = blocks("a", [[10, 10], [10, 10]])
    bad = blocks("b", [[20, 20], [20]])
    last = record("b", wall_ns=20, block=2, turn_number=9999, cause=cause, code=code)
    a, b = cells([*good, *bad, last])
    assert ratio(b, a, WALL) is None
    assert ratio(a, b, WALL) is None
    assert "no ratio: they did not both do the same whole work" in table([*good, *bad, last])


def test_what_was_stopped_has_no_place_in_a_median() -> None:
    stopped = [record("a", wall_ns=999, block=1, turn_number=at, cause="time_limit") for at in (1, 2)]
    cell = one_cell([*stopped, record("a", wall_ns=10, block=1, turn_number=3)])
    assert cell.values(WALL) == [10]
    assert cell.verdicts == {Verdict.TIMEOUT: 2, Verdict.ACCEPTED: 1}
    assert "2 timeout, 1 accepted" in table([*stopped, record("a", wall_ns=10, block=1, turn_number=3)])


def test_a_turn_that_was_run_again_counts_once() -> None:
    torn = record("a", wall_ns=5, turn_number=1, cause="terminated_by_caller")
    again = record("a", wall_ns=7, turn_number=1)
    for records in ([torn, again], [again, torn]):
        assert one_cell(records).values(WALL) == [7]
    assert cells([torn]) == []


def test_bounds_and_contradictions_are_not_compared() -> None:
    bound = {"wall_program": {"value": 3, "unit": "ns", "method": "m", "status": "lower_bound", "reason": "r"}}
    cell = one_cell([record("a", turn_number=1, measurements=bound), record("a", wall_ns=8, turn_number=2)])
    assert cell.values(WALL) == [8]


def test_a_wall_with_the_sandboxs_start_in_it_is_not_mixed_with_one_without() -> None:
    unknown = {"wall_program": {"value": None, "unit": "ns", "method": "m", "status": "unavailable", "reason": "r"}}
    records = [record("a", wall_ns=8, turn_number=at) for at in (1, 2)]
    records.append(record("a", wall_ns=50, turn_number=3, measurements=unknown))
    assert one_cell(records).values(WALL) == [8, 8]


def test_below_ten_times_the_floor_a_value_is_marked_and_no_ratio_made() -> None:
    records = [*blocks("a", [[9 * MS] * 2] * 6), *blocks("b", [[18 * MS] * 2] * 6)]
    text = table(records, floor_ns=MS)
    assert "9.00 ms*" in text
    assert "18.0 ms*" not in text
    assert "2.000" not in text
    assert "*: less than 10 times the floor of 1.00 ms (a test)" in text
    assert "2.000 [2.000 .. 2.000]" in table(records, floor_ns=MS // 2)
    assert "the floor of this host is not known" in table(records)


def test_strata_keep_threads_and_numbers_at_once_apart() -> None:
    records = [record("a", turn_number=1), record("a", turn_number=2, co_running={"count": 2})]
    assert [(one.co_running, len(group)) for one, group in by_stratum(cells(records)).items()] == [(1, 1), (2, 1)]


def test_a_kernel_without_threads_stands_with_those_of_its_blocks_whatever_came_first() -> None:
    records = [
        record("b", turn_number=0, block=1, kernel_threads=2),
        record("a", turn_number=1, block=1, kernel_threads=2),
        record("b", turn_number=2, block=2, kernel_threads=1),
        record("n", turn_number=3, block=2),
        record("a", turn_number=4, block=2, kernel_threads=1),
    ]
    found = by_stratum(cells(records))
    assert [(one.threads, [cell.key.kernel for cell in group]) for one, group in found.items()] == [
        (1, ["a", "b", "n"]),
        (2, ["a", "b"]),
    ]


def test_an_a_a_says_how_often_its_interval_leaves_one_out() -> None:
    records = [*blocks("a", [[100, 100]] * 6), *blocks("b", [[101, 101]] * 6, twin_of="a")]
    text = table(records)
    assert "A/A, b / a: geometric mean of the ratios of 1 workload: 1.010; the interval leaves 1 out in 1 of 1" in text


def test_blocks_that_an_interruption_tore_are_counted() -> None:
    records = [
        record("a", block=block, turn_number=at, part=part)
        for at, (block, part) in enumerate([(1, 1), (1, 1), (2, 1), (2, 2), (3, 2), (3, 2)])
    ]
    assert "1 of 3 blocks torn by an interruption" in table(records)
    assert "torn" not in table(records[:2])


def test_disturbed_repetitions_are_counted() -> None:
    records = [record("a", turn_number=1), record("a", turn_number=2, disturbances=["other tasks are running: 3"])]
    assert "1 of 2 repetitions began on a host that was not quiet (other tasks are running)" in table(records)


# Verdicts.


@pytest.mark.parametrize(
    ("cause", "code", "expected"),
    [
        ("completed", 0, Verdict.ACCEPTED),
        ("completed", 1, Verdict.REJECTED),
        ("completed", 2, Verdict.DECLINED),
        ("completed", 3, Verdict.AMBIGUOUS),
        ("completed", 137, Verdict.AMBIGUOUS),
        ("memory_limit", 1, Verdict.MEMORY),
        ("host_memory", 0, Verdict.MEMORY),
        ("time_limit", 0, Verdict.TIMEOUT),
        ("cpu_limit", 0, Verdict.TIMEOUT),
        ("disk_full", 1, Verdict.LIMIT),
        ("file_size_limit", 0, Verdict.LIMIT),
        ("crashed", 0, Verdict.CRASHED),
        ("killed_cause_unknown", 0, Verdict.KILLED),
        ("sandbox_setup_failed", 1, Verdict.NOT_STARTED),
        ("not_started", 0, Verdict.NOT_STARTED),
        ("terminated_by_caller", 0, Verdict.INTERRUPTED),
        ("something new", 0, Verdict.KILLED),
    ],
)
def test_only_who_ended_by_himself_has_a_verdict(cause: str, code: int, expected: Verdict) -> None:
    assert verdict(record("a", cause=cause, code=code)) is expected


def test_without_an_end_there_is_no_verdict() -> None:
    whole = record("a")
    unfinished = Record(whole.invocation, whole.session, whole.started, None, None, "made")
    assert verdict(unfinished) is Verdict.INCOMPLETE


A, R, D, X, T = Verdict.ACCEPTED, Verdict.REJECTED, Verdict.DECLINED, Verdict.AMBIGUOUS, Verdict.TIMEOUT


@pytest.mark.parametrize(
    ("said", "expected", "found"),
    [
        ({"a": [A, A], "b": [A]}, None, []),
        ({"a": [A], "b": [R]}, None, [Trouble.DISAGREE]),
        ({"a": [A], "b": [R]}, "rejected", [Trouble.DISAGREE, Trouble.UNEXPECTED]),
        ({"a": [A], "b": [D]}, None, []),
        ({"a": [A], "b": [T]}, "accepted", []),
        ({"a": [R], "b": [D]}, "rejected", []),
        ({"a": [A], "b": [X]}, None, [Trouble.MAY_DISAGREE]),
        ({"a": [R], "b": [X]}, None, []),
        ({"a": [A, R]}, None, [Trouble.CHANGES]),
        ({"a": [A, R], "b": [A]}, None, [Trouble.DISAGREE, Trouble.CHANGES]),
        ({"a": [A]}, "rejected", [Trouble.UNEXPECTED]),
        ({"a": [R]}, "accepted", [Trouble.UNEXPECTED]),
        ({"a": [R], "b": [R]}, "rejected", []),
        ({}, "accepted", []),
    ],
)
def test_what_is_wrong_with_verdicts(
    said: dict[str, list[Verdict]], expected: str | None, found: list[Trouble]
) -> None:
    assert [trouble for trouble, _ in troubles(said, expected)] == found


def test_a_control_that_reads_a_bad_export_disagrees_with_nobody() -> None:
    records = [record("a", code=1), record("b", control=True, exit_codes={"0": "ran"})]
    assert bench_table.found_troubles(records) == []
    assert not bench_table.is_finding(records)


def test_warm_ups_speak_too() -> None:
    records = [record("a", block=None, code=1, turn_number=1), record("a", turn_number=2)]
    assert [trouble for _, trouble, _ in bench_table.found_troubles(records)] == [Trouble.CHANGES]


def test_names_from_outside_reach_a_terminal_as_text() -> None:
    text = table([record("a\\x1b[31m", "w[bold]\\x07", code=0), record("b", "w[bold]\\x07", code=1, turn_number=1)])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "w[bold]\\x07" in text
    assert "KERNELS DISAGREE" in text


def test_geometric_means_are_over_workloads() -> None:
    records = []
    for work, factor in (("w1", 2), ("w2", 8)):
        for at, kernel in enumerate("ab"):
            wall = 100 * (factor if at else 1)
            records += [record(kernel, work, wall, block=block, turn_number=at + 10 * block) for block in range(1, 7)]
    # (of the two workloads each turn number must be unique)
    for at, one in enumerate(records):
        one.started["bench"]["turn"] = at
    assert "b / a: geometric mean of the ratios of 2 workloads: 4.000" in table(records)
    assert math.isclose(math.sqrt(2 * 8), 4)
