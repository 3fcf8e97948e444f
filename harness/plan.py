"""What an entrance understood of one call: the meter's whole input. Slotted classes, for start-up's sake."""

from proofcost.harness.record import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from proofcost.harness.companion import Companion
    from proofcost.harness.door import Door
    from proofcost.harness.user import User

KIND_NONE = "none"
UNKNOWN = "unknown"
# The record's `ids`, all null for a call that is part of no planned series.
IDS = ("build", "block", "order", "iteration", "warmup")
# A file inside a sandbox that nobody outside can tell: no path has a NUL.
HIDDEN = "\0"


class Sandbox:
    """The sandbox in a command line.

    `writable` and `readable` are the paths its arguments grant, as given; `waits` tells whether it waits for all that
    ran in it, so that its wait status counts them.
    """

    __slots__ = ("best_effort", "kind", "readable", "unrestricted", "waits", "writable")

    def __init__(self, kind: str = KIND_NONE) -> None:
        self.kind = kind
        self.best_effort = False
        self.unrestricted = False
        self.waits = True
        self.writable: list[str] = []
        self.readable: list[str] = []


class Plan:
    """One call to be measured. Everything but `argv` and `entrance` has a default that means "not known" or "not
    asked"."""

    __slots__ = (
        "argv", "bench", "called", "cgroup", "companion", "confined_only", "digests", "door", "entrance", "ids",
        "judge_config", "kernel_config", "kernel_name", "kernel_threads_count", "kill_stragglers", "labels",
        "learnt", "memory_limit_bytes", "meter_digest", "notes", "phase_given", "phase_known_by", "phase_understood",
        "sandbox", "seal_key", "session", "source_path", "store", "strict", "subject_module", "swap_limit_bytes",
        "target", "target_file", "timeout_ns", "uncounted", "user",
    )  # fmt: skip

    def __init__(self, argv: list[str], entrance: str) -> None:
        self.argv = argv
        self.entrance = entrance
        self.phase_given: str | None = None
        self.phase_understood = UNKNOWN
        self.phase_known_by = "argv"
        self.sandbox = Sandbox()
        # The program inside the sandbox with its arguments; empty when the command line does not tell.
        self.target: list[str] = []
        # Its file on the host, where the name alone does not tell; HIDDEN where nothing does.
        self.target_file: str | None = None
        self.subject_module: str | None = None
        self.source_path: str | None = None
        self.kernel_name: str | None = None
        self.kernel_config: str | None = None
        self.kernel_threads_count: int | None = None
        self.judge_config: str | None = None
        self.store = ""
        self.session: str | None = None
        self.strict = False
        # Whether a run without the sandbox that it asks for is refused; None: as `strict` has it.
        self.confined_only: bool | None = None
        # The name in front of what we say on stderr.
        self.called = "proofcost"
        self.companion: Companion | None = None
        self.kill_stragglers = False
        self.cgroup = "auto"
        self.labels: dict[str, Json] = {}
        self.timeout_ns: int | None = None
        self.memory_limit_bytes: int | None = None
        self.swap_limit_bytes = 0
        # Of a run made on purpose (bench): its place in the series, and what was planned.
        self.ids: dict[str, Json] = dict.fromkeys(IDS)
        self.bench: Json = None
        self.meter_digest: str | None = None
        # Where digests of programs are kept; None: in the store, empty: nowhere.
        self.digests: str | None = None
        # Where somebody else writes them: those that this call had to compute.
        self.learnt: list[tuple[str, str]] | None = None
        # `run --as`: whom the judge is to be; and in its calls, the way to the collector.
        self.user: User | None = None
        self.door: Door | None = None
        self.seal_key: bytes | None = None
        # A program that the command is to start and below which the kernel counts nothing.
        self.uncounted: str | None = None
        # What could not be understood; becomes the record's faults.
        self.notes: list[str] = []
