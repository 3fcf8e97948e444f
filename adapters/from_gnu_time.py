"""The report of GNU `time -v`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from proofcost.adapters.foreign import FormatError, Head, Source, count, ns, put, scaled, text, weaken
from proofcost.harness.columns import Row

HELP = "GNU time -v"
MAPS = (
    ("Command being timed", "kernel", "the command line"),
    ("Elapsed (wall clock) time", "wall_command", "h:mm:ss or m:ss.cc to ns; hundredths"),
    ("User time, System time", "cpu_waited_user, cpu_waited_system, cpu_waited", "s to ns; hundredths"),
    ("Maximum resident set size", "memory_peak_process", "KiB to bytes"),
    ("Major page faults", "page_faults_major", "as it is"),
    ("context switches", "context_switches", "voluntary and involuntary together"),
    ("Exit status", "exit_code, outcome, signal", "as it is; terminated by signal N: signaled"),
)
UNKNOWN = ("when and where it ran", "what was not waited for (a tree's peak, daemons)")
DEFECTS = (
    "Times have hundredths of a second: one of 0.00 is under 5 ms and taken as missing.",
    "The peak is of the largest process that was waited for, and starts at the size of its parent: around a sandbox "
    "that keeps a monitor (bwrap) it misses the program. Kept as a lower bound.",
)
_LINE = re.compile(r"\s*(.+?): (.*)")
_START = b"Command being timed:"


def fits(head: Head) -> bool:
    return _START in head.raw and b"Maximum resident set size" in head.raw


def rows(source: Source) -> Iterator[Row]:
    report: dict[str, str] = {}
    signal: int | None = None
    for number, raw in source.lines():
        line = raw.decode("utf-8", "replace")
        killed = re.fullmatch(r"Command (?:terminated|stopped) by signal (\d+)", line.strip())
        if killed is not None:
            signal = count(killed[1])
            continue
        match = _LINE.fullmatch(line.replace("(h:mm:ss or m:ss)", ""))
        if match is None:
            continue
        if match[1] == "Command being timed":
            if report:
                raise FormatError(f"line {number}: a second report before the first has its exit status")
        elif not report:
            continue  # the command's own output
        report[match[1].strip()] = match[2]
        if match[1] == "Exit status":
            yield _row(report, signal)
            report, signal = {}, None
    if report:
        raise FormatError("a report without its exit status; is it cut short?")


def _row(report: dict[str, str], signal: int | None) -> Row:
    row: Row = {"kernel": text(report["Command being timed"].strip('"')), "phase": "checker"}
    code = count(report.get("Exit status"))
    row["outcome"], row["exit_code"], row["signal"] = (
        ("signaled", None, signal) if signal is not None else ("exited", code, None)
    )
    put(row, "wall_command", _positive(_elapsed(report.get("Elapsed (wall clock) time", ""))), "under 5 ms")
    user, system = ns(report.get("User time (seconds)")), ns(report.get("System time (seconds)"))
    put(row, "cpu_waited_user", _positive(user), "under 5 ms")
    put(row, "cpu_waited_system", _positive(system), "under 5 ms")
    both = None if user is None or system is None else user + system
    put(row, "cpu_waited", _positive(both), "under 5 ms")
    peak = scaled(report.get("Maximum resident set size (kbytes)"), 1024)
    put(row, "memory_peak_process", peak or None, "not in the report")
    weaken(row, "memory_peak_process", "lower_bound", "ru_maxrss of what was waited for")
    put(row, "page_faults_major", count(report.get("Major (requiring I/O) page faults")), "not in the report")
    switches = [count(report.get(f"{kind} context switches")) for kind in ("Voluntary", "Involuntary")]
    known = [one for one in switches if one is not None]
    put(row, "context_switches", sum(known) if len(known) == 2 else None, "not in the report")
    return row


def _positive(value: int | None) -> int | None:
    return value or None


def _elapsed(said: str) -> int | None:
    parts = said.strip().split(":")
    if not 2 <= len(parts) <= 3 or not all(re.fullmatch(r"\d+(\.\d+)?", part) for part in parts):
        return None
    total = 0
    for part in parts[:-1]:
        total = total * 60 + int(part)
    last = ns(parts[-1])
    return None if last is None else total * 60 * 10**9 + last
