"""What `doctor` concludes about the machine: its clock, its processors, its memory, and who else uses them."""

from proofcost.doctor_seen import GIB, MIB, Check, Seen, Status
from proofcost.harness.record import Json

CLOCKS_GOOD = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource", "xen", "tod")
CLOCKS_COARSE = ("jiffies", "refined-jiffies")
MEMORY_LOW_BYTES = 2 * GIB
BUSY_WARN_PERCENT = 10
STEAL_WARN_PERCENT = 1


def clock(seen: Seen) -> Check:
    """What keeps time."""
    name, why = "clock", "wall time is the difference of two readings"
    facts: dict[str, Json] = {"source": seen.clock_source, "read_ns": seen.clock_read_ns}
    said = f"{seen.clock_source}, {seen.clock_read_ns} ns a reading"
    if seen.clock_source in CLOCKS_COARSE:
        cure = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
        return Check(name, Status.BAD, f"{said}: moves in steps of milliseconds", why, cure, facts)
    if seen.clock_source is None:
        return Check(name, Status.NOTE, "the source cannot be read", why, None, facts)
    if seen.clock_source not in CLOCKS_GOOD:
        cure = "look for `clocksource` in `dmesg`: the fast clock was found unstable, times may be as well"
        return Check(name, Status.WARN, f"{said}: a slow clock", why, cure, facts)
    return Check(name, Status.GOOD, said, why, None, facts)


def governor(seen: Seen) -> Check:
    """Who sets the CPU's speed."""
    name, why = "governor", "a CPU that speeds up as it works gives short checks another price than long ones"
    governors: list[Json] = [*seen.governors]
    drivers: list[Json] = [*seen.frequency_drivers]
    facts: dict[str, Json] = {"governors": governors, "drivers": drivers}
    if not seen.governors:
        return Check(name, Status.NOTE, "not visible: the hypervisor or the firmware sets the speed", why, None, facts)
    said = ", ".join(seen.governors)
    cure = "sudo cpupower frequency-set -g performance"
    if seen.governors == ("performance",):
        return Check(name, Status.GOOD, said, why, None, facts)
    own = set(seen.frequency_drivers) & {"intel_pstate", "amd-pstate-epp"}
    status = Status.NOTE if own and seen.governors == ("powersave",) else Status.WARN
    return Check(name, status, said + (" (the hardware's own scaling)" if own else ""), why, cure, facts)


def turbo(seen: Seen) -> Check:
    """Whether the CPU may run faster than its nominal speed."""
    name, why = (
        "turbo",
        "turbo depends on heat and on the other cores: times move by 10 % and more, instructions do not",
    )
    if seen.turbo is None:
        return Check(name, Status.NOTE, "not visible: the hypervisor or the firmware decides", why)
    if seen.turbo:
        cure = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        if not set(seen.frequency_drivers) & {"intel_pstate", "intel_cpufreq"}:
            cure = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
        return Check(name, Status.NOTE, "on", why, cure)
    return Check(name, Status.GOOD, "off", why)


def smt(seen: Seen) -> Check:
    """Two threads on a core."""
    name, why = "smt", "a busy sibling slows a core by a third or more, and CPU time counts it as work"
    facts: dict[str, Json] = {"cpus_count": seen.cpus_count, "cores_count": seen.cores_count}
    if seen.threads_per_core is None:
        return Check(name, Status.NOTE, f"{seen.cpus_count} CPUs, threads not visible", why, None, facts)
    if seen.threads_per_core > 1:
        said = f"{seen.cpus_count} CPUs on {seen.cores_count} cores: {seen.threads_per_core} threads each"
        cure = "leave siblings idle while measuring, or: echo off | sudo tee /sys/devices/system/cpu/smt/control"
        return Check(name, Status.NOTE, said, why, cure, facts)
    return Check(
        name, Status.GOOD, f"{seen.cpus_count} CPUs, one thread a core as far as can be seen", why, None, facts
    )


def cores(seen: Seen) -> Check:
    """Unequal cores (benchexec #850)."""
    name, why = "cores", "on unequal cores a time says as much about where the check ran as about the check"
    facts: dict[str, Json] = {"kinds": [dict(kind) for kind in seen.core_kinds]}
    if len(seen.core_kinds) > 1:
        parts = [
            f"{kind.get('cpus_count')} of {kind.get('counter_device') or kind.get('model') or 'a kind'}"
            + (f" up to {kind['max_frequency_khz']} kHz" if kind.get("max_frequency_khz") else "")
            for kind in seen.core_kinds
        ]
        cure = "run the judge on one kind: taskset -c LIST proofcost run -- JUDGE (lists: lscpu -e)"
        return Check(name, Status.WARN, f"{len(parts)} kinds: {'; '.join(parts)}", why, cure, facts)
    return Check(name, Status.GOOD, "all alike", why, None, facts)


