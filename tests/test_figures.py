"""From what was read to figures: each with its method, a bound where two ways disagree, never a number for nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import figures, perf
from proofcost.harness.figures import Figures
from proofcost.harness.perf import ExecStamp
from proofcost.harness.record import Json, measurement, unavailable
from proofcost.harness.sample import Disk, Sampler
from proofcost.harness.usage import Usage

MS = 1_000_000


def usage(**seen: Any) -> Usage:
    found = Usage()
    for name, value in seen.items():
        setattr(found, name, value)
    return found


def cpu(tree: int | None, waited: int, faults: int = 0, system: int = 0) -> Figures:
    """`system`: of `waited`, in the kernel."""
    table: Figures = {}
    seen = None if tree is None else usage(cpu_ns=tree, cpu_user_ns=tree, cpu_system_ns=0)
    figures.cpu(table, seen, waited - system, system, faults, None)
    return table


def status(table: Figures, name: str = "cpu_waited") -> Any:
    return table[name]["status"]


@pytest.mark.parametrize("waited", [0, 1, 300 * MS, 8_000 * MS])
def test_the_cgroup_may_show_less_by_5_ms_and_2_percent(waited: int) -> None:
    """Rule: waited > cgroup + 5 ms + 2 % contradicts."""
    tree = (waited - 5 * MS) * 100 // 102 if waited > 5 * MS else 0
    assert status(cpu(tree, tree + 5 * MS + tree * 2 // 100)) == "measured"
    beyond = cpu(tree, tree + 5 * MS + tree * 2 // 100 + 1)
    assert {status(beyond, name) for name in beyond} == {"contradicted"}
    assert all(figure["reason"] and figure["value"] is not None for figure in beyond.values())


@pytest.mark.parametrize(("before_exec", "said"), [(60 * MS, "measured"), (60 * MS - 1, "contradicted")])
def test_what_our_child_used_before_its_exec_may_be_outside_the_cgroup(before_exec: int, said: str) -> None:
    """On a slow machine that is more than all that the command uses; seen in an emulated one: 88 ms."""
    table: Figures = {}
    seen = usage(cpu_ns=100 * MS, cpu_user_ns=100 * MS, cpu_system_ns=0)
    figures.cpu(table, seen, 167 * MS, 0, 0, None, before_exec)
    assert status(table) == said


@pytest.mark.parametrize("waited", [0, 1, 300 * MS, 8_000 * MS])
@pytest.mark.parametrize("faults", [0, 262_144])
def test_the_cgroup_may_show_more_by_that_and_the_teardown(waited: int, faults: int) -> None:
    """Rule: cgroup > wait + 5 ms + 2 % + 70 ms per GiB means work that the wait missed, and the cgroup leads."""
    edge = waited + 5 * MS + waited * 2 // 100 + (70 * MS if faults else 0)
    assert status(cpu(edge, waited, faults)) == "measured"
    beyond = cpu(edge + 1, waited, faults)
    assert status(beyond) == status(beyond, "cpu_waited_user") == status(beyond, "cpu_waited_system") == "lower_bound"
    assert status(beyond, "cpu_tree") == "measured"
    assert "cpu_tree leads" in str(beyond["cpu_waited"]["reason"])


def test_without_a_cgroup_there_is_nothing_to_disagree() -> None:
    table = cpu(None, 5)
    assert (table["cpu_waited"]["value"], status(table)) == (5, "measured")
    assert (table["cpu_tree"]["value"], table["cpu_tree"]["reason"]) == (None, "no cgroup")


@given(st.none() | st.integers(0, 1 << 50), st.integers(0, 1 << 50), st.integers(0, 1 << 40))
def test_cpu_always_has_six_figures_each_right_or_absent_with_a_reason(
    tree: int | None, waited: int, faults: int
) -> None:
    table = cpu(tree, waited, faults)
    assert len(table) == 6
    for figure in table.values():
        assert (figure["value"] is None) == (figure["status"] == "unavailable")
        assert bool(figure["reason"]) == (figure["status"] != "measured")
    assert table["cpu_waited"]["value"] == waited
    assert table["cpu_tree"]["value"] == tree


def counted(clock: int | None, truth: int, faults: int = 0, before_exec: int = 0, system: int = 0) -> Figures:
    table = cpu(truth, truth, system=system)
    figures.counters(table, {
        "task_clock": perf.figure_of(b"", "ns", "m") if clock is None else measurement(clock, "ns", "m"),
        "page_faults": measurement(faults, "count", "m"),
        "context_switches": unavailable("count", "m", "why"),
    }, before_exec)  # fmt: skip
    return table


def test_a_task_clock_too_far_below_the_cpu_time_lost_a_task() -> None:
    truth = 800 * MS
    edge = (truth - 5 * MS) * 100 // 102
    while edge + figures.cpu_allowance(edge, 0, 0) < truth:
        edge += 1
    assert status(counted(edge, truth), "task_clock") == "measured"
    table = counted(edge - 1, truth)
    assert status(table, "task_clock") == status(table, "page_faults") == "lower_bound"
    assert str(table["task_clock"]["reason"]).startswith("counters_lost_a_task")
    assert status(table, "context_switches") == "unavailable"  # a bound of nothing is nothing
    assert table["context_switches"]["reason"] == "why"


def test_teardown_of_what_was_faulted_in_excuses_a_task_clock() -> None:
    assert status(counted(532 * MS, 602 * MS, faults=262_144), "task_clock") == "measured"
    assert status(counted(532 * MS, 602 * MS, faults=0), "task_clock") == "lower_bound"


def test_where_memory_is_slow_tearing_it_down_takes_longer() -> None:
    """Seen: 700 MiB on a busy virtual machine, 630 ms of 650 in the kernel, of them 85 after the counters' end."""
    seen = {"clock": 565 * MS, "truth": 650 * MS, "system": 630 * MS}
    assert status(counted(**seen, faults=179_253), "task_clock") == "measured"
    assert status(counted(**seen, faults=0), "task_clock") == "lower_bound"
    # Three times what memory takes elsewhere, and no more: other system calls tear nothing down.
    assert status(counted(**seen, faults=60_000), "task_clock") == "lower_bound"
    assert status(cpu(650 * MS, 565 * MS, 179_253, 545 * MS)) == "measured"
    assert status(cpu(680 * MS, 565 * MS, 179_253, 545 * MS)) == "lower_bound"


