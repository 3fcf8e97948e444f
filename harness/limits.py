"""The limits in force on a command: resource limits, CPU affinity, and what its cgroup and all above it allow.

A cgroup limit holds for everything below the cgroup that sets it, so the one in force is the smallest on the way up.
What a container's cgroup namespace hides above its root cannot be seen from inside; the scope then says so.
"""

import errno
import os
import resource

from proofcost.harness import record
from proofcost.harness.record import Json

UNLIMITED = "unlimited"
ABOVE_HIDDEN = "limits above the visible root cannot be seen from inside this cgroup namespace"

_RLIMITS = (
    ("cpu", resource.RLIMIT_CPU),
    ("as", resource.RLIMIT_AS),
    ("data", resource.RLIMIT_DATA),
    ("stack", resource.RLIMIT_STACK),
    ("fsize", resource.RLIMIT_FSIZE),
    ("nofile", resource.RLIMIT_NOFILE),
    ("nproc", resource.RLIMIT_NPROC),
    ("core", resource.RLIMIT_CORE),
    ("memlock", resource.RLIMIT_MEMLOCK),
    ("rss", resource.RLIMIT_RSS),
)
_LEVELS_MAX = 64  # deeper than any real hierarchy; a bound, so that no tree can hold the meter up
_INT64_MAX = (1 << 63) - 1

Parsed = tuple[int, int] | None  # a limit as numerator/denominator; None = this level sets none


class NotUnderstoodError(Exception):
    """A limit file holds something that its documented format does not allow."""


def _number(word: bytes) -> int:
    if not word.isdigit() or len(word) > 19 or int(word) > _INT64_MAX:
        raise NotUnderstoodError
    return int(word)


def parse_v2_bytes(text: bytes) -> Parsed:
    """memory.max, memory.swap.max: `max`, or bytes. Raises NotUnderstoodError."""
    word = text.strip()
    return None if word == b"max" else (_number(word), 1)


def parse_v2_cpu(text: bytes) -> Parsed:
    """cpu.max: `QUOTA PERIOD`, both in us, or `max PERIOD`; CPUs as quota/period. Raises NotUnderstoodError."""
    words = text.split()
    if len(words) != 2 or _number(words[1]) == 0:
        raise NotUnderstoodError
    return None if words[0] == b"max" else (_number(words[0]), _number(words[1]))


def parse_v1_bytes(text: bytes, page_bytes: int) -> Parsed:
    """memory.limit_in_bytes: bytes; the largest number of whole pages in a signed long (or more) means unlimited.

    That is 9223372036854771712 with pages of 4 KiB and 9223372036854710272 with 64 KiB. Raises NotUnderstoodError.
    """
    value = _number(text.strip())
    return None if value >= _INT64_MAX // page_bytes * page_bytes else (value, 1)


def parse_v1_cpu(quota: bytes, period: bytes) -> Parsed:
    """cpu.cfs_quota_us and cpu.cfs_period_us; a quota of -1 means unlimited. Raises NotUnderstoodError."""
    if quota.strip() == b"-1":
        return None
    periods = _number(period.strip())
    if periods == 0:
        raise NotUnderstoodError
    return _number(quota.strip()), periods


