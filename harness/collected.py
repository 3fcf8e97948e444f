"""A call inside a judge that `run --as` started: the meter runs as the judge's user and may neither write to the store
nor make cgroups, so both are the collector's work (collector.py). Everything else is as in meter.py.
"""

from proofcost.harness import cgroup, hierarchy
from proofcost.harness.door import Connection
from proofcost.harness.meter import Meter
from proofcost.harness.plan import Plan
from proofcost.harness.policy import MeterError
from proofcost.harness.record import Json
from proofcost.harness.signals import Inherited


class Collected(Meter):
    """The state of one such invocation."""

    __slots__ = ("_inside", "_kind")

    def __init__(self, plan: Plan, inherited: Inherited) -> None:
        super().__init__(plan, inherited)
        # The session's cgroups as they are seen from here.
        self._inside: dict[str, str] = {}
        self._kind = "off"

    def _find_session(self) -> str:
        door = self.plan.door
        assert door is not None
        self.session = self.plan.session or ""
        self.plan.digests, self.plan.learnt = door.digests, []
        try:
            door.check()
        except OSError as error:
            raise MeterError(error.strerror or str(error)) from None
        return "baked"

    def _make_place(self) -> None:
        """The collector's."""

    def _make_cgroup(self) -> None:
        """The collector makes it, and gives it to us together with its answer."""
        own = hierarchy.find_own()
        self.own_dirs = own.dirs
        self._inside = hierarchy.session_dirs(own)
        self._kind = own.kind
        self.inside_session = bool(self._inside)

    def _keep(self, started: dict[str, Json]) -> None:
        door = self.plan.door
        assert door is not None
        try:
            # Not before there is something to say: who takes a connection and is silent is soon taken for an attacker.
            connection = Connection(door)
            self.sink = connection
            said = connection.ask({**started, "digests": [[*pair] for pair in self.plan.learnt or ()]})
        except OSError as error:
            raise MeterError(error.strerror or str(error)) from None
        if self.plan.cgroup == "auto":
            self._adopt(*said.partition(" ")[::2])

    def _adopt(self, names: str, why: str) -> None:
        """Use the cgroups that were made for us, where we see them."""
        group = cgroup.Group(self._kind)
        for name in names.split(","):
            if name in self._inside:
                group.dirs[name] = f"{self._inside[name]}/{self.invocation}"
        self.group = group
        if not self._inside:
            self.cgroup_reason = "not called from the judge's own cgroup (a call inside a call?)"
        elif why:
            self.cgroup_reason = why
        elif not group.has_memory:
            self.cgroup_reason = "the cgroup above hands no memory controller down"

    def _settle_others(self) -> None:
        """`run` does, at its end."""

    def _leave_cgroup(self) -> None:
        """The collector takes it away."""
        if self.group is not None:
            self.group.close_entries()
