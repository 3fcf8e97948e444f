"""`report hosts`: factors between classes on shared work, what differs, if it matters, and what none can tell."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from rows_of_runs import BEGIN, DAY, data_of, kept, noisy, run

from proofcost import cli
from proofcost.harness.columns import Row
from proofcost.harness.hostclass import name_of
from proofcost.reports.document import Bound, Document, Entry, Estimate, Missing, Table
from proofcost.reports.hosts import document
from proofcost.reports.hosts_data import hosts_found
from proofcost.reports.where import parse

A, B, C = "aaaaaaaaaaaaaaaa-11111111", "bbbbbbbbbbbbbbbb-11111111", "cccccccccccccccc-11111111"


def report(folder: Path, rows: list[Row]) -> Document:
    return document(hosts_found(data_of(folder, rows), parse([])))


def table(made: Document, key: str) -> Table:
    return next(one for one in made.tables() if one.key.startswith(key))


def on(host_class: str, subject: str, walls: list[float], **more: object) -> list[Row]:
    return [
        run(wall, host_class=host_class, host=host_class, boot=host_class, workload=subject, **more) for wall in walls
    ]


def value(entry: Entry) -> float:
    assert isinstance(entry, Estimate)
    return entry.value


def test_noise_free_factors_come_back_exactly(tmp_path: Path) -> None:
    rows = []
    for work in range(6):
        rows += on(A, f"w{work}", [100 * (work + 1)] * 3) + on(B, f"w{work}", [125 * (work + 1)] * 3)
        if work:
            rows += on(C, f"w{work}", [50 * (work + 1)] * 3)
    made = report(tmp_path, rows)
    factors = {row[0]: row[1] for row in table(made, "factors_wall").rows}
    assert factors[A] == 1.0
    assert value(factors[B]) == pytest.approx(1.25, abs=1e-9)
    assert value(factors[C]) == pytest.approx(0.5, abs=1e-9)
    works = {(row[0], row[2]): row for row in table(made, "works_wall").rows}
    raw, normalised = works["w1", B][4:6]
    assert raw == 250_000_000
    assert normalised == pytest.approx(200_000_000, rel=1e-9)
    # It never ran there: half of what it takes on A.
    _, _, _, runs, raw, normalised, predicted = works["w0", C]
    assert (runs, raw, normalised) == (0, Missing("never ran there"), Missing("never ran there"))
    assert value(predicted) == pytest.approx(50_000_000, rel=1e-9)
    assert made.answer.startswith(f"wall: {B} 1.250 times {A}, {C} 0.500 times {A}")


def test_time_leads_and_instructions_stand_beside_it(tmp_path: Path) -> None:
    rows = [row for at in range(6) for row in (
        *on(A, f"w{at}", [100] * 3, instructions_u=10**9), *on(B, f"w{at}", [130] * 3, instructions_u=10**9)
    )]  # fmt: skip
    answer = report(tmp_path, rows).answer
    assert answer.startswith(f"wall: {B} 1.300 times {A}")
    assert f"instructions: {B} 1.000 times {A}" in answer
    counted = [{name: value for name, value in row.items() if name != "wall_program"} for row in rows]
    assert "No time was measured on both" in report(tmp_path / "counted", counted).answer


def test_a_prediction_has_an_interval_that_holds_a_run_there(tmp_path: Path) -> None:
    rows = []
    for work in range(12):
        rows += on(A, f"w{work:02}", noisy(100 * (work + 1), 0.01, 6, work))
        if work:
            rows += on(B, f"w{work:02}", noisy(130 * (work + 1), 0.01, 6, 100 + work))
    predicted = next(row[6] for row in table(report(tmp_path, rows), "works_wall").rows if row[3] == 0)
    assert isinstance(predicted, Estimate)
    assert predicted.low is not None
    assert predicted.high is not None
    assert predicted.low < 130e6 < predicted.high
    assert predicted.high / predicted.low < 1.1


def test_hosts_without_shared_work_are_not_comparable(tmp_path: Path) -> None:
    rows = on(A, "one", [100] * 3) + on(B, "two", [100] * 3)
    made = report(tmp_path, rows)
    assert "not comparable" in made.answer
    assert A in made.answer
    assert B in made.answer
    assert not [one for one in made.tables() if one.key.startswith("factors")]
    (row,) = table(made, "host_differences").rows
    assert row[6] == "not comparable: they share no work"
    (pair,) = table(made, "host_pairs").rows
    assert isinstance(pair[3], Missing)


def test_classes_without_a_figure_in_common_are_not_comparable(tmp_path: Path) -> None:
    rows = [*on(A, "one", [100] * 3), run(None, host_class=B, workload="one", instructions_u=5)]
    assert report(tmp_path, rows).answer == f"Not comparable: {A}, {B} have no figure in common."


def test_another_binary_connects_nothing(tmp_path: Path) -> None:
    rows = on(A, "one", [100] * 3) + on(B, "one", [100] * 3, kernel_sha256="e" * 64)
    assert "not comparable" in report(tmp_path, rows).answer


def test_where_kernels_differ_there_is_no_one_factor(tmp_path: Path) -> None:
    rows = []
    for work in range(8):
        for kernel, factor in (("fast", 1.0), ("vector", 1.5)):
            more = {"kernel": kernel, "kernel_sha256": kernel}
            rows += on(A, f"w{work}", noisy(100, 0.002, 4, work), **more)
            rows += on(B, f"w{work}", noisy(100 * factor, 0.002, 4, 50 + work), **more)
    made = report(tmp_path, rows)
    assert "kernels differ in what a host costs them" in made.answer
    common = {row[0]: row[1] for row in table(made, "factors_wall").rows}
    assert isinstance(common[B], Missing)
    own = {row[0]: row[2] for row in table(made, "interaction_wall").rows}
    fast, vector = (
        next(of for name, of in own.items() if str(name).startswith(kernel)) for kernel in ("fast", "vector")
    )
    assert fast == pytest.approx(1.0, abs=0.01)
    assert vector == pytest.approx(1.5, abs=0.01)
    # Normalised by its own factor, each costs what it does on the base host.
    for row in table(made, "works_wall").rows:
        assert row[5] == pytest.approx(100e6, rel=0.02)


def described(store: Path, **changes: object) -> str:
    """A store's description of a host class; its name."""
    matters = {"version": 1, "cpu_models": ["Model X"], "cpus_count": 4, "memory_gib_count": 16, **changes}
    declarable = {"microcode": ["0x1"], "kernel_release": "6.1"}
    name = name_of(matters, declarable)  # type: ignore[arg-type]
    folder = store / "hosts" / name
    folder.mkdir(parents=True)
    (folder / "boot.json").write_text(json.dumps({"class": name, "matters": matters, "declarable": declarable}))
    return name


