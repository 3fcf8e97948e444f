"""The host class: what about a machine matters for cost, read from /proc and /sys once per boot.

Two kinds of parts. `matters`: two hosts that differ here are never pooled. `declarable`: microcode, kernel release and
hypervisor also tell hosts apart, until an operator declares such a difference harmless with evidence. What cannot be
read is null with `<name>_reason`, and that reason is part of the class too: unknown is not equal to known.
The class is made of what a machine *is* and how it is set, never of what it does at the moment (current MHz, load).
"""

import os

from proofcost.harness import digest, procfs, record
from proofcost.harness.record import Json

VERSION = 1  # raised when the meaning of a part changes, so that classes of old and new meters never meet by accident
_GIB = 1 << 30
_CPUINFO_MAX = 8 << 20
_SIGNATURE = ("vendor_id", "cpu family", "model", "stepping")
_ARM = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
_CPUINFO_KEYS = frozenset(("processor", "model name", "cpu", "uarch", "microcode", *_SIGNATURE, *_ARM))
# A favoured core of one kind (Intel Turbo Boost Max, AMD CPPC) is a few per cent faster; an efficiency core is a third
# slower.
_SAME_KIND_PERCENT = 15


def _text(path: str) -> str | None:
    raw = procfs.read_file(path, 4096)
    return None if raw is None else record.escape(raw.strip())


def _number(path: str) -> int | None:
    text = _text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def cpu_list(text: str) -> list[int]:
    """CPU numbers of the kernel's list format, `0-3,8,10-11`. Raises ValueError."""
    cpus: list[int] = []
    for part in text.split(","):
        if part.strip():
            first, _, last = part.partition("-")
            cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def _listed(path: str) -> list[int] | None:
    text = _text(path)
    try:
        return None if text is None else cpu_list(text)
    except ValueError:
        return None


