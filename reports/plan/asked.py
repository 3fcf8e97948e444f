"""What a plan is asked: PLAN.toml, `--set key=value` and the flags of a plan in one line, read and held against sense.

docs/plan.md describes the keys. Whatever is wrong is one line that says where (the file's line, or the flag), which
value and how to mend it. Nothing here looks at a record.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from proofcost.harness import described
from proofcost.harness.described import DescriptionError, Table, shown
from proofcost.harness.quantity import BYTE_UNITS, TIME_UNITS
from proofcost.harness.toml_lines import Path, lines_of
from proofcost.reports.plan import amounts
from proofcost.reports.plan.amounts import Price, Size, TimeRule
from proofcost.reports.statistics.fleet import Discipline
from proofcost.reports.statistics.fleet_size import REPLICATIONS

T = TypeVar("T")

DEFAULT_TARGET = 0.01
"""Share of kills and of time-outs, where none is said."""
REPLICATIONS_MAX = 10_000
LARGEST_BYTES = 1 << 50
"""No host has a PiB of memory, nor a sandbox."""
LONGEST_NS = 90 * 86400 * 10**9


@dataclass(frozen=True, slots=True)
class Limits:
    """What limits have to promise."""

    oom: float = DEFAULT_TARGET
    timeouts: float = DEFAULT_TARGET
    disk: float = DEFAULT_TARGET
    confidence: float = 0.95
    by: tuple[str, ...] = ()
    """Columns, labels, covariates that make a class of submission."""
    rule: TimeRule | None = None
    """The rule of thumb that is in force."""
    ladder: int = 0
    """Most rungs of a retry ladder; 0: none asked for."""
    tail: bool = False


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What is given to one, where that is settled; None: to be recommended."""

    cores: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    time_ns: int | None = None
    boot_ns: int | None = None
    library_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    cores: float
    memory_bytes: int
    disk_bytes: int | None = None
    price: Price | None = None
    reserve_bytes: int = 0
    disk_per_s: int | None = None
    network_per_s: int | None = None
    efficiency: float = 0.9
    """Least throughput of a sandbox, as a share of one alone."""
    risk: float | None = None
    """Overcommit memory, with this chance that the host's does not suffice; None: the limits must fit."""
    host_class: str | None = None
    """As records name it: only those count."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the fleet has to do: verdicts at a rate, or a batch by a deadline. Exactly one of the four is set."""

    rate_per_s: float | None = None
    per_hour: tuple[float, ...] | None = None
    trace: bool = False
    batch: int | None = None
    deadline_s: float | None = None
    quantile: float = 0.95
    wait_s: float = 600.0
    hosts: int | None = None
    """That there are already."""
    hosts_most: int = 1000
    discipline: Discipline = Discipline.FIRST_COME
    replications: int = REPLICATIONS


