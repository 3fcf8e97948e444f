"""What `doctor` sees, and the form of what it concludes from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from proofcost.harness.record import Json

GIB = 1 << 30
MIB = 1 << 20


class Status(StrEnum):
    GOOD = "good"
    NOTE = "note"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    """One finding. `why` it matters for figures; `mend`: what to type or change next, None where nothing is."""

    name: str
    status: Status
    seen: str
    why: str
    mend: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)

    def as_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "status": self.status.value,
            "seen": self.seen,
            "why": self.why,
            "mend": self.mend,
            "facts": dict(self.facts),
        }


@dataclass(frozen=True)
class Tool:
    """A program that was found: `version` is None where it does not tell (or asking could download something)."""

    name: str
    path: str
    sha256: str | None
    version: str | None
    setuid: bool = False


@dataclass(frozen=True)
class Tried:
    """A thing that was really tried: None = not tried (the program is not here)."""

    works: bool | None
    said: str = ""


@dataclass(frozen=True)
class Counter:
    """One perf event, counted over a real child: `value` None has a `reason`."""

    value: int | None
    reason: str | None
    user_only: bool = False


@dataclass(frozen=True)
class Interpreter:
    """A system Python. `unsafe` says who else could change it, None when only root can."""

    path: str
    version: tuple[int, int, int]
    start_ns: int | None
    unsafe: str | None


@dataclass(frozen=True)
class Seen:
    """Everything `doctor` looks at. The defaults are a host where all is well."""

    uid: int = 0
    machine: str = "x86_64"
    counters: Mapping[str, Counter] = field(default_factory=dict)
    paranoid: int | None = 2
    seccomp: bool = False
    nmi_watchdog: bool = False
    stamps: Tried = Tried(True, "1 exec")
    cgroup_kind: str = "v2"
    cgroup_made: Mapping[str, str] = field(default_factory=dict)
    cgroup_reasons: Mapping[str, str] = field(default_factory=dict)
    cgroup_memory_peak: bool = True
    cgroup_child: Tried = Tried(True)
    landlock_abi: int | None = 9
    landlock_reason: str = ""
    landrun: Tool | None = None
    landrun_enforces: Tried = Tried(None)
    bwrap: Tool | None = None
    bwrap_works: Tried = Tried(None)
    kernels: tuple[Tool, ...] = ()
    lean_tools: tuple[Tool, ...] = ()
    store: str = "/var/lib/proofcost"
    store_exists: bool = True
    store_fault: str | None = None
    store_drift: str | None = None
    store_writable: bool = True
    store_free_bytes: int | None = 100 * GIB
    store_filesystem: str | None = "ext4"
    clock_source: str | None = "tsc"
    clock_read_ns: int = 40
    governors: tuple[str, ...] = ("performance",)
    frequency_drivers: tuple[str, ...] = ()
    turbo: bool | None = False
    threads_per_core: int | None = 1
    cpus_count: int = 8
    cores_count: int | None = 8
    core_kinds: tuple[Mapping[str, Json], ...] = ()
    numa_nodes: int | None = 1
    memory_total_bytes: int = 64 * GIB
    memory_available_bytes: int = 60 * GIB
    swap_total_bytes: int = 0
    swap_used_bytes: int = 0
    sample_ns: int = 500_000_000
    busy_ns: int | None = 0
    steal_ns: int | None = 0
    steal_since_boot_ns: int | None = 0
    uptime_ns: int = 3600 * 10**9
    load_1_minute_hundredths: int = 0
    interpreters: tuple[Interpreter, ...] = ()
    limits: Mapping[str, Json] = field(default_factory=dict)
    pressure: bool = True
    machine_id_reason: str | None = None
    other_boots_at_once: tuple[str, ...] = ()
    launchers: Tried = Tried(None)
    launchers_directory: str | None = None
