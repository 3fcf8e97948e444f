"""The `started` event: everything that is known of a call before its command starts (docs/record.md)."""

import os
import sys

from proofcost.harness import digest, host, libc, limits, procfs, record, spawn
from proofcost.harness.clock import clocks
from proofcost.harness.plan import HIDDEN, KIND_NONE, Plan
from proofcost.harness.record import Json
from proofcost.harness.version import METRIC_DEFINITIONS, SCHEMA, VERSION

ARGV_KEPT_BYTES = 16384
CONFIG_KEPT_BYTES = 16384
JUDGE_CONFIG_KEPT_BYTES = 65536
SOURCE_READ_MAX_BYTES = 64 << 20
INPUTS_MAX = 16


def started(
    plan: Plan,
    session: str,
    session_known_by: str,
    invocation: str,
    abi: int | None,
    cgroups: dict[str, Json],
    limit_dirs: dict[str, str],
) -> dict[str, Json]:
    """The whole event. `cgroups` is its `cgroup`, `limit_dirs` the cgroups whose limits hold for the command."""
    meter: dict[str, Json] = {
        "version": VERSION,
        "digest": plan.meter_digest,
        "digest_reason": None if plan.meter_digest else "not installed: runs from its package",
        "entrance": plan.entrance,
        "metric_definitions": METRIC_DEFINITIONS,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "policy": "strict" if plan.strict else "run",
    }
    cache = plan.store + "/digests" if plan.digests is None else plan.digests or None
    in_force = limits.in_force(limit_dirs)
    in_force["timeout_ns"] = plan.timeout_ns
    in_force["memory_limit_bytes"] = plan.memory_limit_bytes
    raw = [os.fsencode(argument) for argument in plan.argv]
    return {
        "schema": SCHEMA,
        "event": "started",
        "invocation": invocation,
        "session": session,
        "session_known_by": session_known_by,
        "meter": meter,
        "phase": {
            "given": None if plan.phase_given is None else record.escape_text(plan.phase_given),
            "understood": record.escape_text(plan.phase_understood),
            "known_by": plan.phase_known_by,
        },
        "subject": _subject(plan),
        "labels": plan.labels,
        "ids": plan.ids,
        "bench": plan.bench,
        "argv": _argv(raw),
        "cwd": _cwd(),
        "judge_config": _kept_file(plan.judge_config, JUDGE_CONFIG_KEPT_BYTES, ("path", "sha256", "text")),
        "sandbox": _sandbox(plan, abi, cache),
        "target": _target(plan, cache),
        "kernel": _kernel(plan),
        "inputs": _inputs(plan),
        "limits": in_force,
        "host": host.identity(plan.store),
        "clocks": clocks(),
        "trust": "collected" if plan.user is not None else "root" if os.geteuid() == 0 else "user",
        "process": {
            "meter_pid": os.getpid(),
            "meter_start_ticks": procfs.start_ticks(os.getpid()),
            "pid_namespace": procfs.pid_namespace(),
            "parent_pid": os.getppid(),
            "parent_name": record.escape(procfs.name_of(os.getppid()) or b""),
            "uid": os.geteuid(),
            "judge_user": _user(plan),
            "collector": None,
        },
        "cgroup": cgroups,
        "import": None,
    }


def _user(plan: Plan) -> Json:
    """Whom `run --as` makes the judge."""
    user = plan.user
    if user is None:
        return None
    groups: list[Json] = [*user.groups]
    return {"name": record.escape_text(user.name), "uid": user.uid, "gid": user.gid, "groups": groups}


def landlock_abi() -> int | None:
    """The kernel's Landlock ABI version, None without Landlock."""
    try:
        return libc.landlock_abi()
    except OSError:
        return None


def _argv(raw: list[bytes]) -> dict[str, Json]:
    """Arguments as far as they fit, the number of all, and a digest over all."""
    head: list[Json] = []
    room = ARGV_KEPT_BYTES
    for argument in raw:
        if len(argument) > room:
            break
        room -= len(argument) + 1
        head.append(record.escape(argument))
    return {"head": head, "count": len(raw), "sha256": digest.sha256_hex(b"\0".join(raw))}


def _cwd() -> str | None:
    try:
        return record.escape(os.getcwdb())
    except OSError:  # deleted meanwhile; the command starts there all the same
        return None