def is_less(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether one ratio is smaller than the other, exactly; denominators are positive."""
    return one[0] * other[1] < other[0] * one[1]


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(fd, 256)
    finally:
        os.close(fd)


def _levels(directory: str) -> list[str]:
    """The cgroup's directory and those above it up to the mount's root, nearest first."""
    found = [directory.rstrip("/")]
    while len(found) < _LEVELS_MAX:
        above = os.path.dirname(found[-1])
        # What is no cgroup any more has no cgroup.procs; the device number would not tell (bind mounts, nested v2).
        if above == found[-1] or not os.access(above + "/cgroup.procs", os.F_OK):
            break
        found.append(above)
    return found


def _limit(levels: list[str], files: tuple[str, ...], page_bytes: int) -> tuple[Parsed, dict[str, Json]]:
    """The smallest limit among the levels (the nearest where equal), and it as `reason` and `scope` say it."""
    root = levels[-1]
    least: Parsed = None
    scope: str | None = None
    fault: str | None = None
    seen = False
    hidden = False
    for level in levels:
        try:
            found = _parse(files, [_read(level + "/" + name) for name in files], page_bytes)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # ENODEV: the cgroup went away meanwhile
                fault = f"{files[0]} of {_name(level, root)}: {error.strerror}"
            continue
        except NotUnderstoodError:
            fault = f"{files[0]} of {_name(level, root)} is not understood"
            continue
        seen = True
        # The true root of v2 has no limit files; a root that has them is a namespace's, so something is above it.
        hidden = level == root and files[0].endswith(".max")
        if found is not None and (least is None or is_less(found, least)):
            least = found
            scope = _name(level, root)
    if least is not None:
        return least, {"reason": None if fault is None else "at most: " + fault, "scope": scope}
    if fault is not None:
        return None, {"reason": fault, "scope": None}
    if not seen and not _controlled(root, files[0]):
        return None, {"reason": f"no {files[0]} on this hierarchy", "scope": None}
    return None, {"reason": UNLIMITED, "scope": ABOVE_HIDDEN if hidden else None}


def _parse(files: tuple[str, ...], texts: list[bytes], page_bytes: int) -> Parsed:
    if files[0] == "cpu.cfs_quota_us":
        return parse_v1_cpu(texts[0], texts[1])
    if files[0] == "cpu.max":
        return parse_v2_cpu(texts[0])
    if files[0].endswith("_in_bytes"):
        return parse_v1_bytes(texts[0], page_bytes)
    return parse_v2_bytes(texts[0])


def _controlled(root: str, file: str) -> bool:
    """Whether the controller of a file works on this hierarchy although no level has the file (all unlimited)."""
    controller = file.split(".")[0].encode()
    try:
        return controller in _read(root + "/cgroup.controllers").split()
    except OSError:
        # v1 has no such list, and its hierarchy is the controller's own; quota files are absent from its root only.
        return file == "cpu.cfs_quota_us" and os.access(root + "/cpu.shares", os.F_OK)


def _name(level: str, root: str) -> str:
    return record.escape_text(level[len(root) :] or "/")


def _with_value(value: Json, said: dict[str, Json]) -> dict[str, Json]:
    return {"value": value, "reason": said["reason"], "scope": said["scope"]}


def _whole(found: tuple[Parsed, dict[str, Json]]) -> dict[str, Json]:
    return _with_value(None if found[0] is None else found[0][0], found[1])


def _rlimits() -> dict[str, Json]:
    limits: dict[str, Json] = {}
    for name, number in _RLIMITS:
        try:
            soft, hard = resource.getrlimit(number)
        except (OSError, ValueError) as error:
            limits[name] = {"soft": None, "hard": None, "reason": record.escape_text(str(error))}
            continue
        # RLIM_INFINITY is -1; other negative numbers are limits beyond 2^63, which nothing can reach either.
        limits[name] = {"soft": soft if soft >= 0 else None, "hard": hard if hard >= 0 else None}
    return limits


def _absent(hierarchy: str) -> tuple[Parsed, dict[str, Json]]:
    return None, {"reason": f"no {hierarchy} cgroup known", "scope": None}


def in_force(cgroup_dirs: dict[str, str]) -> dict[str, Json]:
    """The record's `limits` but for `timeout_ns` and `memory_limit_bytes`. Never raises.

    `cgroup_dirs` maps `unified`, `memory` and `cpu` (those that exist) to the absolute directory of the cgroup in which
    the command will run; `memory` and `cpu` are v1 hierarchies and lead where they are given. A value of null has the
    reason `unlimited`, or why it is not known. A value whose reason starts `at most` is the smallest of what could be
    read. On v1 the swap limit counts memory and swap together (`scope` says so): swap can reach it, not exceed it.
    v1 kernels before 5.11 with memory.use_hierarchy 0 are not told apart: an ancestor's limit may not hold there.
    """
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    levels = {hierarchy: _levels(directory) for hierarchy, directory in cgroup_dirs.items()}
    if "memory" in levels:
        memory = _limit(levels["memory"], ("memory.limit_in_bytes",), page_bytes)
        swap = _limit(levels["memory"], ("memory.memsw.limit_in_bytes",), page_bytes)
        if swap[0] is not None:
            swap[1]["scope"] = f"{swap[1]['scope']} (memory and swap together)"
    elif "unified" in levels:
        memory = _limit(levels["unified"], ("memory.max",), page_bytes)
        swap = _limit(levels["unified"], ("memory.swap.max",), page_bytes)
    else:
        memory = swap = _absent("memory")
    if "cpu" in levels:
        cpu = _limit(levels["cpu"], ("cpu.cfs_quota_us", "cpu.cfs_period_us"), page_bytes)
    elif "unified" in levels:
        cpu = _limit(levels["unified"], ("cpu.max",), page_bytes)
    else:
        cpu = _absent("cpu")

    affinity: int | None = None
    limits: dict[str, Json] = {"rlimits": _rlimits()}
    try:
        affinity = len(os.sched_getaffinity(0))
    except OSError as error:
        limits["affinity_reason"] = error.strerror
    limits["affinity_cpus_count"] = affinity
    limits["cgroup_memory_bytes"] = _whole(memory)
    limits["cgroup_swap_bytes"] = _whole(swap)
    limits["cgroup_cpu"] = _with_value(_ratio(cpu[0]), cpu[1])
    limits["effective_cpus"] = _ratio(effective_cpus(affinity, cpu[0]))
    return limits


def _ratio(value: Parsed) -> Json:
    return None if value is None else {"numerator": value[0], "denominator": value[1]}


def effective_cpus(affinity: int | None, quota: Parsed) -> Parsed:
    """The smaller of the CPUs the command may run on and those its quota allows; None when neither is known."""
    if affinity is None or (quota is not None and is_less(quota, (affinity, 1))):
        return quota
    return affinity, 1
