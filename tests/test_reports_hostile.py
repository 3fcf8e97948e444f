"""Names are other people's: no report lets one through as markup, a terminal's command, a path or a formula."""

from __future__ import annotations

from pathlib import Path

import pytest
from rows_of_runs import BEGIN, DAY, kept, noisy, run

from proofcost import cli
from proofcost.harness.columns import Row

EVIL = "\x1b[31m<script>alert(1)</script>|`$x$`\n=cmd()\u202e/../../up"
KINDS = ("submissions", "history", "hosts", "noise")
ONE, OTHER = "aaaaaaaaaaaaaaaa-11111111", "bbbbbbbbbbbbbbbb-11111111"


def rows() -> list[Row]:
    made = []
    for host_at, host_class in enumerate((ONE, OTHER)):
        for name in ("x", EVIL):
            for at, wall in enumerate(noisy(100, 0.01, 14, host_at)):
                made.append(
                    run(
                        wall, host_class=host_class, host=name, boot=f"{host_class}{name}", kernel=name, workload=name,
                        sandbox=name, labels={"commit": f"{at}{name}", "submission": name, "problem": name},
                        plan=f"p{at}{name}{host_at}", block=1, place=1, started_ns=BEGIN + at * DAY + host_at,
                        memory_peak_tree=int(wall * 10**6), instructions_u=int(wall * 10**6), cycles_u=10**6,
                    )
                )  # fmt: skip
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_is_more_than_text(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(kept(tmp_path, rows()))
    assert cli.main(["report", kind, data]) == 0
    streams = capsys.readouterr()
    assert "\x1b" not in streams.out + streams.err
    assert "\u202e" not in streams.out
    folder = tmp_path / "out"
    folder.mkdir()
    for suffix in ("html", "md"):
        assert cli.main(["report", kind, data, "-o", str(folder / f"x.{suffix}")]) == 0
        text = (folder / f"x.{suffix}").read_text()
        assert "<script>alert" not in text
        assert "\x1b" not in text
    assert cli.main(["report", kind, data, "-o", str(tmp_path / "site")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "site", "x.0.parquet"]
    assert all(path.parent == tmp_path / "site" for path in (tmp_path / "site").rglob("*"))


def test_nor_is_a_name_in_a_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(kept(tmp_path, [{**row, "kernel": "k", "workload": EVIL} for row in rows()]))
    other = str(kept(tmp_path, rows(), "y"))
    for words in (
        ["report", "kernels", data],
        ["compare", data, other],
        ["report", "history", data, "--along", EVIL],
        ["report", EVIL, "-o", str(tmp_path / "site")],
    ):
        assert cli.main(words) == 2
        err = capsys.readouterr().err
        assert "\x1b" not in err
        assert err.count("\n") == 1, err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1, 2**62])
def test_the_least_and_the_largest_figures_are_figures(kind: str, value: int, tmp_path: Path) -> None:
    made = [
        run(None, wall_program=value, host_class=host, workload=f"w{at}") for host in (ONE, OTHER) for at in range(6)
    ]
    made += [run(None, wall_program=1, host_class=host, workload="w0") for host in (ONE, OTHER)]
    data = kept(tmp_path, made)
    assert cli.main(["report", kind, str(data), "-o", str(tmp_path / "x.json")]) == 0
    assert "Infinity" not in (tmp_path / "x.json").read_text()
    assert "NaN" not in (tmp_path / "x.json").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_an_old_store_that_know_less_are_read(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what every version had: an id, a phase, an outcome, a wall."""
    made = [
        {"record": f"r{at}", "phase": "checker", "outcome": "exited", "exit_code": 0, "wall_program": 10**9 + at,
         "started_ns": BEGIN + at, "session": "s"}
        for at in range(20)
    ]  # fmt: skip
    status = cli.main(["report", kind, str(kept(tmp_path, made))])
    said = {"hosts": "no run tells its host class", "noise": "no run tells its host class"}
    said |= {"submissions": "no run tells subject, of 20 runs: name another with --submission"}
    assert status == (2 if kind in said else 0)
    assert said.get(kind, "") in capsys.readouterr().err
