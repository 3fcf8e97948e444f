"""What an entrance does beside measuring, at the points where the meter lets it: a second view of the costs, a copy of
what the command prints.

Before the command starts, what a companion raises is a fault of the meter like any other: the policy decides. From then
on nothing it raises reaches the command or its status; the meter notes it and goes on.
"""

from proofcost.harness.plan import Plan
from proofcost.harness.record import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from proofcost.harness.figures import Figures
    from proofcost.harness.meter import Meter


class Companion:
    """One that does nothing."""

    def prepare(self, plan: Plan) -> list[str]:
        """Before all else. Returns what should be noted in the record. Raises MeterError, OSError: nothing has run."""
        return []

    def outputs(self) -> dict[int, int]:
        """Descriptors of the command that are to be others: its number -> one of ours, which it gets in its place."""
        return {}

    def started(self) -> None:
        """The command runs."""

    def add(self, meter: "Meter", event: dict[str, Json], table: "Figures") -> None:
        """The command has ended: add to `table`, its figures, or to the `finished` event, before that is kept."""

    def close(self) -> None:
        """The record is kept, or lost: nothing more will be asked."""

    def abandon(self) -> None:
        """The command does not run, or runs without us: take back what was made."""