def test_what_we_used_before_the_exec_is_no_lost_task() -> None:
    """Milliseconds on a slow host, where a small command's counters would never be believed."""
    assert status(counted(10 * MS, 35 * MS, before_exec=10 * MS), "task_clock") == "measured"
    assert status(counted(10 * MS, 36 * MS, before_exec=10 * MS), "task_clock") == "lower_bound"


def test_without_a_task_clock_nobody_can_tell_and_nothing_is_marked() -> None:
    assert status(counted(None, 800 * MS, faults=9), "page_faults") == "measured"


def sampler(**seen: Any) -> Sampler:
    made = Sampler({}, [])
    for name, value in seen.items():
        setattr(made, name, value)
    return made


def memory(peak: int | None = None, maxrss: int = 0, own: int = 10 << 20, **sampled: Any) -> Figures:
    table: Figures = {}
    figures.memory(table, usage(peak_bytes=peak), sampler(**sampled), maxrss, own, None)
    return table


def test_our_own_memory_is_never_the_commands() -> None:
    own = 10 << 20
    for maxrss in (0, own, own + 256 * 1024):
        figure = memory(maxrss=maxrss, own=own)["memory_peak_process"]
        assert figure["value"] is None
        assert "at most our own" in str(figure["reason"])
    assert memory(maxrss=own + 256 * 1024 + 1, own=own)["memory_peak_process"]["value"] == own + 256 * 1024 + 1


def test_a_sample_stands_in_for_a_hidden_peak() -> None:
    figure = memory(maxrss=10 << 20, process_peak_bytes=5 << 20)["memory_peak_process"]
    assert (figure["value"], figure["status"]) == (5 << 20, "sampled")


def test_a_process_that_nobody_waited_for_may_be_the_largest() -> None:
    figure = memory(maxrss=100 << 20, process_peak_bytes=300 << 20)["memory_peak_process"]
    assert (figure["value"], figure["status"]) == (300 << 20, "sampled")
    figure = memory(maxrss=300 << 20, process_peak_bytes=299 << 20)["memory_peak_process"]
    assert (figure["value"], figure["status"]) == (300 << 20, "measured")


def test_the_trees_peak_is_the_cgroups_or_is_named_as_a_sum() -> None:
    assert memory(peak=77)["memory_peak_tree"]["status"] == "measured"
    summed = memory(tree_peak_bytes=88)["memory_peak_tree"]
    assert (summed["value"], summed["status"]) == (88, "sampled")
    assert "counted in each" in str(summed["method"])
    nothing = memory()["memory_peak_tree"]
    assert (nothing["value"], nothing["status"]) == (None, "unavailable")


def test_the_split_exists_only_as_sampled() -> None:
    table = memory(peak=9, split=(1, 0, 3))
    assert [table[f"memory_{part}_tree"]["value"] for part in ("anon", "file", "shmem")] == [1, 0, 3]
    assert {table[f"memory_{part}_tree"]["status"] for part in ("anon", "file", "shmem")} == {"sampled"}
    assert memory(peak=9)["memory_anon_tree"]["value"] is None


