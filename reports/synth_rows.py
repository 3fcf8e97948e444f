"""Turns and what they came to -> rows of records, as a bench's are, without a Python object for any of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from proofcost.reports import parquet
from proofcost.reports import synth_truth as true
from proofcost.reports.statistics.sample import Ints
from proofcost.reports.synth_runs import DECLINED, ENDS, Runs
from proofcost.reports.synth_truth import Truth, digest
from proofcost.reports.synth_turns import Turns

SOURCE = "synth"
"""Not the journal: nobody shall take these for what a meter measured."""
_OUTCOMES = ["exited", "signaled", "timed_out"]
_CAUSES = ["completed", "time_limit", "memory_limit", "crashed"]
# By the place of an end in ENDS: accepted, rejected, declined, time_limit, memory_limit, crashed.
_OUTCOME_OF = np.array([0, 0, 0, 2, 1, 1])
_CAUSE_OF = np.array([0, 0, 0, 1, 2, 3])
_CODE_OF = np.array([0, 1, 2, 0, 0, 0])
_SIGNAL_OF = np.array([0, 0, 0, 9, 9, 11])
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_ID_BYTES = 16 + 1 + 6 + 1 + 8
"""Of `<start, hexadecimal>-<pid>-<random>`, as a meter's ids are."""
_PIDS_FROM = 100_000


def schema() -> pa.Schema:
    """`parquet.SCHEMA` with texts as dictionaries; in the file they are the same."""
    coded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            pa.field(field.name, coded if field.type == pa.string() and field.name in _CODED else field.type)
            for field in parquet.SCHEMA
        ]
    )


def table_of(truth: Truth, day: int, host: int, turns: Turns, runs: Runs, random: np.random.Generator) -> pa.Table:
    """The rows of a host's turns on a day."""
    fleet, n = truth.fleet, turns.count
    seed, shard = fleet.seed, turns.shard.tolist()
    named = [submission_name(one) for one in shard]
    by_itself = runs.end <= DECLINED
    columns: dict[str, Any] = {
        "record": _ids(turns.started_ns, _PIDS_FROM + day * fleet.hosts + host, random),
        "session": _one(n, digest(seed, "session", day, host)[:16]),
        "source": _one(n, SOURCE),
        "source_name": _one(n, "fleet"),
        "host": _one(n, host_name(seed, host)),
        "host_class": _one(n, class_names(seed, fleet.classes)[truth.class_of[host]]),
        "boot": _one(n, boot_name(seed, host)),
        "entrance": _one(n, "bench"),
        "trust": _one(n, "user"),
        "phase": _one(n, "checker"),
        "kernel": _coded(turns.kernel, [kernel_name(at) for at in range(fleet.kernels)]),
        "kernel_sha256": _coded(turns.kernel, [truth.binary(at, day) for at in range(fleet.kernels)]),
        "config_sha256": _one(n, digest(seed, "settings")),
        "sandbox": _one(n, "landrun"),
        "suite": _one(n, "fleet"),
        "plan": _one(n, digest(seed, "plan", day)),
        "subject": _coded(turns.place_in_shard, named),
        "workload": _coded(turns.place_in_shard, named),
        "counters": _one(n, "perf"),
        "input_sha256": _coded(turns.place_in_shard, [digest(seed, "submission", one) for one in shard]),
        "expected": _coded(truth.to_reject[turns.submission], ["accepted", "rejected"]),
        "verdict": _coded(np.minimum(runs.end, DECLINED), list(ENDS[: DECLINED + 1]), by_itself),
        "outcome": _coded(_OUTCOME_OF[runs.end], _OUTCOMES),
        "cause": _coded(_CAUSE_OF[runs.end], _CAUSES),
        "sandbox_enforced": pa.array(np.ones(n, np.bool_)),
        "started_ns": pa.array(turns.started_ns),
        "block": pa.array(turns.block),
        "place": pa.array(turns.place),
        "exit_code": pa.array(_CODE_OF[runs.end], mask=~by_itself),
        "signal": pa.array(_SIGNAL_OF[runs.end], mask=by_itself),
        "memory_limit_bytes": _same(n, true.MEMORY_LIMIT_BYTES),
        "time_limit_ns": _same(n, true.TIME_LIMIT_NS),
        "input_bytes": pa.array((truth.base_s[turns.submission] * 3e5).astype(np.int64)),
        "wall_program": pa.array(runs.wall_command_ns - runs.startup_ns),
        "wall_command": pa.array(runs.wall_command_ns),
        "sandbox_startup": pa.array(runs.startup_ns),
        "cpu_tree": pa.array(runs.cpu_ns),
        "instructions_u": pa.array(runs.instructions),
        "memory_peak_tree": pa.array(runs.memory_bytes),
        **{name: _same(n, 1) for name in ("metric_definitions", "threads", "build", "iteration")},
        **{name: _same(n, 0) for name in ("stragglers", "beside", "faults", "io_read_bytes_tree")},
    }
    whole = schema()
    return pa.Table.from_arrays([columns.get(of.name, pa.nulls(n, of.type)) for of in whole], schema=whole)


_CODED = (
    *("session", "source", "source_name", "host", "host_class", "boot", "entrance", "trust", "phase", "kernel"),
    *("kernel_sha256", "config_sha256", "sandbox", "suite", "plan", "subject", "workload", "counters", "input_sha256"),
    *("expected", "verdict", "outcome", "cause"),
)


def host_name(seed: int, host: int) -> str:
    return digest(seed, "host", host)[:32]


def boot_name(seed: int, host: int) -> str:
    text = digest(seed, "boot", host)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def class_names(seed: int, classes: int) -> list[str]:
    """The first class is the first by name, too: others are held against that."""
    texts = sorted(digest(seed, "class", at) for at in range(classes))
    return [f"{text[:16]}-{text[16:24]}" for text in texts]


def kernel_name(kernel: int) -> str:
    return f"kernel-{kernel:02}"


def submission_name(submission: int) -> str:
    return f"submission-{submission:05}"


def _one(rows: int, text: str) -> pa.DictionaryArray:
    return _coded(np.zeros(rows, np.int32), [text])


def _same(rows: int, number: int) -> pa.Array:
    return pa.array(np.full(rows, number, np.int64))


def _coded(codes: Any, names: list[str], there: Any = None) -> pa.DictionaryArray:
    indices = pa.array(codes.astype(np.int32), mask=None if there is None else ~there)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _ids(started_ns: Ints, pid: int, random: np.random.Generator) -> pa.Array:
    """A text for each start; no two are alike, since no two starts of a host are."""
    rows = started_ns.size
    texts = np.full((rows, _ID_BYTES), ord("-"), np.uint8)
    texts[:, :16] = _hexadecimal(started_ns.astype(np.uint64), 16)
    texts[:, 17:23] = np.frombuffer(f"{pid:06}".encode(), np.uint8)
    texts[:, 24:] = _hexadecimal(random.integers(0, 1 << 32, rows, np.uint64), 8)
    offsets = np.arange(rows + 1, dtype=np.int32) * _ID_BYTES
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(texts))


def _hexadecimal(numbers: Any, digits: int) -> Any:
    """Shape (n, digits), as ASCII."""
    octets = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - digits // 2 :]
    made = np.empty((numbers.size, digits), np.uint8)
    made[:, 0::2], made[:, 1::2] = _HEX[octets >> 4], _HEX[octets & 15]
    return made
