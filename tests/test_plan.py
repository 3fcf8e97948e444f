"""From records to limits: what counts, what is a bound, what is left out, and when there is not enough."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planning import GB, START_NS, S, fleet, plan_of, row, spread, store

from proofcost.reports.plan import page
from proofcost.reports.plan.evidence import PlanError
from proofcost.reports.plan.jobs import Unit
from proofcost.reports.plan.limits import What, rounded_up
from proofcost.reports.plan.synth import MEDIAN_BYTES, MEDIAN_S, MEMORY_SPREAD, SPREAD
from proofcost.reports.statistics.safe_limit import Evidence


def test_the_limits_of_a_light_fleet_are_right_about_its_truth(tmp_path: Path) -> None:
    plan = plan_of(fleet(tmp_path, "light", 20_000, days=3))
    assert plan.verdicts.unit is Unit.WHOLE
    assert plan.verdicts.count == 4000
    # The truth: log-normal; a limit for 1 % lies at its p99 or above, but below its p99.9.
    for made, middle, spread_of, scale in (
        (plan.memory, MEDIAN_BYTES, MEMORY_SPREAD, 1),
        (plan.time, MEDIAN_S, SPREAD, S),
    ):
        assert made.set_to is not None
        assert middle * math.exp(2.326 * spread_of) * scale < made.set_to < middle * math.exp(3.1 * spread_of) * scale
        assert made.limit.evidence is Evidence.ENOUGH


def test_a_limit_is_read_no_lower_than_it_is() -> None:
    assert rounded_up(7_311_234_567.0) == 7_320_000_000
    assert rounded_up(7_310_000_000.0) == 7_310_000_000
    assert rounded_up(999_100_000.0) == 1_000_000_000
    assert rounded_up(12.5) == 13


def test_too_few_runs_say_how_many_are_needed(tmp_path: Path) -> None:
    plan = plan_of(store(tmp_path, spread(12)))
    assert plan.memory.set_to is None
    assert plan.memory.why_not == "not enough data: 12 runs; p99 needs 299"
    document = page.document(plan)
    assert document.answer == ("Not enough data: memory: 12 runs; p99 needs 299; time: 12 runs; p99 needs 299.")
    assert "measure 287 more submissions" in " ".join(document.sections[-1].text)
    # 5 % may fail: 59 do.
    assert plan_of(store(tmp_path / "b", spread(59)), "limits.oom=5%").memory.set_to is not None
    assert plan_of(store(tmp_path / "c", spread(58)), "limits.oom=5%").memory.set_to is None


def test_kills_are_bounds_and_feed_no_limit(tmp_path: Path) -> None:
    """Half of them at 4 GiB: whoever was killed there needed more, and nobody knows how much."""
    rows = spread(600)
    for at in range(0, 600, 2):
        rows[at] |= {"memory_limit_bytes": 4 << 30, "cause": "memory_limit", "outcome": "signaled",
                     "memory_peak_tree": 4 << 30}  # fmt: skip
    plan = plan_of(store(tmp_path, rows))
    assert plan.memory.limit.stopped == 300
    assert plan.memory.set_to is None
    assert plan.memory.limit.evidence in (Evidence.CENSORED, Evidence.NOT_SURE)
    said = page.document(plan).answer
    assert "some must run with more" in said


def test_a_peak_at_its_cap_is_a_bound_even_if_nobody_was_killed(tmp_path: Path) -> None:
    capped = plan_of(
        store(tmp_path / "a", [*spread(400), row(999, memory_peak_tree=4 * GB, memory_limit_bytes=4 * GB)])
    )
    free = plan_of(store(tmp_path / "b", [*spread(400), row(999, memory_peak_tree=4 * GB, memory_limit_bytes=8 * GB)]))
    assert capped.memory.limit.stopped == 1
    assert free.memory.limit.stopped == 0


def test_a_time_out_is_censored_and_a_fake_one_is_left_out(tmp_path: Path) -> None:
    rows = [
        *spread(400),
        row(900, outcome="timed_out", cause="time_limit", exit_code=None, wall_command=60 * S, time_limit_ns=60 * S),
        # Stored as nothing: it was stopped at its limit all the same.
        row(901, outcome="timed_out", cause="time_limit", exit_code=None, wall_command=None, time_limit_ns=60 * S),
        row(902, outcome="timed_out", cause="time_limit", exit_code=None, wall_command=2 * S, time_limit_ns=60 * S),
    ]
    plan = plan_of(store(tmp_path, rows))
    assert plan.time.limit.runs == 402
    assert plan.time.limit.stopped == 2
    assert float(plan.time.amounts.values.max()) == 60 * S
    assert any("called a time-out" in note and note.startswith("left out: 1 run") for note in page.notes(plan))


def test_repetitions_of_one_submission_are_no_news_about_others(tmp_path: Path) -> None:
    rows = [one | {"subject": "the same"} for one in spread(400)]
    plan = plan_of(store(tmp_path, rows))
    assert plan.memory.limit.runs == 1
    assert plan.memory.set_to is None
    assert plan.memory.amounts.values[0] == max(one["memory_peak_tree"] for one in rows)
    assert page.ONE_SUBMISSION in page.notes(plan)


def test_a_verdict_is_the_sum_of_a_session_where_nobody_measured_the_whole(tmp_path: Path) -> None:
    rows = []
    for at in range(60):
        for phase, wall, peak in (("build", 3 * S, GB), ("export", S, 2 * GB), ("checker", 2 * S, GB)):
            rows.append(
                row(at, record=f"r{at}-{phase}", phase=phase, wall_command=wall, memory_peak_tree=peak,
                    kernel="nanoda" if phase == "checker" else None, input_bytes=10**6 if phase == "checker" else None)
            )  # fmt: skip
    plan = plan_of(store(tmp_path, rows), "limits.oom=5%", "limits.timeouts=5%")
    assert plan.verdicts.unit is Unit.SESSION
    assert plan.verdicts.count == 60
    assert set(plan.verdicts.wall_ns.tolist()) == {6e9}
    assert set(plan.verdicts.memory_bytes.tolist()) == {2e9}
    assert set(plan.verdicts.size_bytes.tolist()) == {1e6}
    assert [group.group.name for group in plan.groups] == ["build", "checker nanoda", "export"]


def test_records_without_a_session_of_their_own_stand_each_for_itself(tmp_path: Path) -> None:
    rows = [one | {"session": "a file"} for one in spread(30)]
    plan = plan_of(store(tmp_path, [one | {"phase": "checker", "kernel": "k"} for one in rows]))
    assert plan.verdicts.unit is Unit.RECORD
    assert plan.verdicts.count == 30


def test_classes_of_submission_have_limits_of_their_own(tmp_path: Path) -> None:
    rows = spread(120)
    for at, one in enumerate(rows):
        hard = at % 2
        one |= {"labels": {"tier": "hard" if hard else "easy"}, "input_bytes": 10**7 if hard else 10**4,
                "phase": "checker", "kernel": "nanoda", "wall_command": one["wall_command"] * 100**hard}  # fmt: skip
    folder = store(tmp_path, rows)
    plan = plan_of(folder, 'limits.by=["label.tier"]', "limits.timeouts=5%")
    easy, difficult = plan.groups
    assert (easy.group.name, difficult.group.name) == (
        "checker nanoda, label.tier=easy",
        "checker nanoda, label.tier=hard",
    )
    assert easy.time.set_to is not None
    assert difficult.time.set_to is not None
    assert difficult.time.set_to > 20 * easy.time.set_to
    sized = plan_of(folder, 'limits.by=["input_bytes"]')
    assert [one.group.of for one in sized.groups] == [
        "input_bytes from 10000 to 100000",
        "input_bytes from 10000000 to 100000000",
    ]
    with pytest.raises(PlanError, match=r"no class can be made of 'kernal'; did you mean kernel\?"):
        plan_of(folder, 'limits.by=["kernal"]')


def test_time_limits_by_size_replace_a_rule_of_thumb(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = []
    for at in range(1600):
        size = 10 ** random.uniform(4, 6)
        wall = int(S * (size / 1e4) ** 0.8 * math.exp(0.2 * random.standard_normal()))
        rows.append(row(at, phase="checker", kernel="nanoda", input_bytes=int(size), wall_command=wall))
    rule = "limits.rule=3h + 15m/MB up to 6h"
    plan = plan_of(store(tmp_path, rows), "limits.timeouts=5%", rule)
    assert plan.sized is not None
    lines = [one.line for one in plan.sized.advice.classes if one.line is not None]
    assert len(lines) == 4
    assert lines == sorted(lines)
    assert plan.sized.tested is not None
    assert plan.sized.low is not None
    assert plan.sized.low <= 0.05, "the promise holds on the half that it was not made from"
    assert plan.sized.rule is not None
    assert plan.sized.rule.share == 0.0
    assert plan.sized.rule.mean_limit_ns > 100 * lines[-1]


def test_a_ladder_is_cheaper_where_few_need_much(tmp_path: Path) -> None:
    plan = plan_of(fleet(tmp_path, "bimodal", 10_000, days=2), "limits.ladder=3")
    assert plan.ladder is not None
    rungs = plan.ladder.ladder.limits
    assert list(rungs) == sorted(set(rungs))
    assert rungs[-1] == plan.memory.limit.amount
    assert plan.ladder.saved > 0.3
    # By hand: the curve's own shares.
    curve = plan.memory.limit.curve
    over = [curve.exceedance(rung).value or 0.0 for rung in rungs]
    cost = rungs[0] + sum(rung * left for rung, left in zip(rungs[1:], over, strict=False))
    assert plan.ladder.ladder.cost == pytest.approx(cost)


def test_a_tail_is_drawn_on_request_only_and_never_beyond_kills(tmp_path: Path) -> None:
    assert plan_of(fleet(tmp_path / "light", "light", 4_000, days=2)).tails == ()
    (_, memory), (_, time) = plan_of(tmp_path / "light", "limits.tail=true").tails
    assert memory.tail is not None
    assert time.tail is not None
    (_, killed), _ = plan_of(fleet(tmp_path / "heavy", "heavy", 10_000, days=2), "limits.tail=true").tails
    assert killed.tail is None
    assert killed.why_not is not None
    assert "stopped" in killed.why_not


def test_what_each_target_costs(tmp_path: Path) -> None:
    plan = plan_of(fleet(tmp_path, "light", 20_000, days=3), "limits.timeouts=2%")
    times = dict(plan.bids)[What.TIME]
    assert [bid.target for bid in times] == [0.05, 0.02, 0.01, 0.001]
    limits = [bid.choice.set_to for bid in times]
    assert None not in limits
    assert limits == sorted(limits, key=lambda one: one or 0)
    for bid in times:
        assert bid.bought is not None
        assert bid.bought.solved.value is not None
        assert 1 - bid.target <= bid.bought.solved.value <= 1
        assert bid.bought.cost_per_verdict == pytest.approx(5.2 * S, rel=0.05)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"weak": {"memory_peak_tree": "sampled"}}, "journal: 80 peaks by sampling"),
        (
            {"memory_peak_tree": None, "source": "harbor", "absent": {"memory_peak_tree": "Harbor keeps none"}},
            "harbor: no memory in 80 of 80 runs (Harbor keeps none)",
        ),
        ({"memory_peak_tree": None, "memory_peak_process": GB}, "journal: 80 peaks are of the largest process alone"),
        ({"defects": ["a known one"], "source": "arena"}, "arena: a known one (80 runs)"),
    ],
)
def test_weaknesses_of_sources_go_into_the_answer(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    plan = plan_of(store(tmp_path, [row(at, **changed) for at in range(80)]))
    assert any(note.startswith(said) for note in page.notes(plan)), page.notes(plan)


def test_without_any_memory_there_is_a_time_limit_and_a_reason(tmp_path: Path) -> None:
    plan = plan_of(store(tmp_path, [row(at, memory_peak_tree=None) for at in range(400)]), "host.size=8c/64G")
    assert plan.memory.why_not == "not enough data: no run tells its memory"
    assert plan.time.set_to == 5 * S
    assert plan.host is None


def test_drift_is_said(tmp_path: Path) -> None:
    assert not any("drift" in note for note in page.notes(plan_of(fleet(tmp_path / "a", "light", 4000, days=2))))
    notes = page.notes(plan_of(fleet(tmp_path / "b", "drifting", 4000, days=2)))
    assert sum(note.startswith("drift: the newer half of the records needs") for note in notes) == 2


class TestNothingToPlanFrom:
    def test_no_records(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match=r"no record to plan from; measure some"):
            plan_of(store(tmp_path, [row(1)]), where=["kernel=none"])

    def test_only_runs_that_never_began(self, tmp_path: Path) -> None:
        folder = store(tmp_path, [row(at, outcome="incomplete", cause=None, wall_command=None) for at in range(5)])
        with pytest.raises(PlanError, match=r"nothing to plan from: 5 runs of which only the start is known"):
            plan_of(folder)

    def test_only_fake_time_outs(self, tmp_path: Path) -> None:
        rows = [row(at, outcome="timed_out", cause="time_limit", time_limit_ns=600 * S) for at in range(5)]
        with pytest.raises(PlanError, match=r"nothing to plan from: 5 runs called a time-out"):
            plan_of(store(tmp_path, rows))

    def test_only_failures_give_no_limit(self, tmp_path: Path) -> None:
        rows = [
            row(at, outcome="signaled", cause="memory_limit", memory_limit_bytes=2 * GB, exit_code=None)
            for at in range(400)
        ]
        plan = plan_of(store(tmp_path, rows), "host.size=8c/64G", "fleet.rate=4/h")
        assert plan.memory.limit.evidence is Evidence.CENSORED
        assert plan.time.limit.evidence is Evidence.CENSORED
        assert (plan.memory.set_to, plan.time.set_to, plan.host, plan.stream) == (None, None, None, None)
        assert "400 runs, 400 of them stopped" in page.document(plan).answer

    def test_an_unknown_kernel_phase_or_class_is_named_with_the_nearest(self, tmp_path: Path) -> None:
        folder = store(tmp_path, [one | {"phase": "checker", "kernel": "nanoda"} for one in spread(3)])
        with pytest.raises(PlanError, match=r"no record of kernel 'nanodo'; did you mean nanoda\?"):
            plan_of(folder, 'kernels=["nanodo"]')
        with pytest.raises(PlanError, match=r"no record of phase 'cheker'; did you mean checker\?"):
            plan_of(folder, 'phases=["cheker"]')
        with pytest.raises(PlanError, match=r"no record of host class 'class-b'; did you mean class-a\?"):
            plan_of(folder, "host.size=8c/64G", "host.class=class-b")

    def test_unlike_runs_are_not_pooled(self, tmp_path: Path) -> None:
        rows = [*spread(60), *(one | {"record": f"b{at}", "session": f"b{at}", "host_class": "class-b"}
                               for at, one in enumerate(spread(60, 2)))]  # fmt: skip
        folder = store(tmp_path, rows)
        with pytest.raises(PlanError, match=r"whole: the runs differ in host_class \(class-a, class-b\); choose with"):
            plan_of(folder)
        assert plan_of(folder, 'pool=["host_class"]').evidence.used == 120
        assert plan_of(folder, "host.size=8c/64G", "host.class=class-b").evidence.used == 60
        with pytest.raises(PlanError, match=r"pool: 'hostclass' is none of"):
            plan_of(folder, 'pool=["hostclass"]')


def test_figures_that_are_not_the_same_are_not_mixed(tmp_path: Path) -> None:
    rows = [*spread(60), *[row(900 + at, memory_peak_tree=None, memory_peak_process=GB) for at in range(60)]]
    folder = store(tmp_path / "a", rows)
    with pytest.raises(PlanError, match=r"whole: of some runs peaks of the tree are known, of others only peaks of a"):
        plan_of(folder)
    assert plan_of(folder, 'pool=["memory"]').memory.limit.runs == 120
    assert plan_of(folder, where=["memory_peak_tree>0"]).memory.limit.runs == 60
    walls = [*spread(60), *[row(900 + at, wall_command=None, wall_program=S) for at in range(60)]]
    with pytest.raises(PlanError, match=r"choose with --where 'wall_command>0', or take them all .* --pool wall"):
        plan_of(store(tmp_path / "b", walls))


def test_warm_ups_and_callgrind_are_no_evidence(tmp_path: Path) -> None:
    rows = [*spread(20), row(50, warmup=True), row(51, counters="callgrind"), row(52, beside=2, wall_command=90 * S)]
    plan = plan_of(store(tmp_path, rows))
    assert plan.evidence.used == 21
    assert plan.evidence.left_out == (
        "1 run that only warmed up",
        "1 run under callgrind, whose times and memory are not those of the program",
    )
    assert plan.time.limit.runs == 20, "what ran beside leavings is no fair sample of time"
    assert plan.memory.limit.runs == 21


def test_names_from_records_are_harmless(tmp_path: Path) -> None:
    rows = [one | {"phase": "checker", "kernel": "\x1b[31m'; DROP TABLE records; --", "labels": {"a'\"b": "x\ny"}}
            for one in spread(61)]  # fmt: skip
    plan = plan_of(store(tmp_path, rows), 'limits.by=["label.a\'\\"b"]', "limits.oom=5%")
    assert plan.groups[0].memory.set_to is not None
    assert plan.evidence.first_ns == START_NS


def test_cold_and_warm_runs_are_planned_together_and_it_is_said(tmp_path: Path) -> None:
    rows = [row(at, labels={"cache": "cold" if at == 0 else "warm"}) for at in range(3)]
    said = plan_of(store(tmp_path, rows)).evidence.weaknesses
    assert any(one.startswith("1 run read the input from storage (cold), 2 found it in memory (warm)") for one in said)
