"""What a plan refuses or says first: limits that stop verdicts, classes that are none, drift, sides of a promise."""

import subprocess
import sys
from pathlib import Path

import pytest
from planning import GB, S, command, fleet, plan_of, row, spread, store

from proofcost.cli import main
from proofcost.harness.described import DescriptionError
from proofcost.reports.plan import page
from proofcost.reports.plan.asked import read
from proofcost.reports.plan.evidence import PlanError
from proofcost.reports.plan.limits import What


class TestKindsOfTime:
    def test_a_timeout_stored_as_0_is_no_other_kind_of_time(self, tmp_path: Path) -> None:
        """All times are of the program alone; the two time-outs count at their limit, not at 0."""
        rows = [row(n, wall_command=None, wall_program=(n + 1) * S, time_limit_ns=900 * S) for n in range(30)]
        late = {"wall_command": None, "wall_program": 0, "time_limit_ns": 900 * S, "outcome": "timed_out",
                "cause": "time_limit"}  # fmt: skip
        plan = plan_of(store(tmp_path, [*rows, *(row(30 + n, **late) for n in range(2))]))
        assert plan.time.amounts.values.max() == 900 * S
        assert plan.time.amounts.stopped.sum() == 2

    def test_nor_is_a_kill_stored_without_a_peak(self, tmp_path: Path) -> None:
        rows = [row(n, memory_peak_tree=None, memory_peak_process=GB) for n in range(30)]
        killed = row(30, memory_peak_tree=None, memory_limit_bytes=8 * GB, cause="memory_limit")
        assert plan_of(store(tmp_path, [*rows, killed])).memory.amounts.values.max() == 8 * GB

    def test_two_kinds_are_still_refused(self, tmp_path: Path) -> None:
        rows = [row(n) for n in range(3)] + [row(3, wall_command=None, wall_program=S)]
        with pytest.raises(PlanError, match="of others only times of the program alone"):
            plan_of(store(tmp_path, rows))


class TestClasses:
    def test_a_label_that_no_record_has(self, tmp_path: Path) -> None:
        folder = store(tmp_path, [row(n, labels={"tier": "hard"}, covariates={"size": 3}) for n in range(5)])
        with pytest.raises(PlanError, match=r"no record has a label 'nosuch'; there are tier$"):
            plan_of(folder, 'limits.by=["label.nosuch"]')
        with pytest.raises(PlanError, match="no record has a covariate 'siez'; did you mean size"):
            plan_of(folder, 'limits.by=["covariate.siez"]')
        assert [one.group.of for one in plan_of(folder, 'limits.by=["label.tier"]').groups] == ["label.tier=hard"]

    def test_more_than_50_are_refused_with_what_to_take_instead(self, tmp_path: Path) -> None:
        folder = store(tmp_path, spread(51))
        with pytest.raises(PlanError, match=r"record: 51 classes of submission, and 50 at most .* \(input_bytes"):
            plan_of(folder, 'limits.by=["record"]')


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("fleet.rat", "unknown key; did you mean rate?"),
        ("fleet.deadlin", "unknown key; did you mean deadline?"),
        ("host.siz", "unknown key; did you mean size?"),
    ],
)
def test_a_misspelt_key_is_named_before_what_lacks_for_it(key: str, said: str) -> None:
    with pytest.raises(DescriptionError, match=said.replace("?", r"\?")):
        read(None, [(key, key, "8h")])


def test_drift_is_in_the_answer(tmp_path: Path) -> None:
    plan = plan_of(fleet(tmp_path, "drifting", 4000, days=2), "limits.oom=5%", "limits.timeouts=5%")
    said = page.answer(plan)
    assert [one.what for one in page.drifts(plan)] == [What.TIME, What.MEMORY]
    assert " But costs drift: the newer half of the records needs " in said
    assert said.endswith("plan from the newest (--since).")


def test_a_steady_fleet_has_no_but_and_the_table_says_which_figure_has_which_sides(tmp_path: Path) -> None:
    plan = plan_of(store(tmp_path, spread(400)))
    assert "drift" not in page.answer(plan)
    table = page.chosen_section(plan).blocks[0]
    assert "two-sided interval" in " ".join(table.notes)  # type: ignore[union-attr]
    assert "one side only" in " ".join(table.notes)  # type: ignore[union-attr]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["plan", "--data"], ["report", "kernels"]])
def test_a_full_disk_behind_stdout_is_called_stdout(words: list[str], tmp_path: Path) -> None:
    folder = store(tmp_path, spread(12, phase="checker", kernel="k"))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "proofcost", *words, str(folder)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "proofcost: stdout: the output cannot be written: No space left on device\n"


def test_a_name_that_is_no_utf_8_is_shown_as_its_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "nowhere\udcff.toml"]) == 2
    assert r"nowhere\xff.toml: cannot be read" in capsys.readouterr().err
    assert command("nowhere\udcff.toml").stderr.startswith(r"proofcost: plan: nowhere\xff.toml: ")


