"""The `timer` entrance: in the place of a timer that a judge calls (a TIMER_BIN), keeps what that says of its region.

The program's stdout passes through us (harness/relay.py), unchanged; its `KERNEL_TIMING=` lines become measurements
that are reported by the program (kernel_timing.py), beside ours of the whole program. Opt-in, since it copies a stream.
"""

import sys

from proofcost.adapters import entrance, kernel_timing, landrun
from proofcost.harness import figures, meter, relay
from proofcost.harness.companion import Companion
from proofcost.harness.plan import Plan
from proofcost.harness.record import Json


class Timed(Companion):
    """Copies stdout to where its lines are looked at, and adds what they say."""

    def __init__(self) -> None:
        self._relay: relay.Relay | None = None

    def prepare(self, plan: Plan) -> list[str]:
        if not relay.is_open(relay.STDOUT):
            return ["stdout is closed: no region can be reported there"]
        self._relay = relay.Relay()
        self._relay.start(kernel_timing.LineTap())
        return []

    def outputs(self) -> dict[int, int]:
        return {} if self._relay is None else self._relay.outputs

    def started(self) -> None:
        if self._relay is not None:
            self._relay.given()

    def add(self, meter: meter.Meter, event: dict[str, Json], table: figures.Figures) -> None:
        passing = self._relay
        if passing is None:
            return
        report = passing.collect(relay.asked_to_end)
        event["relay"] = passing.as_json(report)
        event["regions"] = kernel_timing.add(table, report)
        if meter.child.exec_error is not None:
            figures.never_started(table)

    def abandon(self) -> None:
        if self._relay is not None:
            self._relay.abandon()


def understand(plan: Plan) -> None:
    """A timer replays with a kernel: its call is a check, whatever stands in its arguments."""
    plan.target = plan.argv
    plan.phase_understood = landrun.CHECKER
    plan.kernel_name = landrun.kernel_name(plan.argv)


def main(config: entrance.Config) -> None:
    """Measure `TIMER ARGS...`; leaves with its status."""
    inherited = entrance.begin()
    argv = [config.real, *sys.argv[1:]]
    entrance.pass_through_if_measured(argv, inherited)
    plan = config.plan(argv, "timer")
    plan.companion = Timed()
    entrance.try_to(plan, understand)
    entrance.leave(meter.invoke(plan, inherited))
