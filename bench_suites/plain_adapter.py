"""An ordinary adapter, the peer that our own is measured against: `--phase PHASE -- COMMAND...` in plain Python.

Written as one would write it for one judge, with what everybody uses: argparse, json, subprocess, resource, ctypes; one
hardware counter by a raw perf_event_open, and one metrics.json for all calls, read, changed and written again
($PLAIN_ADAPTER_METRICS). It is honest work and not a straw man: no import that it does not use.
"""

import argparse
import ctypes
import errno
import json
import os
import platform
import resource
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_ATTR = struct.Struct("<IIQQQQQIIQ")
_FLAGS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6  # disabled, inherit, no kernel, no hypervisor
_ENABLE = 0x2400
_DENIED = (errno.EACCES, errno.EPERM)
_UNSUPPORTED = (errno.E2BIG, errno.EINVAL, errno.ENOENT, errno.ENOSYS, errno.EOPNOTSUPP)


def open_counter() -> tuple[int | None, str | None]:
    """(descriptor of a counter of retired instructions, None), or (None, why there is none)."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return None, "counter_not_supported"
    attr = _ATTR.pack(0, _ATTR.size, 1, 0, 0, 0, _FLAGS, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(number, ctypes.c_char_p(attr), 0, -1, -1, 8)
    if fd >= 0:
        return fd, None
    code = ctypes.get_errno()
    if code in _DENIED:
        return None, "counter_permission_denied"
    return None, "counter_not_supported" if code in _UNSUPPORTED else "counter_not_reported"


def enable(fd: int) -> None:
    import fcntl

    fcntl.ioctl(fd, _ENABLE)


def read_counter(fd: int | None, reason: str | None) -> dict[str, Any]:
    """The count as the metrics have it."""
    if fd is None:
        return {"status": "unavailable", "reason": reason}
    raw = os.read(fd, 8)
    if len(raw) != 8:
        return {"status": "unavailable", "reason": "counter_not_reported"}
    return {"status": "measured", "value": int.from_bytes(raw, "little")}


def add(metrics: dict[str, Any], phase: str, wall_ms: int, count: dict[str, Any], status: int, peak_kb: int) -> None:
    """Add one call to the metrics of its phase."""
    empty = {
        "invocations": 0,
        "wall_time_ms": 0,
        "retired_instructions": {"status": "measured", "value": 0},
        "peak_memory_kb": 0,
        "terminations": [],
    }
    entry = metrics.setdefault("phases", {}).setdefault(phase, empty)
    entry["invocations"] += 1
    entry["wall_time_ms"] += wall_ms
    entry["peak_memory_kb"] = max(entry["peak_memory_kb"], peak_kb)
    total = entry["retired_instructions"]
    if total["status"] == "measured":
        if count["status"] == "measured":
            total["value"] += count["value"]
        else:
            entry["retired_instructions"] = count
    ended = {"kind": "signaled", "signal": -status} if status < 0 else {"kind": "exited", "code": status}
    entry["terminations"].append(ended)


def store(path: str, **call: Any) -> None:
    """Read the metrics, add a call, write them again in one step."""
    try:
        with open(path, encoding="utf-8") as file:
            metrics = json.load(file)
    except FileNotFoundError:
        metrics = {"schema_version": 1}
    add(metrics, **call)
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(metrics, file)
    os.replace(temporary, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phase", choices=("build", "checker"), required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    fd, reason = open_counter()
    if fd is not None:
        enable(fd)
    began = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    wall_ms = round((time.monotonic() - began) * 1000)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    store(
        os.environ["PLAIN_ADAPTER_METRICS"],
        phase=args.phase,
        wall_ms=wall_ms,
        count=read_counter(fd, reason),
        status=status,
        peak_kb=usage.ru_maxrss,
    )
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
