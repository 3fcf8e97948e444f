"""pytest-benchmark's JSON (`--benchmark-json`, or a saved run)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, moment, ns, put, text
from proofcost.harness.columns import Row

HELP = "pytest-benchmark --benchmark-json or a saved run"
MAPS = (
    ("benchmarks[].fullname, name", "subject", "the full name"),
    ("benchmarks[].extra_info.kernel, workload", "kernel, workload", "where there are such; else --kernel, --subject"),
    ("benchmarks[].stats.data[]", "wall_command", "each value a row; s to ns"),
    ("position in data[]", "iteration", "from 1"),
    ("benchmarks[].group, param", "labels", "as `group` and `param`"),
    ("commit_info.id", "labels", "as `commit`"),
    ("machine_info", "labels", "processor and node, as `cpu` and `node`"),
    ("datetime", "started_ns", "of the whole run"),
)
UNKNOWN = ("memory", "CPU", "exit status")
DEFECTS = ("A run that was saved without its data has a mean and no samples: the row says so and has no value.",)


def fits(head: Head) -> bool:
    return head.opening == "{" and "machine_info" in head.keys and ({"benchmarks", "commit_info"} & head.keys != set())


def rows(source: Source) -> Iterator[Row]:
    about = {}
    for place in ("machine_info", "commit_info", "datetime"):
        about[place] = next(source.items(place), None)
    labels = _labels(about)
    started = moment(about["datetime"])
    for number, one in enumerate(source.items("benchmarks.item")):
        stats = one.get("stats") if isinstance(one, dict) else None
        if not isinstance(stats, dict):
            raise FormatError(f"benchmarks[{number}]: no `stats`")
        own = {key: str(one[key]) for key in ("group", "param") if one.get(key)}
        row: Row = {"subject": text(one.get("fullname") or one.get("name")), "started_ns": started}
        row["labels"] = {**labels, **own} or None
        extra = one.get("extra_info")
        for key in ("kernel", "workload"):
            if isinstance(extra, dict) and text(extra.get(key)):
                row[key] = text(extra[key])
        data = stats.get("data")
        if not isinstance(data, list) or not data:
            put(row, "wall_command", None, "only statistics were saved; save with --benchmark-save-data")
            source.say("without data: only statistics were saved, which are no samples")
            yield row
            continue
        for at, value in enumerate(data, 1):
            made = {**row, "iteration": at}
            put(made, "wall_command", ns(value), "not a time in the source")
            yield made


def _labels(about: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = {}
    commit, machine = about["commit_info"], about["machine_info"]
    if isinstance(commit, dict) and text(commit.get("id")):
        labels["commit"] = str(commit["id"])
    if isinstance(machine, dict):
        cpu = machine.get("cpu")
        brand = cpu.get("brand_raw") if isinstance(cpu, dict) else machine.get("processor")
        labels.update({key: str(value) for key, value in (("cpu", brand), ("node", machine.get("node"))) if value})
    return labels