@pytest.mark.parametrize(("factor", "said"), [(1.3, "yes: wall"), (1.0, "no: wall")])
def test_what_differs_is_shown_with_whether_it_matters(factor: float, said: str, tmp_path: Path) -> None:
    one, other = described(tmp_path), described(tmp_path, memory_gib_count=32)
    rows = []
    for work in range(8):
        rows += on(one, f"w{work}", noisy(100, 0.001, 4, work)) + on(
            other, f"w{work}", noisy(100 * factor, 0.001, 4, 9 + work)
        )
    kept(tmp_path / "parquet", rows)
    from proofcost.reports.dataset import open_data

    made = document(hosts_found(open_data([tmp_path]), parse([])))
    (row,) = table(made, "host_differences").rows
    assert row[2:4] == ["memory_gib_count", "what matters for cost"]
    assert {row[4], row[5]} == {"16", "32"}
    assert row[6] == said
    (pair,) = table(made, "host_pairs").rows
    assert pair[2] == "wall"
    assert pair[4] in ("yes: more than 2.0%", "no: within 2.0%")
    ratio = value(pair[3])
    assert (ratio if row[0] == one else 1 / ratio) == pytest.approx(factor, rel=0.01)
    classes = {row[0]: row for row in table(made, "host_classes").rows}
    assert classes[one][1:] == ["Model X, 4 CPUs, 16 GiB", 1, 32]