def numa(seen: Seen) -> Check:
    """Memory at two distances."""
    name, why = "numa", "memory of another node is slower, and where a check runs is left to chance"
    facts: dict[str, Json] = {"nodes_count": seen.numa_nodes}
    if seen.numa_nodes is not None and seen.numa_nodes > 1:
        cure = "numactl --cpunodebind=0 --membind=0 proofcost run -- JUDGE"
        return Check(name, Status.NOTE, f"{seen.numa_nodes} nodes", why, cure, facts)
    return Check(name, Status.GOOD, "one node" if seen.numa_nodes else "no nodes told apart", why, None, facts)


def memory(seen: Seen) -> Check:
    """Memory that is free to be used."""
    name, why = "memory", "a check that meets the end of memory is killed, and its cost is unknown"
    facts: dict[str, Json] = {
        "total_bytes": seen.memory_total_bytes,
        "available_bytes": seen.memory_available_bytes,
    }
    said = f"{seen.memory_available_bytes // MIB} of {seen.memory_total_bytes // MIB} MiB available"
    if seen.memory_available_bytes < MEMORY_LOW_BYTES:
        return Check(
            name, Status.WARN, said, why, "ps -eo pid,rss,comm --sort=-rss | head: end what is not needed", facts
        )
    return Check(name, Status.GOOD, said, why, None, facts)


def swap(seen: Seen) -> Check:
    """Swap lets an over-limit check crawl instead of ending."""
    name, why = "swap", "a check that is too large crawls on swap instead of ending, and its wall time means nothing"
    facts: dict[str, Json] = {"total_bytes": seen.swap_total_bytes, "used_bytes": seen.swap_used_bytes}
    if not seen.swap_total_bytes:
        return Check(name, Status.GOOD, "none", why, None, facts)
    said = f"{seen.swap_total_bytes // MIB} MiB, {seen.swap_used_bytes // MIB} MiB in use"
    status = Status.WARN if seen.swap_used_bytes else Status.NOTE
    return Check(name, status, said, why, "sudo swapoff -a, or memory.swap.max = 0 for the judge", facts)


def _per_mille(part: int, whole: int) -> int:
    return part * 1000 // whole if whole > 0 else 0


def _percent_text(per_mille: int) -> str:
    return f"{per_mille // 10}.{per_mille % 10} %"


def steal(seen: Seen) -> Check:
    """Time that the hypervisor gave to others."""
    name, why = "steal", "while the hypervisor runs another guest wall time grows, and part of it shows as CPU time"
    if seen.steal_ns is None or seen.steal_since_boot_ns is None:
        return Check(name, Status.NOTE, "the kernel does not tell", why)
    now = _per_mille(seen.steal_ns, seen.sample_ns * seen.cpus_count)
    ever = _per_mille(seen.steal_since_boot_ns, seen.uptime_ns * seen.cpus_count)
    said = f"{_percent_text(ever)} of all CPU time since boot, {_percent_text(now)} just now"
    facts: dict[str, Json] = {"since_boot_ns": seen.steal_since_boot_ns, "sample_ns": seen.steal_ns}
    if max(now, ever) >= STEAL_WARN_PERCENT * 10:
        cure = "measure on a machine of one's own, or keep only runs whose record shows no steal"
        return Check(name, Status.WARN, said, why, cure, facts)
    status = Status.NOTE if seen.steal_since_boot_ns else Status.GOOD
    return Check(name, status, said if seen.steal_since_boot_ns else "none since boot", why, None, facts)


def load(seen: Seen) -> Check:
    """What else runs."""
    name, why = (
        "load",
        "neighbours cost wall time, caches and turbo: on a busy host every method reads tens of ms too much",
    )
    hundredths = seen.load_1_minute_hundredths
    facts: dict[str, Json] = {
        "busy_ns": seen.busy_ns,
        "sample_ns": seen.sample_ns,
        "load_1_minute_hundredths": hundredths,
    }
    said = f"load {hundredths // 100}.{hundredths % 100:02d} on {seen.cpus_count} CPUs"
    busy = 0
    if seen.busy_ns is not None:
        busy = _per_mille(seen.busy_ns, seen.sample_ns * seen.cpus_count)
        said += f", {_percent_text(busy)} busy just now"
    if busy >= BUSY_WARN_PERCENT * 10 or hundredths >= 50 * seen.cpus_count:
        return Check(name, Status.WARN, said, why, "top: end or wait for what else runs", facts)
    return Check(name, Status.GOOD, said, why, None, facts)


def pressure(seen: Seen) -> Check:
    """Pressure stall information."""
    name, why = "pressure", "it tells how long work waited for CPU, memory or disk while a check ran"
    if seen.pressure:
        return Check(name, Status.GOOD, "the kernel tells", why)
    return Check(name, Status.NOTE, "the kernel has no pressure figures", why, "boot with psi=1 (CONFIG_PSI)")
