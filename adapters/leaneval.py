"""The `leaneval` entrance: LeanEval's `replay-measure`, in its place.

Called as `ADAPTER --phase PHASE -- /usr/local/bin/landrun ARGS...`. What is not called so, word for word, is refused
with 125 and nothing is run; so is a call whose costs could not be kept, since the reader of the metrics takes a lost
measurement for an error of the infrastructure. From the moment the command runs its status is all that counts: also
where the adapter that we stand in for says 125 (docs/transparency.md).

One run of the command feeds both views: our own record, and `metrics.json` (replay_file.py). With a capture asked for,
what a `solution-export` prints is copied beside it (export_capture.py).
"""

import os
import sys

from proofcost.adapters import entrance, phase, replay_metrics
from proofcost.adapters.replay_file import ViewFile
from proofcost.harness import meter, policy, record
from proofcost.harness.companion import Companion
from proofcost.harness.plan import Plan
from proofcost.harness.record import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from proofcost.adapters.export_capture import Capture
    from proofcost.harness.figures import Figures
    from proofcost.harness.relay import Relay

CALLED = "replay-measure"
BUILD, EXPORT, CHECKER = "build", "solution-export", "checker"
PHASES = (BUILD, EXPORT, CHECKER)
LANDRUN = "/usr/local/bin/landrun"
METRICS = "/run/lean-eval/metrics.json"
CAPTURE = "/run/lean-eval/solution-export.ndjson"


def wrong(arguments: list[str], landrun: str) -> str | None:
    """What is wrong with a call; None when it is exactly as the contract has it."""
    if len(arguments) < 4:
        return f"{len(arguments)} arguments; usage: --phase PHASE -- {landrun} [ARGUMENT...]"
    if arguments[0] != "--phase":
        return f"the first argument is {arguments[0]!a}, not --phase"
    if arguments[1] not in PHASES:
        return f"the phase is {arguments[1]!a}, not one of {', '.join(PHASES)}"
    if arguments[2] != "--":
        return f"the third argument is {arguments[2]!a}, not --"
    if arguments[3] != landrun:
        return f"the command is {arguments[3]!a}, not {landrun}"
    if any("\0" in argument for argument in arguments):
        return "an argument holds a NUL"
    return None


class Replay(Companion):
    """Keeps `metrics.json`, and with `capture` a copy of the export."""

    def __init__(self, phase: str, metrics: str, capture: str | None) -> None:
        self._phase = phase
        self._view: ViewFile | None = ViewFile(metrics)
        self._capture: Capture | None = None
        self._relay: Relay | None = None
        self._started = False
        if capture is not None and phase == EXPORT:
            from proofcost.adapters import export_capture

            self._capture = export_capture.Capture(capture)

    def prepare(self, plan: Plan) -> list[str]:
        assert self._view is not None
        notes = self._view.look(plan.sandbox.writable, plan.sandbox.unrestricted)
        if self._capture is not None:
            from proofcost.harness import relay

            if not relay.is_open(relay.STDOUT):
                self._capture.reason = "stdout is closed"
            elif relay.are_one(relay.STDOUT, relay.STDERR):
                self._capture.reason = "stdout and stderr are one file, so what comes there is no export alone"
            elif (tap := self._capture.open()) is not None:
                self._relay = relay.Relay()
                self._relay.start(tap)
        return notes

    def outputs(self) -> dict[int, int]:
        return {} if self._relay is None else self._relay.outputs

    def started(self) -> None:
        self._started = True
        if self._relay is not None:
            self._relay.given()

    def add(self, meter: meter.Meter, event: dict[str, Json], table: "Figures") -> None:
        status = meter.status or 0
        ran = meter.child.exec_error is None
        if self._capture is not None:
            self._add_capture(event, ran and status == 0)
        view = self._view
        if view is None:
            return
        self._view = None
        if not ran:  # what never ran is no call to its reader: it says so of a phase without one
            view.abandon()
            return
        try:
            note = self._save(view, status, table)
        except BaseException as error:  # noqa: BLE001  # whatever it was: the view must not look whole
            meter.note("metrics", f"{error}; the view lacks this call, so it is put aside")
            view.give_up()
        else:
            if note is not None:
                meter.note("metrics", note)

    def _save(self, view: ViewFile, status: int, table: "Figures") -> str | None:
        wall = table["wall_command"]["value"] if "wall_command" in table else None
        if not isinstance(wall, int):
            raise policy.MeterError("the call has no wall time")
        signaled = os.WIFSIGNALED(status)
        ended = (
            (replay_metrics.SIGNALED, os.WTERMSIG(status))
            if signaled
            else (replay_metrics.EXITED, os.WEXITSTATUS(status))
        )
        instructions = replay_metrics.instructions_of(table.get("instructions:u", {}))
        return view.save(replay_metrics.phase_of(self._phase), wall, *instructions, ended)

    def _add_capture(self, event: dict[str, Json], succeeded: bool) -> None:
        from proofcost.harness import relay

        capture, passing = self._capture, self._relay
        assert capture is not None
        report = None if passing is None else passing.collect(relay.asked_to_end)
        if passing is not None:
            event["relay"] = passing.as_json(report)
        event["capture"] = capture.finish(report, succeeded)

    def close(self) -> None:
        view, self._view = self._view, None
        if view is not None:  # the fault that lost the record lost the call here too
            view.give_up()

    def abandon(self) -> None:
        if self._started:
            return
        view, self._view = self._view, None
        try:
            if self._relay is not None:
                self._relay.abandon()
            if self._capture is not None:
                self._capture.remove()
        finally:
            if view is not None:
                view.abandon()


def main(config: entrance.Config) -> None:
    """Measure the call for both views; leaves with the command's status, or with 125 when nothing was run."""
    inherited = entrance.begin()
    own = config.leaneval
    landrun = own.get("landrun") or LANDRUN
    why = wrong(sys.argv[1:], landrun)
    if why is not None:
        policy.say(record.escape_text(why), CALLED)
        entrance.leave(policy.REFUSED)
    plan = config.plan(sys.argv[4:], "leaneval")
    plan.called = CALLED
    plan.strict = True
    plan.confined_only = own.get("confined") is not None
    plan.phase_given = sys.argv[2]
    plan.companion = Replay(sys.argv[2], own.get("metrics") or METRICS, own.get("capture"))
    entrance.try_to(plan, phase.understand)
    entrance.leave(meter.invoke(plan, inherited))