def test_equal_instructions_do_not_hide_that_seconds_differ(tmp_path: Path) -> None:
    rows = []
    for work in range(8):
        rows += on(A, f"w{work}", noisy(100, 0.001, 4, work), instructions_u=1000)
        rows += on(B, f"w{work}", noisy(130, 0.001, 4, 9 + work), instructions_u=1000)
    made = report(tmp_path, rows)
    assert [row[6] for row in table(made, "host_differences").rows] == ["yes: wall"]
    assert {row[2]: str(row[4])[:3] for row in table(made, "host_pairs").rows} == {"instructions": "no:", "wall": "yes"}


def test_a_description_under_anothers_name_is_none(tmp_path: Path) -> None:
    name = described(tmp_path)
    file = next(tmp_path.glob("hosts/*/*.json"))
    file.write_text(file.read_text().replace("Model X", "Model Y"))
    for at, text in enumerate(["", "[]", "{", "null", '{"class": 1}', "[" * 50_000]):
        (file.parent / f"{at}.json").write_text(text)
    kept(tmp_path / "parquet", on(name, "w", [100]))
    from proofcost.reports.dataset import open_data

    made = document(hosts_found(open_data([tmp_path]), parse([])))
    assert isinstance(table(made, "host_classes").rows[0][1], Missing)


def test_instructions_per_cycle_stand_where_both_were_counted(tmp_path: Path) -> None:
    rows = on(A, "w", [100] * 3, instructions_u=3000, cycles_u=1000) + on(B, "w", [100] * 3, instructions_u=3000)
    made = report(tmp_path, rows)
    assert [list(row) for row in table(made, "ipc").rows] == [["k", A, 3.0]]


def test_two_machines_under_one_name_are_said_loudly(tmp_path: Path) -> None:
    rows = [run(100, boot=boot, started_ns=BEGIN + at * DAY) for at in range(4) for boot in ("one", "two")]
    made = report(tmp_path, rows)
    assert any(note.startswith("TWO MACHINES UNDER ONE NAME: host h ") for note in made.notes)
    apart = [run(100, boot=f"b{at}", started_ns=BEGIN + at * DAY) for at in range(4)]
    assert not any("TWO MACHINES" in note for note in report(tmp_path, apart).notes)


def test_a_clock_that_ran_backwards_is_said(tmp_path: Path) -> None:
    rows = [run(100, block=at + 1, place=1, started_ns=BEGIN - at * DAY) for at in range(4)]
    assert any("the clock of day does not follow" in note for note in report(tmp_path, rows).notes)
    rows = [run(100, block=at + 1, place=1, started_ns=BEGIN + at * DAY) for at in range(4)]
    assert not any("the clock of day" in note for note in report(tmp_path, rows).notes)


def test_verdicts_that_differ_by_host_are_said_and_not_compared(tmp_path: Path) -> None:
    rows = on(A, "w", [100] * 3) + on(B, "w", [200] * 3, verdict="rejected", exit_code=1)
    made = report(tmp_path, rows)
    assert any(note.startswith("VERDICTS DIFFER BY HOST CLASS: k on w: accepted, rejected") for note in made.notes)
    assert not [one for one in made.tables() if one.key.startswith("factors")]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "there is no record"),
        ([run(100)], "there is nothing to compare it with"),
        (on(A, "w", [100]) + on(B, "w", [100]), "1.000 times"),
        ([run(None, outcome="signaled", cause="crashed", verdict=None)], "no run came to an end"),
        ([run(100, host_class=None)], "host class"),
    ],
)
def test_little_or_nothing_says_so(
    rows: list[Row], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(["report", "hosts", str(kept(tmp_path, rows))])
    streams = capsys.readouterr()
    assert said in (streams.out if status == 0 else streams.err)
    assert status == 0 or streams.err.count("\n") == 1


def test_figures_stay_finite(tmp_path: Path) -> None:
    rows = on(A, "w", [1e-6, 1e12]) + on(B, "w", [1e-6, 1e12])
    for one in report(tmp_path, rows).tables():
        for row in one.rows:
            for entry in row:
                number = entry.value if isinstance(entry, Estimate | Bound) else entry
                assert not isinstance(number, float) or math.isfinite(number)