def size_bytes(text: str) -> int | None:
    """Bytes of a cache size as sysfs writes it (`32K`, `1024K`, `16M`)."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 0)
    digits = text[:-1] if factor else text
    return int(digits) * (factor or 1) if digits.isdigit() else None


def cpuinfo_blocks(raw: bytes) -> list[dict[str, str]]:
    """/proc/cpuinfo as one table per processor, of the lines used here; of `flags` only whether `hypervisor` is."""
    blocks: list[dict[str, str]] = []
    for paragraph in raw.split(b"\n\n"):
        block: dict[str, str] = {}
        for line in paragraph.split(b"\n"):
            name, colon, value = line.partition(b":")
            key = name.strip().decode("ascii", "replace")
            if colon and key == "flags":
                block[key] = "hypervisor" if b"hypervisor" in value.split() else ""
            elif colon and key in _CPUINFO_KEYS:
                block[key] = record.escape(value.strip())
        if block.get("processor", "").isdigit():
            blocks.append(block)
    return blocks


def _model_of(block: dict[str, str]) -> str | None:
    """x86 and others: `model name`. Arm has none: who designed the core and which it is, as the registers say."""
    name = block.get("model name")
    if "CPU implementer" in block:
        numbers = "/".join(block.get(key, "?") for key in _ARM)
        return f"{name} {numbers}" if name else numbers
    return name or block.get("cpu") or block.get("uarch")


def _distinct(values: list[str | None]) -> list[Json]:
    found: list[Json] = [*sorted({value for value in values if value})]
    return found


def _put(parts: dict[str, Json], name: str, value: Json, reason: str) -> None:
    parts[name] = value
    if value is None or value == []:
        parts[name] = None
        parts[name + "_reason"] = reason


def _caches(sys: str, cpus: list[int]) -> list[Json]:
    seen: dict[tuple[int, str, str], tuple[int | None, int]] = {}
    for cpu in cpus:
        base = f"{sys}/devices/system/cpu/cpu{cpu}/cache"
        try:
            indexes = [name for name in os.listdir(base) if name.startswith("index")]
        except OSError:
            continue
        for index in indexes:
            level = _number(f"{base}/{index}/level")
            shared = _text(f"{base}/{index}/shared_cpu_list")
            kind = _text(f"{base}/{index}/type")
            if level is None or shared is None or kind is None or (level, kind, shared) in seen:
                continue
            size = size_bytes(_text(f"{base}/{index}/size") or "")
            seen[level, kind, shared] = (size, len(_listed(f"{base}/{index}/shared_cpu_list") or ()))
    counts: dict[tuple[int, str, int, int], int] = {}
    for (level, kind, _), (size, sharers) in seen.items():
        key = (level, kind, -1 if size is None else size, sharers)
        counts[key] = counts.get(key, 0) + 1
    return [
        {
            "level": level,
            "type": kind,
            "size_bytes": None if size < 0 else size,
            "shared_by_cpus_count": sharers,
            "count": count,
        }
        for (level, kind, size, sharers), count in sorted(counts.items())
    ]


def _core_kinds(sys: str, cpus: list[int], models: dict[int, str | None]) -> list[Json]:
    """CPUs grouped by kind of core; more than one group is a hybrid machine, where a time depends on where it ran."""
    pmu: dict[int, str] = {}
    for name in ("cpu_core", "cpu_atom", "cpu_lowpower"):  # the counters' own devices on Intel hybrids
        for cpu in _listed(f"{sys}/devices/{name}/cpus") or ():
            pmu[cpu] = name
    capacities = _grades({cpu: _number(f"{sys}/devices/system/cpu/cpu{cpu}/cpu_capacity") for cpu in cpus})
    speeds = _grades({cpu: _number(f"{sys}/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq") for cpu in cpus})
    counts: dict[tuple[str, str, int, int], int] = {}
    for cpu in cpus:
        kind = (models.get(cpu) or "", pmu.get(cpu, ""), capacities.get(cpu, 0), speeds.get(cpu, 0))
        counts[kind] = counts.get(kind, 0) + 1
    return [
        {
            "model": model or None,
            "counter_device": device or None,
            "capacity": capacity or None,
            "max_frequency_khz": speed or None,
            "cpus_count": count,
        }
        for (model, device, capacity, speed), count in sorted(counts.items())
    ]


def _grades(values: dict[int, int | None]) -> dict[int, int]:
    """Each CPU's value as the largest of its like: values that differ a little are one kind.

    Empty when all are one kind, so that a kernel which does not tell the value gives the same class as one that does.
    """
    grades: dict[int, int] = {}
    top = 0
    for value, cpu in sorted(((value, cpu) for cpu, value in values.items() if value is not None), reverse=True):
        if value * 100 < top * (100 - _SAME_KIND_PERCENT) or not top:
            top = value
        grades[cpu] = top
    return grades if len(set(grades.values())) > 1 else {}


def _virtual(
    blocks: list[dict[str, str]], proc: str, sys: str, machine: str
) -> tuple[bool | None, str | None, str | None]:
    """(virtual or not, what the hypervisor calls itself, why unknown)."""
    kind = _text(f"{sys}/hypervisor/type")
    vendor = _text(f"{sys}/class/dmi/id/sys_vendor")
    product = _text(f"{sys}/class/dmi/id/product_name")
    node = _text(f"{proc}/device-tree/hypervisor/compatible")
    names = [name for name in (kind, vendor, product, node) if name]
    if any(block.get("flags") == "hypervisor" for block in blocks) or kind or node:
        return True, " / ".join(names) or None, None
    if machine in ("x86_64", "i686") and any("flags" in block for block in blocks):
        return False, None, None
    text = " ".join(names).lower()
    if any(word in text for word in ("kvm", "qemu", "vmware", "virtual", "xen", "google compute", "apple virtual")):
        return True, " / ".join(names), None
    if "amazon ec2" in text:
        return ".metal" not in text, " / ".join(names), None
    return None, " / ".join(names) or None, "nothing on this architecture says whether it is virtual"


def _policies(sys: str) -> tuple[list[Json], list[Json], list[Json]]:
    base = f"{sys}/devices/system/cpu/cpufreq"
    try:
        policies = sorted(name for name in os.listdir(base) if name.startswith("policy"))
    except OSError:
        policies = []
    return (
        _distinct([_text(f"{base}/{name}/scaling_driver") for name in policies]),
        _distinct([_text(f"{base}/{name}/scaling_governor") for name in policies]),
        _distinct([_text(f"{base}/{name}/energy_performance_preference") for name in policies]),
    )


def turbo(sys: str = "/sys") -> bool | None:
    """Whether the CPU may exceed its nominal speed; None where nothing says so."""
    no_turbo = _number(f"{sys}/devices/system/cpu/intel_pstate/no_turbo")
    if no_turbo is not None:
        return no_turbo == 0
    boost = _number(f"{sys}/devices/system/cpu/cpufreq/boost")
    return None if boost is None else boost != 0


def gather(
    proc: str = "/proc", sys: str = "/sys", machine: str | None = None
) -> tuple[dict[str, Json], dict[str, Json]]:
    """(`matters`, `declarable`) of this host. Never raises for a file that is missing or strange.

    `proc`, `sys` and `machine` (as `uname -m` gives it) stand for the real ones, so that other machines can be tried.
    """
    machine = machine or os.uname().machine
    raw = procfs.read_file(f"{proc}/cpuinfo", _CPUINFO_MAX)
    blocks = cpuinfo_blocks(raw or b"")
    models = {int(block["processor"]): _model_of(block) for block in blocks}
    cpus = _listed(f"{sys}/devices/system/cpu/online") or sorted(models)
    base = f"{sys}/devices/system/cpu/cpu"
    siblings = [_text(f"{base}{cpu}/topology/thread_siblings_list") for cpu in cpus]
    cores = {text for text in siblings if text}
    packages = {_text(f"{base}{cpu}/topology/physical_package_id") for cpu in cpus} - {None}
    memory = [line.split() for line in (procfs.read_file(f"{proc}/meminfo", 4096) or b"").splitlines()]
    total = next((int(words[1]) * 1024 for words in memory if words[0:1] == [b"MemTotal:"]), None)
    virtual, hypervisor, virtual_reason = _virtual(blocks, proc, sys, machine)
    drivers, governors, preferences = _policies(sys)

    matters: dict[str, Json] = {"version": VERSION, "architecture": machine}
    _put(matters, "cpu_models", _distinct(list(models.values())), "/proc/cpuinfo names no model")
    named = ["/".join(block[key] for key in _SIGNATURE) for block in blocks if all(key in block for key in _SIGNATURE)]
    _put(matters, "cpu_signatures", _distinct([*named]), "/proc/cpuinfo has no family, model and stepping")
    _put(matters, "cpus_count", len(cpus) or None, "no list of online CPUs")
    _put(matters, "sockets_count", len(packages) or None, "no package ids in sysfs")
    _put(matters, "cores_count", len(cores) or None, "no thread siblings in sysfs")
    threads = max((len(cpu_list(text)) for text in cores if text[0].isdigit()), default=None)
    _put(matters, "threads_per_core_count", threads, "no thread siblings in sysfs")
    _put(matters, "caches", _caches(sys, cpus), "no caches in sysfs")
    _put(matters, "core_kinds", _core_kinds(sys, cpus, models), "no CPUs found")
    nodes = _listed(f"{sys}/devices/system/node/online")
    _put(matters, "numa_nodes_count", len(nodes) if nodes else None, "no NUMA nodes in sysfs")
    # Up, not to the nearest: MemTotal is what the kernel left of a whole number (24 GiB shows as 23.54).
    _put(matters, "memory_gib_count", None if total is None else -(-total // _GIB), "no MemTotal in /proc/meminfo")
    _put(matters, "virtual", virtual, virtual_reason or "")
    _put(matters, "frequency_drivers", drivers, "no cpufreq: the hypervisor or the firmware decides")
    _put(matters, "governors", governors, "no cpufreq: the hypervisor or the firmware decides")
    _put(matters, "energy_preferences", preferences, "the frequency driver has none")
    _put(matters, "turbo", turbo(sys), "no switch in sysfs: the hypervisor or the firmware decides")

    declarable: dict[str, Json] = {}
    _put(declarable, "microcode", _distinct([block.get("microcode") for block in blocks]), "not in /proc/cpuinfo")
    _put(declarable, "kernel_release", _text(f"{proc}/sys/kernel/osrelease"), "not in /proc/sys/kernel")
    _put(declarable, "hypervisor", hypervisor, "it does not say" if virtual else "none seen")
    return matters, declarable


def name_of(matters: dict[str, Json], declarable: dict[str, Json]) -> str:
    """The class's name: `<16 hex digits of what matters>-<8 hex digits of what may be declared harmless>`.

    Equal names are one class without a question; equal first halves are one class where somebody has declared the
    difference in the rest harmless.
    """
    first = digest.sha256_hex(record.dumps(matters).encode())[:16]
    return first + "-" + digest.sha256_hex(record.dumps(declarable).encode())[:8]
