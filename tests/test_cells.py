"""Cells: what of the records gets into them, and that bins say the same as the figures themselves."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness.columns import Row
from proofcost.reports import cell_survey, parquet, reduction
from proofcost.reports import cells as module
from proofcost.reports.cell_sql import Asked
from proofcost.reports.cells import TOO_EARLY, Cell, UnlikeError, read, refuse_unlike
from proofcost.reports.dataset import DataError, open_data
from proofcost.reports.metrics import METRICS, Metric
from proofcost.reports.values import WORST_ERROR, Values, pooled
from proofcost.reports.where import WhereError, parse

MS = 10**6
BY = ("kernel", "subject")


def run(kernel: str, subject: str, wall_ms: float | None = 100, **more: Any) -> Row:
    row: Row = {
        "session": "s", "plan": "p", "host": "h", "boot": "b", "host_class": "c", "phase": "checker",
        "kernel": kernel, "kernel_sha256": f"sha-{kernel}", "workload": subject, "outcome": "exited",
        "cause": "completed", "exit_code": 0, "verdict": "accepted", "started_ns": 10**18,
        "wall_program": None if wall_ms is None else int(wall_ms * MS), **more,
    }  # fmt: skip
    return {name: value for name, value in row.items() if value is not None}


def read_rows(folder: Path, rows: list[Row], by: tuple[str, ...] = BY, *where: str, **more: Any) -> list[Cell]:
    for at, row in enumerate(rows):
        row.setdefault("record", str(at))
    parquet.write(folder / "x.0.parquet", parquet.table_of(rows))
    return read(open_data([folder]), parse(list(where)), by, **more)


def figures(cell: Cell, metric: str = "wall") -> list[int]:
    return [number for values in cell.values.get(metric, {}).values() for number in values.numbers.tolist()]


def test_a_cell_holds_its_runs_by_key(tmp_path: Path) -> None:
    rows = [run("a", "x", wall) for wall in (30, 10, 20)] + [run("b", "x", 7), run("a", "y", 5, started_ns=5)]
    cells = read_rows(tmp_path, rows)
    assert [cell.key for cell in cells] == [("a", "x"), ("a", "y"), ("b", "x")]
    assert [cell.runs for cell in cells] == [3, 1, 1]
    values = cells[0].values["wall"][()]
    assert (values.numbers.tolist(), values.n, values.median) == ([10 * MS, 20 * MS, 30 * MS], 3, 20 * MS)
    assert cells[0].kernels == {"sha-a"}
    assert (cells[1].first_ns, cells[1].last_ns, cells[0].first_ns) == (5, 5, 10**18)


def test_how_runs_ended_is_counted_apart_and_gives_no_figure(tmp_path: Path) -> None:
    none = {"verdict": None, "exit_code": None}
    rows = [
        run("a", "x", 1),
        run("a", "x", 2, verdict="rejected", exit_code=1),
        run("a", "x", 3, verdict=None, exit_code=7),
        run("a", "x", 4, verdict="read"),
        run("a", "x", 50, outcome="timed_out", cause="time_limit", time_limit_ns=50 * MS, **none),
        run("a", "x", 9, outcome="signaled", cause="memory_limit", signal=9, memory_limit_bytes=100,
            memory_peak_tree=90, **none),
        run("a", "x", 9, outcome="signaled", cause="crashed", signal=11, **none),
        run("a", "x", None, outcome="incomplete", cause=None, **none),
        run("a", "x", 0.001, outcome="timed_out", cause="time_limit", time_limit_ns=50 * MS, **none),
        run("a", "x", 9, warmup=True),
    ]  # fmt: skip
    (cell,) = read_rows(tmp_path, rows)
    assert cell.ends == Counter(
        {"accepted": 1, "rejected": 1, "exit 7": 1, "exit 0": 1, "time_limit": 1, "memory_limit": 1, "crashed": 1,
         "incomplete": 1, TOO_EARLY: 1}
    )  # fmt: skip
    assert (cell.runs, cell.verdict) == (9, None)
    assert figures(cell) == [1 * MS, 2 * MS, 3 * MS, 4 * MS]
    assert cell.censored == {
        "wall": [50 * MS], "wall of the command": [50 * MS], "memory": [100], "memory of a process": [100],
    }  # fmt: skip


def test_a_time_out_whose_wall_is_not_known_is_at_least_its_limit(tmp_path: Path) -> None:
    rows = [run("a", "x", None, outcome="timed_out", cause="time_limit", time_limit_ns=7 * MS, verdict=None)]
    (cell,) = read_rows(tmp_path, rows)
    assert cell.censored["wall"] == [7 * MS]
    assert cell.values == {}
    (cell,) = read_rows(tmp_path, rows, unit=("block",))
    assert cell.censored["wall"] == [7 * MS]


@pytest.mark.parametrize(("wall_ms", "ending"), [(50, "time_limit"), (25, "time_limit"), (24.9, TOO_EARLY)])
def test_a_time_out_before_half_of_its_limit_is_none(tmp_path: Path, wall_ms: float, ending: str) -> None:
    rows = [run("a", "x", wall_ms, outcome="timed_out", cause="time_limit", time_limit_ns=50 * MS, verdict=None)]
    (cell,) = read_rows(tmp_path, rows)
    assert cell.ends == {ending: 1}
    assert ("wall" in cell.censored) == (ending == "time_limit")


@pytest.mark.parametrize(
    ("more", "taken"),
    [
        ({}, True),
        ({"weak": {"memory_peak_tree": "sampled"}}, True),
        ({"weak": {"wall_program": "derived"}}, True),
        ({"weak": {"wall_program": "lower_bound"}}, False),
        ({"weak": {"wall_program": "contradicted"}}, False),
        ({"beside": 1}, False),
        ({"beside": 0}, True),
        ({"wall_program": 0}, False),
        ({"wall_program": -5}, False),
        ({"outcome": "signaled", "cause": "crashed"}, False),
        ({"cause": None}, True),
    ],
)
def test_what_is_a_sample(tmp_path: Path, more: dict[str, Any], taken: bool) -> None:
    (cell,) = read_rows(tmp_path, [run("a", "x", 100, **more)])
    assert figures(cell) == ([more.get("wall_program", 100 * MS)] if taken else [])
    assert cell.runs == 1
    assert cell.backwards == (1 if more.get("wall_program") == -5 else 0)


def test_the_name_of_a_weak_figure_is_not_taken_for_another_s(tmp_path: Path) -> None:
    """`_` in LIKE stands for any character: `wallxprogram` is no `wall_program`."""
    (cell,) = read_rows(tmp_path, [run("a", "x", 100, weak={"wallxprogram": "lower_bound"})])
    assert figures(cell) == [100 * MS]


def test_units_stand_apart(tmp_path: Path) -> None:
    rows = [run("a", "x", at, block=at // 2) for at in range(2, 6)] + [run("a", "x", 9)]
    (cell,) = read_rows(tmp_path, rows, unit=("series", "block"))
    assert {unit: values.numbers.tolist() for unit, values in cell.values["wall"].items()} == {
        ("p", "1"): [2 * MS, 3 * MS], ("p", "2"): [4 * MS, 5 * MS], ("p", "0"): [9 * MS],
    }  # fmt: skip


def test_keys_may_be_labels_and_what_is_not_told_is_one_key(tmp_path: Path) -> None:
    odd = "it's \" odd?"
    rows = [run("a", "x", 1, labels={odd: "1"}), run("a", "x", 2, labels={"other": "1"}), run("a", "x", 3)]
    assert [(cell.key, cell.runs) for cell in read_rows(tmp_path, rows, (f"label.{odd}", "threads"))] == [
        (("1", "?"), 1),
        (("?", "?"), 2),
    ]
    with pytest.raises(WhereError, match=r"^kernle: no column 'kernle'; did you mean kernel\?"):
        read_rows(tmp_path, rows, ("kernle",))


def test_what_is_too_many_to_keep_is_counted_in_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_MOST", 10)
    rows = [run("a", "x", wall) for wall in range(1, 11)] + [run("b", "x", 1)] + [run("a", "x", 99, threads=9)]
    one, other = read_rows(tmp_path, rows, BY, "wall_program<50ms")
    values = one.values["wall"][()]
    assert (values.binned, values.n, values.minimum, values.maximum) == (True, 10, 1 * MS, 10 * MS)
    assert abs(values.median / (5 * MS) - 1) <= WORST_ERROR
    assert other.values["wall"][()].binned
    monkeypatch.setattr(module, "EXACT_MOST", 11)
    assert not any(cell.values["wall"][()].binned for cell in read_rows(tmp_path, rows, BY, "wall_program<50ms"))


@pytest.mark.parametrize("bins", [True, False, None])
def test_nothing_chosen_gives_no_cells(tmp_path: Path, bins: bool | None) -> None:
    assert read_rows(tmp_path, [run("a", "x")], BY, "kernel=no", bins=bins) == []
    assert read_rows(tmp_path, [run("a", "x")], (), "kernel=no", bins=bins) == []


@pytest.mark.parametrize("bins", [True, False])
def test_everything_may_be_one_cell(tmp_path: Path, bins: bool) -> None:
    (cell,) = read_rows(tmp_path, [run("a", "x", 1), run("b", "y", 2)], (), bins=bins)
    assert (cell.key, cell.runs, cell.values["wall"][()].maximum) == ((), 2, 2 * MS)


def test_huge_figures_stay_exact(tmp_path: Path) -> None:
    most = 2**63 - 1
    rows = [run("a", "x", None, wall_program=most, wall_command=most, time_limit_ns=most, io_read_bytes_tree=most,
                input_bytes=most, instructions_u=most, labels={"a": "b"})]  # fmt: skip
    (cell,) = read_rows(tmp_path, rows, (*BY, "cache"))
    assert figures(cell) == [most]
    assert cell.key[2] == "cold"
    (cell,) = read_rows(tmp_path, rows, bins=True)
    assert cell.values["instructions"][()].maximum == most


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"labels": {"cache": "warm"}, "io_read_bytes_tree": 10**9, "input_bytes": 10}, "warm"),
        ({"io_read_bytes_tree": 5 * MS, "input_bytes": 9 * MS}, "cold"),
        ({"io_read_bytes_waited": 5 * MS, "input_bytes": 9 * MS}, "cold"),
        ({"io_read_bytes_tree": 4 * MS, "input_bytes": 9 * MS}, "warm"),
        ({"io_read_bytes_tree": 9000, "input_bytes": 9000}, "warm"),
        ({"input_bytes": 9000}, "?"),
        ({"io_read_bytes_tree": 9 * MS}, "?"),
        ({"labels": {"uncache": "warm"}}, "?"),
    ],
)
def test_cold_and_warm(tmp_path: Path, more: dict[str, Any], state: str) -> None:
    (cell,) = read_rows(tmp_path, [run("a", "x", **more)], ("cache",))
    assert cell.key == (state,)


def test_unlike_cells_are_refused_by_name(tmp_path: Path) -> None:
    rows = [run("a", "x", threads=threads, sandbox=sandbox) for threads, sandbox in ((1, "n"), (4, "n"), (8, None))]
    cells = read_rows(tmp_path, rows)
    assert cells[0].guarded["threads"] == {"1", "4", "8"}
    assert cells[0].guarded["sandbox"] == {"n", ""}
    with pytest.raises(UnlikeError, match=r"^a of x: the runs differ in threads \(1, 4, 8\); choose with --where "):
        refuse_unlike(cells)
    with pytest.raises(UnlikeError, match=r"differ in sandbox \(n, unknown\).*--pool sandbox"):
        refuse_unlike(cells, ["threads"])
    refuse_unlike(cells, ["threads", "sandbox"])


def test_two_cells_that_are_each_of_one_kind_may_differ_from_each_other(tmp_path: Path) -> None:
    cells = read_rows(tmp_path, [run("a", "x", host_class="one"), run("b", "x", host_class="other")])
    refuse_unlike(cells[:1])
    with pytest.raises(UnlikeError, match="host_class"):
        refuse_unlike(cells)


AMOUNTS = st.lists(st.integers(1, 2**62), min_size=1, max_size=60)


@given(AMOUNTS, st.floats(0, 1))
def test_a_binned_quantile_is_near_the_true_one(amounts: list[int], p: float) -> None:
    exact = Values.of(amounts)
    binned = exact.in_bins()
    assert (binned.n, binned.minimum, binned.maximum) == (len(amounts), min(amounts), max(amounts))
    assert exact.quantile(p) == pytest.approx(float(np.quantile(np.array(amounts, dtype=float), p)), rel=1e-12)
    assert binned.quantile(p) == pytest.approx(exact.quantile(p), rel=0.007)
    assert binned.median == pytest.approx(exact.median, rel=0.007, abs=1)
    assert binned.log_mean() == pytest.approx(exact.log_mean(), abs=0.005)
    assert exact.median in amounts
    assert WORST_ERROR < 0.007


@given(st.lists(AMOUNTS, min_size=1, max_size=4))
def test_parts_together_are_the_whole(parts: list[list[int]]) -> None:
    whole = [amount for part in parts for amount in part]
    exact = pooled(Values.of(part) for part in parts)
    assert exact.numbers.tolist() == sorted(whole)
    mixed = pooled(Values.of(part).in_bins() if at % 2 else Values.of(part) for at, part in enumerate(parts))
    binned = Values.of(whole).in_bins() if len(parts) > 1 else Values.of(whole)
    assert mixed.numbers.tolist() == binned.numbers.tolist()
    assert (mixed.n, mixed.minimum, mixed.maximum) == (len(whole), min(whole), max(whole))


def test_the_database_bins_as_we_do(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = [run("a", "x", None, wall_program=int(value)) for value in np.exp(random.uniform(0, 40, 500))]
    (exact,), (binned,) = (read_rows(tmp_path, rows, bins=bins) for bins in (False, True))
    ours, theirs = exact.values["wall"][()].in_bins(), binned.values["wall"][()]
    assert theirs.counts is not None
    assert ours.counts is not None
    # A figure at a bin's edge to the last bit of a logarithm may fall on either side of it.
    differing = np.setxor1d(ours.numbers, theirs.numbers).size
    assert differing <= 2
    assert math.isclose(ours.log_mean(), theirs.log_mean(), abs_tol=1e-4)
    assert theirs.floats().size == 500


def test_the_database_draws_nothing_on_stdout(tmp_path: Path) -> None:
    parquet.write(tmp_path / "x.0.parquet", parquet.table_of([run("a", "x", record="1")]))
    connection = open_data([tmp_path]).connection
    assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]


def varied() -> list[Row]:
    """Runs of all kinds, unlike in what is guarded; some digests are not told."""
    none = {"verdict": None, "exit_code": None}
    rows = [
        run(kernel, subject, 10 + at, input_sha256=digest, config_sha256="c" * 64, started_ns=at)
        for at, (kernel, subject, digest) in enumerate(
            [("a", "x", "d" * 64), ("a", "x", "e" * 64), ("a", "x", None), ("b", "x", "d" * 64), ("a", "y", None)]
        )
    ]
    rows += [run("a", "x", 30, verdict=None, exit_code=code, kernel_sha256="other") for code in (0, 3)]
    rows += [
        run("a", "x", 50, outcome="timed_out", cause="time_limit", time_limit_ns=limit * MS, **none)
        for limit in (50, 60, 1000)
    ]
    return rows


def test_grouping_by_hashes_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[Any]:
        cells = read_rows(tmp_path, varied())
        return [(cell.key, cell.runs, cell.ends, figures(cell), cell.censored, cell.kernels, cell.guarded,
                 cell.first_ns, cell.last_ns) for cell in cells]  # fmt: skip

    plain = told()
    assert plain[0][6]["input_sha256"] == {"d" * 64, "e" * 64, ""}
    assert plain[0][5] == {"sha-a", "other"}
    assert plain[0][4]["wall"] == [50 * MS, 50 * MS]
    asked: list[Any] = []
    monkeypatch.setattr(reduction, "HASHED_FROM", 0)

    def noted(*given: Any) -> Any:
        asked.append(cell_survey.hashes(*given))
        return asked[-1]

    monkeypatch.setattr(reduction, "hashes", noted)
    assert told() == plain
    assert set(asked[0]) == {'"input_sha256"', '"config_sha256"'}  # the other texts have no more than 12 bytes
    monkeypatch.setattr(cell_survey, "_HASHED_MOST", 2)
    assert told() == plain
    assert set(asked[1]) == {'"config_sha256"'}  # the other has three values
    monkeypatch.setattr(cell_survey, "_HASHED_MOST", 100)
    monkeypatch.setattr(cell_survey, "_SAMPLE", 4)  # as if nearly each record had a text of its own
    assert told() == plain
    assert '"input_sha256"' not in asked[2]


def test_texts_whose_hashes_are_the_same_are_grouped_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "HASHED_FROM", 0)
    fetch = Asked.fetch
    queries: list[str] = []

    def poor(asked: Any, query: str, first: Any = ()) -> Any:
        queries.append(query.replace("hash(text)", "CASE WHEN text > 'd' THEN 7 ELSE hash(text) END"))
        return fetch(asked, queries[-1], first)

    monkeypatch.setattr(Asked, "fetch", poor)
    (cell, *_) = read_rows(tmp_path, varied())
    assert cell.guarded["input_sha256"] == {"d" * 64, "e" * 64, ""}
    assert any("THEN 7" in query for query in queries)
    assert 'hash("input_sha256")' not in queries[-1]


def test_a_hash_that_nobody_has_seen_is_an_error_and_never_another_text() -> None:
    texts = reduction._texts(pa.chunked_array([pa.array([9, 5, 9], pa.uint64())]), {5: None, 9: "a"})
    assert texts.to_pylist() == ["a", None, "a"]
    for number in (4, 7, 2**64 - 1):
        with pytest.raises(DataError, match="changed while"):
            reduction._texts(pa.chunked_array([pa.array([9, number], pa.uint64())]), {5: None, 9: "a"})


@pytest.mark.parametrize("bins", [True, False])
def test_bounds_are_told_beside_bins_too(tmp_path: Path, bins: bool) -> None:
    (cell, *_) = read_rows(tmp_path, varied(), bins=bins)
    assert cell.censored["wall"] == [50 * MS, 50 * MS]
    assert cell.values["wall"][()].n == 5


@pytest.mark.parametrize("unit", [(), ("block",)])
@pytest.mark.parametrize("metrics", [METRICS, METRICS[3:4]])
def test_bins_hold_what_is_kept_otherwise_and_take_as_many_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: tuple[str, ...], metrics: tuple[Metric, ...]
) -> None:
    rows = varied() + [
        run("a", "x", wall, wall_command=wall * MS + at, cpu_tree=wall * MS // 2, memory_peak_tree=None, block=at % 3,
            beside=int(at % 5 == 0), instructions_u=7 * wall * MS if at % 2 else None, verdict=verdict)
        for at, wall in enumerate(range(50, 500))
        for verdict in (("accepted", "rejected", "read", None)[at % 4],)
    ]  # fmt: skip
    fetch = Asked.fetch
    passes: list[str] = []

    def noted(asked: Any, query: str, first: Any = ()) -> Any:
        passes.append(query)
        return fetch(asked, query, first)

    monkeypatch.setattr(Asked, "fetch", noted)
    kept = read_rows(tmp_path, rows, metrics=metrics, unit=unit, bins=False)
    count = len(passes)
    binned = read_rows(tmp_path, rows, metrics=metrics, unit=unit, bins=True)
    assert len(passes) == 2 * count

    def told(cells: list[Cell], of: Any) -> list[Any]:
        return [
            (cell.key, cell.runs, cell.ends, cell.censored, cell.kernels, cell.guarded, cell.first_ns, cell.last_ns,
             {name: {unit: of(values) for unit, values in units.items()} for name, units in cell.values.items()})
            for cell in cells
        ]  # fmt: skip

    def summary(values: Values) -> tuple[list[int], list[int], int, int]:
        in_bins = values.in_bins()
        assert in_bins.counts is not None
        return in_bins.numbers.tolist(), in_bins.counts.tolist(), in_bins.minimum, in_bins.maximum

    assert told(binned, summary) == told(kept, summary)
    assert all(values.binned for cell in binned for units in cell.values.values() for values in units.values())
    assert sum(values.n for values in binned[0].values["wall"].values()) > 300
