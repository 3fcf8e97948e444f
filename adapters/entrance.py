"""What every entrance's launcher hands over, and the way from there into the meter and out with a status.

A launcher is a small script with its configuration baked in (adapters/launchers.py writes it). It catches what stops
this module from being imported; from here on harness/meter.py holds the rule that a verdict never changes.
"""

import os
import sys

from proofcost.harness import meter, policy, session, spawn
from proofcost.harness.plan import UNKNOWN, Plan
from proofcost.harness.signals import Inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Config:
    """A launcher's baked-in configuration."""

    __slots__ = ("cgroup", "digest", "door", "kill_stragglers", "leaneval", "real", "session", "store", "strict")

    def __init__(
        self,
        store: str,
        real: str = "",
        session: str | None = None,
        strict: bool = False,
        kill_stragglers: bool = False,
        cgroup: str = "auto",
        digest: str | None = None,
        leaneval: dict[str, str | None] | None = None,
        door: tuple[int, int, str] | None = None,
    ) -> None:
        self.store = store
        self.real = real
        self.session = session
        self.strict = strict
        self.kill_stragglers = kill_stragglers
        self.cgroup = cgroup
        self.digest = digest
        # Of the `leaneval` entrance alone: what it takes as landrun, where its two files stand.
        self.leaneval = leaneval or {}
        self.door = None
        if door is not None:
            from proofcost.harness.door import Door

            self.door = Door(*door)
            self.door.hide()  # at once: whatever becomes of this call, its command must not inherit the door

    def plan(self, argv: list[str], entrance: str) -> Plan:
        """A plan for one call with this configuration."""
        plan = Plan(argv, entrance)
        plan.store = self.store
        plan.session = self.session
        plan.strict = self.strict
        plan.kill_stragglers = self.kill_stragglers
        plan.cgroup = self.cgroup
        plan.meter_digest = self.digest
        plan.door = self.door
        return plan


def begin() -> Inherited:
    """Before anything is opened: note what the command must start with."""
    spawn.keep_standard_descriptors_closed()
    return Inherited()


def pass_through_if_measured(argv: list[str], inherited: Inherited) -> None:
    """Become the command when another entrance's meter is our direct parent: it measures this call already."""
    if session.is_launcher(os.getppid()):
        error = spawn.replace_by(argv, inherited)
        policy.say(f"{argv[0]}: {os.strerror(error.errno or 0)}")
        os._exit(spawn.exit_code_of(error))


def try_to(plan: Plan, understand: "Callable[[Plan], None]") -> None:
    """Interpret the command line. One that cannot be is run and recorded as `unknown`, with what went wrong."""
    try:
        understand(plan)
    except Exception as error:  # noqa: BLE001  # an odd command line costs its interpretation, never its run
        plan.phase_understood = plan.phase_given or UNKNOWN
        plan.notes.append(f"{type(error).__name__}: {error}")


def real_program(name: str) -> str:
    """The program to start for a bare name (none was found when the launcher was written): never a launcher of ours.

    A PATH that names the launcher's own folder would have it start itself for ever.
    """
    if "/" in name:
        return name
    found = spawn.find_program(name)
    if found is None or not session.is_launcher_file(found):
        return name
    for path in spawn.candidates(name):
        if os.access(path, os.X_OK) and os.path.isfile(path) and not session.is_launcher_file(path):
            return path
    return os.path.join(os.path.dirname(found), "no-" + name)  # there is none: 127, as for any program not found


def stand_in_for(config: Config, name: str, understand: "Callable[[Plan], None]") -> None:
    """An entrance in a sandbox's place: measure the real one with our own arguments; leaves with its status."""
    inherited = begin()
    argv = [real_program(config.real), *sys.argv[1:]]
    pass_through_if_measured(argv, inherited)
    plan = config.plan(argv, name)
    try_to(plan, understand)
    leave(meter.invoke(plan, inherited))


def leave(status: int) -> None:
    """End at once; running Python's own shutdown would cost 1.3 ms more."""
    os._exit(status)