@dataclass(frozen=True, slots=True)
class Alternative:
    """One line of the what-if table: what differs from the plan."""

    name: str
    size: Size | None = None
    price: Price | None = None
    host_class: str | None = None
    speed: float | None = None
    """Of that host to the plan's, where somebody knows it: 1.2 does the same work in 1/1.2 of the time."""
    load: float | None = None
    down: int | None = None
    memory_bytes: int | None = None
    time_ns: int | None = None
    oom: float | None = None
    timeouts: float | None = None
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A whole plan."""

    name: str = "plan"
    data: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    since: str | None = None
    pool: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    seed: int = 1
    limits: Limits = field(default_factory=Limits)
    sandbox: Sandbox = field(default_factory=Sandbox)
    host: Host | None = None
    load: Load | None = None
    alternatives: tuple[Alternative, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)
    """Where what was given, for errors that only the records bring out: {`fleet.rate`: `--rate`}."""


def read(path: str | None, given: Sequence[tuple[str, str, str]] = ()) -> Asked:
    """The plan of a file (none: an empty one), with what was given beside it: (how it was given, key, value).

    A key is dotted (`limits.oom`); a value is TOML where it can be read so, else a string. Raises DescriptionError.
    """
    top = described.read(path) if path is not None else described.read("plan", "")
    lines: dict[Path, int | str] = dict(lines_of(_text(path)))
    for how, key, value in given:
        _put(top.data, lines, how, key, value)
    return _asked(Table(path or "plan", lines, top.data, ()), {key: how for how, key, _ in given})


def _text(path: str | None) -> str:
    if path is None:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def _put(data: dict[str, Any], lines: dict[Path, int | str], how: str, key: str, value: str) -> None:
    parts = key.split(".")
    if not all(parts):
        raise DescriptionError(f"{how}: {shown(key)} is no key; write for example --set limits.oom=1%")
    at = data
    for done, part in enumerate(parts[:-1]):
        at = at.setdefault(part, {})
        lines.setdefault(tuple(parts[: done + 1]), how)
        if not isinstance(at, dict):
            raise DescriptionError(f"{how}: {'.'.join(parts[: done + 1])} is no table, so nothing can stand in it")
    lines[tuple(parts)] = how
    at[parts[-1]] = _value(value)


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return found if isinstance(found, str | int | float | bool | list) else text


def _asked(top: Table, said: dict[str, str]) -> Asked:
    host = _host(top.table("host"))
    sandbox = _sandbox(top.table("sandbox"))
    limits = _limits(top.table("limits"))
    load = _load(top.table("fleet"))
    alternatives = tuple(_alternative(one) for one in top.tables("alternative"))
    made = Asked(
        name=top.text("name", "a name for the plan", "plan"),
        data=top.texts("data", "paths of records"),
        where=top.texts("where", "conditions on records, as --where takes them"),
        since=top.text("since", "a date as 2026-11-01 or a span as 30d", None),
        pool=top.texts("pool", "names of columns"),
        kernels=top.texts("kernels", "names of kernels"),
        phases=top.texts("phases", "names of phases"),
        seed=top.integer("seed", 0, (1 << 63) - 1, 1),
        limits=limits,
        sandbox=sandbox,
        host=host,
        load=load,
        alternatives=alternatives,
        said=said,
    )
    _make_sense(top, made)
    top.finish()
    return made


def _limits(table: Table) -> Limits:
    made = Limits(
        oom=_as(table, "oom", amounts.share, "1%") or DEFAULT_TARGET,
        timeouts=_as(table, "timeouts", amounts.share, "1%") or DEFAULT_TARGET,
        disk=_as(table, "disk", amounts.share, "1%") or DEFAULT_TARGET,
        confidence=_as(table, "confidence", amounts.share, "95%") or 0.95,
        by=table.texts("by", "columns, label.KEY or covariate.NAME"),
        rule=_as(table, "rule", amounts.time_rule, "3h + 15m/MB up to 6h"),
        ladder=table.integer("ladder", 2, 10, 0),
        tail=table.flag("tail", "whether a tail is drawn beyond the data", False),
    )
    for key in ("oom", "timeouts", "disk"):
        if getattr(made, key) > 0.5:
            table.fail(key, f"{getattr(made, key):.0%} of all runs may fail? give the share that may fail: 1%")
    if made.confidence < 0.5:
        table.fail("confidence", f"{made.confidence:g} is less than a toss of a coin; write for example 95%")
    table.finish()
    return made


def _sandbox(table: Table) -> Sandbox:
    size = _as(table, "size", amounts.size, "4c/8G/10G") or Size()
    _once(table, ("cores", "memory", "disk"), "size")
    made = Sandbox(
        cores=size.cores if "size" in table else _number(table, "cores", 100_000, 4),
        memory_bytes=size.memory_bytes if "size" in table else _bytes(table, "memory", "8G"),
        disk_bytes=size.disk_bytes if "size" in table else _bytes(table, "disk", "10G"),
        time_ns=_time(table, "time", "6h"),
        boot_ns=_time(table, "boot", "2s"),
        library_ns=_time(table, "library", "5s"),
    )
    table.finish()
    return made


def _host(table: Table) -> Host | None:
    if not table.data:
        return None
    size = _as(table, "size", amounts.size, "64c/256G")
    _once(table, ("cores", "memory", "disk"), "size")
    if size is None:
        cores, memory = _number(table, "cores", 100_000, 64), _bytes(table, "memory", "256G")
        size = Size(cores, memory, _bytes(table, "disk", "1T"))
    made = Host(
        name=table.text("name", "a name", None) or f"{size.cores or 0:g} cores",
        cores=size.cores or 0,
        memory_bytes=size.memory_bytes or 0,
        disk_bytes=size.disk_bytes,
        price=_as(table, "price", amounts.price, "2.50/h"),
        reserve_bytes=_bytes(table, "reserve", "8G") or 0,
        disk_per_s=_per_s(table, "disk_rate"),
        network_per_s=_per_s(table, "network_rate"),
        efficiency=_as(table, "efficiency", amounts.share, "90%") or 0.9,
        risk=_as(table, "overcommit", amounts.share, "0.1%"),
        host_class=table.text("class", "a host class as records name it", None),
    )
    table.finish()
    if size.cores is None or size.memory_bytes is None:
        table.fail(None, "a host has cores and memory; write for example size = '64c/256G'")
    if made.reserve_bytes >= made.memory_bytes:
        table.fail("reserve", "leaves nothing of the host's memory for sandboxes")
    if made.memory_bytes > LARGEST_BYTES:
        table.fail("size" if "size" in table else "memory", "no host has so much memory; look at its unit")
    return made


def _load(table: Table) -> Load | None:
    if not table.data:
        return None
    rate = _as(table, "rate", amounts.rate_per_s, "400/h")
    batch = table.integer("batch", 1, 10_000_000, None)
    profile = _profile(table)
    trace = table.flag("trace", "whether jobs arrive as they did in the records", False)
    kinds = [
        name for name, there in (("rate", rate), ("profile", profile), ("trace", trace), ("batch", batch)) if there
    ]
    if len(kinds) > 1:
        table.fail(kinds[1], f"contradicts {kinds[0]}: give one of rate, profile, trace and batch")
    deadline = _time(table, "deadline", "8h")
    wait = _as(table, "wait", amounts.wait, "p95=10m")
    if wait is not None and batch is not None:
        table.fail("wait", "goes with a rate; a batch has its deadline")
    hosts_most = table.integer("hosts_most", 1, 100_000, 1000)
    made = Load(
        rate_per_s=rate,
        per_hour=profile,
        trace=trace,
        batch=batch,
        deadline_s=None if deadline is None else deadline / 1e9,
        quantile=wait[0] if wait else 0.95,
        wait_s=wait[1] if wait else 600.0,
        hosts=table.integer("hosts", 1, 100_000, None),
        hosts_most=hosts_most,
        discipline=Discipline.BACKFILL
        if table.choice("order", ("first-come", "backfill"), "first-come") == "backfill"
        else Discipline.FIRST_COME,
        replications=table.integer("replications", REPLICATIONS, REPLICATIONS_MAX, REPLICATIONS),
    )
    if made.hosts is not None and made.hosts > hosts_most:
        table.fail("hosts", f"{made.hosts} contradicts hosts_most, {hosts_most}")
    table.finish()
    # Only now: a key that is misspelt is what is wrong, not the one that it should have been.
    if not kinds:
        table.fail(None, "no load: give one of rate, profile, trace and batch")
    if batch is None and deadline is not None:
        table.fail("deadline", "of which batch? write for example batch = 2000")
    if batch is not None and deadline is None:
        table.fail("batch", "by when? write for example deadline = '8h'")
    return made


def _profile(table: Table) -> tuple[float, ...] | None:
    if "profile" not in table:
        return None
    value = table.data["profile"]
    good = isinstance(value, list) and all(isinstance(x, int | float) and not isinstance(x, bool) for x in value)
    if not good or len(value) != 24:
        table.fail("profile", f"{shown(value)}: 24 numbers belong here, verdicts an hour from midnight (UTC) on")
    for at, x in enumerate(value):
        if not 0 <= x < 1e9:
            table.fail("profile", f"{x:g} verdicts an hour: a number from 0 on belongs here", at)
    if not any(value):
        table.fail("profile", "nothing ever arrives: give at least one number above 0")
    return tuple(float(x) for x in value)


def _alternative(table: Table) -> Alternative:
    made = Alternative(
        name=table.text("name", "what it is called in the table"),
        size=_as(table, "size", amounts.size, "32c/128G"),
        price=_as(table, "price", amounts.price, "1.20/h"),
        host_class=table.text("class", "a host class as records name it", None),
        speed=_number(table, "speed", 1000, 1.2),
        load=_number(table, "load", 1000, 2),
        down=table.integer("down", 1, 100_000, None),
        memory_bytes=_bytes(table, "memory", "16G"),
        time_ns=_time(table, "time", "3h"),
        oom=_as(table, "oom", amounts.share, "0.1%"),
        timeouts=_as(table, "timeouts", amounts.share, "5%"),
        kernels=table.texts("kernels", "names of kernels"),
    )
    if made.speed is not None and made.host_class is not None:
        table.fail("speed", "contradicts class: with a class the records tell how fast it is")
    for fixed, target in (("memory", "oom"), ("time", "timeouts")):
        if fixed in table and target in table:
            table.fail(target, f"contradicts {fixed}: a limit is given, or follows from a target")
    table.finish()
    return made


def _make_sense(top: Table, asked: Asked) -> None:
    """What is contradictory or absurd before any record is looked at."""
    sandbox, host, load = asked.sandbox, asked.host, asked.load
    table = top.table("sandbox")
    size = "size" if "size" in table.data else None
    if asked.sandbox.memory_bytes is not None and asked.sandbox.memory_bytes > LARGEST_BYTES:
        table.fail(size or "memory", "no sandbox has so much memory; look at its unit")
    if sandbox.time_ns is not None and sandbox.time_ns > LONGEST_NS:
        table.fail("time", "a time limit of more than 90 days is none; look at its unit")
    if asked.limits.rule is not None and sandbox.time_ns is not None:
        top.table("limits").fail("rule", "contradicts sandbox.time: a limit is fixed, or follows a rule")
    if asked.limits.ladder and sandbox.memory_bytes is not None:
        top.table("limits").fail("ladder", "contradicts sandbox.memory: a ladder has several limits")
    if host is not None:
        for what, has, needs in (
            ("cores", host.cores, sandbox.cores),
            ("memory", host.memory_bytes - host.reserve_bytes, sandbox.memory_bytes),
            ("disk", host.disk_bytes, sandbox.disk_bytes),
        ):
            if has is not None and needs is not None and needs > has:
                table.fail(size or what, f"one sandbox needs more {what} than a whole host has")
    if load is not None and host is None:
        top.table("fleet").fail(None, "hosts of what size? write for example [host] size = '64c/256G', or --host")
    if load is not None and load.deadline_s is not None and sandbox.time_ns is not None:
        allowed = sandbox.time_ns / 1e9
        if allowed > load.deadline_s:
            top.table("fleet").fail(
                "deadline", f"contradicts sandbox.time: one verdict alone may take {allowed:g} s, longer than that"
            )
    if asked.alternatives and load is None:
        top.fail("alternative", "alternatives need a [fleet] to be held against", 0)


def _as(table: Table, key: str, parse: Callable[[str], T], example: str) -> T | None:
    """What `parse` makes of a string (or a plain number); None where there is none."""
    if key not in table:
        return None
    value = table.data[key]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        table.fail(key, f"{shown(value)}: write for example {key} = '{example}'")
    try:
        return parse(str(value))
    except ValueError as error:
        table.fail(key, f"{shown(value)}: {error}")


def _bytes(table: Table, key: str, example: str) -> int | None:
    return _positive(table, key, BYTE_UNITS, example)


def _time(table: Table, key: str, example: str) -> int | None:
    return _positive(table, key, TIME_UNITS, example)


def _positive(table: Table, key: str, units: dict[str, int], example: str) -> int | None:
    if isinstance(table.data.get(key), int | float) and not isinstance(table.data[key], bool):
        table.fail(key, f"{shown(table.data[key])} of what? write for example {key} = '{example}'")
    return table.quantity(key, units, example)


def _per_s(table: Table, key: str) -> int | None:
    """`500M/s`."""
    if key in table and isinstance(table.data[key], str):
        table.data[key] = table.data[key].removesuffix("/s")
    return _bytes(table, key, "500M/s")


def _number(table: Table, key: str, most: float, example: float) -> float | None:
    if key not in table:
        return None
    value = table.data[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        table.fail(key, f"{shown(value)}: a number above 0 and up to {most:g} belongs here, for example {example:g}")
    return float(value)


def _once(table: Table, single: Sequence[str], together: str) -> None:
    for key in single:
        if key in table and together in table:
            table.fail(key, f"contradicts {together}, which says it as well; give one of them")
