"""The truth of an invented fleet as a file beside its records, for whoever holds a report against it.

It is no Parquet file and lies outside `parquet/`: reports do not read it and `store push` does not send it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from proofcost.harness.whole_file import whole_file
from proofcost.reports import parquet
from proofcost.reports import synth_truth as true
from proofcost.reports.statistics.sample import Ints
from proofcost.reports.synth_fleet import Fleet
from proofcost.reports.synth_rows import class_names, host_name, kernel_name, submission_name
from proofcost.reports.synth_runs import ENDS
from proofcost.reports.synth_truth import Truth

NAME = "fleet.truth.json"
VERSION = 1
"""Of what is drawn: grows when the same arguments give other records, which then do not go on from older ones."""


def as_json(truth: Truth, ends: Ints | None) -> dict[str, Any]:
    """`ends`: how many runs ended how, shape (kernels, ends); None while records are being made."""
    fleet, days = truth.fleet, (0, truth.fleet.days - 1)
    classes = class_names(fleet.seed, fleet.classes)
    costs = truth.class_costs().tolist()
    return {
        "fleet": VERSION,
        "asked": asdict(fleet),
        "complete": ends is not None,
        "classes": [
            {"host_class": name, "factor": factor, "cost_to_first": cost}
            for name, factor, cost in zip(classes, truth.class_factors.tolist(), costs, strict=True)
        ],
        "hosts": [
            {
                "host": host_name(fleet.seed, at),
                "host_class": classes[truth.class_of[at]],
                "factor": float(truth.host_factors[at]),
                "last_day_to_first": float(truth.drifts[at]),
            }
            for at in range(fleet.hosts)
        ],
        "kernels": [
            {
                "kernel": kernel_name(at),
                "factor": float(truth.kernel_factors[at]),
                "memory_factor": float(truth.memory_factors[at]),
                "kernel_sha256": list(dict.fromkeys(truth.binary(at, day) for day in days)),
                "ends": None if ends is None else _counts(ends[at]),
            }
            for at in range(fleet.kernels)
        ],
        "ends": None if ends is None else _counts(ends.sum(axis=0)),
        "step": {
            "kernel": kernel_name(truth.stepping),
            "first_day": truth.date(truth.step_day).isoformat(),
            "ratio": true.STEP,
        },
        "declines": {"kernel": kernel_name(truth.declining), "submissions": _names(truth.to_decline)},
        "crashes": {
            "kernel": kernel_name(truth.crashing),
            "submissions": _names(truth.to_crash),
            "share_of_runs": true.CRASHES,
        },
        "to_be_rejected": _names(truth.to_reject),
        "noise": {
            "wall": true.WALL_NOISE, "cpu": true.CPU_NOISE, "instructions": true.COUNT_NOISE,
            "memory": true.MEMORY_NOISE,
        },
        "limits": {"time_limit_ns": true.TIME_LIMIT_NS, "memory_limit_bytes": true.MEMORY_LIMIT_BYTES},
        "days": [truth.date(day).isoformat() for day in days],
    }  # fmt: skip


def _counts(ends: Ints) -> dict[str, int]:
    return dict(zip(ENDS, ends.tolist(), strict=True))


def _names(chosen: np.ndarray) -> list[str]:
    return [submission_name(at) for at in np.flatnonzero(chosen).tolist()]


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all. Raises OSError."""
    with whole_file(folder / NAME) as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        file.flush()
        os.fsync(file.fileno())
    parquet.sync_folder(folder)


def asked_before(folder: Path) -> Fleet | None:
    """What the fleet in a folder was made of; None where there is none, or of another version. Raises OSError."""
    try:
        content = orjson.loads((folder / NAME).read_bytes())
        return Fleet(**content["asked"]) if content["fleet"] == VERSION else None
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):  # FleetError is none: such numbers were never asked for
        return None
