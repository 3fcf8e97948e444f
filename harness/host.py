"""Which machine this is, and what else happened on it during a run.

`hosts/` in the store:
    <machine-id digest>.id        the instance: a random id, made once, by whoever comes first
    <instance>/<boot id>.json     the parts of its class, as they were at the first call of this boot
    <instance>/<boot id>-<policy digest>.json   the same after somebody changed governor, turbo, SMT or the CPUs in use
Each file is there whole or not at all (written aside, then linked). An instance file is never replaced: a new id for an
old machine would fork its history silently.
"""

import errno
import os
import time

from proofcost.harness import digest, procfs, record
from proofcost.harness.record import Json, measurement, unavailable

_HEX = "0123456789abcdef"
_INSTANCE_DIGITS = 32
_CLASS_DIGITS = 16 + 1 + 8
_POLICY_DIGITS = 16
_BOOT_ID_MAX = 64
_HEAD = b'{"schema":1,"class":"'
_HEAD_POLICY = b'","policy":"'
_HEAD_BYTES = 256
_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# What an operator may set while the machine runs, and what changes cost: read at each call, so kept short.
_POLICY_FILES = (
    "cpufreq/policy0/scaling_governor",
    "cpufreq/policy0/energy_performance_preference",
    "cpufreq/boost",
    "intel_pstate/no_turbo",
    "online",
    "smt/active",
)


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and all(char in _HEX for char in text)


def _publish(path: str, data: bytes) -> None:
    """Make a file that is there whole or not at all. Raises FileExistsError when another was first, else OSError."""
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)  # once per machine and boot: an empty file after a power loss would be a host without a name
        finally:
            os.close(fd)
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
            # A filesystem without hard links. Two first calls at the same moment may both come here; the later wins,
            # and both read what is there afterwards.
            if os.access(path, os.F_OK):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            os.rename(temporary, path)
            return
    finally:
        try:
            os.unlink(temporary)
        except OSError:
            pass


