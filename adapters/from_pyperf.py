"""pyperf's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, count, moment, ns, put, scaled, text
from proofcost.harness.columns import Row

HELP = "pyperf -o FILE.json"
MAPS = (
    ("benchmarks[].metadata.name", "subject", "the run's, the benchmark's or the file's"),
    ("runs[]", "build", "one process: the higher level of replication, from 1"),
    ("runs[].values[]", "wall_command", "each a row; s to ns; per loop"),
    ("runs[].warmups[][1]", "wall_command, warmup", "a row that only warmed up"),
    ("runs[].metadata.mem_max_rss", "memory_peak_process", "bytes, on the run's first row"),
    ("runs[].metadata.date", "started_ns", "as it is"),
    ("metadata.unit", "other_figures", "byte and integer values stand there, not as times"),
    ("metadata.hostname, cpu_model_name", "labels", "as `node` and `cpu`"),
)
UNKNOWN = ("exit status", "CPU")
DEFECTS = (
    "Values are per loop, computed from a whole number of loops: short ones are averages already.",
    "mem_max_rss of 0 is missing.",
)


def fits(head: Head) -> bool:
    return head.opening == "{" and {"benchmarks", "runs"} <= head.keys and "stats" not in head.keys


def rows(source: Source) -> Iterator[Row]:
    common = next(source.items("metadata"), None)
    common = common if isinstance(common, dict) else {}
    for number, benchmark in enumerate(source.items("benchmarks.item")):
        runs = benchmark.get("runs") if isinstance(benchmark, dict) else None
        if not isinstance(runs, list):
            raise FormatError(f"benchmarks[{number}]: no list `runs`")
        own = benchmark.get("metadata")
        about = {**common, **(own if isinstance(own, dict) else {})}
        for at, run in enumerate(runs, 1):
            if not isinstance(run, dict):
                raise FormatError(f"benchmarks[{number}].runs[{at - 1}]: no object")
            yield from _rows(source, run, at, about)


def _rows(source: Source, run: dict[str, Any], number: int, about: dict[str, Any]) -> Iterator[Row]:
    own = run.get("metadata")
    about = {**about, **(own if isinstance(own, dict) else {})}
    unit = about.get("unit", "second")
    labels = {key: str(about[name]) for key, name in (("node", "hostname"), ("cpu", "cpu_model_name")) if name in about}
    row: Row = {"subject": text(about.get("name")) or source.name, "build": number, "labels": labels or None}
    row["started_ns"] = moment(about.get("date"))
    warmups, values = run.get("warmups"), run.get("values")
    made = [(True, one[1]) for one in warmups or () if isinstance(one, list) and len(one) == 2]
    made += [(False, one) for one in values or ()]
    iterations = {True: 0, False: 0}
    for at, (warmup, value) in enumerate(made):
        iterations[warmup] += 1
        one: Row = {**row, "warmup": warmup, "iteration": iterations[warmup]}
        if unit == "second":
            put(one, "wall_command", ns(value), "not a time in the source")
        else:
            number_of = scaled(value, 1)
            one["other_figures"] = None if number_of is None else {str(unit): number_of}
            put(one, "wall_command", None, f"measured in {unit}")
        peak = count(about.get("mem_max_rss"))
        if at == 0 and peak:
            one["memory_peak_process"] = peak
        yield one