def _kept_file(path: str | None, limit: int, names: tuple[str, str, str]) -> Json:
    """Path, size, digest and text of a small file; null when there is none to keep."""
    if path is None:
        return None
    raw = procfs.read_file(path, limit + 1)
    path_name, sha_name, text_name = names
    kept: dict[str, Json] = {path_name: record.escape_text(path)}
    if raw is None:
        kept.update({sha_name: None, text_name: None, "size_bytes": None, "reason": "cannot be read"})
    elif len(raw) > limit:
        kept.update(
            {sha_name: None, text_name: None, "size_bytes": _size(path), "reason": f"larger than {limit} bytes"}
        )
    else:
        kept.update(
            {sha_name: digest.sha256_hex(raw), text_name: record.escape(raw), "size_bytes": len(raw), "reason": None}
        )
    return kept


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _program(name: str, plan: Plan, cache: str | None) -> dict[str, Json]:
    path = spawn.find_program(name)
    if path is None:
        return {"path": None, "size_bytes": None, "sha256": None, "reason": "not found"}
    sha256, reason = digest.of_file(path, cache, plan.learnt)
    return {
        "path": record.escape_text(os.path.abspath(path)),
        "size_bytes": _size(path),
        "sha256": sha256,
        "reason": reason,
    }


def _sandbox(plan: Plan, abi: int | None, cache: str | None) -> Json:
    sandbox = plan.sandbox
    seen: dict[str, Json] = {"kind": sandbox.kind, "path": None, "sha256": None}
    enforced: bool | None = False
    known_by = "no sandbox in the command line"
    if sandbox.kind != KIND_NONE:
        program = _program(plan.argv[0], plan, cache)
        seen["path"], seen["sha256"] = program["path"], program["sha256"]
        enforced, known_by = None, f"{sandbox.kind} was asked for; nothing here checks what it enforces"
    if sandbox.kind == "landrun":
        if abi is None and sandbox.best_effort:
            enforced, known_by = False, "this kernel offers no Landlock and --best-effort drops what it cannot have"
        elif abi is not None:
            enforced, known_by = True, f"the kernel offers Landlock ABI {abi}, as far as that ABI goes"
    if sandbox.unrestricted:
        enforced, known_by = False, "its arguments restrict no file system"
    seen.update(
        {
            "best_effort": sandbox.best_effort,
            "landlock_abi": abi,
            "enforced": enforced,
            "enforced_known_by": known_by,
            "writable": [record.escape_text(path) for path in sandbox.writable],
            "readable": [record.escape_text(path) for path in sandbox.readable],
        }
    )
    return seen


def _target(plan: Plan, cache: str | None) -> Json:
    if not plan.target:
        return {
            "name": None,
            "path": None,
            "size_bytes": None,
            "sha256": None,
            "reason": "not told by the command line",
        }
    named: dict[str, Json] = {"name": record.escape_text(os.path.basename(plan.target[0]))}
    if plan.target_file == HIDDEN:
        named.update({"path": None, "size_bytes": None, "sha256": None, "reason": "which file it is there is not seen"})
    else:
        named.update(_program(plan.target_file or plan.target[0], plan, cache))
    return named


def _kernel(plan: Plan) -> Json:
    if plan.kernel_name is None:
        return None
    seen: dict[str, Json] = {
        "name": record.escape_text(plan.kernel_name),
        "threads_count": plan.kernel_threads_count,
    }
    kept = _kept_file(plan.kernel_config, CONFIG_KEPT_BYTES, ("config_path", "config_sha256", "config_text"))
    if isinstance(kept, dict):
        kept.pop("size_bytes")
        seen.update(kept)
    else:
        seen.update(
            {"config_path": None, "config_sha256": None, "config_text": None, "reason": "no configuration file"}
        )
    return seen


def _inputs(plan: Plan) -> list[Json]:
    """Sizes of the regular files that were granted one by one: the export, its configuration; not the program."""
    seen: list[Json] = []
    program = plan.target_file or (plan.target[0] if plan.target else None)
    for path in plan.sandbox.readable or plan.target[1:]:
        if path not in ("/", program) and os.path.isfile(path):
            seen.append({"path": record.escape_text(path), "size_bytes": _size(path)})
        if len(seen) == INPUTS_MAX:
            break
    return seen


def _subject(plan: Plan) -> Json:
    if plan.subject_module is None:
        return None
    seen: dict[str, Json] = {"module": record.escape_text(plan.subject_module), "source_path": None}
    # The checked party chooses what stands there: a pipe, a terminal or /dev/zero must not be read.
    raw = None
    if plan.source_path is not None and os.path.isfile(plan.source_path):
        raw = procfs.read_file(plan.source_path, SOURCE_READ_MAX_BYTES + 1)
    if raw is None or len(raw) > SOURCE_READ_MAX_BYTES:
        reason = "no source file of that module in the project" if raw is None else "larger than 64 MiB"
        seen.update({"source_sha256": None, "source_size_bytes": None, "reason": reason})
        return seen
    seen["source_path"] = record.escape_text(plan.source_path or "")
    seen.update({"source_sha256": digest.sha256_hex(raw), "source_size_bytes": len(raw), "reason": None})
    return seen