def _read(path: str, limit: int) -> bytes | None:
    """A file of ours; None when it is not there. Raises OSError for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def machine_digest(boot_id: str | None, etc: str = "/etc") -> tuple[str, str | None]:
    """(32 hex digits that stand for this machine, why they are not made from its machine-id).

    machine-id(5) asks that the id itself is not shown to others, so it is hashed with a word of ours.
    """
    raw = procfs.read_file(f"{etc}/machine-id", 128)
    word = (raw or b"").strip()
    if _is_hex(word.decode("ascii", "replace").lower(), 32):
        return digest.sha256_hex(b"proofcost host instance\0" + word.lower())[:_INSTANCE_DIGITS], None
    reason = "missing or unreadable" if raw is None else "empty" if not word else "no machine id"
    seed = b"proofcost host instance\0" + os.fsencode(os.uname().nodename) + b"\0" + (boot_id or "").encode()
    return digest.sha256_hex(seed)[:_INSTANCE_DIGITS], f"machine-id is {reason}: known for this boot only"


def _boot_id(proc: str) -> str | None:
    raw = procfs.read_file(f"{proc}/sys/kernel/random/boot_id", _BOOT_ID_MAX) or b""
    text = raw.decode("ascii", "replace").strip()
    return text if text and all(char in _HEX or char == "-" for char in text) else None


def policy_digest(sys: str = "/sys") -> str:
    """16 hex digits over what may be set while the machine runs."""
    seen = [procfs.read_file(f"{sys}/devices/system/cpu/{name}", 4096) or b"-" for name in _POLICY_FILES]
    return digest.sha256_hex(b"\0".join(seen))[:_POLICY_DIGITS]


def _instance(store: str, machine: str) -> str:
    """This machine's id in this store, made when there is none. Raises OSError; ValueError for a damaged file."""
    path = f"{store}/hosts/{machine}.id"
    raw = _read(path, 128)
    if raw is None:
        try:
            os.mkdir(f"{store}/hosts", 0o700)
        except FileExistsError:
            pass
        try:
            _publish(path, os.urandom(_INSTANCE_DIGITS // 2).hex().encode() + b"\n")
        except FileExistsError:
            pass
        raw = _read(path, 128)
    text = (raw or b"").decode("ascii", "replace")
    if not text.endswith("\n") or not _is_hex(text[:-1], _INSTANCE_DIGITS):
        # Not replaced: see above. What to do is the operator's to say.
        raise ValueError(f"hosts/{machine}.id is damaged: put it back, or remove it and this host counts as new")
    return text[:-1]


def parse_head(raw: bytes) -> tuple[str, str] | None:
    """(class, policy digest) of the first bytes of a class file, which are always the same; None when it is damaged."""
    text = raw[len(_HEAD) :].decode("ascii", "replace")
    name = text[:_CLASS_DIGITS]
    middle = _HEAD_POLICY.decode()
    policy = text[_CLASS_DIGITS + len(middle) :][:_POLICY_DIGITS]
    if not raw.startswith(_HEAD) or text[_CLASS_DIGITS:][: len(middle)] != middle:
        return None
    halves = name.split("-")
    sound = len(halves) == 2 and _is_hex(halves[0], 16) and _is_hex(halves[1], 8) and _is_hex(policy, _POLICY_DIGITS)
    return (name, policy) if sound else None


def _class(store: str, instance: str, boot_id: str, machine: str, proc: str, sys: str) -> str:
    """Name of this host's class, gathered and written down when this boot or setting has none. Raises OSError."""
    policy = policy_digest(sys)
    directory = f"{store}/hosts/{instance}"
    paths = (f"{directory}/{boot_id}.json", f"{directory}/{boot_id}-{policy}.json")
    free = paths[0]
    for path in paths:
        raw = _read(path, _HEAD_BYTES)
        head = None if raw is None else parse_head(raw)
        if head is not None and head[1] == policy:
            return head[0]
        if raw is None:
            free = path
            break
        # The first file is for another setting, or damaged: the second has its place. A damaged second is replaced.
        free = paths[1]

    from proofcost.harness import hostclass

    matters, declarable = hostclass.gather(proc, sys)
    name = hostclass.name_of(matters, declarable)
    parts: dict[str, Json] = {
        "schema": 1,
        "class": name,
        "policy": policy,
        "instance": instance,
        "boot_id": boot_id,
        "machine_id_digest": machine,
        "made": {
            "realtime_ns": time.time_ns(),
            "boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        },
        "matters": matters,
        "declarable": declarable,
    }
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    try:
        _publish(free, record.dumps(parts).encode() + b"\n")
    except FileExistsError:
        head = parse_head(_read(free, _HEAD_BYTES) or b"")
        if head is None and free == paths[1]:
            os.unlink(free)
            _publish(free, record.dumps(parts).encode() + b"\n")
    return name


def identity(store: str, proc: str = "/proc", sys: str = "/sys", etc: str = "/etc") -> dict[str, Json]:
    """The record's `host`: `instance`, `class`, `boot_id`; null with `reason`. Never raises.

    `class` is `<16 hex>-<8 hex>` (hostclass.name_of). `machine_id_reason` says why the instance holds for this boot
    only. A store that cannot be written gives an instance only where an earlier call made one.
    """
    boot_id = _boot_id(proc)
    machine, machine_reason = machine_digest(boot_id, etc)
    found: dict[str, Json] = {"instance": None, "class": None, "boot_id": boot_id, "reason": None}
    if machine_reason is not None:
        found["machine_id_reason"] = machine_reason
    try:
        instance = _instance(store, machine)
        found["instance"] = instance
        if boot_id is None:
            found["reason"] = "no boot id: class not looked up"
        else:
            found["class"] = _class(store, instance, boot_id, machine, proc, sys)
    except OSError as error:
        found["reason"] = f"hosts/ in the store: {error.strerror or record.escape_text(str(error))}"
    except ValueError as error:
        found["reason"] = record.escape_text(str(error))
    return found


# What else happened on the host. name -> (file, what is read, unit, factor to the unit)
_STAT = "/proc/stat, first line, all CPUs"
_FIGURES = (
    ("steal", "stat", "ns", f"{_STAT}: steal"),
    ("busy", "stat", "ns", f"{_STAT}: user, nice, system, irq, softirq; the command's own CPU time included"),
    ("swap_in", "vmstat", "bytes", "/proc/vmstat pswpin, whole host"),
    ("swap_out", "vmstat", "bytes", "/proc/vmstat pswpout, whole host"),
    ("host_oom_kills", "vmstat", "count", "/proc/vmstat oom_kill, whole host"),
    ("psi_cpu_some", "pressure/cpu", "ns", "/proc/pressure/cpu some total, whole host"),
    ("psi_memory_some", "pressure/memory", "ns", "/proc/pressure/memory some total, whole host"),
    ("psi_memory_full", "pressure/memory", "ns", "/proc/pressure/memory full total, whole host"),
    ("psi_io_some", "pressure/io", "ns", "/proc/pressure/io some total, whole host"),
    ("psi_io_full", "pressure/io", "ns", "/proc/pressure/io full total, whole host"),
)


def parse_stat(raw: bytes) -> dict[str, int | None]:
    """`steal` and `busy` in ns from the first line of /proc/stat (its start is enough)."""
    line, end, _ = raw.partition(b"\n")
    words = line.split()
    if not end or len(words) < 9 or words[0] != b"cpu" or not all(word.isdigit() for word in words[1:]):
        return {"steal": None, "busy": None}
    ticks = [int(word) for word in words[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    return {"steal": steal * _NS_PER_TICK, "busy": (user + nice + system + irq + softirq) * _NS_PER_TICK}


def parse_vmstat(raw: bytes, page_bytes: int = _PAGE_BYTES) -> dict[str, int | None]:
    """`swap_in` and `swap_out` in bytes, `host_oom_kills`, from /proc/vmstat."""
    return {
        "swap_in": _scaled(_after(raw, b"pswpin "), page_bytes),
        "swap_out": _scaled(_after(raw, b"pswpout "), page_bytes),
        "host_oom_kills": _after(raw, b"oom_kill "),
    }


def parse_pressure(raw: bytes, name: str) -> dict[str, int | None]:
    """`<name>_some` and `<name>_full` in ns from a file of /proc/pressure."""
    found: dict[str, int | None] = {}
    for kind in (b"some", b"full"):
        start = raw.find(kind + b" ")
        line = raw[start : raw.find(b"\n", start)] if start >= 0 else b""
        found[f"{name}_{kind.decode()}"] = _scaled(_after(line, b"total="), 1000)
    return found


def _after(raw: bytes, key: bytes) -> int | None:
    """The number after a key that starts a line or a word."""
    at = raw.find(key)
    while at > 0 and raw[at - 1] not in b"\n ":
        at = raw.find(key, at + 1)
    if at < 0:
        return None
    start = end = at + len(key)
    while end < len(raw) and 0x30 <= raw[end] <= 0x39:
        end += 1
    return int(raw[start:end]) if start < end < start + 20 else None


def _scaled(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def snapshot(proc: str = "/proc") -> dict[str, int | None]:
    """Running totals of the whole host, named as in `disturbance`; None where it does not tell. Never raises."""
    found: dict[str, int | None] = {}
    found.update(parse_stat(procfs.read_file(f"{proc}/stat", 4096) or b""))
    found.update(parse_vmstat(procfs.read_file(f"{proc}/vmstat") or b""))
    for name in ("cpu", "memory", "io"):
        found.update(parse_pressure(procfs.read_file(f"{proc}/pressure/{name}", 1024) or b"", f"psi_{name}"))
    return found


def _why(proc: str, file: str) -> str:
    try:
        fd = os.open(f"{proc}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.read(fd, 1)
        finally:
            os.close(fd)
    except OSError as error:
        return f"/proc/{file}: {error.strerror}"
    return f"/proc/{file} does not have it"


def disturbance(
    before: dict[str, int | None], after: dict[str, int | None], proc: str = "/proc"
) -> dict[str, dict[str, Json]]:
    """{name: measurement} of the whole host between two snapshots: the record's `host_disturbance` but for `throttled`.

    CPU times have the grain of /proc/stat (a clock tick, mostly 10 ms). `busy` includes the command itself.
    """
    found: dict[str, dict[str, Json]] = {}
    for name, file, unit, method in _FIGURES:
        first = before.get(name)
        last = after.get(name)
        if name not in before or name not in after:
            found[name] = unavailable(unit, method, "the meter did not read it")
        elif first is None or last is None:
            found[name] = unavailable(unit, method, _why(proc, file))
        elif last < first:
            # Seen with steal after a live migration, and by suspended virtual CPUs.
            found[name] = unavailable(unit, method, f"the host's total went back, from {first} to {last}")
        else:
            found[name] = measurement(last - first, unit, method)
    return found
