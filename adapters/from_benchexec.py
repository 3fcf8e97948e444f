"""BenchExec's results: `NAME.results.*.xml`, plain or .bz2 or .gz."""

from __future__ import annotations

import bz2
import gzip
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import IO, cast

from proofcost.adapters.foreign import FormatError, Head, Source, count, moment, put, scaled, text
from proofcost.harness.columns import Row

HELP = "BenchExec results XML"
MAPS = (
    ("result/@tool, @version", "kernel, kernel_version", "as they are"),
    ("result/@memlimit, @timelimit", "memory_limit_bytes, time_limit_ns", "with their units"),
    ("run/@name", "subject", "as it is"),
    ("column walltime", "wall_command", "s to ns"),
    ("column cputime", "cpu_tree", "s to ns: of the cgroup"),
    ("column memory", "memory_peak_tree", "bytes: of the cgroup"),
    ("column exitsignal, returnvalue", "signal, exit_code, outcome", "as they are"),
    ("column terminationreason", "cause", "memory: memory_limit; walltime, cputime, cputime-soft: time or cpu limit"),
    ("column status, category", "verdict", "true: accepted, false: rejected, only where the category is no error"),
    ("result/@starttime, run start", "started_ns", "as they are"),
)
UNKNOWN = ("threads", "the sandbox's own cost: runexec's container is outside the figures")
DEFECTS = ("Runs in parallel (result/@... numberOfThreads) may have influenced each other: BenchExec says so itself.",)
_CAUSES = {"memory": "memory_limit", "walltime": "time_limit", "cputime": "cpu_limit", "cputime-soft": "cpu_limit",
           "files-size": "file_size_limit", "killed": "terminated_by_caller"}  # fmt: skip
_QUANTITY = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_SCALES = {"": 1, "s": 1, "ms": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
           "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}  # fmt: skip


def fits(head: Head) -> bool:
    raw = head.raw
    if raw[:3] == b"BZh" or raw[:2] == b"\x1f\x8b":
        return ".results." in head.name and ".xml" in head.name
    return head.opening == "<" and b"<result" in raw and (b"benchmarkname=" in raw or b"benchexec" in raw.lower())


def rows(source: Source) -> Iterator[Row]:
    source.file.seek(0)
    start = source.file.read(3)
    source.file.seek(0)
    if start == b"BZh":
        with bz2.open(source.file) as unpacked:
            yield from _rows(cast(IO[bytes], unpacked))
    elif start[:2] == b"\x1f\x8b":
        with gzip.open(source.file) as unpacked:
            yield from _rows(cast(IO[bytes], unpacked))
    else:
        _refuse_entities(source)
        yield from _rows(source.file)


def _rows(file: IO[bytes]) -> Iterator[Row]:
    result: ElementTree.Element | None = None
    try:
        for event, element in ElementTree.iterparse(file, ("start", "end")):
            if event == "start" and result is None:
                if element.tag != "result":
                    raise FormatError(f"the document is <{element.tag[:40]}>, not <result>")
                result = element
            elif event == "end" and element.tag == "run" and result is not None:
                yield _row(result, element)
                result.remove(element)
    except (ElementTree.ParseError, OSError, EOFError) as error:
        raise FormatError(f"not XML to its end ({str(error)[:100]}); is it cut short?") from None


def _refuse_entities(source: Source) -> None:
    """A document type of one's own can make a small file large; BenchExec's names an outside one and declares none."""
    head = source.file.read(1 << 16)
    source.file.seek(0)
    if b"<!ENTITY" in head:
        raise FormatError("declares entities, which results of BenchExec never do")


def _row(result: ElementTree.Element, run: ElementTree.Element) -> Row:
    columns = {one.get("title"): one.get("value", "") for one in run.findall("column")}
    row: Row = {
        "kernel": text(result.get("tool")),
        "kernel_version": text(result.get("version")),
        "subject": text(run.get("name")),
        "phase": "checker",
        "memory_limit_bytes": _quantity(result.get("memlimit"), 1),
        "time_limit_ns": _quantity(result.get("timelimit"), 10**9),
        "started_ns": moment(columns.get("starttime") or result.get("starttime")),
    }
    put(row, "wall_command", _quantity(columns.get("walltime"), 10**9), "not in the results")
    put(row, "cpu_tree", _quantity(columns.get("cputime"), 10**9), "not in the results")
    put(row, "memory_peak_tree", _quantity(columns.get("memory"), 1), "not in the results")
    reason = columns.get("terminationreason") or ""
    row["signal"], row["exit_code"] = count(columns.get("exitsignal")), count(columns.get("returnvalue"))
    limit = _CAUSES.get(reason)
    is_time = limit in ("time_limit", "cpu_limit")
    row["cause"] = limit or ("completed" if row["exit_code"] is not None else None)
    row["outcome"] = "timed_out" if is_time else "signaled" if row["signal"] else "exited"
    if limit is None and columns.get("category") in ("correct", "wrong", "unknown", "missing"):
        status = (columns.get("status") or "").split("(")[0].strip()
        row["verdict"] = {"true": "accepted", "false": "rejected"}.get(status)
    return row


def _quantity(said: str | None, scale: int) -> int | None:
    match = _QUANTITY.fullmatch(said or "")
    if match is None or match[2] not in _SCALES:
        return None
    if match[2] == "ms":
        return scaled(match[1], scale // 1000)
    return scaled(match[1], scale * _SCALES[match[2]])