def io(before: dict[str, int] | None, after: dict[str, int] | None) -> Figures:
    table: Figures = {}
    figures.input_output(table, None, before, after)
    return table


def test_input_and_output_need_both_readings_and_the_key_in_both() -> None:
    full = {"read_bytes": 5, "write_bytes": 7}
    table = io(full, {"read_bytes": 5, "write_bytes": 9})
    assert (table["io_read_bytes_waited"]["value"], table["io_write_bytes_waited"]["value"]) == (0, 2)
    for before, after in ((None, full), (full, None), ({}, full), (full, {}), ({}, {})):
        for name in ("io_read_bytes_waited", "io_write_bytes_waited", "io_read_bytes_tree"):
            figure = io(before, after)[name]
            assert (figure["value"], figure["status"]) == (None, "unavailable"), (before, after, name)
            assert figure["reason"]


def test_disks_are_one_figure_each_over_all_filesystems() -> None:
    first, second = Disk("/a", 100), Disk("/b", 50)
    first.free_min_bytes, second.free_min_bytes = 30, 45
    table: Figures = {}
    figures.disk(table, sampler(disks=[first, second]))
    assert table["disk_free_min"]["value"] == 30
    assert table["disk_peak_writable"]["value"] == 70
    figures.disk(table, sampler(disks=[]))
    assert table["disk_free_min"]["value"] is table["disk_peak_writable"]["value"] is None


def stamps(*names: str, pids: tuple[int, ...] = ()) -> list[ExecStamp]:
    return [ExecStamp(1000 + at, pids[at] if pids else 7, name.encode()) for at, name in enumerate(names)]


def reached(found: list[ExecStamp], target: str | None, sandboxed: bool = True, lost: int = 0) -> tuple[Any, ...]:
    seen = figures.find_program(found, 7, None if target is None else target.encode(), sandboxed, lost)
    return seen.command_ns, seen.program_ns, seen.program_reached


def test_the_program_is_the_first_later_stamp_of_its_name() -> None:
    assert reached(stamps("landrun", "x", "lake", "lake"), "lake") == (1000, 1002, True)


def test_a_helper_of_the_same_name_is_not_the_program() -> None:
    """A sandbox that execs in place keeps its process; what it starts to look at the program does not."""
    assert reached(stamps("landrun", "lake", "lake", pids=(7, 9, 7)), "lake") == (1000, 1002, True)
    assert reached(stamps("bwrap", "lake", pids=(7, 9)), "lake") == (1000, 1001, True)


def test_the_wrapper_itself_is_not_the_program() -> None:
    assert reached(stamps("lake"), "lake") == (1000, None, False)


def test_names_are_compared_as_far_as_the_kernel_keeps_them() -> None:
    assert reached(stamps("landrun", "a-program-with-"), "a-program-with-a-long-name") == (1000, 1001, True)


def test_a_sandbox_at_whose_exec_the_events_were_dropped_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stamps("around", "bwrap")
    found[1].shed = True
    seen = figures.find_program(found, 7, b"lake", True, 0)
    assert (seen.program_reached, seen.program_ns, seen.dropped_at) == (None, None, "bwrap")
    assert "bwrap" in seen.reason
    # A program that ended at once is not taken for it: it was found.
    found = stamps("bwrap", "lake")
    found[1].shed = True
    seen = figures.find_program(found, 7, b"lake", True, 0)
    assert (seen.program_reached, seen.dropped_at, seen.may_lack) == (True, None, "lake")
    # Nor is a command without a sandbox, unless its file says so too.
    for loses, expected in ((False, (None, "sudo")), (True, ("sudo", None))):
        monkeypatch.setattr(perf, "loses_counters", lambda path, said=loses: said)
        found = stamps("sudo")
        found[0].shed = True
        seen = figures.find_program(found, 7, b"sudo", False, 0, "/bin/sudo")
        assert (seen.program_reached, (seen.dropped_at, seen.may_lack)) == (True, expected)


