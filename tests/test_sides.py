"""Challenge or solution where only the order of calls tells it: one comparator's, a batch of them, several at once."""

from fixtures import made

from proofcost.harness.derive import derive
from proofcost.harness.merged import Record, merge
from proofcost.harness.walk import Found

RUN = (("resolve", None), ("build", "C"), ("export", "C"), ("build", "S"), ("export", "S"), ("checker", None))


def calls(at: int, parent: int, *run: tuple[str, str | None]) -> list[made.Event]:
    """One comparator's calls, one a second from `at` on."""
    return [
        made.started(
            f"{at + number}",
            phase,
            at + number,
            subject=None if module is None else {"module": module},
            phase={"known_by": "argv"},
            process={"parent_pid": parent},
        )
        for number, (phase, module) in enumerate(run)
    ]


def read(*events: made.Event) -> tuple[Record, ...]:
    found = Found()
    found.events.extend((event, "made", 1) for event in events)
    return derive(merge(found))


def sides(*events: made.Event) -> list[str | None]:
    return [one.side for one in read(*events) if one.module is not None]


BOTH = ["challenge", "challenge", "solution", "solution"]


def named(challenge: str, solution: str) -> tuple[tuple[str, str | None], ...]:
    names = {"C": challenge, "S": solution, None: None}
    return tuple((phase, names[module]) for phase, module in RUN)


def test_each_comparator_of_a_batch_has_an_order_of_its_own() -> None:
    events = [*calls(0, 100, *RUN), *calls(10, 200, *named("S", "C")), *calls(20, 300, *named("A", "B"))]
    assert sides(*events) == BOTH * 3


def test_also_where_they_run_at_once() -> None:
    first, second = calls(0, 100, *named("A", "B")), calls(1, 200, *named("D", "E"))
    for number, event in enumerate(second):
        event["invocation"] = f"x{number}"
    assert sides(*first, *second).count("challenge") == 4
    by_module = {one.module: one.side for one in read(*first, *second) if one.module is not None}
    assert by_module == {"A": "challenge", "B": "solution", "D": "challenge", "E": "solution"}


def test_one_process_that_judges_again_starts_anew_at_its_resolve() -> None:
    assert sides(*calls(0, 100, *RUN), *calls(10, 100, *named("A", "B"))) == BOTH * 2


def test_behind_a_script_every_call_has_a_parent_of_its_own() -> None:
    events = [*calls(0, 0, *RUN), *calls(10, 0, *named("A", "B"))]
    for number, event in enumerate(events):
        event["process"]["parent_pid"] = 1000 + number
    assert sides(*events) == BOTH * 2


def test_a_run_that_ended_early_is_read_like_the_others_of_its_batch() -> None:
    events = [*calls(0, 100, *RUN), *calls(10, 200, *RUN[:2])]
    assert sides(*events) == [*BOTH, "challenge"]
    assert sides(*calls(10, 200, *RUN[:2])) == [None], "alone it may be either side"


def test_but_not_where_they_disagree() -> None:
    events = [*calls(0, 100, *RUN), *calls(10, 200, *named("S", "C")), *calls(20, 300, *RUN[:2])]
    assert sides(*events) == [*BOTH, *BOTH, None]


def test_what_resolves_is_on_no_side_and_in_no_total() -> None:
    from proofcost.reports.figures import solution_calls

    records = read(*calls(0, 100, *RUN))
    assert records[0].side is None
    assert [one.phase for one in solution_calls(records)] == ["build", "export", "checker"]