class TestLargeBatches:
    GIVEN = ("host.size=64c/1T", "host.price=1/h", "sandbox.cores=1", "sandbox.disk=1G")
    WHOLE = (*GIVEN, "fleet.batch=10000000", "fleet.deadline=8h")

    def test_so_many_are_bounded_and_said_to_be(self, tmp_path: Path) -> None:
        """10 million verdicts of 10 s on 64 sandboxes a host: 54.3 hosts by the work alone."""
        folder = store(tmp_path, [{**one, "wall_command": 10 * S} for one in spread(400)])
        plan = plan_of(folder, *self.WHOLE, alternatives=True)
        assert plan.batch is not None
        assert (plan.batch.simulated, plan.batch.at_least, plan.batch.hosts) == (False, 55, 55)
        assert plan.batch.bound_s == pytest.approx(1e8 / 64 / 55)
        assert plan.batch.bound_s <= plan.batch.makespan_s.value <= plan.batch.bound_s + 10
        assert "with 55 hosts 10000000 verdicts are done within 8 h (by bounds: so many" in page.answer(plan)
        assert "an hour: at most " in page.answer(plan)
        assert plan.alternatives is not None
        assert all(one.at_most for one in plan.alternatives.outcomes)

    def test_bounds_and_simulation_agree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from proofcost.reports.plan import fleet as module

        folder = store(tmp_path, spread(400))
        simulated = plan_of(folder, *self.GIVEN, "fleet.batch=9000", "fleet.deadline=5m").batch
        monkeypatch.setattr(module, "MOST_PLACED", 0)
        bounded = plan_of(folder, *self.GIVEN, "fleet.batch=9000", "fleet.deadline=5m").batch
        assert simulated is not None
        assert bounded is not None
        assert (simulated.simulated, bounded.simulated) == (True, False)
        assert simulated.hosts == bounded.hosts == 3
        assert bounded.makespan_s.value == pytest.approx(simulated.makespan_s.value, rel=0.03)
        assert simulated.makespan_s.value <= bounded.makespan_s.value

    def test_hosts_that_do_not_suffice_are_told_so(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, spread(400)), *self.WHOLE, "fleet.hosts=5")
        assert "with 5 hosts it is not sure that 10000000 verdicts are done" in page.answer(plan)
        with pytest.raises(PlanError, match="need more than 5 hosts, which do about"):
            plan_of(tmp_path, *self.WHOLE, "fleet.hosts_most=5")


class TestGivenLimits:
    """400 verdicts of 1 to 400 s and 1 to 400 MB."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return store(tmp_path, [row(n, wall_command=n * S, memory_peak_tree=n * 10**6) for n in range(1, 401)])

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("sandbox.time=1ms", "1.00 ms of time stops every verdict: the least that any of 400 took is 1.00 s"),
            ("sandbox.memory=999K", "999 kB of memory stops every verdict: the least that any of 400 took is 1.00 MB"),
            ("sandbox.size=1c/1K", "1.00 kB of memory stops every verdict"),
        ],
    )
    def test_one_that_stops_all_is_refused(self, given: str, said: str, folder: Path) -> None:
        with pytest.raises(PlanError, match=f"^{given}: {said}"):
            plan_of(folder, given)

    def test_one_that_stops_many_leads_with_it(self, folder: Path) -> None:
        """300 s stop a quarter, 200 MB a half, which is in part the same."""
        said = page.answer(plan_of(folder, "sandbox.time=300s", "sandbox.memory=200M"))
        lead = (
            "As given, 50 % of verdicts would be stopped (50 % by memory, where 1 % may be; 25 % by time, where 1 % may"
        )
        assert said.startswith(lead), said

    def test_one_within_its_target_does_not(self, folder: Path) -> None:
        assert page.answer(plan_of(folder, "sandbox.time=396s", "sandbox.memory=400M")).startswith("Give a sandbox")

    def test_an_alternative_that_stops_all_is_none(self, tmp_path: Path) -> None:
        text = tmp_path / "p.toml"
        text.write_text("[[alternative]]\nname = 'a wink'\ntime = '1ms'\n")
        from planning import data_of

        from proofcost.reports.plan import made
        from proofcost.reports.where import parse

        given = [(one, *one.partition("=")[::2]) for one in ("host.size=8c/64G", "fleet.rate=100/h")]
        plan = made.make(data_of(store(tmp_path / "s", spread(400))), parse([]), read(str(text), given))
        assert plan.alternatives is not None
        wink = next(one for one in plan.alternatives.outcomes if one.name == "a wink")
        assert wink.impossible
        assert "stops every verdict" in (wink.why_not or "")


class TestManySandboxes:
    def test_peaks_are_not_added_up_where_cores_bind_anyway(self, tmp_path: Path) -> None:
        plan = plan_of(store(tmp_path, spread(400)), "host.size=4c/900T", "sandbox.cores=1", "host.overcommit=0.1%")
        assert plan.host is not None
        assert (plan.host.count, plan.host.overcommit) == (4, None)
        assert "more than cores can take" in plan.host.no_overcommit

    def test_nor_beyond_1024_which_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from proofcost.reports.plan import host

        monkeypatch.setattr(host, "MOST_ADDED", 8)
        folder = store(tmp_path, spread(400))
        plan = plan_of(folder, "host.size=20c/90G", "sandbox.cores=1")
        assert plan.host is not None
        assert (plan.host.overcommit, plan.host.no_overcommit) == (None, "not added up beyond 8 sandboxes")
        with pytest.raises(PlanError, match="peaks are added up for 8 sandboxes a host at most"):
            plan_of(folder, "host.size=20c/90G", "sandbox.cores=1", "host.overcommit=0.1%")