def test_the_file_alone_tells_where_no_exec_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load the record of the exit can come later than any that the kernel writes at once."""
    monkeypatch.setattr(perf, "loses_counters", lambda path: True)
    seen = figures.find_program(stamps("bwrap"), 7, b"lake", True, 0, "/bin/bwrap")
    assert (seen.program_reached, seen.dropped_at) == (None, "bwrap")
    seen = figures.find_program(stamps("bwrap", "sh"), 7, b"lake", True, 0, "/bin/bwrap")
    assert (seen.program_reached, seen.dropped_at) == (False, None), "stamps followed: nothing was dropped"


def test_dropped_counters_are_no_figures_and_doubtful_ones_are_bounds() -> None:
    for dropped, lacking, expected in (("bwrap", None, "unavailable"), (None, "bwrap", "lower_bound")):
        table = cpu(800 * MS, 1)
        counts: dict[str, Json] = {"task_clock": measurement(800 * MS, "ns", "m")}
        counts["cycles:u"] = unavailable("count", "m", "why")
        figures.counters(table, counts, 0, dropped, lacking)
        assert status(table, "task_clock") == expected
        assert "bwrap" in str(table["task_clock"]["reason"])
        assert table["cycles:u"]["reason"] == "why"


def test_without_a_cgroup_the_counters_tell_what_nobody_waited_for() -> None:
    for clock, expected in ((104 * MS, "measured"), (300 * MS, "lower_bound")):
        table = cpu(None, 100 * MS)
        figures.counters(table, {"task_clock": measurement(clock, "ns", "m")}, 0)
        assert (status(table), status(table, "task_clock")) == (expected, "measured")


@pytest.mark.parametrize(("waits", "tree", "bound"), [(True, 101, False), (False, 101, True), (True, 800, True)])
def test_what_only_the_wait_status_tells_is_a_bound_where_some_were_not_waited_for(
    waits: bool, tree: int, bound: bool
) -> None:
    table = cpu(tree * MS, 100 * MS)
    figures.memory(table, None, sampler(), 300 << 20, 10 << 20, "no cgroup")
    figures.input_output(table, None, {"read_bytes": 1, "write_bytes": 2}, {"read_bytes": 5, "write_bytes": 7})
    figures.unwaited(table, waits)
    for name in ("cpu_waited", "cpu_waited_user", "memory_peak_process", "io_read_bytes_waited"):
        assert status(table, name) == ("lower_bound" if bound else "measured"), name
        assert bool(table[name]["reason"]) is bound
    assert table["io_write_bytes_waited"]["value"] == 5


def test_a_hidden_peak_is_at_most_ours_only_where_all_were_waited_for() -> None:
    for waits in (True, False):
        table = cpu(None, 100 * MS)
        figures.memory(table, None, sampler(), 5 << 20, 10 << 20, "no cgroup")
        figures.unwaited(table, waits)
        assert table["memory_peak_process"]["value"] is None
        assert ("at most our own" in str(table["memory_peak_process"]["reason"])) is waits


def test_lost_stamps_prove_nothing() -> None:
    assert reached(stamps("landrun", "x"), "lake") == (1000, None, False)
    assert reached(stamps("landrun", "x"), "lake", lost=1) == (1000, None, None)
    assert reached([], "lake") == (None, None, None)
    assert reached(stamps("landrun"), None) == (1000, None, None)


def test_without_a_sandbox_the_command_is_the_program() -> None:
    assert reached(stamps("lake"), "lake", sandboxed=False) == (1000, 1000, True)


def test_walls_have_no_number_without_stamps() -> None:
    table: Figures = {}
    figures.walls(table, figures.Reached(), 5000, 2000, "lake", "counter_permission_denied")
    assert (table["wall_command"]["value"], table["wall_command"]["method"]) == (
        3000,
        "close-on-exec pipe closed to exit seen",
    )
    for name in ("wall_program", "sandbox_startup"):
        assert (table[name]["value"], table[name]["reason"]) == (None, "no exec stamps: counter_permission_denied")


def a_table() -> Figures:
    table = counted(100, 100)
    figures.memory(table, usage(peak_bytes=1), sampler(split=(1, 2, 3)), 0, 0, None)
    table["task_clock"]["method"] = perf.METHOD
    table["cpu_judge_self"] = measurement(1, "ns", "m")
    table["wall_command"] = measurement(1, "ns", "first exec stamp to exit seen")
    return table


def test_what_outlives_the_command_makes_its_trees_figures_lower_bounds() -> None:
    table = a_table()
    figures.still_growing(table)
    for name in ("cpu_tree", "cpu_tree_user", "memory_peak_tree", "task_clock", "cpu_judge_self"):
        assert (status(table, name), bool(table[name]["reason"])) == ("lower_bound", True), name
    assert status(table, "memory_anon_tree") == "sampled"
    assert status(table, "wall_command") == status(table, "cpu_waited") == "measured"
    assert status(table, "context_switches") == "unavailable"


def test_what_never_started_has_no_figures() -> None:
    table = a_table()
    figures.never_started(table)
    assert {(f["value"], f["status"], f["reason"]) for f in table.values()} == {
        (None, "unavailable", "the command was not started")
    }
    assert table["cpu_tree"]["unit"] == "ns"


def test_a_lost_wait_status_takes_along_what_only_it_tells() -> None:
    table = a_table()
    figures.without_wait_status(table)
    for name in ("cpu_waited", "cpu_waited_user", "cpu_waited_system", "memory_peak_process"):
        assert (table[name]["value"], table[name]["reason"]) == (None, "the wait status was lost")
    assert table["cpu_tree"]["value"] == 100
